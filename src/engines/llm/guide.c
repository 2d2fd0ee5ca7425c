#include "engines/llm/guide.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/failure.h"
#include "base/log.h"
#include "base/trace.h"
#include "cairn/grammar.h"

enum { MAX_FORCED_BYTES = 256, POLL_MILLISECONDS = 20 };

// A mask that takes this long, of the processor's time, makes a model wait; it was made for a text that can be read in ever more ways.
static const double SLOW_SECONDS = 0.2;

typedef struct crn_guide {
  cairn_context *context;
  cairn_matcher *matcher;  ///< of the helper while it works, else of the thread that chooses
  uint32_t *mask;
  size_t n_words;
  int64_t n_allowed;
  char forced[MAX_FORCED_BYTES];
  size_t n_forced;
  bool has_stops, has_warned;
  atomic_bool was_cancelled;
  CRN_VEC(unsigned char) complete;  ///< by token chosen: whether the text was complete behind it. Of the thread that chooses
  bool was_complete;                ///< before the first token
  atomic_llong last;                ///< index of the token behind which nothing may follow; -1 = not met
  double mask_seconds, wait_seconds;
  int64_t n_masks;
  // The helper.
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  enum { IDLE, ASKED, FORCED_KNOWN, LEAVING } state;  ///< guarded by the lock
  cairn_status status;                                ///< of the helper's last work
  crn_failure *failure;
} crn_guide;

// --- making masks -------------------------------------------------------------------------------------------------------------------

static void set_state(crn_guide *u, int state) {
  pthread_mutex_lock(&u->lock);
  u->state = state;
  pthread_cond_broadcast(&u->changed);
  pthread_mutex_unlock(&u->lock);
}

// Told once. The first masks of a grammar may be slow, too, and so may a machine that does something else.
static void warn(crn_guide *u, double seconds) {
  if (u->has_warned || seconds < SLOW_SECONDS) return;
  u->has_warned = true;
  CRN_WARN(u->context,
           "the grammar makes masks slow: %.1f s for that of token %lld. It can be read in many ways (loops within loops over the same "
           "characters, rules that follow themselves), and all are kept apart; later tokens take longer still",
           seconds, (long long)u->n_masks);
}

static double processor_seconds(void) {
  struct timespec t;
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec * 1e-9 : 0;
}

// What must follow is known at once; it is wanted before the mask is.
static void make_mask(crn_guide *u) {
  const int64_t traced = crn_trace_begin(u->context);
  const double start = crn_seconds_now(), processor = processor_seconds();
  u->n_forced = 0;
  u->status = cairn_matcher_forced(u->matcher, u->forced, sizeof u->forced, &u->n_forced);
  if (u->has_thread) set_state(u, FORCED_KNOWN);
  if (u->status == CAIRN_OK) u->status = cairn_matcher_mask(u->matcher, u->mask, u->n_words, &u->n_allowed);
  if (u->status != CAIRN_OK) u->failure = crn_failure_capture(&u->context->allocator);
  u->mask_seconds += crn_seconds_now() - start;
  if (u->status == CAIRN_OK) warn(u, processor_seconds() - processor);
  CRN_TRACE_END(u->context, traced, "engine", NULL, "Mask %lld", (long long)u->n_masks);
  u->n_masks++;
}

static void *work(void *user) {
  crn_guide *u = user;
  for (;;) {
    pthread_mutex_lock(&u->lock);
    while (u->state != ASKED && u->state != LEAVING) pthread_cond_wait(&u->changed, &u->lock);
    const bool is_leaving = u->state == LEAVING;
    pthread_mutex_unlock(&u->lock);
    if (is_leaving) return NULL;
    make_mask(u);
    set_state(u, IDLE);
  }
}

// Begins with the mask of the next choice.
static void ask(crn_guide *u) {
  if (u->has_thread) {
    set_state(u, ASKED);
  } else {
    make_mask(u);
  }
}

// Waits for the helper: for what must follow, or for all of its work.
static void await(crn_guide *u, bool all) {
  if (!u->has_thread) return;
  const double start = crn_seconds_now();
  pthread_mutex_lock(&u->lock);
  while (u->state == ASKED || (all && u->state == FORCED_KNOWN)) pthread_cond_wait(&u->changed, &u->lock);
  pthread_mutex_unlock(&u->lock);
  u->wait_seconds += crn_seconds_now() - start;
}

// --- cancelling ---------------------------------------------------------------------------------------------------------------------

void crn_guide_cancel(crn_guide *u) {
  atomic_store(&u->was_cancelled, true);
  cairn_matcher_cancel(u->matcher);
}

bool crn_guide_was_cancelled(const crn_guide *u) { return atomic_load(&((crn_guide *)u)->was_cancelled); }

