// Loops give every index to one worker, whatever their size, the number of workers and what is announced behind them.
#include "base/pool.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdatomic.h>
#include <string.h>

enum { MOST = 1000, THREADS = 5 };

typedef struct counts {
  _Atomic int times[MOST];
  int64_t n;
  _Atomic int wrong;
} counts;

static void count(void *user, int64_t begin, int64_t end, int worker) {
  counts *c = user;
  if (begin < 0 || begin >= end || end > c->n || worker < 0 || worker >= THREADS) {
    atomic_fetch_add(&c->wrong, 1);
    return;
  }
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->times[i], 1);
}

static void check_loop(crn_pool *pool, counts *c, int64_t n, int64_t grain, const crn_pool_ahead *ahead) {
  memset((void *)c, 0, sizeof *c);
  c->n = n;
  crn_pool_run_before(pool, n, grain, count, c, ahead);
  assert_int_equal(c->wrong, 0);
  for (int64_t i = 0; i < MOST; i++) assert_int_equal(c->times[i], i < n ? 1 : 0);
}

static void test_every_index_once(void **state) {
  (void)state;
  static counts c;
  crn_pool *pool;
  for (int threads = 1; threads <= THREADS; threads++) {
    assert_int_equal(crn_pool_create(crn_default_allocator(), threads, &pool), CAIRN_OK);
    for (int64_t n = 1; n <= MOST; n = n * 7 / 4 + 1) {
      for (int64_t grain = 0; grain <= 40; grain = grain * 3 + 1) check_loop(pool, &c, n, grain, NULL);
    }
    crn_pool_destroy(pool);
  }
}

// Memory that is announced is only asked for: it may be gone, and the loop may never come.
static void test_announcements_are_hints(void **state) {
  (void)state;
  static counts c;
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), THREADS, &pool), CAIRN_OK);
  const crn_pool_ahead hints[] = {{NULL, 64, 100, 1}, {(const void *)(uintptr_t)64, 4096, 100, 1}, {&c, 0, 5, 0}, {&c, 64, 0, 1}};
  for (int round = 0; round < 200; round++) check_loop(pool, &c, MOST - round, 1, &hints[round % 4]);
  crn_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_index_once), cmocka_unit_test(test_announcements_are_hints)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
