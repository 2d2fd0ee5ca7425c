/// Caches in pages: the bits of growing ones for every dynamic bundle and page size, no copies, forks that have pages in common, windows
/// with sinks, int8.
#include <dirent.h>
#include <unistd.h>

#include "cairn/session.h"
#include "engines/llm/internal.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"

enum { MAX_BUNDLES = 64, N_TOKENS = 300 };

static cairn_context *g_context;
static char g_names[MAX_BUNDLES][256];
static int g_n_names;

static int set_up(void **state) {
  (void)state;
  g_context = lm_context(2);
  DIR *folder = opendir(LM_MODELS);
  for (struct dirent *e; folder && (e = readdir(folder));) {
    bool is_dynamic = (strncmp(e->d_name, "tiny-", 5) == 0 && strstr(e->d_name, "-macos")) || strcmp(e->d_name, "mlx-llama-b1") == 0;
    if (is_dynamic && g_n_names < MAX_BUNDLES) snprintf(g_names[g_n_names++], sizeof *g_names, "%s", e->d_name);
  }
  if (folder) closedir(folder);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

static void make_tokens(const cairn_llm *llm, int32_t *tokens, int64_t n) {
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  uint32_t seed = 7;
  for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)((seed = seed * 1664525u + 1013904223u) >> 8) % (int32_t)info.vocab_size;
}

static lm_rows feed(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t piece) {
  lm_rows rows = {0};
  lm_feed(llm, tokens, n, piece, &rows);
  return rows;
}

static bool same_bits(const lm_rows *a, const lm_rows *b, int64_t n) {
  assert_true(a->n >= n && b->n >= n);
  return memcmp(a->data, b->data, (size_t)(n * a->width) * sizeof *a->data) == 0;
}

static int64_t bytes_gathered(const cairn_llm *llm) {
  int64_t bytes = 0;
  for (int i = 0; i < llm->model->contract.n_states; i++) {
    cairn_segment_counts counts;
    cairn_ndarray_count_segments(llm->states.arrays[i].array, &counts);
    bytes += counts.bytes_read;
  }
  return bytes;
}

static int64_t held_pages(const cairn_llm *llm, int64_t *out_shared) {
  int64_t held = 0;
  *out_shared = 0;
  for (int i = 0; i < llm->model->contract.n_states; i++) {
    cairn_segment_counts counts;
    cairn_ndarray_count_segments(llm->states.arrays[i].array, &counts);
    held += counts.n_held;
    *out_shared += counts.n_shared;
  }
  return held;
}

// --- the bits of growing caches ---------------------------------------------------------------------------------------

static void check_storage(const char *bundle, const cairn_llm_options *options, const lm_rows *want, const int32_t *tokens) {
  const int64_t kPieces[] = {want->n, 37}, n = want->n;
  cairn_llm *llm = lm_open(g_context, bundle, options);
  for (int i = 0; i < 2; i++) {
    LM_OK(cairn_llm_reset(llm, 0));
    lm_rows rows = feed(llm, tokens, n, kPieces[i]);
    if (!same_bits(&rows, want, n))
      fail_msg("%s: %s with pages of %lld, in pieces of %lld: other bits than a growing cache", bundle, options->kv,
               (long long)options->kv_page, (long long)kPieces[i]);
    lm_rows_free(&rows);
  }
  LM_OK(cairn_llm_reset(llm, n - n / 2));
  lm_rows rows = feed(llm, tokens + n - n / 2, n / 2, 1);
  if (memcmp(rows.data, want->data + (n - n / 2) * want->width, (size_t)(n / 2 * want->width) * sizeof *rows.data) != 0)
    fail_msg("%s: %s with pages of %lld, token by token: other bits than a growing cache", bundle, options->kv,
             (long long)options->kv_page);
  lm_rows_free(&rows);
  assert_int_equal(bytes_gathered(llm), 0);
  assert_int_equal(llm->states.bytes_copied, 0);
  cairn_llm_close(llm);
}

