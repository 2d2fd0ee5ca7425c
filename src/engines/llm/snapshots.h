/// Copies of states that cannot be cut back, at points of a sequence. Caches keep their rows, so a copy of the running summaries is all
/// that is needed to go back to where it was made.
#ifndef CRN_ENGINES_LLM_SNAPSHOTS_H
#define CRN_ENGINES_LLM_SNAPSHOTS_H

#include "base/vec.h"
#include "engines/llm/states.h"

typedef struct crn_llm_snapshot {
  int64_t n;                                  ///< tokens of the sequence it stands for
  cairn_ndarray *arrays[CRN_LLM_MAX_STATES];  ///< of the states that need it, else NULL; never written to again
  size_t bytes;
} crn_llm_snapshot;

/// Zero-initialised is empty. Ascending; all stand for prefixes of the tokens of the sequence.
typedef struct crn_llm_snapshots {
  CRN_VEC(crn_llm_snapshot) items;
  size_t bytes;
} crn_llm_snapshots;

/// How many there may be, and where they are made.
typedef struct crn_llm_snapshot_bounds {
  int64_t interval;  ///< one every so many tokens of a prompt
  int64_t align;     ///< the one near the end of a prompt stands at a multiple of this; 0 = anywhere
  size_t most;       ///< 0 = none are made
  size_t most_bytes;
} crn_llm_snapshot_bounds;

/// Whether a state has no rows that could be counted back: it is copied whole wherever a point of the sequence is kept.
bool crn_llm_state_is_whole(const crn_llm_state *state);
/// Whether the contract has such a state.
bool crn_llm_has_whole_states(const crn_llm_contract *contract);

/// Copies the states, which stand for `n` tokens. Nothing happens when there is one of `n` or none may be made. When there are too
/// many, the one that is closest to its neighbours goes. Errors: OUT_OF_MEMORY (nothing changed).
cairn_status crn_llm_snapshots_take(crn_llm_snapshots *s, const crn_llm_states *states, int64_t n, const crn_llm_snapshot_bounds *bounds);
/// The last one of at most `n` tokens; NULL when there is none.
const crn_llm_snapshot *crn_llm_snapshots_find(const crn_llm_snapshots *s, int64_t n);
/// Copies it back into the states. Errors: as cairn_ndarray_copy; the states are then undefined.
cairn_status crn_llm_snapshot_restore(const crn_llm_snapshot *snapshot, crn_llm_states *states);
/// Forgets those of more than `n` tokens.
void crn_llm_snapshots_cut(crn_llm_snapshots *s, int64_t n);
/// Gives `to`, which is empty, those of at most `n` tokens. Errors: OUT_OF_MEMORY (`to` is empty).
cairn_status crn_llm_snapshots_share(const crn_llm_snapshots *from, const cairn_allocator *allocator, int64_t n, crn_llm_snapshots *to);
void crn_llm_snapshots_free(crn_llm_snapshots *s, const cairn_allocator *allocator);

/// The next point behind `at` where a prompt that ends at `end` should be stopped for a snapshot; `end` when there is none.
int64_t crn_llm_snapshot_point(const crn_llm_snapshot_bounds *bounds, int64_t at, int64_t end);

#endif
