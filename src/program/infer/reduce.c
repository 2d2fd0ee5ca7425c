#include "program/infer/dims.h"

cairn_status crn_infer_reduce(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  bool mask[CAIRN_MAX_RANK], known;
  int n;
  CRN_TRY(crn_infer_axes(args, 1, x->rank, mask, &n, &known));
  if (n > x->rank) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 names %d axes of rank %d", crn_infer_name(args), n, x->rank);
  int64_t dims[CAIRN_MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    // With unknown axes a dimension is kept or becomes 1; as many axes as dimensions means all of them.
    bool reduced = known ? mask[i] : n == x->rank;
    dims[i] = reduced || x->dims[i] == 1 ? 1 : known || n == 0 ? x->dims[i] : CAIRN_DYNAMIC;
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}

// The generic form: operand 2 is the value a reduction starts with.
cairn_status crn_infer_reduce_generic(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_same_dtype(args, 0, 2));
  CRN_TRY(crn_infer_single(args, 2));
  return crn_infer_reduce(args);
}

// The dims of operand 0 with the dimension of a scalar axis operand set to `size` (-1 leaves it as it is).
static cairn_status along_axis(const crn_infer_args *args, int operand, int64_t size, cairn_dtype dtype) {
  CRN_TRY(crn_infer_arity(args, operand + 1));
  const crn_tensor *x = &args->operands[0];
  CRN_TRY(crn_infer_rank(args, 0, 1, CAIRN_MAX_RANK));
  int64_t value, dims[CAIRN_MAX_RANK];
  bool known;
  CRN_TRY(crn_infer_int_scalar(args, operand, &value, &known));
  if (!known && x->rank == 1) {
    value = 0;
    known = true;
  }
  int axis = -1;
  if (known) CRN_TRY(crn_infer_axis(args, value, x->rank, &axis));
  for (int i = 0; i < x->rank; i++) {
    dims[i] = x->dims[i];
    if (size < 0 || x->dims[i] == size) continue;
    if (!known) dims[i] = CAIRN_DYNAMIC;
    if (i == axis) dims[i] = size;
  }
  return crn_infer_finish(args, 0, dtype, x->rank, dims);
}

// Results that are places along the axis.
static cairn_status places_along_axis(const crn_infer_args *args, int64_t size, cairn_dtype usual) {
  CRN_TRY(crn_infer_arity(args, 2));
  cairn_dtype dtype = crn_infer_declared_dtype(args, 0, usual);
  if (!crn_dtype_is_integer(dtype)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the result is declared %s, an index type is needed", crn_infer_name(args),
                    cairn_dtype_name(dtype));
  }
  return along_axis(args, 1, size, dtype);
}

cairn_status crn_infer_argmax(const crn_infer_args *args) { return places_along_axis(args, 1, CAIRN_UI32); }

// Operands 2 and 3: the value and the place a reduction starts with; the latter gives the type of the result.
cairn_status crn_infer_reduce_index(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 4));
  CRN_TRY(crn_infer_same_dtype(args, 0, 2));
  CRN_TRY(crn_infer_single(args, 2));
  CRN_TRY(crn_infer_single(args, 3));
  cairn_dtype place = args->operands[3].dtype;
  if (!crn_dtype_is_integer(place)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 3 is %s, an integer type is needed", crn_infer_name(args), cairn_dtype_name(place));
  }
  return along_axis(args, 1, 1, place);
}

// Operands 2 and 3: descending, stable.
static cairn_status check_order(const crn_infer_args *args) {
  bool flag, known;
  CRN_TRY(crn_infer_arity(args, 4));
  CRN_TRY(crn_infer_flag(args, 2, &flag, &known));
  return crn_infer_flag(args, 3, &flag, &known);
}

cairn_status crn_infer_argsort(const crn_infer_args *args) {
  CRN_TRY(check_order(args));
  return places_along_axis(args, CAIRN_DYNAMIC, CAIRN_SI32);
}

cairn_status crn_infer_sort(const crn_infer_args *args) {
  CRN_TRY(check_order(args));
  return along_axis(args, 1, CAIRN_DYNAMIC, args->operands[0].dtype);
}
