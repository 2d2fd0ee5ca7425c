// The tables every other section refers to by index: strings, dialects and operation names, attribute and type entries,
// property records, resources. Only their extent is noted here; nothing is decoded.
#include <string.h>

#include "asset/mlirbc/private.h"
#include "asset/op_names.h"
#include "base/checked.h"

enum { DIALECT_VERSION = 2 };  // of `aicode`, the only one there is a reading for

// The lengths come first, last string first; the bytes follow in forward order. Each length counts a final NUL.
static cairn_status read_strings(crn_bc_module *m) {
  crn_bc_cursor *c = &m->sections[CRN_BC_SECTION_STRINGS];
  uint32_t n;
  CRN_TRY(crn_bc_read_count(c, 2, &n));
  CRN_TRY(crn_arena_array(&m->arena, n, sizeof *m->strings, &m->strings));
  for (uint32_t i = n; i-- > 0;) {
    uint64_t bytes;
    CRN_TRY(crn_bc_read_varint(c, &bytes));
    m->strings[i].bytes = bytes;
  }
  for (uint32_t i = 0; i < n; i++) {
    const unsigned char *data;
    size_t bytes = m->strings[i].bytes;
    CRN_TRY(crn_bc_read_bytes(c, bytes, &data));
    if (!bytes || data[bytes - 1]) return CRN_BC_CORRUPT(c, "string %u does not end with a NUL", i);
    m->strings[i] = (crn_bc_text){(const char *)data, bytes - 1};
  }
  m->n_strings = n;
  return crn_bc_expect_end(c);
}

cairn_status crn_bc_read_string(crn_bc_module *m, crn_bc_cursor *c, crn_bc_text *out) {
  uint32_t i;
  CRN_TRY(crn_bc_read_index(c, "string", m->n_strings, &i));
  *out = m->strings[i];
  return CAIRN_OK;
}

// A name becomes a C string, so a NUL inside of it would silently shorten it.
static cairn_status name_of(crn_bc_module *m, const crn_bc_cursor *c, uint64_t index, const char **out) {
  if (index >= m->n_strings) return CRN_BC_CORRUPT(c, "string index %llu, there are %u", (unsigned long long)index, m->n_strings);
  const crn_bc_text *s = &m->strings[index];
  if (memchr(s->data, 0, s->bytes)) return CRN_BC_CORRUPT(c, "the name '%s' has a NUL inside", s->data);
  *out = s->data;
  return CAIRN_OK;
}

static cairn_status check_aicode_version(crn_bc_cursor *c, bool has_version) {
  if (!has_version) return CRN_FAIL(INCOMPATIBLE, "the dialect 'aicode' has no encoding version, version %d is needed", DIALECT_VERSION);
  uint64_t version;
  CRN_TRY(crn_bc_read_varint(c, &version));
  if (version != DIALECT_VERSION) {
    return CRN_FAIL(INCOMPATIBLE, "encoding version %llu of the dialect 'aicode', only version %d can be read", (unsigned long long)version,
                    DIALECT_VERSION);
  }
  return crn_bc_expect_end(c);
}

static cairn_status read_dialect(crn_bc_module *m, crn_bc_cursor *c, crn_bc_dialect *d) {
  uint64_t head;
  CRN_TRY(crn_bc_read_varint(c, &head));
  CRN_TRY(name_of(m, c, head >> 1, &d->name));
  crn_bc_cursor version = *c;
  if (head & 1) {
    uint8_t id;
    CRN_TRY(crn_bc_read_section(c, &id, &version));
    if (id != CRN_BC_SECTION_DIALECT_VERSION) return CRN_BC_CORRUPT(c, "section %d inside, a dialect version was expected", id);
  }
  if (!strcmp(d->name, "aicode")) {
    d->kind = CRN_BC_DIALECT_AICODE;
    return check_aicode_version(&version, head & 1);
  }
  if (!strcmp(d->name, "builtin")) d->kind = CRN_BC_DIALECT_BUILTIN;
  return CAIRN_OK;
}

static cairn_status read_op_name(crn_bc_module *m, crn_bc_cursor *c, const crn_bc_dialect *dialect, crn_bc_op_name *out) {
  uint64_t head;  // the low bit says "registered", which means nothing here
  CRN_TRY(crn_bc_read_varint(c, &head));
  CRN_TRY(name_of(m, c, head >> 1, &out->name));
  out->dialect = dialect->name;
  if (dialect->kind != CRN_BC_DIALECT_AICODE) return CAIRN_OK;
  const crn_op_name *row = crn_find_op_name(out->name);
  out->known = row != NULL;
  out->has_body = row && row->has_body;
  out->layout = crn_bc_find_layout(out->name);
  return CAIRN_OK;
}

