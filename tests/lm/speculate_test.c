/// Speculation: whatever is drafted, tokens, rows of logits, histories and ends are those of the engine without it. Drafts are chosen by
/// the rows of the model itself, one after the other, so equal tokens are all there is to show; a test of distributions would show less.
#include <unistd.h>

#include "base/alloc.h"
#include "engines/llm/speculate.h"
#include "lm.h"

// --- random numbers ---------------------------------------------------------------------------------------------------

static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static int64_t below(uint64_t *state, int64_t n) { return (int64_t)(next_random(state) % (uint64_t)n); }

// --- one generation ---------------------------------------------------------------------------------------------------

enum { MOST = 400, ROW_VALUES = 4 };

typedef struct kept_row {
  int64_t position;
  float values[ROW_VALUES], sum;
} kept_row;

typedef struct result {
  int32_t tokens[MOST], history[2 * MOST];
  int64_t n_tokens, n_history, n_rows, n_events, decode_tokens, decode_runs, drafted, accepted;
  kept_row rows[MOST];
  cairn_stop_reason reason;
  int32_t events[MOST];
  int64_t leave_after;  ///< events; 0 = never
} result;

static cairn_status keep_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  result *r = user;
  kept_row *k = &r->rows[r->n_rows++];
  *k = (kept_row){.position = position};
  for (int i = 0; i < ROW_VALUES; i++) k->values[i] = row[i * (vocab_size / ROW_VALUES)];
  for (int64_t i = 0; i < vocab_size; i++) k->sum += row[i];
  return CAIRN_OK;
}

static bool keep_event(void *user, const cairn_token_event *event) {
  result *r = user;
  if (event->token >= 0) r->events[r->n_events++] = event->token;
  return !r->leave_after || r->n_events < r->leave_after;
}

static void generate(cairn_llm *llm, const cairn_generate_options *options, result *r) {
  cairn_generation *g;
  cairn_generation_info info;
  cairn_generate_options o = *options;
  const int64_t leave_after = r->leave_after;
  memset(r, 0, sizeof *r);
  r->leave_after = leave_after;
  o.user = r;
  o.on_token = keep_event;
  o.on_logits = keep_row;
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= MOST);
  if (info.n_tokens) memcpy(r->tokens, info.tokens, info.n_tokens * sizeof *r->tokens);
  r->n_tokens = (int64_t)info.n_tokens;
  r->reason = info.stop_reason;
  r->decode_tokens = info.decode_tokens;
  r->decode_runs = info.decode_runs;
  r->drafted = info.drafted_tokens;
  r->accepted = info.accepted_tokens;
  cairn_generation_destroy(g);
  const int32_t *history = cairn_llm_history(llm, &r->n_history);
  assert_true(r->n_history <= 2 * MOST);
  if (r->n_history) memcpy(r->history, history, (size_t)r->n_history * sizeof *history);
}

static void check_same(const result *plain, const result *fast, bool is_ahead, const char *what) {
  for (int64_t i = 0; i < plain->n_tokens && i < fast->n_tokens; i++) {
    if (plain->tokens[i] != fast->tokens[i])
      fail_msg("%s: token %lld is %d, %d without speculation", what, (long long)i, fast->tokens[i], plain->tokens[i]);
  }
  if (plain->n_tokens != fast->n_tokens || plain->reason != fast->reason)
    fail_msg("%s: %lld tokens, %lld without speculation", what, (long long)fast->n_tokens, (long long)plain->n_tokens);
  // Without speculation the engine that works ahead leaves tokens in its history that nobody wanted.
  if (is_ahead ? fast->n_history < plain->n_history : fast->n_history != plain->n_history)
    fail_msg("%s: a history of %lld tokens, %lld without speculation", what, (long long)fast->n_history, (long long)plain->n_history);
  assert_memory_equal(plain->history, fast->history, (size_t)plain->n_history * sizeof *plain->history);
  assert_int_equal(plain->n_events, fast->n_events);
  assert_memory_equal(plain->events, fast->events, (size_t)plain->n_events * sizeof *plain->events);
  assert_int_equal(plain->decode_tokens, fast->decode_tokens);
  assert_int_equal(fast->decode_runs, fast->decode_tokens - fast->accepted);
  // Rows bit by bit, one for each token that was fed, in order.
  assert_int_equal(plain->n_rows, fast->n_rows);
  for (int64_t i = 0; i < plain->n_rows; i++) {
    if (memcmp(&plain->rows[i], &fast->rows[i], sizeof *plain->rows) != 0)
      fail_msg("%s: row %lld of %lld, at %lld, is another one", what, (long long)i, (long long)plain->n_rows,
               (long long)plain->rows[i].position);
  }
}