// Whether the helper is idle; waits for it for a while.
static bool is_idle(crn_guide *u) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += POLL_MILLISECONDS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  pthread_mutex_lock(&u->lock);
  int waited = 0;
  while ((u->state == ASKED || u->state == FORCED_KNOWN) && waited == 0) waited = pthread_cond_timedwait(&u->changed, &u->lock, &until);
  const bool idle = u->state != ASKED && u->state != FORCED_KNOWN;
  pthread_mutex_unlock(&u->lock);
  return idle;
}

bool crn_guide_is_cancelled(crn_generator *g) {
  crn_guide *u = g->guide;
  if (!u || !u->has_thread) return false;
  const double start = crn_seconds_now();
  bool cancelled = false;
  while (!cancelled && !is_idle(u)) cancelled = crn_generator_should_stop(g);
  if (cancelled) crn_guide_cancel(u);
  u->wait_seconds += crn_seconds_now() - start;
  return cancelled;
}

// --- choosing -------------------------------------------------------------------------------------------------------------------------

static void apply(const crn_guide *u, float *row, int64_t n) {
  for (int64_t i = 0; i < n; i += 32) {
    const uint32_t word = u->mask[i / 32];
    const int64_t end = i + 32 < n ? i + 32 : n;
    if (word == UINT32_MAX) continue;
    for (int64_t k = i; k < end; k++) row[k] = word >> (k - i) & 1 ? row[k] : -INFINITY;
  }
}

cairn_status crn_guide_mask(crn_guide *u, float *row, int64_t n) {
  await(u, true);
  if (u->status != CAIRN_OK) return crn_failure_restore(u->failure, u->status);
  if (u->n_allowed == 0) {
    if (cairn_matcher_is_complete(u->matcher)) return CRN_FAIL(CANCELLED, "the grammar is over");
    return CRN_FAIL(FAILED_PRECONDITION, "no token of the vocabulary can go on with the text the grammar asks for");
  }
  apply(u, row, n);
  return CAIRN_OK;
}

cairn_status crn_guide_take(crn_guide *u, int32_t token) {
  bool accepted;
  await(u, true);
  CRN_TRY(cairn_matcher_accept(u->matcher, token, &accepted));
  if (!accepted) return CRN_FAIL(INTERNAL, "token %d is in the mask of the grammar, but does not match it", token);
  const bool is_complete = cairn_matcher_is_complete(u->matcher);
  CRN_TRY(crn_vec_push(&u->context->allocator, &u->complete, (unsigned char)is_complete));
  ask(u);
  if (u->has_stops || !is_complete) return CAIRN_OK;
  // Without a stop id the caller has to know now whether this was the last token.
  await(u, true);
  if (u->status == CAIRN_OK && u->n_allowed == 0) atomic_store(&u->last, (long long)u->complete.size - 1);
  return CAIRN_OK;
}

bool crn_guide_is_last(const crn_guide *u, int64_t index) { return atomic_load(&((crn_guide *)u)->last) == index; }

// The longest row of tokens whose bytes the text goes on with. The last token of a text may be another one when more follows, so it is
// left out.
int crn_guide_forced(crn_generator *g, int32_t *tokens, int max) {
  crn_guide *u = g->guide;
  const cairn_tokenizer *t = g->llm->model->text.tokenizer;
  int32_t ids[MAX_FORCED_BYTES];
  size_t n_ids, at = 0;
  int n = 0;
  if (!u) return 0;
  // The mask may still be in the making.
  await(u, false);
  if (u->n_forced < 2) return 0;
  if (cairn_tokenizer_encode_whole(t, u->forced, u->n_forced, false, ids, MAX_FORCED_BYTES, &n_ids) != CAIRN_OK) return 0;
  for (size_t i = 0; i < n_ids && i < MAX_FORCED_BYTES && n < max; i++) {
    char bytes[MAX_FORCED_BYTES];
    size_t n_bytes;
    if (cairn_tokenizer_token_bytes(t, ids[i], bytes, sizeof bytes, &n_bytes) != CAIRN_OK || !n_bytes) break;
    if (at + n_bytes >= u->n_forced || memcmp(bytes, u->forced + at, n_bytes)) break;
    tokens[n++] = ids[i];
    at += n_bytes;
  }
  return n;
}

// --- beginning and ending ---------------------------------------------------------------------------------------------------------------

// The compiler of the model, made when the first grammar comes. Sequences of one model may meet here.
static cairn_status compiler_of(crn_llm_model *model, cairn_grammar_compiler **out) {
  cairn_grammar_compiler *made, *none = NULL;
  *out = atomic_load(&model->grammars);
  if (*out) return CAIRN_OK;
  CRN_TRY(cairn_grammar_compiler_create(model->context, model->text.tokenizer, model->contract.vocab_size, &made));
  if (!atomic_compare_exchange_strong(&model->grammars, &none, made)) {
    cairn_grammar_compiler_release(made);
    made = none;
  }
  *out = made;
  return CAIRN_OK;
}

