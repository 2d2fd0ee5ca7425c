#include "execute/packed_cache.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "asset/compiled.h"
#include "asset/program_hash.h"
#include "base/cache.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cairn/specialize.h"

// Less than this is packed in no time. The version changes with the packed layout.
static const uint64_t least_bytes = 8u << 20;
#define LAYOUT_VERSION CRN_PACKED_LAYOUT
#define EXTENSION ".packed"
// Stands in names and identities of entries made for frequent reshapes.
#define RESHAPES "reshapes"

// --- places -------------------------------------------------------------------------------------------------------------------

// Of packed weights wherever they lie: those of a compiled asset serve every set of options.
static cairn_status make_plain_identity(const cairn_model *m, crn_str *out) {
  uint16_t one = 1;
  return crn_str_printf(out, "%s\nlayout " LAYOUT_VERSION " %s\n", m->hash, *(const char *)&one ? "little-endian" : "big-endian");
}

static cairn_status make_identity(const cairn_model *m, crn_str *out) {
  CRN_TRY(make_plain_identity(m, out));
  return m->options.expect_frequent_reshapes ? crn_str_puts(out, RESHAPES "\n") : CAIRN_OK;
}

static cairn_status entry_path(const cairn_model *m, const char *folder, crn_str *out) {
  crn_str name;
  crn_str_initialize(&name, &m->context->allocator);
  cairn_status status =
      crn_str_printf(&name, "%.32s-" LAYOUT_VERSION "%s" EXTENSION, m->hash, m->options.expect_frequent_reshapes ? "-" RESHAPES : "");
  if (status == CAIRN_OK) status = crn_path_join(out, folder, name.data);
  crn_str_deinitialize(&name);
  return status;
}

// --- entries ------------------------------------------------------------------------------------------------------------------

static bool has_suffix(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n > m && !strcmp(text + n - m, suffix);
}

// 32 hexadecimal digits, the layout's version, options and the extension: other files in the folder are not ours.
static bool is_entry_name(const char *name) {
  return strspn(name, "0123456789abcdef") == 32 && name[32] == '-' && has_suffix(name, EXTENSION);
}

// What becomes an entry or the text beside it; or never did, because the program was interrupted.
static bool is_temporary_name(const char *name) {
  if (strspn(name, "0123456789abcdef") != 32 || name[32] != '-') return false;
  return strstr(name, EXTENSION ".tmp-") || strstr(name, EXTENSION ".txt.tmp-");
}

// Beside each entry lies a text file with the path of its model.
static void read_model(const char *path, char *out, size_t capacity) {
  char name[PATH_MAX];
  crn_str text;
  *out = 0;
  if ((size_t)snprintf(name, sizeof name, "%s.txt", path) >= sizeof name) return;
  crn_str_initialize(&text, crn_default_allocator());
  if (crn_file_read(name, capacity - 1, &text) == CAIRN_OK) {
    memcpy(out, text.data, text.size);
    out[text.size] = 0;
  } else {
    crn_error_clear();
  }
  crn_str_deinitialize(&text);
}

cairn_status cairn_cache_list(cairn_status (*visit)(void *user, const cairn_cache_entry *entry), void *user) {
  CRN_REQUIRE(visit);
  crn_str folder;
  crn_str_initialize(&folder, crn_default_allocator());
  cairn_status status = crn_cache_directory(&folder);
  DIR *dir = status == CAIRN_OK ? opendir(folder.data) : NULL;
  if (status == CAIRN_OK && !dir && errno != ENOENT)
    status = CRN_FAIL(IO, "the cache '%s' cannot be read: %s", folder.data, strerror(errno));
  for (struct dirent *e; dir && status == CAIRN_OK && (e = readdir(dir));) {
    char path[PATH_MAX], model[PATH_MAX];
    struct stat st;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder.data, e->d_name) >= sizeof path || stat(path, &st) || !S_ISREG(st.st_mode))
      continue;
    if (is_temporary_name(e->d_name)) crn_file_remove_abandoned(path);
    if (!is_entry_name(e->d_name)) continue;
    read_model(path, model, sizeof model);
    const char *options = has_suffix(path, "-" RESHAPES EXTENSION) ? "frequent reshapes" : "";
    cairn_cache_entry entry = {path, model, options, (uint64_t)st.st_size, (int64_t)st.st_mtime};
    status = visit(user, &entry);
  }
  if (dir) closedir(dir);
  crn_str_deinitialize(&folder);
  return status;
}

