// Reading of weights: codes, scales and minimums of one output after the other, as the packed formats hold them.
#include <string.h>

#include "specialize/weights.h"
#include "tensor/half.h"

enum { GROUP = CRN_LINEAR_GROUP };

static bool is_signed(cairn_dtype dtype) { return crn_dtype_class_of(dtype) == CRN_CLASS_SINT; }

static int code_at(const crn_tensor *t, int64_t element) {
  if (!t->packed || crn_dtype_bits(t->dtype) == 8) return (int)crn_load_i64(t->dtype, (const char *)t->data + element);
  int bits = crn_dtype_bits(t->dtype);
  unsigned v = crn_packed_code(t->data, element, bits);
  return (int)v - (is_signed(t->dtype) && v >> (bits - 1) ? 1 << bits : 0);
}

// Element offsets of one step along an axis: packed streams lie in row-major order, whatever their strides say.
static int64_t step_of(const crn_tensor *t, int axis) {
  if (!t->packed) return t->strides[axis];
  int64_t step = 1;
  for (int d = t->rank - 1; d > axis; d--) step *= t->dims[d];
  return step;
}

static void round_to(cairn_dtype dtype, float *value) {
  if (dtype == CAIRN_F16) *value = crn_f16_to_f32(crn_f16_from_f32(*value));
}

// What the kernels add to a code: 4-bit formats hold codes from 0 to 15, 8-bit ones from -128 to 127.
static int code_shift(const crn_weight_source *w) {
  int bits = crn_dtype_bits(w->data.dtype);
  if (bits <= 4) return is_signed(w->data.dtype) ? 1 << (bits - 1) : 0;
  return is_signed(w->data.dtype) ? 0 : -128;
}

// Element offset, in the data or in a parameter with one value a block, of row `n` of all and input `k`.
static int64_t offset_of(const crn_tensor *t, const crn_weight_source *w, int64_t n, int64_t k) {
  int64_t rows = crn_weight_source_rows(w), at = n % rows / (rows / t->dims[w->n_axis]) * step_of(t, w->n_axis);
  if (w->stack > 1) at += n / rows / (w->stack / t->dims[w->stack_axis]) * step_of(t, w->stack_axis);
  return at + k / (w->k / t->dims[w->k_axis]) * step_of(t, w->k_axis);
}

static float parameter_at(const crn_tensor *t, const crn_weight_source *w, int64_t n, int64_t k) {
  int64_t at = offset_of(t, w, n, k);
  if (crn_dtype_is_integer(t->dtype)) return (float)code_at(t, at);
  return (float)crn_load_f64(t->dtype, crn_tensor_at(t, at));
}

// The kernels compute (code + shift - zero) * scale + min. The sum of both offsets is rounded as the op rounds it.
static void read_parameters(const crn_weight_source *w, int64_t n, float *scales, float *mins) {
  int64_t groups = (w->k + GROUP - 1) / GROUP;
  for (int64_t g = 0; g < groups; g++) {
    scales[g] = parameter_at(&w->scale, w, n, g * GROUP);
    mins[g] = parameter_at(&w->offset2, w, n, g * GROUP);
    if (w->has_common_zero) continue;
    float shift = parameter_at(&w->offset1, w, n, g * GROUP) * scales[g];
    round_to(w->dtype, &shift);
    mins[g] -= shift;
    round_to(w->dtype, &mins[g]);
  }
}

static void read_codes(const crn_weight_source *w, int64_t n, uint8_t *codes) {
  int64_t step_k = step_of(&w->data, w->k_axis), at = offset_of(&w->data, w, n, 0);
  int shift = code_shift(w);
  if (w->data.packed && crn_dtype_bits(w->data.dtype) == 4 && step_k == 1 && !(at & 1)) {
    const uint8_t *bytes = (const uint8_t *)w->data.data + at / 2;
    unsigned flip = shift ? 8 : 0;
    for (int64_t k = 0; k < w->k; k++) codes[k] = (uint8_t)((bytes[k >> 1] >> (k & 1) * 4 & 15) ^ flip);
    return;
  }
  for (int64_t k = 0; k < w->k; k++) codes[k] = (uint8_t)(code_at(&w->data, at + k * step_k) + shift);
}

// The channels under each tap of a window, one tap after the other.
static void read_taps(const crn_weight_source *w, int64_t n, char *values) {
  size_t bytes = cairn_dtype_bytes(w->dtype);
  for (int64_t tap = 0; tap < w->taps; tap++) {
    for (int64_t c = 0; c < w->k / w->taps; c++, values += bytes) {
      const void *from = crn_tensor_at(&w->data, n * w->data.strides[0] + c * w->data.strides[1] + tap * w->data.strides[2]);
      memcpy(values, from, bytes);
    }
  }
}

static void read_dense(const crn_weight_source *w, int64_t n, void *values) {
  size_t bytes = cairn_dtype_bytes(w->dtype);
  if (w->taps) {
    read_taps(w, n, values);
    return;
  }
  const char *from = crn_tensor_at(&w->data, offset_of(&w->data, w, n, 0));
  int64_t step = w->data.strides[w->k_axis];
  if (step == 1) {
    memcpy(values, from, (size_t)w->k * bytes);
    return;
  }
  for (int64_t k = 0; k < w->k; k++) memcpy((char *)values + (size_t)k * bytes, from + k * step * (int64_t)bytes, bytes);
}

