// Products learn whose weights are read next, so that they can be asked for while nobody reads any.
#include "backend/cpu/fused/gather.h"
#include "backend/cpu/fused/linear.h"
#include "specialize/passes.h"

void crn_pass_weights_ahead(crn_plan *p) {
  const crn_linear_weights *first = NULL, **next = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    // Bodies of composites are seldom run.
    if (s->kind == CRN_STEP_COMPOSITE && s->body_end) i = s->body_end;
    if (s->fused && s->infer == crn_infer_fused_linear) {
      crn_fused_linear *f = (crn_fused_linear *)s->fused;
      if (next) *next = &f->weights;
      if (!first) first = &f->weights;
      next = &f->next;
      n++;
    } else if (s->fused && s->infer == crn_infer_fused_gather) {
      // Which experts are read nobody knows in front of the step.
      next = &((crn_fused_gather *)s->fused)->next;
      n++;
    }
  }
  // A model that decodes begins again.
  if (first && n > 1) *next = first;
}
