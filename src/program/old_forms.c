// Ops stored in an older version are rewritten into today's op when they are read:
//   get_shape_v1   gave si32           -> get_shape, cast to si32
//   reshape_v1     unsigned shape only -> reshape as it is
//   tile_v1        signed dims         -> cast the dims to ui32, tile
//   quantize_v1, dequantize_v1         had no second offset  -> zeros like the scale
//   blockwise_shift_scale_v1           had no second offset  -> zeros of the result's type
#include <string.h>

#include "program/loader.h"

static cairn_status make_type(crn_loader *l, const crn_type *like, cairn_dtype dtype, const crn_type **out_type) {
  crn_type *t;
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *t, &t));
  *t = *like;
  t->dtype = dtype;
  *out_type = t;
  return CAIRN_OK;
}

static void use(crn_op *op, uint32_t i, crn_value *v) {
  op->operands[i] = v;
  v->n_uses++;
}

static cairn_status append_cast(crn_loader *l, crn_block *block, crn_value *x, cairn_dtype dtype, crn_value **out_value) {
  crn_op *cast;
  CRN_TRY(crn_op_create(l->program, l->graph, CRN_OP_cast, 1, 1, &cast));
  CRN_TRY(make_type(l, x->type, dtype, &cast->results[0].type));
  use(cast, 0, x);
  crn_block_append(block, cast);
  *out_value = &cast->results[0];
  return CAIRN_OK;
}

static cairn_status append_zeros(crn_loader *l, crn_block *block, const crn_type *like, cairn_dtype dtype, crn_value **out_value) {
  static const char zero[16] = {0};
  for (int i = 0; i < like->rank; i++) {
    if (like->dims[i] < 0) return CRN_FAIL(UNSUPPORTED, "an old quantization op whose scale has dynamic dims");
  }
  crn_constant *c;
  crn_op *op;
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *c, &c));
  CRN_TRY(crn_op_create(l->program, l->graph, CRN_OP_constant, 0, 1, &op));
  CRN_TRY(make_type(l, like, dtype, &op->results[0].type));
  c->tensor = crn_tensor_make(dtype, like->dims, like->rank, (void *)zero);
  for (int i = 0; i < like->rank; i++) c->tensor.strides[i] = 0;
  c->is_splat = true;
  op->attr.constant = c;
  crn_block_append(block, op);
  *out_value = &op->results[0];
  return CAIRN_OK;
}

static cairn_status upgrade_get_shape(crn_loader *l, crn_block *block, crn_op *op) {
  crn_value *cast;
  CRN_TRY(make_type(l, op->results[0].type, CAIRN_UI32, &op->results[0].type));
  crn_block_append(block, op);
  return append_cast(l, block, &op->results[0], CAIRN_SI32, &cast);
}

static cairn_status upgrade_tile(crn_loader *l, crn_block *block, crn_op *op) {
  crn_value *dims = op->operands[1];
  dims->n_uses--;
  CRN_TRY(append_cast(l, block, dims, CAIRN_UI32, &dims));
  use(op, 1, dims);
  crn_block_append(block, op);
  return CAIRN_OK;
}

// Makes room for the missing second offset: operands (x, scale, offset, rest…) become (x, scale, offset, zeros, rest…).
static cairn_status insert_offset2(crn_loader *l, crn_block *block, crn_op *op, cairn_dtype dtype) {
  crn_value **operands, *zeros = NULL;
  CRN_TRY(append_zeros(l, block, op->operands[1]->type, dtype, &zeros));
  CRN_TRY(crn_arena_array(l->arena, op->n_operands + 1, sizeof *operands, &operands));
  memcpy(operands, op->operands, 3 * sizeof *operands);
  memcpy(operands + 4, op->operands + 3, (op->n_operands - 3) * sizeof *operands);
  op->operands = operands;
  op->n_operands++;
  use(op, 3, zeros);
  crn_block_append(block, op);
  return CAIRN_OK;
}

cairn_status crn_load_old_form(crn_loader *l, const char *stored_name, crn_block *block, crn_op *op, bool *out_handled) {
  *out_handled = true;
  bool is_tensor_result = op->n_results == 1 && op->results[0].type->kind == CRN_TYPE_TENSOR;
  if (!strcmp(stored_name, "primitive.get_shape_v1") && is_tensor_result) return upgrade_get_shape(l, block, op);
  if (!strcmp(stored_name, "tile_v1") && op->n_operands == 2) return upgrade_tile(l, block, op);
  if (!strcmp(stored_name, "dequantize_v1") && op->n_operands == 4) return insert_offset2(l, block, op, op->operands[1]->type->dtype);
  if (!strcmp(stored_name, "quantize_v1") && op->n_operands == 4) return insert_offset2(l, block, op, op->operands[1]->type->dtype);
  if (!strcmp(stored_name, "primitive.blockwise_shift_scale_v1") && op->n_operands == 3 && is_tensor_result) {
    return insert_offset2(l, block, op, op->results[0].type->dtype);
  }
  *out_handled = false;
  return CAIRN_OK;
}