// --- a random matrix --------------------------------------------------------------------------------------------------

typedef struct subject {
  const char *model, *draft;  ///< folders; `draft` NULL = the model itself
  cairn_llm_options options;
} subject;

typedef struct totals {
  int n_runs;
  int64_t tokens, drafted, accepted, runs;
} totals;

// A prompt that repeats itself now and then, so that there is something to look up.
static int64_t make_prompt(uint64_t *seed, int64_t vocab, int64_t most, int32_t *out) {
  const int64_t n = 1 + below(seed, most), period = 1 + below(seed, 12);
  const bool repeats = below(seed, 3) > 0;
  for (int64_t i = 0; i < n; i++) out[i] = repeats && i >= period && below(seed, 20) ? out[i - period] : (int32_t)below(seed, vocab);
  return n;
}

static cairn_sampling make_sampling(uint64_t *seed) {
  cairn_sampling s = {0};
  switch (below(seed, 4)) {
    case 0:
      return s;
    case 1:
      return (cairn_sampling){.has_repetition_penalty = true,
                              .repetition_penalty = 1.3f,
                              .has_repetition_window = true,
                              .repetition_window = (int32_t)(1 + below(seed, 30))};
    case 2:
      return (cairn_sampling){.temperature = 0.3f + 0.1f * (float)below(seed, 8),
                              .has_seed = true,
                              .seed = next_random(seed),
                              .has_top_k = true,
                              .top_k = (int32_t)(1 + below(seed, 6))};
    default:
      return (cairn_sampling){.temperature = 0.7f,
                              .has_seed = true,
                              .seed = next_random(seed),
                              .has_top_p = true,
                              .top_p = 0.8f,
                              .has_repetition_penalty = true,
                              .repetition_penalty = 1.1f};
  }
}

static void check_random(cairn_llm *plain, cairn_llm *fast, cairn_llm *draft, uint64_t seed, const char *name, totals *t) {
  static result a, b;
  static int32_t prompt[MOST];
  cairn_llm_info info, of_fast;
  char what[200];
  const uint64_t first = seed;
  cairn_llm_describe(plain, &info);
  cairn_llm_describe(fast, &of_fast);
  cairn_generate_options o = {.tokens = prompt, .ignore_eos = below(&seed, 4) > 0};
  o.n_tokens = (size_t)make_prompt(&seed, info.vocab_size, 60, prompt);
  o.max_tokens = below(&seed, 8) ? below(&seed, 50) : below(&seed, 3);
  o.sampling = make_sampling(&seed);
  a.leave_after = b.leave_after = below(&seed, 5) ? 0 : 1 + below(&seed, 30);
  generate(plain, &o, &a);
  const int mode = (int)below(&seed, 3);
  o.speculation = (cairn_speculation){.mode = mode == 0   ? CAIRN_SPECULATION_LOOKUP
                                              : mode == 1 ? CAIRN_SPECULATION_DRAFT
                                                          : CAIRN_SPECULATION_AUTO,
                                      .draft = mode ? draft : NULL,
                                      .max_draft = (int32_t)below(&seed, 17),
                                      .always = below(&seed, 6) > 0};
  generate(fast, &o, &b);
  snprintf(what, sizeof what, "%s, seed %llu, mode %d, max_draft %d", name, (unsigned long long)first, (int)o.speculation.mode,
           o.speculation.max_draft);
  check_same(&a, &b, strcmp(of_fast.engine, "pipelined") == 0 && o.speculation.mode == CAIRN_SPECULATION_AUTO, what);
  t->n_runs++;
  t->tokens += b.decode_tokens;
  t->drafted += b.drafted;
  t->accepted += b.accepted;
  t->runs += b.decode_runs;
}

