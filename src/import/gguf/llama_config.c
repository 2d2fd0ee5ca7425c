#include "import/gguf/llama_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/gguf/private.h"

// No real model comes near; products of two such sizes stay far from overflow.
enum { MAX_SIZE = 1 << 30 };

// Files of architecture llama have the rows of queries and keys in an order of their own, so that rope rotates neighbours; the others
// rotate halves.
typedef struct family {
  const char *name;
  bool rotates_neighbours, has_head_norms;
} family;

static const family families[] = {
    {"llama", true, false},
    {"qwen2", false, false},
    {"qwen3", false, true},
    {"qwen3moe", false, true},
};

enum { N_FAMILIES = sizeof families / sizeof *families };

static const family *find_family(const char *architecture) {
  for (size_t i = 0; i < N_FAMILIES; i++) {
    if (!strcmp(families[i].name, architecture)) return &families[i];
  }
  return NULL;
}

bool crn_llama_knows(const char *architecture) { return find_family(architecture) != NULL; }

typedef struct reader {
  const crn_gguf *file;
  const char *architecture;
  char key[128];  // last one looked up
} reader;

static const char *key_of(reader *r, const char *name) {
  snprintf(r->key, sizeof r->key, "%s.%s", r->architecture, name);
  return r->key;
}

// A size of at least `least`; absent keys keep the value of `*out`, which 0 marks as required.
static cairn_status read_size(reader *r, const char *name, int64_t least, int64_t *out) {
  CRN_TRY(crn_gguf_get_int(r->file, key_of(r, name), *out == 0 && least > 0, out));
  if (*out < least || *out > MAX_SIZE) {
    return CRN_FAIL(CORRUPT, "%s: %s is %lld, it must be %lld to %d", crn_gguf_what(r->file), r->key, (long long)*out, (long long)least,
                    MAX_SIZE);
  }
  return CAIRN_OK;
}

// Some files list the heads of each layer. One program has one cache shape, so they must agree.
static cairn_status read_heads(reader *r, const char *name, int64_t *out) {
  const crn_gguf_value *v = crn_gguf_find(r->file, key_of(r, name));
  if (!v || v->kind != CRN_GGUF_ARRAY) return read_size(r, name, 1, out);
  bool is_int = v->array.kind == CRN_GGUF_INT32 || v->array.kind == CRN_GGUF_UINT32;
  if (!is_int || v->array.n == 0)
    return CRN_FAIL(CORRUPT, "%s: %s must be an integer or a list of 32-bit integers", crn_gguf_what(r->file), r->key);
  const unsigned char *at = v->array.data;
  uint32_t first = 0;
  for (size_t i = 0; i < v->array.n; i++, at += 4) {
    uint32_t item = (uint32_t)crn_gguf_load(at, 4);
    if (i == 0) first = item;
    if (item != first) return CRN_FAIL(UNSUPPORTED, "%s: %s differs between layers", crn_gguf_what(r->file), r->key);
  }
  *out = first;
  if (*out < 1 || *out > MAX_SIZE) return CRN_FAIL(CORRUPT, "%s: %s is %u", crn_gguf_what(r->file), r->key, first);
  return CAIRN_OK;
}

static cairn_status read_number(reader *r, const char *name, bool required, double *out) {
  CRN_TRY(crn_gguf_get_float(r->file, key_of(r, name), required, out));
  if (!isfinite(*out) || *out < 0) return CRN_FAIL(CORRUPT, "%s: %s must be a finite number of at least 0", crn_gguf_what(r->file), r->key);
  return CAIRN_OK;
}

static bool is_text(crn_gguf_string s, const char *text) { return s.bytes == strlen(text) && !memcmp(s.data, text, s.bytes); }

static cairn_status read_rope_scaling(reader *r, crn_llama_config *c) {
  crn_gguf_string type = {"linear", 6};
  double factor = 0;
  CRN_TRY(crn_gguf_get_string(r->file, key_of(r, "rope.scaling.type"), false, &type));
  CRN_TRY(read_number(r, "rope.scale_linear", false, &factor));
  CRN_TRY(read_number(r, "rope.scaling.factor", false, &factor));
  c->rope_scale = 1;
  if (is_text(type, "none")) return CAIRN_OK;
  if (!is_text(type, "linear")) {
    return CRN_FAIL(UNSUPPORTED, "%s: rope scaling '" CRN_GGUF_TEXT "'; 'none', 'linear' and a rope_freqs tensor are supported",
                    crn_gguf_what(r->file), CRN_GGUF_ARGS(type));
  }
  if (factor > 0) c->rope_scale = 1 / factor;
  return CAIRN_OK;
}

