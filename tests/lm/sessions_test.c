/// Saved and restored sequences: equal to fresh engines, and refused by name when they are damaged or of something else.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "cairn/batch.h"
#include "cairn/session.h"
#include "engines/llm/internal.h"
#include "engines/llm/session_file.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"

static cairn_context *g_context;
static char g_folder[64], g_file[96];

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
                                      FORMS "lm_hybrid",
                                      FORMS "lm_dynamic"};
enum { N_MODELS = sizeof kModels / sizeof *kModels };

static bool is_there(const char *path) { return access(path, R_OK) == 0; }

typedef struct result {
  int32_t tokens[64];
  int64_t n, hit;
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
  cairn_generation_destroy(g);
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

// --- there and back ---------------------------------------------------------------------------------------------------

static void check_round(const char *path, const cairn_llm_options *saver, const cairn_llm_options *restorer) {
  int32_t tokens[50];
  lm_fill(tokens, 50, 1, 40);
  cairn_llm *llm = lm_open_path(g_context, path, saver);
  generate(llm, tokens, 30, 5);
  LM_OK(cairn_llm_save(llm, g_file));
  result expected = generate(llm, tokens, 50, 8);  // parts from what was held at token 30
  cairn_llm_close(llm);
  llm = lm_open_path(g_context, path, restorer);
  lm_fill(tokens, 10, 2, 40);
  generate(llm, tokens, 10, 3);  // something else is there before
  lm_fill(tokens, 50, 1, 40);
  LM_OK(cairn_llm_restore(llm, g_file));
  assert_int_equal(held(llm), 34);
  result r = generate(llm, tokens, 50, 8);
  assert_true(r.hit >= 20);
  same_tokens(path, &r, &expected);
  cairn_llm_close(llm);
}

static void test_round_trips(void **state) {
  (void)state;
  for (int i = 0; i < N_MODELS; i++) {
    if (is_there(kModels[i])) check_round(kModels[i], NULL, NULL);
  }
}

// Rows are the same whatever storage they lie in.
static void test_storages(void **state) {
  (void)state;
  static const cairn_llm_options kOptions[] = {
      {.kv = "growing", .kv_capacity = 8}, {.kv = "fixed"}, {.kv = "paged", .kv_page = 64}, {.kv = "growing", .engine = "pipelined"}};
  const char *path = FORMS "lm_dynamic";
  for (int a = 0; a < 4; a++) {
    for (int b = 0; b < 4; b++) check_round(path, &kOptions[a], &kOptions[b]);
  }
  lm_need(LM_MODELS "tiny-qwen3-macos");
  for (int a = 0; a < 4; a++) check_round(LM_MODELS "tiny-qwen3-macos", &kOptions[a], &kOptions[(a + 1) % 4]);
}

static unsigned char *read_file(size_t *out_bytes);

// Rows in 8 bits are stored as the 16 bits they stand for, and become the same 8 bits and scales again: a second file is the first.
static void test_eight_bits(void **state) {
  (void)state;
  static const char *const kPaths[] = {LM_MODELS "tiny-qwen3-macos", LM_MODELS "tiny-mistral-macos"};
  const cairn_llm_options options = {.kv = "paged", .kv_page = 64, .kv_type = "int8"};
  lm_need(LM_MODELS "tiny-qwen3-macos");
  for (int i = 0; i < 2; i++) {
    int32_t tokens[100];
    size_t first_bytes, second_bytes;
    lm_fill(tokens, 100, 5, 300);
    cairn_llm *llm = lm_open_path(g_context, kPaths[i], &options);
    generate(llm, tokens, 100, 5);
    LM_OK(cairn_llm_save(llm, g_file));
    unsigned char *first = read_file(&first_bytes);
    cairn_llm_close(llm);
    llm = lm_open_path(g_context, kPaths[i], &options);
    LM_OK(cairn_llm_restore(llm, g_file));
    LM_OK(cairn_llm_save(llm, g_file));
    unsigned char *second = read_file(&second_bytes);
    cairn_llm_close(llm);
    assert_int_equal(first_bytes, second_bytes);
    assert_memory_equal(first, second, first_bytes);
    free(first);
    free(second);
    check_round(kPaths[i], &options, &options);
  }
}

static void test_empty(void **state) {
  (void)state;
  int32_t tokens[10];
  lm_fill(tokens, 10, 3, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", NULL);
  LM_OK(cairn_llm_save(llm, g_file));
  generate(llm, tokens, 10, 3);
  LM_OK(cairn_llm_restore(llm, g_file));
  assert_int_equal(held(llm), 0);
  cairn_llm_close(llm);
}

// A window that has dropped rows stands for no prefix: it is not saved, nor left to the prompt cache.
static void test_window(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  static int32_t tokens[500];
  lm_fill(tokens, 500, 9, 40);
  char cache[128];
  snprintf(cache, sizeof cache, "%s/window", g_folder);
  const cairn_llm_options window = {.kv = "chunked", .kv_window = 64, .kv_page = 64, .prompt_cache = cache, .prefix_bytes = 64 << 20};
  cairn_llm *llm = lm_open_path(g_context, LM_MODELS "tiny-qwen3-macos", &window), *other;
  generate(llm, tokens, 50, 4);
  LM_OK(cairn_llm_save(llm, g_file));
  generate(llm, tokens, 500, 4);
  assert_true(crn_llm_rows_were_dropped(&llm->states));
  lm_expect(cairn_llm_save(llm, g_file), CAIRN_UNSUPPORTED, "has dropped rows");
  LM_OK(cairn_llm_create_sequence(llm, &other));
  result r = generate(other, tokens, 500, 4), again = generate(llm, tokens, 500, 4);
  assert_int_equal(r.hit, 0);
  same_tokens("window", &r, &again);
  LM_OK(cairn_llm_restore(other, g_file));
  assert_int_equal(held(other), 53);
  assert_int_equal(generate(other, tokens, 500, 4).n, 4);
  cairn_llm_close(llm);
  cairn_llm_close(other);
}

static void test_images(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3_vl-vlm");
  static unsigned char picture[2][20 * 10 * 3];
  for (size_t i = 0; i < sizeof picture; i++) ((unsigned char *)picture)[i] = (unsigned char)(i * 37 + i / 600 * 11);
  const cairn_image images[] = {{.rgb = picture[0], .width = 20, .height = 10}, {.rgb = picture[1], .width = 20, .height = 10}};
  cairn_llm *llm = lm_open_path(g_context, LM_MODELS "tiny-qwen3_vl-vlm", NULL),
            *other = lm_open_path(g_context, LM_MODELS "tiny-qwen3_vl-vlm", NULL);
  cairn_llm_images info;
  cairn_llm_describe_images(llm, &info);
  const int32_t prompt[] = {30, 31, info.image_token, 32, info.image_token, 33, 34};
  cairn_generate_options o = {.tokens = prompt, .n_tokens = 7, .images = images, .n_images = 2, .max_tokens = 6, .ignore_eos = true};
  cairn_generation *g, *again;
  cairn_generation_info a, b;
  LM_OK(cairn_llm_generate(llm, &o, &g));
  LM_OK(cairn_llm_save(llm, g_file));
  // The other engine knows one of the pictures, under another number.
  cairn_generate_options first = {.tokens = prompt, .n_tokens = 4, .images = &images[1], .n_images = 1, .max_tokens = 1};
  LM_OK(cairn_llm_generate(other, &first, &again));
  cairn_generation_destroy(again);
  LM_OK(cairn_llm_restore(other, g_file));
  LM_OK(cairn_llm_generate(other, &o, &again));
  cairn_generation_get(g, &a);
  cairn_generation_get(again, &b);
  assert_int_equal(b.prefix_hit, (int64_t)a.n_prompt_tokens - 1);
  assert_memory_equal(a.tokens, b.tokens, 6 * sizeof *a.tokens);
  cairn_generation_destroy(again);
  // Cut back into the middle of a picture: its features came along.
  LM_OK(cairn_llm_reset(other, 4));
  LM_OK(cairn_llm_generate(other, &o, &again));
  cairn_generation_get(again, &b);
  assert_int_equal(b.prefix_hit, 4);
  assert_memory_equal(a.tokens, b.tokens, 6 * sizeof *a.tokens);
  cairn_generation_destroy(again);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
  cairn_llm_close(other);
}

// --- refusals ---------------------------------------------------------------------------------------------------------

static unsigned char *read_file(size_t *out_bytes) {
  FILE *f = fopen(g_file, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *out_bytes = (size_t)ftell(f);
  rewind(f);
  unsigned char *data = malloc(*out_bytes);
  assert_int_equal(fread(data, 1, *out_bytes, f), *out_bytes);
  fclose(f);
  return data;
}

static void write_file(const unsigned char *data, size_t bytes) {
  FILE *f = fopen(g_file, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

// As write_file with the checksum put right, so that what is behind it is reached.
static void write_signed(unsigned char *data, size_t bytes) {
  uint64_t sum;
  LM_OK(crn_session_sum(g_context, data, bytes - sizeof sum, &sum));
  memcpy(data + bytes - sizeof sum, &sum, sizeof sum);
  write_file(data, bytes);
}

static void test_damaged_files(void **state) {
  (void)state;
  int32_t tokens[30];
  lm_fill(tokens, 30, 4, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_hybrid", NULL);
  generate(llm, tokens, 30, 4);
  result expected = generate(llm, tokens, 30, 8);
  lm_expect(cairn_llm_restore(llm, "/nowhere/session"), CAIRN_NOT_FOUND, "/nowhere/session: no such file");
  lm_expect(cairn_llm_restore(llm, "/nowhere/session"), CAIRN_NOT_FOUND, "restoring the session '/nowhere/session'");
  lm_expect(cairn_llm_restore(llm, ""), CAIRN_INVALID_ARGUMENT, "the name of the session to restore is empty");
  lm_expect(cairn_llm_restore(llm, NULL), CAIRN_INVALID_ARGUMENT, "the name of the session to restore is empty");
  lm_expect(cairn_llm_restore(NULL, "session"), CAIRN_INVALID_ARGUMENT, "none was given");
  lm_expect(cairn_llm_save(llm, NULL), CAIRN_INVALID_ARGUMENT, "the name of the session to save is empty");
  lm_expect(cairn_llm_save(llm, ""), CAIRN_INVALID_ARGUMENT, "the name of the session to save is empty");
  lm_expect(cairn_llm_save(NULL, "session"), CAIRN_INVALID_ARGUMENT, "none was given");
  cairn_llm_batch *batch;
  lm_expect(cairn_llm_batch_create(NULL, NULL, &batch), CAIRN_INVALID_ARGUMENT, "a batch needs a model");
  assert_null(batch);
  LM_OK(cairn_llm_save(llm, g_file));
  size_t bytes;
  unsigned char *data = read_file(&bytes);
  const int64_t n = held(llm);
  for (size_t at = 0; at < bytes; at += at < 1000 ? 1 : 97) {
    data[at] ^= 0x10;
    write_file(data, bytes);
    cairn_status status = cairn_llm_restore(llm, g_file);
    if (status != CAIRN_CORRUPT && status != CAIRN_INCOMPATIBLE) fail_msg("byte %zu changed: %s", at, cairn_status_name(status));
    assert_int_equal(held(llm), n);
    data[at] ^= 0x10;
  }
  for (size_t cut = 0; cut < bytes; cut += cut < 200 ? 1 : 211) {
    write_file(data, cut);
    lm_expect(cairn_llm_restore(llm, g_file), CAIRN_CORRUPT, "the session '");
    assert_int_equal(held(llm), n);
  }
  result r = generate(llm, tokens, 30, 8);
  same_tokens("after refusals", &r, &expected);
  free(data);
  cairn_llm_close(llm);
}

// Numbers that lie, under a checksum that is right.
static void test_lying_files(void **state) {
  (void)state;
  int32_t tokens[30];
  lm_fill(tokens, 30, 4, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_hybrid", NULL);
  generate(llm, tokens, 30, 4);
  LM_OK(cairn_llm_save(llm, g_file));
  size_t bytes;
  unsigned char *data = read_file(&bytes), *copy = malloc(bytes);
  int n_refused = 0;
  for (size_t at = 8; at + CRN_SESSION_SUM_BYTES < bytes && at < 1500; at++) {
    static const unsigned char kValues[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t k = 0; k < sizeof kValues; k++) {
      memcpy(copy, data, bytes);
      copy[at] = kValues[k];
      write_signed(copy, bytes);
      cairn_status status = cairn_llm_restore(llm, g_file);
      n_refused += status != CAIRN_OK;
      if (status != CAIRN_OK && status != CAIRN_CORRUPT && status != CAIRN_INCOMPATIBLE && status != CAIRN_CONTEXT_FULL)
        fail_msg("byte %zu = %d: %s", at, kValues[k], cairn_status_name(status));
    }
  }
  assert_true(n_refused > 1000);
  for (int version = 0; version <= 4; version += 4) {
    memcpy(copy, data, bytes);
    copy[8] = (unsigned char)version;
    write_signed(copy, bytes);
    lm_expect(cairn_llm_restore(llm, g_file), CAIRN_INCOMPATIBLE,
              version ? "its version is 4, this build reads 1 to 3" : "its version is 0, this build reads 1 to 3");
  }
  write_file(data, bytes);
  LM_OK(cairn_llm_restore(llm, g_file));
  free(data);
  free(copy);
  cairn_llm_close(llm);
}

// What the caller gives comes back, whatever its size; without it the file is the one that older builds read.
static void test_note(void **state) {
  (void)state;
  int32_t tokens[30];
  unsigned char note[CAIRN_SESSION_NOTE_BYTES + 1], back[CAIRN_SESSION_NOTE_BYTES];
  size_t n = 1, bytes, plain_bytes;
  lm_fill(tokens, 30, 4, 40);
  for (size_t i = 0; i < sizeof note; i++) note[i] = (unsigned char)(i * 7);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_hybrid", NULL);
  generate(llm, tokens, 30, 4);
  LM_OK(cairn_llm_save(llm, g_file));
  result expected = generate(llm, tokens, 30, 8);
  LM_OK(cairn_llm_restore_with_note(llm, g_file, back, &n));
  assert_int_equal(n, 0);
  unsigned char *plain = read_file(&plain_bytes);
  assert_int_equal(plain[8], CRN_SESSION_VERSION_PLAIN);
  static const size_t kSizes[] = {1, 8, 64, 255, CAIRN_SESSION_NOTE_BYTES};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
    LM_OK(cairn_llm_save_with_note(llm, g_file, note, kSizes[i]));
    unsigned char *data = read_file(&bytes);
    assert_int_equal(data[8], CRN_SESSION_VERSION);
    assert_int_equal(bytes, plain_bytes + (kSizes[i] + 7) / 8 * 8);
    LM_OK(cairn_llm_reset(llm, 0));
    memset(back, 0, sizeof back);
    LM_OK(cairn_llm_restore_with_note(llm, g_file, back, &n));
    assert_int_equal(n, kSizes[i]);
    assert_memory_equal(back, note, n);
    // Whoever does not ask for it gets the sequence all the same.
    LM_OK(cairn_llm_restore(llm, g_file));
    // A size that lies.
    static const uint32_t kLies[] = {0, 1u << 8 | 1, 1u << 31, UINT32_MAX};
    for (size_t k = 0; k < sizeof kLies / sizeof *kLies; k++) {
      memcpy(data + 44, &kLies[k], sizeof kLies[k]);
      write_signed(data, bytes);
      lm_expect(cairn_llm_restore_with_note(llm, g_file, back, &n), CAIRN_CORRUPT, g_file);
      assert_int_equal(n, 0);
    }
    free(data);
  }
  result r = generate(llm, tokens, 30, 8);
  same_tokens("with a note", &r, &expected);
  lm_expect(cairn_llm_save_with_note(llm, g_file, note, sizeof note), CAIRN_OUT_OF_RANGE, "the note of a session has 257 bytes");
  lm_expect(cairn_llm_save_with_note(llm, g_file, NULL, 1), CAIRN_INVALID_ARGUMENT, "'note'");
  lm_expect(cairn_llm_restore_with_note(llm, g_file, NULL, &n), CAIRN_INVALID_ARGUMENT, "'out_note'");
  free(plain);
  cairn_llm_close(llm);
}

// A file of version 1 is one of today with another number of the version and a SHA-256 in place of the sum.
static void test_older_version(void **state) {
  (void)state;
  int32_t tokens[30];
  lm_fill(tokens, 30, 4, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_hybrid", NULL);
  generate(llm, tokens, 30, 4);
  LM_OK(cairn_llm_save(llm, g_file));
  result expected = generate(llm, tokens, 30, 8);
  size_t bytes;
  unsigned char *data = read_file(&bytes), *old = malloc(bytes + CRN_SHA256_BYTES);
  const size_t end = bytes - CRN_SESSION_SUM_BYTES;
  const uint64_t old_bytes = end + CRN_SHA256_BYTES;
  memcpy(old, data, end);
  old[8] = 1;
  memcpy(old + 16, &old_bytes, sizeof old_bytes);
  LM_OK(crn_sha256(old, end, old + end));
  write_file(old, old_bytes);
  LM_OK(cairn_llm_reset(llm, 0));
  LM_OK(cairn_llm_restore(llm, g_file));
  assert_true(held(llm) >= 30);
  result r = generate(llm, tokens, 30, 8);
  same_tokens("of version 1", &r, &expected);
  old[end / 2] ^= 1;
  write_file(old, old_bytes);
  lm_expect(cairn_llm_restore(llm, g_file), CAIRN_CORRUPT, "its checksum does not match");
  // Neither may be too short for what it ends in.
  write_file(old, CRN_SESSION_HEADER_BYTES + CRN_SESSION_SUM_BYTES);
  lm_expect(cairn_llm_restore(llm, g_file), CAIRN_CORRUPT, "");
  free(data);
  free(old);
  cairn_llm_close(llm);
}

// Many pieces and parts, by several threads: damage anywhere is found, and the rows are those that were saved.
static void test_many_pieces(void **state) {
  (void)state;
  enum { N = 3 * CRN_SESSION_PIECE + 12345 };
  unsigned char *data = malloc(N);
  uint64_t sum, other;
  for (size_t i = 0; i < N; i++) data[i] = (unsigned char)(i * 2654435761u >> 13);
  for (int threads = 1; threads <= 3; threads += 2) {
    cairn_context *context = lm_context(threads);
    LM_OK(crn_session_sum(context, data, N, &sum));
    uint64_t sums[4];
    for (size_t i = 0; i < 4; i++)
      sums[i] = crn_session_piece_sum(data + i * CRN_SESSION_PIECE, i < 3 ? (size_t)CRN_SESSION_PIECE : 12345, i);
    assert_int_equal(sum, crn_session_sum_of(sums, 4, N));
    for (size_t at = 0; at < N; at += N / 37) {
      data[at] ^= 0x40;
      LM_OK(crn_session_sum(context, data, N, &other));
      assert_int_not_equal(sum, other);
      data[at] ^= 0x40;
    }
    // A piece less, or a byte less, is another file.
    LM_OK(crn_session_sum(context, data, N - 1, &other));
    assert_int_not_equal(sum, other);
    LM_OK(crn_session_sum(context, data, (size_t)3 * CRN_SESSION_PIECE, &other));
    assert_int_not_equal(sum, other);
    cairn_context_release(context);
  }
  free(data);
}

static void test_other_models(void **state) {
  (void)state;
  int32_t tokens[30];
  lm_fill(tokens, 30, 5, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", NULL), *other;
  generate(llm, tokens, 30, 4);
  LM_OK(cairn_llm_save(llm, g_file));
  other = lm_open_path(g_context, FORMS "lm_four_states", NULL);
  lm_expect(cairn_llm_restore(other, g_file), CAIRN_INCOMPATIBLE, "another model or other options: 'model ");
  cairn_llm_close(other);
  other =
      lm_open_path(g_context, FORMS "lm_dynamic", &(cairn_llm_options){.model = &(cairn_model_options){.precision = CAIRN_PRECISION_BF16}});
  lm_expect(cairn_llm_restore(other, g_file), CAIRN_INCOMPATIBLE, "'precision exact' there, 'precision bf16' here");
  cairn_llm_close(other);
  other = lm_open_path(g_context, FORMS "lm_dynamic", &(cairn_llm_options){.max_context = 20});
  lm_expect(cairn_llm_restore(other, g_file), CAIRN_CONTEXT_FULL, "it has 33 tokens, a sequence of this engine can have 20");
  assert_int_equal(held(other), 0);
  cairn_llm_close(other);
  cairn_llm_close(llm);
}

// --- killed while it writes ---------------------------------------------------------------------------------------------

// A process that saves again and again is killed at any time: the file is always one of those it saved, whole.
static void test_killed(void **state) {
  (void)state;
  int32_t tokens[40];
  lm_fill(tokens, 40, 6, 40);
  cairn_llm *llm = lm_open_path(g_context, FORMS "lm_dynamic", NULL), *other = lm_open_path(g_context, FORMS "lm_dynamic", NULL);
  generate(llm, tokens, 20, 2);
  LM_OK(cairn_llm_save(llm, g_file));
  for (int i = 0; i < 30; i++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      for (int64_t n = 1; n <= 20; n = n % 20 + 1) {
        int64_t kept;
        if (cairn_llm_trim(llm, n, &kept) != CAIRN_OK || cairn_llm_save(llm, g_file) != CAIRN_OK) _exit(1);
        if (n == 20) _exit(0);
      }
    }
    usleep((useconds_t)(i * 331 % 9000));
    kill(child, SIGKILL);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    LM_OK(cairn_llm_restore(other, g_file));
    assert_true(held(other) >= 1 && held(other) <= 21);
    int64_t n;
    const int32_t *history = cairn_llm_history(other, &n);
    assert_memory_equal(history, tokens, (size_t)(n < 20 ? n : 20) * sizeof *tokens);
  }
  cairn_llm_close(llm);
  cairn_llm_close(other);
}

static int remove_folder(void **state) {
  (void)state;
  return lm_remove_folder(g_folder);
}

static int make_folder(void **state) {
  (void)state;
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-sessions-XXXXXX");
  if (!mkdtemp(g_folder)) return 1;
  snprintf(g_file, sizeof g_file, "%s/session", g_folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trips),   cmocka_unit_test(test_storages),    cmocka_unit_test(test_eight_bits),
      cmocka_unit_test(test_empty),         cmocka_unit_test(test_window),      cmocka_unit_test(test_images),
      cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_lying_files), cmocka_unit_test(test_older_version),
      cmocka_unit_test(test_note),          cmocka_unit_test(test_many_pieces), cmocka_unit_test(test_other_models),
      cmocka_unit_test(test_killed)};
  g_context = lm_context(1);
  int failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
  cairn_context_release(g_context);
  return failed;
}
