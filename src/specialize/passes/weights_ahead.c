// Products learn whose weights are read next, so that they can be asked for while nobody reads any.
#include "backend/cpu/fused/linear.h"
#include "specialize/passes.h"

void crn_pass_weights_ahead(crn_plan *p) {
  crn_fused_linear *first = NULL, *last = NULL;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    // Bodies of composites are seldom run.
    if (s->kind == CRN_STEP_COMPOSITE && s->body_end) i = s->body_end;
    if (!s->fused || s->infer != crn_infer_fused_linear) continue;
    crn_fused_linear *f = (crn_fused_linear *)s->fused;
    if (last) last->next = &f->weights;
    if (!first) first = f;
    last = f;
  }
  // A model that decodes begins again.
  if (last && last != first) last->next = &first->weights;
}
