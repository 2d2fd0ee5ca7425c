/// The engine for fixed shapes beyond the goldens: which function a step takes, the same bits whatever the pieces, prefixes,
/// the crossing from one cache length to the next, and refusals.
#include "engines/llm/static_shape.h"
#include "lm.h"

enum { VOCAB = 384 };

static const char *const kBundles[] = {"tiny-qwen3-ios", "tiny-qwen3-ios-f16emb", "tiny-qwen3_untied-ios"};
enum { N_BUNDLES = sizeof kBundles / sizeof *kBundles };

static void fill(int32_t *tokens, int64_t n, int64_t seed) {
  for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)((i * 37 + seed * 101 + i * i % 7) % VOCAB);
}

static int64_t runs_of(const cairn_llm *llm, const char *function) {
  const crn_static_shape *s = llm->model->fixed;
  for (size_t i = 0; i < s->ladder.rungs.size; i++) {
    if (strcmp(llm->graphs[i].rung->function, function) != 0) continue;
    cairn_function_stats stats = {0};
    if (llm->graphs[i].function) cairn_function_get_stats(llm->graphs[i].function, &stats);
    return stats.n_runs;
  }
  fail_msg("there is no function '%s'", function);
  return 0;
}

static void feed_last(cairn_llm *llm, const int32_t *tokens, int64_t n, lm_rows *rows) {
  const cairn_forward_options o = {.tokens = tokens, .n_tokens = (size_t)n, .on_logits = rows ? lm_keep_row : NULL, .user = rows};
  LM_OK(cairn_llm_forward(llm, &o));
}

static void same_bits(const char *what, const float *a, const float *b) {
  if (memcmp(a, b, VOCAB * sizeof *a) != 0) fail_msg("%s: other bits", what);
}

// --- which function -------------------------------------------------------------------------------------------------

static void test_functions_of_steps(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-ios");
  int32_t tokens[300];
  fill(tokens, 300, 1);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-ios", NULL);
  feed_last(llm, tokens, 100, NULL);
  assert_int_equal(runs_of(llm, "prompt_opt_256_64"), 1);
  assert_int_equal(runs_of(llm, "extend_256_64"), 1);
  feed_last(llm, tokens + 100, 1, NULL);
  assert_int_equal(runs_of(llm, "extend_256_8"), 1);
  // The block began at 96: its five tokens are those of 96 to 100, the rest is filled up.
  const crn_static_graph *g = NULL;
  for (size_t i = 0; i < llm->model->fixed->ladder.rungs.size; i++) {
    if (strcmp(llm->graphs[i].rung->function, "extend_256_8") == 0) g = &llm->graphs[i];
  }
  assert_non_null(g);
  assert_int_equal(*(const int32_t *)cairn_ndarray_data(g->step), 96);
  const int32_t *ids = cairn_ndarray_data(g->ids);
  const uint16_t *positions = cairn_ndarray_data(g->positions), *mask = cairn_ndarray_data(g->mask);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(ids[i], i < 5 ? tokens[96 + i] : 0);
    assert_int_equal(positions[i], 96 + i);
    for (int key = 0; key < 256; key++) assert_int_equal(mask[key * 8 + i], i < 5 && key <= 96 + i ? 0 : 0xf8e2);  // -40000
  }
  feed_last(llm, tokens + 101, 150, NULL);  // up to 250
  feed_last(llm, tokens + 251, 10, NULL);   // the end of one cache, the beginning of the next
  assert_int_equal(runs_of(llm, "extend_512_8") + runs_of(llm, "extend_512_16"), 1);
  feed_last(llm, tokens + 261, 1, NULL);
  assert_int_equal(runs_of(llm, "extend_512_8"), 2);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// --- the same bits --------------------------------------------------------------------------------------------------

