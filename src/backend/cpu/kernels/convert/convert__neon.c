#include <arm_neon.h>

#include "backend/cpu/kernels/convert/convert.h"

static uint32x4_t narrow_bf16(float32x4_t v) {
  uint32x4_t u = vreinterpretq_u32_f32(v);
  uint32x4_t up = vshrq_n_u32(u, 16);
  uint32x4_t odd = vandq_u32(up, vdupq_n_u32(1));
  uint32x4_t rounded = vshrq_n_u32(vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
  uint32x4_t quiet = vorrq_u32(up, vdupq_n_u32(0x40));
  return vbslq_u32(vceqq_f32(v, v), rounded, quiet);
}

void crn_convert_f16_f32__neon(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(target + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source + i))));
  for (; i < n; i++) target[i] = vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(source[i]))), 0);
}

void crn_convert_f32_f16__neon(const float *source, uint16_t *target, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1_u16(target + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(source + i))));
  for (; i < n; i++) target[i] = vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(source[i]))), 0);
}

void crn_convert_bf16_f32__neon(const uint16_t *source, float *target, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(target + i, vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(source + i), 16)));
  for (; i < n; i++) target[i] = vgetq_lane_f32(vreinterpretq_f32_u32(vdupq_n_u32((uint32_t)source[i] << 16)), 0);
}

void crn_convert_f32_bf16__neon(const float *source, uint16_t *target, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1_u16(target + i, vmovn_u32(narrow_bf16(vld1q_f32(source + i))));
  for (; i < n; i++) target[i] = (uint16_t)vgetq_lane_u32(narrow_bf16(vdupq_n_f32(source[i])), 0);
}
