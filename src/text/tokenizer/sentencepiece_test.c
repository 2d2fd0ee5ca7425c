// SentencePiece models against the results of its own library.
#include "base/alloc.h"
#include "base/file.h"
#include "text/tokenizer/test_support.h"

#include <sys/stat.h>
#include <unistd.h>

#define FOLDER CAIRN_TEST_DATA "/tokenizer/sentencepiece/"

static const char *const names[] = {"bpe", "bpe_bytes", "char", "unigram", "unigram_bytes", "word"};

static bool places_match(const cairn_tokenizer *t, const json_t *text, const json_t *places) {
  static cairn_token_span spans[4096];
  size_t n;
  assert_int_equal(cairn_tokenizer_encode_offsets(t, json_string_value(text), json_string_length(text), NULL, 0, true, spans, 4096, &n),
                   CAIRN_OK);
  if (n != json_array_size(places)) return false;
  for (size_t i = 0; i < n; i++) {
    const json_t *row = json_array_get(places, i);
    if ((json_int_t)spans[i].begin != json_integer_value(json_array_get(row, 0))) return false;
    if ((json_int_t)spans[i].end != json_integer_value(json_array_get(row, 1))) return false;
  }
  return true;
}

static bool case_matches(cairn_tokenizer *t, const json_t *c, bool bytes) {
  static test_ids got, ids;
  const json_t *text = json_object_get(c, "text"), *wanted = json_object_get(c, "ids");
  assert_int_equal(cairn_tokenizer_encode(t, json_string_value(text), json_string_length(text), true, got.ids, TEST_MAX_IDS, &got.n),
                   CAIRN_OK);
  if (!test_same_ids(got.ids, got.n, wanted)) return false;
  // Of the bytes of one character the library gives the place to the last one only.
  if (!bytes && !places_match(t, text, json_object_get(c, "places"))) return false;
  if (!test_decodes_to(t, &got, false, json_object_get(c, "round"))) return false;
  test_read_ids(json_object_get(c, "decode"), &ids);
  return test_decodes_to(t, &ids, false, json_object_get(c, "decoded")) && test_streams_to(t, &ids, false, json_object_get(c, "decoded"));
}

static void models(void **state) {
  (void)state;
  cairn_context *context = test_context();
  size_t n = 0, wrong = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512], *line = NULL;
    size_t room = 0;
    cairn_tokenizer *t;
    snprintf(path, sizeof path, FOLDER "%s.model", names[i]);
    if (cairn_tokenizer_open(context, path, &t) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
    snprintf(path, sizeof path, FOLDER "%s.jsonl", names[i]);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (ssize_t bytes; (bytes = getline(&line, &room, f)) > 0; n++) {
      json_t *c = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, NULL);
      assert_non_null(c);
      if (!case_matches(t, c, strstr(names[i], "bytes") != NULL)) {
        wrong++;
        fprintf(stderr, "%s: %.200s\n", path, line);
      }
      json_decref(c);
    }
    free(line);
    fclose(f);
    cairn_tokenizer_release(t);
  }
  assert_int_equal(n, 360);
  assert_int_equal(wrong, 0);
  cairn_context_release(context);
}

static void read_model(const char *name, crn_str *out) {
  char path[512];
  snprintf(path, sizeof path, FOLDER "%s.model", name);
  crn_str_initialize(out, NULL);
  assert_int_equal(crn_file_read(path, 1 << 20, out), CAIRN_OK);
}

// Cut off anywhere and with any byte changed, a model loads or is refused with a reason.
static void damaged(void **state) {
  (void)state;
  cairn_context *context = test_context();
  crn_str model;
  size_t refused = 0;
  read_model("bpe", &model);
  for (size_t i = 0; i < model.size; i++) {
    cairn_tokenizer *t;
    cairn_status status = cairn_tokenizer_create_from_sentencepiece(context, model.data, i, "cut", &t);
    refused += status != CAIRN_OK;
    assert_true(status == CAIRN_OK || cairn_last_error()->message[0]);
    cairn_tokenizer_release(t);
    model.data[i] = (char)(model.data[i] ^ (1 << i % 8));
    status = cairn_tokenizer_create_from_sentencepiece(context, model.data, model.size, "changed", &t);
    cairn_tokenizer_release(t);
    model.data[i] = (char)(model.data[i] ^ (1 << i % 8));
  }
  assert_true(refused > model.size / 2);
  crn_str_deinitialize(&model);
  cairn_context_release(context);
}

static void write_file(const char *folder, const char *name, const char *data, size_t bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(crn_file_replace(path, data, bytes), CAIRN_OK);
}

