/// Elements of caches and masks as vectors of f32. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_LOADS_AVX512_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_LOADS_AVX512_H

#include <immintrin.h>

#include "backend/cpu/kernels/attention/attention.h"

#define INLINE static inline __attribute__((always_inline))

/// The first n of 16 lanes.
INLINE __mmask16 some16(int64_t n) { return n >= 16 ? (__mmask16)0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

/// Elements i to i + 15 of a row of the type CRN_CACHE_F32, F16 or BF16; only those of `some` are read, the others are 0.
INLINE __m512 load_some(const void *b, int64_t i, __mmask16 some, int type) {
  if (type == CRN_CACHE_F32) return _mm512_maskz_loadu_ps(some, (const float *)b + i);
  __m256i h = _mm256_maskz_loadu_epi16(some, (const uint16_t *)b + i);
  if (type == CRN_CACHE_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

#endif
