/// One step of a batch: who takes part, the runs, and what comes of them.
#include <string.h>

#include "base/trace.h"
#include "engines/llm/batch.h"

// --- who takes part ---------------------------------------------------------------------------------------------------

// Ended members stay in the list until they are taken, and are none of a step's concern.
static cairn_status list_active(cairn_llm_batch *b) {
  cairn_status status = CAIRN_OK;
  b->active.size = 0;
  pthread_mutex_lock(&b->lock);
  for (size_t i = 0; i < b->members.size && status == CAIRN_OK; i++) {
    if (!atomic_load(&b->members.items[i]->has_ended)) status = crn_vec_push(&b->context->allocator, &b->active, b->members.items[i]);
  }
  pthread_mutex_unlock(&b->lock);
  return status;
}

static void end_member(cairn_llm_batch *b, crn_batch_member *m) {
  crn_batch_return_sequence(b, crn_batch_member_end(m, b->prototype));
  crn_batch_return_drafter(b, m);
}

// Cancelling is asked for by any thread; callbacks that ask for it are asked in front of each run, as by a sequence alone.
static void end_cancelled(cairn_llm_batch *b) {
  for (size_t i = 0; i < b->active.size; i++) {
    crn_batch_member *m = b->active.items[i];
    const cairn_generate_options *o = &m->options;
    if (!atomic_load(&m->is_cancelled) && !(o->should_cancel && o->should_cancel(o->user))) continue;
    crn_generator_end(&m->generator, CAIRN_STOP_CANCELLED);
    end_member(b, m);
  }
}

// Gives sequences to those that wait, as far as there are any. Who waits for the beginning of its prompt keeps its place meanwhile.
static void admit(cairn_llm_batch *b) {
  int n = 0;
  for (size_t i = 0; i < b->active.size; i++) {
    const crn_batch_phase phase = b->active.items[i]->phase;
    n += phase == CRN_BATCH_PROMPT || phase == CRN_BATCH_DECODE;
  }
  for (size_t i = 0; i < b->active.size && n < b->options.max_sequences; i++) {
    crn_batch_member *m = b->active.items[i];
    cairn_llm *llm;
    bool keep;
    if (m->phase != CRN_BATCH_WAITING) continue;
    if (crn_batch_waits_for_prefix(b, m)) {
      n++;
      continue;
    }
    cairn_status status = crn_batch_find_sequence(b, m, &llm, &keep);
    if (status == CAIRN_OK) status = crn_batch_member_begin(m, llm, keep);
    n++;
    if (status == CAIRN_OK) continue;
    crn_batch_member_fail(m, status);
    end_member(b, m);
    n--;
  }
}

static int count_phase(const cairn_llm_batch *b, crn_batch_phase phase) {
  int n = 0;
  for (size_t i = 0; i < b->active.size; i++) n += b->active.items[i]->phase == phase;
  return n;
}

static int64_t budget_of(const cairn_llm_batch *b, int n_decoding) {
  const int64_t most = b->prototype->model->chunk;
  if (n_decoding == 0) return most;
  return b->options.max_step_tokens ? b->options.max_step_tokens : crn_batch_pace_budget(&b->pace, b->options.max_step_seconds, most);
}

// Prompts take turns: whoever is first in a step may use the whole budget, and the next step begins with the next one.
static void share_budget(cairn_llm_batch *b, int n_prompts, const crn_batch_load_now *now) {
  int64_t budget = budget_of(b, now->n_decoding) - now->n_drafts, first = n_prompts ? b->turn++ % n_prompts : 0;
  for (int64_t turn = 0; turn < n_prompts; turn++) {
    const int64_t wanted = (first + turn) % n_prompts;
    int64_t at = 0;
    for (size_t i = 0; i < b->active.size; i++) {
      crn_batch_member *m = b->active.items[i];
      if (m->phase != CRN_BATCH_PROMPT || at++ != wanted) continue;
      // What is left for the others must be worth a piece; where nothing else is computed, something is.
      if (turn > 0 && budget < CRN_BATCH_LEAST) return;
      m->n = crn_batch_member_piece(m, budget);
      budget -= m->n;
    }
  }
}

