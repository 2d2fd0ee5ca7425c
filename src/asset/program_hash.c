#include "asset/program_hash.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cache.h"

// Smaller files are hashed faster than looked up.
static const size_t least_bytes = (size_t)16 << 20;

// Where the hash of the file is remembered: a name made of all that changes when the file does.
static cairn_status memo_path(const char *path, crn_str *out, bool make_folder) {
  struct stat st;
  char identity[192], name[2 * CRN_SHA256_BYTES + 1];
  unsigned char digest[CRN_SHA256_BYTES];
  crn_str folder;
  if (stat(path, &st)) return CRN_FAIL(IO, "'%s' cannot be looked at", path);
  int n = snprintf(identity, sizeof identity, "%llu %llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                   (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
  CRN_TRY(crn_sha256(identity, (size_t)n, digest));
  for (int i = 0; i < CRN_SHA256_BYTES; i++) snprintf(name + 2 * i, 3, "%02x", digest[i]);
  crn_str_initialize(&folder, crn_default_allocator());
  cairn_status status = crn_cache_directory(out);
  if (status == CAIRN_OK) status = crn_path_join(&folder, out->data, "hashes");
  if (status == CAIRN_OK && make_folder) status = crn_make_directories(folder.data);
  if (status == CAIRN_OK) status = crn_path_join(out, folder.data, name);
  crn_str_deinitialize(&folder);
  return status;
}

static cairn_status recall(const char *path, unsigned char *out_digest) {
  crn_str memo, text;
  crn_str_initialize(&memo, crn_default_allocator());
  crn_str_initialize(&text, crn_default_allocator());
  cairn_status status = memo_path(path, &memo, false);
  if (status == CAIRN_OK) status = crn_file_read(memo.data, 2 * CRN_SHA256_BYTES, &text);
  // The digest twice: half a file, or another one, is none.
  if (status == CAIRN_OK && (text.size != 2 * CRN_SHA256_BYTES || memcmp(text.data, text.data + CRN_SHA256_BYTES, CRN_SHA256_BYTES)))
    status = CRN_FAIL(NOT_FOUND, "'%s' is no remembered hash", memo.data);
  if (status == CAIRN_OK) memcpy(out_digest, text.data, CRN_SHA256_BYTES);
  crn_str_deinitialize(&text);
  crn_str_deinitialize(&memo);
  return status;
}

static void remember(const char *path, const unsigned char *digest) {
  unsigned char twice[2 * CRN_SHA256_BYTES];
  crn_str memo;
  memcpy(twice, digest, CRN_SHA256_BYTES);
  memcpy(twice + CRN_SHA256_BYTES, digest, CRN_SHA256_BYTES);
  crn_str_initialize(&memo, crn_default_allocator());
  // Not remembering costs time only.
  if (memo_path(path, &memo, true) != CAIRN_OK || crn_file_replace(memo.data, twice, sizeof twice) != CAIRN_OK) crn_error_clear();
  crn_str_deinitialize(&memo);
}

cairn_status crn_program_hash(const char *path, const crn_file_map *map, bool is_strict, unsigned char out_digest[CRN_SHA256_BYTES]) {
  bool has_memo = map->bytes >= least_bytes && !crn_cache_is_off();
  if (has_memo && !is_strict) {
    if (recall(path, out_digest) == CAIRN_OK) return CAIRN_OK;
    crn_error_clear();
  }
  CRN_TRY(crn_sha256_map(map, out_digest));
  if (has_memo) remember(path, out_digest);
  return CAIRN_OK;
}
