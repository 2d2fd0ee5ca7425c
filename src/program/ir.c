#include "program/ir.h"

#include <string.h>

cairn_status crn_program_create(const cairn_allocator *allocator, crn_program **out_program) {
  crn_program *p;
  *out_program = NULL;
  CRN_TRY(crn_alloc_zero(allocator, sizeof *p, &p));
  crn_arena_initialize(&p->arena, allocator);
  *out_program = p;
  return CAIRN_OK;
}

void crn_program_destroy(crn_program *p) {
  if (!p) return;
  const cairn_allocator *a = p->arena.allocator;
  for (size_t i = p->keep_alive.size; i-- > 0;) p->keep_alive.items[i].release(p->keep_alive.items[i].object);
  crn_vec_free(a, &p->keep_alive);
  crn_arena_deinitialize(&p->arena);
  crn_free(a, p, sizeof *p);
}

cairn_status crn_program_keep(crn_program *p, void (*release)(void *object), void *object) {
  return crn_vec_push(p->arena.allocator, &p->keep_alive, ((crn_keep_alive){release, object}));
}

crn_graph *crn_program_find_graph(const crn_program *p, const char *name) {
  for (crn_graph *g = p->first; g; g = g->next) {
    if (!strcmp(g->name, name)) return g;
  }
  return NULL;
}

bool crn_graph_is_function(const crn_graph *g) { return !g->is_private && !g->is_external && !g->composite; }

const crn_attr *crn_attr_find(const crn_attr *dict, const char *key) {
  if (!dict || dict->kind != CRN_ATTR_DICT) return NULL;
  for (uint32_t i = 0; i < dict->list.n; i++) {
    if (dict->list.items[i].key && !strcmp(dict->list.items[i].key, key)) return &dict->list.items[i];
  }
  return NULL;
}

cairn_status crn_attr_get_int(const crn_attr *dict, const char *key, int64_t fallback, int64_t *out) {
  const crn_attr *a = crn_attr_find(dict, key);
  *out = fallback;
  if (!a || a->kind == CRN_ATTR_NONE) return CAIRN_OK;
  if (a->kind != CRN_ATTR_INT && a->kind != CRN_ATTR_BOOL) return CRN_FAIL(CORRUPT, "attribute '%s' must be an integer", key);
  *out = a->i;
  return CAIRN_OK;
}

cairn_status crn_attr_get_float(const crn_attr *dict, const char *key, double fallback, double *out) {
  const crn_attr *a = crn_attr_find(dict, key);
  *out = fallback;
  if (!a || a->kind == CRN_ATTR_NONE) return CAIRN_OK;
  if (a->kind == CRN_ATTR_INT) {
    *out = (double)a->i;
  } else if (a->kind == CRN_ATTR_FLOAT) {
    *out = a->f;
  } else {
    return CRN_FAIL(CORRUPT, "attribute '%s' must be a number", key);
  }
  return CAIRN_OK;
}

bool crn_op_has_mode(crn_op_id id) {
  return id == CRN_OP_pad || id == CRN_OP_gelu || id == CRN_OP_scan || id == CRN_OP_scatter_along_axis || id == CRN_OP_interpolate ||
         id == CRN_OP_interpolate_coordinates || id == CRN_OP_unpack_blocks;
}

crn_value *crn_sparse_mask(const crn_op *op) {
  const crn_op *source = op->n_operands ? op->operands[0]->def : NULL;
  return source && source->id == CRN_OP_build_sparse_with_bitmask && source->n_operands == 2 ? source->operands[1] : NULL;
}

void crn_block_append(crn_block *block, crn_op *op) {
  if (block->last) {
    block->last->next = op;
  } else {
    block->first = op;
  }
  block->last = op;
  block->n_ops++;
}

cairn_status crn_op_create(crn_program *program, crn_graph *graph, crn_op_id id, uint32_t n_operands, uint32_t n_results, crn_op **out_op) {
  crn_op *op;
  CRN_TRY(crn_arena_alloc(&program->arena, sizeof *op, &op));
  CRN_TRY(crn_arena_array(&program->arena, n_operands, sizeof *op->operands, &op->operands));
  CRN_TRY(crn_arena_array(&program->arena, n_results, sizeof *op->results, &op->results));
  op->id = id;
  op->n_operands = n_operands;
  op->n_results = n_results;
  op->location = "";
  for (uint32_t i = 0; i < n_results; i++) {
    op->results[i].def = op;
    op->results[i].index = i;
    op->results[i].id = graph->n_values++;
  }
  *out_op = op;
  return CAIRN_OK;
}
