// Damaged files and failing allocations: no step may crash, hang, leak or use memory out of proportion.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <stdio.h>

#include "base/context.h"
#include "tests/asset/walk_everything.h"

enum { PRINT_LIMIT = 4 << 20 };

static test_allocator g_memory;
static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  test_allocator_initialize(&g_memory);
  cairn_context_options options = {.allocator = &g_memory.allocator, .n_threads = 1};
  return cairn_context_create(&options, &g_context) != CAIRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return g_memory.live != 0;
}

static void read_program(const char *asset, crn_str *out) {
  char path[4096];
  snprintf(path, sizeof path, "%s/main.mlirb", asset);
  crn_str_initialize(out, NULL);
  assert_int_equal(crn_file_read(path, 1 << 28, out), CAIRN_OK);
}

// Opens and walks the bytes; returns whether all of it succeeded.
static bool try_bytes(const void *data, size_t bytes) {
  // A copy of exact size lets the address sanitizer see the first byte read behind the end.
  void *copy = malloc(bytes ? bytes : 1);
  assert_non_null(copy);
  memcpy(copy, data, bytes);
  size_t before = g_memory.live;
  g_memory.limit = before + walk_memory_limit(bytes);
  g_memory.hit_limit = false;
  cairn_asset *asset;
  cairn_status status = crn_asset_open_memory(g_context, copy, bytes, &asset);
  if (status == CAIRN_OK) {
    status = walk_everything(asset, PRINT_LIMIT);
    cairn_asset_release(asset);
  }
  assert_false(g_memory.hit_limit);
  assert_int_equal(g_memory.live, before);
  assert_int_not_equal(status, CAIRN_INTERNAL);
  g_memory.limit = SIZE_MAX;
  free(copy);
  return status == CAIRN_OK;
}

// The pseudo random numbers of the tests; the same on every machine.
static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void truncate_many(const char *asset, size_t n) {
  crn_str s;
  read_program(asset, &s);
  assert_true(try_bytes(s.data, s.size));
  if (n > s.size) n = s.size;
  for (size_t i = 0; i < n; i++) {
    // Sections end where the file says, so a shorter file always misses something.
    assert_false(try_bytes(s.data, s.size * i / n));
  }
  crn_str_deinitialize(&s);
}

static void flip_many(const char *asset, size_t n) {
  crn_str s;
  read_program(asset, &s);
  uint64_t random = 88172645463325252u;
  size_t failed = 0;
  for (size_t i = 0; i < n; i++) {
    size_t at = next_random(&random) % s.size;
    char kept = s.data[at];
    s.data[at] = (char)(kept ^ (1 + next_random(&random) % 255));
    failed += !try_bytes(s.data, s.size);
    s.data[at] = kept;
  }
  assert_true(failed > 0);
  assert_true(try_bytes(s.data, s.size));
  crn_str_deinitialize(&s);
}

static const char *const k_small[] = {"composite", "while_loop", "records", "b1_clip", "interfaces", "sparse"};
enum { N_SMALL = sizeof k_small / sizeof *k_small };

static void small_asset(int i, char *path, size_t bytes) { snprintf(path, bytes, "%s/assets/%s.aimodel", CAIRN_TEST_DATA, k_small[i]); }

static void test_truncations(void **state) {
  (void)state;
  char path[4096];
  for (int i = 0; i < N_SMALL; i++) {
    small_asset(i, path, sizeof path);
    truncate_many(path, 2000);
  }
}

static void test_flips(void **state) {
  (void)state;
  char path[4096];
  for (int i = 0; i < N_SMALL; i++) {
    small_asset(i, path, sizeof path);
    flip_many(path, 2000);
  }
}

static void test_real_model(void **state) {
  (void)state;
  const char *model = CAIRN_SHARED_DATA "/models/mlx-llama-b1/tiny.aimodel";
  if (!crn_is_directory(model)) skip();
  truncate_many(model, 2000);
  flip_many(model, 2000);
}

// --- allocation failures --------------------------------------------------------------------------------------------------

static cairn_status open_and_walk(const char *path) {
  cairn_asset *asset;
  CRN_TRY(cairn_asset_open(g_context, path, NULL, &asset));
  cairn_status status = walk_everything(asset, PRINT_LIMIT);
  cairn_asset_release(asset);
  return status;
}

static void fail_each_allocation(const char *path) {
  assert_int_equal(open_and_walk(path), CAIRN_OK);
  size_t before = g_memory.live;
  long n = 0;
  for (cairn_status status = CAIRN_OUT_OF_MEMORY; status != CAIRN_OK;) {
    g_memory.calls = 0;
    g_memory.fail_at = ++n;
    status = open_and_walk(path);
    bool failed = g_memory.calls >= g_memory.fail_at;
    g_memory.fail_at = 0;
    assert_int_equal(status, failed ? CAIRN_OUT_OF_MEMORY : CAIRN_OK);
    assert_int_equal(g_memory.live, before);
  }
  assert_true(n > 5);
}

static void test_allocation_failures(void **state) {
  (void)state;
  char path[4096];
  for (int i = 0; i < N_SMALL; i++) {
    small_asset(i, path, sizeof path);
    fail_each_allocation(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_truncations),
      cmocka_unit_test(test_flips),
      cmocka_unit_test(test_real_model),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
