/// What an engine does around the model: reuse of prefixes, going back, limits, cancelling, pieces, refusals. Every result
/// is compared with that of a fresh engine.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "lm.h"

#define MODEL "tiny-mistral-macos"  // cache of fixed size 256
#define GROWING "tiny-qwen3-macos"  // dynamic cache, context 4096
#define MLX "mlx-llama-b1"          // masks the whole cache

static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  if (access(LM_MODELS MODEL, R_OK) != 0) return 0;
  g_context = lm_context(1);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  if (g_context) cairn_context_release(g_context);
  g_context = NULL;
  return 0;
}

typedef struct result {
  int32_t tokens[512];
  int64_t n, hit;
  cairn_stop_reason reason;
  char note[128];
} result;

static void take(cairn_generation *g, result *out) {
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= 512);
  out->n = (int64_t)info.n_tokens;
  if (info.n_tokens) memcpy(out->tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  out->hit = info.prefix_hit;
  out->reason = info.stop_reason;
  snprintf(out->note, sizeof out->note, "%s", info.prefix_note);
  cairn_generation_destroy(g);
}

static result generate(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t max_tokens) {
  result r;
  cairn_generation *g;
  const cairn_generate_options options = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = max_tokens, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  take(g, &r);
  return r;
}

static result generate_cold(const char *model, const int32_t *tokens, int64_t n, int64_t max_tokens) {
  cairn_llm *llm = lm_open(g_context, model, NULL);
  result r = generate(llm, tokens, n, max_tokens);
  assert_int_equal(r.hit, 0);
  cairn_llm_close(llm);
  return r;
}

static void expect_same_tokens(const result *a, const result *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens);
}

static int64_t history(const cairn_llm *llm) {
  int64_t n;
  cairn_llm_history(llm, &n);
  return n;
}

// --- reuse ----------------------------------------------------------------------------------------------------------

static void test_second_turn(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t tokens[64];
  lm_fill(tokens, 10, 1, 384);
  cairn_llm *llm = lm_open(g_context, MODEL, NULL);
  result first = generate(llm, tokens, 10, 5);
  assert_int_equal(first.hit, 0);
  assert_int_equal(history(llm), 14);  // the last token was never fed
  memcpy(tokens + 10, first.tokens, 5 * sizeof *tokens);
  tokens[15] = 7;
  result second = generate(llm, tokens, 16, 6);
  assert_int_equal(second.hit, 14);
  result cold = generate_cold(MODEL, tokens, 16, 6);
  expect_same_tokens(&second, &cold);
  // The same prompt again: all but one token are reused.
  result again = generate(llm, tokens, 16, 6);
  assert_int_equal(again.hit, 15);
  expect_same_tokens(&again, &cold);
  // A prompt that is a prefix of what is held.
  result shorter = generate(llm, tokens, 12, 3);
  assert_int_equal(shorter.hit, 11);
  cold = generate_cold(MODEL, tokens, 12, 3);
  expect_same_tokens(&shorter, &cold);
  cairn_llm_close(llm);
}

// Prompts that part from the last one at random places give what a fresh engine gives.
static void check_divergence(const char *model, int32_t vocab) {
  int32_t tokens[40], other[40];
  cairn_llm *llm = lm_open(g_context, model, NULL);
  lm_fill(tokens, 40, 5, vocab);
  generate(llm, tokens, 20, 4);
  for (uint32_t i = 0; i < 20; i++) {
    int64_t cut = (int64_t)(i * 7 % 20), n = cut + 1 + i % 5;
    memcpy(other, tokens, sizeof other);
    lm_fill(other + cut, n - cut, 100 + i, vocab);
    int64_t common = cut;
    while (common < n && common < 20 && other[common] == tokens[common]) common++;
    result warm = generate(llm, other, n, 5), cold = generate_cold(model, other, n, 5);
    expect_same_tokens(&warm, &cold);
    assert_int_equal(warm.hit, common < n - 1 ? common : n - 1);
    result back = generate(llm, tokens, 20, 4);
    assert_true(back.hit >= (common < 19 ? common : 19));
  }
  cairn_llm_close(llm);
}

static void test_divergence(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  check_divergence(MODEL, 384);
  check_divergence(GROWING, 384);
  check_divergence(MLX, 50);
}

