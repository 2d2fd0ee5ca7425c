#include "import/gguf/llama.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "import/gguf/private.h"

// What the layers share while the graph grows. Values are NULL after a failure, which the builder remembers.
typedef struct model {
  crn_builder b;
  crn_gguf_weights *w;
  const crn_llama_config *c;
  crn_value *zero, *one, *two;  // si32[1] constants, also used as axes
  crn_value *ones5, *zeros5;    // bounds of whole slices
  crn_value *length, *offset;   // si32[1]: position of the last token + 1, of the first token
  crn_value *positions;         // of this run's tokens
  crn_value *frequencies;       // input of rope, NULL when base and scale say all
  crn_value *input_ids, *key_state, *value_state;
  crn_value *keys, *values;        // newest content of the states
  crn_value *head_dim, *kv_heads;  // si32[1]
} model;

// --- weights ------------------------------------------------------------------------------------------------------------

static cairn_status check_shape(const model *m, const crn_gguf_tensor *t, int64_t rows, int64_t columns) {
  bool is_vector = rows == 1 && t->n_dims == 1;
  if (t->dims[0] == columns && t->dims[1] == rows && t->dims[2] == 1 && t->dims[3] == 1 && (is_vector || t->n_dims >= 2)) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s: tensor '" CRN_GGUF_TEXT "' has dims [%lld, %lld, %lld, %lld], [%lld, %lld] is needed",
                  crn_gguf_what(m->w->file), CRN_GGUF_ARGS(t->name), (long long)t->dims[0], (long long)t->dims[1], (long long)t->dims[2],
                  (long long)t->dims[3], (long long)columns, (long long)rows);
}

// Finds "prefix.suffix" with the wanted shape; NULL with the failure in the builder when it does not fit, or when it is
// missing and required.
static const crn_gguf_tensor *find(model *m, const char *prefix, const char *suffix, bool required, int64_t rows, int64_t columns) {
  if (m->b.status != CAIRN_OK) return NULL;
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "%s.%s", prefix, suffix);
  cairn_status status = CAIRN_OK;
  if (t) {
    status = check_shape(m, t, rows, columns);
  } else if (required) {
    status = CRN_FAIL(CORRUPT, "%s: tensor '%s.%s' is missing", crn_gguf_what(m->w->file), prefix, suffix);
  }
  crn_gguf_builder_fail(&m->b, status);
  return status == CAIRN_OK ? t : NULL;
}

static crn_value *vector(model *m, const char *prefix, const char *suffix, bool required, int64_t n) {
  const crn_gguf_tensor *t = find(m, prefix, suffix, required, 1, n);
  return t ? crn_gguf_build_f32(&m->b, m->w, t) : NULL;
}

// x [1,S,columns] times the transposed weight [rows,columns].
static crn_value *multiply(model *m, crn_value *x, crn_value *weight) {
  static const uint32_t swap[] = {1, 0};
  return crn_build_binary(&m->b, CRN_OP_broadcasting_batch_matmul, x, crn_build_transpose(&m->b, weight, swap, 2));
}

static crn_value *as_f32(model *m, crn_value *x) { return !x || x->type->dtype == CAIRN_F32 ? x : crn_build_cast(&m->b, x, CAIRN_F32); }

static crn_value *linear(model *m, crn_value *x, const char *prefix, int64_t rows, int64_t columns) {
  const crn_gguf_tensor *t = find(m, prefix, "weight", true, rows, columns);
  if (!t) return NULL;
  crn_value *y = multiply(m, x, crn_gguf_build_f32(&m->b, m->w, t));
  crn_value *bias = vector(m, prefix, "bias", false, rows);
  return bias ? crn_build_binary(&m->b, CRN_OP_broadcasting_add, y, bias) : y;
}

// --- composites -----------------------------------------------------------------------------------------------------------

static void set_int(crn_attr *dict, int i, const char *key, crn_attr_kind kind, int64_t value) {
  crn_attr *items = (crn_attr *)dict->list.items;
  items[i] = (crn_attr){.kind = kind, .key = key, .i = value};
}

static void set_float(crn_attr *dict, int i, const char *key, double value) {
  crn_attr *items = (crn_attr *)dict->list.items;
  // Attributes are 32-bit floats in assets: a built program must not be more precise than a loaded one.
  items[i] = (crn_attr){.kind = CRN_ATTR_FLOAT, .key = key, .f = (double)(float)value};
}

static crn_value *rms_norm(model *m, crn_value *x, const char *prefix) {
  static const char *const names[] = {"input", "scale"};
  crn_value *scale = vector(m, prefix, "weight", true, m->c->hidden);
  crn_attr *attrs = crn_build_attrs(&m->b, 3);
  if (!attrs) return NULL;
  set_int(attrs, 0, "axes", CRN_ATTR_INT, -1);
  set_float(attrs, 1, "eps", m->c->norm_epsilon);
  set_int(attrs, 2, "version", CRN_ATTR_INT, 1);
  return crn_build_composite(&m->b, CRN_OP_rms_norm, names, (crn_value *[]){x, scale}, 2, attrs);
}

