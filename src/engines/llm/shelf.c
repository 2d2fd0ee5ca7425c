#include "engines/llm/shelf.h"

#include <string.h>

#include "engines/llm/internal.h"
#include "engines/llm/rows.h"

static size_t bytes_of(const crn_llm_parked *p) { return crn_llm_states_bytes(&p->states) + p->snapshots.bytes; }

size_t crn_llm_shelf_bytes(const crn_llm_shelf *shelf) {
  size_t bytes = 0;
  for (size_t i = 0; i < shelf->items.size; i++) bytes += bytes_of(&shelf->items.items[i]);
  return bytes;
}

static void release(crn_llm_parked *p, const cairn_allocator *a) {
  crn_llm_states_deinitialize(&p->states);
  crn_history_deinitialize(&p->history);
  crn_llm_snapshots_free(&p->snapshots, a);
}

static void remove_at(crn_llm_shelf *shelf, const cairn_allocator *a, size_t i) {
  release(&shelf->items.items[i], a);
  shelf->items.items[i] = shelf->items.items[--shelf->items.size];
}

void crn_llm_shelf_free(crn_llm_shelf *shelf, const cairn_allocator *allocator) {
  while (shelf->items.size) remove_at(shelf, allocator, shelf->items.size - 1);
  crn_vec_free(allocator, &shelf->items);
}

// --- putting ------------------------------------------------------------------------------------------------------------

static void make_room(crn_llm_shelf *shelf, const cairn_allocator *a, size_t bytes) {
  while (shelf->items.size && crn_llm_shelf_bytes(shelf) + bytes > shelf->most_bytes) {
    size_t oldest = 0;
    for (size_t i = 1; i < shelf->items.size; i++) {
      if (shelf->items.items[i].used < shelf->items.items[oldest].used) oldest = i;
    }
    remove_at(shelf, a, oldest);
  }
}

// Whether one there is begins with these tokens; those that are the beginning of them are dropped.
static bool is_known(crn_llm_shelf *shelf, const cairn_allocator *a, const int32_t *tokens, int64_t n) {
  for (size_t i = shelf->items.size; i-- > 0;) {
    crn_llm_parked *p = &shelf->items.items[i];
    const int64_t common = crn_history_common_prefix(&p->history, tokens, n);
    if (common == n) {
      p->used = ++shelf->clock;
      return true;
    }
    if (common == p->history.n) remove_at(shelf, a, i);
  }
  return false;
}

// Takes the entry over when there is room for it.
static bool put(crn_llm_model *m, crn_llm_parked *p) {
  crn_llm_shelf *shelf = &m->shelf;
  const cairn_allocator *a = &m->context->allocator;
  const size_t bytes = bytes_of(p);
  bool is_put = false;
  pthread_mutex_lock(&m->lock);
  if (bytes <= shelf->most_bytes && !is_known(shelf, a, p->history.tokens, p->history.n)) {
    make_room(shelf, a, bytes);
    p->used = ++shelf->clock;
    is_put = crn_vec_push(a, &shelf->items, *p) == CAIRN_OK;
  }
  pthread_mutex_unlock(&m->lock);
  return is_put;
}

static bool can_be_parked(const cairn_llm *llm) {
  return llm->model->shelf.most_bytes > 0 && llm->history.n > 0 && !llm->is_dirty && !crn_llm_rows_were_dropped(&llm->states);
}

cairn_status crn_llm_shelf_put_copy(cairn_llm *llm, int64_t n) {
  const cairn_allocator *a = &llm->context->allocator;
  crn_llm_parked p = {.used = 0};
  if (!can_be_parked(llm) || n < 1) return CAIRN_OK;
  crn_history_initialize(&p.history, a);
  CRN_TRY(crn_llm_states_fork(&llm->states, n, &p.states));
  cairn_status status = crn_history_append(&p.history, llm->history.tokens, n);
  if (status == CAIRN_OK) status = crn_llm_snapshots_share(&llm->snapshots, a, n, &p.snapshots);
  if (status != CAIRN_OK || !put(llm->model, &p)) release(&p, a);
  return status;
}

void crn_llm_shelf_put_over(cairn_llm *llm) {
  if (!can_be_parked(llm)) return;
  crn_llm_take_snapshot(llm);
  crn_llm_parked p = {.states = llm->states, .history = llm->history, .snapshots = llm->snapshots};
  if (!put(llm->model, &p)) return;
  memset(llm->states.arrays, 0, sizeof llm->states.arrays);
  crn_history_initialize(&llm->history, &llm->context->allocator);
  llm->snapshots = (crn_llm_snapshots){0};
}

// --- taking -------------------------------------------------------------------------------------------------------------

// How many of the first tokens an entry gives: all in common, or, of states without rows, those of a snapshot.
static int64_t usable(const cairn_llm *llm, const crn_llm_parked *p, const int32_t *tokens, int64_t n) {
  const int64_t common = crn_history_common_prefix(&p->history, tokens, n - 1);
  if (!crn_llm_has_whole_states(&llm->model->contract)) return common;
  const crn_llm_snapshot *s = crn_llm_snapshots_find(&p->snapshots, common);
  return s ? s->n : 0;
}

// Rows behind those that are held may be written without harm until the history says that they count.
static cairn_status take_over(cairn_llm *llm, const crn_llm_parked *p, const int32_t *tokens, int64_t kept, int64_t n) {
  CRN_TRY(crn_llm_states_extend(&llm->states, n, kept));
  CRN_TRY(crn_history_reserve(&llm->history, llm->states.capacity));
  CRN_TRY(crn_llm_rows_pass(&p->states, kept, n, &llm->states));
  if (crn_llm_has_whole_states(&llm->model->contract)) {
    crn_llm_snapshots shared;
    CRN_TRY(crn_llm_snapshots_share(&p->snapshots, &llm->context->allocator, n, &shared));
    cairn_status status = crn_llm_snapshot_restore(crn_llm_snapshots_find(&shared, n), &llm->states);
    crn_llm_snapshots_free(&llm->snapshots, &llm->context->allocator);
    llm->snapshots = shared;
    if (status != CAIRN_OK) llm->is_dirty = true;
    CRN_TRY(status);
  }
  return crn_history_append(&llm->history, tokens + kept, n - kept);
}

cairn_status crn_llm_shelf_take(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t kept, int64_t *out_kept) {
  crn_llm_model *m = llm->model;
  crn_llm_parked *best = NULL;
  cairn_status status = CAIRN_OK;
  int64_t most = kept;
  *out_kept = kept;
  if (!m->shelf.most_bytes || llm->is_dirty) return CAIRN_OK;
  pthread_mutex_lock(&m->lock);
  for (size_t i = 0; i < m->shelf.items.size; i++) {
    const int64_t k = usable(llm, &m->shelf.items.items[i], tokens, n);
    if (k <= most) continue;
    most = k;
    best = &m->shelf.items.items[i];
  }
  if (best) {
    best->used = ++m->shelf.clock;
    status = take_over(llm, best, tokens, kept, most);
    if (status == CAIRN_OK) *out_kept = most;
  }
  pthread_mutex_unlock(&m->lock);
  return status;
}