// Cutting back and feeding again gives the bits of a fresh engine.
static void test_reset_to(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t tokens[24];
  lm_fill(tokens, 24, 9, 384);
  cairn_llm *llm = lm_open(g_context, MODEL, NULL), *fresh = lm_open(g_context, MODEL, NULL);
  lm_rows cold = {0};
  lm_feed(fresh, tokens, 24, 24, &cold);
  lm_feed(llm, tokens, 24, 24, NULL);
  for (int64_t cut = 23; cut >= 0; cut--) {
    lm_rows rows = {0};
    LM_OK(cairn_llm_reset(llm, cut));
    assert_int_equal(history(llm), cut);
    lm_feed(llm, tokens + cut, 24 - cut, 5, &rows);
    assert_int_equal(rows.n, 24 - cut);
    assert_memory_equal(rows.data, cold.data + cut * cold.width, (size_t)(rows.n * rows.width) * sizeof *rows.data);
    lm_rows_free(&rows);
  }
  lm_expect(cairn_llm_reset(llm, 25), CAIRN_OUT_OF_RANGE, "reset to 25 is out of range [0, 24]");
  lm_expect(cairn_llm_reset(llm, -1), CAIRN_OUT_OF_RANGE, "out of range");
  LM_OK(cairn_llm_reset(llm, 24));
  LM_OK(cairn_llm_reset(llm, 0));
  assert_int_equal(history(llm), 0);
  result r = generate(llm, tokens, 10, 2);
  assert_int_equal(r.hit, 0);
  lm_rows_free(&cold);
  cairn_llm_close(llm);
  cairn_llm_close(fresh);
}

static void test_prefill_logits_disable_reuse(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t tokens[12];
  lm_fill(tokens, 12, 3, 384);
  cairn_llm *llm = lm_open(g_context, MODEL, NULL);
  result first = generate(llm, tokens, 12, 3), r;
  lm_rows rows = {0};
  cairn_generation *g;
  const cairn_generate_options options = {.tokens = tokens,
                                          .n_tokens = 12,
                                          .max_tokens = 3,
                                          .ignore_eos = true,
                                          .prefill_logits = true,
                                          .on_logits = lm_keep_row,
                                          .user = &rows};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  take(g, &r);
  assert_int_equal(r.hit, 0);
  assert_non_null(strstr(r.note, "whole prompt"));
  expect_same_tokens(&r, &first);
  assert_int_equal(rows.n, 12 + 2);
  for (int i = 0; i < 3; i++) assert_int_equal(lm_argmax(rows.data + (11 + i) * rows.width, rows.width), first.tokens[i]);
  lm_rows_free(&rows);
  cairn_llm_close(llm);
}

// --- limits ---------------------------------------------------------------------------------------------------------

static void expect_full(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t max_tokens, const char *part) {
  cairn_generation *g;
  const cairn_generate_options options = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = max_tokens};
  lm_expect(cairn_llm_generate(llm, &options, &g), CAIRN_CONTEXT_FULL, part);
  assert_null(g);
}

static void check_limit(const cairn_llm_options *options, int64_t limit, const char *part) {
  int32_t tokens[300];
  lm_fill(tokens, 300, 2, 384);
  cairn_llm *llm = lm_open(g_context, MODEL, options);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_int_equal(info.max_context, limit);
  expect_full(llm, tokens, limit, 1, part);
  expect_full(llm, tokens, limit + 1, 0, part);
  assert_int_equal(history(llm), 0);
  result r = generate(llm, tokens, limit, 0);  // nothing wanted: it just fits
  assert_int_equal(r.n, 0);
  assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
  r = generate(llm, tokens, limit - 1, 10);
  assert_int_equal(r.n, 1);
  assert_int_equal(r.reason, CAIRN_STOP_CONTEXT_FULL);
  r = generate(llm, tokens, limit - 4, -1);
  assert_int_equal(r.n, 4);
  assert_int_equal(r.reason, CAIRN_STOP_CONTEXT_FULL);
  r = generate(llm, tokens, limit - 4, 4);
  assert_int_equal(r.n, 4);
  assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
  // A single step is refused before anything runs.
  LM_OK(cairn_llm_reset(llm, 0));
  lm_feed(llm, tokens, limit - 2, limit, NULL);
  const cairn_forward_options three = {.tokens = tokens, .n_tokens = 3};
  lm_expect(cairn_llm_forward(llm, &three), CAIRN_CONTEXT_FULL, "");
  assert_int_equal(history(llm), limit - 2);
  lm_feed(llm, tokens, 2, 2, NULL);
  cairn_llm_close(llm);
}