static crn_value *rope(model *m, crn_value *x) {
  static const char *const names[] = {"input", "position_ids", "freqs"};
  bool is_partial = m->c->rope_dims < m->c->head_dim;
  crn_attr *attrs = crn_build_attrs(&m->b, is_partial ? 5 : 4);
  if (!attrs) return NULL;
  set_float(attrs, 0, "base", m->c->rope_base);
  set_int(attrs, 1, "interleaved", CRN_ATTR_BOOL, true);
  set_float(attrs, 2, "scale", m->c->rope_scale);
  set_int(attrs, 3, "version", CRN_ATTR_INT, 1);
  if (is_partial) set_int(attrs, 4, "dims", CRN_ATTR_INT, m->c->rope_dims);
  return crn_build_composite(&m->b, CRN_OP_rope, names, (crn_value *[]){x, m->positions, m->frequencies}, m->frequencies ? 3 : 2, attrs);
}

static crn_value *attention(model *m, crn_value *q, crn_value *k, crn_value *v) {
  static const char *const names[] = {"query", "key", "value"};
  bool has_scale = m->c->attention_scale > 0;
  crn_attr *attrs = crn_build_attrs(&m->b, has_scale ? 4 : 3);
  if (!attrs) return NULL;
  set_int(attrs, 0, "is_causal", CRN_ATTR_BOOL, true);
  set_int(attrs, 1, "version", CRN_ATTR_INT, 1);
  set_int(attrs, 2, "window_size", CRN_ATTR_INT, m->c->window);
  if (has_scale) set_float(attrs, 3, "scale", m->c->attention_scale);
  return crn_build_composite(&m->b, CRN_OP_scaled_dot_product_attention, names, (crn_value *[]){q, k, v}, 3, attrs);
}

// The rope_freqs tensor of Llama 3 divides each frequency; the composite takes the finished frequencies.
static cairn_status make_frequencies(model *m, const crn_gguf_tensor *t, float **out_freqs) {
  int64_t n = m->c->rope_dims / 2;
  CRN_TRY(check_shape(m, t, 1, n));
  if (t->type->id != CRN_GGUF_F32) {
    return CRN_FAIL(UNSUPPORTED, "%s: tensor 'rope_freqs.weight' has type %s, F32 is supported", crn_gguf_what(m->w->file), t->type->name);
  }
  CRN_TRY(crn_gguf_weights_alloc(m->w, (size_t)n * sizeof **out_freqs, out_freqs));
  for (int64_t i = 0; i < n; i++) {
    crn_gguf_value divisor;
    crn_gguf_item(CRN_GGUF_FLOAT32, t->data + 4 * i, &divisor);
    if (!(divisor.f > 0)) return CRN_FAIL(CORRUPT, "%s: tensor 'rope_freqs.weight' must hold positive numbers", crn_gguf_what(m->w->file));
    (*out_freqs)[i] = (float)(pow(m->c->rope_base, -2.0 * (double)i / (double)m->c->rope_dims) / divisor.f);
  }
  return CAIRN_OK;
}

static crn_value *build_frequencies(model *m) {
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "rope_freqs.weight");
  float *freqs;
  if (!t || m->b.status != CAIRN_OK) return NULL;
  cairn_status status = make_frequencies(m, t, &freqs);
  if (status != CAIRN_OK) return crn_gguf_builder_fail(&m->b, status);
  crn_tensor tensor = crn_tensor_make(CAIRN_F32, &t->dims[0], 1, freqs);
  return crn_build_constant(&m->b, "rope_freqs.weight", &tensor, (size_t)t->dims[0] * sizeof *freqs);
}

// --- the graph --------------------------------------------------------------------------------------------------------------

static crn_value *size_of(model *m, crn_value *x) {
  crn_value *shape = crn_build_cast(&m->b, crn_build_unary(&m->b, CRN_OP_get_shape, x), CAIRN_SI32);
  return crn_build_slice(&m->b, shape, m->one, m->two, m->one);
}

static crn_value *concat(model *m, crn_value *const *parts, int n) { return crn_build_concat(&m->b, 0, parts, n); }

// The tokens of a run stand at the last places of position_ids: its length counts those that are in the cache already.
static void build_positions(model *m, crn_value *position_ids) {
  static const int32_t whole[] = {INT_MAX};
  static const int32_t ones[] = {1, 1};
  crn_value *count = size_of(m, m->input_ids);
  m->length = size_of(m, position_ids);
  m->offset = crn_build_binary(&m->b, CRN_OP_broadcasting_sub, m->length, count);
  crn_value *start = concat(m, (crn_value *[]){m->zero, m->offset}, 2);
  crn_value *end = concat(m, (crn_value *[]){crn_build_i32(&m->b, whole, 1), m->length}, 2);
  m->positions = crn_build_slice(&m->b, position_ids, start, end, crn_build_i32(&m->b, ones, 2));
}