static void choose_pieces(cairn_llm_batch *b, crn_batch_load_now *now) {
  now->n_decoding = count_phase(b, CRN_BATCH_DECODE);
  for (size_t i = 0; i < b->active.size; i++) b->active.items[i]->n = 0;
  crn_batch_make_drafts(b, now);
  share_budget(b, count_phase(b, CRN_BATCH_PROMPT), now);
  for (size_t i = 0; i < b->active.size; i++) {
    if (b->active.items[i]->phase == CRN_BATCH_PROMPT) now->n_prompt_tokens += b->active.items[i]->n;
  }
}

// --- the runs ---------------------------------------------------------------------------------------------------------

static cairn_status prepare(crn_batch_member *m) {
  cairn_llm *llm = m->generator.llm;
  const crn_llm_driver *d = llm->model->driver;
  m->call.function = NULL;
  m->start = crn_trace_begin(llm->context);
  if (m->phase == CRN_BATCH_DECODE) CRN_TRY(crn_llm_feed_reserve(llm, m->n));
  return d->prepare ? d->prepare(llm, &m->feed, m->at, m->n, &m->call) : CAIRN_OK;
}

static void run_apart(crn_batch_member *m) {
  cairn_llm *llm = m->generator.llm;
  bool started = false;
  m->run_status = llm->model->driver->run(llm, &m->feed, m->at, m->n, &m->call.rows, &started);
  if (m->run_status != CAIRN_OK && started) llm->is_dirty = true;
  if (m->run_status != CAIRN_OK) crn_batch_member_fail(m, m->run_status);
}

// The failure of one of several runs is known by its code; the text is that of the first one.
static void take_statuses(cairn_llm_batch *b, cairn_status first) {
  bool is_told = false;
  for (size_t i = 0; i < b->together.size; i++) {
    crn_batch_member *m = b->together.items[i];
    m->run_status = b->statuses.items[i];
    if (m->run_status == CAIRN_OK) continue;
    m->generator.llm->is_dirty = true;
    if (is_told || m->run_status != first) crn_fail(m->run_status, __FILE__, __LINE__, "the run of %lld tokens failed", (long long)m->n);
    crn_batch_member_fail(m, m->run_status);
    is_told = true;
  }
}

// All runs of one function.
static cairn_status run_function(cairn_llm_batch *b, size_t from) {
  const cairn_allocator *a = &b->context->allocator;
  cairn_function *function = b->active.items[from]->call.function;
  b->together.size = b->args.size = b->statuses.size = 0;
  for (size_t i = from; i < b->active.size; i++) {
    crn_batch_member *m = b->active.items[i];
    if (!m->n || m->call.function != function) continue;
    CRN_TRY(crn_vec_push(a, &b->together, m));
    CRN_TRY(crn_vec_push(a, &b->args, m->call.args));
    CRN_TRY(crn_vec_push(a, &b->statuses, CAIRN_OK));
  }
  for (size_t i = 0; i < b->together.size; i++) b->together.items[i]->call.function = NULL;
  take_statuses(b, cairn_function_run_batch(function, b->args.items, (int)b->args.size, NULL, b->statuses.items));
  return CAIRN_OK;
}

static cairn_status make_runs(cairn_llm_batch *b) {
  for (size_t i = 0; i < b->active.size; i++) {
    crn_batch_member *m = b->active.items[i];
    if (!m->n) continue;
    m->run_status = prepare(m);
    if (m->run_status != CAIRN_OK) {
      crn_batch_member_fail(m, m->run_status);
      m->n = 0;
    } else if (!m->call.function) {
      run_apart(m);
    }
  }
  for (size_t i = 0; i < b->active.size; i++) {
    if (b->active.items[i]->n && b->active.items[i]->call.function) CRN_TRY(run_function(b, i));
  }
  return CAIRN_OK;
}

// --- what comes of them -----------------------------------------------------------------------------------------------

