// Unit tests of the base layer.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/context.h"
#include "base/cpu.h"
#include "base/failure.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/task.h"
#include "base/vec.h"

static void test_status(void **state) {
  (void)state;
  assert_string_equal(cairn_status_text(CAIRN_OK), "ok");
  assert_string_equal(cairn_status_name(CAIRN_CONTEXT_FULL), "CONTEXT_FULL");
  assert_string_equal(cairn_status_text((cairn_status)99), "unknown status");
  assert_int_equal(CRN_FAIL(NOT_FOUND, "no %s", "thing"), CAIRN_NOT_FOUND);
  const cairn_error *e = cairn_last_error();
  assert_int_equal(e->code, CAIRN_NOT_FOUND);
  assert_string_equal(e->message, "no thing");
  assert_true(crn_starts_with(e->file, "src/base/"));
  for (int i = 0; i < 12; i++) crn_note(CAIRN_NOT_FOUND, "note %d", i);
  char text[4096];
  cairn_last_error_text(text, sizeof text);
  assert_true(crn_starts_with(text, "no thing (note 0; note 1;"));
  assert_null(strstr(text, "note 8"));
  // Quoting the previous message must not overwrite it while it is read.
  assert_int_equal(CRN_FAIL(INTERNAL, "again: %s", cairn_last_error()->message), CAIRN_INTERNAL);
  assert_string_equal(cairn_last_error()->message, "again: no thing");
  char small[4];
  assert_true(cairn_last_error_text(small, sizeof small) > 4);
  assert_string_equal(small, "aga");
}

// An allocator that leaves nothing readable behind.
static void *plain_alloc(void *self, size_t bytes, size_t align) {
  (void)self;
  const cairn_allocator *a = crn_default_allocator();
  return a->alloc(a->self, bytes, align);
}

static void spoiling_free(void *self, void *p, size_t bytes) {
  (void)self;
  const cairn_allocator *a = crn_default_allocator();
  if (p) memset(p, 'X', bytes);
  a->free(a->self, p, bytes);
}

// The record a failure leaves on a thread outlives it.
static void test_failure(void **state) {
  (void)state;
  const cairn_allocator a = {NULL, plain_alloc, spoiling_free};
  crn_note(CRN_FAIL(NOT_FOUND, "no %s", "such thing"), "looking for it");
  const int line = cairn_last_error()->line;
  crn_failure *f = crn_failure_capture(&a);
  crn_error_clear();
  assert_int_equal(crn_failure_restore(f, CAIRN_NOT_FOUND), CAIRN_NOT_FOUND);
  crn_failure_release(f);
  const cairn_error *e = cairn_last_error();
  assert_int_equal(e->code, CAIRN_NOT_FOUND);
  assert_int_equal(e->line, line);
  assert_non_null(strstr(e->file, "base_test.c"));
  assert_string_equal(e->message, "no such thing");
  assert_int_equal(e->n_context, 1);
  assert_string_equal(e->context[0], "looking for it");
  assert_int_equal(crn_failure_restore(NULL, CAIRN_IO), CAIRN_IO);
  assert_int_equal(cairn_last_error()->code, CAIRN_IO);
}

static void test_checked(void **state) {
  (void)state;
  size_t n;
  int64_t i;
  assert_false(crn_add_size(SIZE_MAX, 1, &n));
  assert_false(crn_mul_size(SIZE_MAX / 2, 3, &n));
  assert_false(crn_align_size(SIZE_MAX - 3, 64, &n));
  assert_true(crn_align_size(65, 64, &n));
  assert_int_equal(n, 128);
  assert_false(crn_mul_i64(INT64_MAX, 2, &i));
  assert_true(crn_range_inside(10, 0, 10));
  assert_false(crn_range_inside(10, 1, 10));
  assert_false(crn_range_inside(SIZE_MAX, 2, 10));
}