static void test_bits(void **state) {
  (void)state;
  if (!g_n_names) skip();
  for (int i = 0; i < g_n_names; i++) {
    int32_t tokens[N_TOKENS];
    cairn_llm *llm = lm_open(g_context, g_names[i], NULL);
    make_tokens(llm, tokens, N_TOKENS);
    cairn_llm_info info;
    cairn_llm_describe(llm, &info);
    int64_t n = info.max_context < N_TOKENS ? info.max_context : N_TOKENS;
    lm_rows want = feed(llm, tokens, n, n);
    cairn_llm_close(llm);
    for (int64_t page = 64; page <= 256; page *= 2) {
      check_storage(g_names[i], &(cairn_llm_options){.kv = "paged", .kv_page = page}, &want, tokens);
      check_storage(g_names[i], &(cairn_llm_options){.kv = "chunked", .kv_page = page, .kv_window = n}, &want, tokens);
    }
    check_storage(g_names[i], &(cairn_llm_options){.kv = "paged", .kv_capacity = 1000}, &want, tokens);
    lm_rows_free(&want);
  }
  print_message("%d bundles, 7 kinds of pages each\n", g_n_names);
}

// --- forks ------------------------------------------------------------------------------------------------------------

static void test_forks(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  enum { PREFIX = 200 };
  int32_t tokens[N_TOKENS], other[N_TOKENS];
  cairn_llm *llm = lm_open(g_context, "tiny-qwen3-macos", &(cairn_llm_options){.kv = "paged"}), *fork, *fork_of_fork;
  make_tokens(llm, tokens, N_TOKENS);
  memcpy(other, tokens, sizeof other);
  for (int i = PREFIX; i < N_TOKENS; i++) other[i] = tokens[N_TOKENS - 1 - (i - PREFIX)];
  lm_rows first = feed(llm, tokens, PREFIX, PREFIX);
  LM_OK(cairn_llm_fork(llm, -1, &fork));
  LM_OK(cairn_llm_fork(fork, 100, &fork_of_fork));
  cairn_llm_info info;
  cairn_llm_describe(fork, &info);
  assert_int_equal(info.kv_bytes_copied, 0);
  int64_t shared, held = held_pages(fork, &shared);
  assert_true(held > 0 && held == shared);
  // All three go on, in turns; nobody sees anything of the others.
  lm_rows a = {0}, b = {0}, c = {0};
  for (int i = PREFIX; i < N_TOKENS; i += 10) {
    lm_feed(llm, tokens + i, 10, 3, &a);
    lm_feed(fork, other + i, 10, 10, &b);
    lm_feed(fork_of_fork, tokens + i - 100, 10, 1, &c);
  }
  // One more page each for the rest of the last common one, and those behind it.
  held_pages(fork, &shared);
  assert_int_equal(shared, 2 * (PREFIX / 64));
  cairn_llm_close(llm);
  cairn_llm *fresh = lm_open(g_context, "tiny-qwen3-macos", &(cairn_llm_options){.kv = "growing"});
  lm_rows want = feed(fresh, tokens, N_TOKENS, N_TOKENS);
  assert_true(same_bits(&first, &want, PREFIX));
  assert_memory_equal(a.data, want.data + PREFIX * want.width, (size_t)(a.n * a.width) * sizeof *a.data);
  assert_memory_equal(c.data, want.data + 100 * want.width, (size_t)(c.n * c.width) * sizeof *c.data);
  lm_rows_free(&want);
  LM_OK(cairn_llm_reset(fresh, 0));
  want = feed(fresh, other, N_TOKENS, N_TOKENS);
  assert_memory_equal(b.data, want.data + PREFIX * want.width, (size_t)(b.n * b.width) * sizeof *b.data);
  // A copying fork says what it copied.
  cairn_llm *copy;
  LM_OK(cairn_llm_fork(fresh, PREFIX, &copy));
  assert_true(copy->states.bytes_copied > 0);
  cairn_llm_close(copy);
  cairn_llm_close(fresh);
  cairn_llm_close(fork);
  cairn_llm_close(fork_of_fork);
  lm_rows_free(&first);
  lm_rows_free(&want);
  lm_rows_free(&a);
  lm_rows_free(&b);
  lm_rows_free(&c);
}

// --- windows ----------------------------------------------------------------------------------------------------------

enum { WINDOW = 80, SINKS = 3 };

