#include "engines/llm/logits.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

// Scaling by 2^112 moves the exponent of f16 to that of f32 and makes subnormals right, too; only infinities and NaN
// need their exponent set. Written without branches so that compilers use vector instructions.
static void widen_f16(const uint16_t *source, float *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t h = source[i], magnitude = (h & 0x7fff) << 13;
    float scaled = from_bits(magnitude) * 0x1p112f;
    uint32_t u;
    memcpy(&u, &scaled, sizeof u);
    u = (h & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u : u;
    target[i] = from_bits(u | (h & 0x8000) << 16);
  }
}

static void widen_bf16(const uint16_t *source, float *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) target[i] = from_bits((uint32_t)source[i] << 16);
}

void crn_logits_widen(cairn_dtype dtype, const void *source, float *target, int64_t n) {
  if (dtype == CAIRN_F16) {
    widen_f16(source, target, n);
  } else if (dtype == CAIRN_BF16) {
    widen_bf16(source, target, n);
  } else {
    memcpy(target, source, (size_t)n * sizeof *target);
  }
}

int32_t crn_logits_argmax(const float *row, int64_t n, float *out_best) {
  float best = -INFINITY;
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    if (row[i] > best) {
      best = row[i];
      at = i;
    }
  }
  if (out_best) *out_best = best;
  return (int32_t)at;
}
