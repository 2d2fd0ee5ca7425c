/// Going back to an earlier point of a sequence.
#include "base/log.h"
#include "base/trace.h"
#include "engines/llm/prompt_cache.h"

void crn_llm_take_snapshot(cairn_llm *llm) {
  if (llm->is_dirty) return;
  // One there is no memory for is missed later, if at all.
  if (crn_llm_snapshots_take(&llm->snapshots, &llm->states, llm->history.n, &llm->model->settings.snapshots) != CAIRN_OK) crn_error_clear();
}

static cairn_status forget(cairn_llm *llm) {
  CRN_TRY(crn_llm_states_zero(&llm->states));
  crn_history_truncate(&llm->history, 0);
  crn_llm_snapshots_cut(&llm->snapshots, 0);
  llm->is_dirty = false;
  return CAIRN_OK;
}

int64_t crn_llm_reachable(const cairn_llm *llm, int64_t n) {
  const int64_t held = llm->history.n;
  if (llm->is_dirty || n <= 0) return 0;
  if (n >= held) return held;
  // A window of the storage that has dropped rows cannot bring them back, whatever else was kept.
  if (!crn_llm_states_can_cut(&llm->states, n)) return 0;
  if (crn_llm_can_cut(&llm->model->contract, held)) return n;
  const crn_llm_snapshot *s = crn_llm_snapshots_find(&llm->snapshots, n);
  return s && crn_llm_states_can_cut(&llm->states, s->n) ? s->n : 0;
}

cairn_status crn_llm_go_back(cairn_llm *llm, int64_t n) {
  const int64_t held = llm->history.n;
  if (n == 0) return forget(llm);
  if (n == held) return CAIRN_OK;
  if (!crn_llm_can_cut(&llm->model->contract, held)) {
    const crn_llm_snapshot *s = crn_llm_snapshots_find(&llm->snapshots, n);
    cairn_status status =
        s && s->n == n ? crn_llm_snapshot_restore(s, &llm->states) : CRN_FAIL(INTERNAL, "there is no snapshot at token %lld", (long long)n);
    if (status != CAIRN_OK) {
      llm->is_dirty = true;
      return status;
    }
  }
  // Rows behind the new end are written again before they are read, so nothing needs to be zeroed.
  crn_history_truncate(&llm->history, n);
  crn_llm_snapshots_cut(&llm->snapshots, n);
  return CAIRN_OK;
}

cairn_status crn_llm_cut(cairn_llm *llm, int64_t n) {
  int64_t held = llm->history.n;
  if (n < 0 || n > held) return CRN_FAIL(OUT_OF_RANGE, "reset to %lld is out of range [0, %lld]", (long long)n, (long long)held);
  if (n > 0 && llm->is_dirty)
    return CRN_FAIL(FAILED_PRECONDITION, "a run failed before, so the states hold no known tokens: only a reset to 0 is possible");
  const int64_t reachable = crn_llm_reachable(llm, n);
  if (reachable == n) return crn_llm_go_back(llm, n);
  return CRN_FAIL(
      UNSUPPORTED,
      "the model keeps a running state that cannot be cut back to %lld tokens: reset to %lld and feed the tokens up to there again",
      (long long)n, (long long)reachable);
}

cairn_status crn_llm_resolve_prefix(cairn_llm *llm, const int32_t *tokens, int64_t n, bool keep, int64_t *out_kept, const char **out_note) {
  *out_note = "";
  int64_t common = crn_history_common_prefix(&llm->history, tokens, n);
  // One token at least must be fed: its run gives the logits of what follows.
  int64_t wanted = common < n - 1 ? common : n - 1;
  if (llm->is_dirty) *out_note = "an earlier run failed, so the states were zeroed";
  if (!keep) {
    if (common) *out_note = "logits of the whole prompt were asked for";
    wanted = 0;
  }
  const int64_t kept = crn_llm_reachable(llm, wanted);
  if (kept < wanted && !llm->is_dirty)
    *out_note = kept ? "the model keeps a state that cannot be cut back: gone back to a snapshot of it"
                     : "the model keeps a state that cannot be cut back";
  *out_kept = kept;
  if (llm->is_dirty) return forget(llm);
  // Where counting back is enough, nothing has to be zeroed for a fresh start either.
  if (kept == 0 && crn_llm_can_cut(&llm->model->contract, llm->history.n) && crn_llm_states_can_cut(&llm->states, 0)) {
    crn_history_truncate(&llm->history, 0);
    crn_llm_snapshots_cut(&llm->snapshots, 0);
    return CAIRN_OK;
  }
  return crn_llm_go_back(llm, kept);
}

// --- beyond the sequence ------------------------------------------------------------------------------------------------

// What is about to be cut off is worth keeping when it costs no copy.
static void park_rest(cairn_llm *llm, int64_t kept) {
  enum { WORTH = 64 };
  if (!crn_llm_states_are_paged(&llm->states) || llm->history.n - kept < WORTH) return;
  crn_llm_take_snapshot(llm);
  if (crn_llm_shelf_put_copy(llm, llm->history.n) != CAIRN_OK) crn_error_clear();
}

// What cannot be taken from elsewhere is computed. A model without rows that was left between two states begins anew.
static cairn_status do_without(cairn_llm *llm, cairn_status status, const char *where, int64_t *kept) {
  if (status == CAIRN_OK) return status;
  CRN_WARN(llm->context, "what %s has of the prompt was not used: %s", where, cairn_last_error()->message);
  crn_error_clear();
  if (!llm->is_dirty) return CAIRN_OK;
  *kept = 0;
  return forget(llm);
}

cairn_status crn_llm_find_prefix(cairn_llm *llm, const int32_t *tokens, int64_t n, bool keep, crn_llm_reuse *out) {
  *out = (crn_llm_reuse){.note = ""};
  if (llm->model->shelf.most_bytes && keep) park_rest(llm, crn_history_common_prefix(&llm->history, tokens, n));
  CRN_TRY(crn_llm_resolve_prefix(llm, tokens, n, keep, &out->kept, &out->note));
  if (!keep) return CAIRN_OK;
  int64_t kept;
  const int64_t start = crn_trace_begin(llm->context);
  cairn_status status = crn_llm_shelf_take(llm, tokens, n, out->kept, &kept);
  CRN_TRY(do_without(llm, status, "the memory", &kept));
  out->from_memory = kept > out->kept ? kept - out->kept : 0;
  out->kept = kept;
  status = crn_prompt_cache_take(llm, tokens, n, out->kept, &kept);
  CRN_TRY(do_without(llm, status, "the prompt cache", &kept));
  out->from_disk = kept > out->kept ? kept - out->kept : 0;
  if (kept < out->kept) out->from_memory = 0;
  out->kept = kept;
  if (out->from_memory || out->from_disk)
    CRN_TRACE_END(llm->context, start, "engine", out->from_disk ? "prompt cache" : "memory", "Take prefix %lld", (long long)kept);
  return CAIRN_OK;
}

void crn_llm_leave_prefix(cairn_llm *llm) { crn_prompt_cache_keep(llm); }
