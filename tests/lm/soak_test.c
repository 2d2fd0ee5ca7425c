/// Hours of use in minutes: threads that generate, cancel, cut back, fork, save, restore and misuse sequences of shared models at random,
/// and batches beside them, of members that draft, begin alike and leave at any moment. Whatever happened before, what a sequence gives is
/// what a fresh one gives; nothing hangs, nothing leaks (run it under ASan and TSan). CAIRN_SOAK_SECONDS says how long (default 3),
/// CAIRN_SOAK_SEED repeats a run as far as threads allow.
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "cairn/batch.h"
#include "cairn/session.h"
#include "lm.h"

enum { WORKERS = 3, SLOTS = 3, PROMPT = 160, MOST = 24, VOCAB = 384, MEMBERS = 6 };

typedef struct variant {
  const char *model;
  cairn_llm_options options;
} variant;

static const variant kVariants[] = {
    {"tiny-qwen3-macos", {.engine = "sequential", .kv = "growing", .kv_capacity = 8}},
    {"tiny-qwen3-macos", {.engine = "pipelined", .kv = "paged", .kv_page = 64}},
    {"tiny-mistral-macos", {.engine = "pipelined", .pipeline_depth = 4, .prefill_chunk = 16}},
    {"tiny-qwen3-macos-4bit", {.engine = "sequential", .kv = "paged", .kv_page = 64, .when_busy = CAIRN_BUSY_WAIT}},
    {"tiny-qwen3-ios", {.engine = "static-shape"}},
};
enum { VARIANTS = sizeof kVariants / sizeof *kVariants };

/// One sequence that lives on, and whose it is. Others may only do what must be refused or waited for.
typedef struct slot {
  pthread_mutex_t lock;  ///< of the pointer: the sequence is replaced now and then
  cairn_llm *llm;
} slot;

typedef struct soak {
  cairn_context *context;
  cairn_llm *roots[VARIANTS];
  cairn_llm *drafters[VARIANTS];  ///< the smaller models of members of batches: the same ones
  slot slots[VARIANTS][SLOTS];
  atomic_bool is_over;
  atomic_long n_generations, n_cancelled, n_forks, n_files, n_refused, n_failures, n_drafted, n_accepted, n_shared;
  char folder[64];
} soak;

typedef struct worker {
  soak *soak;
  uint64_t chance;
  int number;
  int64_t leave_at;
} worker;

static uint32_t draw(worker *w, uint32_t below) {
  w->chance = w->chance * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(w->chance >> 33) % below;
}

// cmocka's assertions are for its own thread: failures of others are printed and counted.
static void failed(worker *w, const char *what) {
  char message[1024];
  cairn_last_error_text(message, sizeof message);
  fprintf(stderr, "worker %d: %s: %s\n", w->number, what, message);
  atomic_fetch_add(&w->soak->n_failures, 1);
}

// --- what is asked for ------------------------------------------------------------------------------------------------

typedef struct question {
  int32_t tokens[PROMPT];
  cairn_generate_options options;
} question;

// Few different beginnings, so that sequences have much in common and drafts are right now and then.
static void make_question(worker *w, question *q) {
  const int64_t n = 1 + draw(w, PROMPT - 1), shared = draw(w, (uint32_t)n + 1);
  const uint32_t family = draw(w, 3);
  for (int64_t i = 0; i < n; i++) q->tokens[i] = i < shared ? (int32_t)((i * 7 + family * 31) % 50) : (int32_t)draw(w, VOCAB);
  q->options = (cairn_generate_options){.tokens = q->tokens, .n_tokens = (size_t)n, .max_tokens = draw(w, MOST), .ignore_eos = true};
  if (draw(w, 2)) {
    q->options.sampling = (cairn_sampling){.temperature = 1,
                                           .has_top_k = true,
                                           .top_k = 1 + (int32_t)draw(w, 50),
                                           .has_seed = true,
                                           .seed = draw(w, 100),
                                           .has_repetition_penalty = draw(w, 2),
                                           .repetition_penalty = 1.3f};
  }
  if (draw(w, 4) == 0) q->options.speculation = (cairn_speculation){.mode = CAIRN_SPECULATION_AUTO, .always = true};
}

