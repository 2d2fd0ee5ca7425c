// The tile kernels over vectors of any length. Each ISA file defines the vector (VEC, LANES), what is done with it, how many rows keep
// their sums in registers (ROWS, at most 12) and TILES_NAME, and includes this.
#include <stdbool.h>
#include <stddef.h>

#include "backend/cpu/kernels/tiles/tiles.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define INLINE static inline __attribute__((always_inline))

enum { TILE = 16, VECS = TILE / LANES };

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

// What is done with each input: m rows from x, and as many from y when there are two lines of them. The sums must stay in registers:
// everything is unrolled.
INLINE void add_input(VEC acc[ROWS][2 * VECS], const float *w0, const float *w1, const float *x, const float *y, int64_t step, int m,
                      int n_lines, int n) {
  VEC w[2 * VECS];
  UNROLL for (int v = 0; v < n; v++) w[v] = LOAD_ALIGNED((v < VECS ? w0 : w1) + v % VECS * LANES);
  UNROLL for (int t = 0; t < m; t++) {
    VEC input = SPLAT(x[t * step]);
    UNROLL for (int v = 0; v < n; v++) acc[t][v] = FMA(w[v], input, acc[t][v]);
  }
  UNROLL for (int t = 0; n_lines > 1 && t < m; t++) {
    VEC input = SPLAT(y[t * step]);
    UNROLL for (int v = 0; v < n; v++) acc[m + t][v] = FMA(w[v], input, acc[m + t][v]);
  }
}

// A part of the rows times n_tiles tiles. Weights come from the second-level cache: they are asked for some inputs ahead. Half a cache line
// of the next tiles for each input makes both of them in four parts.
INLINE void rows_times(const float *w0, const float *w1, const crn_tile_rows *r, const float *x, const char *ahead, float *out, int64_t ld,
                       int m, int n_lines, int n_tiles) {
  enum { SOON = 12 * TILE, HALF_LINE = 32 };
  VEC acc[ROWS][2 * VECS];
  const int n = n_tiles * VECS;
  UNROLL for (int t = 0; t < m * n_lines; t++) { UNROLL for (int v = 0; v < n; v++) acc[t][v] = ZERO; }
  for (int run = 0; run < r->n_runs; run++) {
    const float *from = x + r->run_at[run], *end = from + r->length, *second = from + r->line;
    for (; from < end; from++, second++, w0 += TILE, w1 += TILE, ahead += HALF_LINE) {
      __builtin_prefetch(w0 + SOON);
      if (n_tiles > 1) __builtin_prefetch(w1 + SOON);
      __builtin_prefetch(ahead, 0, 2);
      add_input(acc, w0, w1, from, second, r->step, m, n_lines, n);
    }
  }
  UNROLL for (int t = 0; t < m * n_lines; t++) { UNROLL for (int v = 0; v < n; v++) STORE(out + t * ld + v * LANES, acc[t][v]); }
}

typedef void (*rows_fn)(const float *w0, const float *w1, const crn_tile_rows *r, const float *x, const char *ahead, float *out,
                        int64_t ld);

// A function of its own for each number of rows keeps the sums in registers.
#define ROWS_NAMED(name, m, n_lines, n_tiles)                                                                                \
  __attribute__((noinline)) static void name##_##m(const float *w0, const float *w1, const crn_tile_rows *r, const float *x, \
                                                   const char *ahead, float *out, int64_t ld) {                              \
    rows_times(w0, w1, r, x, ahead, out, ld, m, n_lines, n_tiles);                                                           \
  }
#define ROWS_OF(m) ROWS_NAMED(single, m, 1, 1) ROWS_NAMED(pair, m, 1, 2)
#define LINES_OF(m) ROWS_NAMED(single_lines, m, 2, 1) ROWS_NAMED(pair_lines, m, 2, 2)
ROWS_OF(1)
#if ROWS >= 3
ROWS_OF(2)
ROWS_OF(3)
LINES_OF(1)
#endif
#if ROWS >= 14
ROWS_OF(4)
ROWS_OF(5)
ROWS_OF(6)
ROWS_OF(7)
ROWS_OF(8)
ROWS_OF(9)
ROWS_OF(10)
ROWS_OF(11)
ROWS_OF(12)
ROWS_OF(13)
ROWS_OF(14)
LINES_OF(2)
LINES_OF(3)
LINES_OF(4)
LINES_OF(5)
LINES_OF(6)
LINES_OF(7)
#endif

#define ROWS_14(name)                                                                                                                     \
  {                                                                                                                                       \
    name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8, name##_9, name##_10, name##_11, name##_12, name##_13, \
        name##_14                                                                                                                         \
  }
#define ROWS_7(name) \
  { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7 }
