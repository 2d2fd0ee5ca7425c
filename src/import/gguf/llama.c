#include "import/gguf/llama.h"

#include <limits.h>
#include <stdio.h>

#include "import/gguf/llama_parts.h"
#include "import/gguf/private.h"

// --- the frame --------------------------------------------------------------------------------------------------------------

static crn_value *size_of(crn_llama *m, crn_value *x) {
  crn_value *shape = crn_build_cast(&m->b, crn_build_unary(&m->b, CRN_OP_get_shape, x), CAIRN_SI32);
  return crn_build_slice(&m->b, shape, m->one, m->two, m->one);
}

static crn_value *concat(crn_llama *m, crn_value *const *parts, int n) { return crn_build_concat(&m->b, 0, parts, n); }

// The tokens of a run stand at the last places of position_ids: its length counts those that are in the cache already.
static void build_positions(crn_llama *m, crn_value *position_ids) {
  static const int32_t whole[] = {INT_MAX};
  static const int32_t ones[] = {1, 1};
  m->count = size_of(m, m->input_ids);
  m->length = size_of(m, position_ids);
  m->offset = crn_build_binary(&m->b, CRN_OP_broadcasting_sub, m->length, m->count);
  crn_value *start = concat(m, (crn_value *[]){m->zero, m->offset}, 2);
  crn_value *end = concat(m, (crn_value *[]){crn_build_i32(&m->b, whole, 1), m->length}, 2);
  m->positions = crn_build_slice(&m->b, position_ids, start, end, crn_build_i32(&m->b, ones, 2));
}

static void begin(crn_llama *m) {
  static const int32_t ones[] = {1, 1, 1, 1, 1}, zeros[] = {0, 0, 0, 0, 0};
  static const int64_t tokens[] = {1, CAIRN_DYNAMIC};
  const crn_llama_config *c = m->c;
  int64_t cache[] = {c->n_layers, 1, c->kv_heads, CAIRN_DYNAMIC, c->head_dim};
  crn_builder *b = &m->b;
  m->input_ids = crn_build_input(b, "input_ids", CAIRN_SI32, tokens, 2);
  crn_value *position_ids = crn_build_input(b, "position_ids", CAIRN_SI32, tokens, 2);
  m->key_state = crn_build_state(b, "keyCache", m->compute, cache, 5);
  m->value_state = crn_build_state(b, "valueCache", m->compute, cache, 5);
  m->zero = crn_llama_i32(m, 0);
  m->one = crn_llama_i32(m, 1);
  m->two = crn_llama_i32(m, 2);
  m->ones5 = crn_build_i32(b, ones, 5);
  m->zeros5 = crn_build_i32(b, zeros, 5);
  m->head_dim = crn_llama_i32(m, c->head_dim);
  m->kv_heads = crn_llama_i32(m, c->kv_heads);
  m->frequencies = crn_llama_frequencies(m);
  build_positions(m, position_ids);
  m->values = crn_build_read_state(b, m->value_state);
  m->keys = crn_build_read_state(b, m->key_state);
}

// --- attention --------------------------------------------------------------------------------------------------------------

// [1,S,heads*D] to [1,heads,S,D].
static crn_value *split_heads(crn_llama *m, crn_value *x, int64_t heads) {
  static const uint32_t order[] = {0, 2, 1, 3};
  int32_t shape[] = {1, -1, (int32_t)heads, (int32_t)m->c->head_dim};
  crn_value *split = crn_build_binary(&m->b, CRN_OP_reshape, x, crn_build_i32(&m->b, shape, 4));
  return crn_build_transpose(&m->b, split, order, 4);
}

static crn_value *join_heads(crn_llama *m, crn_value *x) {
  static const uint32_t order[] = {0, 2, 1, 3};
  int32_t shape[] = {1, -1, (int32_t)(m->c->heads * m->c->head_dim)};
  crn_value *joined = crn_build_transpose(&m->b, x, order, 4);
  return crn_build_binary(&m->b, CRN_OP_reshape, joined, crn_build_i32(&m->b, shape, 3));
}

// Heads [from, to) of [1,heads,S,D].
static crn_value *take_heads(crn_llama *m, crn_value *x, int64_t from, int64_t to) {
  static const int32_t ones[] = {1, 1, 1, 1};
  int32_t start[] = {0, (int32_t)from, 0, 0}, end[] = {INT_MAX, (int32_t)to, INT_MAX, INT_MAX};
  return crn_build_slice(&m->b, x, crn_build_i32(&m->b, start, 4), crn_build_i32(&m->b, end, 4), crn_build_i32(&m->b, ones, 4));
}

