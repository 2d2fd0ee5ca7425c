/// Weights of P formats in vectors of 16 outputs, for the files of the family that have AVX-512.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_LINEAR_PALETTE_AVX512_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_LINEAR_PALETTE_AVX512_H

#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"

#define P_INLINE static inline __attribute__((always_inline))

/// How codes are looked up: one table that stays in registers, or any number of them, in memory.
typedef struct palette_tables {
  __m512 entries[4];     // of the only table: 16 entries, or 64
  const float *memory;   // of all tables of a group of inputs
  __m512i lane_offsets;  // where the table of a lane begins
  __m512 factors;
} palette_tables;

P_INLINE __m512i palette_load(const unsigned char *p) { return _mm512_loadu_si512(p); }

P_INLINE palette_tables palette_begin(const crn_linear_palette *p, const unsigned char *tile, int64_t group, int bits, bool single) {
  palette_tables t;
  int stored = LINEAR_P_ENTRIES(bits);
  t.memory = (const float *)(const void *)tile + group * p->tables * stored;
  t.entries[0] = t.entries[1] = t.entries[2] = t.entries[3] = t.factors = _mm512_setzero_ps();
  t.lane_offsets = _mm512_setzero_si512();
  if (single) {
    for (int i = 0; i < 4 && i * LINEAR_LANES < stored; i++) t.entries[i] = _mm512_loadu_ps(t.memory + i * LINEAR_LANES);
    return t;
  }
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i table = _mm512_srli_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(p->tables)), 4);
  t.lane_offsets = _mm512_mullo_epi32(table, _mm512_set1_epi32(stored));
  if (p->has_factors) t.factors = _mm512_loadu_ps((const float *)(const void *)(tile + LINEAR_P_HEAD(p, bits)) - LINEAR_LANES);
  return t;
}

/// Input `i` of a vector of a plane in the low bits of each lane; what is above them means nothing.
P_INLINE __m512i palette_shifted(__m512i x, int i, int bits) {
  unsigned shift = (unsigned)(16 * (i % 2) + bits * (i / 2));
  return shift ? _mm512_srli_epi32(x, shift) : x;
}

/// The codes of input `i` of a group. P1 to P4: only the low bits count.
P_INLINE __m512i palette_codes(const unsigned char *group, int i, int bits) {
  if (bits == 8) {
    const unsigned char *at = group + i / 4 * 64 + i % 2 * 32 + i % 4 / 2 * 8;
    __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)at), high = _mm_loadl_epi64((const __m128i *)(const void *)(at + 16));
    return _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(low, high));
  }
  if (bits == 6) {
    __m512i low = palette_shifted(palette_load(group + i / 8 * 64), i % 8, 4);
    __m512i high = palette_shifted(palette_load(group + LINEAR_P_GROUP(4) + i / 16 * 64), i % 16, 2);
    high = _mm512_and_si512(_mm512_slli_epi32(high, 4), _mm512_set1_epi32(48));
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi32(15)), high);
  }
  return palette_shifted(palette_load(group + i / (32 / bits) * 64), i % (32 / bits), bits);
}

P_INLINE __m512 palette_round_bf16(__m512 v) {
  __m512i u = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  u = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32((int)0xffff0000)));
}

/// Weights times the factors of their outputs.
P_INLINE __m512 palette_scaled(const crn_linear_palette *p, __m512 v, __m512 factors) {
  v = _mm512_mul_ps(v, factors);
  if (p->rounding == CRN_LINEAR_TO_F16) v = _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  if (p->rounding == CRN_LINEAR_TO_BF16) v = palette_round_bf16(v);
  return v;
}

/// The weights of input `i` of a group.
P_INLINE __m512 palette_weights(const crn_linear_palette *p, const palette_tables *t, const unsigned char *group, int i, int bits,
                                bool single) {
  __m512i codes = palette_codes(group, i, bits);
  if (single && bits <= 4) return _mm512_permutexvar_ps(codes, t->entries[0]);
  if (single && bits == 6) {
    __m512 low = _mm512_permutex2var_ps(t->entries[0], codes, t->entries[1]);
    __m512 high = _mm512_permutex2var_ps(t->entries[2], codes, t->entries[3]);
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(codes, _mm512_set1_epi32(32)), low, high);
  }
  if (single) return _mm512_i32gather_ps(codes, t->memory, 4);
  __m512 v;
  if (bits <= 4 && p->tables <= 4) {
    // As many tables as fit: lanes of the others are filled in one after the other.
    v = _mm512_permutexvar_ps(codes, _mm512_loadu_ps(t->memory));
    int lanes = LINEAR_LANES / p->tables;
    for (int k = 1; k < p->tables; k++) {
      __mmask16 mine = (__mmask16)(((1u << lanes) - 1) << (k * lanes));
      v = _mm512_mask_permutexvar_ps(v, mine, codes, _mm512_loadu_ps(t->memory + k * LINEAR_LANES));
    }
  } else {
    if (bits <= 4) codes = _mm512_and_si512(codes, _mm512_set1_epi32(15));
    v = _mm512_i32gather_ps(_mm512_add_epi32(codes, t->lane_offsets), t->memory, 4);
  }
  return p->has_factors ? palette_scaled(p, v, t->factors) : v;
}

#endif
