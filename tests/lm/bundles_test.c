/// Opening models: refusals that name what is wrong, what the metadata changes, and generation that ends by eos, stop texts
/// and stop ids. Bundles are made from the tiny ones.
#include <dirent.h>

#include "base/json.h"
#include "engines/llm/test_folder.h"
#include "lm.h"

#define MODEL "tiny-mistral-macos"

static cairn_context *g_context;
static test_folder g_folder;
static const int32_t kPrompt[] = {212, 120, 30, 86, 276, 70, 208, 330, 201};
enum { N_PROMPT = sizeof kPrompt / sizeof *kPrompt };

static int set_up(void **state) {
  (void)state;
  g_context = lm_context(1);
  test_folder_create(&g_folder);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  test_folder_remove(&g_folder);
  cairn_context_release(g_context);
  return 0;
}

// --- making bundles -------------------------------------------------------------------------------------------------

static void copy_file(const char *from, const char *to) {
  crn_str data;
  crn_str_initialize(&data, NULL);
  LM_OK(crn_file_read(from, 1 << 28, &data));
  LM_OK(crn_file_replace(to, data.data, data.size));
  crn_str_deinitialize(&data);
}

static void copy_folder(const char *from, const char *to) {
  char source[512], target[512];
  LM_OK(crn_make_directories(to));
  DIR *folder = opendir(from);
  assert_non_null(folder);
  for (struct dirent *e; (e = readdir(folder));) {
    if (e->d_name[0] == '.' || strstr(e->d_name, "golden")) continue;
    snprintf(source, sizeof source, "%s/%s", from, e->d_name);
    snprintf(target, sizeof target, "%s/%s", to, e->d_name);
    if (crn_is_directory(source)) {
      copy_folder(source, target);
    } else {
      copy_file(source, target);
    }
  }
  closedir(folder);
}

#define LANGUAGE "\"tokenizer\":\"tiny\",\"vocab_size\":384,\"max_context_length\":256"

static void write_metadata(const char *kind, const char *language, const char *more) {
  char json[1024];
  snprintf(json, sizeof json,
           "{\"metadata_version\":\"0.2\",\"kind\":\"%s\",\"name\":\"copy\",\"assets\":{\"main\":\"" MODEL
           ".aimodel\"},\"language\":{%s}%s}",
           kind, language, more);
  test_put(&g_folder, "b/metadata.json", json);
}

// A copy of the tiny model as the bundle "b".
static const char *copy_model(void) {
  static char path[256];
  lm_need(LM_MODELS MODEL);
  snprintf(path, sizeof path, "%s", test_path(&g_folder, "b"));
  copy_folder(LM_MODELS MODEL, path);
  return path;
}

static void refuse(const char *path, const cairn_llm_options *options, cairn_status code, const char *part) {
  cairn_llm *llm;
  lm_expect(cairn_llm_open(g_context, path, options, &llm), code, part);
  assert_null(llm);
}

// --- refusals -------------------------------------------------------------------------------------------------------

static void test_options(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  const char *path = LM_MODELS MODEL;
  refuse(path, &(cairn_llm_options){.engine = "fast"}, CAIRN_INVALID_ARGUMENT, "unknown engine 'fast'; valid: auto, sequential");
  refuse(path, &(cairn_llm_options){.engine = "pipelined", .pipeline_depth = 9}, CAIRN_INVALID_ARGUMENT, "pipeline_depth is 9; 1 to 8");
  refuse(path, &(cairn_llm_options){.engine = "static-shape"}, CAIRN_INCOMPATIBLE, "engine 'static-shape' needs a model with fixed shapes");
  refuse(path, &(cairn_llm_options){.kv = "paged", .kv_page = 48}, CAIRN_INVALID_ARGUMENT, "64, 128 or 256 expected");
  refuse(path, &(cairn_llm_options){.kv = "x"}, CAIRN_INVALID_ARGUMENT, "unknown KV strategy 'x'");
  refuse(path, &(cairn_llm_options){.kv = "growing"}, CAIRN_UNSUPPORTED, "fixed at 256 rows");
  refuse(path, &(cairn_llm_options){.kv_capacity = -1}, CAIRN_INVALID_ARGUMENT, "kv_capacity is -1");
  refuse(path, &(cairn_llm_options){.prefill_chunk = -1}, CAIRN_INVALID_ARGUMENT, "prefill_chunk is -1");
  refuse(path, &(cairn_llm_options){.max_context = 257}, CAIRN_INVALID_ARGUMENT, "max_context 257 is more than the 256 tokens");
  static const char *const kNames[] = {NULL, "auto", "default", "sequential", "coreai-sequential", "pipelined", "coreai-pipelined"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++)
    cairn_llm_close(lm_open(g_context, MODEL, &(cairn_llm_options){.engine = kNames[i]}));
}

