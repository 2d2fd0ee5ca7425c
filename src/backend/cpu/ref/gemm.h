/// Matrix products on the dot kernels: f32 rows times weights of f32, f16 or bf16 as they lie in memory.
///
/// The bits of one result element depend only on its row, its column of weights and K: not on the number of rows, their
/// grouping, or the threads.
#ifndef CRN_BACKEND_CPU_REF_GEMM_H
#define CRN_BACKEND_CPU_REF_GEMM_H

#include "backend/backend.h"

/// A set of products out[i] = a[i] · B_g, where rows [first_row[g], first_row[g + 1]) go with the weights at b_at[g].
typedef struct crn_gemm {
  int64_t n_groups, n, k;
  const int64_t *first_row;  ///< n_groups + 1 entries
  const int64_t *b_at;       ///< element offset of each group's weights
  const float *a;
  const int64_t *a_at;  ///< offset of each row in `a`, whose elements are next to each other
  cairn_dtype b_dtype;
  const void *b;
  int64_t b_stride_k, b_stride_n;  ///< one of them is 1
  cairn_dtype out_dtype;           ///< f32, f16 or bf16
  void *out;
  const int64_t *out_at;  ///< offset of each row of the result
  int64_t out_stride_n;
} crn_gemm;

/// Whether the type can be the weights or the result of crn_gemm_run.
bool crn_gemm_takes(cairn_dtype dtype);
/// Runs all products on the pool.
void crn_gemm_run(const crn_gemm *g, crn_pool *pool);

/// Converts a tensor of any strides to contiguous f32 rows in scratch memory (or points to the data when it is that).
cairn_status crn_rows_f32(const crn_kernel_args *args, const crn_tensor *t, const float **out_rows);
/// Points to `t` or, when neither of its last two dimensions has stride 1, to a contiguous copy in scratch memory.
cairn_status crn_matrix_ready(const crn_kernel_args *args, const crn_tensor *t, crn_tensor *out_ready);

#endif
