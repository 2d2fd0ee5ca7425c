#include "backend/cpu/fused/chain.h"

#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

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
  return link->view(&args, out_done);
}

static void take_operands(const crn_chain_link *link, const crn_tensor *given, int *at, crn_tensor *operands) {
  for (int k = 0; k < link->n_more; k++) operands[1 + k] = given[(*at)++];
}

cairn_status crn_infer_fused_chain(const crn_infer_args *args) {
  const crn_fused_chain *f = args->fused;
  crn_tensor operands[CRN_CHAIN_OPERANDS], result;
  bool is_view = args->operands[0].data != NULL;
  int at = 1;
  operands[0] = args->operands[0];
  for (int i = 0; i < f->n; i++) {
    bool done = false;
    take_operands(&f->links[i], args->operands, &at, operands);
    CRN_TRY(infer_link(&f->links[i], operands, &result));
    if (is_view) CRN_TRY(view_link(&f->links[i], operands, &result, &done));
    is_view = is_view && done;
    operands[0] = result;
  }
  if (!is_view) result.data = NULL;
  *args->results = result;
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
