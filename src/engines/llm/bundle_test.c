#include "cairn/bundle.h"

#include "engines/llm/test_folder.h"

static cairn_context *g_context;
static test_folder g_folder;

static int set_up(void **state) {
  (void)state;
  test_folder_create(&g_folder);
  cairn_context_options options = {.n_threads = 1};
  return cairn_context_create(&options, &g_context) != CAIRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  test_folder_remove(&g_folder);
  cairn_context_release(g_context);
  return 0;
}

#define HEAD "\"metadata_version\":\"0.2\",\"kind\":\"llm\",\"name\":\"n\""
#define LANGUAGE "\"tokenizer\":\"org/t\",\"vocab_size\":10,\"max_context_length\":64"

static cairn_bundle *open_text(const char *json) {
  cairn_bundle *b;
  test_put(&g_folder, "b/metadata.json", json);
  if (cairn_bundle_open(g_context, test_path(&g_folder, "b"), &b) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  return b;
}

static void refuse(const char *json, cairn_status code, const char *part) {
  cairn_bundle *b;
  test_put(&g_folder, "b/metadata.json", json);
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "b"), &b), code, part);
  assert_null(b);
}

// --- envelope -------------------------------------------------------------------------------------------------------

static void test_minimal(void **state) {
  (void)state;
  cairn_bundle *b = open_text("{" HEAD ",\"unknown\":[1,2]}");
  assert_string_equal(cairn_bundle_name(b), "n");
  assert_int_equal(cairn_bundle_get_kind(b), CAIRN_BUNDLE_LLM);
  assert_int_equal(cairn_bundle_asset_count(b), 0);
  assert_int_equal(cairn_bundle_user_data_count(b), 0);
  assert_string_equal(cairn_bundle_metadata_json(b), "{" HEAD ",\"unknown\":[1,2]}");
  cairn_bundle_retain(b);
  cairn_bundle_release(b);
  cairn_bundle_release(b);
}

static void test_versions(void **state) {
  (void)state;
  refuse("{\"kind\":\"llm\",\"name\":\"n\"}", CAIRN_INCOMPATIBLE, "'0.1'");
  refuse("{\"any\":1}", CAIRN_INCOMPATIBLE, "not a model bundle's");
  refuse("{\"metadata_version\":\"0.1\",\"kind\":\"llm\",\"name\":\"n\"}", CAIRN_INCOMPATIBLE, "metadata_version '0.1'; known: 0.2");
  refuse("{\"metadata_version\":\"0.3\",\"kind\":\"new kind\"}", CAIRN_INCOMPATIBLE, "'0.3'");
  refuse("{\"metadata_version\":0.2,\"kind\":\"llm\",\"name\":\"n\"}", CAIRN_CORRUPT, "malformed metadata.json");
}

static void test_malformed(void **state) {
  (void)state;
  refuse("{", CAIRN_CORRUPT, "malformed metadata.json");
  refuse("[]", CAIRN_CORRUPT, "found an array");
  refuse("{\"metadata_version\":\"0.2\",\"name\":\"n\"}", CAIRN_CORRUPT, "missing the required field 'kind'");
  refuse("{\"metadata_version\":\"0.2\",\"kind\":\"llm\"}", CAIRN_CORRUPT, "missing the required field 'name'");
  refuse("{\"metadata_version\":\"0.2\",\"kind\":\"llm-drafter\",\"name\":\"n\"}", CAIRN_CORRUPT, "unknown kind 'llm-drafter'");
  refuse("{\"metadata_version\":\"0.2\",\"kind\":3,\"name\":\"n\"}", CAIRN_CORRUPT, "'kind' must be a string");
  refuse("{" HEAD ",\"assets\":[]}", CAIRN_CORRUPT, "'assets' must be an object");
  refuse("{" HEAD ",\"assets\":{\"main\":null}}", CAIRN_CORRUPT, "'assets.main' must be a string");
  refuse("{" HEAD ",\"user_data\":{\"a\":1}}", CAIRN_CORRUPT, "'user_data.a' must be a string, found an integer");
  cairn_bundle *b;
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "nowhere"), &b), CAIRN_NOT_FOUND, "metadata.json not found at");
  test_put(&g_folder, "old/pipeline.json", "{}");
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "old"), &b), CAIRN_NOT_FOUND, "deprecated");
  test_expect(cairn_bundle_open(g_context, "", &b), CAIRN_INVALID_ARGUMENT, "empty");
}

