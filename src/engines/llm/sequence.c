/// Sequences of one model: made with it, empty beside it, or as a copy of another one.
#include "engines/llm/sequence.h"

#include "base/log.h"
#include "base/trace.h"
#include "engines/llm/pipelined.h"
#include "engines/llm/speculate.h"
#include "engines/llm/static_shape.h"

cairn_status crn_llm_sequence_allocate(crn_llm_model *model, bool waits, cairn_llm **out_llm) {
  const cairn_allocator *a = &model->context->allocator;
  cairn_llm *llm;
  CRN_TRY(crn_alloc_zero(a, sizeof *llm, &llm));
  cairn_status status = crn_llm_turn_initialize(&llm->turn, waits);
  if (status != CAIRN_OK) {
    crn_free(a, llm, sizeof *llm);
    return status;
  }
  llm->context = model->context;
  llm->model = model;
  crn_history_initialize(&llm->history, a);
  *out_llm = llm;
  return CAIRN_OK;
}

cairn_status crn_llm_sequence_start(cairn_llm *llm) {
  crn_llm_model *m = llm->model;
  if (m->fixed) return crn_static_shape_start(llm);
  if (m->prefill) CRN_TRY(crn_llm_runner_initialize(&llm->prefill_runner, llm->context, m->prefill, &m->prefill_contract));
  return crn_llm_runner_initialize(&llm->runner, llm->context, m->function, &m->contract);
}

void cairn_llm_close(cairn_llm *llm) {
  if (!llm) return;
  crn_llm_model *model = llm->model;
  // The trace is kept by a context that may go away with its last model.
  cairn_context *context = model->context;
  cairn_context_retain(context);
  const int64_t start = crn_trace_begin(context);
  crn_pipeline_close(llm);
  crn_speculator_destroy(llm);
  crn_llm_runner_deinitialize(&llm->runner);
  crn_llm_runner_deinitialize(&llm->prefill_runner);
  crn_static_shape_stop(llm);
  crn_llm_shelf_put_over(llm);
  crn_llm_states_deinitialize(&llm->states);
  crn_llm_snapshots_free(&llm->snapshots, &llm->context->allocator);
  crn_history_deinitialize(&llm->history);
  crn_llm_turn_deinitialize(&llm->turn);
  crn_free(&model->context->allocator, llm, sizeof *llm);
  crn_llm_model_release(model);
  CRN_TRACE_END(context, start, "engine", NULL, "Clean up");
  cairn_context_release(context);
}

// --- further ones -----------------------------------------------------------------------------------------------------

static cairn_status take_states(cairn_llm *llm, const cairn_llm *from, int64_t n) {
  if (!from) return crn_llm_states_initialize(&llm->states, llm->context, &llm->model->contract, &llm->model->settings.states);
  CRN_TRY(crn_llm_states_fork(&from->states, n, &llm->states));
  CRN_TRY(crn_llm_snapshots_share(&from->snapshots, &llm->context->allocator, n, &llm->snapshots));
  const crn_llm_snapshot *s = crn_llm_snapshots_find(&llm->snapshots, n);
  if (n < from->history.n && s && s->n == n) CRN_TRY(crn_llm_snapshot_restore(s, &llm->states));
  CRN_TRY(crn_history_append(&llm->history, from->history.tokens, n));
  return crn_history_reserve(&llm->history, llm->states.capacity);
}

// A sequence of the model; as the first `n` tokens of `from`, unless that is NULL.
static cairn_status create(crn_llm_model *model, const cairn_llm *from, int64_t n, cairn_llm **out_llm) {
  cairn_llm *llm;
  *out_llm = NULL;
  crn_llm_model_retain(model);
  cairn_status status = crn_llm_sequence_allocate(model, model->settings.waits, &llm);
  if (status != CAIRN_OK) {
    crn_llm_model_release(model);
    return status;
  }
  status = take_states(llm, from, n);
  llm->max_context = llm->states.limit;
  if (status == CAIRN_OK) status = crn_llm_sequence_start(llm);
  if (status != CAIRN_OK) {
    cairn_llm_close(llm);
    return status;
  }
  *out_llm = llm;
  return CAIRN_OK;
}

