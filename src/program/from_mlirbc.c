#include "program/from_mlirbc.h"

#include <stdio.h>
#include <string.h>

#include "asset/op_names.h"
#include "base/str.h"
#include "program/loader.h"

enum { MAX_REGION_DEPTH = 64 };

cairn_status crn_load_location(crn_loader *l, const crn_bc_attr *location, const char **out_text) {
  *out_text = "";
  if (!location || (location->code != 40 && location->code != 41)) return CAIRN_OK;
  const crn_bc_attr *source = location->fields[0].a;
  if (!source || source->code != 31 || source->fields[0].a->code != 30) return CAIRN_OK;
  crn_bc_text file = source->fields[0].a->fields[0].s;
  if (file.bytes < 2 || file.bytes > 200) return CAIRN_OK;
  char text[256];
  int n = snprintf(text, sizeof text, "%.*s:%llu", (int)file.bytes, file.data, (unsigned long long)source->fields[1].u);
  return crn_arena_strndup(l->arena, text, (size_t)n, out_text);
}

// --- ops ----------------------------------------------------------------------------------------------------------------

static cairn_status remember(crn_loader *l, crn_bc_value *source, crn_value *value) {
  CRN_TRY(crn_vec_push(l->allocator, &l->touched, source));
  source->user = value;
  return CAIRN_OK;
}

static cairn_status load_mode(const crn_bc_op *source, const char *property, int n_modes, crn_op *op) {
  const crn_bc_attr *a = crn_bc_op_property(source, property);
  if (!a || a->n_fields < 1 || a->fields[0].kind != 'u' || a->fields[0].u >= (uint64_t)n_modes) {
    return CRN_FAIL(CORRUPT, "%s: property '%s' is missing or none of the %d known modes", source->name, property, n_modes);
  }
  op->attr.mode = (int)a->fields[0].u;
  return CAIRN_OK;
}

static cairn_status load_callee(crn_loader *l, const crn_bc_op *source, crn_op *op) {
  const crn_bc_attr *a = crn_bc_op_property(source, "callee");
  // The symbol is wrapped as a constant, or bound to parameters for parametrised graphs.
  if (a && a->code == CRN_BC_ATTR_PARAM_BIND) return CRN_FAIL(UNSUPPORTED, "an invoke that binds parameters of a graph");
  if (a && a->code == CRN_BC_ATTR_PARAM_CONSTANT) a = a->fields[0].a;
  if (!a || a->code != CRN_BC_ATTR_SYMBOL_REF || a->fields[0].n < 1) return CRN_FAIL(CORRUPT, "an invoke without a symbol to call");
  crn_str name;
  crn_str_initialize(&name, l->allocator);
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < a->fields[0].n && status == CAIRN_OK; i++) {
    crn_bc_text part = a->fields[0].ss[i];
    if (i) status = crn_str_putc(&name, '.');
    if (status == CAIRN_OK) status = crn_str_append(&name, part.data, part.bytes);
  }
  uint64_t found = 0;
  if (status == CAIRN_OK && !crn_map_get(&l->graphs, name.data, name.size, &found))
    status = CRN_FAIL(CORRUPT, "invoke of '%s', which is not in the program", name.data);
  op->attr.callee = (crn_graph *)(uintptr_t)found;
  crn_str_deinitialize(&name);
  return status;
}

static cairn_status load_attributes(crn_loader *l, const crn_bc_op *source, crn_op *op) {
  switch (op->id) {
    case CRN_OP_constant:
      if (source->n_results != 1) return CRN_FAIL(CORRUPT, "a constant with %u results", source->n_results);
      const crn_bc_attr *value = crn_bc_op_property(source, "value");
      if (!value) return CRN_FAIL(CORRUPT, "a constant without a value");
      return crn_load_constant(l, value, source->results[0]->type, &op->attr.constant);
    case CRN_OP_invoke:
      return load_callee(l, source, op);
    case CRN_OP_pad:
      return load_mode(source, "padding_mode", 5, op);
    case CRN_OP_gelu:
      return load_mode(source, "approximate", 3, op);
    case CRN_OP_scan:
      return load_mode(source, "combiner", 4, op);
    case CRN_OP_scatter_along_axis:
      return load_mode(source, "scatter_mode", 7, op);
    case CRN_OP_interpolate:
    case CRN_OP_interpolate_coordinates:
      return load_mode(source, "interpolation_mode", 2, op);
    default:
      return CAIRN_OK;
  }
}

