#include <immintrin.h>

#include "backend/cpu/kernels/convert/convert.h"

enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

static __m256i narrow_bf16(__m256 v) {
  __m256i u = _mm256_castps_si256(v);
  __m256i up = _mm256_srli_epi32(u, 16);
  __m256i odd = _mm256_and_si256(up, _mm256_set1_epi32(1));
  __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  __m256i quiet = _mm256_or_si256(up, _mm256_set1_epi32(0x40));
  __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan));
}

void crn_convert_f16_f32__avx2(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i))));
  for (; i < n; i++) target[i] = _cvtsh_ss(source[i]);
}

void crn_convert_f32_f16__avx2(const float *source, uint16_t *target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(target + i), _mm256_cvtps_ph(_mm256_loadu_ps(source + i), NEAREST));
  for (; i < n; i++) target[i] = _cvtss_sh(source[i], NEAREST);
}

void crn_convert_bf16_f32__avx2(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(source + i)));
    _mm256_storeu_ps(target + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
  for (; i < n; i++) target[i] = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)((uint32_t)source[i] << 16))));
}

void crn_convert_f32_bf16__avx2(const float *source, uint16_t *target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i r = narrow_bf16(_mm256_loadu_ps(source + i));
    __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    _mm_storeu_si128((__m128i *)(target + i), packed);
  }
  for (; i < n; i++) {
    __m256i r = narrow_bf16(_mm256_set1_ps(source[i]));
    target[i] = (uint16_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(r));
  }
}
