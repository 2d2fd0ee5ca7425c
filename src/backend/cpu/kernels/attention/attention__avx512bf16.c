// What attention in bf16 does besides its products: terms of queries and keys, values, softmax. Without tiles these products are no faster
// than exact ones (dot products of pairs of bf16 take as long as two of f32), so that there are none.
#include <immintrin.h>

#include "backend/cpu/kernels/attention/packed.h"
#include "backend/cpu/kernels/attention/packed_avx512.h"

enum { BLOCK = CRN_PACKED_BLOCK, TILE = 512 };

INLINE __mmask32 some32(int64_t n) { return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1; }

// Elements i to i + 31 of a row as bf16, zeros behind its end.
INLINE __m512i load32(const void *row, int64_t i, int64_t d, int type) {
  if (type == CRN_CACHE_BF16) return _mm512_maskz_loadu_epi16(some32(d - i), (const uint16_t *)row + i);
  __m512 low = load_some(row, i, some16(d - i), type), high = load_some(row, i + 16, some16(d - i - 16), type);
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
  __m512 low = load_some(row, i, some16(d - i), type), high = load_some(row, i + 16, some16(d - i - 16), type);
  return (__m512i)_mm512_cvtne2ps_pbh(rest16(high), rest16(low));
}

void crn_bf16_pack_query(const float *q, int64_t d, float scale, void *packed, int64_t item) {
  const int64_t padded = (d + 31) / 32 * 32;
  uint16_t *out = (uint16_t *)packed + item * 2 * padded, *rest = out + padded;
  for (int64_t i = 0; i < d; i += 32) {
    __m512 s = _mm512_set1_ps(scale), low = _mm512_mul_ps(_mm512_maskz_loadu_ps(some16(d - i), q + i), s);
    __m512 high = _mm512_mul_ps(_mm512_maskz_loadu_ps(some16(d - i - 16), q + i + 16), s);
    _mm512_storeu_si512(out + i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    _mm512_storeu_si512(rest + i, (__m512i)_mm512_cvtne2ps_pbh(rest16(high), rest16(low)));
  }
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
  const int terms = type == CRN_CACHE_BF16 ? 1 : 2;
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

#define DEFINE(name, type)                                                                                                   \
  void crn_bf16_pack_keys_##name(const void *const *rows, int n, int64_t d, void *out) { pack_keys(rows, n, d, out, type); } \
  void crn_bf16_pack_values_##name(const void *const *rows, int n, int64_t d, void *out, uint64_t *strange) {                \
    pack_values(rows, n, d, out, strange, type);                                                                             \
  }

DEFINE(f32, CRN_CACHE_F32)
DEFINE(f16, CRN_CACHE_F16)
DEFINE(bf16, CRN_CACHE_BF16)

// --- softmax --------------------------------------------------------------------------------------------------------------

INLINE void put(void *weights, int c, __m512 low, __m512 high) {
  _mm512_storeu_si512((uint16_t *)weights + c, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

void crn_bf16_soften(float *scores, void *weights, const uint64_t *live, int n, int from, int to, crn_packed_state *states, float *sums,
                     int64_t ld_sums) {
  packed_soften(scores, weights, BLOCK * sizeof(uint16_t), live, n, from, to, states, sums, ld_sums, true, put);
}

void crn_bf16_finish(const crn_packed_state *state, const float *sums, const float *sink, int64_t d, float *out) {
  packed_finish(state, sums, sink, d, out, true);
}
