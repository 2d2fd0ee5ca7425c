#include "backend/cpu/ref/spans.h"

#include <inttypes.h>

cairn_status crn_broadcast_strides(const crn_tensor *t, const int64_t *dims, int rank, int64_t *out_strides) {
  if (t->rank > rank) return CRN_FAIL(INVALID_ARGUMENT, "an operand of rank %d does not broadcast to rank %d", t->rank, rank);
  for (int d = 0; d < rank; d++) {
    int from = d - (rank - t->rank);
    if (from < 0 || (t->dims[from] == 1 && dims[d] != 1)) {
      out_strides[d] = 0;
    } else if (t->dims[from] == dims[d]) {
      out_strides[d] = t->strides[from];
    } else {
      return CRN_FAIL(INVALID_ARGUMENT, "dimension %d of an operand is %" PRId64 ", it must be 1 or %" PRId64, from, t->dims[from],
                      dims[d]);
    }
  }
  return CAIRN_OK;
}

static bool merges(const crn_spans *s, int outer, const int64_t (*strides)[CAIRN_MAX_RANK], int d, int64_t dim) {
  for (int k = 0; k < s->n_operands; k++) {
    if (s->strides[k][outer] != strides[k][d] * dim) return false;
  }
  return true;
}

cairn_status crn_spans_make(crn_spans *s, const crn_tensor *result, int n_operands, const crn_tensor *operands) {
  int64_t strides[CRN_SPAN_OPERANDS][CAIRN_MAX_RANK];
  for (int k = 0; k < n_operands; k++) CRN_TRY(crn_broadcast_strides(&operands[k], result->dims, result->rank, strides[k]));
  s->rank = 0;
  s->n_operands = n_operands;
  s->count = crn_tensor_count(result);
  for (int d = 0; d < result->rank; d++) {
    int64_t dim = result->dims[d];
    if (dim == 1) continue;
    int last = s->rank - 1;
    if (last >= 0 && merges(s, last, (const int64_t(*)[CAIRN_MAX_RANK])strides, d, dim)) {
      s->dims[last] *= dim;
    } else {
      last = s->rank++;
      s->dims[last] = dim;
    }
    for (int k = 0; k < n_operands; k++) s->strides[k][last] = strides[k][d];
  }
  if (s->rank == 0) {  // one element
    s->rank = 1;
    s->dims[0] = 1;
    for (int k = 0; k < n_operands; k++) s->strides[k][0] = 0;
  }
  return CAIRN_OK;
}

typedef struct walk {
  const crn_spans *spans;
  crn_span_fn fn;
  void *user;
} walk;

static void run_range(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const walk *w = user;
  const crn_spans *s = w->spans;
  int inner = s->rank - 1;
  int64_t index[CAIRN_MAX_RANK], rest = begin;
  for (int d = inner; d >= 0; d--) {
    index[d] = rest % s->dims[d];
    rest /= s->dims[d];
  }
  for (int64_t at = begin; at < end;) {
    crn_span span = {.out = at, .n = s->dims[inner] - index[inner]};
    if (span.n > end - at) span.n = end - at;
    if (span.n > CRN_SPAN_CHUNK) span.n = CRN_SPAN_CHUNK;
    for (int k = 0; k < s->n_operands; k++) {
      span.stride[k] = s->strides[k][inner];
      span.offset[k] = 0;
      for (int d = 0; d <= inner; d++) span.offset[k] += index[d] * s->strides[k][d];
    }
    w->fn(w->user, &span);
    at += span.n;
    index[inner] += span.n;
    for (int d = inner; d > 0 && index[d] == s->dims[d]; d--) {
      index[d] = 0;
      index[d - 1]++;
    }
  }
}

void crn_spans_run(const crn_spans *s, crn_pool *pool, int64_t grain, crn_span_fn fn, void *user) {
  if (s->count == 0) return;
  walk w = {s, fn, user};
  crn_pool_run(pool, s->count, grain, run_range, &w);
}
