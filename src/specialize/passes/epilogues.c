// What products on packed weights are followed by is done in their step:
//
//   gelu(a · W + bias), relu, silu        activation
//   h + reshape(a · W + bias)             residual, where the change of shape leaves rows as they are
//
// Called behind the pass that makes the products (linear.c), which takes in bias and plain residuals itself.
#include <stdio.h>

#include "backend/cpu/fused/linear.h"
#include "specialize/match.h"
#include "specialize/passes.h"
#include "specialize/shapes.h"

typedef struct epilogue_pass {
  crn_plan *plan;
  crn_plan_index index;
  crn_shapes shapes;
  bool *is_dropped;
} epilogue_pass;

// The plain product that makes a slot nobody else reads; CRN_NO_STEP when it is none.
static uint32_t own_product(const epilogue_pass *e, uint32_t slot) {
  uint32_t i = e->index.made_by[slot];
  if (i == CRN_NO_STEP || e->index.n_uses[slot] != 1 || e->is_dropped[i]) return CRN_NO_STEP;
  const crn_step *s = &e->plan->steps[i];
  if (!s->fused || s->infer != crn_infer_fused_linear || s->n_out != 1 || s->n_in != 1) return CRN_NO_STEP;
  const crn_fused_linear *f = s->fused;
  return f->epilogue == CRN_LINEAR_PLAIN && !f->activation ? i : CRN_NO_STEP;
}

// Makes step `at` the product `from` with another epilogue.
static cairn_status take(epilogue_pass *e, uint32_t at, uint32_t from, const char *suffix, crn_fused_linear **out) {
  enum { ROOM = 64 };
  crn_plan *p = e->plan;
  crn_step *s = &p->steps[at];
  const crn_step *product = &p->steps[from];
  char *name;
  uint32_t *in;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof **out, out));
  CRN_TRY(crn_arena_array(&p->arena, ROOM, 1, &name));
  CRN_TRY(crn_arena_array(&p->arena, 2, sizeof *in, &in));
  snprintf(name, ROOM, "%s%s", crn_step_name(product), suffix);
  **out = *(const crn_fused_linear *)product->fused;
  in[0] = product->in[0];
  s->kind = CRN_STEP_KERNEL;
  s->name = product->name ? name : NULL;
  s->fused = *out;
  s->in = in;
  s->n_in = 1;
  s->infer = product->infer;
  s->kernel = product->kernel;
  s->view = NULL;
  s->minor_axis = product->minor_axis;
  e->is_dropped[from] = true;
  return CAIRN_OK;
}

static cairn_status take_activation(epilogue_pass *e, uint32_t at) {
  const crn_plan *p = e->plan;
  const crn_step *s = &p->steps[at];
  crn_activation activation = crn_match_activation(s);
  crn_fused_linear *f;
  uint32_t from = activation ? own_product(e, s->in[0]) : CRN_NO_STEP;
  if (from == CRN_NO_STEP || p->slot_types[s->in[0]]->dtype != p->slot_types[s->out[0]]->dtype) return CAIRN_OK;
  CRN_TRY(take(e, at, from, crn_activation_suffix(activation), &f));
  f->activation = activation;
  return CAIRN_OK;
}

// The reshape must leave the outputs last, and the sum must have its shape.
static bool is_sum_of_rows(const epilogue_pass *e, const crn_step *sum, int side, const crn_step *reshape) {
  const crn_plan *p = e->plan;
  uint32_t shaped = sum->in[side], other = sum->in[1 - side];
  const crn_type *before = p->slot_types[reshape->in[0]], *after = p->slot_types[shaped], *added = p->slot_types[other];
  if (before->rank < 1 || after->rank < 1 || before->dims[before->rank - 1] < 1) return false;
  if (after->dims[after->rank - 1] != before->dims[before->rank - 1] || added->dtype != after->dtype) return false;
  return shaped != other && crn_shapes_equal(&e->shapes, shaped, other);
}

static cairn_status take_residual(epilogue_pass *e, uint32_t at) {
  const crn_plan *p = e->plan;
  const crn_step *s = &p->steps[at];
  if (!crn_step_is(s, CRN_OP_broadcasting_add) && !crn_step_is(s, CRN_OP_add)) return CAIRN_OK;
  for (int side = 0; side < 2; side++) {
    const crn_step *reshape = crn_match_own(p, &e->index, s->in[side], CRN_OP_reshape, CRN_OP_reshape);
    uint32_t from = reshape ? own_product(e, reshape->in[0]) : CRN_NO_STEP, other = s->in[1 - side];
    crn_fused_linear *f;
    if (from == CRN_NO_STEP || !is_sum_of_rows(e, s, side, reshape)) continue;
    const crn_fused_linear *product = p->steps[from].fused;
    if (product->axis || product->out_rank || p->steps[from].cuts_rows) continue;
    e->is_dropped[reshape - p->steps] = true;
    CRN_TRY(take(e, at, from, "+add", &f));
    f->epilogue = CRN_LINEAR_ADD;
    f->has_rows_of_added = true;
    p->steps[at].in[1] = other;
    p->steps[at].n_in = 2;
    return CAIRN_OK;
  }
  return CAIRN_OK;
}

static cairn_status run_pass(epilogue_pass *e) {
  for (uint32_t i = 0; i < e->plan->n_steps; i++) {
    if (e->index.is_inner[i] || e->plan->steps[i].n_out != 1) continue;
    CRN_TRY(take_activation(e, i));
    CRN_TRY(take_residual(e, i));
  }
  return crn_plan_drop(e->plan, e->is_dropped);
}

cairn_status crn_pass_epilogues(crn_plan *p) {
  const cairn_allocator *a = &p->context->allocator;
  epilogue_pass e = {.plan = p};
  uint32_t n = p->n_steps;
  CRN_TRY(crn_plan_index_create(p, &e.index));
  cairn_status status = crn_shapes_create(p, &e.index, &e.shapes);
  if (status == CAIRN_OK) status = crn_alloc_array(a, n, sizeof *e.is_dropped, &e.is_dropped);
  if (status == CAIRN_OK) status = run_pass(&e);
  crn_free(a, e.is_dropped, n * sizeof *e.is_dropped);
  crn_shapes_destroy(&e.shapes);
  crn_plan_index_destroy(&e.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
