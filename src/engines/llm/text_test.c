#include "engines/llm/text.h"

#include "base/file.h"
#include "engines/llm/stop_ids.h"
#include "engines/llm/test_folder.h"

static cairn_context *g_context;
static test_folder g_folder;
static crn_llm_text g_text;
static char g_log[4096];

static void keep_log(void *user, cairn_log_level level, const char *line) {
  (void)user;
  (void)level;
  snprintf(g_log, sizeof g_log, "%s", line);
}

static int set_up(void **state) {
  (void)state;
  g_log[0] = 0;
  test_folder_create(&g_folder);
  cairn_context_options options = {.n_threads = 1, .log_level = CAIRN_LOG_WARNING, .log = keep_log};
  if (cairn_context_create(&options, &g_context) != CAIRN_OK) return 1;
  crn_llm_text_initialize(&g_text, g_context);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  crn_llm_text_deinitialize(&g_text);
  test_folder_remove(&g_folder);
  cairn_context_release(g_context);
  return 0;
}

#define ADDED(id, text, special)        \
  "{\"id\":" #id ",\"content\":\"" text \
  "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":" special "}"

// Words split at spaces; ids 0 to 9 are special or marker tokens.
// clang-format off
static const char kTokenizer[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
    ADDED(0, "<unk>", "true") "," ADDED(1, "<eos>", "true") "," ADDED(2, "<|im_start|>", "true") "," ADDED(3, "<|im_end|>", "true") ","
    ADDED(4, "<turn|>", "false") "," ADDED(5, "<|eot|>", "true") "," ADDED(6, "<tool>", "true") "," ADDED(7, "<bos>", "true") "],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"post_processor\":null,\"decoder\":null,"
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"<eos>\":1,\"<|im_start|>\":2,\"<|im_end|>\":3,"
    "\"<turn|>\":4,\"<|eot|>\":5,\"<tool>\":6,\"<bos>\":7,\"user\":10,\"model\":11,\"hello\":12,\"world\":13,\"tools\":14}}}";
// clang-format on

enum { VOCAB = 200 };

static void load(void) {
  test_put(&g_folder, "t/tokenizer.json", kTokenizer);
  test_expect(crn_llm_text_load(&g_text, test_path(&g_folder, "t"), NULL, VOCAB), CAIRN_OK, "");
  if (!g_text.tokenizer) fail_msg("%s", g_text.no_tokenizer.data);
}

static void expect_stop_ids(const int32_t *ids, size_t n) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  for (size_t i = 0; i < g_text.stop_ids.size; i++) test_expect(crn_str_printf(&text, " %d", g_text.stop_ids.items[i]), CAIRN_OK, "");
  bool same = g_text.stop_ids.size == n && (!n || memcmp(g_text.stop_ids.items, ids, n * sizeof *ids) == 0);
  if (!same) fail_msg("stop ids are%s", text.data);
  crn_str_deinitialize(&text);
}

#define EXPECT_STOP_IDS(...) expect_stop_ids((const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

// --- stop ids -------------------------------------------------------------------------------------------------------

static void test_special_tokens_that_end_a_turn(void **state) {
  (void)state;
  load();  // <|im_end|> and <|eot|>, but not <|im_start|> or <tool>
  EXPECT_STOP_IDS(3, 5);
}

static void test_config_names(void **state) {
  (void)state;
  test_put(
      &g_folder, "t/tokenizer_config.json",
      "{\"eos_token\":{\"content\":\"<eos>\"},\"eot_token\":\"<turn|>\",\"im_end\":5,\"endoftext\":\"absent\",\"end_of_turn\":\"<eos>\","
      "\"additional_special_tokens\":[\"<|im_start|>\",{\"content\":\"<|im_end|>\"},\"<tool>\"],"
      "\"added_tokens_decoder\":{\"5\":{\"content\":\"<|eot|>\",\"special\":true},\"6\":{\"content\":\"<tool>\",\"special\":true},"
      "\"13\":{\"content\":\"world\",\"special\":false}}}");
  load();
  EXPECT_STOP_IDS(1, 3, 4, 5);
}

static void test_eos_lists(void **state) {
  (void)state;
  test_put(&g_folder, "t/tokenizer_config.json", "{\"eos_token\":[\"<eos>\",\"world\"]}");
  test_put(&g_folder, "t/generation_config.json", "{\"eos_token_id\":[1,106,50,-1,200,4294967297,\"x\"]}");
  load();
  EXPECT_STOP_IDS(1, 3, 5, 13, 50, 106);
}

