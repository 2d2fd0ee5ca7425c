/// Shape inference: the result types of an op from its operands.
///
/// One function per group serves both uses. At run time operands have full shapes and data, and results get full shapes.
/// While building or verifying, dims may be -1 and data NULL (unknown), and results get -1 where nothing better is known.
#ifndef CRN_PROGRAM_INFER_H
#define CRN_PROGRAM_INFER_H

#include "program/ir.h"

typedef struct crn_infer_args {
  crn_op_id id;
  int mode;               ///< the enum attribute of ops that have one
  const crn_attr *attrs;  ///< a composite's op_attrs, else NULL
  const void *fused;      ///< the parameters of a step that specialization made, else NULL
  int n_operands;
  const crn_tensor *operands;
  int n_results;
  /// In: dtype as declared (CAIRN_DTYPE_NONE when nothing is declared), rank and dims as declared (rank -1 when not).
  /// Out: dtype, rank, dims. `data`, strides and packed are not touched.
  crn_tensor *results;
} crn_infer_args;

/// Errors: INVALID_ARGUMENT naming the operand and what would fit.
typedef cairn_status (*crn_infer_fn)(const crn_infer_args *args);

/// The inference of an op; NULL for rows without one.
crn_infer_fn crn_infer_of(crn_op_id id);

#define OP_READY(id, name, n_in, n_out, traits, infer) cairn_status crn_infer_##infer(const crn_infer_args *args);
#define OP_EXEC(id, name, n_in, n_out, traits)
#define OP_APPLE(id, name, n_in, n_out, traits)
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE

// --- helpers shared by the groups ------------------------------------------------------------------------------------

/// Reads an integer vector operand (rank 0 or 1, any integer dtype) of at most CAIRN_MAX_RANK * 2 entries.
/// `*out_known` is false when its data is not known; then only the count is valid (-1 when even that is unknown).
cairn_status crn_infer_int_vector(const crn_infer_args *args, int operand, int64_t *out_values, int *out_n, bool *out_known);
/// Reads a one-element integer operand.
cairn_status crn_infer_int_scalar(const crn_infer_args *args, int operand, int64_t *out_value, bool *out_known);
/// Adds `rank` to a negative axis and checks the range.
cairn_status crn_infer_axis(const crn_infer_args *args, int64_t axis, int rank, int *out_axis);
/// NumPy broadcast of two dims lists; -1 stays unknown unless the other side decides.
cairn_status crn_infer_broadcast_dims(const crn_infer_args *args, const crn_tensor *a, const crn_tensor *b, crn_tensor *out);

#endif
