// Reading index vectors and scalars of a kernel call, with the checks and messages of inference.
#include "backend/cpu/ref/ref.h"

static cairn_status require_data(const crn_kernel_args *args, int operand, bool known) {
  if (known) return CAIRN_OK;
  return CRN_FAIL(INTERNAL, "%s: the kernel was called without the data of operand %d", crn_ref_name(args), operand);
}

cairn_status crn_ref_int_vector(const crn_kernel_args *args, int operand, int64_t *out_values, int *out_n) {
  crn_infer_args operands = crn_ref_operands(args);
  bool known;
  CRN_TRY(crn_infer_int_vector(&operands, operand, out_values, out_n, &known));
  return require_data(args, operand, known);
}

cairn_status crn_ref_vector_of(const crn_kernel_args *args, int operand, int n, int64_t *out_values) {
  crn_infer_args operands = crn_ref_operands(args);
  bool known;
  CRN_TRY(crn_infer_vector_of(&operands, operand, n, out_values, &known));
  return require_data(args, operand, known);
}

cairn_status crn_ref_spatial(const crn_kernel_args *args, int operand, int n, int64_t *out_values) {
  int64_t values[CAIRN_MAX_RANK * 2];
  int count;
  CRN_TRY(crn_ref_int_vector(args, operand, values, &count));
  if (count != n && count != 1) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %d entries, it must have %d", crn_ref_name(args), operand, count, n);
  }
  for (int i = 0; i < n; i++) out_values[i] = values[count == 1 ? 0 : i];
  return CAIRN_OK;
}

cairn_status crn_ref_int_scalar(const crn_kernel_args *args, int operand, int64_t *out_value) {
  return crn_ref_vector_of(args, operand, 1, out_value);
}

cairn_status crn_ref_axis(const crn_kernel_args *args, int operand, int rank, int *out_axis) {
  crn_infer_args operands = crn_ref_operands(args);
  int64_t axis;
  CRN_TRY(crn_ref_int_scalar(args, operand, &axis));
  return crn_infer_axis(&operands, axis, rank, out_axis);
}

cairn_status crn_ref_axes(const crn_kernel_args *args, int operand, int rank, bool *out_mask) {
  crn_infer_args operands = crn_ref_operands(args);
  bool known;
  int n;
  CRN_TRY(crn_infer_axes(&operands, operand, rank, out_mask, &n, &known));
  return require_data(args, operand, known);
}

cairn_status crn_ref_flag(const crn_kernel_args *args, int operand, bool *out_value) {
  crn_infer_args operands = crn_ref_operands(args);
  bool known;
  CRN_TRY(crn_infer_flag(&operands, operand, out_value, &known));
  return require_data(args, operand, known);
}

cairn_status crn_ref_unpacked(const crn_kernel_args *args, int operand, crn_tensor *out_tensor) {
  const crn_tensor *x = &args->operands[operand];
  *out_tensor = *x;
  if (!x->packed) return CAIRN_OK;
  crn_tensor plain = crn_tensor_make(x->dtype, x->dims, x->rank, NULL);
  size_t bytes;
  if (!crn_shape_bytes(x->dtype, x->dims, x->rank, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%s: operand %d is too large", crn_ref_name(args), operand);
  CRN_TRY(args->scratch->take(args->scratch, bytes, &plain.data));
  crn_tensor_unpack(x, &plain);
  *out_tensor = plain;
  return CAIRN_OK;
}
