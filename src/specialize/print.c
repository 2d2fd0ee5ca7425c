// A plan as text: what `cairn inspect --plan` shows and what the tests of the passes compare.
#include "specialize/print.h"

#include "backend/cpu/fused/linear.h"

static cairn_status print_slots(const crn_plan *p, const uint32_t *slots, uint32_t n, crn_str *out) {
  for (uint32_t i = 0; i < n; i++) {
    const crn_type *t = p->slot_types[slots[i]];
    CRN_TRY(crn_str_printf(out, "%s%s%u:%s[", i ? ", " : "", p->is_constant[slots[i]] ? "#" : "%", slots[i], cairn_dtype_name(t->dtype)));
    for (int d = 0; d < t->rank; d++) {
      if (t->dims[d] < 0) CRN_TRY(crn_str_printf(out, "%s?", d ? "," : ""));
      if (t->dims[d] >= 0) CRN_TRY(crn_str_printf(out, "%s%lld", d ? "," : "", (long long)t->dims[d]));
    }
    CRN_TRY(crn_str_puts(out, "]"));
  }
  return CAIRN_OK;
}

static cairn_status print_linear(const crn_step *s, crn_str *out) {
  static const char *const formats[] = {"4-bit", "4-bit with minimum", "8-bit", "8-bit with minimum", "f16", "bf16", "f32"};
  const crn_linear_weights *w = s->infer == crn_infer_fused_lookup ? &((const crn_fused_lookup *)s->fused)->weights
                                                                   : &((const crn_fused_linear *)s->fused)->weights;
  CRN_TRY(crn_str_printf(out, "  %lldx%lld %s, %zu bytes", (long long)w->n, (long long)w->k, formats[w->format], w->bytes));
  if (s->infer == crn_infer_fused_lookup) return CAIRN_OK;
  crn_linear_mode mode = ((const crn_fused_linear *)s->fused)->mode;
  const crn_linear_kernel *one = crn_linear_select(w->format, mode, 1), *many = crn_linear_select(w->format, mode, 256);
  return crn_str_printf(out, "; one row %s, many rows %s", one->name, many->name);
}

static cairn_status print_step(const crn_plan *p, uint32_t i, int depth, crn_str *out) {
  static const char *const kinds[] = {"", "", "", "alias", "read", "write", "if", "loop", "test", "jump", "end"};
  const crn_step *s = &p->steps[i];
  CRN_TRY(crn_str_printf(out, "%5u %*s", i, depth * 2, ""));
  if (s->n_out) {
    CRN_TRY(print_slots(p, s->out, s->n_out, out));
    CRN_TRY(crn_str_puts(out, " = "));
  }
  const char *name = kinds[s->kind][0] ? kinds[s->kind] : s->name ? s->name : s->composite ? s->composite->name : crn_step_name(s);
  CRN_TRY(crn_str_printf(out, "%s(", name));
  CRN_TRY(print_slots(p, s->in, s->n_in, out));
  CRN_TRY(crn_str_puts(out, ")"));
  if (s->state != CRN_NO_STATE) {
    CRN_TRY(crn_str_printf(out, "  state '%s'%s", p->states[s->state].name, s->kind == CRN_STEP_UPDATE ? ", in place" : ""));
  }
  if (s->target) CRN_TRY(crn_str_printf(out, "  to %u", s->target));
  if (s->fused && (s->infer == crn_infer_fused_linear || s->infer == crn_infer_fused_lookup)) CRN_TRY(print_linear(s, out));
  return crn_str_puts(out, "\n");
}

static cairn_status print_states(const crn_plan *p, crn_str *out) {
  for (uint32_t i = 0; i < p->n_states; i++) {
    uint32_t in_place = 0, writes = 0;
    for (uint32_t k = 0; k < p->n_steps; k++) {
      const crn_step *s = &p->steps[k];
      writes += s->kind == CRN_STEP_WRITE && s->state == (int32_t)i;
      in_place += s->kind == CRN_STEP_UPDATE && s->state == (int32_t)i;
    }
    CRN_TRY(crn_str_printf(out, "state '%s': %u writes, %u of them update the changed part in place%s\n", p->states[i].name, writes, in_place,
                           in_place < writes ? "; the others copy the whole state" : ""));
  }
  return CAIRN_OK;
}

cairn_status crn_plan_print(const crn_plan *p, bool with_bodies, crn_str *out) {
  CRN_TRY(crn_str_printf(out, "function '%s': precision %s, %u steps, %lld bytes of folded constants\n", p->graph->name,
                         cairn_precision_text(p->precision), p->n_steps, (long long)p->folded_bytes));
  CRN_TRY(print_states(p, out));
  uint32_t skip_to = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (i < skip_to) continue;
    CRN_TRY(print_step(p, i, 0, out));
    if (p->steps[i].kind == CRN_STEP_COMPOSITE && p->steps[i].body_end && !with_bodies) skip_to = p->steps[i].body_end + 1;
  }
  return CAIRN_OK;
}
