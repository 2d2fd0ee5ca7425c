#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"

static cairn_status io_failure(const char *what, const char *path) {
  int e = errno;
  if (e == ENOENT || e == ENOTDIR) return CRN_FAIL(NOT_FOUND, "%s: no such file or directory", path);
  return CRN_FAIL(IO, "cannot %s '%s': %s", what, path, strerror(e));
}

// Opens a regular file for reading; directories and devices are refused by name.
static cairn_status open_regular(const char *path, int *out_fd, size_t *out_bytes) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_failure("open", path);
  struct stat st;
  if (fstat(fd, &st)) {
    close(fd);
    return io_failure("stat", path);
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return CRN_FAIL(IO, "'%s' is not a regular file", path);
  }
  *out_fd = fd;
  *out_bytes = (size_t)st.st_size;
  return CAIRN_OK;
}

cairn_status crn_file_map_open(const char *path, crn_file_map *out_map) {
  *out_map = (crn_file_map){0};
  int fd;
  size_t bytes;
  CRN_TRY(open_regular(path, &fd, &bytes));
  void *p = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  close(fd);
  if (p == MAP_FAILED) return io_failure("map", path);
  *out_map = (crn_file_map){p, bytes};
  return CAIRN_OK;
}

void crn_file_map_close(crn_file_map *map) {
  if (map->data) munmap((void *)map->data, map->bytes);
  *map = (crn_file_map){0};
}

void crn_file_map_forget(const void *data, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t to = ((uintptr_t)data + bytes) / page * page;
  // Only a wish: nothing is wrong when the pages stay.
  if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
}

cairn_status crn_file_read(const char *path, size_t max_bytes, crn_str *out) {
  int fd;
  size_t bytes;
  crn_str_clear(out);
  CRN_TRY(open_regular(path, &fd, &bytes));
  cairn_status status = CAIRN_OK;
  if (bytes > max_bytes) {
    status = CRN_FAIL(OUT_OF_RANGE, "'%s' has %zu bytes, at most %zu are read", path, bytes, max_bytes);
    goto done;
  }
  CRN_TRY_GOTO(crn_str_reserve(out, bytes));
  while (out->size < bytes) {
    ssize_t n = read(fd, out->data + out->size, bytes - out->size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status = io_failure("read", path);
      goto done;
    }
    if (n == 0) break;
    out->size += (size_t)n;
  }
  out->data[out->size] = 0;
done:
  close(fd);
  return status;
}

bool crn_file_exists(const char *path) { return access(path, F_OK) == 0; }

