/// CPU features, detected once and masked by CAIRN_CPU_MASK (a comma list of the names allowed, or "scalar").
#ifndef CRN_BASE_CPU_H
#define CRN_BASE_CPU_H

#include <stdint.h>

#include "base/status.h"

#define CRN_CPU_LIST(X)                          \
  X(AVX2, 0, "avx2")     /* with FMA and F16C */ \
  X(AVX512, 1, "avx512") /* F, BW, DQ, VL */     \
  X(AVX512VNNI, 2, "avx512vnni")                 \
  X(AVX512BF16, 3, "avx512bf16")                 \
  X(NEON, 4, "neon")                             \
  X(DOTPROD, 5, "dotprod")                       \
  X(I8MM, 6, "i8mm")                             \
  X(AMXBF16, 7, "amxbf16") /* with AMX-TILE */   \
  X(AMXINT8, 8, "amxint8")                       \
  X(AVXVNNI, 9, "avxvnni")                       \
  X(AVX512VBMI, 10, "avx512vbmi")                \
  X(BF16, 11, "bf16") /* of Arm */

enum {
#define CRN_CPU_ENUM(name, bit, text) CRN_CPU_##name = 1 << bit,
  CRN_CPU_LIST(CRN_CPU_ENUM)
#undef CRN_CPU_ENUM
};

/// Detected features that the mask allows. Thread: safe; the environment is read at the first call, which also asks the kernel
/// for the use of AMX when the mask allows it (every signal frame of the process is larger from then on).
uint64_t crn_cpu_bits(void);

/// Errors: INVALID_ARGUMENT when CAIRN_CPU_MASK holds a word that is no feature.
cairn_status crn_cpu_check_mask(void);

#endif
