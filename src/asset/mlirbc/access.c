// Small readers of common attributes and types.
#include <string.h>

#include "asset/mlirbc/private.h"

static cairn_status wrong_kind(const crn_bc_attr *a, const char *what, const char *expected) {
  if (!a) return CRN_FAIL(CORRUPT, "%s is missing, expected a %s", what, expected);
  return CRN_FAIL(CORRUPT, "%s is a %s, expected a %s", what, crn_bc_attr_kind(a), expected);
}

const crn_bc_attr *crn_bc_op_property(const crn_bc_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_properties; i++) {
    if (!strcmp(op->properties[i].name, name)) return op->properties[i].value;
  }
  return NULL;
}

cairn_status crn_bc_get_text(const crn_bc_attr *a, const char *what, crn_bc_text *out) {
  if (!a || a->code != CRN_BC_ATTR_STRING) return wrong_kind(a, what, "string");
  *out = a->fields[0].s;
  return CAIRN_OK;
}

cairn_status crn_bc_get_int(const crn_bc_attr *a, const char *what, int64_t *out) {
  if (!a || a->code != CRN_BC_ATTR_INTEGER) return wrong_kind(a, what, "integer");
  uint64_t width = a->fields[0].u, bits = a->fields[2].u;
  bool is_unsigned = a->fields[1].u != 0;
  if (width > 64 || (is_unsigned && bits > INT64_MAX)) return CRN_FAIL(CORRUPT, "%s does not fit in 64 signed bits", what);
  // The bits are zero-extended; the sign of a narrower value has to be spread.
  if (!is_unsigned && width && width < 64 && bits >> (width - 1) & 1) bits |= ~0ull << width;
  *out = (int64_t)bits;
  return CAIRN_OK;
}

cairn_status crn_bc_get_array(const crn_bc_attr *a, const char *what, const crn_bc_attr *const **out_items, uint32_t *out_n) {
  if (!a || a->code != CRN_BC_ATTR_ARRAY) return wrong_kind(a, what, "array");
  *out_items = a->fields[0].as;
  *out_n = a->fields[0].n;
  return CAIRN_OK;
}

const crn_bc_attr *crn_bc_find_entry(const crn_bc_attr *a, const char *key) {
  if (!a || (a->code != CRN_BC_ATTR_ARRAY && a->code != CRN_BC_ATTR_DICTIONARY)) return NULL;
  size_t bytes = strlen(key);
  for (uint32_t i = 0; i < a->fields[0].n; i++) {
    const crn_bc_attr *e = a->fields[0].as[i];
    if (e->code != CRN_BC_ATTR_OPAQUE || e->fields[0].s.bytes != bytes || memcmp(e->fields[0].s.data, key, bytes) != 0) continue;
    return e->fields[1].n ? e->fields[1].as[0] : NULL;
  }
  return NULL;
}

cairn_dtype crn_bc_type_dtype(const crn_bc_type *t) {
  enum { CAIRN_NONE = CAIRN_DTYPE_NONE };
  static const uint8_t dtypes[] = {
#define TYPE(code, kind, fields, dtype) [code] = CAIRN_##dtype,
#include "asset/mlirbc/types.def"
#undef TYPE
  };
  return t->code < sizeof dtypes ? (cairn_dtype)dtypes[t->code] : CAIRN_DTYPE_NONE;
}

cairn_status crn_bc_get_tensor(const crn_bc_type *t, const char *what, cairn_dtype *out_dtype, int *out_rank, int64_t *out_shape,
                               int capacity, const crn_bc_attr **out_encoding) {
  if (!t || (t->code != CRN_BC_TYPE_TENSOR && t->code != CRN_BC_TYPE_TENSOR_ENCODED)) {
    return CRN_FAIL(CORRUPT, "%s is a %s, expected a tensor", what, t ? crn_bc_type_kind(t) : "nothing");
  }
  const crn_bc_field *shape = &t->fields[0];
  *out_dtype = crn_bc_type_dtype(t->fields[1].t);
  if (*out_dtype == CAIRN_DTYPE_NONE) {
    return CRN_FAIL(CORRUPT, "%s is a tensor of %s, which is no element type", what, crn_bc_type_kind(t->fields[1].t));
  }
  if (shape->n > (uint32_t)capacity && out_shape) {
    return CRN_FAIL(UNSUPPORTED, "%s has rank %u, at most %d is supported", what, shape->n, capacity);
  }
  for (uint32_t i = 0; i < shape->n; i++) {
    int64_t dim = shape->is[i];
    if (dim < 0 && dim != INT64_MIN) return CRN_FAIL(CORRUPT, "%s: dimension %u is %lld", what, i, (long long)dim);
    if (out_shape) out_shape[i] = dim < 0 ? CAIRN_DYNAMIC : dim;
  }
  *out_rank = (int)shape->n;
  if (out_encoding) *out_encoding = t->code == CRN_BC_TYPE_TENSOR_ENCODED ? t->fields[2].a : NULL;
  return CAIRN_OK;
}
