/// Several sequences of one model: forks, empty ones, going back, snapshots. Every result is compared with that of a fresh engine.
#include <pthread.h>
#include <unistd.h>

#include "cairn/session.h"
#include "engines/llm/internal.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"

static cairn_context *g_context;

// Every kind of model there is: dynamic, fixed, static shapes, images, host caches, several functions, recurrent states.
static const char *const kModels[] = {LM_MODELS "tiny-qwen3-macos",
                                      LM_MODELS "tiny-mistral-macos",
                                      LM_MODELS "tiny-gpt_oss-macos",
                                      LM_MODELS "tiny-qwen3_untied-ios",
                                      LM_MODELS "tiny-qwen3_vl-vlm",
                                      LM_MODELS "tiny-gemma3-macos",
                                      LM_MODELS "mlx-llama-b1",
                                      FORMS "lm_host_cache/model.aimodel",
                                      FORMS "lm_two_functions",
                                      FORMS "lm_four_states",
                                      FORMS "lm_hybrid"};
enum { N_MODELS = sizeof kModels / sizeof *kModels };

static bool is_there(const char *path) { return access(path, R_OK) == 0; }

typedef struct result {
  int32_t tokens[64];
  int64_t n, hit;
  char note[128];
} result;

static result generate(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t max_tokens) {
  result r = {.n = 0};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options options = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = max_tokens, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= 64);
  r.n = (int64_t)info.n_tokens;
  memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  r.hit = info.prefix_hit;
  snprintf(r.note, sizeof r.note, "%s", info.prefix_note);
  cairn_generation_destroy(g);
  return r;
}

static result cold(const char *path, const int32_t *tokens, int64_t n, int64_t max_tokens) {
  cairn_llm *llm = lm_open_path(g_context, path, NULL);
  result r = generate(llm, tokens, n, max_tokens);
  assert_int_equal(r.hit, 0);
  cairn_llm_close(llm);
  return r;
}

static void same_tokens(const char *what, const result *a, const result *b) {
  if (a->n != b->n || memcmp(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens) != 0) fail_msg("%s: other tokens", what);
}

static int64_t held(const cairn_llm *llm) {
  int64_t n;
  cairn_llm_history(llm, &n);
  return n;
}

// --- forks ------------------------------------------------------------------------------------------------------------

// Original, fork and a fork of the fork go on differently; each gives what a fresh engine gives for its tokens.
static void check_forks(const char *path) {
  int32_t a[40], b[40], c[40];
  lm_fill(a, 40, 1, 40);
  memcpy(b, a, sizeof a);
  memcpy(c, a, sizeof a);
  lm_fill(b + 20, 20, 2, 40);
  lm_fill(c + 26, 14, 3, 40);
  cairn_llm *llm = lm_open_path(g_context, path, NULL), *fork, *second;
  const cairn_forward_options o = {.tokens = a, .n_tokens = 20};
  LM_OK(cairn_llm_forward(llm, &o));
  LM_OK(cairn_llm_fork(llm, -1, &fork));
  assert_int_equal(held(fork), 20);
  LM_OK(cairn_llm_fork(fork, 20, &second));
  result ra = generate(llm, a, 40, 8), rb = generate(fork, b, 40, 8), rc = generate(second, c, 40, 8);
  assert_int_equal(ra.hit, 20);
  assert_int_equal(rb.hit, 20);
  assert_int_equal(rc.hit, 20);
  result ca = cold(path, a, 40, 8), cb = cold(path, b, 40, 8), cc = cold(path, c, 40, 8);
  same_tokens(path, &ra, &ca);
  same_tokens(path, &rb, &cb);
  same_tokens(path, &rc, &cc);
  // The original goes first; the others go on.
  cairn_llm_close(llm);
  memcpy(b + 20, c + 20, sizeof b - 20 * sizeof *b);
  rb = generate(fork, b, 40, 8);
  cb = cold(path, b, 40, 8);
  same_tokens(path, &rb, &cb);
  cairn_llm_close(fork);
  rc = generate(second, c, 40, 8);
  same_tokens(path, &rc, &cc);
  cairn_llm_close(second);
}

static void test_forks(void **state) {
  (void)state;
  int n = 0;
  for (int i = 0; i < N_MODELS; i++) {
    if (!is_there(kModels[i])) continue;
    check_forks(kModels[i]);
    n++;
  }
  if (!n) skip();
}

