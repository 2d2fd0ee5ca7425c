// Attributes and types. One generic reader follows the field letters of the record tables. Entries refer to each other
// by index in any order, so an entry is decoded when it is first reached, and the entries below it with it. Every entry
// is decoded once; its height and weight are noted, so that users of the records may recurse over them without fear.
#include <stddef.h>
#include <string.h>

#include "asset/mlirbc/private.h"

typedef struct record_row {
  const char *kind, *fields;
} record_row;

enum { N_CODES = 48, N_BUILTIN_CODES = 16, LIST_BIT = 'a' - 'A' };

static const record_row k_attrs[N_CODES] = {
#define ATTR(code, kind, fields) [code] = {kind, fields},
#include "asset/mlirbc/attrs.def"
#undef ATTR
};
static const record_row k_types[N_CODES] = {
#define TYPE(code, kind, fields, dtype) [code] = {kind, fields},
#include "asset/mlirbc/types.def"
#undef TYPE
};
static const record_row k_builtin_attrs[N_BUILTIN_CODES] = {
#define BUILTIN_ATTR(code, fields) [code] = {"builtin", fields},
#define BUILTIN_TYPE(code, fields)
#include "asset/mlirbc/builtin.def"
#undef BUILTIN_ATTR
#undef BUILTIN_TYPE
};
static const record_row k_builtin_types[N_BUILTIN_CODES] = {
#define BUILTIN_ATTR(code, fields)
#define BUILTIN_TYPE(code, fields) [code] = {"builtin", fields},
#include "asset/mlirbc/builtin.def"
#undef BUILTIN_ATTR
#undef BUILTIN_TYPE
};

// Attributes and types have the same members, so one reader fills both.
_Static_assert(sizeof(crn_bc_attr) == sizeof(crn_bc_type) && offsetof(crn_bc_attr, fields) == offsetof(crn_bc_type, fields) &&
                   offsetof(crn_bc_attr, index) == offsetof(crn_bc_type, index),
               "attributes and types must share their layout");

// The entry being decoded, and what is known of the entries below it.
typedef struct decoder {
  crn_bc_module *m;
  crn_bc_cursor c;
  uint64_t weight;
  uint32_t height;
  uint32_t depth;          // of the recursion
  uint64_t integer_width;  // of an integer or float record, once its width was read
} decoder;

static cairn_status decode_entry(crn_bc_module *m, bool is_type, uint32_t index, uint32_t depth, const crn_bc_attr **out);

// Reads an index and decodes what it names.
static cairn_status read_reference(decoder *d, bool is_type, const crn_bc_attr **out) {
  uint32_t index;
  CRN_TRY(crn_bc_read_index(&d->c, is_type ? "type" : "attribute", is_type ? d->m->n_types : d->m->n_attrs, &index));
  CRN_TRY(decode_entry(d->m, is_type, index, d->depth + 1, out));
  const crn_bc_entry *e = is_type ? &d->m->types[index] : &d->m->attrs[index];
  d->weight += e->weight;
  if (e->height > d->height) d->height = e->height;
  return CAIRN_OK;
}

static cairn_status read_reference_list(decoder *d, bool is_type, uint32_t per_item, crn_bc_field *f) {
  const crn_bc_attr **items;
  CRN_TRY(crn_bc_read_count(&d->c, per_item, &f->n));
  f->n *= per_item;
  CRN_TRY(crn_arena_array(&d->m->arena, f->n, sizeof *items, &items));
  for (uint32_t i = 0; i < f->n; i++) CRN_TRY(read_reference(d, is_type, &items[i]));
  f->as = items;
  return CAIRN_OK;
}

static cairn_status read_text_list(decoder *d, crn_bc_field *f) {
  crn_bc_text *items;
  CRN_TRY(crn_bc_read_count(&d->c, 1, &f->n));
  CRN_TRY(crn_arena_array(&d->m->arena, f->n, sizeof *items, &items));
  for (uint32_t i = 0; i < f->n; i++) CRN_TRY(crn_bc_read_string(d->m, &d->c, &items[i]));
  f->ss = items;
  d->weight += f->n;
  return CAIRN_OK;
}