static bool remove_entry(const char *path) {
  char text[PATH_MAX];
  if ((size_t)snprintf(text, sizeof text, "%s.txt", path) < sizeof text) unlink(text);
  return unlink(path) == 0;
}

typedef struct removed {
  const char *below;  ///< only entries of the model with this path, or of models in this folder; NULL = all
  int64_t n;
  uint64_t bytes;
} removed;

static bool is_below(const char *model, const char *path) {
  char resolved[PATH_MAX];
  size_t n = strlen(path);
  // A model that is no longer there keeps the path it had.
  if (!realpath(model, resolved)) snprintf(resolved, sizeof resolved, "%s", model);
  return strncmp(resolved, path, n) == 0 && (!resolved[n] || resolved[n] == '/');
}

static cairn_status remove_one(void *user, const cairn_cache_entry *e) {
  removed *r = user;
  if (r->below && !is_below(e->model, r->below)) return CAIRN_OK;
  if (!remove_entry(e->path)) return CRN_FAIL(IO, "'%s' cannot be removed: %s", e->path, strerror(errno));
  r->n++;
  r->bytes += e->bytes;
  return CAIRN_OK;
}

// Remembered hashes of programs; small, and not counted.
static void remove_hashes(void) {
  crn_str folder, path;
  crn_str_initialize(&folder, crn_default_allocator());
  crn_str_initialize(&path, crn_default_allocator());
  cairn_status status = crn_cache_directory(&path);
  if (status == CAIRN_OK) status = crn_path_join(&folder, path.data, "hashes");
  DIR *dir = status == CAIRN_OK ? opendir(folder.data) : NULL;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (*e->d_name != '.' && crn_path_join(&path, folder.data, e->d_name) == CAIRN_OK) unlink(path.data);
  }
  if (dir) closedir(dir);
  if (status != CAIRN_OK) crn_error_clear();
  crn_str_deinitialize(&folder);
  crn_str_deinitialize(&path);
}

cairn_status cairn_cache_clear(int64_t *out_n, uint64_t *out_bytes) {
  CRN_REQUIRE_NAMED(out_n, "out_n_entries");
  CRN_REQUIRE(out_bytes);
  removed r = {0};
  remove_hashes();
  cairn_status status = cairn_cache_list(remove_one, &r);
  *out_n = r.n;
  *out_bytes = r.bytes;
  return status;
}

// The absolute path of what is there, or was: then of the nearest folder that is still there, with what was below it.
static cairn_status resolve(const char *model, char resolved[PATH_MAX]) {
  char folder[PATH_MAX];
  size_t n = strlen(model), rest;
  while (n > 1 && model[n - 1] == '/') n--;
  if (n >= sizeof folder) return CRN_FAIL(INVALID_ARGUMENT, "a path of %zu bytes is too long", n);
  snprintf(folder, sizeof folder, "%.*s", (int)n, model);
  if (realpath(folder, resolved)) return CAIRN_OK;
  size_t end = n;
  do {
    for (rest = end; rest && model[rest - 1] != '/';) rest--;
    for (end = rest; end > 1 && model[end - 1] == '/';) end--;
    folder[end] = 0;
  } while (!realpath(end ? folder : ".", resolved) && end);
  size_t used = strlen(resolved);
  if (used + 1 + n - rest >= PATH_MAX) return CRN_FAIL(INVALID_ARGUMENT, "a path of %zu bytes is too long", n);
  if (resolved[used - 1] != '/') resolved[used++] = '/';
  for (; rest < n; rest++) {
    if (model[rest] != '/' || resolved[used - 1] != '/') resolved[used++] = model[rest];
  }
  resolved[used] = 0;
  return CAIRN_OK;
}

