#include "import/gguf/llama_parts.h"

#include <math.h>
#include <stdio.h>

#include "import/gguf/private.h"

// --- weights ------------------------------------------------------------------------------------------------------------

static cairn_status check_shape(const crn_llama *m, const crn_gguf_tensor *t, int64_t stack, int64_t rows, int64_t columns) {
  int least = stack > 1 ? 3 : rows == 1 ? 1 : 2;
  if (t->dims[0] == columns && t->dims[1] == rows && t->dims[2] == stack && t->dims[3] == 1 && t->n_dims >= least) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s: tensor '" CRN_GGUF_TEXT "' has dims [%lld, %lld, %lld, %lld], [%lld, %lld, %lld] is needed",
                  crn_gguf_what(m->w->file), CRN_GGUF_ARGS(t->name), (long long)t->dims[0], (long long)t->dims[1], (long long)t->dims[2],
                  (long long)t->dims[3], (long long)columns, (long long)rows, (long long)stack);
}

const crn_gguf_tensor *crn_llama_find(crn_llama *m, const char *prefix, const char *suffix, bool required, int64_t stack, int64_t rows,
                                      int64_t columns) {
  if (m->b.status != CAIRN_OK) return NULL;
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "%s.%s", prefix, suffix);
  cairn_status status = CAIRN_OK;
  if (t) {
    status = check_shape(m, t, stack, rows, columns);
  } else if (required) {
    status = CRN_FAIL(CORRUPT, "%s: tensor '%s.%s' is missing", crn_gguf_what(m->w->file), prefix, suffix);
  }
  crn_gguf_builder_fail(&m->b, status);
  return status == CAIRN_OK ? t : NULL;
}

crn_value *crn_llama_vector(crn_llama *m, const char *prefix, const char *suffix, bool required, int64_t n) {
  static const int64_t once = 1;
  const crn_gguf_tensor *t = crn_llama_find(m, prefix, suffix, required, 1, 1, n);
  char name[96];
  if (!t) return NULL;
  snprintf(name, sizeof name, "%s.%s", prefix, suffix);
  crn_tensor shape = crn_tensor_make(m->compute, &n, 1, NULL);
  return crn_gguf_build_vector(&m->b, m->w, name, &t, &once, 1, &shape);
}

crn_value *crn_llama_multiply(crn_llama *m, crn_value *x, crn_value *weight) {
  static const uint32_t swap[] = {1, 0};
  return crn_build_binary(&m->b, CRN_OP_broadcasting_batch_matmul, x, crn_build_transpose(&m->b, weight, swap, 2));
}

crn_value *crn_llama_cast(crn_llama *m, crn_value *x, cairn_dtype dtype) {
  return !x || x->type->dtype == dtype ? x : crn_build_cast(&m->b, x, dtype);
}

crn_value *crn_llama_linear(crn_llama *m, crn_value *x, const char *prefix, int64_t rows, int64_t columns) {
  char name[96];
  const crn_gguf_tensor *t = crn_llama_find(m, prefix, "weight", true, 1, rows, columns);
  if (!t) return NULL;
  snprintf(name, sizeof name, "%s.weight", prefix);
  crn_value *y = crn_llama_multiply(m, x, crn_gguf_build_matrix(&m->b, m->w, name, &t, 1, m->compute));
  crn_value *bias = crn_llama_vector(m, prefix, "bias", false, rows);
  return bias ? crn_build_binary(&m->b, CRN_OP_broadcasting_add, y, bias) : y;
}

crn_value *crn_llama_i32(crn_llama *m, int64_t value) {
  int32_t v = (int32_t)value;
  return crn_build_i32(&m->b, &v, 1);
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

crn_value *crn_llama_rms_norm(crn_llama *m, crn_value *x, crn_value *scale) {
  static const char *const names[] = {"input", "scale"};
  crn_attr *attrs = crn_build_attrs(&m->b, 3);
  if (!attrs) return NULL;
  set_int(attrs, 0, "axes", CRN_ATTR_INT, -1);
  set_float(attrs, 1, "eps", m->c->norm_epsilon);
  set_int(attrs, 2, "version", CRN_ATTR_INT, 1);
  return crn_build_composite(&m->b, CRN_OP_rms_norm, names, (crn_value *[]){x, scale}, 2, attrs);
}

crn_value *crn_llama_rope(crn_llama *m, crn_value *x) {
  static const char *const names[] = {"input", "position_ids", "freqs"};
  bool is_partial = m->c->rope_dims < m->c->head_dim;
  crn_attr *attrs = crn_build_attrs(&m->b, is_partial ? 5 : 4);
  if (!attrs) return NULL;
  set_float(attrs, 0, "base", m->c->rope_base);
  set_int(attrs, 1, "interleaved", CRN_ATTR_BOOL, m->c->rotates_neighbours);
  set_float(attrs, 2, "scale", m->c->rope_scale);
  set_int(attrs, 3, "version", CRN_ATTR_INT, 1);
  if (is_partial) set_int(attrs, 4, "dims", CRN_ATTR_INT, m->c->rope_dims);
  return crn_build_composite(&m->b, CRN_OP_rope, names, (crn_value *[]){x, m->positions, m->frequencies}, m->frequencies ? 3 : 2, attrs);
}

crn_value *crn_llama_attention(crn_llama *m, crn_value *q, crn_value *k, crn_value *v) {
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

crn_value *crn_llama_gather_multiply(crn_llama *m, crn_value *lhs, crn_value *rhs, crn_value *indices) {
  static const char *const names[] = {"lhs", "rhs", "rhs_indices"};
  crn_attr *attrs = crn_build_attrs(&m->b, 2);
  if (!attrs) return NULL;
  set_int(attrs, 0, "num_batch_axes", CRN_ATTR_INT, 1);
  set_int(attrs, 1, "version", CRN_ATTR_INT, 1);
  return crn_build_composite(&m->b, CRN_OP_gather_mm, names, (crn_value *[]){lhs, rhs, indices}, 3, attrs);
}

// --- frequencies ------------------------------------------------------------------------------------------------------------

// The rope_freqs tensor of Llama 3 divides each frequency; the composite takes the finished frequencies.
static cairn_status make_frequencies(crn_llama *m, const crn_gguf_tensor *t, float **out_freqs) {
  int64_t n = m->c->rope_dims / 2;
  CRN_TRY(check_shape(m, t, 1, 1, n));
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

crn_value *crn_llama_frequencies(crn_llama *m) {
  const crn_gguf_tensor *t = crn_gguf_weights_find(m->w, "rope_freqs.weight");
  float *freqs;
  if (!t || m->b.status != CAIRN_OK) return NULL;
  cairn_status status = make_frequencies(m, t, &freqs);
  if (status != CAIRN_OK) return crn_gguf_builder_fail(&m->b, status);
  crn_tensor tensor = crn_tensor_make(CAIRN_F32, &t->dims[0], 1, freqs);
  return crn_build_constant(&m->b, "rope_freqs.weight", &tensor, (size_t)t->dims[0] * sizeof *freqs);
}
