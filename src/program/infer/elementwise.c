#include "program/infer/dims.h"

// Checks of the operands beside the first, for ops whose result has the shape of operand 0.
static cairn_status check_axis_operand(const crn_infer_args *args, int operand) {
  CRN_TRY(crn_infer_arity(args, operand + 1));
  bool known;
  int64_t axis;
  CRN_TRY(crn_infer_int_scalar(args, operand, &axis, &known));
  int at;
  return known ? crn_infer_axis(args, axis, args->operands[0].rank, &at) : CAIRN_OK;
}

static cairn_status check_scan(const crn_infer_args *args) {
  bool reverse, known;
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_flag(args, 2, &reverse, &known));
  return check_axis_operand(args, 1);
}

static cairn_status check_reverse(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  bool mask[CAIRN_MAX_RANK], known;
  int n;
  return crn_infer_axes(args, 1, args->operands[0].rank, mask, &n, &known);
}

static cairn_status check_slice_update(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 5));
  const crn_tensor *base = &args->operands[0], *update = &args->operands[4];
  int64_t bounds[3][CAIRN_MAX_RANK * 2];
  bool known[3];
  for (int i = 0; i < 3; i++) CRN_TRY(crn_infer_vector_of(args, i + 1, base->rank, bounds[i], &known[i]));
  CRN_TRY(crn_infer_same_dtype(args, 0, 4));
  CRN_TRY(crn_infer_rank(args, 4, base->rank, base->rank));
  for (int i = 0; known[2] && i < base->rank; i++) {
    if (bounds[2][i] == 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 3 has stride 0 in dimension %d", crn_infer_name(args), i);
    if (!known[0] || !known[1] || base->dims[i] == CAIRN_DYNAMIC || update->dims[i] == CAIRN_DYNAMIC) continue;
    int64_t first, count;
    crn_slice_bounds(base->dims[i], bounds[0][i], bounds[1][i], bounds[2][i], &first, &count);
    if (count != update->dims[i]) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 4 has size %lld in dimension %d, the slice takes %lld elements there",
                      crn_infer_name(args), (long long)update->dims[i], i, (long long)count);
    }
  }
  return CAIRN_OK;
}

cairn_status crn_infer_unary(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 1));
  switch (args->id) {
    case CRN_OP_reverse:
      CRN_TRY(check_reverse(args));
      break;
    case CRN_OP_gelu:
      if (args->mode < CRN_GELU_NONE || args->mode > CRN_GELU_SIGMOID)
        return CRN_FAIL(INVALID_ARGUMENT, "%s: approximation %d is not known, 0 to 2 are", crn_infer_name(args), args->mode);
      break;
    case CRN_OP_scan:
      CRN_TRY(check_scan(args));
      break;
    case CRN_OP_softmax:
      CRN_TRY(check_axis_operand(args, 1));
      break;
    case CRN_OP_slice_update:
      CRN_TRY(check_slice_update(args));
      break;
    default:
      break;
  }
  const crn_tensor *x = &args->operands[0];
  // A composite may convert on the way: its declaration says what it gives.
  bool composite = (crn_op_info_of(args->id)->traits & CRN_COMPOSITE) != 0;
  cairn_dtype dtype = composite ? crn_infer_declared_dtype(args, 0, x->dtype) : x->dtype;
  return crn_infer_finish(args, 0, dtype, x->rank, x->dims);
}

cairn_status crn_infer_declared(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 1));
  cairn_dtype dtype = crn_infer_declared_dtype(args, 0, CAIRN_DTYPE_NONE);
  if (dtype == CAIRN_DTYPE_NONE) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the element type of the result must be declared", crn_infer_name(args));
  }
  return crn_infer_finish(args, 0, dtype, args->operands[0].rank, args->operands[0].dims);
}

static cairn_status same_shape(const crn_infer_args *args, cairn_dtype dtype) {
  CRN_TRY(crn_infer_arity(args, 2));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  crn_tensor out;
  CRN_TRY(crn_infer_same_dims(args, 0, 1, &out));
  return crn_infer_finish(args, 0, dtype == CAIRN_DTYPE_NONE ? args->operands[0].dtype : dtype, out.rank, out.dims);
}

cairn_status crn_infer_binary(const crn_infer_args *args) { return same_shape(args, CAIRN_DTYPE_NONE); }

cairn_status crn_infer_compare(const crn_infer_args *args) { return same_shape(args, CAIRN_BOOL); }

static cairn_status broadcast_shape(const crn_infer_args *args, cairn_dtype dtype) {
  CRN_TRY(crn_infer_arity(args, 2));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  crn_tensor out;
  CRN_TRY(crn_infer_broadcast_dims(args, &args->operands[0], &args->operands[1], &out));
  return crn_infer_finish(args, 0, dtype == CAIRN_DTYPE_NONE ? args->operands[0].dtype : dtype, out.rank, out.dims);
}

cairn_status crn_infer_broadcast(const crn_infer_args *args) { return broadcast_shape(args, CAIRN_DTYPE_NONE); }

cairn_status crn_infer_broadcast_compare(const crn_infer_args *args) { return broadcast_shape(args, CAIRN_BOOL); }

static cairn_status check_where(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  if (args->operands[0].dtype != CAIRN_BOOL) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 is %s, the condition must be bool", crn_infer_name(args),
                    cairn_dtype_name(args->operands[0].dtype));
  }
  return crn_infer_same_dtype(args, 1, 2);
}

cairn_status crn_infer_where(const crn_infer_args *args) {
  CRN_TRY(check_where(args));
  crn_tensor values, out;
  CRN_TRY(crn_infer_same_dims(args, 1, 2, &values));
  CRN_TRY(crn_infer_same_dims(args, 0, 1, &out));
  for (int i = 0; i < out.rank; i++) {
    // Both pairs agree, so a contradiction can only be between the condition and operand 2.
    if (!crn_dim_unify(out.dims[i], values.dims[i], &out.dims[i])) CRN_TRY(crn_infer_same_dims(args, 0, 2, &out));
  }
  return crn_infer_finish(args, 0, args->operands[1].dtype, out.rank, out.dims);
}

cairn_status crn_infer_broadcast_where(const crn_infer_args *args) {
  CRN_TRY(check_where(args));
  crn_tensor out;
  CRN_TRY(crn_infer_broadcast_dims(args, &args->operands[1], &args->operands[2], &out));
  CRN_TRY(crn_infer_broadcast_dims(args, &args->operands[0], &out, &out));
  return crn_infer_finish(args, 0, args->operands[1].dtype, out.rank, out.dims);
}
