// The public calls: buffers, ids, special tokens, what is refused, what happens when memory runs out.
#include "base/alloc.h"
#include "text/tokenizer/test_support.h"

#define FIXTURE CAIRN_TEST_DATA "/tokenizer/smollm2_cut"

// A small file with a bit of everything; the marks are replaced by the tests.
static const char SMALL[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
    "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
    "\"special\":true}],"
    "\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"post_processor\":null,\"decoder\":null,"
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,\"one\":1,\"two\":2,\"three\":3}}}";

static size_t encode(const cairn_tokenizer *t, const char *text, int32_t *out) {
  size_t n;
  assert_int_equal(cairn_tokenizer_encode(t, text, strlen(text), true, out, 16, &n), CAIRN_OK);
  return n;
}

static void ids_and_tokens(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t = test_tokenizer_from(context, SMALL);
  int32_t ids[16];
  assert_int_equal(cairn_tokenizer_vocab_size(t), 5);
  assert_int_equal(cairn_tokenizer_id(t, "two"), 2);
  assert_int_equal(cairn_tokenizer_id(t, "<s>"), 4);
  assert_int_equal(cairn_tokenizer_id(t, "four"), -1);
  assert_string_equal(cairn_tokenizer_token(t, 3), "three");
  assert_null(cairn_tokenizer_token(t, 5));
  assert_null(cairn_tokenizer_token(t, -1));
  assert_true(cairn_tokenizer_is_special(t, 4));
  assert_false(cairn_tokenizer_is_special(t, 3));
  assert_int_equal(encode(t, "ONE four <s>Two", ids), 4);
  assert_int_equal(ids[0], 1);
  assert_int_equal(ids[1], 0);
  assert_int_equal(ids[2], 4);
  assert_int_equal(ids[3], 2);
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void buffers_too_small(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t = test_tokenizer_from(context, SMALL);
  int32_t ids[3] = {7, 7, 7};
  char text[8] = "zzzzzzz";
  size_t n;
  assert_int_equal(cairn_tokenizer_encode(t, "one two three", 13, true, ids, 2, &n), CAIRN_OK);
  assert_int_equal(n, 3);
  assert_int_equal(ids[1], 2);
  assert_int_equal(ids[2], 7);
  assert_int_equal(cairn_tokenizer_encode(t, "one two three", 13, true, NULL, 0, &n), CAIRN_OK);
  assert_int_equal(n, 3);
  assert_int_equal(cairn_tokenizer_decode(t, (int32_t[]){1, 2}, 2, false, text, 5, &n), CAIRN_OK);
  assert_int_equal(n, 7);
  assert_memory_equal(text, "one tzz", 7);
  assert_int_equal(cairn_tokenizer_encode(t, NULL, 3, true, ids, 3, &n), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_tokenizer_encode(t, "x", 1, true, NULL, 3, &n), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_tokenizer_encode(t, NULL, 0, true, ids, 3, &n), CAIRN_OK);
  assert_int_equal(n, 0);
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void malformed_text_and_foreign_ids(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t;
  int32_t a[16], b[16];
  char text[16];
  size_t n;
  assert_int_equal(cairn_tokenizer_open(context, FIXTURE, &t), CAIRN_OK);
  size_t na = encode(t, "a\xff\xe2\x82z", a), nb = encode(t, "a\xef\xbf\xbd\xef\xbf\xbdz", b);
  assert_int_equal(na, nb);
  assert_memory_equal(a, b, na * sizeof *a);
  assert_int_equal(cairn_tokenizer_decode(t, (int32_t[]){-1, 1 << 30, cairn_tokenizer_id(t, "a")}, 3, false, text, 16, &n), CAIRN_OK);
  assert_int_equal(n, 1);
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void streaming_holds_back_incomplete_characters(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t;
  cairn_detokenizer *d;
  const char *text;
  size_t n;
  assert_int_equal(cairn_tokenizer_open(context, FIXTURE, &t), CAIRN_OK);
  assert_int_equal(cairn_detokenizer_create(t, true, &d), CAIRN_OK);
  // U+20AC is the bytes e2 82 ac, which the byte-level alphabet writes as three characters.
  const int32_t euro[] = {cairn_tokenizer_id(t, "\xc3\xa2"), cairn_tokenizer_id(t, "\xc4\xa4"), cairn_tokenizer_id(t, "\xc2\xac")};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++) {
      assert_int_equal(cairn_detokenizer_push(d, euro[i], &text, &n), CAIRN_OK);
      assert_int_equal(n, i < 2 ? 0 : 3);
    }
    assert_memory_equal(text, "\xe2\x82\xac", 3);
    assert_int_equal(cairn_detokenizer_push(d, euro[0], &text, &n), CAIRN_OK);
    assert_int_equal(cairn_detokenizer_push(d, 0, &text, &n), CAIRN_OK);  // a special token, left out
    assert_int_equal(n, 0);
    assert_int_equal(cairn_detokenizer_finish(d, &text, &n), CAIRN_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "\xef\xbf\xbd", 3);
  }
  cairn_detokenizer_destroy(d);
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void roles(void **state) {
  (void)state;
  const char *folder = CAIRN_SHARED_DATA "/models/smollm2-4bit-macos/tokenizer";
  if (!test_file_exists(CAIRN_SHARED_DATA "/models/smollm2-4bit-macos/tokenizer/tokenizer.json")) skip();
  cairn_context *context = test_context();
  cairn_tokenizer *t;
  assert_int_equal(cairn_tokenizer_open(context, folder, &t), CAIRN_OK);
  assert_string_equal(cairn_tokenizer_role(t, "eos_token"), "<|im_end|>");
  assert_int_equal(cairn_tokenizer_id(t, cairn_tokenizer_role(t, "eos_token")), 2);
  assert_null(cairn_tokenizer_role(t, "first_token"));
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

// --- refused files ---------------------------------------------------------------------------------------------------

/// SMALL with its first `old` replaced.
static char *small_with(const char *old, const char *fresh) {
  const char *at = strstr(SMALL, old);
  assert_non_null(at);
  char *out = malloc(sizeof SMALL + strlen(fresh));
  sprintf(out, "%.*s%s%s", (int)(at - SMALL), SMALL, fresh, at + strlen(old));
  return out;
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *old, *fresh;
    cairn_status status;
    const char *says;
  } cases[] = {
      {"\"Lowercase\"", "\"Uppercase\"", CAIRN_UNSUPPORTED, "Uppercase"},
      {"\"WhitespaceSplit\"", "\"Mecab\"", CAIRN_UNSUPPORTED, "Mecab"},
      {"\"post_processor\":null", "\"post_processor\":{\"type\":\"Xyz\"}", CAIRN_UNSUPPORTED, "Xyz"},
      {"\"decoder\":null", "\"decoder\":{\"type\":\"Morse\"}", CAIRN_UNSUPPORTED, "Morse"},
      {"\"WordLevel\"", "\"Neural\"", CAIRN_UNSUPPORTED, "Neural"},
      {"\"1.0\"", "\"2.0\"", CAIRN_UNSUPPORTED, "2.0"},
      {"\"three\":3", "\"three\":-3", CAIRN_CORRUPT, "three"},
      {"\"three\":3", "\"three\":4000000000", CAIRN_UNSUPPORTED, "three"},
      {"\"unk_token\":\"[UNK]\",", "", CAIRN_CORRUPT, "unk_token"},
      {"\"special\":true", "\"special\":1", CAIRN_CORRUPT, "special"},
      {"\"truncation\":null", "\"truncation\":{\"max_length\":4,\"strategy\":\"Random\",\"stride\":0}", CAIRN_UNSUPPORTED, "Random"},
      {"\"padding\":null", "\"padding\":{\"strategy\":{\"Fixed\":99999999999}}", CAIRN_UNSUPPORTED, "padding"},
      {"{\"type\":\"WhitespaceSplit\"}",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?~a)\"},\"behavior\":\"Isolated\",\"invert\":false}", CAIRN_UNSUPPORTED, "(?~a)"},
      {"\"post_processor\":null",
       "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"X\",\"type_id\":0}}],\"pair\":[],"
       "\"special_tokens\":{}}",
       CAIRN_CORRUPT, "'X'"},
  };
  cairn_context *context = test_context();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *json = small_with(cases[i].old, cases[i].fresh);
    cairn_tokenizer *t = NULL;
    cairn_status status = cairn_tokenizer_create_from_json(context, json, strlen(json), "file", &t);
    if (status != cases[i].status || !strstr(cairn_last_error()->message, cases[i].says)) {
      fail_msg("%s: %s: %s", cases[i].fresh, cairn_status_name(status), cairn_last_error()->message);
    }
    assert_null(t);
    free(json);
  }
  cairn_tokenizer *t;
  assert_int_equal(cairn_tokenizer_open(context, CAIRN_TEST_DATA "/no such place", &t), CAIRN_NOT_FOUND);
  assert_int_equal(cairn_tokenizer_create_from_json(context, "{}", 2, NULL, &t), CAIRN_CORRUPT);
  cairn_context_release(context);
}

static char *read_text(const char *path, size_t *out_bytes) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char *text = malloc(1 << 20);
  *out_bytes = fread(text, 1, 1 << 20, f);
  fclose(f);
  return text;
}

