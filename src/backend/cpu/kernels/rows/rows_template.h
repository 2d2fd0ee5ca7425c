// The row kernels as plain loops, of which the compiler makes vectors, and the gates as vectors of ROWS_LANES numbers in the compiler's own
// notation. Each ISA file includes this with its own ROWS_NAME, ROWS_LANES and flags.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/kernels/rows/rows.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define INLINE static inline __attribute__((always_inline))

// --- gates ------------------------------------------------------------------------------------------------------------------

typedef float vec __attribute__((vector_size(4 * ROWS_LANES)));
typedef int32_t bits __attribute__((vector_size(4 * ROWS_LANES)));

enum { PAIR = 16 };

INLINE vec load(const float *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}

INLINE void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

INLINE vec all(float x) { return x - (vec){0}; }

// Where the mask has ones `a`, else `b`. Ternaries on numbers would let the compiler compute whole paths once for each outcome.
INLINE vec pick(bits mask, vec a, vec b) { return (vec)(((bits)a & mask) | ((bits)b & ~mask)); }

INLINE vec exp_of(vec x) {
  // The comparisons keep NaN: it fails both.
  x = pick(x > 88.3762626647949f, all(88.3762626647949f), x);
  x = pick(x < -87.3365447505531f, all(-87.3365447505531f), x);
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  vec shifted = x * 1.44269504088896341f + magic, whole = shifted - magic;
  vec r = x - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  vec p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * (vec)(((bits)shifted - (0x4B400000 - 127)) << 23);
}

// x times the share of a normal distribution below x. The complement of the error function is t * exp(polynomial of t - z * z) with
// t = 1 / (1 + z / 2), fitted for z from 0 to 14; it is as small as it should be far to the left.
INLINE vec gelu(vec x) {
  static const float terms[] = {0.165509898f,  -0.791463094f, 1.4132031f,   -1.03165751f, 0.1914623f,
                                -0.139631482f, 0.0811646084f, 0.377223408f, 0.999686355f, -1.26549752f};
  bits is_left = x < 0.0f;
  vec z = pick(is_left, -x, x) * 0.70710678118654752f;
  z = pick(z > 14.0f, all(14.0f), z);
  vec t = 1.0f / (1.0f + 0.5f * z), p = all(terms[0]);
#pragma GCC unroll 9
  for (int i = 1; i < 10; i++) p = p * t + terms[i];
  vec beyond = 0.5f * (t * exp_of(p - z * z)), share = pick(is_left, beyond, 1.0f - beyond);
  // Left of everything the share is none, and so is the product; only NaN stays.
  return pick(x < -14.0f, all(-0.0f), x * share);
}

INLINE vec gate_of(crn_gate gate, vec x) {
  if (gate == CRN_GATE_GELU) return gelu(x);
  vec z = x;
  if (gate == CRN_GATE_GELU_TANH) z = 1.59576912160573072f * (x + 0.044715f * x * x * x);
  if (gate == CRN_GATE_GELU_SIGMOID) z = 1.702f * x;
  // Far to the left x grows on where exp does not.
  return pick(z < -87.0f, all(-0.0f), x / (1.0f + exp_of(-z)));
}

INLINE void activate_all(crn_gate gate, const float *x, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + ROWS_LANES <= n; i += ROWS_LANES) store(y + i, gate_of(gate, load(x + i)));
  if (i == n) return;
  float rest[ROWS_LANES] = {0};
  memcpy(rest, x + i, (size_t)(n - i) * sizeof *rest);
  store(rest, gate_of(gate, load(rest)));
  memcpy(y + i, rest, (size_t)(n - i) * sizeof *rest);
}

INLINE void gate_all(crn_gate gate, const float *x, float *out, int64_t n_pairs) {
  for (int64_t i = 0; i < n_pairs; i++, x += 2 * PAIR, out += PAIR) {
    for (int l = 0; l < PAIR; l += ROWS_LANES) store(out + l, gate_of(gate, load(x + l)) * load(x + PAIR + l));
  }
}

// A loop for each gate, so that none is chosen inside.
#define FOR_GATE(gate, call, ...)               \
  switch (gate) {                               \
    case CRN_GATE_SILU:                         \
      call(CRN_GATE_SILU, __VA_ARGS__);         \
      break;                                    \
    case CRN_GATE_GELU:                         \
      call(CRN_GATE_GELU, __VA_ARGS__);         \
      break;                                    \
    case CRN_GATE_GELU_TANH:                    \
      call(CRN_GATE_GELU_TANH, __VA_ARGS__);    \
      break;                                    \
    case CRN_GATE_GELU_SIGMOID:                 \
      call(CRN_GATE_GELU_SIGMOID, __VA_ARGS__); \
      break;                                    \
  }

void ROWS_NAME(activate)(crn_gate gate, const float *x, float *y, int64_t n) { FOR_GATE(gate, activate_all, x, y, n) }

void ROWS_NAME(gate_pairs)(crn_gate gate, const float *x, float *out, int64_t n_pairs) { FOR_GATE(gate, gate_all, x, out, n_pairs) }

// --- plain loops ------------------------------------------------------------------------------------------------------------

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

void ROWS_NAME(scale_by)(const float *x, float factor, const float *scale, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * factor * scale[i];
}

void ROWS_NAME(turn)(const float *cosines, const float *sines, const float *x, const float *y, float *products, int64_t n) {
  float *__restrict p = products;
  for (int64_t i = 0; i < n; i++) p[i] = cosines[i] * x[i];
  for (int64_t i = 0; i < n; i++) p[n + i] = sines[i] * y[i];
  for (int64_t i = 0; i < n; i++) p[2 * n + i] = sines[i] * x[i];
  for (int64_t i = 0; i < n; i++) p[3 * n + i] = cosines[i] * y[i];
}

void ROWS_NAME(end_turn)(const float *products, float *first, float *second, int64_t n) {
  for (int64_t i = 0; i < n; i++) first[i] = products[i] - products[n + i];
  for (int64_t i = 0; i < n; i++) second[i] = products[2 * n + i] + products[3 * n + i];
}
