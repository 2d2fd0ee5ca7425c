#include "program/verify_ops.h"

#include "base/alloc.h"
#include "program/infer/infer.h"

static cairn_status bad(const crn_graph *g, const crn_op *op, const char *what) {
  return CRN_FAIL(CORRUPT, "graph '%s', %s: %s%s%s", g->name, crn_op_info_of(op->id)->name, what, *op->location ? " at " : "",
                  op->location);
}

static bool is_tensor(const crn_type *t) { return t->kind == CRN_TYPE_TENSOR; }

bool crn_types_agree(const crn_type *a, const crn_type *b) {
  if (!a || !b || a->kind != b->kind) return false;
  if (a->kind == CRN_TYPE_TOKEN || a->kind == CRN_TYPE_OPAQUE) return true;
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] != CAIRN_DYNAMIC && b->dims[i] != CAIRN_DYNAMIC && a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

// The operands of a terminator from `first` on against the values they become.
static bool passes(const crn_op *terminator, uint32_t first, const crn_value *to, uint32_t n) {
  if (terminator->n_operands != n + first) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (!crn_types_agree(terminator->operands[i + first]->type, to[i].type)) return false;
  }
  return true;
}

static bool is_condition(const crn_value *v) { return is_tensor(v->type) && v->type->dtype == CAIRN_BOOL; }

// --- regions -----------------------------------------------------------------------------------------------------------

static const crn_block *only_block(const crn_op *op, uint32_t region) {
  return region < op->n_regions && op->regions[region].n_blocks == 1 ? op->regions[region].blocks[0] : NULL;
}

static cairn_status verify_if(const crn_graph *g, const crn_op *op) {
  if (op->n_regions != 2 || !only_block(op, 0) || !only_block(op, 1)) return bad(g, op, "two regions of one block are needed");
  if (!is_condition(op->operands[0])) return bad(g, op, "the condition must be bool");
  for (uint32_t r = 0; r < 2; r++) {
    const crn_block *b = only_block(op, r);
    if (b->n_arguments || b->last->id != CRN_OP_yield || !passes(b->last, 0, op->results, op->n_results))
      return bad(g, op, "a branch does not yield what the results are");
  }
  return CAIRN_OK;
}

static cairn_status verify_while(const crn_graph *g, const crn_op *op) {
  if (op->n_regions != 2 || !only_block(op, 0) || !only_block(op, 1)) return bad(g, op, "two regions of one block are needed");
  const crn_block *before = only_block(op, 0), *after = only_block(op, 1);
  if (!passes(op, 0, before->arguments, before->n_arguments)) return bad(g, op, "the first values do not fit the loop's arguments");
  if (before->last->id != CRN_OP_condition || before->last->n_operands < 1 || !is_condition(before->last->operands[0]))
    return bad(g, op, "the first region must end in coreai.condition of a bool");
  if (!passes(before->last, 1, op->results, op->n_results)) return bad(g, op, "the condition does not pass what the results are");
  if (!passes(before->last, 1, after->arguments, after->n_arguments)) return bad(g, op, "the condition does not pass the body's arguments");
  if (after->last->id != CRN_OP_yield || !passes(after->last, 0, before->arguments, before->n_arguments))
    return bad(g, op, "the body does not yield the loop's arguments");
  return CAIRN_OK;
}

static bool is_scalar_of(const crn_type *t, cairn_dtype dtype) { return is_tensor(t) && t->rank == 0 && t->dtype == dtype; }

// The region of a reduction or scatter: two scalars in, one out.
static const crn_block *combiner_of(const crn_op *op, cairn_dtype element, cairn_dtype result) {
  const crn_block *b = op->n_regions == 1 ? only_block(op, 0) : NULL;
  if (!b || b->n_arguments != 2 || b->last->id != CRN_OP_yield || b->last->n_operands != 1) return NULL;
  bool fits = is_scalar_of(b->arguments[0].type, element) && is_scalar_of(b->arguments[1].type, element);
  return fits && is_scalar_of(b->last->operands[0]->type, result) ? b : NULL;
}

static cairn_status verify_scatter(const crn_graph *g, const crn_op *op) {
  // What an importer builds has no region: it means the same.
  if (op->n_regions == 0) return CAIRN_OK;
  const crn_block *b = combiner_of(op, op->operands[0]->type->dtype, op->operands[0]->type->dtype);
  if (!b || b->first != b->last || b->last->operands[0] != &b->arguments[1])
    return bad(g, op, "the region must be a bare yield of the update; combining regions are not part of the dialect");
  return CAIRN_OK;
}

static cairn_status verify_reduction(const crn_graph *g, const crn_op *op) {
  cairn_dtype element = op->operands[0]->type->dtype;
  const crn_block *b = combiner_of(op, element, op->id == CRN_OP_reduce_index ? CAIRN_BOOL : element);
  if (!b) return bad(g, op, "the region must take two scalars of the element type and yield one");
  for (const crn_op *inner = b->first; inner != b->last; inner = inner->next) {
    uint32_t traits = crn_op_info_of(inner->id)->traits;
    if (!(traits & CRN_PURE) || (traits & (CRN_REGION | CRN_SPARSE))) return bad(g, inner, "cannot stand in the region of a reduction");
  }
  return CAIRN_OK;
}

