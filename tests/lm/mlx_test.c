/// An mlx2coreai bundle of the older asset generation. Its tokenizer is empty on purpose: token ids work, text says why
/// it does not. The same asset by itself, without metadata, gives the same tokens.
#include "lm.h"

#define BUNDLE LM_MODELS "mlx-llama-b1"
#define ASSET BUNDLE "/tiny.aimodel"

static void generate(const char *path, const lm_ids *forced, lm_ids *out_tokens, lm_rows *out_rows) {
  lm_ids prompt = lm_json_ids(BUNDLE "/forced.json", -1, "prompt");
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open(context, path, NULL);
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options options = {.tokens = prompt.data,
                                          .n_tokens = (size_t)prompt.n,
                                          .max_tokens = 12,
                                          .forced = forced ? forced->data : NULL,
                                          .n_forced = forced ? (size_t)forced->n : 0,
                                          .on_logits = lm_keep_row,
                                          .prefill_logits = true,
                                          .user = out_rows};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  cairn_generation_get(g, &info);
  assert_int_equal(info.stop_reason, CAIRN_STOP_MAX_TOKENS);
  assert_string_equal(info.text, "");
  assert_int_equal(info.prefill_tokens, prompt.n);
  assert_int_equal(info.decode_tokens, forced ? forced->n : 11);
  out_tokens->n = (int64_t)info.n_tokens;
  out_tokens->data = malloc(info.n_tokens * sizeof *info.tokens);
  assert_non_null(out_tokens->data);
  memcpy(out_tokens->data, info.tokens, info.n_tokens * sizeof *info.tokens);
  assert_int_equal(out_rows->n, prompt.n + info.decode_tokens);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
  cairn_context_release(context);
  free(prompt.data);
}

static void expect_ids(const lm_ids *got, const lm_ids *golden) {
  assert_int_equal(got->n, golden->n);
  for (int64_t i = 0; i < golden->n; i++) {
    if (got->data[i] != golden->data[i]) fail_msg("token %lld is %d instead of %d", (long long)i, got->data[i], golden->data[i]);
  }
}

static void check_greedy(const char *path) {
  lm_need(BUNDLE);
  lm_ids golden = lm_json_ids(BUNDLE "/greedy.json", 0, "tokens"), tokens;
  lm_rows rows = {0};
  generate(path, NULL, &tokens, &rows);
  expect_ids(&tokens, &golden);
  free(golden.data);
  free(tokens.data);
  lm_rows_free(&rows);
}

static void test_greedy(void **state) {
  (void)state;
  check_greedy(BUNDLE);
}

static void test_bare_asset(void **state) {
  (void)state;
  check_greedy(ASSET);
  check_greedy(ASSET "/main.mlirb");
}

static void test_forced(void **state) {
  (void)state;
  lm_need(BUNDLE);
  lm_ids forced = lm_json_ids(BUNDLE "/forced.json", -1, "forced"), golden = lm_json_ids(BUNDLE "/forced.json", -1, "argmax"), tokens;
  lm_rows rows = {0};
  generate(BUNDLE, &forced, &tokens, &rows);
  expect_ids(&tokens, &forced);
  assert_int_equal(rows.n, 3 + golden.n);
  for (int64_t i = 0; i < golden.n; i++) assert_int_equal(lm_argmax(rows.data + (3 + i) * rows.width, rows.width), golden.data[i]);
  free(forced.data);
  free(golden.data);
  free(tokens.data);
  lm_rows_free(&rows);
}

static void test_text_says_why_not(void **state) {
  (void)state;
  lm_need(BUNDLE);
  cairn_context *context = lm_context(1);
  static const struct { const char *path, *reason; } kCases[] = {{BUNDLE, "tokenizer.json"}, {ASSET, "a bare asset carries none"}};
  for (int i = 0; i < 2; i++) {
    cairn_llm *llm = lm_open(context, kCases[i].path, NULL);
    cairn_generation *g;
    assert_null(cairn_llm_tokenizer(llm));
    lm_expect(cairn_llm_has_text(llm), CAIRN_FAILED_PRECONDITION, kCases[i].reason);
    const cairn_generate_options text = {.text = "hello", .text_bytes = 5, .max_tokens = 1};
    lm_expect(cairn_llm_generate(llm, &text, &g), CAIRN_FAILED_PRECONDITION, kCases[i].reason);
    assert_null(g);
    const char *const stop[] = {"x"};
    const cairn_generate_options stops = {.tokens = (const int32_t[]){1}, .n_tokens = 1, .max_tokens = 1, .stop = stop, .n_stop = 1};
    lm_expect(cairn_llm_generate(llm, &stops, &g), CAIRN_FAILED_PRECONDITION, kCases[i].reason);
    cairn_llm_close(llm);
  }
  cairn_context_release(context);
}

static const char *chosen(const cairn_llm_info *info, const char *what) {
  for (int i = 0; i < info->n_decisions; i++) {
    if (strcmp(info->decisions[i].what, what) == 0) return info->decisions[i].chosen;
  }
  return "";
}

static void test_description(void **state) {
  (void)state;
  lm_need(BUNDLE);
  cairn_context *context = lm_context(1);
  cairn_llm_info info;
  cairn_llm *llm = lm_open(context, BUNDLE, NULL);
  cairn_llm_describe(llm, &info);
  assert_string_equal(info.name, "tiny");
  assert_string_equal(info.source, "bundle");
  assert_string_equal(info.engine, "sequential");
  assert_string_equal(info.kv_strategy, "paged");
  assert_int_equal(info.vocab_size, 50);
  assert_int_equal(info.max_context, 64);
  assert_int_equal(info.kv_capacity, 64);
  assert_int_equal(info.logits_dtype, CAIRN_F32);
  assert_string_equal(chosen(&info, "engine"), "sequential");
  assert_string_equal(chosen(&info, "kv"), "paged");
  assert_string_equal(chosen(&info, "tokenizer"), "none");
  cairn_llm_close(llm);
  llm = lm_open(context, ASSET, &(cairn_llm_options){.engine = "sequential", .kv = "growing"});
  cairn_llm_describe(llm, &info);
  assert_string_equal(info.name, "tiny");
  assert_string_equal(info.source, "aimodel");
  assert_string_equal(chosen(&info, "engine"), "");  // asked for, not chosen
  assert_string_equal(chosen(&info, "kv"), "");
  assert_string_equal(chosen(&info, "max_context"), "4096");
  cairn_llm_close(llm);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greedy),      cmocka_unit_test(test_bare_asset),
      cmocka_unit_test(test_forced),      cmocka_unit_test(test_text_says_why_not),
      cmocka_unit_test(test_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
