/// Batches: sequences that come and go at any step give what they give alone. Seeds of random runs are printed when one fails, and with
/// LM_BATCH_SEED one of them is run again.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cairn/batch.h"
#include "cairn/grammar.h"
#include "lm.h"

static const char *const kModels[] = {"tiny-qwen3-macos",     "tiny-qwen3-macos-4bit", "tiny-qwen3-macos-f32",    "tiny-qwen2-macos",
                                      "tiny-phi3-macos",      "tiny-mistral-macos",    "tiny-gemma3-macos",       "tiny-gemma3-macos-4bit",
                                      "tiny-gpt_oss-macos",   "tiny-qwen3_moe-macos",  "tiny-muse_glimmer-macos", "mlx-llama-b1",
                                      "tiny-qwen3_untied-ios"};
enum { N_MODELS = sizeof kModels / sizeof *kModels, MOST = 8, MOST_PROMPT = 90, MOST_TOKENS = 24, MOST_ROWS = 64, RUNS = 390 };

// --- chance -----------------------------------------------------------------------------------------------------------

static uint64_t g_random;

static int64_t draw(int64_t n) {
  g_random = g_random * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((g_random >> 33) % (uint64_t)n);
}

// --- one generation ---------------------------------------------------------------------------------------------------

typedef struct job {
  int32_t prompt[MOST_PROMPT], forced[4];
  cairn_generate_options options;
  int64_t join_at, cancel_at;  ///< steps; cancel_at -1 = never
  int32_t expected[MOST_TOKENS + 4];
  size_t n_expected;
  cairn_stop_reason reason;
  int64_t id;
  bool is_joined, is_cancelled;
  int32_t events[MOST_TOKENS + 4];
  size_t n_events;
  uint64_t rows[MOST_ROWS], expected_rows[MOST_ROWS];  ///< of the tokens that were fed, with their places
  size_t n_rows, n_expected_rows;
} job;

static bool take_event(void *user, const cairn_token_event *event) {
  job *j = user;
  if (event->token >= 0) j->events[j->n_events++] = event->token;
  return true;
}

// FNV-1a of the place and the bits of a row.
static cairn_status take_row(void *user, int64_t position, const float *row, int64_t n) {
  job *j = user;
  uint64_t hash = 14695981039346656037u ^ (uint64_t)position;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &row[i], sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  if (j->n_rows < MOST_ROWS) j->rows[j->n_rows] = hash;
  j->n_rows++;
  return CAIRN_OK;
}

static void draw_sampling(cairn_sampling *s) {
  if (draw(2)) return;
  s->temperature = 0.6f + (float)draw(10) / 10;
  s->has_seed = true;
  s->seed = (uint64_t)draw(1000);
  s->has_top_k = draw(2);
  s->top_k = 1 + (int32_t)draw(40);
  s->has_repetition_penalty = draw(3) == 0;
  s->repetition_penalty = 1.2f;
}

// By lookup, by the model itself (whose drafts are right, unless a token was drawn), or by another one (whose are not).
static void draw_speculation(cairn_speculation *s, cairn_llm *const *drafters) {
  if (draw(2)) return;
  s->mode = (cairn_speculation_mode)(1 + draw(3));
  if (s->mode == CAIRN_SPECULATION_DRAFT || (s->mode == CAIRN_SPECULATION_AUTO && draw(2))) s->draft = drafters[draw(2)];
  if (s->mode == CAIRN_SPECULATION_DRAFT && !s->draft) s->mode = CAIRN_SPECULATION_LOOKUP;
  s->max_draft = (int32_t)draw(17);
  s->always = draw(4);
}

