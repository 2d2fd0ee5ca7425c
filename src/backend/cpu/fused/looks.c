#include "backend/cpu/fused/looks.h"

#include "backend/cpu/fused/state.h"
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"
#include "program/infer/dims.h"

static int64_t number_of(const crn_tensor *operands, int at, int32_t constant) {
  return at ? crn_load_i64(operands[at].dtype, operands[at].data) : constant;
}

// --- looking ----------------------------------------------------------------------------------------------------------------

static cairn_status look(const crn_look *l, const crn_tensor *operands, const crn_tensor *x, crn_tensor *out) {
  int64_t offset = 0;
  bool is_empty = false;
  for (int i = 0; i < l->n_picks; i++) {
    const int64_t n = x->dims[l->pick_dim[i]];
    if (l->pick[i] >= n) return CRN_FAIL(INVALID_ARGUMENT, "index %d of a dimension of size %lld", (int)l->pick[i], (long long)n);
    offset += l->pick[i] * x->strides[l->pick_dim[i]];
  }
  out->dtype = x->dtype;
  out->rank = l->rank;
  out->packed = false;
  out->pages = x->pages;
  for (int d = 0; d < l->rank; d++) {
    int64_t first;
    crn_slice_bounds(x->dims[l->from[d]], 0, number_of(operands, l->end_at[d], l->end[d]), 1, &first, &out->dims[d]);
    out->strides[d] = x->strides[l->from[d]];
    is_empty |= out->dims[d] == 0;
  }
  out->data = is_empty ? x->data : crn_tensor_at(x, offset);
  return CAIRN_OK;
}

static cairn_status look_all(const crn_fused_looks *f, const crn_tensor *given, crn_tensor *operands) {
  for (int k = 0; k < f->n_inner; k++) {
    const crn_look *l = k == 1 || k == 2 ? &f->looks[k - 1] : NULL;
    if (l && l->rank) {
      CRN_TRY(look(l, given, &given[k], &operands[k]));
    } else {
      operands[k] = given[k];
    }
  }
  return CAIRN_OK;
}

cairn_status crn_infer_fused_looks(const crn_infer_args *args) {
  const crn_fused_looks *f = args->fused;
  crn_tensor operands[CRN_LOOK_INNER];
  crn_infer_args inner = *args;
  CRN_TRY(look_all(f, args->operands, operands));
  inner.fused = NULL;
  inner.operands = operands;
  inner.n_operands = f->n_inner;
  return crn_infer_of(CRN_OP_scaled_dot_product_attention)(&inner);
}

cairn_status crn_fused_looks_run(const crn_kernel_args *args) {
  const crn_fused_looks *f = args->fused;
  crn_tensor operands[CRN_LOOK_INNER];
  crn_kernel_args inner = *args;
  CRN_TRY(look_all(f, args->operands, operands));
  inner.fused = NULL;
  inner.operands = operands;
  inner.n_operands = f->n_inner;
  return crn_attention_run(&inner, &f->terms);
}

// --- writing ----------------------------------------------------------------------------------------------------------------

cairn_status crn_fused_place_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  static const int32_t one = 1;
  const crn_fused_place *f = args->fused;
  int32_t bounds[2][CRN_LOOK_DIMS];
  const int64_t rank = f->rank;
  for (int d = 0; d < f->rank; d++) {
    bounds[0][d] = (int32_t)number_of(args->operands, f->start_at[d], f->start[d]);
    bounds[1][d] = (int32_t)number_of(args->operands, f->end_at[d], f->end[d]);
  }
  crn_tensor operands[5] = {*target, crn_tensor_make(CAIRN_SI32, &rank, 1, bounds[0]), crn_tensor_make(CAIRN_SI32, &rank, 1, bounds[1]),
                            crn_tensor_make(CAIRN_SI32, &rank, 1, (void *)&one), args->operands[1]};
  operands[3].strides[0] = 0;
  crn_kernel_args inner = *args;
  inner.id = CRN_OP_slice_update;
  inner.fused = NULL;
  inner.operands = operands;
  inner.n_operands = 5;
  return crn_slice_update_in_place(&inner, target, out_bytes);
}

cairn_status crn_fused_place_run(const crn_kernel_args *args) {
  int64_t bytes;
  crn_move_tensor(args->pool, &args->operands[0], &args->results[0]);
  return crn_fused_place_update(args, &args->results[0], &bytes);
}
