/// Rows of logits as f32, and the largest of a row.
#ifndef CRN_ENGINES_LLM_LOGITS_H
#define CRN_ENGINES_LLM_LOGITS_H

#include <stdint.h>

#include "cairn/ndarray.h"

struct crn_pool;

/// Widens `n` values of type f16, bf16 or f32 (exact), by all workers of `pool` (NULL = by the caller).
void crn_logits_widen(struct crn_pool *pool, cairn_dtype dtype, const void *source, float *target, int64_t n);

/// The first index of the largest value, NaN left out; 0 when nothing is larger than -inf. `*out_best` (may be NULL) is
/// that value, -inf when there is none.
int32_t crn_logits_argmax(const float *row, int64_t n, float *out_best);

/// The loops of these, once for each instruction set (argmax: logits_template.h).
#define CRN_LOGITS_LOOPS(isa)                                                         \
  void crn_logits_widen_f16__##isa(const uint16_t *source, float *target, int64_t n); \
  int64_t crn_logits_argmax__##isa(const float *row, int64_t n, float *out_best);
CRN_LOGITS_LOOPS(plain)
#if defined(__x86_64__)
CRN_LOGITS_LOOPS(avx2)
#endif

#endif
