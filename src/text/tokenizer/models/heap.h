/// What the merging models share: the queue of candidate pairs and the memory of words.
#ifndef CRN_TEXT_TOKENIZER_MODELS_HEAP_H
#define CRN_TEXT_TOKENIZER_MODELS_HEAP_H

#include "text/tokenizer/internal.h"

/// Candidates come out by score (highest first), then rank (lowest first), then position (leftmost first).
cairn_status crn_heap_push(crn_run *run, crn_candidate candidate);
/// Returns false when the queue is empty.
bool crn_heap_pop(crn_run *run, crn_candidate *out_candidate);

/// Appends the ids of a word met before. `*out_hit` false: the word is new.
cairn_status crn_word_cache_get(crn_run *run, const char *text, size_t bytes, bool *out_hit);
/// Remembers that the word just encoded gave the ids from `first` on.
cairn_status crn_word_cache_put(crn_run *run, const char *text, size_t bytes, size_t first);
void crn_word_cache_free(crn_run *run);

#endif
