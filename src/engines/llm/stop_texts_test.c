#include "engines/llm/stop_texts.h"

#include "engines/llm/test_folder.h"

// Feeds `text` in pieces of `size` bytes. Returns what came out; the match is in `*out_match`.
static const char *feed(const char *const *stops, int n, const char *text, size_t size, int *out_match) {
  static char given[256];
  crn_stop_texts s;
  crn_str out;
  crn_str_initialize(&out, NULL);
  test_expect(crn_stop_texts_initialize(&s, crn_default_allocator(), stops, n), CAIRN_OK, "");
  *out_match = -1;
  for (size_t at = 0, total = strlen(text); at < total && *out_match < 0; at += size) {
    test_expect(crn_stop_texts_push(&s, text + at, size < total - at ? size : total - at, &out, out_match), CAIRN_OK, "");
  }
  if (*out_match < 0) test_expect(crn_stop_texts_flush(&s, &out), CAIRN_OK, "");
  snprintf(given, sizeof given, "%s", out.data);
  crn_stop_texts_deinitialize(&s);
  crn_str_deinitialize(&out);
  return given;
}

// Whatever the size of the pieces, the result is the same.
static void expect(const char *const *stops, int n, const char *text, const char *given, int match) {
  for (size_t size = 1; size <= strlen(text) + 1; size++) {
    int found;
    assert_string_equal(feed(stops, n, text, size, &found), given);
    assert_int_equal(found, match);
  }
}

static void test_matches(void **state) {
  (void)state;
  const char *const stops[] = {"</end>", "STOP", "a\n\nb"};
  expect(stops, 3, "hello </end> more", "hello ", 0);
  expect(stops, 3, "hello </en", "hello </en", -1);
  expect(stops, 3, "<<</end>", "<<", 0);
  expect(stops, 3, "SSTOP", "S", 1);
  expect(stops, 3, "STOSTOP", "STO", 1);
  expect(stops, 3, "xa\n\nb", "x", 2);
  expect(stops, 3, "a\n\nc", "a\n\nc", -1);
  expect(stops, 0, "any</end>", "any</end>", -1);
  expect(stops, 1, "", "", -1);
}

static void test_overlaps(void **state) {
  (void)state;
  const char *const stops[] = {"ab", "abc", "bc", "xabc"};
  // The one complete first wins; of several that end at one place, the longest.
  expect(stops, 3, "-abc", "-", 0);
  expect(stops + 1, 3, "-xabc", "-", 2);
  expect(stops + 2, 1, "-abc", "-a", 0);
  const char *const nested[] = {"aab"};
  expect(nested, 1, "aaab", "a", 0);
  expect(nested, 1, "aaaa", "aaaa", -1);
}

static void test_hold_back(void **state) {
  (void)state;
  const char *const stops[] = {"<think>"};
  crn_stop_texts s;
  crn_str out;
  int match;
  crn_str_initialize(&out, NULL);
  test_expect(crn_stop_texts_initialize(&s, crn_default_allocator(), stops, 1), CAIRN_OK, "");
  test_expect(crn_stop_texts_push(&s, "ab<thi", 6, &out, &match), CAIRN_OK, "");
  assert_string_equal(out.data, "ab");
  test_expect(crn_stop_texts_push(&s, "s", 1, &out, &match), CAIRN_OK, "");
  assert_string_equal(out.data, "ab<this");
  test_expect(crn_stop_texts_push(&s, "<", 1, &out, &match), CAIRN_OK, "");
  assert_string_equal(out.data, "ab<this");
  test_expect(crn_stop_texts_flush(&s, &out), CAIRN_OK, "");
  assert_string_equal(out.data, "ab<this<");
  crn_stop_texts_deinitialize(&s);
  crn_str_deinitialize(&out);
}

static void test_refusals(void **state) {
  (void)state;
  crn_stop_texts s;
  const char *const empty[] = {"a", ""}, *const null[] = {NULL};
  test_expect(crn_stop_texts_initialize(&s, crn_default_allocator(), empty, 2), CAIRN_INVALID_ARGUMENT, "stop text 1 is empty");
  test_expect(crn_stop_texts_initialize(&s, crn_default_allocator(), null, 1), CAIRN_INVALID_ARGUMENT, "stop text 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches), cmocka_unit_test(test_overlaps), cmocka_unit_test(test_hold_back),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
