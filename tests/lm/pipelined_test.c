/// The engine 'pipelined': the tokens of the sequential one, whatever ends a generation and wherever; what stays behind; failures of a
/// step's parts; how far it works ahead. lm_engine_pipelined and others run the tests of all engines with it.
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "cairn/session.h"
#include "cairn/stream.h"
#include "engines/llm/internal.h"
#include "engines/llm/pipelined.h"
#include "lm.h"

#define MODEL "tiny-qwen3-macos"  // dynamic cache, context 4096
#define FORMS CAIRN_TEST_DATA "/llm-forms/"

enum { VOCAB = 384, MOST = 400, FORM_VOCAB = 48 };

static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  g_context = lm_context(2);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

// --- generations ------------------------------------------------------------------------------------------------------

typedef struct result {
  int32_t tokens[MOST];
  int64_t n, hit;
  uint64_t seed;
  cairn_stop_reason reason;
} result;

static result take(cairn_generation *g) {
  result r = {.n = 0};
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= MOST);
  r.n = (int64_t)info.n_tokens;
  if (info.n_tokens) memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  r.hit = info.prefix_hit;
  r.seed = info.seed;
  r.reason = info.stop_reason;
  if (r.reason != CAIRN_STOP_ERROR) assert_int_equal(info.decode_tokens, info.n_tokens > 0 ? info.n_tokens - 1 : 0);
  cairn_generation_destroy(g);
  return r;
}

static result generate(cairn_llm *llm, const cairn_generate_options *o) {
  cairn_generation *g;
  LM_OK(cairn_llm_generate(llm, o, &g));
  return take(g);
}

static void expect_same(const char *what, const result *a, const result *b) {
  if (a->n != b->n || memcmp(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens) != 0) fail_msg("%s: other tokens", what);
}

static cairn_llm *open_engine(const char *model, const char *engine, int depth) {
  return lm_open(g_context, model, &(cairn_llm_options){.engine = engine, .pipeline_depth = depth});
}

static int64_t history(const cairn_llm *llm) {
  int64_t n;
  cairn_llm_history(llm, &n);
  return n;
}

// Tokens that look random and are the same every time.
static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static const cairn_sampling kSamplings[] = {
    {.temperature = 0},
    {.temperature = 0, .has_repetition_penalty = true, .repetition_penalty = 1.3f},
    {.temperature = 0.9f, .has_seed = true, .seed = 7},
    {.temperature = 1.2f, .has_seed = true, .seed = 1, .has_top_k = true, .top_k = 20, .has_top_p = true, .top_p = 0.9f},
    {.temperature = 2,
     .has_seed = true,
     .seed = 99,
     .has_min_p = true,
     .min_p = 0.05f,
     .has_repetition_penalty = true,
     .repetition_penalty = 1.2f,
     .has_repetition_window = true,
     .repetition_window = 5},
};
enum { N_SAMPLINGS = sizeof kSamplings / sizeof *kSamplings };

// --- the same tokens ----------------------------------------------------------------------------------------------------

static const char *const kModels[] = {"tiny-gemma3-macos",    "tiny-gemma3-macos-4bit", "tiny-gpt_oss-macos",      "tiny-mistral-macos",
                                      "tiny-phi3-macos",      "tiny-qwen2-macos",       "tiny-qwen3-macos",        "tiny-qwen3-macos-4bit",
                                      "tiny-qwen3_moe-macos", "tiny-qwen3-macos-f32",   "tiny-muse_glimmer-macos", "mlx-llama-b1"};

