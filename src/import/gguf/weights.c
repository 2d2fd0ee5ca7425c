#include "import/gguf/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "import/gguf/private.h"
#include "import/gguf/unpack.h"

cairn_status crn_gguf_weights_create(const cairn_allocator *allocator, crn_gguf *file, crn_pool *pool, crn_gguf_weights **out_weights) {
  crn_gguf_weights *w;
  *out_weights = NULL;
  cairn_status status = crn_alloc_zero(allocator, sizeof *w, &w);
  if (status != CAIRN_OK) {
    crn_gguf_close(file);
    return status;
  }
  w->allocator = allocator;
  w->file = file;
  w->pool = pool;
  status = crn_alloc_array(allocator, crn_gguf_tensor_count(file), sizeof *w->is_used, &w->is_used);
  if (status != CAIRN_OK) {
    crn_gguf_weights_destroy(w);
    return status;
  }
  *out_weights = w;
  return CAIRN_OK;
}

void crn_gguf_weights_destroy(void *weights) {
  crn_gguf_weights *w = weights;
  if (!w) return;
  for (size_t i = 0; i < w->blocks.size; i++) crn_free(w->allocator, w->blocks.items[i].data, w->blocks.items[i].bytes);
  crn_vec_free(w->allocator, &w->blocks);
  crn_free(w->allocator, w->is_used, crn_gguf_tensor_count(w->file) * sizeof *w->is_used);
  crn_gguf_close(w->file);
  crn_free(w->allocator, w, sizeof *w);
}

cairn_status crn_gguf_weights_alloc(crn_gguf_weights *w, size_t bytes, void *out_pointer) {
  CRN_TRY(crn_vec_reserve(w->allocator, &w->blocks, 1));
  CRN_TRY(crn_alloc(w->allocator, bytes, out_pointer));
  w->blocks.items[w->blocks.size++] = (crn_gguf_block){*(void **)out_pointer, bytes};
  return CAIRN_OK;
}

const crn_gguf_tensor *crn_gguf_weights_find(crn_gguf_weights *w, const char *fmt, ...) {
  char name[96];
  va_list args;
  va_start(args, fmt);
  vsnprintf(name, sizeof name, fmt, args);
  va_end(args);
  const crn_gguf_tensor *t = crn_gguf_find_tensor(w->file, name);
  if (t) w->is_used[t - crn_gguf_tensor_at(w->file, 0)] = true;
  return t;
}

cairn_status crn_gguf_weights_check_used(const crn_gguf_weights *w) {
  for (size_t i = 0; i < crn_gguf_tensor_count(w->file); i++) {
    if (w->is_used[i]) continue;
    const crn_gguf_tensor *t = crn_gguf_tensor_at(w->file, i);
    return CRN_FAIL(UNSUPPORTED, "%s: tensor '" CRN_GGUF_TEXT "' belongs to no part of the model that is supported", crn_gguf_what(w->file),
                    CRN_GGUF_ARGS(t->name));
  }
  return CAIRN_OK;
}

crn_value *crn_gguf_builder_fail(crn_builder *b, cairn_status status) {
  if (b->status == CAIRN_OK && status != CAIRN_OK) {
    b->status = status;
    cairn_last_error_text(b->message, sizeof b->message);
  }
  return NULL;
}

static cairn_dtype plain_dtype(const crn_gguf_tensor *t) {
  switch (t->type->id) {
    case CRN_GGUF_F32:
      return CAIRN_F32;
    case CRN_GGUF_F16:
      return CAIRN_F16;
    case CRN_GGUF_BF16:
      return CAIRN_BF16;
    default:
      return CAIRN_DTYPE_NONE;
  }
}

bool crn_gguf_is_plain(const crn_gguf_tensor *t) { return plain_dtype(t) != CAIRN_DTYPE_NONE; }

// The format lists dims fastest first, a tensor has them slowest first.
static crn_tensor shape_of(const crn_gguf_tensor *t, cairn_dtype dtype, void *data) {
  int64_t dims[CRN_GGUF_MAX_DIMS];
  for (int i = 0; i < t->n_dims; i++) dims[i] = t->dims[t->n_dims - 1 - i];
  return crn_tensor_make(dtype, dims, t->n_dims, data);
}

// Adds a constant named after the tensor, with a suffix for the parts of a quantized one.
static crn_value *add_constant(crn_builder *b, const crn_gguf_tensor *t, const char *suffix, const crn_tensor *tensor, size_t bytes) {
  char name[128];
  snprintf(name, sizeof name, CRN_GGUF_TEXT "%s", CRN_GGUF_ARGS(t->name), suffix);
  return crn_build_constant(b, name, tensor, bytes);
}

