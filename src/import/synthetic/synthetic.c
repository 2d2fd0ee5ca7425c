#include "import/synthetic/synthetic.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/str.h"
#include "base/vec.h"
#include "import/gguf/gguf.h"
#include "import/gguf/import.h"
#include "tensor/half.h"

// --- shapes -----------------------------------------------------------------------------------------------------------------

typedef struct shape {
  const char *name, *architecture;
  int64_t layers, width, inner, heads, kv_heads, head_dim, vocab;
  float rope_base;
  int64_t experts, chosen, expert_inner;  ///< 0 = dense
} shape;

// The real ones all read the embedding backwards for the output. The tiny ones are for tests.
static const shape shapes[] = {
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 1e6f, 0, 0, 0},
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 5e5f, 0, 0, 0},
    {"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 1e6f, 0, 0, 0},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 1e5f, 0, 0, 0},
    {"moe-32x4", "qwen3moe", 24, 1024, 2048, 16, 8, 128, 151936, 1e6f, 32, 4, 1024},
    {"tiny", "qwen3", 2, 64, 96, 4, 2, 16, 320, 1e6f, 0, 0, 0},
    {"tiny-moe", "qwen3moe", 2, 64, 96, 4, 2, 16, 320, 1e6f, 8, 2, 32},
};

typedef struct storage {
  const char *name;
  uint32_t type, file_type;  ///< numbers of the format
} storage;

static const storage storages[] = {{"q4", CRN_GGUF_Q4_0, 2}, {"q8", CRN_GGUF_Q8_0, 7}, {"f16", CRN_GGUF_F16, 1}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool crn_synthetic_is(const char *path) { return !strncmp(path, CRN_SYNTHETIC_PREFIX, sizeof CRN_SYNTHETIC_PREFIX - 1); }

static bool is_name(const char *name, const char *text, size_t n) { return strlen(name) == n && !memcmp(name, text, n); }

static cairn_status find(const char *path, const shape **out_shape, const storage **out_storage) {
  const char *name = path + sizeof CRN_SYNTHETIC_PREFIX - 1, *type = strchr(name, ':');
  size_t n = type ? (size_t)(type - name) : strlen(name);
  type = type ? type + 1 : "q4";
  *out_shape = NULL;
  *out_storage = NULL;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    if (is_name(shapes[i].name, name, n)) *out_shape = &shapes[i];
  }
  for (size_t i = 0; i < COUNT(storages); i++) {
    if (is_name(storages[i].name, type, strlen(type))) *out_storage = &storages[i];
  }
  if (*out_shape && *out_storage) return CAIRN_OK;
  return CRN_FAIL(NOT_FOUND,
                  "'%s': no such synthetic model; a name is " CRN_SYNTHETIC_PREFIX "SHAPE[:TYPE] with a shape of " CRN_SYNTHETIC_SHAPES
                  " and a type of " CRN_SYNTHETIC_TYPES,
                  path);
}

// --- tensors ----------------------------------------------------------------------------------------------------------------

enum { ALIGNMENT = 32, BLOCK = 32, MAX_NAME = 48 };

typedef struct tensor {
  char name[MAX_NAME];
  uint32_t type;
  int n_dims;
  int64_t dims[3];  ///< fastest first
  bool is_ones;
  size_t offset, bytes;
} tensor;

typedef struct image {
  const cairn_allocator *allocator;
  const shape *shape;
  const storage *storage;
  CRN_VEC(tensor) tensors;
  size_t data_bytes;
  crn_str head;
  cairn_status status;  ///< the first failure
} image;

static size_t bytes_of(uint32_t type, int64_t n) {
  const crn_gguf_type *t = crn_gguf_type_of(type);
  return (size_t)n / t->block * t->bytes;
}

