#include "import/gguf/gguf.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/map.h"
#include "import/gguf/private.h"

// The smallest a pair and a tensor can be in a file: what bounds their number before memory is taken for them.
enum { MIN_PAIR_BYTES = 8 + 4 + 1, MIN_TENSOR_BYTES = 8 + 4 + 4 + 8, MAX_ARRAY_DEPTH = 8, DEFAULT_ALIGNMENT = 32, MIN_ALIGNMENT = 8 };

typedef struct cursor {
  const crn_gguf *file;
  const unsigned char *at, *end;
} cursor;

static cairn_status take(cursor *c, size_t bytes, const char *thing, const unsigned char **out) {
  *out = c->at;
  if (bytes > (size_t)(c->end - c->at)) return CRN_FAIL(CORRUPT, "%s: the file ends inside %s", c->file->what, thing);
  c->at += bytes;
  return CAIRN_OK;
}

static cairn_status take_u32(cursor *c, const char *thing, uint32_t *out) {
  const unsigned char *p;
  CRN_TRY(take(c, 4, thing, &p));
  *out = (uint32_t)crn_gguf_load(p, 4);
  return CAIRN_OK;
}

static cairn_status take_u64(cursor *c, const char *thing, uint64_t *out) {
  const unsigned char *p;
  CRN_TRY(take(c, 8, thing, &p));
  *out = crn_gguf_load(p, 8);
  return CAIRN_OK;
}

static cairn_status take_string(cursor *c, const char *thing, crn_gguf_string *out) {
  uint64_t n;
  const unsigned char *p;
  CRN_TRY(take_u64(c, thing, &n));
  if (n > (uint64_t)(c->end - c->at)) return CRN_FAIL(CORRUPT, "%s: the file ends inside %s", c->file->what, thing);
  CRN_TRY(take(c, (size_t)n, thing, &p));
  *out = (crn_gguf_string){(const char *)p, (size_t)n};
  return CAIRN_OK;
}

static cairn_status skip_item(cursor *c, crn_gguf_kind kind, int depth);

// Reads the head of an array and walks over its items, so that all of them are known to lie inside the file.
static cairn_status take_array(cursor *c, int depth, crn_gguf_value *out) {
  uint32_t kind;
  uint64_t n;
  CRN_TRY(take_u32(c, "an array", &kind));
  CRN_TRY(take_u64(c, "an array", &n));
  if (kind > CRN_GGUF_FLOAT64) return CRN_FAIL(CORRUPT, "%s: an array of unknown kind %u", c->file->what, kind);
  if (depth == 0) return CRN_FAIL(CORRUPT, "%s: arrays are nested more than %d deep", c->file->what, MAX_ARRAY_DEPTH);
  out->array.kind = (crn_gguf_kind)kind;
  out->array.data = c->at;
  size_t size = crn_gguf_kind_bytes((crn_gguf_kind)kind);
  uint64_t most = (uint64_t)(c->end - c->at) / (size ? size : 8);
  if (n > most) return CRN_FAIL(CORRUPT, "%s: an array of %llu items goes past the end", c->file->what, (unsigned long long)n);
  out->array.n = (size_t)n;
  if (size) {
    c->at += size * (size_t)n;
    return CAIRN_OK;
  }
  for (size_t i = 0; i < out->array.n; i++) CRN_TRY(skip_item(c, (crn_gguf_kind)kind, depth - 1));
  return CAIRN_OK;
}

static cairn_status skip_item(cursor *c, crn_gguf_kind kind, int depth) {
  crn_gguf_value ignored;
  if (kind == CRN_GGUF_STRING) return take_string(c, "an array", &ignored.s);
  return take_array(c, depth, &ignored);
}

static cairn_status take_value(cursor *c, const crn_gguf_string *key, crn_gguf_value *out) {
  uint32_t kind;
  CRN_TRY(take_u32(c, "a metadata value", &kind));
  if (kind > CRN_GGUF_FLOAT64)
    return CRN_FAIL(CORRUPT, "%s: key '" CRN_GGUF_TEXT "' has unknown kind %u", c->file->what, CRN_GGUF_ARGS(*key), kind);
  out->kind = (crn_gguf_kind)kind;
  if (kind == CRN_GGUF_STRING) return take_string(c, "a metadata string", &out->s);
  if (kind == CRN_GGUF_ARRAY) return take_array(c, MAX_ARRAY_DEPTH, out);
  const unsigned char *p;
  CRN_TRY(take(c, crn_gguf_kind_bytes((crn_gguf_kind)kind), "a metadata value", &p));
  if (kind == CRN_GGUF_BOOL && *p > 1) {
    return CRN_FAIL(CORRUPT, "%s: key '" CRN_GGUF_TEXT "' is a boolean of value %d", c->file->what, CRN_GGUF_ARGS(*key), *p);
  }
  crn_gguf_item((crn_gguf_kind)kind, p, out);
  return CAIRN_OK;
}

