// Where files are, and what becomes of those that are replaced.
#include "base/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char g_folder[] = "/tmp/cairn-path-XXXXXX";

// Each call has a room of its own, of eight.
static const char *in(const char *name) {
  static char rooms[8][128];
  static int next;
  char *room = rooms[next++ % 8];
  snprintf(room, sizeof rooms[0], "%s/%s", g_folder, name);
  return room;
}

static void expect_place(const char *path, const char *expected) {
  crn_str place;
  crn_str_initialize(&place, NULL);
  assert_int_equal(crn_path_resolve(path, &place), CAIRN_OK);
  assert_string_equal(place.data, expected);
  crn_str_deinitialize(&place);
}

static void test_resolve(void **state) {
  (void)state;
  assert_int_equal(mkdir(in("real"), 0777), 0);
  assert_int_equal(symlink("real", in("folder")), 0);
  assert_int_equal(symlink("folder/new", in("dangling")), 0);
  assert_int_equal(symlink(in("dangling"), in("second")), 0);
  assert_int_equal(symlink("circle", in("circle")), 0);
  assert_int_equal(symlink("nowhere/at/all", in("lost")), 0);
  expect_place(in("real/new"), in("real/new"));
  expect_place(in("folder/new"), in("real/new"));
  expect_place(in("folder/../real/./new"), in("real/new"));
  expect_place(in("dangling"), in("real/new"));
  expect_place(in("second"), in("real/new"));
  expect_place("/cairn-no-such-file", "/cairn-no-such-file");
  // What leads nowhere stays as it is.
  expect_place(in("circle"), in("circle"));
  expect_place("/nonexistent/a/b", "/nonexistent/a/b");
  expect_place("", "");
  char old[512], plain[600];
  assert_non_null(getcwd(old, sizeof old));
  assert_int_equal(chdir(in("real")), 0);
  expect_place("new", in("real/new"));
  assert_int_equal(chdir(old), 0);
  snprintf(plain, sizeof plain, "%s", in("nowhere/at/all"));
  expect_place(in("lost"), plain);
  assert_false(crn_path_is_same(in("dangling"), in("second")));
  assert_int_equal(crn_file_replace(in("second"), "x", 1), CAIRN_OK);
  assert_true(crn_path_is_same(in("dangling"), in("folder/new")));
  assert_false(crn_path_is_same(in("dangling"), in("folder")));
  // The links are still links.
  struct stat st;
  assert_int_equal(lstat(in("second"), &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(lstat(in("dangling"), &st), 0);
  assert_true(S_ISLNK(st.st_mode));
}

static void test_lock_by_two_names(void **state) {
  (void)state;
  crn_file_lock lock, other;
  assert_int_equal(symlink("to-come", in("link")), 0);
  assert_int_equal(crn_file_lock_take(in("link"), &lock), CAIRN_OK);
  assert_int_equal(crn_file_lock_take(in("to-come"), &other), CAIRN_BUSY);
  assert_true(crn_file_exists(in("to-come.tmp-in_use")));
  crn_file_lock_give(&lock);
  assert_int_equal(crn_file_lock_take(in("to-come"), &lock), CAIRN_OK);
  assert_int_equal(crn_file_lock_take(in("link"), &other), CAIRN_BUSY);
  crn_file_lock_give(&lock);
}

static mode_t mode_of(const char *path) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  return st.st_mode & 07777;
}

static void test_modes(void **state) {
  (void)state;
  const char *file = in("mode");
  const mode_t mask = umask(027), modes[] = {0600, 0640, 0666, 0755, 0200};
  assert_int_equal(crn_file_replace(file, "a", 1), CAIRN_OK);
  assert_int_equal(mode_of(file), 0640);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    assert_int_equal(chmod(file, modes[i]), 0);
    assert_int_equal(crn_file_replace(file, "b", 1), CAIRN_OK);
    assert_int_equal(mode_of(file), modes[i]);
  }
  umask(mask);
}

// Also for a user who may write whatever there is.
static void test_protected(void **state) {
  (void)state;
  const char *file = in("protected");
  assert_int_equal(crn_file_replace(file, "kept", 4), CAIRN_OK);
  assert_false(crn_file_is_protected(file));
  assert_int_equal(chmod(file, 0444), 0);
  assert_true(crn_file_is_protected(file));
  assert_int_equal(crn_file_replace(file, "lost", 4), CAIRN_IO);
  assert_non_null(strstr(cairn_last_error()->message, file));
  assert_non_null(strstr(cairn_last_error()->message, "write-protected"));
  crn_str text;
  crn_str_initialize(&text, NULL);
  assert_int_equal(crn_file_read(file, 4, &text), CAIRN_OK);
  assert_string_equal(text.data, "kept");
  crn_str_deinitialize(&text);
  assert_false(crn_file_is_protected(in("no such file")));
  assert_false(crn_file_is_protected(g_folder));
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(g_folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  static const char *const names[] = {"real/new", "folder", "dangling", "second", "circle", "lost", "link", "mode", "protected"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in(names[i]));
  rmdir(in("real"));
  return rmdir(g_folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resolve),
      cmocka_unit_test(test_lock_by_two_names),
      cmocka_unit_test(test_modes),
      cmocka_unit_test(test_protected),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
