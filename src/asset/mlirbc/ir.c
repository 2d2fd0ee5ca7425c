// Operations, blocks and regions. The regions of an isolated operation stand in a section of their own and are decoded
// when they are first asked for; other regions are part of the operation and are decoded with it.
//
// Counts of the file are believed only as far as bytes can pay for them: every operation, value, block and region takes
// bytes of its own, so a section has a budget of as many bytes as it has, and nothing is allocated beyond it.
#include <string.h>

#include "asset/mlirbc/private.h"
#include "base/vec.h"

enum {
  HAS_ATTRIBUTES = 0x01,
  HAS_RESULTS = 0x02,
  HAS_OPERANDS = 0x04,
  HAS_SUCCESSORS = 0x08,
  HAS_REGIONS = 0x10,
  HAS_USE_LISTS = 0x20,
  HAS_PROPERTIES = 0x40,
  OP_MIN_BYTES = 3,  // name, mask, location
};

typedef struct ir_reader {
  crn_bc_module *m;
  crn_bc_cursor c;
  CRN_VEC(crn_bc_value *) scope;  // the values that can be referred to; NULL until defined or referred to
  size_t budget;                  // bytes of the section not yet claimed by announced items
} ir_reader;

// The values of one region: indices of the scope.
typedef struct value_range {
  size_t next, end;
} value_range;

static cairn_status read_block(ir_reader *r, value_range *values, uint32_t depth, crn_bc_block *block);

static cairn_status claim(ir_reader *r, uint64_t n, size_t item_bytes) {
  if (n > r->budget / item_bytes || n > INT32_MAX)
    return CRN_BC_CORRUPT(&r->c, "%llu items announced, the section is too small", (unsigned long long)n);
  r->budget -= n * item_bytes;
  return CAIRN_OK;
}

static cairn_status new_value(ir_reader *r, size_t index) {
  return r->scope.items[index] ? CAIRN_OK : crn_arena_alloc(&r->m->arena, sizeof(crn_bc_value), &r->scope.items[index]);
}

// A value that was referred to before exists already without a type.
static cairn_status define_value(ir_reader *r, value_range *values, const crn_bc_type *type, const crn_bc_op *owner, crn_bc_value **out) {
  if (values->next == values->end) return CRN_BC_CORRUPT(&r->c, "a region defines more values than it announced");
  CRN_TRY(new_value(r, values->next));
  *out = r->scope.items[values->next++];
  (*out)->type = type;
  (*out)->owner = owner;
  return CAIRN_OK;
}

static cairn_status read_region(ir_reader *r, uint32_t depth, crn_bc_region *region) {
  uint64_t n_blocks, n_values;
  CRN_TRY(crn_bc_read_varint(&r->c, &n_blocks));
  if (!n_blocks) return CAIRN_OK;
  CRN_TRY(claim(r, n_blocks, 1));
  CRN_TRY(crn_bc_read_varint(&r->c, &n_values));
  CRN_TRY(claim(r, n_values, 1));
  const cairn_allocator *a = r->m->arena.allocator;
  size_t start = r->scope.size;
  CRN_TRY(crn_vec_reserve(a, &r->scope, n_values));
  if (n_values) memset(r->scope.items + start, 0, n_values * sizeof *r->scope.items);
  r->scope.size += n_values;
  value_range values = {start, start + n_values};
  crn_bc_block **blocks;
  CRN_TRY(crn_arena_array(&r->m->arena, n_blocks, sizeof *blocks, &blocks));
  for (uint64_t i = 0; i < n_blocks; i++) {
    CRN_TRY(crn_arena_alloc(&r->m->arena, sizeof **blocks, &blocks[i]));
    CRN_TRY(read_block(r, &values, depth, blocks[i]));
  }
  if (values.next != values.end) return CRN_BC_CORRUPT(&r->c, "a region defines fewer values than it announced");
  r->scope.size = start;
  region->blocks = blocks;
  region->n_blocks = (uint32_t)n_blocks;
  return CAIRN_OK;
}

static cairn_status read_regions(ir_reader *r, uint32_t depth, uint32_t n, const crn_bc_region **out) {
  crn_bc_region *regions;
  if (depth > CRN_BC_MAX_DEPTH) return CRN_BC_CORRUPT(&r->c, "regions nested more than %d deep", CRN_BC_MAX_DEPTH);
  CRN_TRY(crn_arena_array(&r->m->arena, n, sizeof *regions, &regions));
  for (uint32_t i = 0; i < n; i++) CRN_TRY(read_region(r, depth, &regions[i]));
  *out = regions;
  return CAIRN_OK;
}

