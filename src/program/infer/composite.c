// Composites whose result does not simply have the shape of the first operand.
#include "program/infer/dims.h"

// query [.., Hq, S, D], key [.., Hkv, P, D], value [.., Hkv, P, Dv]. Without a head dimension (rank 2) and with any
// number of batch dimensions in front the rule is the same; Hq must be a multiple of Hkv.
cairn_status crn_infer_attention(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  const crn_tensor *q = &args->operands[0], *k = &args->operands[1], *v = &args->operands[2];
  CRN_TRY(crn_infer_rank(args, 0, 2, CAIRN_MAX_RANK));
  CRN_TRY(crn_infer_rank(args, 1, q->rank, q->rank));
  CRN_TRY(crn_infer_rank(args, 2, q->rank, q->rank));
  int rank = q->rank;
  int64_t joined, dims[CAIRN_MAX_RANK];
  char s[CRN_SHAPE_TEXT], t[CRN_SHAPE_TEXT];
  if (!crn_dim_unify(q->dims[rank - 1], k->dims[rank - 1], &joined)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: query %s and key %s must have the same last size", crn_infer_name(args),
                    crn_shape_text(q->dims, rank, s), crn_shape_text(k->dims, rank, t));
  }
  for (int i = 0; i < rank - 1; i++) {
    if (crn_dim_unify(k->dims[i], v->dims[i], &joined)) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: key %s and value %s may differ in the last size only", crn_infer_name(args),
                    crn_shape_text(k->dims, rank, s), crn_shape_text(v->dims, rank, t));
  }
  for (int i = 0; i < rank - 2; i++) {
    int64_t a = q->dims[i], b = k->dims[i];
    bool heads = i == rank - 3, fits = a < 0 || b < 0 || a == b || b == 1 || (heads && b > 0 && a % b == 0);
    dims[i] = a == CAIRN_DYNAMIC && !heads && b != 1 ? b : a;
    if (fits) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: query %s and key %s: size %lld of dimension %d must be %s %lld", crn_infer_name(args),
                    crn_shape_text(q->dims, rank, s), crn_shape_text(k->dims, rank, t), (long long)a, i,
                    heads ? "a multiple of" : "equal to", (long long)b);
  }
  dims[rank - 2] = q->dims[rank - 2];
  dims[rank - 1] = v->dims[rank - 1];
  return crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, q->dtype), rank, dims);
}

// Replaces the dimension `axis` of `x` by the dims of `index`: what gathering along that axis gives.
static cairn_status gather_batch(const crn_infer_args *args, const crn_tensor *x, int axis, const crn_tensor *index, crn_tensor *out) {
  *out = *x;
  int rank = x->rank - 1 + index->rank;
  if (x->rank - axis != 3 || rank > CAIRN_MAX_RANK) {
    char s[CRN_SHAPE_TEXT];
    return CRN_FAIL(INVALID_ARGUMENT,
                    "%s: matrices %s cannot be chosen by indices of rank %d: rank %d is needed, and at most %d in the result",
                    crn_infer_name(args), crn_shape_text(x->dims, x->rank, s), index->rank, axis + 3, CAIRN_MAX_RANK);
  }
  for (int i = 0; i < index->rank; i++) out->dims[axis + i] = index->dims[i];
  for (int i = 0; i < 2; i++) out->dims[rank - 2 + i] = x->dims[x->rank - 2 + i];
  out->rank = rank;
  return CAIRN_OK;
}

cairn_status crn_gather_mm_dims(const crn_infer_args *args, const crn_tensor *lhs_index, const crn_tensor *rhs_index, crn_tensor *out) {
  int64_t n_batch;
  CRN_TRY(crn_attr_get_int(args->attrs, "num_batch_axes", 0, &n_batch));
  if (n_batch < 0 || n_batch > CAIRN_MAX_RANK) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: num_batch_axes is %lld, it must be 0 to %d", crn_infer_name(args), (long long)n_batch,
                    CAIRN_MAX_RANK);
  }
  crn_tensor lhs = args->operands[0], rhs = args->operands[1];
  if (lhs_index) CRN_TRY(gather_batch(args, &args->operands[0], (int)n_batch, lhs_index, &lhs));
  if (rhs_index) CRN_TRY(gather_batch(args, &args->operands[1], (int)n_batch, rhs_index, &rhs));
  return crn_infer_matmul_dims(args, &lhs, &rhs, true, out);
}