static void test_arena(void **state) {
  (void)state;
  crn_arena arena;
  crn_arena_initialize(&arena, NULL);
  unsigned char *first = NULL;
  for (int i = 0; i < 1000; i++) {
    unsigned char *p;
    assert_int_equal(crn_arena_alloc(&arena, (size_t)i * 7, &p), CAIRN_OK);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (int k = 0; k < i * 7; k++) assert_int_equal(p[k], 0);
    memset(p, 0xab, (size_t)i * 7);
    if (i == 1) first = p;
  }
  assert_int_equal(first[6], 0xab);
  void *huge;
  assert_int_equal(crn_arena_alloc(&arena, SIZE_MAX - 4, &huge), CAIRN_OUT_OF_MEMORY);
  assert_int_equal(crn_arena_array(&arena, SIZE_MAX, 8, &huge), CAIRN_OUT_OF_MEMORY);
  crn_arena_deinitialize(&arena);
}

static void test_map_and_vec(void **state) {
  (void)state;
  crn_map map;
  crn_map_initialize(&map, crn_default_allocator());
  char key[16];
  for (int i = 0; i < 5000; i++) {
    int n = snprintf(key, sizeof key, "k%d", i);
    assert_int_equal(crn_map_set(&map, key, (size_t)n, (uint64_t)i), CAIRN_OK);
  }
  uint64_t value;
  assert_true(crn_map_get(&map, "k4999", 5, &value));
  assert_int_equal(value, 4999);
  assert_false(crn_map_get(&map, "k5000", 5, &value));
  assert_int_equal(crn_map_set(&map, "k1", 2, 77), CAIRN_OK);
  assert_true(crn_map_get(&map, "k1", 2, &value));
  assert_int_equal(value, 77);
  assert_int_equal(map.size, 5000);
  // Keys are bytes: a NUL is one like any other.
  assert_int_equal(crn_map_set(&map, "a\0b", 3, 1), CAIRN_OK);
  assert_false(crn_map_get(&map, "a\0c", 3, NULL));
  assert_int_equal(crn_map_claim(&map, "k1", 2, 78, &value), CAIRN_OK);
  assert_int_equal(value, 77);
  assert_int_equal(crn_map_claim(&map, "new", 3, 78, &value), CAIRN_OK);
  assert_int_equal(value, 78);
  assert_true(crn_map_get(&map, "new", 3, &value) && value == 78);
  assert_int_equal(crn_map_reserve(&map, 100000), CAIRN_OK);
  assert_true(map.n_slots >= 131072);
  const crn_map_slot *slots = map.slots;
  assert_true(crn_map_get(&map, "k4999", 5, &value) && value == 4999);
  assert_int_equal(crn_map_reserve(&map, 100000), CAIRN_OK);
  assert_ptr_equal(map.slots, slots);
  assert_int_equal(crn_map_reserve(&map, SIZE_MAX), CAIRN_OUT_OF_RANGE);
  crn_map borrowing;
  crn_map_initialize(&borrowing, crn_default_allocator());
  borrowing.borrows_keys = true;
  assert_int_equal(crn_map_set(&borrowing, key, 3, 5), CAIRN_OK);
  assert_true(crn_map_get(&borrowing, key, 3, &value) && value == 5);
  assert_null(borrowing.keys.blocks);
  crn_map_deinitialize(&borrowing);
  crn_map_deinitialize(&map);
  CRN_VEC(int) v = {0};
  for (int i = 0; i < 100; i++) assert_int_equal(crn_vec_push(crn_default_allocator(), &v, i), CAIRN_OK);
  assert_int_equal(v.items[99], 99);
  crn_vec_free(crn_default_allocator(), &v);
}

static void check_tail(const char *text, size_t expected) { assert_int_equal(crn_utf8_incomplete_tail(text, strlen(text)), expected); }

