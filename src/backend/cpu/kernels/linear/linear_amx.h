/// What the kernels with tile registers have in common: blocks of quants, and rows that lie in blocks of rows. Always inlined, so that
/// every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_AMX_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_AMX_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"

// The compiler does not know which memory tile instructions read and write.
#define FENCE() __asm__ volatile("" : : : "memory")

/// Rows of one block.
typedef struct span {
  int64_t row, n;  ///< from the first row of the call on
  int64_t at;      ///< in the block
} span;

/// Those from `row` on, of a call of n_rows that begins with row `first` of its block.
INLINE span span_at(int64_t first, int64_t n_rows, int64_t row) {
  span s = {row, n_rows - row, (first + row) % CRN_LINEAR_ROW_BLOCK};
  if (s.n > CRN_LINEAR_ROW_BLOCK - s.at) s.n = CRN_LINEAR_ROW_BLOCK - s.at;
  return s;
}

#endif
