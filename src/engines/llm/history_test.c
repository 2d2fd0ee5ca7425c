#include "engines/llm/history.h"

#include "engines/llm/test_folder.h"

static void make(crn_history *h, const int32_t *tokens, int64_t n) {
  crn_history_initialize(h, crn_default_allocator());
  test_expect(crn_history_append(h, tokens, n), CAIRN_OK, "");
}

static void test_common_prefix(void **state) {
  (void)state;
  crn_history h;
  make(&h, (const int32_t[]){1, 2, 3}, 3);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){1, 2, 3, 4}, 4), 3);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){1, 9}, 2), 1);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){1, 2}, 2), 2);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){1, 2, 3}, 3), 3);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){9}, 1), 0);
  assert_int_equal(crn_history_common_prefix(&h, NULL, 0), 0);
  crn_history_deinitialize(&h);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){1}, 1), 0);
}

static void test_truncate(void **state) {
  (void)state;
  crn_history h;
  make(&h, (const int32_t[]){1, 2, 3}, 3);
  crn_history_truncate(&h, 10);
  assert_int_equal(h.n, 3);
  crn_history_truncate(&h, 2);
  assert_int_equal(h.n, 2);
  test_expect(crn_history_append(&h, (const int32_t[]){7}, 1), CAIRN_OK, "");
  assert_int_equal(h.tokens[2], 7);
  crn_history_truncate(&h, 0);
  assert_int_equal(crn_history_common_prefix(&h, (const int32_t[]){1}, 1), 0);
  crn_history_deinitialize(&h);
}

static void test_growth(void **state) {
  (void)state;
  crn_history h;
  make(&h, NULL, 0);
  for (int32_t i = 0; i < 1000; i++) test_expect(crn_history_append(&h, &i, 1), CAIRN_OK, "");
  for (int32_t i = 0; i < 1000; i++) assert_int_equal(h.tokens[i], i);
  test_expect(crn_history_reserve(&h, INT64_MAX), CAIRN_OUT_OF_MEMORY, "");
  assert_int_equal(h.n, 1000);
  crn_history_deinitialize(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_common_prefix), cmocka_unit_test(test_truncate), cmocka_unit_test(test_growth)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
