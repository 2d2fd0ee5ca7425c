#include "backend/cpu/fused/terms.h"

#include <string.h>

#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "tensor/half.h"

enum { TERMS = 2 };

// Quantised and palettized weights deserve more than the 8 bits of a bf16 or of a byte; of others in bf16 nobody expects more.
static int terms_of(const crn_linear_kernel *kernel) {
  const bool is_compressed = kernel->format <= CRN_LINEAR_Q8M || crn_linear_code_bits(kernel->format);
  const bool is_rounded = kernel->rows_mode == CRN_LINEAR_MODE_BF16 && is_compressed;
  return kernel->rows_mode == CRN_LINEAR_MODE_INT8 || is_rounded ? TERMS : 1;
}

const crn_linear_kernel *crn_prepared_select(const crn_linear_weights *w, crn_linear_mode mode, int64_t n_together) {
  return crn_linear_select(w->format, mode, mode == CRN_LINEAR_MODE_INT8 ? n_together * TERMS : n_together);
}

// Kernels that compute in f32 with FMA all give the same bits; other bits are promised of one kernel only.
static bool is_exact(const crn_linear_kernel *k) { return k->rows_mode == CRN_LINEAR_EXACT && k->has_fma; }

// Byte products that take the same prepared rows are exact within a group and go from group to group in one way.
static bool is_bytes(const crn_linear_kernel *a, const crn_linear_kernel *b) {
  return a->rows_mode == CRN_LINEAR_MODE_INT8 && b->rows_mode == CRN_LINEAR_MODE_INT8 && a->prepare == b->prepare;
}

bool crn_prepared_agree(const crn_linear_kernel *a, const crn_linear_kernel *b) {
  return a == b || (is_exact(a) && is_exact(b)) || is_bytes(a, b);
}

// With one or two rows, products in bf16 have several sums at a time, because each takes long to come out.
bool crn_prepared_is_rowwise(const crn_linear_kernel *kernel) { return kernel->rows_mode != CRN_LINEAR_MODE_BF16 || kernel->min_rows > 1; }

const crn_linear_kernel *crn_prepared_join(const crn_linear_weights *w, const crn_linear_kernel *kernel, int64_t n_together) {
  if (is_exact(kernel)) return crn_linear_select(w->format, CRN_LINEAR_EXACT, n_together);
  int n;
  const crn_linear_kernel *list = crn_linear_list(&n);
  for (const crn_linear_kernel *k = list; k < kernel; k++) {
    if (k->format != kernel->format || k->mode != kernel->mode || k->cpu_bits & ~crn_cpu_bits()) continue;
    if (k->min_rows <= n_together * TERMS && is_bytes(k, kernel)) return k;
  }
  return kernel;
}

cairn_status crn_prepared_create(const crn_kernel_args *args, const crn_linear_weights *w, crn_linear_mode mode, int64_t n_rows,
                                 int64_t n_together, crn_prepared *p) {
  return crn_prepared_create_for(args, w, crn_prepared_select(w, mode, n_together), n_rows, p);
}

