#include "tensor/half.h"

#include <math.h>

// Small float formats through their full tables: 256 entries at most, found by the nearest value on the way back. The
// formats are rare (compressed weights only), so clarity beats speed here.

float crn_f8e5m2_to_f32(uint8_t v) { return crn_f16_to_f32((uint16_t)(v << 8)); }

uint8_t crn_f8e5m2_from_f32(float f) {
  uint32_t u = crn_f32_bits(f);
  uint8_t sign = (uint8_t)(u >> 24 & 0x80);
  if (f != f) return (uint8_t)(sign | 0x7e);
  float a = fabsf(f);
  if (a >= 61440.0f) return (uint8_t)(sign | 0x7c);  // halfway between the largest finite 57344 and 65536
  // Scaling to the quantum of the value's binade makes rintf do the rounding to nearest even.
  int e;
  frexpf(a, &e);
  int quantum = (e - 1 < -14 ? -14 : e - 1) - 2;
  float r = ldexpf(rintf(ldexpf(a, -quantum)), quantum);
  return (uint8_t)(sign | crn_f16_from_f32(r) >> 8);
}

float crn_f8e4m3fn_to_f32(uint8_t v) {
  int e = v >> 3 & 15, m = v & 7;
  float a = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
  if (e == 15 && m == 7) a = NAN;
  return v & 0x80 ? -a : a;
}

uint8_t crn_f8e4m3fn_from_f32(float f) {
  uint8_t sign = (uint8_t)(crn_f32_bits(f) >> 24 & 0x80);
  if (f != f) return (uint8_t)(sign | 0x7f);
  float a = fabsf(f);
  if (a > 464.0f) return (uint8_t)(sign | 0x7f);  // past the halfway point to the missing 480
  int e;
  frexpf(a, &e);
  int exponent = e - 1 < -6 ? -6 : e - 1;
  int q = (int)rintf(ldexpf(a, 3 - exponent));  // 0..16 units of 2^(exponent-3)
  if (q == 16) {
    q = 8;
    exponent++;
  }
  int biased = q >= 8 ? exponent + 7 : 0;
  return (uint8_t)(sign | biased << 3 | (q & 7));
}

float crn_f8e8m0fnu_to_f32(uint8_t v) { return v == 255 ? NAN : ldexpf(1.0f, v - 127); }

uint8_t crn_f8e8m0fnu_from_f32(float f) {
  if (!(f > 0) || isinf(f)) return f == 0 ? 0 : 255;
  int e;
  float m = frexpf(f, &e);  // m in [0.5, 1)
  int biased = e - 1 + 127 + (m > 0.75f || (m == 0.75f && (e & 1)));
  return (uint8_t)(biased < 0 ? 0 : biased > 254 ? 254 : biased);
}

static const float g_f4_values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float crn_f4e2m1fn_to_f32(uint8_t v) { return v & 8 ? -g_f4_values[v & 7] : g_f4_values[v & 7]; }

uint8_t crn_f4e2m1fn_from_f32(float f) {
  uint8_t sign = (uint8_t)(crn_f32_bits(f) >> 28 & 8);
  float a = f != f ? 6.0f : fabsf(f);
  uint8_t best = 0;
  for (uint8_t i = 1; i < 8; i++) {
    float middle = (g_f4_values[i - 1] + g_f4_values[i]) / 2;
    // A tie goes to the even code.
    if (a > middle || (a == middle && !(i & 1))) best = i;
  }
  return sign | best;
}
