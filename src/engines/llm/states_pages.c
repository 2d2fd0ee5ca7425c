// Key/value caches in pages: growth that copies nothing, and windows with sinks.
#include <string.h>

#include "base/status.h"
#include "engines/llm/states.h"

enum { PAGE_ROWS = 64, WINDOW = 1024, SINKS = 4, READY_PAGES = 2 };

bool crn_llm_state_is_paged(const crn_llm_states *s, const crn_llm_state *state) {
  return crn_llm_states_are_paged(s) && state->kind == CAIRN_STATE_KV_CACHE;
}

cairn_status crn_llm_kv_type_parse(const char *name, bool *out_is_int8) {
  *out_is_int8 = name && strcmp(name, "int8") == 0;
  if (!name || *out_is_int8 || strcmp(name, "auto") == 0) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "unknown type '%s' of a KV cache; valid: auto, int8", name);
}

// --- options ----------------------------------------------------------------------------------------------------------

static cairn_status check_contract(const crn_llm_states *s) {
  const crn_llm_contract *c = s->contract;
  const char *name = crn_llm_kv_text(s->strategy), *why = NULL;
  if (c->host_cache) why = "the caches of this model are plain inputs, which a run reads as one piece: use 'growing'";
  if (c->stateless) why = "this model keeps nothing between runs";
  if (why) return CRN_FAIL(UNSUPPORTED, "KV strategy '%s' needs caches that are states: %s", name, why);
  for (int i = 0; i < c->n_states; i++) {
    if (c->states[i].kind == CAIRN_STATE_KV_CACHE) return CAIRN_OK;
  }
  return CRN_FAIL(UNSUPPORTED, "KV strategy '%s' needs a cache with a row for each token: this model has none", name);
}

static cairn_status choose_window(crn_llm_states *s, const crn_llm_states_options *o) {
  s->window = o->window ? o->window : WINDOW < s->limit ? WINDOW : s->limit;
  s->sinks = o->sinks < 0 ? 0 : o->sinks ? o->sinks : SINKS < s->window ? SINKS : s->window - 1;
  if (s->window < 1 || s->window > s->limit)
    return CRN_FAIL(INVALID_ARGUMENT, "a KV window of %lld tokens; 1 to %lld expected", (long long)s->window, (long long)s->limit);
  if (s->sinks >= s->window)
    return CRN_FAIL(INVALID_ARGUMENT, "%lld sinks leave nothing of a KV window of %lld tokens", (long long)s->sinks, (long long)s->window);
  for (int i = 0; i < s->contract->n_states; i++) {
    const crn_llm_state *state = &s->contract->states[i];
    if (state->kind == CAIRN_STATE_KV_CACHE) continue;
    return CRN_FAIL(UNSUPPORTED, "KV strategy 'chunked' keeps a window of what all states know: state '%s' is no cache of rows",
                    state->descriptor->name);
  }
  return CAIRN_OK;
}

cairn_status crn_llm_pages_choose(crn_llm_states *s, const crn_llm_states_options *o) {
  bool is_paged = crn_llm_states_are_paged(s);
  if (!is_paged && o->is_int8)
    return CRN_FAIL(UNSUPPORTED, "a KV cache of int8 needs pages: use the strategy 'paged' or 'chunked' instead of '%s'",
                    crn_llm_kv_text(s->strategy));
  if (!is_paged) return CAIRN_OK;
  CRN_TRY(check_contract(s));
  s->page_rows = o->page_rows ? o->page_rows : PAGE_ROWS;
  if (s->page_rows != 64 && s->page_rows != 128 && s->page_rows != 256)
    return CRN_FAIL(INVALID_ARGUMENT, "KV pages of %lld rows; 64, 128 or 256 expected", (long long)s->page_rows);
  s->is_int8 = o->is_int8;
  return s->strategy == CRN_LLM_KV_CHUNKED ? choose_window(s, o) : CAIRN_OK;
}

// --- arrays -----------------------------------------------------------------------------------------------------------

