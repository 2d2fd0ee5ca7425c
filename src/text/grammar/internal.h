/// Inside of cairn_grammar.
#ifndef CRN_TEXT_GRAMMAR_INTERNAL_H
#define CRN_TEXT_GRAMMAR_INTERNAL_H

#include "base/str.h"
#include "text/grammar/vocabulary.h"

struct cairn_grammar {
  atomic_int references;
  cairn_context *context;
  crn_vocabulary *vocabulary;
  crn_xg_grammar *xg;              ///< NULL for tool calls
  struct crn_tool_grammar *tools;  ///< of tool calls, else NULL (tool_grammar.h)
};

/// From a grammar as it is written to rules for the library, appended to `out`. Errors: as cairn_grammar_check.
cairn_status crn_grammar_translate(cairn_context *context, const cairn_grammar_source *source, crn_str *out);
/// The status of what the library says. `what` names what was done.
cairn_status crn_xg_status(crn_xg_result result, const crn_xg_error *error, const char *what);

#endif
