// Packed weights as a file:
//
//   header      magic, sizes, digest of all up to the data
//   identity    text: what the contents were made from
//   table       one entry a matrix: key, form and place
//   digests     one a piece of the data
//   data        from a whole huge page on, matrices as they lie in memory; written and read in pieces of a huge page
//
// Numbers are as the machine has them; the identity names its byte order. Where the system keeps the file in huge pages, which it does
// when it was written in pieces of their size, the data are used where they lie: reading them would take memory that the system has to
// get and clear first. Elsewhere they are read into huge pages, because reads of weights are bound by address translation otherwise. In
// both cases every byte is checked before anything is used.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "specialize/weights.h"

enum { ALIGN = 64, SMALL_ALIGN = 4096, PIECE = CRN_HUGE_PAGE, MAX_ENTRIES = 1 << 20, MAX_IDENTITY = 4096 };

static const char g_magic[16] = "cairn packed 02";

typedef struct file_header {
  char magic[16];
  uint64_t identity_bytes, n_entries, data_bytes, digest;
} file_header;

typedef struct file_entry {
  crn_weight_key key;
  int64_t format, zero, n, k;
  int64_t tables, groups, has_factors, rounding;  ///< of palettes
  uint64_t offset, bytes;                         ///< in the data
} file_entry;

/// The header with what follows from it.
typedef struct layout {
  file_header h;
  size_t table_at, digests_at, n_pieces, data_at, file_bytes;
} layout;

static uint64_t digest_of_head(const file_header *h, const void *head, size_t bytes) {
  const uint64_t parts[] = {h->identity_bytes, h->n_entries, h->data_bytes, crn_weight_digest(head, bytes)};
  return crn_weight_digest(parts, sizeof parts);
}

// False when the sizes are not those of a file.
static bool lay_out(layout *l) {
  size_t table_bytes, digests_bytes, end;
  const file_header *h = &l->h;
  if (h->identity_bytes > MAX_IDENTITY || h->n_entries > MAX_ENTRIES || h->data_bytes > SIZE_MAX - PIECE) return false;
  l->table_at = (sizeof *h + h->identity_bytes + 7) / 8 * 8;
  l->n_pieces = (h->data_bytes + PIECE - 1) / PIECE;
  if (!crn_mul_size(h->n_entries, sizeof(file_entry), &table_bytes) || !crn_add_size(l->table_at, table_bytes, &l->digests_at) ||
      !crn_mul_size(l->n_pieces, sizeof(uint64_t), &digests_bytes) || !crn_add_size(l->digests_at, digests_bytes, &end))
    return false;
  // Small files are read in any case.
  return crn_align_size(end, h->data_bytes < PIECE ? SMALL_ALIGN : PIECE, &l->data_at) &&
         crn_add_size(l->data_at, h->data_bytes, &l->file_bytes);
}

static file_entry *table_of(char *head, const layout *l) { return (file_entry *)(head + l->table_at); }
static uint64_t *digests_of(char *head, const layout *l) { return (uint64_t *)(head + l->digests_at); }
static size_t bytes_of_piece(const layout *l, uint64_t i) { return i + 1 < l->n_pieces ? PIECE : l->h.data_bytes - i * PIECE; }

// --- writing ------------------------------------------------------------------------------------------------------------------

static size_t align_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static void count(const crn_weight_store *s, file_header *h) {
  for (const crn_packed_weight *w = s->first; w; w = w->next) {
    if (!w->has_key) continue;
    h->n_entries++;
    h->data_bytes = align_up(h->data_bytes) + w->weights.bytes;
  }
}

static void fill_table(const crn_weight_store *s, file_entry *table) {
  size_t offset = 0;
  for (const crn_packed_weight *w = s->first; w; w = w->next) {
    if (!w->has_key) continue;
    const crn_linear_weights *l = &w->weights;
    *table = (file_entry){.format = (int64_t)l->format, .zero = l->zero, .n = l->n, .k = l->k, .offset = offset, .bytes = l->bytes};
    table->tables = l->palette.tables;
    table->groups = l->palette.groups;
    table->has_factors = l->palette.has_factors;
    table->rounding = (int64_t)l->palette.rounding;
    memcpy(&table->key, &w->key, sizeof w->key);
    offset = align_up(offset + l->bytes);
    table++;
  }
}

/// Where the pieces of the data go.
typedef struct piece_sink {
  char *piece;  ///< what is being filled
  size_t used;
  uint64_t *digests;  ///< filled in one after the other; NULL = the pieces are written
  crn_file_writer *file;
} piece_sink;

static cairn_status end_piece(piece_sink *k) {
  if (!k->used) return CAIRN_OK;
  const size_t bytes = k->used;
  k->used = 0;
  if (!k->digests) return crn_file_write(k->file, k->piece, bytes);
  *k->digests++ = crn_weight_digest(k->piece, bytes);
  return CAIRN_OK;
}

