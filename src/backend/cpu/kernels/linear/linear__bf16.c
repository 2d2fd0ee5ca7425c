// BF16 mode on Arm: 2 x 4 by 4 x 2 products of bf16 with sums in f32, a quarter of a tile times up to 8 rows. Weights of other formats than
// BF16 are turned into f32 and rounded, a tile at a time. One row takes dot products of two.
#include <arm_neon.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, PARTS = 4, PAIRS = 4, ROWS = 2 * PAIRS, FOUR_INPUTS = 2 * 64 };

// --- rounding -------------------------------------------------------------------------------------------------------------

// To the nearest, ties to even, as the scalar preparation does it; the instruction for it would make another NaN of a NaN.
INLINE uint32x4_t rounded(float32x4_t v) {
  uint32x4_t u = vreinterpretq_u32_f32(v), up = vshrq_n_u32(u, 16);
  uint32x4_t near = vshrq_n_u32(vaddq_u32(u, vaddq_u32(vandq_u32(up, vdupq_n_u32(1)), vdupq_n_u32(0x7fff))), 16);
  return vbslq_u32(vceqq_f32(v, v), near, vorrq_u32(up, vdupq_n_u32(0x40)));
}

void crn_linear_prepare_bf16__bf16(const float *x, int64_t k, void *out_row) {
  uint16_t *row = out_row;
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) vst1_u16(row + i, vmovn_u32(rounded(vld1q_f32(x + i))));
  for (; i < k; i++) row[i] = (uint16_t)vgetq_lane_u32(rounded(vdupq_n_f32(x[i])), 0);
  for (; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i++) row[i] = 0;
}

// A tile of [inputs][16] f32 becomes [pairs of inputs][16][2] bf16 in the same memory: what is written was read before.
INLINE void round_tile(float *tile, int64_t k) {
  for (int64_t i = 0; i < k; i += 2) {
    uint32x4_t pair[PARTS];
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) {
      uint32x4_t even = rounded(vld1q_f32(tile + i * LANES + 4 * p)), odd = rounded(vld1q_f32(tile + (i + 1) * LANES + 4 * p));
      pair[p] = vorrq_u32(even, vshlq_n_u32(odd, 16));
    }
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) vst1q_f32(tile + i / 2 * LANES + 4 * p, vreinterpretq_f32_u32(pair[p]));
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

INLINE uint32x4_t load_pairs(const unsigned char *w) { return vld1q_u32((const uint32_t *)(const void *)w); }

// Two sums for each output: neighbouring pairs of inputs do not wait for each other.
INLINE void one_row(const unsigned char *tile, int64_t k, const uint16_t *x, float *out) {
  float32x4_t acc[2 * PARTS];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * PARTS; i++) acc[i] = vdupq_n_f32(0);
  for (int64_t i = 0; i < k; i += 4, tile += FOUR_INPUTS) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      bfloat16x8_t input = vreinterpretq_bf16_u32(vld1q_dup_u32((const uint32_t *)(const void *)(x + i + 2 * h)));
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; p++) {
        acc[h * PARTS + p] = vbfdotq_f32(acc[h * PARTS + p], vreinterpretq_bf16_u32(load_pairs(tile + 64 * h + 16 * p)), input);
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) vst1q_f32(out + 4 * p, vaddq_f32(acc[p], acc[PARTS + p]));
}

