#include "import/gguf/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "import/gguf/private.h"
#include "tensor/blocks.h"

cairn_status crn_gguf_weights_create(const cairn_allocator *allocator, crn_gguf *file, crn_gguf_weights **out_weights) {
  crn_gguf_weights *w;
  *out_weights = NULL;
  cairn_status status = crn_alloc_zero(allocator, sizeof *w, &w);
  if (status != CAIRN_OK) {
    crn_gguf_close(file);
    return status;
  }
  w->allocator = allocator;
  w->file = file;
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

// Adds a constant, with a suffix for the parts of a quantized one.
static crn_value *add_constant(crn_builder *b, const char *name, const char *suffix, const crn_tensor *tensor, size_t bytes) {
  char full[128];
  snprintf(full, sizeof full, "%s%s", name, suffix);
  return crn_build_constant(b, full, tensor, bytes);
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
  char name[128];
  snprintf(name, sizeof name, CRN_GGUF_TEXT, CRN_GGUF_ARGS(t->name));
  return add_constant(b, name, "", &tensor, t->bytes);
}

// --- vectors ----------------------------------------------------------------------------------------------------------

static cairn_status fill_vector(const crn_gguf_weights *w, const crn_gguf_tensor *t, int64_t repeat, cairn_dtype dtype,
                                unsigned char **at) {
  cairn_dtype stored = plain_dtype(t);
  if (stored == CAIRN_DTYPE_NONE) {
    return CRN_FAIL(UNSUPPORTED, "%s: tensor '" CRN_GGUF_TEXT "' has type %s; F32, F16 and BF16 are supported for vectors",
                    crn_gguf_what(w->file), CRN_GGUF_ARGS(t->name), t->type->name);
  }
  size_t from = cairn_dtype_bytes(stored), to = cairn_dtype_bytes(dtype);
  for (int64_t r = 0; r < repeat; r++) {
    for (size_t i = 0; i < t->bytes / from; i++, *at += to) {
      unsigned char value[8];
      memcpy(value, t->data + i * from, from);
      crn_store_f64(dtype, *at, crn_load_f64(stored, value));
    }
  }
  return CAIRN_OK;
}

crn_value *crn_gguf_build_vector(crn_builder *b, crn_gguf_weights *w, const char *name, const crn_gguf_tensor *const *tensors,
                                 const int64_t *repeats, int n, const crn_tensor *shape) {
  crn_tensor tensor = *shape;
  if (b->status != CAIRN_OK) return NULL;
  size_t bytes = (size_t)crn_tensor_count(shape) * cairn_dtype_bytes(shape->dtype);
  unsigned char *at;
  cairn_status status = crn_gguf_weights_alloc(w, bytes, &tensor.data);
  at = tensor.data;
  for (int i = 0; i < n && status == CAIRN_OK; i++) status = fill_vector(w, tensors[i], repeats[i], shape->dtype, &at);
  return status == CAIRN_OK ? add_constant(b, name, "", &tensor, bytes) : crn_gguf_builder_fail(b, status);
}

// --- quantized tensors ------------------------------------------------------------------------------------------------

// The format of the op that takes the blocks of a tensor apart, -1 when none does.
static int block_kind(const crn_gguf_tensor *t) {
  switch (t->type->id) {
    case CRN_GGUF_Q8_0:
      return CRN_BLOCKS_Q8_0;
    case CRN_GGUF_Q4_0:
      return CRN_BLOCKS_Q4_0;
    case CRN_GGUF_Q4_1:
      return CRN_BLOCKS_Q4_1;
    default:
      return -1;
  }
}

bool crn_gguf_can_join(const crn_gguf_tensor *const *tensors, int n) {
  if (!tensors[0] || block_kind(tensors[0]) < 0 || tensors[0]->n_dims != 2 || n > CRN_GGUF_MAX_JOINED) return false;
  for (int i = 1; i < n; i++) {
    if (!tensors[i] || tensors[i]->type != tensors[0]->type || tensors[i]->n_dims != 2 || tensors[i]->dims[0] != tensors[0]->dims[0])
      return false;
  }
  return true;
}

// The blocks stay where they are in the file: who packs the matrix reads them there.
static crn_value *build_quantized(crn_builder *b, crn_gguf_weights *w, const char *name, const crn_gguf_tensor *const *tensors, int n,
                                  cairn_dtype dtype) {
  crn_value *operands[CRN_GGUF_MAX_JOINED];
  int kind = block_kind(tensors[0]);
  if (kind < 0 || n > CRN_GGUF_MAX_JOINED) {
    return crn_gguf_builder_fail(
        b, CRN_FAIL(UNSUPPORTED, "%s: tensor '" CRN_GGUF_TEXT "' has type %s; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are supported",
                    crn_gguf_what(w->file), CRN_GGUF_ARGS(tensors[0]->name), tensors[0]->type->name));
  }
  for (int i = 0; i < n; i++) {
    crn_tensor bytes = shape_of(tensors[i], CAIRN_UI8, (void *)tensors[i]->data);
    int64_t *row = &bytes.dims[bytes.rank - 1];
    *row = *row / tensors[i]->type->block * tensors[i]->type->bytes;
    crn_tensor_set_contiguous(&bytes);
    operands[i] = add_constant(b, name, n > 1 ? (const char *[]){".0", ".1", ".2", ".3"}[i] : "", &bytes, tensors[i]->bytes);
  }
  return crn_build_op(b, CRN_OP_unpack_blocks, operands, n, dtype, kind);
}

crn_value *crn_gguf_build_matrix(crn_builder *b, crn_gguf_weights *w, const char *name, const crn_gguf_tensor *const *tensors, int n,
                                 cairn_dtype dtype) {
  if (b->status != CAIRN_OK) return NULL;
  if (!crn_gguf_is_plain(tensors[0])) return build_quantized(b, w, name, tensors, n, dtype);
  crn_value *v = crn_gguf_build_plain(b, w, tensors[0]);
  return plain_dtype(tensors[0]) == dtype ? v : crn_build_cast(b, v, dtype);
}