bool crn_is_directory(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool crn_file_begins_with(const char *path, const char *bytes, size_t n) {
  char start[8] = {0};
  FILE *f = n <= sizeof start ? fopen(path, "rb") : NULL;
  if (!f) return false;
  bool same = fread(start, 1, n, f) == n && !memcmp(start, bytes, n);
  fclose(f);
  return same;
}

cairn_status crn_make_directories(const char *path) {
  crn_str p;
  crn_str_initialize(&p, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_str_puts(&p, path));
  for (size_t i = 1; i <= p.size; i++) {
    if (i < p.size && p.data[i] != '/') continue;
    char kept = p.data[i];
    p.data[i] = 0;
    if (mkdir(p.data, 0777)) {
      const bool is_there = errno == EEXIST, is_file = is_there && !crn_is_directory(p.data);
      if (!is_there) status = io_failure("create directory", p.data);
      if (is_file) status = CRN_FAIL(IO, "'%s' is a file, a folder is needed", p.data);
      if (!is_there || is_file) goto done;
    }
    p.data[i] = kept;
  }
done:
  crn_str_deinitialize(&p);
  return status;
}

cairn_status crn_path_join(crn_str *out, const char *directory, const char *name) {
  crn_str_clear(out);
  CRN_TRY(crn_str_puts(out, directory));
  if (out->size && out->data[out->size - 1] != '/') CRN_TRY(crn_str_putc(out, '/'));
  return crn_str_puts(out, name);
}

// Takes the lock that tells crn_file_remove_abandoned that the file has a writer; it goes with the process, however that ends. False when
// the file was removed in the moment it had none.
static bool lock_temporary(int fd) {
  struct stat st;
  while (flock(fd, LOCK_EX) && errno == EINTR) continue;
  return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

// A file that is replaced keeps its mode, and where that is allowed its owners; a new one gets what the process gives to files. Until then
// nobody else can open the temporary one.
static void set_owners(int fd, const struct stat *replaced) {
  if (!replaced) {
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    return;
  }
  mode_t mode = replaced->st_mode & 0777;
  // Members of another group were not meant.
  if (fchown(fd, replaced->st_uid, replaced->st_gid) && fchown(fd, (uid_t)-1, replaced->st_gid)) mode &= ~(mode_t)0070;
  fchmod(fd, mode);
}

// Opens a temporary file beside the target.
static cairn_status open_temporary(crn_file_writer *w, const struct stat *replaced) {
  do {
    if (w->fd >= 0) close(w->fd);
    crn_str_clear(&w->temporary);
    CRN_TRY(crn_str_printf(&w->temporary, "%s.tmp-XXXXXX", w->path.data));
    w->fd = mkostemp(w->temporary.data, O_CLOEXEC);
    if (w->fd < 0) return io_failure("create", w->path.data);
  } while (!lock_temporary(w->fd));
  set_owners(w->fd, replaced);
  return CAIRN_OK;
}

bool crn_file_is_protected(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (!(st.st_mode & 0222) || access(path, W_OK) != 0);
}

static cairn_status open_target(crn_file_writer *w, const char *path) {
  struct stat st;
  if (!*path) return CRN_FAIL(INVALID_ARGUMENT, "the name of the file to write is empty");
  const bool exists = stat(path, &st) == 0;
  if (exists && !S_ISREG(st.st_mode)) {
    if (S_ISDIR(st.st_mode)) return CRN_FAIL(IO, "'%s' is a directory, a file is to be written", path);
    w->is_direct = true;
    CRN_TRY(crn_str_puts(&w->path, path));
    w->fd = open(path, O_WRONLY | O_CLOEXEC);
    return w->fd < 0 ? io_failure("open", path) : CAIRN_OK;
  }
  if (crn_file_is_protected(path)) return CRN_FAIL(IO, "'%s' is write-protected: it is not replaced", path);
  CRN_TRY(crn_path_resolve(path, &w->path));
  return open_temporary(w, exists ? &st : NULL);
}

cairn_status crn_file_create(const char *path, crn_file_writer *w) {
  w->fd = -1;
  w->is_direct = false;
  crn_str_initialize(&w->path, NULL);
  crn_str_initialize(&w->temporary, NULL);
  cairn_status status = open_target(w, path);
  if (status != CAIRN_OK) {
    crn_str_deinitialize(&w->path);
    crn_str_deinitialize(&w->temporary);
  }
  return status;
}

bool crn_file_remove_abandoned(const char *path) {
  enum { OLD_SECONDS = 3600 };
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  bool is = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  // Where there are no locks only the age can tell.
  if (is && flock(fd, LOCK_EX | LOCK_NB)) is = errno != EWOULDBLOCK && time(NULL) - st.st_mtime > OLD_SECONDS;
  is = is && unlink(path) == 0;
  close(fd);
  return is;
}

// The name of a file, and behind it what open_temporary adds.
static bool is_temporary_of(const char *name, const char *file) {
  const size_t n = strlen(file);
  return strncmp(name, file, n) == 0 && strncmp(name + n, ".tmp-", 5) == 0 && strlen(name + n) == 11;
}

void crn_file_remove_leftovers(const char *path) {
  crn_str real, folder, leftover;
  crn_str_initialize(&real, NULL);
  crn_str_initialize(&folder, NULL);
  crn_str_initialize(&leftover, NULL);
  cairn_status status = crn_path_resolve(path, &real);
  const char *at = status == CAIRN_OK ? real.data : path, *slash = strrchr(at, '/'), *name = slash ? slash + 1 : at;
  if (status == CAIRN_OK) status = slash ? crn_str_append(&folder, at, (size_t)(slash - at) + 1) : crn_str_puts(&folder, ".");
  DIR *dir = status == CAIRN_OK ? opendir(folder.data) : NULL;
  for (const struct dirent *e; dir && status == CAIRN_OK && (e = readdir(dir));) {
    if (!is_temporary_of(e->d_name, name)) continue;
    status = crn_path_join(&leftover, folder.data, e->d_name);
    if (status == CAIRN_OK) crn_file_remove_abandoned(leftover.data);
  }
  if (dir) closedir(dir);
  // What is not removed now is next time; nobody needs to know.
  if (status != CAIRN_OK) crn_error_clear();
  crn_str_deinitialize(&real);
  crn_str_deinitialize(&folder);
  crn_str_deinitialize(&leftover);
}

// --- locks ------------------------------------------------------------------------------------------------------------

// Six characters that mkostemp never makes, so that the file is a leftover like any other when its process is gone.
#define LOCK_NAME "in_use"

static cairn_status lock_is_taken(const char *path, int fd) {
  char holder[24] = "";
  ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
  holder[n > 0 ? n : 0] = 0;
  return CRN_FAIL(BUSY, "'%s' is in use by another process%s%s", path, *holder ? ", number " : "", holder);
}

// Where there are no locks there is none to wait for.
static cairn_status open_lock(const char *path, crn_file_lock *lock) {
  struct stat st;
  for (;;) {
    lock->fd = open(lock->beside.data, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (lock->fd < 0) return io_failure("create", lock->beside.data);
    if (flock(lock->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return lock_is_taken(path, lock->fd);
    // Whoever had it may have removed the file before this lock was there.
    if (fstat(lock->fd, &st) != 0 || st.st_nlink > 0) return CAIRN_OK;
    close(lock->fd);
  }
}

cairn_status crn_file_lock_take(const char *path, crn_file_lock *lock) {
  lock->fd = -1;
  crn_str_initialize(&lock->beside, NULL);
  cairn_status status = crn_path_resolve(path, &lock->beside);
  if (status == CAIRN_OK) status = crn_str_puts(&lock->beside, ".tmp-" LOCK_NAME);
  if (status == CAIRN_OK) status = open_lock(path, lock);
  if (status != CAIRN_OK) {
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
    crn_str_deinitialize(&lock->beside);
    return status;
  }
  // For the messages of others only.
  if (ftruncate(lock->fd, 0) == 0) dprintf(lock->fd, "%ld", (long)getpid());
  return CAIRN_OK;
}

void crn_file_lock_give(crn_file_lock *lock) {
  if (lock->fd < 0) return;
  unlink(lock->beside.data);
  close(lock->fd);
  lock->fd = -1;
  crn_str_deinitialize(&lock->beside);
}

// ----------------------------------------------------------------------------------------------------------------------

cairn_status crn_file_write(crn_file_writer *w, const void *data, size_t bytes) {
  for (const char *p = data; bytes;) {
    ssize_t n = write(w->fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_failure("write", w->path.data);
    p += n;
    bytes -= (size_t)n;
  }
  return CAIRN_OK;
}

static void finish(crn_file_writer *w, bool keep) {
  if (w->fd >= 0) close(w->fd);
  if (!keep && !w->is_direct) unlink(w->temporary.data);
  crn_str_deinitialize(&w->path);
  crn_str_deinitialize(&w->temporary);
  w->fd = -1;
}

static cairn_status commit(crn_file_writer *w, bool sync) {
  cairn_status status = CAIRN_OK;
  if (sync && !w->is_direct && fsync(w->fd) && errno != EINVAL && errno != ENOTSUP) status = io_failure("flush", w->path.data);
  if (status == CAIRN_OK && !w->is_direct && rename(w->temporary.data, w->path.data)) status = io_failure("rename to", w->path.data);
  finish(w, status == CAIRN_OK);
  return status;
}

cairn_status crn_file_commit(crn_file_writer *w) { return commit(w, true); }

cairn_status crn_file_commit_unsynced(crn_file_writer *w) { return commit(w, false); }

void crn_file_discard(crn_file_writer *w) { finish(w, false); }

cairn_status crn_file_replace(const char *path, const void *data, size_t bytes) {
  crn_file_writer w;
  CRN_TRY(crn_file_create(path, &w));
  cairn_status status = crn_file_write(&w, data, bytes);
  if (status != CAIRN_OK) {
    crn_file_discard(&w);
    return status;
  }
  return crn_file_commit(&w);
}