// Greedy and seeded tokens of every model with every depth are those of the sequential engine (test 35).
static void test_same_tokens(void **state) {
  (void)state;
  static const int kDepths[] = {1, 2, 3, 8};
  int n_compared = 0;
  lm_need(LM_MODELS MODEL);
  for (size_t m = 0; m < sizeof kModels / sizeof *kModels; m++) {
    int32_t prompt[20];
    cairn_llm *one = open_engine(kModels[m], "sequential", 0);
    cairn_llm_info info;
    cairn_llm_describe(one, &info);
    lm_fill(prompt, 20, (uint32_t)m, (uint32_t)info.vocab_size);
    for (size_t d = 0; d < sizeof kDepths / sizeof *kDepths; d++) {
      cairn_llm *ahead = open_engine(kModels[m], d ? "pipelined" : "coreai-pipelined", kDepths[d]);
      for (size_t s = 0; s < N_SAMPLINGS; s++) {
        const cairn_generate_options o = {.tokens = prompt, .n_tokens = 20, .max_tokens = 40, .sampling = kSamplings[s]};
        const result a = generate(one, &o), b = generate(ahead, &o);
        expect_same(kModels[m], &a, &b);
        assert_int_equal(a.reason, b.reason);
        assert_int_equal(a.seed, b.seed);
        n_compared++;
      }
      cairn_llm_describe(ahead, &info);
      assert_string_equal(info.engine, "pipelined");
      cairn_llm_close(ahead);
    }
    cairn_llm_close(one);
  }
  print_message("%d generations agree\n", n_compared);
}

// The contracts of tests/data/llm-forms, those that cannot work ahead included.
static void test_forms(void **state) {
  (void)state;
  static const char *const kForms[] = {"lm_dynamic", "lm_static_one", "lm_two_functions", "lm_four_states", "lm_host_cache/model.aimodel",
                                       "lm_hybrid"};
  int32_t prompt[19];
  lm_fill(prompt, 19, 3, FORM_VOCAB);
  for (size_t f = 0; f < sizeof kForms / sizeof *kForms; f++) {
    char path[512];
    snprintf(path, sizeof path, FORMS "%s", kForms[f]);
    cairn_llm *one = open_engine(path, "sequential", 0), *ahead = open_engine(path, "pipelined", 0);
    for (size_t s = 0; s < N_SAMPLINGS; s++) {
      const cairn_generate_options o = {.tokens = prompt, .n_tokens = 19, .max_tokens = 30, .sampling = kSamplings[s]};
      const result a = generate(one, &o), b = generate(ahead, &o);
      expect_same(kForms[f], &a, &b);
    }
    assert_int_equal(history(ahead), history(one));
    cairn_llm_close(one);
    cairn_llm_close(ahead);
  }
}

// A temperature of 0.7 in one turn and 0.9 in the next, or greedy behind it, is a new sampler and no error (tests 29, 88).
static void test_sampling_changes_between_turns(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[12];
  lm_fill(prompt, 12, 5, VOCAB);
  cairn_llm *one = open_engine(MODEL, "sequential", 0), *ahead = open_engine(MODEL, "pipelined", 0);
  static const float kTemperatures[] = {0.7f, 0.7005f, 0.9f, 0, 1.5f};
  for (size_t i = 0; i < sizeof kTemperatures / sizeof *kTemperatures; i++) {
    const cairn_generate_options o = {.tokens = prompt,
                                      .n_tokens = 12,
                                      .max_tokens = 20,
                                      .ignore_eos = true,
                                      .sampling = {.temperature = kTemperatures[i], .has_seed = true, .seed = 3}};
    const result a = generate(one, &o), b = generate(ahead, &o);
    expect_same("changed temperature", &a, &b);
  }
  cairn_llm_close(one);
  cairn_llm_close(ahead);
}

// Every storage of the caches, over several turns, against the sequential engine on the same storage.
static void test_storage(void **state) {
  (void)state;
  static const cairn_llm_options kStorages[] = {{.kv = "growing", .kv_capacity = 16},
                                                {.kv = "fixed"},
                                                {.kv = "paged"},
                                                {.kv = "paged", .kv_page = 128, .kv_type = "int8"},
                                                {.kv = "chunked", .kv_window = 64}};
  int32_t prompt[40];
  lm_need(LM_MODELS MODEL);
  for (size_t k = 0; k < sizeof kStorages / sizeof *kStorages; k++) {
    cairn_llm_options o = kStorages[k];
    o.engine = "sequential";
    cairn_llm *one = lm_open(g_context, MODEL, &o);
    o.engine = "pipelined";
    o.pipeline_depth = 4;
    cairn_llm *ahead = lm_open(g_context, MODEL, &o);
    for (uint32_t turn = 0; turn < 3; turn++) {
      lm_fill(prompt, 40, 6, VOCAB);
      lm_fill(prompt + 30, 10, turn, VOCAB);
      const cairn_generate_options g = {
          .tokens = prompt, .n_tokens = 40, .max_tokens = 180, .ignore_eos = true, .sampling = kSamplings[turn % N_SAMPLINGS]};
      const result a = generate(one, &g), b = generate(ahead, &g);
      expect_same(o.kv, &a, &b);
      assert_int_equal(a.hit, b.hit);
      assert_int_equal(history(ahead), history(one));
    }
    assert_int_equal(crn_pipeline_count(ahead).most_ahead, strcmp(o.kv, "chunked") == 0 ? 1 : 4);
    cairn_llm_close(one);
    cairn_llm_close(ahead);
  }
}

