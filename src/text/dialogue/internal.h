/// Inside of cairn_dialogue.
///
/// Everything is a machine that takes one byte at a time, so that the places where a stream is cut cannot matter. Outside of
/// tool calls the byte goes to the markers (dialogue.c); inside of one to the machine of its form (call.c and the files it
/// names). What a call's machine refuses becomes content: its text is kept until the call is complete.
#ifndef CRN_TEXT_DIALOGUE_INTERNAL_H
#define CRN_TEXT_DIALOGUE_INTERNAL_H

#include "base/arena.h"
#include "base/context.h"
#include "base/json.h"
#include "base/vec.h"
#include "cairn/dialogue.h"
#include "text/dialogue/formats.h"
#include "text/dialogue/literal.h"

typedef enum crn_section { CRN_SECTION_CONTENT, CRN_SECTION_REASONING } crn_section;

/// What a machine says about a byte.
typedef enum crn_step {
  CRN_STEP_MORE,         ///< taken
  CRN_STEP_AGAIN,        ///< not taken: the machine changed its state and wants it again
  CRN_STEP_LEAVE,        ///< taken, and the form is at its end
  CRN_STEP_LEAVE_AGAIN,  ///< not taken: the form ended before it
  CRN_STEP_BAD,          ///< not taken: this is no call, though it began as one
  CRN_STEP_OTHER         ///< not taken: this was never meant to be a call
} crn_step;

/// A section's text and how much of it has been given out.
typedef struct crn_side {
  crn_str text;
  size_t sent;
  bool has_gap;  ///< what comes next is no continuation of it
} crn_side;

/// A call in JSON: {"name":…,"arguments":…}
typedef struct crn_call_object {
  int state, field, nesting;
  bool is_bare;  ///< the object may as well be any other JSON: unknown members end the attempt
  bool is_text;  ///< the value being read is a string
} crn_call_object;

/// The call that is being read, and the state of the form around it.
typedef struct crn_call {
  crn_call_kind kind;
  int state;
  const char *end;    ///< that closes the form, NULL = nothing does
  size_t n_matched;   ///< bytes of a text that is expected
  crn_str raw;        ///< everything since the form or the last complete call began
  crn_str text, key;  ///< of names, tags, keys, values
  crn_literal literal;
  crn_call_object object;
  crn_xml_dialect xml;
  bool is_list, is_wrapped;
  bool had_call;  ///< the form has given a call
  // The call itself.
  crn_str id, name, arguments;
  bool has_name, has_arguments;
  bool has_begun;  ///< the event was given
  size_t sent;     ///< bytes of the arguments
} crn_call;

struct cairn_dialogue {
  cairn_context *context;
  crn_arena arena;
  cairn_dialogue_format format;
  cairn_dialogue_fn on_event;
  void *user;
  bool trim;
  size_t max_call_bytes;
  int max_depth, max_calls;
  json_t *tools;  ///< NULL = not told

  crn_marker_vec markers;
  CRN_VEC(const char *) marker_texts;

  bool in_call, in_header;
  bool is_at_start;  ///< of a message: nothing but white space so far
  bool is_over, has_failed;
  crn_section section;
  crn_str held;    ///< may become a marker
  crn_str header;  ///< of a channel, up to its end
  crn_call call;
  bool raw_has_byte;

  crn_side sides[2];
  crn_str blanks;    ///< white space that is left out if a tag or call follows
  bool skip_blanks;  ///< white space that follows a tag or call

  CRN_VEC(cairn_dialogue_call) calls;
  CRN_VEC(const char *) warnings;
  int n_malformed;
};

// --- sink.c: what comes out ------------------------------------------------------------------------------------------

