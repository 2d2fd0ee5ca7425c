/// Fused steps on packed weights.
#ifndef CRN_BACKEND_CPU_FUSED_LINEAR_H
#define CRN_BACKEND_CPU_FUSED_LINEAR_H

#include "backend/backend.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "program/infer/infer.h"

/// What happens to the sums before they are stored. Every step rounds to the result's type, as the separate ops would.
typedef enum crn_linear_epilogue {
  CRN_LINEAR_PLAIN,
  CRN_LINEAR_ADD,   ///< plus operand 1, which has the result's shape (the residual)
  CRN_LINEAR_GATED  ///< tiles of gate and up in turn: silu(gate) * up
} crn_linear_epilogue;

enum { CRN_LINEAR_MOST_JOINED = 4 };

/// Operand 0 [.., k] times the packed matrix: result 0 [.., n]. With `axis` the inputs and outputs lie along another dimension, and all
/// others number the rows; the result's memory then has the outputs next to each other (crn_step.minor_axis). With `out_rank` the
/// result has the rows along one dimension and the outputs last, whatever the shape of the operand.
typedef struct crn_fused_linear {
  crn_linear_weights weights;
  crn_linear_mode mode;
  crn_linear_epilogue epilogue;
  int64_t n;                   ///< outputs of the step: those of one half of a gated pair
  int axis;                    ///< of the operand, counted from the last one: 0 = the last
  int out_rank, out_row_axis;  ///< out_rank 0 = as the operand
  const float *bias;           ///< weights.n values, added first; NULL = none
  /// Of products of one operand that share a step (CRN_LINEAR_PLAIN, axis 0): how many, and the outputs of each. 0 = a single one.
  int n_joined;
  int64_t joined[CRN_LINEAR_MOST_JOINED];
} crn_fused_linear;

cairn_status crn_infer_fused_linear(const crn_infer_args *args);
cairn_status crn_fused_linear_run(const crn_kernel_args *args);
/// The same step of `n` runs of one plan at once, with memory and workers of the first: weights are read once for all. Each gets the bits
/// it gets alone: rows are computed together where they would have had the same kernel.
cairn_status crn_fused_linear_run_joint(const crn_kernel_args *const *args, int n);

/// Operand 0: indices [.., 1] into the rows of the packed matrix: result 0 [.., k].
typedef struct crn_fused_lookup {
  crn_linear_weights weights;
} crn_fused_lookup;

cairn_status crn_infer_fused_lookup(const crn_infer_args *args);
cairn_status crn_fused_lookup_run(const crn_kernel_args *args);

#endif