// --- the caller's thread ------------------------------------------------------------------------------------------------

typedef struct listener {
  pthread_t thread;
  int64_t n_events, n_rows, stop_at, fail_at;
  useconds_t pause;
  int64_t first_position;
  bool is_out_of_order, is_elsewhere;
  lm_rows rows;
} listener;

static bool hear(void *user, const cairn_token_event *event) {
  listener *l = user;
  if (event->token < 0) return true;
  l->is_out_of_order |= event->index != l->n_events;
  l->is_elsewhere |= !pthread_equal(l->thread, pthread_self());
  l->n_events++;
  if (l->pause) usleep(l->pause);
  return l->n_events != l->stop_at;
}

static cairn_status hear_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  listener *l = user;
  l->is_out_of_order |= position != l->first_position + l->n_rows || l->n_rows + 1 != l->n_events;
  l->is_elsewhere |= !pthread_equal(l->thread, pthread_self());
  l->n_rows++;
  if (l->pause) usleep(l->pause);
  if (l->n_rows == l->fail_at) return CAIRN_IO;
  return lm_keep_row(&l->rows, position, row, vocab_size);
}

static listener new_listener(int64_t n_prompt) { return (listener){.thread = pthread_self(), .first_position = n_prompt}; }

// So many tokens, so many events: none is lost at the end (tests 14, 26, 36).
static void test_no_token_is_lost(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[6];
  lm_fill(prompt, 6, 8, VOCAB);
  for (int depth = 1; depth <= 4; depth++) {
    cairn_llm *llm = open_engine(MODEL, "pipelined", depth);
    for (int64_t n = 0; n <= 60; n++) {
      listener l = new_listener(6);
      const cairn_generate_options o = {.tokens = prompt, .n_tokens = 6, .max_tokens = n, .ignore_eos = true, .on_token = hear, .user = &l};
      const result r = generate(llm, &o);
      assert_int_equal(r.n, n);
      assert_int_equal(l.n_events, n);
      assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
      assert_false(l.is_out_of_order || l.is_elsewhere);
      assert_int_equal(history(llm), n ? 6 + n - 1 : 6);
    }
    cairn_llm_close(llm);
  }
}

// Rows of logits come on the caller's thread, in their place, with the bits of the sequential engine, also when the steps ahead have
// long written theirs (tests 27, 28).
static void test_rows(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[7];
  lm_fill(prompt, 7, 21, VOCAB);
  for (int depth = 1; depth <= 4; depth++) {
    cairn_llm *one = open_engine(MODEL, "sequential", 0), *ahead = open_engine(MODEL, "pipelined", depth);
    listener a = new_listener(7), b = new_listener(7);
    b.pause = 500;
    cairn_generate_options o = {.tokens = prompt,
                                .n_tokens = 7,
                                .max_tokens = 25,
                                .ignore_eos = true,
                                .sampling = kSamplings[4],
                                .on_token = hear,
                                .on_logits = hear_row,
                                .user = &a};
    const result x = generate(one, &o);
    o.user = &b;
    const result y = generate(ahead, &o);
    expect_same("with rows", &x, &y);
    assert_int_equal(b.rows.n, 24);
    assert_memory_equal(a.rows.data, b.rows.data, (size_t)(a.rows.n * a.rows.width) * sizeof *a.rows.data);
    assert_false(a.is_out_of_order || b.is_out_of_order || b.is_elsewhere);
    lm_rows_free(&a.rows);
    lm_rows_free(&b.rows);
    cairn_llm_close(one);
    cairn_llm_close(ahead);
  }
}

