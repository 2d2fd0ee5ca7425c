#include "engines/llm/pipelined.h"

#include <pthread.h>
#include <string.h>

#include "base/failure.h"
#include "base/trace.h"
#include "cairn/stream.h"
#include "engines/llm/guide.h"
#include "engines/llm/logits.h"

/// A step that may be on its way. What the stream writes is read by the caller's thread once the step is done, or the stream is idle.
typedef struct slot {
  struct crn_pipeline *pipeline;
  crn_llm_arrays arrays;  ///< `ids` is written by the call of the step before
  int32_t token;
  bool has_run;  ///< the row of the token it was fed is in the states
  bool is_stop;  ///< the token ends the generation
  bool is_done;  ///< guarded by the lock
  cairn_status status;
  crn_failure *failure;
} slot;

typedef struct crn_pipeline {
  cairn_context *context;
  cairn_stream *stream;
  int depth;
  slot slots[CRN_PIPELINE_MAX_DEPTH];
  float *row;  ///< of the stream: logits of the step that chooses
  int64_t vocab_size;
  pthread_mutex_t lock;
  pthread_cond_t done;
  crn_pipeline_counts counts;
  // Of the generation that is going on.
  crn_generator *generator;
  int64_t base;       ///< tokens of the history when it began
  int64_t n_encoded;  ///< steps queued
  int64_t n_given;    ///< steps whose token was handed out
  cairn_value *last;  ///< the token of the last step queued
  atomic_bool is_leaving;
  bool is_cut;          ///< a call failed: the runs behind it did not run
  bool is_loose;        ///< a run was queued whose call could not be: nobody tells whether it ran
  cairn_status status;  ///< of queuing a step: what comes behind the last one that is queued
  crn_failure *failure;
} crn_pipeline;

static slot *slot_of(crn_pipeline *p, int64_t step) { return &p->slots[step % p->depth]; }
static slot *next_slot(slot *s) { return &s->pipeline->slots[(s - s->pipeline->slots + 1) % s->pipeline->depth]; }

// --- opening and closing ----------------------------------------------------------------------------------------------

static void destroy(crn_pipeline *p) {
  cairn_context *c = p->context;
  cairn_stream_destroy(p->stream);
  for (int i = 0; i < p->depth; i++) crn_llm_arrays_release(&p->slots[i].arrays);
  if (p->row) crn_free(&c->allocator, p->row, (size_t)p->vocab_size * sizeof *p->row);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
  crn_free(&c->allocator, p, sizeof *p);
}

void crn_pipeline_close(cairn_llm *llm) {
  if (llm->pipeline) destroy(llm->pipeline);
  llm->pipeline = NULL;
}

static cairn_status fill(const cairn_llm *llm, crn_pipeline *p) {
  // A step is two works, or three with one that makes embeddings. Room for all of them means that queuing never waits.
  const cairn_stream_options options = {.max_queued = 3 * p->depth + 1, .busy_when_full = true, .n_workers = 1};
  CRN_TRY(crn_alloc_array(&p->context->allocator, (size_t)p->vocab_size, sizeof *p->row, &p->row));
  for (int i = 0; i < p->depth; i++) {
    p->slots[i].pipeline = p;
    CRN_TRY(crn_llm_arrays_create(llm, &llm->runner, 1, 1, &p->slots[i].arrays));
  }
  return cairn_stream_create(p->context, &options, &p->stream);
}

static cairn_status open(cairn_llm *llm) {
  crn_pipeline *p;
  if (llm->pipeline) return CAIRN_OK;
  CRN_TRY(crn_alloc_zero(&llm->context->allocator, sizeof *p, &p));
  p->context = llm->context;
  p->depth = llm->model->pipeline_depth;
  p->vocab_size = llm->model->contract.vocab_size;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->done, NULL);
  cairn_status status = fill(llm, p);
  if (status != CAIRN_OK) {
    destroy(p);
    return status;
  }
  llm->pipeline = p;
  return CAIRN_OK;
}

