/// SmolLM2-135M with real weights: the 4-bit bundle against Apple's interpreter, and a GGUF of the same model against
/// the f32 reference. The GGUF is named by CAIRN_TEST_GGUF.
#include <unistd.h>

#include "lm.h"

#define BUNDLE "smollm2-4bit-macos"
#define F16_GOLDENS "smollm2-f16-macos-goldens"

// All tokens of the list must come, in every mode; the logits of the first steps have the cosine that the mode promises.
static void check_goldens(cairn_precision precision, double least) {
  lm_need(LM_MODELS BUNDLE "/golden.safetensors");
  enum { N = 16 };
  crn_safetensors *file = lm_goldens(BUNDLE);
  lm_ids prompt = lm_golden_ids(file, "prompt3"), golden = lm_golden_ids(file, "greedy3"), tokens;
  lm_rows rows, logits = lm_golden_rows(file, "logits3");
  cairn_context *context = lm_context(0);
  cairn_model_options model = {.precision = precision};
  cairn_llm *llm = lm_open(context, BUNDLE, &(cairn_llm_options){.model = &model});
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_string_equal(info.precision, cairn_precision_text(precision == CAIRN_PRECISION_DEFAULT ? CAIRN_PRECISION_INT8 : precision));
  lm_greedy(llm, &prompt, N, &tokens, &rows);
  for (int64_t i = 0; i < N; i++) {
    if (tokens.data[i] != golden.data[i]) fail_msg("greedy token %lld is %d instead of %d", (long long)i, tokens.data[i], golden.data[i]);
  }
  for (int64_t step = 0; step < 2; step++) {
    double cosine = lm_cosine(rows.data + step * rows.width, logits.data + step * logits.width, logits.width);
    print_message("step %lld: cosine %.6f\n", (long long)step, cosine);
    if (!(cosine >= least)) fail_msg("the logits of step %lld have cosine %.6f", (long long)step, cosine);
  }
  cairn_llm_close(llm);
  cairn_context_release(context);
  free(prompt.data);
  free(golden.data);
  free(tokens.data);
  lm_rows_free(&rows);
  lm_rows_free(&logits);
  crn_safetensors_close(file);
}

static void test_4bit_goldens(void **state) {
  (void)state;
  check_goldens(CAIRN_PRECISION_EXACT, 0.9998);
}

static void test_4bit_goldens_rounded(void **state) {
  (void)state;
  check_goldens(CAIRN_PRECISION_DEFAULT, 0.999);
  check_goldens(CAIRN_PRECISION_INT8, 0.999);
  check_goldens(CAIRN_PRECISION_BF16, 0.999);
}

// The text side of a real bundle: template, stop ids, streamed pieces that add up to the text.
typedef struct pieces {
  char text[4096];
  size_t bytes;
  int64_t n_tokens;
} pieces;

static bool keep_piece(void *user, const cairn_token_event *event) {
  pieces *p = user;
  assert_true(p->bytes + event->text_bytes < sizeof p->text);
  memcpy(p->text + p->bytes, event->text, event->text_bytes);
  p->bytes += event->text_bytes;
  p->n_tokens += event->token >= 0;
  return true;
}

static void test_chat(void **state) {
  (void)state;
  lm_need(LM_MODELS BUNDLE "/golden.safetensors");
  static const char kText[] = "What is the capital of France?";
  cairn_context *context = lm_context(0);
  cairn_llm *llm = lm_open(context, BUNDLE, NULL);
  size_t n;
  const int32_t *stop_ids = cairn_llm_stop_ids(llm, &n);
  assert_true(n == 2 && stop_ids[0] == 0 && stop_ids[1] == 2);  // <|endoftext|>, <|im_end|>
  int32_t ids[64];
  const cairn_generate_options prompt = {.text = kText, .text_bytes = strlen(kText)};
  static const int32_t kExpected[] = {1,   9690, 198, 2683, 359,   253,  5356, 5646, 11173, 3365, 3511, 308,  34519,
                                      28,  7018, 411, 407,  19712, 8182, 2,    198,  1,     4093, 198,  1780, 314,
                                      260, 3575, 282, 4649, 47,    2,    198,  1,    520,   9531, 198};
  LM_OK(cairn_llm_encode_prompt(llm, &prompt, ids, 64, &n));
  assert_int_equal(n, sizeof kExpected / sizeof *kExpected);
  assert_memory_equal(ids, kExpected, sizeof kExpected);
  pieces p = {.bytes = 0};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options options = {.text = kText, .text_bytes = strlen(kText), .max_tokens = 8, .on_token = keep_piece, .user = &p};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  cairn_generation_get(g, &info);
  assert_int_equal(p.bytes, info.text_bytes);
  assert_memory_equal(p.text, info.text, p.bytes);
  assert_int_equal(p.n_tokens, info.n_tokens);
  assert_string_equal(info.prompt_form, "template");
  print_message("answer: %s\n", info.text);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void test_gguf(void **state) {
  (void)state;
  const char *path = getenv("CAIRN_TEST_GGUF");
  if (!path || access(path, R_OK) != 0) {
    print_message("skipped: CAIRN_TEST_GGUF names no file\n");
    skip();
  }
  lm_need(LM_MODELS F16_GOLDENS "/golden.safetensors");
  crn_safetensors *file = lm_goldens(F16_GOLDENS);
  lm_ids prompt = lm_golden_ids(file, "prompt3"), golden = lm_golden_ids(file, "greedy3"), tokens;
  cairn_context *context = lm_context(0);
  cairn_llm *llm = lm_open(context, path, NULL);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_string_equal(info.source, "gguf");
  LM_OK(cairn_llm_has_text(llm));
  lm_greedy(llm, &prompt, golden.n, &tokens, NULL);
  int64_t same = 0;
  while (same < golden.n && tokens.data[same] == golden.data[same]) same++;
  print_message("%lld of %lld greedy tokens as in f32\n", (long long)same, (long long)golden.n);
  assert_int_equal(same, golden.n);
  cairn_llm_close(llm);
  cairn_context_release(context);
  free(prompt.data);
  free(golden.data);
  free(tokens.data);
  crn_safetensors_close(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_4bit_goldens), cmocka_unit_test(test_4bit_goldens_rounded),
                                     cmocka_unit_test(test_chat), cmocka_unit_test(test_gguf)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