// Caches that grow from 8 rows while steps are on their way lose nothing: every row of logits has the same bits (test 69).
static void test_growth_on_the_way(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[5];
  lm_fill(prompt, 5, 4, VOCAB);
  listener all = new_listener(5);
  cairn_generate_options o = {.tokens = prompt,
                              .n_tokens = 5,
                              .max_tokens = 300,
                              .ignore_eos = true,
                              .sampling = kSamplings[4],
                              .on_token = hear,
                              .on_logits = hear_row,
                              .user = &all};
  cairn_llm *one = lm_open(g_context, MODEL, &(cairn_llm_options){.engine = "sequential", .kv = "fixed"});
  const result a = generate(one, &o);
  for (int depth = 1; depth <= 8; depth++) {
    cairn_llm *ahead =
        lm_open(g_context, MODEL, &(cairn_llm_options){.engine = "pipelined", .pipeline_depth = depth, .kv = "growing", .kv_capacity = 8});
    listener l = new_listener(5);
    o.user = &l;
    const result b = generate(ahead, &o);
    expect_same("grown", &a, &b);
    assert_int_equal(l.rows.n, 299);
    assert_memory_equal(l.rows.data, all.rows.data, (size_t)(l.rows.n * l.rows.width) * sizeof *l.rows.data);
    lm_rows_free(&l.rows);
    cairn_llm_info info;
    cairn_llm_describe(ahead, &info);
    assert_int_equal(info.kv_capacity, 512);
    assert_int_equal(history(ahead), 304);
    cairn_llm_close(ahead);
  }
  lm_rows_free(&all.rows);
  cairn_llm_close(one);
}

// As many steps as asked for are on their way, never more, however slow the reader (tests 25, 82).
static void test_depth(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[6];
  lm_fill(prompt, 6, 8, VOCAB);
  for (int depth = 0; depth <= 8; depth++) {
    cairn_llm *llm = open_engine(MODEL, "pipelined", depth);
    listener l = new_listener(6);
    l.pause = 300;
    const cairn_generate_options o = {.tokens = prompt, .n_tokens = 6, .max_tokens = 30, .ignore_eos = true, .on_token = hear, .user = &l};
    generate(llm, &o);
    const crn_pipeline_counts counts = crn_pipeline_count(llm);
    assert_int_equal(counts.most_ahead, depth ? depth : 3);
    assert_int_equal(counts.n_steps, 30);
    cairn_llm_close(llm);
  }
}

// --- ends and what they leave ---------------------------------------------------------------------------------------------

// The next turn is the tokens of the last one and a few more: what is held of them is not computed again, and nothing is wrong.
static void check_next_turn(cairn_llm *llm, const int32_t *prompt, int64_t n_prompt, const result *r, int64_t expected_hit) {
  int32_t next[MOST + 64];
  cairn_llm *fresh = open_engine(MODEL, "sequential", 0);
  memcpy(next, prompt, (size_t)n_prompt * sizeof *next);
  memcpy(next + n_prompt, r->tokens, (size_t)r->n * sizeof *next);
  int64_t n = n_prompt + r->n;
  lm_fill(next + n, 5, (uint32_t)n, VOCAB);
  const cairn_generate_options o = {.tokens = next, .n_tokens = (size_t)(n + 5), .max_tokens = 12, .ignore_eos = true};
  const result warm = generate(llm, &o), cold = generate(fresh, &o);
  expect_same("next turn", &warm, &cold);
  assert_int_equal(warm.hit, expected_hit);
  cairn_llm_close(fresh);
}

