#include "base/checked.h"
#include "program/infer/dims.h"

cairn_status crn_infer_arity(const crn_infer_args *args, int n) {
  if (args->n_operands < n) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s has %d operands, at least %d are needed", crn_infer_name(args), args->n_operands, n);
  }
  if (args->n_results < 1) return CRN_FAIL(INVALID_ARGUMENT, "%s has no result", crn_infer_name(args));
  for (int i = 0; i < args->n_operands; i++) CRN_TRY(crn_infer_rank(args, i, 0, CAIRN_MAX_RANK));
  return CAIRN_OK;
}

cairn_status crn_infer_rank(const crn_infer_args *args, int operand, int least, int most) {
  int rank = args->operands[operand].rank;
  if (rank >= least && rank <= most) return CAIRN_OK;
  if (least == most)
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has rank %d, it must be %d", crn_infer_name(args), operand, rank, least);
  return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has rank %d, it must be %d to %d", crn_infer_name(args), operand, rank, least, most);
}

cairn_status crn_infer_same_dtype(const crn_infer_args *args, int a, int b) {
  cairn_dtype x = args->operands[a].dtype, y = args->operands[b].dtype;
  if (x == y) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is %s and operand %d is %s, they must be the same", crn_infer_name(args), a,
                  cairn_dtype_name(x), b, cairn_dtype_name(y));
}

cairn_status crn_infer_same_dims(const crn_infer_args *args, int a, int b, crn_tensor *out) {
  const crn_tensor *x = &args->operands[a], *y = &args->operands[b];
  bool same = x->rank == y->rank;
  for (int i = 0; same && i < x->rank; i++) same = crn_dim_unify(x->dims[i], y->dims[i], &out->dims[i]);
  if (!same) {
    char p[CRN_SHAPE_TEXT], q[CRN_SHAPE_TEXT];
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has shape %s and operand %d has %s, they must be the same", crn_infer_name(args), a,
                    crn_shape_text(x->dims, x->rank, p), b, crn_shape_text(y->dims, y->rank, q));
  }
  out->rank = x->rank;
  return CAIRN_OK;
}

cairn_status crn_infer_broadcast_dims(const crn_infer_args *args, const crn_tensor *a, const crn_tensor *b, crn_tensor *out) {
  // Copies, because `out` may be one of the operands.
  crn_tensor x = *a, y = *b;
  int rank = x.rank > y.rank ? x.rank : y.rank;
  for (int i = 1; i <= rank; i++) {
    int64_t p = i <= x.rank ? x.dims[x.rank - i] : 1, q = i <= y.rank ? y.dims[y.rank - i] : 1;
    if (!crn_dim_broadcast(p, q, &out->dims[rank - i])) {
      char s[CRN_SHAPE_TEXT], t[CRN_SHAPE_TEXT];
      return CRN_FAIL(INVALID_ARGUMENT, "%s: shapes %s and %s do not broadcast: sizes %lld and %lld, %d from the end, must be equal or 1",
                      crn_infer_name(args), crn_shape_text(x.dims, x.rank, s), crn_shape_text(y.dims, y.rank, t), (long long)p,
                      (long long)q, i);
    }
  }
  out->rank = rank;
  return CAIRN_OK;
}

cairn_status crn_infer_int_vector(const crn_infer_args *args, int operand, int64_t *out_values, int *out_n, bool *out_known) {
  const crn_tensor *t = &args->operands[operand];
  if (!crn_dtype_is_integer(t->dtype)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is %s, an integer type is needed", crn_infer_name(args), operand,
                    cairn_dtype_name(t->dtype));
  }
  CRN_TRY(crn_infer_rank(args, operand, 0, 1));
  int64_t n = t->rank == 0 ? 1 : t->dims[0];
  *out_known = false;
  *out_n = -1;
  if (n == CAIRN_DYNAMIC) return CAIRN_OK;
  if (n < 0 || n > CAIRN_MAX_RANK * 2) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %lld entries, 0 to %d are possible", crn_infer_name(args), operand, (long long)n,
                    CAIRN_MAX_RANK * 2);
  }
  *out_n = (int)n;
  // Packed sub-byte vectors are unpacked before anybody needs their values.
  if (!t->data || t->packed) return CAIRN_OK;
  int64_t stride = t->rank == 0 ? 0 : t->strides[0];
  for (int i = 0; i < (int)n; i++) out_values[i] = crn_load_i64(t->dtype, crn_tensor_at(t, i * stride));
  *out_known = true;
  return CAIRN_OK;
}

