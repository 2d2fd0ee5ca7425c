// What the steps behind a product touch is asked for in one go. The weights of the product have passed through the caches, and pushed out
// of them what the last run left there: records, operands, attributes. Each step would wait for its own, line by line; together they come
// in the time of a few.
#include <stddef.h>

#include "execute/replay.h"

// The test of this file puts its own in place, to see what is asked for.
#ifndef CRN_ASK_FOR
#define CRN_ASK_FOR(at) __builtin_prefetch((at), 1, 3)
#endif

enum { LINE = 64, MOST_STEPS = 16, USUAL_RANK = 4 };

static inline void ask(const void *data, size_t bytes) {
  const char *at = (const char *)((uintptr_t)data & ~(uintptr_t)(LINE - 1)), *end = (const char *)data + bytes;
  for (; at < end; at += LINE) CRN_ASK_FOR(at);
}

// Few tensors have more dims: those wait for the rest of theirs.
static inline void ask_for_tensor(const crn_tensor *t) {
  ask(t, offsetof(crn_tensor, dims) + USUAL_RANK * sizeof *t->dims);
  ask(t->strides, USUAL_RANK * sizeof *t->strides);
}

// Attributes are looked up by their names.
static void ask_for_names(const crn_composite_decl *d) {
  if (d->attrs && d->attrs->kind == CRN_ATTR_DICT) {
    for (uint32_t i = 0; i < d->attrs->list.n; i++) CRN_ASK_FOR(d->attrs->list.items[i].key);
  }
  for (uint32_t i = 0; i < d->n_inputs; i++) CRN_ASK_FOR(d->input_names[i]);
}

static void ask_for_slots(const crn_workspace *w, const uint32_t *slots, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    ask_for_tensor(&w->slots[slots[i]].tensor);
    CRN_ASK_FOR(&w->slots[slots[i]].buffer);
  }
}

void crn_replay_ask(const crn_workspace *w, uint32_t from) {
  const crn_replay *r = w->replay;
  const crn_plan *p = w->plan;
  uint32_t steps[MOST_STEPS];
  int n = 0;
  for (uint32_t i = r->next_active[from]; i < p->n_steps && n < MOST_STEPS; i = r->next_active[i + 1]) {
    ask(&p->steps[i], sizeof *p->steps);
    ask(&r->steps[i], sizeof *r->steps);
    steps[n++] = i;
  }
  for (int i = 0; i < n; i++) {
    const crn_step *s = &p->steps[steps[i]];
    const crn_step_memo *m = &r->steps[steps[i]];
    for (uint32_t k = 0; k < s->n_in + s->n_out; k++) ask_for_tensor(m->operands + k);
    if (s->composite) CRN_ASK_FOR(s->composite);
    if (s->composite && s->composite->attrs) ask(s->composite->attrs, sizeof *s->composite->attrs);
    if (s->fused) ask(s->fused, 2 * LINE);
    if (m->is_streaming) break;
  }
  for (int i = 0; i < n; i++) {
    const crn_step *s = &p->steps[steps[i]];
    if (s->composite) ask_for_names(s->composite);
    if (!r->steps[steps[i]].is_settled) {
      ask_for_slots(w, s->in, s->n_in);
      ask_for_slots(w, s->out, s->n_out);
    }
    if (r->steps[steps[i]].is_streaming) break;
  }
}
