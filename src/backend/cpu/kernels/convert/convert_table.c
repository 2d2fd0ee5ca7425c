#include "backend/cpu/kernels/convert/convert.h"
#include "base/cpu.h"

static const crn_convert_kernels g_sets[] = {
#define CONVERT(isa, bit) \
  {#isa, bit, crn_convert_f16_f32__##isa, crn_convert_f32_f16__##isa, crn_convert_bf16_f32__##isa, crn_convert_f32_bf16__##isa},
#include "backend/cpu/kernels/convert/convert.def"
#undef CONVERT
};

const crn_convert_kernels *crn_convert_list(int *out_n) {
  *out_n = (int)(sizeof g_sets / sizeof *g_sets);
  return g_sets;
}

const crn_convert_kernels *crn_convert_select(void) {
  uint64_t bits = crn_cpu_bits();
  const crn_convert_kernels *set = g_sets;
  while (set->isa & ~bits) set++;
  return set;
}
