#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "import/safetensors.h"
#include "import/safetensors_dtype.h"

enum { HEADER_ALIGN = 8, CHUNK_BYTES = 256 * 1024 };

typedef struct item {
  const crn_safetensors_entry *entry;
  size_t begin, bytes;
} item;

static size_t element_align(const crn_tensor *t) { return t->packed ? 1 : cairn_dtype_bytes(t->dtype); }

// Wide elements first, so that each tensor begins at a multiple of its element size.
static int by_alignment(const void *a, const void *b) {
  const crn_safetensors_entry *x = ((const item *)a)->entry, *y = ((const item *)b)->entry;
  size_t ax = element_align(&x->tensor), ay = element_align(&y->tensor);
  if (ax != ay) return ax > ay ? -1 : 1;
  return strcmp(x->name, y->name);
}

static bool is_utf8(const char *text) {
  const char *end = text + strlen(text);
  while (text < end) {
    uint32_t code;
    bool valid;
    text += crn_utf8_decode(text, end, &code, &valid);
    if (!valid) return false;
  }
  return true;
}

static cairn_status check_entry(const crn_safetensors_entry *e, size_t *out_bytes) {
  const crn_tensor *t = &e->tensor;
  if (!strcmp(e->name, "__metadata__")) return CRN_FAIL(INVALID_ARGUMENT, "'%s' cannot name a tensor of a safetensors file", e->name);
  if (!crn_safetensors_dtype_name(t->dtype)) {
    return CRN_FAIL(UNSUPPORTED, "safetensors has no element type %s (tensor '%s')", cairn_dtype_name(t->dtype), e->name);
  }
  if (t->packed) {
    int64_t count;
    bool fits = crn_shape_count(t->dims, t->rank, &count) && crn_packed_bytes(t->dtype, count, out_bytes);
    if (!fits || (count * crn_dtype_bits(t->dtype)) % 8)
      return CRN_FAIL(INVALID_ARGUMENT, "the elements of tensor '%s' do not fill whole bytes", e->name);
    return CAIRN_OK;
  }
  if (crn_dtype_bits(t->dtype) < 8) {
    return CRN_FAIL(UNSUPPORTED, "safetensors stores %s packed only (tensor '%s')", cairn_dtype_name(t->dtype), e->name);
  }
  if (!crn_shape_bytes(t->dtype, t->dims, t->rank, out_bytes)) return CRN_FAIL(INVALID_ARGUMENT, "tensor '%s' is too large", e->name);
  return CAIRN_OK;
}

static cairn_status lay_out(const crn_safetensors_entry *entries, size_t n, item *items) {
  for (size_t i = 0; i < n; i++) {
    items[i].entry = &entries[i];
    CRN_TRY(check_entry(&entries[i], &items[i].bytes));
  }
  if (n) qsort(items, n, sizeof *items, by_alignment);
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    items[i].begin = at;
    if (!crn_add_size(at, items[i].bytes, &at) || at > INT64_MAX)
      return CRN_FAIL(INVALID_ARGUMENT, "the tensors are too large for one file");
  }
  return CAIRN_OK;
}

static cairn_status string_member(crn_str *s, const char *key, const char *value) {
  CRN_TRY(crn_str_json(s, key, strlen(key)));
  CRN_TRY(crn_str_putc(s, ':'));
  return crn_str_json(s, value, strlen(value));
}

