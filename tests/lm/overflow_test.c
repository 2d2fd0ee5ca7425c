/// A full context: refused, slid along, summarised. Whatever is dropped is told, and what comes out is what a fresh engine gives for the
/// tokens that are left.
#include <unistd.h>

#include "cairn/session.h"
#include "engines/llm/internal.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"

static cairn_context *g_context;

typedef struct result {
  int32_t tokens[512];
  int64_t n, hit, dropped, fed;
  int n_overflows;
  char kind[16];
  cairn_stop_reason reason;
} result;

static result take(cairn_generation *g) {
  static result r;
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= 512);
  r = (result){.n = (int64_t)info.n_tokens,
               .hit = info.prefix_hit,
               .dropped = info.overflow_dropped,
               .fed = info.overflow_fed,
               .n_overflows = info.n_overflows,
               .reason = info.stop_reason};
  memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  snprintf(r.kind, sizeof r.kind, "%s", info.overflow);
  cairn_generation_destroy(g);
  return r;
}

static result generate(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t max_tokens, const cairn_overflow *overflow) {
  cairn_generation *g;
  cairn_generate_options o = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = max_tokens, .ignore_eos = true};
  if (overflow) o.overflow = *overflow;
  LM_OK(cairn_llm_generate(llm, &o, &g));
  return take(g);
}

// What sliding means, by hand: one token at a time from a fresh engine for every token.
static void slide_by_hand(const char *path, const cairn_llm_options *options, const int32_t *prompt, int64_t n, int64_t max, int64_t sinks,
                          int64_t margin, int64_t most, int32_t *out) {
  static int32_t all[2048];
  memcpy(all, prompt, (size_t)n * sizeof *all);
  cairn_llm *llm = lm_open_path(g_context, path, options);
  for (int64_t i = 0; i < most; i++) {
    const int64_t over = n - max + 1;
    if (over > 0) {
      const int64_t drop = (over + margin - 1) / margin * margin;
      memmove(all + sinks, all + sinks + drop, (size_t)(n - sinks - drop) * sizeof *all);
      n -= drop;
    }
    LM_OK(cairn_llm_reset(llm, 0));
    out[i] = generate(llm, all, n, 1, NULL).tokens[0];
    all[n++] = out[i];
  }
  cairn_llm_close(llm);
}

static void check_slide(const char *path, cairn_llm_options options, int64_t n, int64_t sinks, int64_t margin) {
  static int32_t prompt[256], expected[100];
  const int64_t max = 40;
  options.max_context = max;
  lm_fill(prompt, n, 1, 40);
  const cairn_llm_options plain = {.max_context = max};
  slide_by_hand(path, &plain, prompt, n, max, sinks, margin, 100, expected);
  cairn_llm *llm = lm_open_path(g_context, path, &options);
  const cairn_overflow o = {.kind = CAIRN_OVERFLOW_SLIDE, .sinks = sinks ? sinks : -1, .margin = margin};
  result r = generate(llm, prompt, n, 100, &o);
  assert_int_equal(r.n, 100);
  assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
  assert_string_equal(r.kind, "slide");
  assert_memory_equal(r.tokens, expected, sizeof expected);
  assert_int_equal(r.dropped, (n + 99 - max + 1 + margin - 1) / margin * margin);
  assert_true(r.n_overflows > 1);
  int64_t held;
  cairn_llm_history(llm, &held);
  assert_true(held <= max);
  // The next turn has all tokens again; it is cut at the same place, so what is held is found.
  memcpy(prompt + n, r.tokens, 100 * sizeof *prompt);
  prompt[n + 100] = 7;
  result next = generate(llm, prompt, n + 101, 1, &o);
  assert_true(next.hit == held || next.n_overflows > 1 || next.dropped > r.dropped);
  cairn_llm_close(llm);
}

