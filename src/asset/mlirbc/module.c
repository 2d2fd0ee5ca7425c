#include "asset/mlirbc/module.h"

#include <string.h>

#include "asset/mlirbc/private.h"

// Container versions that can be read. They differ in nothing the stored dialect uses.
enum { OLDEST_VERSION = 5, NEWEST_VERSION = 6 };

static cairn_status read_header(crn_bc_module *m, crn_bc_cursor *c) {
  static const unsigned char magic[4] = {'M', 'L', 0xEF, 'R'};
  if (m->bytes < sizeof magic || memcmp(m->data, magic, sizeof magic) != 0) {
    return CRN_FAIL(CORRUPT, "not MLIR bytecode: the file does not start with 4D 4C EF 52");
  }
  c->at += sizeof magic;
  uint64_t version;
  CRN_TRY(crn_bc_read_varint(c, &version));
  if (version < OLDEST_VERSION || version > NEWEST_VERSION) {
    return CRN_FAIL(INCOMPATIBLE, "bytecode container version %llu, versions %d to %d can be read", (unsigned long long)version,
                    OLDEST_VERSION, NEWEST_VERSION);
  }
  m->version = (int)version;
  const unsigned char *end = memchr(c->at, 0, crn_bc_remaining(c));
  if (!end) return CRN_BC_CORRUPT(c, "the producer text does not end");
  m->producer = (const char *)c->at;
  c->at = end + 1;
  return CAIRN_OK;
}

static cairn_status read_section_headers(crn_bc_module *m, crn_bc_cursor *c) {
  while (crn_bc_remaining(c)) {
    uint8_t id;
    crn_bc_cursor content;
    CRN_TRY(crn_bc_read_section(c, &id, &content));
    if (m->present[id]) return CRN_BC_CORRUPT(c, "a second %s", content.section);
    m->present[id] = true;
    m->sections[id] = content;
  }
  for (int id = CRN_BC_SECTION_STRINGS; id <= CRN_BC_SECTION_IR; id++) {
    if (!m->present[id]) return CRN_BC_CORRUPT(c, "section %d is missing; sections 0 to 4 are needed", id);
  }
  return CAIRN_OK;
}

static cairn_status read_module(crn_bc_module *m) {
  crn_bc_cursor c = {m->data, m->data, m->data + m->bytes, "container"};
  CRN_TRY(read_header(m, &c));
  CRN_TRY(read_section_headers(m, &c));
  CRN_TRY(crn_bc_read_tables(m));
  CRN_TRY(crn_bc_read_resources(m));
  return crn_bc_read_top(m);
}

cairn_status crn_bc_module_open(const cairn_allocator *allocator, const void *data, size_t bytes, crn_bc_module **out_module) {
  *out_module = NULL;
  if (!allocator) allocator = crn_default_allocator();
  crn_bc_module *m;
  CRN_TRY(crn_alloc_zero(allocator, sizeof *m, &m));
  crn_arena_initialize(&m->arena, allocator);
  m->data = data;
  m->bytes = bytes;
  cairn_status status = read_module(m);
  if (status != CAIRN_OK) {
    crn_bc_module_close(m);
    return status;
  }
  *out_module = m;
  return CAIRN_OK;
}

void crn_bc_module_close(crn_bc_module *m) {
  if (!m) return;
  const cairn_allocator *allocator = m->arena.allocator;
  crn_arena_deinitialize(&m->arena);
  crn_free(allocator, m, sizeof *m);
}

const crn_bc_op *crn_bc_module_top(const crn_bc_module *m) { return m->top; }
const char *crn_bc_module_producer(const crn_bc_module *m) { return m->producer; }
int crn_bc_module_version(const crn_bc_module *m) { return m->version; }
uint32_t crn_bc_module_resource_count(const crn_bc_module *m) { return m->n_resources; }

const crn_bc_resource *crn_bc_module_resource(const crn_bc_module *m, uint64_t index) {
  return index < m->n_resources ? &m->resources[index] : NULL;
}
