// Layers with a mixture of experts, built as genuine assets have them: the router's scores are sorted, the best experts weighted by
// softmax, and gather_mm multiplies with their matrices only.
#include <limits.h>
#include <stdio.h>

#include "import/gguf/llama_parts.h"

bool crn_llama_has_experts(crn_llama *m, int64_t layer) {
  return m->c->experts > 0 && crn_gguf_weights_find(m->w, "blk.%lld.ffn_gate_inp.weight", (long long)layer);
}

static crn_value *scalar_axis(crn_llama *m) { return crn_build_scalar_i32(&m->b, 2); }

static crn_value *yes(crn_llama *m) {
  static const unsigned char one = 1;
  crn_tensor t = crn_tensor_make(CAIRN_BOOL, NULL, 0, (void *)&one);
  return crn_build_constant(&m->b, "", &t, 1);
}

// The first columns of [1,S,experts].
static crn_value *take_chosen(crn_llama *m, crn_value *x) {
  static const int32_t zeros[] = {0, 0, 0}, ones[] = {1, 1, 1};
  int32_t end[] = {INT_MAX, INT_MAX, (int32_t)m->c->chosen_experts};
  return crn_build_slice(&m->b, x, crn_build_i32(&m->b, zeros, 3), crn_build_i32(&m->b, end, 3), crn_build_i32(&m->b, ones, 3));
}

// Which experts, best first, as ui16 [S,chosen], and their weights as f32 [1,S,chosen].
static crn_value *choose(crn_llama *m, crn_value *x, int64_t layer, crn_value **out_weights) {
  crn_builder *b = &m->b;
  char prefix[64];
  int32_t shape[] = {-1, (int32_t)m->c->chosen_experts};
  snprintf(prefix, sizeof prefix, "blk.%lld.ffn_gate_inp", (long long)layer);
  crn_value *scores = crn_llama_cast(m, crn_llama_linear(m, x, prefix, m->c->experts, m->c->hidden), CAIRN_F32);
  crn_value *axis = scalar_axis(m), *is_descending = yes(m), *is_stable = yes(m);
  if (!m->c->normalizes_chosen) scores = crn_build_binary(b, CRN_OP_softmax, scores, axis);
  crn_value *operands[] = {scores, axis, is_descending, is_stable};
  crn_value *best = take_chosen(m, crn_build_op(b, CRN_OP_sort, operands, 4, CAIRN_DTYPE_NONE, 0));
  crn_value *places = take_chosen(m, crn_build_op(b, CRN_OP_argsort, operands, 4, CAIRN_SI32, 0));
  *out_weights = m->c->normalizes_chosen ? crn_build_binary(b, CRN_OP_softmax, best, axis) : best;
  return crn_build_binary(b, CRN_OP_reshape, crn_build_cast(b, places, CAIRN_UI16), crn_build_i32(b, shape, 2));
}

// The stack of matrices as gather_mm takes it: [1,experts,columns,rows].
static crn_value *stack(crn_llama *m, int64_t layer, const char *part, int64_t rows, int64_t columns) {
  static const uint32_t swap[] = {0, 2, 1};
  char prefix[64], name[80];
  snprintf(prefix, sizeof prefix, "blk.%lld.ffn_%s_exps", (long long)layer, part);
  snprintf(name, sizeof name, "%s.weight", prefix);
  const crn_gguf_tensor *t = crn_llama_find(m, prefix, "weight", true, m->c->experts, rows, columns);
  if (!t) return NULL;
  crn_value *w = crn_build_transpose(&m->b, crn_gguf_build_matrix(&m->b, m->w, name, &t, 1, m->compute), swap, 3);
  return crn_build_binary(&m->b, CRN_OP_expand_dims, w, m->zero);
}

// [1,S,chosen,1,hidden] times the weights, added up: [1,S,hidden].
static crn_value *combine(crn_llama *m, crn_value *outputs, crn_value *weights) {
  crn_builder *b = &m->b;
  crn_value *parts[] = {m->one, m->count, crn_llama_i32(m, m->c->chosen_experts), crn_llama_i32(m, m->c->hidden)};
  crn_value *rows = crn_build_binary(b, CRN_OP_reshape, outputs, crn_build_concat(b, 0, parts, 4));
  crn_value *factors = crn_build_binary(b, CRN_OP_expand_dims, weights, crn_llama_i32(m, -1));
  crn_value *weighted = crn_build_binary(b, CRN_OP_broadcasting_mul, crn_llama_cast(m, rows, CAIRN_F32), factors);
  crn_value *sum = crn_build_binary(b, CRN_OP_reduce_sum, weighted, m->two);
  return crn_llama_cast(m, crn_build_binary(b, CRN_OP_shrink_dims, sum, m->two), m->compute);
}

crn_value *crn_llama_experts(crn_llama *m, crn_value *x, int64_t layer) {
  crn_builder *b = &m->b;
  int64_t hidden = m->c->hidden;
  int32_t shape[] = {-1, 1, 1, (int32_t)hidden};
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "blk.%lld.ffn_up_exps.weight", (long long)layer);
  int64_t inner = t ? t->dims[1] : 0;
  crn_value *weights;
  crn_value *places = choose(m, x, layer, &weights);
  crn_value *rows = crn_build_binary(b, CRN_OP_reshape, x, crn_build_i32(b, shape, 4));
  // The one that says the size goes first, so that its absence is what a message tells.
  crn_value *up = crn_llama_gather_multiply(m, rows, stack(m, layer, "up", inner, hidden), places);
  crn_value *gate = crn_llama_gather_multiply(m, rows, stack(m, layer, "gate", inner, hidden), places);
  crn_value *product = crn_build_binary(b, CRN_OP_broadcasting_mul, crn_build_unary(b, CRN_OP_silu, gate), up);
  return combine(m, crn_llama_gather_multiply(m, product, stack(m, layer, "down", hidden, inner), places), weights);
}
