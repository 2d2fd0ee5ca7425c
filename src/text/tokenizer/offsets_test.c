// Where tokens come from, as the reference says it, and texts that hold U+0000.
#include "text/tokenizer/test_support.h"

enum { CAPACITY = 4096 };

static bool matches(const cairn_tokenizer *t, const json_t *c) {
  static cairn_token_span spans[CAPACITY];
  const json_t *texts = json_object_get(c, "texts"), *a = json_array_get(texts, 0), *b = json_array_get(texts, 1);
  const json_t *places = json_object_get(c, "places"), *ids = json_object_get(c, "ids");
  size_t n;
  assert_int_equal(cairn_tokenizer_encode_offsets(t, json_string_value(a), json_string_length(a), json_string_value(b),
                                                  json_string_length(b), json_is_true(json_object_get(c, "special")), spans, CAPACITY, &n),
                   CAIRN_OK);
  if (n != json_array_size(places)) return false;
  for (size_t i = 0; i < n; i++) {
    const json_t *row = json_array_get(places, i);
    if (spans[i].id != json_integer_value(json_array_get(ids, i))) return false;
    if (spans[i].text != json_integer_value(json_array_get(row, 0))) return false;
    if ((json_int_t)spans[i].begin != json_integer_value(json_array_get(row, 1))) return false;
    if ((json_int_t)spans[i].end != json_integer_value(json_array_get(row, 2))) return false;
  }
  return true;
}

static size_t run_file(cairn_context *context, const char *name, size_t *in_out_wrong) {
  char path[512], *line = NULL;
  size_t room = 0, n = 0;
  cairn_tokenizer *t;
  snprintf(path, sizeof path, "%s/tokenizer/%s", CAIRN_TEST_DATA, name);
  assert_int_equal(cairn_tokenizer_open(context, path, &t), CAIRN_OK);
  snprintf(path, sizeof path, "%s/tokenizer/%s/places.jsonl", CAIRN_TEST_DATA, name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  for (ssize_t bytes; (bytes = getline(&line, &room, f)) > 0; n++) {
    json_t *c = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, NULL);
    assert_non_null(c);
    if (!matches(t, c)) {
      ++*in_out_wrong;
      fprintf(stderr, "%s:%zu: %.300s\n", path, n + 1, line);
    }
    json_decref(c);
  }
  free(line);
  fclose(f);
  cairn_tokenizer_release(t);
  return n;
}

static void places_of_the_reference(void **state) {
  (void)state;
  static const char *const names[] = {"clip_cut", "llama2_cut", "minilm_cut", "smollm2_cut", "xlmr_cut"};
  cairn_context *context = test_context();
  size_t n = 0, wrong = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) n += run_file(context, names[i], &wrong);
  assert_int_equal(n, 300);
  assert_int_equal(wrong, 0);
  cairn_context_release(context);
}

static const char WORDS[] =
    "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":%s,\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"Fuse\"},%s"
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"one\":1,\"two\":2,\"\\u0000x\":3,\"a\\\\u0000\":4}}}";

static cairn_tokenizer *words(cairn_context *context, const char *normalizer, const char *more) {
  char text[1024];
  snprintf(text, sizeof text, WORDS, normalizer, more);
  return test_tokenizer_from(context, text);
}

static void malformed_text(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t = words(context, "{\"type\":\"Lowercase\"}", "");
  cairn_token_span s[8];
  size_t n;
  // Each malformed sequence counts as one character, and the places are those of the bytes the caller has.
  const char text[] = "\xff ONE \xe2\x82 Two\xc3";
  assert_int_equal(cairn_tokenizer_encode_offsets(t, text, sizeof text - 1, NULL, 0, true, s, 8, &n), CAIRN_OK);
  assert_int_equal(n, 4);
  const size_t places[][2] = {{0, 1}, {2, 5}, {6, 8}, {9, 13}};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(s[i].begin, places[i][0]);
    assert_int_equal(s[i].end, places[i][1]);
  }
  assert_int_equal(cairn_token_spans_find(s, n, 0, 4), 1);
  assert_int_equal(cairn_token_spans_find(s, n, 0, 7), 2);
  assert_true(cairn_token_spans_find(s, n, 0, 5) == SIZE_MAX);
  assert_true(cairn_token_spans_find(s, n, 1, 4) == SIZE_MAX);
  // A small buffer gets the first tokens.
  assert_int_equal(cairn_tokenizer_encode_offsets(t, text, sizeof text - 1, NULL, 0, true, s, 1, &n), CAIRN_OK);
  assert_int_equal(n, 4);
  assert_int_equal(cairn_tokenizer_encode_offsets(t, NULL, 1, NULL, 0, true, s, 1, &n), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_tokenizer_encode_offsets(t, "", 0, NULL, 0, true, NULL, 1, &n), CAIRN_INVALID_ARGUMENT);
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void truncated_and_padded(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t = words(context, "null",
                             "\"truncation\":{\"direction\":\"Left\",\"max_length\":2,\"strategy\":\"LongestFirst\",\"stride\":0},"
                             "\"padding\":{\"strategy\":{\"Fixed\":3},\"direction\":\"Left\",\"pad_to_multiple_of\":null,\"pad_id\":9,"
                             "\"pad_type_id\":7,\"pad_token\":\"p\"},");
  cairn_token_span s[8];
  size_t n;
  assert_int_equal(cairn_tokenizer_encode_offsets(t, "one two one", 11, NULL, 0, true, s, 8, &n), CAIRN_OK);
  assert_int_equal(n, 3);
  assert_int_equal(s[0].id, 9);
  assert_int_equal(s[0].type_id, 7);
  assert_int_equal(s[0].text, -1);
  assert_int_equal(s[1].id, 2);
  assert_int_equal(s[1].begin, 4);
  assert_int_equal(s[2].end, 11);
  int32_t ids[8];
  assert_int_equal(cairn_tokenizer_encode_whole(t, "one two one one", 15, true, ids, 8, &n), CAIRN_OK);
  assert_int_equal(n, 4);
  assert_int_equal(ids[3], 1);
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void tokens_with_nul(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t = words(context, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"y\\u0000\"},\"content\":\"\\u0000x\"}", "");
  int32_t ids[4];
  char text[16];
  size_t n;
  // The last word is spelled with a backslash in the file, which is no escape.
  assert_int_equal(cairn_tokenizer_encode(t, "\0x one y\0 a\\u0000", 17, true, ids, 4, &n), CAIRN_OK);
  assert_int_equal(n, 4);
  assert_int_equal(ids[0], 3);
  assert_int_equal(ids[1], 1);
  assert_int_equal(ids[2], 3);
  assert_int_equal(ids[3], 4);
  assert_int_equal(cairn_tokenizer_decode(t, ids, 2, false, text, sizeof text, &n), CAIRN_OK);
  assert_int_equal(n, 5);
  assert_memory_equal(text, "\0xone", 5);
  cairn_tokenizer_release(t);
  // Where a name is expected, U+0000 is no way to hide what follows it.
  static const char hidden[] = "{\"model\":{\"type\":\"WordLevel\\u0000x\",\"unk_token\":\"?\",\"vocab\":{\"?\":0}}}";
  assert_int_equal(cairn_tokenizer_create_from_json(context, hidden, sizeof hidden - 1, "t", &t), CAIRN_CORRUPT);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(places_of_the_reference),
      cmocka_unit_test(malformed_text),
      cmocka_unit_test(truncated_and_padded),
      cmocka_unit_test(tokens_with_nul),
  };
  return cmocka_run_group_tests_name("offsets", tests, NULL, NULL);
}