static void test_context_limits(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  check_limit(NULL, 256, "leaves no room: the context has 256");
  check_limit(&(cairn_llm_options){.max_context = 40}, 40, "the context has 40");
  check_limit(&(cairn_llm_options){.kv = "fixed", .kv_capacity = 50}, 50, "the KV cache holds 50");
}

static void test_forced_to_the_end(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t tokens[64];
  lm_fill(tokens, 64, 2, 384);
  cairn_llm *llm = lm_open(g_context, MODEL, &(cairn_llm_options){.max_context = 20});
  cairn_generation *g;
  result r;
  lm_rows rows = {0};
  const cairn_generate_options options = {
      .tokens = tokens, .n_tokens = 15, .forced = tokens + 15, .n_forced = 20, .on_logits = lm_keep_row, .user = &rows};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  take(g, &r);
  assert_int_equal(r.reason, CAIRN_STOP_CONTEXT_FULL);
  assert_int_equal(r.n, 5);
  assert_int_equal(rows.n, 5);
  const cairn_generate_options none = {.tokens = tokens, .n_tokens = 5, .use_forced = true, .max_tokens = 9};
  LM_OK(cairn_llm_generate(llm, &none, &g));
  take(g, &r);
  assert_int_equal(r.n, 0);
  assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
  lm_rows_free(&rows);
  cairn_llm_close(llm);
}

// A cache that grows from 8 rows gives the tokens of one that has all rows from the start.
static void test_growth(void **state) {
  (void)state;
  lm_need(LM_MODELS GROWING);
  int32_t tokens[30];
  lm_fill(tokens, 30, 4, 384);
  static const int64_t kCapacities[] = {8, 16, 1024, 2048, 4096};
  result first = generate_cold(GROWING, tokens, 30, 300);
  for (int i = 0; i < 5; i++) {
    cairn_llm *llm = lm_open(g_context, GROWING, &(cairn_llm_options){.kv_capacity = kCapacities[i], .kv = i == 4 ? "fixed" : "growing"});
    result r = generate(llm, tokens, 30, 300);
    expect_same_tokens(&r, &first);
    cairn_llm_info info;
    cairn_llm_describe(llm, &info);
    assert_int_equal(info.kv_capacity, kCapacities[i] < 512 ? 512 : kCapacities[i]);
    cairn_llm_close(llm);
  }
}

static void test_bad_tokens(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  cairn_llm *llm = lm_open(g_context, MODEL, NULL);
  cairn_generation *g;
  cairn_generate_options o = {.tokens = (const int32_t[]){1, 384}, .n_tokens = 2, .max_tokens = 1};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_OUT_OF_RANGE, "prompt token 1 is 384; the vocabulary has the ids 0 to 383");
  o.tokens = (const int32_t[]){-1};
  o.n_tokens = 1;
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_OUT_OF_RANGE, "prompt token 0 is -1");
  o.n_tokens = 0;
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "no tokens");
  o = (cairn_generate_options){.max_tokens = 1};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "exactly one of tokens, text and conversation");
  o = (cairn_generate_options){.tokens = (const int32_t[]){1}, .n_tokens = 1, .text = "x", .text_bytes = 1};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "2 prompts were given");
  o = (cairn_generate_options){.text = "x", .text_bytes = 1, .form = (cairn_prompt_form)99};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "form is 99");
  o = (cairn_generate_options){.tokens = (const int32_t[]){1}, .n_tokens = 1, .forced = (const int32_t[]){5, 999}, .n_forced = 2};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_OUT_OF_RANGE, "forced token 1 is 999");
  o = (cairn_generate_options){.tokens = (const int32_t[]){1}, .n_tokens = 1, .stop_ids = (const int32_t[]){5, -1}, .n_stop_ids = 2};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_OUT_OF_RANGE, "stop_ids: token 1 is -1; the vocabulary has the ids 0 to 383");
  o = (cairn_generate_options){.tokens = (const int32_t[]){1}, .n_tokens = 1, .max_tokens = 1, .sampling = {.temperature = -1}};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "temperature");
  const cairn_forward_options empty = {.n_tokens = 0};
  lm_expect(cairn_llm_forward(llm, &empty), CAIRN_INVALID_ARGUMENT, "no tokens to process");
  assert_int_equal(history(llm), 0);
  cairn_llm_close(llm);
}

