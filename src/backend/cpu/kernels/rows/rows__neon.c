#define ROWS_NAME(name) crn_rows_##name##__neon
#include "backend/cpu/kernels/rows/rows_template.h"
