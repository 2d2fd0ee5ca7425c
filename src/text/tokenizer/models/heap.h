/// What the merging models share: the queue of candidate pairs.
#ifndef CRN_TEXT_TOKENIZER_MODELS_HEAP_H
#define CRN_TEXT_TOKENIZER_MODELS_HEAP_H

#include "text/tokenizer/internal.h"

/// Candidates come out by score (highest first), then rank (lowest first), then position (leftmost first).
cairn_status crn_heap_push(crn_run *run, crn_candidate candidate);
/// Returns false when the queue is empty.
bool crn_heap_pop(crn_run *run, crn_candidate *out_candidate);

#endif