static bool leave(void *user, const cairn_token_event *event) {
  const worker *w = user;
  return event->index < w->leave_at;
}

// What was given is the beginning of what a fresh sequence gives.
static void check(worker *w, int which, const question *q, const cairn_generation *got) {
  cairn_llm *fresh;
  cairn_generation *whole;
  cairn_generation_info a, b;
  cairn_generate_options o = q->options;
  o.on_token = NULL;
  o.speculation = (cairn_speculation){0};
  if (cairn_llm_create_sequence(w->soak->roots[which], &fresh) != CAIRN_OK) return failed(w, "a fresh sequence");
  if (cairn_llm_generate(fresh, &o, &whole) != CAIRN_OK) {
    failed(w, "a fresh generation");
  } else {
    cairn_generation_get(got, &a);
    cairn_generation_get(whole, &b);
    const bool is_part = a.stop_reason == CAIRN_STOP_CANCELLED ? a.n_tokens <= b.n_tokens : a.n_tokens == b.n_tokens;
    if (!is_part || (a.n_tokens && memcmp(a.tokens, b.tokens, a.n_tokens * sizeof *a.tokens) != 0))
      failed(w, "other tokens than a fresh sequence");
    if (a.stop_reason == CAIRN_STOP_CANCELLED) atomic_fetch_add(&w->soak->n_cancelled, 1);
    cairn_generation_destroy(whole);
  }
  cairn_llm_close(fresh);
}

static void ask(worker *w, int which, cairn_llm *llm) {
  question q;
  cairn_generation *g;
  make_question(w, &q);
  if (draw(w, 3) == 0) {
    w->leave_at = draw(w, 8);
    q.options.on_token = leave;
    q.options.user = w;
  }
  cairn_status status = cairn_llm_generate(llm, &q.options, &g);
  if (status == CAIRN_BUSY) {
    atomic_fetch_add(&w->soak->n_refused, 1);
    return;
  }
  if (status != CAIRN_OK) {
    failed(w, kVariants[which].model);
    cairn_generation_destroy(g);
    return;
  }
  check(w, which, &q, g);
  cairn_generation_destroy(g);
  atomic_fetch_add(&w->soak->n_generations, 1);
}

// --- what is done to sequences ----------------------------------------------------------------------------------------

static void expect(worker *w, const char *what, cairn_status status) {
  if (status == CAIRN_BUSY) {
    atomic_fetch_add(&w->soak->n_refused, 1);
  } else if (status != CAIRN_OK) {
    failed(w, what);
  }
}

static void cut(worker *w, cairn_llm *llm) {
  int64_t kept;
  if (draw(w, 2)) {
    expect(w, "reset", cairn_llm_reset(llm, 0));
  } else {
    expect(w, "trim", cairn_llm_trim(llm, draw(w, 64), &kept));
  }
}

// The fork takes the place of its parent, or goes away again.
static void fork_one(worker *w, int which, slot *s) {
  cairn_llm *copy;
  cairn_status status = cairn_llm_fork(s->llm, -1, &copy);
  expect(w, "fork", status);
  if (status != CAIRN_OK) return;
  atomic_fetch_add(&w->soak->n_forks, 1);
  ask(w, which, copy);
  if (draw(w, 2)) {
    cairn_llm *old = s->llm;
    s->llm = copy;
    copy = old;
  }
  cairn_llm_close(copy);
}

static void save_and_restore(worker *w, int which, slot *s) {
  char path[128];
  snprintf(path, sizeof path, "%s/%d-%d.session", w->soak->folder, w->number, which);
  cairn_status status = cairn_llm_save(s->llm, path);
  expect(w, "save", status);
  if (status != CAIRN_OK) return;
  atomic_fetch_add(&w->soak->n_files, 1);
  ask(w, which, s->llm);
  expect(w, "restore", cairn_llm_restore(s->llm, path));
}

