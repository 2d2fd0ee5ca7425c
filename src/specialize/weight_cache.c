// Packed weights as a file:
//
//   header      magic, sizes, digest of the table
//   identity    text: what the contents were made from
//   table       one entry a matrix: key, form, place and digest
//   data        matrices, each at a multiple of 4096
//
// Numbers are as the machine has them; the identity names its byte order. Data are read into huge pages rather than mapped: their reads
// are bound by address translation otherwise, and reading lets every byte be checked on the way.
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

enum { ALIGN = 4096, MAX_ENTRIES = 1 << 20, MAX_IDENTITY = 4096 };

static const char g_magic[16] = "cairn packed 01";

typedef struct file_header {
  char magic[16];
  uint64_t identity_bytes, n_entries, table_digest;
} file_header;

typedef struct file_entry {
  crn_weight_key key;
  int64_t format, zero, n, k;
  int64_t tables, groups, has_factors, rounding;  ///< of palettes
  uint64_t offset, bytes, digest;
} file_entry;

// Four lanes of multiply and shift over 8-byte words: as fast as memory, and every changed byte changes the sum.
static uint64_t digest_words(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t lanes[4] = {0x9E3779B97F4A7C15u, 0xBF58476D1CE4E5B9u, 0x94D049BB133111EBu, bytes};
  size_t i = 0;
  for (; i + 32 <= bytes; i += 32) {
    for (int k = 0; k < 4; k++) {
      uint64_t word;
      memcpy(&word, p + i + 8 * k, sizeof word);
      lanes[k] = (lanes[k] ^ word) * 0xD6E8FEB86659FD93u;
      lanes[k] ^= lanes[k] >> 32;
    }
  }
  for (; i < bytes; i++) lanes[i & 3] = (lanes[i & 3] ^ p[i]) * 0xD6E8FEB86659FD93u;
  uint64_t sum = 0;
  for (int k = 0; k < 4; k++) sum = (sum ^ lanes[k] ^ lanes[k] >> 29) * 0xD6E8FEB86659FD93u;
  return sum;
}

// --- writing ------------------------------------------------------------------------------------------------------------------

static size_t align_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static cairn_status write_padding(crn_file_writer *w, size_t from, size_t to) {
  static const char zeros[ALIGN];
  return from < to ? crn_file_write(w, zeros, to - from) : CAIRN_OK;
}

static uint64_t count_entries(const crn_weight_store *s) {
  uint64_t n = 0;
  for (const crn_packed_weight *w = s->first; w; w = w->next) n += w->has_key;
  return n;
}

static void fill_table(const crn_weight_store *s, size_t offset, file_entry *table) {
  for (const crn_packed_weight *w = s->first; w; w = w->next) {
    if (!w->has_key) continue;
    const crn_linear_weights *l = &w->weights;
    *table = (file_entry){.format = (int64_t)l->format, .zero = l->zero, .n = l->n, .k = l->k, .offset = offset, .bytes = l->bytes};
    table->tables = l->palette.tables;
    table->groups = l->palette.groups;
    table->has_factors = l->palette.has_factors;
    table->rounding = (int64_t)l->palette.rounding;
    memcpy(&table->key, &w->key, sizeof w->key);
    table->digest = digest_words(l->data, l->bytes);
    offset = align_up(offset + l->bytes);
    table++;
  }
}

static cairn_status write_data(const crn_weight_store *s, const file_entry *table, size_t at, crn_file_writer *f) {
  for (const crn_packed_weight *w = s->first; w; w = w->next) {
    if (!w->has_key) continue;
    CRN_TRY(write_padding(f, at, table->offset));
    CRN_TRY(crn_file_write(f, w->weights.data, w->weights.bytes));
    at = table->offset + w->weights.bytes;
    table++;
  }
  return CAIRN_OK;
}

static cairn_status write_all(const crn_weight_store *s, file_header *h, const char *identity, file_entry *table, crn_file_writer *f) {
  size_t table_bytes = h->n_entries * sizeof *table, head = sizeof *h + h->identity_bytes + table_bytes;
  fill_table(s, align_up(head), table);
  h->table_digest = digest_words(table, table_bytes);
  CRN_TRY(crn_file_write(f, h, sizeof *h));
  CRN_TRY(crn_file_write(f, identity, h->identity_bytes));
  CRN_TRY(crn_file_write(f, table, table_bytes));
  return write_data(s, table, head, f);
}

