#include "backend/cpu/ref/elements.h"

#include <string.h>

#include "backend/cpu/kernels/convert/convert.h"
#include "tensor/half.h"

bool crn_computes_f32(cairn_dtype dtype) { return crn_dtype_is_float(dtype) && dtype != CAIRN_F64; }
bool crn_computes_i64(cairn_dtype dtype) { return crn_dtype_is_integer(dtype) || dtype == CAIRN_BOOL; }

static bool is_plain_f32(cairn_dtype dtype) { return dtype == CAIRN_F32 || dtype == CAIRN_TF32; }

static void gather_f32(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, float *buffer) {
  if (is_plain_f32(t->dtype)) {
    const float *p = (const float *)t->data + offset;
    for (int64_t i = 0; i < n; i++) buffer[i] = p[i * stride];
  } else if (t->dtype == CAIRN_F16) {
    const uint16_t *p = (const uint16_t *)t->data + offset;
    for (int64_t i = 0; i < n; i++) buffer[i] = crn_f16_to_f32(p[i * stride]);
  } else if (t->dtype == CAIRN_BF16) {
    const uint16_t *p = (const uint16_t *)t->data + offset;
    for (int64_t i = 0; i < n; i++) buffer[i] = crn_bf16_to_f32(p[i * stride]);
  } else {
    for (int64_t i = 0; i < n; i++) buffer[i] = (float)crn_load_f64(t->dtype, crn_tensor_at(t, offset + i * stride));
  }
}

const float *crn_elements_f32(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, float *buffer) {
  if (stride == 1 && is_plain_f32(t->dtype)) return (const float *)t->data + offset;
  if (stride == 1 && t->dtype == CAIRN_F16) {
    crn_convert_select()->f16_f32((const uint16_t *)t->data + offset, buffer, n);
  } else if (stride == 1 && t->dtype == CAIRN_BF16) {
    crn_convert_select()->bf16_f32((const uint16_t *)t->data + offset, buffer, n);
  } else if (stride == 0 && n > 1) {
    float value;
    gather_f32(t, offset, 0, 1, &value);
    for (int64_t i = 0; i < n; i++) buffer[i] = value;
  } else {
    gather_f32(t, offset, stride, n, buffer);
  }
  return buffer;
}

const double *crn_elements_f64(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, double *buffer) {
  if (stride == 1 && t->dtype == CAIRN_F64) return (const double *)t->data + offset;
  for (int64_t i = 0; i < n; i++) buffer[i] = crn_load_f64(t->dtype, crn_tensor_at(t, offset + i * stride));
  return buffer;
}

// Runs of integers of the types that masks and sizes are made of, a loop for each: type by type costs many times as much.
#define WIDEN(type, expr)                                            \
  {                                                                  \
    const type *p = (const type *)t->data + offset;                  \
    for (int64_t i = 0; i < n; i++, p += stride) buffer[i] = (expr); \
    return buffer;                                                   \
  }

const int64_t *crn_elements_i64(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, int64_t *buffer) {
  if (stride == 1 && (t->dtype == CAIRN_SI64 || t->dtype == CAIRN_UI64)) return (const int64_t *)t->data + offset;
  switch (t->dtype) {
    case CAIRN_SI32:
      WIDEN(int32_t, *p)
    case CAIRN_UI32:
      WIDEN(uint32_t, *p)
    case CAIRN_UI16:
      WIDEN(uint16_t, *p)
    case CAIRN_BOOL:
      WIDEN(uint8_t, *p != 0)
    default:
      break;
  }
  for (int64_t i = 0; i < n; i++) buffer[i] = crn_load_i64(t->dtype, crn_tensor_at(t, offset + i * stride));
  return buffer;
}

int64_t crn_row_offset(const crn_tensor *t, int axis, int64_t row) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == axis) continue;
    offset += row % t->dims[d] * t->strides[d];
    row /= t->dims[d];
  }
  return offset;
}

void crn_elements_put_f32(const crn_tensor *t, int64_t offset, int64_t n, const float *values) {
  if (is_plain_f32(t->dtype)) {
    memmove((float *)t->data + offset, values, (size_t)n * sizeof *values);
  } else if (t->dtype == CAIRN_F16) {
    crn_convert_select()->f32_f16(values, (uint16_t *)t->data + offset, n);
  } else if (t->dtype == CAIRN_BF16) {
    crn_convert_select()->f32_bf16(values, (uint16_t *)t->data + offset, n);
  } else {
    for (int64_t i = 0; i < n; i++) crn_store_f64(t->dtype, crn_tensor_at(t, offset + i), (double)values[i]);
  }
}

void crn_elements_put_f64(const crn_tensor *t, int64_t offset, int64_t n, const double *values) {
  for (int64_t i = 0; i < n; i++) crn_store_f64(t->dtype, crn_tensor_at(t, offset + i), values[i]);
}

void crn_elements_put_i64(const crn_tensor *t, int64_t offset, int64_t n, const int64_t *values) {
  if (t->dtype == CAIRN_BOOL) {
    for (int64_t i = 0; i < n; i++) ((uint8_t *)t->data)[offset + i] = values[i] != 0;
    return;
  }
  if (t->dtype == CAIRN_SI32 || t->dtype == CAIRN_UI32) {
    for (int64_t i = 0; i < n; i++) ((uint32_t *)t->data)[offset + i] = (uint32_t)values[i];
    return;
  }
  for (int64_t i = 0; i < n; i++) crn_store_i64(t->dtype, crn_tensor_at(t, offset + i), values[i]);
}

void crn_put_one_f32(cairn_dtype dtype, void *base, int64_t offset, float value) {
  if (dtype == CAIRN_F16) {
    ((uint16_t *)base)[offset] = crn_f16_from_f32(value);
  } else if (dtype == CAIRN_BF16) {
    ((uint16_t *)base)[offset] = crn_bf16_from_f32(value);
  } else {
    ((float *)base)[offset] = value;
  }
}

void crn_round_f32(cairn_dtype dtype, float *values, int64_t n) {
  enum { CHUNK = 256 };
  if (is_plain_f32(dtype)) return;
  if (dtype == CAIRN_F16 || dtype == CAIRN_BF16) {
    const crn_convert_kernels *k = crn_convert_select();
    uint16_t half[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
      int64_t m = n - i < CHUNK ? n - i : CHUNK;
      (dtype == CAIRN_F16 ? k->f32_f16 : k->f32_bf16)(values + i, half, m);
      (dtype == CAIRN_F16 ? k->f16_f32 : k->bf16_f32)(half, values + i, m);
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    unsigned char element[sizeof(double)];
    crn_store_f64(dtype, element, (double)values[i]);
    values[i] = (float)crn_load_f64(dtype, element);
  }
}

void crn_store_pair(cairn_dtype dtype, void *element, const double *pair) {
  char imaginary[16];
  size_t half = cairn_dtype_bytes(dtype) / 2;
  crn_store_f64(dtype, element, pair[0]);
  if (!crn_dtype_is_complex(dtype)) return;
  crn_store_f64(dtype, imaginary, pair[1]);
  memcpy((char *)element + half, imaginary, half);
}
