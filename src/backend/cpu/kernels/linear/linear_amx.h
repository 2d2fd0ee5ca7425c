/// What the kernels with tile registers have in common.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_AMX_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_AMX_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"

// The compiler does not know which memory tile instructions read and write.
#define FENCE() __asm__ volatile("" : : : "memory")

#endif
