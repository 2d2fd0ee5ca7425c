// After which step each slot can be emptied.
#include "specialize/plan.h"

// A body is a stretch of steps that may be left out or repeated: of a composite, an if or a loop. Around each step the
// innermost one (index of the step that opens it, or NO_BODY), and for the opening steps the next outer one.
enum { NO_BODY = UINT32_MAX };

static void find_bodies(const crn_plan *p, uint32_t *around, uint32_t *outer) {
  uint32_t open = NO_BODY;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    if (s->body_end) {
      outer[i] = open;
      open = i;
    }
    around[i] = open;
    while (open != NO_BODY && p->steps[open].body_end == i) open = outer[open];
  }
}

// A slot made outside of a body (a composite's own results included) but used last inside must live to the body's end,
// whichever way the walk takes: to the end of the outermost body that it came into from outside.
static uint32_t release_point(const crn_plan *p, uint32_t defined, uint32_t last, const uint32_t *around, const uint32_t *outer) {
  uint32_t point = last;
  for (uint32_t c = around[last]; c != NO_BODY; c = outer[c]) {
    if (defined <= c) point = p->steps[c].body_end;
  }
  return point;
}

cairn_status crn_plan_set_lifetimes(crn_plan *p) {
  const cairn_allocator *a = &p->context->allocator;
  uint32_t *scratch, n = p->n_steps, m = p->n_slots;
  CRN_TRY(crn_alloc_array(a, (size_t)2 * n + (size_t)3 * m + 1, sizeof *scratch, &scratch));
  uint32_t *around = scratch, *outer = around + n, *defined = outer + n, *last = defined + m, *used = last + m;
  find_bodies(p, around, outer);
  for (uint32_t i = 0; i < n; i++) {
    const crn_step *s = &p->steps[i];
    for (uint32_t k = 0; k < s->n_out; k++) {
      if (!used[s->out[k]]) defined[s->out[k]] = i;
      last[s->out[k]] = i;
      used[s->out[k]] = 1;
    }
    for (uint32_t k = 0; k < s->n_in; k++) {
      last[s->in[k]] = i;
      used[s->in[k]] = 1;
    }
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) used[p->output_slots[i]] = 2;
  for (uint32_t i = 0; i < n; i++) p->steps[i].n_release = 0;
  for (uint32_t i = 0; i < m; i++) {
    if (used[i] == 1 && !p->is_constant[i]) p->steps[release_point(p, defined[i], last[i], around, outer)].n_release++;
  }
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < n && status == CAIRN_OK; i++) {
    status = crn_arena_array(&p->arena, p->steps[i].n_release, sizeof(uint32_t), &p->steps[i].release);
    p->steps[i].n_release = 0;
  }
  for (uint32_t i = 0; i < m && status == CAIRN_OK; i++) {
    if (used[i] != 1 || p->is_constant[i]) continue;
    crn_step *s = &p->steps[release_point(p, defined[i], last[i], around, outer)];
    s->release[s->n_release++] = i;
  }
  crn_free(a, scratch, ((size_t)2 * n + (size_t)3 * m + 1) * sizeof *scratch);
  return status;
}
