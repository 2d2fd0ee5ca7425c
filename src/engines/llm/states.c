#include "engines/llm/states.h"

#include <string.h>

#include "base/status.h"

enum { FIRST_ROWS = 256 };

// --- strategies -----------------------------------------------------------------------------------------------------

cairn_status crn_llm_kv_parse(const char *name, crn_llm_kv *out_kv) {
  static const struct {
    const char *name;
    crn_llm_kv kv;
  } kNames[] = {{"auto", CRN_LLM_KV_AUTO},        {"fixed", CRN_LLM_KV_FIXED},     {"fixed_size", CRN_LLM_KV_FIXED},
                {"fixed-size", CRN_LLM_KV_FIXED}, {"growing", CRN_LLM_KV_GROWING}, {"paged", CRN_LLM_KV_PAGED},
                {"chunked", CRN_LLM_KV_CHUNKED}};
  *out_kv = CRN_LLM_KV_AUTO;
  if (!name) return CAIRN_OK;
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    if (strcmp(name, kNames[i].name) == 0) {
      *out_kv = kNames[i].kv;
      return CAIRN_OK;
    }
  }
  return CRN_FAIL(INVALID_ARGUMENT, "unknown KV strategy '%s'; valid: auto, fixed, growing, paged, chunked", name);
}

