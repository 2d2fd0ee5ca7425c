/// What goes wrong without a word in Apple's engines does not go wrong here: a test for each such fault that is one of an engine as a
/// whole, on every engine. docs/behaviour.md has the whole list, with the faults whose tests stand elsewhere.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "lm.h"

enum { VOCAB = 384, MOST = 64 };

/// An engine with a model it can run.
typedef struct variant {
  const char *model, *engine, *kv;
} variant;

static const variant kVariants[] = {
    {"tiny-qwen3-macos", "sequential", "growing"},     {"tiny-qwen3-macos", "sequential", "paged"},
    {"tiny-qwen3-macos", "pipelined", "growing"},      {"tiny-qwen3-macos", "pipelined", "paged"},
    {"tiny-mistral-macos", "sequential", "fixed"},     {"tiny-mistral-macos", "pipelined", "fixed"},
    {"tiny-qwen3-macos-4bit", "pipelined", "growing"}, {"tiny-qwen3-ios", "static-shape", "fixed"},
};
#define FOR_EACH_VARIANT(v) for (const variant *v = kVariants; v < kVariants + sizeof kVariants / sizeof *kVariants; v++)

static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  if (access(LM_MODELS "tiny-qwen3-macos", R_OK) == 0) g_context = lm_context(1);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  if (g_context) cairn_context_release(g_context);
  g_context = NULL;
  return 0;
}

static cairn_llm *open_variant(const variant *v) {
  return lm_open(g_context, v->model, &(cairn_llm_options){.engine = v->engine, .kv = v->kv});
}

typedef struct result {
  int32_t tokens[MOST];
  int64_t n, hit;
  cairn_stop_reason reason;
} result;

static result run(cairn_llm *llm, const cairn_generate_options *options) {
  result r = {.n = 0};
  cairn_generation *g;
  cairn_generation_info info;
  LM_OK(cairn_llm_generate(llm, options, &g));
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= MOST);
  r.n = (int64_t)info.n_tokens;
  if (r.n) memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  r.hit = info.prefix_hit;
  r.reason = info.stop_reason;
  cairn_generation_destroy(g);
  return r;
}

static result greedy(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t most) {
  return run(llm, &(cairn_generate_options){.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = most, .ignore_eos = true});
}

static result fresh(const variant *v, const cairn_generate_options *options) {
  cairn_llm *llm = open_variant(v);
  result r = run(llm, options);
  assert_int_equal(r.hit, 0);
  cairn_llm_close(llm);
  return r;
}

static void expect_same(const variant *v, const result *a, const result *b) {
  if (a->n != b->n || memcmp(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens) != 0) {
    fail_msg("%s, %s, %s: other tokens than a fresh engine", v->model, v->engine, v->kv);
  }
}

static int64_t held(const cairn_llm *llm) {
  int64_t n;
  cairn_llm_history(llm, &n);
  return n;
}

// B1, C8, D6: a turn behind one that ended with max_tokens misses no row, and computes nothing twice.
static void test_turns_behind_max_tokens(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[200];
    int64_t n = 11;
    cairn_llm *llm = open_variant(v);
    lm_fill(tokens, n, 3, VOCAB);
    for (int turn = 0; turn < 5; turn++) {
      const int64_t before = held(llm);
      const result r = greedy(llm, tokens, n, 6 + turn);
      const result cold =
          fresh(v, &(cairn_generate_options){.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = 6 + turn, .ignore_eos = true});
      expect_same(v, &r, &cold);
      assert_int_equal(r.hit, before);
      assert_true(held(llm) >= n + r.n - 1);
      memcpy(tokens + n, r.tokens, (size_t)r.n * sizeof *tokens);
      n += r.n;
      lm_fill(tokens + n, 3, 50 + (uint32_t)turn, VOCAB);
      n += 3;
    }
    cairn_llm_close(llm);
  }
}

static bool leave_after(void *user, const cairn_token_event *event) { return event->index + 1 < *(const int64_t *)user; }

