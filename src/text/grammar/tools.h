/// Tool calls as a grammar: what may follow where a reply has begun with one, in the syntax of the model's format, with arguments that
/// satisfy the tool's schema.
#ifndef CRN_TEXT_GRAMMAR_TOOLS_H
#define CRN_TEXT_GRAMMAR_TOOLS_H

#include "base/json.h"
#include "text/dialogue/formats.h"
#include "text/grammar/rules.h"

/// Where a call stands that has begun.
typedef struct crn_tool_place {
  cairn_dialogue_format format;
  crn_call_kind kind;
  const char *end;             ///< that closes the form, NULL = nothing does
  const crn_xml_dialect *xml;  ///< of the form, NULL = none
  const char *delimiter;       ///< of strings, "" = none
  const char *tool;            ///< the only one that may be called; its name has been written where the form begins with it. NULL = any
  bool is_named;               ///< the name of `tool` has been written
} crn_tool_place;

/// Whether a form is only known to be one once the name of a tool was read.
bool crn_tool_needs_name(crn_call_kind kind);
/// How a reply of the format begins with a call. NULL = it has no calls. For HARMONY the name and `behind` follow.
const char *crn_tool_opening(cairn_dialogue_format format, crn_tool_place *out_place, const char **out_behind);
/// The name of the tool at `i`, NULL when it has none that can be written.
const char *crn_tool_name(const json_t *tools, size_t i);
/// The object of the tool at `i` that has the name.
const json_t *crn_tool_function(const json_t *tools, size_t i);
/// The schema of its arguments, NULL when it has none.
const json_t *crn_tool_parameters(const json_t *tools, size_t i);
/// Refuses tools without a name that can be written in the format of a place, of those that may be called there.
cairn_status crn_tool_check_names(const json_t *tools, const crn_tool_place *place);

/// Rules for the rest of a call, or, with `opening`, for a reply that begins with one. Rule 0 is the start. Errors: as
/// cairn_grammar_check, naming the tool; INVALID_ARGUMENT (no tool may be called).
void crn_tools_read(crn_rules *r, const json_t *tools, const crn_tool_place *place, bool with_opening);

#endif
