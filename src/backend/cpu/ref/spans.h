/// Elementwise work cut into runs along the innermost dimension, spread over the pool.
#ifndef CRN_BACKEND_CPU_REF_SPANS_H
#define CRN_BACKEND_CPU_REF_SPANS_H

#include "base/pool.h"
#include "tensor/tensor.h"

enum { CRN_SPAN_OPERANDS = 3, CRN_SPAN_CHUNK = 256 };

/// The result's index space with adjacent dimensions merged where all operands allow it.
typedef struct crn_spans {
  int rank, n_operands;
  int64_t count;
  int64_t dims[CAIRN_MAX_RANK];
  int64_t strides[CRN_SPAN_OPERANDS][CAIRN_MAX_RANK];
} crn_spans;

/// A run of n consecutive elements of the result from `out` on, and where the operands' elements lie.
typedef struct crn_span {
  int64_t n, out;
  int64_t offset[CRN_SPAN_OPERANDS], stride[CRN_SPAN_OPERANDS];
} crn_span;

typedef void (*crn_span_fn)(void *user, const crn_span *span);

/// Element strides with which `t`, aligned at the right, walks the dims of `result` (0 along stretched dimensions).
/// Errors: INVALID_ARGUMENT when the shapes do not go together.
cairn_status crn_broadcast_strides(const crn_tensor *t, const int64_t *dims, int rank, int64_t *out_strides);

/// Prepares the walk. Operands broadcast to the result as NumPy does. Errors: INVALID_ARGUMENT.
cairn_status crn_spans_make(crn_spans *s, const crn_tensor *result, int n_operands, const crn_tensor *operands);

/// Calls `fn` for all runs, each at most CRN_SPAN_CHUNK long; chunks of at least `grain` elements go to the pool.
void crn_spans_run(const crn_spans *s, crn_pool *pool, int64_t grain, crn_span_fn fn, void *user);

#endif
