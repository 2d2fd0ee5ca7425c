#include "specialize/passes.h"

#include "specialize/lower.h"

// Below so many quantised weights a function runs as fast as memory allows anyway: nothing is gained by rounding.
static const int64_t few_weights = (int64_t)16 << 20;

static int64_t count_quantized(const crn_plan *p) {
  int64_t n = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    if (s->kind != CRN_STEP_KERNEL || s->n_in == 0 || !p->is_constant[s->in[0]]) continue;
    if (s->id == CRN_OP_blockwise_shift_scale) n += crn_tensor_count(&p->constants[s->in[0]].tensor);
    if (s->id == CRN_OP_unpack_blocks || (s->id == CRN_OP_lut_to_dense && s->is_kept)) {
      const crn_type *t = p->slot_types[s->out[0]];
      int64_t count = 1;
      for (int d = 0; d < t->rank; d++) count *= t->dims[d] < 0 ? 1 : t->dims[d];
      n += count;
    }
  }
  return n;
}

void crn_resolve_precision(crn_plan *p, crn_specialization *s) {
  if (s->precision == CAIRN_PRECISION_AUTO) s->precision = count_quantized(p) >= few_weights ? CAIRN_PRECISION_INT8 : CAIRN_PRECISION_EXACT;
  if (s->precision == CAIRN_PRECISION_DEFAULT) s->precision = CAIRN_PRECISION_EXACT;
  p->precision = s->precision;
}

bool crn_plan_is_heavy(const crn_plan *p) {
  static const int64_t many = (int64_t)4 << 20;
  int64_t n = 0;
  for (uint32_t i = 0; i < p->n_slots && n < many; i++) {
    if (p->is_constant[i]) n += crn_tensor_count(&p->constants[i].tensor);
  }
  return n >= many;
}

cairn_status crn_specialize_plan(crn_plan *p, const crn_specialization *options) {
  CRN_TRY(crn_pass_share_steps(p));
  CRN_TRY(crn_pass_identities(p));
  CRN_TRY(crn_pass_norms(p));
  CRN_TRY(crn_pass_layer_writes(p));
  CRN_TRY(crn_pass_state_writes(p));
  CRN_TRY(crn_pass_attention(p));
  CRN_TRY(crn_pass_head_attention(p));
  crn_pass_picks(p);
  CRN_TRY(crn_pass_experts(p, options));
  CRN_TRY(crn_pass_linear(p, options));
  CRN_TRY(crn_pass_convolutions(p, options));
  CRN_TRY(crn_plan_drop_unused(p));
  CRN_TRY(crn_pass_prologues(p));
  CRN_TRY(crn_pass_epilogues(p));
  CRN_TRY(crn_pass_view_chains(p));
  CRN_TRY(crn_pass_looks(p));
  crn_plan_find_updates(p);
  CRN_TRY(crn_pass_last_rows(p));
  crn_pass_weights_ahead(p);
  return CAIRN_OK;
}

cairn_status crn_specialize_folded(crn_plan *p, const crn_specialization *options) {
  CRN_TRY(crn_pass_convolutions(p, options));
  return crn_pass_layouts(p);
}
