// Which updates may happen in place: those of the pattern read -> update -> ... -> update -> write of one state.
#include "specialize/lower.h"

static bool touches(const crn_step *s, int32_t state) {
  return (s->kind == CRN_STEP_READ || s->kind == CRN_STEP_WRITE) && s->state == state;
}

// The step that makes what `user` has for its first operand, among those before it.
static crn_step *maker_before(const crn_plan *p, const crn_step *user) {
  for (const crn_step *s = user; s-- > p->steps;) {
    for (uint32_t k = 0; k < s->n_out; k++) {
      if (s->out[k] == user->in[0]) return p->steps + (s - p->steps);
    }
  }
  return NULL;
}

static bool is_control(const crn_step *s) {
  return s->kind == CRN_STEP_IF || s->kind == CRN_STEP_LOOP || s->kind == CRN_STEP_TEST || s->kind == CRN_STEP_JUMP;
}

// Between `read` and `write` the state must be left alone, and every step must come to be run. Who reads it again in front of the first
// update sees what `read` gave.
static bool is_undisturbed(const crn_step *read, const crn_step *first, const crn_step *write) {
  for (const crn_step *s = read + 1; s < write; s++) {
    const bool is_read_before = s < first && s->kind == CRN_STEP_READ;
    if (is_control(s) || (touches(s, read->state) && !is_read_before)) return false;
  }
  return true;
}

// The value read goes from update to update until it is written. What it is on the way may be looked at, and so may what is written:
// whether somebody still does when the memory is changed again is known when that step runs, and then it is copied.
static void take_chain(const crn_plan *p, const crn_step *write) {
  const crn_step *s = maker_before(p, write), *first = write;
  for (; s && s->kind == CRN_STEP_UPDATE; s = maker_before(p, s)) first = s;
  if (!s || s->kind != CRN_STEP_READ || s->state != write->state || !is_undisturbed(s, first, write)) return;
  for (crn_step *u = maker_before(p, write); u->kind == CRN_STEP_UPDATE; u = maker_before(p, u)) u->state = write->state;
}

void crn_plan_find_updates(crn_plan *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].kind == CRN_STEP_UPDATE) p->steps[i].state = CRN_NO_STATE;
  }
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].kind == CRN_STEP_WRITE) take_chain(p, &p->steps[i]);
  }
}