// Whatever a damaged file holds, loading gives a status, and what loads can be used.
static void damaged_files(void **state) {
  (void)state;
  static const char *const names[] = {"smollm2_cut", "minilm_cut", "llama2_cut", "clip_cut", "xlmr_cut"};
  cairn_context *context = test_context();
  uint32_t seed = 1;
  size_t loaded = 0;
  for (size_t k = 0; k < 5; k++) {
    char path[512];
    size_t bytes;
    snprintf(path, sizeof path, "%s/tokenizer/%s/tokenizer.json", CAIRN_TEST_DATA, names[k]);
    char *text = read_text(path, &bytes), *copy = malloc(bytes);
    for (int round = 0; round < 120; round++) {
      size_t n = round < 40 ? bytes * (size_t)round / 40 : bytes;
      memcpy(copy, text, bytes);
      for (int flips = round < 40 ? 0 : 1 + round % 3; flips; flips--) {
        seed = seed * 1664525u + 1013904223u;
        copy[(seed >> 8) % bytes] = "0123456789{}[]\",:xtn-"[seed % 21];
      }
      cairn_tokenizer *t = NULL;
      if (cairn_tokenizer_create_from_json(context, copy, n, "damaged", &t) != CAIRN_OK) continue;
      int32_t ids[64];
      size_t n_ids, n_text;
      char out[256];
      loaded++;
      if (cairn_tokenizer_encode(t, "Hello <s> w\xc3\xb6rld 12\n", 19, true, ids, 64, &n_ids) == CAIRN_OK) {
        cairn_tokenizer_decode(t, ids, n_ids < 64 ? n_ids : 64, false, out, sizeof out, &n_text);
      }
      cairn_tokenizer_release(t);
    }
    free(text);
    free(copy);
  }
  assert_true(loaded > 20);
  cairn_context_release(context);
}

