// The property records of operations.
#include <string.h>

#include "asset/mlirbc/private.h"

enum { MAX_ATTRIBUTES = 16 };

static const crn_bc_property_layout k_layouts[] = {
#define REQ(name) {#name, false},
#define OPT(name) {#name, true},
#define OP_PROPERTIES(op, fields) {op, {fields}},
#include "asset/mlirbc/op_properties.def"
#undef REQ
#undef OPT
#undef OP_PROPERTIES
};

const crn_bc_property_layout *crn_bc_find_layout(const char *op_name) {
  for (size_t i = 0; i < sizeof k_layouts / sizeof *k_layouts; i++) {
    if (!strcmp(k_layouts[i].op, op_name)) return &k_layouts[i];
  }
  return NULL;
}

static uint32_t field_count(const crn_bc_property_layout *layout) {
  uint32_t n = 0;
  while (layout->fields[n].name) n++;
  return n;
}

static cairn_status read_property(crn_bc_module *m, crn_bc_cursor *c, bool optional, const crn_bc_attr **out) {
  uint64_t head;
  CRN_TRY(crn_bc_read_varint(c, &head));
  *out = NULL;
  if (optional && !(head & 1)) return CAIRN_OK;
  uint64_t index = optional ? head >> 1 : head;
  if (index >= m->n_attrs) return CRN_BC_CORRUPT(c, "attribute index %llu, there are %u", (unsigned long long)index, m->n_attrs);
  return crn_bc_decode_attr(m, (uint32_t)index, out);
}

cairn_status crn_bc_decode_properties(crn_bc_module *m, const crn_bc_op_name *name, uint32_t index, crn_bc_op *op) {
  if (!name->layout) {
    if (!name->known) return CRN_FAIL(UNSUPPORTED, "the operation '%s.%s' is unknown", name->dialect, name->name);
    return CRN_FAIL(CORRUPT, "the operation '%s' has properties, none are expected", name->name);
  }
  crn_bc_property *properties;
  uint32_t n = field_count(name->layout);
  CRN_TRY(crn_arena_array(&m->arena, n, sizeof *properties, &properties));
  const unsigned char *at = m->data + m->properties[index].offset;
  crn_bc_cursor c = {m->data, at, at + m->properties[index].bytes, "properties section"};
  for (uint32_t i = 0; i < n; i++) {
    properties[i].name = name->layout->fields[i].name;
    CRN_TRY_NOTE(read_property(m, &c, name->layout->fields[i].optional, &properties[i].value), "property '%s' of '%s'", properties[i].name,
                 name->name);
  }
  op->properties = properties;
  op->n_properties = n;
  return crn_bc_expect_end(&c);
}

// Files without a properties section keep the attributes of an operation in a dictionary of the builtin dialect.
cairn_status crn_bc_append_dictionary(crn_bc_module *m, const crn_bc_attr *dictionary, crn_bc_op *op) {
  if (dictionary->code != CRN_BC_ATTR_BUILTIN || dictionary->fields[0].u != CRN_BC_BUILTIN_DICTIONARY) {
    return CRN_FAIL(CORRUPT, "the attributes of '%s' are a %s, expected a builtin dictionary", op->name, crn_bc_attr_kind(dictionary));
  }
  const crn_bc_field *pairs = &dictionary->fields[1];
  // Operations may share a dictionary and each gets its own list, so a list must be short.
  if (pairs->n / 2 > MAX_ATTRIBUTES) {
    return CRN_FAIL(UNSUPPORTED, "'%s' has %u attributes, at most %d are read", op->name, pairs->n / 2, MAX_ATTRIBUTES);
  }
  uint32_t n = op->n_properties + pairs->n / 2;
  crn_bc_property *properties;
  CRN_TRY(crn_arena_array(&m->arena, n, sizeof *properties, &properties));
  if (op->n_properties) memcpy(properties, op->properties, op->n_properties * sizeof *properties);
  for (uint32_t i = 0; i < pairs->n; i += 2) {
    const crn_bc_attr *key = pairs->as[i];
    if (key->code != CRN_BC_ATTR_BUILTIN || key->fields[0].u != CRN_BC_BUILTIN_STRING) {
      return CRN_FAIL(CORRUPT, "an attribute name of '%s' is a %s, expected a builtin string", op->name, crn_bc_attr_kind(key));
    }
    crn_bc_property *p = &properties[op->n_properties + i / 2];
    p->name = key->fields[1].s.data;  // ends with a NUL in the file
    p->value = pairs->as[i + 1];
  }
  op->properties = properties;
  op->n_properties = n;
  return CAIRN_OK;
}
