#define ROWS_NAME(name) crn_rows_##name##__scalar
#include "backend/cpu/kernels/rows/rows_template.h"
