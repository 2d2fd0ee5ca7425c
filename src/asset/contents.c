// What is in an asset: how often each operation occurs, and the weights.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asset/asset.h"
#include "asset/op_names.h"
#include "base/context.h"
#include "base/map.h"
#include "base/str.h"

enum { SMALLEST_WEIGHT = 1024 };  // bytes; smaller constants are shapes, axes and scalars

// --- operations -------------------------------------------------------------------------------------------------------

typedef struct op_count {
  const char *name;
  int64_t count;
} op_count;

typedef struct op_counter {
  crn_map index;  // in-memory name to place in `counts`
  CRN_VEC(op_count) counts;
  crn_str name;
} op_counter;

// An operation without a known name in memory keeps its stored one.
static cairn_status memory_name(crn_str *out, const crn_bc_op *op) {
  const crn_op_name *row = strcmp(op->dialect, "aicode") ? NULL : crn_find_op_name(op->name);
  crn_str_clear(out);
  return row ? crn_str_puts(out, row->memory) : crn_str_printf(out, "%s.%s", op->dialect, op->name);
}

static cairn_status count_op(void *user, const crn_bc_op *op) {
  op_counter *c = user;
  CRN_TRY(memory_name(&c->name, op));
  uint64_t at;
  if (!crn_map_get(&c->index, c->name.data, c->name.size, &at)) {
    const cairn_allocator *a = c->name.allocator;
    op_count fresh = {0};
    at = c->counts.size;
    CRN_TRY(crn_arena_strndup(&c->index.keys, c->name.data, c->name.size, &fresh.name));
    CRN_TRY(crn_vec_push(a, &c->counts, fresh));
    CRN_TRY(crn_map_set(&c->index, c->name.data, c->name.size, at));
  }
  c->counts.items[at].count++;
  return CAIRN_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(((const op_count *)a)->name, ((const op_count *)b)->name); }

cairn_status cairn_asset_count_operations(const cairn_asset *asset, cairn_status (*visit)(void *user, const char *name, int64_t count),
                                          void *user) {
  CRN_REQUIRE(asset);
  CRN_REQUIRE(visit);
  const cairn_allocator *a = &asset->context->allocator;
  op_counter c = {0};
  crn_bc_module *m;
  CRN_TRY(crn_asset_open_module(asset, &m));
  crn_map_initialize(&c.index, a);
  crn_str_initialize(&c.name, a);
  cairn_status status = crn_bc_walk(m, crn_bc_module_top(m), false, count_op, &c);
  crn_bc_module_close(m);
  if (c.counts.size) qsort(c.counts.items, c.counts.size, sizeof *c.counts.items, by_name);
  for (size_t i = 0; status == CAIRN_OK && i < c.counts.size; i++) status = visit(user, c.counts.items[i].name, c.counts.items[i].count);
  crn_str_deinitialize(&c.name);
  crn_vec_free(a, &c.counts);
  crn_map_deinitialize(&c.index);
  return status;
}

// --- weights ----------------------------------------------------------------------------------------------------------

typedef struct weight_visitor {
  crn_bc_module *m;
  bool *seen;  // of each resource: several constants may share one
  int n_inline;
  crn_str name;
  cairn_status (*visit)(void *user, const cairn_weight_info *weight);
  void *user;
} weight_visitor;

// Inline constants have no name of their own; they are numbered in the order of the file.
static cairn_status name_weight(weight_visitor *v, const crn_bc_attr *value, bool *out_skip) {
  crn_str_clear(&v->name);
  *out_skip = false;
  if (value->code != CRN_BC_ATTR_DENSE_RESOURCE) return crn_str_printf(&v->name, "inline_%d", v->n_inline++);
  *out_skip = v->seen[value->fields[0].u];
  v->seen[value->fields[0].u] = true;
  const crn_bc_resource *r = crn_bc_module_resource(v->m, value->fields[0].u);
  return crn_str_append(&v->name, r->key.data, r->key.bytes);
}

static cairn_status visit_constant(void *user, const crn_bc_op *op) {
  weight_visitor *v = user;
  const crn_bc_attr *value = crn_bc_op_property(op, "value");
  if (strcmp(op->name, "primitive.constant_v1") != 0 || !value || op->n_results != 1) return CAIRN_OK;
  bool is_resource = value->code == CRN_BC_ATTR_DENSE_RESOURCE;
  if (!is_resource && (value->code != CRN_BC_ATTR_DENSE_ELEMENTS || value->fields[1].s.bytes < SMALLEST_WEIGHT)) return CAIRN_OK;
  bool skip;
  CRN_TRY(name_weight(v, value, &skip));
  if (skip) return CAIRN_OK;
  const crn_bc_type *type = op->results[0]->type;
  cairn_weight_info w = {.name = v->name.data};
  crn_bc_constant data;
  CRN_TRY_NOTE(crn_bc_constant_data(v->m, value, type, &data), "constant '%s'", v->name.data);
  CRN_TRY_NOTE(crn_bc_get_tensor(type, "its type", &w.dtype, &w.rank, w.shape, CAIRN_MAX_RANK, NULL), "constant '%s'", v->name.data);
  w.stored_bytes = data.bytes;
  return v->visit(v->user, &w);
}

cairn_status cairn_asset_visit_weights(const cairn_asset *asset, cairn_status (*visit)(void *user, const cairn_weight_info *weight),
                                       void *user) {
  CRN_REQUIRE(asset);
  CRN_REQUIRE(visit);
  const cairn_allocator *a = &asset->context->allocator;
  weight_visitor v = {.visit = visit, .user = user};
  CRN_TRY(crn_asset_open_module(asset, &v.m));
  crn_str_initialize(&v.name, a);
  uint32_t n = crn_bc_module_resource_count(v.m);
  cairn_status status = crn_alloc_array(a, n, sizeof *v.seen, &v.seen);
  if (status == CAIRN_OK) status = crn_bc_walk(v.m, crn_bc_module_top(v.m), false, visit_constant, &v);
  crn_free(a, v.seen, n * sizeof *v.seen);
  crn_str_deinitialize(&v.name);
  crn_bc_module_close(v.m);
  return status;
}
