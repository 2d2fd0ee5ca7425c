#include "backend/cpu/kernels/dot/dot.h"
#include "tensor/half.h"

static float widen_f32(const void *b, int64_t i) { return ((const float *)b)[i]; }
static float widen_f16(const void *b, int64_t i) { return crn_f16_to_f32(((const uint16_t *)b)[i]); }
static float widen_bf16(const void *b, int64_t i) { return crn_bf16_to_f32(((const uint16_t *)b)[i]); }

static float fold(float *lanes) {
  for (int half = CRN_DOT_LANES / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

#define SCALAR_DOT(type)                                                                                                          \
  static float pair_##type(const float *a, const void *b, int64_t at, int64_t k) {                                                \
    float lanes[CRN_DOT_LANES] = {0};                                                                                             \
    int64_t i = 0;                                                                                                                \
    for (; i + CRN_DOT_LANES <= k; i += CRN_DOT_LANES) {                                                                          \
      for (int l = 0; l < CRN_DOT_LANES; l++) lanes[l] += a[i + l] * widen_##type(b, at + i + l);                                 \
    }                                                                                                                             \
    for (int l = 0; i < k; i++, l++) lanes[l] += a[i] * widen_##type(b, at + i);                                                  \
    return fold(lanes);                                                                                                           \
  }                                                                                                                               \
  void crn_dot_f32_##type##_f32_6x4__scalar(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, \
                                            float *out) {                                                                         \
    for (int r = 0; r < n_rows; r++) {                                                                                            \
      for (int c = 0; c < n_cols; c++) out[r * CRN_DOT_COLS + c] = pair_##type(a[r], b, c * ldb, k);                              \
    }                                                                                                                             \
  }                                                                                                                               \
  void crn_axpy_f32_##type##_f32_4xn__scalar(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, \
                                             float *const *y) {                                                                   \
    for (int64_t i = 0; i < k; i++) {                                                                                             \
      for (int r = 0; r < n_rows; r++) {                                                                                          \
        float scale = a[r][i], *row = y[r];                                                                                       \
        for (int64_t j = 0; j < n; j++) row[j] += scale * widen_##type(x, i * ldx + j);                                           \
      }                                                                                                                           \
    }                                                                                                                             \
  }

SCALAR_DOT(f32)
SCALAR_DOT(f16)
SCALAR_DOT(bf16)
