/// Shared by the tests of the importers: an allocator that fails on demand, files in memory, and hostile variations.
#ifndef CRN_IMPORT_TEST_SUPPORT_H
#define CRN_IMPORT_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/str.h"

/// Fails the `left`-th allocation from now on (never when negative) and counts what is in use.
typedef struct failing_allocator {
  cairn_allocator allocator;
  long left;
  long live;  ///< blocks
  size_t bytes, peak;
} failing_allocator;

static void *failing_alloc(void *self, size_t bytes, size_t align) {
  failing_allocator *f = self;
  if (f->left == 0) return NULL;
  if (f->left > 0) f->left--;
  void *p = crn_default_allocator()->alloc(NULL, bytes, align);
  if (p) {
    f->live++;
    f->bytes += bytes;
    if (f->bytes > f->peak) f->peak = f->bytes;
  }
  return p;
}

static void failing_free(void *self, void *pointer, size_t bytes) {
  failing_allocator *f = self;
  f->live--;
  f->bytes -= bytes;
  crn_default_allocator()->free(NULL, pointer, bytes);
}

static inline void failing_initialize(failing_allocator *f) {
  *f = (failing_allocator){.allocator = {f, failing_alloc, failing_free}, .left = -1};
}

/// Reads a file of the test data; the caller frees the text.
static inline crn_str read_test_file(const char *name) {
  char path[512];
  crn_str text;
  crn_str_initialize(&text, NULL);
  snprintf(path, sizeof path, "%s/gguf/%s", CAIRN_TEST_DATA, name);
  assert_int_equal(crn_file_read(path, 1 << 30, &text), CAIRN_OK);
  return text;
}

/// A copy whose last byte is the last of its allocation, so that sanitizers see every read behind it.
static inline unsigned char *exact_copy(const void *data, size_t bytes) {
  unsigned char *copy = malloc(bytes ? bytes : 1);
  assert_non_null(copy);
  if (bytes) memcpy(copy, data, bytes);
  return copy;
}

/// Shows `check` every beginning of a file and the file with each of its first `n_flips` bytes changed in several ways.
static inline void for_hostile_variations(const void *file, size_t bytes, size_t n_flips,
                                          void (*check)(const unsigned char *data, size_t bytes)) {
  static const unsigned char changes[] = {0x01, 0x10, 0x80, 0xff};
  for (size_t n = 0; n < bytes; n++) {
    // Behind the part that is parsed, cutting anywhere means the same.
    if (n > n_flips && n % 61 != 0) continue;
    unsigned char *cut = exact_copy(file, n);
    check(cut, n);
    free(cut);
  }
  unsigned char *copy = exact_copy(file, bytes);
  for (size_t i = 0; i < bytes && i < n_flips; i++) {
    for (size_t k = 0; k < sizeof changes; k++) {
      copy[i] ^= changes[k];
      check(copy, bytes);
      copy[i] ^= changes[k];
    }
  }
  free(copy);
}

#endif
