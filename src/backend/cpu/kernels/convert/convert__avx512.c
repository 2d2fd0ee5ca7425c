#include <immintrin.h>

#include "backend/cpu/kernels/convert/convert.h"
#include "backend/cpu/kernels/narrow_avx512.h"

enum { LANES = 16, NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

static inline __mmask16 first(int64_t n) { return n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1); }

static inline __m256i load16(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline void store16(uint16_t *p, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }

static inline __m512 widen_bf16(__m256i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)); }

void crn_convert_f16_f32__avx512(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) _mm512_storeu_ps(target + i, _mm512_cvtph_ps(load16(source + i)));
  if (i < n) {
    __mmask16 m = first(n - i);
    _mm512_mask_storeu_ps(target + i, m, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, source + i)));
  }
}

void crn_convert_f32_f16__avx512(const float *source, uint16_t *target, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) store16(target + i, _mm512_cvtps_ph(_mm512_loadu_ps(source + i), NEAREST));
  if (i < n) {
    __mmask16 m = first(n - i);
    _mm256_mask_storeu_epi16(target + i, m, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, source + i), NEAREST));
  }
}

void crn_convert_bf16_f32__avx512(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) _mm512_storeu_ps(target + i, widen_bf16(load16(source + i)));
  if (i < n) {
    __mmask16 m = first(n - i);
    _mm512_mask_storeu_ps(target + i, m, widen_bf16(_mm256_maskz_loadu_epi16(m, source + i)));
  }
}

void crn_convert_f32_bf16__avx512(const float *source, uint16_t *target, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) store16(target + i, crn_narrow_bf16(_mm512_loadu_ps(source + i)));
  if (i < n) {
    __mmask16 m = first(n - i);
    _mm256_mask_storeu_epi16(target + i, m, crn_narrow_bf16(_mm512_maskz_loadu_ps(m, source + i)));
  }
}