static void count_member(soak *s, const cairn_generation *g) {
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  atomic_fetch_add(&s->n_drafted, (long)info.drafted_tokens);
  atomic_fetch_add(&s->n_accepted, (long)info.accepted_tokens);
  atomic_fetch_add(&s->n_shared, (long)info.prefix_from_memory);
}

// Many begin as the first one does, and are computed at the same time.
static void make_member(worker *w, int which, const question *first, question *q) {
  static const cairn_speculation_mode kModes[] = {CAIRN_SPECULATION_OFF, CAIRN_SPECULATION_LOOKUP, CAIRN_SPECULATION_AUTO,
                                                  CAIRN_SPECULATION_DRAFT};
  cairn_speculation *s = &q->options.speculation;
  make_question(w, q);
  if (first && draw(w, 3)) {
    const size_t n = first->options.n_tokens < q->options.n_tokens ? first->options.n_tokens : q->options.n_tokens;
    memcpy(q->tokens, first->tokens, draw(w, (uint32_t)n + 1) * sizeof *q->tokens);
  }
  *s = (cairn_speculation){.mode = kModes[draw(w, 4)], .always = draw(w, 3), .max_draft = (int32_t)draw(w, 17)};
  if (s->mode >= CAIRN_SPECULATION_DRAFT) s->draft = w->soak->drafters[which];
}

static void batch(worker *w, int which) {
  question q[MEMBERS];
  int64_t ids[MEMBERS];
  cairn_llm_batch *b;
  const int n = 1 + (int)draw(w, MEMBERS);
  cairn_llm_batch_step_info info;
  const cairn_llm_batch_options options = {.max_sequences = (int)draw(w, MEMBERS), .max_step_tokens = draw(w, 2) * 24};
  cairn_status status = cairn_llm_batch_create(w->soak->roots[which], &options, &b);
  if (status == CAIRN_UNSUPPORTED) return;
  if (status != CAIRN_OK) return failed(w, "a batch");
  for (int i = 0; i < n; i++) {
    make_member(w, which, i ? &q[0] : NULL, &q[i]);
    expect(w, "join", cairn_llm_batch_join(b, &q[i].options, &ids[i]));
    if (draw(w, 5) == 0) expect(w, "cancel", cairn_llm_batch_cancel(b, ids[i]));
    if (draw(w, 3) == 0) expect(w, "step", cairn_llm_batch_step(b, &info));
  }
  // Whoever others wait for may leave in the middle; or all of it is given up.
  const bool is_left = draw(w, 8) == 0;
  for (uint32_t steps = draw(w, 8); steps > 0; steps--) {
    expect(w, "step", cairn_llm_batch_step(b, &info));
    if (draw(w, 3) == 0) expect(w, "cancel", cairn_llm_batch_cancel(b, ids[draw(w, (uint32_t)n)]));
  }
  if (!is_left) expect(w, "a batch", cairn_llm_batch_run(b));
  for (int i = 0; i < n && !is_left; i++) {
    cairn_generation *g;
    status = cairn_llm_batch_take(b, ids[i], &g);
    expect(w, "take", status);
    if (status != CAIRN_OK) continue;
    check(w, which, &q[i], g);
    count_member(w->soak, g);
    cairn_generation_destroy(g);
    atomic_fetch_add(&w->soak->n_generations, 1);
  }
  cairn_llm_batch_destroy(b);
}

// A call on a sequence that another worker may be using: it is refused, waits, or comes at a free moment; never more than that.
static void misuse(worker *w, int which, cairn_llm *llm) {
  switch (draw(w, 3)) {
    case 0:
      cairn_llm_cancel(llm);
      break;
    case 1:
      cut(w, llm);
      break;
    default:
      ask(w, which, llm);
  }
}

