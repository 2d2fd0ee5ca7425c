// Every kernel of the P formats that this processor has: in EXACT mode against the chain of the contract, bit for bit, else against
// sums in f64, of weights rounded to bf16 or within what 16-bit integers are off by; with every number of tables, several groups of inputs,
// factors and roundings, and tails.
#define _DEFAULT_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "base/cpu.h"
#include "tensor/half.h"

static uint32_t g_seed = 3;
static uint32_t next_random(void) { return (g_seed = g_seed * 1664525u + 1013904223u) >> 8; }
static float uniform(void) { return (float)((int32_t)next_random() - (1 << 23)) * 0x1p-23f; }

static void *aligned(size_t bytes) {
  void *p = NULL;
  assert_int_equal(posix_memalign(&p, CRN_LINEAR_ROWS_ALIGN, bytes + 64), 0);
  memset(p, 0xff, bytes + 64);
  return p;
}

// --- matrices -------------------------------------------------------------------------------------------------------------

typedef struct matrix {
  crn_linear_weights w;
  float *values;  ///< n x k
  float *tops;    ///< n, the largest weight there could be
} matrix;

static float rounded(float v, crn_linear_rounding how) {
  return how == CRN_LINEAR_TO_F16    ? crn_f16_to_f32(crn_f16_from_f32(v))
         : how == CRN_LINEAR_TO_BF16 ? crn_bf16_to_f32(crn_bf16_from_f32(v))
                                     : v;
}

static bool g_uneven;  ///< tables have sizes of their own

// Rows of a tile that have a table in common get the same entries.
static matrix matrix_make(crn_linear_format format, int64_t n, int64_t k, crn_linear_palette p) {
  matrix m = {.w = {.format = format, .n = n, .k = k, .palette = p}};
  int bits = crn_linear_code_bits(format), entries = 1 << bits;
  assert_true(crn_linear_weights_bytes(&m.w, &m.w.bytes));
  void *packed = aligned(m.w.bytes);
  m.w.data = packed;
  m.values = malloc((size_t)(n * k) * sizeof(float));
  m.tops = calloc((size_t)n, sizeof(float));
  uint8_t *codes = malloc((size_t)k);
  float *tables = malloc(sizeof(float) * (size_t)(entries * p.groups));
  for (int64_t row = 0; row < n; row++) {
    if (row % 16 % (16 / p.tables) == 0) {
      const float size = g_uneven ? (float)(row % 3) * (row % 2 ? 1000 : 0.001f) : 1;
      for (int i = 0; i < entries * p.groups; i++) tables[i] = rounded(uniform() * size, p.rounding);
    }
    float factor = rounded(uniform(), p.rounding);
    for (int i = 0; i < entries * p.groups; i++) {
      m.tops[row] = fmaxf(m.tops[row], fabsf(p.has_factors ? rounded(tables[i] * factor, p.rounding) : tables[i]));
    }
    for (int64_t i = 0; i < k; i++) {
      codes[i] = (uint8_t)(next_random() % (unsigned)entries);
      float entry = tables[i / (k / p.groups) * entries + codes[i]];
      m.values[row * k + i] = p.has_factors ? rounded(entry * factor, p.rounding) : entry;
    }
    crn_linear_pack_codes(&m.w, row, codes, tables, factor, packed);
  }
  free(codes);
  free(tables);
  return m;
}

static void matrix_free(matrix *m) {
  free((void *)m->w.data);
  free(m->values);
  free(m->tops);
}

// --- one case -------------------------------------------------------------------------------------------------------------

static float chain(const float *x, const float *w, int64_t k, bool has_fma) {
  float acc = 0;
  for (int64_t i = 0; i < k; i++) acc = has_fma ? fmaf(x[i], w[i], acc) : acc + x[i] * w[i];
  return acc;
}

// Rows and weights as integers of 16 bits: each is off by half of a unit, of which the largest of its piece is 127 * 256, and products of
// low bytes are left out. Errors are independent: eight times what they are together is never reached. The largest weight is any entry of
// the output's tables.
static void check_words(const crn_linear_kernel *kernel, const float *x, const float *w, int64_t k, float top, float got) {
  const int64_t blocks = (k + 63) / 64, pieces = LINEAR_PIECES(blocks);
  const double weight_unit = top / (127.0 * 256);
  double exact = 0, square = 0, magnitude = 0;
  for (int64_t piece = 0; piece < pieces; piece++) {
    const int64_t from = blocks * piece / pieces * 64, end = blocks * (piece + 1) / pieces * 64;
    double unit = 0;
    for (int64_t i = from; i < end && i < k; i++) unit = fmax(unit, fabs((double)x[i]) / (127.0 * 256));
    for (int64_t i = from; i < end && i < k; i++) {
      const double low = 74.0 * 74.0 * unit * weight_unit, of_weight = 0.29 * weight_unit * x[i], of_row = 0.29 * unit * w[i];
      exact += (double)x[i] * w[i];
      square += low * low + of_weight * of_weight + of_row * of_row;
      magnitude += fabs((double)x[i]) * top;
    }
  }
  const double error = 8 * sqrt(square) + magnitude * 0x1p-21;
  if (fabs(got - exact) > error) fail_msg("%s: %.9g, want %.9g within %.3g", kernel->name, got, exact, error);
}

