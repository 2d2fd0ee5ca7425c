#include "execute/workspace.h"

#include <string.h>

#include "base/region.h"
#include "execute/replay.h"

// Size classes: 64 bytes and four steps per power of two, so that at most a quarter of a buffer is unused.
static int size_class(size_t bytes, size_t *out_rounded) {
  *out_rounded = 64;
  if (bytes <= 64) return 0;
  // The power of two below, and how many quarters of it come on top.
  int log = 63 - __builtin_clzll((unsigned long long)bytes - 1), class = 4 * (log - 6);
  if (class >= CRN_SIZE_CLASSES - 8) {
    *out_rounded = bytes;
    return CRN_SIZE_CLASSES - 1;
  }
  size_t quarter = (size_t)1 << (log - 2), n = ((bytes - 1) >> (log - 2)) - 3;
  *out_rounded = (4 + n) * quarter;
  return class + (int)n;
}

static cairn_status take(crn_workspace *w, size_t bytes, bool is_scratch, crn_buffer **out_buffer) {
  size_t rounded;
  int class = size_class(bytes, &rounded);
  crn_buffer **list = is_scratch ? &w->scratch_lists[class] : &w->free_lists[class], *b = *list;
  // The last class holds everything larger: take the first that is large enough.
  while (b && b->bytes < bytes) {
    list = &b->next;
    b = b->next;
  }
  if (b) {
    *list = b->next;
  } else {
    CRN_TRY(crn_alloc_zero(w->allocator, sizeof *b, &b));
    cairn_status status =
        rounded < CRN_HUGE_PAGE ? crn_alloc(w->allocator, rounded, &b->data) : crn_alloc_huge(w->allocator, rounded, &b->data);
    if (status != CAIRN_OK) {
      crn_free(w->allocator, b, sizeof *b);
      return status;
    }
    b->bytes = rounded;
    b->is_scratch = is_scratch;
    b->next_owned = w->owned;
    w->owned = b;
    w->n_allocations++;
  }
  b->references = 1;
  *out_buffer = b;
  return CAIRN_OK;
}

cairn_status crn_workspace_take(crn_workspace *w, size_t bytes, crn_buffer **out_buffer) { return take(w, bytes, false, out_buffer); }

static void put_free(crn_workspace *w, crn_buffer *b) {
  size_t rounded;
  int class = size_class(b->bytes, &rounded);
  crn_buffer **list = b->is_scratch ? &w->scratch_lists[class] : &w->free_lists[class];
  b->next = *list;
  *list = b;
}

// Scratch memory has buffers of its own: results keep theirs from run to run (replay.h).
static cairn_status take_scratch(crn_scratch *self, size_t bytes, void *out_pointer) {
  crn_workspace *w = (crn_workspace *)((char *)self - offsetof(crn_workspace, scratch));
  if (w->n_scratch >= CRN_MAX_SCRATCH)
    return CRN_FAIL(INTERNAL, "a kernel asked for more than %d pieces of scratch memory", CRN_MAX_SCRATCH);
  crn_buffer *b;
  CRN_TRY(take(w, bytes, true, &b));
  w->scratch_taken[w->n_scratch++] = b;
  *(void **)out_pointer = b->data;
  return CAIRN_OK;
}

void crn_workspace_end_scratch(crn_workspace *w) {
  while (w->n_scratch) crn_workspace_drop(w, w->scratch_taken[--w->n_scratch]);
}

// --- tables -------------------------------------------------------------------------------------------------------------------

static cairn_status make_room(crn_workspace *w, void **in_out, size_t *capacity, size_t bytes) {
  if (bytes <= *capacity) return CAIRN_OK;
  crn_free(w->allocator, *in_out, *capacity);
  *in_out = NULL;
  *capacity = 0;
  CRN_TRY(crn_alloc(w->allocator, bytes, in_out));
  w->n_allocations++;
  *capacity = bytes;
  return CAIRN_OK;
}

static bool is_kept(const crn_kept *k, const void *key, size_t key_bytes, size_t bytes) {
  return k->bytes == bytes && k->key_bytes == key_bytes && !memcmp(k->key, key, key_bytes);
}

