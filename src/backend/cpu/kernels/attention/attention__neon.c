#include <arm_neon.h>

#include "backend/cpu/kernels/attention/parts.h"

// Everything below is inlined with constant tile sizes, so that accumulators live in registers. The 16 lanes of the contract are four
// registers: lanes 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = CRN_ATTENTION_BLOCK, LANES = CRN_ATTENTION_LANES, HEAD = CRN_ATTENTION_HEAD, QUADS = 4 };

INLINE float32x4_t load(const void *b, int64_t i, int type) {
  if (type == CRN_CACHE_F32) return vld1q_f32((const float *)b + i);
  uint16x4_t h = vld1_u16((const uint16_t *)b + i);
  if (type == CRN_CACHE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(h));
  return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

INLINE const void *forward(const void *b, int64_t elements, int type) {
  return (const char *)b + elements * (type == CRN_CACHE_F32 ? 4 : 2);
}

// The last elements of a row, fewer than 16, in a block filled up with zeros. The barrier keeps the compiler from making a library
// call of the loop.
INLINE void copy_tail(const void *b, int64_t i, int64_t n, void *block, int type) {
  for (int64_t t = 0; t < n; t++) {
    if (type == CRN_CACHE_F32) {
      ((float *)block)[t] = ((const float *)b)[i + t];
    } else {
      ((uint16_t *)block)[t] = ((const uint16_t *)b)[i + t];
    }
    __asm__ volatile("" ::: "memory");
  }
}

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

INLINE void widen(const void *source, int64_t ld, int64_t n, int64_t d, float *target, int type) {
  for (int64_t r = 0; r < n; r++) {
    const void *row = forward(source, r * ld, type);
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES, target += LANES) {
#pragma GCC unroll 4
      for (int h = 0; h < QUADS; h++) vst1q_f32(target + 4 * h, load(row, i + 4 * h, type));
    }
    if (i < d) {
      float tail[LANES] = {0};
      copy_tail(row, i, d - i, tail, type);
#pragma GCC unroll 4
      for (int h = 0; h < QUADS; h++) vst1q_f32(target + 4 * h, load(tail, 4 * h, type));
      target += LANES;
    }
  }
}

// --- scores ---------------------------------------------------------------------------------------------------------------

INLINE float fold(const float32x4_t *v) {
  float32x4_t w = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
  float32x2_t p = vadd_f32(vget_low_f32(w), vget_high_f32(w));
  return vget_lane_f32(p, 0) + vget_lane_f32(p, 1);
}

INLINE void score_step(const float *q, int64_t ldq, const void *const *rows, int64_t at, int64_t i, float32x4_t (*acc)[QUADS], int items,
                       int cols, int type) {
#pragma GCC unroll 4
  for (int h = 0; h < QUADS; h++) {
    float32x4_t w[4];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) w[c] = load(rows[c], at + 4 * h, type);
#pragma GCC unroll 2
    for (int r = 0; r < items; r++) {
      float32x4_t x = vld1q_f32(q + r * ldq + i + 4 * h);
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) acc[r * cols + c][h] = vfmaq_f32(acc[r * cols + c][h], x, w[c]);
    }
  }
}

// Items × columns are at most 4.
INLINE void score_tile(const float *q, int64_t ldq, const void *k, int64_t ldk, int64_t d, const void *ahead, float *out, int items,
                       int cols, int type) {
  float32x4_t acc[4][QUADS];
  const void *rows[4];
#pragma GCC unroll 4
  for (int n = 0; n < 4; n++) {
#pragma GCC unroll 4
    for (int h = 0; h < QUADS; h++) acc[n][h] = vdupq_n_f32(0);
  }
#pragma GCC unroll 4
  for (int c = 0; c < cols; c++) rows[c] = forward(k, c * ldk, type);
  int64_t i = 0;
  for (; i + LANES <= d; i += LANES) {
    if (ahead) {
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) __builtin_prefetch(forward(ahead, c * ldk + i, type));
    }
    score_step(q, ldq, rows, i, i, acc, items, cols, type);
  }
  if (i < d) {
    float tails[4][LANES] = {{0}};
    for (int c = 0; c < cols; c++) copy_tail(rows[c], i, d - i, tails[c], type), rows[c] = tails[c];
    score_step(q, ldq, rows, 0, i, acc, items, cols, type);
  }
  for (int r = 0; r < items; r++) {
    for (int c = 0; c < cols; c++) out[r * BLOCK + c] = fold(acc[r * cols + c]);
  }
}