static cairn_status read_number_list(decoder *d, bool is_signed, crn_bc_field *f) {
  int64_t *items;
  CRN_TRY(crn_bc_read_count(&d->c, 1, &f->n));
  CRN_TRY(crn_arena_array(&d->m->arena, f->n, sizeof *items, &items));
  for (uint32_t i = 0; i < f->n; i++) {
    CRN_TRY(is_signed ? crn_bc_read_signed(&d->c, &items[i]) : crn_bc_read_varint(&d->c, (uint64_t *)&items[i]));
  }
  f->is = items;
  d->weight += f->n;
  return CAIRN_OK;
}

static uint64_t low_bits(uint64_t v, uint64_t width) { return width >= 64 ? v : v & ((1ull << width) - 1); }

// An integer of the width just read: a raw byte up to 8 bits, one zigzagged word up to 64, else a counted list of words.
static cairn_status read_integer(decoder *d, crn_bc_field *low, crn_bc_field *high) {
  uint64_t width = d->integer_width;
  uint8_t byte;
  *low = (crn_bc_field){.kind = 'u', .n = 1};
  *high = (crn_bc_field){.kind = 'U'};
  if (width > CRN_BC_MAX_INTEGER_BITS) {
    return CRN_BC_CORRUPT(&d->c, "an integer of %llu bits, at most %d are read", (unsigned long long)width, CRN_BC_MAX_INTEGER_BITS);
  }
  if (width <= 8) {
    CRN_TRY(crn_bc_read_byte(&d->c, &byte));
    low->u = low_bits(byte, width);
    return CAIRN_OK;
  }
  if (width <= 64) {
    CRN_TRY(crn_bc_read_signed(&d->c, &low->i));
    low->u = low_bits(low->u, width);
    return CAIRN_OK;
  }
  crn_bc_field words = {0};
  CRN_TRY(read_number_list(d, true, &words));
  uint32_t n = (uint32_t)((width + 63) / 64);
  if (words.n != n) return CRN_BC_CORRUPT(&d->c, "%u words for an integer of %llu bits", words.n, (unsigned long long)width);
  ((uint64_t *)words.us)[n - 1] = low_bits(words.us[n - 1], width - 64 * (n - 1));
  low->u = words.us[0];
  high->n = n - 1;
  high->us = words.us + 1;
  return CAIRN_OK;
}

static cairn_status read_float(decoder *d, crn_bc_field *f) {
  crn_bc_field unused;
  uint64_t w = d->integer_width;
  if (w != 16 && w != 32 && w != 64) return CRN_BC_CORRUPT(&d->c, "a float of %llu bits, expected 16, 32 or 64", (unsigned long long)w);
  return read_integer(d, f, &unused);
}

static cairn_status read_optional(decoder *d, crn_bc_field *f) {
  uint8_t present;
  CRN_TRY(crn_bc_read_byte(&d->c, &present));
  *f = (crn_bc_field){.kind = 'u', .n = present != 0};
  return present ? crn_bc_read_varint(&d->c, &f->u) : CAIRN_OK;
}

static cairn_status read_data(decoder *d, crn_bc_field *f) {
  uint64_t bytes;
  const unsigned char *data;
  CRN_TRY(crn_bc_read_varint(&d->c, &bytes));
  CRN_TRY(crn_bc_read_bytes(&d->c, bytes, &data));
  f->s = (crn_bc_text){(const char *)data, bytes};
  return CAIRN_OK;
}

static cairn_status read_field(decoder *d, char letter, crn_bc_field *f) {
  uint32_t index;
  uint8_t byte;
  *f = (crn_bc_field){.kind = letter, .n = 1};
  switch (letter) {
    case 's':
      return crn_bc_read_string(d->m, &d->c, &f->s);
    case 'a':
      return read_reference(d, false, &f->a);
    case 't':
      return read_reference(d, true, (const crn_bc_attr **)&f->t);
    case 'u':
      return crn_bc_read_varint(&d->c, &f->u);
    case 'i':
      return crn_bc_read_signed(&d->c, &f->i);
    case 'b':
      CRN_TRY(crn_bc_read_byte(&d->c, &byte));
      f->u = byte;
      return CAIRN_OK;
    case 'd':
      return read_data(d, f);
    case 'r':
      CRN_TRY(crn_bc_read_index(&d->c, "resource", d->m->n_resources, &index));
      f->u = index;
      return CAIRN_OK;
    case 'o':
      return read_optional(d, f);
    case 'w':
      return read_integer(d, f, f + 1);
    case 'f':
      return read_float(d, f);
    case 'S':
      return read_text_list(d, f);
    case 'A':
      return read_reference_list(d, false, 1, f);
    case 'T':
      return read_reference_list(d, true, 1, f);
    case 'P':
      f->kind = 'A';
      return read_reference_list(d, false, 2, f);
    case 'U':
      return read_number_list(d, false, f);
    case 'I':
      return read_number_list(d, true, f);
    default:
      return CRN_FAIL(INTERNAL, "the record tables have a field letter '%c'", letter);
  }
}