static void test_assets_are_no_bundles(void **state) {
  (void)state;
  cairn_bundle *b;
  test_put(&g_folder, "x.aimodelc/metadata.json", "{" HEAD "}");
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "x.aimodelc"), &b), CAIRN_INVALID_ARGUMENT,
              "is a model asset, not a bundle");
  test_expect(cairn_bundle_open(g_context, test_path(&g_folder, "x.AIModel/"), &b), CAIRN_INVALID_ARGUMENT,
              "is a model asset, not a bundle");
}

static void test_user_data_and_kinds(void **state) {
  (void)state;
  cairn_bundle *b =
      open_text("{\"metadata_version\":\"0.2\",\"kind\":\"speech_recognizer\",\"name\":\"n\",\"user_data\":{\"b\":\"2\",\"a\":\"1\"}}");
  assert_int_equal(cairn_bundle_get_kind(b), CAIRN_BUNDLE_SPEECH_RECOGNIZER);
  assert_string_equal(cairn_bundle_kind_text(cairn_bundle_get_kind(b)), "speech_recognizer");
  assert_int_equal(cairn_bundle_user_data_count(b), 2);
  assert_string_equal(cairn_bundle_user_data_key(b, 0), "b");
  assert_string_equal(cairn_bundle_user_data(b, "a"), "1");
  assert_null(cairn_bundle_user_data(b, "c"));
  assert_null(cairn_bundle_user_data_key(b, 2));
  cairn_bundle_language language;
  test_expect(cairn_bundle_get_language(b, &language), CAIRN_INCOMPATIBLE, "expected a bundle of kind llm or vlm, got speech_recognizer");
  cairn_bundle_release(b);
  b = open_text("{" HEAD ",\"user_data\":null,\"assets\":null}");
  assert_int_equal(cairn_bundle_user_data_count(b), 0);
  cairn_bundle_release(b);
}

static void test_home_folder(void **state) {
  (void)state;
  cairn_bundle *b;
  char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  test_put(&g_folder, "home/b/metadata.json", "{" HEAD "}");
  setenv("HOME", test_path(&g_folder, "home"), 1);
  test_expect(cairn_bundle_open(g_context, "~/b", &b), CAIRN_OK, "");
  assert_string_equal(cairn_bundle_path(b), test_path(&g_folder, "home/b"));
  cairn_bundle_release(b);
  if (home) setenv("HOME", home, 1);
  free(home);
}

// --- components -----------------------------------------------------------------------------------------------------

static void expect_asset(const cairn_bundle *b, const char *role, const char *name) {
  char path[512], tiny[4];
  size_t bytes;
  test_expect(cairn_bundle_asset_path(b, role, path, sizeof path, &bytes), CAIRN_OK, "");
  assert_string_equal(path, test_path(&g_folder, name));
  assert_int_equal(bytes, strlen(path));
  // A buffer that is too small gets what fits and the size that is needed.
  test_expect(cairn_bundle_asset_path(b, role, tiny, sizeof tiny, &bytes), CAIRN_OK, "");
  assert_int_equal(bytes, strlen(path));
  assert_int_equal(strlen(tiny), 3);
}

static void refuse_asset(const cairn_bundle *b, const char *role, cairn_status code, const char *part) {
  char path[512];
  test_expect(cairn_bundle_asset_path(b, role, path, sizeof path, NULL), code, part);
}

