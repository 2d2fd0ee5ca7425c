// Packing of weights, and the store that keeps each packed matrix once.
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "specialize/weights.h"

typedef struct row_buffers {
  void *values;  ///< codes, or the dense values of the row
  float *scales, *mins;
  float *tables;  ///< of palettes
} row_buffers;

enum { GROUP = CRN_LINEAR_GROUP, TILE = CRN_LINEAR_TILE };

void crn_weight_store_initialize(crn_weight_store *s, const cairn_allocator *a) {
  *s = (crn_weight_store){.allocator = a};
  pthread_mutex_init(&s->lock, NULL);
}

void crn_weight_store_deinitialize(crn_weight_store *s) {
  while (s->first) {
    crn_packed_weight *w = s->first;
    s->first = w->next;
    crn_free(s->allocator, w, sizeof *w);
  }
  crn_memory_region_release(&s->region);
  crn_weight_store_forget_digests(s);
  crn_huge_map_close(&s->map);
  pthread_mutex_destroy(&s->lock);
}

size_t crn_weight_store_bytes(const crn_weight_store *s) { return s->region.used_bytes + s->map.bytes; }

// --- packing ------------------------------------------------------------------------------------------------------------------

typedef struct pack_job {
  const crn_weight_source *sources;
  int n_sources;
  bool interleave;
  const crn_linear_weights *target;
  void *data;
  row_buffers *buffers;  ///< one a worker
} pack_job;

// The source and its row behind row `row` of the packed matrix; false for padding between interleaved tiles.
static bool find_row(const pack_job *j, int64_t row, int *out_source, int64_t *out_row) {
  if (j->interleave) {
    *out_source = (int)(row / TILE % j->n_sources);
    *out_row = row / TILE / j->n_sources * TILE + row % TILE;
    return *out_row < j->sources[*out_source].n;
  }
  for (int i = 0; i < j->n_sources; row -= j->sources[i++].n) {
    if (row >= j->sources[i].n) continue;
    *out_source = i;
    *out_row = row;
    return true;
  }
  return false;
}

// The format's tables may have more entries than the palette's.
static void pack_codes(const pack_job *j, const crn_weight_source *w, int64_t row, int64_t at, const row_buffers *b) {
  int stored = crn_linear_code_bits(j->target->format);
  float factor = crn_weight_palette_read(w, at, b->values, b->tables);
  for (int64_t g = w->palette.groups; g-- > 0 && stored > w->code_bits;) {
    float *to = b->tables + (g << stored);
    memmove(to, b->tables + (g << w->code_bits), sizeof *to << w->code_bits);
    memset(to + ((size_t)1 << w->code_bits), 0, (sizeof *to << stored) - (sizeof *to << w->code_bits));
  }
  crn_linear_pack_codes(j->target, row, b->values, b->tables, factor, j->data);
}

static void pack_rows(void *user, int64_t begin, int64_t end, int worker) {
  const pack_job *j = user;
  const row_buffers *b = &j->buffers[worker];
  for (int64_t row = begin; row < end; row++) {
    int source;
    int64_t at;
    if (!find_row(j, row, &source, &at)) continue;
    at += j->sources[source].first;
    if (j->sources[source].is_palette) {
      pack_codes(j, &j->sources[source], row, at, b);
      continue;
    }
    crn_weight_source_read(&j->sources[source], at, b->values, b->scales, b->mins);
    crn_linear_row r = {b->values, b->scales, b->mins};
    crn_linear_pack_row(j->target->format, j->target->n, j->target->k, row, &r, j->data);
  }
}

