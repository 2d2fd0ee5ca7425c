#include "program/builder.h"

#include <stdio.h>
#include <string.h>

#include "program/infer/infer.h"

enum { MAX_ARGUMENTS = 64 };

static bool failed(crn_builder *b, cairn_status status) {
  if (b->status != CAIRN_OK) return true;
  if (status == CAIRN_OK) return false;
  b->status = status;
  cairn_last_error_text(b->message, sizeof b->message);
  return true;
}

static crn_block *current_block(const crn_builder *b) { return b->n_open ? b->open[b->n_open - 1] : b->graph->body; }

static cairn_status begin(crn_builder *b, const char *name) {
  crn_arena *arena = &b->program->arena;
  CRN_TRY(crn_arena_alloc(arena, sizeof *b->graph, &b->graph));
  CRN_TRY(crn_arena_alloc(arena, sizeof *b->graph->body, &b->graph->body));
  CRN_TRY(crn_arena_array(arena, MAX_ARGUMENTS, sizeof(crn_value), &b->graph->body->arguments));
  CRN_TRY(crn_arena_strndup(arena, name, strlen(name), &b->graph->name));
  b->graph->program = b->program;
  return CAIRN_OK;
}

void crn_builder_begin(crn_builder *b, crn_program *program, const char *name) {
  *b = (crn_builder){.program = program};
  failed(b, begin(b, name));
}

static cairn_status make_type(crn_builder *b, crn_type_kind kind, cairn_dtype dtype, const int64_t *dims, int rank, const crn_type **out) {
  crn_type *t;
  CRN_TRY(crn_arena_alloc(&b->program->arena, sizeof *t, &t));
  if (rank < 0 || rank > CAIRN_MAX_RANK) return CRN_FAIL(UNSUPPORTED, "a value of rank %d, at most %d is possible", rank, CAIRN_MAX_RANK);
  t->kind = kind;
  t->dtype = dtype;
  t->rank = rank;
  t->n_nonzero = -1;
  for (int i = 0; i <= CAIRN_MAX_RANK; i++) t->alignment[i] = 1;
  for (int i = 0; i < CAIRN_MAX_RANK; i++) {
    t->interleave[i] = 1;
    t->dims[i] = i < rank ? dims[i] : 0;
  }
  *out = t;
  return CAIRN_OK;
}

static cairn_status add_argument(crn_builder *b, const char *name, crn_type_kind kind, cairn_dtype dtype, const int64_t *dims, int rank,
                                 crn_value **out) {
  crn_block *body = b->graph->body;
  if (body->n_arguments >= MAX_ARGUMENTS) return CRN_FAIL(UNSUPPORTED, "more than %d arguments", MAX_ARGUMENTS);
  crn_value *v = &body->arguments[body->n_arguments];
  CRN_TRY(make_type(b, kind, dtype, dims, rank, &v->type));
  CRN_TRY(crn_arena_strndup(&b->program->arena, name, strlen(name), &v->name));
  v->index = body->n_arguments++;
  v->id = b->graph->n_values++;
  *out = v;
  return CAIRN_OK;
}

crn_value *crn_build_input(crn_builder *b, const char *name, cairn_dtype dtype, const int64_t *dims, int rank) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || failed(b, add_argument(b, name, CRN_TYPE_TENSOR, dtype, dims, rank, &v))) return NULL;
  return v;
}

crn_value *crn_build_state(crn_builder *b, const char *name, cairn_dtype dtype, const int64_t *dims, int rank) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || failed(b, add_argument(b, name, CRN_TYPE_HANDLE, dtype, dims, rank, &v))) return NULL;
  b->n_states++;
  return v;
}

// --- constants -----------------------------------------------------------------------------------------------------------

static bool is_splat(const crn_tensor *t) {
  for (int i = 0; i < t->rank; i++) {
    if (t->strides[i] && t->dims[i] != 1) return false;
  }
  return !t->packed && crn_tensor_count(t) > 1;
}

