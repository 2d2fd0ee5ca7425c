/// Rows made ready for products with packed weights: the kernel is chosen, rows are converted and, for byte products, quantised.
///
/// Rows of bytes come in two terms: the values in 8 bits a group, and what that leaves in 8 bits again. Together they hold 15 bits,
/// and the kernels take them as two rows that read the same weights. One term alone costs models tenths of a percent
/// of the cosine of their logits. So do rows of bf16 where weights are quantised: the values in bf16, and what that leaves.
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
/// The two halves of it: the kernel for calls of up to `n_together` rows, and memory for `n_rows` rows and a kernel.
const crn_linear_kernel *crn_prepared_select(const crn_linear_weights *weights, crn_linear_mode mode, int64_t n_together);
cairn_status crn_prepared_create_for(const crn_kernel_args *args, const crn_linear_weights *weights, const crn_linear_kernel *kernel,
                                     int64_t n_rows, crn_prepared *out);
/// Whether rows for which these kernels were chosen may be computed together and have the bits they have apart.
bool crn_prepared_agree(const crn_linear_kernel *a, const crn_linear_kernel *b);
/// Whether a row has the same bits in calls of any number of rows. Else rows of several runs must be apart, though next to one another.
bool crn_prepared_is_rowwise(const crn_linear_kernel *kernel);
/// The kernel for `n_together` rows of which each alone, or with some, would have been given `kernel`, without a change of bits.
const crn_linear_kernel *crn_prepared_join(const crn_linear_weights *weights, const crn_linear_kernel *kernel, int64_t n_together);
/// Prepares row `row` from k values.
void crn_prepare_row(const crn_prepared *p, int64_t row, const float *values, int worker);
/// Row `to` becomes what row `from` is.
void crn_prepare_copy(const crn_prepared *p, int64_t from, int64_t to);
/// Memory a worker gives to crn_run_prepared, a multiple of 64.
size_t crn_prepared_scratch_bytes(const crn_prepared *p);
/// sums[r * ld ..] = the outputs of tiles [tile_begin, tile_end) for rows [row, row + n_rows), n_rows <= CRN_ROW_BLOCK. `sums` needs room
/// for `terms` times as many rows.
void crn_run_prepared(const crn_linear_weights *weights, const crn_prepared *p, int64_t row, int64_t n_rows, int64_t tile_begin,
                      int64_t tile_end, float *sums, int64_t ld, void *scratch);
/// The same, where the sums are given away: part by part while they are in the cache where the kernel can, else all at once.
void crn_run_prepared_into(const crn_linear_weights *weights, const crn_prepared *p, int64_t row, int64_t n_rows, int64_t tile_begin,
                           int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink);

#endif