static cairn_status describe(crn_str *s, const item *it) {
  const crn_tensor *t = &it->entry->tensor;
  CRN_TRY(crn_str_json(s, it->entry->name, strlen(it->entry->name)));
  CRN_TRY(crn_str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", crn_safetensors_dtype_name(t->dtype)));
  for (int i = 0; i < t->rank; i++) CRN_TRY(crn_str_printf(s, "%s%lld", i ? "," : "", (long long)t->dims[i]));
  return crn_str_printf(s, "],\"data_offsets\":[%zu,%zu]}", it->begin, it->begin + it->bytes);
}

static cairn_status make_header(crn_str *s, const item *items, size_t n, const crn_safetensors_pair *metadata, size_t n_metadata) {
  CRN_TRY(crn_str_putc(s, '{'));
  if (n_metadata) {
    CRN_TRY(crn_str_puts(s, "\"__metadata__\":{"));
    for (size_t i = 0; i < n_metadata; i++) {
      if (i) CRN_TRY(crn_str_putc(s, ','));
      CRN_TRY(string_member(s, metadata[i].key, metadata[i].value));
    }
    CRN_TRY(crn_str_putc(s, '}'));
  }
  for (size_t i = 0; i < n; i++) {
    if (i || n_metadata) CRN_TRY(crn_str_putc(s, ','));
    CRN_TRY(describe(s, &items[i]));
  }
  CRN_TRY(crn_str_putc(s, '}'));
  while (s->size % HEADER_ALIGN) CRN_TRY(crn_str_putc(s, ' '));
  if (s->size > CRN_SAFETENSORS_MAX_HEADER)
    return CRN_FAIL(INVALID_ARGUMENT, "the header would have %zu bytes, the limit is %d", s->size, CRN_SAFETENSORS_MAX_HEADER);
  return CAIRN_OK;
}

// A name given twice would make a file that no reader accepts.
static cairn_status claim(crn_map *names, const char *name) {
  size_t n = strlen(name);
  if (!is_utf8(name)) return CRN_FAIL(INVALID_ARGUMENT, "the name '%s' is not UTF-8", name);
  if (crn_map_get(names, name, n, NULL)) return CRN_FAIL(INVALID_ARGUMENT, "the name '%s' is given twice", name);
  return crn_map_set(names, name, n, 0);
}

static cairn_status check_names(const cairn_allocator *a, const crn_safetensors_entry *entries, size_t n,
                                const crn_safetensors_pair *metadata, size_t n_metadata) {
  crn_map tensors, keys;
  crn_map_initialize(&tensors, a);
  crn_map_initialize(&keys, a);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < n; i++) CRN_TRY_GOTO(claim(&tensors, entries[i].name));
  for (size_t i = 0; i < n_metadata; i++) {
    CRN_TRY_GOTO(claim(&keys, metadata[i].key));
    if (is_utf8(metadata[i].value)) continue;
    status = CRN_FAIL(INVALID_ARGUMENT, "the value of metadata '%s' is not UTF-8", metadata[i].key);
    goto done;
  }
done:
  crn_map_deinitialize(&tensors);
  crn_map_deinitialize(&keys);
  return status;
}

// Gathers the elements of a strided tensor into a buffer, chunk by chunk.
static cairn_status write_strided(crn_file_writer *w, const cairn_allocator *a, const crn_tensor *t) {
  char *chunk;
  size_t size = cairn_dtype_bytes(t->dtype), used = 0;
  CRN_TRY(crn_alloc(a, CHUNK_BYTES, &chunk));
  cairn_status status = CAIRN_OK;
  crn_nd_iter it;
  crn_nd_initialize(&it, t->rank, t->dims);
  crn_nd_operand(&it, t->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    memcpy(chunk + used, crn_tensor_at(t, it.offset[0]), size);
    used += size;
    if (used + size <= CHUNK_BYTES) continue;
    CRN_TRY_GOTO(crn_file_write(w, chunk, used));
    used = 0;
  }
  if (used) status = crn_file_write(w, chunk, used);
done:
  crn_free(a, chunk, CHUNK_BYTES);
  return status;
}

static cairn_status write_all(crn_file_writer *w, const cairn_allocator *a, const crn_str *header, const item *items, size_t n) {
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->size >> 8 * i);
  CRN_TRY(crn_file_write(w, length, sizeof length));
  CRN_TRY(crn_file_write(w, header->data, header->size));
  for (size_t i = 0; i < n; i++) {
    const crn_tensor *t = &items[i].entry->tensor;
    if (items[i].bytes == 0) continue;
    if (t->packed || crn_tensor_is_contiguous(t)) {
      CRN_TRY(crn_file_write(w, t->data, items[i].bytes));
    } else {
      CRN_TRY(write_strided(w, a, t));
    }
  }
  return CAIRN_OK;
}

cairn_status crn_safetensors_write(const cairn_allocator *a, const char *path, const crn_safetensors_entry *entries, size_t n_entries,
                                   const crn_safetensors_pair *metadata, size_t n_metadata) {
  if (!a) a = crn_default_allocator();
  crn_str header;
  item *items = NULL;
  crn_file_writer w;
  bool open = false;
  crn_str_initialize(&header, a);
  cairn_status status;
  CRN_TRY_GOTO(crn_alloc_array(a, n_entries, sizeof *items, &items));
  CRN_TRY_GOTO(check_names(a, entries, n_entries, metadata, n_metadata));
  CRN_TRY_GOTO(lay_out(entries, n_entries, items));
  CRN_TRY_GOTO(make_header(&header, items, n_entries, metadata, n_metadata));
  CRN_TRY_GOTO(crn_file_create(path, &w));
  open = true;
  CRN_TRY_GOTO(write_all(&w, a, &header, items, n_entries));
  open = false;
  status = crn_file_commit(&w);
done:
  if (open) crn_file_discard(&w);
  crn_free(a, items, n_entries * sizeof *items);
  crn_str_deinitialize(&header);
  return status;
}
