#include "backend/cpu/ref/region.h"

#include <string.h>

#include "base/checked.h"

enum { ELEMENT_BYTES = 16, SCRATCH_BYTES = 1 << 14, MAX_OP_TENSORS = 16, MAX_VALUES = 1 << 16 };

// Kernels of a region work on scalars or short vectors and ask for little; what they took is forgotten after each op.
static cairn_status take(crn_scratch *self, size_t bytes, void *out_pointer) {
  crn_region_eval *e = (crn_region_eval *)((char *)self - offsetof(crn_region_eval, scratch));
  size_t rounded = (bytes + 63) / 64 * 64;
  if (rounded < bytes || rounded > SCRATCH_BYTES - e->scratch_used) {
    return CRN_FAIL(UNSUPPORTED, "an operation in the region of a reduction needs %zu bytes", bytes);
  }
  void *p = e->scratch_block + e->scratch_used;
  e->scratch_used += rounded;
  memcpy(out_pointer, &p, sizeof p);
  return CAIRN_OK;
}

static cairn_status count_values(const crn_block *b, uint32_t *out_n, bool *out_elementwise) {
  uint32_t n = 2;
  *out_elementwise = true;
  for (const crn_op *op = b->first; op != b->last; op = op->next) {
    uint32_t traits = crn_op_info_of(op->id)->traits;
    if (op->n_results > MAX_OP_TENSORS || op->n_operands > MAX_OP_TENSORS || n > MAX_VALUES)
      return CRN_FAIL(UNSUPPORTED, "the region of a reduction is too large");
    n += op->n_results;
    if (op->id != CRN_OP_constant && !(traits & CRN_ELEMENTWISE)) *out_elementwise = false;
  }
  *out_n = n;
  return CAIRN_OK;
}

static crn_tensor *tensor_of(const crn_region_eval *e, const crn_value *v) {
  for (uint32_t i = 0; i < e->n_values; i++) {
    if (e->values[i] == v) return &e->tensors[i];
  }
  return NULL;
}

static cairn_status set_constant(crn_region_eval *e, const crn_op *op) {
  crn_tensor t = op->attr.constant->tensor, *to = tensor_of(e, &op->results[0]);
  if (e->elementwise && t.rank > 0) return CRN_FAIL(UNSUPPORTED, "the region of a reduction holds a constant that is no scalar");
  if (t.packed) {
    crn_tensor plain = crn_tensor_make(t.dtype, t.dims, t.rank, to->data);
    if (crn_tensor_count(&t) > CRN_REGION_LANES) return CRN_FAIL(UNSUPPORTED, "the region of a reduction holds a large constant");
    crn_tensor_unpack(&t, &plain);
    t = plain;
  }
  *to = t;
  return CAIRN_OK;
}

cairn_status crn_region_eval_begin(const crn_kernel_args *args, crn_region_eval *e) {
  *e = (crn_region_eval){.scratch = {take}};
  if (!args->region || args->region->n_blocks != 1) return CRN_FAIL(UNSUPPORTED, "%s without a region", crn_ref_name(args));
  const crn_block *b = e->block = args->region->blocks[0];
  CRN_TRY(count_values(b, &e->n_values, &e->elementwise));
  CRN_TRY(args->scratch->take(args->scratch, e->n_values * sizeof *e->values, &e->values));
  CRN_TRY(args->scratch->take(args->scratch, e->n_values * sizeof *e->tensors, &e->tensors));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)e->n_values * CRN_REGION_LANES * ELEMENT_BYTES, &e->memory));
  CRN_TRY(args->scratch->take(args->scratch, SCRATCH_BYTES, &e->scratch_block));
  uint32_t n = 0;
  for (; n < 2; n++) e->values[n] = &b->arguments[n];
  for (const crn_op *op = b->first; op != b->last; op = op->next) {
    for (uint32_t i = 0; i < op->n_results; i++) e->values[n++] = &op->results[i];
  }
  for (n = 0; n < e->n_values; n++) {
    e->tensors[n] = (crn_tensor){.data = e->memory + (size_t)n * CRN_REGION_LANES * ELEMENT_BYTES};
  }
  for (const crn_op *op = b->first; op != b->last; op = op->next) {
    if (op->id == CRN_OP_constant) CRN_TRY(set_constant(e, op));
  }
  return CAIRN_OK;
}

static cairn_status run_op(crn_region_eval *e, const crn_op *op, int64_t n) {
  crn_tensor in[MAX_OP_TENSORS], out[MAX_OP_TENSORS];
  for (uint32_t i = 0; i < op->n_operands; i++) {
    in[i] = *tensor_of(e, op->operands[i]);
    // A scalar constant stands beside as many elements as there are pairs.
    if (e->elementwise && in[i].rank == 0) in[i].rank = 1, in[i].dims[0] = n, in[i].strides[0] = 0;
  }
  for (uint32_t i = 0; i < op->n_results; i++) out[i] = (crn_tensor){.dtype = op->results[i].type->dtype, .rank = -1};
  int mode = crn_op_has_mode(op->id) ? op->attr.mode : 0;
  crn_infer_args infer = {
      .id = op->id, .mode = mode, .n_operands = (int)op->n_operands, .operands = in, .n_results = (int)op->n_results, .results = out};
  CRN_TRY(crn_infer_of(op->id)(&infer));
  for (uint32_t i = 0; i < op->n_results; i++) {
    crn_tensor *to = tensor_of(e, &op->results[i]);
    crn_tensor_set_contiguous(&out[i]);
    if (crn_tensor_count(&out[i]) > CRN_REGION_LANES) return CRN_FAIL(UNSUPPORTED, "a value in the region of a reduction is too large");
    out[i].packed = false;
    out[i].data = to->data;
  }
  crn_kernel_args args = {.id = op->id,
                          .mode = mode,
                          .n_operands = (int)op->n_operands,
                          .operands = in,
                          .n_results = (int)op->n_results,
                          .results = out,
                          .scratch = &e->scratch};
  e->scratch_used = 0;
  CRN_TRY(crn_ref_kernel_of(op->id)(&args));
  for (uint32_t i = 0; i < op->n_results; i++) *tensor_of(e, &op->results[i]) = out[i];
  return CAIRN_OK;
}

static void set_argument(crn_region_eval *e, int which, const crn_tensor *t, int64_t n) {
  e->tensors[which] = *t;
  e->tensors[which].rank = e->elementwise ? 1 : 0;
  e->tensors[which].dims[0] = n;
}

static cairn_status run_pairs(crn_region_eval *e, const crn_tensor *first, const crn_tensor *second, int64_t n, crn_tensor *out) {
  set_argument(e, 0, first, n);
  set_argument(e, 1, second, n);
  for (const crn_op *op = e->block->first; op != e->block->last; op = op->next) {
    if (op->id != CRN_OP_constant) CRN_TRY(run_op(e, op, n));
  }
  *out = *tensor_of(e, e->block->last->operands[0]);
  if (out->rank == 0) out->strides[0] = 0;
  return CAIRN_OK;
}

cairn_status crn_region_eval_run(crn_region_eval *e, const crn_tensor *first, const crn_tensor *second, int64_t n, crn_tensor *out) {
  if (e->elementwise || n == 1) return run_pairs(e, first, second, n, out);
  return CRN_FAIL(INTERNAL, "a region that is not elementwise takes one pair at a time");
}
