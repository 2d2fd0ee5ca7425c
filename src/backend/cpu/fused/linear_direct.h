/// Products of f32 rows with f32 weights in exact precision: rows are read where they lie and results are written where they belong. Bits
/// are those of the general way (linear.c), which takes everything else.
#ifndef CRN_BACKEND_CPU_FUSED_LINEAR_DIRECT_H
#define CRN_BACKEND_CPU_FUSED_LINEAR_DIRECT_H

#include "backend/cpu/fused/linear.h"

/// `added` is NULL when the step adds nothing, and has as many rows as the product otherwise. `outs`: one for each joined product.
bool crn_linear_direct_takes(const crn_kernel_args *args, const crn_tensor *added, const crn_tensor *outs);
cairn_status crn_linear_direct_run(const crn_kernel_args *args, const crn_tensor *added, const crn_tensor *outs);

#endif