static cairn_status make_buffers(crn_weight_store *s, const crn_linear_weights *t, int n, row_buffers *out, void **out_memory,
                                 size_t *out_bytes) {
  int64_t k = t->k;
  int bits = crn_linear_code_bits(t->format);
  size_t values = ((size_t)k * sizeof(float) + 63) / 64 * 64, groups = (((size_t)k + GROUP - 1) / GROUP * sizeof(float) + 63) / 64 * 64;
  size_t tables = bits ? ((size_t)t->palette.groups * sizeof(float) << bits) : 0, each = values + 2 * groups + (tables + 63) / 64 * 64;
  *out_bytes = each * (size_t)n;
  CRN_TRY(crn_alloc(s->allocator, *out_bytes, out_memory));
  for (int i = 0; i < n; i++) {
    char *at = (char *)*out_memory + each * (size_t)i;
    out[i] = (row_buffers){at, (float *)(at + values), (float *)(at + values + groups), (float *)(at + values + 2 * groups)};
  }
  return CAIRN_OK;
}

/// What is asked for.
typedef struct request {
  const crn_weight_source *sources;
  int n_sources;
  bool interleave;
} request;

// The file's pages of a matrix that is packed are not needed again; they would count as this program's memory.
static void forget_sources(const crn_weight_store *s, const request *r) {
  for (int i = 0; i < r->n_sources; i++) {
    const crn_weight_source *w = &r->sources[i];
    for (int k = 0; k < (w->blocks ? w->n_pieces : 1); k++) {
      const crn_tensor *t = w->blocks ? &w->pieces[k] : &w->data;
      uintptr_t data = (uintptr_t)t->data, base = (uintptr_t)s->base;
      bool is_whole = t->packed || crn_tensor_is_contiguous(t);
      if (!s->is_file || !is_whole || data < base || data >= base + s->base_bytes) continue;
      crn_file_map_forget(t->data, crn_tensor_stored_bytes(t));
    }
  }
}

static cairn_status pack(crn_weight_store *s, crn_pool *pool, const request *r, crn_linear_weights *t) {
  int threads = crn_pool_threads(pool);
  row_buffers buffers[CRN_MAX_THREADS];
  void *memory, *data = NULL;
  size_t memory_bytes;
  int64_t most = 0;
  t->k = r->sources[0].k;
  for (int i = 0; i < r->n_sources; i++) {
    t->n += r->sources[i].n;
    if (r->sources[i].n > most) most = r->sources[i].n;
  }
  if (r->interleave) t->n = (most + TILE - 1) / TILE * TILE * r->n_sources;
  t->format = crn_weight_source_format(&r->sources[0], &t->zero);
  t->palette = r->sources[0].palette;
  CRN_TRY(make_buffers(s, t, threads, buffers, &memory, &memory_bytes));
  cairn_status status = CAIRN_OK;
  if (!crn_linear_weights_bytes(t, &t->bytes)) status = CRN_FAIL(OUT_OF_RANGE, "a matrix is too large to be packed");
  if (status == CAIRN_OK) status = crn_memory_region_take(&s->region, t->bytes, &data);
  if (status == CAIRN_OK) {
    t->data = data;
    pack_job j = {r->sources, r->n_sources, r->interleave, t, data, buffers};
    // Rows of one tile share cache lines: a worker takes whole tiles.
    crn_pool_run(pool, t->n, TILE * 4, pack_rows, &j);
    forget_sources(s, r);
  }
  crn_free(s->allocator, memory, memory_bytes);
  return status;
}

// --- keys -----------------------------------------------------------------------------------------------------------------------

static uint64_t digest_of(const void *data, size_t bytes) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ ((const uint8_t *)data)[i]) * 1099511628211u;
  return h;
}

// Small data outside of the program's file (copied because of its alignment, or a splat) is known by its contents.
static bool digest_part(const crn_tensor *t, crn_weight_key_part *part) {
  enum { MOST = 1 << 16 };
  size_t bytes = crn_tensor_stored_bytes(t);
  if (t->packed || bytes / cairn_dtype_bytes(t->dtype) > MOST) return false;
  part->offset = -1;
  part->digest = digest_of(t->data, bytes);
  return true;
}