static void test_paths(void **state) {
  (void)state;
  refuse("", NULL, CAIRN_INVALID_ARGUMENT, "path of a model is empty");
  refuse(test_path(&g_folder, "nothing"), NULL, CAIRN_NOT_FOUND, "model not found at");
  test_put(&g_folder, "x.aimodelc/main.hash", "");
  refuse(test_path(&g_folder, "x.aimodelc"), NULL, CAIRN_UNSUPPORTED, "was compiled ahead of time");
  test_put(&g_folder, "file.txt", "hello");
  refuse(test_path(&g_folder, "file.txt"), NULL, CAIRN_UNSUPPORTED, "is no model this build knows");
  test_put(&g_folder, "folder/readme", "hello");
  refuse(test_path(&g_folder, "folder"), NULL, CAIRN_NOT_FOUND, "metadata.json not found");
}

static void test_other_kinds(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  refuse(LM_MODELS "tiny-qwen3_untied-ios", &(cairn_llm_options){.engine = "sequential"}, CAIRN_INCOMPATIBLE,
         "engine 'sequential' needs a dynamic model");
  refuse(LM_MODELS "tiny-qwen3_vl-vlm/tiny-qwen3_vl-vlm.aimodel", NULL, CAIRN_UNSUPPORTED, "vision-language engine");
  refuse(LM_MODELS "tiny-roberta-dynamic-f16/tiny-roberta-dynamic-f16.aimodel", NULL, CAIRN_UNSUPPORTED, "expected ");
}

static void test_metadata(void **state) {
  (void)state;
  const char *path = copy_model();
  write_metadata("segmenter", LANGUAGE, "");
  refuse(path, NULL, CAIRN_INCOMPATIBLE, "expected a bundle of kind llm or vlm, got segmenter");
  write_metadata("vlm", LANGUAGE, "");
  refuse(path, NULL, CAIRN_CORRUPT, "missing the required field 'vision'");
  write_metadata("llm", "\"tokenizer\":\"tiny\",\"vocab_size\":400,\"max_context_length\":256", "");
  refuse(path, NULL, CAIRN_INCOMPATIBLE, "vocab_size is 400 in the metadata, but the logits have 384 values");
  cairn_llm_close(lm_open(g_context, path, &(cairn_llm_options){.allow_vocab_mismatch = true}));
  write_metadata("llm", "\"tokenizer\":\"tiny\",\"vocab_size\":null,\"max_context_length\":256", "");
  refuse(path, NULL, CAIRN_CORRUPT, "'language.vocab_size' must be an integer, found null");
  write_metadata("llm", LANGUAGE ",\"function_map\":{\"main\":[\"decode\"]}", "");
  refuse(path, NULL, CAIRN_NOT_FOUND, "decode");
  write_metadata("llm", LANGUAGE ",\"function_map\":{\"main\":[]}", "");
  cairn_llm_close(lm_open(g_context, path, NULL));
  // A context above the rows of the cache ends where the cache does.
  write_metadata("llm", "\"tokenizer\":\"tiny\",\"vocab_size\":384,\"max_context_length\":1000", "");
  cairn_llm *llm = lm_open(g_context, path, NULL);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_int_equal(info.max_context, 256);
  cairn_llm_close(llm);
  test_put(&g_folder, "b/metadata.json", "{\"metadata_version\":\"0.2\",\"kind\":\"llm\",\"name\":\"n\",\"language\":{" LANGUAGE "}}");
  refuse(path, NULL, CAIRN_CORRUPT, "missing the required field 'assets.main'");
}

static void test_compiled_assets(void **state) {
  (void)state;
  const char *path = copy_model();
  char from[512], to[520];
  snprintf(from, sizeof from, "%s", test_path(&g_folder, "b/" MODEL ".aimodel"));
  snprintf(to, sizeof to, "%sc", from);
  assert_int_equal(rename(from, to), 0);
  refuse(path, NULL, CAIRN_UNSUPPORTED, ".aimodelc' was compiled ahead of time");
  test_folder gone = g_folder;
  snprintf(to, sizeof to, "%s", test_path(&gone, "b/" MODEL ".aimodelc"));
  assert_int_equal(rename(to, test_path(&gone, "elsewhere")), 0);
  refuse(path, NULL, CAIRN_NOT_FOUND, "asset 'main' not found at");
}

// --- what the metadata changes --------------------------------------------------------------------------------------

