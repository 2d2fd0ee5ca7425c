#include "execute/ties.h"

#include <string.h>

#include "execute/internal.h"

typedef struct resolver {
  const cairn_model *model;
  const crn_graph *graph;
  const cairn_function_info *info;
  crn_arena *arena;
  crn_plan_tie *ties;
  uint32_t n;
  cairn_descriptor *inputs, *states, *outputs;  ///< what is left
  int n_inputs, n_states, n_outputs;
} resolver;

static int find(const cairn_descriptor *d, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (strcmp(d[i].name, name) == 0) return i;
  }
  return -1;
}

// Descriptors leave states out on the one side and tokens on the other: the place of one in the graph.
static uint32_t argument_of(const crn_graph *g, int input) {
  uint32_t i = 0;
  for (int left = input; left > 0 || g->body->arguments[i].type->kind == CRN_TYPE_HANDLE; i++)
    left -= g->body->arguments[i].type->kind != CRN_TYPE_HANDLE;
  return i;
}

static uint32_t result_of(const crn_graph *g, int output) {
  uint32_t i = 0;
  for (int left = output; left > 0 || g->result_types[i]->kind == CRN_TYPE_TOKEN; i++) left -= g->result_types[i]->kind != CRN_TYPE_TOKEN;
  return i;
}

// Open dims fit any: what they are in a run is checked there.
static bool same_type(const cairn_descriptor *a, const cairn_descriptor *b) {
  if (a->is_image || b->is_image || a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++) {
    if (a->shape[d] != b->shape[d] && a->shape[d] >= 0 && b->shape[d] >= 0) return false;
  }
  return true;
}

static const crn_plan_tie *tie_of(const resolver *r, uint32_t argument) {
  for (uint32_t i = 0; i < r->n; i++) {
    if (r->ties[i].argument == argument) return &r->ties[i];
  }
  return NULL;
}

static bool is_carried_result(const resolver *r, uint32_t result) {
  for (uint32_t i = 0; i < r->n; i++) {
    if (!r->ties[i].giver && r->ties[i].result == result) return true;
  }
  return false;
}

static cairn_status add_carried(resolver *r, const cairn_carried *c) {
  const cairn_function_info *f = r->info;
  CRN_REQUIRE_NAMED(c->input, "carried input");
  CRN_REQUIRE_NAMED(c->output, "carried output");
  const int in = find(f->inputs, f->n_inputs, c->input), out = find(f->outputs, f->n_outputs, c->output);
  if (in < 0 || out < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "function '%s' has no %s '%s' to carry", f->name, in < 0 ? "input" : "output",
                    in < 0 ? c->input : c->output);
  if (!same_type(&f->inputs[in], &f->outputs[out]))
    return CRN_FAIL(INVALID_ARGUMENT, "input '%s' and output '%s' of function '%s' have different types: they cannot be one state",
                    c->input, c->output, f->name);
  if (find(f->states, f->n_states, c->input) >= 0)
    return CRN_FAIL(INVALID_ARGUMENT, "function '%s' has an input and a state named '%s': they cannot be two states", f->name, c->input);
  const crn_plan_tie tie = {.argument = argument_of(r->graph, in), .result = result_of(r->graph, out)};
  if (tie_of(r, tie.argument) || is_carried_result(r, tie.result))
    return CRN_FAIL(INVALID_ARGUMENT, "input '%s' or output '%s' of function '%s' is carried twice", c->input, c->output, f->name);
  r->ties[r->n++] = tie;
  return CAIRN_OK;
}

// Another function that takes nothing and gives an output of the name and type of the input.
static bool find_giver(const resolver *r, const cairn_descriptor *d, crn_plan_tie *out) {
  for (int i = 0; i < r->model->n_functions; i++) {
    const cairn_function_info *f = &r->model->functions[i];
    const int at = f == r->info || f->n_inputs || f->n_states ? -1 : find(f->outputs, f->n_outputs, d->name);
    if (at < 0 || !same_type(d, &f->outputs[at])) continue;
    out->giver = r->model->graphs[i];
    out->result = result_of(out->giver, at);
    return true;
  }
  return false;
}

static void add_constants(resolver *r) {
  for (int i = 0; i < r->info->n_inputs; i++) {
    crn_plan_tie tie = {.argument = argument_of(r->graph, i)};
    if (!tie_of(r, tie.argument) && find_giver(r, &r->info->inputs[i], &tie)) r->ties[r->n++] = tie;
  }
}

// States come in the order of the graph's arguments, as in the plan.
static void list_arguments(resolver *r) {
  const cairn_function_info *f = r->info;
  int input = 0, state = 0;
  for (uint32_t i = 0; i < r->graph->body->n_arguments; i++) {
    const bool is_state = r->graph->body->arguments[i].type->kind == CRN_TYPE_HANDLE;
    const cairn_descriptor *d = is_state ? &f->states[state++] : &f->inputs[input++];
    const crn_plan_tie *tie = tie_of(r, i);
    if (tie && tie->giver) continue;
    if (is_state || tie) {
      r->states[r->n_states++] = *d;
    } else {
      r->inputs[r->n_inputs++] = *d;
    }
  }
}

static cairn_status describe(resolver *r, const cairn_function_info **out) {
  const cairn_function_info *f = r->info;
  cairn_function_info *info;
  CRN_TRY(crn_arena_alloc(r->arena, sizeof *info, &info));
  CRN_TRY(crn_arena_array(r->arena, (size_t)f->n_inputs, sizeof *r->inputs, &r->inputs));
  CRN_TRY(crn_arena_array(r->arena, (size_t)(f->n_inputs + f->n_states), sizeof *r->states, &r->states));
  CRN_TRY(crn_arena_array(r->arena, (size_t)f->n_outputs, sizeof *r->outputs, &r->outputs));
  list_arguments(r);
  for (int i = 0; i < f->n_outputs; i++) {
    if (!is_carried_result(r, result_of(r->graph, i))) r->outputs[r->n_outputs++] = f->outputs[i];
  }
  *info = (cairn_function_info){.name = f->name,
                                .inputs = r->inputs,
                                .states = r->states,
                                .outputs = r->outputs,
                                .n_inputs = r->n_inputs,
                                .n_states = r->n_states,
                                .n_outputs = r->n_outputs};
  *out = info;
  return CAIRN_OK;
}

cairn_status crn_ties_resolve(const cairn_model *m, int at, const cairn_function_options *o, crn_arena *arena,
                              const crn_plan_tie **out_ties, uint32_t *out_n, const cairn_function_info **out_info) {
  resolver r = {.model = m, .graph = m->graphs[at], .info = &m->functions[at], .arena = arena};
  *out_ties = NULL;
  *out_n = 0;
  *out_info = r.info;
  if (!o || (o->n_carried <= 0 && !o->take_constants)) return CAIRN_OK;
  CRN_REQUIRE_SOME(o->carried, o->n_carried);
  CRN_TRY(crn_arena_array(arena, (size_t)r.info->n_inputs + (size_t)(o->n_carried > 0 ? o->n_carried : 0), sizeof *r.ties, &r.ties));
  for (int i = 0; i < o->n_carried; i++) CRN_TRY(add_carried(&r, &o->carried[i]));
  if (o->take_constants) add_constants(&r);
  *out_ties = r.ties;
  *out_n = r.n;
  return describe(&r, out_info);
}
