#define ISA avx2
#define HAS_DOT 0
#include "backend/cpu/kernels/linear/linear_int8_avx2.h"