// `data` NULL = zeros.
static cairn_status add_bytes(piece_sink *k, const char *data, size_t bytes) {
  while (bytes) {
    const size_t n = bytes < PIECE - k->used ? bytes : PIECE - k->used;
    if (data) {
      memcpy(k->piece + k->used, data, n);
      data += n;
    } else {
      memset(k->piece + k->used, 0, n);
    }
    k->used += n;
    bytes -= n;
    if (k->used == PIECE) CRN_TRY(end_piece(k));
  }
  return CAIRN_OK;
}

static cairn_status add_data(const crn_weight_store *s, piece_sink *k) {
  size_t at = 0;
  for (const crn_packed_weight *w = s->first; w; w = w->next) {
    if (!w->has_key) continue;
    CRN_TRY(add_bytes(k, NULL, align_up(at) - at));
    CRN_TRY(add_bytes(k, w->weights.data, w->weights.bytes));
    at = align_up(at) + w->weights.bytes;
  }
  return end_piece(k);
}

static cairn_status write_file(const crn_weight_store *s, layout *l, char *head, char *piece, crn_file_writer *f) {
  piece_sink digests = {.piece = piece, .digests = digests_of(head, l)}, file = {.piece = piece, .file = f};
  fill_table(s, table_of(head, l));
  CRN_TRY(add_data(s, &digests));
  const size_t used = l->digests_at + l->n_pieces * sizeof(uint64_t);
  l->h.digest = digest_of_head(&l->h, head + sizeof l->h, used - sizeof l->h);
  memcpy(head, &l->h, sizeof l->h);
  CRN_TRY(crn_file_write(f, head, l->data_at));
  return add_data(s, &file);
}

static cairn_status create_file(const crn_weight_store *s, layout *l, char *head, char *piece, const char *path) {
  crn_file_writer f;
  CRN_TRY(crn_file_create(path, &f));
  cairn_status status = write_file(s, l, head, piece, &f);
  if (status == CAIRN_OK) return crn_file_commit(&f);
  crn_file_discard(&f);
  return status;
}

static cairn_status write_store(const crn_weight_store *s, const char *path, const char *identity) {
  layout l = {.h = {.identity_bytes = strlen(identity)}};
  char *head, *piece;
  memcpy(l.h.magic, g_magic, sizeof l.h.magic);
  count(s, &l.h);
  if (!lay_out(&l)) return CRN_FAIL(OUT_OF_RANGE, "there are too many packed weights for a file");
  CRN_TRY(crn_alloc_zero(s->allocator, l.data_at, &head));
  memcpy(head + sizeof l.h, identity, l.h.identity_bytes);
  cairn_status status = crn_alloc(s->allocator, PIECE, &piece);
  if (status == CAIRN_OK) {
    status = create_file(s, &l, head, piece, path);
    crn_free(s->allocator, piece, PIECE);
  }
  crn_free(s->allocator, head, l.data_at);
  return status;
}

cairn_status crn_weight_cache_write(crn_weight_store *s, const char *path, const char *identity) {
  pthread_mutex_lock(&s->lock);
  cairn_status status = write_store(s, path, identity);
  pthread_mutex_unlock(&s->lock);
  return status;
}

// --- reading ------------------------------------------------------------------------------------------------------------------

static bool read_at(int fd, void *data, size_t bytes, size_t offset) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(fd, (char *)data + done, bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

static crn_linear_weights described(const file_entry *e) {
  return (crn_linear_weights){
      .format = (crn_linear_format)e->format,
      .zero = (int32_t)e->zero,
      .n = e->n,
      .k = e->k,
      .bytes = e->bytes,
      .palette = {(int32_t)e->tables, (int32_t)e->groups, e->has_factors != 0, (crn_linear_rounding)e->rounding},
  };
}

static bool is_sound(const file_entry *e, size_t data_bytes) {
  size_t bytes;
  if (e->format < 0 || e->format >= CRN_LINEAR_FORMATS || e->zero < -255 || e->zero > 255) return false;
  if (e->tables < 0 || e->tables > CRN_LINEAR_TILE || e->groups < 0 || e->groups > INT32_MAX || e->rounding < 0 ||
      e->rounding > CRN_LINEAR_TO_BF16)
    return false;
  crn_linear_weights w = described(e);
  if (e->n <= 0 || e->k <= 0 || !crn_linear_weights_bytes(&w, &bytes)) return false;
  return bytes == e->bytes && e->offset % ALIGN == 0 && crn_range_inside(e->offset, e->bytes, data_bytes);
}

static cairn_status not_usable(const char *path) { return CRN_FAIL(NOT_FOUND, "'%s' holds no usable packed weights", path); }

// The header, when it is one of a file of this size for this identity.
static bool read_header(int fd, const char *identity, size_t file_bytes, layout *l) {
  return read_at(fd, &l->h, sizeof l->h, 0) && !memcmp(l->h.magic, g_magic, sizeof l->h.magic) && l->h.identity_bytes == strlen(identity) &&
         lay_out(l) && l->file_bytes == file_bytes;
}

static cairn_status read_head(int fd, const char *path, const char *identity, const crn_weight_store *s, layout *l, char **out_head) {
  struct stat st;
  char *head;
  if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !read_header(fd, identity, (size_t)st.st_size, l)) return not_usable(path);
  const size_t bytes = l->digests_at + l->n_pieces * sizeof(uint64_t), rest = bytes - sizeof l->h;
  CRN_TRY(crn_alloc(s->allocator, bytes, &head));
  bool ok = read_at(fd, head + sizeof l->h, rest, sizeof l->h) && !memcmp(head + sizeof l->h, identity, l->h.identity_bytes) &&
            digest_of_head(&l->h, head + sizeof l->h, rest) == l->h.digest;
  for (uint64_t i = 0; i < l->h.n_entries && ok; i++) ok = is_sound(&table_of(head, l)[i], l->h.data_bytes);
  if (ok) {
    *out_head = head;
    return CAIRN_OK;
  }
  crn_free(s->allocator, head, bytes);
  return not_usable(path);
}

