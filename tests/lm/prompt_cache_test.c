/// Rows that outlive their sequence: the prompt cache on disk, and prefixes in memory. Outputs are compared with cold runs.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cairn/session.h"
#include "engines/llm/internal.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"
#define GROWING LM_MODELS "tiny-qwen3-macos"

static cairn_context *g_context;
static char g_folder[64];

typedef struct result {
  int32_t tokens[64];
  int64_t n, hit, from_memory, from_disk;
} result;

static result generate(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t max_tokens) {
  result r = {.n = 0};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options options = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = max_tokens, .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  cairn_generation_get(g, &info);
  r.n = (int64_t)info.n_tokens;
  memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  r.hit = info.prefix_hit;
  r.from_memory = info.prefix_from_memory;
  r.from_disk = info.prefix_from_disk;
  cairn_generation_destroy(g);
  return r;
}

static void same_tokens(const char *what, const result *a, const result *b) {
  if (a->n != b->n || memcmp(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens) != 0) fail_msg("%s: other tokens", what);
}

static result cold(const char *path, const int32_t *tokens, int64_t n, int64_t max_tokens) {
  cairn_llm *llm = lm_open_path(g_context, path, NULL);
  result r = generate(llm, tokens, n, max_tokens);
  assert_int_equal(r.hit, 0);
  cairn_llm_close(llm);
  return r;
}

// --- the folder -------------------------------------------------------------------------------------------------------

static int remove_folder(void **state) {
  (void)state;
  return lm_remove_folder(g_folder);
}

static int make_folder(void **state) {
  (void)state;
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-cache-XXXXXX");
  return mkdtemp(g_folder) ? 0 : 1;
}

typedef struct listing {
  int n;
  int64_t bytes;
  char names[512][320];
} listing;

static listing list_folder(void) {
  static listing l;
  l.n = 0;
  l.bytes = 0;
  DIR *dir = opendir(g_folder);
  assert_non_null(dir);
  struct dirent *entry;
  while ((entry = readdir(dir)) && l.n < 512) {
    struct stat st;
    if (entry->d_name[0] == '.') continue;
    snprintf(l.names[l.n], sizeof l.names[0], "%s/%s", g_folder, entry->d_name);
    if (stat(l.names[l.n], &st) != 0) continue;
    l.bytes += st.st_size;
    l.n++;
  }
  closedir(dir);
  return l;
}

// --- on disk ----------------------------------------------------------------------------------------------------------

static void test_disk(void **state) {
  (void)state;
  lm_need(GROWING);
  static int32_t tokens[300];
  lm_fill(tokens, 300, 1, 40);
  const cairn_llm_options o = {.prompt_cache = g_folder};
  cairn_llm *llm = lm_open_path(g_context, GROWING, &o);
  result first = generate(llm, tokens, 200, 8);
  assert_int_equal(first.hit, 0);
  assert_int_equal(list_folder().n, 3);  // 207 tokens were fed
  cairn_llm_close(llm);
  // Another engine, as another process would open it.
  llm = lm_open_path(g_context, GROWING, &o);
  result again = generate(llm, tokens, 200, 8);
  assert_int_equal(again.hit, 192);
  assert_int_equal(again.from_disk, 192);
  same_tokens("again", &again, &first);
  // A prompt that parts in the third block.
  lm_fill(tokens + 150, 150, 2, 40);
  LM_OK(cairn_llm_reset(llm, 0));
  result parted = generate(llm, tokens, 300, 8), expected = cold(GROWING, tokens, 300, 8);
  assert_int_equal(parted.from_disk, 128);
  same_tokens("parted", &parted, &expected);
  // What the sequence holds itself comes first.
  lm_fill(tokens + 290, 10, 3, 40);
  parted = generate(llm, tokens, 300, 8);
  assert_int_equal(parted.hit, 290);
  assert_int_equal(parted.from_disk, 0);
  cairn_llm_close(llm);
}

// Every storage and engine reads what the others wrote.
static void test_disk_storages(void **state) {
  (void)state;
  lm_need(GROWING);
  static int32_t tokens[200];
  lm_fill(tokens, 200, 4, 40);
  static const cairn_llm_options kOptions[] = {
      {.kv = "growing", .kv_capacity = 16}, {.kv = "paged", .kv_page = 128}, {.kv = "fixed"}, {.engine = "pipelined"}};
  result expected = cold(GROWING, tokens, 200, 8);
  for (int i = 0; i < 4; i++) {
    cairn_llm_options o = kOptions[i];
    o.prompt_cache = g_folder;
    cairn_llm *llm = lm_open_path(g_context, GROWING, &o);
    result r = generate(llm, tokens, 200, 8);
    assert_int_equal(r.from_disk, i ? 192 : 0);
    same_tokens("storage", &r, &expected);
    cairn_llm_close(llm);
  }
}

