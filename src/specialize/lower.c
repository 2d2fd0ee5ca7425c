// From ops to steps: calls are inlined, composites get a direct step with their body behind it.
#include "specialize/lower.h"

#include <string.h>

enum { MAX_INLINE_DEPTH = 64, MAX_STEPS = 4 << 20 };

cairn_status crn_lower_add_slot(crn_lowering *l, const crn_type *type, const crn_constant *constant, uint32_t *out_slot) {
  CRN_TRY(crn_vec_push(l->allocator, &l->slot_types, type));
  CRN_TRY(crn_vec_push(l->allocator, &l->slot_constants, constant));
  *out_slot = (uint32_t)l->slot_types.size - 1;
  return CAIRN_OK;
}

cairn_status crn_lower_bind_slot(crn_lowering *l, crn_binding *env, const crn_value *v, const crn_constant *constant) {
  env[v->id].kind = CRN_SLOT;
  return crn_lower_add_slot(l, v->type, constant, &env[v->id].index);
}

cairn_status crn_lower_add_step(crn_lowering *l, crn_step_kind kind, const crn_op *op, uint32_t n_in, uint32_t n_out, crn_step **out_step) {
  if (l->steps.size >= MAX_STEPS) return CRN_FAIL(UNSUPPORTED, "the function has more than %d steps", MAX_STEPS);
  crn_step step = {.kind = kind, .op = op, .id = op->id, .n_in = n_in, .n_out = n_out, .state = CRN_NO_STATE};
  CRN_TRY(crn_arena_array(&l->plan->arena, n_in, sizeof *step.in, &step.in));
  CRN_TRY(crn_arena_array(&l->plan->arena, n_out, sizeof *step.out, &step.out));
  CRN_TRY(crn_vec_reserve(l->allocator, &l->steps, 1));
  memcpy(&l->steps.items[l->steps.size], &step, sizeof step);
  *out_step = &l->steps.items[l->steps.size++];
  return CAIRN_OK;
}

cairn_status crn_lower_alias(crn_lowering *l, const crn_op *op, uint32_t from, uint32_t to) {
  crn_step *s = NULL;
  CRN_TRY(crn_lower_add_step(l, CRN_STEP_ALIAS, op, 1, 1, &s));
  s->in[0] = from;
  s->out[0] = to;
  return CAIRN_OK;
}

static cairn_status operand_slots(const crn_op *op, const crn_binding *env, crn_step *step) {
  for (uint32_t i = 0; i < op->n_operands; i++) {
    const crn_binding *b = &env[op->operands[i]->id];
    if (b->kind != CRN_SLOT) return CRN_FAIL(CORRUPT, "%s: operand %u is not a tensor", crn_op_info_of(op->id)->name, i);
    step->in[i] = b->index;
  }
  return CAIRN_OK;
}

// Sparse values are kept dense, so an op that treats absent elements differently gets the mask they were made with.
static cairn_status mask_slot(const crn_op *op, const crn_binding *env, crn_step *step) {
  const crn_value *mask = crn_sparse_mask(op);
  if (!mask || env[mask->id].kind != CRN_SLOT)
    return CRN_FAIL(UNSUPPORTED, "%s of a value that no bitmask was made into", crn_op_info_of(op->id)->name);
  step->in[op->n_operands] = env[mask->id].index;
  return CAIRN_OK;
}

static cairn_status lower_kernel(crn_lowering *l, const crn_op *op, crn_binding *env) {
  crn_step *s = NULL;
  bool sparse = (crn_op_info_of(op->id)->traits & CRN_SPARSE) != 0;
  crn_step_kind kind = op->id == CRN_OP_slice_update ? CRN_STEP_UPDATE : CRN_STEP_KERNEL;
  CRN_TRY(crn_lower_add_step(l, kind, op, op->n_operands + sparse, op->n_results, &s));
  s->infer = crn_infer_of(op->id);
  s->kernel = crn_kernel_of(op->id);
  s->view = crn_ref_view_of(op->id);
  if (!s->infer || !s->kernel) return CRN_FAIL(UNSUPPORTED, "cairn cannot run %s", crn_op_info_of(op->id)->name);
  CRN_TRY(operand_slots(op, env, s));
  if (sparse) CRN_TRY(mask_slot(op, env, s));
  for (uint32_t i = 0; i < op->n_results; i++) {
    CRN_TRY(crn_lower_bind_slot(l, env, &op->results[i], NULL));
    s->out[i] = env[op->results[i].id].index;
  }
  return CAIRN_OK;
}