static void test_special_tokens_map(void **state) {
  (void)state;
  test_put(&g_folder, "t/special_tokens_map.json",
           "{\"bos_token\":\"<bos>\",\"eos_token\":{\"content\":\"<eos>\"},\"additional_special_tokens\":[\"<|im_start|>\",\"<|im_end|>\","
           "\"<tool>\"]}");
  load();
  EXPECT_STOP_IDS(1, 3, 5);
}

// Keys of the top level and of the added tokens, as far as they are texts the tokenizer knows.
static void test_each_key(void **state) {
  (void)state;
  static const char *const keys[] = {"eot_token", "end_of_turn", "im_end", "endoftext"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char config[128];
    snprintf(config, sizeof config, "{\"%s\":\"world\"}", keys[i]);
    test_put(&g_folder, "t/tokenizer_config.json", config);
    load();
    EXPECT_STOP_IDS(3, 5, 13);
    crn_llm_text_deinitialize(&g_text);
    crn_llm_text_initialize(&g_text, g_context);
  }
}

static void test_sentencepiece_names_its_end(void **state) {
  (void)state;
  crn_str model;
  crn_str_initialize(&model, NULL);
  assert_int_equal(crn_file_read(CAIRN_TEST_DATA "/tokenizer/sentencepiece/bpe_bytes.model", 1 << 20, &model), CAIRN_OK);
  test_put(&g_folder, "t/placeholder", "");
  assert_int_equal(crn_file_replace(test_path(&g_folder, "t/tokenizer.model"), model.data, model.size), CAIRN_OK);
  test_expect(crn_llm_text_load(&g_text, test_path(&g_folder, "t"), NULL, VOCAB), CAIRN_OK, "");
  if (!g_text.tokenizer) fail_msg("%s", g_text.no_tokenizer.data);
  EXPECT_STOP_IDS(2);
  crn_str_deinitialize(&model);
}

static void test_generation_config_beside(void **state) {
  (void)state;
  test_put(&g_folder, "generation_config.json", "{\"eos_token_id\":42}");
  test_put(&g_folder, "t/tokenizer.json", kTokenizer);
  test_expect(crn_llm_text_load(&g_text, test_path(&g_folder, "t"), g_folder.path, VOCAB), CAIRN_OK, "");
  EXPECT_STOP_IDS(3, 5, 42);
}

static void test_template_terminator(void **state) {
  (void)state;
  test_put(&g_folder, "t/tokenizer_config.json", "{\"eos_token\":\"<eos>\"}");
  test_put(&g_folder, "t/chat_template.jinja", "{% for m in messages %}<|im_start|> {{ m.role }} {{ m.content }} <turn|> {% endfor %}");
  load();
  EXPECT_STOP_IDS(1, 3, 4, 5);
}

static void test_text_behind_an_answer_is_no_terminator(void **state) {
  (void)state;
  test_put(&g_folder, "t/chat_template.jinja", "{% for m in messages %}{{ m.role }} {{ m.content }} world {% endfor %}");
  load();
  EXPECT_STOP_IDS(3, 5);
}

static void test_broken_configs(void **state) {
  (void)state;
  test_put(&g_folder, "t/generation_config.json", "{");
  test_put(&g_folder, "t/special_tokens_map.json", "[1]");
  load();
  EXPECT_STOP_IDS(3, 5);
  assert_non_null(strstr(g_log, "generation_config.json"));
}

// --- templates ------------------------------------------------------------------------------------------------------

static void expect_render(const char *conversation, const char *expected) {
  crn_str out;
  crn_str_initialize(&out, NULL);
  test_expect(crn_llm_text_render(&g_text, conversation, strlen(conversation), &out), CAIRN_OK, "");
  assert_string_equal(out.data, expected);
  crn_str_deinitialize(&out);
}

static void test_variables(void **state) {
  (void)state;
  test_put(&g_folder, "t/tokenizer_config.json", "{\"eos_token\":\"<eos>\",\"bos_token\":null,\"pad_token\":{\"content\":\"P\"}}");
  test_put(&g_folder, "t/special_tokens_map.json", "{\"bos_token\":\"<bos>\",\"eos_token\":\"other\"}");
  test_put(&g_folder, "t/chat_template.jinja",
           "{{ bos_token }}{{ eos_token }}{{ pad_token }}{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
           "{{ 'G' if add_generation_prompt else 'N' }}{{ tools is none }}{{ x }}");
  load();
  expect_render("[{\"role\":\"user\",\"content\":\"\\u00e9\"}]", "<bos><eos>P[user:\xc3\xa9]GTrue");
  expect_render("{\"messages\":[],\"add_generation_prompt\":false,\"tools\":[1],\"x\":7,\"bos_token\":\"B\"}", "B<eos>PNFalse7");
}

