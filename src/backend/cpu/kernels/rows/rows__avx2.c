#define ROWS_NAME(name) crn_rows_##name##__avx2
#define ROWS_LANES 8
#include "backend/cpu/kernels/rows/rows_template.h"