cairn_status crn_weight_cache_write(crn_weight_store *s, const char *path, const char *identity) {
  file_header h = {.identity_bytes = strlen(identity)};
  file_entry *table;
  crn_file_writer f;
  memcpy(h.magic, g_magic, sizeof h.magic);
  pthread_mutex_lock(&s->lock);
  h.n_entries = count_entries(s);
  cairn_status status = crn_alloc_array(s->allocator, h.n_entries, sizeof *table, &table);
  if (status == CAIRN_OK) {
    status = crn_file_create(path, &f);
    if (status == CAIRN_OK) {
      status = write_all(s, &h, identity, table, &f);
      if (status == CAIRN_OK)
        status = crn_file_commit(&f);
      else
        crn_file_discard(&f);
    }
    crn_free(s->allocator, table, h.n_entries * sizeof *table);
  }
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

static bool is_sound(const file_entry *e, size_t file_bytes) {
  size_t bytes;
  if (e->format < 0 || e->format >= CRN_LINEAR_FORMATS || e->zero < -255 || e->zero > 255) return false;
  if (e->tables < 0 || e->tables > CRN_LINEAR_TILE || e->groups < 0 || e->groups > INT32_MAX || e->rounding < 0 ||
      e->rounding > CRN_LINEAR_TO_BF16)
    return false;
  crn_linear_weights w = described(e);
  if (e->n <= 0 || e->k <= 0 || !crn_linear_weights_bytes(&w, &bytes)) return false;
  return bytes == e->bytes && e->offset % ALIGN == 0 && crn_range_inside(e->offset, e->bytes, file_bytes);
}

typedef struct read_job {
  int fd;
  const file_entry *table;
  void *const *targets;
  _Atomic bool is_bad;
} read_job;

static void read_entries(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  read_job *j = user;
  for (int64_t i = begin; i < end && !j->is_bad; i++) {
    const file_entry *e = &j->table[i];
    if (!read_at(j->fd, j->targets[i], e->bytes, e->offset) || digest_words(j->targets[i], e->bytes) != e->digest) j->is_bad = true;
  }
}

static cairn_status take_entries(crn_weight_store *s, const file_entry *table, uint64_t n, void *const *targets) {
  for (uint64_t i = 0; i < n; i++) {
    const file_entry *e = &table[i];
    crn_packed_weight *w;
    CRN_TRY(crn_alloc_zero(s->allocator, sizeof *w, &w));
    w->has_key = w->is_cached = true;
    memcpy(&w->key, &e->key, sizeof w->key);
    w->weights = described(e);
    w->weights.data = targets[i];
    w->next = s->first;
    s->first = w;
  }
  return CAIRN_OK;
}

static cairn_status not_usable(const char *path) { return CRN_FAIL(NOT_FOUND, "'%s' holds no usable packed weights", path); }

static cairn_status read_table(int fd, const char *path, const char *identity, size_t file_bytes, crn_weight_store *s,
                               file_entry **out_table, uint64_t *out_n) {
  file_header h;
  char text[MAX_IDENTITY];
  size_t table_bytes;
  if (!read_at(fd, &h, sizeof h, 0) || memcmp(h.magic, g_magic, sizeof h.magic) || h.identity_bytes != strlen(identity) ||
      h.identity_bytes > sizeof text || h.n_entries > MAX_ENTRIES || !crn_mul_size(h.n_entries, sizeof **out_table, &table_bytes) ||
      !crn_range_inside(sizeof h + h.identity_bytes, table_bytes, file_bytes) || !read_at(fd, text, h.identity_bytes, sizeof h) ||
      memcmp(text, identity, h.identity_bytes))
    return not_usable(path);
  CRN_TRY(crn_alloc_array(s->allocator, h.n_entries, sizeof **out_table, out_table));
  bool ok = read_at(fd, *out_table, table_bytes, sizeof h + h.identity_bytes) && digest_words(*out_table, table_bytes) == h.table_digest;
  for (uint64_t i = 0; i < h.n_entries && ok; i++) ok = is_sound(&(*out_table)[i], file_bytes);
  *out_n = h.n_entries;
  if (ok) return CAIRN_OK;
  crn_free(s->allocator, *out_table, table_bytes);
  *out_table = NULL;
  return not_usable(path);
}

static cairn_status read_data(int fd, const char *path, crn_weight_store *s, crn_pool *pool, const file_entry *table, uint64_t n) {
  void **targets;
  CRN_TRY(crn_alloc_array(s->allocator, n, sizeof *targets, &targets));
  cairn_status status = CAIRN_OK;
  for (uint64_t i = 0; i < n && status == CAIRN_OK; i++) status = crn_memory_region_take(&s->region, table[i].bytes, &targets[i]);
  if (status == CAIRN_OK) {
    read_job j = {fd, table, targets, false};
    crn_pool_run(pool, (int64_t)n, 1, read_entries, &j);
    status = j.is_bad ? not_usable(path) : take_entries(s, table, n, targets);
  }
  crn_free(s->allocator, targets, n * sizeof *targets);
  return status;
}

cairn_status crn_weight_cache_read(crn_weight_store *s, crn_pool *pool, const char *path, const char *identity) {
  struct stat st;
  file_entry *table = NULL;
  uint64_t n = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CRN_FAIL(NOT_FOUND, "'%s' cannot be opened", path);
  cairn_status status = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? CAIRN_OK : not_usable(path);
  if (status == CAIRN_OK) status = read_table(fd, path, identity, (size_t)st.st_size, s, &table, &n);
  if (status == CAIRN_OK) {
    pthread_mutex_lock(&s->lock);
    status = read_data(fd, path, s, pool, table, n);
    pthread_mutex_unlock(&s->lock);
  }
  crn_free(s->allocator, table, n * sizeof *table);
  if (status == CAIRN_OK) futimens(fd, NULL);  // used now: the oldest entries are dropped first
  close(fd);
  return status;
}