static void refuse_render(const char *conversation, cairn_status code, const char *part) {
  crn_str out;
  crn_str_initialize(&out, NULL);
  test_expect(crn_llm_text_render(&g_text, conversation, strlen(conversation), &out), code, part);
  crn_str_deinitialize(&out);
}

static void test_render_refusals(void **state) {
  (void)state;
  test_put(&g_folder, "t/chat_template.jinja", "{{ raise_exception('no ' + messages[0].content) }}");
  load();
  refuse_render("{", CAIRN_INVALID_ARGUMENT, "conversation");
  refuse_render("3", CAIRN_INVALID_ARGUMENT, "expected an array of messages");
  refuse_render("{\"messages\":3}", CAIRN_INVALID_ARGUMENT, "expected an array of messages");
  refuse_render("[{\"content\":\"way\"}]", CAIRN_INVALID_ARGUMENT, "no way");
}

static void test_long_render(void **state) {
  (void)state;
  test_put(&g_folder, "t/chat_template.jinja", "{% for i in range(20000) %}{{ messages[0].content }}{% endfor %}");
  load();
  crn_str out;
  crn_str_initialize(&out, NULL);
  const char *conversation = "[{\"content\":\"ab\"}]";
  test_expect(crn_llm_text_render(&g_text, conversation, strlen(conversation), &out), CAIRN_OK, "");
  assert_int_equal(out.size, 40000);
  assert_int_equal(strspn(out.data, "ab"), 40000);
  crn_str_deinitialize(&out);
}

static void test_template_places(void **state) {
  (void)state;
  test_put(&g_folder, "t/tokenizer_config.json", "{\"chat_template\":\"config\"}");
  test_put(&g_folder, "t/chat_template.jinja", "file");
  load();
  expect_render("[]", "file");
  crn_llm_text_deinitialize(&g_text);
  crn_llm_text_initialize(&g_text, g_context);
  assert_int_equal(remove(test_path(&g_folder, "t/chat_template.jinja")), 0);
  load();
  expect_render("[]", "config");
  crn_llm_text_deinitialize(&g_text);
  crn_llm_text_initialize(&g_text, g_context);
  test_put(&g_folder, "t/tokenizer_config.json",
           "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"with tools\"},{\"name\":\"default\",\"template\":\"plain\"}]}");
  load();
  expect_render("[]", "plain");
  expect_render("{\"messages\":[],\"tools\":[{}]}", "with tools");
}

static void test_named_and_continued(void **state) {
  (void)state;
  test_put(&g_folder, "t/tokenizer_config.json",
           "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"{{ messages[0].content }}.{{ add_generation_prompt }}\"}]}");
  load();
  assert_int_equal(crn_llm_text_need_template(&g_text), CAIRN_OK);
  refuse_render("[]", CAIRN_NOT_FOUND, "name one of: rag");
  expect_render("{\"chat_template\":\"rag\",\"messages\":[{\"content\":\"a\"}]}", "a.True");
  expect_render("{\"chat_template\":\"rag\",\"continue_final_message\":true,\"messages\":[{\"content\":\"a\"}]}", "a");
}

static void test_missing_and_broken_templates(void **state) {
  (void)state;
  load();
  test_expect(crn_llm_text_need_template(&g_text), CAIRN_FAILED_PRECONDITION, "no chat_template.jinja");
  refuse_render("[]", CAIRN_FAILED_PRECONDITION, "raw text can be used");
  crn_llm_text_deinitialize(&g_text);
  crn_llm_text_initialize(&g_text, g_context);
  test_put(&g_folder, "t/chat_template.jinja", "{% for %}");
  load();
  test_expect(crn_llm_text_need_template(&g_text), CAIRN_FAILED_PRECONDITION, "chat_template.jinja");
  test_expect(crn_llm_text_need_tokenizer(&g_text), CAIRN_OK, "");
}

// --- tokenizers of bundles ------------------------------------------------------------------------------------------

static void load_bundle(bool embedded) {
  cairn_bundle *bundle;
  test_put(&g_folder, "b/metadata.json", "{\"metadata_version\":\"0.2\",\"kind\":\"llm\",\"name\":\"n\"}");
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "b"), &bundle), CAIRN_OK, "");
  cairn_status status = crn_llm_text_load_bundle(&g_text, bundle, "org/words", embedded, VOCAB);
  cairn_bundle_release(bundle);
  test_expect(status, CAIRN_OK, "");
}

static void reload(void) {
  crn_llm_text_deinitialize(&g_text);
  crn_llm_text_initialize(&g_text, g_context);
}

