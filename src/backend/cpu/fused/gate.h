/// Gates and their partners, which products give in tiles of 16 outputs in turn.
#ifndef CRN_BACKEND_CPU_FUSED_GATE_H
#define CRN_BACKEND_CPU_FUSED_GATE_H

#include <stdbool.h>

#include "backend/cpu/kernels/rows/rows.h"
#include "cairn/ndarray.h"

/// values[0 .. 16 n) = gate(a) * b, for n pairs of 16 values a and 16 values b, one behind the other. `is_exact`: rounded to `dtype`
/// wherever separate ops would; the product itself is not rounded.
void crn_gate_pairs(crn_gate gate, bool is_exact, cairn_dtype dtype, float *values, int64_t n_pairs);

#endif