static bool can_run_ahead(const crn_llm_contract *c) { return !c->stateless && !c->host_cache; }

// A window of the caches gives back what it has passed by.
static bool can_be_cut(const cairn_llm *llm) {
  return crn_llm_can_cut(&llm->model->contract, llm->max_context) && llm->states.strategy != CRN_LLM_KV_CHUNKED;
}

cairn_status crn_pipeline_choose_depth(cairn_llm *llm, int asked) {
  const crn_llm_contract *c = &llm->model->contract;
  if (asked < 0 || asked > CRN_PIPELINE_MAX_DEPTH)
    return CRN_FAIL(INVALID_ARGUMENT, "pipeline_depth is %d; 1 to %d expected (0 = %d)", asked, CRN_PIPELINE_MAX_DEPTH, CRN_PIPELINE_DEPTH);
  const char *why = c->stateless       ? "every run takes the whole sequence"
                    : c->host_cache    ? "the caches are no states: what a run gives is put into them"
                    : !can_be_cut(llm) ? "what a token did to the states cannot be taken back, so none may be run in vain"
                                       : NULL;
  llm->model->pipeline_depth = why ? 1 : asked ? asked : CRN_PIPELINE_DEPTH;
  return why ? crn_llm_decide(llm, "pipeline_depth", "1", "%s", why) : CAIRN_OK;
}

crn_pipeline_counts crn_pipeline_count(const cairn_llm *llm) { return llm->pipeline ? llm->pipeline->counts : (crn_pipeline_counts){0}; }

// --- on the stream ------------------------------------------------------------------------------------------------------

// Chooses the token of a step by its row. A token that ends the generation is a failure, for what is queued behind one does not run.
static cairn_status choose_token(crn_pipeline *p, slot *s, const cairn_ndarray *logits) {
  crn_generator *g = p->generator;
  float *row = logits ? p->row : g->llm->runner.row;  // the first token is chosen by the row of the prompt
  cairn_stop_reason reason;
  if (atomic_load(&p->is_leaving)) return CRN_FAIL(CANCELLED, "the generation is over");
  if (logits) crn_logits_widen(NULL, cairn_ndarray_dtype(logits), cairn_ndarray_data(logits), row, p->vocab_size);
  CRN_TRY(crn_generator_choose(g, row, &s->token));
  s->is_stop = crn_generator_is_stop(g, s->token, &reason) || (g->guide && crn_guide_is_last(g->guide, g->n_chosen - 1));
  return s->is_stop ? CRN_FAIL(CANCELLED, "token %d ends the generation", s->token) : CAIRN_OK;
}

static cairn_status choose(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets, int n_targets,
                           cairn_ndarray **out_arrays) {
  slot *s = user;
  crn_pipeline *p = s->pipeline;
  cairn_llm *llm = p->generator->llm;
  (void)n_targets;
  s->has_run = true;
  cairn_status status = choose_token(p, s, n_inputs ? inputs[0].array : NULL);
  if (status != CAIRN_OK) {
    p->is_cut = true;
    return status;
  }
  crn_llm_arrays_set_token(llm, llm->runner.contract, &next_slot(s)->arrays, s->token);
  cairn_ndarray_retain(targets[0].array);
  out_arrays[0] = targets[0].array;
  return CAIRN_OK;
}

// Tells the caller's thread, in the order of the steps. A step that never ran fails with the failure of what it needs.
static void tell(void *user, cairn_status status, cairn_ndarray *array) {
  slot *s = user;
  crn_pipeline *p = s->pipeline;
  (void)array;
  if (status != CAIRN_OK && !s->is_stop) s->failure = crn_failure_capture(&p->context->allocator);
  pthread_mutex_lock(&p->lock);
  s->status = s->is_stop ? CAIRN_OK : status;
  s->is_done = true;
  pthread_cond_signal(&p->done);
  pthread_mutex_unlock(&p->lock);
}