// The three engines stay open, so that prefixes are reused by all of them alike.
static void check_subject(const subject *s, int n, uint64_t seed, totals *t) {
  cairn_context *context = lm_context(2);
  cairn_llm_options sequential = s->options;
  sequential.engine = NULL;
  cairn_llm *plain = lm_open(context, s->model, &sequential), *fast = lm_open(context, s->model, &s->options);
  cairn_llm *draft = lm_open(context, s->draft ? s->draft : s->model, NULL);
  totals own = {0};
  print_message("%s with drafts of %s: seed %llu\n", s->model, s->draft ? s->draft : "itself", (unsigned long long)seed);
  for (int i = 0; i < n; i++) check_random(plain, fast, draft, next_random(&seed), s->model, &own);
  print_message("  %d generations, %lld tokens in %lld runs, %lld of %lld drafts right\n", own.n_runs, (long long)own.tokens,
                (long long)own.runs, (long long)own.accepted, (long long)own.drafted);
  assert_true(own.accepted > 0 && own.accepted <= own.drafted);
  t->n_runs += own.n_runs;
  t->runs += own.runs;
  t->tokens += own.tokens;
  cairn_llm_close(draft);
  cairn_llm_close(fast);
  cairn_llm_close(plain);
  cairn_context_release(context);
}

static const cairn_model_options kInt8 = {.precision = CAIRN_PRECISION_INT8}, kBf16 = {.precision = CAIRN_PRECISION_BF16};

static const subject kSubjects[] = {
    {.model = "tiny-qwen3-macos"},
    {.model = "tiny-qwen3-macos", .draft = "tiny-qwen3-macos-4bit", .options = {.kv_capacity = 8}},
    {.model = "tiny-qwen3-macos-f32", .options = {.engine = "pipelined"}},
    {.model = "tiny-qwen2-macos", .options = {.kv = "fixed"}},
    {.model = "tiny-qwen3-macos", .options = {.kv = "paged", .kv_page = 64}},
    {.model = "tiny-gemma3-macos", .options = {.kv = "paged", .kv_type = "int8"}},
    {.model = "tiny-qwen3-macos", .options = {.kv = "chunked", .kv_window = 40, .kv_sinks = 2}},
    {.model = "tiny-gemma3-macos", .options = {.prefill_chunk = 5}},
    {.model = "tiny-phi3-macos"},
    {.model = "tiny-mistral-macos"},
    {.model = "tiny-qwen3_moe-macos"},
    {.model = "tiny-gpt_oss-macos"},
    {.model = "tiny-muse_glimmer-macos"},
    {.model = "tiny-qwen3-ios", .draft = "tiny-qwen3-macos"},
    {.model = "tiny-qwen3_untied-ios"},
    {.model = "tiny-qwen3-ios-f16emb", .draft = "tiny-qwen3-macos"},
    {.model = "tiny-mistral-ios"},
    {.model = "tiny-qwen3_vl-vlm"},
    {.model = "tiny-qwen3-macos-4bit", .draft = "tiny-qwen3-macos", .options = {.model = &kInt8}},
    {.model = "tiny-gemma3-macos-4bit", .options = {.model = &kInt8}},
    {.model = "tiny-qwen3-macos-4bit", .options = {.model = &kBf16}},
    {.model = "tiny-qwen3-macos", .options = {.model = &kBf16}},
    {.model = "tiny-qwen3_moe-macos", .options = {.model = &kBf16}},
};

static bool exists(const char *model) {
  char path[512];
  snprintf(path, sizeof path, LM_MODELS "%s", model);
  return access(path, R_OK) == 0;
}

static void test_random(void **state) {
  (void)state;
  const char *given = getenv("CAIRN_TEST_SEED"), *count = getenv("CAIRN_TEST_RUNS");
  uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
  totals t = {0};
  for (size_t i = 0; i < sizeof kSubjects / sizeof *kSubjects; i++) {
    if (exists(kSubjects[i].model) && (!kSubjects[i].draft || exists(kSubjects[i].draft)))
      check_subject(&kSubjects[i], count ? atoi(count) : 20, next_random(&seed), &t);
  }
  if (!t.n_runs) skip();
  print_message("%d generations: %lld tokens in %lld runs\n", t.n_runs, (long long)t.tokens, (long long)t.runs);
  assert_true(t.n_runs >= 200);
}

// --- ends ---------------------------------------------------------------------------------------------------------------

#define DYNAMIC "tiny-qwen3-macos"

static cairn_speculation always(cairn_speculation_mode mode, cairn_llm *draft) {
  return (cairn_speculation){.mode = mode, .draft = draft, .always = true};
}