static void test_text(void **state) {
  (void)state;
  crn_str s;
  crn_str_initialize(&s, NULL);
  assert_string_equal(s.data, "");
  assert_int_equal(crn_str_printf(&s, "%d-%s", 5, "x"), CAIRN_OK);
  assert_int_equal(crn_str_json(&s, "a\"\n\x01\xff\xc3\xa4", 7), CAIRN_OK);
  assert_string_equal(s.data, "5-x\"a\\\"\\n\\u0001\xef\xbf\xbd\xc3\xa4\"");
  crn_str_deinitialize(&s);
  uint32_t code;
  bool valid;
  const char *surrogate = "\xed\xa0\x80", *emoji = "\xf0\x9f\x98\x80";
  assert_int_equal(crn_utf8_decode(surrogate, surrogate + 3, &code, &valid), 1);
  assert_false(valid);
  assert_int_equal(crn_utf8_decode(emoji, emoji + 4, &code, &valid), 4);
  assert_int_equal(code, 0x1f600);
  assert_int_equal(crn_utf8_decode(emoji, emoji + 3, &code, &valid), 3);
  assert_false(valid);
  char out[4];
  assert_int_equal(crn_utf8_encode(0x1f600, out), 4);
  assert_memory_equal(out, emoji, 4);
  check_tail("abc", 0);
  check_tail("a\xf0\x9f\x98", 3);
  check_tail("a\xc3", 1);
  check_tail("a\xc3\xa4", 0);
  check_tail("\xff", 0);
  check_tail("\xed\xa0", 0);
}

static void test_files(void **state) {
  (void)state;
  char folder[] = "/tmp/cairn-base-XXXXXX", path[64], deep[80];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/f", folder);
  snprintf(deep, sizeof deep, "%s/a/b/c", folder);
  assert_int_equal(crn_make_directories(deep), CAIRN_OK);
  assert_true(crn_is_directory(deep));
  crn_file_map map;
  assert_int_equal(crn_file_map_open(path, &map), CAIRN_NOT_FOUND);
  assert_int_equal(crn_file_map_open(folder, &map), CAIRN_IO);
  assert_int_equal(crn_file_replace(path, "hello", 5), CAIRN_OK);
  // A discarded writer leaves neither a change nor a temporary file.
  crn_file_writer w;
  assert_int_equal(crn_file_create(path, &w), CAIRN_OK);
  char temporary[128];
  snprintf(temporary, sizeof temporary, "%s", w.temporary.data);
  assert_int_equal(crn_file_write(&w, "no", 2), CAIRN_OK);
  crn_file_discard(&w);
  assert_false(crn_file_exists(temporary));
  assert_int_equal(crn_file_map_open(path, &map), CAIRN_OK);
  assert_int_equal(map.bytes, 5);
  assert_memory_equal(map.data, "hello", 5);
  crn_file_map_close(&map);
  crn_str text;
  crn_str_initialize(&text, NULL);
  assert_int_equal(crn_file_read(path, 4, &text), CAIRN_OUT_OF_RANGE);
  assert_int_equal(crn_file_read(path, 5, &text), CAIRN_OK);
  assert_string_equal(text.data, "hello");
  crn_str_deinitialize(&text);
  assert_int_equal(crn_file_create("/nonexistent/x", &w), CAIRN_NOT_FOUND);
  // A symbolic link stays one; its target is replaced. A FIFO stays a FIFO and gets the bytes.
  char link[80], fifo[80], seen[8] = "";
  snprintf(link, sizeof link, "%s/link", folder);
  snprintf(fifo, sizeof fifo, "%s/fifo", folder);
  assert_int_equal(symlink(path, link), 0);
  assert_int_equal(crn_file_replace(link, "new", 3), CAIRN_OK);
  struct stat st;
  assert_int_equal(lstat(link, &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(crn_file_map_open(path, &map), CAIRN_OK);
  assert_int_equal(map.bytes, 3);
  crn_file_map_close(&map);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  int reader = open(fifo, O_RDONLY | O_NONBLOCK);
  assert_int_equal(crn_file_replace(fifo, "pipe", 4), CAIRN_OK);
  assert_int_equal(read(reader, seen, sizeof seen), 4);
  close(reader);
  assert_int_equal(lstat(fifo, &st), 0);
  assert_true(S_ISFIFO(st.st_mode));
  assert_int_equal(crn_file_replace(deep, "x", 1), CAIRN_IO);
  assert_int_equal(crn_file_replace("", "x", 1), CAIRN_INVALID_ARGUMENT);
  unsigned char digest[CRN_SHA256_BYTES];
  assert_int_equal(crn_sha256("abc", 3, digest), CAIRN_OK);
  assert_int_equal(digest[0], 0xba);
  assert_int_equal(digest[31], 0xad);
  unlink(link), unlink(fifo), unlink(path);
  for (char *end = deep + strlen(deep); end > deep + strlen(folder); end = strrchr(deep, '/')) {
    *end = 0;
    assert_int_equal(rmdir(deep), 0);
  }
  assert_int_equal(rmdir(folder), 0);
}

static void test_json(void **state) {
  (void)state;
  json_t *j;
  const char *text = "{\"s\":\"x\",\"i\":9007199254740993,\"b\":true,\"d\":0.5}", *s = NULL;
  assert_int_equal(crn_json_parse(text, strlen(text), "t", &j), CAIRN_OK);
  int64_t i = 0;
  double d = 0;
  bool b = false;
  assert_int_equal(crn_json_string(j, "t", "s", true, &s), CAIRN_OK);
  assert_string_equal(s, "x");
  assert_int_equal(crn_json_int(j, "t", "i", true, &i), CAIRN_OK);
  assert_true(i == 9007199254740993);
  assert_int_equal(crn_json_double(j, "t", "d", true, &d), CAIRN_OK);
  assert_int_equal(crn_json_bool(j, "t", "b", true, &b), CAIRN_OK);
  assert_true(b);
  assert_int_equal(crn_json_string(j, "t", "i", true, &s), CAIRN_CORRUPT);
  assert_string_equal(cairn_last_error()->message, "t: 'i' must be a string");
  assert_int_equal(crn_json_string(j, "t", "absent", false, &s), CAIRN_OK);
  assert_int_equal(crn_json_string(j, "t", "absent", true, &s), CAIRN_CORRUPT);
  json_decref(j);
  assert_int_equal(crn_json_parse("{\"a\":1,\"a\":2}", 13, "t", &j), CAIRN_CORRUPT);
  assert_int_equal(crn_json_parse("{", 1, "t", &j), CAIRN_CORRUPT);
  assert_int_equal(crn_json_parse("\"a\\u0000\"", 9, "t", &j), CAIRN_CORRUPT);
  assert_non_null(strstr(cairn_last_error()->message, "U+0000 is not allowed"));
}

typedef struct tally {
  _Atomic int64_t sum;
  _Atomic int calls;
} tally;

static void add_up(void *user, int64_t begin, int64_t end, int worker) {
  tally *t = user;
  (void)worker;
  int64_t s = 0;
  for (int64_t i = begin; i < end; i++) s += i;
  atomic_fetch_add(&t->sum, s);
  atomic_fetch_add(&t->calls, 1);
}

static void test_pool(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    crn_pool *pool;
    assert_int_equal(crn_pool_create(crn_default_allocator(), threads, &pool), CAIRN_OK);
    assert_int_equal(crn_pool_threads(pool), threads);
    for (int round = 0; round < 500; round++) {
      tally t = {0};
      crn_pool_run(pool, 1000 + round, 10, add_up, &t);
      int64_t n = 1000 + round;
      assert_true(t.sum == n * (n - 1) / 2);
    }
    tally small = {0};
    crn_pool_run(pool, 5, 10, add_up, &small);
    assert_int_equal(small.calls, 1);
    crn_pool_run(pool, 0, 10, add_up, &small);
    assert_int_equal(small.calls, 1);
    crn_pool_destroy(pool);
  }
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 0, &pool), CAIRN_INVALID_ARGUMENT);
  assert_true(crn_usable_cores() >= 1);
}

