/// Choosing a token from a row of logits. One semantics for every engine; equal seeds give equal tokens everywhere.
#ifndef CRN_ENGINES_LLM_SAMPLER_H
#define CRN_ENGINES_LLM_SAMPLER_H

#include "base/context.h"
#include "base/vec.h"
#include "cairn/llm.h"

/// xoshiro256**, seeded through splitmix64.
typedef struct crn_rng {
  uint64_t s[4];
} crn_rng;
void crn_rng_seed(crn_rng *rng, uint64_t seed);
uint64_t crn_rng_next(crn_rng *rng);
/// Uniform in [0, 1) with 53 bits.
double crn_rng_uniform(crn_rng *rng);

typedef struct crn_candidate {
  float logit;
  int32_t token;
} crn_candidate;

typedef struct crn_sampler {
  const cairn_allocator *allocator;
  cairn_sampling config;  ///< normalised: filters that cannot do anything are off
  bool is_greedy;
  crn_rng rng;
  int64_t vocab_size;
  int64_t n_candidates;  ///< room in `candidates`
  crn_candidate *candidates;
  uint32_t *seen, epoch;  ///< per token: the step in which the penalty met it last
  CRN_VEC(int32_t) generated;
} crn_sampler;

/// Checks and takes over a configuration (which has a seed when it draws). Every buffer is allocated here. Settings that
/// are dropped are logged. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
cairn_status crn_sampler_initialize(crn_sampler *s, cairn_context *context, const cairn_sampling *config, int64_t vocab_size);
void crn_sampler_deinitialize(crn_sampler *s);
/// Makes room for `n` more tokens in the memory of the penalty.
cairn_status crn_sampler_reserve(crn_sampler *s, int64_t n);

/// Chooses a token of `row`, which is changed (penalty). NaN is never chosen; 0 when nothing is above -inf.
int32_t crn_sampler_pick(crn_sampler *s, float *row);
/// Tells the penalty which token followed (chosen or forced).
cairn_status crn_sampler_accept(crn_sampler *s, int32_t token);

/// The repetition penalty by itself: each distinct token of the window once; ids outside of the row are ignored.
void crn_sampler_penalize(crn_sampler *s, float *row);

#endif
