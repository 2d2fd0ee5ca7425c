/// What the kernels of composites share: operands by name, attributes, and rows of f32.
///
/// The body of a composite defines its result. A kernel that meets names, types or shapes whose body it was not written
/// after returns UNSUPPORTED, and the executor runs the body.
#ifndef CRN_BACKEND_CPU_REF_COMPOSITE_H
#define CRN_BACKEND_CPU_REF_COMPOSITE_H

#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/ref.h"

/// The operand with that name, NULL when it is absent.
const crn_tensor *crn_composite_operand(const crn_kernel_args *args, const char *name);
/// UNSUPPORTED when an operand from index `first` on has a name that is not in `names` (which ends with NULL).
cairn_status crn_composite_names(const crn_kernel_args *args, int first, const char *const *names);
/// The axes attribute ("axes": one number or a list) of a value of that rank: the number of trailing dimensions it names.
/// UNSUPPORTED when it names others.
cairn_status crn_composite_trailing_axes(const crn_kernel_args *args, int rank, int *out_n);

/// What is said of attention besides its tensors, read once.
typedef struct crn_attention_terms {
  int8_t mask, sinks;  ///< operands, 0 = none
  bool causal, has_scale;
  int64_t window;  ///< 0 = none
  double scale;
} crn_attention_terms;
/// Reads the attributes and names of a call of scaled_dot_product_attention; its tensors are not looked at. Errors: UNSUPPORTED, CORRUPT.
cairn_status crn_attention_read_terms(const crn_kernel_args *args, crn_attention_terms *out_terms);
/// The call itself. Attributes and names are not looked at.
cairn_status crn_attention_run(const crn_kernel_args *args, const crn_attention_terms *terms);

/// The sum of the values in f64 lanes by position, as the reductions add.
double crn_sum_f32(const float *values, int64_t n);

/// Lists the rows of all products of a gather_mm, those of one right matrix behind each other: fills in n_groups, first_row, a_at (rows of
/// operand 0 as contiguous f32), b_at and out_at, in scratch memory. `rhs` gives the dims of the right operand and the strides that
/// b_at counts in.
cairn_status crn_gather_mm_list(const crn_kernel_args *args, const crn_tensor *rhs, crn_gemm *g);

#endif