// The context ends at every place of a draft; nothing is drafted past it, and nothing more fits.
static void check_full_context(const char *model) {
  static result a, b;
  cairn_context *context = lm_context(2);
  cairn_llm *draft = lm_open(context, model, NULL);
  for (int64_t size = 24; size < 24 + 18; size++) {
    const cairn_llm_options o = {.kv = "fixed", .kv_capacity = size};
    cairn_llm *plain = lm_open(context, model, &o), *fast = lm_open(context, model, &o);
    const int32_t prompt[] = {7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8};
    cairn_generate_options g = {.tokens = prompt, .n_tokens = 11, .max_tokens = -1, .ignore_eos = true};
    generate(plain, &g, &a);
    for (int mode = CAIRN_SPECULATION_LOOKUP; mode <= CAIRN_SPECULATION_DRAFT; mode++) {
      g.speculation = always(mode, mode == CAIRN_SPECULATION_DRAFT ? draft : NULL);
      LM_OK(cairn_llm_reset(fast, 0));
      generate(fast, &g, &b);
      check_same(&a, &b, false, "a full context");
      assert_int_equal(b.reason, CAIRN_STOP_CONTEXT_FULL);
    }
    assert_true(b.accepted > 0);
    cairn_llm_close(fast);
    cairn_llm_close(plain);
  }
  cairn_llm_close(draft);
  cairn_context_release(context);
}

static void test_full_context(void **state) {
  (void)state;
  lm_need(LM_MODELS DYNAMIC);
  check_full_context(DYNAMIC);
}

// A caller that leaves in the middle of a draft finds the history of what was fed, and the next turn is that of a cold engine.
static void test_leaving(void **state) {
  (void)state;
  static result a, b;
  lm_need(LM_MODELS DYNAMIC);
  cairn_context *context = lm_context(2);
  cairn_llm *plain = lm_open(context, DYNAMIC, NULL), *fast = lm_open(context, DYNAMIC, NULL), *draft = lm_open(context, DYNAMIC, NULL);
  const int32_t prompt[] = {7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8};
  for (int64_t leave = 1; leave < 24; leave++) {
    cairn_generate_options g = {.tokens = prompt, .n_tokens = 11, .max_tokens = 40, .ignore_eos = true};
    a.leave_after = b.leave_after = leave;
    generate(plain, &g, &a);
    g.speculation = always(CAIRN_SPECULATION_DRAFT, draft);
    generate(fast, &g, &b);
    check_same(&a, &b, false, "leaving");
    assert_int_equal(b.reason, CAIRN_STOP_CANCELLED);
    assert_true(leave < 4 || b.decode_runs < b.decode_tokens);
    // Single steps go on behind it.
    const int32_t next[] = {3, 4};
    lm_rows one = {0}, other = {0};
    lm_feed(plain, next, 2, 1, &one);
    lm_feed(fast, next, 2, 2, &other);
    assert_memory_equal(one.data, other.data, (size_t)(2 * one.width) * sizeof *one.data);
    lm_rows_free(&one);
    lm_rows_free(&other);
  }
  cairn_llm_close(draft);
  cairn_llm_close(fast);
  cairn_llm_close(plain);
  cairn_context_release(context);
}

static cairn_status fail_at(void *user, int64_t position, const float *row, int64_t vocab_size) {
  (void)row;
  (void)vocab_size;
  return position == *(const int64_t *)user ? CRN_FAIL(INTERNAL, "no more rows") : CAIRN_OK;
}

// An error of the caller in the middle of a draft ends the generation with it; the history holds what was fed.
static void test_failing_callback(void **state) {
  (void)state;
  lm_need(LM_MODELS DYNAMIC);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open(context, DYNAMIC, NULL), *draft = lm_open(context, DYNAMIC, NULL);
  const int32_t prompt[] = {7, 8, 9};
  for (int64_t at = 5; at < 30; at++) {
    cairn_generation *g;
    int64_t n;
    const cairn_generate_options o = {.tokens = prompt,
                                      .n_tokens = 3,
                                      .max_tokens = 60,
                                      .ignore_eos = true,
                                      .on_logits = fail_at,
                                      .user = &at,
                                      .speculation = always(CAIRN_SPECULATION_DRAFT, draft)};
    lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INTERNAL, "no more rows");
    cairn_generation_destroy(g);
    cairn_llm_history(llm, &n);
    assert_int_equal(n, at + 1);
  }
  cairn_llm_close(draft);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// --- what is refused ----------------------------------------------------------------------------------------------------