const char *crn_llm_kv_text(crn_llm_kv kv) {
  static const char *const kTexts[] = {"auto", "fixed", "growing", "paged", "chunked"};
  return kTexts[kv];
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

// The smallest of start, 2*start, 4*start, … that holds `rows`, at most `limit`.
static int64_t grown(int64_t start, int64_t rows, int64_t limit) {
  int64_t n = start;
  while (n < rows && n <= limit / 2) n *= 2;
  return n < rows ? limit : min64(n, limit);
}

static cairn_status choose_sizes(crn_llm_states *s, const crn_llm_states_options *o) {
  const crn_llm_contract *c = s->contract;
  if (o->capacity < 0) return CRN_FAIL(INVALID_ARGUMENT, "a KV capacity of %lld; 1 or more expected", (long long)o->capacity);
  if (c->stateless && o->strategy != CRN_LLM_KV_PAGED && o->strategy != CRN_LLM_KV_CHUNKED && !o->is_int8) {
    s->strategy = CRN_LLM_KV_FIXED;
    s->capacity = s->limit = o->strategy == CRN_LLM_KV_FIXED && o->capacity ? min64(o->capacity, o->max_context) : o->max_context;
    return CAIRN_OK;
  }
  if (o->strategy == CRN_LLM_KV_GROWING && !c->has_dynamic_kv) {
    return CRN_FAIL(UNSUPPORTED,
                    "KV strategy 'growing' needs a cache with a dynamic dim; this model's is fixed at %lld rows: use 'fixed', or export it "
                    "with a dynamic cache dim",
                    (long long)c->fixed_rows);
  }
  s->strategy = o->strategy;
  if (s->strategy == CRN_LLM_KV_AUTO)
    s->strategy = !c->has_dynamic_kv ? CRN_LLM_KV_FIXED : o->fits_pages && !c->host_cache ? CRN_LLM_KV_PAGED : CRN_LLM_KV_GROWING;
  s->limit = o->max_context;
  if (c->fixed_rows) s->limit = min64(s->limit, c->fixed_rows);
  CRN_TRY(crn_llm_pages_choose(s, o));
  if (crn_llm_states_are_paged(s)) {
    int64_t first = s->window ? s->window : s->page_rows;
    s->capacity = min64(o->capacity ? o->capacity : first, s->limit);
  } else if (s->strategy == CRN_LLM_KV_FIXED) {
    if (o->capacity) s->limit = min64(s->limit, o->capacity);
    s->capacity = s->limit;
  } else {
    s->capacity = min64(o->capacity ? o->capacity : FIRST_ROWS, s->limit);
  }
  return CAIRN_OK;
}

// --- arrays ---------------------------------------------------------------------------------------------------------

// Only key/value caches follow the capacity; another state with a dynamic dim gets all it may ever need at once.
static int64_t rows_of(const crn_llm_states *s, const crn_llm_state *state, int64_t capacity) {
  if (!state->is_dynamic) return state->size;
  return state->kind == CAIRN_STATE_KV_CACHE ? capacity : s->limit;
}

// Where positions are the last dim, as in caches for fixed shapes ([layers, 1, channels, 1, rows]), the channels of one position would lie
// a whole cache apart, and a step would touch a page of memory for each. In memory positions go in front of the channels instead: what is
// read and written for a position is one run, whatever else the cache has room for.
static bool put_channels_last(const crn_llm_state *state, const int64_t *shape, int *order) {
  const int rank = state->descriptor->rank;
  int channels = rank - 2;
  if (state->kind != CAIRN_STATE_KV_CACHE || state->axis != rank - 1 || rank < 2) return false;
  while (channels > 0 && shape[channels] == 1) channels--;
  for (int i = 0; i < rank; i++) order[i] = i < channels ? i : i == channels ? rank - 1 : i - 1;
  return true;
}

static cairn_status create_array(const crn_llm_states *s, const crn_llm_state *state, int64_t capacity, cairn_ndarray **out) {
  int order[CAIRN_MAX_RANK];
  const cairn_descriptor *d = state->descriptor;
  int64_t shape[CAIRN_MAX_RANK];
  memcpy(shape, d->shape, sizeof shape);
  shape[state->axis] = rows_of(s, state, capacity);
  if (crn_llm_state_is_paged(s, state)) {
    cairn_status made = crn_llm_pages_create(s, state, shape, out);
    return made == CAIRN_OK ? made : crn_note(made, "state '%s'", d->name);
  }
  bool is_interleaved = false;
  for (int i = 0; i < d->rank; i++) is_interleaved |= d->interleave[i] > 1;
  cairn_status status;
  if (put_channels_last(state, shape, order)) {
    status = cairn_ndarray_create_ordered(s->context, d->dtype, shape, d->rank, order, out);
  } else if (is_interleaved) {
    // Kernels know no blocks: an interleaved cache would be copied there and back by every run.
    status = cairn_ndarray_create(s->context, d->dtype, shape, d->rank, out);
  } else {
    status = cairn_ndarray_create_from_descriptor(s->context, d, shape, d->rank, out);
  }
  if (status != CAIRN_OK) crn_note(status, "state '%s' with %lld rows", d->name, (long long)shape[state->axis]);
  return status;
}

static size_t bytes_of(const cairn_ndarray *a) {
  cairn_segment_counts counts;
  cairn_ndarray_count_segments(a, &counts);
  if (counts.page_rows) return (size_t)counts.n_held * counts.page_bytes;
  return (size_t)cairn_ndarray_count(a) * cairn_dtype_bytes(cairn_ndarray_dtype(a));
}

size_t crn_llm_states_bytes(const crn_llm_states *s) {
  size_t bytes = 0;
  for (int i = 0; i < s->contract->n_states; i++) bytes += bytes_of(s->arrays[i].array);
  return bytes;
}

static void count_bytes(crn_llm_states *s) { s->bytes = crn_llm_states_bytes(s); }

cairn_status crn_llm_states_initialize(crn_llm_states *s, cairn_context *context, const crn_llm_contract *contract,
                                       const crn_llm_states_options *options) {
  *s = (crn_llm_states){.context = context, .contract = contract};
  CRN_TRY(choose_sizes(s, options));
  for (int i = 0; i < contract->n_states; i++) {
    s->arrays[i].name = contract->states[i].descriptor->name;
    cairn_status status = create_array(s, &contract->states[i], s->capacity, &s->arrays[i].array);
    if (status != CAIRN_OK) {
      crn_llm_states_deinitialize(s);
      return status;
    }
  }
  count_bytes(s);
  return CAIRN_OK;
}

void crn_llm_states_deinitialize(crn_llm_states *s) {
  for (int i = 0; i < CRN_LLM_MAX_CACHES; i++) {
    cairn_ndarray_release(s->arrays[i].array);
    s->arrays[i].array = NULL;
  }
}

cairn_status crn_llm_slice_axis(cairn_ndarray *array, int axis, int64_t first, int64_t end, cairn_ndarray **out_view) {
  int64_t start[CAIRN_MAX_RANK] = {0}, stop[CAIRN_MAX_RANK];
  memcpy(stop, cairn_ndarray_shape(array), (size_t)cairn_ndarray_rank(array) * sizeof *stop);
  start[axis] = first;
  stop[axis] = end;
  return cairn_ndarray_slice(array, start, stop, out_view);
}

cairn_status crn_llm_copy_axis(cairn_ndarray *from, int axis, int64_t first, int64_t end, cairn_ndarray *to) {
  cairn_ndarray *source = NULL, *target = NULL;
  cairn_status status;
  CRN_TRY_GOTO(crn_llm_slice_axis(from, axis, first, end, &source));
  CRN_TRY_GOTO(crn_llm_slice_axis(to, axis, first, end, &target));
  CRN_TRY_GOTO(cairn_ndarray_copy(source, target));
done:
  cairn_ndarray_release(source);
  cairn_ndarray_release(target);
  return status;
}

static bool follows_capacity(const crn_llm_state *state) { return state->is_dynamic && state->kind == CAIRN_STATE_KV_CACHE; }

// All new arrays exist and are filled before the first old one is given up, so a failure changes nothing.
static cairn_status grow(crn_llm_states *s, int64_t capacity, int64_t used) {
  cairn_ndarray *fresh[CRN_LLM_MAX_CACHES] = {NULL};
  const crn_llm_contract *c = s->contract;
  int64_t copied = 0;
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < c->n_states; i++) {
    if (!follows_capacity(&c->states[i])) continue;
    CRN_TRY_GOTO(create_array(s, &c->states[i], capacity, &fresh[i]));
    CRN_TRY_GOTO(crn_llm_copy_axis(s->arrays[i].array, c->states[i].axis, 0, used, fresh[i]));
    copied += s->capacity ? (int64_t)bytes_of(s->arrays[i].array) / s->capacity * used : 0;
  }
  for (int i = 0; i < c->n_states; i++) {
    if (!fresh[i]) continue;
    cairn_ndarray *old = s->arrays[i].array;
    s->arrays[i].array = fresh[i];
    fresh[i] = old;
  }
  s->capacity = capacity;
  s->bytes_copied += copied;
  count_bytes(s);
done:
  for (int i = 0; i < c->n_states; i++) cairn_ndarray_release(fresh[i]);
  return status;
}

