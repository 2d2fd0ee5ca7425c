#include <arm_neon.h>

#include "backend/cpu/kernels/dot/dot.h"

// The 16 lanes of the contract are four registers: lanes 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
#define INLINE static inline __attribute__((always_inline))

enum { TILE_ROWS = 2, TILE_COLS = 2, QUADS = 4 };

INLINE float32x4_t load(const void *b, int64_t i, int type) {
  if (type == CRN_DOT_F32) return vld1q_f32((const float *)b + i);
  uint16x4_t h = vld1_u16((const uint16_t *)b + i);
  if (type == CRN_DOT_F16) return vcvt_f32_f16(vreinterpret_f16_u16(h));
  return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
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

INLINE float fold(const float32x4_t *v) {
  float32x4_t w = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
  float32x2_t p = vadd_f32(vget_low_f32(w), vget_high_f32(w));
  return vget_lane_f32(p, 0) + vget_lane_f32(p, 1);
}

INLINE void dot_step(const float *const *a, const void *const *b, int64_t i, float32x4_t acc[][TILE_COLS][QUADS], int rows, int cols,
                     int type) {
#pragma GCC unroll 4
  for (int q = 0; q < QUADS; q++) {
    float32x4_t w[TILE_COLS];
#pragma GCC unroll 2
    for (int c = 0; c < cols; c++) w[c] = load(b[c], i + 4 * q, type);
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
      float32x4_t x = vld1q_f32(a[r] + i + 4 * q);
#pragma GCC unroll 2
      for (int c = 0; c < cols; c++) acc[r][c][q] = vfmaq_f32(acc[r][c][q], x, w[c]);
    }
  }
}

INLINE void dot_tile(const float *const *a, const void *const *b, int64_t k, float *out, int rows, int cols, int type) {
  float32x4_t acc[TILE_ROWS][TILE_COLS][QUADS];
#pragma GCC unroll 2
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int c = 0; c < cols; c++) {
#pragma GCC unroll 4
      for (int q = 0; q < QUADS; q++) acc[r][c][q] = vdupq_n_f32(0);
    }
  }
  int64_t i = 0;
  for (; i + CRN_DOT_LANES <= k; i += CRN_DOT_LANES) dot_step(a, b, i, acc, rows, cols, type);
  if (i < k) {
    float x[TILE_ROWS][CRN_DOT_LANES] = {{0}}, w[TILE_COLS][CRN_DOT_LANES] = {{0}};
    const float *xs[TILE_ROWS];
    const void *ws[TILE_COLS];
    for (int r = 0; r < rows; r++) copy_tail(a[r], i, k - i, x[r], CRN_DOT_F32), xs[r] = x[r];
    for (int c = 0; c < cols; c++) copy_tail(b[c], i, k - i, w[c], type), ws[c] = w[c];
    dot_step(xs, ws, 0, acc, rows, cols, type);
  }
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < cols; c++) out[r * CRN_DOT_COLS + c] = fold(acc[r][c]);
  }
}

INLINE void dot_cols(const float *const *a, const void *const *b, int n_cols, int64_t k, float *out, int rows, int type) {
  int c = 0;
  for (; c + TILE_COLS <= n_cols; c += TILE_COLS) dot_tile(a, b + c, k, out + c, rows, TILE_COLS, type);
  if (c < n_cols) dot_tile(a, b + c, k, out + c, rows, 1, type);
}

INLINE void dot(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, float *out, int type) {
  int64_t step = ldb * (type == CRN_DOT_F32 ? 4 : 2);
  const void *cols[CRN_DOT_COLS];
  for (int c = 0; c < n_cols; c++) cols[c] = (const char *)b + c * step;
  int r = 0;
  for (; r + TILE_ROWS <= n_rows; r += TILE_ROWS) dot_cols(a + r, cols, n_cols, k, out + r * CRN_DOT_COLS, TILE_ROWS, type);
  if (r < n_rows) dot_cols(a + r, cols, n_cols, k, out + r * CRN_DOT_COLS, 1, type);
}

// One tile of axpy: `vectors` registers of 4 columns from column j on, for all k.
INLINE void axpy_tile(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t j, float *const *y, int rows, int vectors,
                      int type) {
  float32x4_t acc[CRN_AXPY_ROWS][8];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) acc[r][v] = vld1q_f32(y[r] + j + 4 * v);
  }
  for (int64_t i = 0; i < k; i++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      float32x4_t w = load(x, i * ldx + j + 4 * v, type);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) acc[r][v] = vfmaq_n_f32(acc[r][v], w, a[r][i]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) vst1q_f32(y[r] + j + 4 * v, acc[r][v]);
  }
}

// The last columns, fewer than 4, one at a time.
INLINE void axpy_tail(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t j, int64_t n, float *const *y, int rows,
                      int type) {
  for (int r = 0; r < rows; r++) {
    for (int64_t t = j; t < n; t++) {
      float32x2_t acc = vdup_n_f32(y[r][t]);
      for (int64_t i = 0; i < k; i++) {
        float32x2_t w;
        if (type == CRN_DOT_F32) {
          w = vdup_n_f32(((const float *)x)[i * ldx + t]);
        } else if (type == CRN_DOT_F16) {
          w = vget_low_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(((const uint16_t *)x)[i * ldx + t]))));
        } else {
          w = vreinterpret_f32_u32(vdup_n_u32((uint32_t)((const uint16_t *)x)[i * ldx + t] << 16));
        }
        acc = vfma_n_f32(acc, w, a[r][i]);
      }
      y[r][t] = vget_lane_f32(acc, 0);
    }
  }
}

INLINE void axpy_rows(const float *const *a, const void *x, int64_t ldx, int64_t k, int64_t n, float *const *y, int rows, int type) {
  int64_t j = 0;
  if (rows == 1) {
    for (; j + 32 <= n; j += 32) axpy_tile(a, x, ldx, k, j, y, rows, 8, type);
  }
  for (; j + 16 <= n; j += 16) axpy_tile(a, x, ldx, k, j, y, rows, 4, type);
  for (; j + 4 <= n; j += 4) axpy_tile(a, x, ldx, k, j, y, rows, 1, type);
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
  void crn_dot_f32_##name##_f32_6x4__neon(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, \
                                          float *out) {                                                                         \
    dot(a, n_rows, b, ldb, n_cols, k, out, type);                                                                               \
  }                                                                                                                             \
  void crn_axpy_f32_##name##_f32_4xn__neon(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, \
                                           float *const *y) {                                                                   \
    axpy(a, n_rows, x, ldx, k, n, y, type);                                                                                     \
  }

DEFINE(f32, CRN_DOT_F32)
DEFINE(f16, CRN_DOT_F16)
DEFINE(bf16, CRN_DOT_BF16)