static cairn_status read_rope(reader *r, crn_llama_config *c) {
  c->rope_dims = c->head_dim;
  CRN_TRY(read_size(r, "rope.dimension_count", 1, &c->rope_dims));
  if (c->rope_dims % 2 || c->rope_dims > c->head_dim) {
    return CRN_FAIL(CORRUPT, "%s: %s is %lld, it must be even and at most %lld", crn_gguf_what(r->file), r->key, (long long)c->rope_dims,
                    (long long)c->head_dim);
  }
  c->rope_base = 10000;
  CRN_TRY(read_number(r, "rope.freq_base", false, &c->rope_base));
  if (c->rope_base <= 0) return CRN_FAIL(CORRUPT, "%s: %s must be positive", crn_gguf_what(r->file), r->key);
  return read_rope_scaling(r, c);
}

static cairn_status read_head_sizes(reader *r, crn_llama_config *c) {
  CRN_TRY(read_heads(r, "attention.head_count", &c->heads));
  c->kv_heads = c->heads;
  CRN_TRY(read_heads(r, "attention.head_count_kv", &c->kv_heads));
  if (c->heads % c->kv_heads) {
    return CRN_FAIL(CORRUPT, "%s: %lld heads cannot share %lld key and value heads", crn_gguf_what(r->file), (long long)c->heads,
                    (long long)c->kv_heads);
  }
  // Without explicit sizes the heads share the hidden size evenly; 0 makes the key required otherwise.
  c->head_dim = c->hidden % c->heads ? 0 : c->hidden / c->heads;
  CRN_TRY(read_size(r, "attention.key_length", 1, &c->head_dim));
  // Queries, keys and values may be one matrix.
  if ((c->heads + 2 * c->kv_heads) * c->head_dim > MAX_SIZE)
    return CRN_FAIL(CORRUPT, "%s: %lld heads of %lld elements", crn_gguf_what(r->file), (long long)c->heads, (long long)c->head_dim);
  int64_t value_dim = c->head_dim;
  CRN_TRY(read_size(r, "attention.value_length", 1, &value_dim));
  if (value_dim != c->head_dim) {
    return CRN_FAIL(UNSUPPORTED, "%s: keys of %lld and values of %lld elements; equal sizes are supported", crn_gguf_what(r->file),
                    (long long)c->head_dim, (long long)value_dim);
  }
  return CAIRN_OK;
}

static cairn_status read_experts(reader *r, crn_llama_config *c) {
  enum { SOFTMAX = 1, MAX_EXPERTS = 65536 };
  int64_t gating = SOFTMAX;
  double scale = 1;
  CRN_TRY(read_size(r, "expert_count", 0, &c->experts));
  if (c->experts == 0) return CAIRN_OK;
  // Their indices are 16-bit numbers in the program, as in genuine assets.
  if (c->experts > MAX_EXPERTS)
    return CRN_FAIL(UNSUPPORTED, "%s: %lld experts; up to %d are supported", crn_gguf_what(r->file), (long long)c->experts, MAX_EXPERTS);
  CRN_TRY(read_size(r, "expert_used_count", 1, &c->chosen_experts));
  if (c->chosen_experts > c->experts) {
    return CRN_FAIL(CORRUPT, "%s: %s is %lld of %lld experts", crn_gguf_what(r->file), r->key, (long long)c->chosen_experts,
                    (long long)c->experts);
  }
  CRN_TRY(crn_gguf_get_int(r->file, key_of(r, "expert_gating_func"), false, &gating));
  if (gating != SOFTMAX)
    return CRN_FAIL(UNSUPPORTED, "%s: %s is %lld; 1 (softmax) is supported", crn_gguf_what(r->file), r->key, (long long)gating);
  CRN_TRY(read_number(r, "expert_weights_scale", false, &scale));
  if (scale != 0 && scale != 1) return CRN_FAIL(UNSUPPORTED, "%s: %s is %g; 1 is supported", crn_gguf_what(r->file), r->key, scale);
  c->normalizes_chosen = true;
  return crn_gguf_get_bool(r->file, key_of(r, "expert_weights_norm"), false, &c->normalizes_chosen);
}

cairn_status crn_llama_config_read(const crn_gguf *f, const char *architecture, crn_llama_config *c) {
  const family *of = find_family(architecture);
  reader r = {.file = f, .architecture = architecture};
  if (!of)
    return CRN_FAIL(UNSUPPORTED, "%s: architecture '%s'; llama, qwen2, qwen3 and qwen3moe are supported", crn_gguf_what(f), architecture);
  *c = (crn_llama_config){.rotates_neighbours = of->rotates_neighbours, .has_head_norms = of->has_head_norms};
  CRN_TRY(read_size(&r, "block_count", 1, &c->n_layers));
  CRN_TRY(read_size(&r, "embedding_length", 1, &c->hidden));
  CRN_TRY(read_size(&r, "context_length", 1, &c->context_length));
  CRN_TRY(read_experts(&r, c));
  CRN_TRY(read_head_sizes(&r, c));
  CRN_TRY(read_rope(&r, c));
  CRN_TRY(read_number(&r, "attention.layer_norm_rms_epsilon", true, &c->norm_epsilon));
  CRN_TRY(read_number(&r, "attention.scale", false, &c->attention_scale));
  return read_size(&r, "attention.sliding_window", 0, &c->window);
}
