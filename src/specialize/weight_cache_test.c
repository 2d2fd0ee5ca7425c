// Files of packed weights that are larger than a few huge pages: used where they lie or read, checked piece by piece, and left for memory
// of the program's own once something has run.
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "specialize/weights.h"

enum { N = 512, K = 1280, MATRICES = 3, PIECE = CRN_HUGE_PAGE };

typedef struct fixture {
  float *values;  ///< of all matrices
  char path[64];
  unsigned char *file;
  size_t file_bytes;
} fixture;

static fixture g;

static crn_weight_source matrix(int i) {
  crn_weight_source s = {.dtype = CAIRN_F32, .n = N, .k = K, .stack = 1, .n_axis = 0, .k_axis = 1, .stack_axis = CRN_NO_AXIS};
  s.data = crn_tensor_make(CAIRN_F32, (int64_t[]){N, K}, 2, g.values + (size_t)i * N * K);
  return s;
}

static void open_store(crn_weight_store *s) {
  crn_weight_store_initialize(s, crn_default_allocator());
  s->base = g.values;
  s->base_bytes = sizeof(float) * MATRICES * N * K;
}

// Whether the store has all matrices without packing any, with the right values.
static bool has_all(crn_weight_store *s) {
  float row[K];
  const size_t before = s->region.used_bytes;
  for (int i = 0; i < MATRICES; i++) {
    crn_linear_weights w = {0};
    crn_weight_source source = matrix(i);
    assert_int_equal(crn_weight_store_pack(s, NULL, &source, 1, false, &w), CAIRN_OK);
    for (int64_t n = 0; n < N; n += 37) {
      crn_linear_unpack_row(&w, n, row);
      assert_memory_equal(row, g.values + ((size_t)i * N + (size_t)n) * K, sizeof row);
    }
  }
  return s->region.used_bytes == before;
}

// Replaces the file by one with the same bytes, written in pieces: only those of a huge page come to lie in such.
static void rewrite(size_t piece) {
  unlink(g.path);
  int fd = open(g.path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_true(fd >= 0);
  for (size_t at = 0; at < g.file_bytes; at += piece) {
    const size_t n = g.file_bytes - at < piece ? g.file_bytes - at : piece;
    assert_int_equal(write(fd, g.file + at, n), n);
  }
  close(fd);
}

// In place, as no cairn would: the file stays the same for those who have it open.
static void change_byte(size_t at, unsigned char by) {
  int fd = open(g.path, O_WRONLY);
  unsigned char byte = g.file[at] ^ by;
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
  close(fd);
}

static int set_up(void **state) {
  (void)state;
  crn_weight_store s;
  struct stat st;
  snprintf(g.path, sizeof g.path, "/tmp/cairn-weights-%ld.packed", (long)getpid());
  g.values = malloc(sizeof(float) * MATRICES * N * K);
  for (size_t i = 0; i < (size_t)MATRICES * N * K; i++) g.values[i] = (float)((i * 2654435761u) >> 7 & 0xffff) - 32768;
  open_store(&s);
  has_all(&s);
  if (crn_weight_cache_write(&s, g.path, "some identity") != CAIRN_OK || stat(g.path, &st)) return -1;
  crn_weight_store_deinitialize(&s);
  g.file_bytes = (size_t)st.st_size;
  g.file = malloc(g.file_bytes);
  int fd = open(g.path, O_RDONLY);
  bool ok = fd >= 0 && read(fd, g.file, g.file_bytes) == (ssize_t)g.file_bytes;
  close(fd);
  return ok && g.file_bytes > 4 * PIECE ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  unlink(g.path);
  free(g.file);
  free(g.values);
  return 0;
}

static const size_t kPieces[] = {PIECE, 4096};

static void test_both_ways(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    crn_weight_store s;
    rewrite(kPieces[i]);
    open_store(&s);
    assert_int_equal(crn_weight_cache_read(&s, NULL, g.path, "some identity"), CAIRN_OK);
    assert_true((s.map.data != NULL) != (s.region.used_bytes != 0));
    assert_true(crn_weight_store_bytes(&s) >= sizeof(float) * MATRICES * N * K);
    if (kPieces[i] < PIECE) assert_null(s.map.data);
    assert_true(has_all(&s));
    crn_weight_store_deinitialize(&s);
  }
}

static void assert_refused(void) {
  crn_weight_store s;
  open_store(&s);
  assert_int_equal(crn_weight_cache_read(&s, NULL, g.path, "some identity"), CAIRN_NOT_FOUND);
  assert_null(s.map.data);
  assert_null(s.first);
  assert_false(has_all(&s));
  crn_weight_store_deinitialize(&s);
}

