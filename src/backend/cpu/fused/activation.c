#include "backend/cpu/fused/activation.h"

#include <stddef.h>

#include "backend/cpu/kernels/rows/rows.h"
#include "backend/cpu/kernels/tiles/tiles.h"

void crn_activate(crn_activation activation, float *values, int64_t n) {
  switch (activation) {
    case CRN_ACTIVATION_NONE:
      break;
    case CRN_ACTIVATION_RELU:
      crn_tiles_select()->finish(values, n, 1, n, NULL, NULL, 0, 1, values, n);
      break;
    case CRN_ACTIVATION_SILU:
      crn_rows_select()->activate(CRN_GATE_SILU, values, values, n);
      break;
    case CRN_ACTIVATION_GELU:
      crn_rows_select()->activate(CRN_GATE_GELU, values, values, n);
      break;
    case CRN_ACTIVATION_GELU_TANH:
      crn_rows_select()->activate(CRN_GATE_GELU_TANH, values, values, n);
      break;
    case CRN_ACTIVATION_GELU_SIGMOID:
      crn_rows_select()->activate(CRN_GATE_GELU_SIGMOID, values, values, n);
      break;
  }
}

const char *crn_activation_suffix(crn_activation activation) {
  static const char *const suffixes[] = {"", "+relu", "+silu", "+gelu", "+gelu_tanh", "+gelu_sigmoid"};
  return suffixes[activation];
}