// acc[2 * r + o] holds outputs 2o and 2o + 1 of the quarter for rows 2r and 2r + 1: (o0 r0, o0 r1, o1 r0, o1 r1). `m` rows are stored, the
// last of an odd number was worked on twice.
INLINE void part_times(const unsigned char *tile, int64_t k, const uint16_t *const *rows, float *out, int64_t ld, int m, int pairs) {
  float32x4_t acc[2 * PAIRS];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * pairs; i++) acc[i] = vdupq_n_f32(0);
  for (int64_t i = 0; i < k; i += 4, tile += FOUR_INPUTS) {
    uint32x4_t a = load_pairs(tile), b = load_pairs(tile + 64);
    bfloat16x8_t w0 = vreinterpretq_bf16_u32(vzip1q_u32(a, b)), w1 = vreinterpretq_bf16_u32(vzip2q_u32(a, b));
#pragma GCC unroll 4
    for (int r = 0; r < pairs; r++) {
      bfloat16x8_t x = vreinterpretq_bf16_u16(vcombine_u16(vld1_u16(rows[2 * r] + i), vld1_u16(rows[2 * r + 1] + i)));
      acc[2 * r] = vbfmmlaq_f32(acc[2 * r], w0, x);
      acc[2 * r + 1] = vbfmmlaq_f32(acc[2 * r + 1], w1, x);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < pairs; r++) {
    vst1q_f32(out + 2 * r * ld, vuzp1q_f32(acc[2 * r], acc[2 * r + 1]));
    if (2 * r + 1 < m) vst1q_f32(out + (2 * r + 1) * ld, vuzp2q_f32(acc[2 * r], acc[2 * r + 1]));
  }
}

static void tile_times(const unsigned char *tile, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows, float *out, int64_t ld) {
  int64_t n_parts = (n_rows + ROWS - 1) / ROWS;
  for (int64_t i = 0; i < n_parts; i++) {
    int64_t begin = n_rows * i / n_parts, m = n_rows * (i + 1) / n_parts - begin;
    const uint16_t *x[ROWS];
    for (int64_t t = 0; t < ROWS; t++) x[t] = (const uint16_t *)(const void *)(rows + (size_t)(begin + (t < m ? t : m - 1)) * row_bytes);
    float *target = out + begin * ld;
    if (m == 1) {
      one_row(tile, k, x[0], target);
      continue;
    }
    for (int p = 0; p < PARTS; p++) {
      if (m > 6) {
        part_times(tile + 16 * p, k, x, target + 4 * p, ld, (int)m, 4);
      } else if (m > 4) {
        part_times(tile + 16 * p, k, x, target + 4 * p, ld, (int)m, 3);
      } else if (m > 2) {
        part_times(tile + 16 * p, k, x, target + 4 * p, ld, (int)m, 2);
      } else {
        part_times(tile + 16 * p, k, x, target + 4 * p, ld, (int)m, 1);
      }
    }
  }
}

// --- kernels --------------------------------------------------------------------------------------------------------------

void crn_linear_bf16_bf16_f32_8x16__bf16(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,
                                         int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {
  (void)scratch;
  int64_t blocks = LINEAR_BLOCKS(w->k);
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * blocks * LINEAR_HALF_BLOCK;
    tile_times(data, blocks * LINEAR_BLOCK, rows, row_bytes, n_rows, out, ld);
  }
}

static void run_widened(const crn_linear_weights *w, void (*widen)(const crn_linear_weights *, int64_t, float *), const char *rows,
                        size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, float *scratch) {
  int64_t k = LINEAR_BLOCKS(w->k) * LINEAR_BLOCK;
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    widen(w, tile, scratch);
    round_tile(scratch, k);
    tile_times((const unsigned char *)scratch, k, rows, row_bytes, n_rows, out, ld);
  }
}

#define KERNEL(rhs, widen)                                                                                                     \
  void crn_linear_bf16_##rhs##_f32_8x16__bf16(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run_widened(w, widen, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch);                                    \
  }

KERNEL(q4, crn_linear_widen_tile__neon)
KERNEL(q4m, crn_linear_widen_tile__neon)
KERNEL(q8, crn_linear_widen_tile__neon)
KERNEL(q8m, crn_linear_widen_tile__neon)
KERNEL(f16, crn_linear_widen_tile__neon)
KERNEL(f32, crn_linear_widen_tile__neon)
KERNEL(p1, crn_linear_widen_codes__neon)
KERNEL(p2, crn_linear_widen_codes__neon)
KERNEL(p4, crn_linear_widen_codes__neon)
KERNEL(p6, crn_linear_widen_codes__neon)
KERNEL(p8, crn_linear_widen_codes__neon)