// A caller that has enough after k tokens: at most depth - 1 more were computed, and rows that were written are used again (test 31).
static void test_reader_leaves(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[9];
  lm_fill(prompt, 9, 17, VOCAB);
  int64_t n_kept = 0;
  for (int depth = 1; depth <= 5; depth += 2) {
    for (int64_t k = 1; k <= 13; k += 3) {
      cairn_llm *llm = open_engine(MODEL, "pipelined", depth);
      listener l = new_listener(9);
      l.stop_at = k;
      l.pause = 2000;
      const cairn_generate_options o = {
          .tokens = prompt, .n_tokens = 9, .max_tokens = 200, .ignore_eos = true, .on_token = hear, .user = &l};
      const result r = generate(llm, &o);
      assert_int_equal(r.reason, CAIRN_STOP_CANCELLED);
      assert_int_equal(r.n, k);
      assert_true(crn_pipeline_count(llm).n_steps <= k + depth - 1);
      // Idle: a step of the states is possible at once, and nothing changes them any more.
      const int64_t held = history(llm);
      assert_in_range(held, 9 + k - 1, 9 + k - 1 + depth - 1);
      n_kept += held - (9 + k - 1);
      usleep(3000);
      assert_int_equal(history(llm), held);
      check_next_turn(llm, prompt, 9, &r, held < 9 + k ? held : 9 + k);
      cairn_llm_close(llm);
    }
  }
  // The reader takes its time, so what was queued behind its last token was done by then.
  assert_true(n_kept > 0);
}

// A stop id ends what is queued behind it: nothing is computed in vain, and the next turn feeds it and the new tokens only (test 86).
static void test_stop_id_in_the_stream(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[9];
  lm_fill(prompt, 9, 23, VOCAB);
  cairn_llm *one = open_engine(MODEL, "sequential", 0);
  cairn_generate_options o = {.tokens = prompt, .n_tokens = 9, .max_tokens = 60, .ignore_eos = true, .sampling = kSamplings[4]};
  const result whole = generate(one, &o);
  int n_stopped = 0;
  for (int64_t k = 0; k < 40; k += 3) {
    int32_t stop = whole.tokens[k];
    o.stop_ids = &stop;
    o.n_stop_ids = 1;
    cairn_llm *llm = open_engine(MODEL, "pipelined", 4);
    const result a = generate(one, &o), b = generate(llm, &o);
    expect_same("stop id", &a, &b);
    assert_int_equal(b.reason, CAIRN_STOP_SEQUENCE);
    assert_int_equal(history(llm), 9 + b.n - 1);
    assert_int_equal(b.tokens[b.n - 1], stop);
    check_next_turn(llm, prompt, 9, &b, 9 + b.n - 1);
    n_stopped++;
    cairn_llm_close(llm);
  }
  assert_int_equal(n_stopped, 14);
  cairn_llm_close(one);
}

// The end by max_tokens leaves nothing ahead, and the next turn is that of a cold run (test 87).
static void test_most_tokens(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[9];
  lm_fill(prompt, 9, 29, VOCAB);
  for (int64_t n = 1; n <= 10; n++) {
    cairn_llm *llm = open_engine(MODEL, "pipelined", 3);
    const cairn_generate_options o = {.tokens = prompt, .n_tokens = 9, .max_tokens = n, .ignore_eos = true};
    const result r = generate(llm, &o);
    assert_int_equal(history(llm), 9 + n - 1);
    check_next_turn(llm, prompt, 9, &r, 9 + n - 1);
    cairn_llm_close(llm);
  }
}

// Running states cannot be cut back, so nothing may be overshot: the depth is 1, which is told (tests 33, 81).
static void test_hybrid(void **state) {
  (void)state;
  int32_t prompt[9];
  lm_fill(prompt, 9, 2, FORM_VOCAB);
  cairn_llm *llm = open_engine(FORMS "lm_hybrid", "pipelined", 4);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  bool is_told = false;
  for (int i = 0; i < info.n_decisions; i++)
    is_told |= strcmp(info.decisions[i].what, "pipeline_depth") == 0 && strcmp(info.decisions[i].chosen, "1") == 0;
  assert_true(is_told);
  for (int64_t k = 1; k < 6; k++) {
    listener l = new_listener(9);
    l.stop_at = k;
    const cairn_generate_options o = {.tokens = prompt, .n_tokens = 9, .max_tokens = 20, .ignore_eos = true, .on_token = hear, .user = &l};
    generate(llm, &o);
    assert_int_equal(history(llm), 9 + k - 1);
    assert_int_equal(crn_pipeline_count(llm).most_ahead, 1);
    lm_expect(cairn_llm_reset(llm, 5), CAIRN_UNSUPPORTED, "cannot be cut back");
    LM_OK(cairn_llm_reset(llm, 0));
  }
  cairn_llm_close(llm);
}