cairn_status crn_llm_sequence_create(crn_llm_model *model, cairn_llm **out_llm) { return create(model, NULL, 0, out_llm); }

cairn_status cairn_llm_create_sequence(const cairn_llm *llm, cairn_llm **out_llm) {
  CRN_REQUIRE(out_llm);
  *out_llm = NULL;
  CRN_REQUIRE(llm);
  return create(llm->model, NULL, 0, out_llm);
}

// Callers that hold the sequence.
static cairn_status fork_sequence(cairn_llm *llm, int64_t n_tokens, cairn_llm **out_fork) {
  const int64_t held = llm->history.n, n = n_tokens < 0 ? held : n_tokens;
  if (n > held) return CRN_FAIL(OUT_OF_RANGE, "a fork at token %lld of a sequence of %lld", (long long)n, (long long)held);
  if (llm->is_dirty)
    return CRN_FAIL(FAILED_PRECONDITION, "a run failed before, so the states hold no known tokens: reset to 0 before a fork");
  if (n == 0) return create(llm->model, NULL, 0, out_fork);
  if (crn_llm_reachable(llm, n) != n)
    return CRN_FAIL(UNSUPPORTED,
                    "the model keeps a running state that cannot be cut back to %lld tokens: a fork is possible at %lld and %lld",
                    (long long)n, (long long)crn_llm_reachable(llm, n), (long long)held);
  return create(llm->model, llm, n, out_fork);
}

cairn_status cairn_llm_trim(cairn_llm *llm, int64_t n, int64_t *out_kept) {
  CRN_REQUIRE(llm);
  CRN_REQUIRE(out_kept);
  *out_kept = 0;
  CRN_TRY(crn_llm_acquire(llm));
  const int64_t kept = crn_llm_reachable(llm, n);
  cairn_status status = crn_llm_go_back(llm, kept);
  if (status == CAIRN_OK) *out_kept = kept;
  crn_llm_yield(llm);
  return status;
}

cairn_status cairn_llm_fork(cairn_llm *llm, int64_t n_tokens, cairn_llm **out_fork) {
  CRN_REQUIRE(out_fork);
  *out_fork = NULL;
  CRN_REQUIRE(llm);
  CRN_TRY(crn_llm_acquire(llm));
  cairn_status status = fork_sequence(llm, n_tokens, out_fork);
  crn_llm_yield(llm);
  return status;
}

static cairn_status register_prefix(cairn_llm *llm, int64_t n_tokens) {
  const int64_t held = llm->history.n, n = n_tokens < 0 ? held : n_tokens;
  if (!llm->model->shelf.most_bytes)
    return CRN_FAIL(FAILED_PRECONDITION, "the engine was opened without memory for prefixes (prefix_bytes)");
  if (n > held) return CRN_FAIL(OUT_OF_RANGE, "a prefix of %lld tokens of a sequence of %lld", (long long)n, (long long)held);
  if (crn_llm_reachable(llm, n) != n)
    return CRN_FAIL(UNSUPPORTED, "the model keeps a running state that is not known at token %lld: possible are %lld and %lld",
                    (long long)n, (long long)crn_llm_reachable(llm, n), (long long)held);
  crn_llm_take_snapshot(llm);
  return crn_llm_shelf_put_copy(llm, n);
}

cairn_status cairn_llm_register_prefix(cairn_llm *llm, int64_t n_tokens) {
  CRN_REQUIRE(llm);
  CRN_TRY(crn_llm_acquire(llm));
  cairn_status status = register_prefix(llm, n_tokens);
  crn_llm_yield(llm);
  return status;
}
