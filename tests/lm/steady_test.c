// A generation that has got going allocates nothing: neither its runs, nor what is between them. Lists of tokens, which double now and
// then, are all that is left.
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cairn/trace.h"
#include "engines/llm/internal.h"
#include "lm.h"
#include "mlx_model.h"

enum { TOKENS = 300, WARM = 100, DOUBLINGS = 4 };

typedef struct watch {
  lm_counting *counting;
  long long last;
  int n_asked, n_noisy;
} watch;

// Asked once in front of every token.
static bool look(void *user) {
  watch *w = user;
  long long n = atomic_load(&w->counting->n_allocations);
  if (w->n_asked++ >= WARM) w->n_noisy += n != w->last;
  w->last = n;
  return false;
}

static void generate_from(cairn_llm *llm, lm_counting *c, const char *model, const char *engine, int most) {
  cairn_generation *g;
  watch w = {.counting = c};
  const int32_t prompt[] = {3, 4, 5, 6, 7};
  for (int round = 0; round < 2; round++) {
    w.n_asked = w.n_noisy = 0;
    const cairn_generate_options o = {
        .tokens = prompt, .n_tokens = 5, .max_tokens = TOKENS, .ignore_eos = true, .should_cancel = look, .user = &w};
    LM_OK(cairn_llm_generate(llm, &o, &g));
    cairn_generation_destroy(g);
    print_message("%s %s: %d of %d tokens with an allocation\n", model, engine, w.n_noisy, w.n_asked - WARM);
    assert_true(w.n_asked >= TOKENS);
    assert_true(w.n_noisy <= most);
  }
}

static void generate_steadily(const char *model, const char *engine) {
  lm_need(LM_MODELS);
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 2);
  cairn_llm *llm = lm_open(context, model, &(cairn_llm_options){.kv_capacity = 512, .engine = engine});
  // Work on two threads needs a block more now and then, until as many are there as were ever used at once.
  generate_from(llm, &c, model, engine, strcmp(engine, "pipelined") ? DOUBLINGS : 3 * DOUBLINGS);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void test_growing_positions(void **state) {
  (void)state;
  generate_steadily("tiny-qwen3-macos", "sequential");
}

// Works of a stream, their values and views are given out again. A checker of memory keeps them apart.
static void test_pipelined(void **state) {
  (void)state;
#ifdef __SANITIZE_ADDRESS__
  skip();
#endif
  generate_steadily("tiny-qwen3-macos", "pipelined");
}

static void test_static_shapes(void **state) {
  (void)state;
  generate_steadily("tiny-qwen3-ios", "static-shape");
}

// A mask over all rows of a cache, caches of all layers in one array, whatever their storage.
static void test_mlx(void **state) {
  (void)state;
  static const struct {
    int64_t capacity;
    const char *kv, *engine;
  } kCases[] = {{512, NULL, "sequential"},
                {-1, "fixed", "sequential"},
                {-1, "growing", "sequential"},
                {-1, "paged", "sequential"},
                {512, NULL, "pipelined"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
#ifdef __SANITIZE_ADDRESS__
    if (!strcmp(kCases[i].engine, "pipelined")) continue;
#endif
    lm_counting c;
    cairn_context *context = lm_counted_context(&c, 2);
    cairn_llm *llm;
    mlx_shape shape = {.layers = 2,
                       .width = 32,
                       .inner = 48,
                       .heads = 4,
                       .groups = 2,
                       .head_dim = 16,
                       .vocab = 61,
                       .capacity = kCases[i].capacity,
                       .context = 512,
                       .dtype = CAIRN_F32};
    LM_OK(crn_llm_open_with(context, &(cairn_llm_options){.kv = kCases[i].kv, .kv_capacity = 512, .engine = kCases[i].engine}, mlx_open,
                            &shape, &llm));
    // Small pages are blocks of their own, which a thread beside makes ready: when, is not a matter of tokens.
    const bool is_paged = kCases[i].kv && !strcmp(kCases[i].kv, "paged");
    generate_from(llm, &c, kCases[i].kv ? kCases[i].kv : "mlx", kCases[i].engine,
                  is_paged || !strcmp(kCases[i].engine, "pipelined") ? 3 * DOUBLINGS : DOUBLINGS);
    cairn_llm_close(llm);
    cairn_context_release(context);
  }
}

// Forms of the contract that lie in the repository: one token a run, functions for prompts, four states, a running summary, caches that the
// caller keeps.
static void test_forms(void **state) {
  (void)state;
  static const char *const kForms[] = {"lm_dynamic", "lm_static_one", "lm_two_functions", "lm_four_states", "lm_hybrid"};
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    char path[512];
    lm_counting c;
    cairn_context *context = lm_counted_context(&c, 2);
    snprintf(path, sizeof path, CAIRN_TEST_DATA "/llm-forms/%s/model.aimodel", kForms[i]);
    cairn_llm *llm = lm_open_path(context, path, &(cairn_llm_options){.kv_capacity = 512, .max_context = 512});
    // Their attention is computed op by op: scores are memory that grows with the context, by a quarter each time.
    generate_from(llm, &c, kForms[i], "sequential", 4 * DOUBLINGS);
    cairn_llm_close(llm);
    cairn_context_release(context);
  }
}