static void test_bundle_tokenizers(void **state) {
  (void)state;
  char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  setenv("HOME", test_path(&g_folder, "home"), 1);
  load_bundle(true);
  assert_null(g_text.tokenizer);
  test_expect(crn_llm_text_need_tokenizer(&g_text), CAIRN_FAILED_PRECONDITION, "b/tokenizer/tokenizer.json is missing");
  test_expect(crn_llm_text_need_tokenizer(&g_text), CAIRN_FAILED_PRECONDITION, "no tokenizer 'org/words' in");
  reload();
  test_put(&g_folder, "b/tokenizer.json", kTokenizer);
  load_bundle(true);
  test_expect(crn_llm_text_need_tokenizer(&g_text), CAIRN_FAILED_PRECONDITION, "seem to have been flattened");
  reload();
  test_put(&g_folder, "home/.coreai-models/tokenizers/words/tokenizer.json", kTokenizer);
  load_bundle(true);
  assert_string_equal(g_text.folder.data, test_path(&g_folder, "home/.coreai-models/tokenizers/words"));
  reload();
  test_put(&g_folder, "home/Documents/huggingface/models/org/words/tokenizer.json", kTokenizer);
  load_bundle(true);
  assert_string_equal(g_text.folder.data, test_path(&g_folder, "home/Documents/huggingface/models/org/words"));
  reload();
  test_put(&g_folder, "b/tokenizer/tokenizer.json", kTokenizer);
  load_bundle(true);
  assert_string_equal(g_text.folder.data, test_path(&g_folder, "b/tokenizer"));
  reload();
  load_bundle(false);  // the id wins even though the folder exists
  assert_string_equal(g_text.folder.data, test_path(&g_folder, "home/Documents/huggingface/models/org/words"));
  reload();
  test_put(&g_folder, "b/tokenizer/tokenizer.json", "{}");
  load_bundle(true);
  assert_null(g_text.tokenizer);
  test_expect(crn_llm_text_need_tokenizer(&g_text), CAIRN_FAILED_PRECONDITION, "token ids can be used");
  if (home) setenv("HOME", home, 1);
  free(home);
}

static void test_tokenizer_links(void **state) {
  (void)state;
  cairn_bundle *bundle;
  test_put(&g_folder, "b/metadata.json", "{\"metadata_version\":\"0.2\",\"kind\":\"llm\",\"name\":\"n\"}");
  test_put(&g_folder, "t/tokenizer.json", kTokenizer);
  assert_int_equal(symlink("../t", test_path(&g_folder, "b/tokenizer")), 0);
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "b"), &bundle), CAIRN_OK, "");
  test_expect(crn_llm_text_load_bundle(&g_text, bundle, "org/words", true, VOCAB), CAIRN_CORRUPT, "leads out of the bundle through a link");
  assert_int_equal(remove(test_path(&g_folder, "b/tokenizer")), 0);
  test_put(&g_folder, "b/tokenizer/x", "");
  assert_int_equal(symlink("../../t/tokenizer.json", test_path(&g_folder, "b/tokenizer/tokenizer.json")), 0);
  test_expect(crn_llm_text_load_bundle(&g_text, bundle, "org/words", true, VOCAB), CAIRN_CORRUPT, "leads out of the bundle through a link");
  // An id that climbs is not looked for.
  assert_int_equal(remove(test_path(&g_folder, "b/tokenizer/tokenizer.json")), 0);
  test_expect(crn_llm_text_load_bundle(&g_text, bundle, "../../t", true, VOCAB), CAIRN_OK, "");
  assert_null(g_text.tokenizer);
  cairn_bundle_release(bundle);
}

static void test_encode(void **state) {
  (void)state;
  load();
  crn_id_vec ids = {0};
  test_expect(crn_llm_text_encode(&g_text, "hello world <turn|>", 19, false, &ids), CAIRN_OK, "");
  assert_int_equal(ids.size, 3);
  assert_int_equal(ids.items[0], 12);
  assert_int_equal(ids.items[2], 4);
  crn_vec_free(crn_default_allocator(), &ids);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(test_special_tokens_that_end_a_turn),
      TEST(test_config_names),
      TEST(test_special_tokens_map),
      TEST(test_each_key),
      TEST(test_sentencepiece_names_its_end),
      TEST(test_eos_lists),
      TEST(test_generation_config_beside),
      TEST(test_template_terminator),
      TEST(test_text_behind_an_answer_is_no_terminator),
      TEST(test_broken_configs),
      TEST(test_variables),
      TEST(test_render_refusals),
      TEST(test_long_render),
      TEST(test_template_places),
      TEST(test_named_and_continued),
      TEST(test_missing_and_broken_templates),
      TEST(test_bundle_tokenizers),
      TEST(test_tokenizer_links),
      TEST(test_encode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