static void remember_line(void *user, cairn_log_level level, const char *line) {
  (void)level;
  snprintf(user, 64, "%s", line);
}

static void test_context(void **state) {
  (void)state;
  char line[64] = "";
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = 2;
  options.log = remember_line;
  options.log_user = line;
  options.log_level = CAIRN_LOG_WARNING;
  cairn_context *c;
  assert_int_equal(cairn_context_create(&options, &c), CAIRN_OK);
  assert_int_equal(cairn_context_threads(c), 2);
  crn_log(c, CAIRN_LOG_INFO, "quiet");
  assert_string_equal(line, "");
  CRN_WARN(c, "loud %d", 1);
  assert_string_equal(line, "loud 1");
  cairn_context_retain(c);
  cairn_context_release(c);
  cairn_context_release(c);
  options.n_threads = -1;
  assert_int_equal(cairn_context_create(&options, &c), CAIRN_INVALID_ARGUMENT);
  cairn_allocator half = {0};
  options = (cairn_context_options){.allocator = &half};
  assert_int_equal(cairn_context_create(&options, &c), CAIRN_INVALID_ARGUMENT);
  (void)crn_cpu_bits();
}

static void check_setting(const char *name, const char *bad, const char *good) {
  cairn_context *c;
  setenv(name, bad, 1);
  assert_int_equal(cairn_context_create(NULL, &c), CAIRN_INVALID_ARGUMENT);
  assert_true(crn_starts_with(cairn_last_error()->message, name));
  setenv(name, good, 1);
  assert_int_equal(cairn_context_create(NULL, &c), CAIRN_OK);
  cairn_context_release(c);
  unsetenv(name);
}

