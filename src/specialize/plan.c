// Making and destroying plans: a function's arguments and results around the lowering of its body.
#include <string.h>

#include "specialize/lower.h"

// --- the function's own arguments and results ---------------------------------------------------------------------------

static const crn_plan_tie *tie_of_argument(const crn_lowering *l, uint32_t i) {
  for (uint32_t k = 0; k < l->n_ties; k++) {
    if (l->ties[k].argument == i) return &l->ties[k];
  }
  return NULL;
}

static const crn_plan_tie *carry_of_result(const crn_lowering *l, uint32_t i) {
  for (uint32_t k = 0; k < l->n_ties; k++) {
    if (!l->ties[k].giver && l->ties[k].result == i) return &l->ties[k];
  }
  return NULL;
}

// The argument is a result of another graph, whose ops come in front of those of this one.
static cairn_status bind_given(crn_lowering *l, const crn_plan_tie *tie, const crn_value *v, crn_binding *env) {
  const crn_graph *g = tie->giver;
  crn_binding *inner, *results;
  CRN_TRY(crn_alloc_array(l->allocator, g->n_values, sizeof *inner, &inner));
  cairn_status status = crn_alloc_array(l->allocator, g->n_results, sizeof *results, &results);
  if (status == CAIRN_OK) {
    status = crn_lower_block(l, g->body, inner, results);
    if (status == CAIRN_OK && results[tie->result].kind != CRN_SLOT)
      status = CRN_FAIL(CORRUPT, "result %u of function '%s' is not a tensor", tie->result, g->name);
    env[v->id] = results[tie->result];
    crn_free(l->allocator, results, g->n_results * sizeof *results);
  }
  crn_free(l->allocator, inner, g->n_values * sizeof *inner);
  return status;
}

// The argument is the value of a state, which is read in front of everything else, ...
static cairn_status bind_carried(crn_lowering *l, const crn_value *v, crn_binding *env) {
  static const crn_op read = {.id = CRN_OP_read_handle, .location = ""};
  crn_plan *p = l->plan;
  crn_step *s = NULL;
  CRN_TRY(crn_lower_bind_slot(l, env, v, NULL));
  CRN_TRY(crn_lower_add_step(l, CRN_STEP_READ, &read, 0, 1, &s));
  s->out[0] = env[v->id].index;
  s->state = (int32_t)p->n_states;
  p->states[p->n_states++] = (crn_state_info){v->name, v->type};
  return CAIRN_OK;
}

// ... and the result is written to it behind everything else.
static cairn_status write_carried(crn_lowering *l, const crn_graph *g, const crn_plan_tie *tie, uint32_t slot) {
  static const crn_op write = {.id = CRN_OP_write_handle, .location = ""};
  crn_step *s = NULL;
  CRN_TRY(crn_lower_add_step(l, CRN_STEP_WRITE, &write, 1, 0, &s));
  s->in[0] = slot;
  s->state = 0;
  for (uint32_t i = 0; i < tie->argument; i++) {
    const crn_plan_tie *other = tie_of_argument(l, i);
    s->state += other ? !other->giver : g->body->arguments[i].type->kind == CRN_TYPE_HANDLE;
  }
  return CAIRN_OK;
}

static cairn_status bind_arguments(crn_lowering *l, const crn_graph *g, crn_binding *env) {
  crn_plan *p = l->plan;
  uint32_t n = g->body->n_arguments;
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *p->input_slots, &p->input_slots));
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *p->input_types, &p->input_types));
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *p->states, &p->states));
  for (uint32_t i = 0; i < n; i++) {
    const crn_value *v = &g->body->arguments[i];
    const crn_plan_tie *tie = tie_of_argument(l, i);
    if (tie) {
      CRN_TRY(tie->giver ? bind_given(l, tie, v, env) : bind_carried(l, v, env));
    } else if (v->type->kind == CRN_TYPE_HANDLE) {
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

static cairn_status bind_results(crn_lowering *l, const crn_graph *g, const crn_binding *results) {
  crn_plan *p = l->plan;
  CRN_TRY(crn_arena_array(&p->arena, g->n_results, sizeof *p->output_slots, &p->output_slots));
  for (uint32_t i = 0; i < g->n_results; i++) {
    if (g->result_types[i]->kind == CRN_TYPE_TOKEN) continue;
    if (results[i].kind != CRN_SLOT) return CRN_FAIL(CORRUPT, "result %u of function '%s' is not a tensor", i, g->name);
    const crn_plan_tie *tie = carry_of_result(l, i);
    if (tie) {
      CRN_TRY(write_carried(l, g, tie, results[i].index));
    } else {
      p->output_slots[p->n_outputs++] = results[i].index;
    }
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
    if (status == CAIRN_OK) status = bind_results(l, g, results);
    crn_free(l->allocator, results, g->n_results * sizeof *results);
  }
  crn_free(l->allocator, env, g->n_values * sizeof *env);
  return status;
}

cairn_status crn_plan_create(cairn_context *context, const crn_graph *graph, const crn_plan_tie *ties, uint32_t n_ties, bool use_bodies,
                             crn_plan **out_plan) {
  *out_plan = NULL;
  crn_plan *p;
  const cairn_allocator *a = &context->allocator;
  CRN_TRY(crn_alloc_zero(a, sizeof *p, &p));
  crn_arena_initialize(&p->arena, a);
  p->context = context;
  p->graph = graph;
  p->precision = CAIRN_PRECISION_EXACT;
  crn_lowering l = {.plan = p, .allocator = a, .ties = ties, .n_ties = n_ties, .use_bodies = use_bodies};
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
