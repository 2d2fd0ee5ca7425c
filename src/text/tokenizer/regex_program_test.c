// A program must cut every text exactly where PCRE2 cuts it.
#include "text/tokenizer/regex_program.h"

#include "base/str.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/test_support.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACE_TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

/// The patterns of real tokenizers, and some that ask for giving back.
static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACE_TAIL,
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACE_TAIL,
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACE_TAIL,
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE_TAIL,
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACE_TAIL,
    "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+",
    "\\p{N}{1,3}",
    "\\p{N}",
    " ?[^(\\s|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+",
    "[\\p{P}\\$\\+<=>\\^~\\|`]+",
    "\\s+",
    " {2,}",
    "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+",
    "\\w+|[^\\w\\s]+",
    "\\w{2,4}\\d|\\w+1(?!\\d)|\\s(?=\\S)",
    "(?i:K|sx)x|[a-zA-Z]+ing|[a-z]*e[a-z]*(?:ab|c)?d",
};

enum { N_PATTERNS = sizeof patterns / sizeof *patterns };

static crn_regex *compile(const char *pattern) {
  crn_regex *regex;
  if (crn_regex_create(crn_default_allocator(), pattern, strlen(pattern), false, "test", &regex) != CAIRN_OK) {
    fail_msg("%s", cairn_last_error()->message);
  }
  return regex;
}

static void compare(const crn_regex *fast, const crn_regex *slow, crn_regex_room *room, const char *pattern, const char *text,
                    size_t bytes) {
  crn_regex_walk a, b;
  bool found_a = true, found_b = true;
  crn_regex_walk_begin(&a, fast, room, text, bytes);
  crn_regex_walk_begin(&b, slow, room, text, bytes);
  while (found_a) {
    size_t begin_a = 0, end_a = 0, begin_b = 0, end_b = 0;
    assert_int_equal(crn_regex_walk_next(&a, &found_a, &begin_a, &end_a), CAIRN_OK);
    assert_int_equal(crn_regex_walk_next(&b, &found_b, &begin_b, &end_b), CAIRN_OK);
    if (found_a == found_b && (!found_a || (begin_a == begin_b && end_a == end_b))) continue;
    fail_msg("'%s' on '%.*s': %d %zu-%zu, PCRE2 %d %zu-%zu", pattern, (int)bytes, text, found_a, begin_a, end_a, found_b, begin_b, end_b);
  }
}

static uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/// A character out of what the patterns tell apart, or any at all.
static uint32_t random_char(uint64_t *state) {
  static const char *const common = "  \n\r\t''''sStTmMdDrReEvVlLaAkKxgnibc019/!.,-(|_";
  static const uint32_t rare[] = {0x17f,   0x212a, 0xe9,   0xc9,   0x301, 0x2b0,   0x1c5,   0x4e00, 0x3042,  0x30a2, 0xac00,
                                  0x660,   0xbd,   0xb2,   0x2167, 0xa0,  0x2003,  0x3000,  0x200d, 0x1f600, 0x903,  0x20000,
                                  0x1d7d8, 0xe000, 0xfffd, 0x2028, 0x85,  0x16d6b, 0x1171e, 0x5d0,  0x430,   0x410};
  uint64_t r = random_bits(state);
  if (r % 8 < 5) return (unsigned char)common[(r >> 8) % strlen(common)];
  if (r % 8 < 7) return rare[(r >> 8) % (sizeof rare / sizeof *rare)];
  uint32_t code = (uint32_t)(r >> 8) % ((r >> 4) % 2 ? 0x110000 : 0x3000);
  return code >= 0xd800 && code < 0xe000 ? 0xfffd : code;
}