// Writes the new rows of one layer into a cache and gives back all rows of that layer up to the newest.
static crn_value *update_cache(crn_llama *m, crn_value *state, crn_value **in_out_content, crn_value *rows, int64_t layer) {
  static const int32_t most[] = {INT_MAX, INT_MAX, INT_MAX};
  crn_builder *b = &m->b;
  int32_t from[] = {(int32_t)layer, 0, 0, 0, 0};
  int32_t to[] = {(int32_t)layer + 1, INT_MAX, INT_MAX, INT_MAX, INT_MAX};
  crn_value *start = concat(m, (crn_value *[]){crn_llama_i32(m, layer), m->zero, m->zero, m->offset, m->zero}, 5);
  crn_value *end = concat(m, (crn_value *[]){crn_llama_i32(m, layer + 1), m->one, m->kv_heads, m->length, m->head_dim}, 5);
  crn_value *update = crn_build_binary(b, CRN_OP_expand_dims, rows, m->zero);
  crn_value *operands[] = {*in_out_content, start, end, m->ones5, update};
  crn_build_write_state(b, state, crn_build_op(b, CRN_OP_slice_update, operands, 5, CAIRN_DTYPE_NONE, 0));
  *in_out_content = crn_build_read_state(b, state);
  crn_value *of_layer = crn_build_slice(b, *in_out_content, crn_build_i32(b, from, 5), crn_build_i32(b, to, 5), m->ones5);
  crn_value *used = concat(m, (crn_value *[]){crn_build_i32(b, most, 3), m->length, crn_build_i32(b, most, 1)}, 3);
  return crn_build_binary(b, CRN_OP_shrink_dims, crn_build_slice(b, of_layer, m->zeros5, used, m->ones5), m->zero);
}

typedef enum part { QUERY, KEY, VALUE, N_PARTS } part;

// The three projections of a layer: as one value of all heads, or one by one.
typedef struct projections {
  char prefix[N_PARTS][64];
  int64_t heads[N_PARTS];
  const crn_gguf_tensor *weight[N_PARTS], *bias[N_PARTS];
} projections;

static void find_projections(crn_llama *m, int64_t layer, projections *p) {
  static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
  const crn_llama_config *c = m->c;
  *p = (projections){.heads = {c->heads, c->kv_heads, c->kv_heads}};
  for (int i = 0; i < N_PARTS; i++) {
    snprintf(p->prefix[i], sizeof p->prefix[i], "blk.%lld.%s", (long long)layer, names[i]);
    p->weight[i] = crn_llama_find(m, p->prefix[i], "weight", true, 1, p->heads[i] * c->head_dim, c->hidden);
    p->bias[i] = crn_llama_find(m, p->prefix[i], "bias", false, 1, 1, p->heads[i] * c->head_dim);
  }
}

static bool can_join(const projections *p) {
  bool has_all = p->bias[QUERY] && p->bias[KEY] && p->bias[VALUE], has_none = !p->bias[QUERY] && !p->bias[KEY] && !p->bias[VALUE];
  return (has_all || has_none) && crn_gguf_can_join(p->weight, N_PARTS);
}

static const int64_t once[] = {1, 1, 1};

// All heads of [1,heads,S,D], from one matrix.
static crn_value *project_joined(crn_llama *m, crn_value *x, const projections *p, int64_t layer) {
  char name[64];
  int64_t heads = m->c->heads + 2 * m->c->kv_heads, size = heads * m->c->head_dim;
  snprintf(name, sizeof name, "blk.%lld.attn_qkv.weight", (long long)layer);
  crn_value *y = crn_llama_multiply(m, x, crn_gguf_build_matrix(&m->b, m->w, name, p->weight, N_PARTS, m->compute));
  if (p->bias[QUERY]) {
    crn_tensor shape = crn_tensor_make(m->compute, &size, 1, NULL);
    snprintf(name, sizeof name, "blk.%lld.attn_qkv.bias", (long long)layer);
    y = crn_build_binary(&m->b, CRN_OP_broadcasting_add, y, crn_gguf_build_vector(&m->b, m->w, name, p->bias, once, N_PARTS, &shape));
  }
  return split_heads(m, y, heads);
}