// A prompt that leaves room for one token gives exactly one (test 32), forced tokens are fed, and a warm-up leaves nothing (34, 90).
static void test_other_calls(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[64];
  lm_fill(prompt, 64, 2, VOCAB);
  cairn_llm *llm = lm_open(g_context, MODEL, &(cairn_llm_options){.engine = "pipelined", .max_context = 64});
  cairn_generation *g;
  cairn_generate_options o = {.tokens = prompt, .n_tokens = 64, .max_tokens = -1, .ignore_eos = true};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_CONTEXT_FULL, "64");
  o.n_tokens = 63;
  result r = generate(llm, &o);
  assert_int_equal(r.n, 1);
  assert_int_equal(r.reason, CAIRN_STOP_CONTEXT_FULL);
  o = (cairn_generate_options){.tokens = prompt, .n_tokens = 9, .forced = prompt + 9, .n_forced = 12};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  assert_int_equal(info.n_tokens, 12);
  assert_memory_equal(info.tokens, prompt + 9, 12 * sizeof *prompt);
  cairn_generation_destroy(g);
  assert_int_equal(history(llm), 21);
  LM_OK(cairn_llm_warm_up(llm, 64));
  assert_int_equal(history(llm), 0);
  cairn_llm_close(llm);
}

// --- failures -----------------------------------------------------------------------------------------------------------

// A table of values for every token, in which that of `bad` is no number.
static cairn_llm *open_with_table(const char *engine, int32_t bad) {
  char path[512];
  cairn_ndarray *table;
  LM_OK(cairn_ndarray_create(g_context, CAIRN_F32, (const int64_t[]){FORM_VOCAB, 2, 4}, 3, &table));
  float *data = cairn_ndarray_mutable_data(table);
  for (int i = 0; i < FORM_VOCAB * 8; i++) data[i] = i / 8 == bad ? NAN : (float)sin((double)i) * 4;
  const cairn_named_array given = {"per_layer_inputs", table};
  snprintf(path, sizeof path, FORMS "lm_extra_input");
  cairn_llm *llm = lm_open(g_context, path, &(cairn_llm_options){.engine = engine, .token_tables = &given, .n_token_tables = 1});
  cairn_ndarray_release(table);
  return llm;
}

// Choosing fails in step k: the tokens before it were given out, the failure says where, and the engine goes on (tests 83, 84).
static void test_choosing_fails(void **state) {
  (void)state;
  int32_t prompt[6];
  lm_fill(prompt, 6, 11, FORM_VOCAB);
  cairn_llm *good = open_with_table("sequential", -1);
  cairn_generate_options o = {.tokens = prompt, .n_tokens = 6, .max_tokens = 40, .ignore_eos = true, .sampling = kSamplings[4]};
  const result whole = generate(good, &o);
  int n_failed = 0;
  for (int64_t k = 0; k < 12; k++) {
    const int32_t bad = whole.tokens[k];
    bool is_early = false;
    for (int64_t i = 0; i < 6; i++) is_early |= prompt[i] == bad;
    for (int64_t i = 0; i < k; i++) is_early |= whole.tokens[i] == bad;
    if (is_early) continue;
    cairn_llm *llm = open_with_table("pipelined", bad);
    cairn_generation *g;
    char part[64];
    snprintf(part, sizeof part, "after token %d hold no number", (int)(6 + k));
    lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INTERNAL, part);
    cairn_generation_info info;
    cairn_generation_get(g, &info);
    assert_int_equal(info.stop_reason, CAIRN_STOP_ERROR);
    assert_int_equal(info.n_tokens, k + 1);
    assert_memory_equal(info.tokens, whole.tokens, (size_t)(k + 1) * sizeof *whole.tokens);
    cairn_generation_destroy(g);
    assert_int_equal(history(llm), 6 + k + 1);
    // The states are as good as before: the same again fails in the same place, and less than that works.
    cairn_generate_options shorter = o;
    shorter.max_tokens = k + 1;
    for (int turn = 0; turn < 5; turn++) {
      const result r = generate(llm, &shorter);
      assert_int_equal(r.n, k + 1);
      lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INTERNAL, part);
      cairn_generation_destroy(g);
    }
    n_failed++;
    cairn_llm_close(llm);
  }
  assert_true(n_failed >= 4);
  cairn_llm_close(good);
}