crn_value *crn_gguf_build_plain(crn_builder *b, crn_gguf_weights *w, const crn_gguf_tensor *t) {
  cairn_dtype dtype = plain_dtype(t);
  void *data = (void *)t->data;
  // A file in memory may start at any address; a mapped one is aligned by the checks of the reader.
  if ((uintptr_t)data % cairn_dtype_bytes(dtype) && t->bytes) {
    cairn_status status = crn_gguf_weights_alloc(w, t->bytes, &data);
    if (status != CAIRN_OK) return crn_gguf_builder_fail(b, status);
    memcpy(data, t->data, t->bytes);
  }
  crn_tensor tensor = shape_of(t, dtype, data);
  return add_constant(b, t, "", &tensor, t->bytes);
}

// --- quantized tensors ------------------------------------------------------------------------------------------------

typedef struct unpack_job {
  const crn_gguf_unpacking *how;
  const unsigned char *source;
  size_t source_bytes, element_bytes;  // of one block
  unsigned char *elements;
  float *scales, *shifts;  // shifts may be NULL
} unpack_job;

static void unpack_range(void *user, int64_t begin, int64_t end, int worker) {
  const unpack_job *j = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    float shift = 0;
    j->how->unpack(j->source + (size_t)i * j->source_bytes, j->elements + (size_t)i * j->element_bytes, &j->scales[i], &shift);
    if (j->shifts) j->shifts[i] = shift;
  }
}

static cairn_status unpack_tensor(crn_gguf_weights *w, const crn_gguf_tensor *t, const crn_gguf_unpacking *how, unpack_job *j) {
  enum { GRAIN = 4096 };
  size_t n = t->bytes / t->type->bytes;
  *j = (unpack_job){.how = how, .source = t->data, .source_bytes = t->type->bytes};
  j->element_bytes = t->type->block * (size_t)crn_dtype_bits(how->dtype) / 8;
  // Elements and scales of a block never take more than twice the bytes it has in the file, so nothing can overflow.
  CRN_TRY(crn_gguf_weights_alloc(w, n * j->element_bytes, &j->elements));
  CRN_TRY(crn_gguf_weights_alloc(w, n * sizeof(float), &j->scales));
  if (how->has_shift) CRN_TRY(crn_gguf_weights_alloc(w, n * sizeof(float), &j->shifts));
  crn_pool_run(w->pool, (int64_t)n, GRAIN, unpack_range, j);
  return CAIRN_OK;
}

// A zero repeated over the shape of the scales.
static crn_value *add_zeros(crn_builder *b, const crn_gguf_tensor *t, const char *suffix, cairn_dtype dtype, const crn_tensor *like) {
  static const _Alignas(8) unsigned char zero[8];
  crn_tensor tensor = *like;
  tensor.dtype = dtype;
  tensor.data = (void *)zero;
  for (int i = 0; i < tensor.rank; i++) tensor.strides[i] = 0;
  return add_constant(b, t, suffix, &tensor, cairn_dtype_bytes(dtype));
}

static crn_value *build_quantized(crn_builder *b, crn_gguf_weights *w, const crn_gguf_tensor *t) {
  const crn_gguf_unpacking *how = crn_gguf_unpacking_of(t->type->id);
  if (!how) {
    return crn_gguf_builder_fail(
        b, CRN_FAIL(UNSUPPORTED, "%s: tensor '" CRN_GGUF_TEXT "' has type %s; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are supported",
                    crn_gguf_what(w->file), CRN_GGUF_ARGS(t->name), t->type->name));
  }
  unpack_job j;
  cairn_status status = unpack_tensor(w, t, how, &j);
  if (status != CAIRN_OK) return crn_gguf_builder_fail(b, status);
  size_t n = t->bytes / t->type->bytes;
  crn_tensor data = shape_of(t, how->dtype, j.elements), scale = data;
  data.packed = crn_dtype_bits(how->dtype) < 8;
  scale.dims[scale.rank - 1] /= t->type->block;
  scale = crn_tensor_make(CAIRN_F32, scale.dims, scale.rank, j.scales);
  crn_tensor shift = scale;
  shift.data = j.shifts;
  crn_value *operands[4];
  operands[0] = add_constant(b, t, "", &data, n * j.element_bytes);
  operands[1] = add_constant(b, t, ".scale", &scale, n * sizeof(float));
  operands[2] = add_zeros(b, t, ".zero", how->dtype, &scale);
  operands[3] = j.shifts ? add_constant(b, t, ".shift", &shift, n * sizeof(float)) : add_zeros(b, t, ".shift", CAIRN_F32, &scale);
  return crn_build_op(b, CRN_OP_blockwise_shift_scale, operands, 4, CAIRN_F32, 0);
}

crn_value *crn_gguf_build_f32(crn_builder *b, crn_gguf_weights *w, const crn_gguf_tensor *t) {
  if (b->status != CAIRN_OK) return NULL;
  if (!crn_gguf_is_plain(t)) return build_quantized(b, w, t);
  crn_value *v = crn_gguf_build_plain(b, w, t);
  return plain_dtype(t) == CAIRN_F32 ? v : crn_build_cast(b, v, CAIRN_F32);
}