static void check_value(const crn_linear_kernel *kernel, const float *x, const float *w, int64_t k, float got) {
  double exact = 0, narrow = 0, magnitude = 0;
  for (int64_t i = 0; i < k; i++) {
    double a = crn_bf16_to_f32(crn_bf16_from_f32(x[i]));
    exact += a * w[i];
    narrow += a * crn_bf16_to_f32(crn_bf16_from_f32(w[i]));
    magnitude += fabs(a * w[i]);
  }
  // Factors behind the sum, or weights that are rounded twice, are off by an eighth bit more.
  double tolerance = magnitude * 0x1p-8 / sqrt((double)k) * 8 + 1e-6;
  if (fabs(got - exact) > tolerance && fabs(got - narrow) > tolerance)
    fail_msg("%s: %.9g, want %.9g within %.3g", kernel->name, got, exact, tolerance);
}

/// Sums as a kernel hands them out.
typedef struct taken {
  float *out;
  int64_t ld;
} taken;

static void take(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles, float *sums, int64_t ld) {
  const taken *t = user;
  for (int64_t r = 0; r < n_rows; r++) memcpy(t->out + (row + r) * t->ld + tile * 16, sums + r * ld, (size_t)n_tiles * 16 * sizeof *sums);
}

// Part by part the sums are the same as all at once.
static void check_parts(const crn_linear_kernel *kernel, const matrix *m, const char *rows, size_t row_bytes, int64_t n_rows) {
  const crn_linear_parts_fn parts = crn_linear_parts_of(kernel);
  if (!parts) return;
  const int64_t tiles = crn_linear_tiles(m->w.n), ld = tiles * 16,
                part_ld = (tiles < CRN_LINEAR_PART_TILES ? tiles : CRN_LINEAR_PART_TILES) * 16;
  const size_t bytes = (size_t)(n_rows * ld) * sizeof(float);
  float *whole = aligned(bytes), *apart = aligned(bytes), *sums = aligned((size_t)(n_rows * part_ld) * sizeof(float));
  void *scratch = aligned(kernel->scratch_bytes(m->w.k));
  taken t = {apart, ld};
  kernel->run(&m->w, rows, row_bytes, n_rows, 0, tiles, whole, ld, scratch);
  parts(&m->w, rows, row_bytes, n_rows, 0, tiles, sums, part_ld, scratch, &(crn_linear_sink){.take = take, .user = &t});
  for (int64_t r = 0; r < n_rows; r++) {
    if (memcmp(whole + r * ld, apart + r * ld, (size_t)m->w.n * sizeof *whole))
      fail_msg("%s: row %d of %d is another one part by part", kernel->name, (int)r, (int)n_rows);
  }
  free(whole);
  free(apart);
  free(sums);
  free(scratch);
}

static void check_case(const crn_linear_kernel *kernel, const matrix *m, int64_t n_rows) {
  int64_t n = m->w.n, k = m->w.k, tiles = crn_linear_tiles(n), ld = tiles * 16 + 5;
  size_t row_bytes = crn_linear_row_bytes(kernel->rows_mode, k);
  char *rows = aligned(row_bytes * (size_t)(n_rows + CRN_LINEAR_ROW_BLOCK)), *scratch = aligned(kernel->scratch_bytes(k));
  float *x = malloc((size_t)(n_rows * k) * sizeof(float)), *out = aligned((size_t)(n_rows * ld) * sizeof(float));
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t i = 0; i < k; i++) x[r * k + i] = uniform();
    kernel->prepare(x + r * k, k, rows + crn_linear_row_offset(kernel, row_bytes, r));
  }
  check_parts(kernel, m, rows, row_bytes, n_rows);
  // In two parts, so that tiles in the middle are begun with too.
  int64_t half = tiles / 2;
  kernel->run(&m->w, rows, row_bytes, n_rows, 0, half, out, ld, scratch);
  kernel->run(&m->w, rows, row_bytes, n_rows, half, tiles, out + half * 16, ld, scratch);
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t i = 0; i < n; i++) {
      float got = out[r * ld + i];
      if (kernel->rows_mode == CRN_LINEAR_EXACT) {
        float want = chain(x + r * k, m->values + i * k, k, kernel->has_fma);
        if (memcmp(&got, &want, 4) != 0)
          fail_msg("%s: output %d of row %d is %.9g, the chain %.9g", kernel->name, (int)i, (int)r, got, want);
      } else if (kernel->rows_mode == CRN_LINEAR_ROWS_INT16) {
        check_words(kernel, x + r * k, m->values + i * k, k, m->tops[i], got);
      } else {
        check_value(kernel, x + r * k, m->values + i * k, k, got);
      }
    }
    for (int64_t i = tiles * 16; i < ld; i++) assert_int_equal(crn_f32_bits(out[r * ld + i]), 0xffffffffu);
  }
  free(rows);
  free(scratch);
  free(x);
  free(out);
}

