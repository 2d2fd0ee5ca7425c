#include "specialize/match.h"

crn_step *crn_match_made(const crn_plan *p, const crn_plan_index *x, uint32_t slot, crn_op_id id, crn_op_id other) {
  crn_step *s = crn_maker_of(p, x, slot);
  return crn_step_is(s, id) || crn_step_is(s, other) ? s : NULL;
}

crn_step *crn_match_own(const crn_plan *p, const crn_plan_index *x, uint32_t slot, crn_op_id id, crn_op_id other) {
  return x->n_uses[slot] == 1 ? crn_match_made(p, x, slot, id, other) : NULL;
}

bool crn_match_number(const crn_plan *p, const crn_plan_index *x, uint32_t slot, double *out) {
  for (;;) {
    const crn_tensor *t = crn_constant_of(p, slot);
    if (t) {
      if (t->packed || crn_dtype_is_complex(t->dtype)) return false;
      // One element, or one that is repeated.
      for (int d = 0; d < t->rank; d++) {
        if (t->dims[d] < 1 || (t->dims[d] > 1 && t->strides[d] != 0)) return false;
      }
      *out = crn_load_f64(t->dtype, t->data);
      return true;
    }
    const crn_step *s = crn_match_made(p, x, slot, CRN_OP_broadcast_to, CRN_OP_broadcast_in_dims);
    if (!s || p->slot_types[s->in[0]]->dtype != p->slot_types[slot]->dtype) return false;
    slot = s->in[0];
  }
}

bool crn_match_integers(const crn_plan *p, uint32_t slot, int most, int64_t *out, int *out_n) {
  const crn_tensor *t = crn_constant_of(p, slot);
  if (!t || t->packed || t->rank > 1 || !crn_dtype_is_integer(t->dtype) || crn_tensor_count(t) > most) return false;
  *out_n = (int)crn_tensor_count(t);
  for (int i = 0; i < *out_n; i++) out[i] = crn_load_i64(t->dtype, crn_tensor_at(t, t->rank ? i * t->strides[0] : 0));
  return true;
}

bool crn_match_last_axis(const crn_plan *p, uint32_t slot, int rank) {
  int64_t axis;
  int n;
  return crn_match_integers(p, slot, 1, &axis, &n) && n == 1 && (axis == -1 || axis == rank - 1);
}
