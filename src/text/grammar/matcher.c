// Where a text is in a grammar: what the library knows of bytes, and what it does not: stop ids, characters, the way back.
#include <string.h>

#include "base/vec.h"
#include "text/grammar/internal.h"
#include "text/grammar/tool_grammar.h"

enum { STOPPED = 0x80 };  ///< in the history, beside a state of UTF-8

struct cairn_matcher {
  cairn_grammar *grammar;
  crn_xg_matcher *xg;
  crn_tool_matcher *tools;  ///< of a grammar of tool calls: it does all but the stop ids
  CRN_VEC(int32_t) stops;
  CRN_VEC(unsigned char) history;  ///< behind each token taken
  atomic_bool is_cancelled;
  crn_xg_cancel cancel;
};

static const cairn_allocator *allocator_of(const cairn_matcher *m) { return &m->grammar->context->allocator; }

static int state_of(const cairn_matcher *m) { return m->history.size ? m->history.items[m->history.size - 1] : CRN_UTF8_START; }

bool cairn_matcher_is_terminated(const cairn_matcher *m) { return m && state_of(m) & STOPPED; }

bool cairn_matcher_is_complete(const cairn_matcher *m) {
  if (!m) return false;
  int state = state_of(m);
  if (m->tools) return state & STOPPED || crn_tool_matcher_is_complete(m->tools);
  return state & STOPPED || (state == CRN_UTF8_START && crn_xg_matcher_is_complete(m->xg));
}

static bool is_stop(const cairn_matcher *m, int32_t token) {
  for (size_t i = 0; i < m->stops.size; i++) {
    if (m->stops.items[i] == token) return true;
  }
  return false;
}

static bool is_asked(const void *user) { return atomic_load_explicit((atomic_bool *)user, memory_order_relaxed); }

void cairn_matcher_cancel(cairn_matcher *m) {
  if (m) atomic_store(&m->is_cancelled, true);
}

// --- life -------------------------------------------------------------------------------------------------------------------

void cairn_matcher_destroy(cairn_matcher *m) {
  if (!m) return;
  cairn_grammar *grammar = m->grammar;
  const cairn_allocator *a = allocator_of(m);
  crn_xg_matcher_destroy(m->xg);
  crn_tool_matcher_destroy(m->tools);
  crn_vec_free(a, &m->stops);
  crn_vec_free(a, &m->history);
  crn_free(a, m, sizeof *m);
  cairn_grammar_release(grammar);
}

static cairn_status create(cairn_grammar *grammar, const int32_t *stop_ids, size_t n, cairn_matcher **out) {
  cairn_matcher *m;
  CRN_TRY(crn_alloc_zero(&grammar->context->allocator, sizeof *m, &m));
  m->grammar = grammar;
  m->cancel = (crn_xg_cancel){is_asked, &m->is_cancelled};
  cairn_grammar_retain(grammar);
  cairn_status status = crn_vec_reserve(allocator_of(m), &m->stops, n);
  if (status != CAIRN_OK) {
    cairn_matcher_destroy(m);
    return status;
  }
  for (size_t i = 0; i < n; i++) {
    if (stop_ids[i] >= 0 && stop_ids[i] < grammar->vocabulary->n && !is_stop(m, stop_ids[i])) m->stops.items[m->stops.size++] = stop_ids[i];
  }
  *out = m;
  return CAIRN_OK;
}

cairn_status cairn_matcher_create(cairn_grammar *grammar, const int32_t *stop_ids, size_t n_stop_ids, cairn_matcher **out_matcher) {
  CRN_REQUIRE(out_matcher);
  *out_matcher = NULL;
  CRN_REQUIRE(grammar);
  CRN_REQUIRE_SOME(stop_ids, n_stop_ids);
  cairn_matcher *m;
  crn_xg_error error;
  CRN_TRY(create(grammar, stop_ids, n_stop_ids, &m));
  cairn_status status = grammar->tools ? crn_tool_matcher_create(grammar, &m->cancel, &m->tools)
                                       : crn_xg_status(crn_xg_matcher_create(grammar->xg, &m->xg, &error), &error, "matching a grammar");
  if (status != CAIRN_OK) {
    cairn_matcher_destroy(m);
    return status;
  }
  *out_matcher = m;
  return CAIRN_OK;
}

cairn_status cairn_matcher_fork(const cairn_matcher *from, cairn_matcher **out_matcher) {
  CRN_REQUIRE(out_matcher);
  *out_matcher = NULL;
  CRN_REQUIRE_NAMED(from, "matcher");
  cairn_matcher *m;
  crn_xg_error error;
  CRN_TRY(create(from->grammar, from->stops.items, from->stops.size, &m));
  cairn_status status = crn_vec_reserve(allocator_of(m), &m->history, from->history.size);
  if (status == CAIRN_OK) {
    if (from->history.size) memcpy(m->history.items, from->history.items, from->history.size);
    m->history.size = from->history.size;
    status = from->tools ? crn_tool_matcher_fork(from->tools, &m->cancel, &m->tools)
                         : crn_xg_status(crn_xg_matcher_fork(from->xg, &m->xg, &error), &error, "forking a matcher");
  }
  if (status != CAIRN_OK) {
    cairn_matcher_destroy(m);
    return status;
  }
  *out_matcher = m;
  return CAIRN_OK;
}