// A caller that refuses a row of logits ends the generation with its status.
static void test_reader_fails(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[6];
  lm_fill(prompt, 6, 12, VOCAB);
  cairn_llm *llm = open_engine(MODEL, "pipelined", 3);
  for (int64_t k = 1; k < 9; k++) {
    listener l = new_listener(6);
    l.fail_at = k;
    const cairn_generate_options o = {
        .tokens = prompt, .n_tokens = 6, .max_tokens = 20, .ignore_eos = true, .on_token = hear, .on_logits = hear_row, .user = &l};
    cairn_generation *g;
    assert_int_equal(cairn_llm_generate(llm, &o, &g), CAIRN_IO);
    result r = take(g);
    assert_int_equal(r.n, k);
    check_next_turn(llm, prompt, 6, &r, history(llm) < 6 + k ? history(llm) : 6 + k);
    lm_rows_free(&l.rows);
    LM_OK(cairn_llm_reset(llm, 6));
  }
  cairn_llm_close(llm);
}

// Inside of queued work nothing may be waited for; a generation there is decoded one token after the other.
typedef struct inside {
  cairn_llm *llm;
  const cairn_generate_options *options;
  result result;
} inside;

static cairn_status generate_inside(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets,
                                    int n_targets, cairn_ndarray **out_arrays) {
  inside *i = user;
  cairn_generation *g;
  (void)inputs, (void)n_inputs, (void)targets, (void)n_targets, (void)out_arrays;
  cairn_status status = cairn_llm_generate(i->llm, i->options, &g);
  if (status == CAIRN_OK) i->result = take(g);
  return status;
}

static void test_inside_of_a_stream(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t prompt[6];
  lm_fill(prompt, 6, 12, VOCAB);
  const cairn_generate_options o = {.tokens = prompt, .n_tokens = 6, .max_tokens = 20, .ignore_eos = true};
  cairn_stream *stream;
  LM_OK(cairn_stream_create(g_context, NULL, &stream));
  inside i = {.llm = open_engine(MODEL, "pipelined", 3), .options = &o};
  const cairn_call_args call = {.name = "generate", .call = generate_inside, .user = &i};
  LM_OK(cairn_stream_encode_call(stream, &call, NULL));
  LM_OK(cairn_stream_wait(stream));
  assert_int_equal(crn_pipeline_count(i.llm).n_steps, 0);
  LM_OK(cairn_llm_reset(i.llm, 0));
  const result r = generate(i.llm, &o);
  assert_int_equal(r.n, 20);
  expect_same("inside", &r, &i.result);
  cairn_llm_close(i.llm);
  cairn_stream_destroy(stream);
}

// --- anything at any time --------------------------------------------------------------------------------------------------

typedef struct canceller {
  cairn_llm *llm;
  useconds_t after;
} canceller;

static void *cancel_later(void *user) {
  const canceller *c = user;
  usleep(c->after);
  cairn_llm_cancel(c->llm);
  return NULL;
}

static void expect_prefix(const result *part, const result *whole) {
  assert_true(part->n <= whole->n);
  assert_memory_equal(part->tokens, whole->tokens, (size_t)part->n * sizeof *part->tokens);
}