static bool agrees(const crn_tensor *declared, const crn_tensor *found) {
  if (declared->dtype == CAIRN_DTYPE_NONE || declared->rank < 0) return true;
  bool same = declared->rank == found->rank;
  int64_t joined;
  for (int i = 0; same && i < found->rank; i++) same = crn_dim_unify(declared->dims[i], found->dims[i], &joined);
  return same;
}

bool crn_gather_mm_single_is_lhs(const crn_infer_args *args) {
  int64_t n_batch = 0;
  if (crn_attr_get_int(args->attrs, "num_batch_axes", 0, &n_batch) != CAIRN_OK) return false;
  // A right side that is one matrix per batch axis has nothing to choose from.
  if (args->operands[1].rank - n_batch == 2) return true;
  if (args->operands[0].rank - n_batch != 3) return false;
  crn_tensor as_rhs, as_lhs;
  const crn_tensor *index = &args->operands[2], *declared = &args->results[0];
  bool rhs_fits = crn_gather_mm_dims(args, NULL, index, &as_rhs) == CAIRN_OK && agrees(declared, &as_rhs);
  bool lhs_fits = !rhs_fits && crn_gather_mm_dims(args, index, NULL, &as_lhs) == CAIRN_OK && agrees(declared, &as_lhs);
  return lhs_fits;
}

cairn_status crn_infer_gather_mm(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  CRN_TRY(crn_infer_rank(args, 0, 2, CAIRN_MAX_RANK));
  CRN_TRY(crn_infer_rank(args, 1, 2, CAIRN_MAX_RANK));
  const crn_tensor *x = args->operands, *lhs_index, *rhs_index;
  for (int i = 2; i < args->n_operands; i++) {
    if (crn_dtype_is_integer(x[i].dtype)) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is %s, an integer type is needed", crn_infer_name(args), i,
                    cairn_dtype_name(x[i].dtype));
  }
  if (args->n_operands > 4)
    return CRN_FAIL(INVALID_ARGUMENT, "%s has %d operands, at most 4 are possible", crn_infer_name(args), args->n_operands);
  bool both = args->n_operands == 4, single_is_lhs = !both && crn_gather_mm_single_is_lhs(args);
  lhs_index = both || single_is_lhs ? &x[2] : NULL;
  rhs_index = both ? &x[3] : single_is_lhs ? NULL : &x[2];
  crn_tensor out;
  CRN_TRY(crn_gather_mm_dims(args, lhs_index, rhs_index, &out));
  return crn_infer_finish(args, 0, x[0].dtype, out.rank, out.dims);
}

// query, key [B, H, S, K], value [B, H, S, V], g and beta [B, H, S], state [B, H, K, V] -> outputs [B, S, H, V], new state.
cairn_status crn_infer_gated_delta(const crn_infer_args *args) {
  static const char *const what[] = {"query", "key", "value", "g", "beta", "initial_state"};
  // Which of the sizes B, H, S, K, V each operand has.
  static const int sizes[6][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 4}, {0, 1, 2, -1}, {0, 1, 2, -1}, {0, 1, 3, 4}};
  int64_t size[5] = {CAIRN_DYNAMIC, CAIRN_DYNAMIC, CAIRN_DYNAMIC, CAIRN_DYNAMIC, CAIRN_DYNAMIC};
  CRN_TRY(crn_infer_arity(args, 6));
  if (args->n_results < 2) return CRN_FAIL(INVALID_ARGUMENT, "%s has one result, two are needed", crn_infer_name(args));
  for (int k = 0; k < 6; k++) {
    int rank = k == 3 || k == 4 ? 3 : 4;
    CRN_TRY(crn_infer_rank(args, k, rank, rank));
    for (int i = 0; i < rank; i++) {
      int64_t *known = &size[sizes[k][i]], given = args->operands[k].dims[i];
      if (crn_dim_unify(*known, given, known)) continue;
      return CRN_FAIL(INVALID_ARGUMENT, "%s: %s has size %lld in dimension %d, the operands before have %lld there", crn_infer_name(args),
                      what[k], (long long)given, i, (long long)*known);
    }
  }
  cairn_dtype dtype = args->operands[0].dtype;
  int64_t outputs[4] = {size[0], size[2], size[1], size[4]}, state[4] = {size[0], size[1], size[3], size[4]};
  CRN_TRY(crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, dtype), 4, outputs));
  return crn_infer_finish(args, 1, crn_infer_declared_dtype(args, 1, dtype), 4, state);
}