// A prompt of its own, or one that begins like that of an earlier job.
static void draw_job(job *jobs, int i, int64_t vocab, int64_t context, bool can_guide, cairn_llm *const *drafters) {
  job *j = &jobs[i];
  *j = (job){.cancel_at = -1};
  int64_t n = 1 + draw(draw(2) ? 20 : MOST_PROMPT);
  if (n >= context) n = context - 1;
  const int64_t few = draw(2) ? vocab : 5;  // so that there is something to look up
  for (int64_t k = 0; k < n; k++) j->prompt[k] = (int32_t)draw(few);
  if (i && draw(2) == 0) {
    const job *other = &jobs[draw(i)];
    const int64_t same = (int64_t)other->options.n_tokens < n ? (int64_t)other->options.n_tokens : n;
    memcpy(j->prompt, other->prompt, (size_t)same * sizeof *j->prompt);
  }
  j->options = (cairn_generate_options){.tokens = j->prompt, .n_tokens = (size_t)n, .max_tokens = draw(MOST_TOKENS), .ignore_eos = draw(2)};
  draw_sampling(&j->options.sampling);
  if (draw(12) == 0) {
    for (int k = 0; k < 4; k++) j->forced[k] = (int32_t)draw(vocab);
    j->options.forced = j->forced;
    j->options.n_forced = 4;
  }
  if (can_guide && !j->options.n_forced && draw(8) == 0)
    j->options.guide = (cairn_grammar_source){.kind = CAIRN_GRAMMAR_REGEX, .text = "[a-z ]{3,30}", .text_bytes = 12};
  if (context <= 128 && draw(3) == 0) j->options.overflow = (cairn_overflow){.kind = CAIRN_OVERFLOW_SLIDE, .margin = 1 + draw(8)};
  if (drafters) draw_speculation(&j->options.speculation, drafters);
  j->options.on_token = take_event;
  j->options.on_logits = take_row;
  j->options.user = j;
  j->join_at = draw(3) ? draw(12) : 0;
  if (draw(6) == 0) j->cancel_at = j->join_at + draw(8);
}

// What it gives alone.
static void expect_alone(cairn_llm *llm, job *j) {
  cairn_generation *g;
  cairn_generation_info info;
  cairn_generate_options options = j->options;
  options.speculation = (cairn_speculation){0};
  LM_OK(cairn_llm_reset(llm, 0));
  LM_OK(cairn_llm_generate(llm, &options, &g));
  cairn_generation_get(g, &info);
  j->n_expected = info.n_tokens;
  j->reason = info.stop_reason;
  if (info.n_tokens) memcpy(j->expected, info.tokens, info.n_tokens * sizeof *info.tokens);
  assert_true(j->n_rows <= MOST_ROWS);
  memcpy(j->expected_rows, j->rows, sizeof j->rows);
  j->n_expected_rows = j->n_rows;
  j->n_events = j->n_rows = 0;
  cairn_generation_destroy(g);
}

/// What all of it came to.
typedef struct totals {
  int64_t tokens, drafted, accepted, hits, borrowed;
} totals;

static void check_result(cairn_llm_batch *batch, const job *j, const char *what, totals *sum) {
  cairn_generation *g;
  cairn_generation_info info;
  LM_OK(cairn_llm_batch_take(batch, j->id, &g));
  cairn_generation_get(g, &info);
  const bool is_cut = info.stop_reason == CAIRN_STOP_CANCELLED;
  if (is_cut && !j->is_cancelled) fail_msg("%s: cancelled by nobody", what);
  if (!is_cut && info.stop_reason != j->reason) fail_msg("%s: ended by %s", what, cairn_stop_reason_text(info.stop_reason));
  if (is_cut ? info.n_tokens > j->n_expected : info.n_tokens != j->n_expected)
    fail_msg("%s: %zu tokens instead of %zu", what, info.n_tokens, j->n_expected);
  if (info.n_tokens && memcmp(info.tokens, j->expected, info.n_tokens * sizeof *info.tokens)) fail_msg("%s: other tokens than alone", what);
  if (j->n_events != info.n_tokens || (info.n_tokens && memcmp(j->events, info.tokens, info.n_tokens * sizeof *info.tokens)))
    fail_msg("%s: events do not tell the tokens", what);
  if (is_cut ? j->n_rows > j->n_expected_rows : j->n_rows != j->n_expected_rows)
    fail_msg("%s: %zu rows of logits instead of %zu", what, j->n_rows, j->n_expected_rows);
  if (memcmp(j->rows, j->expected_rows, j->n_rows * sizeof *j->rows)) fail_msg("%s: other rows of logits than alone", what);
  if (info.accepted_tokens > info.drafted_tokens || (info.drafted_tokens && !info.speculates))
    fail_msg("%s: drafts are counted wrong", what);
  if (j->options.speculation.mode >= CAIRN_SPECULATION_LOOKUP && !info.speculates && !*info.speculation_note && !is_cut && info.n_tokens)
    fail_msg("%s: drafts were asked for and nobody says why there are none", what);
  sum->tokens += (int64_t)info.n_tokens;
  sum->drafted += info.drafted_tokens;
  sum->accepted += info.accepted_tokens;
  sum->hits += info.prefix_hit;
  sum->borrowed += info.prefix_from_memory;
  if (info.prefix_hit + info.prefill_tokens != (int64_t)info.n_prompt_tokens && !is_cut && !j->options.overflow.kind)
    fail_msg("%s: the prompt was not computed", what);
  cairn_generation_destroy(g);
}

