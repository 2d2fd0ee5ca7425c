// The processor of the tests with played tile registers: those it has else that kernels with tiles need, and tiles. Without one of them no
// features at all: then there is nothing to test.
#include <stdbool.h>

#include "base/cpu.h"

uint64_t crn_cpu_bits(void) {
  __builtin_cpu_init();
  const bool has_all = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
  const uint64_t tiles = CRN_CPU_AMXBF16 | CRN_CPU_AMXINT8;
  return has_all ? tiles | CRN_CPU_AVX2 | CRN_CPU_AVX512 | CRN_CPU_AVX512VNNI | CRN_CPU_AVX512BF16 | CRN_CPU_AVX512VBMI : 0;
}

cairn_status crn_cpu_check_mask(void) { return CAIRN_OK; }