static void check_all(const crn_linear_palette *p, int64_t n, int64_t k) {
  int n_kernels;
  const crn_linear_kernel *kernel = crn_linear_list(&n_kernels);
  for (crn_linear_format f = CRN_LINEAR_P1; f <= CRN_LINEAR_P8; f++) {
    matrix m = matrix_make(f, n, k, *p);
    float *row = malloc((size_t)k * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
      crn_linear_unpack_row(&m.w, i, row);
      assert_memory_equal(row, m.values + i * k, (size_t)k * sizeof(float));
    }
    free(row);
    for (int i = 0; i < n_kernels; i++) {
      if (kernel[i].format != f || (kernel[i].cpu_bits & ~crn_cpu_bits())) continue;
      for (int64_t n_rows = kernel[i].min_rows; n_rows <= 40; n_rows += n_rows < 6 ? 1 : n_rows < 20 ? 7 : 20)
        check_case(&kernel[i], &m, n_rows);
    }
    matrix_free(&m);
  }
}

static void every_number_of_tables(void **state) {
  (void)state;
  for (int tables = 1; tables <= 16; tables *= 2) check_all(&(crn_linear_palette){.tables = tables, .groups = 1}, 83, 130);
}

static void groups_of_inputs(void **state) {
  (void)state;
  for (int tables = 1; tables <= 16; tables *= 4) {
    check_all(&(crn_linear_palette){.tables = tables, .groups = 3}, 50, 96);
    check_all(&(crn_linear_palette){.tables = tables, .groups = 2}, 33, 256);
  }
}

// Entries that are f16 numbers, as assets have them: some kernels look these up in another way.
static void half_entries(void **state) {
  (void)state;
  for (int64_t k = 64; k < 200; k += 32) check_all(&(crn_linear_palette){.tables = 1, .groups = 1, .rounding = CRN_LINEAR_TO_F16}, 37, k);
  check_all(&(crn_linear_palette){.tables = 1, .groups = 3, .rounding = CRN_LINEAR_TO_F16}, 37, 96);
}

static void factors_and_roundings(void **state) {
  (void)state;
  for (int tables = 1; tables <= 16; tables *= 4) {
    for (crn_linear_rounding r = CRN_LINEAR_TO_F32; r <= CRN_LINEAR_TO_BF16; r++)
      check_all(&(crn_linear_palette){.tables = tables, .groups = 1, .has_factors = true, .rounding = r}, 40, 100);
  }
}

static void tails(void **state) {
  (void)state;
  crn_linear_palette p = {.tables = 1, .groups = 1};
  for (int64_t n = 1; n < 40; n += 5) check_all(&p, n, 64);
  for (int64_t k = 1; k < 140; k += 11) check_all(&p, 17, k);
}

// Several pieces of inputs, some with more than one set of tables, and more rows than tile registers have.
static void long_rows(void **state) {
  (void)state;
  check_all(&(crn_linear_palette){.tables = 2, .groups = 1}, 20, 1300);
  check_all(&(crn_linear_palette){.tables = 1, .groups = 5}, 20, 1280);
  check_all(&(crn_linear_palette){.tables = 4, .groups = 40}, 20, 1280);
  check_all(&(crn_linear_palette){.tables = 1, .groups = 4, .has_factors = true, .rounding = CRN_LINEAR_TO_F16}, 300, 640);
}

// Tables that hold very different numbers, or nothing but zeros, lie side by side.
static void uneven_tables(void **state) {
  (void)state;
  for (int tables = 2; tables <= 16; tables *= 2) {
    g_uneven = true;
    check_all(&(crn_linear_palette){.tables = tables, .groups = 1}, 40, 96);
    check_all(&(crn_linear_palette){.tables = tables, .groups = 1, .has_factors = true}, 40, 96);
    g_uneven = false;
  }
}

static void sizes_that_cannot_be(void **state) {
  (void)state;
  size_t bytes;
  crn_linear_weights w = {.format = CRN_LINEAR_P4, .n = 17, .k = 65, .palette = {.tables = 2, .groups = 1, .has_factors = true}};
  assert_true(crn_linear_weights_bytes(&w, &bytes));
  assert_int_equal(bytes, 2 * (2 * 64 + 64 + 2 * 512));
  w.palette.tables = 3;
  assert_false(crn_linear_weights_bytes(&w, &bytes));
  w.palette.tables = 1, w.palette.groups = 5;  // 13 inputs each
  assert_false(crn_linear_weights_bytes(&w, &bytes));
  w.palette.groups = 1, w.k = INT64_MAX;
  assert_false(crn_linear_weights_bytes(&w, &bytes));
  assert_false(crn_linear_packed_bytes(CRN_LINEAR_P4, 1, 1, &bytes));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_of_tables),
      cmocka_unit_test(groups_of_inputs),
      cmocka_unit_test(factors_and_roundings),
      cmocka_unit_test(half_entries),
      cmocka_unit_test(tails),
      cmocka_unit_test(long_rows),
      cmocka_unit_test(uneven_tables),
      cmocka_unit_test(sizes_that_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