// --- running out of memory ---------------------------------------------------------------------------------------------

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

static cairn_status use_all(cairn_context *context, const char *json, size_t bytes) {
  cairn_tokenizer *t;
  int32_t ids[64];
  char text[256];
  size_t n, n_text;
  CRN_TRY(cairn_tokenizer_create_from_json(context, json, bytes, "oom", &t));
  cairn_status status = cairn_tokenizer_encode_pair(t, "Hello <|im_start|> W\xc3\x96RLD", 26, "x", 1, true, ids, NULL, 64, &n);
  if (status == CAIRN_OK) status = cairn_tokenizer_decode(t, ids, n, false, text, sizeof text, &n_text);
  cairn_tokenizer_release(t);
  return status;
}

static void memory_runs_out(void **state) {
  (void)state;
  static const char *const names[] = {"smollm2_cut", "minilm_cut", "llama2_cut", "xlmr_cut"};
  for (size_t k = 0; k < 4; k++) {
    char path[512];
    size_t bytes;
    snprintf(path, sizeof path, "%s/tokenizer/%s/tokenizer.json", CAIRN_TEST_DATA, names[k]);
    char *text = read_text(path, &bytes);
    cairn_status status = CAIRN_OUT_OF_MEMORY;
    long step = 1, failures = 0;
    for (long allowed = 0; status != CAIRN_OK; allowed += step) {
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
      status = use_all(context, text, bytes);
      assert_true(status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY);
      assert_int_equal(f.live, before);
      f.left = 1 << 20;
      cairn_context_release(context);
      assert_int_equal(f.live, 0);
      failures += status != CAIRN_OK;
    }
    assert_true(failures > 20);
    free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_and_tokens),
      cmocka_unit_test(buffers_too_small),
      cmocka_unit_test(malformed_text_and_foreign_ids),
      cmocka_unit_test(streaming_holds_back_incomplete_characters),
      cmocka_unit_test(roles),
      cmocka_unit_test(refused),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test(memory_runs_out),
  };
  return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