cairn_status crn_infer_int_scalar(const crn_infer_args *args, int operand, int64_t *out_value, bool *out_known) {
  int64_t values[CAIRN_MAX_RANK * 2] = {0};
  CRN_TRY(crn_infer_vector_of(args, operand, 1, values, out_known));
  *out_value = values[0];
  return CAIRN_OK;
}

cairn_status crn_infer_single(const crn_infer_args *args, int operand) {
  const crn_tensor *t = &args->operands[operand];
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == 1 || t->dims[i] == CAIRN_DYNAMIC) continue;
    char text[CRN_SHAPE_TEXT];
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has shape %s, one element is needed", crn_infer_name(args), operand,
                    crn_shape_text(t->dims, t->rank, text));
  }
  return CAIRN_OK;
}

cairn_status crn_infer_flag(const crn_infer_args *args, int operand, bool *out_value, bool *out_known) {
  const crn_tensor *t = &args->operands[operand];
  if (t->dtype != CAIRN_BOOL) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is %s, it must be bool", crn_infer_name(args), operand, cairn_dtype_name(t->dtype));
  }
  CRN_TRY(crn_infer_single(args, operand));
  *out_known = t->data != NULL;
  *out_value = *out_known && crn_load_i64(CAIRN_BOOL, t->data) != 0;
  return CAIRN_OK;
}

cairn_status crn_infer_vector_of(const crn_infer_args *args, int operand, int n, int64_t *out_values, bool *out_known) {
  // What nearly all of them are, and many are read in every run.
  const crn_tensor *t = operand < args->n_operands ? &args->operands[operand] : NULL;
  if (t && t->dtype == CAIRN_SI32 && t->rank == 1 && t->dims[0] == n && t->data && !t->packed) {
    for (int i = 0; i < n; i++) out_values[i] = ((const int32_t *)t->data)[i * t->strides[0]];
    *out_known = true;
    return CAIRN_OK;
  }
  int count;
  int64_t values[CAIRN_MAX_RANK * 2];
  CRN_TRY(crn_infer_int_vector(args, operand, values, &count, out_known));
  if (count >= 0 && count != n) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %d entries, it must have %d", crn_infer_name(args), operand, count, n);
  }
  for (int i = 0; *out_known && i < n; i++) out_values[i] = values[i];
  return CAIRN_OK;
}

cairn_status crn_infer_axis(const crn_infer_args *args, int64_t axis, int rank, int *out_axis) {
  if (axis < -(int64_t)rank || axis >= rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: axis %lld is outside of [%d, %d)", crn_infer_name(args), (long long)axis, -rank, rank);
  }
  *out_axis = (int)(axis < 0 ? axis + rank : axis);
  return CAIRN_OK;
}

cairn_status crn_infer_axes(const crn_infer_args *args, int operand, int rank, bool *out_mask, int *out_n, bool *out_known) {
  int64_t values[CAIRN_MAX_RANK * 2];
  CRN_TRY(crn_infer_int_vector(args, operand, values, out_n, out_known));
  for (int i = 0; i < rank; i++) out_mask[i] = false;
  for (int i = 0; *out_known && i < *out_n; i++) {
    int axis;
    CRN_TRY(crn_infer_axis(args, values[i], rank, &axis));
    if (out_mask[axis]) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d names axis %d twice", crn_infer_name(args), operand, axis);
    out_mask[axis] = true;
  }
  return CAIRN_OK;
}