// --- queuing a step -------------------------------------------------------------------------------------------------------

static void clear(slot *s) {
  crn_failure_release(s->failure);
  s->failure = NULL;
  s->token = -1;
  s->has_run = s->is_stop = s->is_done = false;
  s->status = CAIRN_OK;
}

// Rows for one more token. When the caches have to grow, the steps on their way are waited for: they use the caches as they are. Failures
// among them are no concern here, they reach their slots.
static cairn_status reserve(crn_pipeline *p, cairn_llm *llm, int64_t length) {
  if (length > llm->states.capacity) {
    const int64_t start = crn_trace_begin(p->context);
    (void)cairn_stream_wait(p->stream);
    CRN_TRACE_END(p->context, start, "engine", NULL, "Wait to grow %lld", (long long)length);
  }
  const int64_t begin = length > llm->states.capacity ? crn_trace_begin(p->context) : 0;
  CRN_TRY(crn_llm_states_reserve(&llm->states, length, length - 1));
  CRN_TRACE_END(p->context, begin, "engine", NULL, "Grow to %lld rows", (long long)llm->states.capacity);
  CRN_TRY(crn_history_reserve(&llm->history, llm->states.capacity));
  return llm->model->driver->reserve(llm, llm->states.capacity);
}

// The run of a step: it takes the value of the step before.
static cairn_status encode_run(crn_pipeline *p, cairn_llm *llm, const slot *s, int64_t length) {
  const crn_llm_contract *c = llm->runner.contract;
  const crn_llm_embedder *e = &llm->model->embedder;
  cairn_ndarray *positions;
  cairn_stream_input inputs[2 + CRN_LLM_MAX_EXTRAS];
  const cairn_named_array logits = {c->logits->name, s->arrays.logits};
  int n = 0;
  CRN_TRY(crn_llm_runner_positions(&llm->runner, length, &positions));
  if (c->ids) {
    inputs[n++] = (cairn_stream_input){.name = c->ids->name, .value = p->last};
  } else {
    const cairn_stream_input ids = {.name = e->ids->name, .value = p->last};
    const cairn_named_array embeds = {e->embeds->name, s->arrays.embeds};
    CRN_TRY(cairn_stream_encode(p->stream, e->function, &(cairn_encode_args){.inputs = &ids, .n_inputs = 1, .views = &embeds, .n_views = 1},
                                NULL));
    inputs[n++] = (cairn_stream_input){.name = c->embeds->name, .array = s->arrays.embeds};
  }
  if (positions) inputs[n++] = (cairn_stream_input){.name = c->positions->name, .array = positions};
  for (int i = 0; i < c->n_extras; i++) inputs[n++] = (cairn_stream_input){.name = c->extras[i]->name, .array = s->arrays.extras[i]};
  const cairn_encode_args args = {
      .inputs = inputs, .n_inputs = n, .states = llm->states.arrays, .n_states = c->n_states, .views = &logits, .n_views = 1};
  return cairn_stream_encode(p->stream, llm->runner.function, &args, NULL);
}

// The call that chooses the token of a step, and writes it to where the next step takes it from.
static cairn_status encode_choice(crn_pipeline *p, const cairn_llm *llm, slot *s, bool has_row) {
  const crn_llm_contract *c = llm->runner.contract;
  const crn_llm_arrays *next = &next_slot(s)->arrays;
  const cairn_stream_input logits = {.name = "logits", .array = s->arrays.logits};
  cairn_named_array targets[1 + CRN_LLM_MAX_EXTRAS] = {{"token", next->ids}};
  for (int i = 0; i < c->n_extras; i++) targets[1 + i] = (cairn_named_array){c->extras[i]->name, next->extras[i]};
  const cairn_call_args args = {.name = "choose",
                                .call = choose,
                                .user = s,
                                .inputs = &logits,
                                .n_inputs = has_row,
                                .targets = targets,
                                .n_targets = 1 + c->n_extras,
                                .n_outputs = 1};
  cairn_value *chosen;
  CRN_TRY(cairn_stream_encode_call(p->stream, &args, &chosen));
  cairn_value_release(p->last);
  p->last = chosen;
  return cairn_value_on_completed(chosen, tell, s);
}