cairn_status cairn_cache_remove(const char *model, int64_t *out_n, uint64_t *out_bytes) {
  CRN_REQUIRE(model);
  CRN_REQUIRE_NAMED(out_n, "out_n_entries");
  CRN_REQUIRE(out_bytes);
  char resolved[PATH_MAX];
  *out_n = 0;
  *out_bytes = 0;
  if (!*model) return CRN_FAIL(INVALID_ARGUMENT, "an empty path names no model");
  CRN_TRY(resolve(model, resolved));
  removed r = {.below = resolved};
  cairn_status status = cairn_cache_list(remove_one, &r);
  *out_n = r.n;
  *out_bytes = r.bytes;
  return status;
}

cairn_status cairn_cache_directory(char *out_path, size_t capacity, size_t *out_bytes) {
  CRN_REQUIRE_SOME(out_path, capacity);
  CRN_REQUIRE(out_bytes);
  crn_str folder;
  crn_str_initialize(&folder, crn_default_allocator());
  cairn_status status = crn_cache_directory(&folder);
  *out_bytes = folder.size;
  if (status == CAIRN_OK && capacity) memcpy(out_path, folder.data, folder.size < capacity ? folder.size : capacity);
  crn_str_deinitialize(&folder);
  return status;
}

// --- eviction -----------------------------------------------------------------------------------------------------------------

typedef struct oldest {
  const char *kept;  ///< the entry just written stays
  uint64_t total;
  char path[PATH_MAX];
  int64_t used;
} oldest;

static cairn_status look_at(void *user, const cairn_cache_entry *e) {
  oldest *o = user;
  o->total += e->bytes;
  if (!strcmp(e->path, o->kept) || (*o->path && e->used >= o->used)) return CAIRN_OK;
  snprintf(o->path, sizeof o->path, "%s", e->path);
  o->used = e->used;
  return CAIRN_OK;
}

static void evict(const char *kept) {
  uint64_t most = crn_cache_limit();
  for (;;) {
    oldest o = {.kept = kept};
    if (cairn_cache_list(look_at, &o) != CAIRN_OK || o.total <= most || !*o.path || !remove_entry(o.path)) return;
  }
}

// --- models -------------------------------------------------------------------------------------------------------------------

static bool is_usable(const cairn_model *m) { return *m->hash && !m->options.no_cache && !crn_cache_is_off(); }

// A file that is packed in no time is not worth being read through for its hash.
void crn_packed_cache_identify(cairn_model *m) {
  const crn_program_origin *origin = &m->program->origin;
  crn_file_map map = {origin->data, origin->bytes};
  unsigned char digest[CRN_SHA256_BYTES];
  if (!origin->path || origin->bytes < least_bytes || m->options.no_cache || crn_cache_is_off()) return;
  if (crn_program_hash(origin->path, &map, m->options.strict_hash, digest) != CAIRN_OK) {
    crn_error_clear();
    return;
  }
  m->origin_path = origin->path;
  for (int i = 0; i < CRN_SHA256_BYTES; i++) snprintf(m->hash + 2 * i, 3, "%02x", digest[i]);
}

static cairn_status find_place(const cairn_model *m, crn_str *folder, crn_str *path, crn_str *identity) {
  crn_str_initialize(folder, &m->context->allocator);
  crn_str_initialize(path, &m->context->allocator);
  crn_str_initialize(identity, &m->context->allocator);
  CRN_TRY(crn_cache_directory(folder));
  CRN_TRY(entry_path(m, folder->data, path));
  return make_identity(m, identity);
}

static void release_place(crn_str *folder, crn_str *path, crn_str *identity) {
  crn_str_deinitialize(folder);
  crn_str_deinitialize(path);
  crn_str_deinitialize(identity);
}