static void test_fork_limits(void **state) {
  (void)state;
  int32_t tokens[16];
  lm_fill(tokens, 16, 4, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", NULL), *fork = NULL;
  lm_expect(cairn_llm_fork(llm, 1, &fork), CAIRN_OUT_OF_RANGE, "a fork at token 1 of a sequence of 0");
  LM_OK(cairn_llm_fork(llm, -1, &fork));
  assert_int_equal(held(fork), 0);
  cairn_llm_close(fork);
  const cairn_forward_options o = {.tokens = tokens, .n_tokens = 16};
  LM_OK(cairn_llm_forward(llm, &o));
  for (int64_t n = 0; n <= 16; n += 4) {
    LM_OK(cairn_llm_fork(llm, n, &fork));
    assert_int_equal(held(fork), n);
    cairn_llm_info info;
    cairn_llm_describe(fork, &info);
    assert_true(n == 0 ? info.kv_bytes_copied == 0 : info.kv_bytes_copied > 0);
    cairn_llm_close(fork);
  }
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, FORMS "lm_hybrid", NULL);
  LM_OK(cairn_llm_forward(llm, &o));
  lm_expect(cairn_llm_fork(llm, 5, &fork), CAIRN_UNSUPPORTED, "a fork is possible at 0 and 16");
  assert_null(fork);
  cairn_llm_close(llm);
}

// Pages are shared: nothing of the prefix is copied, and what either writes is its own.
static void test_paged_fork_copies_nothing(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  enum { N = 1024 };
  static int32_t tokens[N + 32];
  const cairn_llm_options paged = {.kv = "paged", .kv_page = 64};
  cairn_llm *llm, *fork;
  lm_fill(tokens, N + 32, 5, 40);
  LM_OK(cairn_llm_open(g_context, LM_MODELS "tiny-qwen3-macos", &paged, &llm));
  const cairn_forward_options o = {.tokens = tokens, .n_tokens = N};
  LM_OK(cairn_llm_forward(llm, &o));
  LM_OK(cairn_llm_fork(llm, N, &fork));
  cairn_llm_info info;
  cairn_llm_describe(fork, &info);
  assert_int_equal(info.kv_bytes_copied, 0);
  result a = generate(llm, tokens, N + 32, 8);
  lm_fill(tokens + N, 32, 6, 40);
  result b = generate(fork, tokens, N + 32, 8);
  cairn_llm_close(llm);
  cairn_llm_close(fork);
  result cb = cold(LM_MODELS "tiny-qwen3-macos", tokens, N + 32, 8);
  same_tokens("fork", &b, &cb);
  lm_fill(tokens, N + 32, 5, 40);
  result ca = cold(LM_MODELS "tiny-qwen3-macos", tokens, N + 32, 8);
  same_tokens("original", &a, &ca);
}

static void test_empty_sequences(void **state) {
  (void)state;
  for (int i = 0; i < N_MODELS; i++) {
    if (!is_there(kModels[i])) continue;
    int32_t tokens[24];
    lm_fill(tokens, 24, 6, 40);
    cairn_llm *llm = lm_open_path(g_context, kModels[i], NULL), *other;
    generate(llm, tokens, 20, 4);
    LM_OK(cairn_llm_create_sequence(llm, &other));
    assert_int_equal(held(other), 0);
    assert_ptr_equal(other->model, llm->model);
    cairn_llm_close(llm);
    result r = generate(other, tokens, 24, 6), expected = cold(kModels[i], tokens, 24, 6);
    same_tokens(kModels[i], &r, &expected);
    cairn_llm_close(other);
  }
}

// --- sequences at once ------------------------------------------------------------------------------------------------

typedef struct worker {
  cairn_llm *llm;
  int32_t tokens[24];
  result r;
} worker;

static void *work(void *user) {
  worker *w = user;
  for (int i = 0; i < 5; i++) {
    w->r = generate(w->llm, w->tokens, 24, 8);
    LM_OK(cairn_llm_reset(w->llm, 0));
  }
  return NULL;
}

static void test_sequences_at_once(void **state) {
  (void)state;
  enum { N = 4 };
  static worker workers[N];
  for (int m = 0; m < N_MODELS; m++) {
    pthread_t threads[N];
    if (!is_there(kModels[m])) continue;
    for (int i = 0; i < N; i++) {
      lm_fill(workers[i].tokens, 24, 10 + (uint32_t)i, 40);
      if (i == 0) workers[i].llm = lm_open_path(g_context, kModels[m], NULL);
      if (i > 0) LM_OK(cairn_llm_create_sequence(workers[0].llm, &workers[i].llm));
    }
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++) {
      result expected = cold(kModels[m], workers[i].tokens, 24, 8);
      same_tokens(kModels[m], &workers[i].r, &expected);
      cairn_llm_close(workers[i].llm);
    }
  }
}

// --- going back -------------------------------------------------------------------------------------------------------

