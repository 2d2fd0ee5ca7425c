/// The ladder of functions of a model with fixed shapes: `extend_<context>_<query>` and `prompt_opt_<context>_<query>`, one
/// for every length of cache and number of tokens, and which of them a step takes.
#ifndef CRN_ENGINES_LLM_LADDER_H
#define CRN_ENGINES_LLM_LADDER_H

#include "base/vec.h"
#include "cairn/model.h"

typedef struct crn_ladder_rung {
  const char *function;  ///< its name in the model
  int64_t context;       ///< rows of the cache it sees
  int64_t query;         ///< tokens it takes
  bool is_prompt;        ///< gives no logits
} crn_ladder_rung;

typedef struct crn_ladder {
  CRN_VEC(crn_ladder_rung) rungs;
  int64_t max_query, max_context;  ///< of those that give logits
  int64_t reach;                   ///< tokens a sequence may have: the end of the last whole block of any of them
} crn_ladder;

/// Whether the function takes steps of a sequence; if so, the numbers of its name (0 where the name has none).
bool crn_ladder_parse(const char *function, crn_ladder_rung *out_rung);

/// Finds the rungs among functions. Numbers a name lacks are taken from the shapes; shapes that are open, too, stand for
/// every rung up to `max_context`. Names are borrowed. Errors: UNSUPPORTED (none gives logits; a shape that is no step).
cairn_status crn_ladder_read(const cairn_allocator *allocator, const cairn_function_info *const *functions, int n, int64_t max_context,
                             crn_ladder *out_ladder);
/// Drops the rungs whose cache is longer than `rows`.
void crn_ladder_limit(crn_ladder *ladder, int64_t rows);
void crn_ladder_free(const cairn_allocator *allocator, crn_ladder *ladder);

/// The rung for `remaining` tokens behind `position` others: the fewest tokens that hold them, else the most; of these the
/// shortest cache that reaches to the end of the block. More tokens than the largest rung takes go to the one without
/// logits, unless `needs_logits`. NULL when there is none.
const crn_ladder_rung *crn_ladder_select(const crn_ladder *ladder, int64_t remaining, int64_t position, bool needs_logits);

/// Where the block of a step begins: steps are written in whole blocks, so the tokens of a block that began earlier are
/// computed again.
static inline int64_t crn_ladder_block(const crn_ladder_rung *rung, int64_t position) { return position / rung->query * rung->query; }

#endif
