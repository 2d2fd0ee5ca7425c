/// Reading indices, shared by the gathering and scattering kernels.
#ifndef CRN_BACKEND_CPU_REF_GATHER_H
#define CRN_BACKEND_CPU_REF_GATHER_H

#include "backend/backend.h"

/// Element `offset` of an index tensor as a wide number; the common types do not go through the general reader.
static inline int64_t crn_gather_load(cairn_dtype dtype, const void *data, int64_t offset) {
  if (dtype == CAIRN_SI32) return ((const int32_t *)data)[offset];
  if (dtype == CAIRN_SI64) return ((const int64_t *)data)[offset];
  return crn_load_i64(dtype, (const char *)data + offset * (int64_t)cairn_dtype_bytes(dtype));
}

/// Wraps an index below zero once; false when it is not in [-n, n).
static inline bool crn_gather_index(int64_t index, int64_t n, int64_t *out_at) {
  *out_at = index < 0 ? index + n : index;
  return *out_at >= 0 && *out_at < n;
}

/// The offset in `x` that the index vector at element `where` of `index` names; `*out_bad` is the entry out of range.
bool crn_gather_nd_offset(const crn_tensor *x, const crn_tensor *index, int length, int64_t where, int64_t *out_offset, int *out_bad);

/// The failure for an index out of range.
cairn_status crn_gather_fail(const crn_kernel_args *args, int64_t index, int dimension, int64_t size);

#endif