/// Appends to the present section. `exact` text is never trimmed.
cairn_status crn_sink_text(cairn_dialogue *d, const char *text, size_t n, bool exact);
/// Changes the section at a tag. White space around it is left out when trimming.
cairn_status crn_sink_section(cairn_dialogue *d, crn_section section);
/// Gives out what has not been; incomplete characters at the end only when `all`.
void crn_sink_flush(cairn_dialogue *d, bool all);
/// White space at the very end of a section.
cairn_status crn_sink_finish(cairn_dialogue *d);
cairn_status crn_sink_warn(cairn_dialogue *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// --- call.c: one call -------------------------------------------------------------------------------------------------

/// Enters a form whose start marker was read.
cairn_status crn_call_enter(cairn_dialogue *d, const crn_marker *marker);
/// Takes a byte inside of a form. `*out_taken` false: the form has ended, and the byte is text.
cairn_status crn_call_push(cairn_dialogue *d, char byte, bool *out_taken);
/// The text ends inside of a form.
cairn_status crn_call_finish(cairn_dialogue *d);

/// Name and arguments are known to follow: gives the event when there is a name.
void crn_call_begin(cairn_dialogue *d);
/// The call is complete; another one may follow in the same form.
cairn_status crn_call_end(cairn_dialogue *d);
/// The call is none: tells so if it was announced.
void crn_call_forget(cairn_dialogue *d);
/// Matches `text`, of which `n_matched` bytes were seen. MORE, LEAVE at its end, else BAD.
crn_step crn_call_expect(crn_call *c, const char *text, char byte);
/// Feeds a value of the arguments; `*out_done` at its end (the byte may be left for AGAIN).
cairn_status crn_call_value(cairn_dialogue *d, char byte, crn_str *out, crn_step *step, bool *out_done);
/// Whether tools are known and this is none of them.
bool crn_call_is_unknown(const cairn_dialogue *d, const char *name);

// Machines of the forms: each takes a byte and tells in `step` what became of it.
cairn_status crn_call_json_step(cairn_dialogue *d, char byte, crn_step *step);      // call_json.c
cairn_status crn_call_xml_step(cairn_dialogue *d, char byte, crn_step *step);       // call_xml.c
cairn_status crn_call_python_step(cairn_dialogue *d, char byte, crn_step *step);    // call_python.c
cairn_status crn_call_mistral_step(cairn_dialogue *d, char byte, crn_step *step);   // call_named.c
cairn_status crn_call_gemma_step(cairn_dialogue *d, char byte, crn_step *step);     // call_named.c
cairn_status crn_call_deepseek_step(cairn_dialogue *d, char byte, crn_step *step);  // call_deepseek.c
cairn_status crn_call_harmony_step(cairn_dialogue *d, char byte, crn_step *step);   // frames.c
/// A message starts with a brace.
cairn_status crn_call_bare_enter(cairn_dialogue *d);
/// Goes on with a list or an object of JSON, in front of its first byte; nothing closes it.
void crn_call_json_enter(crn_call *c);
/// Starts on the object of a call, in front of its brace.
void crn_call_object_start(crn_call *c, bool is_bare);
/// Feeds it. `*out_done` when the byte was its last brace.
cairn_status crn_call_object_push(cairn_dialogue *d, char byte, crn_step *step, bool *out_done);

// --- frames.c: channels -----------------------------------------------------------------------------------------------

cairn_status crn_frame_marker(cairn_dialogue *d, const crn_marker *marker);
cairn_status crn_frame_push(cairn_dialogue *d, char byte);
cairn_status crn_frame_finish(cairn_dialogue *d);

// --- schema.c ---------------------------------------------------------------------------------------------------------

typedef enum crn_parameter_type { CRN_PARAMETER_UNKNOWN, CRN_PARAMETER_TEXT, CRN_PARAMETER_OTHER } crn_parameter_type;

/// Reads the list of tools. Errors: INVALID_ARGUMENT.
cairn_status crn_schema_load(cairn_dialogue *d, const char *tools, size_t bytes);
bool crn_schema_has(const json_t *tools, const char *name);
crn_parameter_type crn_schema_type(const json_t *tools, const char *name, const char *parameter);

#endif
