/// Replies taken apart for cairn generate and cairn chat: reasoning, tool calls, and the flags about them.
#ifndef CRN_TOOLS_DIALOGUE_H
#define CRN_TOOLS_DIALOGUE_H

#include <jansson.h>

#include "cairn/dialogue.h"
#include "cairn/llm.h"
#include "tools/json_writer.h"
#include "tools/tool.h"

/// Values of the options below.
typedef struct crn_dialogue_values {
  const char *reasoning, *tools, *tool_format, *tool_choice, *template_name;
} crn_dialogue_values;

#define CRN_GROUP_DIALOGUE "Reasoning and tools"
#define CRN_DIALOGUE_AT(type, member) (offsetof(type, dialogue) + offsetof(crn_dialogue_values, member))

/// Rows of an option table for a struct `type` that has a member `dialogue`.
// clang-format off
#define CRN_DIALOGUE_OPTIONS(type, default_text) \
    {.name = "reasoning", .kind = OPTION_TEXT, .offset = CRN_DIALOGUE_AT(type, reasoning), .argument = "HOW", \
     .group = CRN_GROUP_DIALOGUE, .help = "show: what the model thinks is part of the output; hide: it is left out; " \
     "separate: it goes to stderr (default " default_text ")", .choices = "show|hide|separate"}, \
    {.name = "tools", .kind = OPTION_TEXT, .offset = CRN_DIALOGUE_AT(type, tools), .argument = "FILE", .place = PLACE_INPUT, \
     .group = CRN_GROUP_DIALOGUE, .help = "tools the model may call: a JSON array as templates take it, or an object with \"tools\""}, \
    {.name = "tool-format", .kind = OPTION_TEXT, .offset = CRN_DIALOGUE_AT(type, tool_format), .argument = "F", \
     .group = CRN_GROUP_DIALOGUE, .help = "how the model writes tool calls: auto (what its template and vocabulary show; " \
     "the default), none, generic, hermes, qwen-coder, llama3, mistral, gemma, functiongemma, gemma4, deepseek, harmony, agentic"}, \
    {.name = "tool-choice", .kind = OPTION_TEXT, .offset = CRN_DIALOGUE_AT(type, tool_choice), .argument = "WHICH", \
     .group = CRN_GROUP_DIALOGUE, .help = "keep tool calls to the schemas of --tools: auto (the model chooses whether it calls), required " \
     "(it calls one first), none (it calls none), or the name of the tool to call (without: calls are not guided)"}, \
    {.name = "template", .kind = OPTION_TEXT, .offset = CRN_DIALOGUE_AT(type, template_name), .argument = "NAME", \
     .group = CRN_GROUP_DIALOGUE, .help = "which one of several chat templates (without: tool_use when there are tools)"}
// clang-format on

/// Checks --tool-format. TOOL_CONTINUE, or TOOL_USAGE after a message.
int crn_dialogue_check(crn_tool *t, const crn_dialogue_values *v);

/// Reads the file of --tools; `*out_tools` is NULL without one. Errors: as crn_tool_read; CORRUPT naming the expected form.
cairn_status crn_dialogue_read_tools(const crn_dialogue_values *v, json_t **out_tools);

/// One reply on its way to stdout.
typedef struct crn_reply {
  crn_tool *t;
  cairn_dialogue *dialogue;
  bool print;                     ///< to stdout as it comes
  bool hide_reasoning, separate;  ///< else reasoning is shown between tags
  bool is_auto;                   ///< the format was chosen
  bool in_reasoning, has_reasoning;
  cairn_status status;  ///< the first failure of the parser
  char failure[512];
  const char **shown;  ///< special tokens the parser needs
  int n_shown;
  bool printed_content, ends_line;
} crn_reply;

/// Starts on a reply to the prompt of `options`, and makes the special tokens it needs visible in `options`. `how` is the
/// value of --reasoning. Memory is the tool's arena's and the dialogue, which crn_reply_close destroys.
cairn_status crn_reply_open(crn_tool *t, const crn_dialogue_values *v, const char *how, const json_t *tools, const cairn_llm *llm,
                            cairn_generate_options *options, crn_reply *out_reply);
/// Text of the model. False when the parser refused it.
bool crn_reply_push(crn_reply *r, const char *text, size_t bytes);
/// The end of the text; tool calls are printed, one a line.
cairn_status crn_reply_finish(crn_reply *r);
/// What the parser warns of, on stderr, a line each. The line of the reply has to be ended before.
void crn_reply_warn(const crn_reply *r);
void crn_reply_close(crn_reply *r);

/// The members "content", "reasoning", "tool_calls", … of a document, as far as there is something to say.
void crn_reply_write(crn_json_writer *w, const crn_reply *r);
/// {"name":…,"arguments":…} of a call.
cairn_status crn_reply_write_call(crn_str *out, const cairn_dialogue_call *call);

/// The text without the special tokens that were made visible for the parser.
cairn_status crn_reply_plain_text(const crn_reply *r, const cairn_llm *llm, const cairn_generation_info *info,
                                  const cairn_generate_options *options, crn_str *out);

#endif
