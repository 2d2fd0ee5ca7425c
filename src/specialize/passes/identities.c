// Steps that give back what they are given, in the same shape, are left out: copies for the sake of hardware layouts, broadcasts and
// reshapes to the shape that is there already, slices of everything. Exporters write many of them, and each hides a pattern.
#include "specialize/passes.h"
#include "specialize/shapes.h"

static bool holds_values(const crn_shapes *h, uint32_t slot, int n, crn_sym value) {
  const crn_slot_shape *s = &h->slots[slot];
  bool all = s->n_values == n;
  for (int i = 0; all && i < n; i++) all = s->values[i] == value;
  return all;
}

static bool keeps_order(const crn_shapes *h, uint32_t slot, int rank) {
  const crn_slot_shape *s = &h->slots[slot];
  bool all = s->n_values == rank;
  for (int i = 0; all && i < rank; i++) all = s->values[i] == i;
  return all;
}

static bool is_identity(const crn_plan *p, const crn_shapes *h, const crn_step *s) {
  if (s->kind != CRN_STEP_KERNEL || s->fused || s->n_out != 1 || s->n_in < 1) return false;
  const crn_type *from = p->slot_types[s->in[0]], *to = p->slot_types[s->out[0]];
  if (from->kind != CRN_TYPE_TENSOR || from->is_sparse || from->dtype != to->dtype || !crn_shapes_equal(h, s->in[0], s->out[0]))
    return false;
  switch (s->id) {
    case CRN_OP_coreaix_copy_discarding_constraints:
    case CRN_OP_coreaix_copy_with_constraints:
    case CRN_OP_cast:
    case CRN_OP_reshape:
    case CRN_OP_broadcast_to:
    case CRN_OP_broadcast_in_dims:
      return true;
    case CRN_OP_transpose:
      return keeps_order(h, s->in[1], to->rank);
    case CRN_OP_slice:
      return holds_values(h, s->in[3], to->rank, 1);
    default:
      return false;
  }
}

// What is known of a size by now goes into the types, where the passes look for it.
static cairn_status refine_types(crn_plan *p, const crn_shapes *h) {
  for (uint32_t i = 0; i < p->n_slots; i++) {
    const crn_type *t = p->slot_types[i];
    if (t->kind != CRN_TYPE_TENSOR || p->is_constant[i]) continue;
    crn_type *better = NULL;
    for (int d = 0; d < t->rank; d++) {
      if (t->dims[d] >= 0 || !crn_sym_is_constant(h->slots[i].dims[d])) continue;
      if (!better) {
        CRN_TRY(crn_arena_alloc(&p->arena, sizeof *better, &better));
        *better = *t;
        p->slot_types[i] = better;
      }
      better->dims[d] = h->slots[i].dims[d];
    }
  }
  return CAIRN_OK;
}

static cairn_status leave_out(crn_plan *p, const crn_plan_index *x, const crn_shapes *h) {
  const cairn_allocator *a = &p->context->allocator;
  uint32_t *replacement, n = p->n_steps;
  bool *is_dropped;
  CRN_TRY(crn_alloc_array(a, p->n_slots, sizeof *replacement, &replacement));
  cairn_status status = crn_alloc_array(a, n, sizeof *is_dropped, &is_dropped);
  if (status == CAIRN_OK) {
    for (uint32_t i = 0; i < p->n_slots; i++) replacement[i] = i;
    for (uint32_t i = 0; i < n; i++) {
      crn_step *s = &p->steps[i];
      for (uint32_t k = 0; k < s->n_in; k++) s->in[k] = replacement[s->in[k]];
      if (x->is_inner[i] || s->n_out != 1 || x->made_by[s->out[0]] != i || !is_identity(p, h, s)) continue;
      replacement[s->out[0]] = s->in[0];
      is_dropped[i] = true;
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) p->output_slots[i] = replacement[p->output_slots[i]];
    status = crn_plan_drop(p, is_dropped);
    crn_free(a, is_dropped, n * sizeof *is_dropped);
  }
  crn_free(a, replacement, p->n_slots * sizeof *replacement);
  return status;
}

cairn_status crn_pass_identities(crn_plan *p) {
  crn_plan_index x;
  crn_shapes h = {0};
  CRN_TRY(crn_plan_index_create(p, &x));
  cairn_status status = crn_shapes_create(p, &x, &h);
  if (status == CAIRN_OK) status = refine_types(p, &h);
  if (status == CAIRN_OK) status = leave_out(p, &x, &h);
  crn_shapes_destroy(&h);
  crn_plan_index_destroy(&x);
  return status;
}