static cairn_status load_regions(crn_loader *l, const crn_bc_op *source, crn_op *op) {
  if (!source->n_regions || crn_bc_op_has_decomposition_body(source)) return CAIRN_OK;
  if (++l->depth > MAX_REGION_DEPTH) return CRN_FAIL(CORRUPT, "regions nested more than %d deep", MAX_REGION_DEPTH);
  const crn_bc_region *regions;
  crn_region *copies;
  CRN_TRY(crn_bc_op_regions(l->module, source, &regions));
  CRN_TRY(crn_arena_array(l->arena, source->n_regions, sizeof *copies, &copies));
  for (uint32_t r = 0; r < source->n_regions; r++) {
    crn_block **blocks;
    CRN_TRY(crn_arena_array(l->arena, regions[r].n_blocks, sizeof *blocks, &blocks));
    for (uint32_t b = 0; b < regions[r].n_blocks; b++) CRN_TRY(crn_loader_block(l, regions[r].blocks[b], &blocks[b]));
    copies[r] = (crn_region){regions[r].n_blocks, blocks};
  }
  op->regions = copies;
  op->n_regions = source->n_regions;
  l->depth--;
  return CAIRN_OK;
}

static cairn_status connect_operands(const crn_bc_op *source, crn_op *op) {
  for (uint32_t i = 0; i < source->n_operands; i++) {
    crn_value *v = source->operands[i]->user;
    if (!v) return CRN_FAIL(CORRUPT, "%s: operand %u is used before it is defined", source->name, i);
    op->operands[i] = v;
    v->n_uses++;
  }
  return CAIRN_OK;
}

static cairn_status load_op(crn_loader *l, const crn_bc_op *source, crn_block *block) {
  const crn_op_name *name = crn_find_op_name(source->name);
  crn_op_id id = name ? crn_op_find(name->memory) : CRN_OP_NONE;
  if (id == CRN_OP_NONE) return CRN_FAIL(UNSUPPORTED, "operation '%s.%s' is not known", source->dialect, source->name);
  crn_op *op;
  CRN_TRY(crn_op_create(l->program, l->graph, id, source->n_operands, source->n_results, &op));
  CRN_TRY(crn_load_location(l, source->location, &op->location));
  CRN_TRY(connect_operands(source, op));
  for (uint32_t i = 0; i < source->n_results; i++) CRN_TRY(crn_load_type(l, source->results[i]->type, &op->results[i].type));
  CRN_TRY(load_attributes(l, source, op));
  CRN_TRY(load_regions(l, source, op));
  bool handled = false;
  CRN_TRY(crn_load_old_form(l, source->name, block, op, &handled));
  if (!handled) crn_block_append(block, op);
  // The op at the end of the block now carries the results, whichever form was appended.
  for (uint32_t i = 0; i < source->n_results; i++) CRN_TRY(remember(l, source->results[i], &block->last->results[i]));
  return CAIRN_OK;
}

cairn_status crn_loader_block(crn_loader *l, const crn_bc_block *source, crn_block **out_block) {
  crn_block *b;
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *b, &b));
  CRN_TRY(crn_arena_array(l->arena, source->n_arguments, sizeof *b->arguments, &b->arguments));
  b->n_arguments = source->n_arguments;
  for (uint32_t i = 0; i < source->n_arguments; i++) {
    crn_value *v = &b->arguments[i];
    CRN_TRY(crn_load_type(l, source->arguments[i]->type, &v->type));
    v->index = i;
    v->id = l->graph->n_values++;
    CRN_TRY(remember(l, source->arguments[i], v));
  }
  for (uint32_t i = 0; i < source->n_ops; i++) {
    CRN_TRY_NOTE(load_op(l, source->ops[i], b), "operation %u of a block of graph '%s'", i, l->graph->name);
  }
  *out_block = b;
  return CAIRN_OK;
}

// --- graphs -------------------------------------------------------------------------------------------------------------

