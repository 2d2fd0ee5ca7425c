// INT8 mode with products of 2 x 8 by 8 x 2 bytes: a quarter of a tile times 8 rows, that is two pairs of outputs times four of rows.
#define ISA i8mm
#include "backend/cpu/kernels/linear/linear_int8_neon.h"

enum { PAIRS = 4, ROWS = 2 * PAIRS };

// Eight inputs, number j of the group, of two rows.
INLINE int8x16_t row_pair(const row_parts *rows, int64_t g, int j) {
  return vcombine_s8(vld1_s8(rows[0].quants + g * GROUP + 8 * j), vld1_s8(rows[1].quants + g * GROUP + 8 * j));
}

// Numbers of two rows as a product has them: rows 0, 1, 0, 1.
INLINE float32x4_t twice(float a, float b) {
  float32x2_t both = vset_lane_f32(b, vdup_n_f32(a), 1);
  return vcombine_f32(both, both);
}

// acc[2 * r + o] holds outputs 2o and 2o + 1 of the quarter for rows 2r and 2r + 1: (o0 r0, o0 r1, o1 r0, o1 r1).
INLINE void add_group(float32x4_t *acc, const unsigned char *quants, const unsigned char *scales, const row_parts *rows, int64_t g,
                      int zero, int part, int pairs, crn_linear_format f) {
  int32x4_t c[2 * PAIRS];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * pairs; i++) c[i] = vdupq_n_s32(0);
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    int32x4_t low = vreinterpretq_s32_s8(quants_of(quants, 2 * j, part, f)),
              high = vreinterpretq_s32_s8(quants_of(quants, 2 * j + 1, part, f));
    int8x16_t w0 = vreinterpretq_s8_s32(vzip1q_s32(low, high)), w1 = vreinterpretq_s8_s32(vzip2q_s32(low, high));
#pragma GCC unroll 4
    for (int r = 0; r < pairs; r++) {
      int8x16_t x = row_pair(rows + 2 * r, g, j);
      c[2 * r] = vmmlaq_s32(c[2 * r], w0, x);
      c[2 * r + 1] = vmmlaq_s32(c[2 * r + 1], w1, x);
    }
  }
  float32x4_t scale = half4(scales + 8 * part), low = vdupq_n_f32(0);
  if (has_mins(f)) low = half4(scales + LINEAR_MINS + 8 * part);
  low = vfmsq_n_f32(low, scale, (float)zero);
  float32x4_t scale0 = vzip1q_f32(scale, scale), scale1 = vzip2q_f32(scale, scale);
  float32x4_t low0 = vzip1q_f32(low, low), low1 = vzip2q_f32(low, low);
#pragma GCC unroll 4
  for (int r = 0; r < pairs; r++) {
    const row_parts *a = rows + 2 * r, *b = a + 1;
    float32x4_t x = twice(a->scales[g], b->scales[g]), sums = twice((float)a->sums[g], (float)b->sums[g]);
    float32x4_t shares = vmulq_f32(x, sums);
    acc[2 * r] = vfmaq_f32(acc[2 * r], vcvtq_f32_s32(c[2 * r]), vmulq_f32(scale0, x));
    acc[2 * r] = vfmaq_f32(acc[2 * r], low0, shares);
    acc[2 * r + 1] = vfmaq_f32(acc[2 * r + 1], vcvtq_f32_s32(c[2 * r + 1]), vmulq_f32(scale1, x));
    acc[2 * r + 1] = vfmaq_f32(acc[2 * r + 1], low1, shares);
  }
}

// `m` rows are stored, the last of an odd number was worked on twice.
INLINE void part_times(const unsigned char *tile, int64_t blocks, const row_parts *rows, int zero, float *out, int64_t ld, int m, int part,
                       int pairs, crn_linear_format f) {
  int group_bytes = is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP, scales = is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES;
  float32x4_t acc[2 * PAIRS];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * pairs; i++) acc[i] = vdupq_n_f32(0);
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f)) {
    add_group(acc, tile, tile + scales, rows, 2 * b, zero, part, pairs, f);
    add_group(acc, tile + group_bytes, tile + scales + 32, rows, 2 * b + 1, zero, part, pairs, f);
  }
#pragma GCC unroll 4
  for (int r = 0; r < pairs; r++) {
    vst1q_f32(out + 2 * r * ld + 4 * part, vuzp1q_f32(acc[2 * r], acc[2 * r + 1]));
    if (2 * r + 1 < m) vst1q_f32(out + (2 * r + 1) * ld + 4 * part, vuzp2q_f32(acc[2 * r], acc[2 * r + 1]));
  }
}

INLINE void tile_times(const unsigned char *tile, int64_t blocks, const row_parts *rows, int zero, float *out, int64_t ld, int m,
                       crn_linear_format f) {
  for (int part = 0; part < 4; part++) {
    if (m > 6) {
      part_times(tile, blocks, rows, zero, out, ld, m, part, 4, f);
    } else if (m > 4) {
      part_times(tile, blocks, rows, zero, out, ld, m, part, 3, f);
    } else if (m > 2) {
      part_times(tile, blocks, rows, zero, out, ld, m, part, 2, f);
    } else {
      part_times(tile, blocks, rows, zero, out, ld, m, part, 1, f);
    }
  }
}

#define KERNEL(rhs, f)                                                                                                         \
  void crn_linear_int8_##rhs##_f32_8x16__i8mm(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                             \
    run_rows(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, ROWS, tile_times, f);                                  \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
