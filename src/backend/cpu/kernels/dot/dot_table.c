#include "backend/cpu/kernels/dot/dot.h"
#include "base/cpu.h"

static const crn_dot_kernels g_sets[] = {
#define DOT(isa, bit, fma)                                                                            \
  {#isa,                                                                                              \
   bit,                                                                                               \
   fma,                                                                                               \
   {crn_dot_f32_f32_f32_6x4__##isa, crn_dot_f32_f16_f32_6x4__##isa, crn_dot_f32_bf16_f32_6x4__##isa}, \
   {crn_axpy_f32_f32_f32_4xn__##isa, crn_axpy_f32_f16_f32_4xn__##isa, crn_axpy_f32_bf16_f32_4xn__##isa}},
#include "backend/cpu/kernels/dot/dot.def"
#undef DOT
};

const crn_dot_kernels *crn_dot_list(int *out_n) {
  *out_n = (int)(sizeof g_sets / sizeof *g_sets);
  return g_sets;
}

const crn_dot_kernels *crn_dot_select(void) {
  uint64_t bits = crn_cpu_bits();
  const crn_dot_kernels *set = g_sets;
  while (set->isa & ~bits) set++;
  return set;
}
