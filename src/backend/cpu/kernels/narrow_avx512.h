/// Rounding of f32 to bf16. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_NARROW_AVX512_H
#define CRN_BACKEND_CPU_KERNELS_NARROW_AVX512_H

#include <immintrin.h>

// Rounded with integers: the instruction that converts takes the smallest numbers for zero.
static inline __attribute__((always_inline)) __m256i crn_narrow_bf16(__m512 v) {
  __m512i u = _mm512_castps_si512(v), up = _mm512_srli_epi32(u, 16);
  __m512i odd = _mm512_and_si512(up, _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, is_nan, up, _mm512_set1_epi32(0x40)));
}

#endif
