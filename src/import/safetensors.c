#include "import/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "import/safetensors_dtype.h"

enum { LENGTH_BYTES = 8 };

struct crn_safetensors {
  const cairn_allocator *allocator;
  const char *what;
  crn_file_map map;  // empty for a file in memory
  const unsigned char *data;
  size_t data_bytes;  // of the part behind the header
  crn_arena arena;    // names, metadata and copies of misaligned tensors
  crn_map by_name;    // name to index in entries
  crn_safetensors_entry *entries;
  size_t n_entries;
  crn_safetensors_pair *metadata;
  size_t n_metadata;
};

// Where a tensor lies in the data part; kept only while the file is being checked.
typedef struct placed {
  size_t begin, end;
  crn_safetensors_entry entry;
} placed;

static cairn_status read_metadata(crn_safetensors *f, const json_t *metadata) {
  if (!metadata) return CAIRN_OK;
  if (!json_is_object(metadata)) return CRN_FAIL(CORRUPT, "%s: '__metadata__' must be an object of strings", f->what);
  CRN_TRY(crn_arena_array(&f->arena, json_object_size(metadata), sizeof *f->metadata, &f->metadata));
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)metadata, key, value) {
    crn_safetensors_pair *pair = &f->metadata[f->n_metadata];
    if (!json_is_string(value)) return CRN_FAIL(CORRUPT, "%s: metadata '%s' must be a string", f->what, key);
    CRN_TRY(crn_arena_strndup(&f->arena, key, strlen(key), &pair->key));
    CRN_TRY(crn_arena_strndup(&f->arena, json_string_value(value), json_string_length(value), &pair->value));
    f->n_metadata++;
  }
  return CAIRN_OK;
}

static cairn_status read_shape(const crn_safetensors *f, const char *name, const json_t *shape, crn_tensor *t) {
  if (!json_is_array(shape)) return CRN_FAIL(CORRUPT, "%s: tensor '%s' has no 'shape' array", f->what, name);
  size_t rank = json_array_size(shape);
  if (rank > CAIRN_MAX_RANK)
    return CRN_FAIL(UNSUPPORTED, "%s: tensor '%s' has %zu dims, at most %d are supported", f->what, name, rank, CAIRN_MAX_RANK);
  t->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *dim = json_array_get(shape, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
      return CRN_FAIL(CORRUPT, "%s: dim %zu of tensor '%s' must be an integer of at least 0", f->what, i, name);
    }
    t->dims[i] = json_integer_value(dim);
  }
  return CAIRN_OK;
}

static cairn_status read_offsets(const crn_safetensors *f, const char *name, const json_t *offsets, placed *p) {
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
    return CRN_FAIL(CORRUPT, "%s: 'data_offsets' of tensor '%s' must be two integers", f->what, name);
  }
  json_int_t b = json_integer_value(begin), e = json_integer_value(end);
  if (b < 0 || e < b || (uint64_t)e > f->data_bytes) {
    return CRN_FAIL(CORRUPT, "%s: tensor '%s' lies at bytes %lld to %lld of %zu", f->what, name, (long long)b, (long long)e, f->data_bytes);
  }
  p->begin = (size_t)b;
  p->end = (size_t)e;
  return CAIRN_OK;
}

// Bytes the elements of a shape take in a file; false on overflow or when sub-byte elements do not fill the last byte.
// The other dims of an empty tensor must not overflow either, since its strides are made of them.
static bool stored_bytes(const crn_tensor *t, size_t *out_bytes) {
  size_t bits = (size_t)crn_dtype_bits(t->dtype);
  bool is_empty = false;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == 0) is_empty = true;
    if (t->dims[i] > 1 && (!crn_mul_size(bits, (size_t)t->dims[i], &bits) || bits > INT64_MAX)) return false;
  }
  *out_bytes = is_empty ? 0 : bits / 8;
  return is_empty || bits % 8 == 0;
}

