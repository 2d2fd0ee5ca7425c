#include "backend/cpu/ref/move.h"

#include "backend/cpu/ref/ref_testing.h"

enum { ROOM = 1 << 14 };

typedef struct random_move {
  int rank;
  int64_t dims[CRN_MOVE_MAX_RANK], from[CRN_MOVE_MAX_RANK], to[CRN_MOVE_MAX_RANK], from_start, to_start;
} random_move;

// A target that uses each place at most once: a permuted, possibly reversed and spaced row-major layout. The source may
// repeat elements.
static random_move random_case(uint32_t *seed) {
  random_move m = {.rank = (int)(test_random(seed) % 6)};
  int order[CRN_MOVE_MAX_RANK];
  int64_t from_step = 1, to_step = 1 + test_random(seed) % 2;
  for (int i = 0; i < m.rank; i++) {
    order[i] = i;
    m.dims[i] = test_random(seed) % 5 + (test_random(seed) % 4 == 0 ? 0 : 1);
  }
  for (int i = m.rank - 1; i > 0 && test_random(seed) % 2; i--) {
    int j = (int)(test_random(seed) % (uint32_t)(i + 1)), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int k = m.rank - 1; k >= 0; k--) {
    m.to[k] = to_step;
    to_step *= m.dims[k] + test_random(seed) % 2;
    m.from[order[k]] = from_step;
    from_step *= m.dims[order[k]];
  }
  for (int i = 0; i < m.rank; i++) {
    if (test_random(seed) % 4 == 0) {
      m.from_start += (m.dims[i] - 1) * m.from[i];
      m.from[i] = -m.from[i];
    } else if (test_random(seed) % 6 == 0) {
      m.from[i] = 0;
    }
    if (m.from_start < 0) m.from_start = 0;
  }
  return m;
}

static void check_move(const random_move *m, size_t bytes, crn_pool *pool, const char *source, char *target, char *wanted) {
  memset(target, 0x11, ROOM * bytes);
  memset(wanted, 0x11, ROOM * bytes);
  int64_t total = 1;
  for (int i = 0; i < m->rank; i++) total *= m->dims[i];
  for (int64_t p = 0; p < total; p++) {
    int64_t from = m->from_start + crn_move_unravel(m->rank, m->dims, m->from, p, NULL),
            to = crn_move_unravel(m->rank, m->dims, m->to, p, NULL);
    memcpy(wanted + to * (int64_t)bytes, source + from * (int64_t)bytes, bytes);
  }
  crn_move(pool, bytes, m->rank, m->dims, source + m->from_start * (int64_t)bytes, m->from, target, m->to);
  assert_memory_equal(target, wanted, ROOM * bytes);
}

static void random_layouts(void **state) {
  (void)state;
  char *source = malloc(ROOM * 16), *target = malloc(ROOM * 16), *wanted = malloc(ROOM * 16);
  assert_true(source && target && wanted);
  uint32_t seed = 7;
  for (int i = 0; i < ROOM * 16; i++) source[i] = (char)test_random(&seed);
  static const size_t sizes[] = {1, 2, 4, 8, 16};
  for (int i = 0; i < 1500; i++) {
    random_move m = random_case(&seed);
    check_move(&m, sizes[i % 5], NULL, source, target, wanted);
  }
  free(source);
  free(target);
  free(wanted);
}

// Large enough for several threads and for the tiled path; the result must not depend on either.
static void large_transposes_with_threads(void **state) {
  (void)state;
  enum { ROWS = 613, COLUMNS = 517 };
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  uint16_t *source = malloc(ROWS * COLUMNS * 2), *target = malloc(ROWS * COLUMNS * 2);
  assert_true(source && target);
  for (int i = 0; i < ROWS * COLUMNS; i++) source[i] = (uint16_t)(i * 40503u >> 3);
  int64_t dims[2] = {COLUMNS, ROWS}, from[2] = {1, COLUMNS}, to[2] = {ROWS, 1};
  crn_move(pool, 2, 2, dims, source, from, target, to);
  for (int r = 0; r < ROWS; r++) {
    for (int c = 0; c < COLUMNS; c++) assert_int_equal(target[c * ROWS + r], source[r * COLUMNS + c]);
  }
  int64_t n = ROWS * COLUMNS, one = 1, zero = 0;
  crn_move(pool, 2, 1, &n, source, &one, target, &one);
  assert_memory_equal(target, source, (size_t)n * 2);
  crn_move(pool, 2, 1, &n, source + 5, &zero, target, &one);
  for (int64_t i = 0; i < n; i++) assert_int_equal(target[i], source[5]);
  free(source);
  free(target);
  crn_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_layouts), cmocka_unit_test(large_transposes_with_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
