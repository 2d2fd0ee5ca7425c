// Ops that pick or place elements by index.
#include "program/infer/dims.h"

static cairn_status check_index_type(const crn_infer_args *args, int operand) {
  cairn_dtype dtype = args->operands[operand].dtype;
  if (crn_dtype_is_integer(dtype)) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is %s, an integer type is needed", crn_infer_name(args), operand,
                  cairn_dtype_name(dtype));
}

// Beside the axis, `small` may not be larger than the input in any dimension.
static cairn_status check_fits(const crn_infer_args *args, int small, int axis) {
  const crn_tensor *x = &args->operands[0], *s = &args->operands[small];
  for (int i = 0; i < x->rank; i++) {
    if (i == axis || x->dims[i] == CAIRN_DYNAMIC || s->dims[i] <= x->dims[i]) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has size %lld in dimension %d, operand 0 only %lld", crn_infer_name(args), small,
                    (long long)s->dims[i], i, (long long)x->dims[i]);
  }
  return CAIRN_OK;
}

static cairn_status along_axis(const crn_infer_args *args, int axis_operand, int *out_axis, bool *out_known) {
  CRN_TRY(crn_infer_rank(args, 0, 1, CAIRN_MAX_RANK));
  CRN_TRY(check_index_type(args, 1));
  CRN_TRY(crn_infer_rank(args, 1, args->operands[0].rank, args->operands[0].rank));
  int64_t axis;
  CRN_TRY(crn_infer_int_scalar(args, axis_operand, &axis, out_known));
  if (*out_known) {
    CRN_TRY(crn_infer_axis(args, axis, args->operands[0].rank, out_axis));
    CRN_TRY(check_fits(args, 1, *out_axis));
  }
  return CAIRN_OK;
}

cairn_status crn_infer_gather_along_axis(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  int axis;
  bool known;
  CRN_TRY(along_axis(args, 2, &axis, &known));
  return crn_infer_finish(args, 0, args->operands[0].dtype, args->operands[1].rank, args->operands[1].dims);
}

// The length of an index vector; -1 when not known.
static cairn_status index_length(const crn_infer_args *args, int64_t *out_length) {
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1];
  CRN_TRY(check_index_type(args, 1));
  CRN_TRY(crn_infer_rank(args, 1, 1, CAIRN_MAX_RANK));
  *out_length = index->dims[index->rank - 1];
  if (*out_length > x->rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the index vectors of operand 1 have %lld entries, operand 0 has rank %d", crn_infer_name(args),
                    (long long)*out_length, x->rank);
  }
  return CAIRN_OK;
}

cairn_status crn_infer_gather_nd(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1];
  int64_t length, dims[2 * CAIRN_MAX_RANK];
  CRN_TRY(index_length(args, &length));
  if (length < 0) return crn_infer_finish_declared(args, 0, x->dtype, "the last size of operand 1");
  int rank = 0;
  for (int i = 0; i < index->rank - 1; i++) dims[rank++] = index->dims[i];
  for (int i = (int)length; i < x->rank; i++) dims[rank++] = x->dims[i];
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

cairn_status crn_infer_scatter_along_axis(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 4));
  CRN_TRY(crn_infer_same_dtype(args, 0, 2));
  if (args->mode < CRN_SCATTER_UPDATE || args->mode > CRN_SCATTER_MIN) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: scatter mode %d is not known, 0 to 6 are", crn_infer_name(args), args->mode);
  }
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1], *update = &args->operands[2];
  int axis;
  bool known;
  CRN_TRY(along_axis(args, 3, &axis, &known));
  CRN_TRY(crn_infer_rank(args, 2, x->rank, x->rank));
  for (int i = 0; i < x->rank; i++) {
    if (index->dims[i] == CAIRN_DYNAMIC || update->dims[i] == CAIRN_DYNAMIC || index->dims[i] <= update->dims[i]) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 2 has size %lld in dimension %d, the indices need %lld", crn_infer_name(args),
                    (long long)update->dims[i], i, (long long)index->dims[i]);
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, x->dims);
}

cairn_status crn_infer_scatter_nd(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_same_dtype(args, 0, 2));
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1], *update = &args->operands[2];
  int64_t length, joined;
  CRN_TRY(index_length(args, &length));
  if (length >= 0) {
    int batch = index->rank - 1, rank = batch + x->rank - (int)length;
    // Apple's converter leaves the updates of index_put as they are when the number of indices is dynamic (buffer[i] = row), so
    // they are broadcast here.
    CRN_TRY(crn_infer_rank(args, 2, 0, rank));
    for (int u = 0; u < update->rank; u++) {
      int i = u + rank - update->rank;
      int64_t wanted = i < batch ? index->dims[i] : x->dims[(int)length + i - batch];
      if (update->dims[u] == 1 || crn_dim_unify(wanted, update->dims[u], &joined)) continue;
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 2 has size %lld in dimension %d, it must be %lld or 1", crn_infer_name(args),
                      (long long)update->dims[u], u, (long long)wanted);
    }
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, x->dims);
}

int64_t crn_count_nonzero(const crn_tensor *x) {
  crn_nd_iter it;
  int64_t n = 0;
  crn_nd_initialize(&it, x->rank, x->dims);
  crn_nd_operand(&it, x->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) n += crn_is_nonzero(x->dtype, crn_tensor_at(x, it.offset[0]));
  return n;
}

bool crn_is_nonzero(cairn_dtype dtype, const void *element) {
  if (crn_dtype_is_float(dtype)) return crn_load_f64(dtype, element) != 0;
  return crn_load_i64(dtype, element) != 0;
}

cairn_status crn_infer_non_zero(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 1));
  const crn_tensor *x = &args->operands[0];
  cairn_dtype dtype = crn_infer_declared_dtype(args, 0, CAIRN_SI32);
  if (!crn_dtype_is_integer(dtype) || crn_dtype_is_complex(x->dtype)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: from %s to %s: real elements and an integer result are needed", crn_infer_name(args),
                    cairn_dtype_name(x->dtype), cairn_dtype_name(dtype));
  }
  int64_t dims[2] = {CAIRN_DYNAMIC, x->rank};
  // The one op whose shape depends on all elements: they are counted when they are there.
  if (x->data && !x->packed) dims[0] = crn_count_nonzero(x);
  return crn_infer_finish(args, 0, dtype, 2, dims);
}