typedef struct read_job {
  int fd;
  const layout *l;
  const uint64_t *digests;
  const unsigned char *data;
  unsigned char *room;  ///< the data, to be read; NULL = they are there
  _Atomic bool is_bad;
} read_job;

static void take_pieces(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  read_job *j = user;
  for (int64_t i = begin; i < end && !j->is_bad; i++) {
    const size_t at = (size_t)i * PIECE, bytes = bytes_of_piece(j->l, (uint64_t)i);
    if (j->room && !read_at(j->fd, j->room + at, bytes, j->l->data_at + at)) j->is_bad = true;
    if (!j->is_bad && crn_weight_digest(j->data + at, bytes) != j->digests[i]) j->is_bad = true;
  }
}

static cairn_status take_entries(crn_weight_store *s, const layout *l, const file_entry *table, const unsigned char *data) {
  for (uint64_t i = 0; i < l->h.n_entries; i++) {
    const file_entry *e = &table[i];
    crn_packed_weight *w;
    CRN_TRY(crn_alloc_zero(s->allocator, sizeof *w, &w));
    w->has_key = w->is_cached = true;
    memcpy(&w->key, &e->key, sizeof w->key);
    w->weights = described(e);
    w->weights.data = data + e->offset;
    w->next = s->first;
    s->first = w;
  }
  return CAIRN_OK;
}

// The digests stay until the pages are the program's own.
static cairn_status keep_map(crn_weight_store *s, crn_huge_map *map, const layout *l, const uint64_t *digests) {
  cairn_status status = crn_alloc_array(s->allocator, l->n_pieces, sizeof *s->digests, &s->digests);
  if (status != CAIRN_OK) {
    crn_huge_map_close(map);
    return status;
  }
  memcpy(s->digests, digests, l->n_pieces * sizeof *s->digests);
  s->map = *map;
  atomic_store(&s->is_borrowed, true);
  return CAIRN_OK;
}

static cairn_status read_data(int fd, const char *path, crn_weight_store *s, crn_pool *pool, const layout *l, char *head) {
  crn_huge_map map = {0};
  void *room = NULL;
  // A store has one map.
  const bool is_mapped = l->h.data_bytes && !s->map.data && crn_huge_map_open(fd, l->data_at, l->h.data_bytes, &map);
  if (l->h.data_bytes && !is_mapped) CRN_TRY(crn_memory_region_take(&s->region, l->h.data_bytes, &room));
  read_job j = {.fd = fd, .l = l, .digests = digests_of(head, l), .data = room ? room : map.data, .room = room};
  crn_pool_run(pool, (int64_t)l->n_pieces, 1, take_pieces, &j);
  if (j.is_bad) {
    crn_huge_map_close(&map);
    return not_usable(path);
  }
  if (is_mapped) CRN_TRY(keep_map(s, &map, l, j.digests));
  return take_entries(s, l, table_of(head, l), j.data);
}

cairn_status crn_weight_cache_read(crn_weight_store *s, crn_pool *pool, const char *path, const char *identity) {
  layout l = {0};
  char *head;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CRN_FAIL(NOT_FOUND, "'%s' cannot be opened", path);
  cairn_status status = read_head(fd, path, identity, s, &l, &head);
  if (status == CAIRN_OK) {
    pthread_mutex_lock(&s->lock);
    status = read_data(fd, path, s, pool, &l, head);
    pthread_mutex_unlock(&s->lock);
    crn_free(s->allocator, head, l.digests_at + l.n_pieces * sizeof(uint64_t));
  }
  if (status == CAIRN_OK) futimens(fd, NULL);  // used now: the oldest entries are dropped first
  close(fd);
  return status;
}