// --- random runs ------------------------------------------------------------------------------------------------------

typedef struct open_model {
  cairn_context *context;
  cairn_llm *llm, *drafters[2];  ///< the model itself and another one of its vocabulary; NULL where there is none
  bool can_speculate;
  int model;
  bool is_exact;
} open_model;

static void open_random(open_model *o, int model) {
  static const char *const kStrategies[] = {"auto", "fixed", "growing", "paged"};
  char path[512];
  static const cairn_precision kPrecisions[] = {CAIRN_PRECISION_EXACT, CAIRN_PRECISION_EXACT, CAIRN_PRECISION_INT8, CAIRN_PRECISION_BF16};
  const cairn_precision precision = kPrecisions[draw(4)];
  const cairn_model_options options = {.precision = precision, .no_cache = true};
  cairn_llm_options llm = {.model = &options, .kv = kStrategies[draw(4)]};
  if (!strcmp(llm.kv, "growing") && draw(2)) llm.kv_capacity = 16 + draw(40);
  if (draw(4) == 0) llm.prefill_chunk = 30 + draw(40);
  *o = (open_model){.model = model, .is_exact = precision == CAIRN_PRECISION_EXACT};
  o->context = lm_context(1 + (int)draw(3));
  snprintf(path, sizeof path, LM_MODELS "%s", kModels[model]);
  cairn_status status = cairn_llm_open(o->context, path, &llm, &o->llm);
  if (status == CAIRN_UNSUPPORTED || status == CAIRN_INVALID_ARGUMENT) {
    llm.kv = NULL;
    llm.kv_capacity = 0;
    status = cairn_llm_open(o->context, path, &llm, &o->llm);
  }
  LM_OK(status);
  LM_OK(cairn_llm_open(o->context, path, NULL, &o->drafters[0]));
  // Asking for them by name is refused where they are impossible.
  cairn_generation *g;
  const cairn_generate_options o1 = {
      .tokens = (const int32_t[]){1}, .n_tokens = 1, .max_tokens = 1, .speculation = {.mode = CAIRN_SPECULATION_LOOKUP}};
  status = cairn_llm_generate(o->llm, &o1, &g);
  o->can_speculate = status == CAIRN_OK;
  cairn_generation_destroy(g);
  if (o->can_speculate && !strncmp(kModels[model], "tiny-qwen3-macos", 16))
    o->drafters[1] = lm_open(o->context, model ? "tiny-qwen3-macos" : "tiny-qwen3-macos-4bit", NULL);
}

static void close_model(open_model *o) {
  cairn_llm_close(o->drafters[0]);
  cairn_llm_close(o->drafters[1]);
  cairn_llm_close(o->llm);
  cairn_context_release(o->context);
}

