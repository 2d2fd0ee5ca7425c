#include "engines/llm/snapshots.h"

#include <string.h>

#include "base/context.h"
#include "base/status.h"

bool crn_llm_state_is_whole(const crn_llm_state *state) {
  return state->kind == CAIRN_STATE_FIXED || (state->kind == CAIRN_STATE_SLIDING_CACHE && !state->is_dynamic);
}

bool crn_llm_has_whole_states(const crn_llm_contract *contract) {
  for (int i = 0; i < contract->n_states; i++) {
    if (crn_llm_state_is_whole(&contract->states[i])) return true;
  }
  return false;
}

// --- one --------------------------------------------------------------------------------------------------------------

static void release(crn_llm_snapshot *s) {
  for (int i = 0; i < CRN_LLM_MAX_STATES; i++) cairn_ndarray_release(s->arrays[i]);
  *s = (crn_llm_snapshot){0};
}

static cairn_status copy_state(const crn_llm_states *states, int i, crn_llm_snapshot *out) {
  const cairn_ndarray *from = states->arrays[i].array;
  CRN_TRY(cairn_ndarray_create(states->context, cairn_ndarray_dtype(from), cairn_ndarray_shape(from), cairn_ndarray_rank(from),
                               &out->arrays[i]));
  out->bytes += (size_t)cairn_ndarray_count(from) * cairn_dtype_bytes(cairn_ndarray_dtype(from));
  return cairn_ndarray_copy(from, out->arrays[i]);
}

static cairn_status create(const crn_llm_states *states, int64_t n, crn_llm_snapshot *out) {
  const crn_llm_contract *c = states->contract;
  *out = (crn_llm_snapshot){.n = n};
  for (int i = 0; i < c->n_states; i++) {
    if (!crn_llm_state_is_whole(&c->states[i])) continue;
    cairn_status status = copy_state(states, i, out);
    if (status != CAIRN_OK) {
      release(out);
      return crn_note(status, "a snapshot at token %lld", (long long)n);
    }
  }
  return CAIRN_OK;
}

cairn_status crn_llm_snapshot_restore(const crn_llm_snapshot *snapshot, crn_llm_states *states) {
  for (int i = 0; i < states->contract->n_states && i < CRN_LLM_MAX_STATES; i++) {
    if (snapshot->arrays[i]) CRN_TRY(cairn_ndarray_copy(snapshot->arrays[i], states->arrays[i].array));
  }
  return CAIRN_OK;
}

// --- all --------------------------------------------------------------------------------------------------------------

static void remove_at(crn_llm_snapshots *s, size_t i) {
  s->bytes -= s->items.items[i].bytes;
  release(&s->items.items[i]);
  crn_vec_remove(&s->items, i);
}

// Of all but the newest: the one whose loss makes the smallest gap.
static size_t least_missed(const crn_llm_snapshots *s) {
  const crn_llm_snapshot *items = s->items.items;
  size_t best = 0;
  int64_t best_gap = INT64_MAX;
  for (size_t i = 0; i + 1 < s->items.size; i++) {
    const int64_t gap = items[i + 1].n - (i ? items[i - 1].n : 0);
    if (gap < best_gap) {
      best = i;
      best_gap = gap;
    }
  }
  return best;
}

cairn_status crn_llm_snapshots_take(crn_llm_snapshots *s, const crn_llm_states *states, int64_t n, const crn_llm_snapshot_bounds *bounds) {
  const size_t size = s->items.size;
  crn_llm_snapshot fresh;
  if (!bounds->most || n < 1 || !crn_llm_has_whole_states(states->contract)) return CAIRN_OK;
  if (size && s->items.items[size - 1].n >= n) return CAIRN_OK;
  CRN_TRY(create(states, n, &fresh));
  if (fresh.bytes > bounds->most_bytes) {
    release(&fresh);
    return CAIRN_OK;
  }
  cairn_status status = crn_vec_push(&states->context->allocator, &s->items, fresh);
  if (status != CAIRN_OK) {
    release(&fresh);
    return status;
  }
  s->bytes += fresh.bytes;
  while (s->items.size > bounds->most || s->bytes > bounds->most_bytes) remove_at(s, least_missed(s));
  return CAIRN_OK;
}

const crn_llm_snapshot *crn_llm_snapshots_find(const crn_llm_snapshots *s, int64_t n) {
  for (size_t i = s->items.size; i-- > 0;) {
    if (s->items.items[i].n <= n) return &s->items.items[i];
  }
  return NULL;
}

void crn_llm_snapshots_cut(crn_llm_snapshots *s, int64_t n) {
  while (s->items.size && s->items.items[s->items.size - 1].n > n) remove_at(s, s->items.size - 1);
}

cairn_status crn_llm_snapshots_share(const crn_llm_snapshots *from, const cairn_allocator *allocator, int64_t n, crn_llm_snapshots *to) {
  *to = (crn_llm_snapshots){0};
  CRN_TRY(crn_vec_reserve(allocator, &to->items, from->items.size));
  for (size_t i = 0; i < from->items.size && from->items.items[i].n <= n; i++) {
    const crn_llm_snapshot *s = &from->items.items[i];
    for (int k = 0; k < CRN_LLM_MAX_STATES; k++) {
      if (s->arrays[k]) cairn_ndarray_retain(s->arrays[k]);
    }
    to->items.items[to->items.size++] = *s;
    to->bytes += s->bytes;
  }
  return CAIRN_OK;
}

void crn_llm_snapshots_free(crn_llm_snapshots *s, const cairn_allocator *allocator) {
  crn_llm_snapshots_cut(s, -1);
  crn_vec_free(allocator, &s->items);
}

// --- where ------------------------------------------------------------------------------------------------------------

// The last tokens of a prompt are those that lead into the answer; the next turn often has them otherwise, and a snapshot in front of
// them is still a prefix of it.
enum { TAIL = 8 };

int64_t crn_llm_snapshot_point(const crn_llm_snapshot_bounds *bounds, int64_t at, int64_t end) {
  int64_t point = bounds->interval > 0 ? (at / bounds->interval + 1) * bounds->interval : end;
  const int64_t aligned = bounds->align > 0 ? (end - 1) / bounds->align * bounds->align : 0;
  const int64_t tail = aligned > at ? aligned : end - TAIL > at ? end - TAIL : end - 1;
  if (tail > at && tail < point) point = tail;
  return point < end ? point : end;
}
