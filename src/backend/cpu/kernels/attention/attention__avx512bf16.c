// What attention in bf16 does besides its products: terms of queries and keys, values, softmax. Without tiles these products are no faster
// than exact ones (dot products of pairs of bf16 take as long as two of f32), so that there are none.
#include <immintrin.h>

#include "backend/cpu/kernels/attention/bf16.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = CRN_BF16_BLOCK, TILE = 512 };

// How far, in powers of 2, a score may exceed the reference of its row before sums are rescaled: weights up to 256 are as good.
static const float slack = 8;

INLINE __mmask16 some16(int64_t n) { return n >= 16 ? (__mmask16)0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }
INLINE __mmask32 some32(int64_t n) { return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1; }

INLINE __m512 load16(const void *row, int64_t i, __mmask16 some, int type) {
  if (type == CRN_CACHE_F32) return _mm512_maskz_loadu_ps(some, (const float *)row + i);
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(some, (const uint16_t *)row + i));
}

// Elements i to i + 31 of a row as bf16, zeros behind its end.
INLINE __m512i load32(const void *row, int64_t i, int64_t d, int type) {
  if (type == CRN_CACHE_BF16) return _mm512_maskz_loadu_epi16(some32(d - i), (const uint16_t *)row + i);
  __m512 low = load16(row, i, some16(d - i), type), high = load16(row, i + 16, some16(d - i - 16), type);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// What bf16 leaves of 16 numbers: nothing of those that are not finite as bf16.
INLINE __m512 rest16(__m512 x) {
  __m512 taken = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  __mmask16 finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(taken), exponent), exponent);
  return _mm512_maskz_sub_ps(finite, x, taken);
}

// Elements i to i + 31 of the second term of a row of f32 or f16.
INLINE __m512i load_rest32(const void *row, int64_t i, int64_t d, int type) {
  __m512 low = load16(row, i, some16(d - i), type), high = load16(row, i + 16, some16(d - i - 16), type);
  return (__m512i)_mm512_cvtne2ps_pbh(rest16(high), rest16(low));
}

void crn_bf16_pack_query(const float *q, int64_t d, float scale, uint16_t *out) {
  uint16_t *rest = out + (d + 31) / 32 * 32;
  for (int64_t i = 0; i < d; i += 32) {
    __m512 s = _mm512_set1_ps(scale), low = _mm512_mul_ps(_mm512_maskz_loadu_ps(some16(d - i), q + i), s);
    __m512 high = _mm512_mul_ps(_mm512_maskz_loadu_ps(some16(d - i - 16), q + i + 16), s);
    _mm512_storeu_si512(out + i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    _mm512_storeu_si512(rest + i, (__m512i)_mm512_cvtne2ps_pbh(rest16(high), rest16(low)));
  }
}

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

INLINE void pack_tile(const void *const *rows, int64_t i, int64_t d, uint16_t *out, int type, bool is_rest) {
  __m512i r[16];
#pragma GCC unroll 16
  for (int j = 0; j < 16; j++) r[j] = is_rest ? load_rest32(rows[j], i, d, type) : load32(rows[j], i, d, type);
  transpose16(r);
#pragma GCC unroll 16
  for (int j = 0; j < 16; j++) _mm512_storeu_si512(out + 32 * j, r[j]);
}

INLINE void pack_keys(const void *const *rows, int n, int64_t d, uint16_t *out, int type) {
  const int terms = crn_bf16_key_terms(type);
  for (int c = 0; c < n; c += 16) {
    for (int64_t i = 0; i < d; i += 32, out += terms * TILE) {
      pack_tile(rows + c, i, d, out, type, false);
      if (terms > 1) pack_tile(rows + c, i, d, out + TILE, type, true);
    }
  }
}

// Which of 32 bf16 are infinite or NaN.
INLINE __mmask32 strange32(__m512i v) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
}

INLINE void pack_values(const void *const *rows, int n, int64_t d, uint16_t *out, uint64_t *strange, int type) {
  // Words of two rows, one after the other: the low and the high 16 features of a pair.
  const __m512i step = _mm512_set_epi32(0x002f000f, 0x002e000e, 0x002d000d, 0x002c000c, 0x002b000b, 0x002a000a, 0x00290009, 0x00280008,
                                        0x00270007, 0x00260006, 0x00250005, 0x00240004, 0x00230003, 0x00220002, 0x00210001, 0x00200000);
  const __m512i up = _mm512_add_epi16(step, _mm512_set1_epi16(16));
  strange[0] = strange[1] = 0;
  for (int64_t i = 0; i < d; i += 32) {
    for (int c = 0; c < n; c += 2) {
      __m512i even = load32(rows[c], i, d, type), odd = load32(rows[c + 1], i, d, type);
      __mmask32 even_strange = strange32(even), odd_strange = strange32(odd);
      if (even_strange | odd_strange) {
        even = _mm512_maskz_mov_epi16(~even_strange, even);
        odd = _mm512_maskz_mov_epi16(~odd_strange, odd);
        strange[c / 64] |= ((uint64_t)(even_strange != 0) | (uint64_t)(odd_strange != 0) << 1) << c % 64;
      }
      uint16_t *tile = out + i * BLOCK + c / 32 * 2 * TILE + c % 32 * 16;
      _mm512_storeu_si512(tile, _mm512_permutex2var_epi16(even, step, odd));
      _mm512_storeu_si512(tile + TILE, _mm512_permutex2var_epi16(even, up, odd));
    }
  }
}