static cairn_status lower_state_access(crn_lowering *l, const crn_op *op, crn_binding *env) {
  const crn_binding *handle = &env[op->operands[0]->id];
  if (handle->kind != CRN_STATE) return CRN_FAIL(CORRUPT, "a state handle that is not an argument of the function");
  bool is_read = op->id == CRN_OP_read_handle;
  crn_step *s = NULL;
  CRN_TRY(crn_lower_add_step(l, is_read ? CRN_STEP_READ : CRN_STEP_WRITE, op, is_read ? 0 : 1, is_read ? 1 : 0, &s));
  s->state = (int32_t)handle->index;
  if (is_read) {
    CRN_TRY(crn_lower_bind_slot(l, env, &op->results[0], NULL));
    s->out[0] = env[op->results[0].id].index;
  } else {
    const crn_binding *data = &env[op->operands[1]->id];
    if (data->kind != CRN_SLOT) return CRN_FAIL(CORRUPT, "a state is given something that is not a tensor");
    s->in[0] = data->index;
  }
  env[op->results[op->n_results - 1].id].kind = CRN_TOKEN;
  return CAIRN_OK;
}

// Lowers the body of a called graph; `results` receives what its outputs stand for.
static cairn_status inline_body(crn_lowering *l, const crn_op *op, const crn_binding *env, crn_binding *results) {
  const crn_graph *callee = op->attr.callee;
  if (++l->depth > MAX_INLINE_DEPTH) return CRN_FAIL(CORRUPT, "calls nested more than %d deep", MAX_INLINE_DEPTH);
  crn_binding *inner;
  CRN_TRY(crn_alloc_array(l->allocator, callee->n_values, sizeof *inner, &inner));
  for (uint32_t i = 0; i < op->n_operands; i++) inner[callee->body->arguments[i].id] = env[op->operands[i]->id];
  cairn_status status = crn_lower_block(l, callee->body, inner, results);
  crn_free(l->allocator, inner, callee->n_values * sizeof *inner);
  l->depth--;
  return status == CAIRN_OK ? status : crn_note(status, "in graph '%s'", callee->name);
}

static cairn_status lower_composite_body(crn_lowering *l, const crn_op *op, const crn_binding *env, uint32_t direct) {
  crn_binding *results;
  CRN_TRY(crn_alloc_array(l->allocator, op->n_results, sizeof *results, &results));
  cairn_status status = inline_body(l, op, env, results);
  crn_step *s = NULL;
  for (uint32_t i = 0; i < op->n_results && status == CAIRN_OK; i++) {
    if (results[i].kind != CRN_SLOT) {
      status = CRN_FAIL(CORRUPT, "a composite whose result %u is not a tensor", i);
      break;
    }
    status = crn_lower_alias(l, op, results[i].index, l->steps.items[direct].out[i]);
  }
  crn_free(l->allocator, results, op->n_results * sizeof *results);
  if (status == CAIRN_OK) status = crn_lower_add_step(l, CRN_STEP_END, op, 0, 0, &s);
  if (status == CAIRN_OK) l->steps.items[direct].body_end = (uint32_t)l->steps.size - 1;
  return status;
}

static cairn_status lower_composite(crn_lowering *l, const crn_op *op, crn_binding *env) {
  const crn_composite_decl *decl = op->attr.callee->composite;
  crn_step *s = NULL;
  CRN_TRY(crn_lower_add_step(l, CRN_STEP_COMPOSITE, op, op->n_operands, op->n_results, &s));
  uint32_t direct = (uint32_t)l->steps.size - 1;
  s->id = decl->id;
  s->composite = decl;
  s->infer = crn_infer_of(decl->id);
  s->kernel = crn_ref_kernel_of(decl->id);
  CRN_TRY(operand_slots(op, env, s));
  for (uint32_t i = 0; i < op->n_results; i++) {
    uint32_t slot;
    CRN_TRY(crn_lower_add_slot(l, op->results[i].type, NULL, &slot));
    l->steps.items[direct].out[i] = slot;
    env[op->results[i].id] = (crn_binding){CRN_SLOT, slot};
  }
  return op->attr.callee->body ? lower_composite_body(l, op, env, direct) : CAIRN_OK;
}

