// The bytes of constants. Inline constants and resources store sub-byte elements differently, and an inline constant may
// store one element for all; every rule about lengths is here and nowhere else.
#include "asset/mlirbc/private.h"
#include "base/checked.h"
#include "tensor/tensor.h"

static cairn_status count_elements(const crn_bc_type *type, int64_t *out) {
  const crn_bc_field *shape = &type->fields[0];
  // A zero anywhere makes the count zero, whatever the product of the others would be.
  int64_t n = 1;
  for (uint32_t i = 0; i < shape->n; i++) {
    if (shape->is[i] < 0) return CRN_FAIL(CORRUPT, "a constant with a dynamic dimension %u", i);
    if (!shape->is[i]) n = 0;
  }
  for (uint32_t i = 0; n && i < shape->n; i++) {
    if (!crn_mul_i64(n, shape->is[i], &n)) return CRN_FAIL(CORRUPT, "a constant with too many elements");
  }
  *out = n;
  return CAIRN_OK;
}

static cairn_status wrong_length(const crn_bc_constant *c, size_t expected) {
  return CRN_FAIL(CORRUPT, "a constant of %lld elements of %d bits has %zu bytes, expected %zu", (long long)c->n_elements,
                  crn_dtype_bits(c->dtype), c->bytes, expected);
}

static cairn_status too_large(const crn_bc_constant *c) {
  return CRN_FAIL(CORRUPT, "a constant of %lld elements cannot be in a file", (long long)c->n_elements);
}

// One byte per element below a byte, except one-bit unsigned integers, which are a bit stream.
static cairn_status check_inline(bool splat_flag, crn_bc_constant *c) {
  c->packed = crn_dtype_bits(c->dtype) == 1;
  c->bytes_per_subbyte = crn_dtype_bits(c->dtype) < 8 && !c->packed;
  size_t element = cairn_dtype_bytes(c->dtype), expected;
  bool fits = c->packed ? crn_packed_bytes(c->dtype, c->n_elements, &expected) : crn_mul_size((size_t)c->n_elements, element, &expected);
  if (!fits) return too_large(c);
  // One stored element stands for all whatever the flag says; the flag alone does not make it so, because truth values
  // are stored in full even when all are equal.
  if (c->bytes == element && c->n_elements > 1 && (expected != element || splat_flag)) {
    c->splat = true;
    return CAIRN_OK;
  }
  return c->bytes == expected ? CAIRN_OK : wrong_length(c, expected);
}

// A bit stream below a byte. Elements of 3 and 6 bits come in groups of 3 bytes: writers either fill up the last group or
// stop at the last byte that holds a bit.
static cairn_status check_resource(crn_bc_constant *c) {
  int bits = crn_dtype_bits(c->dtype);
  c->packed = bits < 8;
  size_t expected;
  if (!crn_packed_bytes(c->dtype, c->n_elements, &expected)) return too_large(c);
  size_t filled = bits < 8 && bits % 3 == 0 ? (expected / 3 + (expected % 3 != 0)) * 3 : expected;
  return c->bytes == expected || c->bytes == filled ? CAIRN_OK : wrong_length(c, expected);
}

static cairn_status constant_type(const crn_bc_type *type, crn_bc_constant *c) {
  int rank;
  const crn_bc_attr *encoding;
  CRN_TRY(crn_bc_get_tensor(type, "the type of a constant", &c->dtype, &rank, NULL, 0, &encoding));
  if (encoding && (encoding->code == CRN_BC_ATTR_SPARSE || encoding->code == CRN_BC_ATTR_SPARSE_BLOCK)) {
    return CRN_FAIL(UNSUPPORTED, "a constant of a sparse tensor type");
  }
  return count_elements(type, &c->n_elements);
}

cairn_status crn_bc_constant_data(const crn_bc_module *m, const crn_bc_attr *value, const crn_bc_type *type, crn_bc_constant *out) {
  *out = (crn_bc_constant){0};
  if (!value) return CRN_FAIL(CORRUPT, "a constant without a value");
  CRN_TRY(constant_type(type, out));
  if (value->code == CRN_BC_ATTR_DENSE_ELEMENTS) {
    out->data = (const unsigned char *)value->fields[1].s.data;
    out->bytes = value->fields[1].s.bytes;
    return check_inline(value->fields[0].u != 0, out);
  }
  if (value->code != CRN_BC_ATTR_DENSE_RESOURCE) {
    return CRN_FAIL(CORRUPT, "the value of a constant is a %s, expected dense elements or a resource", crn_bc_attr_kind(value));
  }
  const crn_bc_resource *r = crn_bc_module_resource(m, value->fields[0].u);
  if (!r || r->kind != CRN_BC_RESOURCE_BLOB) return CRN_FAIL(CORRUPT, "the resource of a constant holds no data");
  out->data = r->data;
  out->bytes = r->bytes;
  CRN_TRY_NOTE(check_resource(out), "resource '%.*s'", (int)(r->key.bytes < 200 ? r->key.bytes : 200), r->key.data);
  return CAIRN_OK;
}