static cairn_status read_dialects(crn_bc_module *m) {
  crn_bc_cursor *c = &m->sections[CRN_BC_SECTION_DIALECTS];
  CRN_TRY(crn_bc_read_count(c, 1, &m->n_dialects));
  if (m->n_dialects > UINT8_MAX) return CRN_BC_CORRUPT(c, "%u dialects, at most %d are read", m->n_dialects, UINT8_MAX);
  CRN_TRY(crn_arena_array(&m->arena, m->n_dialects, sizeof *m->dialects, &m->dialects));
  for (uint32_t i = 0; i < m->n_dialects; i++) CRN_TRY(read_dialect(m, c, &m->dialects[i]));
  // The announced total is only a hint; a name takes a byte, so what remains bounds the number of names.
  uint64_t announced;
  CRN_TRY(crn_bc_read_varint(c, &announced));
  CRN_TRY(crn_arena_array(&m->arena, crn_bc_remaining(c), sizeof *m->op_names, &m->op_names));
  while (crn_bc_remaining(c)) {
    uint32_t dialect, n;
    CRN_TRY(crn_bc_read_index(c, "dialect", m->n_dialects, &dialect));
    CRN_TRY(crn_bc_read_count(c, 1, &n));
    for (; n; n--) CRN_TRY(read_op_name(m, c, &m->dialects[dialect], &m->op_names[m->n_op_names++]));
  }
  return CAIRN_OK;
}

// Reads the groups of entries; a group has one dialect and does not mix attributes with types.
static cairn_status read_entries(crn_bc_module *m, crn_bc_cursor *c, crn_bc_entry *entries, uint32_t total, size_t *in_out_offset) {
  const crn_bc_cursor *records = &m->sections[CRN_BC_SECTION_RECORDS];
  size_t limit = (size_t)(records->end - records->file);
  for (uint32_t done = 0; done < total;) {
    uint32_t dialect, n;
    CRN_TRY(crn_bc_read_index(c, "dialect", m->n_dialects, &dialect));
    CRN_TRY(crn_bc_read_count(c, 1, &n));
    if (n > total - done) return CRN_BC_CORRUPT(c, "a group of %u entries, %u are left", n, total - done);
    for (; n; n--) {
      uint64_t head;
      CRN_TRY(crn_bc_read_varint(c, &head));
      size_t bytes = head >> 1;
      if (!crn_range_inside(*in_out_offset, bytes, limit)) return CRN_BC_CORRUPT(c, "an entry ends behind its section");
      entries[done++] = (crn_bc_entry){.offset = *in_out_offset, .bytes = bytes, .dialect = (uint8_t)dialect, .custom = head & 1};
      *in_out_offset += bytes;
    }
  }
  return CAIRN_OK;
}

static cairn_status read_entry_table(crn_bc_module *m) {
  crn_bc_cursor *c = &m->sections[CRN_BC_SECTION_RECORD_OFFSETS];
  const crn_bc_cursor *records = &m->sections[CRN_BC_SECTION_RECORDS];
  CRN_TRY(crn_bc_read_count(c, 1, &m->n_attrs));
  CRN_TRY(crn_bc_read_count(c, 1, &m->n_types));
  if (m->n_attrs > crn_bc_remaining(c) || m->n_types > crn_bc_remaining(c) - m->n_attrs) {
    return CRN_BC_CORRUPT(c, "%u attributes and %u types announced, %zu bytes left", m->n_attrs, m->n_types, crn_bc_remaining(c));
  }
  CRN_TRY(crn_arena_array(&m->arena, m->n_attrs, sizeof *m->attrs, &m->attrs));
  CRN_TRY(crn_arena_array(&m->arena, m->n_types, sizeof *m->types, &m->types));
  size_t offset = (size_t)(records->at - records->file);
  CRN_TRY(read_entries(m, c, m->attrs, m->n_attrs, &offset));
  CRN_TRY(read_entries(m, c, m->types, m->n_types, &offset));
  if (offset != (size_t)(records->end - records->file)) return CRN_BC_CORRUPT(c, "the entries do not fill their section");
  return crn_bc_expect_end(c);
}