#define ROWS_3(name) \
  { name##_1, name##_2, name##_3 }
#define ROWS_1(name) \
  { name##_1 }

// By number of tiles and rows; and those of two lines by the rows of each.
#if ROWS == 14
static const rows_fn g_rows[2][14] = {ROWS_14(single), ROWS_14(pair)}, g_lines[2][7] = {ROWS_7(single_lines), ROWS_7(pair_lines)};
#elif ROWS == 3
static const rows_fn g_rows[2][3] = {ROWS_3(single), ROWS_3(pair)}, g_lines[2][1] = {ROWS_1(single_lines), ROWS_1(pair_lines)};
#else
static const rows_fn g_rows[2][1] = {ROWS_1(single), ROWS_1(pair)};
#endif

// Parts of nearly equal size: a last part of one row would wait for its multiplications.
static void run_rows(const float *w0, const float *w1, const crn_tile_rows *rows, const float *x, int64_t n_rows, const char *ahead,
                     int64_t ahead_step, float *out, int64_t ld) {
  int64_t n_parts = (n_rows + ROWS - 1) / ROWS;
  for (int64_t i = 0; i < n_parts; i++) {
    int64_t begin = n_rows * i / n_parts, end = n_rows * (i + 1) / n_parts;
    g_rows[w1 != w0][end - begin - 1](w0, w1, rows, x + begin * rows->step, ahead + i * ahead_step, out + begin * ld, ld);
  }
}

void TILES_NAME(pair)(const float *w0, const float *w1, const crn_tile_rows *rows, int64_t n_rows, float *out, int64_t ld) {
  // Without anything to ask for, what is there already is.
  const char *ahead = (const char *)(rows->ahead ? rows->ahead : w0);
  int64_t ahead_step = rows->ahead ? rows->n_runs * rows->length * 32 : 0, width = rows->width ? rows->width : n_rows;
  for (int64_t row = 0, i = 0; row < n_rows; i++) {
    int64_t left = n_rows - row < width ? n_rows - row : width;
    const float *x = rows->x + row / width * rows->line;
#if ROWS > 1
    if (2 * width <= ROWS && n_rows - row >= 2 * width) {
      g_lines[w1 != w0][width - 1](w0, w1, rows, x, ahead + i * ahead_step, out + row * ld, ld);
      row += 2 * width;
      continue;
    }
#endif
    run_rows(w0, w1, rows, x, left, ahead + i * ahead_step, ahead_step, out + row * ld, ld);
    row += left;
  }
}

void TILES_NAME(taps)(const float *x, const int64_t *at, int n_taps, const float *w, int64_t n, float *out) {
  int64_t c = 0;
  for (; c + 2 * LANES <= n; c += 2 * LANES) {
    VEC a = ZERO, b = ZERO;
    for (int t = 0; t < n_taps; t++) {
      const float *from = x + at[t] + c, *weight = w + t * n + c;
      a = FMA(LOAD(weight), LOAD(from), a);
      b = FMA(LOAD(weight + LANES), LOAD(from + LANES), b);
    }
    STORE(out + c, a);
    STORE(out + c + LANES, b);
  }
  for (; c < n; c++) {
    float a = 0;
    for (int t = 0; t < n_taps; t++) a = FMA_ONE(w[t * n + c], x[at[t] + c], a);
    out[c] = a;
  }
}

INLINE float positive(float v) { return v > 0 ? v : v != v ? v : 0.0f; }

static void finish_row(const float *sums, int64_t n, const float *bias, const float *added, int relu, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = bias ? sums[i] + bias[i] : sums[i];
  for (int64_t i = 0; added && i < n; i++) out[i] += added[i];
  for (int64_t i = 0; relu && i < n; i++) out[i] = positive(out[i]);
}

// Two tiles of each row, with the bias kept in registers.
INLINE void finish_pairs(const float *sums, int64_t ld, int64_t n_rows, const float *bias, const float *added, int64_t added_step,
                         bool relu, float *out, int64_t out_step) {
  for (int64_t r = 0; r < n_rows; r++, sums += ld, out += out_step, added += added ? added_step : 0) {
    UNROLL for (int i = 0; i < 2 * VECS; i++) {
      VEC v = LOAD(sums + i * LANES);
      if (bias) v = ADD(v, LOAD(bias + i * LANES));
      if (added) v = ADD(v, LOAD(added + i * LANES));
      STORE(out + i * LANES, relu ? POSITIVE(v) : v);
    }
  }
}

void TILES_NAME(finish)(const float *sums, int64_t ld, int64_t n_rows, int64_t n, const float *bias, const float *added, int64_t added_step,
                        int relu, float *out, int64_t out_step) {
  if (n == 2 * TILE && bias && added && relu) {
    finish_pairs(sums, ld, n_rows, bias, added, added_step, true, out, out_step);
  } else if (n == 2 * TILE && bias && added) {
    finish_pairs(sums, ld, n_rows, bias, added, added_step, false, out, out_step);
  } else if (n == 2 * TILE && bias && relu) {
    finish_pairs(sums, ld, n_rows, bias, NULL, 0, true, out, out_step);
  } else if (n == 2 * TILE && bias) {
    finish_pairs(sums, ld, n_rows, bias, NULL, 0, false, out, out_step);
  } else {
    for (int64_t r = 0; r < n_rows; r++)
      finish_row(sums + r * ld, n, bias, added ? added + r * added_step : NULL, relu, out + r * out_step);
  }
}

void TILES_NAME(maximum)(const float *a, const float *b, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] != a[i] || a[i] >= b[i] ? a[i] : b[i];
}