// B2, F10: after a stop id, and after a consumer that left, exactly what was consumed counts; the next turn computes the new tokens only.
static void test_turns_behind_a_stop(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[64];
    lm_fill(tokens, 9, 8, VOCAB);
    cairn_llm *llm = open_variant(v);
    const result whole = greedy(llm, tokens, 9, 16);
    for (int64_t at = 1; at < 8; at += 2) {
      for (int leaves = 0; leaves < 2; leaves++) {
        LM_OK(cairn_llm_reset(llm, 0));
        cairn_generate_options o = {.tokens = tokens, .n_tokens = 9, .max_tokens = 16, .ignore_eos = true};
        int64_t most = at + 1;
        if (leaves) {
          o.on_token = leave_after;
          o.user = &most;
        } else {
          o.stop_ids = &whole.tokens[at];
          o.n_stop_ids = 1;
        }
        const result r = run(llm, &o);
        assert_true(r.n >= 1 && r.n <= at + 1);
        assert_int_equal(r.reason, leaves ? CAIRN_STOP_CANCELLED : CAIRN_STOP_SEQUENCE);
        assert_memory_equal(r.tokens, whole.tokens, (size_t)r.n * sizeof *r.tokens);
        int32_t next[64];
        memcpy(next, tokens, 9 * sizeof *next);
        memcpy(next + 9, r.tokens, (size_t)r.n * sizeof *next);
        lm_fill(next + 9 + r.n, 2, 77, VOCAB);
        const cairn_generate_options turn = {.tokens = next, .n_tokens = (size_t)(11 + r.n), .max_tokens = 5, .ignore_eos = true};
        const result warm = run(llm, &turn), cold = fresh(v, &turn);
        expect_same(v, &warm, &cold);
        assert_true(warm.hit >= 9 + r.n - 1);
      }
    }
    cairn_llm_close(llm);
  }
}

// B3: no token asked for, none given.
static void test_no_tokens(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[9];
    lm_fill(tokens, 9, 8, VOCAB);
    cairn_llm *llm = open_variant(v);
    const result r = greedy(llm, tokens, 9, 0);
    assert_int_equal(r.n, 0);
    assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
    cairn_llm_close(llm);
  }
}

// B4: a generation without a limit does not make the whole cache at once.
static void test_unlimited_is_not_allocated(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    if (strcmp(v->kv, "fixed") == 0) continue;
    int32_t tokens[9];
    lm_fill(tokens, 9, 8, VOCAB);
    cairn_llm *llm = open_variant(v);
    int64_t most = 5;
    cairn_llm_info info;
    const result r =
        run(llm, &(cairn_generate_options){
                     .tokens = tokens, .n_tokens = 9, .max_tokens = -1, .ignore_eos = true, .on_token = leave_after, .user = &most});
    assert_int_equal(r.n, 5);
    cairn_llm_describe(llm, &info);
    assert_true(info.kv_capacity <= 256);
    assert_true(info.kv_limit > 256);
    cairn_llm_close(llm);
  }
}

// B7, B9, F12: settings of one generation have no part in the next: filters, temperature, penalty and its memory.
static void test_settings_do_not_stay(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  static const cairn_sampling kSettings[] = {
      {.temperature = 0},
      {.temperature = 1.5f, .has_seed = true, .seed = 4},
      {.temperature = 0, .has_repetition_penalty = true, .repetition_penalty = 1.8f},
      {.temperature = 0.7f, .has_top_k = true, .top_k = 5, .has_seed = true, .seed = 4},
      {.temperature = 0.705f, .has_top_p = true, .top_p = 0.8f, .has_seed = true, .seed = 9},
      {.temperature = 2, .has_min_p = true, .min_p = 0.1f, .has_repetition_penalty = true, .repetition_penalty = 1.2f, .has_seed = true},
      {.temperature = 0},
  };
  FOR_EACH_VARIANT(v) {
    int32_t tokens[12];
    lm_fill(tokens, 12, 21, VOCAB);
    cairn_llm *llm = open_variant(v);
    for (size_t i = 0; i < sizeof kSettings / sizeof *kSettings; i++) {
      const cairn_generate_options o = {.tokens = tokens, .n_tokens = 12, .max_tokens = 20, .ignore_eos = true, .sampling = kSettings[i]};
      const result r = run(llm, &o), cold = fresh(v, &o);
      expect_same(v, &r, &cold);
    }
    cairn_llm_close(llm);
  }
}

// B8, F1, F3: a seed gives the same tokens again, and on every engine of the model.
static void test_seeds_on_all_engines(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  int32_t tokens[12];
  result first[sizeof kVariants / sizeof *kVariants];
  lm_fill(tokens, 12, 33, VOCAB);
  const cairn_sampling s = {.temperature = 1.2f,
                            .has_top_k = true,
                            .top_k = 40,
                            .has_top_p = true,
                            .top_p = 0.95f,
                            .has_repetition_penalty = true,
                            .repetition_penalty = 1.1f,
                            .has_seed = true,
                            .seed = 1234};
  FOR_EACH_VARIANT(v) {
    result *r = &first[v - kVariants];
    const cairn_generate_options o = {.tokens = tokens, .n_tokens = 12, .max_tokens = 30, .ignore_eos = true, .sampling = s};
    cairn_llm *llm = open_variant(v);
    *r = run(llm, &o);
    for (int i = 0; i < 3; i++) {
      const result again = run(llm, &o);
      expect_same(v, &again, r);
    }
    cairn_llm_close(llm);
    for (const variant *other = kVariants; other < v; other++) {
      if (strcmp(other->model, v->model) == 0) expect_same(v, r, &first[other - kVariants]);
    }
  }
}

