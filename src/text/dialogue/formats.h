/// The markers of each format, and how a format is recognised.
#ifndef CRN_TEXT_DIALOGUE_FORMATS_H
#define CRN_TEXT_DIALOGUE_FORMATS_H

#include "base/vec.h"
#include "cairn/dialogue.h"

/// The forms of tool calls, each with a machine of its own.
typedef enum crn_call_kind {
  CRN_CALL_TAGGED,        ///< JSON up to an end tag, or tags
  CRN_CALL_XML,           ///< tags alone; the start marker begins the first of them
  CRN_CALL_PYTHON_TAG,    ///< Llama: JSON or name.call(…)
  CRN_CALL_BARE,          ///< Llama: a message that is an object
  CRN_CALL_BARE_LIST,     ///< Llama: a message that is a list of Python calls
  CRN_CALL_PYTHON_BLOCK,  ///< Gemma: Python calls up to three backticks
  CRN_CALL_MISTRAL,
  CRN_CALL_GEMMA,
  CRN_CALL_DEEPSEEK,       ///< from the start of the list
  CRN_CALL_DEEPSEEK_ITEM,  ///< from the start of one
  CRN_CALL_HARMONY         ///< the body of a message to a function
} crn_call_kind;

typedef struct crn_xml_dialect {
  const char *call, *call_rest;            ///< around the name of a tool: "<function=" and ">"
  const char *parameter, *parameter_rest;  ///< around the name of a parameter
  const char *parameter_end, *call_end;
  bool strip_newlines;  ///< one at each end of a value
} crn_xml_dialect;
extern const crn_xml_dialect crn_xml_functions, crn_xml_atem, crn_xml_invoke;

typedef enum crn_marker_action {
  CRN_MARKER_OPEN_REASONING,
  CRN_MARKER_CLOSE_REASONING,
  CRN_MARKER_CALL,
  CRN_MARKER_HEADER,     ///< a channel's header follows; it ends with <|message|>
  CRN_MARKER_RECIPIENT,  ///< a header that starts with the marker follows, if nothing else came before
  CRN_MARKER_REASONING,  ///< reasoning follows
  CRN_MARKER_CONTENT,    ///< content follows
  CRN_MARKER_END         ///< of a message
} crn_marker_action;

typedef struct crn_marker {
  const char *text;
  crn_marker_action action;
  crn_call_kind kind;
  const char *end;             ///< of the form, NULL = none
  const crn_xml_dialect *xml;  ///< tags that may stand in the form
  const char *delimiter;       ///< of strings
  bool only_at_start;          ///< of a message
  bool in_content, in_reasoning;
} crn_marker;
typedef CRN_VEC(crn_marker) crn_marker_vec;

/// Appends the markers of a format's tool calls and channels. `bare` takes those in that are no sure sign of a call.
cairn_status crn_format_markers(const cairn_allocator *a, cairn_dialogue_format format, bool bare, crn_marker_vec *markers);

/// The reasoning tags of the format, else those that the template or the vocabulary shows, `<think>` when there are none.
void crn_format_reasoning(cairn_dialogue_format format, const char *chat_template, size_t n, const cairn_tokenizer *tokenizer,
                          const char **out_open, const char **out_close);

#endif