static bool key_part(const crn_weight_store *s, const crn_tensor *t, bool is_transient, crn_weight_key_part *part) {
  part->dtype = (int32_t)t->dtype;
  part->rank = t->rank;
  part->is_packed = t->packed;
  for (int d = 0; d < t->rank; d++) {
    part->dims[d] = t->dims[d];
    part->strides[d] = t->packed ? 0 : t->strides[d];
  }
  uintptr_t data = (uintptr_t)t->data, base = (uintptr_t)s->base;
  if (!s->base || data < base || data >= base + s->base_bytes) return !is_transient && digest_part(t, part);
  part->offset = (int64_t)(data - base);
  return true;
}

static bool make_key(const crn_weight_store *s, const request *r, crn_weight_key *key) {
  *key = (crn_weight_key){.n_sources = r->n_sources, .interleave = r->interleave};
  for (int i = 0; i < r->n_sources; i++) {
    const crn_weight_source *w = &r->sources[i];
    const crn_tensor *parts[] = {&w->data, &w->scale, &w->offset1, &w->offset2};
    int n_parts = w->is_quantized ? CRN_WEIGHT_PARTS : 1;
    if (w->blocks) {
      n_parts = w->n_pieces;
      for (int k = 0; k < n_parts; k++) parts[k] = &w->pieces[k];
    }
    if (w->is_palette) {
      n_parts = w->palette.has_factors ? 3 : 2;
      parts[1] = &w->lut;
      parts[2] = &w->scale;
      key->sources[i].palette = 1 + w->vector_axis + 1 + (w->palette.has_factors ? 64 : 0);
    }
    // What kind of blocks: the formats have sizes and zero points of their own.
    key->sources[i].is_quantized = w->blocks ? 2 + (int64_t)w->blocks->bytes : w->is_quantized;
    key->sources[i].dtype = (int64_t)w->dtype;
    key->sources[i].n = w->n;
    key->sources[i].k = w->k;
    key->sources[i].first = w->first;
    key->sources[i].taps = w->taps;
    key->sources[i].n_axis = w->n_axis;
    key->sources[i].k_axis = w->k_axis;
    key->sources[i].stack = w->stack;
    key->sources[i].stack_axis = w->stack_axis;
    for (int k = 0; k < n_parts; k++) {
      if (!key_part(s, parts[k], w->is_transient, &key->sources[i].parts[k])) return false;
    }
  }
  return true;
}

// --- the store ----------------------------------------------------------------------------------------------------------------

static const crn_packed_weight *find(const crn_weight_store *s, const crn_weight_key *key) {
  for (const crn_packed_weight *w = s->first; w; w = w->next) {
    if (w->has_key && !memcmp(&w->key, key, sizeof *key)) return w;
  }
  return NULL;
}

cairn_status crn_weight_store_pack(crn_weight_store *s, crn_pool *pool, const crn_weight_source *sources, int n_sources, bool interleave,
                                   crn_linear_weights *out) {
  request r = {sources, n_sources, interleave};
  if (n_sources < 1 || n_sources > CRN_MAX_WEIGHT_SOURCES)
    return CRN_FAIL(INTERNAL, "%d matrices to pack, at most %d fit", n_sources, CRN_MAX_WEIGHT_SOURCES);
  crn_packed_weight *w;
  CRN_TRY(crn_alloc_zero(s->allocator, sizeof *w, &w));
  pthread_mutex_lock(&s->lock);
  w->has_key = make_key(s, &r, &w->key);
  const crn_packed_weight *known = w->has_key ? find(s, &w->key) : NULL;
  cairn_status status = known ? CAIRN_OK : pack(s, pool, &r, &w->weights);
  if (status == CAIRN_OK) *out = known ? known->weights : w->weights;
  if (status == CAIRN_OK && !known) {
    w->next = s->first;
    s->first = w;
    w = NULL;
  }
  pthread_mutex_unlock(&s->lock);
  crn_free(s->allocator, w, sizeof *w);
  return status;
}
