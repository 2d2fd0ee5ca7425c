/// Flags that guide a generation by a grammar, of cairn generate and cairn chat.
#ifndef CRN_TOOLS_GUIDE_H
#define CRN_TOOLS_GUIDE_H

#include "cairn/llm.h"
#include "tools/tool.h"

/// Values of the options below.
typedef struct crn_guide_values {
  const char *schema, *grammar, *regex;
  bool any_json, compact;
} crn_guide_values;

#define CRN_GROUP_GUIDE "Guided text (one of the first four)"
#define CRN_GUIDE_AT(type, member) (offsetof(type, guide) + offsetof(crn_guide_values, member))

/// Rows of an option table for a struct `type` that has a member `guide`.
// clang-format off
#define CRN_GUIDE_OPTIONS(type) \
    {.name = "json-schema", .kind = OPTION_TEXT, .offset = CRN_GUIDE_AT(type, schema), .argument = "FILE", .group = CRN_GROUP_GUIDE, \
     .place = PLACE_INPUT, .help = "only documents of a JSON Schema: a file, or the schema itself"}, \
    {.name = "grammar", .kind = OPTION_TEXT, .offset = CRN_GUIDE_AT(type, grammar), .argument = "FILE", .group = CRN_GROUP_GUIDE, \
     .place = PLACE_INPUT, .help = "only texts of a grammar: a file of EBNF rules (GBNF), the first one 'root'"}, \
    {.name = "regex", .kind = OPTION_TEXT, .offset = CRN_GUIDE_AT(type, regex), .argument = "R", .group = CRN_GROUP_GUIDE, \
     .help = "only texts that match a regular expression as a whole"}, \
    {.name = "any-json", .kind = OPTION_FLAG, .offset = CRN_GUIDE_AT(type, any_json), .group = CRN_GROUP_GUIDE, \
     .help = "only JSON"}, \
    {.name = "compact-json", .kind = OPTION_FLAG, .offset = CRN_GUIDE_AT(type, compact), .group = CRN_GROUP_GUIDE, \
     .help = "of the JSON, no white space"}
// clang-format on

/// Checks what was given together, also with --tool-choice and --force (NULL = not given). TOOL_CONTINUE, or TOOL_USAGE after a message.
int crn_guide_check(crn_tool *t, const crn_guide_values *v, const char *tool_choice, const char *force);
/// Reads the grammar, whose text is the tool's arena's, and checks it before a model is opened. Errors: as crn_tool_read and
/// cairn_grammar_check.
cairn_status crn_guide_read(crn_tool *t, const crn_guide_values *v, cairn_grammar_source *out_source);
/// Says on stderr that a guided text is not complete, if so: it is no document.
void crn_guide_report(crn_tool *t, const cairn_generation_info *info);

#endif
