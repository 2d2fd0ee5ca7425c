#define ISA avxvnni
#define HAS_DOT 1
#include "backend/cpu/kernels/linear/linear_int8_avx2.h"