// Random cut points: whatever is found gives what a cold run gives.
static void check_cuts(const char *path, int64_t most, int n_rounds) {
  static int32_t tokens[400], other[400];
  lm_fill(tokens, most, 5, 40);
  const cairn_llm_options o = {.prompt_cache = g_folder};
  int n_found = 0;
  for (int i = 0; i < n_rounds; i++) {
    const int64_t cut = i * 97 % most, n = cut + 1 + i * 31 % (most - cut);
    memcpy(other, tokens, sizeof other);
    lm_fill(other + cut, n - cut, 100 + (uint32_t)i % 3, 40);
    cairn_llm *llm = lm_open_path(g_context, path, &o);
    result warm = generate(llm, other, n, 6), expected = cold(path, other, n, 6);
    same_tokens(path, &warm, &expected);
    assert_int_equal(warm.hit, warm.from_disk);
    n_found += warm.hit > 0;
    cairn_llm_close(llm);
  }
  print_message("%s: %d of %d prompts found blocks\n", path, n_found, n_rounds);
  assert_true(n_found >= n_rounds / 4);
}

static void test_disk_cuts(void **state) {
  (void)state;
  lm_need(GROWING);
  check_cuts(GROWING, 400, 24);
  check_cuts(LM_MODELS "tiny-mistral-macos", 240, 12);
  check_cuts(LM_MODELS "tiny-qwen3_untied-ios", 240, 12);
}

// States without rows: blocks are found up to one at whose end these were kept.
static void test_disk_hybrid(void **state) {
  (void)state;
  static int32_t tokens[79];
  lm_fill(tokens, 79, 6, 40);
  const cairn_llm_options o = {.prompt_cache = g_folder};
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_hybrid", &o);
  result first = generate(llm, tokens, 70, 4);
  assert_int_equal(list_folder().n, 2);
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, FORMS "lm_hybrid", &o);
  result again = generate(llm, tokens, 70, 4);
  assert_int_equal(again.from_disk, 64);
  same_tokens("hybrid", &again, &first);
  cairn_llm_close(llm);
  // Without the copy the rows alone are no good.
  listing l = list_folder();
  for (int i = 0; i < l.n; i++) {
    if (strstr(l.names[i], ".whole")) assert_int_equal(unlink(l.names[i]), 0);
  }
  llm = lm_open_path(g_context, FORMS "lm_hybrid", &o);
  again = generate(llm, tokens, 70, 4);
  assert_int_equal(again.hit, 0);
  same_tokens("hybrid without copy", &again, &first);
  cairn_llm_close(llm);
}

static void test_disk_images(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3_vl-vlm");
  static unsigned char picture[2][20 * 10 * 3];
  static int32_t prompt[120];
  for (size_t i = 0; i < sizeof picture; i++) ((unsigned char *)picture)[i] = (unsigned char)(i * 37 + i / 600 * 11);
  lm_fill(prompt, 120, 7, 40);
  const cairn_llm_options o = {.prompt_cache = g_folder};
  int32_t tokens[2][6];
  for (int k = 0; k < 4; k++) {
    cairn_llm *llm = lm_open_path(g_context, LM_MODELS "tiny-qwen3_vl-vlm", &o);
    cairn_llm_images info;
    cairn_llm_describe_images(llm, &info);
    for (int i = 0; i < 120; i++) prompt[i] = prompt[i] == info.image_token ? 41 : prompt[i];
    prompt[3] = info.image_token;
    const cairn_image image = {.rgb = picture[k % 2], .width = 20, .height = 10};
    const cairn_generate_options g = {
        .tokens = prompt, .n_tokens = 120, .images = &image, .n_images = 1, .max_tokens = 6, .ignore_eos = true};
    cairn_generation *generation;
    cairn_generation_info r;
    LM_OK(cairn_llm_generate(llm, &g, &generation));
    cairn_generation_get(generation, &r);
    // The same tokens with another picture are another prompt.
    assert_int_equal(r.prefix_from_disk, k < 2 ? 0 : 64);
    if (k < 2) memcpy(tokens[k], r.tokens, sizeof tokens[k]);
    assert_memory_equal(tokens[k % 2], r.tokens, sizeof tokens[0]);
    cairn_generation_destroy(generation);
    cairn_llm_close(llm);
  }
}

