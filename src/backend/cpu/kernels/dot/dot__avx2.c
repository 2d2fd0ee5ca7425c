#include <immintrin.h>

#include "backend/cpu/kernels/dot/dot.h"

// Everything below is inlined with constant tile sizes, so that accumulators live in registers. The 16 lanes of the
// contract are two registers: lanes 0 to 7 and lanes 8 to 15.
#define INLINE static inline __attribute__((always_inline))

enum { TILE_ROWS = 3, TILE_COLS = 2 };

INLINE __m256 load(const void *b, int64_t i, int type) {
  if (type == CRN_DOT_F32) return _mm256_loadu_ps((const float *)b + i);
  __m128i h = _mm_loadu_si128((const __m128i *)((const uint16_t *)b + i));
  if (type == CRN_DOT_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

// Copies the last elements of a row, fewer than 16, to a block filled up with zeros. The barrier keeps the compiler from
// making a library call of the loop.
INLINE void copy_tail(const void *b, int64_t i, int64_t n, void *block, int type) {
  for (int64_t t = 0; t < n; t++) {
    if (type == CRN_DOT_F32) {
      ((float *)block)[t] = ((const float *)b)[i + t];
    } else {
      ((uint16_t *)block)[t] = ((const uint16_t *)b)[i + t];
    }
    __asm__ volatile("" ::: "memory");
  }
}

INLINE __m128 fold4(__m256 low, __m256 high) {
  __m256 w = _mm256_add_ps(low, high);
  return _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
}

INLINE float fold(__m256 low, __m256 high) {
  __m128 w = fold4(low, high);
  w = _mm_add_ps(w, _mm_movehl_ps(w, w));
  return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}

// One row reads its weights once, straight from memory: it asks for those of the next but one tile while it works, which the
// hardware does not guess from short streams. An address behind the end is harmless.
INLINE void ask_ahead(const void *b, int64_t i, int64_t ahead, int rows, int type) {
  if (rows == 1) _mm_prefetch((const void *)((uintptr_t)b + (uintptr_t)(i * (type == CRN_DOT_F32 ? 4 : 2) + ahead)), _MM_HINT_T0);
}

INLINE void dot_step(const float *const *a, const void *const *b, int64_t i, __m256 acc[][4][2], int rows, int cols, int type) {
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    __m256 w[4];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) w[c] = load(b[c], i + 8 * h, type);
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++) {
      __m256 x = _mm256_loadu_ps(a[r] + i + 8 * h);
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) acc[r][c][h] = _mm256_fmadd_ps(x, w[c], acc[r][c][h]);
    }
  }
}

INLINE void dot_tile(const float *const *a, const void *const *b, int64_t ahead, int64_t k, float *out, int rows, int cols, int type) {
  __m256 acc[TILE_ROWS][4][2];
#pragma GCC unroll 3
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) acc[r][c][0] = acc[r][c][1] = _mm256_setzero_ps();
  }
  int64_t i = 0;
  for (; i + CRN_DOT_LANES <= k; i += CRN_DOT_LANES) {
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) ask_ahead(b[c], i, ahead, rows, type);
    dot_step(a, b, i, acc, rows, cols, type);
  }
  if (i < k) {
    float x[TILE_ROWS][CRN_DOT_LANES] = {{0}}, w[4][CRN_DOT_LANES] = {{0}};
    const float *xs[TILE_ROWS];
    const void *ws[4];
    for (int r = 0; r < rows; r++) copy_tail(a[r], i, k - i, x[r], CRN_DOT_F32), xs[r] = x[r];
    for (int c = 0; c < cols; c++) copy_tail(b[c], i, k - i, w[c], type), ws[c] = w[c];
    dot_step(xs, ws, 0, acc, rows, cols, type);
  }
#pragma GCC unroll 3
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) out[r * CRN_DOT_COLS + c] = fold(acc[r][c][0], acc[r][c][1]);
  }
}

INLINE void dot_cols(const float *const *a, const void *const *b, int64_t ahead, int n_cols, int64_t k, float *out, int rows, int type) {
  int c = 0;
  if (rows == 1 && n_cols == 4) {
    dot_tile(a, b, ahead, k, out, 1, 4, type);
    return;
  }
  for (; c + TILE_COLS <= n_cols; c += TILE_COLS) dot_tile(a, b + c, ahead, k, out + c, rows, TILE_COLS, type);
  if (c < n_cols) dot_tile(a, b + c, ahead, k, out + c, rows, 1, type);
}