// Bytes at both ends of every piece, and of the parts in front of them.
static void test_changed_bytes(void **state) {
  (void)state;
  const size_t head[] = {0, 15, 16, 24, 32, 40, 48, 60, 64, 100, 3000};
  for (int i = 0; i < 2; i++) {
    rewrite(kPieces[i]);
    for (size_t k = 0; k < sizeof head / sizeof *head; k++) {
      change_byte(head[k], 1);
      assert_refused();
      change_byte(head[k], 0);
    }
    for (size_t at = PIECE; at < g.file_bytes; at += PIECE) {
      const size_t places[] = {at, at + PIECE / 2 + 5, at + PIECE - 1};
      for (int k = 0; k < 3; k++) {
        const size_t place = places[k] < g.file_bytes ? places[k] : g.file_bytes - 1;
        change_byte(place, 0x80);
        assert_refused();
        change_byte(place, 0);
      }
    }
    assert_int_equal(truncate(g.path, (off_t)g.file_bytes - 1), 0);
    assert_refused();
    assert_int_equal(truncate(g.path, (off_t)g.file_bytes), 0);
    assert_refused();
    change_byte(g.file_bytes - 1, 0);
    assert_int_equal(truncate(g.path, (off_t)g.file_bytes + 1), 0);
    assert_refused();
  }
}

// The store with its file in a map; false where the system has no huge pages for files.
static bool open_mapped(crn_weight_store *s) {
  rewrite(PIECE);
  open_store(s);
  assert_int_equal(crn_weight_cache_read(s, NULL, g.path, "some identity"), CAIRN_OK);
  if (s->map.data) return true;
  assert_int_equal(crn_weight_store_settle(s, NULL), CAIRN_OK);
  crn_weight_store_deinitialize(s);
  return false;
}

typedef struct reader {
  const crn_weight_store *store;
  atomic_bool ends;
  uint64_t expected;
  int n_reads, n_wrong;
} reader;

static void *read_on(void *user) {
  reader *r = user;
  do {
    r->n_wrong += crn_weight_digest(r->store->map.data, r->store->map.bytes) != r->expected;
    r->n_reads++;
  } while (!atomic_load(&r->ends));
  return NULL;
}

// Somebody reads while the pages are exchanged. Behind it the file may become what it likes.
static void test_settle(void **state) {
  (void)state;
  crn_weight_store s;
  crn_pool *pool;
  pthread_t thread;
  if (!open_mapped(&s)) skip();
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  const unsigned char *at = s.map.data;
  reader r = {.store = &s, .expected = crn_weight_digest(s.map.data, s.map.bytes)};
  atomic_init(&r.ends, false);
  assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
  assert_int_equal(crn_weight_store_settle(&s, pool), CAIRN_OK);
  atomic_store(&r.ends, true);
  pthread_join(thread, NULL);
  assert_true(r.n_reads > 0);
  assert_int_equal(r.n_wrong, 0);
  assert_false(s.is_borrowed);
  assert_null(s.digests);
  assert_ptr_equal(s.map.data, at);
  change_byte(2 * PIECE, 0xff);
  assert_true(has_all(&s));
  assert_int_equal(crn_weight_store_settle(&s, pool), CAIRN_OK);
  // What is written now comes from the pages that took the place.
  assert_int_equal(crn_weight_cache_write(&s, g.path, "some identity"), CAIRN_OK);
  crn_weight_store_deinitialize(&s);
  open_store(&s);
  assert_int_equal(crn_weight_cache_read(&s, pool, g.path, "some identity"), CAIRN_OK);
  assert_true(has_all(&s));
  crn_weight_store_deinitialize(&s);
  crn_pool_destroy(pool);
}

// Changed between loading and settling: that is told, every time.
static void test_settle_changed(void **state) {
  (void)state;
  crn_weight_store s;
  if (!open_mapped(&s)) skip();
  change_byte(g.file_bytes - 1, 1);
  assert_int_equal(crn_weight_store_settle(&s, NULL), CAIRN_CORRUPT);
  assert_int_equal(crn_weight_store_settle(&s, NULL), CAIRN_CORRUPT);
  crn_weight_store_deinitialize(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_ways), cmocka_unit_test(test_changed_bytes), cmocka_unit_test(test_settle),
                                     cmocka_unit_test(test_settle_changed)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
