/// The reference kernels: plain loops that define what each op computes. One crn_ref_<id> per READY row of ops.def and
/// one crn_view_<id> per row of views.def.
#ifndef CRN_BACKEND_CPU_REF_REF_H
#define CRN_BACKEND_CPU_REF_REF_H

#include "backend/backend.h"
#include "program/infer/dims.h"

#define OP_READY(id, name, n_in, n_out, traits, infer) cairn_status crn_ref_##id(const crn_kernel_args *args);
#define OP_EXEC(id, name, n_in, n_out, traits)
#define OP_APPLE(id, name, n_in, n_out, traits)
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE

#define VIEW(id) cairn_status crn_view_##id(const crn_kernel_args *args, bool *out_done);
#include "backend/cpu/ref/views.def"
#undef VIEW

/// The operands as inference sees them, to read index vectors with the same checks and messages.
static inline crn_infer_args crn_ref_operands(const crn_kernel_args *args) {
  return (crn_infer_args){
      .id = args->id,
      .mode = args->mode,
      .attrs = args->attrs,
      .n_operands = args->n_operands,
      .operands = args->operands,
      .n_results = args->n_results,
      .results = args->results,
  };
}

/// As crn_infer_int_vector, crn_infer_vector_of, crn_infer_int_scalar, crn_infer_axis, crn_infer_axes and crn_infer_flag, where the data
/// must be known.
cairn_status crn_ref_int_vector(const crn_kernel_args *args, int operand, int64_t *out_values, int *out_n);
cairn_status crn_ref_vector_of(const crn_kernel_args *args, int operand, int n, int64_t *out_values);
/// A vector with one entry for each of `n` spatial dimensions, or one entry for all of them.
cairn_status crn_ref_spatial(const crn_kernel_args *args, int operand, int n, int64_t *out_values);
cairn_status crn_ref_int_scalar(const crn_kernel_args *args, int operand, int64_t *out_value);
cairn_status crn_ref_axis(const crn_kernel_args *args, int operand, int rank, int *out_axis);
cairn_status crn_ref_axes(const crn_kernel_args *args, int operand, int rank, bool *out_mask);
cairn_status crn_ref_flag(const crn_kernel_args *args, int operand, bool *out_value);

/// An operand as a tensor with strides: a packed one is unpacked into scratch memory.
cairn_status crn_ref_unpacked(const crn_kernel_args *args, int operand, crn_tensor *out_tensor);

/// The name of the op for messages.
static inline const char *crn_ref_name(const crn_kernel_args *args) { return crn_op_info_of(args->id)->name; }

#endif