static cairn_status read_entry(crn_safetensors *f, const char *name, const json_t *value, placed *p) {
  crn_tensor *t = &p->entry.tensor;
  const char *dtype = json_string_value(json_object_get(value, "dtype"));
  if (!dtype) return CRN_FAIL(CORRUPT, "%s: tensor '%s' has no 'dtype' string", f->what, name);
  crn_safetensors_dtype_state state = crn_safetensors_dtype_find(dtype, &t->dtype);
  if (state == CRN_SAFETENSORS_UNKNOWN) return CRN_FAIL(CORRUPT, "%s: tensor '%s' has the unknown element type '%s'", f->what, name, dtype);
  if (state == CRN_SAFETENSORS_UNSUPPORTED) return CRN_FAIL(UNSUPPORTED, "%s: tensor '%s' has element type %s", f->what, name, dtype);
  CRN_TRY(read_shape(f, name, json_object_get(value, "shape"), t));
  CRN_TRY(read_offsets(f, name, json_object_get(value, "data_offsets"), p));
  size_t bytes;
  if (!stored_bytes(t, &bytes) || bytes != p->end - p->begin) {
    return CRN_FAIL(CORRUPT, "%s: the shape of tensor '%s' (%s) does not fill its %zu bytes", f->what, name, dtype, p->end - p->begin);
  }
  t->packed = crn_dtype_bits(t->dtype) < 8;
  crn_tensor_set_contiguous(t);
  return crn_arena_strndup(&f->arena, name, strlen(name), &p->entry.name);
}

static int by_place(const void *a, const void *b) {
  const placed *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->entry.name, y->entry.name);
}

// Kernels load whole elements, so a tensor that the writer put at an odd place is moved to aligned memory once.
static cairn_status attach_data(crn_safetensors *f, placed *p) {
  crn_tensor *t = &p->entry.tensor;
  const unsigned char *data = f->data + p->begin;
  size_t align = cairn_dtype_bytes(t->dtype);
  if (align > 8) align = 8;
  t->data = (void *)data;
  if ((uintptr_t)data % align == 0) return CAIRN_OK;
  CRN_TRY(crn_arena_alloc(&f->arena, p->end - p->begin, &t->data));
  if (p->end > p->begin) memcpy(t->data, data, p->end - p->begin);
  return CAIRN_OK;
}

// Sorted by place, every tensor must begin where the one before it ended, and the last must end with the file.
static cairn_status place_entries(crn_safetensors *f, placed *all, size_t n) {
  qsort(all, n, sizeof *all, by_place);
  CRN_TRY(crn_arena_array(&f->arena, n, sizeof *f->entries, &f->entries));
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    const char *name = all[i].entry.name;
    if (all[i].begin < at) return CRN_FAIL(CORRUPT, "%s: tensor '%s' overlaps '%s'", f->what, name, all[i - 1].entry.name);
    if (all[i].begin > at) return CRN_FAIL(CORRUPT, "%s: no tensor holds bytes %zu to %zu, before '%s'", f->what, at, all[i].begin, name);
    at = all[i].end;
    CRN_TRY(attach_data(f, &all[i]));
    f->entries[i] = all[i].entry;
    CRN_TRY(crn_map_set(&f->by_name, name, strlen(name), i));
  }
  if (at != f->data_bytes) return CRN_FAIL(CORRUPT, "%s: no tensor holds the last %zu bytes", f->what, f->data_bytes - at);
  f->n_entries = n;
  return CAIRN_OK;
}

static cairn_status read_header(crn_safetensors *f, const json_t *header) {
  size_t n = json_object_size(header), used = 0;
  placed *all;
  CRN_TRY(crn_alloc_array(f->allocator, n, sizeof *all, &all));
  cairn_status status;
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)header, key, value) {
    if (!strcmp(key, "__metadata__")) {
      CRN_TRY_GOTO(read_metadata(f, value));
    } else {
      CRN_TRY_GOTO(read_entry(f, key, value, &all[used]));
      used++;
    }
  }
  CRN_TRY_GOTO(place_entries(f, all, used));
