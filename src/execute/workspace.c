#include "execute/workspace.h"

#include <string.h>

// Size classes: 64 bytes and four steps per power of two, so that at most a quarter of a buffer is unused.
static int size_class(size_t bytes, size_t *out_rounded) {
  size_t base = 64;
  int class = 0;
  while (base * 2 < bytes && class < CRN_SIZE_CLASSES - 8) {
    base *= 2;
    class += 4;
  }
  for (int quarter = 0; quarter <= 4; quarter++) {
    size_t size = base + base / 4 * (size_t)quarter;
    if (size >= bytes) {
      *out_rounded = size;
      return class + quarter;
    }
  }
  *out_rounded = bytes;
  return CRN_SIZE_CLASSES - 1;
}

static cairn_status take_scratch(crn_scratch *self, size_t bytes, void *out_pointer) {
  crn_workspace *w = (crn_workspace *)((char *)self - offsetof(crn_workspace, scratch));
  if (w->n_scratch >= CRN_MAX_SCRATCH)
    return CRN_FAIL(INTERNAL, "a kernel asked for more than %d pieces of scratch memory", CRN_MAX_SCRATCH);
  crn_buffer *b;
  CRN_TRY(crn_workspace_take(w, bytes, &b));
  w->scratch_taken[w->n_scratch++] = b;
  *(void **)out_pointer = b->data;
  return CAIRN_OK;
}

void crn_workspace_end_scratch(crn_workspace *w) {
  while (w->n_scratch) crn_workspace_drop(w, w->scratch_taken[--w->n_scratch]);
}

cairn_status crn_workspace_create(const crn_plan *plan, crn_workspace **out_workspace) {
  const cairn_allocator *a = &plan->context->allocator;
  crn_workspace *w;
  *out_workspace = NULL;
  CRN_TRY(crn_alloc_zero(a, sizeof *w, &w));
  w->plan = plan;
  w->allocator = a;
  w->scratch.take = take_scratch;
  cairn_status status = crn_alloc_array(a, plan->n_slots, sizeof *w->slots, &w->slots);
  if (status == CAIRN_OK) status = crn_alloc_array(a, plan->n_states, sizeof *w->states, &w->states);
  if (status != CAIRN_OK) {
    crn_workspace_destroy(w);
    return status;
  }
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    if (plan->is_constant[i]) w->slots[i].tensor = plan->constants[i].tensor;
  }
  *out_workspace = w;
  return CAIRN_OK;
}

void crn_workspace_destroy(crn_workspace *w) {
  if (!w) return;
  const cairn_allocator *a = w->allocator;
  for (crn_buffer *b = w->owned; b;) {
    crn_buffer *next = b->next_owned;
    crn_free(a, b->data, b->bytes);
    crn_free(a, b, sizeof *b);
    b = next;
  }
  crn_free(a, w->slots, w->plan->n_slots * sizeof *w->slots);
  crn_free(a, w->states, w->plan->n_states * sizeof *w->states);
  crn_free(a, w, sizeof *w);
}

cairn_status crn_workspace_take(crn_workspace *w, size_t bytes, crn_buffer **out_buffer) {
  size_t rounded;
  int class = size_class(bytes, &rounded);
  crn_buffer **list = &w->free_lists[class], *b = *list;
  // The last class holds everything larger: take the first that is large enough.
  while (b && b->bytes < bytes) {
    list = &b->next;
    b = b->next;
  }
  if (b) {
    *list = b->next;
  } else {
    CRN_TRY(crn_alloc_zero(w->allocator, sizeof *b, &b));
    cairn_status status = crn_alloc(w->allocator, rounded, &b->data);
    if (status != CAIRN_OK) {
      crn_free(w->allocator, b, sizeof *b);
      return status;
    }
    b->bytes = rounded;
    b->next_owned = w->owned;
    w->owned = b;
    w->n_allocations++;
  }
  b->references = 1;
  *out_buffer = b;
  return CAIRN_OK;
}

void crn_workspace_drop(crn_workspace *w, crn_buffer *b) {
  if (!b || --b->references > 0 || b->is_state) return;
  size_t rounded;
  int class = size_class(b->bytes, &rounded);
  b->next = w->free_lists[class];
  w->free_lists[class] = b;
}

void crn_workspace_clear_slot(crn_workspace *w, uint32_t slot) {
  crn_workspace_drop(w, w->slots[slot].buffer);
  w->slots[slot].buffer = NULL;
  w->slots[slot].tensor.data = NULL;
}

void crn_workspace_reset(crn_workspace *w) {
  for (uint32_t i = 0; i < w->plan->n_slots; i++) {
    if (!w->plan->is_constant[i]) crn_workspace_clear_slot(w, i);
  }
  crn_workspace_end_scratch(w);
}

void crn_workspace_finish(crn_workspace *w) {
  const crn_plan *p = w->plan;
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    if (!p->is_constant[p->input_slots[i]]) crn_workspace_clear_slot(w, p->input_slots[i]);
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    if (!p->is_constant[p->output_slots[i]]) crn_workspace_clear_slot(w, p->output_slots[i]);
  }
  crn_workspace_end_scratch(w);
}
