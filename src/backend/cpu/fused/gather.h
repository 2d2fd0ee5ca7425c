/// gather_mm on a packed stack of matrices (the experts of a mixture): only matrices that rows choose are read.
#ifndef CRN_BACKEND_CPU_FUSED_GATHER_H
#define CRN_BACKEND_CPU_FUSED_GATHER_H

#include "backend/backend.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "program/infer/infer.h"

/// As gather_mm without its operand 1, which is the packed stack. Operands: lhs, then the indices.
typedef struct crn_fused_gather {
  crn_linear_weights weights;  ///< all matrices, one behind the other, each of n outputs
  crn_linear_mode mode;
  int64_t n;
  crn_tensor rhs;                  ///< dims of the operand that is not there; strides count matrices
  crn_infer_fn infer;              ///< of gather_mm
  const char *const *input_names;  ///< of gather_mm, with operand 1
} crn_fused_gather;

cairn_status crn_infer_fused_gather(const crn_infer_args *args);
cairn_status crn_fused_gather_run(const crn_kernel_args *args);
/// The same step of `n` runs of one plan at once, as crn_fused_linear_run_joint: a matrix that several chose is read once.
cairn_status crn_fused_gather_run_joint(const crn_kernel_args *const *args, int n);

#endif
