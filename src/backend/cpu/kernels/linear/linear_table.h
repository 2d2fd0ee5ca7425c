/// Declarations of the functions that rows of linear.def name.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_TABLE_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_TABLE_H

#include "backend/cpu/kernels/linear/linear.h"
#include "base/cpu.h"

/// A group of activations whose largest magnitude is below this counts as zeros in INT8: 127 divided by less could overflow.
#define LINEAR_SMALLEST 0x1p-116f

/// Rows that kernels with dot products interleave in scratch memory at a time.
enum { LINEAR_INTERLEAVED = 96 };

#define LINEAR(format, mode, rows, least, lhs, rhs, tile, isa, bits, prepare, scratch)                                                 \
  void crn_linear_prepare_##prepare(const float *x, int64_t k, void *out_row);                                                         \
  void crn_linear_##lhs##_##rhs##_f32_##tile##__##isa(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                      int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch);
#include "backend/cpu/kernels/linear/linear.def"
#undef LINEAR

#endif
