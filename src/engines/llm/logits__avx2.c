#include <immintrin.h>

#define LOGITS_NAME(name) crn_logits_##name##__avx2
#include "engines/llm/logits_template.h"

void crn_logits_widen_f16__avx2(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i))));
  for (; i < n; i++) target[i] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(source[i])));
}