static cairn_status new_record(decoder *d, uint32_t code, uint32_t index, uint32_t n_fields, crn_bc_attr **out, crn_bc_field **out_fields) {
  struct {
    crn_bc_attr attr;
    crn_bc_field fields[];
  } * r;
  CRN_TRY(crn_arena_alloc(&d->m->arena, sizeof *r + n_fields * sizeof *r->fields, &r));
  r->attr = (crn_bc_attr){(uint16_t)code, (uint16_t)n_fields, index, r->fields};
  *out = &r->attr;
  *out_fields = r->fields;
  return CAIRN_OK;
}

static cairn_status decode_fields(decoder *d, const record_row *row, uint32_t code, bool builtin, uint32_t index, crn_bc_attr **out) {
  uint32_t n_fields = (uint32_t)strlen(row->fields) + (builtin || strchr(row->fields, 'w') ? 1 : 0);
  crn_bc_field *f;
  CRN_TRY(new_record(d, builtin ? CRN_BC_ATTR_BUILTIN : code, index, n_fields, out, &f));
  if (builtin) *f++ = (crn_bc_field){.kind = 'u', .n = 1, .u = code};
  for (const char *letter = row->fields; *letter; letter++) {
    CRN_TRY(read_field(d, *letter, f));
    // The width stands in front of the value in both records that have one.
    if (letter == row->fields && *letter == 'u') d->integer_width = f->u;
    f += *letter == 'w' ? 2 : 1;
  }
  return crn_bc_expect_end(&d->c);
}

static cairn_status decode_custom(decoder *d, bool is_type, const crn_bc_entry *e, uint32_t index, crn_bc_attr **out) {
  uint64_t code;
  const crn_bc_dialect *dialect = &d->m->dialects[e->dialect];
  CRN_TRY(crn_bc_read_varint(&d->c, &code));
  const record_row *row = NULL;
  bool builtin = dialect->kind == CRN_BC_DIALECT_BUILTIN;
  if (builtin) {
    if (code < N_BUILTIN_CODES) row = is_type ? &k_builtin_types[code] : &k_builtin_attrs[code];
  } else if (dialect->kind == CRN_BC_DIALECT_AICODE) {
    if (code < N_CODES) row = is_type ? &k_types[code] : &k_attrs[code];
  } else {
    return CRN_BC_CORRUPT(&d->c, "an entry of the dialect '%s', which has no known encoding", dialect->name);
  }
  if (!row || !row->fields) {
    return CRN_BC_CORRUPT(&d->c, "unknown %s code %llu of the dialect '%s'", is_type ? "type" : "attribute", (unsigned long long)code,
                          dialect->name);
  }
  return decode_fields(d, row, (uint32_t)code, builtin, index, out);
}

// The text of a record without fields, e.g. "!aicode.token_v1", means that record.
static uint32_t code_of_text(bool is_type, crn_bc_text text) {
  static const char type_prefix[] = "!aicode.", unit[] = "#aicode.unit_v1", suffix[] = "_v1";
  if (!is_type) return text.bytes == sizeof unit - 1 && !memcmp(text.data, unit, text.bytes) ? CRN_BC_ATTR_UNIT : CRN_BC_ATTR_TEXT;
  for (uint32_t code = 0; code < N_CODES; code++) {
    const record_row *row = &k_types[code];
    if (!row->kind || *row->fields) continue;
    size_t n = strlen(row->kind), head = sizeof type_prefix - 1, tail = sizeof suffix - 1;
    if (text.bytes == head + n + tail && !memcmp(text.data, type_prefix, head) && !memcmp(text.data + head, row->kind, n) &&
        !memcmp(text.data + head + n, suffix, tail)) {
      return code;
    }
  }
  return CRN_BC_TYPE_TEXT;
}

