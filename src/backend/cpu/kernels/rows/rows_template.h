// The row kernels as plain loops. Each ISA file includes this with its own ROWS_NAME and flags, and the compiler makes vectors of them.
#include <stdint.h>
#include <string.h>

#include "backend/cpu/kernels/rows/rows.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

static inline float exp_of(float x) {
  // The comparisons keep NaN: it fails both.
  x = x > 88.3762626647949f ? 88.3762626647949f : x;
  x = x < -87.3365447505531f ? -87.3365447505531f : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  float shifted = x * 1.44269504088896341f + magic, whole = shifted - magic;
  float r = x - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (int32_t)((uint32_t)(bits - 0x4B400000 + 127) << 23);
  float power;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

void ROWS_NAME(silu)(const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i];
    y[i] = v / (1.0f + exp_of(-v));
  }
}

void ROWS_NAME(residual)(const float *x, const int8_t *quants, const float *scales, float *out, int64_t n) {
  enum { GROUP = 32 };
  int64_t i = 0;
  for (; i + GROUP <= n; i += GROUP) {
    float scale = scales[i / GROUP];
    for (int k = 0; k < GROUP; k++) out[i + k] = x[i + k] - (float)quants[i + k] * scale;
  }
  for (; i < n; i++) out[i] = x[i] - (float)quants[i] * scales[i / GROUP];
}

double ROWS_NAME(squares)(const float *x, int64_t n) {
  enum { LANES = 8 };
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int l = 0; l < LANES; l++) {
      float square = x[i + l] * x[i + l];
      lane[l] += (double)square;
    }
  }
  for (int l = 0; i < n; i++, l++) {
    float square = x[i] * x[i];
    lane[l] += (double)square;
  }
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  }
  return lane[0];
}

void ROWS_NAME(multiply)(const float *a, const float *b, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] * b[i];
}

void ROWS_NAME(add)(const float *a, const float *b, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

void ROWS_NAME(subtract)(const float *a, const float *b, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] - b[i];
}

void ROWS_NAME(scale)(const float *x, float factor, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * factor;
}