static void step_jobs(cairn_llm_batch *batch, job *jobs, int n) {
  cairn_llm_batch_step_info info = {.n_active = 1};
  int n_left = n;
  for (int64_t step = 0; n_left || info.n_active; step++) {
    for (int i = 0; i < n; i++) {
      job *j = &jobs[i];
      if (!j->is_joined && j->join_at <= step) {
        LM_OK(cairn_llm_batch_join(batch, &j->options, &j->id));
        j->is_joined = true;
        n_left--;
      }
      if (j->is_joined && j->cancel_at >= 0 && j->cancel_at <= step && !j->is_cancelled) {
        LM_OK(cairn_llm_batch_cancel(batch, j->id));
        j->is_cancelled = true;
      }
    }
    LM_OK(cairn_llm_batch_step(batch, &info));
    if (step > 2000) fail_msg("no end");
  }
}

static void run_random(const open_model *o, uint64_t seed, totals *sum) {
  job jobs[MOST];
  cairn_llm_info info;
  cairn_llm_batch *batch;
  char what[160];
  g_random = seed;
  const int n = 1 + (int)draw(MOST);
  cairn_llm_describe(o->llm, &info);
  const bool can_guide = cairn_grammar_is_available() && cairn_llm_has_text(o->llm) == CAIRN_OK;
  for (int i = 0; i < n; i++) {
    draw_job(jobs, i, info.vocab_size, info.max_context, can_guide, o->can_speculate ? o->drafters : NULL);
    expect_alone(o->llm, &jobs[i]);
  }
  const cairn_llm_batch_options options = {.max_sequences = draw(2) ? 0 : 1 + (int)draw(n),
                                           .max_step_tokens = draw(2) ? 0 : 1 + draw(64),
                                           .no_sharing = !o->is_exact || draw(2)};
  LM_OK(cairn_llm_batch_create(o->llm, &options, &batch));
  step_jobs(batch, jobs, n);
  for (int i = 0; i < n; i++) {
    snprintf(what, sizeof what, "%s %s %s, seed %llu, sequence %d", kModels[o->model], info.precision, info.kv_strategy,
             (unsigned long long)seed, i);
    check_result(batch, &jobs[i], what, sum);
  }
  cairn_llm_batch_destroy(batch);
}

static void test_random(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  const char *only = getenv("LM_BATCH_SEED");
  totals sum = {0};
  int n_runs = 0;
  for (int model = 0; model < N_MODELS; model++) {
    for (int k = 0; k < RUNS / N_MODELS; k += 5) {
      open_model o;
      const uint64_t first = (uint64_t)(model * 1000 + k);
      g_random = first * 77 + 5;
      open_random(&o, model);
      for (int i = 0; i < 5; i++) {
        if (only && strtoull(only, NULL, 10) != first + (uint64_t)i) continue;
        run_random(&o, first + (uint64_t)i, &sum);
        n_runs++;
      }
      close_model(&o);
    }
  }
  print_message("%d random runs, %lld tokens, %lld drafted and %lld of them right; %lld tokens of prompts were there, %lld from others\n",
                n_runs, (long long)sum.tokens, (long long)sum.drafted, (long long)sum.accepted, (long long)sum.hits,
                (long long)sum.borrowed);
  if (!only) assert_true(sum.accepted > 1000 && sum.accepted < sum.drafted && sum.borrowed > 500);
}

// --- failures ---------------------------------------------------------------------------------------------------------

typedef struct failing {
  int left;
} failing;

static cairn_status fail_later(void *user, int64_t position, const float *row, int64_t n) {
  failing *f = user;
  (void)position, (void)row, (void)n;
  return f->left-- > 0 ? CAIRN_OK : CAIRN_CANCELLED;
}