// A result struct that was only zeroed (no element type, rank 0) counts as undeclared.
static bool has_declared_shape(const crn_tensor *result) { return result->rank >= 0 && result->dtype != CAIRN_DTYPE_NONE; }

cairn_dtype crn_infer_declared_dtype(const crn_infer_args *args, int result, cairn_dtype fallback) {
  cairn_dtype declared = args->results[result].dtype;
  return declared == CAIRN_DTYPE_NONE ? fallback : declared;
}

static cairn_status merge_declared(const crn_infer_args *args, int result, cairn_dtype dtype, int rank, int64_t *dims) {
  const crn_tensor *declared = &args->results[result];
  if (declared->dtype != CAIRN_DTYPE_NONE && declared->dtype != dtype) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: result %d is declared %s, its operands make it %s", crn_infer_name(args), result,
                    cairn_dtype_name(declared->dtype), cairn_dtype_name(dtype));
  }
  if (!has_declared_shape(declared)) return CAIRN_OK;
  bool same = declared->rank == rank;
  int64_t merged[CAIRN_MAX_RANK];
  for (int i = 0; same && i < rank; i++) same = crn_dim_unify(dims[i], declared->dims[i], &merged[i]);
  if (!same) {
    char p[CRN_SHAPE_TEXT], q[CRN_SHAPE_TEXT];
    return CRN_FAIL(INVALID_ARGUMENT, "%s: result %d is declared with shape %s, its operands make it %s", crn_infer_name(args), result,
                    crn_shape_text(declared->dims, declared->rank, p), crn_shape_text(dims, rank, q));
  }
  for (int i = 0; i < rank; i++) dims[i] = merged[i];
  return CAIRN_OK;
}

// Whether the bytes of the known part can be counted. An empty tensor must not hide sizes whose product overflows, because
// strides are computed from them.
static bool is_possible(cairn_dtype dtype, int rank, const int64_t *dims) {
  int64_t counted[CAIRN_MAX_RANK];
  size_t bytes;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < CAIRN_DYNAMIC) return false;
    counted[i] = dims[i] < 1 ? 1 : dims[i];
  }
  return crn_shape_bytes(dtype, counted, rank, &bytes);
}

cairn_status crn_infer_finish(const crn_infer_args *args, int result, cairn_dtype dtype, int rank, const int64_t *dims) {
  if (rank < 0 || rank > CAIRN_MAX_RANK) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: result %d would have rank %d, at most %d is possible", crn_infer_name(args), result, rank,
                    CAIRN_MAX_RANK);
  }
  int64_t merged[CAIRN_MAX_RANK] = {0};
  for (int i = 0; i < rank; i++) merged[i] = dims[i];
  CRN_TRY(merge_declared(args, result, dtype, rank, merged));
  if (!is_possible(dtype, rank, merged)) {
    char p[CRN_SHAPE_TEXT];
    return CRN_FAIL(OUT_OF_RANGE, "%s: result %d of shape %s and type %s is not possible in memory", crn_infer_name(args), result,
                    crn_shape_text(merged, rank, p), cairn_dtype_name(dtype));
  }
  crn_tensor *out = &args->results[result];
  out->dtype = dtype;
  out->rank = rank;
  for (int i = 0; i < rank; i++) out->dims[i] = merged[i];
  return CAIRN_OK;
}

cairn_status crn_infer_finish_declared(const crn_infer_args *args, int result, cairn_dtype dtype, const char *missing) {
  crn_tensor declared = args->results[result];
  if (!has_declared_shape(&declared)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the rank of result %d cannot be found: %s is not known and no shape is declared",
                    crn_infer_name(args), result, missing);
  }
  return crn_infer_finish(args, result, dtype, declared.rank, declared.dims);
}