static cairn_status keep(crn_keeper *self, const void *key, size_t key_bytes, size_t bytes, void *out_pointer, bool *out_is_there) {
  enum { MOST = 8 << 20 };
  crn_workspace *w = (crn_workspace *)((char *)self - offsetof(crn_workspace, keeper));
  crn_kept *oldest = &w->kept[0];
  *(void **)out_pointer = NULL;
  *out_is_there = false;
  if (!bytes || bytes > MOST || key_bytes > MOST) return CAIRN_OK;
  for (crn_kept *k = w->kept; k < w->kept + CRN_MAX_KEPT; k++) {
    *out_is_there = is_kept(k, key, key_bytes, bytes);
    if (*out_is_there || k->last_use < oldest->last_use) oldest = k;
    if (*out_is_there) break;
  }
  if (!*out_is_there) {
    oldest->bytes = 0;
    CRN_TRY(make_room(w, &oldest->key, &oldest->key_capacity, key_bytes));
    CRN_TRY(make_room(w, &oldest->data, &oldest->data_capacity, bytes));
    memcpy(oldest->key, key, key_bytes);
    oldest->key_bytes = key_bytes;
    oldest->bytes = bytes;
  }
  oldest->last_use = ++w->n_kept_uses;
  *(void **)out_pointer = oldest->data;
  return CAIRN_OK;
}

// --- from beginning to end ----------------------------------------------------------------------------------------------------

cairn_status crn_workspace_create(const crn_plan *plan, crn_workspace **out_workspace) {
  const cairn_allocator *a = &plan->context->allocator;
  crn_workspace *w;
  *out_workspace = NULL;
  CRN_TRY(crn_alloc_zero(a, sizeof *w, &w));
  w->plan = plan;
  w->allocator = a;
  w->pool = plan->context->pool;
  w->scratch.take = take_scratch;
  w->keeper.keep = keep;
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
  crn_replay_destroy(w);
  for (crn_buffer *b = w->owned; b;) {
    crn_buffer *next = b->next_owned;
    crn_free(a, b->data, b->bytes);
    crn_free(a, b, sizeof *b);
    b = next;
  }
  for (crn_kept *k = w->kept; k < w->kept + CRN_MAX_KEPT; k++) {
    crn_free(a, k->key, k->key_capacity);
    crn_free(a, k->data, k->data_capacity);
  }
  crn_free(a, w->slots, w->plan->n_slots * sizeof *w->slots);
  crn_free(a, w->states, w->plan->n_states * sizeof *w->states);
  crn_free(a, w, sizeof *w);
}

void crn_workspace_drop(crn_workspace *w, crn_buffer *b) {
  if (!b || --b->references > 0 || b->is_state) return;
  put_free(w, b);
}

void crn_workspace_find_free(crn_workspace *w) {
  memset((void *)w->free_lists, 0, sizeof w->free_lists);
  for (crn_buffer *b = w->owned; b; b = b->next_owned) {
    if (!b->references && !b->is_scratch) put_free(w, b);
  }
}

void crn_workspace_clear_slot(crn_workspace *w, uint32_t slot) {
  crn_workspace_drop(w, w->slots[slot].buffer);
  w->slots[slot].buffer = NULL;
  w->slots[slot].tensor.data = NULL;
}

void crn_workspace_reset(crn_workspace *w) {
  crn_workspace_end_scratch(w);
  if (crn_replay_reset(w)) return;
  for (uint32_t i = 0; i < w->plan->n_slots; i++) {
    if (!w->plan->is_constant[i]) crn_workspace_clear_slot(w, i);
  }
}

void crn_workspace_finish(crn_workspace *w) {
  const crn_plan *p = w->plan;
  crn_workspace_end_scratch(w);
  if (crn_replay_finish(w)) return;
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    if (!p->is_constant[p->input_slots[i]]) crn_workspace_clear_slot(w, p->input_slots[i]);
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    if (!p->is_constant[p->output_slots[i]]) crn_workspace_clear_slot(w, p->output_slots[i]);
  }
}