// Codes are told apart and stored anew one block at a time; nothing of the matrix is kept in another form meanwhile.
static void read_blocks(const crn_weight_source *w, int64_t n, uint8_t *codes, float *scales, float *mins) {
  const crn_block_format *f = w->blocks;
  const crn_tensor *t = w->pieces;
  for (; w->n_pieces > 1 && n >= t->dims[0]; t++) n -= t->dims[0];
  const unsigned char *block = (const unsigned char *)t->data + n * t->dims[w->k_axis];
  for (int64_t k = 0; k < w->k; k += f->elements, block += f->bytes) f->unpack(block, codes + k, scales++, mins++);
}

void crn_weight_source_read(const crn_weight_source *w, int64_t row, void *values, float *scales, float *mins) {
  if (w->blocks) {
    read_blocks(w, row, values, scales, mins);
    return;
  }
  if (!w->is_quantized) {
    read_dense(w, row, values);
    return;
  }
  read_codes(w, row, values);
  read_parameters(w, row, scales, mins);
}

// --- properties ---------------------------------------------------------------------------------------------------------------

static bool is_splat(const crn_tensor *t) {
  for (int d = 0; d < t->rank; d++) {
    if (t->packed || (t->dims[d] > 1 && t->strides[d] != 0)) return false;
  }
  return true;
}

// Whether all offsets are one zero point and nothing is added: then no minimum is stored.
void crn_weight_source_find_zero(crn_weight_source *w) {
  int64_t step_n = crn_weight_source_rows(w) / w->scale.dims[w->n_axis], step_k = w->k / w->scale.dims[w->k_axis];
  w->zero = parameter_at(&w->offset1, w, 0, 0);
  w->has_common_zero = parameter_at(&w->offset2, w, 0, 0) == 0;
  if (is_splat(&w->offset1) && is_splat(&w->offset2)) return;
  for (int64_t n = 0; n < w->n && w->has_common_zero; n += step_n) {
    for (int64_t k = 0; k < w->k && w->has_common_zero; k += step_k) {
      w->has_common_zero = parameter_at(&w->offset1, w, n, k) == w->zero && parameter_at(&w->offset2, w, n, k) == 0;
    }
  }
}

bool crn_weight_source_is_exact(const crn_weight_source *w) {
  if (!w->has_common_zero && w->dtype != CAIRN_F16) return false;
  if (w->blocks || w->is_palette || w->scale.dtype == CAIRN_F16) return true;
  int64_t step_n = crn_weight_source_rows(w) / w->scale.dims[w->n_axis], step_k = w->k / w->scale.dims[w->k_axis];
  for (int64_t n = 0; n < w->n; n += step_n) {
    for (int64_t k = 0; k < w->k; k += step_k) {
      float scale = parameter_at(&w->scale, w, n, k);
      if (crn_f16_to_f32(crn_f16_from_f32(scale)) != scale) return false;
    }
  }
  return true;
}

bool crn_weight_sources_match(const crn_weight_source *a, const crn_weight_source *b) {
  int32_t zero_a, zero_b;
  const crn_linear_palette *p = &a->palette, *q = &b->palette;
  return a->k == b->k && crn_weight_source_format(a, &zero_a) == crn_weight_source_format(b, &zero_b) && zero_a == zero_b &&
         p->tables == q->tables && p->groups == q->groups && p->has_factors == q->has_factors && p->rounding == q->rounding;
}

crn_linear_format crn_weight_source_format(const crn_weight_source *w, int32_t *out_zero) {
  *out_zero = 0;
  if (!w->is_quantized) return w->dtype == CAIRN_F16 ? CRN_LINEAR_F16 : w->dtype == CAIRN_BF16 ? CRN_LINEAR_BF16 : CRN_LINEAR_F32;
  if (w->is_palette) {
    return w->code_bits <= 1   ? CRN_LINEAR_P1
           : w->code_bits <= 2 ? CRN_LINEAR_P2
           : w->code_bits <= 4 ? CRN_LINEAR_P4
           : w->code_bits <= 6 ? CRN_LINEAR_P6
                               : CRN_LINEAR_P8;
  }
  if (w->blocks) {
    *out_zero = w->blocks->zero;
    if (w->blocks->bits <= 4) return w->blocks->has_shift ? CRN_LINEAR_Q4M : CRN_LINEAR_Q4;
    return w->blocks->has_shift ? CRN_LINEAR_Q8M : CRN_LINEAR_Q8;
  }
  *out_zero = code_shift(w) + (w->has_common_zero ? (int32_t)w->zero : 0);
  if (crn_dtype_bits(w->data.dtype) <= 4) return w->has_common_zero ? CRN_LINEAR_Q4 : CRN_LINEAR_Q4M;
  return w->has_common_zero ? CRN_LINEAR_Q8 : CRN_LINEAR_Q8M;
}