// One turn of a conversation that is ended somehow. What came is the beginning of what the sequential engine gives.
static void take_turn(cairn_llm *one, cairn_llm *ahead, uint32_t *seed) {
  int32_t prompt[40], stop;
  const int64_t n = 1 + next_random(seed) % 40;
  const uint32_t how = next_random(seed) % 6;
  listener l = new_listener(n);
  // Prompts agree in their beginnings, so that rows of earlier turns are used.
  lm_fill(prompt, n, 77, VOCAB);
  prompt[next_random(seed) % (uint32_t)n] = (int32_t)(next_random(seed) % VOCAB);
  cairn_generate_options o = {.tokens = prompt,
                              .n_tokens = (size_t)n,
                              .max_tokens = next_random(seed) % 50,
                              .ignore_eos = true,
                              .sampling = kSamplings[next_random(seed) % N_SAMPLINGS]};
  LM_OK(cairn_llm_reset(one, 0));
  const result whole = generate(one, &o);
  o.on_token = hear;
  o.user = &l;
  l.pause = next_random(seed) % 3 * 40;
  if (how == 1) l.stop_at = 1 + next_random(seed) % 20;
  if (how == 2 && whole.n) {
    stop = whole.tokens[next_random(seed) % (uint32_t)whole.n];
    o.stop_ids = &stop;
    o.n_stop_ids = 1;
  }
  if (how == 3) {
    o.on_logits = hear_row;
    l.fail_at = 1 + next_random(seed) % 20;
  }
  canceller c = {.llm = ahead, .after = next_random(seed) % 2000};
  pthread_t thread;
  if (how == 4) assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
  cairn_generation *g;
  cairn_status status = cairn_llm_generate(ahead, &o, &g);
  if (how == 4) pthread_join(thread, NULL);
  if (how == 3 && whole.n > l.fail_at) assert_int_equal(status, CAIRN_IO);
  if (how != 3) LM_OK(status);
  const result part = take(g);
  expect_prefix(&part, &whole);
  if (how == 0 || how == 5) assert_int_equal(part.n, whole.n);
  assert_int_equal(l.n_events, part.n);
  assert_false(l.is_out_of_order || l.is_elsewhere);
  lm_rows_free(&l.rows);
  if (how == 5) LM_OK(cairn_llm_reset(ahead, next_random(seed) % (uint32_t)(history(ahead) + 1)));
}

static void test_random(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  const char *given = getenv("CAIRN_TEST_SEED"), *rounds = getenv("CAIRN_TEST_ROUNDS");
  uint32_t seed = given ? (uint32_t)atoi(given) : 20261129u;
  const int n_rounds = rounds ? atoi(rounds) : 300;
  print_message("seed %u, %d rounds\n", seed, n_rounds);
  cairn_llm *one = open_engine(MODEL, "sequential", 0);
  for (int depth = 1; depth <= 4; depth++) {
    cairn_llm *ahead = lm_open(g_context, MODEL, &(cairn_llm_options){.engine = "pipelined", .pipeline_depth = depth, .kv_capacity = 16});
    for (int i = 0; i < n_rounds / 4; i++) take_turn(one, ahead, &seed);
    cairn_llm_close(ahead);
  }
  cairn_llm_close(one);
}

// Sequences of one model at once, each on its own thread and with its own stream.
typedef struct worker {
  const cairn_llm *model;
  uint32_t seed;
  int n_rounds;
} worker;

static void *work(void *user) {
  const worker *w = user;
  uint32_t seed = w->seed;
  cairn_llm *one = open_engine(MODEL, "sequential", 0), *ahead;
  LM_OK(cairn_llm_create_sequence(w->model, &ahead));
  for (int i = 0; i < w->n_rounds; i++) take_turn(one, ahead, &seed);
  cairn_llm_close(one);
  cairn_llm_close(ahead);
  return NULL;
}

static void test_sequences_at_once(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  pthread_t threads[3];
  worker workers[3];
  cairn_llm *llm = open_engine(MODEL, "pipelined", 3);
  for (uint32_t i = 0; i < 3; i++) {
    workers[i] = (worker){.model = llm, .seed = i + 1, .n_rounds = 15};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  cairn_llm_close(llm);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_same_tokens),
                                     TEST(test_forms),
                                     TEST(test_sampling_changes_between_turns),
                                     TEST(test_growth_on_the_way),
                                     TEST(test_storage),
                                     TEST(test_no_token_is_lost),
                                     TEST(test_rows),
                                     TEST(test_depth),
                                     TEST(test_reader_leaves),
                                     TEST(test_stop_id_in_the_stream),
                                     TEST(test_most_tokens),
                                     TEST(test_hybrid),
                                     TEST(test_other_calls),
                                     TEST(test_choosing_fails),
                                     TEST(test_reader_fails),
                                     TEST(test_inside_of_a_stream),
                                     TEST(test_random),
                                     TEST(test_sequences_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
