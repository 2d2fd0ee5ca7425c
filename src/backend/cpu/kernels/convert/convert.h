/// Conversion of contiguous runs between f32 and the 16-bit floats. All sets give the same bits: widening is exact,
/// narrowing rounds to nearest even, NaN stays NaN.
#ifndef CRN_BACKEND_CPU_KERNELS_CONVERT_H
#define CRN_BACKEND_CPU_KERNELS_CONVERT_H

#include <stdint.h>

typedef struct crn_convert_kernels {
  const char *name;
  uint64_t isa;  ///< feature bits it needs
  void (*f16_f32)(const uint16_t *source, float *target, int64_t n);
  void (*f32_f16)(const float *source, uint16_t *target, int64_t n);
  void (*bf16_f32)(const uint16_t *source, float *target, int64_t n);
  void (*f32_bf16)(const float *source, uint16_t *target, int64_t n);
} crn_convert_kernels;

#define CONVERT(isa, bit)                                                             \
  void crn_convert_f16_f32__##isa(const uint16_t *source, float *target, int64_t n);  \
  void crn_convert_f32_f16__##isa(const float *source, uint16_t *target, int64_t n);  \
  void crn_convert_bf16_f32__##isa(const uint16_t *source, float *target, int64_t n); \
  void crn_convert_f32_bf16__##isa(const float *source, uint16_t *target, int64_t n);
#include "backend/cpu/kernels/convert/convert.def"
#undef CONVERT

/// The best set the processor has. Thread: safe.
const crn_convert_kernels *crn_convert_select(void);
/// All sets of this build, for tests; `*out_n` of them, best first.
const crn_convert_kernels *crn_convert_list(int *out_n);

#endif
