// Control flow as jumps in the flat list:
//
//   if:     IF cond ─┐ then-steps, aliases to the results, JUMP ─┐
//           else  <──┘ else-steps, aliases to the results        │
//           END   <───────────────────────────────────────────── ┘
//
//   while:  aliases inits -> before-arguments, LOOP
//           before-steps; TEST cond ─┐ aliases to the after-arguments, after-steps, aliases to the before-arguments, JUMP to LOOP
//           exit  <──────────────────┘ aliases of the condition's operands to the results, END
#include "specialize/lower.h"

static cairn_status need_blocks(const crn_op *op) {
  if (op->n_regions != 2 || op->regions[0].n_blocks != 1 || op->regions[1].n_blocks != 1) {
    return CRN_FAIL(CORRUPT, "%s needs two regions of one block", crn_op_info_of(op->id)->name);
  }
  return CAIRN_OK;
}

// What a value of control flow is bound to: tensors and images get a slot of their own, tokens and handles pass through.
static cairn_status bind_like(crn_lowering *l, crn_binding *env, const crn_value *v, crn_binding like) {
  if (v->type->kind == CRN_TYPE_TENSOR || v->type->kind == CRN_TYPE_IMAGE) return crn_lower_bind_slot(l, env, v, NULL);
  env[v->id] = like;
  return CAIRN_OK;
}

static cairn_status assign(crn_lowering *l, const crn_op *op, const crn_binding *from, uint32_t n_from, const crn_binding *env,
                           const crn_value *to, uint32_t n_to) {
  if (n_from != n_to) return CRN_FAIL(CORRUPT, "%s passes %u values where %u are expected", crn_op_info_of(op->id)->name, n_from, n_to);
  for (uint32_t i = 0; i < n_to; i++) {
    const crn_binding *target = &env[to[i].id];
    if (target->kind != CRN_SLOT) continue;
    if (from[i].kind != CRN_SLOT) return CRN_FAIL(CORRUPT, "%s passes something that is not a tensor", crn_op_info_of(op->id)->name);
    CRN_TRY(crn_lower_alias(l, op, from[i].index, target->index));
  }
  return CAIRN_OK;
}

// Lowers a block and returns what its terminator's operands stand for; free with the count of the terminator's operands.
static cairn_status lower_region(crn_lowering *l, const crn_block *block, crn_binding *env, crn_binding **out_values, uint32_t *out_n) {
  *out_n = block->last->n_operands;
  CRN_TRY(crn_alloc_array(l->allocator, *out_n, sizeof **out_values, out_values));
  cairn_status status = crn_lower_block(l, block, env, *out_values);
  if (status != CAIRN_OK) {
    crn_free(l->allocator, *out_values, *out_n * sizeof **out_values);
    *out_values = NULL;
  }
  return status;
}

static cairn_status add_jump(crn_lowering *l, crn_step_kind kind, const crn_op *op, const crn_binding *condition, uint32_t *out_index) {
  crn_step *s = NULL;
  if (condition && condition->kind != CRN_SLOT) return CRN_FAIL(CORRUPT, "%s: the condition is not a tensor", crn_op_info_of(op->id)->name);
  CRN_TRY(crn_lower_add_step(l, kind, op, condition ? 1 : 0, 0, &s));
  if (condition) s->in[0] = condition->index;
  *out_index = (uint32_t)l->steps.size - 1;
  return CAIRN_OK;
}

static cairn_status lower_branch(crn_lowering *l, const crn_op *op, int region, crn_binding *env) {
  crn_binding *values = NULL;
  uint32_t n;
  CRN_TRY(lower_region(l, op->regions[region].blocks[0], env, &values, &n));
  cairn_status status = assign(l, op, values, n, env, op->results, op->n_results);
  crn_free(l->allocator, values, n * sizeof *values);
  return status;
}

static cairn_status end_region(crn_lowering *l, const crn_op *op, uint32_t begin) {
  crn_step *s = NULL;
  CRN_TRY(crn_lower_add_step(l, CRN_STEP_END, op, 0, 0, &s));
  l->steps.items[begin].body_end = (uint32_t)l->steps.size - 1;
  return CAIRN_OK;
}

