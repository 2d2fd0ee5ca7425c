// Views of views become one step: a layer of a cache is sliced out, cut to its length and brought into another rank, and nobody
// needs what lies between.
#include "backend/cpu/fused/chain.h"

#include "specialize/match.h"
#include "specialize/passes.h"

static bool is_link(const crn_plan *p, const crn_step *s) {
  if (s->kind != CRN_STEP_KERNEL || s->n_out != 1 || !s->view || s->n_in < 1 || s->n_in > CRN_CHAIN_OPERANDS || s->fused) return false;
  const crn_type *from = p->slot_types[s->in[0]];
  if (from->kind != CRN_TYPE_TENSOR || from->is_sparse || crn_dtype_bits(from->dtype) < 8) return false;
  switch (s->id) {
    case CRN_OP_slice:
    case CRN_OP_reshape:
    case CRN_OP_transpose:
    case CRN_OP_expand_dims:
    case CRN_OP_shrink_dims:
    case CRN_OP_broadcast_to:
      return p->slot_types[s->in[0]]->dtype == p->slot_types[s->out[0]]->dtype;
    case CRN_OP_gather_nd:
      return s->view == crn_view_picked;
    default:
      return false;
  }
}

// The chain that ends with this step; one of a single link for a step that is none yet.
static crn_fused_chain chain_of(const crn_plan *p, const crn_step *s) {
  if (s->fused) return *(const crn_fused_chain *)s->fused;
  crn_fused_chain c = {.n = 1};
  c.links[0] = (crn_chain_link){s->id, s->infer, s->view, s->kernel, (int)s->n_in - 1, p->slot_types[s->out[0]]};
  return c;
}

// A state that changes in between would have to be copied for the sake of the later look.
static bool changes_state(const crn_plan *p, uint32_t from, uint32_t to) {
  for (uint32_t i = from + 1; i < to; i++) {
    if (p->steps[i].kind != CRN_STEP_KERNEL && p->steps[i].kind != CRN_STEP_COMPOSITE && p->steps[i].kind != CRN_STEP_READ) return true;
  }
  return false;
}

static bool is_chain(const crn_step *s) { return s->fused && s->infer == crn_infer_fused_chain; }

// Puts the step in front of `s` into it.
static cairn_status join(crn_plan *p, const crn_step *before, crn_step *s) {
  crn_fused_chain *f, a = chain_of(p, before), b = chain_of(p, s);
  uint32_t *in, n = before->n_in + s->n_in - 1;
  if (a.n + b.n > CRN_CHAIN_LINKS) return CAIRN_OK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof *in, &in));
  *f = a;
  for (int i = 0; i < b.n; i++) f->links[f->n++] = b.links[i];
  for (uint32_t i = 0; i < before->n_in; i++) in[i] = before->in[i];
  for (uint32_t i = 1; i < s->n_in; i++) in[before->n_in + i - 1] = s->in[i];
  s->in = in;
  s->n_in = n;
  s->fused = f;
  s->name = "view";
  s->infer = crn_infer_fused_chain;
  s->view = crn_fused_chain_view;
  s->kernel = crn_fused_chain_run;
  return CAIRN_OK;
}

cairn_status crn_pass_view_chains(crn_plan *p) {
  crn_plan_index x;
  CRN_TRY(crn_plan_index_create(p, &x));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    crn_step *s = &p->steps[i];
    if (x.is_inner[i] || !is_link(p, s) || p->is_constant[s->in[0]] || x.n_uses[s->in[0]] != 1) continue;
    const crn_step *before = crn_maker_of(p, &x, s->in[0]);
    if (!before || !(is_link(p, before) || is_chain(before)) || before->out[0] != s->in[0]) continue;
    if (changes_state(p, (uint32_t)(before - p->steps), i)) continue;
    status = join(p, before, s);
  }
  crn_plan_index_destroy(&x);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
