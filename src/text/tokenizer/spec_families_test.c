// The GGUF families besides byte-level BPE and SentencePiece BPE: small vocabularies, and what they make of a text.
#include "text/tokenizer/spec.h"

#include "text/tokenizer/test_support.h"

enum { MAX_TOKENS = 64 };

typedef struct small {
  crn_tokenizer_spec spec;
  crn_token_text tokens[MAX_TOKENS];
  int32_t types[MAX_TOKENS];
  float scores[MAX_TOKENS];
} small;

/// Normal tokens from texts that end with NULL; those in angle brackets and square brackets are control tokens.
static void fill(small *s, crn_tokenizer_model model, const char *const *texts) {
  crn_tokenizer_spec_initialize(&s->spec);
  s->spec.model = model;
  s->spec.tokens = s->tokens;
  s->spec.types = s->types;
  s->spec.scores = s->scores;
  for (size_t i = 0; texts[i]; i++) {
    size_t n = strlen(texts[i]);
    bool control = n > 2 && (texts[i][0] == '<' || texts[i][0] == '[') && texts[i][1] != '0';
    s->tokens[i] = (crn_token_text){texts[i], n};
    s->types[i] = control ? CRN_TOKEN_CONTROL : texts[i][0] == '<' && n == 6 ? CRN_TOKEN_BYTE : CRN_TOKEN_NORMAL;
    s->scores[i] = -(float)i;
    s->spec.n_tokens = i + 1;
  }
}

static cairn_tokenizer *make(cairn_context *context, const small *s) {
  cairn_tokenizer *t = NULL;
  if (crn_tokenizer_create_from_spec(context, &s->spec, &t) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  return t;
}

static void expect(const cairn_tokenizer *t, const char *text, const char *const *wanted, const char *decoded) {
  int32_t ids[64];
  char out[256];
  size_t n, i = 0;
  assert_int_equal(cairn_tokenizer_encode(t, text, strlen(text), true, ids, 64, &n), CAIRN_OK);
  for (; wanted[i]; i++) {
    assert_true(i < n);
    assert_string_equal(cairn_tokenizer_token(t, ids[i]), wanted[i]);
  }
  assert_int_equal(n, i);
  assert_int_equal(cairn_tokenizer_decode(t, ids, n, true, out, sizeof out, &n), CAIRN_OK);
  assert_int_equal(n, strlen(decoded));
  assert_memory_equal(out, decoded, n);
}

#define LIST(...) \
  (const char *const[]) { __VA_ARGS__, NULL }

static void wordpiece(void **state) {
  (void)state;
  cairn_context *context = test_context();
  small s;
  fill(&s, CRN_TOKENIZER_MODEL_WPM, LIST("[UNK]", "[CLS]", "[SEP]", "\xe2\x96\x81hello", "\xe2\x96\x81w", "o", "rld", "\xe2\x96\x81!"));
  s.spec.unk_id = 0;
  s.spec.bos_id = 1;
  s.spec.eos_id = 2;
  s.spec.add_bos = s.spec.add_eos = true;
  cairn_tokenizer *t = make(context, &s);
  expect(t, "H\xc3\xa9llo  world!", LIST("[CLS]", "hello", "w", "##o", "##rld", "!", "[SEP]"), "hello world!");
  expect(t, "wx [SEP]", LIST("[CLS]", "[UNK]", "[SEP]", "[SEP]"), "");
  cairn_tokenizer_release(t);
  s.spec.lowercase = s.spec.strip_accents = false;
  t = make(context, &s);
  expect(t, "Hello hello", LIST("[CLS]", "[UNK]", "hello", "[SEP]"), "hello");
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void unigram(void **state) {
  (void)state;
  cairn_context *context = test_context();
  small s;
  fill(&s, CRN_TOKENIZER_MODEL_UGM,
       LIST("<unk>", "</s>", "\xe2\x96\x81",
            "\xe2\x96\x81"
            "ab",
            "a", "b", "c"));
  s.types[0] = CRN_TOKEN_UNKNOWN;
  s.spec.unk_id = 0;
  s.spec.eos_id = 1;
  s.spec.add_eos = s.spec.remove_extra_whitespaces = true;
  cairn_tokenizer *t = make(context, &s);
  expect(t, "  ab   c ",
         LIST("\xe2\x96\x81"
              "ab",
              "\xe2\x96\x81", "c", "</s>"),
         "ab c");
  expect(t, "xyb", LIST("\xe2\x96\x81", "<unk>", "b", "</s>"), "b");
  cairn_tokenizer_release(t);
  s.spec.charsmap = "\x04\0\0";
  s.spec.charsmap_bytes = 3;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s.spec, &t), CAIRN_CORRUPT);
  s.spec.scores = NULL;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s.spec, &t), CAIRN_INVALID_ARGUMENT);
  cairn_context_release(context);
}

static void plain_bpe(void **state) {
  (void)state;
  cairn_context *context = test_context();
  small s;
  const crn_token_text merges[] = {{"a b", 3}, {"\xe2\x96\x81 ab", 6}, {"\n \n", 3}};
  fill(&s, CRN_TOKENIZER_MODEL_PLAIN_BPE,
       LIST("<bos>", "a", "b", "\xe2\x96\x81", "ab",
            "\xe2\x96\x81"
            "ab",
            "\n", "\n\n", "\n\n\n", "<0xC3>", "<0xA9>"));
  s.spec.bos_id = 0;
  s.spec.add_bos = true;
  s.spec.merges = merges;
  s.spec.n_merges = 3;
  cairn_tokenizer *t = make(context, &s);
  // Three line ends are a token that no row of merges leads to.
  expect(t, "ab ab\n\n\nb",
         LIST("<bos>", "ab",
              "\xe2\x96\x81"
              "ab",
              "\n\n\n", "b"),
         "ab ab\n\n\nb");
  expect(t, "\n\n\n\n\xc3\xa9", LIST("<bos>", "\n\n", "\n\n", "<0xC3>", "<0xA9>"), "\n\n\n\n\xc3\xa9");
  cairn_tokenizer_release(t);
  cairn_context_release(context);
}

static void greedy(void **state) {
  (void)state;
  cairn_context *context = test_context();
  small s;
  fill(&s, CRN_TOKENIZER_MODEL_RWKV, LIST("<s>", "a", "ab", "abc", "b", "d", "\\xc3", "\\xa9", "\\n", "\\\\"));
  cairn_tokenizer *t = make(context, &s);
  expect(t, "abcabd", LIST("abc", "ab", "d"), "abcabd");
  expect(t, "\xc3\xa9\n\\", LIST("\xc3\x83", "\xc2\xa9", "\xc4\x8a", "\\"), "\xc3\xa9\n\\");
  cairn_tokenizer_release(t);
  s.tokens[1] = (crn_token_text){"\\x4", 3};
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s.spec, &t), CAIRN_CORRUPT);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wordpiece),
      cmocka_unit_test(unigram),
      cmocka_unit_test(plain_bpe),
      cmocka_unit_test(greedy),
  };
  return cmocka_run_group_tests_name("GGUF families", tests, NULL, NULL);
}
