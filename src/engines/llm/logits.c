#include "base/cpu.h"

#define LOGITS_NAME(name) crn_logits_##name##__plain
#include "engines/llm/logits_template.h"

/// The loops that this processor takes.
typedef struct loops {
  void (*widen_f16)(const uint16_t *source, float *target, int64_t n);
  int64_t (*argmax)(const float *row, int64_t n, float *out_best);
} loops;

static loops choose_loops(void) {
#if defined(__x86_64__)
  if (crn_cpu_bits() & CRN_CPU_AVX2) return (loops){crn_logits_widen_f16__avx2, crn_logits_argmax__avx2};
#endif
  return (loops){crn_logits_widen_f16__plain, crn_logits_argmax__plain};
}

static void widen_bf16(const uint16_t *source, float *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) target[i] = from_bits((uint32_t)source[i] << 16);
}

void crn_logits_widen(cairn_dtype dtype, const void *source, float *target, int64_t n) {
  if (dtype == CAIRN_F16) {
    choose_loops().widen_f16(source, target, n);
  } else if (dtype == CAIRN_BF16) {
    widen_bf16(source, target, n);
  } else {
    memcpy(target, source, (size_t)n * sizeof *target);
  }
}

int32_t crn_logits_argmax(const float *row, int64_t n, float *out_best) {
  float best;
  int64_t at = choose_loops().argmax(row, n, &best);
  if (out_best) *out_best = best;
  return (int32_t)at;
}
