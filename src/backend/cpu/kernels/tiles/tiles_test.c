// Tile kernels: every set the processor has against f64, and the sets with FMA against one another, bit by bit.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/tiles/tiles.h"
#include "base/cpu.h"

enum { TILE = 16, PAIR = 2 * TILE, MOST_ROWS = 60, MOST_K = 200, VALUES = 1 << 14, CHANNELS = 83 };

static float g_x[VALUES], g_bias[CHANNELS], g_added[MOST_ROWS * CHANNELS];
static _Alignas(64) float g_w[2 * MOST_K * TILE];

static float noise(void) {
  static uint32_t seed = 5;
  seed = seed * 1664525u + 1013904223u;
  return (float)(int32_t)seed / 2147483648.0f;
}

static int fill(void **state) {
  (void)state;
  for (int i = 0; i < VALUES; i++) g_x[i] = noise();
  for (int i = 0; i < 2 * MOST_K * TILE; i++) g_w[i] = noise();
  for (int i = 0; i < CHANNELS; i++) g_bias[i] = noise();
  for (int i = 0; i < MOST_ROWS * CHANNELS; i++) g_added[i] = noise();
  return 0;
}

typedef struct shape {
  int64_t rows, step, width, line, length;
  int n_runs;
  int64_t run_at[4];
} shape;

// What the kernel is to give, in f64.
static double expected_at(const shape *s, const float *w0, const float *w1, int64_t row, int column) {
  int64_t width = s->width ? s->width : s->rows, base = row / width * s->line + row % width * s->step, k = 0;
  double sum = 0;
  for (int run = 0; run < s->n_runs; run++) {
    for (int64_t i = 0; i < s->length; i++, k++)
      sum += (double)g_x[base + s->run_at[run] + i] * (double)(column < TILE ? w0 : w1)[k * TILE + column % TILE];
  }
  return sum;
}

static void check_shape(const shape *s, int n_tiles) {
  static float out[MOST_ROWS * PAIR + 1], first[MOST_ROWS * PAIR];
  int n_sets, ran = 0;
  const crn_tile_kernels *sets = crn_tiles_list(&n_sets);
  int64_t k = s->n_runs * s->length;
  const float *w0 = g_w, *w1 = n_tiles == 2 ? g_w + k * TILE : g_w;
  crn_tile_rows rows = {.x = g_x, .step = s->step, .width = s->width, .line = s->line, .length = s->length, .n_runs = s->n_runs};
  rows.run_at = s->run_at;
  for (int i = 0; i < n_sets; i++) {
    if (sets[i].isa & ~crn_cpu_bits()) continue;
    for (int ahead = 0; ahead < 2; ahead++) {
      rows.ahead = ahead ? g_w : NULL;
      for (int j = 0; j <= MOST_ROWS * PAIR; j++) out[j] = 77;
      sets[i].pair(w0, w1, &rows, s->rows, out, PAIR);
      for (int64_t r = 0; r < s->rows; r++) {
        for (int c = 0; c < PAIR; c++) {
          double want = c < n_tiles * TILE ? expected_at(s, w0, w1, r, c) : 77;
          if (!(fabs((double)out[r * PAIR + c] - want) <= 1e-4))
            fail_msg("%s: row %d of %d, column %d: %g, not %g", sets[i].name, (int)r, (int)s->rows, c, (double)out[r * PAIR + c], want);
        }
      }
      assert_true(out[s->rows * PAIR] == 77);
      if (!sets[i].isa) continue;
      if (!ran++) memcpy(first, out, sizeof first);
      assert_memory_equal(first, out, (size_t)(s->rows * PAIR) * sizeof *out);
    }
  }
}

static void rows_of_a_matrix(void **state) {
  (void)state;
  for (int64_t rows = 1; rows <= MOST_ROWS; rows++) {
    for (int64_t k = 1; k <= MOST_K; k += 66) check_shape(&(shape){rows, 201, 0, 0, k, 1, {0}}, rows % 2 ? 2 : 1);
  }
}