// Step 0 chooses by the row of the prompt; each later one feeds the token before it.
static cairn_status encode_step(crn_pipeline *p, cairn_llm *llm, int64_t step) {
  slot *s = slot_of(p, step);
  clear(s);
  if (step) {
    CRN_TRY(reserve(p, llm, p->base + step));
    CRN_TRY(encode_run(p, llm, s, p->base + step));
  }
  cairn_status status = encode_choice(p, llm, s, step > 0);
  if (status != CAIRN_OK && step) p->is_loose = true;
  return status;
}

static void encode_ahead(crn_pipeline *p, cairn_llm *llm, int64_t most) {
  while (p->status == CAIRN_OK && p->n_encoded < most && p->n_encoded - p->n_given < p->depth) {
    const int64_t start = crn_trace_begin(p->context);
    p->status = encode_step(p, llm, p->n_encoded);
    CRN_TRACE_END(p->context, start, "engine", NULL, "Encode step %lld", (long long)p->n_encoded);
    if (p->status != CAIRN_OK) {
      p->failure = crn_failure_capture(&p->context->allocator);
      break;
    }
    p->n_encoded++;
    p->counts.n_steps++;
    if (p->n_encoded - p->n_given > p->counts.most_ahead) p->counts.most_ahead = (int)(p->n_encoded - p->n_given);
  }
}

// --- on the caller's thread -------------------------------------------------------------------------------------------------

// A step may wait for a mask for seconds, so whoever has a guide asks meanwhile whether to go on.
static void ask_meanwhile(crn_pipeline *p, crn_generator *g, const slot *s) {
  enum { POLL_NANOSECONDS = 20000000 };
  bool is_done = false;
  while (!is_done) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&p->lock);
    for (int waited = 0; !s->is_done && waited == 0;) waited = pthread_cond_timedwait(&p->done, &p->lock, &until);
    is_done = s->is_done;
    pthread_mutex_unlock(&p->lock);
    if (is_done || !crn_generator_should_stop(g)) continue;
    crn_guide_cancel(g->guide);
    return;
  }
}

static void await(crn_pipeline *p, crn_generator *g, const slot *s) {
  const int64_t start = crn_trace_begin(p->context);
  if (g->guide) ask_meanwhile(p, g, s);
  pthread_mutex_lock(&p->lock);
  while (!s->is_done) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  CRN_TRACE_END(p->context, start, "engine", NULL, "Wait for token %lld", (long long)p->n_given);
}

// Hands out the row a step's token was chosen by.
static cairn_status give_row(const crn_pipeline *p, crn_generator *g, const slot *s, int64_t step) {
  const cairn_generate_options *o = g->options;
  if (!o->on_logits) return CAIRN_OK;
  float *row = g->llm->runner.row;
  crn_logits_widen(NULL, cairn_ndarray_dtype(s->arrays.logits), cairn_ndarray_data(s->arrays.logits), row, p->vocab_size);
  return o->on_logits(o->user, p->base + step - 1, row, p->vocab_size);
}

// Takes the token of a step, and counts the token it was fed.
static cairn_status take(crn_pipeline *p, crn_generator *g, int64_t step) {
  slot *s = slot_of(p, step);
  await(p, g, s);
  if (step && s->has_run) {
    // There was room made for it when it was queued.
    CRN_TRY(crn_history_append(&g->llm->history, &g->result->tokens.items[step - 1], 1));
    g->result->decode_tokens++;
  }
  if (s->status == CAIRN_OK) return CAIRN_OK;
  crn_failure_restore(s->failure, s->status);
  return s->has_run ? s->status : crn_note(s->status, "running 1 token after %lld", (long long)(p->base + step - 1));
}