static crn_value *project(crn_llama *m, crn_value *x, const projections *p, part i) {
  int64_t rows = p->heads[i] * m->c->head_dim;
  return split_heads(m, crn_llama_linear(m, x, p->prefix[i], rows, m->c->hidden), p->heads[i]);
}

// The scale of the norms of query heads, then of key heads: a row [1,D] for each of them.
static crn_value *head_scale(crn_llama *m, int64_t layer, int64_t query_heads, int64_t key_heads) {
  static const char *const names[] = {"attn_q_norm", "attn_k_norm"};
  const crn_gguf_tensor *found[2];
  int64_t repeats[2], heads[] = {query_heads, key_heads};
  int n = 0;
  char prefix[64];
  for (int i = 0; i < 2; i++) {
    snprintf(prefix, sizeof prefix, "blk.%lld.%s", (long long)layer, names[i]);
    if (!heads[i]) continue;
    found[n] = crn_llama_find(m, prefix, "weight", true, 1, 1, m->c->head_dim);
    if (!found[n]) return NULL;
    repeats[n++] = heads[i];
  }
  int64_t dims[] = {query_heads + key_heads, 1, m->c->head_dim};
  crn_tensor shape = crn_tensor_make(m->compute, dims, 3, NULL);
  snprintf(prefix, sizeof prefix, "blk.%lld.attn_qk_norm%s", (long long)layer, !key_heads ? ".q" : !query_heads ? ".k" : "");
  return crn_gguf_build_vector(&m->b, m->w, prefix, found, repeats, n, &shape);
}

// Norm and rotation of query heads followed by key heads.
static crn_value *finish_heads(crn_llama *m, crn_value *x, int64_t layer, int64_t query_heads, int64_t key_heads) {
  if (m->c->has_head_norms) x = crn_llama_rms_norm(m, x, head_scale(m, layer, query_heads, key_heads));
  return crn_llama_rope(m, x);
}

static crn_value *attention_block(crn_llama *m, crn_value *x, int64_t layer) {
  const crn_llama_config *c = m->c;
  int64_t q_heads = c->heads, kv_heads = c->kv_heads;
  char prefix[64];
  projections p;
  crn_value *q, *k, *v;
  find_projections(m, layer, &p);
  if (m->b.status != CAIRN_OK) return NULL;
  if (can_join(&p)) {
    crn_value *all = project_joined(m, x, &p, layer);
    crn_value *qk = finish_heads(m, take_heads(m, all, 0, q_heads + kv_heads), layer, q_heads, kv_heads);
    v = take_heads(m, all, q_heads + kv_heads, q_heads + 2 * kv_heads);
    q = take_heads(m, qk, 0, q_heads);
    k = take_heads(m, qk, q_heads, q_heads + kv_heads);
  } else {
    q = finish_heads(m, project(m, x, &p, QUERY), layer, q_heads, 0);
    k = finish_heads(m, project(m, x, &p, KEY), layer, 0, kv_heads);
    v = project(m, x, &p, VALUE);
  }
  crn_value *all_keys = update_cache(m, m->key_state, &m->keys, k, layer);
  crn_value *all_values = update_cache(m, m->value_state, &m->values, v, layer);
  snprintf(prefix, sizeof prefix, "blk.%lld.attn_output", (long long)layer);
  return crn_llama_linear(m, join_heads(m, crn_llama_attention(m, q, all_keys, all_values)), prefix, c->hidden, q_heads * c->head_dim);
}

// --- layers -----------------------------------------------------------------------------------------------------------------

// The size of the inner layer is that of its tensors; metadata repeats it, sometimes as a list.
static crn_value *feed_forward_block(crn_llama *m, crn_value *x, int64_t layer) {
  char gate[64], up[64], down[64];
  if (crn_llama_has_experts(m, layer)) return crn_llama_experts(m, x, layer);
  snprintf(gate, sizeof gate, "blk.%lld.ffn_gate", (long long)layer);
  snprintf(up, sizeof up, "blk.%lld.ffn_up", (long long)layer);
  snprintf(down, sizeof down, "blk.%lld.ffn_down", (long long)layer);
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "%s.weight", up);
  int64_t inner = t ? t->dims[1] : 0, hidden = m->c->hidden;
  crn_value *u = crn_llama_linear(m, x, up, inner, hidden);
  crn_value *g = crn_build_unary(&m->b, CRN_OP_silu, crn_llama_linear(m, x, gate, inner, hidden));
  return crn_llama_linear(m, crn_build_binary(&m->b, CRN_OP_broadcasting_mul, u, g), down, hidden, inner);
}