static void test_slide(void **state) {
  (void)state;
  check_slide(FORMS "lm_dynamic", (cairn_llm_options){0}, 10, 4, 10);
  check_slide(FORMS "lm_dynamic", (cairn_llm_options){.kv = "growing", .kv_capacity = 8}, 39, 0, 7);
  check_slide(FORMS "lm_dynamic", (cairn_llm_options){.engine = "pipelined"}, 10, 4, 10);
  check_slide(FORMS "lm_dynamic", (cairn_llm_options){.kv = "paged"}, 150, 4, 10);  // the prompt alone is too long
  check_slide(FORMS "lm_hybrid", (cairn_llm_options){.snapshot_interval = 8}, 30, 4, 9);
  check_slide(FORMS "lm_host_cache/model.aimodel", (cairn_llm_options){0}, 30, 2, 9);
  lm_need(LM_MODELS "tiny-qwen3-macos");
  check_slide(LM_MODELS "tiny-qwen3-macos", (cairn_llm_options){0}, 60, 4, 12);
  check_slide(LM_MODELS "tiny-mistral-macos", (cairn_llm_options){0}, 20, 4, 12);
}

static int64_t g_drafted;

static result slide_with(cairn_llm *llm, const int32_t *prompt, int64_t n, const cairn_speculation *speculation) {
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = prompt,
                                    .n_tokens = (size_t)n,
                                    .max_tokens = 150,
                                    .ignore_eos = true,
                                    .overflow = {.kind = CAIRN_OVERFLOW_SLIDE, .sinks = 4, .margin = 9},
                                    .speculation = *speculation};
  LM_OK(cairn_llm_reset(llm, 0));
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  g_drafted += info.drafted_tokens;
  return take(g);
}

// Drafts reach over the place where the context is full, and rows that slid away were drafted, too: the tokens are the same.
static void test_drafts(void **state) {
  (void)state;
  static const char *const kPaths[] = {FORMS "lm_dynamic", LM_MODELS "tiny-qwen3-macos", LM_MODELS "tiny-qwen2-macos"};
  static const char *const kStorages[] = {"growing", "paged"};
  for (int i = 0; i < 6; i++) {
    if (access(kPaths[i / 2], R_OK) != 0) continue;
    int32_t prompt[36];
    for (int k = 0; k < 36; k++) prompt[k] = 5 + k % 6;  // something to look up
    cairn_llm *llm = lm_open_path(g_context, kPaths[i / 2], &(cairn_llm_options){.kv = kStorages[i % 2], .max_context = 48});
    const result plain = slide_with(llm, prompt, 36, &(cairn_speculation){.mode = CAIRN_SPECULATION_OFF});
    const result drafted = slide_with(llm, prompt, 36, &(cairn_speculation){.mode = CAIRN_SPECULATION_LOOKUP, .always = true});
    assert_int_equal(plain.n, 150);
    assert_int_equal(drafted.n, plain.n);
    assert_memory_equal(drafted.tokens, plain.tokens, 150 * sizeof *plain.tokens);
    assert_int_equal(drafted.n_overflows, plain.n_overflows);
    assert_int_equal(drafted.dropped, plain.dropped);
    cairn_llm_close(llm);
  }
  assert_true(g_drafted > 0);
}

// Without the option everything is as it was: refused before anything runs, or ended and told.
static void test_refuse(void **state) {
  (void)state;
  int32_t prompt[60];
  lm_fill(prompt, 60, 2, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", &(cairn_llm_options){.max_context = 40});
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = prompt, .n_tokens = 60, .max_tokens = 1};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_CONTEXT_FULL, "leaves no room");
  result r = generate(llm, prompt, 30, 100, NULL);
  assert_int_equal(r.reason, CAIRN_STOP_CONTEXT_FULL);
  assert_int_equal(r.n, 10);
  assert_int_equal(r.n_overflows, 0);
  assert_string_equal(r.kind, "none");
  cairn_generate_options bad = {.tokens = prompt, .n_tokens = 6, .max_tokens = 1, .overflow = {.kind = (cairn_overflow_kind)7}};
  lm_expect(cairn_llm_generate(llm, &bad, &g), CAIRN_INVALID_ARGUMENT, "overflow kind 7");
  bad.overflow.kind = CAIRN_OVERFLOW_SUMMARISE;
  lm_expect(cairn_llm_generate(llm, &bad, &g), CAIRN_INVALID_ARGUMENT, "needs a function");
  // Forced tokens are measured, not continued: they end as before.
  const cairn_generate_options forced = {
      .tokens = prompt, .n_tokens = 35, .forced = prompt, .n_forced = 20, .overflow = {.kind = CAIRN_OVERFLOW_SLIDE}};
  LM_OK(cairn_llm_generate(llm, &forced, &g));
  r = take(g);
  assert_int_equal(r.reason, CAIRN_STOP_CONTEXT_FULL);
  assert_int_equal(r.n, 5);
  cairn_llm_close(llm);
}

