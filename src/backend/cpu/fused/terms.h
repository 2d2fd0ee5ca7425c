/// Rows made ready for products with packed weights: the kernel is chosen, rows are converted and, for byte products, quantised.
///
/// Rows of bytes come in two terms: the values in 8 bits a group, and what that leaves in 8 bits again. Together they hold 15 bits,
/// and the kernels take them as two rows that read the same weights. One term alone costs small models tenths of a percent
/// of the cosine of their logits.
#ifndef CRN_BACKEND_CPU_FUSED_TERMS_H
#define CRN_BACKEND_CPU_FUSED_TERMS_H

#include "backend/backend.h"
#include "backend/cpu/kernels/linear/linear.h"

enum { CRN_ROW_BLOCK = 512 };  ///< rows that one pass over weights serves

typedef struct crn_prepared {
  const crn_linear_kernel *kernel;
  int64_t k;
  int64_t terms;  ///< prepared rows a row
  size_t row_bytes;
  char *rows;
  float *buffers;  ///< k values a worker
} crn_prepared;

/// Chooses the kernel for calls of up to `n_together` rows, and takes memory for `n_rows` rows.
cairn_status crn_prepared_create(const crn_kernel_args *args, const crn_linear_weights *weights, crn_linear_mode mode, int64_t n_rows,
                                 int64_t n_together, crn_prepared *out);
/// Prepares row `row` from k values.
void crn_prepare_row(const crn_prepared *p, int64_t row, const float *values, int worker);
/// Memory a worker gives to crn_run_prepared, a multiple of 64.
size_t crn_prepared_scratch_bytes(const crn_prepared *p);
/// sums[r * ld ..] = the outputs of tiles [tile_begin, tile_end) for rows [row, row + n_rows), n_rows <= CRN_ROW_BLOCK. `sums` needs room
/// for `terms` times as many rows.
void crn_run_prepared(const crn_linear_weights *weights, const crn_prepared *p, int64_t row, int64_t n_rows, int64_t tile_begin,
                      int64_t tile_end, float *sums, int64_t ld, void *scratch);

#endif