static void expect_refused(cairn_llm *llm, cairn_speculation s, cairn_status expected, const char *part) {
  const int32_t prompt[] = {7, 8, 9};
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = prompt, .n_tokens = 3, .max_tokens = 4, .speculation = s};
  lm_expect(cairn_llm_generate(llm, &o, &g), expected, part);
  assert_null(g);
}

static void expect_note(cairn_llm *llm, const char *note) {
  const int32_t prompt[] = {7, 8, 9};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = prompt, .n_tokens = 3, .max_tokens = 4, .speculation = {.mode = CAIRN_SPECULATION_AUTO}};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  assert_non_null(strstr(info.speculation_note, note));
  assert_int_equal(info.drafted_tokens, 0);
  assert_int_equal(info.decode_runs, info.decode_tokens);
  cairn_generation_destroy(g);
}

static void test_refused(void **state) {
  (void)state;
  lm_need(LM_MODELS DYNAMIC);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open(context, DYNAMIC, NULL), *other;
  LM_OK(cairn_llm_open(context, CAIRN_TEST_DATA "/llm-forms/lm_dynamic", NULL, &other));
  expect_refused(llm, (cairn_speculation){.mode = 7}, CAIRN_INVALID_ARGUMENT, "speculation mode 7");
  expect_refused(llm, (cairn_speculation){.mode = CAIRN_SPECULATION_AUTO, .max_draft = 17}, CAIRN_INVALID_ARGUMENT, "1 to 16");
  expect_refused(llm, (cairn_speculation){.mode = CAIRN_SPECULATION_DRAFT}, CAIRN_INVALID_ARGUMENT, "needs one");
  expect_refused(llm, (cairn_speculation){.mode = CAIRN_SPECULATION_LOOKUP, .draft = other}, CAIRN_INVALID_ARGUMENT, "uses no draft model");
  expect_refused(llm, always(CAIRN_SPECULATION_DRAFT, llm), CAIRN_INVALID_ARGUMENT, "is the sequence that generates");
  expect_refused(llm, always(CAIRN_SPECULATION_DRAFT, other), CAIRN_INCOMPATIBLE, "the draft model has");
  // The other model is free again.
  LM_OK(cairn_llm_reset(other, 0));
  cairn_llm_close(other);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// Models that cannot: refused by name, left alone by 'auto'.
static void test_models_that_cannot(void **state) {
  (void)state;
  static const struct {
    const char *form, *why;
  } kForms[] = {{"lm_hybrid", "cannot be cut back"},
                {"lm_static_one", "one token a run"},
                {"lm_four_states", "one token a run"},
                {"lm_two_functions", "one token a run"}};
  cairn_context *context = lm_context(1);
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    char path[512];
    cairn_llm *llm;
    snprintf(path, sizeof path, CAIRN_TEST_DATA "/llm-forms/%s", kForms[i].form);
    LM_OK(cairn_llm_open(context, path, NULL, &llm));
    expect_refused(llm, (cairn_speculation){.mode = CAIRN_SPECULATION_LOOKUP}, CAIRN_UNSUPPORTED, kForms[i].why);
    expect_note(llm, kForms[i].why);
    cairn_llm_close(llm);
  }
  cairn_context_release(context);
}

// Forms that can: states, and caches as plain inputs.
static void test_forms(void **state) {
  (void)state;
  static const char *const kForms[] = {"lm_dynamic", "lm_host_cache/model.aimodel"};
  cairn_context *context = lm_context(2);
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    char path[512];
    cairn_llm *plain, *fast, *draft;
    totals t = {0};
    snprintf(path, sizeof path, CAIRN_TEST_DATA "/llm-forms/%s", kForms[i]);
    LM_OK(cairn_llm_open(context, path, NULL, &plain));
    LM_OK(cairn_llm_open(context, path, NULL, &fast));
    LM_OK(cairn_llm_open(context, path, NULL, &draft));
    for (uint64_t seed = 1; seed <= 12; seed++) check_random(plain, fast, draft, seed, kForms[i], &t);
    assert_true(t.accepted > 0);
    cairn_llm_close(draft);
    cairn_llm_close(fast);
    cairn_llm_close(plain);
  }
  cairn_context_release(context);
}