static cairn_status load_flag(const crn_bc_op *op, const char *property, bool *out) {
  int64_t v = 0;
  const crn_bc_attr *a = crn_bc_op_property(op, property);
  if (a) CRN_TRY(crn_bc_get_int(a, property, &v));
  *out = v != 0;
  return CAIRN_OK;
}

// The I/O name among the attributes of one argument or result; both spellings of the key occur.
static cairn_status load_io_name(crn_loader *l, const crn_bc_attr *entries, const char **out_name) {
  const crn_bc_attr *a = crn_bc_find_entry(entries, "aicode.name");
  if (!a) a = crn_bc_find_entry(entries, "coreai.name");
  return a ? crn_load_text(l, a, "the name of a value", out_name) : CAIRN_OK;
}

static cairn_status name_values(crn_loader *l, const crn_bc_op *source, crn_graph *g, const char **result_names) {
  const crn_bc_attr *const *entries;
  uint32_t n;
  const crn_bc_attr *a = crn_bc_op_property(source, "argAttrs");
  if (a) {
    CRN_TRY(crn_bc_get_array(a, "argAttrs", &entries, &n));
    for (uint32_t i = 0; i < n && i < g->body->n_arguments; i++) CRN_TRY(load_io_name(l, entries[i], &g->body->arguments[i].name));
  }
  a = crn_bc_op_property(source, "resAttrs");
  if (!a) return CAIRN_OK;
  CRN_TRY(crn_bc_get_array(a, "resAttrs", &entries, &n));
  for (uint32_t i = 0; i < n && i < g->n_results; i++) {
    if (g->result_types[i]->kind != CRN_TYPE_TOKEN) CRN_TRY(load_io_name(l, entries[i], &result_names[i]));
  }
  return CAIRN_OK;
}

static cairn_status load_results(crn_loader *l, const crn_bc_op *source, crn_graph *g) {
  const crn_bc_attr *a = crn_bc_op_property(source, "functionType");
  if (!a || a->code != CRN_BC_ATTR_TYPE || a->fields[0].t->code != CRN_BC_TYPE_FUNCTION)
    return CRN_FAIL(CORRUPT, "graph '%s' has no function type", g->name);
  const crn_bc_field *results = &a->fields[0].t->fields[0];
  const crn_type **types;
  const char **names;
  CRN_TRY(crn_arena_array(l->arena, results->n, sizeof *types, &types));
  CRN_TRY(crn_arena_array(l->arena, results->n, sizeof *names, &names));
  for (uint32_t i = 0; i < results->n; i++) CRN_TRY(crn_load_type(l, results->ts[i], &types[i]));
  g->n_results = results->n;
  g->result_types = types;
  g->result_names = names;
  return name_values(l, source, g, names);
}

static cairn_status load_graph(crn_loader *l, const crn_bc_op *source, crn_graph *g) {
  const crn_bc_region *regions;
  if (source->n_regions != 1) return CRN_FAIL(CORRUPT, "graph '%s' has %u regions, 1 expected", g->name, source->n_regions);
  CRN_TRY(crn_bc_op_regions(l->module, source, &regions));
  if (regions[0].n_blocks != 1) return CRN_FAIL(UNSUPPORTED, "graph '%s' has %u blocks, 1 expected", g->name, regions[0].n_blocks);
  l->graph = g;
  l->depth = 0;
  CRN_TRY(crn_loader_block(l, regions[0].blocks[0], &g->body));
  return load_results(l, source, g);
}

typedef struct pending_graph {
  const crn_bc_op *source;
  crn_graph *graph;
} pending_graph;
typedef CRN_VEC(pending_graph) pending_graphs;

// "scope.name", or the name alone at the top level.
static cairn_status qualify(crn_loader *l, const char *scope, const char *name, const char **out_name) {
  char full[512];
  if (!*scope) {
    *out_name = name;
    return CAIRN_OK;
  }
  int n = snprintf(full, sizeof full, "%s.%s", scope, name);
  if (n >= (int)sizeof full) return CRN_FAIL(CORRUPT, "the name '%.60s…' is longer than %zu bytes", full, sizeof full);
  return crn_arena_strndup(l->arena, full, (size_t)n, out_name);
}