static bool takes_only_tensors(const crn_op *op, const crn_binding *env) {
  for (uint32_t i = 0; i < op->n_operands; i++) {
    if (env[op->operands[i]->id].kind != CRN_SLOT) return false;
  }
  return true;
}

static cairn_status lower_invoke(crn_lowering *l, const crn_op *op, crn_binding *env) {
  const crn_graph *callee = op->attr.callee;
  const crn_composite_decl *decl = callee->composite;
  bool has_kernel = decl && decl->id != CRN_OP_NONE && crn_ref_kernel_of(decl->id) && takes_only_tensors(op, env);
  if (has_kernel && (!l->use_bodies || !callee->body)) return lower_composite(l, op, env);
  if (!callee->body) return CRN_FAIL(UNSUPPORTED, "composite '%s' has neither a body nor a kernel", callee->name);
  crn_binding *results;
  CRN_TRY(crn_alloc_array(l->allocator, op->n_results, sizeof *results, &results));
  cairn_status status = inline_body(l, op, env, results);
  for (uint32_t i = 0; i < op->n_results && status == CAIRN_OK; i++) env[op->results[i].id] = results[i];
  crn_free(l->allocator, results, op->n_results * sizeof *results);
  return status;
}

// A group meant for a delegate is an ordinary stretch of the program as well.
static cairn_status lower_group(crn_lowering *l, const crn_op *op, crn_binding *env) {
  const crn_block *block = op->regions[0].blocks[0];
  crn_binding *results;
  for (uint32_t i = 0; i < op->n_operands; i++) env[block->arguments[i].id] = env[op->operands[i]->id];
  CRN_TRY(crn_alloc_array(l->allocator, op->n_results, sizeof *results, &results));
  cairn_status status = crn_lower_block(l, block, env, results);
  for (uint32_t i = 0; i < op->n_results && status == CAIRN_OK; i++) env[op->results[i].id] = results[i];
  crn_free(l->allocator, results, op->n_results * sizeof *results);
  return status;
}

static cairn_status lower_op(crn_lowering *l, const crn_op *op, crn_binding *env, crn_binding *out_results) {
  switch (op->id) {
    case CRN_OP_constant:
      return crn_lower_bind_slot(l, env, &op->results[0], op->attr.constant);
    case CRN_OP_create_token:
    case CRN_OP_join_token:
      env[op->results[0].id].kind = CRN_TOKEN;
      return CAIRN_OK;
    case CRN_OP_read_handle:
    case CRN_OP_write_handle:
      return lower_state_access(l, op, env);
    case CRN_OP_invoke:
      return lower_invoke(l, op, env);
    case CRN_OP_debuginfo_record:
    case CRN_OP_debuginfo_value:
      return CAIRN_OK;
    case CRN_OP_if:
      return crn_lower_if(l, op, env);
    case CRN_OP_isolated_group:
      return lower_group(l, op, env);
    case CRN_OP_while:
      return crn_lower_while(l, op, env);
    case CRN_OP_output:
    case CRN_OP_yield:
    case CRN_OP_condition:
      for (uint32_t i = 0; i < op->n_operands; i++) out_results[i] = env[op->operands[i]->id];
      return CAIRN_OK;
    default:
      return lower_kernel(l, op, env);
  }
}

cairn_status crn_lower_block(crn_lowering *l, const crn_block *block, crn_binding *env, crn_binding *out_results) {
  for (const crn_op *op = block->first; op; op = op->next) {
    CRN_TRY_NOTE(lower_op(l, op, env, out_results), "%s%s%s", crn_op_info_of(op->id)->name, *op->location ? " at " : "", op->location);
  }
  return CAIRN_OK;
}