INLINE void dot(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, float *out, int type) {
  int64_t step = ldb * (type == CRN_DOT_F32 ? 4 : 2);
  const void *cols[CRN_DOT_COLS];
  for (int c = 0; c < n_cols; c++) cols[c] = (const char *)b + c * step;
  int64_t ahead = 2 * CRN_DOT_COLS * step;
  int r = 0;
  for (; r + 3 <= n_rows; r += 3) dot_cols(a + r, cols, ahead, n_cols, k, out + r * CRN_DOT_COLS, 3, type);
  if (n_rows - r == 2) dot_cols(a + r, cols, ahead, n_cols, k, out + r * CRN_DOT_COLS, 2, type);
  if (n_rows - r == 1) dot_cols(a + r, cols, ahead, n_cols, k, out + r * CRN_DOT_COLS, 1, type);
}

// One tile of axpy: `vectors` registers of 8 columns from column j on, for all k.
INLINE void axpy_tile(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t j, float *const *y, int rows, int vectors,
                      int type) {
  __m256 acc[CRN_AXPY_ROWS][8];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) acc[r][v] = _mm256_loadu_ps(y[r] + j + 8 * v);
  }
  for (int64_t i = 0; i < k; i++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      __m256 w = load(x, i * ldx + j + 8 * v, type);
      ask_ahead(x, (i + 16) * ldx + j + 8 * v, 0, rows, type);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) acc[r][v] = _mm256_fmadd_ps(_mm256_set1_ps(a[r][i]), w, acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) _mm256_storeu_ps(y[r] + j + 8 * v, acc[r][v]);
  }
}

// The last columns, fewer than 8, one at a time.
INLINE void axpy_tail(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t j, int64_t n, float *const *y, int rows,
                      int type) {
  for (int r = 0; r < rows; r++) {
    for (int64_t t = j; t < n; t++) {
      __m128 acc = _mm_set_ss(y[r][t]);
      for (int64_t i = 0; i < k; i++) {
        __m128 w;
        if (type == CRN_DOT_F32) {
          w = _mm_set_ss(((const float *)x)[i * ldx + t]);
        } else if (type == CRN_DOT_F16) {
          w = _mm_cvtph_ps(_mm_cvtsi32_si128(((const uint16_t *)x)[i * ldx + t]));
        } else {
          w = _mm_castsi128_ps(_mm_cvtsi32_si128((int)((uint32_t)((const uint16_t *)x)[i * ldx + t] << 16)));
        }
        acc = _mm_fmadd_ss(_mm_set_ss(a[r][i]), w, acc);
      }
      y[r][t] = _mm_cvtss_f32(acc);
    }
  }
}

INLINE void axpy_rows(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t n, float *const *y, int rows, int type) {
  int64_t j = 0;
  if (rows == 1) {
    for (; j + 64 <= n; j += 64) axpy_tile(a, x, ldx, k, j, y, rows, 8, type);
  }
  if (rows <= 2) {
    for (; j + 32 <= n; j += 32) axpy_tile(a, x, ldx, k, j, y, rows, 4, type);
  }
  for (; j + 16 <= n; j += 16) axpy_tile(a, x, ldx, k, j, y, rows, 2, type);
  for (; j + 8 <= n; j += 8) axpy_tile(a, x, ldx, k, j, y, rows, 1, type);
  if (j < n) axpy_tail(a, x, ldx, k, j, n, y, rows, type);
}

INLINE void axpy(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, float *const *y, int type) {
  switch (n_rows) {
    case 1:
      axpy_rows(a, x, ldx, k, n, y, 1, type);
      break;
    case 2:
      axpy_rows(a, x, ldx, k, n, y, 2, type);
      break;
    case 3:
      axpy_rows(a, x, ldx, k, n, y, 3, type);
      break;
    default:
      axpy_rows(a, x, ldx, k, n, y, 4, type);
      break;
  }
}

#define DEFINE(name, type)                                                                                                      \
  void crn_dot_f32_##name##_f32_6x4__avx2(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, \
                                          float *out) {                                                                         \
    dot(a, n_rows, b, ldb, n_cols, k, out, type);                                                                               \
  }                                                                                                                             \
  void crn_axpy_f32_##name##_f32_4xn__avx2(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, \
                                           float *const *y) {                                                                   \
    axpy(a, n_rows, x, ldx, k, n, y, type);                                                                                     \
  }

DEFINE(f32, CRN_DOT_F32)
DEFINE(f16, CRN_DOT_F16)
DEFINE(bf16, CRN_DOT_BF16)
