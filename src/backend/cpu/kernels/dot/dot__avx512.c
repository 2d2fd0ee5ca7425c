#include <immintrin.h>

#include "backend/cpu/kernels/dot/dot.h"

// Everything below is inlined with constant tile sizes, so that accumulators live in registers.
#define INLINE static inline __attribute__((always_inline))

INLINE __m512 load(const void *b, int64_t i, int type) {
  if (type == CRN_DOT_F32) return _mm512_loadu_ps((const float *)b + i);
  __m256i h = _mm256_loadu_si256((const __m256i *)((const uint16_t *)b + i));
  if (type == CRN_DOT_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE __m512 load_some(const void *b, int64_t i, __mmask16 mask, int type) {
  if (type == CRN_DOT_F32) return _mm512_maskz_loadu_ps(mask, (const float *)b + i);
  __m256i h = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)b + i);
  if (type == CRN_DOT_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE __m128 fold4(__m512 v) {
  __m256 w = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
}

INLINE float fold(__m512 v) {
  __m128 w = fold4(v);
  w = _mm_add_ps(w, _mm_movehl_ps(w, w));
  return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}

// Folds four accumulators at once; each result is added up in the same order as by fold().
INLINE __m128 fold_four(const __m512 *v) {
  __m128 a = fold4(v[0]), b = fold4(v[1]), c = fold4(v[2]), d = fold4(v[3]);
  __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
  __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
  return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

// One row reads its weights once, straight from memory: it asks for those of the next but one tile while it works, which the
// hardware does not guess from short streams. An address behind the end is harmless.
INLINE void ask_ahead(const void *b, int64_t i, int64_t ahead, int rows, int type) {
  if (rows == 1) _mm_prefetch((const void *)((uintptr_t)b + (uintptr_t)(i * (type == CRN_DOT_F32 ? 4 : 2) + ahead)), _MM_HINT_T0);
}

INLINE void dot_tile(const float *const *a, const void *const *b, int64_t ahead, int64_t k, float *out, int rows, int cols, int type) {
  __m512 acc[CRN_DOT_ROWS][CRN_DOT_COLS];
#pragma GCC unroll 6
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) acc[r][c] = _mm512_setzero_ps();
  }
  int64_t i = 0;
  for (; i + CRN_DOT_LANES <= k; i += CRN_DOT_LANES) {
    __m512 w[CRN_DOT_COLS];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) {
      w[c] = load(b[c], i, type);
      ask_ahead(b[c], i, ahead, rows, type);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
      __m512 x = _mm512_loadu_ps(a[r] + i);
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) acc[r][c] = _mm512_fmadd_ps(x, w[c], acc[r][c]);
    }
  }
  if (i < k) {
    __mmask16 mask = (__mmask16)((1u << (k - i)) - 1);
    __m512 w[CRN_DOT_COLS];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) w[c] = load_some(b[c], i, mask, type);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
      __m512 x = _mm512_maskz_loadu_ps(mask, a[r] + i);
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) acc[r][c] = _mm512_fmadd_ps(x, w[c], acc[r][c]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; r++) {
    if (cols == 4) {
      _mm_storeu_ps(out + r * CRN_DOT_COLS, fold_four(acc[r]));
    } else {
      out[r * CRN_DOT_COLS] = fold(acc[r][0]);
    }
  }
}

INLINE void dot_rows(const float *const *a, int n_rows, const void *const *b, int64_t ahead, int64_t k, float *out, int cols, int type) {
  switch (n_rows) {
    case 1:
      dot_tile(a, b, ahead, k, out, 1, cols, type);
      break;
    case 2:
      dot_tile(a, b, ahead, k, out, 2, cols, type);
      break;
    case 3:
      dot_tile(a, b, ahead, k, out, 3, cols, type);
      break;
    case 4:
      dot_tile(a, b, ahead, k, out, 4, cols, type);
      break;
    case 5:
      dot_tile(a, b, ahead, k, out, 5, cols, type);
      break;
    default:
      dot_tile(a, b, ahead, k, out, 6, cols, type);
      break;
  }
}

INLINE void dot(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, float *out, int type) {
  int64_t step = ldb * (type == CRN_DOT_F32 ? 4 : 2);
  const void *cols[CRN_DOT_COLS];
  for (int c = 0; c < n_cols; c++) cols[c] = (const char *)b + c * step;
  if (n_cols == CRN_DOT_COLS) {
    dot_rows(a, n_rows, cols, 2 * CRN_DOT_COLS * step, k, out, CRN_DOT_COLS, type);
  } else {
    for (int c = 0; c < n_cols; c++) dot_rows(a, n_rows, cols + c, 2 * CRN_DOT_COLS * step, k, out + c, 1, type);
  }
}

// One tile of axpy: `vectors` registers of 16 columns from column j on, for all k.
INLINE void axpy_tile(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t j, float *const *y, int rows, int vectors,
                      int type) {
  __m512 acc[CRN_AXPY_ROWS][8];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) acc[r][v] = _mm512_loadu_ps(y[r] + j + 16 * v);
  }
  for (int64_t i = 0; i < k; i++) {
    __m512 w[8];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      w[v] = load(x, i * ldx + j + 16 * v, type);
      ask_ahead(x, (i + 16) * ldx + j + 16 * v, 0, rows, type);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      __m512 scale = _mm512_set1_ps(a[r][i]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) acc[r][v] = _mm512_fmadd_ps(scale, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) _mm512_storeu_ps(y[r] + j + 16 * v, acc[r][v]);
  }
}

INLINE void axpy_tail(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t j, int64_t n, float *const *y, int rows,
                      int type) {
  __mmask16 mask = (__mmask16)((1u << (n - j)) - 1);
  __m512 acc[CRN_AXPY_ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) acc[r] = _mm512_maskz_loadu_ps(mask, y[r] + j);
  for (int64_t i = 0; i < k; i++) {
    __m512 w = load_some(x, i * ldx + j, mask, type);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[r][i]), w, acc[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) _mm512_mask_storeu_ps(y[r] + j, mask, acc[r]);
}

INLINE void axpy_rows(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t n, float *const *y, int rows, int type) {
  int64_t j = 0;
  if (rows == 1) {
    for (; j + 128 <= n; j += 128) axpy_tile(a, x, ldx, k, j, y, rows, 8, type);
  }
  for (; j + 64 <= n; j += 64) axpy_tile(a, x, ldx, k, j, y, rows, 4, type);
  for (; j + 16 <= n; j += 16) axpy_tile(a, x, ldx, k, j, y, rows, 1, type);
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

#define DEFINE(name, type)                                                                                                        \
  void crn_dot_f32_##name##_f32_6x4__avx512(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, \
                                            float *out) {                                                                         \
    dot(a, n_rows, b, ldb, n_cols, k, out, type);                                                                                 \
  }                                                                                                                               \
  void crn_axpy_f32_##name##_f32_4xn__avx512(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, \
                                             float *const *y) {                                                                   \
    axpy(a, n_rows, x, ldx, k, n, y, type);                                                                                       \
  }

DEFINE(f32, CRN_DOT_F32)
DEFINE(f16, CRN_DOT_F16)
DEFINE(bf16, CRN_DOT_BF16)