static cairn_status read_property_table(crn_bc_module *m) {
  crn_bc_cursor *c = &m->sections[CRN_BC_SECTION_PROPERTIES];
  if (!m->present[CRN_BC_SECTION_PROPERTIES]) return CAIRN_OK;
  CRN_TRY(crn_bc_read_count(c, 1, &m->n_properties));
  CRN_TRY(crn_arena_array(&m->arena, m->n_properties, sizeof *m->properties, &m->properties));
  for (uint32_t i = 0; i < m->n_properties; i++) {
    uint64_t bytes;
    const unsigned char *data;
    CRN_TRY(crn_bc_read_varint(c, &bytes));
    CRN_TRY(crn_bc_read_bytes(c, bytes, &data));
    m->properties[i] = (crn_bc_span){(size_t)(data - c->file), bytes};
  }
  return crn_bc_expect_end(c);
}

cairn_status crn_bc_read_tables(crn_bc_module *m) {
  CRN_TRY(read_strings(m));
  CRN_TRY(read_dialects(m));
  CRN_TRY(read_entry_table(m));
  return read_property_table(m);
}

// The content of one resource: `c` covers exactly its bytes.
static cairn_status read_resource(crn_bc_module *m, crn_bc_cursor *c, crn_bc_resource *r) {
  const unsigned char *data;
  uint64_t bytes;
  crn_bc_text text;
  if (!crn_bc_remaining(c)) return CAIRN_OK;
  switch (r->kind) {
    case CRN_BC_RESOURCE_BLOB:
      CRN_TRY(crn_bc_read_varint(c, &r->alignment));
      CRN_TRY(crn_bc_read_varint(c, &bytes));
      CRN_TRY(crn_bc_skip_padding(c, r->alignment));
      CRN_TRY(crn_bc_read_bytes(c, bytes, &data));
      r->data = data;
      r->bytes = bytes;
      break;
    case CRN_BC_RESOURCE_BOOL:
      CRN_TRY(crn_bc_read_bytes(c, 1, &data));
      r->data = data;
      r->bytes = 1;
      break;
    case CRN_BC_RESOURCE_STRING:
      CRN_TRY(crn_bc_read_string(m, c, &text));
      r->data = text.data;
      r->bytes = text.bytes;
      break;
    default:
      return CRN_BC_CORRUPT(c, "resource kind %u, known are 0 to 2", r->kind);
  }
  return crn_bc_expect_end(c);
}

static cairn_status read_resource_group(crn_bc_module *m, crn_bc_cursor *c, crn_bc_cursor *content, bool external) {
  uint32_t n;
  CRN_TRY(crn_bc_read_count(c, 3, &n));
  for (; n; n--) {
    crn_bc_resource r = {0};
    uint64_t bytes;
    uint8_t kind;
    const unsigned char *data;
    CRN_TRY(crn_bc_read_string(m, c, &r.key));
    CRN_TRY(crn_bc_read_varint(c, &bytes));
    CRN_TRY(crn_bc_read_byte(c, &kind));
    r.kind = kind;
    CRN_TRY(crn_bc_read_bytes(content, bytes, &data));
    crn_bc_cursor entry = {content->file, data, data + bytes, content->section};
    CRN_TRY_NOTE(read_resource(m, &entry, &r), "resource '%.*s'", (int)(r.key.bytes < 200 ? r.key.bytes : 200), r.key.data);
    // Groups of tools other than dialects are skipped: resource indices count those of dialects only.
    if (!external) m->resources[m->n_resources++] = r;
  }
  return CAIRN_OK;
}

cairn_status crn_bc_read_resources(crn_bc_module *m) {
  if (!m->present[CRN_BC_SECTION_RESOURCE_OFFSETS]) return CAIRN_OK;
  crn_bc_cursor *c = &m->sections[CRN_BC_SECTION_RESOURCE_OFFSETS];
  crn_bc_cursor empty = {m->data, m->data, m->data, "resource section"};
  crn_bc_cursor *content = m->present[CRN_BC_SECTION_RESOURCES] ? &m->sections[CRN_BC_SECTION_RESOURCES] : &empty;
  uint32_t n_external, unused;
  CRN_TRY(crn_bc_read_count(c, 2, &n_external));
  CRN_TRY(crn_arena_array(&m->arena, crn_bc_remaining(c) / 3, sizeof *m->resources, &m->resources));
  for (; n_external; n_external--) {
    CRN_TRY(crn_bc_read_index(c, "string", m->n_strings, &unused));
    CRN_TRY(read_resource_group(m, c, content, true));
  }
  while (crn_bc_remaining(c)) {
    CRN_TRY(crn_bc_read_index(c, "dialect", m->n_dialects, &unused));
    CRN_TRY(read_resource_group(m, c, content, false));
  }
  return CAIRN_OK;
}
