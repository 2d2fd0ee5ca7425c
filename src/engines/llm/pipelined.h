/// The engine 'pipelined': decode steps are queued on a stream before the tokens they start from are known.
///
/// A step is a run that takes the token the step before it chose, and a queued call that chooses the next one. Both work on arrays of
/// the step's slot; there are as many slots as steps may be on their way (`depth`), used in turn. While the caller's thread makes text of
/// a token and hands it out, the stream computes the ones behind it. A slot is free again when its token was handed out, so when the
/// caller has had enough at most depth - 1 tokens were computed in vain; the rows they left in the caches stay in the history. An id
/// that ends the generation lets its call fail, and what is queued behind a failure never runs.
#ifndef CRN_ENGINES_LLM_PIPELINED_H
#define CRN_ENGINES_LLM_PIPELINED_H

#include "cairn/status.h"

enum { CRN_PIPELINE_DEPTH = 3, CRN_PIPELINE_MAX_DEPTH = 8 };

struct crn_generator;
struct cairn_llm;

/// As crn_generator_decode, whose tokens it gives. Models that take the whole sequence with every run, or whose caches are no states, are
/// decoded by that.
cairn_status crn_pipelined_decode(struct crn_generator *g);

/// Chooses the depth of a model that was opened for this engine. `asked` 0 = default. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
cairn_status crn_pipeline_choose_depth(struct cairn_llm *llm, int asked);

/// Ends the stream of a sequence. No generation may be going on.
void crn_pipeline_close(struct cairn_llm *llm);

/// What the generations of a sequence did, for tests.
typedef struct crn_pipeline_counts {
  long long n_steps;  ///< queued
  int most_ahead;     ///< steps on their way at once
} crn_pipeline_counts;
crn_pipeline_counts crn_pipeline_count(const struct cairn_llm *llm);

#endif