INLINE void score(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d, const void *ahead,
                  float *out, int type) {
  int c = 0;
  if (n_items == 1) {
    for (; c + 4 <= n_cols; c += 4) {
      score_tile(q, ldq, forward(k, c * ldk, type), ldk, d, ahead ? forward(ahead, c * ldk, type) : NULL, out + c, 1, 4, type);
    }
  }
  for (; c + 2 <= n_cols; c += 2) {
    const void *keys = forward(k, c * ldk, type), *later = ahead ? forward(ahead, c * ldk, type) : NULL;
    int r = 0;
    for (; r + 2 <= n_items; r += 2) {
      score_tile(q + r * ldq, ldq, keys, ldk, d, r == 0 ? later : NULL, out + r * BLOCK + c, 2, 2, type);
    }
    if (r < n_items) {
      score_tile(q + r * ldq, ldq, keys, ldk, d, NULL, out + r * BLOCK + c, 1, 1, type);
      score_tile(q + r * ldq, ldq, forward(keys, ldk, type), ldk, d, NULL, out + r * BLOCK + c + 1, 1, 1, type);
    }
  }
  for (; c < n_cols; c++) {
    for (int r = 0; r < n_items; r++) {
      score_tile(q + r * ldq, ldq, forward(k, c * ldk, type), ldk, d, NULL, out + r * BLOCK + c, 1, 1, type);
    }
  }
}

// --- softmax --------------------------------------------------------------------------------------------------------------

INLINE float32x4_t exp_down(float32x4_t x) {
  const float32x4_t rounder = vdupq_n_f32(CRN_EXP_ROUNDER);
  float32x4_t t = vfmaq_f32(rounder, x, vdupq_n_f32(CRN_EXP_LOG2E)), n = vsubq_f32(t, rounder);
  float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(CRN_EXP_LN2_HIGH));
  r = vfmsq_f32(r, n, vdupq_n_f32(CRN_EXP_LN2_LOW));
  float32x4_t q = vfmaq_f32(vdupq_n_f32(CRN_EXP_Q3), vdupq_n_f32(CRN_EXP_Q4), r);
  q = vfmaq_f32(vdupq_n_f32(CRN_EXP_Q2), q, r);
  q = vfmaq_f32(vdupq_n_f32(CRN_EXP_Q1), q, r);
  q = vfmaq_f32(vdupq_n_f32(CRN_EXP_Q0), q, r);
  float32x4_t e = vaddq_f32(vfmaq_f32(r, vmulq_f32(r, r), q), vdupq_n_f32(1));
  uint32x4_t bits = vaddq_u32(vreinterpretq_u32_f32(e), vshlq_n_u32(vreinterpretq_u32_f32(t), 23));
  // Numbers below the lowest argument give 0; NaN, which compares false with itself, stays.
  uint32x4_t below = vcltq_f32(x, vdupq_n_f32(CRN_EXP_LOWEST)), is_number = vceqq_f32(x, x);
  return vreinterpretq_f32_u32(vbslq_u32(is_number, vbicq_u32(bits, below), vreinterpretq_u32_f32(x)));
}

INLINE float exp_one(float x) { return vgetq_lane_f32(exp_down(vdupq_n_f32(x)), 0); }

// Four bits to lanes of all ones or zeros.
INLINE uint32x4_t lanes_of(uint64_t bits) {
  const uint32x4_t each = {1, 2, 4, 8};
  return vtstq_u32(vdupq_n_u32((uint32_t)(bits & 15)), each);
}