static void random_texts(void **state) {
  (void)state;
  crn_regex_room *room;
  uint64_t seed = 4;
  assert_int_equal(crn_regex_room_create(&room), CAIRN_OK);
  for (int k = 0; k < N_PATTERNS; k++) {
    crn_regex *fast = compile(patterns[k]), *slow = compile(patterns[k]);
    assert_int_equal(crn_regex_prepare(fast), CAIRN_OK);
    if (!crn_regex_is_fast(fast)) fail_msg("'%s' is no program", patterns[k]);
    for (int i = 0; i < 20000; i++) {
      char text[160];
      size_t n = 0;
      // Some texts hold few different characters, so that long runs come about.
      uint32_t few[3] = {random_char(&seed), random_char(&seed), random_char(&seed)};
      for (uint64_t length = random_bits(&seed) % 36; length > 0; length--) {
        n += (size_t)crn_utf8_encode(i % 3 ? random_char(&seed) : few[random_bits(&seed) % 3], text + n);
      }
      compare(fast, slow, room, patterns[k], text, n);
    }
    crn_regex_destroy(fast);
    crn_regex_destroy(slow);
  }
  crn_regex_room_destroy(room);
}

static void every_character(void **state) {
  (void)state;
  enum { ROOM = 10 * 0x110000 };
  crn_regex_room *room;
  char *text = malloc(ROOM);
  size_t n = 0;
  assert_non_null(text);
  assert_int_equal(crn_regex_room_create(&room), CAIRN_OK);
  for (uint32_t c = 0; c < 0x110000; c++) {
    if (c >= 0xd800 && c < 0xe000) continue;
    // A letter, a digit or nothing between characters shows where each belongs.
    n += (size_t)crn_utf8_encode(c, text + n);
    if (c % 4) text[n++] = " a7"[c % 4 - 1];
  }
  for (int k = 0; k < 9; k++) {
    crn_regex *fast = compile(patterns[k]), *slow = compile(patterns[k]);
    assert_int_equal(crn_regex_prepare(fast), CAIRN_OK);
    compare(fast, slow, room, patterns[k], text, n);
    crn_regex_destroy(fast);
    crn_regex_destroy(slow);
  }
  crn_regex_room_destroy(room);
  free(text);
}

static void others_stay_with_pcre2(void **state) {
  (void)state;
  static const char *const foreign[] = {"a*",        "^a",      "a$",        "a.",         "(a)\\1", "a+?",      "(?:a+)b", "(?:ab){2}",
                                        "(?<=a)b",   "\\bword", "(?!a)",     "a|",         "(?>a)b", "(?:a|)b",  "\\R",     "[a-z&&[^e]]",
                                        "\\p{Mn}+x", "a{2}{3}", "(?i)words", "(?:(?:a))b", "\\Aa",   "(?:abcde)"};
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    crn_regex *regex = compile(foreign[i]);
    assert_int_equal(crn_regex_prepare(regex), CAIRN_OK);
    if (crn_regex_is_fast(regex)) fail_msg("'%s' must not be a program", foreign[i]);
    crn_regex_destroy(regex);
  }
}

/// A pattern that looks at a long run again and again is left to PCRE2, whatever it says about that.
static void long_runs(void **state) {
  (void)state;
  enum { LENGTH = 20000 };
  crn_regex_room *room;
  char *text = malloc(LENGTH);
  size_t begin, end;
  bool found;
  assert_non_null(text);
  memset(text, 'A', LENGTH);
  assert_int_equal(crn_regex_room_create(&room), CAIRN_OK);
  crn_regex *regex = compile("[A-Z]*[A-C]+[A-D]*1|[A-Z]+");
  assert_int_equal(crn_regex_prepare(regex), CAIRN_OK);
  assert_true(crn_regex_is_fast(regex));
  crn_regex_walk walk;
  crn_regex_walk_begin(&walk, regex, room, text, 1000);
  assert_int_equal(crn_regex_walk_next(&walk, &found, &begin, &end), CAIRN_OK);
  assert_true(found && begin == 0 && end == 1000);
  crn_regex_walk_begin(&walk, regex, room, text, LENGTH);
  cairn_status status = crn_regex_walk_next(&walk, &found, &begin, &end);
  assert_true(status == CAIRN_FAILED_PRECONDITION || (status == CAIRN_OK && found && end == LENGTH));
  crn_regex_destroy(regex);
  crn_regex_room_destroy(room);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_texts),
      cmocka_unit_test(every_character),
      cmocka_unit_test(others_stay_with_pcre2),
      cmocka_unit_test(long_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
