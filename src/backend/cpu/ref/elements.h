/// Runs of elements of any type as arrays of the type they are computed in: f32, f64 or 64-bit integers.
#ifndef CRN_BACKEND_CPU_REF_ELEMENTS_H
#define CRN_BACKEND_CPU_REF_ELEMENTS_H

#include "tensor/tensor.h"

/// Float types except f64: computed in f32 and rounded once when stored.
bool crn_computes_f32(cairn_dtype dtype);
/// Integers and bool (as 0 and 1).
bool crn_computes_i64(cairn_dtype dtype);

/// The n elements of `t` from element offset `offset` on, `stride` apart. Returns `buffer` filled in, or a pointer straight
/// to the data when it already has that form. Unsigned 64-bit integers keep their bits.
const float *crn_elements_f32(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, float *buffer);
const double *crn_elements_f64(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, double *buffer);
const int64_t *crn_elements_i64(const crn_tensor *t, int64_t offset, int64_t stride, int64_t n, int64_t *buffer);

/// Element offset of row `row` of a tensor whose dimension `axis` is a row: the others are counted in order.
int64_t crn_row_offset(const crn_tensor *t, int axis, int64_t row);

/// Stores n consecutive elements from element offset `offset` on, rounding to nearest even or wrapping.
void crn_elements_put_f32(const crn_tensor *t, int64_t offset, int64_t n, const float *values);
void crn_elements_put_f64(const crn_tensor *t, int64_t offset, int64_t n, const double *values);
void crn_elements_put_i64(const crn_tensor *t, int64_t offset, int64_t n, const int64_t *values);

/// One f32 value stored as f32, f16 or bf16 at element `offset` of `base`.
void crn_put_one_f32(cairn_dtype dtype, void *base, int64_t offset, float value);
/// Rounds f32 values to a float type and back, in place.
void crn_round_f32(cairn_dtype dtype, float *values, int64_t n);

/// A real or complex element as (real, imaginary) in f64; a real one has an imaginary part of 0.
static inline void crn_load_pair(cairn_dtype dtype, const void *element, double *out_pair) {
  out_pair[0] = crn_load_f64(dtype, element);
  // The imaginary half has the layout of the real one, right behind it.
  out_pair[1] = crn_dtype_is_complex(dtype) ? crn_load_f64(dtype, (const char *)element + cairn_dtype_bytes(dtype) / 2) : 0;
}

/// Stores a pair; of real types the imaginary part is dropped.
void crn_store_pair(cairn_dtype dtype, void *element, const double *pair);

/// Adds the product of two pairs.
static inline void crn_add_product(const double *a, const double *b, double *sum) {
  sum[0] += a[0] * b[0] - a[1] * b[1];
  sum[1] += a[0] * b[1] + a[1] * b[0];
}

#endif