static cairn_status add_constant(crn_builder *b, const char *name, const crn_tensor *tensor, size_t stored_bytes, crn_value **out) {
  crn_arena *arena = &b->program->arena;
  crn_constant *c;
  crn_op *op;
  CRN_TRY(crn_arena_alloc(arena, sizeof *c, &c));
  c->tensor = *tensor;
  c->stored_bytes = stored_bytes;
  c->is_splat = is_splat(tensor);
  if (name) CRN_TRY(crn_arena_strndup(arena, name, strlen(name), &c->name));
  CRN_TRY(crn_op_create(b->program, b->graph, CRN_OP_constant, 0, 1, &op));
  CRN_TRY(make_type(b, CRN_TYPE_TENSOR, tensor->dtype, tensor->dims, tensor->rank, &op->results[0].type));
  op->attr.constant = c;
  crn_block_append(current_block(b), op);
  *out = &op->results[0];
  return CAIRN_OK;
}

crn_value *crn_build_constant(crn_builder *b, const char *name, const crn_tensor *tensor, size_t stored_bytes) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || failed(b, add_constant(b, name, tensor, stored_bytes, &v))) return NULL;
  return v;
}

static crn_value *small_constant(crn_builder *b, cairn_dtype dtype, const void *data, int64_t n, int rank) {
  void *copy = NULL;
  size_t bytes = (size_t)n * cairn_dtype_bytes(dtype);
  if (b->status != CAIRN_OK || failed(b, crn_arena_alloc(&b->program->arena, bytes, &copy))) return NULL;
  if (bytes) memcpy(copy, data, bytes);
  crn_tensor t = crn_tensor_make(dtype, &n, rank, copy);
  return crn_build_constant(b, NULL, &t, bytes);
}

crn_value *crn_build_i32(crn_builder *b, const int32_t *values, int n) { return small_constant(b, CAIRN_SI32, values, n, 1); }
crn_value *crn_build_u32(crn_builder *b, const uint32_t *values, int n) { return small_constant(b, CAIRN_UI32, values, n, 1); }
crn_value *crn_build_scalar_i32(crn_builder *b, int32_t value) { return small_constant(b, CAIRN_SI32, &value, 1, 0); }
crn_value *crn_build_scalar_f32(crn_builder *b, float value) { return small_constant(b, CAIRN_F32, &value, 1, 0); }

// --- ops -----------------------------------------------------------------------------------------------------------------

// What inference sees of a value: its type, and its data when it is a constant.
static crn_tensor describe(const crn_value *v) {
  if (v->def && v->def->id == CRN_OP_constant && !v->def->attr.constant->tensor.packed) return v->def->attr.constant->tensor;
  crn_tensor t = {.dtype = v->type->dtype, .rank = v->type->rank};
  for (int i = 0; i < t.rank; i++) t.dims[i] = v->type->dims[i];
  return t;
}

static cairn_status infer_result(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, cairn_dtype dtype, int mode,
                                 const crn_attr *attrs, const crn_type **out_type) {
  enum { MAX_OPERANDS = 32 };
  crn_tensor in[MAX_OPERANDS], out = {.dtype = dtype, .rank = -1};
  crn_infer_fn infer = crn_infer_of(id);
  if (!infer) return CRN_FAIL(UNSUPPORTED, "%s cannot be built: it has no shape inference", crn_op_info_of(id)->name);
  if (n > MAX_OPERANDS) return CRN_FAIL(UNSUPPORTED, "%s with more than %d operands", crn_op_info_of(id)->name, MAX_OPERANDS);
  for (int i = 0; i < n; i++) in[i] = describe(operands[i]);
  crn_infer_args args = {.id = id, .mode = mode, .attrs = attrs, .n_operands = n, .operands = in, .n_results = 1, .results = &out};
  CRN_TRY(infer(&args));
  return make_type(b, CRN_TYPE_TENSOR, out.dtype, out.dims, out.rank, out_type);
}

static bool operands_missing(crn_builder *b, crn_op_id id, crn_value *const *operands, int n) {
  for (int i = 0; i < n; i++) {
    if (!operands[i]) return failed(b, CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is missing", crn_op_info_of(id)->name, i));
  }
  return false;
}

static cairn_status add_op(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, cairn_dtype dtype, int mode, crn_value **out) {
  crn_op *op;
  CRN_TRY(crn_op_create(b->program, b->graph, id, (uint32_t)n, 1, &op));
  for (int i = 0; i < n; i++) {
    op->operands[i] = operands[i];
    operands[i]->n_uses++;
  }
  op->attr.mode = mode;
  CRN_TRY(infer_result(b, id, operands, n, dtype, mode, NULL, &op->results[0].type));
  crn_block_append(current_block(b), op);
  *out = &op->results[0];
  return CAIRN_OK;
}

crn_value *crn_build_op(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, cairn_dtype dtype, int mode) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || operands_missing(b, id, operands, n)) return NULL;
  return failed(b, add_op(b, id, operands, n, dtype, mode, &v)) ? NULL : v;
}