// B12, C2: a prompt that leaves no room is an error with both numbers, and nothing is run.
static void test_full_prompts(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    static int32_t tokens[8192];
    char part[64];
    cairn_llm_info info;
    cairn_generation *g;
    cairn_llm *llm = open_variant(v);
    cairn_llm_describe(llm, &info);
    assert_true(info.max_context < 8192);
    lm_fill(tokens, info.max_context, 1, VOCAB);
    snprintf(part, sizeof part, "the prompt has %lld tokens", (long long)info.max_context);
    const cairn_generate_options o = {.tokens = tokens, .n_tokens = (size_t)info.max_context, .max_tokens = 1};
    lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_CONTEXT_FULL, part);
    assert_int_equal(held(llm), 0);
    cairn_llm_close(llm);
  }
}

// B16, C9: a warm-up of any length leaves nothing behind.
static void test_warm_up_leaves_nothing(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[12];
    lm_fill(tokens, 12, 5, VOCAB);
    const cairn_generate_options o = {.tokens = tokens, .n_tokens = 12, .max_tokens = 10, .ignore_eos = true};
    const result cold = fresh(v, &o);
    static const int64_t kLengths[] = {1, 2, 64, 200};
    for (int i = 0; i < 4; i++) {
      cairn_llm *llm = open_variant(v);
      LM_OK(cairn_llm_warm_up(llm, kLengths[i]));
      assert_int_equal(held(llm), 0);
      const result r = run(llm, &o);
      assert_int_equal(r.hit, 0);
      expect_same(v, &r, &cold);
      cairn_llm_close(llm);
    }
  }
}

typedef struct intruder {
  cairn_llm *llm;
  atomic_bool is_over;
  int n_refused;
} intruder;

static void *intrude(void *user) {
  intruder *i = user;
  while (!atomic_load(&i->is_over)) {
    cairn_status status = cairn_llm_reset(i->llm, 0);
    if (status == CAIRN_BUSY) i->n_refused++;
    usleep(50);
  }
  return NULL;
}

static bool go_on(void *user, const cairn_token_event *event) {
  (void)user;
  (void)event;
  usleep(500);
  return true;
}

// B13, C1: a reset while a generation goes on is refused, and the generation is not touched.
static void test_reset_meanwhile(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[12];
    lm_fill(tokens, 12, 5, VOCAB);
    cairn_generate_options o = {.tokens = tokens, .n_tokens = 12, .max_tokens = 30, .ignore_eos = true};
    const result cold = fresh(v, &o);
    intruder i = {.llm = open_variant(v)};
    o.on_token = go_on;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, intrude, &i), 0);
    result r;
    // The intruder may hold the engine just when the generation wants to begin.
    cairn_generation *g;
    cairn_status status;
    while ((status = cairn_llm_generate(i.llm, &o, &g)) == CAIRN_BUSY) usleep(10);
    LM_OK(status);
    atomic_store(&i.is_over, true);
    pthread_join(thread, NULL);
    cairn_generation_info info;
    cairn_generation_get(g, &info);
    r.n = (int64_t)info.n_tokens;
    memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
    cairn_generation_destroy(g);
    expect_same(v, &r, &cold);
    assert_true(i.n_refused > 0);
    cairn_llm_close(i.llm);
  }
}

// C4: forced tokens behind a kept prefix are told the same logits as on a fresh engine.
static void test_forced_behind_a_prefix(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[40];
    lm_fill(tokens, 40, 15, VOCAB);
    lm_rows warm = {0}, cold = {0};
    cairn_generate_options o = {.tokens = tokens, .n_tokens = 20, .forced = tokens + 20, .n_forced = 12, .on_logits = lm_keep_row};
    cairn_llm *llm = open_variant(v), *other = open_variant(v);
    greedy(llm, tokens, 17, 4);
    o.user = &warm;
    const result r = run(llm, &o);
    assert_true(r.hit >= 16);
    o.user = &cold;
    run(other, &o);
    assert_int_equal(warm.n, 12);
    assert_int_equal(cold.n, 12);
    assert_memory_equal(warm.data, cold.data, (size_t)(cold.n * cold.width) * sizeof *cold.data);
    lm_rows_free(&warm);
    lm_rows_free(&cold);
    cairn_llm_close(llm);
    cairn_llm_close(other);
  }
}

