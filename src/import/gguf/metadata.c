#include <string.h>

#include "import/gguf/gguf.h"
#include "import/gguf/private.h"

size_t crn_gguf_kind_bytes(crn_gguf_kind kind) {
  switch (kind) {
    case CRN_GGUF_UINT8:
    case CRN_GGUF_INT8:
    case CRN_GGUF_BOOL:
      return 1;
    case CRN_GGUF_UINT16:
    case CRN_GGUF_INT16:
      return 2;
    case CRN_GGUF_UINT32:
    case CRN_GGUF_INT32:
    case CRN_GGUF_FLOAT32:
      return 4;
    case CRN_GGUF_UINT64:
    case CRN_GGUF_INT64:
    case CRN_GGUF_FLOAT64:
      return 8;
    case CRN_GGUF_STRING:
    case CRN_GGUF_ARRAY:
      return 0;
  }
  return 0;
}

uint64_t crn_gguf_load(const unsigned char *p, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
  return v;
}

static const unsigned char *array_item(const unsigned char *at, crn_gguf_value *out) {
  out->array.kind = (crn_gguf_kind)crn_gguf_load(at, 4);
  out->array.n = (size_t)crn_gguf_load(at + 4, 8);
  out->array.data = at += 12;
  size_t size = crn_gguf_kind_bytes(out->array.kind);
  if (size) return at + size * out->array.n;
  crn_gguf_value inner;
  // The depth was limited when the file was opened.
  for (size_t i = 0; i < out->array.n; i++) at = crn_gguf_item(out->array.kind, at, &inner);
  return at;
}

const unsigned char *crn_gguf_item(crn_gguf_kind kind, const unsigned char *at, crn_gguf_value *out) {
  out->kind = kind;
  size_t size = crn_gguf_kind_bytes(kind);
  uint64_t bits = size ? crn_gguf_load(at, size) : 0;
  uint32_t low = (uint32_t)bits;
  float single;
  switch (kind) {
    case CRN_GGUF_INT8:
      out->i = (int64_t)(int8_t)(uint8_t)bits;
      break;
    case CRN_GGUF_INT16:
      out->i = (int16_t)bits;
      break;
    case CRN_GGUF_INT32:
      out->i = (int32_t)bits;
      break;
    case CRN_GGUF_INT64:
      out->i = (int64_t)bits;
      break;
    case CRN_GGUF_UINT8:
    case CRN_GGUF_UINT16:
    case CRN_GGUF_UINT32:
    case CRN_GGUF_UINT64:
      out->u = bits;
      break;
    case CRN_GGUF_BOOL:
      out->u = bits != 0;
      break;
    case CRN_GGUF_FLOAT32:
      memcpy(&single, &low, sizeof single);
      out->f = (double)single;
      break;
    case CRN_GGUF_FLOAT64:
      memcpy(&out->f, &bits, sizeof out->f);
      break;
    case CRN_GGUF_STRING:
      out->s.bytes = (size_t)crn_gguf_load(at, 8);
      out->s.data = (const char *)at + 8;
      return at + 8 + out->s.bytes;
    case CRN_GGUF_ARRAY:
      return array_item(at, out);
  }
  return at + size;
}

const char *crn_gguf_what(const crn_gguf *f) { return f->what; }
uint32_t crn_gguf_version(const crn_gguf *f) { return f->version; }
size_t crn_gguf_pair_count(const crn_gguf *f) { return f->n_pairs; }
const crn_gguf_pair *crn_gguf_pair_at(const crn_gguf *f, size_t i) { return i < f->n_pairs ? &f->pairs[i] : NULL; }
size_t crn_gguf_tensor_count(const crn_gguf *f) { return f->n_tensors; }
const crn_gguf_tensor *crn_gguf_tensor_at(const crn_gguf *f, size_t i) { return i < f->n_tensors ? &f->tensors[i] : NULL; }

const crn_gguf_value *crn_gguf_find(const crn_gguf *f, const char *key) {
  uint64_t i;
  return crn_map_get(&f->pair_by_key, key, strlen(key), &i) ? &f->pairs[i].value : NULL;
}

const crn_gguf_tensor *crn_gguf_find_tensor(const crn_gguf *f, const char *name) {
  uint64_t i;
  return crn_map_get(&f->tensor_by_name, name, strlen(name), &i) ? &f->tensors[i] : NULL;
}

static cairn_status look_up(const crn_gguf *f, const char *key, bool required, const crn_gguf_value **out) {
  *out = crn_gguf_find(f, key);
  if (!*out && required) return CRN_FAIL(CORRUPT, "%s: metadata key '%s' is missing", f->what, key);
  return CAIRN_OK;
}

static cairn_status wrong_kind(const crn_gguf *f, const char *key, const char *wanted) {
  return CRN_FAIL(CORRUPT, "%s: metadata key '%s' must be %s", f->what, key, wanted);
}

cairn_status crn_gguf_get_int(const crn_gguf *f, const char *key, bool required, int64_t *out) {
  const crn_gguf_value *v;
  CRN_TRY(look_up(f, key, required, &v));
  if (!v) return CAIRN_OK;
  switch (v->kind) {
    case CRN_GGUF_INT8:
    case CRN_GGUF_INT16:
    case CRN_GGUF_INT32:
    case CRN_GGUF_INT64:
      *out = v->i;
      return CAIRN_OK;
    case CRN_GGUF_UINT8:
    case CRN_GGUF_UINT16:
    case CRN_GGUF_UINT32:
    case CRN_GGUF_UINT64:
      if (v->u > INT64_MAX) return CRN_FAIL(OUT_OF_RANGE, "%s: metadata key '%s' is too large", f->what, key);
      *out = (int64_t)v->u;
      return CAIRN_OK;
    default:
      return wrong_kind(f, key, "an integer");
  }
}

cairn_status crn_gguf_get_float(const crn_gguf *f, const char *key, bool required, double *out) {
  const crn_gguf_value *v;
  CRN_TRY(look_up(f, key, required, &v));
  if (!v) return CAIRN_OK;
  if (v->kind != CRN_GGUF_FLOAT32 && v->kind != CRN_GGUF_FLOAT64) return wrong_kind(f, key, "a float");
  *out = v->f;
  return CAIRN_OK;
}

cairn_status crn_gguf_get_bool(const crn_gguf *f, const char *key, bool required, bool *out) {
  const crn_gguf_value *v;
  CRN_TRY(look_up(f, key, required, &v));
  if (!v) return CAIRN_OK;
  if (v->kind != CRN_GGUF_BOOL) return wrong_kind(f, key, "a boolean");
  *out = v->u != 0;
  return CAIRN_OK;
}

cairn_status crn_gguf_get_string(const crn_gguf *f, const char *key, bool required, crn_gguf_string *out) {
  const crn_gguf_value *v;
  CRN_TRY(look_up(f, key, required, &v));
  if (!v) return CAIRN_OK;
  if (v->kind != CRN_GGUF_STRING) return wrong_kind(f, key, "a string");
  *out = v->s;
  return CAIRN_OK;
}

cairn_status crn_gguf_get_array(const crn_gguf *f, const char *key, bool required, crn_gguf_kind item_kind, const crn_gguf_value **out) {
  const crn_gguf_value *v;
  *out = NULL;
  CRN_TRY(look_up(f, key, required, &v));
  if (!v) return CAIRN_OK;
  if (v->kind != CRN_GGUF_ARRAY || v->array.kind != item_kind) {
    return CRN_FAIL(CORRUPT, "%s: metadata key '%s' must be an array of items of kind %d", f->what, key, (int)item_kind);
  }
  *out = v;
  return CAIRN_OK;
}