static cairn_status decode_text(decoder *d, bool is_type, uint32_t index, crn_bc_attr **out) {
  size_t bytes = crn_bc_remaining(&d->c);
  const char *data = (const char *)d->c.at;
  if (!bytes || data[bytes - 1]) return CRN_BC_CORRUPT(&d->c, "a text entry that does not end with a NUL");
  crn_bc_text text = {data, bytes - 1};
  crn_bc_field *f;
  uint32_t code = code_of_text(is_type, text);
  CRN_TRY(new_record(d, code, index, code == CRN_BC_ATTR_TEXT, out, &f));
  if (code == CRN_BC_ATTR_TEXT) *f = (crn_bc_field){.kind = 's', .n = 1, .s = text};
  return CAIRN_OK;
}

static cairn_status decode_new_entry(crn_bc_module *m, bool is_type, uint32_t index, uint32_t depth, crn_bc_entry *e) {
  const unsigned char *at = m->data + e->offset;
  decoder d = {.m = m, .c = {m->data, at, at + e->bytes, "attribute section"}, .weight = 1, .depth = depth};
  crn_bc_attr *record = NULL;
  CRN_TRY(e->custom ? decode_custom(&d, is_type, e, index, &record) : decode_text(&d, is_type, index, &record));
  if (d.height >= CRN_BC_MAX_HEIGHT) return CRN_BC_CORRUPT(&d.c, "entries nested more than %d deep", CRN_BC_MAX_HEIGHT);
  e->height = (uint16_t)(d.height + 1);
  e->weight = d.weight < UINT32_MAX ? (uint32_t)d.weight : UINT32_MAX;
  e->decoded = record;
  return CAIRN_OK;
}

static cairn_status decode_entry(crn_bc_module *m, bool is_type, uint32_t index, uint32_t depth, const crn_bc_attr **out) {
  crn_bc_entry *e = is_type ? &m->types[index] : &m->attrs[index];
  if (!e->decoded) {
    if (e->in_progress) return CRN_FAIL(CORRUPT, "%s %u contains itself", is_type ? "type" : "attribute", index);
    if (depth >= CRN_BC_MAX_HEIGHT) return CRN_FAIL(CORRUPT, "attributes nested more than %d deep", CRN_BC_MAX_HEIGHT);
    e->in_progress = true;
    cairn_status status = decode_new_entry(m, is_type, index, depth, e);
    e->in_progress = false;
    if (status != CAIRN_OK) return status;
  }
  *out = e->decoded;
  return CAIRN_OK;
}

cairn_status crn_bc_decode_attr(crn_bc_module *m, uint32_t index, const crn_bc_attr **out) {
  if (index >= m->n_attrs) return CRN_FAIL(CORRUPT, "attribute index %u, there are %u", index, m->n_attrs);
  return decode_entry(m, false, index, 0, out);
}

cairn_status crn_bc_decode_type(crn_bc_module *m, uint32_t index, const crn_bc_type **out) {
  if (index >= m->n_types) return CRN_FAIL(CORRUPT, "type index %u, there are %u", index, m->n_types);
  return decode_entry(m, true, index, 0, (const crn_bc_attr **)out);
}

cairn_status crn_bc_read_attr(crn_bc_module *m, crn_bc_cursor *c, const crn_bc_attr **out) {
  uint32_t index;
  CRN_TRY(crn_bc_read_index(c, "attribute", m->n_attrs, &index));
  return crn_bc_decode_attr(m, index, out);
}

cairn_status crn_bc_read_type(crn_bc_module *m, crn_bc_cursor *c, const crn_bc_type **out) {
  uint32_t index;
  CRN_TRY(crn_bc_read_index(c, "type", m->n_types, &index));
  return crn_bc_decode_type(m, index, out);
}

uint32_t crn_bc_attr_weight(const crn_bc_module *m, const crn_bc_attr *a) { return m->attrs[a->index].weight; }
uint32_t crn_bc_type_weight(const crn_bc_module *m, const crn_bc_type *t) { return m->types[t->index].weight; }

const char *crn_bc_attr_kind(const crn_bc_attr *a) {
  if (a->code == CRN_BC_ATTR_BUILTIN) return "builtin";
  return a->code < N_CODES ? k_attrs[a->code].kind : "text";
}

const char *crn_bc_type_kind(const crn_bc_type *t) {
  if (t->code == CRN_BC_TYPE_BUILTIN) return "builtin";
  return t->code < N_CODES ? k_types[t->code].kind : "text";
}