static cairn_generation_info run(cairn_llm *llm, const cairn_generate_options *options, cairn_generation **out) {
  cairn_generation_info info;
  LM_OK(cairn_llm_generate(llm, options, out));
  cairn_generation_get(*out, &info);
  return info;
}

// A state the metadata calls `fixed` cannot be cut back: whole sequences are reused, anything else is replayed.
static void test_hybrid(void **state) {
  (void)state;
  const char *path = copy_model();
  write_metadata("llm", LANGUAGE ",\"states\":{\"valueCache\":\"fixed\"}", "");
  cairn_llm *llm = lm_open(g_context, path, NULL);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_true(info.hybrid);
  cairn_generation *cold, *g;
  int32_t tokens[32];
  cairn_generate_options o = {.tokens = kPrompt, .n_tokens = N_PROMPT, .max_tokens = 5, .ignore_eos = true};
  cairn_generation_info first = run(llm, &o, &cold), again = run(llm, &o, &g);
  // One token has to be taken back: a snapshot lies in front of it.
  assert_int_equal(again.prefix_hit, N_PROMPT - 1);
  assert_memory_equal(again.tokens, first.tokens, 5 * sizeof *tokens);
  cairn_generation_destroy(g);
  memcpy(tokens, kPrompt, sizeof kPrompt);
  memcpy(tokens + N_PROMPT, first.tokens, 5 * sizeof *tokens);
  o.tokens = tokens;
  o.n_tokens = N_PROMPT + 5;
  cairn_generation_info next = run(llm, &o, &g);
  assert_int_equal(next.prefix_hit, N_PROMPT + 4);
  cairn_generation_destroy(g);
  int64_t held;
  cairn_llm_history(llm, &held);
  lm_expect(cairn_llm_reset(llm, 2), CAIRN_UNSUPPORTED, "cannot be cut back");
  LM_OK(cairn_llm_reset(llm, held));
  LM_OK(cairn_llm_reset(llm, 0));
  cairn_generation_destroy(cold);
  cairn_llm_close(llm);
}

// --- ends -----------------------------------------------------------------------------------------------------------

static void greedy(const char *path, int32_t *out_tokens, int64_t n) {
  cairn_llm *llm = lm_open(g_context, path, NULL);
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = kPrompt, .n_tokens = N_PROMPT, .max_tokens = n, .ignore_eos = true};
  cairn_generation_info info = run(llm, &o, &g);
  memcpy(out_tokens, info.tokens, (size_t)n * sizeof *out_tokens);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
}

static void test_eos(void **state) {
  (void)state;
  int32_t tokens[8];
  const char *path = copy_model();
  greedy(path, tokens, 8);
  char json[64];
  snprintf(json, sizeof json, "{\"eos_token_id\":[%d]}", tokens[3]);
  test_put(&g_folder, "b/generation_config.json", json);
  int64_t expected = 0;
  while (tokens[expected] != tokens[3]) expected++;
  cairn_llm *llm = lm_open(g_context, path, NULL);
  cairn_generation *g;
  cairn_generate_options o = {.tokens = kPrompt, .n_tokens = N_PROMPT, .max_tokens = 8};
  cairn_generation_info info = run(llm, &o, &g);
  assert_int_equal(info.stop_reason, CAIRN_STOP_EOS);
  assert_int_equal(info.n_tokens, expected + 1);
  assert_int_equal(info.decode_tokens, expected);  // nothing is run behind the end
  assert_string_equal(info.stop_text, cairn_tokenizer_token(cairn_llm_tokenizer(llm), tokens[3]));
  cairn_generation_destroy(g);
  o.ignore_eos = true;
  info = run(llm, &o, &g);
  assert_int_equal(info.stop_reason, CAIRN_STOP_MAX_TOKENS);
  assert_int_equal(info.n_tokens, 8);
  cairn_generation_destroy(g);
  // Stop ids of the caller count even then, and forced tokens are stopped by nothing.
  o.stop_ids = &tokens[1];
  o.n_stop_ids = 1;
  info = run(llm, &o, &g);
  assert_int_equal(info.stop_reason, CAIRN_STOP_SEQUENCE);
  assert_true(info.n_tokens <= 2);
  cairn_generation_destroy(g);
  o.ignore_eos = false;
  o.forced = tokens;
  o.n_forced = 8;
  info = run(llm, &o, &g);
  assert_int_equal(info.stop_reason, CAIRN_STOP_MAX_TOKENS);
  assert_int_equal(info.n_tokens, 8);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
}

typedef struct stream {
  char text[2048];
  size_t bytes;
} stream;

