/// Reductions by the region of the program: the direct ones, and evaluating a region element by element.
#ifndef CRN_BACKEND_CPU_REF_REGION_H
#define CRN_BACKEND_CPU_REF_REGION_H

#include "backend/cpu/ref/ref.h"

typedef enum crn_reduction {
  CRN_REDUCE_SUM,
  CRN_REDUCE_MEAN,
  CRN_REDUCE_PRODUCT,
  CRN_REDUCE_MAX,
  CRN_REDUCE_MIN,
  CRN_REDUCE_ALL,
  CRN_REDUCE_ANY
} crn_reduction;

/// Reduces operand 0 over the axes of operand 1 with wide accumulation; `init` (one element) takes part once in each
/// reduction and may be NULL. Errors: UNSUPPORTED for types the reduction does not have.
cairn_status crn_reduce_from(const crn_kernel_args *args, crn_reduction kind, const crn_tensor *init);

enum { CRN_REGION_LANES = 256 };

/// A region of two scalar arguments and one scalar result, evaluated for many pairs at once.
typedef struct crn_region_eval {
  const crn_block *block;
  uint32_t n_values;  ///< the two arguments, then the results of all ops in order
  const crn_value **values;
  crn_tensor *tensors;
  char *memory;      ///< CRN_REGION_LANES elements of the widest type for each value
  bool elementwise;  ///< else one pair at a time
  crn_scratch scratch;
  char *scratch_block;
  size_t scratch_used;
} crn_region_eval;

/// Prepares the evaluation; memory comes from the scratch of `args`. Errors: UNSUPPORTED, OUT_OF_MEMORY.
cairn_status crn_region_eval_begin(const crn_kernel_args *args, crn_region_eval *e);
/// Evaluates `n` pairs (at most CRN_REGION_LANES) of elements in a row; `*out` is a vector of n results, valid until the next call.
cairn_status crn_region_eval_run(crn_region_eval *e, const crn_tensor *first, const crn_tensor *second, int64_t n, crn_tensor *out);

#endif