static cairn_status read_results(ir_reader *r, value_range *values, crn_bc_op *op) {
  crn_bc_value **results;
  CRN_TRY(crn_bc_read_count(&r->c, 1, &op->n_results));
  CRN_TRY(crn_arena_array(&r->m->arena, op->n_results, sizeof *results, &results));
  for (uint32_t i = 0; i < op->n_results; i++) {
    const crn_bc_type *type;
    CRN_TRY(crn_bc_read_type(r->m, &r->c, &type));
    CRN_TRY(define_value(r, values, type, op, &results[i]));
  }
  op->results = results;
  return CAIRN_OK;
}

static cairn_status read_operands(ir_reader *r, crn_bc_op *op) {
  crn_bc_value **operands;
  CRN_TRY(crn_bc_read_count(&r->c, 1, &op->n_operands));
  CRN_TRY(crn_arena_array(&r->m->arena, op->n_operands, sizeof *operands, &operands));
  for (uint32_t i = 0; i < op->n_operands; i++) {
    uint32_t index;
    CRN_TRY(crn_bc_read_index(&r->c, "value", r->scope.size, &index));
    CRN_TRY(new_value(r, index));
    operands[i] = r->scope.items[index];
  }
  op->operands = operands;
  return CAIRN_OK;
}

static cairn_status skip_varints(ir_reader *r, uint64_t n) {
  uint64_t unused;
  for (; n; n--) CRN_TRY(crn_bc_read_varint(&r->c, &unused));
  return CAIRN_OK;
}

// The order in which uses were listed has no meaning for a program.
static cairn_status skip_use_lists(ir_reader *r, uint32_t n_values) {
  uint64_t n = 1, head;
  if (n_values > 1) CRN_TRY(crn_bc_read_varint(&r->c, &n));
  for (; n; n--) {
    if (n_values > 1) CRN_TRY(skip_varints(r, 1));
    CRN_TRY(crn_bc_read_varint(&r->c, &head));
    CRN_TRY(skip_varints(r, head >> 1));
  }
  return CAIRN_OK;
}

static cairn_status read_op_regions(ir_reader *r, crn_bc_op_record *record) {
  crn_bc_op *op = &record->op;
  uint64_t head;
  CRN_TRY(crn_bc_read_varint(&r->c, &head));
  CRN_TRY(claim(r, head >> 1, 1));
  op->n_regions = (uint32_t)(head >> 1);
  op->isolated = head & 1;
  if (!op->isolated) return read_regions(r, record->depth + 1, op->n_regions, &op->regions);
  uint8_t id;
  crn_bc_cursor content;
  CRN_TRY(crn_bc_read_section(&r->c, &id, &content));
  if (id != CRN_BC_SECTION_IR) return CRN_BC_CORRUPT(&r->c, "section %d inside, an ir section was expected", id);
  op->section_offset = (size_t)(content.at - content.file);
  op->section_bytes = crn_bc_remaining(&content);
  record->decoded = false;
  return CAIRN_OK;
}

static cairn_status read_op(ir_reader *r, value_range *values, uint32_t depth, crn_bc_op **out) {
  crn_bc_op_record *record;
  uint32_t index;
  uint8_t mask;
  CRN_TRY(crn_arena_alloc(&r->m->arena, sizeof *record, &record));
  crn_bc_op *op = &record->op;
  CRN_TRY(crn_bc_read_index(&r->c, "operation name", r->m->n_op_names, &index));
  record->name = &r->m->op_names[index];
  record->depth = depth;
  record->decoded = true;
  op->dialect = record->name->dialect;
  op->name = record->name->name;
  CRN_TRY(crn_bc_read_byte(&r->c, &mask));
  if (mask & 0x80) return CRN_BC_CORRUPT(&r->c, "operation mask %02X has an unknown bit", mask);
  CRN_TRY(crn_bc_read_attr(r->m, &r->c, &op->location));
  const crn_bc_attr *dictionary = NULL;
  if (mask & HAS_ATTRIBUTES) CRN_TRY(crn_bc_read_attr(r->m, &r->c, &dictionary));
  if (mask & HAS_PROPERTIES) {
    CRN_TRY(crn_bc_read_index(&r->c, "property record", r->m->n_properties, &index));
    CRN_TRY(crn_bc_decode_properties(r->m, record->name, index, op));
  }
  if (dictionary) CRN_TRY(crn_bc_append_dictionary(r->m, dictionary, op));
  if (mask & HAS_RESULTS) CRN_TRY(read_results(r, values, op));
  if (mask & HAS_OPERANDS) CRN_TRY(read_operands(r, op));
  if (mask & HAS_SUCCESSORS) {
    uint64_t n;
    CRN_TRY(crn_bc_read_varint(&r->c, &n));
    CRN_TRY(skip_varints(r, n));
  }
  if (mask & HAS_USE_LISTS) CRN_TRY(skip_use_lists(r, op->n_results));
  if (mask & HAS_REGIONS) CRN_TRY(read_op_regions(r, record));
  *out = op;
  return CAIRN_OK;
}

