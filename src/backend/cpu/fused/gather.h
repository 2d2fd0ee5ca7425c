/// gather_mm on a packed stack of matrices (the experts of a mixture): only matrices that rows choose are read.
#ifndef CRN_BACKEND_CPU_FUSED_GATHER_H
#define CRN_BACKEND_CPU_FUSED_GATHER_H

#include "backend/backend.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "program/infer/infer.h"

/// Rows of products that are weighted and added up: sum over c of row[s * n + c] * factor[s * n + c]. In exact precision every op rounds as
/// the separate one would.
typedef struct crn_gather_sum {
  int64_t n;          ///< rows that become one; 0 = none, the products are the result
  cairn_dtype dtype;  ///< of the weighted rows and of their sum, which is then rounded to the result's
  bool keeps_axis;    ///< the result has a dimension of 1 where the rows were
  bool has_added;     ///< another operand, of the result's shape, is added at the end (the residual)
} crn_gather_sum;

/// As gather_mm without its operand 1, which is the packed stack. Operands: lhs, then the indices; with `sum` the factors
/// [.., sum.n, 1], one a row, which are of sum.dtype, and what is added. A gated step has the tiles of two stacks in turn: the result is
/// gate(lhs · first) * (lhs · second).
typedef struct crn_fused_gather {
  crn_linear_weights weights;  ///< all matrices, one behind the other, each of n outputs (2 n of a gated step)
  crn_linear_mode mode;
  int64_t n;      ///< outputs of the step
  bool is_gated;  ///< by `gate`
  crn_gate gate;
  crn_gather_sum sum;
  int n_operands;                  ///< of gather_mm, without operand 1
  crn_tensor rhs;                  ///< dims of the operand that is not there; strides count matrices
  crn_tensor product;              ///< what gather_mm is declared to give
  crn_infer_fn infer;              ///< of gather_mm
  const char *const *input_names;  ///< of gather_mm, with operand 1
  const crn_linear_weights *next;  ///< as crn_fused_linear has it
} crn_fused_gather;

cairn_status crn_infer_fused_gather(const crn_infer_args *args);
cairn_status crn_fused_gather_run(const crn_kernel_args *args);
/// The same step of `n` runs of one plan at once, as crn_fused_linear_run_joint: a matrix that several chose is read once.
cairn_status crn_fused_gather_run_joint(const crn_kernel_args *const *args, int n);

/// gather_sum.c: the result of a step with `sum` from its products, which lie in `rows` in f32 (and are changed).
cairn_status crn_gather_sum_run(const crn_kernel_args *args, float *rows);

#endif
