#include "base/cpu.h"
#include "base/pool.h"

#define LOGITS_NAME(name) crn_logits_##name##__plain
#include "engines/llm/logits_template.h"

static inline float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

// Scaling by 2^112 moves the exponent of f16 to that of f32 and makes subnormals right, too; only infinities and NaN
// need their exponent set. Written without branches so that compilers use vector instructions.
void crn_logits_widen_f16__plain(const uint16_t *source, float *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t h = source[i], magnitude = (h & 0x7fff) << 13;
    float scaled = from_bits(magnitude) * 0x1p112f;
    uint32_t u;
    memcpy(&u, &scaled, sizeof u);
    u = (h & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u : u;
    target[i] = from_bits(u | (h & 0x8000) << 16);
  }
}

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

typedef struct widening {
  cairn_dtype dtype;
  const char *source;
  float *target;
} widening;

static void widen_some(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const widening *w = user;
  const void *source = w->source + (size_t)begin * cairn_dtype_bytes(w->dtype);
  if (w->dtype == CAIRN_F16) {
    choose_loops().widen_f16(source, w->target + begin, end - begin);
  } else if (w->dtype == CAIRN_BF16) {
    widen_bf16(source, w->target + begin, end - begin);
  } else {
    memcpy(w->target + begin, source, (size_t)(end - begin) * sizeof *w->target);
  }
}

void crn_logits_widen(struct crn_pool *pool, cairn_dtype dtype, const void *source, float *target, int64_t n) {
  // A row of a large vocabulary has left the caches while it was made: reading it is what takes time.
  enum { GRAIN = 16384 };
  widening w = {dtype, source, target};
  crn_pool_run(pool, n, GRAIN, widen_some, &w);
}

int32_t crn_logits_argmax(const float *row, int64_t n, float *out_best) {
  float best;
  int64_t at = choose_loops().argmax(row, n, &best);
  if (out_best) *out_best = best;
  return (int32_t)at;
}
