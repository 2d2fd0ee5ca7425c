// Making and destroying plans: a function's arguments and results around the lowering of its body.
#include <string.h>

#include "specialize/lower.h"

// --- the function's own arguments and results ---------------------------------------------------------------------------

static cairn_status bind_arguments(crn_lowering *l, const crn_graph *g, crn_binding *env) {
  crn_plan *p = l->plan;
  uint32_t n = g->body->n_arguments;
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *p->input_slots, &p->input_slots));
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *p->input_types, &p->input_types));
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *p->states, &p->states));
  for (uint32_t i = 0; i < n; i++) {
    const crn_value *v = &g->body->arguments[i];
    if (v->type->kind == CRN_TYPE_HANDLE) {
      env[v->id] = (crn_binding){CRN_STATE, p->n_states};
      p->states[p->n_states++] = (crn_state_info){v->name, v->type};
    } else if (v->type->kind == CRN_TYPE_TENSOR || v->type->kind == CRN_TYPE_IMAGE) {
      CRN_TRY(crn_lower_bind_slot(l, env, v, NULL));
      p->input_types[p->n_inputs] = v->type;
      p->input_slots[p->n_inputs++] = env[v->id].index;
    } else {
      return CRN_FAIL(UNSUPPORTED, "argument %u of function '%s' is neither a tensor, an image nor a state", i, g->name);
    }
  }
  return CAIRN_OK;
}

static cairn_status bind_results(crn_plan *p, const crn_graph *g, const crn_binding *results) {
  CRN_TRY(crn_arena_array(&p->arena, g->n_results, sizeof *p->output_slots, &p->output_slots));
  for (uint32_t i = 0; i < g->n_results; i++) {
    if (g->result_types[i]->kind == CRN_TYPE_TOKEN) continue;
    if (results[i].kind != CRN_SLOT) return CRN_FAIL(CORRUPT, "result %u of function '%s' is not a tensor", i, g->name);
    p->output_slots[p->n_outputs++] = results[i].index;
  }
  return CAIRN_OK;
}

static cairn_status settle(crn_lowering *l) {
  crn_plan *p = l->plan;
  p->n_steps = (uint32_t)l->steps.size;
  p->n_slots = (uint32_t)l->slot_types.size;
  CRN_TRY(crn_arena_array(&p->arena, p->n_steps, sizeof *p->steps, &p->steps));
  CRN_TRY(crn_arena_array(&p->arena, p->n_slots, sizeof *p->slot_types, &p->slot_types));
  CRN_TRY(crn_arena_array(&p->arena, p->n_slots, sizeof *p->constants, &p->constants));
  CRN_TRY(crn_arena_array(&p->arena, p->n_slots, sizeof *p->is_constant, &p->is_constant));
  if (p->n_steps) memcpy(p->steps, l->steps.items, p->n_steps * sizeof *p->steps);
  for (uint32_t i = 0; i < p->n_slots; i++) {
    p->slot_types[i] = l->slot_types.items[i];
    const crn_constant *c = l->slot_constants.items[i];
    if (!c) continue;
    p->constants[i].tensor = c->tensor;
    p->is_constant[i] = true;
  }
  return CAIRN_OK;
}

// --- creation -----------------------------------------------------------------------------------------------------------

static cairn_status lower_function(crn_lowering *l, const crn_graph *g) {
  crn_binding *env, *results;
  CRN_TRY(crn_alloc_array(l->allocator, g->n_values, sizeof *env, &env));
  cairn_status status = crn_alloc_array(l->allocator, g->n_results, sizeof *results, &results);
  if (status == CAIRN_OK) {
    status = bind_arguments(l, g, env);
    if (status == CAIRN_OK) status = crn_lower_block(l, g->body, env, results);
    if (status == CAIRN_OK) status = bind_results(l->plan, g, results);
    crn_free(l->allocator, results, g->n_results * sizeof *results);
  }
  crn_free(l->allocator, env, g->n_values * sizeof *env);
  return status;
}

cairn_status crn_plan_create(cairn_context *context, const crn_graph *graph, bool use_bodies, crn_plan **out_plan) {
  *out_plan = NULL;
  crn_plan *p;
  const cairn_allocator *a = &context->allocator;
  CRN_TRY(crn_alloc_zero(a, sizeof *p, &p));
  crn_arena_initialize(&p->arena, a);
  p->context = context;
  p->graph = graph;
  p->precision = CAIRN_PRECISION_EXACT;
  crn_lowering l = {.plan = p, .allocator = a, .use_bodies = use_bodies};
  cairn_status status = lower_function(&l, graph);
  if (status == CAIRN_OK) status = settle(&l);
  crn_vec_free(a, &l.steps);
  crn_vec_free(a, &l.slot_types);
  crn_vec_free(a, &l.slot_constants);
  if (status == CAIRN_OK) {
    crn_plan_find_updates(p);
    *out_plan = p;
  } else {
    crn_plan_destroy(p);
  }
  return status;
}

void crn_plan_destroy(crn_plan *p) {
  if (!p) return;
  const cairn_allocator *a = &p->context->allocator;
  if (p->folded) p->release_folded(p->folded);
  crn_vec_free(a, &p->folded_reads);
  crn_arena_deinitialize(&p->arena);
  crn_free(a, p, sizeof *p);
}

const char *crn_step_name(const crn_step *step) { return step->name ? step->name : crn_op_info_of(step->id)->name; }
