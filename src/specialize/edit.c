#include "specialize/edit.h"

#include <string.h>

// --- the index --------------------------------------------------------------------------------------------------------------

static void mark_inner(const crn_plan *p, bool *is_inner) {
  uint32_t end = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    is_inner[i] = i < end;
    if (p->steps[i].body_end > end) end = p->steps[i].body_end;
  }
}

// A composite's result is made by its direct step; the alias at the end of its body makes the same value.
static void find_makers(const crn_plan *p, crn_plan_index *x) {
  for (uint32_t i = 0; i < p->n_slots; i++) x->made_by[i] = CRN_NO_STEP;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    for (uint32_t k = 0; k < s->n_out && !x->is_inner[i]; k++) x->made_by[s->out[k]] = i;
  }
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    for (uint32_t k = 0; k < s->n_out; k++) {
      uint32_t maker = x->made_by[s->out[k]];
      bool is_own_body = maker != CRN_NO_STEP && p->steps[maker].kind == CRN_STEP_COMPOSITE && i > maker && i <= p->steps[maker].body_end;
      if (maker != i && !is_own_body) x->made_by[s->out[k]] = CRN_NO_STEP;
    }
  }
}

static void count_uses(const crn_plan *p, uint32_t *n_uses) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    for (uint32_t k = 0; k < p->steps[i].n_in; k++) n_uses[p->steps[i].in[k]]++;
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) n_uses[p->output_slots[i]]++;
}

cairn_status crn_plan_index_create(const crn_plan *p, crn_plan_index *out) {
  *out = (crn_plan_index){.allocator = &p->context->allocator, .n_slots = p->n_slots, .n_steps = p->n_steps};
  cairn_status status = crn_alloc_array(out->allocator, p->n_slots, sizeof *out->made_by, &out->made_by);
  if (status == CAIRN_OK) status = crn_alloc_array(out->allocator, p->n_slots, sizeof *out->n_uses, &out->n_uses);
  if (status == CAIRN_OK) status = crn_alloc_array(out->allocator, p->n_steps, sizeof *out->is_inner, &out->is_inner);
  if (status != CAIRN_OK) {
    crn_plan_index_destroy(out);
    return status;
  }
  mark_inner(p, out->is_inner);
  find_makers(p, out);
  count_uses(p, out->n_uses);
  return CAIRN_OK;
}

void crn_plan_index_destroy(crn_plan_index *x) {
  if (!x->allocator) return;
  crn_free(x->allocator, x->made_by, x->n_slots * sizeof *x->made_by);
  crn_free(x->allocator, x->n_uses, x->n_slots * sizeof *x->n_uses);
  crn_free(x->allocator, x->is_inner, x->n_steps * sizeof *x->is_inner);
  *x = (crn_plan_index){0};
}

// --- dropping steps ---------------------------------------------------------------------------------------------------------

cairn_status crn_plan_drop(crn_plan *p, const bool *is_dropped) {
  const cairn_allocator *a = &p->context->allocator;
  uint32_t *moved, n_before = p->n_steps, n = 0;
  CRN_TRY(crn_alloc_array(a, (size_t)n_before + 1, sizeof *moved, &moved));
  for (uint32_t i = 0; i < n_before; i++) {
    moved[i] = n;
    if (is_dropped[i]) continue;
    if (n != i) memcpy((void *)&p->steps[n], (const void *)&p->steps[i], sizeof *p->steps);
    n++;
  }
  moved[n_before] = n;
  for (uint32_t i = 0; i < n; i++) {
    if (p->steps[i].body_end) p->steps[i].body_end = moved[p->steps[i].body_end];
    if (p->steps[i].target) p->steps[i].target = moved[p->steps[i].target];
  }
  p->n_steps = n;
  crn_free(a, moved, ((size_t)n_before + 1) * sizeof *moved);
  return CAIRN_OK;
}

static bool may_drop(const crn_step *s) {
  if (s->kind == CRN_STEP_READ || s->kind == CRN_STEP_ALIAS) return true;
  if (s->kind != CRN_STEP_KERNEL && s->kind != CRN_STEP_UPDATE && s->kind != CRN_STEP_COMPOSITE) return false;
  return s->fused || s->composite || crn_op_info_of(s->id)->traits & CRN_PURE;
}

static void mark_unused(const crn_plan *p, crn_plan_index *x, bool *is_dropped) {
  for (uint32_t i = p->n_steps; i-- > 0;) {
    const crn_step *s = &p->steps[i];
    if (x->is_inner[i] || !may_drop(s)) continue;
    bool used = false;
    for (uint32_t k = 0; k < s->n_out; k++) used |= x->n_uses[s->out[k]] > 0;
    if (used) continue;
    for (uint32_t k = i; k <= (s->body_end ? s->body_end : i); k++) {
      is_dropped[k] = true;
      for (uint32_t j = 0; j < p->steps[k].n_in; j++) x->n_uses[p->steps[k].in[j]]--;
    }
  }
}

cairn_status crn_plan_drop_unused(crn_plan *p) {
  crn_plan_index x;
  bool *is_dropped;
  uint32_t n = p->n_steps;
  CRN_TRY(crn_plan_index_create(p, &x));
  cairn_status status = crn_alloc_array(&p->context->allocator, n, sizeof *is_dropped, &is_dropped);
  if (status == CAIRN_OK) {
    mark_unused(p, &x, is_dropped);
    status = crn_plan_drop(p, is_dropped);
    crn_free(&p->context->allocator, is_dropped, n * sizeof *is_dropped);
  }
  crn_plan_index_destroy(&x);
  return status;
}
