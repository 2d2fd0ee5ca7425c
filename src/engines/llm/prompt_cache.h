/// The prompt cache: rows of states in a folder, found by the tokens they stand for, for any process that opens the same model.
///
/// A block holds the rows of CRN_PROMPT_BLOCK tokens. Its name is a digest of the key of the model (key.h), all tokens before it and its
/// own, so the blocks of a prompt are found one after the other, and prompts that begin alike have blocks in common. A model with
/// states that have no rows needs a copy of these at the end of the last block besides.
#ifndef CRN_ENGINES_LLM_PROMPT_CACHE_H
#define CRN_ENGINES_LLM_PROMPT_CACHE_H

#include "engines/llm/internal.h"

enum { CRN_PROMPT_BLOCK = 64 };

/// Takes rows for the first tokens of `tokens`, of which the sequence holds `kept`; at least one token is left to feed. `*out_kept` tells
/// how many it holds then. Whatever is wrong with the cache only means that less is found.
/// Errors: OUT_OF_MEMORY, CONTEXT_FULL, INTERNAL.
cairn_status crn_prompt_cache_take(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t kept, int64_t *out_kept);
/// Keeps the rows of the sequence that are not kept yet. Best effort: a failure is logged.
void crn_prompt_cache_keep(cairn_llm *llm);

#endif