static cairn_status go_on(cairn_llm_batch *b, crn_batch_member *m, const crn_batch_load_now *now) {
  cairn_llm *llm = m->generator.llm;
  const int64_t before = llm->history.n;
  const bool was_decode = m->phase == CRN_BATCH_DECODE;
  CRN_TRY(crn_llm_feed_take(llm, &m->feed, m->at, m->n, &m->call.rows));
  CRN_TRACE_END(llm->context, m->start, "engine", NULL, "%s %lld+%lld of sequence %lld", was_decode ? "Decode step" : "Prompt",
                (long long)before, (long long)m->n, (long long)m->id);
  llm->n_runs++;
  m->at += m->n;
  crn_batch_member_count(m, m->n, was_decode);
  crn_batch_member_keep_point(m);
  if (m->at < m->feed.n) return CAIRN_OK;
  if (!was_decode) {
    llm->model->driver->trim(llm);
    CRN_TRY(crn_batch_member_open_drafts(b, m));
  }
  if (atomic_load(&m->is_cancelled)) atomic_store(&llm->turn.is_cancelled, true);
  if (was_decode && m->generator.speculator) CRN_TRY(crn_batch_member_take_drafts(b, m, now));
  return crn_batch_member_go_on(m);
}

static void take_results(cairn_llm_batch *b, const crn_batch_load_now *now, cairn_llm_batch_step_info *info) {
  for (size_t i = 0; i < b->active.size; i++) {
    crn_batch_member *m = b->active.items[i];
    if (m->phase == CRN_BATCH_OVER) continue;
    if (m->n && m->run_status == CAIRN_OK) {
      const size_t before = m->result->tokens.size;
      if (m->phase == CRN_BATCH_PROMPT) info->prompt_tokens += m->n;
      cairn_status status = go_on(b, m, now);
      if (status != CAIRN_OK) crn_batch_member_fail(m, status);
      info->tokens += (int64_t)(m->result->tokens.size - before);
    }
    if (m->generator.is_over) end_member(b, m);
  }
}

// Only now may other threads take the results: the step is done with its members.
static void count(cairn_llm_batch *b, cairn_llm_batch_step_info *info) {
  for (size_t i = 0; i < b->active.size; i++) {
    if (b->active.items[i]->phase == CRN_BATCH_OVER) atomic_store(&b->active.items[i]->has_ended, true);
  }
  b->active.size = 0;
  pthread_mutex_lock(&b->lock);
  for (size_t i = 0; i < b->members.size; i++) {
    const crn_batch_phase phase = b->members.items[i]->phase;
    info->n_waiting += phase == CRN_BATCH_WAITING;
    info->n_prompting += phase == CRN_BATCH_PROMPT;
    info->n_generating += phase == CRN_BATCH_DECODE;
    info->n_ended += phase == CRN_BATCH_OVER;
  }
  pthread_mutex_unlock(&b->lock);
  info->n_active = info->n_waiting + info->n_prompting + info->n_generating;
  info->budget = budget_of(b, info->n_generating);
}

static cairn_status step(cairn_llm_batch *b, cairn_llm_batch_step_info *info) {
  const double start = crn_seconds_now();
  crn_batch_load_now now = {0};
  cairn_status status = list_active(b);
  if (status != CAIRN_OK) b->active.size = 0;
  end_cancelled(b);
  admit(b);
  choose_pieces(b, &now);
  const double runs_start = crn_seconds_now();
  if (status == CAIRN_OK) status = make_runs(b);
  now.seconds = crn_seconds_now() - runs_start;
  // What was run is kept even when there was no memory to run the rest: that is run by the next step.
  for (size_t i = 0; i < b->active.size && status != CAIRN_OK; i++) {
    if (b->active.items[i]->call.function) b->active.items[i]->n = 0;
  }
  if (status == CAIRN_OK && now.n_decoding && !now.n_prompt_tokens)
    crn_batch_pace_runs(&b->pace, now.n_decoding, now.n_drafts, now.seconds);
  take_results(b, &now, info);
  info->seconds = crn_seconds_now() - start;
  info->draft_tokens = now.n_drafts;
  if (status == CAIRN_OK && info->prompt_tokens + now.n_decoding)
    crn_batch_pace_measure(&b->pace, info->seconds, info->prompt_tokens, now.n_decoding);
  count(b, info);
  return status;
}

cairn_status cairn_llm_batch_step(cairn_llm_batch *b, cairn_llm_batch_step_info *out_info) {
  CRN_REQUIRE_NAMED(b, "batch");
  cairn_llm_batch_step_info info = {0};
  bool expected = false;
  if (!atomic_compare_exchange_strong(&b->is_stepping, &expected, true)) return CRN_FAIL(BUSY, "a step of the batch is going on");
  cairn_status status = step(b, &info);
  atomic_store(&b->is_stepping, false);
  if (out_info) *out_info = info;
  return status;
}