static void test_asset_paths(void **state) {
  (void)state;
  cairn_bundle *b = open_text("{" HEAD ",\"assets\":{\"main\":\"m.aimodel\",\"a\":\"sub/x.aimodel\",\"contract_sha256\":\"00\"}}");
  assert_int_equal(cairn_bundle_asset_count(b), 3);
  assert_string_equal(cairn_bundle_asset_role(b, 0), "a");
  assert_string_equal(cairn_bundle_asset_role(b, 2), "main");
  assert_null(cairn_bundle_asset_role(b, 3));
  assert_string_equal(cairn_bundle_asset_file(b, "a"), "sub/x.aimodel");
  refuse_asset(b, "vision", CAIRN_CORRUPT, "missing the required field 'assets.vision'");
  refuse_asset(b, "main", CAIRN_NOT_FOUND, "asset 'main' not found at");
  test_put(&g_folder, "b/sub/x.aimodel/main.mlirb", "x");
  expect_asset(b, "a", "b/sub/x.aimodel");
  test_expect(cairn_bundle_verify(b), CAIRN_NOT_FOUND, "'main'");
  // Only the compiled form: taken. Both: the source.
  test_put(&g_folder, "b/m.x86_64.aimodelc/main.hash", "x");
  test_put(&g_folder, "b/m.arm64.aimodelc/main.hash", "x");
  test_put(&g_folder, "b/m.aarch64.aimodelc/main.hash", "x");
#if defined(__x86_64__)
  expect_asset(b, "main", "b/m.x86_64.aimodelc");
#elif defined(__aarch64__)
  expect_asset(b, "main", "b/m.aarch64.aimodelc");
#endif
  test_put(&g_folder, "b/m.aimodelc/main.hash", "x");
  expect_asset(b, "main", "b/m.aimodelc");
  test_put(&g_folder, "b/m.aimodel/main.mlirb", "x");
  expect_asset(b, "main", "b/m.aimodel");
  test_expect(cairn_bundle_verify(b), CAIRN_OK, "");
  cairn_bundle_release(b);
}

static void test_escapes(void **state) {
  (void)state;
  static const char *const kBad[] = {"../x.aimodel", "/etc", "a/../../x", "", ".", "~/x", "a/.."};
  char json[256];
  for (size_t i = 0; i < sizeof kBad / sizeof *kBad; i++) {
    snprintf(json, sizeof json, "{" HEAD ",\"assets\":{\"main\":\"%s\"}}", kBad[i]);
    refuse(json, CAIRN_CORRUPT, "does not name something inside of the bundle");
  }
  refuse("{" HEAD ",\"assets\":{\"main\":\"a\\u0000b\"}}", CAIRN_CORRUPT, "malformed");
  cairn_bundle *b = open_text("{" HEAD ",\"assets\":{\"main\":\"m.aimodel\",\"l\":\"l.aimodel\",\"in\":\"in.aimodel\"}}");
  test_put(&g_folder, "outside.aimodel/main.mlirb", "x");
  assert_int_equal(symlink("../outside.aimodel", test_path(&g_folder, "b/m.aimodel")), 0);
  refuse_asset(b, "main", CAIRN_CORRUPT, "leads out of the bundle through a link");
  test_put(&g_folder, "b/l.aimodel/other", "x");
  assert_int_equal(symlink("../../outside.aimodel/main.mlirb", test_path(&g_folder, "b/l.aimodel/main.mlirb")), 0);
  refuse_asset(b, "l", CAIRN_CORRUPT, "leads out of the bundle through a link");
  // A link that stays inside is fine.
  test_put(&g_folder, "b/real/main.mlirb", "x");
  assert_int_equal(symlink("real", test_path(&g_folder, "b/in.aimodel")), 0);
  expect_asset(b, "in", "b/in.aimodel");
  cairn_bundle_release(b);
}

// --- language -------------------------------------------------------------------------------------------------------

static void refuse_language(const char *block, const char *part) {
  char json[1024];
  cairn_bundle_language language;
  snprintf(json, sizeof json, "{" HEAD "%s}", block);
  cairn_bundle *b = open_text(json);
  test_expect(cairn_bundle_get_language(b, &language), CAIRN_CORRUPT, part);
  cairn_bundle_release(b);
}