static lm_rows feed_window(const char *bundle, const int32_t *tokens, int64_t page, int64_t piece, int64_t *out_most) {
  cairn_llm *llm =
      lm_open(g_context, bundle,
              &(cairn_llm_options){.kv = "chunked", .kv_page = page, .kv_window = WINDOW, .kv_sinks = SINKS, .kv_capacity = WINDOW});
  lm_rows rows = {0};
  *out_most = 0;
  for (int64_t at = 0; at < N_TOKENS; at += piece) {
    int64_t shared, n = at + piece < N_TOKENS ? piece : N_TOKENS - at;
    lm_feed(llm, tokens + at, n, n, &rows);
    int64_t held = held_pages(llm, &shared) / llm->model->contract.n_states;
    if (held > *out_most) *out_most = held;
  }
  assert_int_equal(bytes_gathered(llm), 0);
  // What was dropped cannot be gone back to, the last rows can; the sinks are there.
  if (page == 64 && piece == 1) assert_false(crn_llm_states_can_cut(&llm->states, 150));
  assert_true(crn_llm_states_can_cut(&llm->states, N_TOKENS - 3));
  assert_true(crn_llm_states_can_cut(&llm->states, SINKS));
  if (page == 64 && piece == 1) assert_int_equal(crn_llm_reachable(llm, 150), 0);
  LM_OK(cairn_llm_reset(llm, N_TOKENS - 3));
  lm_rows again = feed(llm, tokens + N_TOKENS - 3, 3, 1);
  assert_memory_equal(again.data, rows.data + (N_TOKENS - 3) * rows.width, (size_t)(3 * rows.width) * sizeof *rows.data);
  // A fresh start after all of this.
  LM_OK(cairn_llm_reset(llm, 0));
  lm_rows_free(&again);
  again = feed(llm, tokens, 120, 17);
  assert_true(same_bits(&again, &rows, 120));
  lm_rows_free(&again);
  cairn_llm_close(llm);
  return rows;
}

static void test_windows(void **state) {
  (void)state;
  static const char *const kBundles[] = {"tiny-qwen3-macos", "tiny-gemma3-macos", "tiny-gpt_oss-macos"};
  for (size_t k = 0; k < sizeof kBundles / sizeof *kBundles; k++) {
    char path[512];
    snprintf(path, sizeof path, LM_MODELS "%s", kBundles[k]);
    if (access(path, R_OK) != 0) continue;
    int32_t tokens[N_TOKENS];
    cairn_llm *full = lm_open(g_context, kBundles[k], &(cairn_llm_options){.kv = "growing"});
    make_tokens(full, tokens, N_TOKENS);
    lm_rows whole = feed(full, tokens, N_TOKENS, N_TOKENS);
    cairn_llm_close(full);
    int64_t most;
    lm_rows want = feed_window(kBundles[k], tokens, 64, 1, &most);
    // Within the window nothing is different; behind it something is.
    assert_true(same_bits(&want, &whole, WINDOW));
    assert_false(same_bits(&want, &whole, N_TOKENS));
    assert_true(most <= 1 + 3);
    // What a row sees depends on its position only, not on pieces and pages.
    static const int64_t kPieces[] = {N_TOKENS, 64, 13};
    for (int i = 0; i < 3; i++) {
      lm_rows rows = feed_window(kBundles[k], tokens, 64 << i, kPieces[i], &most);
      assert_true(same_bits(&rows, &want, N_TOKENS));
      lm_rows_free(&rows);
    }
    lm_rows_free(&want);
    lm_rows_free(&whole);
  }
}

// --- int8 -------------------------------------------------------------------------------------------------------------

