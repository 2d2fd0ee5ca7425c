// The way that leaves the byte-level alphabet out must give the ids of the way that writes it, and composed text must be
// what normalizing it gives.
#include "text/tokenizer/models/raw.h"

#include <utf8proc.h>

#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/test_support.h"
#include "text/tokenizer/unicode.h"

enum { MOST_IDS = 1 << 16 };

static uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/// Words of many lengths out of few characters, so that they come again, with long runs in between.
static size_t random_text(uint64_t *state, char *out, size_t most) {
  static const uint32_t chars[] = {'a', 'b', 'c', 'e', 't', 'h', ' ', ' ', '\n', '1', '2', '.', '\'', 0xe9, 0x416, 0x4e2d, 0x1f600, 0x301};
  size_t n = 0;
  while (n + 200 < most) {
    uint64_t r = random_bits(state);
    size_t times = r % 64 ? 1 : 1 + (r >> 8) % 40;
    uint32_t code = chars[(r >> 16) % (sizeof chars / sizeof *chars)];
    for (size_t i = 0; i < times; i++) n += (size_t)crn_utf8_encode(code, out + n);
  }
  return n;
}

static void compare_ways(cairn_tokenizer *t, const char *what) {
  static int32_t raw[MOST_IDS], mapped[MOST_IDS];
  static char text[20000];
  uint64_t seed = 7;
  size_t n_raw, n_mapped;
  assert_true(t->raw);
  for (int i = 0; i < 300; i++) {
    // The last texts are long enough to be cut by programs instead of PCRE2.
    size_t bytes = random_text(&seed, text, i < 290 ? 300 + (size_t)i * 4 : sizeof text);
    t->raw = true;
    assert_int_equal(cairn_tokenizer_encode(t, text, bytes, false, raw, MOST_IDS, &n_raw), CAIRN_OK);
    t->raw = false;
    // What the other way has remembered is spelled in other bytes.
    crn_leftovers *leftovers = t->leftovers;
    t->leftovers = NULL;
    assert_int_equal(cairn_tokenizer_encode(t, text, bytes, false, mapped, MOST_IDS, &n_mapped), CAIRN_OK);
    t->leftovers = leftovers;
    t->raw = true;
    if (n_raw != n_mapped || memcmp(raw, mapped, n_raw * sizeof *raw)) fail_msg("%s: the ids of '%.*s' differ", what, (int)bytes, text);
  }
}

/// Pieces of words, two of them in two ways; not every byte has a token, and one word is a token no merge leads to.
static void small_vocabulary(void **state) {
  (void)state;
  cairn_context *context = test_context();
  for (int i = 0; i < 4; i++) {
    char json[2048];
    snprintf(json, sizeof json,
             "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,"
             "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"BPE\","
             "\"unk_token\":%s,\"ignore_merges\":%s,\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"e\":3,\"t\":4,\"h\":5,\"\\u0120\":6,\"ab\":7,"
             "\"aba\":8,\"ba\":9,\"th\":10,\"the\":11,\"\\u0120the\":12,\"\\u0120t\":13,\"aa\":14,\"aaaa\":15,\"?\":16,\"\\u00c3\":17,"
             "\"\\u00a9\":18,\"\\u00c3\\u00a9\":19,\"cab\":20,\"\\u0120abc\":21},\"merges\":[\"a b\",\"ab a\",\"b a\",\"t h\",\"th e\","
             "\"\\u0120 t\",\"\\u0120 the\",\"a a\",\"aa aa\",\"\\u00c3 \\u00a9\",\"a ba\",\"c ab\"]}}",
             i & 1 ? "true" : "false", i & 2 ? "\"?\"" : "null", i & 1 ? "true" : "false");
    cairn_tokenizer *t = test_tokenizer_from(context, json);
    compare_ways(t, "small vocabulary");
    cairn_tokenizer_release(t);
  }
  cairn_context_release(context);
}

static void shared_vocabularies(void **state) {
  (void)state;
#ifdef CAIRN_SHARED_DATA
  static const char *const names[] = {"smollm2", "qwen", "llama3", "o200k", "gpt2", "deepseek", "roberta", "added_tokens"};
  cairn_context *context = test_context();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/corpus/tokenizer/%s/tokenizer.json", CAIRN_SHARED_DATA, names[i]);
    if (!test_file_exists(path)) skip();
    cairn_tokenizer *t;
    assert_int_equal(cairn_tokenizer_open(context, path, &t), CAIRN_OK);
    compare_ways(t, names[i]);
    cairn_tokenizer_release(t);
  }
  cairn_context_release(context);
#else
  skip();
#endif
}

static void composed_characters(void **state) {
  (void)state;
  static bool joins[0x110000];
  // What a character can be joined with is the second part of what some character decomposes into.
  for (uint32_t c = 0x80; c < 0x110000; c++) {
    utf8proc_int32_t parts[32];
    if (c >= 0xd800 && c < 0xe000) continue;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32, UTF8PROC_DECOMPOSE, NULL);
    assert_true(n > 0 && n <= 32);
    for (utf8proc_ssize_t i = 1; i < n; i++) joins[parts[i]] = true;
  }
  size_t n_composed = 0;
  for (uint32_t c = 0; c < 0x110000; c++) {
    if ((c >= 0xd800 && c < 0xe000) || !crn_is_composed(c)) continue;
    n_composed++;
    utf8proc_int32_t text[40] = {(utf8proc_int32_t)c};
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, text, 32, UTF8PROC_DECOMPOSE, NULL);
    n = utf8proc_normalize_utf32(text, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (n != 1 || text[0] != (utf8proc_int32_t)c) fail_msg("U+%04X does not stay as it is", (unsigned)c);
    // Marks that are newer than the reference are no marks to it.
    if (crn_is_combining_mark(c) && utf8proc_get_property((utf8proc_int32_t)c)->combining_class)
      fail_msg("U+%04X is put in order", (unsigned)c);
    if (joins[c]) fail_msg("U+%04X can be joined with what stands before it", (unsigned)c);
  }
  assert_true(n_composed > 1000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_vocabulary),
      cmocka_unit_test(shared_vocabularies),
      cmocka_unit_test(composed_characters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