static void test_one_fails(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-macos", NULL);
  cairn_llm_batch *batch;
  cairn_generation *g;
  cairn_generation_info info;
  job good = {.options = {.tokens = (const int32_t[]){5, 6, 7}, .n_tokens = 3, .max_tokens = 9, .ignore_eos = true}};
  failing f = {3};
  int64_t bad, unknown;
  bool ended;
  cairn_generate_options failing_options = good.options;
  failing_options.on_logits = fail_later;
  failing_options.user = &f;
  expect_alone(llm, &good);
  LM_OK(cairn_llm_batch_create(llm, NULL, &batch));
  cairn_llm_close(llm);  // the batch does not need it
  LM_OK(cairn_llm_batch_join(batch, &good.options, &good.id));
  LM_OK(cairn_llm_batch_join(batch, &failing_options, &bad));
  lm_expect(cairn_llm_batch_take(batch, bad, &g), CAIRN_FAILED_PRECONDITION, "has not ended");
  const cairn_generate_options outside = {.tokens = (const int32_t[]){1000000}, .n_tokens = 1, .max_tokens = 1};
  lm_expect(cairn_llm_batch_join(batch, &outside, &unknown), CAIRN_OUT_OF_RANGE, "1000000");
  LM_OK(cairn_llm_batch_run(batch));
  LM_OK(cairn_llm_batch_has_ended(batch, bad, &ended));
  assert_true(ended);
  assert_int_equal(cairn_llm_batch_take(batch, bad, &g), CAIRN_CANCELLED);
  cairn_generation_get(g, &info);
  assert_int_equal(info.stop_reason, CAIRN_STOP_ERROR);
  assert_int_equal(info.n_tokens, 4);
  assert_memory_equal(info.tokens, good.expected, 4 * sizeof *info.tokens);
  cairn_generation_destroy(g);
  LM_OK(cairn_llm_batch_take(batch, good.id, &g));
  cairn_generation_get(g, &info);
  assert_int_equal(info.n_tokens, 9);
  assert_memory_equal(info.tokens, good.expected, 9 * sizeof *info.tokens);
  cairn_generation_destroy(g);
  lm_expect(cairn_llm_batch_take(batch, good.id, &g), CAIRN_NOT_FOUND, "no sequence");
  lm_expect(cairn_llm_batch_cancel(batch, 77), CAIRN_NOT_FOUND, "no sequence 77");
  cairn_llm_batch_destroy(batch);
  cairn_context_release(context);
}

// --- sharing ----------------------------------------------------------------------------------------------------------

static int64_t run_one(cairn_llm_batch *batch, const int32_t *tokens, size_t n, int32_t *out_tokens) {
  cairn_generation *g;
  cairn_generation_info info;
  int64_t id;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = n, .max_tokens = 4, .ignore_eos = true};
  LM_OK(cairn_llm_batch_join(batch, &o, &id));
  LM_OK(cairn_llm_batch_run(batch));
  LM_OK(cairn_llm_batch_take(batch, id, &g));
  cairn_generation_get(g, &info);
  memcpy(out_tokens, info.tokens, 4 * sizeof *out_tokens);
  const int64_t hit = info.prefix_hit;
  cairn_generation_destroy(g);
  return hit;
}

// What an ended sequence has is the beginning of a later prompt: the next turn of a conversation, or another one from the same beginning.
static void test_sharing(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-macos", NULL);
  cairn_llm_batch *shared, *apart;
  int32_t prompt[64], a[4], b[4];
  LM_OK(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.max_sequences = 3}, &shared));
  LM_OK(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.no_sharing = true}, &apart));
  for (int i = 0; i < 64; i++) prompt[i] = (i * 37 + 11) % 300;
  assert_int_equal(run_one(shared, prompt, 40, a), 0);
  assert_int_equal(run_one(apart, prompt, 40, b), 0);
  assert_memory_equal(a, b, sizeof a);
  memcpy(prompt + 40, a, sizeof a);
  assert_int_equal(run_one(shared, prompt, 60, a), 43);  // the last token was not fed
  assert_int_equal(run_one(apart, prompt, 60, b), 0);
  assert_memory_equal(a, b, sizeof a);
  prompt[35]++;
  assert_int_equal(run_one(shared, prompt, 64, a), 35);
  assert_int_equal(run_one(apart, prompt, 64, b), 0);
  assert_memory_equal(a, b, sizeof a);
  cairn_llm_batch_destroy(shared);
  cairn_llm_batch_destroy(apart);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// --- the budget -------------------------------------------------------------------------------------------------------

