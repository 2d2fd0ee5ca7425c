// gather_nd of a single place, as exporters pick a layer of a cache with it, is a view of its operand.
#include "specialize/match.h"
#include "specialize/passes.h"

void crn_pass_picks(crn_plan *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_step *s = &p->steps[i];
    if (!crn_step_is(s, CRN_OP_gather_nd) || s->n_in != 2 || s->view) continue;
    const crn_type *index = p->slot_types[s->in[1]];
    bool is_single = index->rank >= 1;
    for (int d = 0; d < index->rank - 1; d++) is_single = is_single && index->dims[d] == 1;
    if (is_single) s->view = crn_view_picked;
  }
}