crn_value *crn_build_unary(crn_builder *b, crn_op_id id, crn_value *x) { return crn_build_op(b, id, &x, 1, CAIRN_DTYPE_NONE, 0); }

crn_value *crn_build_binary(crn_builder *b, crn_op_id id, crn_value *x, crn_value *y) {
  return crn_build_op(b, id, (crn_value *[]){x, y}, 2, CAIRN_DTYPE_NONE, 0);
}

crn_value *crn_build_cast(crn_builder *b, crn_value *x, cairn_dtype dtype) { return crn_build_op(b, CRN_OP_cast, &x, 1, dtype, 0); }

crn_value *crn_build_transpose(crn_builder *b, crn_value *x, const uint32_t *permutation, int rank) {
  return crn_build_binary(b, CRN_OP_transpose, x, crn_build_u32(b, permutation, rank));
}

crn_value *crn_build_slice(crn_builder *b, crn_value *x, crn_value *start, crn_value *end, crn_value *strides) {
  return crn_build_op(b, CRN_OP_slice, (crn_value *[]){x, start, end, strides}, 4, CAIRN_DTYPE_NONE, 0);
}

crn_value *crn_build_concat(crn_builder *b, int32_t axis, crn_value *const *parts, int n) {
  enum { MAX_PARTS = 31 };
  crn_value *operands[MAX_PARTS + 1];
  if (n > MAX_PARTS) {
    failed(b, CRN_FAIL(UNSUPPORTED, "concat of %d parts, at most %d", n, MAX_PARTS));
    return NULL;
  }
  operands[0] = crn_build_scalar_i32(b, axis);
  for (int i = 0; i < n; i++) operands[i + 1] = parts[i];
  return crn_build_op(b, CRN_OP_concat, operands, n + 1, CAIRN_DTYPE_NONE, 0);
}

// --- composites ------------------------------------------------------------------------------------------------------------

crn_attr *crn_build_attrs(crn_builder *b, int n) {
  crn_attr *dict = NULL, *items = NULL;
  if (failed(b, crn_arena_alloc(&b->program->arena, sizeof *dict, &dict)) ||
      failed(b, crn_arena_array(&b->program->arena, (size_t)n, sizeof *items, &items)))
    return NULL;
  dict->kind = CRN_ATTR_DICT;
  dict->list.items = items;
  dict->list.n = (uint32_t)n;
  return dict;
}

static cairn_status add_composite(crn_builder *b, crn_op_id id, const char *const *input_names, crn_value *const *operands, int n,
                                  const crn_attr *attrs, crn_value **out) {
  crn_arena *arena = &b->program->arena;
  crn_graph *callee;
  crn_composite_decl *decl;
  const char **names;
  crn_op *op;
  CRN_TRY(crn_arena_alloc(arena, sizeof *callee, &callee));
  CRN_TRY(crn_arena_alloc(arena, sizeof *decl, &decl));
  CRN_TRY(crn_arena_array(arena, (size_t)n, sizeof *names, &names));
  for (int i = 0; i < n; i++) CRN_TRY(crn_arena_strndup(arena, input_names[i], strlen(input_names[i]), &names[i]));
  *decl = (crn_composite_decl){.name = crn_op_info_of(id)->name, .id = id, .n_inputs = (uint32_t)n, .input_names = names, .attrs = attrs};
  callee->name = decl->name;
  callee->is_private = true;
  callee->composite = decl;
  callee->program = b->program;
  CRN_TRY(crn_op_create(b->program, b->graph, CRN_OP_invoke, (uint32_t)n, 1, &op));
  for (int i = 0; i < n; i++) {
    op->operands[i] = operands[i];
    operands[i]->n_uses++;
  }
  op->attr.callee = callee;
  CRN_TRY(infer_result(b, id, operands, n, CAIRN_DTYPE_NONE, 0, attrs, &op->results[0].type));
  crn_block_append(current_block(b), op);
  *out = &op->results[0];
  return CAIRN_OK;
}

crn_value *crn_build_composite(crn_builder *b, crn_op_id id, const char *const *input_names, crn_value *const *operands, int n,
                               const crn_attr *attrs) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || operands_missing(b, id, operands, n)) return NULL;
  return failed(b, add_composite(b, id, input_names, operands, n, attrs, &v)) ? NULL : v;
}