// --- a long context -------------------------------------------------------------------------------------------------

enum { STEPS = 10000, FIRST = 8 };

// The bundle with room for more positions than its maker asked for: its function is of open shapes.
static void make_long_bundle(const char *folder, const char *model) {
  char command[2048], to[512];
  snprintf(command, sizeof command,
           "cp -r '" LM_MODELS "%s/tokenizer' '%s/tokenizer' && cp -r '" LM_MODELS "%s/%s.aimodel' '%s/main.aimodel' && chmod -R u+w '%s'",
           model, folder, model, model, folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(to, sizeof to, "%s/metadata.json", folder);
  FILE *f = fopen(to, "w");
  assert_non_null(f);
  fprintf(f,
          "{\"metadata_version\": \"0.2\", \"kind\": \"llm\", \"name\": \"long\", \"assets\": {\"main\": \"main.aimodel\"}, \"language\": "
          "{\"tokenizer\": \"long\", \"vocab_size\": 384, \"max_context_length\": 16384, \"embedded_tokenizer\": true, "
          "\"function_map\": {\"main\": [\"main\"]}}}");
  assert_int_equal(fclose(f), 0);
}

static int64_t count_events(const char *path, const char *category) {
  char part[64];
  crn_file_map file;
  snprintf(part, sizeof part, "\"cat\":\"%s\"", category);
  LM_OK(crn_file_map_open(path, &file));
  int64_t n = 0;
  const char *end = (const char *)file.data + file.bytes;
  for (const char *p = (const char *)file.data; (p = memmem(p, (size_t)(end - p), part, strlen(part))); p++) n++;
  crn_file_map_close(&file);
  return n;
}

static void generate_tokens(cairn_llm *llm, int64_t n) {
  cairn_generation *g;
  const int32_t token = 3;
  const cairn_generate_options o = {.tokens = &token, .n_tokens = 1, .max_tokens = n, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_destroy(g);
}

// Ten thousand steps over a context that grows specialize nothing, however the rows are kept.
static void test_no_specialization_on_the_way(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  static const char *const kKinds[] = {"growing", "paged", "fixed"};
  char folder[] = "/tmp/cairn-steady-XXXXXX", trace[64];
  assert_non_null(mkdtemp(folder));
  make_long_bundle(folder, "tiny-qwen3-macos");
  snprintf(trace, sizeof trace, "%s/trace.json", folder);
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++) {
    cairn_context *context = lm_context(1);
    LM_OK(cairn_trace_start(context));
    cairn_llm *llm = lm_open_path(context, folder, &(cairn_llm_options){.kv = kKinds[i]});
    generate_tokens(llm, FIRST);
    LM_OK(cairn_trace_stop(context, trace));
    assert_true(count_events(trace, "specialization") >= 1);
    LM_OK(cairn_trace_start(context));
    generate_tokens(llm, STEPS);
    LM_OK(cairn_trace_stop(context, trace));
    assert_true(count_events(trace, "inference") >= STEPS);
    assert_int_equal(count_events(trace, "specialization"), 0);
    cairn_llm_close(llm);
    cairn_context_release(context);
  }
  assert_int_equal(lm_remove_folder(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_growing_positions),
                                     cmocka_unit_test(test_pipelined),
                                     cmocka_unit_test(test_static_shapes),
                                     cmocka_unit_test(test_mlx),
                                     cmocka_unit_test(test_forms),
                                     cmocka_unit_test(test_no_specialization_on_the_way)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