static cairn_status declare_graph(crn_loader *l, const crn_bc_op *source, const char *scope, pending_graphs *pending) {
  crn_graph *g;
  const char *name;
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *g, &g));
  CRN_TRY(crn_load_text(l, crn_bc_op_property(source, "name"), "the name of a graph", &name));
  CRN_TRY(qualify(l, scope, name, &name));
  g->name = name;
  g->program = l->program;
  CRN_TRY(load_flag(source, "isPrivate", &g->is_private));
  CRN_TRY(load_flag(source, "externalize", &g->is_external));
  CRN_TRY(load_flag(source, "noInline", &g->no_inline));
  const crn_bc_attr *decl = crn_bc_op_property(source, "compositeDecl");
  if (decl) CRN_TRY(crn_load_composite(l, decl, &g->composite));
  if (crn_map_get(&l->graphs, name, strlen(name), NULL)) return CRN_FAIL(CORRUPT, "two graphs are named '%s'", name);
  CRN_TRY(crn_map_set(&l->graphs, name, strlen(name), (uintptr_t)g));
  CRN_TRY(crn_vec_push(l->allocator, pending, ((pending_graph){source, g})));
  if (l->program->last) {
    l->program->last->next = g;
  } else {
    l->program->first = g;
  }
  l->program->last = g;
  l->program->n_graphs++;
  return CAIRN_OK;
}

static cairn_status declare_scope(crn_loader *l, const crn_bc_op *source, const char *scope, int depth, pending_graphs *pending) {
  if (depth > 16) return CRN_FAIL(CORRUPT, "namespaces nested more than 16 deep");
  const crn_bc_region *regions;
  CRN_TRY(crn_bc_op_regions(l->module, source, &regions));
  for (uint32_t r = 0; r < source->n_regions; r++) {
    for (uint32_t b = 0; b < regions[r].n_blocks; b++) {
      const crn_bc_block *block = regions[r].blocks[b];
      for (uint32_t i = 0; i < block->n_ops; i++) {
        const crn_bc_op *op = block->ops[i];
        if (!strcmp(op->name, "dataflow.graph_v1")) CRN_TRY(declare_graph(l, op, scope, pending));
        if (strcmp(op->name, "dataflow.namespace_v1")) continue;
        const char *name;
        CRN_TRY(crn_load_text(l, crn_bc_op_property(op, "name"), "the name of a namespace", &name));
        CRN_TRY(qualify(l, scope, name, &name));
        CRN_TRY(declare_scope(l, op, name, depth + 1, pending));
      }
    }
  }
  return CAIRN_OK;
}

static cairn_status load_program(crn_loader *l) {
  pending_graphs pending = {0};
  cairn_status status = declare_scope(l, crn_bc_module_top(l->module), "", 0, &pending);
  // Graphs may call each other in any order, so all are declared before the first body is read.
  for (size_t i = 0; i < pending.size && status == CAIRN_OK; i++) {
    status = load_graph(l, pending.items[i].source, pending.items[i].graph);
    if (status != CAIRN_OK) crn_note(status, "in graph '%s'", pending.items[i].graph->name);
  }
  crn_vec_free(l->allocator, &pending);
  return status;
}

cairn_status crn_program_from_mlirbc(const cairn_allocator *allocator, crn_bc_module *module, crn_program **out_program) {
  *out_program = NULL;
  crn_loader l = {.module = module, .allocator = allocator};
  CRN_TRY(crn_program_create(allocator, &l.program));
  l.arena = &l.program->arena;
  crn_map_initialize(&l.types, allocator);
  crn_map_initialize(&l.graphs, allocator);
  cairn_status status = load_program(&l);
  // A stale `user` pointer would let a later reader take an undefined operand for a defined one.
  for (size_t i = 0; i < l.touched.size; i++) l.touched.items[i]->user = NULL;
  crn_vec_free(allocator, &l.touched);
  crn_map_deinitialize(&l.types);
  crn_map_deinitialize(&l.graphs);
  if (status != CAIRN_OK) {
    crn_program_destroy(l.program);
    return status;
  }
  *out_program = l.program;
  return CAIRN_OK;
}
