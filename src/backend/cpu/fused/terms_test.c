// Kernels that are said to agree give a row the same bits, whatever other rows are there: joint steps of several runs rely on it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/fused/terms.h"
#include "base/cpu.h"

enum { OUTPUTS = 70, INPUTS = 200, MOST_ROWS = 40, LD = 80 };

static uint32_t g_seed = 1;
static uint32_t next_random(void) { return (g_seed = g_seed * 1664525u + 1013904223u) >> 8; }
static float uniform(void) { return (float)((int32_t)next_random() - (1 << 23)) * 0x1p-23f; }

static void *aligned(size_t bytes) {
  const size_t rounded = (bytes / CRN_LINEAR_ROWS_ALIGN + 1) * CRN_LINEAR_ROWS_ALIGN;
  void *p = aligned_alloc(CRN_LINEAR_ROWS_ALIGN, rounded);
  assert_non_null(p);
  memset(p, 0, rounded);
  return p;
}

// Random weights of a format with quants or floats.
static crn_linear_weights make_weights(crn_linear_format format) {
  crn_linear_weights w = {.format = format, .zero = format <= CRN_LINEAR_Q4M ? 8 : 3, .n = OUTPUTS, .k = INPUTS};
  float values[INPUTS], scales[(INPUTS + 31) / 32], mins[(INPUTS + 31) / 32];
  assert_true(crn_linear_packed_bytes(format, w.n, w.k, &w.bytes));
  void *data = aligned(w.bytes);
  for (int64_t row = 0; row < w.n; row++) {
    unsigned char *quants = (unsigned char *)values;
    for (int i = 0; i < INPUTS; i++) {
      if (format <= CRN_LINEAR_Q8M) {
        quants[i] = (unsigned char)(format <= CRN_LINEAR_Q4M ? next_random() % 16 : next_random());
      } else if (format == CRN_LINEAR_F32) {
        values[i] = uniform();
      } else {
        ((uint16_t *)values)[i] = (uint16_t)(0x3000 + next_random() % 0x0c00);
      }
    }
    for (int i = 0; i < (INPUTS + 31) / 32; i++) scales[i] = uniform() * 0.1f, mins[i] = uniform() * 0.1f;
    const crn_linear_row source = {values, scales, mins};
    crn_linear_pack_row(format, w.n, w.k, row, &source, data);
  }
  w.data = data;
  return w;
}

// Rows [first, first + n) through a kernel, where they are among others.
static void run_rows(const crn_linear_kernel *kernel, const crn_linear_weights *w, const float *x, int64_t first, int64_t n, float *out) {
  const int64_t block = crn_linear_row_block(kernel), blocks = (first + n + block - 1) / block;
  size_t row_bytes = crn_linear_row_bytes(kernel->rows_mode, w->k);
  char *rows = aligned(row_bytes * (size_t)(blocks * block));
  void *scratch = aligned(kernel->scratch_bytes ? kernel->scratch_bytes(w->k) : 64);
  for (int64_t r = 0; r < first + n; r++) kernel->prepare(x + r * w->k, w->k, rows + crn_linear_row_offset(kernel, row_bytes, r));
  kernel->run(w, rows + crn_linear_row_offset(kernel, row_bytes, first), row_bytes, n, 0, crn_linear_tiles(w->n), out, LD, scratch);
  free(rows);
  free(scratch);
}

// The first `n` rows through a kernel; row r of all.
static void run_kernel(const crn_linear_kernel *kernel, const crn_linear_weights *w, const float *x, int64_t n, float *out) {
  run_rows(kernel, w, x, 0, n, out);
}