// --- regions ---------------------------------------------------------------------------------------------------------------

const crn_type *crn_build_tensor_type(crn_builder *b, cairn_dtype dtype, const int64_t *dims, int rank) {
  const crn_type *t = NULL;
  if (b->status != CAIRN_OK || failed(b, make_type(b, CRN_TYPE_TENSOR, dtype, dims, rank, &t))) return NULL;
  return t;
}

static cairn_status begin_region(crn_builder *b, const crn_type *const *types, int n, crn_block **out) {
  crn_block *block;
  if (b->n_open == CRN_BUILDER_REGIONS) return CRN_FAIL(UNSUPPORTED, "regions nested more than %d deep", CRN_BUILDER_REGIONS);
  CRN_TRY(crn_arena_alloc(&b->program->arena, sizeof *block, &block));
  CRN_TRY(crn_arena_array(&b->program->arena, (size_t)n, sizeof *block->arguments, &block->arguments));
  for (int i = 0; i < n; i++) {
    if (!types[i]) return CRN_FAIL(INVALID_ARGUMENT, "argument %d of a region has no type", i);
    block->arguments[i] = (crn_value){.type = types[i], .index = (uint32_t)i, .id = b->graph->n_values++};
  }
  block->n_arguments = (uint32_t)n;
  b->open[b->n_open++] = *out = block;
  return CAIRN_OK;
}

crn_block *crn_build_region_begin(crn_builder *b, const crn_type *const *types, int n) {
  crn_block *block = NULL;
  if (b->status != CAIRN_OK || failed(b, begin_region(b, types, n, &block))) return NULL;
  return block;
}

static void use_operands(crn_op *op, crn_value *const *operands) {
  for (uint32_t i = 0; i < op->n_operands; i++) {
    op->operands[i] = operands[i];
    operands[i]->n_uses++;
  }
}

static cairn_status end_region(crn_builder *b, crn_op_id terminator, crn_value *const *values, int n) {
  crn_op *op;
  if (!b->n_open) return CRN_FAIL(INVALID_ARGUMENT, "no region was begun");
  CRN_TRY(crn_op_create(b->program, b->graph, terminator, (uint32_t)n, 0, &op));
  use_operands(op, values);
  crn_block_append(current_block(b), op);
  b->n_open--;
  return CAIRN_OK;
}

void crn_build_region_end(crn_builder *b, crn_op_id terminator, crn_value *const *values, int n) {
  if (b->status == CAIRN_OK && !operands_missing(b, terminator, values, n)) failed(b, end_region(b, terminator, values, n));
}

static cairn_status add_region_op(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, crn_block *const *blocks, int n_blocks,
                                  const crn_type *const *result_types, int n_results, crn_value **out) {
  crn_arena *arena = &b->program->arena;
  crn_op *op;
  crn_region *regions;
  crn_block **copies;
  CRN_TRY(crn_op_create(b->program, b->graph, id, (uint32_t)n, (uint32_t)n_results, &op));
  CRN_TRY(crn_arena_array(arena, (size_t)n_blocks, sizeof *regions, &regions));
  CRN_TRY(crn_arena_array(arena, (size_t)n_blocks, sizeof *copies, &copies));
  use_operands(op, operands);
  for (int i = 0; i < n_blocks; i++) {
    copies[i] = blocks[i];
    regions[i] = (crn_region){1, &copies[i]};
  }
  op->regions = regions;
  op->n_regions = (uint32_t)n_blocks;
  for (int i = 0; i < n_results; i++) {
    if (result_types) op->results[i].type = result_types[i];
    if (!result_types) CRN_TRY(infer_result(b, id, operands, n, CAIRN_DTYPE_NONE, 0, NULL, &op->results[i].type));
  }
  crn_block_append(current_block(b), op);
  *out = op->results;
  return CAIRN_OK;
}

crn_value *crn_build_region_op(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, crn_block *const *blocks, int n_blocks,
                               const crn_type *const *result_types, int n_results) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || operands_missing(b, id, operands, n)) return NULL;
  return failed(b, add_region_op(b, id, operands, n, blocks, n_blocks, result_types, n_results, &v)) ? NULL : v;
}

// --- states -----------------------------------------------------------------------------------------------------------------