// --- summaries --------------------------------------------------------------------------------------------------------

typedef struct summary {
  cairn_llm *llm;
  int n_calls;
  size_t last_n, last_most, give;
  int32_t tokens[64];
  cairn_status status;
} summary;

static cairn_status replace(void *user, const int32_t *tokens, size_t n, size_t most, const int32_t **out_tokens, size_t *out_n) {
  summary *s = user;
  s->n_calls++;
  s->last_n = n;
  s->last_most = most;
  if (s->status != CAIRN_OK) return s->status;
  // Another sequence of the model may be used meanwhile.
  cairn_llm *other;
  LM_OK(cairn_llm_create_sequence(s->llm, &other));
  generate(other, tokens, 5, 1, NULL);
  cairn_llm_close(other);
  memcpy(s->tokens, tokens, 3 * sizeof *tokens);
  memcpy(s->tokens + 3, tokens + n - 9, 9 * sizeof *tokens);
  *out_tokens = s->tokens;
  *out_n = s->give ? s->give : 12;
  return CAIRN_OK;
}

static void test_summarise(void **state) {
  (void)state;
  int32_t prompt[60], all[200];
  lm_fill(prompt, 60, 3, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", &(cairn_llm_options){.max_context = 40}),
            *fresh = lm_open_path(g_context, FORMS "lm_dynamic", NULL);
  summary s = {.llm = llm};
  const cairn_overflow o = {.kind = CAIRN_OVERFLOW_SUMMARISE, .margin = 8, .replace = replace, .user = &s};
  result r = generate(llm, prompt, 20, 50, &o);
  assert_int_equal(r.n, 50);
  assert_string_equal(r.kind, "summarise");
  assert_int_equal(s.n_calls, r.n_overflows);
  assert_int_equal(s.last_most, 31);
  assert_int_equal(s.last_n, 32);  // 40 less the margin
  // By hand: 12 tokens up to 32, again and again.
  int64_t n = 20;
  memcpy(all, prompt, 20 * sizeof *all);
  for (int64_t i = 0; i < 50; i++) {
    if (n == 32) {
      memmove(all + 3, all + n - 9, 9 * sizeof *all);
      n = 12;
    }
    LM_OK(cairn_llm_reset(fresh, 0));
    all[n] = generate(fresh, all, n, 1, NULL).tokens[0];
    assert_int_equal(all[n++], r.tokens[i]);
  }
  // A prompt that is too long is summarised before anything runs.
  s.n_calls = 0;
  r = generate(llm, prompt, 60, 3, &o);
  assert_int_equal(s.n_calls, 1);
  assert_int_equal(s.last_n, 60);
  assert_int_equal(r.dropped, 48);
  // What is too much is refused by name, and a failure of the function is passed on.
  cairn_generation *g;
  const cairn_generate_options options = {.tokens = prompt, .n_tokens = 60, .max_tokens = 3, .overflow = o};
  s.give = 32;
  lm_expect(cairn_llm_generate(llm, &options, &g), CAIRN_INVALID_ARGUMENT, "gave 32 tokens; 1 to 31 are expected");
  s.give = 0;
  s.status = CAIRN_CANCELLED;
  assert_int_equal(cairn_llm_generate(llm, &options, &g), CAIRN_CANCELLED);
  s.status = CAIRN_OK;
  r = generate(llm, prompt, 20, 3, &o);
  assert_int_equal(r.n_overflows, 0);
  cairn_llm_close(fresh);
  cairn_llm_close(llm);
}

// Seeded sampling, penalties and stops go on over the seam.
static void test_sampling_goes_on(void **state) {
  (void)state;
  int32_t prompt[30];
  lm_fill(prompt, 30, 4, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", &(cairn_llm_options){.max_context = 40});
  cairn_generate_options o = {.tokens = prompt,
                              .n_tokens = 30,
                              .max_tokens = 40,
                              .ignore_eos = true,
                              .sampling = {.has_repetition_penalty = true, .repetition_penalty = 1e6f},
                              .overflow = {.kind = CAIRN_OVERFLOW_SLIDE}};
  cairn_generation *g;
  LM_OK(cairn_llm_generate(llm, &o, &g));
  result r = take(g);
  assert_true(r.n_overflows > 1);
  for (int64_t i = 0; i < r.n; i++) {
    for (int64_t j = 0; j < i; j++) assert_int_not_equal(r.tokens[i], r.tokens[j]);
  }
  o.sampling = (cairn_sampling){.temperature = 1, .has_seed = true, .seed = 5};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  result a = take(g);
  LM_OK(cairn_llm_reset(llm, 0));
  LM_OK(cairn_llm_generate(llm, &o, &g));
  result b = take(g);
  assert_memory_equal(a.tokens, b.tokens, 40 * sizeof *a.tokens);
  const int32_t stop = a.tokens[35];
  o.stop_ids = &stop;
  o.n_stop_ids = 1;
  LM_OK(cairn_llm_generate(llm, &o, &g));
  b = take(g);
  assert_int_equal(b.reason, CAIRN_STOP_SEQUENCE);
  assert_true(b.n <= 36);
  cairn_llm_close(llm);
}

static void test_images(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3_vl-vlm");
  static unsigned char picture[20 * 10 * 3];
  for (size_t i = 0; i < sizeof picture; i++) picture[i] = (unsigned char)(i * 37);
  const cairn_image images[] = {{.rgb = picture, .width = 20, .height = 10}, {.rgb = picture, .width = 10, .height = 20}};
  cairn_llm *llm = lm_open_path(g_context, LM_MODELS "tiny-qwen3_vl-vlm", &(cairn_llm_options){.max_context = 40});
  cairn_llm_images info;
  cairn_llm_describe_images(llm, &info);
  int32_t prompt[30];
  for (int i = 0; i < 30; i++) prompt[i] = 30 + i;
  prompt[2] = prompt[14] = info.image_token;
  // Sinks that end within a picture, and cuts within one, take the whole picture.
  for (int64_t sinks = 1; sinks < 10; sinks++) {
    const cairn_generate_options o = {.tokens = prompt,
                                      .n_tokens = 30,
                                      .images = images,
                                      .n_images = 2,
                                      .max_tokens = 30,
                                      .ignore_eos = true,
                                      .overflow = {.kind = CAIRN_OVERFLOW_SLIDE, .sinks = sinks, .margin = 5 + sinks}};
    cairn_generation *g;
    LM_OK(cairn_llm_generate(llm, &o, &g));
    result r = take(g);
    assert_int_equal(r.n, 30);
    assert_true(r.n_overflows > 0);
    int64_t n;
    const int32_t *history = cairn_llm_history(llm, &n);
    int n_image = 0;
    for (int64_t i = 0; i < n; i++) n_image += history[i] < 0;
    assert_int_equal(n_image % (int)info.image_tokens, 0);
  }
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slide),     cmocka_unit_test(test_drafts),           cmocka_unit_test(test_refuse),
      cmocka_unit_test(test_summarise), cmocka_unit_test(test_sampling_goes_on), cmocka_unit_test(test_images)};
  g_context = lm_context(1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cairn_context_release(g_context);
  return failed;
}
