// The weighted sum behind the products of experts.
#include <string.h>

#include "backend/cpu/fused/gather.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"

// Sums of the separate op have this many partial sums (reduce.c).
enum { LANES = 8, COLUMNS = 256, LEAST_VALUES = 16384 };

typedef struct sum_run {
  const crn_fused_gather *f;
  const crn_tensor *out, *added;  ///< `added` NULL: none
  const float *factors;
  float *rows;
  const crn_rows_kernels *kernels;
} sum_run;

// The bits of the op that adds up (reduce.c): partial sums in f64 in turn, then halves of them.
static void add_exactly(const sum_run *r, float *rows, const float *factors, int64_t n, float *out) {
  const crn_gather_sum *sum = &r->f->sum;
  double lanes[LANES][COLUMNS];
  memset(lanes, 0, sizeof lanes);
  for (int64_t c = 0; c < sum->n; c++) {
    float *row = rows + c * r->f->n;
    crn_round_f32(r->f->product.dtype, row, n);
    r->kernels->scale(row, factors[c], row, n);
    crn_round_f32(sum->dtype, row, n);
    for (int64_t i = 0; i < n; i++) lanes[c % LANES][i] += (double)row[i];
  }
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) {
      for (int64_t i = 0; i < n; i++) lanes[l][i] += lanes[l + half][i];
    }
  }
  // Rounded once, from f64.
  char rounded[COLUMNS * sizeof(float)];
  crn_tensor t = crn_tensor_make(sum->dtype, (int64_t[]){n}, 1, rounded);
  crn_elements_put_f64(&t, 0, n, lanes[0]);
  const float *values = crn_elements_f32(&t, 0, 1, n, out);
  if (values != out) memcpy(out, values, (size_t)n * sizeof *out);
  crn_round_f32(r->out->dtype, out, n);
}

static void add_up(const sum_run *r, const float *rows, const float *factors, int64_t n, float *out) {
  float buffer[COLUMNS];
  r->kernels->scale(rows, factors[0], out, n);
  for (int64_t c = 1; c < r->f->sum.n; c++) {
    r->kernels->scale(rows + c * r->f->n, factors[c], buffer, n);
    r->kernels->add(out, buffer, out, n);
  }
}

static void sum_rows(void *user, int64_t begin, int64_t end, int worker) {
  const sum_run *r = user;
  const int64_t n = r->f->n, of = r->f->sum.n;
  (void)worker;
  for (int64_t row = begin; row < end; row++) {
    for (int64_t at = 0; at < n; at += COLUMNS) {
      const int64_t m = n - at < COLUMNS ? n - at : COLUMNS;
      float values[COLUMNS], buffer[COLUMNS], *rows = r->rows + row * of * n + at;
      if (r->f->mode == CRN_LINEAR_EXACT) {
        add_exactly(r, rows, r->factors + row * of, m, values);
      } else {
        add_up(r, rows, r->factors + row * of, m, values);
      }
      if (r->added) {
        const int last = r->added->rank - 1;
        const int64_t stride = r->added->strides[last];
        const float *more = crn_elements_f32(r->added, crn_row_offset(r->added, last, row) + at * stride, stride, m, buffer);
        r->kernels->add(values, more, values, m);
      }
      crn_elements_put_f32(r->out, row * n + at, m, values);
    }
  }
}

cairn_status crn_gather_sum_run(const crn_kernel_args *args, float *rows) {
  const crn_fused_gather *f = args->fused;
  sum_run r = {.f = f, .out = &args->results[0], .rows = rows, .kernels = crn_rows_select()};
  const int64_t n_rows = crn_tensor_count(r.out) / f->n;
  CRN_TRY(crn_rows_f32(args, &args->operands[f->n_operands], &r.factors));
  if (f->sum.has_added) r.added = &args->operands[f->n_operands + 1];
  crn_pool_run(args->pool, n_rows, LEAST_VALUES / (f->n * f->sum.n) + 1, sum_rows, &r);
  return CAIRN_OK;
}
