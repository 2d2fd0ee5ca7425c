#include "base/path.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINKS = 40 };

// What stands in front of the last part, with its slash; "" when there is no slash.
static size_t folder_bytes(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

// The real folder of a file that is not there, and its name in it.
static cairn_status resolve_new(const char *path, crn_str *out) {
  const size_t n = folder_bytes(path);
  if (!path[n]) return crn_str_puts(out, path);
  CRN_TRY(n ? crn_str_append(out, path, n) : crn_str_puts(out, "."));
  char *folder = realpath(out->data, NULL);
  crn_str_clear(out);
  cairn_status status = crn_str_puts(out, folder ? folder : path);
  if (folder && status == CAIRN_OK && strcmp(folder, "/") != 0) status = crn_str_putc(out, '/');
  if (folder && status == CAIRN_OK) status = crn_str_puts(out, path + n);
  free(folder);
  return status;
}

// What the link `at` says instead. False when it is none.
static cairn_status follow(crn_str *at, bool *out_is_link) {
  char target[PATH_MAX];
  const ssize_t n = readlink(at->data, target, sizeof target - 1);
  *out_is_link = n > 0;
  if (n <= 0) return CAIRN_OK;
  const size_t kept = target[0] == '/' ? 0 : folder_bytes(at->data);
  at->size = kept;
  at->data[kept] = 0;
  return crn_str_append(at, target, (size_t)n);
}

static cairn_status resolve(const char *path, crn_str *at, crn_str *out) {
  CRN_TRY(crn_str_puts(at, path));
  for (int i = 0; i < MAX_LINKS; i++) {
    bool is_link;
    char *real = realpath(at->data, NULL);
    if (real) {
      cairn_status status = crn_str_puts(out, real);
      free(real);
      return status;
    }
    CRN_TRY(follow(at, &is_link));
    if (!is_link) return resolve_new(at->data, out);
  }
  return crn_str_puts(out, path);
}

cairn_status crn_path_resolve(const char *path, crn_str *out) {
  crn_str at;
  crn_str_clear(out);
  crn_str_initialize(&at, NULL);
  cairn_status status = resolve(path, &at, out);
  crn_str_deinitialize(&at);
  return status;
}

bool crn_path_is_same(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
