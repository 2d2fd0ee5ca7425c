/// Conversions between f32 and the 16- and 8-bit float formats, one value at a time, rounding to nearest even.
#ifndef CRN_TENSOR_HALF_H
#define CRN_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float crn_f32_from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static inline uint32_t crn_f32_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static inline float crn_bf16_to_f32(uint16_t h) { return crn_f32_from_bits((uint32_t)h << 16); }

static inline uint16_t crn_bf16_from_f32(float f) {
  uint32_t u = crn_f32_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);  // quiet NaN
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float crn_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 0x1f, m = h & 0x3ff;
  if (e == 0x1f) return crn_f32_from_bits(sign | 0x7f800000u | m << 13);
  if (e != 0) return crn_f32_from_bits(sign | (e + 112) << 23 | m << 13);
  // Subnormal: m * 2^-24, exact in f32.
  float v = (float)m * 0x1p-24f;
  return crn_f32_from_bits(sign | crn_f32_bits(v));
}

static inline uint16_t crn_f16_from_f32(float f) {
  uint32_t u = crn_f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));  // NaN
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);                     // 65520 and up round to infinity
  if (a < 0x38800000u) {
    // Subnormal result: adding 0.5 lets the f32 adder do the rounding at the right bit.
    float v = crn_f32_from_bits(a) + 0.5f;
    return (uint16_t)(sign | (crn_f32_bits(v) - 0x3f000000u));
  }
  a += 0xfffu + (a >> 13 & 1);
  return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}

float crn_f8e5m2_to_f32(uint8_t v);
uint8_t crn_f8e5m2_from_f32(float f);  ///< overflow gives infinity
float crn_f8e4m3fn_to_f32(uint8_t v);
uint8_t crn_f8e4m3fn_from_f32(float f);  ///< overflow gives NaN, as torch does
float crn_f8e8m0fnu_to_f32(uint8_t v);   ///< 2^(v-127), 255 = NaN
uint8_t crn_f8e8m0fnu_from_f32(float f);
float crn_f4e2m1fn_to_f32(uint8_t v);
uint8_t crn_f4e2m1fn_from_f32(float f);  ///< saturates at 6

#endif
