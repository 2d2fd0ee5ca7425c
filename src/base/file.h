/// Files: read-only maps, whole reads, and writes that are never seen half done.
#ifndef CRN_BASE_FILE_H
#define CRN_BASE_FILE_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/str.h"

/// A read-only map of a whole file. `data` is NULL for an empty file.
typedef struct crn_file_map {
  const unsigned char *data;
  size_t bytes;
} crn_file_map;

/// Errors: NOT_FOUND, IO (not a regular file, not readable).
cairn_status crn_file_map_open(const char *path, crn_file_map *out_map);
void crn_file_map_close(crn_file_map *map);
/// Gives back the memory of whole pages in `data` .. `data + bytes`, which lie in a map: they are read again when they are needed.
void crn_file_map_forget(const void *data, size_t bytes);

/// Reads a whole file of at most `max_bytes` into `out` (cleared first). Errors: NOT_FOUND, IO, OUT_OF_RANGE.
cairn_status crn_file_read(const char *path, size_t max_bytes, crn_str *out);

bool crn_file_exists(const char *path);
bool crn_is_directory(const char *path);
/// Whether the first `n` <= 8 bytes of a file are these; false for what cannot be read.
bool crn_file_begins_with(const char *path, const char *bytes, size_t n);
/// Creates a directory and its missing parents. Errors: IO.
cairn_status crn_make_directories(const char *path);

/// Appends "directory/name" to the cleared `out`.
cairn_status crn_path_join(crn_str *out, const char *directory, const char *name);

/// A file written under a temporary name beside its target. Either crn_file_commit renames it over the target, or
/// crn_file_discard removes it; one of both must be called. A symbolic link is followed, so that its target is replaced, or made.
/// A file that is replaced keeps its mode; a new one gets that of new files (umask).
/// What is no regular file (a pipe, a terminal, /dev/null) is written directly: there is nothing to replace.
typedef struct crn_file_writer {
  int fd;
  bool is_direct;
  crn_str path, temporary;
} crn_file_writer;

/// Errors: NOT_FOUND (the folder), IO (also of a file that crn_file_is_protected), INVALID_ARGUMENT (no name).
cairn_status crn_file_create(const char *path, crn_file_writer *out_writer);
cairn_status crn_file_write(crn_file_writer *w, const void *data, size_t bytes);
cairn_status crn_file_commit(crn_file_writer *w);
/// As crn_file_commit without waiting for the disk: for what is checked when it is read and can be made again. A crash of the machine may
/// leave a file of the right name and wrong content; a crash of the process does not.
cairn_status crn_file_commit_unsynced(crn_file_writer *w);
void crn_file_discard(crn_file_writer *w);

/// Whether a file is there that is not to be written: this process may not, or it has no permission to write for anybody, which counts for
/// a user who may do everything, too.
bool crn_file_is_protected(const char *path);

/// Removes the temporary file of a crn_file_writer when it has no writer any more: its process is gone. Returns whether it did.
bool crn_file_remove_abandoned(const char *path);
/// Removes such temporary files that were to become the file `path`.
void crn_file_remove_leftovers(const char *path);

/// A file kept to one holder: nobody else gets the lock of the same file until it is given back or its process ends. It is a lock on a
/// file beside it, which counts as one of its temporary files: those that outlive their process are removed with them.
typedef struct crn_file_lock {
  int fd;  ///< -1 = not held
  crn_str beside;
} crn_file_lock;

/// Errors: BUSY (the message names the file and the process that has it), those of making a file in the folder.
cairn_status crn_file_lock_take(const char *path, crn_file_lock *out_lock);
/// Nothing happens for a lock that is not held.
void crn_file_lock_give(crn_file_lock *lock);

/// Writes a whole file through a crn_file_writer.
cairn_status crn_file_replace(const char *path, const void *data, size_t bytes);

#endif