cairn_status crn_prepared_create_for(const crn_kernel_args *args, const crn_linear_weights *w, const crn_linear_kernel *kernel,
                                     int64_t n_rows, crn_prepared *p) {
  size_t bytes;
  *p = (crn_prepared){.kernel = kernel, .k = w->k};
  p->terms = terms_of(kernel);
  p->row_bytes = crn_linear_row_bytes(p->kernel->rows_mode, w->k);
  const int64_t block = crn_linear_row_block(kernel);
  if (!crn_mul_size((size_t)((n_rows * p->terms + block - 1) / block * block), p->row_bytes, &bytes) ||
      !crn_add_size(bytes, CRN_LINEAR_ROWS_ALIGN, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%lld rows are too many", (long long)n_rows);
  CRN_TRY(args->scratch->take(args->scratch, bytes, &p->rows));
  p->rows += -(uintptr_t)p->rows % CRN_LINEAR_ROWS_ALIGN;
  return args->scratch->take(args->scratch, (size_t)crn_pool_threads(args->pool) * (size_t)w->k * sizeof(float), &p->buffers);
}

static char *term_at(const crn_prepared *p, int64_t row, int64_t term) {
  return p->rows + crn_linear_row_offset(p->kernel, p->row_bytes, row * p->terms + term);
}

void crn_prepare_row(const crn_prepared *p, int64_t row, const float *values, int worker) {
  char *to = term_at(p, row, 0);
  p->kernel->prepare(values, p->k, to);
  if (p->terms == 1) return;
  float *rest = p->buffers + worker * p->k;
  if (p->kernel->rows_mode == CRN_LINEAR_MODE_INT8) {
    const float *scales = (const float *)(const void *)(to + LINEAR_BLOCKS(p->k) * LINEAR_BLOCK);
    crn_rows_select()->residual(values, (const int8_t *)to, scales, rest, p->k);
  } else {
    for (int64_t i = 0; i < p->k; i++) rest[i] = values[i] - crn_bf16_to_f32(crn_bf16_from_f32(values[i]));
  }
  p->kernel->prepare(rest, p->k, term_at(p, row, 1));
}

void crn_prepare_copy(const crn_prepared *p, int64_t from, int64_t to) {
  const bool is_apart = crn_linear_row_block(p->kernel) > 1;
  const size_t bytes = is_apart ? CRN_LINEAR_ROW_LINE : p->row_bytes;
  const int64_t n = is_apart ? (int64_t)p->row_bytes / CRN_LINEAR_ROW_LINE : 1;
  for (int64_t term = 0; term < p->terms; term++) {
    const char *source = term_at(p, from, term);
    char *target = term_at(p, to, term);
    for (int64_t i = 0; i < n; i++) memcpy(target + i * CRN_LINEAR_ROWS_ALIGN, source + i * CRN_LINEAR_ROWS_ALIGN, bytes);
  }
}

size_t crn_prepared_scratch_bytes(const crn_prepared *p) {
  return p->kernel->scratch_bytes ? (p->kernel->scratch_bytes(p->k) + 63) / 64 * 64 : 0;
}

// Adds up the terms of each row, in place: row i comes to lie at row i.
static void add_terms(float *sums, int64_t n_rows, int64_t ld) {
  for (int64_t row = 0; row < n_rows; row++) {
    const float *first = sums + row * TERMS * ld;
    float *to = sums + row * ld;
    for (int64_t i = 0; i < ld; i++) to[i] = first[i] + first[ld + i];
  }
}

void crn_run_prepared(const crn_linear_weights *w, const crn_prepared *p, int64_t row, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                      float *sums, int64_t ld, void *scratch) {
  const char *from = p->rows + crn_linear_row_offset(p->kernel, p->row_bytes, row * p->terms);
  p->kernel->run(w, from, p->row_bytes, n_rows * p->terms, tile_begin, tile_end, sums, ld, scratch);
  if (p->terms > 1) add_terms(sums, n_rows, ld);
}

void crn_run_prepared_into(const crn_linear_weights *w, const crn_prepared *p, int64_t row, int64_t n_rows, int64_t tile_begin,
                           int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink) {
  const crn_linear_parts_fn parts = p->terms == 1 ? crn_linear_parts_of(p->kernel) : NULL;
  if (parts) {
    parts(w, p->rows + crn_linear_row_offset(p->kernel, p->row_bytes, row), p->row_bytes, n_rows, tile_begin, tile_end, sums, ld, scratch,
          sink);
    return;
  }
  crn_run_prepared(w, p, row, n_rows, tile_begin, tile_end, sums, ld, scratch);
  sink->take(sink->user, 0, n_rows, tile_begin, tile_end - tile_begin, sums, ld);
}