static cairn_status go_on(crn_pipeline *p, crn_generator *g) {
  cairn_stop_reason full;
  const int64_t most = crn_generator_most(g, &full);
  for (int64_t step = 0; !g->is_over; step++) {
    if (step >= most) {
      crn_generator_end(g, full);
    } else if (crn_generator_should_stop(g)) {
      crn_generator_end(g, CAIRN_STOP_CANCELLED);
    } else {
      encode_ahead(p, g->llm, most);
      if (step >= p->n_encoded) return crn_failure_restore(p->failure, p->status);
      cairn_status status = take(p, g, step);
      if (status == CAIRN_CANCELLED && g->guide && crn_guide_was_cancelled(g->guide)) {
        crn_generator_end(g, CAIRN_STOP_CANCELLED);
        break;
      }
      CRN_TRY(status);
      if (step) CRN_TRY(give_row(p, g, slot_of(p, step), step));
      CRN_TRY(crn_generator_give(g, slot_of(p, step)->token));
      p->n_given = step + 1;
    }
  }
  return CAIRN_OK;
}

// --- the end --------------------------------------------------------------------------------------------------------------

// Rows of steps nobody takes any more are in the states all the same: a later prompt may begin with them.
static cairn_status keep_rows(crn_pipeline *p, crn_generator *g) {
  cairn_llm *llm = g->llm;
  for (int64_t step = llm->history.n - p->base + 1; step < p->n_encoded; step++) {
    if (!slot_of(p, step)->has_run) {
      // A call that fails keeps runs from running; without one, it was the run that failed.
      llm->is_dirty |= !p->is_cut;
      break;
    }
    const int64_t fed = step - 1;
    const bool is_given = fed < (int64_t)g->result->tokens.size;
    CRN_TRY(crn_history_append(&llm->history, is_given ? &g->result->tokens.items[fed] : &slot_of(p, fed)->token, 1));
  }
  llm->is_dirty |= p->is_loose;
  return CAIRN_OK;
}

// Waits until the stream is idle: at most one run goes on, for its call finds that the generation is over. The wait is the sentinel of
// the stream, too: everything it had to tell is told, and failures of its works are over.
static cairn_status leave(crn_pipeline *p, crn_generator *g) {
  const int64_t start = crn_trace_begin(p->context);
  atomic_store(&p->is_leaving, true);
  (void)cairn_stream_wait(p->stream);
  CRN_TRACE_END(p->context, start, "engine", NULL, "Drain");
  cairn_status status = keep_rows(p, g);
  cairn_value_release(p->last);
  crn_failure_release(p->failure);
  p->last = NULL;
  p->failure = NULL;
  for (int i = 0; i < p->depth; i++) clear(&p->slots[i]);
  return status;
}

cairn_status crn_pipelined_decode(crn_generator *g) {
  cairn_llm *llm = g->llm;
  if (!can_run_ahead(&llm->model->contract)) return crn_generator_decode(g);
  CRN_TRY(open(llm));
  crn_pipeline *p = llm->pipeline;
  // Inside of queued work nothing may be waited for.
  if (cairn_stream_wait(p->stream) != CAIRN_OK) return crn_generator_decode(g);
  p->generator = g;
  p->base = llm->history.n;
  p->n_encoded = p->n_given = 0;
  p->is_cut = p->is_loose = false;
  p->status = CAIRN_OK;
  atomic_store(&p->is_leaving, false);
  cairn_status status = go_on(p, g);
  // Waiting must not replace the failure there is; a callback may have failed without a record.
  const bool has_record = status != CAIRN_OK && cairn_last_error()->code == status;
  crn_failure *failure = has_record ? crn_failure_capture(&llm->context->allocator) : NULL;
  cairn_status end = leave(p, g);
  if (status != CAIRN_OK) crn_failure_restore(failure, status);
  crn_failure_release(failure);
  return status != CAIRN_OK ? status : end;
}