static cairn_status task_of(void *user) {
  int *n = user;
  if (*n < 0) return CRN_FAIL(OUT_OF_RANGE, "%d is negative", *n);
  *n += 1;
  return CAIRN_OK;
}

// A task's failure comes to whoever waits, with its text.
static void test_tasks(void **state) {
  (void)state;
  crn_task task = {0};
  assert_int_equal(crn_task_wait(&task), CAIRN_OK);
  int n = 41;
  crn_task_start(&task, task_of, &n);
  assert_int_equal(crn_task_wait(&task), CAIRN_OK);
  assert_int_equal(n, 42);
  n = -3;
  crn_task_start(&task, task_of, &n);
  crn_error_clear();
  assert_int_equal(crn_task_wait(&task), CAIRN_OUT_OF_RANGE);
  assert_int_equal(cairn_last_error()->code, CAIRN_OUT_OF_RANGE);
  assert_non_null(strstr(cairn_last_error()->message, "-3 is negative"));
}

// What a writer that is gone left is removed; what one is writing is not, nor what only looks like it.
static void test_leftovers(void **state) {
  (void)state;
  char folder[] = "/tmp/cairn-base-XXXXXX", path[64], left[80], other[80];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/f", folder);
  snprintf(left, sizeof left, "%s/f.tmp-abcdef", folder);
  snprintf(other, sizeof other, "%s/f.tmp-abcdefg", folder);
  crn_file_writer w;
  assert_int_equal(crn_file_create(path, &w), CAIRN_OK);
  assert_false(crn_file_remove_abandoned(w.temporary.data));
  assert_int_equal(crn_file_replace(left, "", 0), CAIRN_OK);
  assert_int_equal(crn_file_replace(other, "x", 1), CAIRN_OK);
  crn_file_remove_leftovers(path);
  assert_false(crn_file_exists(left));
  assert_true(crn_file_exists(other));
  assert_int_equal(crn_file_commit(&w), CAIRN_OK);
  assert_true(crn_file_exists(path));
  assert_false(crn_file_remove_abandoned(left));
  assert_false(crn_file_remove_abandoned(folder));
  // A folder cannot be made where a file is, nor below it.
  assert_int_equal(crn_make_directories(path), CAIRN_IO);
  assert_non_null(strstr(cairn_last_error()->message, "is a file, a folder is needed"));
  snprintf(left, sizeof left, "%s/below/it", path);
  assert_int_equal(crn_make_directories(left), CAIRN_IO);
  assert_true(crn_file_remove_abandoned(other));
  assert_true(crn_file_remove_abandoned(path));
  assert_int_equal(rmdir(folder), 0);
}