// --- positions ------------------------------------------------------------------------------------------------------

static void check_positions(const char *model) {
  const int32_t tokens[] = {1, 7, 9, 3, 2, 4};
  cairn_llm *llm = lm_open(g_context, model, NULL);
  lm_feed(llm, tokens, 3, 3, NULL);
  static const struct {
    int32_t positions[8];
    size_t n;
    const char *part;
  } kBad[] = {
      {{0, 1, 2, 3}, 4, "4 given for a sequence of 5 tokens"},             // too short
      {{0, 1, 2, 3, 4, 4}, 6, "6 given"},                                  // too long with the right maximum
      {{3, 4}, 2, "2 given"},                                              // only the new ones
      {{0, 1, 2, 3, 5}, 5, "entry 4 is 5; they must be 0 to 4 in order"},  // right length, wrong value
      {{1, 2, 3, 4, 5}, 5, "entry 0 is 1"},                                // trimmed at the left
      {{0, 1, 2, 3, -1}, 5, "entry 4 is -1"},                              // a sentinel for padding
      {{0, 1, 3, 2, 4}, 5, "entry 2 is 3"},                                // out of order
      {{9, 1, 2, 3, 4}, 5, "entry 0 is 9"},                                // wrong where only one producer looks
  };
  for (size_t i = 0; i < sizeof kBad / sizeof *kBad; i++) {
    const cairn_forward_options o = {.tokens = tokens + 3, .n_tokens = 2, .positions = kBad[i].positions, .n_positions = kBad[i].n};
    lm_expect(cairn_llm_forward(llm, &o), CAIRN_INVALID_ARGUMENT, kBad[i].part);
    assert_int_equal(history(llm), 3);
  }
  const int32_t good[] = {0, 1, 2, 3, 4};
  const cairn_forward_options o = {.tokens = tokens + 3, .n_tokens = 2, .positions = good, .n_positions = 5};
  LM_OK(cairn_llm_forward(llm, &o));
  assert_int_equal(history(llm), 5);
  cairn_llm_close(llm);
}

static void test_positions(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  check_positions(MODEL);
  check_positions(MLX);
}

// --- pieces and cancelling ------------------------------------------------------------------------------------------

typedef struct counter {
  int64_t calls, limit, tokens;
  cairn_llm *llm;
} counter;

static bool count_calls(void *user) {
  counter *c = user;
  return ++c->calls > c->limit;
}

// Runs of the prompt: should_cancel is asked once before it and once before every piece.
static int64_t pieces_of(const cairn_llm_options *options, int64_t n) {
  static int32_t tokens[1200];
  lm_fill(tokens, n, 7, 384);
  cairn_llm *llm = lm_open(g_context, GROWING, options);
  counter c = {.limit = INT64_MAX};
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = (size_t)n, .should_cancel = count_calls, .user = &c};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  assert_int_equal(history(llm), n);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
  return c.calls - 1;
}

static void test_pieces(void **state) {
  (void)state;
  lm_need(LM_MODELS GROWING);
  assert_int_equal(pieces_of(NULL, 1024), 1);
  assert_int_equal(pieces_of(NULL, 1025), 3);
  assert_int_equal(pieces_of(&(cairn_llm_options){.prefill_chunk = 100}, 250), 3);
  assert_int_equal(pieces_of(&(cairn_llm_options){.prefill_chunk = 100}, 100), 1);
  setenv("COREAI_CHUNK_THRESHOLD", "128", 1);
  assert_int_equal(pieces_of(NULL, 300), 3);
  setenv("CAIRN_CHUNK_THRESHOLD", "300", 1);
  assert_int_equal(pieces_of(NULL, 300), 1);
  assert_int_equal(pieces_of(NULL, 301), 2);
  setenv("CAIRN_CHUNK_THRESHOLD", "-5", 1);  // no number of tokens: the other one counts
  assert_int_equal(pieces_of(NULL, 300), 3);
  setenv("COREAI_CHUNK_THRESHOLD", "abc", 1);
  assert_int_equal(pieces_of(NULL, 300), 1);
  unsetenv("CAIRN_CHUNK_THRESHOLD");
  unsetenv("COREAI_CHUNK_THRESHOLD");
}

