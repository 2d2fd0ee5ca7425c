// Patterns: what they match under Oniguruma must be what the translation matches under PCRE2.
#include "text/tokenizer/regex.h"

#include "text/tokenizer/test_support.h"

/// Cuts a text at its matches and joins the parts with '|'; empty parts show nothing.
static const char *cut(const char *pattern, const char *text) {
  static char out[512];
  crn_regex *regex;
  crn_regex_room *room;
  crn_regex_walk walk;
  size_t last = 0, begin, end;
  bool found;
  if (crn_regex_create(crn_default_allocator(), pattern, strlen(pattern), false, "test", &regex) != CAIRN_OK) {
    fail_msg("%s", cairn_last_error()->message);
  }
  assert_int_equal(crn_regex_room_create(&room), CAIRN_OK);
  crn_regex_walk_begin(&walk, regex, room, text, strlen(text));
  out[0] = 0;
  for (;;) {
    assert_int_equal(crn_regex_walk_next(&walk, &found, &begin, &end), CAIRN_OK);
    if (!found) begin = end = strlen(text);
    if (begin > last) sprintf(out + strlen(out), "%s%.*s", out[0] ? "|" : "", (int)(begin - last), text + last);
    if (end > begin) sprintf(out + strlen(out), "%s%.*s", out[0] ? "|" : "", (int)(end - begin), text + begin);
    if (!found) break;
    last = end;
  }
  crn_regex_room_destroy(room);
  crn_regex_destroy(regex);
  return out;
}

static void tokenizer_patterns(void **state) {
  (void)state;
  const char *gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  assert_string_equal(cut(gpt2, "it's  two\n\n12!"), "it|'s| | two|\n|\n|12|!");
  const char *llama3 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  assert_string_equal(cut(llama3, "IT'LL be 12345 \n x"), "IT|'LL| be| |123|45| \n| x");
  assert_string_equal(cut("[!-/]\\p{L}+|\\p{M}+", "a-bé\xcc\x81"), "a|-bé|\xcc\x81");
}

static void what_differs_from_pcre2(void **state) {
  (void)state;
  assert_string_equal(cut("\\h+", "xAF09 g"), "x|AF09| g");  // hexadecimal digits, no blanks
  assert_string_equal(cut("\\v",
                          "a\x0b"
                          "b\n"),
                      "a|\x0b|b\n");  // one control character, no class
  assert_string_equal(cut("\\s",
                          "a\xe1\xa0\x8e"
                          "b"),
                      "a\xe1\xa0\x8e"
                      "b");  // U+180E is no space
  assert_string_equal(cut("\\w+", "x²y\xcc\x81 z"), "x²y\xcc\x81| |z");
  assert_string_equal(cut("[\\w]+", "x²y"), "x|²|y");              // inside of brackets \w knows less
  assert_string_equal(cut("(?m)a.b", "a\nb"), "a\nb");             // m lets the dot match line ends
  assert_string_equal(cut("^b$", "a\nb\nc"), "a\n|b|\nc");         // anchors are those of lines
  assert_string_equal(cut("\\p{N}{1,3}+", "1234567"), "1234567");  // a plus behind an interval repeats it
  assert_string_equal(cut("x{,2}", "xxx"), "xx|x");
  assert_string_equal(cut("a**b", "aab"), "aab");
  assert_string_equal(cut("a(?i)b|c", "aB C aC"), "aB| C |aC");  // lone options make one group of the rest
  assert_string_equal(cut("\\u0041\\x42", "xABx"), "x|AB|x");
  assert_string_equal(cut("\\Qa\\E", "QaE"), "QaE");
  assert_string_equal(cut("(?<n>a)b", "ab"), "ab");
  assert_string_equal(cut("(?x) a b # comment", "xab"), "x|ab");
  assert_string_equal(cut("\\R", "a\r\nb"), "a|\r\n|b");
}

static void sets(void **state) {
  (void)state;
  assert_string_equal(cut("[a-z&&[^aeiou]]+", "hello"), "h|e|ll|o");
  assert_string_equal(cut("[^a&&[^b]]", "ab"), "a|b");
  assert_string_equal(cut("[\\p{L}&&[^\\p{Lu}]]+", "aBc"), "a|B|c");
  assert_string_equal(cut("[a[^b-z]]", "ab"), "a|b");
  assert_string_equal(cut("[]a]", "x]a"), "x|]|a");
  assert_string_equal(cut("[a-c-e]+", "a-ed"), "a-e|d");
  assert_string_equal(cut("[[:punct:]]+", "a+.b"), "a|+.|b");
  assert_string_equal(cut("[[:^alpha:]]+", "a12b"), "a|12|b");
  assert_string_equal(cut("\\p{^L}+", "a12b"), "a|12|b");
  assert_string_equal(cut("\\p{Punct}+", "a+.b"), "a+|.|b");
  assert_string_equal(cut("[^\\P{L}\\d]+", "a1é"), "a|1|é");
  assert_string_equal(cut("\\p{Han}+", "漢字。"), "漢字|。");
}