static void soften(float *scores, const uint64_t *live, int n_items, float *states, int64_t ld_state, int64_t n_sums) {
  const float lowest = -__builtin_inff();
  for (int i = 0; i < n_items; i++) {
    float *s = scores + i * BLOCK, *state = states + i * ld_state, before = state[CRN_STATE_TOP], factor = 1;
    float32x4_t most = vdupq_n_f32(before), sum[QUADS];
    for (int c = 0; c < BLOCK; c += 4) {
      float32x4_t v = vbslq_f32(lanes_of(live[i] >> c), vld1q_f32(s + c), vdupq_n_f32(lowest));
      most = vbslq_f32(vcgtq_f32(v, most), v, most);  // NaN is not greater: the top never is one
    }
    float top = vmaxvq_f32(most), base = top == lowest ? 0 : top;
#pragma GCC unroll 4
    for (int h = 0; h < QUADS; h++) sum[h] = vdupq_n_f32(0);
    for (int c = 0; c < BLOCK; c += 16) {
#pragma GCC unroll 4
      for (int h = 0; h < QUADS; h++) {
        float32x4_t p = exp_down(vsubq_f32(vld1q_f32(s + c + 4 * h), vdupq_n_f32(base)));
        p = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(p), lanes_of(live[i] >> (c + 4 * h))));
        sum[h] = vaddq_f32(sum[h], p);
        vst1q_f32(s + c + 4 * h, p);
      }
    }
    if (top != before) {
      factor = exp_one(before - base);
      for (int64_t d = HEAD; d < HEAD + n_sums; d += 4) vst1q_f32(state + d, vmulq_f32(vld1q_f32(state + d), vdupq_n_f32(factor)));
    }
    state[CRN_STATE_TOP] = top;
    state[CRN_STATE_SUM] = state[CRN_STATE_SUM] * factor + fold(sum);
    state[CRN_STATE_FACTOR] = factor;
    if (live[i]) state[CRN_STATE_SEEN] = 1;
  }
}

// --- values ---------------------------------------------------------------------------------------------------------------

// The sums of `items` items in `vectors` registers each, over all positions.
INLINE void add_tile(const float *p, const void *v, int64_t ldv, int64_t n, const void *ahead, float *sums, int64_t ld_sums, int items,
                     int vectors, int type) {
  float32x4_t acc[16];
#pragma GCC unroll 4
  for (int r = 0; r < items; r++) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) acc[r * vectors + j] = vld1q_f32(sums + r * ld_sums + 4 * j);
  }
  for (int64_t c = 0; c < n; c++) {
    const void *row = forward(v, c * ldv, type);
    if (ahead) {
      for (int j = 0; j < vectors; j += type == CRN_CACHE_F32 ? 4 : 8) __builtin_prefetch(forward(ahead, c * ldv + 4 * j, type));
    }
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
      float32x4_t w = load(row, 4 * j, type);
#pragma GCC unroll 4
      for (int r = 0; r < items; r++) acc[r * vectors + j] = vfmaq_n_f32(acc[r * vectors + j], w, p[r * BLOCK + c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < items; r++) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) vst1q_f32(sums + r * ld_sums + 4 * j, acc[r * vectors + j]);
  }
}

INLINE void add_strip(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, const void *ahead, float *sums, int64_t ld_sums,
                      int vectors, int type) {
  int r = 0;
  if (vectors <= 4) {
    for (; r + 4 <= n_items; r += 4) {
      add_tile(p + r * BLOCK, v, ldv, n, r == 0 ? ahead : NULL, sums + r * ld_sums, ld_sums, 4, vectors, type);
    }
  }
  for (; r < n_items; r++) add_tile(p + r * BLOCK, v, ldv, n, r == 0 ? ahead : NULL, sums + r * ld_sums, ld_sums, 1, vectors, type);
}

// The last values, fewer than 4.
INLINE void add_tail(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t left, float *sums, int64_t ld_sums,
                     int type) {
  for (int64_t c = 0; c < n; c++) {
    float tail[4] = {0};
    copy_tail(forward(v, c * ldv, type), 0, left, tail, type);
    float32x4_t w = load(tail, 0, type);
    for (int r = 0; r < n_items; r++) {
      float *sum = sums + r * ld_sums;
      vst1q_f32(sum, vfmaq_n_f32(vld1q_f32(sum), w, p[r * BLOCK + c]));
    }
  }
}