// A new matcher of the library: its own reset keeps what it needs for going back.
cairn_status cairn_matcher_reset(cairn_matcher *m) {
  CRN_REQUIRE_NAMED(m, "matcher");
  crn_xg_matcher *fresh;
  crn_xg_error error;
  atomic_store(&m->is_cancelled, false);
  if (m->tools) {
    m->history.size = 0;
    return crn_tool_matcher_go_back(m->tools, 0);
  }
  CRN_TRY(crn_xg_status(crn_xg_matcher_create(m->grammar->xg, &fresh, &error), &error, "matching a grammar"));
  crn_xg_matcher_destroy(m->xg);
  m->xg = fresh;
  m->history.size = 0;
  return CAIRN_OK;
}

// --- walking ------------------------------------------------------------------------------------------------------------------

cairn_status cairn_matcher_mask(cairn_matcher *m, uint32_t *words, size_t n_words, int64_t *out_n_allowed) {
  CRN_REQUIRE_NAMED(m, "matcher");
  CRN_REQUIRE_SOME(words, n_words);
  const crn_vocabulary *v = m->grammar->vocabulary;
  const size_t n = (size_t)v->n_words;
  int64_t allowed = 0;
  if (n_words < n) return CRN_FAIL(INVALID_ARGUMENT, "a mask of %zu words, %zu are needed", n_words, n);
  memset(words + n, 0, (n_words - n) * sizeof *words);
  if (out_n_allowed) *out_n_allowed = 0;
  if (atomic_load(&m->is_cancelled)) return CRN_FAIL(CANCELLED, "finding what may follow: cancelled");
  if (cairn_matcher_is_terminated(m)) {
    memset(words, 0, n * sizeof *words);
    return CAIRN_OK;
  }
  if (m->tools) {
    CRN_TRY(crn_tool_matcher_fill(m->tools, words));
  } else {
    crn_xg_error error;
    CRN_TRY(crn_xg_status(crn_xg_matcher_fill(m->xg, words, &m->cancel, &error), &error, "finding what may follow"));
    const uint32_t *valid = v->valid + (size_t)state_of(m) * n;
    for (size_t i = 0; i < n; i++) words[i] &= valid[i];
  }
  const bool may_end = cairn_matcher_is_complete(m);
  for (size_t i = 0; i < m->stops.size; i++) {
    const int32_t id = m->stops.items[i];
    words[id / 32] = may_end ? words[id / 32] | 1u << id % 32 : words[id / 32] & ~(1u << id % 32);
  }
  for (size_t i = 0; i < n; i++) allowed += __builtin_popcount(words[i]);
  if (out_n_allowed) *out_n_allowed = allowed;
  return CAIRN_OK;
}

cairn_status cairn_matcher_accept(cairn_matcher *m, int32_t token, bool *out_accepted) {
  CRN_REQUIRE_NAMED(m, "matcher");
  CRN_REQUIRE(out_accepted);
  const crn_vocabulary *v = m->grammar->vocabulary;
  *out_accepted = false;
  if (token < 0 || token >= v->n || cairn_matcher_is_terminated(m)) return CAIRN_OK;
  CRN_TRY(crn_vec_reserve(allocator_of(m), &m->history, 1));
  int state = state_of(m);
  if (is_stop(m, token)) {
    if (!cairn_matcher_is_complete(m)) return CAIRN_OK;
    *out_accepted = true;
    m->history.items[m->history.size++] = (unsigned char)(state | STOPPED);
    return CAIRN_OK;
  }
  if (m->tools) {
    CRN_TRY(crn_tool_matcher_accept(m->tools, token, out_accepted));
    if (*out_accepted) m->history.items[m->history.size++] = CRN_UTF8_START;
    return CAIRN_OK;
  }
  state = crn_vocabulary_step(v, state, token);
  if (state == CRN_UTF8_BROKEN) return CAIRN_OK;
  crn_xg_error error;
  CRN_TRY(crn_xg_status(crn_xg_matcher_accept(m->xg, token, out_accepted, &error), &error, "taking a token"));
  if (*out_accepted) m->history.items[m->history.size++] = (unsigned char)state;
  return CAIRN_OK;
}

cairn_status cairn_matcher_rollback(cairn_matcher *m, size_t n) {
  CRN_REQUIRE_NAMED(m, "matcher");
  if (n > m->history.size) return CRN_FAIL(OUT_OF_RANGE, "%zu tokens are to be taken back, %zu were taken", n, m->history.size);
  size_t of_library = n - (n && cairn_matcher_is_terminated(m));  // it does not know of the stop id
  if (m->tools) {
    CRN_TRY(crn_tool_matcher_go_back(m->tools, m->history.size - n));
    m->history.size -= n;
    return CAIRN_OK;
  }
  crn_xg_error error;
  if (of_library) CRN_TRY(crn_xg_status(crn_xg_matcher_rollback(m->xg, (int)of_library, &error), &error, "taking back tokens"));
  m->history.size -= n;
  return CAIRN_OK;
}

cairn_status cairn_matcher_forced(cairn_matcher *m, char *out_bytes, size_t capacity, size_t *out_n) {
  CRN_REQUIRE_NAMED(m, "matcher");
  CRN_REQUIRE_SOME(out_bytes, capacity);
  CRN_REQUIRE(out_n);
  *out_n = 0;
  if (cairn_matcher_is_terminated(m)) return CAIRN_OK;
  if (m->tools) return crn_tool_matcher_forced(m->tools, out_bytes, capacity, out_n);
  crn_xg_error error;
  return crn_xg_status(crn_xg_matcher_forced(m->xg, out_bytes, capacity, out_n, &error), &error, "finding what must follow");
}