// Files that were damaged in any way are no blocks, and are replaced.
static void test_damaged_blocks(void **state) {
  (void)state;
  lm_need(GROWING);
  static int32_t tokens[200];
  lm_fill(tokens, 200, 8, 40);
  const cairn_llm_options o = {.prompt_cache = g_folder};
  result expected = cold(GROWING, tokens, 200, 6);
  for (int way = 0; way < 5; way++) {
    cairn_llm *llm = lm_open_path(g_context, GROWING, &o);
    generate(llm, tokens, 200, 6);
    cairn_llm_close(llm);
    listing l = list_folder();
    assert_int_equal(l.n, 3);
    for (int i = 0; i < l.n; i++) {
      if (way == 0) assert_int_equal(truncate(l.names[i], 100 + i), 0);
      if (way == 1) assert_int_equal(truncate(l.names[i], 0), 0);
      if (way == 2) {
        int f = open(l.names[i], O_WRONLY);
        assert_int_equal(pwrite(f, "x", 1, 777), 1);
        close(f);
      }
      if (way == 3 && i) assert_int_equal(rename(l.names[i], l.names[0]), 0);  // content of another block
      if (way == 4 && i == 1) assert_int_equal(unlink(l.names[i]), 0);
    }
    llm = lm_open_path(g_context, GROWING, &o);
    result r = generate(llm, tokens, 200, 6);
    same_tokens("damaged", &r, &expected);
    assert_true(way < 3 ? r.hit == 0 : r.hit <= 128);
    cairn_llm_close(llm);
  }
}

static void test_keys(void **state) {
  (void)state;
  lm_need(GROWING);
  static int32_t tokens[100];
  lm_fill(tokens, 100, 9, 40);
  cairn_llm_options o = {.prompt_cache = g_folder};
  cairn_llm *llm = lm_open_path(g_context, GROWING, &o);
  generate(llm, tokens, 100, 2);
  cairn_llm_close(llm);
  // Another model, and another precision, have blocks of their own.
  llm = lm_open_path(g_context, LM_MODELS "tiny-qwen2-macos", &o);
  assert_int_equal(generate(llm, tokens, 100, 2).hit, 0);
  cairn_llm_close(llm);
  const cairn_model_options bf16 = {.precision = CAIRN_PRECISION_BF16};
  o.model = &bf16;
  llm = lm_open_path(g_context, GROWING, &o);
  assert_int_equal(generate(llm, tokens, 100, 2).hit, 0);
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, GROWING, &o);
  assert_int_equal(generate(llm, tokens, 100, 2).hit, 64);
  cairn_llm_close(llm);
  o.prompt_cache = "/proc/nowhere";
  lm_expect(cairn_llm_open(g_context, GROWING, &o, &llm), CAIRN_NOT_FOUND, "the prompt cache");
}

static void test_disk_bound(void **state) {
  (void)state;
  lm_need(GROWING);
  static int32_t tokens[200], often[200];
  lm_fill(often, 200, 10, 40);
  cairn_llm_options o = {.prompt_cache = g_folder};
  cairn_llm *llm = lm_open_path(g_context, GROWING, &o);
  generate(llm, often, 200, 2);
  const int64_t each = list_folder().bytes / 3;
  cairn_llm_close(llm);
  o.prompt_cache_bytes = (uint64_t)(10 * each);
  llm = lm_open_path(g_context, GROWING, &o);
  for (uint32_t i = 0; i < 8; i++) {
    lm_fill(tokens, 200, 20 + i, 40);
    generate(llm, tokens, 200, 2);
    LM_OK(cairn_llm_reset(llm, 0));
    result r = generate(llm, often, 200, 2);
    assert_int_equal(r.from_disk, 192);  // what is used stays
    LM_OK(cairn_llm_reset(llm, 0));
    assert_true(list_folder().bytes <= 10 * each);
  }
  cairn_llm_close(llm);
}

// Processes that fill one folder are killed at any time; what is left gives the right tokens.
static void test_killed(void **state) {
  (void)state;
  lm_need(GROWING);
  static int32_t tokens[300];
  const cairn_llm_options o = {.prompt_cache = g_folder, .prompt_cache_bytes = 4 << 20};
  cairn_llm *llm = lm_open_path(g_context, GROWING, &o), *check = lm_open_path(g_context, GROWING, &o);
  result expected[3];
  for (uint32_t k = 0; k < 3; k++) {
    lm_fill(tokens, 300, 30 + k, 40);
    expected[k] = cold(GROWING, tokens, 300, 4);
  }
  int64_t n_found = 0;
  for (int i = 0; i < 24; i++) {
    pid_t children[2];
    for (int c = 0; c < 2; c++) {
      children[c] = fork();
      assert_true(children[c] >= 0);
      if (children[c] == 0) {
        for (uint32_t k = 0;; k = (k + 1) % 3) {
          lm_fill(tokens, 300, 30 + k, 40);
          LM_OK(cairn_llm_reset(llm, 0));
          generate(llm, tokens, 300, 4);
          listing l = list_folder();
          for (int f = 0; f < l.n; f += 2) unlink(l.names[f]);
        }
      }
    }
    usleep((useconds_t)(20000 + i * 3331 % 50000));
    for (int c = 0; c < 2; c++) {
      int how;
      kill(children[c], SIGKILL);
      assert_int_equal(waitpid(children[c], &how, 0), children[c]);
      assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    }
    for (uint32_t k = 0; k < 3; k++) {
      lm_fill(tokens, 300, 30 + k, 40);
      LM_OK(cairn_llm_reset(check, 0));
      result r = generate(check, tokens, 300, 4);
      same_tokens("after a kill", &r, &expected[k]);
      n_found += r.from_disk;
    }
  }
  print_message("%lld tokens were found after kills\n", (long long)n_found);
  assert_true(n_found > 0);
  cairn_llm_close(check);
  cairn_llm_close(llm);
}