// All ids that end the generation by themselves.
static cairn_status find_stops(const crn_generator *g, crn_id_vec *ids) {
  const cairn_generate_options *o = g->options;
  const crn_llm_text *text = &g->llm->model->text;
  const cairn_allocator *a = &g->llm->context->allocator;
  for (size_t i = 0; i < o->n_stop_ids; i++) CRN_TRY(crn_vec_push(a, ids, o->stop_ids[i]));
  for (size_t i = 0; i < text->stop_ids.size && !o->ignore_eos; i++) CRN_TRY(crn_vec_push(a, ids, text->stop_ids.items[i]));
  for (int i = 0; i < o->n_stop; i++) {
    const int32_t id = cairn_tokenizer_id(text->tokenizer, o->stop[i]);
    cairn_stop_reason reason;
    if (id >= 0 && crn_generator_is_stop(g, id, &reason)) CRN_TRY(crn_vec_push(a, ids, id));
  }
  return CAIRN_OK;
}

static cairn_status make_matcher(crn_generator *g, crn_guide *u) {
  cairn_grammar_compiler *compiler;
  cairn_grammar *grammar;
  crn_id_vec stops = {0};
  CRN_TRY(compiler_of(g->llm->model, &compiler));
  CRN_TRY(cairn_grammar_compile(compiler, &g->options->guide, &grammar));
  cairn_status status = find_stops(g, &stops);
  if (status == CAIRN_OK) status = cairn_matcher_create(grammar, stops.items, stops.size, &u->matcher);
  u->has_stops = stops.size > 0;
  u->n_words = ((size_t)cairn_grammar_vocab_size(grammar) + 31) / 32;
  crn_vec_free(&u->context->allocator, &stops);
  cairn_grammar_release(grammar);
  CRN_TRY(status);
  u->was_complete = cairn_matcher_is_complete(u->matcher);
  return crn_alloc_array(&u->context->allocator, u->n_words, sizeof *u->mask, &u->mask);
}

cairn_status crn_guide_begin(crn_generator *g) {
  crn_guide *u;
  if (g->options->guide.kind == CAIRN_GRAMMAR_NONE) return CAIRN_OK;
  if (g->is_forced) return CRN_FAIL(INVALID_ARGUMENT, "tokens are forced or guided by a grammar, not both");
  CRN_TRY(crn_llm_text_need_tokenizer(&g->llm->model->text));
  CRN_TRY(crn_alloc_zero(&g->llm->context->allocator, sizeof *u, &u));
  g->guide = u;
  u->context = g->llm->context;
  u->last = -1;
  pthread_mutex_init(&u->lock, NULL);
  pthread_cond_init(&u->changed, NULL);
  CRN_TRY(make_matcher(g, u));
  // Without a helper the masks are made where they are needed.
  u->has_thread = pthread_create(&u->thread, NULL, work, u) == 0;
  ask(u);
  if (u->has_stops || !u->was_complete) return CAIRN_OK;
  await(u, true);
  // The only text is the empty one.
  if (u->status == CAIRN_OK && u->n_allowed == 0) crn_generator_end(g, CAIRN_STOP_GRAMMAR);
  return CAIRN_OK;
}

// A text that was cut at a stop text is not what the matcher saw.
static void tell(const crn_generator *g, const crn_guide *u) {
  cairn_generation *r = g->result;
  const size_t n = r->tokens.size;
  r->is_guided = true;
  r->is_complete = !g->has_cut && (n == 0 ? u->was_complete : n <= u->complete.size && u->complete.items[n - 1]);
  r->mask_seconds = u->mask_seconds;
  r->mask_wait_seconds = u->wait_seconds;
}

void crn_guide_end(crn_generator *g) {
  crn_guide *u = g->guide;
  if (!u) return;
  g->guide = NULL;
  // Nobody waits for a mask that is still in the making.
  if (u->matcher) cairn_matcher_cancel(u->matcher);
  await(u, true);
  if (u->has_thread) {
    set_state(u, LEAVING);
    pthread_join(u->thread, NULL);
  }
  if (u->matcher) tell(g, u);
  crn_failure_release(u->failure);
  cairn_matcher_destroy(u->matcher);
  crn_free(&u->context->allocator, u->mask, u->n_words * sizeof *u->mask);
  crn_vec_free(&u->context->allocator, &u->complete);
  pthread_cond_destroy(&u->changed);
  pthread_mutex_destroy(&u->lock);
  crn_free(&u->context->allocator, u, sizeof *u);
}
