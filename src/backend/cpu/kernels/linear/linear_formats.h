/// What kernels of any instruction set ask of a format. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_FORMATS_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_FORMATS_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"

#define INLINE static inline __attribute__((always_inline))

INLINE bool is_quant(crn_linear_format f) { return f <= CRN_LINEAR_Q8M; }
INLINE bool is_4bit(crn_linear_format f) { return f <= CRN_LINEAR_Q4M; }
INLINE bool has_mins(crn_linear_format f) { return f == CRN_LINEAR_Q4M || f == CRN_LINEAR_Q8M; }

/// Of formats that are not palettes.
INLINE int block_bytes(crn_linear_format f) {
  return f == CRN_LINEAR_Q4    ? LINEAR_Q4_BLOCK
         : f == CRN_LINEAR_Q4M ? LINEAR_Q4M_BLOCK
         : f == CRN_LINEAR_Q8  ? LINEAR_Q8_BLOCK
         : f == CRN_LINEAR_Q8M ? LINEAR_Q8M_BLOCK
         : f == CRN_LINEAR_F32 ? LINEAR_F32_BLOCK
                               : LINEAR_HALF_BLOCK;
}

/// What the stored quants are less it are the quants meant.
INLINE float zero_of(const crn_linear_weights *w, crn_linear_format f) { return (float)(is_4bit(f) ? w->zero : w->zero + LINEAR_Q8_BIAS); }

/// So many f16 numbers.
#if defined(__AVX512F__)
/// The first n of 16 values, zeros behind them.
INLINE __m512 load_some(const float *x, int64_t n) {
  return _mm512_maskz_loadu_ps(n >= LINEAR_LANES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1), x);
}
INLINE __m512 half16(const unsigned char *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
#endif
#if defined(__F16C__)
INLINE __m256 half8(const unsigned char *p) { return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p)); }
#endif
#if defined(__aarch64__)
INLINE float32x4_t half4(const unsigned char *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)p))); }
#endif

#endif
