/// Weights as tile registers want them. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_PAIRS_AVX512BF16_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_PAIRS_AVX512BF16_H

#include <immintrin.h>

// Two inputs of 16 outputs as pairs, rounded to nearest even.
static inline __attribute__((always_inline)) void linear_store_pair(unsigned char *out, __m512 even, __m512 odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                         18, 2, 17, 1, 16, 0);
  __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  _mm512_store_si512(out, _mm512_permutexvar_epi16(order, both));
}

#endif
