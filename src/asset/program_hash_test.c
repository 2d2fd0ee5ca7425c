// The remembered hash of a file: used while the file is the same, never afterwards, and never when it is damaged.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "asset/program_hash.h"

enum { BYTES = 17 << 20 };

static char g_folder[64], g_file[96];

static void write_file(char fill) {
  FILE *f = fopen(g_file, "wb");
  assert_non_null(f);
  char *data = malloc(BYTES);
  memset(data, fill, BYTES);
  assert_int_equal(fwrite(data, 1, BYTES, f), BYTES);
  fclose(f);
  free(data);
}

static void hash(bool is_strict, unsigned char *out) {
  crn_file_map map;
  assert_int_equal(crn_file_map_open(g_file, &map), CAIRN_OK);
  assert_int_equal(crn_program_hash(g_file, &map, is_strict, out), CAIRN_OK);
  crn_file_map_close(&map);
}

static void expect_true_hash(void) {
  unsigned char expected[CRN_SHA256_BYTES], got[CRN_SHA256_BYTES];
  crn_file_map map;
  assert_int_equal(crn_file_map_open(g_file, &map), CAIRN_OK);
  assert_int_equal(crn_sha256(map.data, map.bytes, expected), CAIRN_OK);
  crn_file_map_close(&map);
  hash(false, got);
  assert_memory_equal(got, expected, sizeof got);
}

// Calls `change` for every memo there is; returns their number.
static int for_memos(void (*change)(const char *path)) {
  char folder[128], path[512];
  int n = 0;
  snprintf(folder, sizeof folder, "%s/hashes", g_folder);
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (*e->d_name == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (change) change(path);
    n++;
  }
  if (dir) closedir(dir);
  return n;
}

static void put(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(data, 1, n, f);
  fclose(f);
}

static void cut(const char *path) { put(path, "short", 5); }

static void disagree(const char *path) {
  char bytes[2 * CRN_SHA256_BYTES] = {1};
  put(path, bytes, sizeof bytes);
}

static void forge(const char *path) {
  char bytes[2 * CRN_SHA256_BYTES];
  memset(bytes, 7, sizeof bytes);
  put(path, bytes, sizeof bytes);
}

static void test_memo(void **state) {
  (void)state;
  unsigned char digest[CRN_SHA256_BYTES], sevens[CRN_SHA256_BYTES];
  memset(sevens, 7, sizeof sevens);
  write_file('a');
  expect_true_hash();
  assert_int_equal(for_memos(NULL), 1);
  for_memos(cut);
  expect_true_hash();
  for_memos(disagree);
  expect_true_hash();
  // What is remembered is really used, except by those who insist.
  for_memos(forge);
  hash(false, digest);
  assert_memory_equal(digest, sevens, sizeof digest);
  hash(true, digest);
  assert_memory_not_equal(digest, sevens, sizeof digest);
  // Another content under the same name is another file.
  for_memos(forge);
  write_file('b');
  expect_true_hash();
  assert_int_equal(for_memos(NULL), 2);
}

static void test_off(void **state) {
  (void)state;
  int before = for_memos(NULL);
  setenv("CAIRN_CACHE", "off", 1);
  write_file('c');
  expect_true_hash();
  unsetenv("CAIRN_CACHE");
  assert_int_equal(for_memos(NULL), before);
}

static void erase(const char *path) { unlink(path); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memo), cmocka_unit_test(test_off)};
  char hashes[128];
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-hash-%ld", (long)getpid());
  snprintf(g_file, sizeof g_file, "%s.bin", g_folder);
  snprintf(hashes, sizeof hashes, "%s/hashes", g_folder);
  setenv("CAIRN_CACHE_DIR", g_folder, 1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for_memos(erase);
  rmdir(hashes);
  rmdir(g_folder);
  unlink(g_file);
  return failed;
}
