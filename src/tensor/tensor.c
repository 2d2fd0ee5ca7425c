#include "tensor/tensor.h"

#include <string.h>

#include "base/checked.h"
#include "tensor/pages.h"

bool crn_shape_count(const int64_t *dims, int rank, int64_t *out_count) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0 || !crn_mul_i64(n, dims[i], &n)) return false;
  }
  *out_count = n;
  return true;
}

bool crn_shape_bytes(cairn_dtype dtype, const int64_t *dims, int rank, size_t *out_bytes) {
  int64_t n;
  return crn_shape_count(dims, rank, &n) && crn_mul_size((size_t)n, cairn_dtype_bytes(dtype), out_bytes) && *out_bytes <= INT64_MAX;
}

bool crn_packed_bytes(cairn_dtype dtype, int64_t count, size_t *out_bytes) {
  size_t bits;
  if (count < 0 || !crn_mul_size((size_t)count, (size_t)crn_dtype_bits(dtype), &bits) || !crn_add_size(bits, 7, &bits)) return false;
  *out_bytes = bits / 8;
  return true;
}

void crn_image_shape(uint32_t format, uint32_t height, uint32_t width, int *out_rank, int64_t *out_dims) {
  enum { RGB24 = 24, ARGB32 = 32, BGRA32 = 0x42475241, YUV420_PLANAR = 0x79343230 };
  int64_t h = height, w = width;
  if (format == RGB24 || format == ARGB32 || format == BGRA32) {
    *out_rank = 3;
    out_dims[0] = h;
    out_dims[1] = w;
    out_dims[2] = format == RGB24 ? 3 : 4;
    return;
  }
  *out_rank = 1;
  out_dims[0] = h * w + (format == YUV420_PLANAR ? 2 * (h / 2) * (w / 2) : 0);
}

void crn_tensor_set_contiguous(crn_tensor *t) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    t->strides[i] = step;
    step *= t->dims[i];
  }
}

crn_tensor crn_tensor_make(cairn_dtype dtype, const int64_t *dims, int rank, void *data) {
  crn_tensor t = {.dtype = dtype, .rank = rank, .data = data};
  for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
  crn_tensor_set_contiguous(&t);
  return t;
}

int64_t crn_tensor_count(const crn_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dims[i];
  return n;
}

bool crn_tensor_is_contiguous(const crn_tensor *t) {
  int64_t step = 1;
  if (t->pages) return false;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->dims[i] == 0) return true;
    if (t->dims[i] != 1 && t->strides[i] != step) return false;
    step *= t->dims[i];
  }
  return true;
}

bool crn_tensor_same_shape(const crn_tensor *a, const crn_tensor *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

void crn_nd_initialize(crn_nd_iter *it, int rank, const int64_t *dims) {
  it->rank = rank;
  it->n_operands = 0;
  for (int i = 0; i < rank; i++) it->dims[i] = dims[i];
}

void crn_nd_operand(crn_nd_iter *it, const int64_t *strides) {
  for (int i = 0; i < it->rank; i++) it->strides[it->n_operands][i] = strides[i];
  it->n_operands++;
}

void crn_nd_begin(crn_nd_iter *it) {
  it->done = false;
  for (int i = 0; i < it->rank; i++) {
    it->index[i] = 0;
    if (it->dims[i] <= 0) it->done = true;
  }
  for (int k = 0; k < it->n_operands; k++) it->offset[k] = 0;
}

void crn_nd_next(crn_nd_iter *it) {
  for (int i = it->rank - 1; i >= 0; i--) {
    for (int k = 0; k < it->n_operands; k++) it->offset[k] += it->strides[k][i];
    if (++it->index[i] < it->dims[i]) return;
    for (int k = 0; k < it->n_operands; k++) it->offset[k] -= it->strides[k][i] * it->dims[i];
    it->index[i] = 0;
  }
  it->done = true;
}

// Copies `n` elements of `size` bytes between strided rows.
static void copy_row(char *target, int64_t target_step, const char *source, int64_t source_step, int64_t n, size_t size) {
  if (target_step == 1 && source_step == 1) {
    memcpy(target, source, (size_t)n * size);
    return;
  }
  target_step *= (int64_t)size;
  source_step *= (int64_t)size;
#define COPY_AS(type)                                                                                              \
  for (int64_t i = 0; i < n; i++) *(type *)(target + i * target_step) = *(const type *)(source + i * source_step); \
  break
  switch (size) {
    case 1:
      COPY_AS(uint8_t);
    case 2:
      COPY_AS(uint16_t);
    case 4:
      COPY_AS(uint32_t);
    case 8:
      COPY_AS(uint64_t);
    default:
      for (int64_t i = 0; i < n; i++) memcpy(target + i * target_step, source + i * source_step, size);
  }
#undef COPY_AS
}

// Trailing dims over which both tensors run without gaps count as one row.
static int merge_rows(const crn_tensor *a, const crn_tensor *b, int64_t *out_n) {
  int d = a->rank - 1;
  int64_t n = a->dims[d];
  if (a->strides[d] != 1 || b->strides[d] != 1) {
    *out_n = n;
    return d;
  }
  while (d > 0 && a->strides[d - 1] == n && b->strides[d - 1] == n) n *= a->dims[--d];
  *out_n = n;
  return d;
}

void crn_tensor_copy(const crn_tensor *source, const crn_tensor *target) {
  size_t size = cairn_dtype_bytes(source->dtype);
  if (crn_tensor_count(source) == 0) return;
  if (source->pages || target->pages) {
    crn_paged_copy(source, target);
    return;
  }
  if (source->rank == 0) {
    memcpy(target->data, source->data, size);
    return;
  }
  int64_t n;
  int outer = merge_rows(source, target, &n);
  crn_nd_iter it;
  crn_nd_initialize(&it, outer, source->dims);
  crn_nd_operand(&it, source->strides);
  crn_nd_operand(&it, target->strides);
  int inner = source->rank - 1;
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    copy_row((char *)target->data + it.offset[1] * (int64_t)size, target->strides[inner],
             (const char *)source->data + it.offset[0] * (int64_t)size, source->strides[inner], n, size);
  }
}

void crn_tensor_unpack(const crn_tensor *packed, const crn_tensor *target) {
  uint8_t *out = target->data;
  int bits = crn_dtype_bits(packed->dtype);
  bool is_signed = crn_dtype_class_of(packed->dtype) == CRN_CLASS_SINT;
  unsigned mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  int64_t n = crn_tensor_count(packed);
  for (int64_t i = 0; i < n; i++) {
    unsigned v = crn_packed_code(packed->data, i, bits);
    out[i] = (uint8_t)(is_signed && (v & sign) ? v | ~mask : v);
  }
}

void crn_tensor_keep_last_rows(crn_tensor *t, int64_t n) {
  int d = t->rank - 2;
  if (n <= 0 || d < 0 || t->dims[d] <= n) return;
  t->data = crn_tensor_at(t, (t->dims[d] - n) * t->strides[d]);
  t->dims[d] = n;
}

size_t crn_tensor_stored_bytes(const crn_tensor *t) {
  size_t bytes, spread = crn_tensor_count(t) ? 1 : 0;
  if (t->packed) return crn_packed_bytes(t->dtype, crn_tensor_count(t), &bytes) ? bytes : 0;
  for (int d = 0; d < t->rank && spread; d++)
    spread += (size_t)(t->dims[d] - 1) * (size_t)(t->strides[d] < 0 ? -t->strides[d] : t->strides[d]);
  return spread * cairn_dtype_bytes(t->dtype);
}