// The weights of a compiled asset lie in its own folder.
static cairn_status read_compiled(cairn_model *m) {
  crn_str identity;
  crn_str_initialize(&identity, &m->context->allocator);
  cairn_status status = make_plain_identity(m, &identity);
  if (status == CAIRN_OK) status = crn_weight_cache_read(&m->weights, m->context->pool, m->asset->compiled->weights_path, identity.data);
  crn_str_deinitialize(&identity);
  if (status == CAIRN_NOT_FOUND)
    return CRN_FAIL(CORRUPT, "'%s' is missing or damaged; compile the asset again", m->asset->compiled->weights_path);
  return status;
}

cairn_status crn_packed_cache_export(cairn_model *m, const char *folder) {
  crn_str path, identity;
  crn_str_initialize(&path, &m->context->allocator);
  crn_str_initialize(&identity, &m->context->allocator);
  cairn_status status = crn_path_join(&path, folder, "weights.packed");
  if (status == CAIRN_OK) status = make_plain_identity(m, &identity);
  if (status == CAIRN_OK) status = crn_weight_cache_write(&m->weights, path.data, identity.data);
  crn_str_deinitialize(&path);
  crn_str_deinitialize(&identity);
  return status;
}

static void read_cached(cairn_model *m) {
  crn_str folder, path, identity;
  if (!is_usable(m)) return;
  cairn_status status = find_place(m, &folder, &path, &identity);
  if (status == CAIRN_OK) status = crn_weight_cache_read(&m->weights, m->context->pool, path.data, identity.data);
  if (status == CAIRN_OK) m->has_ready_weights = true;
  if (status != CAIRN_OK) crn_error_clear();
  release_place(&folder, &path, &identity);
}

cairn_status crn_packed_cache_read(cairn_model *m) {
  if (m->asset && m->asset->compiled) {
    m->has_ready_weights = true;
    return read_compiled(m);
  }
  read_cached(m);
  return CAIRN_OK;
}

static uint64_t new_bytes(crn_weight_store *s, bool mark) {
  uint64_t bytes = 0;
  pthread_mutex_lock(&s->lock);
  for (crn_packed_weight *w = s->first; w; w = w->next) {
    if (w->has_key && !w->is_cached) bytes += w->weights.bytes;
    w->is_cached |= mark;
  }
  pthread_mutex_unlock(&s->lock);
  return bytes;
}

static cairn_status write_entry(cairn_model *m, const crn_str *folder, const crn_str *path, const crn_str *identity) {
  crn_str text;
  CRN_TRY(crn_make_directories(folder->data));
  CRN_TRY(crn_weight_cache_write(&m->weights, path->data, identity->data));
  crn_str_initialize(&text, &m->context->allocator);
  cairn_status status = crn_str_printf(&text, "%s.txt", path->data);
  const char *model = m->origin_path ? m->origin_path : cairn_asset_path(m->asset);
  char resolved[PATH_MAX];
  if (realpath(model, resolved)) model = resolved;
  if (status == CAIRN_OK) status = crn_file_replace(text.data, model, strlen(model));
  crn_str_deinitialize(&text);
  return status;
}

void crn_packed_cache_write(cairn_model *m) {
  crn_str folder, path, identity;
  if (!is_usable(m) || (m->asset && m->asset->compiled) || new_bytes(&m->weights, false) < least_bytes ||
      crn_weight_store_bytes(&m->weights) > crn_cache_limit())
    return;
  cairn_status status = find_place(m, &folder, &path, &identity);
  if (status == CAIRN_OK) status = write_entry(m, &folder, &path, &identity);
  if (status == CAIRN_OK) {
    new_bytes(&m->weights, true);
    evict(path.data);
  } else {
    CRN_WARN(m->context, "packed weights are not kept for the next load: %s", cairn_last_error()->message);
    crn_error_clear();
  }
  release_place(&folder, &path, &identity);
}