static cairn_status verify_group(const crn_graph *g, const crn_op *op) {
  const crn_block *b = op->n_regions == 1 ? only_block(op, 0) : NULL;
  if (!b || !passes(op, 0, b->arguments, b->n_arguments) || b->last->id != CRN_OP_yield || !passes(b->last, 0, op->results, op->n_results))
    return bad(g, op, "the region does not fit operands and results");
  return CAIRN_OK;
}

cairn_status crn_verify_regions(const crn_graph *g, const crn_op *op) {
  switch (op->id) {
    case CRN_OP_if:
      return verify_if(g, op);
    case CRN_OP_while:
      return verify_while(g, op);
    case CRN_OP_scatter_nd:
      return verify_scatter(g, op);
    case CRN_OP_reduce:
    case CRN_OP_reduce_index:
      return verify_reduction(g, op);
    case CRN_OP_isolated_group:
      return verify_group(g, op);
    default:
      // Regions of what is not run are nobody's business; of anything else they would be ignored silently.
      if (op->n_regions && crn_op_info_of(op->id)->is_ready) return bad(g, op, "the operation has a region");
      return CAIRN_OK;
  }
}

// --- types -------------------------------------------------------------------------------------------------------------

static cairn_status verify_kinds(const crn_graph *g, const crn_op *op) {
  crn_type_kind in = op->id == CRN_OP_image_to_tensor ? CRN_TYPE_IMAGE : CRN_TYPE_TENSOR;
  crn_type_kind out = op->id == CRN_OP_tensor_to_image ? CRN_TYPE_IMAGE : CRN_TYPE_TENSOR;
  for (uint32_t i = 0; i < op->n_operands; i++) {
    if (op->operands[i]->type->kind != in)
      return bad(g, op, in == CRN_TYPE_IMAGE ? "the operand is no image" : "an operand is not a tensor");
  }
  for (uint32_t i = 0; i < op->n_results; i++) {
    if (op->results[i].type->kind != out) return bad(g, op, out == CRN_TYPE_IMAGE ? "the result is no image" : "a result is not a tensor");
  }
  return CAIRN_OK;
}

static cairn_status verify_constant(const crn_graph *g, const crn_op *op) {
  const crn_constant *c = op->attr.constant;
  const crn_type *t = op->results[0].type;
  if (!is_tensor(t)) return bad(g, op, "a constant is a tensor");
  if (!c || c->tensor.dtype != t->dtype || c->tensor.rank != t->rank) return bad(g, op, "the value does not have the declared type");
  for (int i = 0; i < t->rank; i++) {
    if (c->tensor.dims[i] < 0 || c->tensor.dims[i] != t->dims[i]) return bad(g, op, "the value does not have the declared shape");
  }
  return CAIRN_OK;
}

// What inference sees of a value: its type, and its data when it is a constant that lies ready.
static crn_tensor describe(const crn_value *v) {
  if (v->def && v->def->id == CRN_OP_constant && !v->def->attr.constant->tensor.packed) return v->def->attr.constant->tensor;
  crn_tensor t = {.dtype = v->type->dtype, .rank = v->type->rank};
  for (int i = 0; i < t.rank; i++) t.dims[i] = v->type->dims[i];
  return t;
}

static cairn_status infer(const crn_graph *g, const crn_op *op, crn_tensor *tensors) {
  crn_tensor *results = tensors + op->n_operands;
  for (uint32_t i = 0; i < op->n_operands; i++) tensors[i] = describe(op->operands[i]);
  for (uint32_t i = 0; i < op->n_results; i++) {
    const crn_type *t = op->results[i].type;
    results[i] = (crn_tensor){.dtype = t->dtype, .rank = t->rank};
    for (int d = 0; d < t->rank; d++) results[i].dims[d] = t->dims[d];
  }
  crn_infer_args args = {.id = op->id,
                         .mode = crn_op_has_mode(op->id) ? op->attr.mode : 0,
                         .n_operands = (int)op->n_operands,
                         .operands = tensors,
                         .n_results = (int)op->n_results,
                         .results = results};
  cairn_status status = crn_infer_of(op->id)(&args);
  if (status == CAIRN_OK) return CAIRN_OK;
  char why[400];
  cairn_last_error_text(why, sizeof why);
  return CRN_FAIL(CORRUPT, "graph '%s': %s%s%s", g->name, why, *op->location ? " at " : "", op->location);
}

cairn_status crn_verify_types(const crn_graph *g, const crn_op *op) {
  const crn_op_info *info = crn_op_info_of(op->id);
  if (op->id == CRN_OP_constant) return verify_constant(g, op);
  if (!(info->traits & CRN_PURE)) return CAIRN_OK;
  CRN_TRY(verify_kinds(g, op));
  if ((info->traits & CRN_SPARSE) && !crn_sparse_mask(op)) return bad(g, op, "operand 0 must come from coreai.build_sparse_with_bitmask");
  if (!crn_infer_of(op->id)) return CAIRN_OK;
  enum { FEW = 16 };
  crn_tensor few[FEW], *tensors = few;
  const cairn_allocator *a = g->program->arena.allocator;
  size_t n = (size_t)op->n_operands + op->n_results;
  if (n > FEW) CRN_TRY(crn_alloc_array(a, n, sizeof *tensors, &tensors));
  cairn_status status = infer(g, op, tensors);
  if (n > FEW) crn_free(a, tensors, n * sizeof *tensors);
  return status;
}
