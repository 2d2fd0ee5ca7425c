#include "execute/describe.h"

#include <stdio.h>
#include <string.h>

static cairn_status describe_value(crn_arena *arena, const char *name, const char *kind, int position, const crn_type *type,
                                   cairn_descriptor *out) {
  char made[32];
  if (!name) {
    snprintf(made, sizeof made, "%s%d", kind, position);
    CRN_TRY(crn_arena_strndup(arena, made, strlen(made), &name));
  }
  out->name = name;
  out->dtype = type->dtype;
  out->rank = type->rank;
  out->is_image = type->kind == CRN_TYPE_IMAGE;
  out->image_format = type->image_format;
  out->image_height = type->image_height;
  out->image_width = type->image_width;
  memcpy(out->shape, type->dims, sizeof out->shape);
  for (int i = 0; i < CAIRN_MAX_RANK; i++) out->interleave[i] = type->interleave[i];
  memcpy(out->alignment, type->alignment, sizeof out->alignment);
  return CAIRN_OK;
}

static cairn_status describe_arguments(crn_arena *arena, const crn_graph *g, cairn_descriptor *inputs, cairn_descriptor *states,
                                       cairn_function_info *out) {
  for (uint32_t i = 0; i < g->body->n_arguments; i++) {
    const crn_value *v = &g->body->arguments[i];
    bool is_state = v->type->kind == CRN_TYPE_HANDLE;
    int *n = is_state ? &out->n_states : &out->n_inputs;
    CRN_TRY(describe_value(arena, v->name, is_state ? "state" : "input", *n, v->type, is_state ? &states[*n] : &inputs[*n]));
    ++*n;
  }
  return CAIRN_OK;
}

static cairn_status check_names(const char *function, const cairn_descriptor *d, int n, const char *kind) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) {
      if (!strcmp(d[i].name, d[k].name)) return CRN_FAIL(CORRUPT, "function '%s' has two %s named '%s'", function, kind, d[i].name);
    }
  }
  return CAIRN_OK;
}

cairn_status crn_describe_function(crn_arena *arena, const crn_graph *g, cairn_function_info *out) {
  cairn_descriptor *inputs, *states, *outputs;
  *out = (cairn_function_info){.name = g->name};
  CRN_TRY(crn_arena_array(arena, g->body->n_arguments, sizeof *inputs, &inputs));
  CRN_TRY(crn_arena_array(arena, g->body->n_arguments, sizeof *states, &states));
  CRN_TRY(crn_arena_array(arena, g->n_results, sizeof *outputs, &outputs));
  CRN_TRY(describe_arguments(arena, g, inputs, states, out));
  for (uint32_t i = 0; i < g->n_results; i++) {
    if (g->result_types[i]->kind == CRN_TYPE_TOKEN) continue;
    CRN_TRY(describe_value(arena, g->result_names[i], "output", out->n_outputs, g->result_types[i], &outputs[out->n_outputs]));
    out->n_outputs++;
  }
  out->inputs = inputs;
  out->states = states;
  out->outputs = outputs;
  CRN_TRY(check_names(g->name, inputs, out->n_inputs, "inputs"));
  CRN_TRY(check_names(g->name, states, out->n_states, "states"));
  return check_names(g->name, outputs, out->n_outputs, "outputs");
}