static void add(image *m, const char *name, uint32_t type, bool is_ones, int n_dims, int64_t x, int64_t y, int64_t z) {
  if (m->status == CAIRN_OK) m->status = crn_vec_reserve(m->allocator, &m->tensors, 1);
  if (m->status != CAIRN_OK) return;
  tensor *t = &m->tensors.items[m->tensors.size++];
  *t = (tensor){.type = type, .n_dims = n_dims, .dims = {x, y, z}, .is_ones = is_ones, .offset = m->data_bytes};
  snprintf(t->name, sizeof t->name, "%s.weight", name);
  t->bytes = bytes_of(type, x * y * z);
  m->data_bytes += (t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void add_matrix(image *m, const char *name, int64_t rows, int64_t columns) {
  add(m, name, m->storage->type, false, 2, columns, rows, 1);
}

static void add_ones(image *m, const char *name, int64_t n) { add(m, name, CRN_GGUF_F32, true, 1, n, 1, 1); }

#define NAMED(name, layer, part) snprintf(name, sizeof name, "blk.%d.%s", (int)(layer), part)

static void add_attention(image *m, int64_t layer) {
  const shape *s = m->shape;
  char name[32];
  bool has_head_norms = s->architecture[0] == 'q';
  NAMED(name, layer, "attn_q"), add_matrix(m, name, s->heads * s->head_dim, s->width);
  NAMED(name, layer, "attn_k"), add_matrix(m, name, s->kv_heads * s->head_dim, s->width);
  NAMED(name, layer, "attn_v"), add_matrix(m, name, s->kv_heads * s->head_dim, s->width);
  NAMED(name, layer, "attn_output"), add_matrix(m, name, s->width, s->heads * s->head_dim);
  if (has_head_norms) NAMED(name, layer, "attn_q_norm"), add_ones(m, name, s->head_dim);
  if (has_head_norms) NAMED(name, layer, "attn_k_norm"), add_ones(m, name, s->head_dim);
}

static void add_feed_forward(image *m, int64_t layer) {
  static const char *const parts[] = {"ffn_gate", "ffn_up", "ffn_down"}, *const stacks[] = {"ffn_gate_exps", "ffn_up_exps",
                                                                                            "ffn_down_exps"};
  const shape *s = m->shape;
  int64_t inner = s->experts ? s->expert_inner : s->inner;
  char name[32];
  if (s->experts) NAMED(name, layer, "ffn_gate_inp"), add(m, name, CRN_GGUF_F32, false, 2, s->width, s->experts, 1);
  for (int i = 0; i < 3; i++) {
    int64_t rows = i == 2 ? s->width : inner, columns = i == 2 ? inner : s->width;
    NAMED(name, layer, s->experts ? stacks[i] : parts[i]);
    add(m, name, m->storage->type, false, s->experts ? 3 : 2, columns, rows, s->experts ? s->experts : 1);
  }
}

static void add_tensors(image *m) {
  char name[32];
  add_matrix(m, "token_embd", m->shape->vocab, m->shape->width);
  add_ones(m, "output_norm", m->shape->width);
  for (int64_t i = 0; i < m->shape->layers; i++) {
    NAMED(name, i, "attn_norm"), add_ones(m, name, m->shape->width);
    NAMED(name, i, "ffn_norm"), add_ones(m, name, m->shape->width);
    add_attention(m, i);
    add_feed_forward(m, i);
  }
}

// --- the head of the file ---------------------------------------------------------------------------------------------------

// Numbers are little-endian in the file, whatever the machine.
static void put_number(image *m, uint64_t value, size_t bytes) {
  char text[8];
  for (size_t i = 0; i < bytes; i++) text[i] = (char)(value >> 8 * i & 0xff);
  if (m->status == CAIRN_OK) m->status = crn_str_append(&m->head, text, bytes);
}

static void put_text(image *m, const char *text) {
  put_number(m, strlen(text), 8);
  if (m->status == CAIRN_OK) m->status = crn_str_append(&m->head, text, strlen(text));
}

typedef struct counter {
  uint64_t n;
} counter;

static void put_key(image *m, counter *c, const char *group, const char *key, crn_gguf_kind kind) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", group, key);
  put_text(m, name);
  put_number(m, kind, 4);
  c->n++;
}

static void put_size(image *m, counter *c, const char *key, int64_t value) {
  put_key(m, c, m->shape->architecture, key, CRN_GGUF_UINT32);
  put_number(m, (uint64_t)value, 4);
}

static void put_float(image *m, counter *c, const char *key, float value) {
  put_key(m, c, m->shape->architecture, key, CRN_GGUF_FLOAT32);
  put_number(m, crn_f32_bits(value), 4);
}

static void put_string(image *m, counter *c, const char *group, const char *key, const char *value) {
  put_key(m, c, group, key, CRN_GGUF_STRING);
  put_text(m, value);
}

static void put_pairs(image *m, counter *c) {
  const shape *s = m->shape;
  char name[64];
  snprintf(name, sizeof name, "%s %s (random weights)", s->name, m->storage->name);
  put_string(m, c, "general", "architecture", s->architecture);
  put_string(m, c, "general", "name", name);
  put_key(m, c, "general", "file_type", CRN_GGUF_UINT32);
  put_number(m, m->storage->file_type, 4);
  put_size(m, c, "block_count", s->layers);
  put_size(m, c, "context_length", 32768);
  put_size(m, c, "embedding_length", s->width);
  put_size(m, c, "feed_forward_length", s->inner);
  put_size(m, c, "attention.head_count", s->heads);
  put_size(m, c, "attention.head_count_kv", s->kv_heads);
  put_size(m, c, "attention.key_length", s->head_dim);
  put_size(m, c, "attention.value_length", s->head_dim);
  put_size(m, c, "rope.dimension_count", s->head_dim);
  put_float(m, c, "rope.freq_base", s->rope_base);
  put_float(m, c, "attention.layer_norm_rms_epsilon", 1e-6f);
  put_size(m, c, "vocab_size", s->vocab);
  if (s->experts) {
    put_size(m, c, "expert_count", s->experts);
    put_size(m, c, "expert_used_count", s->chosen);
    put_size(m, c, "expert_feed_forward_length", s->expert_inner);
  }
  put_string(m, c, "tokenizer.ggml", "model", "none");
}

static cairn_status put_head(image *m) {
  enum { COUNT_AT = 16 };
  counter pairs = {0};
  if (m->status == CAIRN_OK) m->status = crn_str_append(&m->head, "GGUF", 4);
  put_number(m, 3, 4);
  put_number(m, m->tensors.size, 8);
  put_number(m, 0, 8);
  put_pairs(m, &pairs);
  for (size_t i = 0; i < m->tensors.size; i++) {
    const tensor *t = &m->tensors.items[i];
    put_text(m, t->name);
    put_number(m, (uint64_t)t->n_dims, 4);
    for (int d = 0; d < t->n_dims; d++) put_number(m, (uint64_t)t->dims[d], 8);
    put_number(m, t->type, 4);
    put_number(m, t->offset, 8);
  }
  while (m->status == CAIRN_OK && m->head.size % ALIGNMENT) m->status = crn_str_putc(&m->head, 0);
  for (size_t i = 0; m->status == CAIRN_OK && i < 8; i++) m->head.data[COUNT_AT + i] = (char)(pairs.n >> 8 * i & 0xff);
  return m->status;
}

// --- values -----------------------------------------------------------------------------------------------------------------

static uint64_t draw(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static void store(unsigned char *at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

// A uniform number with the spread that trained matrices have.
static float spread(uint64_t bits) { return ((float)(bits & 0xffff) / 65535 - 0.5f) * 0.069f; }

// Codes of 4 bits have a spread of 4.6, those of 8 one of 74: the scale brings both to 0.02, give or take a fifth.
static void fill_block(uint32_t type, uint64_t *state, unsigned char *at) {
  if (type == CRN_GGUF_F16 || type == CRN_GGUF_F32) {
    for (int i = 0; i < BLOCK; i++) {
      float v = spread(draw(state));
      if (type == CRN_GGUF_F16) store(at + 2 * i, crn_f16_from_f32(v), 2);
      if (type == CRN_GGUF_F32) store(at + 4 * i, crn_f32_bits(v), 4);
    }
    return;
  }
  size_t codes = type == CRN_GGUF_Q4_0 ? 16 : 32;
  float scale = 0.02f / (type == CRN_GGUF_Q4_0 ? 4.6f : 74);
  scale *= 0.8f + 0.4f * (float)(draw(state) & 0xffff) / 65535;
  store(at, crn_f16_from_f32(scale), 2);
  for (size_t i = 0; i < codes; i += 8) store(at + 2 + i, draw(state), 8);
}

typedef struct fill_job {
  const tensor *t;
  uint64_t seed;
  size_t block_bytes;
  unsigned char *data;
} fill_job;

// Every block has a seed of its own, so that the bytes do not depend on how the work is split.
static void fill_range(void *user, int64_t begin, int64_t end, int worker) {
  const fill_job *j = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    uint64_t state = (j->seed << 40) + (uint64_t)i * 64;
    state = draw(&state);
    fill_block(j->t->type, &state, j->data + (size_t)i * j->block_bytes);
  }
}

static void fill(const image *m, crn_pool *pool, unsigned char *data) {
  for (size_t i = 0; i < m->tensors.size; i++) {
    const tensor *t = &m->tensors.items[i];
    int64_t n = t->dims[0] * t->dims[1] * t->dims[2];
    if (t->is_ones) {
      for (int64_t k = 0; k < n; k++) store(data + t->offset + 4 * k, crn_f32_bits(1), 4);
      continue;
    }
    fill_job j = {t, i + 1, bytes_of(t->type, BLOCK), data + t->offset};
    crn_pool_run(pool, n / BLOCK, 4096, fill_range, &j);
  }
}

// --- the whole --------------------------------------------------------------------------------------------------------------

static cairn_status make(image *m, crn_pool *pool, crn_memory_region *region, const void **out_data, size_t *out_bytes) {
  unsigned char *data;
  add_tensors(m);
  CRN_TRY(put_head(m));
  *out_bytes = m->head.size + m->data_bytes;
  CRN_TRY(crn_memory_region_take(region, *out_bytes, &data));
  memcpy(data, m->head.data, m->head.size);
  fill(m, pool, data + m->head.size);
  *out_data = data;
  return CAIRN_OK;
}

cairn_status crn_synthetic_make(const cairn_allocator *allocator, crn_pool *pool, const char *path, crn_memory_region *region,
                                const void **out_data, size_t *out_bytes) {
  image m = {.allocator = allocator ? allocator : crn_default_allocator()};
  CRN_TRY(find(path, &m.shape, &m.storage));
  crn_str_initialize(&m.head, m.allocator);
  cairn_status status = make(&m, pool, region, out_data, out_bytes);
  crn_str_deinitialize(&m.head);
  crn_vec_free(m.allocator, &m.tensors);
  return status;
}

// What a program keeps of a synthetic model.
typedef struct kept_region {
  const cairn_allocator *allocator;
  crn_memory_region region;
} kept_region;

static void release(void *object) {
  kept_region *k = object;
  crn_memory_region_release(&k->region);
  crn_free(k->allocator, k, sizeof *k);
}

cairn_status crn_synthetic_import(cairn_context *context, const char *path, crn_imported_model *model) {
  const void *data = NULL;
  size_t bytes = 0;
  kept_region *k;
  crn_imported_model_initialize(model, context);
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *k, &k));
  k->allocator = &context->allocator;
  cairn_status status = crn_synthetic_make(&context->allocator, context->pool, path, &k->region, &data, &bytes);
  if (status == CAIRN_OK) {
    crn_imported_model_destroy(model);
    status = crn_gguf_import_memory(context, data, bytes, path, model);
  }
  if (status == CAIRN_OK) status = crn_program_keep(model->program, release, k);
  if (status == CAIRN_OK) return CAIRN_OK;
  crn_imported_model_destroy(model);
  release(k);
  return status;
}