done:
  crn_free(f->allocator, all, n * sizeof *all);
  return status;
}

static cairn_status parse(crn_safetensors *f, const unsigned char *file, size_t bytes) {
  if (bytes < LENGTH_BYTES) return CRN_FAIL(CORRUPT, "%s: %zu bytes are no safetensors file", f->what, bytes);
  uint64_t length = 0;
  for (int i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)file[i] << 8 * i;
  if (length > CRN_SAFETENSORS_MAX_HEADER || length > bytes - LENGTH_BYTES) {
    return CRN_FAIL(CORRUPT, "%s: a header of %llu bytes; the file has %zu, the limit is %d", f->what, (unsigned long long)length, bytes,
                    CRN_SAFETENSORS_MAX_HEADER);
  }
  const char *text = (const char *)file + LENGTH_BYTES;
  if (length == 0 || *text != '{') return CRN_FAIL(CORRUPT, "%s: the header must be a JSON object", f->what);
  f->data = file + LENGTH_BYTES + length;
  f->data_bytes = bytes - LENGTH_BYTES - (size_t)length;
  json_t *header;
  CRN_TRY(crn_json_parse(text, (size_t)length, f->what, &header));
  cairn_status status = read_header(f, header);
  json_decref(header);
  return status;
}

static cairn_status create(const cairn_allocator *allocator, const char *what, crn_safetensors **out_file) {
  crn_safetensors *f;
  *out_file = NULL;
  if (!allocator) allocator = crn_default_allocator();
  CRN_TRY(crn_alloc_zero(allocator, sizeof *f, &f));
  f->allocator = allocator;
  crn_arena_initialize(&f->arena, allocator);
  crn_map_initialize(&f->by_name, allocator);
  cairn_status status = crn_arena_strndup(&f->arena, what, strlen(what), &f->what);
  if (status != CAIRN_OK) {
    crn_safetensors_close(f);
    return status;
  }
  *out_file = f;
  return CAIRN_OK;
}

// Hands the file out when it is sound, else closes it.
static cairn_status finish(crn_safetensors *f, cairn_status status, crn_safetensors **out_file) {
  if (status != CAIRN_OK) {
    crn_safetensors_close(f);
    f = NULL;
  }
  *out_file = f;
  return status;
}

cairn_status crn_safetensors_open(const cairn_allocator *allocator, const char *path, crn_safetensors **out_file) {
  crn_safetensors *f;
  CRN_TRY(create(allocator, path, out_file));
  f = *out_file;
  cairn_status status = crn_file_map_open(path, &f->map);
  if (status == CAIRN_OK) status = parse(f, f->map.data, f->map.bytes);
  return finish(f, status, out_file);
}

cairn_status crn_safetensors_open_memory(const cairn_allocator *allocator, const void *data, size_t bytes, const char *what,
                                         crn_safetensors **out_file) {
  CRN_TRY(create(allocator, what, out_file));
  crn_safetensors *f = *out_file;
  return finish(f, parse(f, data, bytes), out_file);
}

void crn_safetensors_close(crn_safetensors *f) {
  if (!f) return;
  crn_map_deinitialize(&f->by_name);
  crn_arena_deinitialize(&f->arena);
  crn_file_map_close(&f->map);
  crn_free(f->allocator, f, sizeof *f);
}

size_t crn_safetensors_count(const crn_safetensors *f) { return f->n_entries; }

const crn_safetensors_entry *crn_safetensors_at(const crn_safetensors *f, size_t i) { return i < f->n_entries ? &f->entries[i] : NULL; }

const crn_safetensors_entry *crn_safetensors_find(const crn_safetensors *f, const char *name) {
  uint64_t i;
  return crn_map_get(&f->by_name, name, strlen(name), &i) ? &f->entries[i] : NULL;
}

const char *crn_safetensors_metadata(const crn_safetensors *f, const char *key) {
  for (size_t i = 0; i < f->n_metadata; i++) {
    if (!strcmp(f->metadata[i].key, key)) return f->metadata[i].value;
  }
  return NULL;
}