static crn_value *i32(model *m, int64_t value) {
  int32_t v = (int32_t)value;
  return crn_build_i32(&m->b, &v, 1);
}

static void begin(model *m) {
  static const int32_t ones[] = {1, 1, 1, 1, 1}, zeros[] = {0, 0, 0, 0, 0};
  static const int64_t tokens[] = {1, CAIRN_DYNAMIC};
  const crn_llama_config *c = m->c;
  int64_t cache[] = {c->n_layers, 1, c->kv_heads, CAIRN_DYNAMIC, c->head_dim};
  crn_builder *b = &m->b;
  m->input_ids = crn_build_input(b, "input_ids", CAIRN_SI32, tokens, 2);
  crn_value *position_ids = crn_build_input(b, "position_ids", CAIRN_SI32, tokens, 2);
  m->key_state = crn_build_state(b, "keyCache", CAIRN_F32, cache, 5);
  m->value_state = crn_build_state(b, "valueCache", CAIRN_F32, cache, 5);
  m->zero = i32(m, 0);
  m->one = i32(m, 1);
  m->two = i32(m, 2);
  m->ones5 = crn_build_i32(b, ones, 5);
  m->zeros5 = crn_build_i32(b, zeros, 5);
  m->head_dim = i32(m, c->head_dim);
  m->kv_heads = i32(m, c->kv_heads);
  m->frequencies = build_frequencies(m);
  build_positions(m, position_ids);
  m->values = crn_build_read_state(b, m->value_state);
  m->keys = crn_build_read_state(b, m->key_state);
}

// [1,S,heads*D] to [1,heads,S,D].
static crn_value *split_heads(model *m, crn_value *x, int64_t heads) {
  static const uint32_t order[] = {0, 2, 1, 3};
  int32_t shape[] = {1, -1, (int32_t)heads, (int32_t)m->c->head_dim};
  crn_value *split = crn_build_binary(&m->b, CRN_OP_reshape, x, crn_build_i32(&m->b, shape, 4));
  return crn_build_transpose(&m->b, split, order, 4);
}

static crn_value *join_heads(model *m, crn_value *x) {
  static const uint32_t order[] = {0, 2, 1, 3};
  int32_t shape[] = {1, -1, (int32_t)(m->c->heads * m->c->head_dim)};
  crn_value *joined = crn_build_transpose(&m->b, x, order, 4);
  return crn_build_binary(&m->b, CRN_OP_reshape, joined, crn_build_i32(&m->b, shape, 3));
}

// Writes the new rows of one layer into a cache and gives back all rows of that layer up to the newest.
static crn_value *update_cache(model *m, crn_value *state, crn_value **in_out_content, crn_value *rows, int64_t layer) {
  static const int32_t most[] = {INT_MAX, INT_MAX, INT_MAX};
  crn_builder *b = &m->b;
  int32_t from[] = {(int32_t)layer, 0, 0, 0, 0};
  int32_t to[] = {(int32_t)layer + 1, INT_MAX, INT_MAX, INT_MAX, INT_MAX};
  crn_value *start = concat(m, (crn_value *[]){i32(m, layer), m->zero, m->zero, m->offset, m->zero}, 5);
  crn_value *end = concat(m, (crn_value *[]){i32(m, layer + 1), m->one, m->kv_heads, m->length, m->head_dim}, 5);
  crn_value *update = crn_build_binary(b, CRN_OP_expand_dims, rows, m->zero);
  crn_value *operands[] = {*in_out_content, start, end, m->ones5, update};
  crn_build_write_state(b, state, crn_build_op(b, CRN_OP_slice_update, operands, 5, CAIRN_DTYPE_NONE, 0));
  *in_out_content = crn_build_read_state(b, state);
  crn_value *of_layer = crn_build_slice(b, *in_out_content, crn_build_i32(b, from, 5), crn_build_i32(b, to, 5), m->ones5);
  crn_value *used = concat(m, (crn_value *[]){crn_build_i32(b, most, 3), m->length, crn_build_i32(b, most, 1)}, 3);
  return crn_build_binary(b, CRN_OP_shrink_dims, crn_build_slice(b, of_layer, m->zeros5, used, m->ones5), m->zero);
}

