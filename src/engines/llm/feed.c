/// Feeding tokens in pieces.
#include <string.h>

#include "base/trace.h"
#include "engines/llm/internal.h"
#include "engines/llm/logits.h"

cairn_status crn_llm_check_tokens(const cairn_llm *llm, const char *what, const int32_t *tokens, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= llm->model->contract.vocab_size) {
      return CRN_FAIL(OUT_OF_RANGE, "%s token %zu is %d; the vocabulary has the ids 0 to %lld", what, i, tokens[i],
                      (long long)llm->model->contract.vocab_size - 1);
    }
  }
  return CAIRN_OK;
}

// Gives out the rows of one run. The last row stays in runner.row.
static cairn_status give_rows(cairn_llm *llm, const crn_llm_feed *feed, const crn_llm_rows *rows, int64_t first, int64_t n, bool is_last) {
  int64_t vocab = llm->model->contract.vocab_size;
  size_t row_bytes = (size_t)vocab * cairn_dtype_bytes(rows->dtype);
  bool wants_all = crn_llm_wants_rows(feed);
  if (wants_all && rows->n < n) {
    return CRN_FAIL(UNSUPPORTED, "the model gives logits of the last token only; feed one token at a time to have them all");
  }
  if (!wants_all && !is_last) return CAIRN_OK;
  if (feed->out_rows) {
    *feed->out_rows = *rows;
    return CAIRN_OK;
  }
  for (int64_t i = wants_all ? 0 : rows->n - 1; i < rows->n; i++) {
    crn_logits_widen(llm->context->pool, rows->dtype, (const char *)rows->data + (size_t)i * row_bytes, llm->runner.row, vocab);
    if (feed->on_logits) CRN_TRY(feed->on_logits(feed->user, first + n - rows->n + i, llm->runner.row, vocab));
  }
  return CAIRN_OK;
}

// Makes room for `n` tokens everywhere before anything is run.
cairn_status crn_llm_feed_reserve(cairn_llm *llm, int64_t n) {
  int64_t total = llm->history.n + n;
  if (total > llm->model->model_context) {
    return CRN_FAIL(CONTEXT_FULL, "context length exceeded: %lld tokens are held and %lld more were given, the model takes %lld",
                    (long long)llm->history.n, (long long)n, (long long)llm->model->model_context);
  }
  const int64_t start = total > llm->states.capacity ? crn_trace_begin(llm->context) : 0;
  CRN_TRY(crn_llm_states_reserve(&llm->states, total, llm->history.n));
  CRN_TRACE_END(llm->context, start, "engine", NULL, "Grow to %lld rows", (long long)llm->states.capacity);
  // Growing along with the cache, these never allocate in between.
  CRN_TRY(crn_history_reserve(&llm->history, llm->states.capacity));
  return llm->model->driver->reserve(llm, llm->states.capacity);
}

cairn_status crn_llm_feed_take(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, const crn_llm_rows *rows) {
  const int64_t first = llm->history.n;
  CRN_TRY(crn_history_append(&llm->history, feed->tokens + at, n));
  return give_rows(llm, feed, rows, first, n, at + n == feed->n);
}

static cairn_status run_piece(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n) {
  crn_llm_rows rows;
  int64_t first = llm->history.n;
  bool started;
  llm->n_runs++;
  int64_t start = crn_trace_begin(llm->context);
  cairn_status status = llm->model->driver->run(llm, feed, at, n, &rows, &started);
  CRN_TRACE_END(llm->context, start, "engine", NULL, "%s %lld+%lld", feed->n == 1 ? "Decode step" : "Prompt", (long long)first,
                (long long)n);
  if (status != CAIRN_OK) {
    if (started) llm->is_dirty = true;
    return status;
  }
  return crn_llm_feed_take(llm, feed, at, n, &rows);
}

// Where the prompt is stopped next for a snapshot: its end when no more are due.
static int64_t snapshot_point(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at) {
  const int64_t end = llm->history.n + feed->n - at;
  const crn_llm_snapshot_bounds *bounds = &llm->model->settings.snapshots;
  if (!feed->takes_snapshots || !bounds->most || !crn_llm_has_whole_states(&llm->model->contract)) return end;
  return crn_llm_snapshot_point(bounds, llm->history.n, end);
}

// Pieces end at points of snapshots, unless the function takes whole pieces only: then the next end of a piece is one.
int64_t crn_llm_feed_piece(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t *out_point) {
  const int64_t point = snapshot_point(llm, feed, at), n = llm->model->driver->piece(llm, feed, at), room = point - llm->history.n;
  *out_point = point;
  return room < n && llm->model->prefill_contract.query < 2 ? room : n;
}

cairn_status crn_llm_run_tokens(cairn_llm *llm, const crn_llm_feed *feed, bool *out_stopped) {
  if (out_stopped) *out_stopped = false;
  CRN_TRY(crn_llm_feed_reserve(llm, feed->n));
  for (int64_t at = 0, n, point; at < feed->n; at += n) {
    if (feed->should_stop && feed->should_stop(feed->stop_user)) {
      *out_stopped = true;
      return CAIRN_OK;
    }
    n = crn_llm_feed_piece(llm, feed, at, &point);
    CRN_TRY(run_piece(llm, feed, at, n));
    if (llm->history.n >= point && at + n < feed->n) crn_llm_take_snapshot(llm);
  }
  if (!feed->out_rows) llm->model->driver->trim(llm);
  return CAIRN_OK;
}