static void check_pair(const crn_linear_kernel *a, const crn_linear_kernel *b, const crn_linear_weights *w, const float *x) {
  static float alone[MOST_ROWS * LD], together[MOST_ROWS * LD];
  const bool is_rowwise = crn_prepared_is_rowwise(a) && crn_prepared_is_rowwise(b);
  for (int64_t n = b->min_rows; n <= MOST_ROWS; n += n < 20 ? 1 : 7) {
    run_kernel(b, w, x, n, together);
    for (int64_t m = a->min_rows; m <= n; m += n) {
      if (m != n && !is_rowwise) continue;
      run_kernel(a, w, x, m, alone);
      for (int64_t r = 0; r < m; r++) {
        if (memcmp(alone + r * LD, together + r * LD, OUTPUTS * sizeof *alone))
          fail_msg("row %d of %d by %s is not that of %d by %s", (int)r, (int)n, b->name, (int)m, a->name);
      }
    }
  }
}

static void test_agreeing_kernels(void **state) {
  (void)state;
  static float x[MOST_ROWS * INPUTS];
  int n, n_pairs = 0;
  const crn_linear_kernel *list = crn_linear_list(&n);
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = uniform();
  for (crn_linear_format format = CRN_LINEAR_Q4; format <= CRN_LINEAR_F32; format++) {
    crn_linear_weights w = make_weights(format);
    for (int i = 0; i < n; i++) {
      for (int k = 0; k < n; k++) {
        if (list[i].format != format || list[k].format != format || list[i].mode != list[k].mode) continue;
        if (((list[i].cpu_bits | list[k].cpu_bits) & ~crn_cpu_bits()) || !crn_prepared_agree(&list[i], &list[k])) continue;
        check_pair(&list[i], &list[k], &w, x);
        n_pairs++;
      }
    }
    free((void *)w.data);
  }
  print_message("%d pairs of kernels agree\n", n_pairs);
  assert_true(n_pairs >= CRN_LINEAR_F32 + 1);
}

// Where the rows of a call begin in a block of prepared rows changes nothing.
static void test_first_rows(void **state) {
  (void)state;
  static float x[MOST_ROWS * INPUTS], whole[MOST_ROWS * LD], part[MOST_ROWS * LD];
  int n;
  const crn_linear_kernel *list = crn_linear_list(&n);
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = uniform();
  for (int i = 0; i < n; i++) {
    const crn_linear_kernel *kernel = &list[i];
    if (kernel->format >= CRN_LINEAR_P1 || (kernel->cpu_bits & ~crn_cpu_bits()) || !crn_prepared_is_rowwise(kernel)) continue;
    crn_linear_weights w = make_weights(kernel->format);
    run_kernel(kernel, &w, x, MOST_ROWS, whole);
    for (int64_t first = 1; MOST_ROWS - first >= kernel->min_rows; first += 5) {
      run_rows(kernel, &w, x, first, MOST_ROWS - first, part);
      for (int64_t r = first; r < MOST_ROWS; r++) {
        if (memcmp(whole + r * LD, part + (r - first) * LD, OUTPUTS * sizeof *whole))
          fail_msg("%s: row %d is another one in a call that begins with row %d", kernel->name, (int)r, (int)first);
      }
    }
    free((void *)w.data);
  }
}

// What is chosen for a few rows of several runs agrees with what each alone would have had.
static void test_joined_kernels(void **state) {
  (void)state;
  for (crn_linear_format format = CRN_LINEAR_Q4; format <= CRN_LINEAR_F32; format++) {
    for (crn_linear_mode mode = CRN_LINEAR_EXACT; mode < CRN_LINEAR_MODES; mode++) {
      const crn_linear_weights w = {.format = format, .n = OUTPUTS, .k = INPUTS};
      for (int64_t alone = 1; alone < 30; alone++) {
        const crn_linear_kernel *one = crn_prepared_select(&w, mode, alone);
        for (int64_t together = alone; together < 200; together += 13) {
          const crn_linear_kernel *all = crn_prepared_join(&w, one, together);
          assert_true(crn_prepared_agree(one, all));
          assert_true((all->cpu_bits & ~crn_cpu_bits()) == 0);
        }
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_agreeing_kernels), cmocka_unit_test(test_first_rows),
                                     cmocka_unit_test(test_joined_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