// One holder at a time, whoever asks; the file of a holder is no leftover, that of one that was killed is.
static void test_file_lock(void **state) {
  (void)state;
  char folder[] = "/tmp/cairn-test-XXXXXX", path[64], beside[64], expected[32];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/f", folder);
  snprintf(beside, sizeof beside, "%s/f.tmp-in_use", folder);
  crn_file_lock lock, other;
  assert_int_equal(crn_file_lock_take(path, &lock), CAIRN_OK);
  assert_int_equal(crn_file_lock_take(path, &other), CAIRN_BUSY);
  snprintf(expected, sizeof expected, "number %ld", (long)getpid());
  assert_non_null(strstr(cairn_last_error()->message, path));
  assert_non_null(strstr(cairn_last_error()->message, expected));
  crn_file_lock_give(&other);  // not held: nothing happens
  crn_file_remove_leftovers(path);
  assert_true(crn_file_exists(beside));
  crn_file_lock_give(&lock);
  crn_file_lock_give(&lock);
  assert_false(crn_file_exists(beside));

  int ready[2];
  char byte;
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  if (!child) {
    if (crn_file_lock_take(path, &lock) != CAIRN_OK) _exit(1);
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_int_equal(crn_file_lock_take(path, &lock), CAIRN_BUSY);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  close(ready[0]);
  close(ready[1]);
  assert_true(crn_file_exists(beside));
  assert_int_equal(crn_file_lock_take(path, &lock), CAIRN_OK);
  crn_file_lock_give(&lock);
  // What is left without a holder goes with the other leftovers; a name in another folder is another file.
  assert_int_equal(crn_file_replace(beside, "1", 1), CAIRN_OK);
  crn_file_remove_leftovers(path);
  assert_false(crn_file_exists(beside));
  assert_int_equal(crn_file_lock_take("/nonexistent/f", &lock), CAIRN_NOT_FOUND);
  assert_int_equal(rmdir(folder), 0);
}

static void test_environment(void **state) {
  (void)state;
  check_setting("CAIRN_THREADS", "0", "3");
  check_setting("CAIRN_THREADS", "two", "1");
  check_setting("CAIRN_THREADS", "1000", "");
  check_setting("CAIRN_LOG", "loud", "off");
  check_setting("CAIRN_CPU_MASK", "avx2,sse9", "scalar");
  check_setting("CAIRN_CACHE", "of", "off");
  check_setting("CAIRN_CACHE", "ON", "on");
  check_setting("CAIRN_CACHE_LIMIT", "-1", "0");
  check_setting("CAIRN_CACHE_LIMIT", " 1", "18446744073709551615");
  check_setting("CAIRN_CACHE_LIMIT", "18446744073709551616", "");
}

// Every change of one byte, of the length and of the seed changes the sum.
static void test_checksum(void **state) {
  (void)state;
  unsigned char data[200];
  for (int i = 0; i < 200; i++) data[i] = (unsigned char)(i * 7);
  for (size_t n = 0; n <= 200; n += n < 70 ? 1 : 13) {
    const uint64_t sum = crn_checksum(data, n, 5);
    assert_true(sum == crn_checksum(data, n, 5));
    assert_true(sum != crn_checksum(data, n, 6));
    if (n) assert_true(sum != crn_checksum(data, n - 1, 5));
    for (size_t i = 0; i < n; i++) {
      data[i] ^= 0x40;
      assert_true(sum != crn_checksum(data, n, 5));
      data[i] ^= 0x40;
    }
  }
}

static void test_hasher(void **state) {
  (void)state;
  unsigned char whole[CRN_SHA256_BYTES], pieces[CRN_SHA256_BYTES];
  char hex[2 * CRN_SHA256_BYTES + 1];
  crn_hasher h;
  assert_int_equal(crn_sha256("abc", 3, whole), CAIRN_OK);
  assert_int_equal(crn_hasher_begin(&h), CAIRN_OK);
  assert_int_equal(crn_hasher_add(&h, "a", 1), CAIRN_OK);
  assert_int_equal(crn_hasher_add(&h, "bc", 2), CAIRN_OK);
  assert_int_equal(crn_hasher_end(&h, pieces), CAIRN_OK);
  crn_hasher_discard(&h);
  assert_memory_equal(whole, pieces, sizeof whole);
  crn_sha256_hex(pieces, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status),    cmocka_unit_test(test_failure),     cmocka_unit_test(test_checked),
      cmocka_unit_test(test_arena),     cmocka_unit_test(test_map_and_vec), cmocka_unit_test(test_text),
      cmocka_unit_test(test_files),     cmocka_unit_test(test_tasks),       cmocka_unit_test(test_json),
      cmocka_unit_test(test_pool),      cmocka_unit_test(test_context),     cmocka_unit_test(test_environment),
      cmocka_unit_test(test_checksum),  cmocka_unit_test(test_hasher),      cmocka_unit_test(test_leftovers),
      cmocka_unit_test(test_file_lock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