INLINE void add(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead, float *sums,
                int64_t ld_sums, int type) {
  int64_t i = 0;
#define STRIPS(vectors)                                                                                                           \
  for (; i + 4 * vectors <= d; i += 4 * vectors) {                                                                                \
    add_strip(p, n_items, forward(v, i, type), ldv, n, ahead ? forward(ahead, i, type) : NULL, sums + i, ld_sums, vectors, type); \
  }
  if (n_items == 1) {
    STRIPS(8)
  }
  STRIPS(4)
  STRIPS(1)
#undef STRIPS
  if (i < d) add_tail(p, n_items, forward(v, i, type), ldv, n, d - i, sums + i, ld_sums, type);
}

static void merge(float *total, const float *part, int64_t n_sums) {
  if (part[CRN_STATE_SEEN] == 0) return;
  if (total[CRN_STATE_SEEN] == 0) {
    for (int64_t d = 0; d < HEAD + n_sums; d += 4) vst1q_f32(total + d, vld1q_f32(part + d));
    return;
  }
  float a = total[CRN_STATE_TOP], b = part[CRN_STATE_TOP], top = b > a ? b : a, base = top == -__builtin_inff() ? 0 : top;
  float keep = exp_one(a - base), take = exp_one(b - base);
  total[CRN_STATE_TOP] = top;
  total[CRN_STATE_SUM] = total[CRN_STATE_SUM] * keep + part[CRN_STATE_SUM] * take;
  for (int64_t d = HEAD; d < HEAD + n_sums; d += 4) {
    float32x4_t old = vmulq_f32(vld1q_f32(total + d), vdupq_n_f32(keep)), more = vmulq_f32(vld1q_f32(part + d), vdupq_n_f32(take));
    vst1q_f32(total + d, vaddq_f32(old, more));
  }
}

// Adding 0 makes a zero positive, whose sign would tell whether weights of 0 were added or left out.
static void finish(const float *state, const float *sink, int64_t d, float *out) {
  float top = state[CRN_STATE_TOP], denominator = state[CRN_STATE_SUM], keep = 1;
  if (sink) {
    float base = *sink > top ? *sink : top;
    keep = exp_one(top - base);
    denominator = denominator * keep + exp_one(*sink - base);
  }
  int64_t i = 0;
  for (; i + 4 <= d; i += 4) {
    float32x4_t v = vdivq_f32(vmulq_f32(vld1q_f32(state + HEAD + i), vdupq_n_f32(keep)), vdupq_n_f32(denominator));
    vst1q_f32(out + i, vaddq_f32(v, vdupq_n_f32(0)));
  }
  for (; i < d; i++) out[i] = state[HEAD + i] * keep / denominator + 0.0f;
}

#define DEFINE(name, type)                                                                                                                 \
  static void widen_##name(const void *source, int64_t ld, int64_t n, int64_t d, float *target) { widen(source, ld, n, d, target, type); } \
  static void score_##name(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d, const void *ahead, \
                           float *out) {                                                                                                   \
    score(q, ldq, n_items, k, ldk, n_cols, d, ahead, out, type);                                                                           \
  }                                                                                                                                        \
  static void add_##name(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead, float *sums,    \
                         int64_t ld_sums) {                                                                                                \
    add(p, n_items, v, ldv, n, d, ahead, sums, ld_sums, type);                                                                             \
  }

DEFINE(f32, CRN_CACHE_F32)
DEFINE(f16, CRN_CACHE_F16)
DEFINE(bf16, CRN_CACHE_BF16)

static void dequantize(const int8_t *codes, float scale, int64_t n, float *target) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    int16x8_t wide = vmovl_s8(vld1_s8(codes + i));
    vst1q_f32(target + i, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), scale));
    vst1q_f32(target + i + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))), scale));
  }
  for (; i < n; i++) target[i] = (float)codes[i] * scale;
}

CRN_ATTENTION_DEFINE_PARTS(neon)
