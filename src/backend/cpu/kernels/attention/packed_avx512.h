/// What the loops of packed attention on AVX-512 have in common. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_PACKED_AVX512_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_PACKED_AVX512_H

#include <immintrin.h>
#include <stdbool.h>

#include "backend/cpu/kernels/attention/loads_avx512.h"
#include "backend/cpu/kernels/attention/packed.h"

typedef void (*packed_put)(void *weights, int c, __m512 low, __m512 high);

// Sixteen rows of 16 double words to columns.
INLINE void transpose16(__m512i *r) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 * b + c] holds, in lane l, column 4 * l + c of rows 4 * b to 4 * b + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) {
    __m512i ab_even = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88), ab_odd = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    __m512i cd_even = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88), cd_odd = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    t[c] = _mm512_shuffle_i32x4(ab_even, cd_even, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(ab_even, cd_even, 0xdd);
    t[4 + c] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = t[i];
}

// --- softmax --------------------------------------------------------------------------------------------------------------

// How far, in powers of 2, a score may exceed the reference of its row before sums are rescaled: weights up to 256 are as good.
static const float packed_slack = 8;

// 2^x, scaled by its whole part. -inf gives 0, NaN stays. For bf16, which has a relative error of 2e-3, by a polynomial with one of 8e-5.
INLINE __m512 packed_exp2(__m512 x, __mmask16 some, bool is_bf16) {
  if (is_bf16) {
    __m512 f = _mm512_reduce_ps(x, 0x09), p = _mm512_set1_ps(0.07802452f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.22606716f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69583356f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.9999252f));
    return _mm512_maskz_scalef_ps(some, p, x);
  }
  // As in parts.h, of the fraction times ln 2.
  __m512 f = _mm512_reduce_ps(x, 0x08), r = _mm512_mul_ps(f, _mm512_set1_ps(0.693147181f));
  __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(CRN_EXP_Q4), r, _mm512_set1_ps(CRN_EXP_Q3));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(CRN_EXP_Q2));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(CRN_EXP_Q1));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(CRN_EXP_Q0));
  __m512 e = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r), _mm512_set1_ps(1));
  return _mm512_maskz_scalef_ps(some, e, _mm512_sub_ps(x, f));
}

INLINE float packed_exp2_one(float x, bool is_bf16) { return _mm512_cvtss_f32(packed_exp2(_mm512_set1_ps(x), 1, is_bf16)); }

INLINE void packed_soften_row(float *scores, void *weights, const uint64_t *live, int from, int to, crn_packed_state *state, float *sums,
                              int64_t ld_sums, bool is_bf16, packed_put put) {
  const float lowest = -__builtin_inff();
  __m512 most = _mm512_set1_ps(lowest);
  for (int c = from; c < to; c += 16) {
    __mmask16 some = live ? (__mmask16)(live[c / 64] >> c % 64) : (__mmask16)0xffff;
    // NaN gives way to the second operand.
    most = _mm512_mask_max_ps(most, some, _mm512_loadu_ps(scores + c), most);
  }
  float block_top = _mm512_reduce_max_ps(most), factor = 1;
  if (block_top > state->top + packed_slack || (state->top == lowest && block_top > lowest)) {
    if (state->seen) {
      factor = packed_exp2_one(state->top - block_top, is_bf16);
      __m512 f = _mm512_set1_ps(factor);
      for (int64_t d = 0; d < ld_sums; d += 16) _mm512_storeu_ps(sums + d, _mm512_mul_ps(_mm512_loadu_ps(sums + d), f));
    }
    state->top = block_top;
  }
  __m512 base = _mm512_set1_ps(state->top == lowest ? 0 : state->top), sum = _mm512_setzero_ps();
  uint64_t any = 0;
  for (int c = from; c < to; c += 32) {
    uint32_t both = live ? (uint32_t)(live[c / 64] >> c % 64) : 0xffffffffu;
    any |= both;
    __m512 low = packed_exp2(_mm512_sub_ps(_mm512_loadu_ps(scores + c), base), (__mmask16)both, is_bf16);
    __m512 high = packed_exp2(_mm512_sub_ps(_mm512_loadu_ps(scores + c + 16), base), (__mmask16)(both >> 16), is_bf16);
    sum = _mm512_add_ps(sum, _mm512_add_ps(low, high));
    put(weights, c, low, high);
  }
  state->sum = state->sum * factor + _mm512_reduce_add_ps(sum);
  state->seen = state->seen || any != 0;
}

/// `put` stores 32 weights as they are packed, from number c on of an item's.
INLINE void packed_soften(float *scores, char *weights, int64_t item_bytes, const uint64_t *live, int n, int from, int to,
                          crn_packed_state *states, float *sums, int64_t ld_sums, bool is_bf16, packed_put put) {
  for (int i = 0; i < n; i++) {
    packed_soften_row(scores + i * CRN_PACKED_BLOCK, weights + i * item_bytes, live ? live + 2 * i : NULL, from, to, states + i,
                      sums + i * ld_sums, ld_sums, is_bf16, put);
  }
}

INLINE void packed_finish(const crn_packed_state *state, const float *sums, const float *sink, int64_t d, float *out, bool is_bf16) {
  float denominator = state->sum, keep = 1;
  if (sink) {
    float value = *sink * CRN_PACKED_LOG2E, top = value > state->top ? value : state->top;
    keep = packed_exp2_one(state->top - top, is_bf16);
    denominator = denominator * keep + packed_exp2_one(value - top, is_bf16);
  }
  __m512 k = _mm512_set1_ps(keep), under = _mm512_set1_ps(denominator);
  for (int64_t i = 0; i < d; i += 16) {
    _mm512_mask_storeu_ps(out + i, some16(d - i), _mm512_div_ps(_mm512_mul_ps(_mm512_loadu_ps(sums + i), k), under));
  }
}

#endif