static void act(worker *w) {
  const int which = (int)draw(w, VARIANTS);
  slot *s = &w->soak->slots[which][draw(w, SLOTS)];
  if (pthread_mutex_trylock(&s->lock) != 0) return misuse(w, which, w->soak->roots[which]);
  switch (draw(w, 8)) {
    case 0:
      cut(w, s->llm);
      break;
    case 1:
      fork_one(w, which, s);
      break;
    case 2:
      save_and_restore(w, which, s);
      break;
    case 3:
      batch(w, which);
      break;
    case 4:
      misuse(w, which, w->soak->roots[which]);
      break;
    default:
      ask(w, which, s->llm);
  }
  pthread_mutex_unlock(&s->lock);
}

static void *work(void *user) {
  worker *w = user;
  while (!atomic_load(&w->soak->is_over)) act(w);
  return NULL;
}

// --- the whole --------------------------------------------------------------------------------------------------------

static void open_all(soak *s) {
  for (int v = 0; v < VARIANTS; v++) {
    s->roots[v] = lm_open(s->context, kVariants[v].model, &kVariants[v].options);
    LM_OK(cairn_llm_create_sequence(s->roots[v], &s->drafters[v]));
    for (int i = 0; i < SLOTS; i++) {
      pthread_mutex_init(&s->slots[v][i].lock, NULL);
      LM_OK(cairn_llm_create_sequence(s->roots[v], &s->slots[v][i].llm));
    }
  }
}

static void close_all(soak *s) {
  for (int v = 0; v < VARIANTS; v++) {
    cairn_llm_close(s->roots[v]);
    cairn_llm_close(s->drafters[v]);
    for (int i = 0; i < SLOTS; i++) {
      cairn_llm_close(s->slots[v][i].llm);
      pthread_mutex_destroy(&s->slots[v][i].lock);
    }
  }
  assert_int_equal(lm_remove_folder(s->folder), 0);
}

// Something has to happen all the time: a minute without a generation is a hang.
static void watch(const soak *s, long seconds) {
  long before = -1;
  const time_t end = time(NULL) + seconds;
  for (time_t checked = time(NULL); time(NULL) < end && !atomic_load(&s->n_failures); usleep(100000)) {
    if (time(NULL) - checked < 60) continue;
    const long now = atomic_load(&s->n_generations);
    if (now == before) fail_msg("no generation ended for a minute");
    before = now;
    checked = time(NULL);
  }
}

static void test_soak(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  const char *seconds = getenv("CAIRN_SOAK_SECONDS"), *seed = getenv("CAIRN_SOAK_SEED");
  static soak s;
  pthread_t threads[WORKERS];
  worker workers[WORKERS];
  s.context = lm_context(1);
  snprintf(s.folder, sizeof s.folder, "/tmp/cairn-soak-XXXXXX");
  assert_non_null(mkdtemp(s.folder));
  open_all(&s);
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.soak = &s, .number = i, .chance = (seed ? strtoull(seed, NULL, 10) : 1) * 1000003 + (uint64_t)i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  watch(&s, seconds ? strtol(seconds, NULL, 10) : 3);
  atomic_store(&s.is_over, true);
  for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
  print_message("%ld generations (%ld cancelled), %ld forks, %ld files, %ld calls refused as busy\n", atomic_load(&s.n_generations),
                atomic_load(&s.n_cancelled), atomic_load(&s.n_forks), atomic_load(&s.n_files), atomic_load(&s.n_refused));
  print_message("in batches: %ld tokens drafted, %ld of them right, %ld tokens of prompts computed by another sequence\n",
                atomic_load(&s.n_drafted), atomic_load(&s.n_accepted), atomic_load(&s.n_shared));
  assert_int_equal(atomic_load(&s.n_failures), 0);
  assert_true(atomic_load(&s.n_generations) > 0);
  close_all(&s);
  cairn_context_release(s.context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
