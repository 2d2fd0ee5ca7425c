#include "tools/bench_prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check(uint64_t seed, int64_t vocab, const int32_t *wanted, size_t n) {
  int32_t ids[8];
  crn_bench_prompt(seed, vocab, (int64_t)n, ids);
  assert_memory_equal(ids, wanted, n * sizeof *wanted);
}

// The ids of the specification.
static void test_known_ids(void **state) {
  static const int32_t large[] = {85364, 125647, 54380, 55707, 111594, 46817}, small[] = {0, 79, 44, 47, 90, 13, 40, 99},
                       seeded[] = {28519, 10590, 20235, 24761, 18048, 27045}, only[] = {0, 0, 0};
  (void)state;
  check(0, 151936, large, 6);
  check(0, 100, small, 8);
  check(1, 32000, seeded, 6);
  check(UINT64_MAX, 1, only, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_ids)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
