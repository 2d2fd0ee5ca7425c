// INT8 mode with byte dot products of four.
#define ISA dotprod
#include "backend/cpu/kernels/linear/linear_int8_neon.h"
#include "backend/cpu/kernels/linear/linear_int8_rows_neon.h"

INLINE void add_products(int32x4_t *c, const unsigned char *quants, const row_parts *rows, int64_t g, int m, int first, int parts,
                         crn_linear_format f) {
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) {
    int8x16_t w[PARTS];
#pragma GCC unroll 4
    for (int p = 0; p < parts; p++) w[p] = quants_of(quants, j, first + p, f);
#pragma GCC unroll 4
    for (int t = 0; t < m; t++) {
      int8x16_t x = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)(rows[t].quants + g * GROUP + 4 * j)));
#pragma GCC unroll 4
      for (int p = 0; p < parts; p++) c[t * parts + p] = vdotq_s32(c[t * parts + p], w[p], x);
    }
  }
}

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