// Rows of windows: several runs, and lines that are followed by others at another distance.
static void rows_of_windows(void **state) {
  (void)state;
  for (int64_t width = 1; width <= 17; width++) {
    for (int64_t lines = 1; lines * width <= MOST_ROWS; lines++) {
      shape s = {lines * width, 5, width, 5 * (width + 2), 15, 3, {0, 5 * (width + 2), 10 * (width + 2)}};
      check_shape(&s, width % 3 ? 2 : 1);
    }
  }
}

static void channels_by_themselves(void **state) {
  (void)state;
  static const int64_t at[] = {0, 100, 7, 300, 1000};
  float out[CHANNELS + 1];
  int n_sets;
  const crn_tile_kernels *sets = crn_tiles_list(&n_sets);
  for (int i = 0; i < n_sets; i++) {
    if (sets[i].isa & ~crn_cpu_bits()) continue;
    for (int64_t n = 0; n <= CHANNELS; n++) {
      out[n] = 77;
      sets[i].taps(g_x, at, 5, g_w, n, out);
      for (int64_t c = 0; c < n; c++) {
        double want = 0;
        for (int t = 0; t < 5; t++) want += (double)g_x[at[t] + c] * (double)g_w[t * n + c];
        assert_true(fabs((double)out[c] - want) <= 1e-5);
      }
      assert_true(out[n] == 77);
    }
  }
}

static void sums_are_finished(void **state) {
  (void)state;
  static float out[MOST_ROWS * CHANNELS];
  static const int64_t widths[] = {1, 15, 16, 31, 32, 33, CHANNELS};
  int n_sets;
  const crn_tile_kernels *sets = crn_tiles_list(&n_sets);
  for (int i = 0; i < n_sets; i++) {
    if (sets[i].isa & ~crn_cpu_bits()) continue;
    for (int form = 0; form < 8 * 7; form++) {
      int64_t n = widths[form / 8], rows = 5;
      const float *bias = form & 1 ? g_bias : NULL, *added = form & 2 ? g_added : NULL;
      sets[i].finish(g_x, CHANNELS, rows, n, bias, added, n + 1, (form & 4) != 0, out, n);
      for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < n; c++) {
          float want = g_x[r * CHANNELS + c];
          if (bias) want += bias[c];
          if (added) want += added[r * (n + 1) + c];
          if (form & 4) want = want > 0 ? want : 0;
          assert_true(out[r * n + c] == want);
        }
      }
    }
    // NaN stays, and what is negative becomes +0, in every lane.
    for (int64_t n = 1; n <= PAIR; n += 31) {
      float special[PAIR], zeros[PAIR] = {0};
      for (int64_t c = 0; c < n; c++) special[c] = c % 3 == 0 ? NAN : c % 3 == 1 ? -0.0f : -INFINITY;
      sets[i].finish(special, n, 1, n, zeros, NULL, 0, 1, out, n);
      for (int64_t c = 0; c < n; c++) assert_true(c % 3 == 0 ? isnan(out[c]) : out[c] == 0 && !signbit(out[c]));
    }
  }
}

static void maxima_keep_nan(void **state) {
  (void)state;
  float a[40], b[40], out[40];
  int n_sets;
  const crn_tile_kernels *sets = crn_tiles_list(&n_sets);
  for (int i = 0; i < 40; i++) {
    a[i] = i % 5 == 1 ? NAN : noise();
    b[i] = i % 5 == 2 ? NAN : noise();
  }
  for (int i = 0; i < n_sets; i++) {
    if (sets[i].isa & ~crn_cpu_bits()) continue;
    sets[i].maximum(a, b, out, 40);
    for (int k = 0; k < 40; k++) assert_true(k % 5 == 1 || k % 5 == 2 ? isnan(out[k]) : out[k] == (a[k] > b[k] ? a[k] : b[k]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_a_matrix),  cmocka_unit_test(rows_of_windows), cmocka_unit_test(channels_by_themselves),
      cmocka_unit_test(sums_are_finished), cmocka_unit_test(maxima_keep_nan),
  };
  return cmocka_run_group_tests(tests, fill, NULL);
}
