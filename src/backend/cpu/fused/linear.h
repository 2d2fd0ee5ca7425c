/// Fused steps on packed weights.
#ifndef CRN_BACKEND_CPU_FUSED_LINEAR_H
#define CRN_BACKEND_CPU_FUSED_LINEAR_H

#include "backend/backend.h"
#include "backend/cpu/fused/activation.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "base/pool.h"
#include "program/infer/infer.h"

/// What happens to the sums before they are stored. Every step rounds to the result's type, as the separate ops would.
typedef enum crn_linear_epilogue {
  CRN_LINEAR_PLAIN,
  CRN_LINEAR_ADD,   ///< plus operand 1, which has the result's shape (the residual)
  CRN_LINEAR_GATED  ///< tiles of gate and up in turn: gate op (crn_gate) of the one, times the other
} crn_linear_epilogue;

enum { CRN_LINEAR_MOST_JOINED = 4 };

/// A norm of the rows that the product reads: row * (1 / sqrt(mean of squares + eps)) * scale, rounded to the rows' type where the separate
/// op would round, unless the mode rounds operands anyway.
typedef struct crn_linear_norm {
  float eps;
  const float *scale;  ///< k values; NULL = none
  bool rounds_before;  ///< in front of the scale
} crn_linear_norm;

/// Operand 0 [.., k] times the packed matrix: result 0 [.., n]. With `axis` the inputs and outputs lie along another dimension, and all
/// others number the rows; the result's memory then has the outputs next to each other (crn_step.minor_axis). With `out_rank` the
/// result has the rows along one dimension and the outputs last, whatever the shape of the operand.
typedef struct crn_fused_linear {
  crn_linear_weights weights;
  crn_linear_mode mode;
  crn_linear_epilogue epilogue;
  crn_gate gate;                ///< of GATED
  int64_t n;                    ///< outputs of the step: those of one half of a gated pair
  int axis;                     ///< of the operand, counted from the last one: 0 = the last
  int out_rank, out_row_axis;   ///< out_rank 0 = as the operand
  const float *bias;            ///< weights.n values, added first; NULL = none
  const crn_linear_norm *norm;  ///< done to rows when they are prepared; NULL = none. Counts with axis 0
  crn_activation activation;    ///< of PLAIN: of what the product and the bias give
  bool has_rows_of_added;       ///< of ADD: the result has the shape of operand 1, whose rows are as many, though in other dimensions
  /// Of products of one operand that share a step (CRN_LINEAR_PLAIN, axis 0): how many, and the outputs of each. 0 = a single one.
  int n_joined;
  int64_t joined[CRN_LINEAR_MOST_JOINED];
  const crn_linear_weights *next;  ///< of the product that is most likely run next; NULL = unknown
} crn_fused_linear;

cairn_status crn_infer_fused_linear(const crn_infer_args *args);
cairn_status crn_fused_linear_run(const crn_kernel_args *args);
/// The same step of `n` runs of one plan at once, with memory and workers of the first: weights are read once for all. Each gets the bits
/// it gets alone: rows are computed together where they would have had the same kernel.
cairn_status crn_fused_linear_run_joint(const crn_kernel_args *const *args, int n);
/// What workers may ask memory for when a product with these weights comes next, for `rows` rows. NULL = nobody knows.
crn_pool_ahead crn_linear_ahead(const crn_linear_weights *next, int64_t rows);

/// Operand 0: indices [.., 1] into the rows of the packed matrix: result 0 [.., k].
typedef struct crn_fused_lookup {
  crn_linear_weights weights;
} crn_fused_lookup;

cairn_status crn_infer_fused_lookup(const crn_infer_args *args);
cairn_status crn_fused_lookup_run(const crn_kernel_args *args);

#endif
