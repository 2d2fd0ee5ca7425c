// The program as text, in MLIR's generic form: one line per operation, regions indented.
#include <string.h>

#include "asset/asset.h"
#include "asset/print/printer.h"
#include "base/context.h"

// Records a printer may write out: sharing makes the text of real assets a few times larger than their records; a file
// made to explode goes beyond any such ratio.
enum { BUDGET_PER_BYTE = 1024, BUDGET_BASE = 1 << 22 };

void crn_print_flush(crn_printer *p) {
  if (p->used && p->status == CAIRN_OK) p->status = p->write(p->user, p->buffer, p->used);
  p->used = 0;
}

void crn_print_bytes(crn_printer *p, const void *text, size_t n) {
  const char *at = text;
  while (n && p->status == CAIRN_OK) {
    size_t room = sizeof p->buffer - p->used, part = n < room ? n : room;
    memcpy(p->buffer + p->used, at, part);
    p->used += part;
    at += part;
    n -= part;
    if (p->used == sizeof p->buffer) crn_print_flush(p);
  }
}

void crn_print_text(crn_printer *p, const char *text) { crn_print_bytes(p, text, strlen(text)); }

static void print_indent(crn_printer *p, int depth) {
  for (int i = 0; i < depth; i++) crn_print_text(p, "  ");
}

// Values are numbered in the order in which they are first written.
static void print_value(crn_printer *p, crn_bc_value *v) {
  if (!v->user) v->user = (void *)(uintptr_t)++p->n_values;
  crn_print_text(p, "%");
  crn_print_unsigned(p, (uint64_t)(uintptr_t)v->user - 1);
}

static void print_values(crn_printer *p, crn_bc_value *const *values, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) crn_print_text(p, ", ");
    print_value(p, values[i]);
  }
}

static void print_types(crn_printer *p, crn_bc_value *const *values, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) crn_print_text(p, ", ");
    crn_print_type(p, values[i]->type);
  }
}

static void print_location(crn_printer *p, const crn_bc_attr *location) {
  if (!p->options->locations || !location) return;
  crn_print_text(p, " loc(");
  crn_print_attr(p, location);
  crn_print_text(p, ")");
}

static void print_properties(crn_printer *p, const crn_bc_op *op) {
  bool any = false;
  for (uint32_t i = 0; i < op->n_properties; i++) {
    const crn_bc_property *property = &op->properties[i];
    if (!property->value) continue;
    crn_print_text(p, any ? ", " : " <{");
    any = true;
    crn_print_text(p, property->name);
    crn_print_text(p, " = ");
    crn_print_attr(p, property->value);
  }
  if (any) crn_print_text(p, "}>");
}

static void print_op(crn_printer *p, const crn_bc_op *op, int depth);

static void print_block(crn_printer *p, const crn_bc_block *block, int depth) {
  if (block->n_arguments) {
    print_indent(p, depth - 1);
    crn_print_text(p, "^bb(");
    for (uint32_t i = 0; i < block->n_arguments; i++) {
      if (i) crn_print_text(p, ", ");
      print_value(p, block->arguments[i]);
      crn_print_text(p, ": ");
      crn_print_type(p, block->arguments[i]->type);
      print_location(p, block->arguments[i]->location);
    }
    crn_print_text(p, "):\n");
  }
  for (uint32_t i = 0; i < block->n_ops && p->status == CAIRN_OK; i++) print_op(p, block->ops[i], depth);
}

static void print_regions(crn_printer *p, const crn_bc_op *op, int depth) {
  const crn_bc_region *regions;
  p->status = crn_bc_op_regions(p->module, op, &regions);
  if (p->status != CAIRN_OK) return;
  crn_print_text(p, " ({\n");
  for (uint32_t i = 0; i < op->n_regions; i++) {
    if (i) {
      print_indent(p, depth);
      crn_print_text(p, "}, {\n");
    }
    for (uint32_t k = 0; k < regions[i].n_blocks; k++) print_block(p, regions[i].blocks[k], depth + 1);
  }
  print_indent(p, depth);
  crn_print_text(p, "})");
}

// The nesting of regions is bounded by the reader, and so is this recursion.
static void print_op(crn_printer *p, const crn_bc_op *op, int depth) {
  print_indent(p, depth);
  print_values(p, op->results, op->n_results);
  crn_print_text(p, op->n_results ? " = \"" : "\"");
  crn_print_text(p, op->dialect);
  crn_print_text(p, ".");
  crn_print_text(p, op->name);
  crn_print_text(p, "\"(");
  print_values(p, op->operands, op->n_operands);
  crn_print_text(p, ")");
  print_properties(p, op);
  bool regions = op->n_regions && (p->options->bodies || !crn_bc_op_has_decomposition_body(op));
  if (regions && p->status == CAIRN_OK) print_regions(p, op, depth);
  crn_print_text(p, " : (");
  print_types(p, op->operands, op->n_operands);
  crn_print_text(p, ") -> (");
  print_types(p, op->results, op->n_results);
  crn_print_text(p, ")");
  print_location(p, op->location);
  crn_print_text(p, "\n");
}

static void print_program(crn_printer *p, size_t file_bytes) {
  p->budget = (uint64_t)file_bytes * BUDGET_PER_BYTE + BUDGET_BASE;
  print_op(p, crn_bc_module_top(p->module), 0);
  crn_print_flush(p);
}

cairn_status cairn_asset_print(const cairn_asset *asset, const cairn_print_options *options,
                               cairn_status (*write)(void *user, const char *text, size_t bytes), void *user) {
  CRN_REQUIRE(asset);
  CRN_REQUIRE(write);
  static const cairn_print_options defaults;
  const cairn_allocator *a = &asset->context->allocator;
  crn_printer *p;
  CRN_TRY(crn_alloc_zero(a, sizeof *p, &p));
  p->options = options ? options : &defaults;
  p->write = write;
  p->user = user;
  cairn_status status = crn_asset_open_module(asset, &p->module);
  if (status == CAIRN_OK) {
    print_program(p, asset->map.bytes);
    status = p->status;
    crn_bc_module_close(p->module);
  }
  crn_free(a, p, sizeof *p);
  return status;
}
