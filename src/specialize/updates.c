// Which slice_updates may happen in place: those of the pattern read -> slice_update -> write of one state.
#include "specialize/lower.h"

static uint32_t count_uses(const crn_plan *p, uint32_t slot, const crn_step **out_last) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    for (uint32_t k = 0; k < p->steps[i].n_in; k++) {
      if (p->steps[i].in[k] == slot) {
        n++;
        *out_last = &p->steps[i];
      }
    }
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) n += p->output_slots[i] == slot;
  return n;
}

static bool touches(const crn_step *s, int32_t state) {
  return (s->kind == CRN_STEP_READ || s->kind == CRN_STEP_WRITE) && s->state == state;
}

// The step that read the value, among those before `update`; NULL when the value is no state's.
static const crn_step *find_read(const crn_plan *p, const crn_step *update) {
  for (const crn_step *s = update; s-- > p->steps;) {
    if (s->kind == CRN_STEP_READ && s->out[0] == update->in[0]) return s;
  }
  return NULL;
}

// The last step of the pattern read -> slice_update -> write, or NULL: the value updated must be the newest one of the
// state, nothing may read or write the state in between, no control flow may lie between, and the updated value may have no
// other use.
static const crn_step *matching_write(const crn_plan *p, const crn_step *update) {
  const crn_step *read = find_read(p, update), *write = NULL;
  if (!read || count_uses(p, update->out[0], &write) != 1 || write->kind != CRN_STEP_WRITE || write->state != read->state) return NULL;
  for (const crn_step *s = read + 1; s < write; s++) {
    bool is_write_before = s < update && s->kind == CRN_STEP_WRITE && s->state == read->state;
    bool is_control = s->kind == CRN_STEP_IF || s->kind == CRN_STEP_LOOP || s->kind == CRN_STEP_TEST || s->kind == CRN_STEP_JUMP;
    if (is_control || is_write_before || (s > update && touches(s, read->state))) return NULL;
  }
  return write;
}

void crn_plan_find_updates(crn_plan *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].kind != CRN_STEP_UPDATE) continue;
    const crn_step *write = matching_write(p, &p->steps[i]);
    if (write) p->steps[i].state = write->state;
  }
}