static bool keep_text(void *user, const cairn_token_event *event) {
  stream *s = user;
  assert_true(s->bytes + event->text_bytes < sizeof s->text);
  memcpy(s->text + s->bytes, event->text, event->text_bytes);
  s->bytes += event->text_bytes;
  s->text[s->bytes] = 0;
  return true;
}

// Every piece of the text of a free run, used as a stop text, ends the next run in front of it, and nothing of it was
// ever streamed.
static void test_stop_texts(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  cairn_llm *llm = lm_open(g_context, MODEL, NULL);
  cairn_generation *g;
  static char text[2048];
  cairn_generate_options o = {.tokens = kPrompt, .n_tokens = N_PROMPT, .max_tokens = 40, .ignore_eos = true};
  cairn_generation_info info = run(llm, &o, &g);
  snprintf(text, sizeof text, "%s", info.text);
  cairn_generation_destroy(g);
  size_t total = strlen(text);
  assert_true(total > 20);
  for (size_t at = 0; at + 6 < total; at += 5) {
    for (size_t n = 1; n <= 6; n += 2) {
      char stop[16];
      size_t from = at, bytes = n;
      while (from > 0 && (text[from] & 0xc0) == 0x80) from--;  // whole characters
      while (from + bytes < total && (text[from + bytes] & 0xc0) == 0x80) bytes++;
      snprintf(stop, sizeof stop, "%.*s", (int)bytes, text + from);
      const char *const stops[] = {"never in the text", stop};
      stream s = {.bytes = 0};
      o.stop = stops;
      o.n_stop = 2;
      o.on_token = keep_text;
      o.user = &s;
      info = run(llm, &o, &g);
      size_t expected = (size_t)(strstr(text, stop) - text);
      assert_int_equal(info.stop_reason, CAIRN_STOP_SEQUENCE);
      assert_string_equal(info.stop_text, stop);
      assert_int_equal(info.text_bytes, expected);
      assert_memory_equal(info.text, text, expected);
      assert_string_equal(s.text, info.text);
      cairn_generation_destroy(g);
    }
  }
  cairn_llm_close(llm);
}

// Marks a token of the copied bundle as special.
static void make_special(int32_t id, const char *spelling) {
  json_t *root;
  const char *path = test_path(&g_folder, "b/tokenizer/tokenizer.json");
  LM_OK(crn_json_read(path, &root));
  json_t *token = json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content", spelling, "single_word", 0, "lstrip", 0, "rstrip", 0,
                            "normalized", 0, "special", 1);
  assert_int_equal(json_array_append_new(json_object_get(root, "added_tokens"), token), 0);
  assert_int_equal(json_dump_file(root, path, JSON_COMPACT), 0);
  json_decref(root);
}

// A stop text that is a special token never shows in the text and is known by its id.
static void test_special_stop_text(void **state) {
  (void)state;
  int32_t tokens[4];
  const char *path = copy_model();
  greedy(path, tokens, 4);
  int64_t expected = 0;
  while (tokens[expected] != tokens[2]) expected++;
  cairn_llm *llm = lm_open(g_context, path, NULL);
  char spelling[64];
  snprintf(spelling, sizeof spelling, "%s", cairn_tokenizer_token(cairn_llm_tokenizer(llm), tokens[2]));
  cairn_llm_close(llm);
  make_special(tokens[2], spelling);
  llm = lm_open(g_context, path, NULL);
  const char *const stops[] = {spelling};
  cairn_generation *g;
  cairn_generate_options o = {.tokens = kPrompt, .n_tokens = N_PROMPT, .max_tokens = 4, .ignore_eos = true, .stop = stops, .n_stop = 1};
  cairn_generation_info info = run(llm, &o, &g);
  assert_int_equal(info.stop_reason, CAIRN_STOP_SEQUENCE);
  assert_string_equal(info.stop_text, spelling);
  assert_int_equal(info.n_tokens, expected + 1);
  cairn_generation_destroy(g);
  // Forced, its text is left out, and shown only when asked for.
  o = (cairn_generate_options){.tokens = kPrompt, .n_tokens = N_PROMPT, .forced = &tokens[2], .n_forced = 1};
  info = run(llm, &o, &g);
  assert_string_equal(info.text, "");
  cairn_generation_destroy(g);
  o.keep_special_tokens = true;
  info = run(llm, &o, &g);
  assert_true(info.text_bytes > 0);
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
}