static void test_trim(void **state) {
  (void)state;
  int32_t tokens[30];
  int64_t kept;
  lm_fill(tokens, 30, 7, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", NULL);
  generate(llm, tokens, 20, 3);
  LM_OK(cairn_llm_trim(llm, 30, &kept));
  assert_int_equal(kept, 22);
  LM_OK(cairn_llm_trim(llm, 11, &kept));
  assert_int_equal(kept, 11);
  assert_int_equal(held(llm), 11);
  LM_OK(cairn_llm_trim(llm, -3, &kept));
  assert_int_equal(kept, 0);
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, FORMS "lm_hybrid", &(cairn_llm_options){.snapshot_interval = 6});
  generate(llm, tokens, 20, 3);  // snapshots at 6, 12, 18, 19 and the end
  LM_OK(cairn_llm_trim(llm, 17, &kept));
  assert_int_equal(kept, 12);
  result r = generate(llm, tokens, 20, 3), expected = cold(FORMS "lm_hybrid", tokens, 20, 3);
  assert_int_equal(r.hit, 12);
  same_tokens("hybrid", &r, &expected);
  lm_expect(cairn_llm_reset(llm, 7), CAIRN_UNSUPPORTED, "cannot be cut back to 7 tokens: reset to 6");
  LM_OK(cairn_llm_reset(llm, 6));
  assert_int_equal(held(llm), 6);
  cairn_llm_close(llm);
}

// Hybrids: prompts that part from what is held at any place go back to a snapshot and give what a fresh engine gives.
static void check_cuts(const char *path, const cairn_llm_options *options, int64_t interval) {
  int32_t tokens[60], other[60];
  int n_reused = 0;
  lm_fill(tokens, 60, 8, 40);
  cairn_llm *llm = lm_open_path(g_context, path, options);
  for (uint32_t i = 0; i < 40; i++) {
    generate(llm, tokens, 40, 4);
    const int64_t cut = i * 7 % 40, n = cut + 1 + i % 9;
    memcpy(other, tokens, sizeof other);
    lm_fill(other + cut, n - cut, 100 + i, 40);
    result warm = generate(llm, other, n, 6), expected = cold(path, other, n, 6);
    same_tokens(path, &warm, &expected);
    assert_true(warm.hit <= n - 1);
    assert_true(warm.hit > cut - interval - 1 || warm.hit == 0 || cut > 32);
    n_reused += warm.hit > 0;
    if (warm.hit == 0 && cut > 0) assert_non_null(strstr(warm.note, "cannot be cut back"));
  }
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_true(info.n_snapshots > 0 && info.n_snapshots <= (options->max_snapshots ? options->max_snapshots : 8));
  assert_true(info.snapshot_bytes > 0);
  print_message("%s: %d of 40 prompts that part began at a snapshot\n", path, n_reused);
  assert_true(n_reused > 20);
  cairn_llm_close(llm);
}

static void test_snapshots(void **state) {
  (void)state;
  check_cuts(FORMS "lm_hybrid", &(cairn_llm_options){.snapshot_interval = 8}, 8);
  check_cuts(FORMS "lm_hybrid", &(cairn_llm_options){.snapshot_interval = 3, .prefill_chunk = 5, .max_snapshots = 20}, 3);
  check_cuts(FORMS "lm_hybrid", &(cairn_llm_options){.snapshot_interval = 2, .max_snapshots = 4}, 40);
}

static void test_snapshot_bounds(void **state) {
  (void)state;
  int32_t tokens[40];
  lm_fill(tokens, 40, 9, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_hybrid", &(cairn_llm_options){.max_snapshots = -1});
  cairn_llm_info info;
  generate(llm, tokens, 40, 4);
  cairn_llm_describe(llm, &info);
  assert_int_equal(info.n_snapshots, 0);
  result r = generate(llm, tokens, 40, 4);
  assert_int_equal(r.hit, 0);
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, FORMS "lm_hybrid", &(cairn_llm_options){.snapshot_interval = 4, .max_snapshots = 100});
  generate(llm, tokens, 40, 4);
  cairn_llm_describe(llm, &info);
  const size_t each = info.snapshot_bytes / (size_t)info.n_snapshots;
  assert_true(info.n_snapshots >= 10);
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, FORMS "lm_hybrid", &(cairn_llm_options){.snapshot_interval = 4, .snapshot_bytes = 3 * each});
  generate(llm, tokens, 40, 4);
  cairn_llm_describe(llm, &info);
  assert_int_equal(info.n_snapshots, 3);
  // A fork shares them, and forks at their points are possible.
  cairn_llm *fork;
  int64_t kept;
  LM_OK(cairn_llm_fork(llm, -1, &fork));
  LM_OK(cairn_llm_trim(fork, 42, &kept));
  assert_true(kept > 0 && kept < 43);
  cairn_llm_close(llm);
  result again = generate(fork, tokens, 40, 4), expected = cold(FORMS "lm_hybrid", tokens, 40, 4);
  same_tokens("fork", &again, &expected);
  cairn_llm_close(fork);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forks),           cmocka_unit_test(test_fork_limits),       cmocka_unit_test(test_paged_fork_copies_nothing),
      cmocka_unit_test(test_empty_sequences), cmocka_unit_test(test_sequences_at_once), cmocka_unit_test(test_trim),
      cmocka_unit_test(test_snapshots),       cmocka_unit_test(test_snapshot_bounds)};
  g_context = lm_context(2);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cairn_context_release(g_context);
  return failed;
}
