#include "backend/cpu/kernels/convert/convert.h"
#include "tensor/half.h"

void crn_convert_f16_f32__scalar(const uint16_t *source, float *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) target[i] = crn_f16_to_f32(source[i]);
}

void crn_convert_f32_f16__scalar(const float *source, uint16_t *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) target[i] = crn_f16_from_f32(source[i]);
}

void crn_convert_bf16_f32__scalar(const uint16_t *source, float *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) target[i] = crn_bf16_to_f32(source[i]);
}

void crn_convert_f32_bf16__scalar(const float *source, uint16_t *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) target[i] = crn_bf16_from_f32(source[i]);
}