static crn_value *norm(crn_llama *m, crn_value *x, const char *prefix) {
  return crn_llama_rms_norm(m, x, crn_llama_vector(m, prefix, "weight", true, m->c->hidden));
}

static crn_value *layer_block(crn_llama *m, crn_value *h, int64_t layer) {
  char prefix[64];
  snprintf(prefix, sizeof prefix, "blk.%lld.attn_norm", (long long)layer);
  h = crn_build_binary(&m->b, CRN_OP_broadcasting_add, h, attention_block(m, norm(m, h, prefix), layer));
  snprintf(prefix, sizeof prefix, "blk.%lld.ffn_norm", (long long)layer);
  return crn_build_binary(&m->b, CRN_OP_broadcasting_add, h, feed_forward_block(m, norm(m, h, prefix), layer));
}

// --- the whole --------------------------------------------------------------------------------------------------------------

// Rows of a plain table are gathered as they are stored and cast afterwards, so that no second table is made. A quantized
// table goes through the same dequantized value as a tied output.
static crn_value *embed(crn_llama *m, const crn_gguf_tensor *t, crn_value **out_table) {
  crn_value *index = crn_build_binary(&m->b, CRN_OP_expand_dims, m->input_ids, m->two);
  *out_table = crn_gguf_is_plain(t) ? crn_gguf_build_plain(&m->b, m->w, t)
                                    : crn_gguf_build_matrix(&m->b, m->w, "token_embd.weight", &t, 1, m->compute);
  return crn_llama_cast(m, crn_build_binary(&m->b, CRN_OP_gather_nd, *out_table, index), m->compute);
}

static crn_value *build_logits(crn_llama *m, const crn_gguf_tensor *embedding) {
  crn_value *table;
  crn_value *h = embed(m, embedding, &table);
  for (int64_t i = 0; i < m->c->n_layers && m->b.status == CAIRN_OK; i++) h = layer_block(m, h, i);
  h = norm(m, h, "output_norm");
  // Without an output of its own the model reads the embedding backwards.
  if (crn_gguf_weights_find(m->w, "output.weight")) return crn_llama_linear(m, h, "output", embedding->dims[1], m->c->hidden);
  return crn_llama_multiply(m, h, crn_llama_cast(m, table, m->compute));
}

// Genuine assets of quantized and of f16 models compute in f16 and keep f16 caches, and so does a file of such weights. bf16 reaches
// further than f16, and whoever stores f32 wants its precision: those compute in f32.
static cairn_dtype compute_type(crn_gguf_weights *w) {
  const crn_gguf_tensor *t = crn_gguf_weights_find(w, "blk.0.attn_q.weight");
  return t && (t->type->id == CRN_GGUF_F32 || t->type->id == CRN_GGUF_BF16) ? CAIRN_F32 : CAIRN_F16;
}

cairn_status crn_llama_build(crn_program *program, crn_gguf_weights *weights, const crn_llama_config *config, cairn_dtype compute,
                             int64_t *out_vocab_size) {
  static const char *const names[] = {"logits"};
  crn_llama m = {.w = weights, .c = config, .compute = compute == CAIRN_DTYPE_NONE ? compute_type(weights) : compute};
  crn_builder_begin(&m.b, program, "main");
  const crn_gguf_tensor *t = crn_gguf_weights_find(weights, "token_embd.weight");
  if (t && t->dims[1] > 0 && t->dims[1] <= INT_MAX) {
    begin(&m);
    t = crn_llama_find(&m, "token_embd", "weight", true, 1, t->dims[1], config->hidden);
  } else {
    cairn_status status = CRN_FAIL(CORRUPT, "%s: tensor 'token_embd.weight' is missing or empty", crn_gguf_what(weights->file));
    crn_gguf_builder_fail(&m.b, status);
  }
  crn_value *logits = m.b.status == CAIRN_OK ? build_logits(&m, t) : NULL;
  CRN_TRY(crn_builder_finish(&m.b, &logits, names, 1));
  *out_vocab_size = t->dims[1];
  return crn_gguf_weights_check_used(weights);
}