// --- memory -------------------------------------------------------------------------------------------------------------

static lm_counting g_counting;

static long long count_generation(cairn_llm *llm, int64_t n, cairn_speculation_mode mode, cairn_generation_info *out_info) {
  const int32_t prompt[] = {7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8};
  cairn_generation *g;
  const cairn_generate_options o = {
      .tokens = prompt, .n_tokens = 11, .max_tokens = n, .ignore_eos = true, .speculation = always(mode, NULL)};
  const long long before = atomic_load(&g_counting.n_allocations);
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, out_info);
  cairn_generation_destroy(g);
  return atomic_load(&g_counting.n_allocations) - before;
}

// Ten times the tokens cost no more allocations with drafts than without.
static void test_steady_memory(void **state) {
  (void)state;
  lm_need(LM_MODELS DYNAMIC);
  cairn_context *context = lm_counted_context(&g_counting, 2);
  cairn_generation_info info;
  cairn_llm *llm = lm_open(context, DYNAMIC, &(cairn_llm_options){.kv_capacity = 512});
  long long plain = 0, fast = 0;
  for (int i = 0; i < 3; i++) plain = count_generation(llm, 300, CAIRN_SPECULATION_OFF, &info);
  for (int i = 0; i < 3; i++) fast = count_generation(llm, 300, CAIRN_SPECULATION_LOOKUP, &info);
  print_message("300 tokens: %lld allocations; in %lld runs with drafts: %lld\n", plain, (long long)info.decode_runs, fast);
  assert_true(info.accepted_tokens > 0);
  // What a generation begins and ends with; runs allocate nothing, whatever their lengths.
  assert_true(fast <= plain + 8);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// Whatever allocation fails: the generation says so or goes on without drafts, and the next one is right.
static void test_out_of_memory(void **state) {
  (void)state;
  lm_need(LM_MODELS DYNAMIC);
  const cairn_llm_options small = {.kv = "growing", .kv_capacity = 8};
  const int32_t prompt[] = {7, 8, 9, 7, 8, 9, 7, 8};
  int32_t golden[20];
  cairn_context *context = lm_counted_context(&g_counting, 1);
  int n_failed = 0, n_without = 0;
  for (long long k = 0, reached = 1; reached; k++) {
    cairn_llm *llm = lm_open(context, DYNAMIC, &small), *draft = lm_open(context, DYNAMIC, &small);
    const cairn_generate_options o = {
        .tokens = prompt, .n_tokens = 8, .max_tokens = 20, .ignore_eos = true, .speculation = always(CAIRN_SPECULATION_AUTO, draft)};
    for (int again = 0; again < 2; again++) {
      cairn_generation *g;
      cairn_generation_info info;
      atomic_store(&g_counting.fail_at, k && !again ? atomic_load(&g_counting.n_allocations) + k : 0);
      cairn_status status = cairn_llm_generate(llm, &o, &g);
      if (k && !again) reached = atomic_load(&g_counting.n_allocations) >= atomic_load(&g_counting.fail_at);
      atomic_store(&g_counting.fail_at, 0);
      if (status != CAIRN_OK) {
        assert_false(again);
        lm_expect(status, CAIRN_OUT_OF_MEMORY, "");
        n_failed++;
      } else {
        cairn_generation_get(g, &info);
        assert_int_equal(info.n_tokens, 20);
        if (!k && !again) memcpy(golden, info.tokens, sizeof golden);
        assert_memory_equal(info.tokens, golden, sizeof golden);
        n_without += info.speculation_note[0] != 0;
      }
      cairn_generation_destroy(g);
    }
    cairn_llm_close(draft);
    cairn_llm_close(llm);
  }
  print_message("%d failures, and %d times without a source of drafts\n", n_failed, n_without);
  assert_true(n_failed > 20);
  assert_true(n_without > 0);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&g_counting.n_live), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),        cmocka_unit_test(test_full_context),
      cmocka_unit_test(test_leaving),       cmocka_unit_test(test_failing_callback),
      cmocka_unit_test(test_refused),       cmocka_unit_test(test_models_that_cannot),
      cmocka_unit_test(test_forms),         cmocka_unit_test(test_steady_memory),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
