// Callers often want the last row of an output only: a prompt of a thousand tokens needs one row of logits. The product that makes
// the rows is marked, and a run that is asked for fewer rows cuts its operand. Between product and output only ops that work
// on each element alone may stand.
#include "backend/cpu/fused/linear.h"

#include "specialize/edit.h"
#include "specialize/passes.h"

static bool has_free_rows(const crn_plan *p, uint32_t slot) {
  const crn_type *t = p->slot_types[slot];
  return t->rank >= 2 && t->dims[t->rank - 2] < 0;
}

// The operand of an elementwise step that has its rows, when all others are single constants.
static bool find_rows_operand(const crn_plan *p, const crn_step *s, uint32_t *out_slot) {
  int found = 0;
  for (uint32_t k = 0; k < s->n_in; k++) {
    const crn_tensor *constant = crn_constant_of(p, s->in[k]);
    if (constant && crn_tensor_count(constant) == 1) continue;
    *out_slot = s->in[k];
    found++;
  }
  return found == 1 && p->slot_types[*out_slot]->rank == p->slot_types[s->out[0]]->rank;
}

static bool is_elementwise(const crn_step *s) {
  return s->kind == CRN_STEP_KERNEL && !s->fused && s->n_out == 1 && crn_op_info_of(s->id)->traits & CRN_ELEMENTWISE;
}

static void mark_output(crn_plan *p, const crn_plan_index *x, uint32_t slot) {
  while (x->n_uses[slot] == 1 && has_free_rows(p, slot)) {
    crn_step *s = crn_maker_of(p, x, slot);
    if (!s) return;
    if (s->fused && s->infer == crn_infer_fused_linear && s->n_in == 1 && s->n_out == 1 && has_free_rows(p, s->in[0])) {
      s->cuts_rows = true;
      return;
    }
    if (!is_elementwise(s) || !find_rows_operand(p, s, &slot)) return;
  }
}

cairn_status crn_pass_last_rows(crn_plan *p) {
  crn_plan_index x;
  CRN_TRY(crn_plan_index_create(p, &x));
  for (uint32_t i = 0; i < p->n_outputs; i++) mark_output(p, &x, p->output_slots[i]);
  crn_plan_index_destroy(&x);
  return CAIRN_OK;
}
