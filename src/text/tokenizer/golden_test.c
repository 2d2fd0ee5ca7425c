// Every case of the shared corpora and of the committed fixtures, exactly.
#include <dirent.h>

#include "text/tokenizer/test_support.h"

static bool encode_matches(cairn_tokenizer *t, const json_t *c) {
  static test_ids got;
  const json_t *text = json_object_get(c, "text"), *pair = json_object_get(c, "pair"), *special = json_object_get(c, "add_special_tokens");
  bool add = !special || json_is_true(special);
  if (!text) return true;
  assert_int_equal(cairn_tokenizer_encode_pair(t, json_string_value(text), json_string_length(text), json_string_value(pair),
                                               json_string_length(pair), add, got.ids, got.types, TEST_MAX_IDS, &got.n),
                   CAIRN_OK);
  const json_t *types = json_object_get(c, "type_ids");
  return test_same_ids(got.ids, got.n, json_object_get(c, "ids")) && (!types || test_same_ids(got.types, got.n, types));
}

static bool case_matches(cairn_tokenizer *t, const json_t *c) {
  static test_ids ids;
  const json_t *all = json_object_get(c, "decoded"), *skipped = json_object_get(c, "decoded_skip_special");
  test_read_ids(json_object_get(c, "ids"), &ids);
  return encode_matches(t, c) && test_decodes_to(t, &ids, false, all) && test_decodes_to(t, &ids, true, skipped) &&
         test_streams_to(t, &ids, false, all) && test_streams_to(t, &ids, true, skipped);
}

static size_t run_cases(cairn_tokenizer *t, const char *path, size_t *out_bad) {
  FILE *f = fopen(path, "r");
  char *line = NULL;
  size_t room = 0, n = 0;
  assert_non_null(f);
  for (ssize_t bytes; (bytes = getline(&line, &room, f)) > 0;) {
    json_error_t error;
    json_t *c = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, &error);
    assert_non_null(c);
    n++;
    if (!case_matches(t, c)) {
      (*out_bad)++;
      fprintf(stderr, "%s:%zu: %.200s\n", path, n, line);
    }
    json_decref(c);
  }
  free(line);
  fclose(f);
  return n;
}

static size_t run_folder(const char *root, const char *case_name, size_t *out_bad) {
  cairn_context *context = test_context();
  DIR *folder = opendir(root);
  size_t total = 0;
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char path[1024], cases[1200];
    snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
    snprintf(cases, sizeof cases, "%s/%s", path, case_name);
    if (entry->d_name[0] == '.' || !test_file_exists(cases)) continue;
    cairn_tokenizer *t;
    size_t bad = 0;
    if (cairn_tokenizer_open(context, path, &t) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
    size_t n = run_cases(t, cases, &bad);
    printf("%-24s %4zu cases, %zu wrong\n", entry->d_name, n, bad);
    cairn_tokenizer_release(t);
    total += n;
    *out_bad += bad;
  }
  closedir(folder);
  cairn_context_release(context);
  return total;
}

static void committed_fixtures(void **state) {
  (void)state;
  size_t bad = 0;
  assert_true(run_folder(CAIRN_TEST_DATA "/tokenizer", "cases.jsonl", &bad) >= 280);
  assert_int_equal(bad, 0);
}

static void shared_corpora(void **state) {
  (void)state;
  size_t bad = 0;
  if (!test_file_exists(CAIRN_SHARED_DATA "/corpus/tokenizer/summary.json")) skip();
  assert_true(run_folder(CAIRN_SHARED_DATA "/corpus/tokenizer", "cases.public.jsonl", &bad) >= 4000);
  assert_int_equal(bad, 0);
}

// --- random pipelines over one vocabulary ------------------------------------------------------------------------------

static json_t *assemble(const json_t *record, const json_t *vocab) {
  json_t *root = json_deep_copy(record), *model = json_object_get(root, "model");
  json_object_set(model, "vocab", (json_t *)vocab);
  json_object_del(root, "cases");
  return root;
}

static size_t run_pipeline(cairn_context *context, const json_t *record, const json_t *vocab, size_t index) {
  static test_ids got, ids;
  json_t *root = assemble(record, vocab), *c;
  char *text = json_dumps(root, JSON_COMPACT);
  cairn_tokenizer *t = test_tokenizer_from(context, text);
  size_t i, wrong = 0;
  json_array_foreach(json_object_get(record, "cases"), i, c) {
    const json_t *input = json_object_get(c, "text");
    assert_int_equal(
        cairn_tokenizer_encode_pair(t, json_string_value(input), json_string_length(input), NULL, 0,
                                    json_is_true(json_object_get(c, "add_special_tokens")), got.ids, got.types, TEST_MAX_IDS, &got.n),
        CAIRN_OK);
    test_read_ids(json_object_get(c, "decode"), &ids);
    bool same = test_same_ids(got.ids, got.n, json_object_get(c, "ids")) && test_same_ids(got.types, got.n, json_object_get(c, "types")) &&
                test_decodes_to(t, &ids, false, json_object_get(c, "decoded")) &&
                test_streams_to(t, &ids, false, json_object_get(c, "decoded"));
    wrong += !same;
    if (!same) fprintf(stderr, "components.json: pipeline %zu, case %zu\n", index, i);
  }
  cairn_tokenizer_release(t);
  free(text);
  json_decref(root);
  return wrong;
}

static void components(void **state) {
  (void)state;
  cairn_context *context = test_context();
  json_t *file = test_json_file(CAIRN_TEST_DATA "/tokenizer/components.json"), *record;
  size_t i, wrong = 0;
  json_array_foreach(json_object_get(file, "tokenizers"), i, record) {
    wrong += run_pipeline(context, record, json_object_get(file, "vocab"), i);
  }
  assert_true(i >= 50);
  assert_int_equal(wrong, 0);
  json_decref(file);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(committed_fixtures),
      cmocka_unit_test(components),
      cmocka_unit_test(shared_corpora),
  };
  return cmocka_run_group_tests_name("tokenizer goldens", tests, NULL, NULL);
}
