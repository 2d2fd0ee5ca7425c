#include "backend/cpu/fused/chain.h"

#include "backend/cpu/ref/ref.h"
#include "base/checked.h"
#include "program/infer/dims.h"

static void declare(const crn_type *type, crn_tensor *out) {
  *out = (crn_tensor){.dtype = type->dtype, .rank = type->rank};
  for (int d = 0; d < type->rank; d++) out->dims[d] = type->dims[d];
}

// The shape of a link's result, checked against what the program declares.
static cairn_status infer_link(const crn_chain_link *link, const crn_tensor *operands, crn_tensor *result) {
  declare(link->type, result);
  crn_infer_args infer = {.id = link->id, .n_operands = 1 + link->n_more, .operands = operands, .n_results = 1, .results = result};
  return link->infer(&infer);
}

static cairn_status view_link(const crn_chain_link *link, const crn_tensor *operands, crn_tensor *result, bool *out_done) {
  crn_kernel_args args = {.id = link->id, .n_operands = 1 + link->n_more, .operands = operands, .n_results = 1, .results = result};
  CRN_TRY(link->view(&args, out_done));
  if (*out_done) result->pages = operands[0].pages;
  return CAIRN_OK;
}

static void take_operands(const crn_chain_link *link, const crn_tensor *given, int *at, crn_tensor *operands) {
  for (int k = 0; k < link->n_more; k++) operands[1 + k] = given[(*at)++];
}

// --- at once ----------------------------------------------------------------------------------------------------------------

// What a run looks at of a state is another view in each run. So the shape and the view of slices, and of changes of rank by one, are found
// in one pass where they are given by plain numbers; false leaves a link to the general way, which also has the words for what is wrong.

static const int32_t *numbers(const crn_tensor *t, int64_t n) {
  bool is_plain = t->dtype == CAIRN_SI32 && t->rank == 1 && t->dims[0] == n && !t->packed && !t->pages;
  return is_plain ? t->data : NULL;
}

static bool slice_at_once(const crn_tensor *x, const crn_tensor *more, crn_tensor *out) {
  const int32_t *starts = numbers(&more[0], x->rank), *ends = numbers(&more[1], x->rank), *steps = numbers(&more[2], x->rank);
  int64_t offset = 0;
  bool is_empty = false;
  if (!starts || !ends || !steps) return false;
  for (int d = 0; d < x->rank; d++) {
    int64_t first, count;
    int64_t step = steps[d * more[2].strides[0]];
    if (step == 0) return false;
    crn_slice_bounds(x->dims[d], starts[d * more[0].strides[0]], ends[d * more[1].strides[0]], step, &first, &count);
    offset += first * x->strides[d];
    is_empty |= count == 0;
    out->dims[d] = count;
    out->strides[d] = count > 1 ? step * x->strides[d] : x->strides[d];
  }
  out->rank = x->rank;
  out->data = is_empty ? x->data : crn_tensor_at(x, offset);
  return true;
}

static bool change_rank_at_once(const crn_tensor *x, const crn_tensor *axes, bool is_shrink, crn_tensor *out) {
  const int32_t *number = numbers(axes, 1);
  int rank = is_shrink ? x->rank : x->rank + 1, axis = number ? *number : rank;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || rank > CAIRN_MAX_RANK || (is_shrink && x->dims[axis] != 1)) return false;
  out->rank = is_shrink ? rank - 1 : rank;
  for (int d = 0, from = 0; d < out->rank; d++) {
    if (is_shrink && from == axis) from++;
    if (!is_shrink && d == axis) {
      // A new dimension steps over everything inside of it.
      out->dims[d] = 1;
      out->strides[d] = from < x->rank ? x->strides[from] * x->dims[from] : 1;
      continue;
    }
    out->dims[d] = x->dims[from];
    out->strides[d] = x->strides[from++];
  }
  out->data = x->data;
  return true;
}

static bool link_at_once(const crn_chain_link *link, const crn_tensor *x, const crn_tensor *more, crn_tensor *out) {
  bool done = false;
  if (!x->data || x->packed || link->type->dtype != x->dtype) return false;
  if (link->id == CRN_OP_slice && link->n_more == 3) done = slice_at_once(x, more, out);
  if ((link->id == CRN_OP_shrink_dims || link->id == CRN_OP_expand_dims) && link->n_more == 1)
    done = change_rank_at_once(x, more, link->id == CRN_OP_shrink_dims, out);
  if (!done || link->type->rank != out->rank) return false;
  for (int d = 0; d < out->rank; d++) {
    if (link->type->dims[d] >= 0 && link->type->dims[d] != out->dims[d]) return false;
  }
  out->dtype = x->dtype;
  out->packed = false;
  out->pages = x->pages;
  return true;
}

cairn_status crn_infer_fused_chain(const crn_infer_args *args) {
  const crn_fused_chain *f = args->fused;
  crn_tensor operands[CRN_CHAIN_OPERANDS], seen[2] = {{0}, {0}};
  const crn_tensor *x = &args->operands[0];
  bool is_view = x->data != NULL;
  int at = 1;
  for (int i = 0; i < f->n; i++) {
    const crn_chain_link *link = &f->links[i];
    crn_tensor *result = &seen[i % 2];
    bool done = false;
    if (is_view && link_at_once(link, x, &args->operands[at], result)) {
      at += link->n_more;
    } else {
      operands[0] = *x;
      take_operands(link, args->operands, &at, operands);
      CRN_TRY(infer_link(link, operands, result));
      if (is_view) CRN_TRY(view_link(link, operands, result, &done));
      is_view = is_view && done;
    }
    x = result;
  }
  *args->results = *x;
  if (!is_view) args->results->data = NULL;
  return CAIRN_OK;
}

cairn_status crn_fused_chain_view(const crn_kernel_args *args, bool *out_done) {
  *out_done = args->results[0].data != NULL;
  return CAIRN_OK;
}

static cairn_status run_link(const crn_kernel_args *args, const crn_chain_link *link, const crn_tensor *operands, const crn_tensor *target,
                             crn_tensor *result) {
  bool done = false;
  if (!target) CRN_TRY(view_link(link, operands, result, &done));
  if (done) return CAIRN_OK;
  size_t bytes;
  if (!target && !crn_shape_bytes(result->dtype, result->dims, result->rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "a value is too large");
  if (!target) CRN_TRY(args->scratch->take(args->scratch, bytes, &result->data));
  if (target) *result = *target;
  if (!target) crn_tensor_set_contiguous(result);
  result->packed = false;
  result->pages = NULL;
  crn_kernel_args inner = *args;
  inner.id = link->id;
  inner.fused = NULL;
  inner.operands = operands;
  inner.n_operands = 1 + link->n_more;
  inner.results = result;
  return link->kernel(&inner);
}

cairn_status crn_fused_chain_run(const crn_kernel_args *args) {
  const crn_fused_chain *f = args->fused;
  crn_tensor operands[CRN_CHAIN_OPERANDS], result;
  int at = 1;
  operands[0] = args->operands[0];
  for (int i = 0; i < f->n; i++) {
    take_operands(&f->links[i], args->operands, &at, operands);
    CRN_TRY(infer_link(&f->links[i], operands, &result));
    CRN_TRY(run_link(args, &f->links[i], operands, i + 1 == f->n ? &args->results[0] : NULL, &result));
    operands[0] = result;
  }
  return CAIRN_OK;
}
