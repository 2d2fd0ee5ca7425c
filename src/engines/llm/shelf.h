/// Finished and registered sequences of a model, kept in memory for those that begin with the same tokens.
#ifndef CRN_ENGINES_LLM_SHELF_H
#define CRN_ENGINES_LLM_SHELF_H

#include "base/vec.h"
#include "cairn/llm.h"
#include "engines/llm/history.h"
#include "engines/llm/snapshots.h"
#include "engines/llm/states.h"

/// A sequence without its runner.
typedef struct crn_llm_parked {
  crn_llm_states states;
  crn_history history;
  crn_llm_snapshots snapshots;
  uint64_t used;  ///< when it was last used, by a count
} crn_llm_parked;

/// Guarded by the lock of the model.
typedef struct crn_llm_shelf {
  CRN_VEC(crn_llm_parked) items;
  size_t most_bytes;  ///< 0 = nothing is kept
  uint64_t clock;
} crn_llm_shelf;

/// Parks a copy of the first `n` tokens (with pages nothing is copied), or the sequence itself, whose states are then gone. What was not
/// used for longest makes room. Nothing happens when it is too large, dirty, or is known already.
/// Errors: OUT_OF_MEMORY; nothing has changed then.
cairn_status crn_llm_shelf_put_copy(cairn_llm *llm, int64_t n);
void crn_llm_shelf_put_over(cairn_llm *llm);

/// As crn_prompt_cache_take.
cairn_status crn_llm_shelf_take(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t kept, int64_t *out_kept);

size_t crn_llm_shelf_bytes(const crn_llm_shelf *shelf);
void crn_llm_shelf_free(crn_llm_shelf *shelf, const cairn_allocator *allocator);

#endif
