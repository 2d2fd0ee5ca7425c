/// Grammars of tool calls: free text, in which a parser of dialogues looks for calls, and a grammar of bytes for each call that begins.
#ifndef CRN_TEXT_GRAMMAR_TOOL_GRAMMAR_H
#define CRN_TEXT_GRAMMAR_TOOL_GRAMMAR_H

#include "base/vec.h"
#include "text/grammar/internal.h"

typedef CRN_VEC(int32_t) crn_tool_markers;

/// Reads the tools and writes a grammar of all their calls. Errors: as cairn_grammar_check.
cairn_status crn_tool_grammar_check(cairn_context *context, const cairn_grammar_source *source);
/// Fills in `grammar->tools`. `out_markers` (of the allocator of the context) receives the special tokens that calls are written with.
cairn_status crn_tool_grammar_create(cairn_grammar *grammar, const cairn_tokenizer *tokenizer, const cairn_grammar_source *source,
                                     crn_tool_markers *out_markers);
/// What needs the vocabulary.
cairn_status crn_tool_grammar_prepare(cairn_grammar *grammar);
void crn_tool_grammar_destroy(struct crn_tool_grammar *tools, cairn_context *context);  ///< NULL is allowed

/// Where a reply is. Stop ids are none of its business.
typedef struct crn_tool_matcher crn_tool_matcher;
/// `grammar` and `cancel` are borrowed.
cairn_status crn_tool_matcher_create(cairn_grammar *grammar, const crn_xg_cancel *cancel, crn_tool_matcher **out);
cairn_status crn_tool_matcher_fork(const crn_tool_matcher *from, const crn_xg_cancel *cancel, crn_tool_matcher **out);
void crn_tool_matcher_destroy(crn_tool_matcher *m);
/// Which tokens may follow, as cairn_matcher_mask.
cairn_status crn_tool_matcher_fill(crn_tool_matcher *m, uint32_t *words);
cairn_status crn_tool_matcher_accept(crn_tool_matcher *m, int32_t token, bool *out_accepted);
/// To where `n` tokens had been taken.
cairn_status crn_tool_matcher_go_back(crn_tool_matcher *m, size_t n);
/// Whether the reply may end.
bool crn_tool_matcher_is_complete(const crn_tool_matcher *m);
cairn_status crn_tool_matcher_forced(crn_tool_matcher *m, char *out_bytes, size_t capacity, size_t *out_n);

#endif
