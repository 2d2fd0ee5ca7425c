/// Feeding tokens in pieces, and going back to an earlier point of the sequence.
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
  bool wants_all = feed->all_rows && feed->on_logits;
  if (wants_all && rows->n < n) {
    return CRN_FAIL(UNSUPPORTED, "the model gives logits of the last token only; feed one token at a time to have them all");
  }
  if (!wants_all && !is_last) return CAIRN_OK;
  for (int64_t i = wants_all ? 0 : rows->n - 1; i < rows->n; i++) {
    crn_logits_widen(rows->dtype, (const char *)rows->data + (size_t)i * row_bytes, llm->runner.row, vocab);
    if (feed->on_logits) CRN_TRY(feed->on_logits(feed->user, first + n - rows->n + i, llm->runner.row, vocab));
  }
  return CAIRN_OK;
}

// Makes room for `n` tokens everywhere before anything is run.
static cairn_status reserve(cairn_llm *llm, int64_t n) {
  int64_t total = llm->history.n + n;
  if (total > llm->model->model_context) {
    return CRN_FAIL(CONTEXT_FULL, "context length exceeded: %lld tokens are held and %lld more were given, the model takes %lld",
                    (long long)llm->history.n, (long long)n, (long long)llm->model->model_context);
  }
  CRN_TRY(crn_llm_states_reserve(&llm->states, total, llm->history.n));
  // Growing along with the cache, these never allocate in between.
  CRN_TRY(crn_history_reserve(&llm->history, llm->states.capacity));
  return llm->model->driver->reserve(llm, llm->states.capacity);
}

static cairn_status run_piece(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n) {
  crn_llm_rows rows;
  int64_t first = llm->history.n;
  bool started;
  int64_t start = crn_trace_begin(llm->context);
  cairn_status status = llm->model->driver->run(llm, feed, at, n, &rows, &started);
  CRN_TRACE_END(llm->context, start, "engine", NULL, "%s %lld+%lld", feed->n == 1 ? "Decode step" : "Prompt", (long long)first,
                (long long)n);
  if (status != CAIRN_OK) {
    if (started) llm->is_dirty = true;
    return status;
  }
  CRN_TRY(crn_history_append(&llm->history, feed->tokens + at, n));
  return give_rows(llm, feed, &rows, first, n, at + n == feed->n);
}

cairn_status crn_llm_run_tokens(cairn_llm *llm, const crn_llm_feed *feed, bool *out_stopped) {
  if (out_stopped) *out_stopped = false;
  CRN_TRY(reserve(llm, feed->n));
  for (int64_t at = 0, n; at < feed->n; at += n) {
    if (feed->should_stop && feed->should_stop(feed->stop_user)) {
      *out_stopped = true;
      return CAIRN_OK;
    }
    n = llm->model->driver->piece(llm, feed, at);
    CRN_TRY(run_piece(llm, feed, at, n));
  }
  llm->model->driver->trim(llm);
  return CAIRN_OK;
}

// --- going back -----------------------------------------------------------------------------------------------------

static cairn_status forget(cairn_llm *llm) {
  CRN_TRY(crn_llm_states_zero(&llm->states));
  crn_history_truncate(&llm->history, 0);
  llm->is_dirty = false;
  return CAIRN_OK;
}

cairn_status crn_llm_cut(cairn_llm *llm, int64_t n) {
  int64_t held = llm->history.n;
  if (n < 0 || n > held) return CRN_FAIL(OUT_OF_RANGE, "reset to %lld is out of range [0, %lld]", (long long)n, (long long)held);
  if (n == 0) return forget(llm);
  if (llm->is_dirty)
    return CRN_FAIL(FAILED_PRECONDITION, "a run failed before, so the states hold no known tokens: only a reset to 0 is possible");
  if (n < held && !crn_llm_can_cut(&llm->model->contract, held)) {
    return CRN_FAIL(UNSUPPORTED, "the model keeps a running state that cannot be cut back: reset to 0 and feed the first %lld tokens again",
                    (long long)n);
  }
  crn_history_truncate(&llm->history, n);
  return CAIRN_OK;
}

cairn_status crn_llm_resolve_prefix(cairn_llm *llm, const int32_t *tokens, int64_t n, bool keep, int64_t *out_kept, const char **out_note) {
  *out_kept = 0;
  *out_note = "";
  int64_t common = crn_history_common_prefix(&llm->history, tokens, n);
  // One token at least must be fed: its run gives the logits of what follows.
  int64_t wanted = common < n - 1 ? common : n - 1;
  if (llm->is_dirty) {
    *out_note = "an earlier run failed, so the states were zeroed";
    return forget(llm);
  }
  if (!keep) {
    if (common) *out_note = "logits of the whole prompt were asked for";
    wanted = 0;
  }
  if (wanted == llm->history.n) {
    *out_kept = wanted;
    return CAIRN_OK;
  }
  if (!crn_llm_can_cut(&llm->model->contract, llm->history.n)) {
    if (wanted) *out_note = "the model keeps a state that cannot be cut back";
    return forget(llm);
  }
  // Rows behind the new end are written again before they are read, so nothing needs to be zeroed.
  crn_history_truncate(&llm->history, wanted);
  *out_kept = wanted;
  return CAIRN_OK;
}