// --- in memory --------------------------------------------------------------------------------------------------------

static void check_memory(const char *path, const char *kv, bool copies) {
  static int32_t tokens[60];
  lm_fill(tokens, 60, 11, 40);
  cairn_llm *llm = lm_open_path(g_context, path, &(cairn_llm_options){.kv = kv, .prefix_bytes = 64 << 20, .snapshot_interval = 16}), *other,
            *third;
  generate(llm, tokens, 40, 4);
  LM_OK(cairn_llm_create_sequence(llm, &other));
  // Nothing was registered or finished yet.
  assert_int_equal(generate(other, tokens, 20, 2).hit, 0);
  LM_OK(cairn_llm_reset(other, 0));
  LM_OK(cairn_llm_register_prefix(llm, -1));
  result warm = generate(other, tokens, 60, 8), expected = cold(path, tokens, 60, 8);
  assert_true(warm.from_memory >= 32);
  same_tokens(path, &warm, &expected);
  cairn_llm_info info;
  cairn_llm_describe(other, &info);
  assert_true(copies ? info.kv_bytes_copied > 0 : info.kv_bytes_copied == 0);
  // A finished sequence stays, too; the original is not disturbed.
  cairn_llm_close(other);
  LM_OK(cairn_llm_create_sequence(llm, &third));
  result last = generate(third, tokens, 60, 8);
  assert_true(last.from_memory >= 48);
  same_tokens(path, &last, &expected);
  result own = generate(llm, tokens, 60, 8);
  same_tokens(path, &own, &expected);
  cairn_llm_close(llm);
  cairn_llm_close(third);
}

static void test_memory(void **state) {
  (void)state;
  check_memory(FORMS "lm_dynamic", "growing", true);
  check_memory(FORMS "lm_dynamic", "paged", false);
  check_memory(FORMS "lm_hybrid", NULL, true);
  check_memory(FORMS "lm_host_cache/model.aimodel", NULL, true);
  lm_need(GROWING);
  check_memory(GROWING, "paged", false);
  check_memory(LM_MODELS "tiny-mistral-macos", NULL, true);
  check_memory(LM_MODELS "tiny-qwen3_untied-ios", NULL, true);
}

static void test_memory_bound(void **state) {
  (void)state;
  static int32_t tokens[40];
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", NULL), *other;
  cairn_llm_info info;
  lm_expect(cairn_llm_register_prefix(llm, -1), CAIRN_FAILED_PRECONDITION, "prefix_bytes");
  lm_fill(tokens, 40, 12, 40);
  generate(llm, tokens, 40, 2);
  cairn_llm_describe(llm, &info);
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, FORMS "lm_dynamic", &(cairn_llm_options){.prefix_bytes = 3 * info.kv_bytes});
  for (uint32_t i = 0; i < 6; i++) {
    LM_OK(cairn_llm_create_sequence(llm, &other));
    lm_fill(tokens, 40, 20 + i, 40);
    generate(other, tokens, 40, 2);
    cairn_llm_close(other);
    assert_true(crn_llm_shelf_bytes(&llm->model->shelf) <= 3 * info.kv_bytes);
  }
  LM_OK(cairn_llm_create_sequence(llm, &other));
  assert_int_equal(generate(other, tokens, 40, 2).hit, 39);
  lm_fill(tokens, 40, 20, 40);
  result gone = generate(other, tokens, 40, 2);
  assert_int_equal(gone.from_memory, 0);
  lm_expect(cairn_llm_register_prefix(other, 99), CAIRN_OUT_OF_RANGE, "a prefix of 99 tokens");
  cairn_llm_close(other);
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
      TEST(test_disk),        TEST(test_disk_storages),  TEST(test_disk_cuts),   TEST(test_disk_hybrid),
      TEST(test_disk_images), TEST(test_damaged_blocks), TEST(test_keys),        TEST(test_disk_bound),
      TEST(test_killed),      TEST(test_memory),         TEST(test_memory_bound)};
  g_context = lm_context(1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cairn_context_release(g_context);
  return failed;
}