static void test_cancel_by_question(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t tokens[100];
  lm_fill(tokens, 100, 7, 384);
  cairn_llm *llm = lm_open(g_context, MODEL, &(cairn_llm_options){.prefill_chunk = 10});
  result full = generate_cold(MODEL, tokens, 100, 20), r;
  for (int64_t limit = 0; limit < 30; limit += 3) {
    counter c = {.limit = limit};
    cairn_generation *g;
    const cairn_generate_options o = {
        .tokens = tokens, .n_tokens = 100, .max_tokens = 20, .ignore_eos = true, .should_cancel = count_calls, .user = &c};
    LM_OK(cairn_llm_reset(llm, 0));
    LM_OK(cairn_llm_generate(llm, &o, &g));
    take(g, &r);
    assert_int_equal(r.reason, CAIRN_STOP_CANCELLED);
    assert_int_equal(r.n, limit <= 11 ? 0 : limit - 11);
    // Rows that an engine computed ahead stay.
    const int64_t held = history(llm), fed = limit == 0 ? 0 : limit <= 11 ? 10 * (limit - 1) : 100 + r.n - 1;
    assert_in_range(held, fed, fed + (r.n && strcmp(lm_engine(llm), "pipelined") == 0 ? 2 : 0));
    // Whatever was done stays usable.
    result next = generate(llm, tokens, 100, 20);
    assert_int_equal(next.hit, held < 99 ? held : 99);
    expect_same_tokens(&next, &full);
  }
  cairn_llm_close(llm);
}

static bool stop_after_3(void *user, const cairn_token_event *event) {
  counter *c = user;
  c->tokens++;
  return event->index < 2;
}

static void test_consumer_leaves(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  const int32_t tokens[] = {5, 6, 7};
  cairn_llm *llm = lm_open(g_context, MODEL, NULL);
  cairn_generation *g;
  result r;
  counter c = {0};
  const cairn_generate_options o = {
      .tokens = tokens, .n_tokens = 3, .max_tokens = 50, .ignore_eos = true, .on_token = stop_after_3, .user = &c};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  take(g, &r);
  assert_int_equal(r.reason, CAIRN_STOP_CANCELLED);
  assert_int_equal(r.n, 3);
  assert_int_equal(c.tokens, 3);  // no event after the last one that was wanted
  cairn_llm_close(llm);
}

static bool call_again(void *user, const cairn_token_event *event) {
  counter *c = user;
  const int32_t token = 1;
  const cairn_forward_options o = {.tokens = &token, .n_tokens = 1};
  lm_expect(cairn_llm_forward(c->llm, &o), CAIRN_BUSY, "in use by another call");
  lm_expect(cairn_llm_reset(c->llm, 0), CAIRN_BUSY, "in use");
  cairn_generation *g;
  const cairn_generate_options again = {.tokens = &token, .n_tokens = 1};
  lm_expect(cairn_llm_generate(c->llm, &again, &g), CAIRN_BUSY, "in use");
  if (event->index == 1) cairn_llm_cancel(c->llm);
  return true;
}

static void test_busy_and_cancel(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  const int32_t tokens[] = {5, 6, 7};
  cairn_llm *llm = lm_open(g_context, MODEL, NULL);
  cairn_generation *g;
  result r;
  counter c = {.llm = llm};
  cairn_llm_cancel(llm);  // nothing runs: nothing happens
  const cairn_generate_options o = {
      .tokens = tokens, .n_tokens = 3, .max_tokens = 50, .ignore_eos = true, .on_token = call_again, .user = &c};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  take(g, &r);
  assert_int_equal(r.reason, CAIRN_STOP_CANCELLED);
  assert_int_equal(r.n, 2);
  r = generate(llm, tokens, 3, 4);
  assert_int_equal(r.n, 4);
  cairn_llm_close(llm);
}

typedef struct canceller {
  cairn_llm *llm;
  atomic_bool is_done;
} canceller;

static void *cancel_soon(void *user) {
  canceller *c = user;
  while (!atomic_load(&c->is_done)) {
    usleep(20000);
    cairn_llm_cancel(c->llm);
  }
  return NULL;
}