// While one sequence generates, no step computes more tokens of prompts than allowed, and prompts take turns.
static void test_budget(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-macos", NULL);
  cairn_llm_batch *batch;
  cairn_llm_batch_step_info info;
  int32_t prompt[200];
  int64_t ids[3];
  for (int i = 0; i < 200; i++) prompt[i] = (i * 13 + 5) % 300;
  cairn_generate_options o = {.tokens = prompt, .n_tokens = 3, .max_tokens = 60, .ignore_eos = true};
  LM_OK(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.max_step_tokens = 32, .no_sharing = true}, &batch));
  LM_OK(cairn_llm_batch_join(batch, &o, &ids[0]));
  LM_OK(cairn_llm_batch_step(batch, &info));
  assert_int_equal(info.tokens, 1);
  o.n_tokens = 200;
  o.max_tokens = 1;
  LM_OK(cairn_llm_batch_join(batch, &o, &ids[1]));
  o.n_tokens = 64;
  LM_OK(cairn_llm_batch_join(batch, &o, &ids[2]));
  int steps = 0, short_ended = 0, long_ended = 0;
  for (bool ended = false; !ended; steps++) {
    LM_OK(cairn_llm_batch_step(batch, &info));
    assert_in_range(info.prompt_tokens, 1, 32 + 23);
    assert_true(info.tokens >= 1);  // the one that generates is not kept waiting
    LM_OK(cairn_llm_batch_has_ended(batch, ids[2], &ended));
    if (ended && !short_ended) short_ended = steps + 1;
    LM_OK(cairn_llm_batch_has_ended(batch, ids[1], &ended));
  }
  long_ended = steps;
  // 64 tokens in 2 pieces, in turn with those of the long one.
  assert_in_range(short_ended, 2, 4);
  assert_in_range(long_ended, 7, 9);
  cairn_llm_batch_destroy(batch);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// --- memory -----------------------------------------------------------------------------------------------------------

enum { SEQUENCES = 6, STEPS = 120 };

// Views of positions are made 64 at a time, and lists of tokens double; all other steps allocate nothing.
static void test_steps_allocate_nothing(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 2);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-macos", &(cairn_llm_options){.kv_capacity = 512});
  cairn_llm_batch *batch;
  const int32_t prompt[] = {3, 4, 5, 6, 7};
  LM_OK(cairn_llm_batch_create(llm, NULL, &batch));
  for (int round = 0; round < 2; round++) {
    int64_t id;
    int n_quiet = 0;
    const cairn_generate_options o = {.tokens = prompt, .n_tokens = 5, .max_tokens = STEPS, .ignore_eos = true};
    for (int i = 0; i < SEQUENCES; i++) LM_OK(cairn_llm_batch_join(batch, &o, &id));
    for (int i = 0; i < STEPS; i++) {
      long long before = atomic_load(&c.n_allocations);
      LM_OK(cairn_llm_batch_step(batch, NULL));
      n_quiet += atomic_load(&c.n_allocations) == before;
    }
    print_message("round %d: %d of %d steps allocate nothing\n", round, n_quiet, STEPS);
    if (round == 1) assert_true(n_quiet >= STEPS - 12);
  }
  cairn_llm_batch_destroy(batch);
  cairn_llm_close(llm);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&c.n_live), 0);
}