static cairn_status read_arguments(ir_reader *r, value_range *values, crn_bc_block *block) {
  crn_bc_value **arguments;
  CRN_TRY(crn_bc_read_count(&r->c, 1, &block->n_arguments));
  CRN_TRY(crn_arena_array(&r->m->arena, block->n_arguments, sizeof *arguments, &arguments));
  for (uint32_t i = 0; i < block->n_arguments; i++) {
    uint64_t head;
    const crn_bc_type *type;
    CRN_TRY(crn_bc_read_varint(&r->c, &head));
    if (head >> 1 >= r->m->n_types)
      return CRN_BC_CORRUPT(&r->c, "type index %llu, there are %u", (unsigned long long)head >> 1, r->m->n_types);
    CRN_TRY(crn_bc_decode_type(r->m, (uint32_t)(head >> 1), &type));
    CRN_TRY(define_value(r, values, type, NULL, &arguments[i]));
    if (head & 1) CRN_TRY(crn_bc_read_attr(r->m, &r->c, &arguments[i]->location));
  }
  block->arguments = arguments;
  uint8_t use_lists;
  CRN_TRY(crn_bc_read_byte(&r->c, &use_lists));
  return use_lists ? skip_use_lists(r, block->n_arguments) : CAIRN_OK;
}

static cairn_status read_block(ir_reader *r, value_range *values, uint32_t depth, crn_bc_block *block) {
  uint64_t head;
  CRN_TRY(crn_bc_read_varint(&r->c, &head));
  CRN_TRY(claim(r, head >> 1, OP_MIN_BYTES));
  if (head & 1) CRN_TRY(read_arguments(r, values, block));
  crn_bc_op **ops;
  block->n_ops = (uint32_t)(head >> 1);
  CRN_TRY(crn_arena_array(&r->m->arena, block->n_ops, sizeof *ops, &ops));
  for (uint32_t i = 0; i < block->n_ops; i++) {
    CRN_TRY(read_op(r, values, depth, &ops[i]));
  }
  block->ops = ops;
  return CAIRN_OK;
}

static ir_reader start_reader(crn_bc_module *m, size_t offset, size_t bytes) {
  const unsigned char *at = m->data + offset;
  return (ir_reader){.m = m, .c = {m->data, at, at + bytes, "ir section"}, .budget = bytes};
}

cairn_status crn_bc_read_top(crn_bc_module *m) {
  const crn_bc_cursor *section = &m->sections[CRN_BC_SECTION_IR];
  ir_reader r = start_reader(m, (size_t)(section->at - section->file), crn_bc_remaining(section));
  value_range none = {0, 0};
  crn_bc_block block = {0};
  cairn_status status = read_block(&r, &none, 0, &block);
  crn_vec_free(m->arena.allocator, &r.scope);
  CRN_TRY(status);
  CRN_TRY(crn_bc_expect_end(&r.c));
  if (block.n_ops != 1 || strcmp(block.ops[0]->name, "serialization.asset") != 0) {
    return CRN_FAIL(CORRUPT, "the top level holds %u operations (first '%s'), expected one 'serialization.asset'", block.n_ops,
                    block.n_ops ? block.ops[0]->name : "");
  }
  m->top = block.ops[0];
  return CAIRN_OK;
}

cairn_status crn_bc_op_regions(crn_bc_module *m, const crn_bc_op *op, const crn_bc_region **out) {
  crn_bc_op_record *record = (crn_bc_op_record *)op;
  *out = NULL;
  if (!record->decoded) {
    ir_reader r = start_reader(m, op->section_offset, op->section_bytes);
    const crn_bc_region *regions = NULL;
    cairn_status status = claim(&r, op->n_regions, 1);
    if (status == CAIRN_OK) status = read_regions(&r, record->depth + 1, op->n_regions, &regions);
    if (status == CAIRN_OK) status = crn_bc_expect_end(&r.c);
    crn_vec_free(m->arena.allocator, &r.scope);
    if (status != CAIRN_OK) return crn_note(status, "regions of '%s'", op->name);
    record->op.regions = regions;
    record->decoded = true;
  }
  *out = op->regions;
  return CAIRN_OK;
}

bool crn_bc_op_has_decomposition_body(const crn_bc_op *op) { return ((const crn_bc_op_record *)op)->name->has_body; }
