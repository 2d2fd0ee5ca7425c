/// Tables of bytes in registers, for the files of the family that have AVX512-VBMI.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_LINEAR_PALETTE_VBMI_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_LINEAR_PALETTE_VBMI_H

#include <immintrin.h>

enum { PALETTE_PARTS = 4 };  ///< of 64 bytes that a table has

/// The bytes of 64 codes, of a table of 256.
static inline __attribute__((always_inline)) __m512i palette_pick(const void *table, __m512i codes) {
  const char *p = (const char *)table;
  const __mmask64 second = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(64)), upper = _mm512_movepi8_mask(codes);
  __m512i a = _mm512_permutexvar_epi8(codes, _mm512_loadu_si512(p)), b = _mm512_permutexvar_epi8(codes, _mm512_loadu_si512(p + 128));
  a = _mm512_mask_permutexvar_epi8(a, second, codes, _mm512_loadu_si512(p + 64));
  b = _mm512_mask_permutexvar_epi8(b, second, codes, _mm512_loadu_si512(p + 192));
  return _mm512_mask_blend_epi8(upper, a, b);
}

#endif