// Whichever allocation fails: a step or a sequence says so, the others give the right tokens, and nothing leaks.
static void test_out_of_memory(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 1);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-macos", &(cairn_llm_options){.kv_capacity = 8});
  job j = {.options = {.tokens = (const int32_t[]){5, 6, 7, 8, 9}, .n_tokens = 5, .max_tokens = 6, .ignore_eos = true}};
  expect_alone(llm, &j);
  int n_failed_steps = 0, n_failed = 0;
  for (long long k = 1;; k += k < 60 ? 1 : 5) {
    cairn_llm_batch *batch;
    cairn_llm_batch_step_info info = {.n_active = 1};
    const long long live = atomic_load(&c.n_live);
    int64_t ids[3];
    LM_OK(cairn_llm_batch_create(llm, NULL, &batch));
    for (int i = 0; i < 3; i++) LM_OK(cairn_llm_batch_join(batch, &j.options, &ids[i]));
    atomic_store(&c.fail_at, atomic_load(&c.n_allocations) + k);
    while (info.n_active) {
      cairn_status status = cairn_llm_batch_step(batch, &info);
      if (status == CAIRN_OK) continue;
      lm_expect(status, CAIRN_OUT_OF_MEMORY, "");
      n_failed_steps++;
    }
    const bool was_reached = atomic_load(&c.n_allocations) >= atomic_load(&c.fail_at);
    atomic_store(&c.fail_at, 0);
    for (int i = 0; i < 3; i++) {
      cairn_generation *g;
      cairn_generation_info result;
      cairn_status status = cairn_llm_batch_take(batch, ids[i], &g);
      cairn_generation_get(g, &result);
      if (status == CAIRN_OK) {
        assert_int_equal(result.n_tokens, j.n_expected);
      } else {
        lm_expect(status, CAIRN_OUT_OF_MEMORY, "");
        n_failed++;
      }
      if (result.n_tokens) assert_memory_equal(result.tokens, j.expected, result.n_tokens * sizeof *result.tokens);
      cairn_generation_destroy(g);
    }
    cairn_llm_batch_destroy(batch);
    if (atomic_load(&c.n_live) > live + 400) fail_msg("allocation %lld failed and blocks leaked", k);
    if (!was_reached) break;
  }
  print_message("%d steps and %d sequences failed\n", n_failed_steps, n_failed);
  assert_true(n_failed > 20);
  cairn_llm_close(llm);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&c.n_live), 0);
}

// --- threads ----------------------------------------------------------------------------------------------------------

typedef struct client {
  pthread_t thread;
  cairn_llm_batch *batch;
  const job *job;
  atomic_int *n_running;
  int n_wrong;
} client;

// Joins, waits, takes; every third one is cancelled.
static void *run_client(void *user) {
  client *c = user;
  for (int i = 0; i < 9; i++) {
    int64_t id;
    bool ended = false;
    cairn_generation *g;
    cairn_generation_info info;
    c->n_wrong += cairn_llm_batch_join(c->batch, &c->job->options, &id) != CAIRN_OK;
    if (i % 3 == 2) c->n_wrong += cairn_llm_batch_cancel(c->batch, id) != CAIRN_OK;
    while (!ended) {
      usleep(200);
      c->n_wrong += cairn_llm_batch_has_ended(c->batch, id, &ended) != CAIRN_OK;
    }
    c->n_wrong += cairn_llm_batch_take(c->batch, id, &g) != CAIRN_OK;
    cairn_generation_get(g, &info);
    c->n_wrong += info.stop_reason != CAIRN_STOP_CANCELLED && info.n_tokens != c->job->n_expected;
    c->n_wrong += info.n_tokens && memcmp(info.tokens, c->job->expected, info.n_tokens * sizeof *info.tokens) != 0;
    cairn_generation_destroy(g);
  }
  atomic_fetch_sub(c->n_running, 1);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  enum { CLIENTS = 5 };
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-macos", NULL);
  cairn_llm_batch *batch;
  client clients[CLIENTS];
  atomic_int n_running;
  job j = {.options = {.tokens = (const int32_t[]){9, 8, 7, 6}, .n_tokens = 4, .max_tokens = 12, .ignore_eos = true}};
  atomic_init(&n_running, CLIENTS);
  expect_alone(llm, &j);
  LM_OK(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.max_sequences = 3}, &batch));
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = (client){.batch = batch, .job = &j, .n_running = &n_running};
    assert_int_equal(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
  }
  while (atomic_load(&n_running)) {
    cairn_llm_batch_step_info info;
    LM_OK(cairn_llm_batch_step(batch, &info));
    if (!info.n_active) usleep(100);
  }
  for (int i = 0; i < CLIENTS; i++) {
    pthread_join(clients[i].thread, NULL);
    assert_int_equal(clients[i].n_wrong, 0);
  }
  cairn_llm_batch_destroy(batch);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),       cmocka_unit_test(test_one_fails),
                                     cmocka_unit_test(test_sharing),      cmocka_unit_test(test_budget),
                                     cmocka_unit_test(test_threads),      cmocka_unit_test(test_steps_allocate_nothing),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
