#include "tools/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"

// Cuts the last part off: "a/b" to "a", "a" to ".", "/a" to "/". False when there is nothing left to cut.
static bool to_parent(char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  if ((n == 1 && path[0] == '/') || !strcmp(path, ".")) return false;
  while (n > 0 && path[n - 1] != '/') n--;
  while (n > 1 && path[n - 1] == '/') n--;
  if (n == 0) path[n++] = '.';
  path[n] = 0;
  return true;
}

// A copy with room for the "." that to_parent may leave.
static cairn_status copy_path(const char *path, char **out) {
  size_t n = strlen(path);
  *out = malloc(n + 2);
  if (!*out) return CRN_FAIL(OUT_OF_MEMORY, "no memory for a path");
  memcpy(*out, path, n + 1);
  return CAIRN_OK;
}

static cairn_status check_folder(const char *option, const char *path, const char *folder) {
  if (!crn_file_exists(folder)) return CRN_FAIL(NOT_FOUND, "%s %s: the folder '%s' does not exist", option, path, folder);
  if (!crn_is_directory(folder)) return CRN_FAIL(IO, "%s %s: '%s' is no folder", option, path, folder);
  if (access(folder, W_OK | X_OK)) return CRN_FAIL(IO, "%s %s: cannot write in '%s': %s", option, path, folder, strerror(errno));
  return CAIRN_OK;
}

// Inputs may be "-", the standard input; a file of that name is never what is meant.
static cairn_status check_name(const char *option, const char *path) {
  if (strcmp(path, "-") != 0) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s -: the name of a file is expected; /dev/stdout is the standard output", option);
}

cairn_status crn_output_check_file(const char *option, const char *path) {
  struct stat st;
  if (!path) return CAIRN_OK;
  CRN_TRY(check_name(option, path));
  bool exists = stat(path, &st) == 0;
  if (exists && S_ISDIR(st.st_mode)) return CRN_FAIL(IO, "%s %s: that is a folder, a file is to be written", option, path);
  if (exists && !S_ISREG(st.st_mode))
    return access(path, W_OK) ? CRN_FAIL(IO, "%s %s: cannot write: %s", option, path, strerror(errno)) : CAIRN_OK;
  if (crn_file_is_protected(path))
    return CRN_FAIL(IO, "%s %s: that file is write-protected; choose another, or allow writing to it", option, path);
  // A file is replaced by a new one beside it, and a link is followed, so the folder of the real file counts.
  char *folder = NULL;
  crn_str real;
  crn_str_initialize(&real, NULL);
  cairn_status status = crn_path_resolve(path, &real);
  if (status == CAIRN_OK) status = copy_path(real.data, &folder);
  crn_str_deinitialize(&real);
  CRN_TRY(status);
  to_parent(folder);
  status = check_folder(option, path, folder);
  free(folder);
  return status;
}

cairn_status crn_output_check_folder(const char *option, const char *path) {
  char *folder;
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) return CRN_FAIL(IO, "%s %s: that is a file, a folder is to be written", option, path);
  CRN_TRY(copy_path(path, &folder));
  if (!crn_is_directory(path)) to_parent(folder);
  cairn_status status = check_folder(option, path, folder);
  free(folder);
  return status;
}

cairn_status crn_output_check_directory(const char *option, const char *path) {
  char *folder;
  if (!path) return CAIRN_OK;
  CRN_TRY(check_name(option, path));
  CRN_TRY(copy_path(path, &folder));
  while (!crn_file_exists(folder) && to_parent(folder)) continue;
  cairn_status status = check_folder(option, path, folder);
  free(folder);
  return status;
}

// --- apart from what is read ------------------------------------------------------------------------------------------

// The real path of what exists of `path`: the file itself, else the nearest folder above it.
static cairn_status real_place(const char *path, char **out) {
  char *copy;
  CRN_TRY(copy_path(path, &copy));
  while (!(*out = realpath(copy, NULL)) && to_parent(copy)) continue;
  free(copy);
  return *out ? CAIRN_OK : CRN_FAIL(IO, "cannot find '%s': %s", path, strerror(errno));
}

// The folder that belongs to `input`: itself, or the asset around a main.mlirb. "" when it is a file of its own.
static cairn_status folder_of(const char *input, char **out) {
  CRN_TRY(real_place(input, out));
  if (crn_is_directory(*out)) return CAIRN_OK;
  if (crn_ends_with(*out, "/main.mlirb")) {
    to_parent(*out);
    if (crn_ends_with(*out, ".aimodel") || crn_ends_with(*out, ".aimodelc")) return CAIRN_OK;
  }
  (*out)[0] = 0;
  return CAIRN_OK;
}

cairn_status crn_output_check_apart(const char *option, const char *path, const char *input) {
  char *folder = NULL, *place = NULL;
  if (!path || !input || !crn_file_exists(input)) return CAIRN_OK;
  cairn_status status;
  CRN_TRY_GOTO(folder_of(input, &folder));
  CRN_TRY_GOTO(real_place(path, &place));
  size_t n = strlen(folder);
  struct stat st;
  // Pipes and terminals may be read and written at once; only what would be replaced is protected.
  if (!n && stat(input, &st) == 0 && S_ISREG(st.st_mode) && crn_path_is_same(path, input))
    status = CRN_FAIL(INVALID_ARGUMENT, "%s %s: that is the file '%s' that is read; choose another", option, path, input);
  else if (n && !strncmp(place, folder, n) && (place[n] == 0 || place[n] == '/'))
    status = CRN_FAIL(INVALID_ARGUMENT, "%s %s: that is inside of '%s', which is read; choose a place outside", option, path, input);
done:
  free(folder);
  free(place);
  return status;
}

// --- apart from what is written, too ----------------------------------------------------------------------------------

// Pipes, terminals and /dev/null take what they are given, from however many.
static bool is_device(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static bool is_in_place(const char *place, const char *other, bool inside) {
  const size_t n = strlen(other);
  return !strncmp(place, other, n) && (!place[n] || (inside && place[n] == '/'));
}

cairn_status crn_output_check_distinct(const crn_output *a, const crn_output *b, bool inside) {
  crn_str x, y;
  crn_str_initialize(&x, NULL);
  crn_str_initialize(&y, NULL);
  cairn_status status = crn_path_resolve(a->path, &x);
  if (status == CAIRN_OK) status = crn_path_resolve(b->path, &y);
  const bool is_same =
      status == CAIRN_OK && !is_device(a->path) && (crn_path_is_same(a->path, b->path) || is_in_place(x.data, y.data, inside));
  if (is_same)
    status = CRN_FAIL(INVALID_ARGUMENT, "%s %s and %s %s both write to '%s'; choose another file for one of them", a->option, a->given,
                      b->option, b->given, b->path);
  crn_str_deinitialize(&x);
  crn_str_deinitialize(&y);
  return status;
}