cairn_status crn_lower_if(crn_lowering *l, const crn_op *op, crn_binding *env) {
  uint32_t test = 0, jump = 0;
  CRN_TRY(need_blocks(op));
  CRN_TRY(add_jump(l, CRN_STEP_IF, op, &env[op->operands[0]->id], &test));
  for (uint32_t i = 0; i < op->n_results; i++) CRN_TRY(bind_like(l, env, &op->results[i], (crn_binding){CRN_TOKEN, 0}));
  CRN_TRY(lower_branch(l, op, 0, env));
  CRN_TRY(add_jump(l, CRN_STEP_JUMP, op, NULL, &jump));
  l->steps.items[test].target = (uint32_t)l->steps.size;
  CRN_TRY(lower_branch(l, op, 1, env));
  CRN_TRY(end_region(l, op, test));
  l->steps.items[jump].target = l->steps.items[test].body_end;
  return CAIRN_OK;
}

static cairn_status enter_loop(crn_lowering *l, const crn_op *op, crn_binding *env, uint32_t *out_loop) {
  const crn_block *before = op->regions[0].blocks[0];
  crn_binding *inits;
  if (before->n_arguments != op->n_operands)
    return CRN_FAIL(CORRUPT, "a loop with %u values for %u arguments", op->n_operands, before->n_arguments);
  CRN_TRY(crn_alloc_array(l->allocator, op->n_operands, sizeof *inits, &inits));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < op->n_operands && status == CAIRN_OK; i++) {
    inits[i] = env[op->operands[i]->id];
    status = bind_like(l, env, &before->arguments[i], inits[i]);
  }
  if (status == CAIRN_OK) status = assign(l, op, inits, op->n_operands, env, before->arguments, before->n_arguments);
  crn_free(l->allocator, inits, op->n_operands * sizeof *inits);
  return status == CAIRN_OK ? add_jump(l, CRN_STEP_LOOP, op, NULL, out_loop) : status;
}

static cairn_status lower_after(crn_lowering *l, const crn_op *op, crn_binding *env, const crn_binding *passed, uint32_t n_passed,
                                uint32_t loop) {
  const crn_block *before = op->regions[0].blocks[0], *after = op->regions[1].blocks[0];
  crn_binding *next = NULL;
  uint32_t n = 0, jump = 0;
  if (after->n_arguments != n_passed)
    return CRN_FAIL(CORRUPT, "a loop's condition passes %u values to %u arguments", n_passed, after->n_arguments);
  for (uint32_t i = 0; i < n_passed; i++) CRN_TRY(bind_like(l, env, &after->arguments[i], passed[i]));
  CRN_TRY(assign(l, op, passed, n_passed, env, after->arguments, after->n_arguments));
  CRN_TRY(lower_region(l, after, env, &next, &n));
  cairn_status status = assign(l, op, next, n, env, before->arguments, before->n_arguments);
  crn_free(l->allocator, next, n * sizeof *next);
  CRN_TRY(status);
  CRN_TRY(add_jump(l, CRN_STEP_JUMP, op, NULL, &jump));
  l->steps.items[jump].target = loop;
  return CAIRN_OK;
}

static cairn_status lower_loop(crn_lowering *l, const crn_op *op, crn_binding *env, const crn_binding *values, uint32_t n, uint32_t loop) {
  uint32_t test = 0;
  // Operand 0 of the condition decides; the others go on to the body, or become the results.
  CRN_TRY(add_jump(l, CRN_STEP_TEST, op, &values[0], &test));
  CRN_TRY(lower_after(l, op, env, values + 1, n - 1, loop));
  l->steps.items[test].target = (uint32_t)l->steps.size;
  for (uint32_t i = 0; i < op->n_results; i++) CRN_TRY(bind_like(l, env, &op->results[i], (crn_binding){CRN_TOKEN, 0}));
  CRN_TRY(assign(l, op, values + 1, n - 1, env, op->results, op->n_results));
  return end_region(l, op, loop);
}

cairn_status crn_lower_while(crn_lowering *l, const crn_op *op, crn_binding *env) {
  uint32_t loop = 0, n = 0;
  crn_binding *values = NULL;
  CRN_TRY(need_blocks(op));
  if (op->regions[0].blocks[0]->last->id != CRN_OP_condition || op->regions[0].blocks[0]->last->n_operands < 1) {
    return CRN_FAIL(CORRUPT, "a loop's first region must end in coreai.condition");
  }
  CRN_TRY(enter_loop(l, op, env, &loop));
  CRN_TRY(lower_region(l, op->regions[0].blocks[0], env, &values, &n));
  cairn_status status = lower_loop(l, op, env, values, n, loop);
  crn_free(l->allocator, values, n * sizeof *values);
  return status;
}
