#include "program/infer/dims.h"

cairn_status crn_infer_matmul_dims(const crn_infer_args *args, const crn_tensor *a, const crn_tensor *b, bool broadcast, crn_tensor *out) {
  char p[CRN_SHAPE_TEXT], q[CRN_SHAPE_TEXT];
  int64_t inner;
  if (!crn_dim_unify(a->dims[a->rank - 1], b->dims[b->rank - 2], &inner)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: %s times %s: the last size of the first must be the second but last of the second",
                    crn_infer_name(args), crn_shape_text(a->dims, a->rank, p), crn_shape_text(b->dims, b->rank, q));
  }
  crn_tensor x = *a, y = *b;
  x.rank -= 2;
  y.rank -= 2;
  bool same = x.rank == y.rank;
  for (int i = 0; !broadcast && same && i < x.rank; i++) same = crn_dim_unify(x.dims[i], y.dims[i], &out->dims[i]);
  if (!broadcast && !same) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the batch sizes of %s and %s must be the same", crn_infer_name(args),
                    crn_shape_text(a->dims, a->rank, p), crn_shape_text(b->dims, b->rank, q));
  }
  out->rank = x.rank;
  if (broadcast) CRN_TRY(crn_infer_broadcast_dims(args, &x, &y, out));
  if (out->rank + 2 > CAIRN_MAX_RANK) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the result would have rank %d, at most %d is possible", crn_infer_name(args), out->rank + 2,
                    CAIRN_MAX_RANK);
  }
  out->dims[out->rank++] = a->dims[a->rank - 2];
  out->dims[out->rank++] = b->dims[b->rank - 1];
  return CAIRN_OK;
}

static cairn_status infer_product(const crn_infer_args *args, bool broadcast) {
  CRN_TRY(crn_infer_arity(args, 2));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  CRN_TRY(crn_infer_rank(args, 0, 2, CAIRN_MAX_RANK));
  CRN_TRY(crn_infer_rank(args, 1, 2, CAIRN_MAX_RANK));
  crn_tensor out;
  CRN_TRY(crn_infer_matmul_dims(args, &args->operands[0], &args->operands[1], broadcast, &out));
  return crn_infer_finish(args, 0, args->operands[0].dtype, out.rank, out.dims);
}

cairn_status crn_infer_matmul(const crn_infer_args *args) { return infer_product(args, false); }

cairn_status crn_infer_broadcast_matmul(const crn_infer_args *args) { return infer_product(args, true); }
