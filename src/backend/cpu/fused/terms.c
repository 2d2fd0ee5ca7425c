#include "backend/cpu/fused/terms.h"

#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "base/checked.h"

enum { BYTE_TERMS = 2 };

cairn_status crn_prepared_create(const crn_kernel_args *args, const crn_linear_weights *w, crn_linear_mode mode, int64_t n_rows,
                                 int64_t n_together, crn_prepared *p) {
  size_t bytes;
  int64_t together = mode == CRN_LINEAR_MODE_INT8 ? n_together * BYTE_TERMS : n_together;
  *p = (crn_prepared){.kernel = crn_linear_select(w->format, mode, together), .k = w->k};
  p->terms = p->kernel->rows_mode == CRN_LINEAR_MODE_INT8 ? BYTE_TERMS : 1;
  p->row_bytes = crn_linear_row_bytes(p->kernel->rows_mode, w->k);
  if (!crn_mul_size((size_t)(n_rows * p->terms), p->row_bytes, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%lld rows are too many", (long long)n_rows);
  CRN_TRY(args->scratch->take(args->scratch, bytes, &p->rows));
  return args->scratch->take(args->scratch, (size_t)crn_pool_threads(args->pool) * (size_t)w->k * sizeof(float), &p->buffers);
}

void crn_prepare_row(const crn_prepared *p, int64_t row, const float *values, int worker) {
  char *to = p->rows + (size_t)(row * p->terms) * p->row_bytes;
  p->kernel->prepare(values, p->k, to);
  if (p->terms == 1) return;
  float *rest = p->buffers + worker * p->k;
  const float *scales = (const float *)(const void *)(to + LINEAR_BLOCKS(p->k) * LINEAR_BLOCK);
  crn_rows_select()->residual(values, (const int8_t *)to, scales, rest, p->k);
  p->kernel->prepare(rest, p->k, to + p->row_bytes);
}

size_t crn_prepared_scratch_bytes(const crn_prepared *p) {
  return p->kernel->scratch_bytes ? (p->kernel->scratch_bytes(p->k) + 63) / 64 * 64 : 0;
}

// Adds up the terms of each row, in place: row i comes to lie at row i.
static void add_terms(float *sums, int64_t n_rows, int64_t ld) {
  for (int64_t row = 0; row < n_rows; row++) {
    const float *first = sums + row * BYTE_TERMS * ld;
    float *to = sums + row * ld;
    for (int64_t i = 0; i < ld; i++) to[i] = first[i] + first[ld + i];
  }
}

void crn_run_prepared(const crn_linear_weights *w, const crn_prepared *p, int64_t row, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                      float *sums, int64_t ld, void *scratch) {
  const char *from = p->rows + (size_t)(row * p->terms) * p->row_bytes;
  p->kernel->run(w, from, p->row_bytes, n_rows * p->terms, tile_begin, tile_end, sums, ld, scratch);
  if (p->terms > 1) add_terms(sums, n_rows, ld);
}
