#include <math.h>
#include <string.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"

enum { LANES = 8 };

typedef struct softmax_run {
  const crn_tensor *x, *y;
  int axis;
  int64_t n;
  char *rows;  ///< one row per worker
  size_t row_bytes;
} softmax_run;

// Exponentials of the differences to the maximum, in place; their sum in lanes by position, so that zeros at the end (of
// masked columns) change nothing. A row of -inf alone gives NaN, as -inf - -inf does.
#define SOFTMAX_ROW(name, type, exp_fn)                                                    \
  static void name(type *row, int64_t n) {                                                 \
    type top = -INFINITY;                                                                  \
    for (int64_t i = 0; i < n; i++) top = row[i] > top || row[i] != row[i] ? row[i] : top; \
    double lane[LANES] = {0};                                                              \
    for (int64_t i = 0; i < n; i++) {                                                      \
      row[i] = exp_fn(row[i] - top);                                                       \
      lane[i % LANES] += (double)row[i];                                                   \
    }                                                                                      \
    for (int half = LANES / 2; half > 0; half /= 2) {                                      \
      for (int l = 0; l < half; l++) lane[l] += lane[l + half];                            \
    }                                                                                      \
    type sum = (type)lane[0];                                                              \
    for (int64_t i = 0; i < n; i++) row[i] /= sum;                                         \
  }

SOFTMAX_ROW(row_f32, float, expf)
SOFTMAX_ROW(row_f64, double, exp)

static void store_strided(const softmax_run *r, int64_t at, int64_t stride, const void *row) {
  const crn_tensor *y = r->y;
  if (y->dtype == CAIRN_F64) {
    for (int64_t i = 0; i < r->n; i++) crn_elements_put_f64(y, at + i * stride, 1, (const double *)row + i);
  } else if (stride == 1) {
    crn_elements_put_f32(y, at, r->n, row);
  } else {
    for (int64_t i = 0; i < r->n; i++) crn_elements_put_f32(y, at + i * stride, 1, (const float *)row + i);
  }
}

static void softmax_range(void *user, int64_t begin, int64_t end, int worker) {
  const softmax_run *r = user;
  void *row = r->rows + (size_t)worker * r->row_bytes;
  for (int64_t i = begin; i < end; i++) {
    int64_t at_x = 0, at_y = 0, rest = i;
    for (int d = r->x->rank - 1; d >= 0; d--) {
      if (d == r->axis) continue;
      int64_t index = rest % r->x->dims[d];
      rest /= r->x->dims[d];
      at_x += index * r->x->strides[d];
      at_y += index * r->y->strides[d];
    }
    int64_t stride = r->x->strides[r->axis];
    if (r->x->dtype == CAIRN_F64) {
      const double *in = crn_elements_f64(r->x, at_x, stride, r->n, row);
      if (in != row) memcpy(row, in, (size_t)r->n * sizeof *in);
      row_f64(row, r->n);
    } else {
      const float *in = crn_elements_f32(r->x, at_x, stride, r->n, row);
      if (in != row) memcpy(row, in, (size_t)r->n * sizeof *in);
      row_f32(row, r->n);
    }
    store_strided(r, at_y, r->y->strides[r->axis], row);
  }
}

cairn_status crn_ref_softmax(const crn_kernel_args *args) {
  softmax_run r = {.x = &args->operands[0], .y = &args->results[0]};
  if (!crn_dtype_is_float(r.x->dtype) || r.y->dtype != r.x->dtype) {
    return CRN_FAIL(UNSUPPORTED, "softmax of %s to %s has no kernel", cairn_dtype_name(r.x->dtype), cairn_dtype_name(r.y->dtype));
  }
  CRN_TRY(crn_ref_axis(args, 1, r.x->rank, &r.axis));
  r.n = r.x->dims[r.axis];
  int64_t count = crn_tensor_count(r.y);
  if (count == 0) return CAIRN_OK;
  r.row_bytes = ((size_t)r.n * sizeof(double) + 63) / 64 * 64;
  CRN_TRY(args->scratch->take(args->scratch, r.row_bytes * (size_t)crn_pool_threads(args->pool), &r.rows));
  crn_pool_run(args->pool, count / r.n, 2048 / r.n + 1, softmax_range, &r);
  return CAIRN_OK;
}