// C5: nothing is said to be reused after a reset.
static void test_hits_after_a_reset(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  FOR_EACH_VARIANT(v) {
    int32_t tokens[12];
    lm_fill(tokens, 12, 5, VOCAB);
    cairn_llm *llm = open_variant(v);
    greedy(llm, tokens, 12, 4);
    assert_int_equal(greedy(llm, tokens, 12, 4).hit, 11);
    LM_OK(cairn_llm_reset(llm, 0));
    assert_int_equal(greedy(llm, tokens, 12, 4).hit, 0);
    cairn_llm_close(llm);
  }
}

// A9: prompts of ever new lengths need no new plan, weights or tables: what a function holds stays the same.
static void test_new_lengths_need_nothing_new(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  cairn_model *model;
  cairn_function *function;
  LM_OK(cairn_model_load(g_context, LM_MODELS "tiny-qwen3-macos/tiny-qwen3-macos.aimodel", NULL, &model));
  LM_OK(cairn_model_function(model, "main", &function));
  const cairn_function_info *info = cairn_function_describe(function);
  int64_t held_bytes = -1, blocks = -1;
  enum { LENGTHS = 43, PASSES = 10 };
  for (int64_t k = 0; k < LENGTHS * PASSES; k++) {
    // Buffers find their sizes in the first passes; in the last ones nothing is made any more.
    const int64_t n = 300 - k % LENGTHS * 7;
    const bool is_again = k > LENGTHS * (PASSES - 2);
    cairn_ndarray *ids, *positions, *caches[2];
    LM_OK(cairn_ndarray_create(g_context, CAIRN_SI32, (const int64_t[]){1, n}, 2, &ids));
    LM_OK(cairn_ndarray_create(g_context, CAIRN_SI32, (const int64_t[]){1, n}, 2, &positions));
    for (int64_t i = 0; i < n; i++) ((int32_t *)cairn_ndarray_mutable_data(positions))[i] = (int32_t)i;
    for (int i = 0; i < 2; i++) {
      int64_t shape[CAIRN_MAX_RANK];
      memcpy(shape, info->states[i].shape, sizeof shape);
      shape[info->states[i].rank - 2] = 512;
      LM_OK(cairn_ndarray_create_from_descriptor(g_context, &info->states[i], shape, info->states[i].rank, &caches[i]));
    }
    const cairn_named_array inputs[] = {{"input_ids", ids}, {"position_ids", positions}};
    const cairn_named_array states[] = {{info->states[0].name, caches[0]}, {info->states[1].name, caches[1]}};
    const cairn_run_args args = {.inputs = inputs, .n_inputs = 2, .states = states, .n_states = 2, .last_rows = 1};
    cairn_outputs *outputs;
    LM_OK(cairn_function_run(function, &args, &outputs));
    cairn_outputs_destroy(outputs);
    cairn_function_stats stats;
    cairn_function_get_stats(function, &stats);
    if (held_bytes >= 0) assert_int_equal(stats.folded_bytes, held_bytes);
    if (is_again) assert_int_equal(stats.workspace_allocations, blocks);
    held_bytes = stats.folded_bytes;
    blocks = stats.workspace_allocations;
    cairn_ndarray_release(ids);
    cairn_ndarray_release(positions);
    for (int i = 0; i < 2; i++) cairn_ndarray_release(caches[i]);
  }
  cairn_function_release(function);
  cairn_model_release(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_turns_behind_max_tokens),
      cmocka_unit_test(test_turns_behind_a_stop),
      cmocka_unit_test(test_no_tokens),
      cmocka_unit_test(test_unlimited_is_not_allocated),
      cmocka_unit_test(test_settings_do_not_stay),
      cmocka_unit_test(test_seeds_on_all_engines),
      cmocka_unit_test(test_full_prompts),
      cmocka_unit_test(test_warm_up_leaves_nothing),
      cmocka_unit_test(test_reset_meanwhile),
      cmocka_unit_test(test_forced_behind_a_prefix),
      cmocka_unit_test(test_hits_after_a_reset),
      cmocka_unit_test(test_new_lengths_need_nothing_new),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