static cairn_status add_token(crn_builder *b, crn_value *token) {
  return make_type(b, CRN_TYPE_TOKEN, CAIRN_DTYPE_NONE, NULL, 0, &token->type);
}

static cairn_status current_token(crn_builder *b, crn_value **out) {
  if (!b->token) {
    crn_op *op;
    CRN_TRY(crn_op_create(b->program, b->graph, CRN_OP_create_token, 0, 1, &op));
    CRN_TRY(add_token(b, &op->results[0]));
    crn_block_append(current_block(b), op);
    b->token = &op->results[0];
  }
  *out = b->token;
  return CAIRN_OK;
}

static cairn_status access_state(crn_builder *b, crn_value *state, crn_value *data, crn_value **out) {
  crn_value *token;
  crn_op *op;
  if (!state || state->type->kind != CRN_TYPE_HANDLE) return CRN_FAIL(INVALID_ARGUMENT, "not a state");
  if (b->n_open) return CRN_FAIL(INVALID_ARGUMENT, "a state cannot be used inside of a region");
  CRN_TRY(current_token(b, &token));
  CRN_TRY(crn_op_create(b->program, b->graph, data ? CRN_OP_write_handle : CRN_OP_read_handle, data ? 3 : 2, data ? 1 : 2, &op));
  crn_value *operands[3] = {state, data ? data : token, token};
  for (uint32_t i = 0; i < op->n_operands; i++) {
    op->operands[i] = operands[i];
    operands[i]->n_uses++;
  }
  if (!data) CRN_TRY(make_type(b, CRN_TYPE_TENSOR, state->type->dtype, state->type->dims, state->type->rank, &op->results[0].type));
  CRN_TRY(add_token(b, &op->results[op->n_results - 1]));
  crn_block_append(current_block(b), op);
  b->token = &op->results[op->n_results - 1];
  if (out) *out = &op->results[0];
  return CAIRN_OK;
}

crn_value *crn_build_read_state(crn_builder *b, crn_value *state) {
  crn_value *v = NULL;
  if (b->status != CAIRN_OK || failed(b, access_state(b, state, NULL, &v))) return NULL;
  return v;
}

void crn_build_write_state(crn_builder *b, crn_value *state, crn_value *value) {
  if (b->status != CAIRN_OK || operands_missing(b, CRN_OP_write_handle, &value, 1)) return;
  failed(b, access_state(b, state, value, NULL));
}

// --- the end ----------------------------------------------------------------------------------------------------------------

static cairn_status finish(crn_builder *b, crn_value *const *outputs, const char *const *names, int n) {
  crn_arena *arena = &b->program->arena;
  uint32_t total = b->n_states + (uint32_t)n;
  const crn_type **types;
  const char **result_names;
  crn_op *op;
  crn_value *token = NULL;
  if (b->n_open) return CRN_FAIL(INVALID_ARGUMENT, "%d regions were not ended", b->n_open);
  if (b->n_states) CRN_TRY(current_token(b, &token));
  CRN_TRY(crn_op_create(b->program, b->graph, CRN_OP_output, total, 0, &op));
  CRN_TRY(crn_arena_array(arena, total, sizeof *types, &types));
  CRN_TRY(crn_arena_array(arena, total, sizeof *result_names, &result_names));
  for (uint32_t i = 0; i < total; i++) {
    op->operands[i] = i < b->n_states ? token : outputs[i - b->n_states];
    op->operands[i]->n_uses++;
    types[i] = op->operands[i]->type;
    if (i >= b->n_states) CRN_TRY(crn_arena_strndup(arena, names[i - b->n_states], strlen(names[i - b->n_states]), &result_names[i]));
  }
  crn_block_append(current_block(b), op);
  b->graph->n_results = total;
  b->graph->result_types = types;
  b->graph->result_names = result_names;
  crn_program *p = b->program;
  if (p->last) {
    p->last->next = b->graph;
  } else {
    p->first = b->graph;
  }
  p->last = b->graph;
  p->n_graphs++;
  return CAIRN_OK;
}

cairn_status crn_builder_finish(crn_builder *b, crn_value *const *outputs, const char *const *names, int n) {
  if (b->status == CAIRN_OK && !operands_missing(b, CRN_OP_output, outputs, n)) failed(b, finish(b, outputs, names, n));
  if (b->status != CAIRN_OK) crn_error_restore(b->status, b->message);
  return b->status;
}