cairn_status crn_llm_pages_create(const crn_llm_states *s, const crn_llm_state *state, const int64_t *shape, cairn_ndarray **out) {
  const cairn_descriptor *d = state->descriptor;
  const cairn_segments segments = {.axis = state->axis, .page_rows = s->page_rows, .stored = s->is_int8 ? CAIRN_SI8 : CAIRN_DTYPE_NONE};
  CRN_TRY(cairn_ndarray_create_segmented(s->context, d->dtype, shape, d->rank, &segments, out));
  const cairn_ndarray_window window = {.sinks = s->sinks, .kept = s->window - s->sinks};
  cairn_status status = s->window ? cairn_ndarray_set_window(*out, &window) : CAIRN_OK;
  if (status == CAIRN_OK) status = cairn_ndarray_keep_ready(*out, READY_PAGES);
  if (status != CAIRN_OK) {
    cairn_ndarray_release(*out);
    *out = NULL;
  }
  return status;
}

static cairn_status take_rows(const crn_llm_states *s, int64_t first, int64_t end) {
  for (int i = 0; i < s->contract->n_states; i++) {
    if (!cairn_ndarray_is_segmented(s->arrays[i].array)) continue;
    CRN_TRY_NOTE(cairn_ndarray_reserve_rows(s->arrays[i].array, first, end), "state '%s'", s->arrays[i].name);
  }
  return CAIRN_OK;
}

// Of a state that grows in pages; 0 for others.
static int64_t rows_of(const crn_llm_states *s, int i) {
  const crn_llm_state *state = &s->contract->states[i];
  return crn_llm_state_is_paged(s, state) && state->is_dynamic ? cairn_ndarray_shape(s->arrays[i].array)[state->axis] : 0;
}

cairn_status crn_llm_pages_extend(crn_llm_states *s, int64_t rows) {
  const crn_llm_contract *c = s->contract;
  if (rows <= s->capacity && !s->is_uneven) return CAIRN_OK;
  if (rows < s->capacity) rows = s->capacity;
  for (int i = 0; i < c->n_states && s->is_uneven; i++) rows = rows_of(s, i) > rows ? rows_of(s, i) : rows;
  int64_t capacity = (rows + s->page_rows - 1) / s->page_rows * s->page_rows;
  if (capacity > s->limit) capacity = s->limit;
  // Should one of them not grow, then those before it are longer already: the next call makes them even.
  s->is_uneven = true;
  for (int i = 0; i < c->n_states; i++) {
    if (rows_of(s, i) > 0) CRN_TRY_NOTE(cairn_ndarray_grow(s->arrays[i].array, capacity), "state '%s'", s->arrays[i].name);
  }
  s->is_uneven = false;
  s->capacity = capacity;
  return CAIRN_OK;
}

// Pages change only where rows are missing or shared. So an engine that works ahead has to wait for its runs only when the caches grow, or
// before the first of them. A window takes its pages while it moves: those that it drops are the next ones.
cairn_status crn_llm_pages_reserve(crn_llm_states *s, int64_t rows, int64_t used) {
  bool grows = rows > s->capacity || s->is_uneven, is_window = s->strategy == CRN_LLM_KV_CHUNKED;
  if (grows) CRN_TRY(crn_llm_pages_extend(s, rows));
  if (is_window && !grows) return CAIRN_OK;
  int64_t end = is_window && s->capacity > used + s->page_rows ? used + s->page_rows : s->capacity;
  return take_rows(s, used < end ? used : end, end);
}

bool crn_llm_states_can_cut(const crn_llm_states *s, int64_t n) {
  if (s->strategy != CRN_LLM_KV_CHUNKED) return true;
  for (int i = 0; i < s->contract->n_states; i++) {
    cairn_segment_counts counts;
    cairn_ndarray_count_segments(s->arrays[i].array, &counts);
    // The next row, at n, sees none of what was dropped: all of it is behind n, or out of its window.
    bool has_gap = counts.dropped_end > counts.dropped_first;
    if (has_gap && n > counts.dropped_first && n + 1 - (s->window - s->sinks) < counts.dropped_end) return false;
  }
  return true;
}
