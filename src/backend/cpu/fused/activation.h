/// Activations that fused steps apply to what they computed.
#ifndef CRN_BACKEND_CPU_FUSED_ACTIVATION_H
#define CRN_BACKEND_CPU_FUSED_ACTIVATION_H

#include <stdint.h>

typedef enum crn_activation {
  CRN_ACTIVATION_NONE,
  CRN_ACTIVATION_RELU,
  CRN_ACTIVATION_SILU,
  CRN_ACTIVATION_GELU,
  CRN_ACTIVATION_GELU_TANH,
  CRN_ACTIVATION_GELU_SIGMOID
} crn_activation;

/// In place.
void crn_activate(crn_activation activation, float *values, int64_t n);
/// Its name behind a "+" ("" for none).
const char *crn_activation_suffix(crn_activation activation);

#endif