static void test_int8(void **state) {
  (void)state;
  lm_need(LM_MODELS "smollm2-4bit-macos");
  enum { N = 160 };
  crn_safetensors *file = lm_goldens("smollm2-4bit-macos");
  lm_ids prompt = lm_golden_ids(file, "prompt3"), golden = lm_golden_ids(file, "greedy3"), found;
  int32_t tokens[N];
  lm_rows rows[2];
  for (int i = 0; i < 2; i++) {
    // In exact precision: text and rows are the same on every processor, and what is measured is the storage alone.
    const cairn_model_options model = {.precision = CAIRN_PRECISION_EXACT};
    const cairn_llm_options options = {.kv = "paged", .kv_type = i ? "int8" : NULL, .model = &model};
    cairn_llm *llm = lm_open(g_context, "smollm2-4bit-macos", &options);
    if (!i) {
      // Real text: the prompt, and what the model makes of it.
      lm_rows unused;
      lm_greedy(llm, &prompt, N - prompt.n, &found, &unused);
      lm_rows_free(&unused);
      memcpy(tokens, prompt.data, (size_t)prompt.n * sizeof *tokens);
      memcpy(tokens + prompt.n, found.data, (size_t)found.n * sizeof *tokens);
      LM_OK(cairn_llm_reset(llm, 0));
    }
    rows[i] = feed(llm, tokens, N, i ? 64 : N);
    cairn_llm_info info;
    cairn_llm_describe(llm, &info);
    print_message("%s: %zu bytes\n", i ? "int8" : "f16", info.kv_bytes);
    cairn_llm_close(llm);
  }
  double least = 1, sum = 0;
  int64_t equal = 0;
  for (int64_t r = 0; r < N; r++) {
    const float *a = rows[0].data + r * rows[0].width, *b = rows[1].data + r * rows[1].width;
    double cosine = lm_cosine(a, b, rows[0].width);
    least = cosine < least ? cosine : least;
    sum += cosine;
    equal += lm_argmax(a, rows[0].width) == lm_argmax(b, rows[0].width);
  }
  print_message("int8 beside f16: cosine of the logits %.6f on average, %.6f at least; %lld of %d best tokens are the same\n", sum / N,
                least, (long long)equal, N);
  assert_true(sum / N > 0.9995 && least > 0.995 && equal >= N * 95 / 100);
  free(prompt.data);
  free(golden.data);
  free(found.data);
  lm_rows_free(&rows[0]);
  lm_rows_free(&rows[1]);
  crn_safetensors_close(file);
}

// --- refusals ---------------------------------------------------------------------------------------------------------

static void expect_refusal(const char *path, const cairn_llm_options *options, cairn_status status, const char *part) {
  cairn_llm *llm;
  lm_expect(cairn_llm_open(g_context, path, options, &llm), status, part);
}

static void test_refusals(void **state) {
  (void)state;
  expect_refusal(FORMS "lm_host_cache/model.aimodel", &(cairn_llm_options){.kv = "paged"}, CAIRN_UNSUPPORTED, "plain inputs");
  expect_refusal(FORMS "lm_dynamic/model.aimodel", &(cairn_llm_options){.kv = "chunked"}, CAIRN_UNSUPPORTED, "is read whole by");
  expect_refusal(FORMS "lm_hybrid/model.aimodel", &(cairn_llm_options){.kv = "chunked"}, CAIRN_UNSUPPORTED, "is no cache of rows");
  expect_refusal(FORMS "lm_dynamic/model.aimodel", &(cairn_llm_options){.kv = "growing", .kv_type = "int8"}, CAIRN_UNSUPPORTED,
                 "needs pages");
  expect_refusal(FORMS "lm_dynamic/model.aimodel", &(cairn_llm_options){.kv = "paged", .kv_page = 32}, CAIRN_INVALID_ARGUMENT,
                 "64, 128 or 256");
  expect_refusal(FORMS "lm_dynamic/model.aimodel", &(cairn_llm_options){.kv = "paged", .kv_type = "int4"}, CAIRN_INVALID_ARGUMENT,
                 "valid: auto, int8");
  expect_refusal(FORMS "lm_dynamic/model.aimodel", &(cairn_llm_options){.kv = "chunked", .kv_window = 10, .kv_sinks = 10},
                 CAIRN_INVALID_ARGUMENT, "10 sinks leave nothing");
  // Where something copies the caches out of their pages it is said.
  cairn_llm *llm;
  cairn_llm_info info;
  LM_OK(cairn_llm_open(g_context, FORMS "lm_dynamic/model.aimodel", &(cairn_llm_options){.kv = "paged"}, &llm));
  cairn_llm_describe(llm, &info);
  bool is_said = false;
  for (int i = 0; i < info.n_decisions; i++) is_said |= strcmp(info.decisions[i].what, "kv_pages") == 0;
  assert_true(is_said);
  assert_string_equal(info.kv_strategy, "paged");
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits), cmocka_unit_test(test_forks),    cmocka_unit_test(test_windows),
      cmocka_unit_test(test_int8), cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