// Forced bytes of one character: nothing is given out before it is whole; a byte that is none of UTF-8 comes at the end.
static void test_characters_over_tokens(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  cairn_llm *llm = lm_open(g_context, "tiny-qwen3-macos", NULL);
  const cairn_tokenizer *t = cairn_llm_tokenizer(llm);
  // The byte-level spelling of F0 9F 8C 8D (a globe) and of FF.
  const char *const kBytes[] = {"\xc3\xb0", "\xc5\x81", "\xc4\xae", "\xc4\xaf", "\xc3\xbf"};
  int32_t ids[5];
  for (int i = 0; i < 5; i++) {
    ids[i] = cairn_tokenizer_id(t, kBytes[i]);
    assert_true(ids[i] >= 0);
  }
  for (int n = 1; n <= 4; n++) {
    stream s = {.bytes = 0};
    cairn_generation *g;
    cairn_generate_options o = {
        .tokens = kPrompt, .n_tokens = N_PROMPT, .forced = ids, .n_forced = (size_t)n, .on_token = keep_text, .user = &s};
    cairn_generation_info info = run(llm, &o, &g);
    if (n == 4) {
      assert_string_equal(s.text, "\xf0\x9f\x8c\x8d");
    } else {
      assert_int_equal(strncmp(s.text, "\xef\xbf\xbd", 3), 0);
    }
    assert_string_equal(info.text, s.text);
    cairn_generation_destroy(g);
  }
  stream s = {.bytes = 0};
  cairn_generation *g;
  cairn_generate_options o = {.tokens = kPrompt, .n_tokens = N_PROMPT, .forced = &ids[4], .n_forced = 1, .on_token = keep_text, .user = &s};
  run(llm, &o, &g);
  assert_string_equal(s.text, "\xef\xbf\xbd");
  cairn_generation_destroy(g);
  cairn_llm_close(llm);
}

// --- prompts --------------------------------------------------------------------------------------------------------

static void test_prompt_forms(void **state) {
  (void)state;
  const char *path = copy_model();
  cairn_llm *llm = lm_open(g_context, path, NULL);
  int32_t raw[64], message[64], conversation[64];
  size_t n_raw, n_message, n_conversation;
  cairn_generate_options o = {.text = "hello", .text_bytes = 5, .form = CAIRN_PROMPT_RAW};
  LM_OK(cairn_llm_encode_prompt(llm, &o, raw, 64, &n_raw));
  o.form = CAIRN_PROMPT_AUTO;
  LM_OK(cairn_llm_encode_prompt(llm, &o, message, 64, &n_message));
  assert_true(n_message > n_raw);
  static const char kJson[] = "[{\"role\":\"user\",\"content\":\"hello\"}]";
  const cairn_generate_options c = {.conversation = kJson, .conversation_bytes = strlen(kJson)};
  LM_OK(cairn_llm_encode_prompt(llm, &c, conversation, 64, &n_conversation));
  assert_int_equal(n_conversation, n_message);
  assert_memory_equal(conversation, message, n_message * sizeof *message);
  // A buffer that is too small gets the first ids and the full count.
  int32_t first = -1;
  LM_OK(cairn_llm_encode_prompt(llm, &c, &first, 1, &n_conversation));
  assert_int_equal(first, message[0]);
  assert_int_equal(n_conversation, n_message);
  char text[256];
  size_t bytes;
  LM_OK(cairn_llm_render(llm, kJson, strlen(kJson), text, sizeof text, &bytes));
  assert_non_null(strstr(text, "hello"));
  cairn_llm_close(llm);
  // Without a template: raw text still works, a conversation says what is missing.
  assert_int_equal(remove(test_path(&g_folder, "b/tokenizer/chat_template.jinja")), 0);
  llm = lm_open(g_context, path, NULL);
  LM_OK(cairn_llm_encode_prompt(llm, &o, conversation, 64, &n_conversation));
  assert_int_equal(n_conversation, n_raw);
  lm_expect(cairn_llm_encode_prompt(llm, &c, conversation, 64, &n_conversation), CAIRN_FAILED_PRECONDITION, "no chat_template.jinja");
  lm_expect(cairn_llm_has_template(llm), CAIRN_FAILED_PRECONDITION, "no chat_template.jinja");
  o.form = CAIRN_PROMPT_TEMPLATE;
  lm_expect(cairn_llm_encode_prompt(llm, &o, conversation, 64, &n_conversation), CAIRN_FAILED_PRECONDITION, "no chat_template.jinja");
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(test_options),      TEST(test_paths), TEST(test_other_kinds), TEST(test_metadata),          TEST(test_compiled_assets),
      TEST(test_hybrid),       TEST(test_eos),   TEST(test_stop_texts),  TEST(test_special_stop_text), TEST(test_characters_over_tokens),
      TEST(test_prompt_forms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
