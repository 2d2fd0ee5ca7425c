// INT8 mode without dot products: bytes are multiplied to 16 bits. Sums of 16 bits hold the eight products of a 4-bit quant in a group
// (15 * 127 * 8) and two of 8-bit ones (128 * 127 * 2).
#define ISA neon
#include "backend/cpu/kernels/linear/linear_int8_neon.h"
#include "backend/cpu/kernels/linear/linear_int8_rows_neon.h"

// Sums of 16 bits of each output, in twos: the first 8 bytes of a vector are two outputs, the others two more.
typedef struct sums16 {
  int16x8_t low, high;
} sums16;

INLINE sums16 times(int8x16_t w, const int8_t *x) {
  int8x8_t four = vreinterpret_s8_s32(vld1_dup_s32((const int32_t *)(const void *)x));
  return (sums16){vmull_s8(vget_low_s8(w), four), vmull_s8(vget_high_s8(w), four)};
}

INLINE sums16 times_more(sums16 s, int8x16_t w, const int8_t *x) {
  int8x8_t four = vreinterpret_s8_s32(vld1_dup_s32((const int32_t *)(const void *)x));
  return (sums16){vmlal_s8(s.low, vget_low_s8(w), four), vmlal_s8(s.high, vget_high_s8(w), four)};
}

// One quarter of the outputs times one row.
INLINE int32x4_t group_times(const unsigned char *quants, const int8_t *x, int part, crn_linear_format f) {
  if (is_4bit(f)) {
    sums16 s = times(quants_of(quants, 0, part, f), x);
#pragma GCC unroll 8
    for (int j = 1; j < 8; j++) s = times_more(s, quants_of(quants, j, part, f), x + 4 * j);
    return vpaddq_s32(vpaddlq_s16(s.low), vpaddlq_s16(s.high));
  }
  int32x4_t low = vdupq_n_s32(0), high = low;
#pragma GCC unroll 4
  for (int j = 0; j < 8; j += 2) {
    sums16 s = times(quants_of(quants, j, part, f), x + 4 * j);
    s = times_more(s, quants_of(quants, j + 1, part, f), x + 4 * j + 4);
    low = vpadalq_s16(low, s.low);
    high = vpadalq_s16(high, s.high);
  }
  return vpaddq_s32(low, high);
}

INLINE void add_products(int32x4_t *c, const unsigned char *quants, const row_parts *rows, int64_t g, int m, int first, int parts,
                         crn_linear_format f) {
#pragma GCC unroll 4
  for (int p = 0; p < parts; p++) {
#pragma GCC unroll 4
    for (int t = 0; t < m; t++) {
      c[t * parts + p] = vaddq_s32(c[t * parts + p], group_times(quants, rows[t].quants + g * GROUP, first + p, f));
    }
  }
}

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