#define DEFINE(name, type)                                                                                                       \
  void crn_bf16_pack_keys_##name(const void *const *rows, int n, int64_t d, uint16_t *out) { pack_keys(rows, n, d, out, type); } \
  void crn_bf16_pack_values_##name(const void *const *rows, int n, int64_t d, uint16_t *out, uint64_t *strange) {                \
    pack_values(rows, n, d, out, strange, type);                                                                                 \
  }

DEFINE(f32, CRN_CACHE_F32)
DEFINE(f16, CRN_CACHE_F16)
DEFINE(bf16, CRN_CACHE_BF16)

// --- softmax --------------------------------------------------------------------------------------------------------------

// 2^x: 2^fraction by a polynomial (relative error 8e-5, bf16 has 2e-3), scaled by the whole part. -inf gives 0, NaN stays.
INLINE __m512 exp2_some(__m512 x, __mmask16 some) {
  __m512 f = _mm512_reduce_ps(x, 0x09), p = _mm512_set1_ps(0.07802452f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.22606716f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69583356f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.9999252f));
  return _mm512_maskz_scalef_ps(some, p, x);
}

INLINE float exp2_one(float x) { return _mm512_cvtss_f32(exp2_some(_mm512_set1_ps(x), 1)); }

void crn_bf16_add_mask(float *scores, const float *mask, int from, int to) {
  for (int c = from; c < to; c += 16) {
    __m512 sum = _mm512_fmadd_ps(_mm512_loadu_ps(mask + c), _mm512_set1_ps(CRN_BF16_LOG2E), _mm512_loadu_ps(scores + c));
    _mm512_storeu_ps(scores + c, sum);
  }
}

INLINE void soften_row(float *scores, uint16_t *weights, const uint64_t *live, int from, int to, crn_bf16_state *state, float *sums,
                       int64_t ld_sums) {
  const float lowest = -__builtin_inff();
  __m512 most = _mm512_set1_ps(lowest);
  for (int c = from; c < to; c += 16) {
    __mmask16 some = live ? (__mmask16)(live[c / 64] >> c % 64) : (__mmask16)0xffff;
    // NaN gives way to the second operand.
    most = _mm512_mask_max_ps(most, some, _mm512_loadu_ps(scores + c), most);
  }
  float block_top = _mm512_reduce_max_ps(most), factor = 1;
  if (block_top > state->top + slack || (state->top == lowest && block_top > lowest)) {
    if (state->seen) {
      factor = exp2_one(state->top - block_top);
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
    __m512 low = exp2_some(_mm512_sub_ps(_mm512_loadu_ps(scores + c), base), (__mmask16)both);
    __m512 high = exp2_some(_mm512_sub_ps(_mm512_loadu_ps(scores + c + 16), base), (__mmask16)(both >> 16));
    sum = _mm512_add_ps(sum, _mm512_add_ps(low, high));
    _mm512_storeu_si512(weights + c, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  state->sum = state->sum * factor + _mm512_reduce_add_ps(sum);
  state->seen = state->seen || any != 0;
}

void crn_bf16_soften(float *scores, uint16_t *weights, const uint64_t *live, int n, int from, int to, crn_bf16_state *states, float *sums,
                     int64_t ld_sums) {
  for (int i = 0; i < n; i++) {
    soften_row(scores + i * BLOCK, weights + i * BLOCK, live ? live + 2 * i : NULL, from, to, states + i, sums + i * ld_sums, ld_sums);
  }
}

void crn_bf16_finish(const crn_bf16_state *state, const float *sums, const float *sink, int64_t d, float *out) {
  float denominator = state->sum, keep = 1;
  if (sink) {
    float value = *sink * CRN_BF16_LOG2E, top = value > state->top ? value : state->top;
    keep = exp2_one(state->top - top);
    denominator = denominator * keep + exp2_one(value - top);
  }
  __m512 k = _mm512_set1_ps(keep), under = _mm512_set1_ps(denominator);
  for (int64_t i = 0; i < d; i += 16) {
    _mm512_mask_storeu_ps(out + i, some16(d - i), _mm512_div_ps(_mm512_mul_ps(_mm512_loadu_ps(sums + i), k), under));
  }
}