static void expect_ids(cairn_context *context, const char *folder, const char *text, const int32_t *wanted, size_t n_wanted) {
  cairn_tokenizer *t;
  int32_t ids[64];
  size_t n;
  if (cairn_tokenizer_open(context, folder, &t) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  assert_int_equal(cairn_tokenizer_encode(t, text, strlen(text), true, ids, 64, &n), CAIRN_OK);
  assert_int_equal(n, n_wanted);
  assert_memory_equal(ids, wanted, n * sizeof *ids);
  cairn_tokenizer_release(t);
}

// Beside a tokenizer_config.json a model becomes what Transformers makes of it.
static void beside_a_configuration(void **state) {
  (void)state;
  cairn_context *context = test_context();
  char folder[] = "/tmp/cairn-sentencepiece-XXXXXX", command[64];
  crn_str model;
  assert_non_null(mkdtemp(folder));
  read_model("bpe_bytes", &model);
  write_file(folder, "tokenizer.model", model.data, model.size);
  cairn_tokenizer *t;
  assert_int_equal(cairn_tokenizer_open(context, folder, &t), CAIRN_OK);
  assert_string_equal(cairn_tokenizer_role(t, "bos_token"), "<s>");
  int32_t last = cairn_tokenizer_vocab_size(t), a = cairn_tokenizer_id(t, "a");
  cairn_tokenizer_release(t);
  expect_ids(context, folder, "a", &a, 1);
  char config[512];
  snprintf(config, sizeof config,
           "{\"tokenizer_class\":\"LlamaTokenizer\",\"added_tokens_decoder\":{\"%d\":{\"content\":\"<new>\",\"special\":true}}}",
           (int)last);
  write_file(folder, "tokenizer_config.json", config, strlen(config));
  expect_ids(context, folder, "a<new>a</s>", (int32_t[]){1, a, last, a, 2}, 5);
  snprintf(config, sizeof config, "{\"add_bos_token\":false,\"add_eos_token\":true}");
  write_file(folder, "tokenizer_config.json", config, strlen(config));
  expect_ids(context, folder, "a", (int32_t[]){a, 2}, 2);
  // An id that does not follow, and a class whose ids are not those of the model.
  snprintf(config, sizeof config, "{\"added_tokens_decoder\":{\"%d\":{\"content\":\"<new>\"}}}", (int)last + 7);
  write_file(folder, "tokenizer_config.json", config, strlen(config));
  assert_int_equal(cairn_tokenizer_open(context, folder, &t), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "<new>"));
  snprintf(config, sizeof config, "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}");
  write_file(folder, "tokenizer_config.json", config, strlen(config));
  assert_int_equal(cairn_tokenizer_open(context, folder, &t), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "XLMRobertaTokenizer"));
  crn_str_deinitialize(&model);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  cairn_context_release(context);
}

// --- memory runs out -----------------------------------------------------------------------------------------------------

typedef struct failing {
  const cairn_allocator *inner;
  long left;  ///< allocations that still succeed
  long live;
} failing;

static void *failing_alloc(void *self, size_t bytes, size_t align) {
  failing *f = self;
  if (f->left-- <= 0) return NULL;
  f->live++;
  return f->inner->alloc(f->inner->self, bytes, align);
}

static void failing_free(void *self, void *pointer, size_t bytes) {
  failing *f = self;
  f->live--;
  f->inner->free(f->inner->self, pointer, bytes);
}

static cairn_status use_model(cairn_context *context, const crn_str *model) {
  static const char text[] = "Hello <sep>  w\xc3\xb6rld abab";
  cairn_tokenizer *t = NULL;
  cairn_token_span spans[64];
  int32_t ids[64];
  char out[256];
  size_t n, bytes;
  cairn_status status = cairn_tokenizer_create_from_sentencepiece(context, model->data, model->size, "model", &t);
  if (status == CAIRN_OK) status = cairn_tokenizer_encode_offsets(t, text, sizeof text - 1, NULL, 0, true, spans, 64, &n);
  if (status == CAIRN_OK) status = cairn_tokenizer_encode(t, text, sizeof text - 1, true, ids, 64, &n);
  if (status == CAIRN_OK) status = cairn_tokenizer_decode(t, ids, n, false, out, sizeof out, &bytes);
  cairn_tokenizer_release(t);
  return status;
}

static void memory_runs_out(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    crn_str model;
    read_model(names[k], &model);
    cairn_status status = CAIRN_OUT_OF_MEMORY;
    long failures = 0;
    for (long allowed = 0; status != CAIRN_OK; allowed++) {
      failing f = {crn_default_allocator(), 1 << 20, 0};
      const cairn_allocator a = {&f, failing_alloc, failing_free};
      cairn_context_options options;
      cairn_context *context;
      cairn_context_options_initialize(&options);
      options.allocator = &a;
      options.n_threads = 1;
      assert_int_equal(cairn_context_create(&options, &context), CAIRN_OK);
      long before = f.live;
      f.left = allowed;
      status = use_model(context, &model);
      assert_true(status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY);
      assert_int_equal(f.live, before);
      f.left = 1 << 20;
      cairn_context_release(context);
      failures += status != CAIRN_OK;
    }
    assert_true(failures > 10);
    crn_str_deinitialize(&model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models),
      cmocka_unit_test(damaged),
      cmocka_unit_test(beside_a_configuration),
      cmocka_unit_test(memory_runs_out),
  };
  return cmocka_run_group_tests_name("sentencepiece", tests, NULL, NULL);
}
