#define ROWS_NAME(name) crn_rows_##name##__scalar
#define ROWS_LANES 4
#include "backend/cpu/kernels/rows/rows_template.h"