static void test_cancel_from_another_thread(void **state) {
  (void)state;
  lm_need(LM_MODELS GROWING);
  const int32_t tokens[] = {5, 6, 7};
  cairn_llm *llm = lm_open(g_context, GROWING, NULL);
  pthread_t thread;
  canceller c = {.llm = llm};
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = 3, .max_tokens = -1, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  assert_int_equal(info.stop_reason, CAIRN_STOP_CANCELLED);
  cairn_generation_destroy(g);
  atomic_store(&c.is_done, true);
  pthread_join(thread, NULL);
  cairn_llm_close(llm);
}

// --- sampling -------------------------------------------------------------------------------------------------------

static result sample(cairn_llm *llm, const int32_t *tokens, int64_t n, cairn_sampling sampling) {
  result r;
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = 30, .ignore_eos = true, .sampling = sampling};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  if (sampling.has_seed && sampling.temperature > 0) assert_int_equal(info.seed, sampling.seed);
  take(g, &r);
  return r;
}

static void test_seeds(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  int32_t tokens[40];
  lm_fill(tokens, 40, 8, 384);
  cairn_llm *whole = lm_open(g_context, MODEL, NULL), *pieces = lm_open(g_context, MODEL, &(cairn_llm_options){.prefill_chunk = 7});
  cairn_sampling s = {.temperature = 1.5f,
                      .has_top_p = true,
                      .top_p = 0.9f,
                      .has_repetition_penalty = true,
                      .repetition_penalty = 1.3f,
                      .has_repetition_window = true,
                      .repetition_window = 8,
                      .has_seed = true,
                      .seed = 77};
  result a = sample(whole, tokens, 40, s), b = sample(whole, tokens, 40, s), c = sample(pieces, tokens, 40, s);
  expect_same_tokens(&a, &b);
  expect_same_tokens(&a, &c);
  s.seed = 78;
  result d = sample(whole, tokens, 40, s);
  assert_memory_not_equal(a.tokens, d.tokens, (size_t)a.n * sizeof *a.tokens);
  s.has_seed = false;
  result e = sample(whole, tokens, 40, s), f = sample(whole, tokens, 40, s);
  assert_memory_not_equal(e.tokens, f.tokens, (size_t)e.n * sizeof *e.tokens);
  // A strong penalty forbids repetition as long as there is anything else.
  s = (cairn_sampling){.has_repetition_penalty = true, .repetition_penalty = 1e6f};
  result g = sample(whole, tokens, 40, s);
  for (int64_t i = 0; i < g.n; i++) {
    for (int64_t j = 0; j < i; j++) assert_int_not_equal(g.tokens[i], g.tokens[j]);
  }
  cairn_llm_close(whole);
  cairn_llm_close(pieces);
}

static void test_warm_up(void **state) {
  (void)state;
  lm_need(LM_MODELS MLX);
  const int32_t tokens[] = {1, 7, 9, 3};
  cairn_llm *llm = lm_open(g_context, MLX, NULL);
  LM_OK(cairn_llm_warm_up(llm, 1));
  LM_OK(cairn_llm_warm_up(llm, 30));
  assert_int_equal(history(llm), 0);
  result warm = generate(llm, tokens, 4, 10), cold = generate_cold(MLX, tokens, 4, 10);
  assert_int_equal(warm.hit, 0);
  expect_same_tokens(&warm, &cold);
  lm_expect(cairn_llm_warm_up(llm, 0), CAIRN_INVALID_ARGUMENT, "1 to 64 expected");
  lm_expect(cairn_llm_warm_up(llm, 65), CAIRN_INVALID_ARGUMENT, "1 to 64 expected");
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(test_second_turn),
      TEST(test_divergence),
      TEST(test_reset_to),
      TEST(test_prefill_logits_disable_reuse),
      TEST(test_context_limits),
      TEST(test_forced_to_the_end),
      TEST(test_growth),
      TEST(test_bad_tokens),
      TEST(test_positions),
      TEST(test_pieces),
      TEST(test_cancel_by_question),
      TEST(test_consumer_leaves),
      TEST(test_busy_and_cancel),
      TEST(test_cancel_from_another_thread),
      TEST(test_seeds),
      TEST(test_warm_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