static cairn_status read_pairs(crn_gguf *f, cursor *c, uint64_t n) {
  if (n > (uint64_t)(c->end - c->at) / MIN_PAIR_BYTES) {
    return CRN_FAIL(CORRUPT, "%s: %llu metadata pairs do not fit in the file", f->what, (unsigned long long)n);
  }
  CRN_TRY(crn_arena_array(&f->arena, (size_t)n, sizeof *f->pairs, &f->pairs));
  for (; f->n_pairs < n; f->n_pairs++) {
    crn_gguf_pair *pair = &f->pairs[f->n_pairs];
    CRN_TRY(take_string(c, "a metadata key", &pair->key));
    if (crn_map_get(&f->pair_by_key, pair->key.data, pair->key.bytes, NULL)) {
      return CRN_FAIL(CORRUPT, "%s: key '" CRN_GGUF_TEXT "' is there twice", f->what, CRN_GGUF_ARGS(pair->key));
    }
    CRN_TRY(take_value(c, &pair->key, &pair->value));
    CRN_TRY(crn_map_set(&f->pair_by_key, pair->key.data, pair->key.bytes, f->n_pairs));
  }
  return CAIRN_OK;
}

// Elements and bytes of a tensor; the dims of an empty one must not overflow either.
static cairn_status measure(const crn_gguf *f, crn_gguf_tensor *t) {
  size_t n = 1, bytes = 0;
  bool is_empty = false;
  for (int i = 0; i < t->n_dims; i++) {
    if (t->dims[i] == 0) is_empty = true;
    if (t->dims[i] > 1 && (!crn_mul_size(n, (size_t)t->dims[i], &n) || n > INT64_MAX)) n = 0;
    if (n == 0) break;
  }
  if (n == 0 || !crn_mul_size(n / t->type->block, t->type->bytes, &bytes)) {
    return CRN_FAIL(CORRUPT, "%s: the dims of tensor '" CRN_GGUF_TEXT "' overflow", f->what, CRN_GGUF_ARGS(t->name));
  }
  if (t->dims[0] % t->type->block) {
    return CRN_FAIL(CORRUPT, "%s: rows of %lld elements of tensor '" CRN_GGUF_TEXT "' are no multiple of the block of %s (%u)", f->what,
                    (long long)t->dims[0], CRN_GGUF_ARGS(t->name), t->type->name, t->type->block);
  }
  t->bytes = is_empty ? 0 : bytes;
  return CAIRN_OK;
}

static cairn_status read_tensor(const crn_gguf *f, cursor *c, crn_gguf_tensor *t, uint64_t *out_offset) {
  uint32_t n_dims, type;
  CRN_TRY(take_string(c, "a tensor name", &t->name));
  CRN_TRY(take_u32(c, "a tensor description", &n_dims));
  if (n_dims > CRN_GGUF_MAX_DIMS) {
    return CRN_FAIL(CORRUPT, "%s: tensor '" CRN_GGUF_TEXT "' has %u dims, at most %d are allowed", f->what, CRN_GGUF_ARGS(t->name), n_dims,
                    CRN_GGUF_MAX_DIMS);
  }
  t->n_dims = (int)n_dims;
  for (int i = 0; i < CRN_GGUF_MAX_DIMS; i++) t->dims[i] = 1;
  for (int i = 0; i < t->n_dims; i++) {
    uint64_t dim;
    CRN_TRY(take_u64(c, "a tensor description", &dim));
    if (dim > INT64_MAX)
      return CRN_FAIL(CORRUPT, "%s: a dim of tensor '" CRN_GGUF_TEXT "' is out of range", f->what, CRN_GGUF_ARGS(t->name));
    t->dims[i] = (int64_t)dim;
  }
  CRN_TRY(take_u32(c, "a tensor description", &type));
  CRN_TRY(take_u64(c, "a tensor description", out_offset));
  t->type = crn_gguf_type_of(type);
  if (!t->type) return CRN_FAIL(UNSUPPORTED, "%s: tensor '" CRN_GGUF_TEXT "' has unknown type %u", f->what, CRN_GGUF_ARGS(t->name), type);
  return measure(f, t);
}

