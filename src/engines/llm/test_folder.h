/// For tests only: cmocka, and a temporary folder that tests fill with files.
#ifndef CRN_ENGINES_LLM_TEST_FOLDER_H
#define CRN_ENGINES_LLM_TEST_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

typedef struct test_folder {
  char path[64];
} test_folder;

static inline void test_folder_create(test_folder *f) {
  snprintf(f->path, sizeof f->path, "/tmp/cairn-llm-test-XXXXXX");
  assert_non_null(mkdtemp(f->path));
}

static inline int test_remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
  (void)st;
  (void)kind;
  (void)ftw;
  return remove(path);
}

static inline void test_folder_remove(test_folder *f) { nftw(f->path, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

/// The path of `name` in the folder. The text lives until 8 more were asked for.
static inline const char *test_path(const test_folder *f, const char *name) {
  static char rooms[8][512];
  static int next;
  char *room = rooms[next++ % 8];
  snprintf(room, sizeof rooms[0], "%s/%s", f->path, name);
  return room;
}

/// Writes a file and the folders above it.
static inline void test_put(const test_folder *f, const char *name, const char *text) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", test_path(f, name));
  *strrchr(folder, '/') = 0;
  assert_int_equal(crn_make_directories(folder), CAIRN_OK);
  assert_int_equal(crn_file_replace(test_path(f, name), text, strlen(text)), CAIRN_OK);
}

/// Fails the test unless `status` is `expected` and, for a failure, its record holds `part`.
static inline void test_expect(cairn_status status, cairn_status expected, const char *part) {
  char message[2048];
  cairn_last_error_text(message, sizeof message);
  if (status != expected) fail_msg("%s (%s) instead of %s", cairn_status_name(status), status ? message : "", cairn_status_name(expected));
  if (expected != CAIRN_OK && !strstr(message, part)) fail_msg("'%s' does not hold '%s'", message, part);
}

#endif