static void later_characters(void **state) {
  (void)state;
  assert_string_equal(cut("\\p{S}", "\xf0\x9f\xab\xa8 x"), "\xf0\x9f\xab\xa8| x");      // an emoji of Unicode 15
  assert_string_equal(cut("\\p{L}+", "a\xf0\xb1\x8d\x90 x"), "a\xf0\xb1\x8d\x90| |x");  // an ideograph of Unicode 15
  assert_string_equal(cut("\\P{L}+", "a\xf0\xb1\x8d\x90 x"), "a\xf0\xb1\x8d\x90| |x");
  assert_string_equal(cut("\\p{Cn}", "\xf0\x9f\xab\xa8"), "\xf0\x9f\xab\xa8");
}

static void empty_matches(void **state) {
  (void)state;
  assert_string_equal(cut("", "aé漢"), "a|é|漢");
  assert_string_equal(cut("(?=[A-Z])", "fooBarX"), "foo|Bar|X");
  assert_string_equal(cut("\\b", "ab cd"), "ab| |cd");
  assert_string_equal(cut("a*", "baac"), "b|aa|c");
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *pattern;
    cairn_status status;
  } cases[] = {
      {"(?~ab)", CAIRN_UNSUPPORTED},
      {"(*FAIL)", CAIRN_UNSUPPORTED},
      {"(?C1)a", CAIRN_UNSUPPORTED},
      {"\\X", CAIRN_UNSUPPORTED},
      {"\\k<n>", CAIRN_UNSUPPORTED},
      {"(?<=a+)b", CAIRN_UNSUPPORTED},
      {"(?i:ss)", CAIRN_UNSUPPORTED},
      {"\\p{Nonsense}", CAIRN_UNSUPPORTED},
      {"\\xe3\\x81", CAIRN_UNSUPPORTED},
      {"(?(1)a|b)", CAIRN_UNSUPPORTED},
      {"*a", CAIRN_CORRUPT},
      {"(a", CAIRN_CORRUPT},
      {"a)", CAIRN_CORRUPT},
      {"[a", CAIRN_CORRUPT},
      {"[b-a]", CAIRN_CORRUPT},
      {"[[:foo:]]", CAIRN_CORRUPT},
      {"a\\", CAIRN_CORRUPT},
      {"[a-\\d]", CAIRN_CORRUPT},
      {"\\x{110000}", CAIRN_CORRUPT},
      {"(?s:a)", CAIRN_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_regex *regex = NULL;
    cairn_status status = crn_regex_create(crn_default_allocator(), cases[i].pattern, strlen(cases[i].pattern), false, "test", &regex);
    if (status != cases[i].status) fail_msg("%s: %s", cases[i].pattern, cairn_status_name(status));
    assert_null(regex);
  }
}

static void runaway_patterns_end(void **state) {
  (void)state;
  crn_regex *regex;
  crn_regex_room *room;
  crn_regex_walk walk;
  char text[64];
  bool found;
  size_t begin, end;
  memset(text, 'a', sizeof text);
  assert_int_equal(crn_regex_create(crn_default_allocator(), "(a+)+[bc]", 9, false, "test", &regex), CAIRN_OK);
  assert_int_equal(crn_regex_room_create(&room), CAIRN_OK);
  crn_regex_walk_begin(&walk, regex, room, text, sizeof text);
  assert_int_equal(crn_regex_walk_next(&walk, &found, &begin, &end), CAIRN_FAILED_PRECONDITION);
  crn_regex_room_destroy(room);
  crn_regex_destroy(regex);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokenizer_patterns),   cmocka_unit_test(what_differs_from_pcre2), cmocka_unit_test(sets),
      cmocka_unit_test(later_characters),     cmocka_unit_test(empty_matches),           cmocka_unit_test(refused),
      cmocka_unit_test(runaway_patterns_end),
  };
  return cmocka_run_group_tests_name("tokenizer patterns", tests, NULL, NULL);
}
