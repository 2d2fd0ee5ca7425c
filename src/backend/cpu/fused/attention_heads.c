// Attention of heads that lie next to each other: views of rank 4 for the kernel, and a result that is put where the program wants it.
#include <string.h>

#include "backend/cpu/fused/attention.h"
#include "backend/cpu/ref/ref.h"
#include "base/checked.h"
#include "program/infer/dims.h"

cairn_status crn_infer_fused_heads(const crn_infer_args *args) {
  const crn_fused_heads *f = args->fused;
  const crn_tensor *q = &args->operands[0], *k = &args->operands[1], *v = &args->operands[2];
  int64_t dims[CAIRN_MAX_RANK], size = q->dims[q->rank > f->q_feature ? f->q_feature : 0];
  if (size % f->heads || k->dims[f->k_feature] % f->groups || v->dims[f->v_feature] % f->groups ||
      size / f->heads != k->dims[f->k_feature] / f->groups || k->dims[f->k_position] != v->dims[f->v_position]) {
    return CRN_FAIL(INVALID_ARGUMENT, "queries, keys and values of %lld heads do not fit", (long long)f->heads);
  }
  int rank = args->results[0].rank;
  for (int d = 0; d < rank; d++) dims[d] = 1;
  dims[f->out_row] = q->dims[f->q_row];
  dims[f->out_feature] = v->dims[f->v_feature] / f->groups * f->heads;
  return crn_infer_finish(args, 0, q->dtype, rank, dims);
}

static crn_tensor head_view(const crn_tensor *t, int64_t heads, int row, int feature) {
  crn_tensor view = {.dtype = t->dtype, .rank = 4, .data = t->data, .pages = t->pages};
  int64_t size = t->dims[feature] / heads;
  int64_t dims[4] = {1, heads, t->dims[row], size}, strides[4] = {0, size * t->strides[feature], t->strides[row], t->strides[feature]};
  memcpy(view.dims, dims, sizeof dims);
  memcpy(view.strides, strides, sizeof strides);
  return view;
}

cairn_status crn_fused_heads_run(const crn_kernel_args *args) {
  const crn_fused_heads *f = args->fused;
  const crn_tensor *mask = &args->operands[3];
  const int64_t *found = args->operands[4].data;
  crn_tensor out = head_view(&args->results[0], f->heads, f->out_row, f->out_feature), operands[4], result;
  if (crn_tensor_count(&out) == 0) return CAIRN_OK;
  operands[0] = head_view(&args->operands[0], f->heads, f->q_row, f->q_feature);
  operands[1] = head_view(&args->operands[1], f->groups, f->k_position, f->k_feature);
  operands[2] = head_view(&args->operands[2], f->groups, f->v_position, f->v_feature);
  operands[3] = (crn_tensor){
      .dtype = mask->dtype, .rank = 4, .data = mask->data, .dims = {1, 1, mask->dims[f->mask_row], mask->dims[f->mask_position]}};
  operands[3].strides[2] = mask->strides[f->mask_row];
  operands[3].strides[3] = mask->strides[f->mask_position];
  size_t bytes;
  void *memory;
  if (!crn_shape_bytes(out.dtype, out.dims, out.rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "the result of attention is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &memory));
  result = crn_tensor_make(out.dtype, out.dims, out.rank, memory);
  crn_attention_extent extent = {found[0], found[1]};
  crn_kernel_args inner = *args;
  inner.id = CRN_OP_scaled_dot_product_attention;
  inner.attrs = f->attrs;
  inner.input_names = f->input_names;
  inner.fused = found[2] && mask->dims[f->mask_position] == operands[1].dims[2] ? &extent : NULL;
  inner.operands = operands;
  inner.n_operands = 4;
  inner.results = &result;
  CRN_TRY(crn_ref_scaled_dot_product_attention(&inner));
  crn_tensor_copy(&result, &out);
  return CAIRN_OK;
}
