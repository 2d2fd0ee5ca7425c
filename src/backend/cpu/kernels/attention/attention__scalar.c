#include "backend/cpu/kernels/attention/parts.h"
#include "tensor/half.h"

enum { LANES = CRN_ATTENTION_LANES, BLOCK = CRN_ATTENTION_BLOCK, HEAD = CRN_ATTENTION_HEAD };

static float load_f32(const void *b, int64_t i) { return ((const float *)b)[i]; }
static float load_f16(const void *b, int64_t i) { return crn_f16_to_f32(((const uint16_t *)b)[i]); }
static float load_bf16(const void *b, int64_t i) { return crn_bf16_to_f32(((const uint16_t *)b)[i]); }

#define ALIVE(name, type, excluded)                                  \
  static uint64_t alive_##name(const void *mask, int n) {            \
    const type *m = mask;                                            \
    uint64_t bits = 0;                                               \
    for (int i = 0; i < n; i++) bits |= (uint64_t) !(excluded) << i; \
    return bits;                                                     \
  }

ALIVE(f32, float, m[i] <= CRN_ATTENTION_DEAD)
ALIVE(f16, uint16_t, m[i] >= CRN_ATTENTION_DEAD_F16 && m[i] <= CRN_ATTENTION_LOWEST_F16)
ALIVE(bf16, uint16_t, m[i] >= CRN_ATTENTION_DEAD_BF16 && m[i] <= CRN_ATTENTION_LOWEST_BF16)
ALIVE(bool, uint8_t, m[i] == 0)

static float fold(float *lanes) {
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

#define LOOPS(type)                                                                                                                        \
  static void widen_##type(const void *source, int64_t ld, int64_t n, int64_t d, float *target) {                                          \
    int64_t padded = (d + LANES - 1) / LANES * LANES;                                                                                      \
    for (int64_t r = 0; r < n; r++) {                                                                                                      \
      for (int64_t i = 0; i < padded; i++) target[r * padded + i] = i < d ? load_##type(source, r * ld + i) : 0;                           \
    }                                                                                                                                      \
  }                                                                                                                                        \
  static void score_##type(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d, const void *ahead, \
                           float *out) {                                                                                                   \
    (void)ahead;                                                                                                                           \
    for (int r = 0; r < n_items; r++) {                                                                                                    \
      for (int c = 0; c < n_cols; c++) {                                                                                                   \
        float lanes[LANES] = {0};                                                                                                          \
        for (int64_t i = 0; i < d; i++) lanes[i % LANES] += q[r * ldq + i] * load_##type(k, c * ldk + i);                                  \
        out[r * BLOCK + c] = fold(lanes);                                                                                                  \
      }                                                                                                                                    \
    }                                                                                                                                      \
  }                                                                                                                                        \
  static void add_##type(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead, float *sums,    \
                         int64_t ld_sums) {                                                                                                \
    (void)ahead;                                                                                                                           \
    for (int64_t c = 0; c < n; c++) {                                                                                                      \
      for (int r = 0; r < n_items; r++) {                                                                                                  \
        float weight = p[r * BLOCK + c], *row = sums + r * ld_sums;                                                                        \
        for (int64_t i = 0; i < d; i++) row[i] += weight * load_##type(v, c * ldv + i);                                                    \
      }                                                                                                                                    \
    }                                                                                                                                      \
  }

LOOPS(f32)
LOOPS(f16)
LOOPS(bf16)

static float exp_down(float x) {
  if (x != x) return x;
  if (x < CRN_EXP_LOWEST) return 0;
  float t = x * CRN_EXP_LOG2E + CRN_EXP_ROUNDER, n = t - CRN_EXP_ROUNDER;
  float r = x - n * CRN_EXP_LN2_HIGH - n * CRN_EXP_LN2_LOW;
  float q = (((CRN_EXP_Q4 * r + CRN_EXP_Q3) * r + CRN_EXP_Q2) * r + CRN_EXP_Q1) * r + CRN_EXP_Q0;
  return crn_f32_from_bits(crn_f32_bits(r * r * q + r + 1) + (crn_f32_bits(t) << 23));
}

static void soften(float *scores, const uint64_t *live, int n_items, float *states, int64_t ld_state, int64_t n_sums) {
  for (int i = 0; i < n_items; i++) {
    float *s = scores + i * BLOCK, *state = states + i * ld_state, before = state[CRN_STATE_TOP], top = before, lanes[LANES] = {0};
    for (int c = 0; c < BLOCK; c++) {
      if (live[i] >> c & 1 && s[c] > top) top = s[c];
    }
    float base = top == -__builtin_inff() ? 0 : top, factor = 1;
    for (int c = 0; c < BLOCK; c++) {
      s[c] = live[i] >> c & 1 ? exp_down(s[c] - base) : 0;
      lanes[c % LANES] += s[c];
    }
    if (top != before) {
      factor = exp_down(before - base);
      for (int64_t d = 0; d < n_sums; d++) state[HEAD + d] *= factor;
    }
    state[CRN_STATE_TOP] = top;
    state[CRN_STATE_SUM] = state[CRN_STATE_SUM] * factor + fold(lanes);
    state[CRN_STATE_FACTOR] = factor;
    if (live[i]) state[CRN_STATE_SEEN] = 1;
  }
}

static void merge(float *total, const float *part, int64_t n_sums) {
  if (part[CRN_STATE_SEEN] == 0) return;
  if (total[CRN_STATE_SEEN] == 0) {
    for (int64_t d = 0; d < HEAD + n_sums; d++) total[d] = part[d];
    return;
  }
  float a = total[CRN_STATE_TOP], b = part[CRN_STATE_TOP], top = b > a ? b : a, base = top == -__builtin_inff() ? 0 : top;
  float keep = exp_down(a - base), take = exp_down(b - base);
  total[CRN_STATE_TOP] = top;
  total[CRN_STATE_SUM] = total[CRN_STATE_SUM] * keep + part[CRN_STATE_SUM] * take;
  for (int64_t d = HEAD; d < HEAD + n_sums; d++) total[d] = total[d] * keep + part[d] * take;
}

// Adding 0 makes a zero positive, whose sign would tell whether weights of 0 were added or left out.
static void finish(const float *state, const float *sink, int64_t d, float *out) {
  float top = state[CRN_STATE_TOP], denominator = state[CRN_STATE_SUM], keep = 1;
  if (sink) {
    float base = *sink > top ? *sink : top;
    keep = exp_down(top - base);
    denominator = denominator * keep + exp_down(*sink - base);
  }
  for (int64_t i = 0; i < d; i++) out[i] = state[HEAD + i] * keep / denominator + 0.0f;
}

static void dequantize(const int8_t *codes, float scale, int64_t n, float *target) {
  for (int64_t i = 0; i < n; i++) target[i] = (float)codes[i] * scale;
}

CRN_ATTENTION_DEFINE_PARTS(scalar)