static crn_value *attention_block(model *m, crn_value *x, int64_t layer) {
  const crn_llama_config *c = m->c;
  char prefix[64];
  int64_t q_size = c->heads * c->head_dim, kv_size = c->kv_heads * c->head_dim;
  crn_value *projected[3];
  static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
  for (int i = 0; i < 3; i++) {
    snprintf(prefix, sizeof prefix, "blk.%lld.%s", (long long)layer, parts[i]);
    projected[i] = linear(m, x, prefix, i == 0 ? q_size : kv_size, c->hidden);
  }
  crn_value *q = rope(m, split_heads(m, projected[0], c->heads));
  crn_value *k = rope(m, split_heads(m, projected[1], c->kv_heads));
  crn_value *v = split_heads(m, projected[2], c->kv_heads);
  crn_value *all_keys = update_cache(m, m->key_state, &m->keys, k, layer);
  crn_value *all_values = update_cache(m, m->value_state, &m->values, v, layer);
  snprintf(prefix, sizeof prefix, "blk.%lld.attn_output", (long long)layer);
  return linear(m, join_heads(m, attention(m, q, all_keys, all_values)), prefix, c->hidden, q_size);
}

// The size of the inner layer is that of its tensors; metadata repeats it, sometimes as a list.
static crn_value *feed_forward_block(model *m, crn_value *x, int64_t layer) {
  char gate[64], up[64], down[64];
  snprintf(gate, sizeof gate, "blk.%lld.ffn_gate", (long long)layer);
  snprintf(up, sizeof up, "blk.%lld.ffn_up", (long long)layer);
  snprintf(down, sizeof down, "blk.%lld.ffn_down", (long long)layer);
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "%s.weight", up);
  int64_t inner = t ? t->dims[1] : 0, hidden = m->c->hidden;
  crn_value *u = linear(m, x, up, inner, hidden);
  crn_value *g = crn_build_unary(&m->b, CRN_OP_silu, linear(m, x, gate, inner, hidden));
  return linear(m, crn_build_binary(&m->b, CRN_OP_broadcasting_mul, u, g), down, hidden, inner);
}

static crn_value *layer_block(model *m, crn_value *h, int64_t layer) {
  char prefix[64];
  snprintf(prefix, sizeof prefix, "blk.%lld.attn_norm", (long long)layer);
  h = crn_build_binary(&m->b, CRN_OP_broadcasting_add, h, attention_block(m, rms_norm(m, h, prefix), layer));
  snprintf(prefix, sizeof prefix, "blk.%lld.ffn_norm", (long long)layer);
  return crn_build_binary(&m->b, CRN_OP_broadcasting_add, h, feed_forward_block(m, rms_norm(m, h, prefix), layer));
}

// Rows of a plain table are gathered as they are stored and cast afterwards, so that no second table is made. A quantized
// table goes through the same dequantized value as a tied output.
static crn_value *embed(model *m, const crn_gguf_tensor *t, crn_value **out_table) {
  crn_value *index = crn_build_binary(&m->b, CRN_OP_expand_dims, m->input_ids, m->two);
  *out_table = crn_gguf_is_plain(t) ? crn_gguf_build_plain(&m->b, m->w, t) : crn_gguf_build_f32(&m->b, m->w, t);
  return as_f32(m, crn_build_binary(&m->b, CRN_OP_gather_nd, *out_table, index));
}

static crn_value *build_logits(model *m, const crn_gguf_tensor *embedding) {
  crn_value *table;
  crn_value *h = embed(m, embedding, &table);
  for (int64_t i = 0; i < m->c->n_layers && m->b.status == CAIRN_OK; i++) h = layer_block(m, h, i);
  h = rms_norm(m, h, "output_norm");
  // Without an output of its own the model reads the embedding backwards.
  if (crn_gguf_weights_find(m->w, "output.weight")) return linear(m, h, "output", embedding->dims[1], m->c->hidden);
  return multiply(m, h, as_f32(m, table));
}

cairn_status crn_llama_build(crn_program *program, crn_gguf_weights *weights, const crn_llama_config *config, int64_t *out_vocab_size) {
  static const char *const names[] = {"logits"};
  model m = {.w = weights, .c = config};
  crn_builder_begin(&m.b, program, "main");
  const crn_gguf_tensor *t = crn_gguf_weights_find(weights, "token_embd.weight");
  if (t && t->dims[1] > 0 && t->dims[1] <= INT_MAX) {
    begin(&m);
    t = find(&m, "token_embd", "weight", true, t->dims[1], config->hidden);
  } else {
    cairn_status status = CRN_FAIL(CORRUPT, "%s: tensor 'token_embd.weight' is missing or empty", crn_gguf_what(weights->file));
    crn_gguf_builder_fail(&m.b, status);
  }
  crn_value *logits = m.b.status == CAIRN_OK ? build_logits(&m, t) : NULL;
  CRN_TRY(crn_builder_finish(&m.b, &logits, names, 1));
  *out_vocab_size = t->dims[1];
  return crn_gguf_weights_check_used(weights);
}
