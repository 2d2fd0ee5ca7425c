/// What rows of states depend on besides the tokens: two sequences with equal keys have equal rows for equal tokens.
#ifndef CRN_ENGINES_LLM_KEY_H
#define CRN_ENGINES_LLM_KEY_H

#include "engines/llm/internal.h"

/// The key as lines of text; made with the first call, which reads the model's files when their hash is not known yet. Borrowed
/// from the model. Thread: safe. Errors: UNSUPPORTED (a model of no file), IO, OUT_OF_MEMORY.
cairn_status crn_llm_key(const cairn_llm *llm, const crn_str **out_key);
/// The first line in which another key differs, as "'theirs' there, 'ours' here". The texts are cut when they are long.
void crn_llm_key_difference(const crn_str *own, const char *other, size_t other_bytes, char *out_text, size_t capacity);

#endif