static void test_language(void **state) {
  (void)state;
  cairn_bundle_language language;
  cairn_bundle *b = open_text("{" HEAD ",\"language\":{" LANGUAGE
                              ",\"extra\":true,\"function_map\":{\"main\":[\"decode\",\"prefill\"]},"
                              "\"states\":{\"conv\":\"fixed\",\"k\":\"kv_cache\",\"w\":\"sliding_cache\"}}}");
  test_expect(cairn_bundle_get_language(b, &language), CAIRN_OK, "");
  assert_string_equal(language.tokenizer, "org/t");
  assert_int_equal(language.vocab_size, 10);
  assert_int_equal(language.max_context_length, 64);
  assert_true(language.embedded_tokenizer);
  assert_string_equal(cairn_bundle_function(b, "main"), "decode");
  assert_true(cairn_bundle_has_function(b, "main"));
  assert_int_equal(cairn_bundle_state_kind(b, "conv"), CAIRN_STATE_FIXED);
  assert_int_equal(cairn_bundle_state_kind(b, "k"), CAIRN_STATE_KV_CACHE);
  assert_int_equal(cairn_bundle_state_kind(b, "w"), CAIRN_STATE_SLIDING_CACHE);
  assert_int_equal(cairn_bundle_state_kind(b, "z"), CAIRN_STATE_UNKNOWN);
  cairn_bundle_release(b);
  b = open_text("{\"metadata_version\":\"0.2\",\"kind\":\"vlm\",\"name\":\"n\",\"language\":{" LANGUAGE
                ",\"embedded_tokenizer\":false,\"function_map\":{\"main\":[]}}}");
  test_expect(cairn_bundle_get_language(b, &language), CAIRN_OK, "");
  assert_false(language.embedded_tokenizer);
  assert_string_equal(cairn_bundle_function(b, "main"), "main");
  assert_false(cairn_bundle_has_function(b, "main"));
  cairn_bundle_release(b);
}

static void test_language_refusals(void **state) {
  (void)state;
  refuse_language("", "missing the required field 'language'");
  refuse_language(",\"language\":{\"vocab_size\":10,\"max_context_length\":4}", "'language.tokenizer'");
  refuse_language(",\"language\":{\"tokenizer\":\"t\",\"vocab_size\":null,\"max_context_length\":4}",
                  "'language.vocab_size' must be an integer, found null");
  refuse_language(",\"language\":{\"tokenizer\":\"t\",\"vocab_size\":10}", "missing the required field 'language.max_context_length'");
  refuse_language(",\"language\":{\"tokenizer\":\"t\",\"vocab_size\":10,\"max_context_length\":0}", "accepted are 1 to");
  refuse_language(",\"language\":{\"tokenizer\":\"t\",\"vocab_size\":4294967296,\"max_context_length\":4}", "accepted are 1 to");
  refuse_language(",\"language\":{" LANGUAGE ",\"states\":{\"conv\":\"bogus\"}}",
                  "'language.states.conv' must be kv_cache, sliding_cache or fixed, found bogus");
  refuse_language(",\"language\":{" LANGUAGE ",\"states\":{\"conv\":1}}", "'language.states.conv'");
  refuse_language(",\"language\":{" LANGUAGE ",\"function_map\":{\"main\":\"x\"}}", "must be an array of function names");
  refuse_language(",\"language\":{" LANGUAGE ",\"function_map\":{\"main\":[1]}}", "must hold function names only");
  refuse_language(",\"language\":{" LANGUAGE ",\"embedded_tokenizer\":\"yes\"}", "must be true or false");
}

#define VISION "\"image_size\":32,\"patch_size\":8,\"image_token_count\":4,\"image_token_id\":5"

static cairn_status get_vision(const char *block, cairn_bundle_vision *out) {
  char json[1024];
  snprintf(json, sizeof json, "{\"metadata_version\":\"0.2\",\"kind\":\"vlm\",\"name\":\"n\"%s}", block);
  cairn_bundle *b = open_text(json);
  cairn_status status = cairn_bundle_get_vision(b, out);
  cairn_bundle_release(b);
  return status;
}