static cairn_status place(const crn_gguf *f, const cursor *c, size_t data_start, uint64_t offset, crn_gguf_tensor *t) {
  size_t total = (size_t)(c->end - f->start);
  if (offset % f->alignment) {
    return CRN_FAIL(CORRUPT, "%s: the offset of tensor '" CRN_GGUF_TEXT "' is no multiple of the alignment %zu", f->what,
                    CRN_GGUF_ARGS(t->name), f->alignment);
  }
  if (data_start > total || offset > total - data_start || t->bytes > total - data_start - offset) {
    return CRN_FAIL(CORRUPT, "%s: the %zu bytes of tensor '" CRN_GGUF_TEXT "' go past the end of the file", f->what, t->bytes,
                    CRN_GGUF_ARGS(t->name));
  }
  t->data = f->start + data_start + offset;
  return CAIRN_OK;
}

static int by_address(const void *a, const void *b) {
  const crn_gguf_tensor *x = *(const crn_gguf_tensor *const *)a, *y = *(const crn_gguf_tensor *const *)b;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static cairn_status check_overlaps(const crn_gguf *f) {
  const crn_gguf_tensor **sorted;
  CRN_TRY(crn_alloc_array(f->allocator, f->n_tensors, sizeof *sorted, &sorted));
  for (size_t i = 0; i < f->n_tensors; i++) sorted[i] = &f->tensors[i];
  if (f->n_tensors) qsort(sorted, f->n_tensors, sizeof *sorted, by_address);
  cairn_status status = CAIRN_OK;
  for (size_t i = 1; i < f->n_tensors && status == CAIRN_OK; i++) {
    const crn_gguf_tensor *a = sorted[i - 1], *b = sorted[i];
    if (b->bytes && a->data + a->bytes > b->data) {
      status = CRN_FAIL(CORRUPT, "%s: tensors '" CRN_GGUF_TEXT "' and '" CRN_GGUF_TEXT "' overlap", f->what, CRN_GGUF_ARGS(a->name),
                        CRN_GGUF_ARGS(b->name));
    }
  }
  crn_free(f->allocator, sorted, f->n_tensors * sizeof *sorted);
  return status;
}

static cairn_status read_tensors(crn_gguf *f, cursor *c, uint64_t n) {
  uint64_t *offsets = NULL;
  size_t data_start, count = (size_t)n;
  if (n > (uint64_t)(c->end - c->at) / MIN_TENSOR_BYTES) {
    return CRN_FAIL(CORRUPT, "%s: %llu tensors do not fit in the file", f->what, (unsigned long long)n);
  }
  CRN_TRY(crn_arena_array(&f->arena, count, sizeof *f->tensors, &f->tensors));
  CRN_TRY(crn_alloc_array(f->allocator, count, sizeof *offsets, &offsets));
  cairn_status status = CAIRN_OK;
  for (; f->n_tensors < count; f->n_tensors++) {
    crn_gguf_tensor *t = &f->tensors[f->n_tensors];
    CRN_TRY_GOTO(read_tensor(f, c, t, &offsets[f->n_tensors]));
    if (crn_map_get(&f->tensor_by_name, t->name.data, t->name.bytes, NULL)) {
      status = CRN_FAIL(CORRUPT, "%s: tensor '" CRN_GGUF_TEXT "' is there twice", f->what, CRN_GGUF_ARGS(t->name));
      goto done;
    }
    CRN_TRY_GOTO(crn_map_set(&f->tensor_by_name, t->name.data, t->name.bytes, f->n_tensors));
  }
  if (!crn_align_size((size_t)(c->at - f->start), f->alignment, &data_start)) {
    status = CRN_FAIL(CORRUPT, "%s: the data lies outside of the file", f->what);
    goto done;
  }
  for (size_t i = 0; i < count; i++) CRN_TRY_GOTO(place(f, c, data_start, offsets[i], &f->tensors[i]));
  status = check_overlaps(f);
done:
  crn_free(f->allocator, offsets, count * sizeof *offsets);
  return status;
}

static cairn_status read_alignment(crn_gguf *f) {
  int64_t alignment = DEFAULT_ALIGNMENT;
  CRN_TRY(crn_gguf_get_int(f, "general.alignment", false, &alignment));
  if (alignment < MIN_ALIGNMENT || alignment > 1 << 30 || (alignment & (alignment - 1))) {
    return CRN_FAIL(CORRUPT, "%s: general.alignment is %lld, it must be a power of two of at least %d", f->what, (long long)alignment,
                    MIN_ALIGNMENT);
  }
  f->alignment = (size_t)alignment;
  return CAIRN_OK;
}

static cairn_status check_version(crn_gguf *f) {
  if (f->version != 0 && (f->version & 0xffff) == 0) return CRN_FAIL(UNSUPPORTED, "%s is a big-endian GGUF file", f->what);
  if (f->version < 2 || f->version > 3)
    return CRN_FAIL(UNSUPPORTED, "%s has GGUF version %u, versions 2 and 3 are supported", f->what, f->version);
  return CAIRN_OK;
}

static cairn_status parse(crn_gguf *f, const unsigned char *data, size_t bytes) {
  cursor c = {f, data, data + bytes};
  const unsigned char *magic;
  uint64_t n_tensors, n_pairs;
  f->start = data;
  if (bytes < 4 || memcmp(data, "GGUF", 4)) return CRN_FAIL(CORRUPT, "%s is no GGUF file", f->what);
  CRN_TRY(take(&c, 4, "the header", &magic));
  CRN_TRY(take_u32(&c, "the header", &f->version));
  CRN_TRY(check_version(f));
  CRN_TRY(take_u64(&c, "the header", &n_tensors));
  CRN_TRY(take_u64(&c, "the header", &n_pairs));
  CRN_TRY(read_pairs(f, &c, n_pairs));
  CRN_TRY(read_alignment(f));
  return read_tensors(f, &c, n_tensors);
}

static cairn_status create(const cairn_allocator *allocator, const char *what, crn_gguf **out_file) {
  crn_gguf *f;
  *out_file = NULL;
  if (!allocator) allocator = crn_default_allocator();
  CRN_TRY(crn_alloc_zero(allocator, sizeof *f, &f));
  f->references = 1;
  f->allocator = allocator;
  crn_arena_initialize(&f->arena, allocator);
  crn_map_initialize(&f->pair_by_key, allocator);
  crn_map_initialize(&f->tensor_by_name, allocator);
  cairn_status status = crn_arena_strndup(&f->arena, what, strlen(what), &f->what);
  if (status != CAIRN_OK) {
    crn_gguf_close(f);
    return status;
  }
  *out_file = f;
  return CAIRN_OK;
}

static cairn_status finish(crn_gguf *f, cairn_status status, crn_gguf **out_file) {
  if (status != CAIRN_OK) {
    crn_gguf_close(f);
    f = NULL;
  }
  *out_file = f;
  return status;
}

cairn_status crn_gguf_open(const cairn_allocator *allocator, const char *path, crn_gguf **out_file) {
  CRN_TRY(create(allocator, path, out_file));
  crn_gguf *f = *out_file;
  cairn_status status = crn_file_map_open(path, &f->map);
  if (status == CAIRN_OK) status = parse(f, f->map.data, f->map.bytes);
  return finish(f, status, out_file);
}

cairn_status crn_gguf_open_memory(const cairn_allocator *allocator, const void *data, size_t bytes, const char *what, crn_gguf **out_file) {
  CRN_TRY(create(allocator, what, out_file));
  crn_gguf *f = *out_file;
  return finish(f, parse(f, data, bytes), out_file);
}

void crn_gguf_retain(crn_gguf *f) { atomic_fetch_add(&f->references, 1); }

void crn_gguf_close(crn_gguf *f) {
  if (!f || atomic_fetch_sub(&f->references, 1) > 1) return;
  crn_map_deinitialize(&f->pair_by_key);
  crn_map_deinitialize(&f->tensor_by_name);
  crn_arena_deinitialize(&f->arena);
  crn_file_map_close(&f->map);
  crn_free(f->allocator, f, sizeof *f);
}
