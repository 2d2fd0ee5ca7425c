#include "engines/llm/block_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"

// In front of the content. The sum is of name and content.
typedef struct block_header {
  char magic[8];
  uint64_t bytes, sum;
} block_header;

#define MAGIC "cairnblk"

crn_block_name crn_block_name_of(const unsigned char digest[CRN_SHA256_BYTES], const char *extension) {
  crn_block_name name;
  char hex[2 * CRN_SHA256_BYTES + 1];
  crn_sha256_hex(digest, hex);
  snprintf(name.text, sizeof name.text, "%s.%.6s", hex, extension);
  return name;
}

cairn_status crn_block_store_open(crn_block_store *store, const cairn_allocator *allocator, const char *folder, uint64_t most_bytes) {
  crn_str_initialize(&store->folder, allocator);
  store->most_bytes = most_bytes;
  cairn_status status = crn_make_directories(folder);
  if (status == CAIRN_OK && access(folder, R_OK | W_OK | X_OK) != 0) status = CRN_FAIL(IO, "the folder '%s' cannot be written to", folder);
  if (status == CAIRN_OK) status = crn_str_puts(&store->folder, folder);
  if (status != CAIRN_OK) crn_block_store_close(store);
  return status;
}

void crn_block_store_close(crn_block_store *store) {
  if (store->folder.data) crn_str_deinitialize(&store->folder);
  *store = (crn_block_store){0};
}

static cairn_status path_of(const crn_block_store *store, const char *name, crn_str *out) {
  crn_str_initialize(out, store->folder.allocator);
  return crn_path_join(out, store->folder.data, name);
}

bool crn_block_store_has(const crn_block_store *store, const crn_block_name *name) {
  crn_str path;
  bool has = path_of(store, name->text, &path) == CAIRN_OK && crn_file_exists(path.data);
  crn_str_deinitialize(&path);
  return has;
}

// --- reading and writing ------------------------------------------------------------------------------------------------

static uint64_t sum_of(const crn_block_name *name, const void *data, size_t bytes) {
  return crn_checksum(data, bytes, crn_checksum(name->text, strlen(name->text), 0));
}

static bool is_whole(const crn_block_name *name, size_t bytes, const crn_file_map *map) {
  block_header header;
  if (map->bytes != sizeof header + bytes) return false;
  memcpy(&header, map->data, sizeof header);
  return memcmp(header.magic, MAGIC, sizeof header.magic) == 0 && header.bytes == bytes &&
         header.sum == sum_of(name, map->data + sizeof header, bytes);
}

cairn_status crn_block_store_read(const crn_block_store *store, const crn_block_name *name, size_t bytes, crn_file_map *out_map,
                                  const void **out_data) {
  crn_str path;
  *out_map = (crn_file_map){0};
  cairn_status status = path_of(store, name->text, &path);
  if (status == CAIRN_OK) status = crn_file_map_open(path.data, out_map);
  if (status == CAIRN_OK && !is_whole(name, bytes, out_map)) {
    crn_file_map_close(out_map);
    unlink(path.data);
    status = CRN_FAIL(NOT_FOUND, "'%s' was damaged and is removed", path.data);
  }
  if (status == CAIRN_OK) *out_data = out_map->data + sizeof(block_header);
  crn_str_deinitialize(&path);
  return status;
}

static cairn_status write_all(crn_file_writer *w, const crn_block_name *name, const void *data, size_t bytes) {
  const block_header header = {.magic = MAGIC, .bytes = bytes, .sum = sum_of(name, data, bytes)};
  CRN_TRY(crn_file_write(w, &header, sizeof header));
  return crn_file_write(w, data, bytes);
}

cairn_status crn_block_store_write(const crn_block_store *store, const crn_block_name *name, const void *data, size_t bytes) {
  crn_str path;
  crn_file_writer w;
  cairn_status status = path_of(store, name->text, &path);
  if (status == CAIRN_OK) status = crn_file_create(path.data, &w);
  if (status == CAIRN_OK) {
    status = write_all(&w, name, data, bytes);
    if (status == CAIRN_OK) {
      status = crn_file_commit_unsynced(&w);
    } else {
      crn_file_discard(&w);
    }
  }
  crn_str_deinitialize(&path);
  return status;
}

void crn_block_store_touch(const crn_block_store *store, const crn_block_name *name) {
  crn_str path;
  if (path_of(store, name->text, &path) == CAIRN_OK) utimensat(AT_FDCWD, path.data, NULL, 0);
  crn_str_deinitialize(&path);
}

// --- room ---------------------------------------------------------------------------------------------------------------

typedef struct stored {
  char name[2 * CRN_SHA256_BYTES + 24];
  uint64_t bytes;
  struct timespec used;
} stored;

typedef CRN_VEC(stored) stored_list;

// Hex digits, a dot, letters; a temporary has more behind it.
static bool is_block(const char *name, bool *out_is_temporary) {
  const size_t hex = strspn(name, "0123456789abcdef");
  if (hex != 2 * CRN_SHA256_BYTES || name[hex] != '.' || strlen(name) >= sizeof((stored *)0)->name) return false;
  *out_is_temporary = strstr(name + hex, ".tmp-") != NULL;
  return *out_is_temporary || strcmp(name + hex, ".rows") == 0 || strcmp(name + hex, ".whole") == 0;
}

static int by_use(const void *a, const void *b) {
  const struct timespec *x = &((const stored *)a)->used, *y = &((const stored *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static void remove_abandoned(const crn_block_store *store, const char *name) {
  crn_str path;
  if (path_of(store, name, &path) == CAIRN_OK) crn_file_remove_abandoned(path.data);
  crn_str_deinitialize(&path);
}

static void list_blocks(const crn_block_store *store, int folder, DIR *dir, stored_list *out, uint64_t *out_bytes) {
  struct dirent *entry;
  while ((entry = readdir(dir))) {
    struct stat st;
    bool is_temporary;
    if (!is_block(entry->d_name, &is_temporary) || fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(st.st_mode)) continue;
    if (is_temporary) {
      remove_abandoned(store, entry->d_name);
      continue;
    }
    stored s = {.bytes = (uint64_t)st.st_size, .used = st.st_mtim};
    memcpy(s.name, entry->d_name, strlen(entry->d_name) + 1);
    *out_bytes += s.bytes;
    // What there is no memory to list stays this time.
    if (crn_vec_push(store->folder.allocator, out, s) != CAIRN_OK) break;
  }
}

void crn_block_store_trim(const crn_block_store *store) {
  stored_list list = {0};
  uint64_t bytes = 0;
  DIR *dir = opendir(store->folder.data);
  if (!dir) return;
  const int folder = dirfd(dir);
  list_blocks(store, folder, dir, &list, &bytes);
  if (bytes > store->most_bytes) {
    qsort(list.items, list.size, sizeof *list.items, by_use);
    // A tenth below the bound, so that not every block that comes makes the list again.
    const uint64_t wanted = store->most_bytes - store->most_bytes / 10;
    for (size_t i = 0; i < list.size && bytes > wanted; i++) {
      if (unlinkat(folder, list.items[i].name, 0) == 0) bytes -= list.items[i].bytes;
    }
  }
  closedir(dir);
  crn_vec_free(store->folder.allocator, &list);
}