// 300 tokens (or all the model takes) by every size of step, with and without logits of all: the last rows are the same, over
// the border at 256, too.
static void check_pieces(const char *bundle) {
  static const int64_t kPieces[] = {1, 7, 8, 64, 100, 300};
  int32_t tokens[300];
  fill(tokens, 300, 2);
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open(context, bundle, NULL);
  int64_t total = llm->max_context < 300 ? llm->max_context : 300;
  lm_rows first = {0};
  lm_feed(llm, tokens, total, total, &first);
  for (size_t i = 0; i < sizeof kPieces / sizeof *kPieces; i++) {
    lm_rows rows = {0};
    LM_OK(cairn_llm_reset(llm, 0));
    for (int64_t at = 0; at < total; at += kPieces[i]) {
      int64_t n = kPieces[i] < total - at ? kPieces[i] : total - at;
      rows.n = 0;
      feed_last(llm, tokens + at, n, &rows);
      same_bits(bundle, rows.data, first.data + (at + n - 1) * VOCAB);
    }
    lm_rows_free(&rows);
  }
  lm_rows_free(&first);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void test_pieces(void **state) {
  (void)state;
  for (int i = 0; i < N_BUNDLES; i++) {
    lm_need(LM_MODELS "tiny-qwen3-ios");
    check_pieces(kBundles[i]);
  }
}

static lm_ids generate(cairn_llm *llm, const int32_t *prompt, int64_t n, int64_t *out_hit) {
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = prompt, .n_tokens = (size_t)n, .max_tokens = 8, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  lm_ids ids = {.n = (int64_t)info.n_tokens};
  ids.data = malloc(ids.n * sizeof *ids.data + 1);
  assert_non_null(ids.data);
  memcpy(ids.data, info.tokens, ids.n * sizeof *ids.data);
  *out_hit = info.prefix_hit;
  cairn_generation_destroy(g);
  return ids;
}

// Prompts that leave the one before at 20 points: what is kept is kept, and the tokens are those of a cold engine.
static void test_prefixes(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3_untied-ios");
  cairn_context *context = lm_context(2);
  cairn_llm *warm = lm_open(context, "tiny-qwen3_untied-ios", NULL), *cold = lm_open(context, "tiny-qwen3_untied-ios", NULL);
  int32_t base[90], prompt[90];
  fill(base, 90, 3);
  for (int k = 0; k < 20; k++) {
    int cut = (k * 41 + 3) % 88, n = 20 + (k * 29) % 70;
    int64_t warm_hit, cold_hit, n_held;
    fill(prompt, 90, 4 + k);
    memcpy(prompt, base, (size_t)cut * sizeof *prompt);
    const int32_t *held = cairn_llm_history(warm, &n_held);
    int64_t common = 0;
    while (common < n_held && common < n - 1 && held[common] == prompt[common]) common++;
    LM_OK(cairn_llm_reset(cold, 0));
    lm_ids a = generate(warm, prompt, n, &warm_hit), b = generate(cold, prompt, n, &cold_hit);
    assert_int_equal(warm_hit, common);
    assert_int_equal(cold_hit, 0);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, (size_t)a.n * sizeof *a.data);
    free(a.data);
    free(b.data);
    memcpy(base, prompt, sizeof base);
  }
  // A reset to the middle of a block.
  int64_t n_held;
  cairn_llm_history(warm, &n_held);
  lm_expect(cairn_llm_reset(warm, n_held + 1), CAIRN_OUT_OF_RANGE, "out of range [0, ");
  LM_OK(cairn_llm_reset(warm, 13));
  LM_OK(cairn_llm_reset(cold, 0));
  lm_rows x = {0}, y = {0};
  feed_last(warm, prompt + 13, 5, &x);
  feed_last(cold, prompt, 18, &y);
  same_bits("reset to 13", x.data, y.data);
  lm_rows_free(&x);
  lm_rows_free(&y);
  cairn_llm_close(warm);
  cairn_llm_close(cold);
  cairn_context_release(context);
}

// --- limits and refusals --------------------------------------------------------------------------------------------

static void test_context(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-ios");
  int32_t tokens[600];
  fill(tokens, 600, 5);
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open(context, "tiny-qwen3-ios", &(cairn_llm_options){.engine = "static-shape"});
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_string_equal(info.engine, "static-shape");
  assert_string_equal(info.kv_strategy, "fixed");
  bool has_layout = false;
  for (int i = 0; i < info.n_decisions; i++) has_layout |= strcmp(info.decisions[i].what, "kv_layout") == 0;
  assert_true(has_layout);
  assert_int_equal(info.max_context, 512);
  cairn_generation *g;
  const cairn_generate_options full = {.tokens = tokens, .n_tokens = 512, .max_tokens = 1};
  lm_expect(cairn_llm_generate(llm, &full, &g), CAIRN_CONTEXT_FULL, "leaves no room");
  const cairn_generate_options nothing = {.tokens = tokens, .n_tokens = 5, .max_tokens = 0};
  cairn_generation_info result;
  LM_OK(cairn_llm_generate(llm, &nothing, &g));
  cairn_generation_get(g, &result);
  assert_int_equal(result.n_tokens, 0);
  assert_int_equal(result.stop_reason, CAIRN_STOP_MAX_TOKENS);
  cairn_generation_destroy(g);
  const cairn_generate_options almost = {.tokens = tokens, .n_tokens = 510, .max_tokens = -1, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &almost, &g));
  cairn_generation_get(g, &result);
  assert_int_equal(result.stop_reason, CAIRN_STOP_CONTEXT_FULL);
  assert_int_equal(result.n_tokens, 2);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
  // A shorter context takes the shorter cache.
  llm = lm_open(context, "tiny-qwen3-ios", &(cairn_llm_options){.max_context = 100});
  size_t long_bytes = info.kv_bytes;
  cairn_llm_describe(llm, &info);
  assert_int_equal(info.max_context, 100);
  assert_int_equal(info.kv_bytes * 2, long_bytes);
  LM_OK(cairn_llm_warm_up(llm, 100));
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void refuse(cairn_context *context, const char *bundle, const cairn_llm_options *options, cairn_status code, const char *part) {
  char path[512];
  cairn_llm *llm;
  snprintf(path, sizeof path, LM_MODELS "%s", bundle);
  lm_expect(cairn_llm_open(context, path, options, &llm), code, part);
  assert_null(llm);
}

static void test_refusals(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-ios");
  cairn_context *context = lm_context(1);
  refuse(context, "tiny-qwen3-ios", &(cairn_llm_options){.engine = "coreai-sequential"}, CAIRN_INCOMPATIBLE, "needs a dynamic model");
  refuse(context, "tiny-qwen3-macos", &(cairn_llm_options){.engine = "static-shape"}, CAIRN_INCOMPATIBLE,
         "needs a model with fixed shapes");
  refuse(context, "tiny-qwen3-ios", &(cairn_llm_options){.kv = "growing"}, CAIRN_UNSUPPORTED, "needs a cache with a dynamic dim");
  refuse(context, "tiny-qwen3-ios", &(cairn_llm_options){.max_context = 513}, CAIRN_INVALID_ARGUMENT, "more than the 512 tokens");
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions_of_steps), cmocka_unit_test(test_pieces),
                                     cmocka_unit_test(test_prefixes), cmocka_unit_test(test_context), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