static void test_vision(void **state) {
  (void)state;
  cairn_bundle_vision v;
  test_expect(get_vision(",\"vision\":{" VISION "}", &v), CAIRN_OK, "");
  assert_int_equal(v.image_size, 32);
  assert_true(v.image_mean[0] == 0.48145466 && v.image_std[2] == 0.27577711);
  assert_true(v.rescale_factor == 1);
  assert_int_equal(v.image_strategy, CAIRN_IMAGE_STRETCH);
  assert_false(v.include_image_info);
  assert_int_equal(v.max_video_frames, 0);
  assert_int_equal(v.tokens_per_frame, 4);
  test_expect(get_vision(",\"vision\":{" VISION
                         ",\"max_video_frames\":8,\"image_strategy\":\"pad\",\"image_mean\":[0.5,0.5,0.5],\"rescale_factor\":2}",
                         &v),
              CAIRN_OK, "");
  assert_int_equal(v.max_video_frames, 8);
  assert_int_equal(v.image_strategy, CAIRN_IMAGE_PAD);
  assert_true(v.image_mean[1] == 0.5 && v.rescale_factor == 2);
  test_expect(get_vision("", &v), CAIRN_CORRUPT, "missing the required field 'vision'");
  test_expect(get_vision(",\"vision\":{\"image_size\":32}", &v), CAIRN_CORRUPT, "'vision.patch_size'");
  test_expect(get_vision(",\"vision\":{" VISION ",\"image_std\":[1,0,1]}", &v), CAIRN_CORRUPT, "non-zero");
  test_expect(get_vision(",\"vision\":{" VISION ",\"image_mean\":[1,1]}", &v), CAIRN_CORRUPT, "3 numbers");
  test_expect(get_vision(",\"vision\":{" VISION ",\"image_strategy\":\"zoom\"}", &v), CAIRN_CORRUPT, "found 'zoom'");
  test_expect(get_vision(",\"vision\":{\"image_size\":30,\"patch_size\":8,\"image_token_count\":4,\"image_token_id\":5}", &v),
              CAIRN_CORRUPT, "does not divide");
  test_expect(get_vision(",\"vision\":{\"image_size\":32,\"patch_size\":8,\"image_token_count\":4,\"image_token_id\":-1}", &v),
              CAIRN_CORRUPT, "image_token_id");
}

// --- finding --------------------------------------------------------------------------------------------------------

static void expect_found(const char *name, const char *search, const char *path) {
  char found[512];
  size_t bytes;
  test_expect(cairn_model_find(name, search, found, sizeof found, &bytes), CAIRN_OK, "");
  assert_string_equal(found, path);
  assert_int_equal(bytes, strlen(path));
}

static void test_find(void **state) {
  (void)state;
  char list[512], x[256];
  test_put(&g_folder, "x/m/f", "");
  test_put(&g_folder, "y/m/f", "");
  test_put(&g_folder, "y/only/f", "");
  test_put(&g_folder, "home/.coreai-models/h/f", "");
  snprintf(x, sizeof x, "%s", test_path(&g_folder, "x"));
  snprintf(list, sizeof list, "%s::%s:~/nowhere", x, test_path(&g_folder, "y"));
  setenv("COREAI_MODEL_PATH", list, 1);
  unsetenv("CAIRN_MODEL_PATH");
  char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  setenv("HOME", test_path(&g_folder, "home"), 1);
  expect_found("m", NULL, test_path(&g_folder, "x/m"));
  expect_found("only", NULL, test_path(&g_folder, "y/only"));
  setenv("CAIRN_MODEL_PATH", test_path(&g_folder, "y"), 1);
  expect_found("m", NULL, test_path(&g_folder, "y/m"));
  expect_found("m", x, test_path(&g_folder, "x/m"));
  expect_found(test_path(&g_folder, "y/only"), x, test_path(&g_folder, "y/only"));
  char found[512];
  // An absolute path is not looked for elsewhere, whatever its last part.
  test_expect(cairn_model_find("/nowhere/m", x, found, sizeof found, NULL), CAIRN_NOT_FOUND, "searched: /nowhere/m");
  snprintf(list, sizeof list, "searched: %s, %s", x, test_path(&g_folder, "home/z"));
  char search[512];
  snprintf(search, sizeof search, "%s:~/z", x);
  test_expect(cairn_model_find("absent", search, found, sizeof found, NULL), CAIRN_NOT_FOUND, list);
  test_expect(cairn_model_find("./absent", x, found, sizeof found, NULL), CAIRN_NOT_FOUND, "searched: ./absent");
  test_expect(cairn_model_find("", x, found, sizeof found, NULL), CAIRN_INVALID_ARGUMENT, "empty");
  unsetenv("CAIRN_MODEL_PATH");
  unsetenv("COREAI_MODEL_PATH");
  expect_found("h", NULL, test_path(&g_folder, "home/.coreai-models/h"));
  if (home) setenv("HOME", home, 1);
  free(home);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(test_minimal),
      TEST(test_versions),
      TEST(test_malformed),
      TEST(test_assets_are_no_bundles),
      TEST(test_user_data_and_kinds),
      TEST(test_home_folder),
      TEST(test_asset_paths),
      TEST(test_escapes),
      TEST(test_language),
      TEST(test_language_refusals),
      TEST(test_vision),
      TEST(test_find),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
