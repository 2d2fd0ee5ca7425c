#include "import/gguf/llama_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/gguf/private.h"

// No real model comes near; products of two such sizes stay far from overflow.
enum { MAX_SIZE = 1 << 30 };

static const char *key_of(char *buffer, size_t bytes, const char *name) {
  snprintf(buffer, bytes, "llama.%s", name);
  return buffer;
}

// A size of at least `least`; absent keys keep the value of `*out`, which 0 marks as required.
static cairn_status read_size(const crn_gguf *f, const char *name, int64_t least, int64_t *out) {
  char key[96];
  CRN_TRY(crn_gguf_get_int(f, key_of(key, sizeof key, name), *out == 0 && least > 0, out));
  if (*out < least || *out > MAX_SIZE) {
    return CRN_FAIL(CORRUPT, "%s: %s is %lld, it must be %lld to %d", crn_gguf_what(f), key, (long long)*out, (long long)least, MAX_SIZE);
  }
  return CAIRN_OK;
}

// Some files list the heads of each layer. One program has one cache shape, so they must agree.
static cairn_status read_heads(const crn_gguf *f, const char *name, int64_t *out) {
  char key[96];
  const crn_gguf_value *v = crn_gguf_find(f, key_of(key, sizeof key, name));
  if (!v || v->kind != CRN_GGUF_ARRAY) return read_size(f, name, 1, out);
  bool is_int = v->array.kind == CRN_GGUF_INT32 || v->array.kind == CRN_GGUF_UINT32;
  if (!is_int || v->array.n == 0) return CRN_FAIL(CORRUPT, "%s: %s must be an integer or a list of 32-bit integers", crn_gguf_what(f), key);
  const unsigned char *at = v->array.data;
  uint32_t first = 0;
  for (size_t i = 0; i < v->array.n; i++, at += 4) {
    uint32_t item = (uint32_t)crn_gguf_load(at, 4);
    if (i == 0) first = item;
    if (item != first) return CRN_FAIL(UNSUPPORTED, "%s: %s differs between layers", crn_gguf_what(f), key);
  }
  *out = first;
  if (*out < 1 || *out > MAX_SIZE) return CRN_FAIL(CORRUPT, "%s: %s is %u", crn_gguf_what(f), key, first);
  return CAIRN_OK;
}

static cairn_status read_number(const crn_gguf *f, const char *name, bool required, double *out) {
  char key[96];
  CRN_TRY(crn_gguf_get_float(f, key_of(key, sizeof key, name), required, out));
  if (!isfinite(*out) || *out < 0) return CRN_FAIL(CORRUPT, "%s: %s must be a finite number of at least 0", crn_gguf_what(f), key);
  return CAIRN_OK;
}

static bool is_text(crn_gguf_string s, const char *text) { return s.bytes == strlen(text) && !memcmp(s.data, text, s.bytes); }

static cairn_status read_rope_scaling(const crn_gguf *f, crn_llama_config *c) {
  crn_gguf_string type = {"linear", 6};
  double factor = 0;
  CRN_TRY(crn_gguf_get_string(f, "llama.rope.scaling.type", false, &type));
  CRN_TRY(read_number(f, "rope.scale_linear", false, &factor));
  CRN_TRY(read_number(f, "rope.scaling.factor", false, &factor));
  c->rope_scale = 1;
  if (is_text(type, "none")) return CAIRN_OK;
  if (!is_text(type, "linear")) {
    return CRN_FAIL(UNSUPPORTED, "%s: rope scaling '" CRN_GGUF_TEXT "'; 'none', 'linear' and a rope_freqs tensor are supported",
                    crn_gguf_what(f), CRN_GGUF_ARGS(type));
  }
  if (factor > 0) c->rope_scale = 1 / factor;
  return CAIRN_OK;
}

static cairn_status read_rope(const crn_gguf *f, crn_llama_config *c) {
  c->rope_dims = c->head_dim;
  CRN_TRY(read_size(f, "rope.dimension_count", 1, &c->rope_dims));
  if (c->rope_dims % 2 || c->rope_dims > c->head_dim) {
    return CRN_FAIL(CORRUPT, "%s: llama.rope.dimension_count is %lld, it must be even and at most %lld", crn_gguf_what(f),
                    (long long)c->rope_dims, (long long)c->head_dim);
  }
  c->rope_base = 10000;
  CRN_TRY(read_number(f, "rope.freq_base", false, &c->rope_base));
  if (c->rope_base <= 0) return CRN_FAIL(CORRUPT, "%s: llama.rope.freq_base must be positive", crn_gguf_what(f));
  return read_rope_scaling(f, c);
}

static cairn_status read_head_sizes(const crn_gguf *f, crn_llama_config *c) {
  CRN_TRY(read_heads(f, "attention.head_count", &c->heads));
  c->kv_heads = c->heads;
  CRN_TRY(read_heads(f, "attention.head_count_kv", &c->kv_heads));
  if (c->heads % c->kv_heads) {
    return CRN_FAIL(CORRUPT, "%s: %lld heads cannot share %lld key and value heads", crn_gguf_what(f), (long long)c->heads,
                    (long long)c->kv_heads);
  }
  // Without explicit sizes the heads share the hidden size evenly; 0 makes the key required otherwise.
  c->head_dim = c->hidden % c->heads ? 0 : c->hidden / c->heads;
  CRN_TRY(read_size(f, "attention.key_length", 1, &c->head_dim));
  if (c->heads * c->head_dim > MAX_SIZE)
    return CRN_FAIL(CORRUPT, "%s: %lld heads of %lld elements", crn_gguf_what(f), (long long)c->heads, (long long)c->head_dim);
  int64_t value_dim = c->head_dim;
  CRN_TRY(read_size(f, "attention.value_length", 1, &value_dim));
  if (value_dim != c->head_dim) {
    return CRN_FAIL(UNSUPPORTED, "%s: keys of %lld and values of %lld elements; equal sizes are supported", crn_gguf_what(f),
                    (long long)c->head_dim, (long long)value_dim);
  }
  return CAIRN_OK;
}

cairn_status crn_llama_config_read(const crn_gguf *f, crn_llama_config *c) {
  int64_t experts = 0;
  *c = (crn_llama_config){0};
  CRN_TRY(read_size(f, "block_count", 1, &c->n_layers));
  CRN_TRY(read_size(f, "embedding_length", 1, &c->hidden));
  CRN_TRY(read_size(f, "context_length", 1, &c->context_length));
  CRN_TRY(read_size(f, "expert_count", 0, &experts));
  if (experts > 0)
    return CRN_FAIL(UNSUPPORTED, "%s: a mixture of %lld experts; dense llama models are supported", crn_gguf_what(f), (long long)experts);
  CRN_TRY(read_head_sizes(f, c));
  CRN_TRY(read_rope(f, c));
  CRN_TRY(read_number(f, "attention.layer_norm_rms_epsilon", true, &c->norm_epsilon));
  CRN_TRY(read_number(f, "attention.scale", false, &c->attention_scale));
  return read_size(f, "attention.sliding_window", 0, &c->window);
}
