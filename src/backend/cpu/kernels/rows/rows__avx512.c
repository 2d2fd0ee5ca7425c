#define ROWS_NAME(name) crn_rows_##name##__avx512
#define ROWS_LANES 16
#include "backend/cpu/kernels/rows/rows_template.h"