static cairn_status check_limit(const crn_llm_states *s, int64_t rows) {
  if (rows <= s->limit || rows <= s->capacity) return CAIRN_OK;
  return CRN_FAIL(CONTEXT_FULL, "KV cache capacity exceeded: %lld tokens are needed but only %lld fit", (long long)rows,
                  (long long)s->limit);
}

cairn_status crn_llm_states_reserve(crn_llm_states *s, int64_t rows, int64_t used) {
  CRN_TRY(check_limit(s, rows));
  if (crn_llm_states_are_paged(s)) return crn_llm_pages_reserve(s, rows, used);
  return rows <= s->capacity ? CAIRN_OK : grow(s, grown(s->capacity, rows, s->limit), used);
}

cairn_status crn_llm_states_extend(crn_llm_states *s, int64_t rows, int64_t used) {
  // A window takes its pages while it moves.
  if (s->strategy != CRN_LLM_KV_PAGED) return crn_llm_states_reserve(s, rows, used);
  CRN_TRY(check_limit(s, rows));
  return crn_llm_pages_extend(s, rows);
}

// --- a second sequence ------------------------------------------------------------------------------------------------

static cairn_status fork_array(const crn_llm_states *from, int i, int64_t rows, crn_llm_states *out) {
  const crn_llm_state *state = &from->contract->states[i];
  cairn_ndarray *source = from->arrays[i].array, *target;
  out->arrays[i].name = from->arrays[i].name;
  CRN_TRY(create_array(out, state, out->capacity, &out->arrays[i].array));
  target = out->arrays[i].array;
  if (crn_llm_state_is_paged(from, state)) return cairn_ndarray_share_rows(source, rows, target);
  bool has_rows = state->kind == CAIRN_STATE_KV_CACHE && state->axis < cairn_ndarray_rank(source);
  int64_t used = has_rows ? rows : cairn_ndarray_shape(source)[state->axis];
  if (!has_rows) CRN_TRY(cairn_ndarray_copy(source, target));
  if (has_rows && used > 0) CRN_TRY(crn_llm_copy_axis(source, state->axis, 0, used, target));
  int64_t all = cairn_ndarray_shape(source)[state->axis];
  out->bytes_copied += all ? (int64_t)bytes_of(source) / all * used : 0;
  return CAIRN_OK;
}

cairn_status crn_llm_states_fork(const crn_llm_states *from, int64_t rows, crn_llm_states *out) {
  *out = (crn_llm_states){.context = from->context,
                          .contract = from->contract,
                          .strategy = from->strategy,
                          .capacity = from->capacity,
                          .limit = from->limit,
                          .page_rows = from->page_rows,
                          .window = from->window,
                          .sinks = from->sinks,
                          .is_int8 = from->is_int8};
  if (rows < 0 || rows > from->capacity) {
    return CRN_FAIL(INVALID_ARGUMENT, "a fork of %lld rows; 0 to %lld expected", (long long)rows, (long long)from->capacity);
  }
  for (int i = 0; i < from->contract->n_states; i++) {
    cairn_status status = fork_array(from, i, rows, out);
    if (status != CAIRN_OK) {
      crn_llm_states_deinitialize(out);
      return status;
    }
  }
  count_bytes(out);
  return CAIRN_OK;
}

cairn_status crn_llm_states_zero(crn_llm_states *s) {
  for (int i = 0; i < s->contract->n_states; i++) CRN_TRY(cairn_ndarray_zero(s->arrays[i].array));
  return CAIRN_OK;
}
