// EXACT mode with vectors of 4: every output is one chain of fused multiply-adds in rising k. One row works on a tile of packed weights,
// more rows on a tile that was turned into f32 in scratch memory first.
#include <arm_neon.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, QUARTER = 4, PARTS = 4, GROUP = CRN_LINEAR_GROUP, ROWS = 6 };

void crn_linear_prepare_f32__neon(const float *x, int64_t k, void *out_row) {
  float *row = out_row;
  int64_t i = 0;
  for (; i + QUARTER <= k; i += QUARTER) vst1q_f32(row + i, vld1q_f32(x + i));
  for (; i < k; i++) row[i] = x[i];
  for (; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i++) row[i] = 0;
}

// --- weights --------------------------------------------------------------------------------------------------------------

INLINE uint32x4_t load16(const unsigned char *p) { return vld1q_u32((const uint32_t *)(const void *)p); }

// Scales of a quarter of the outputs in a group, and what is added to quant * scale.
INLINE void group_terms(const unsigned char *block, int g, int part, float zero, crn_linear_format f, float32x4_t *out_scale,
                        float32x4_t *out_low) {
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + g * 32 + part * 8;
  float32x4_t low = has_mins(f) ? half4(scales + LINEAR_MINS) : vdupq_n_f32(0);
  *out_scale = half4(scales);
  *out_low = vfmsq_f32(low, vdupq_n_f32(zero), *out_scale);
}

// Input i of a vector of quants (8 of 4 bits or 4 of 8 bits a lane) as a number.
INLINE float32x4_t quant_of(uint32x4_t x, int i, crn_linear_format f) {
  int shift = !is_4bit(f) || i < 4 ? 8 * i : 8 * i - 28, bits = is_4bit(f) ? 4 : 8;
  x = vshlq_u32(x, vdupq_n_s32(-shift));
  return vcvtq_f32_u32(vandq_u32(x, vdupq_n_u32((1u << bits) - 1)));
}

// Weights of input i of a block that is no quants.
INLINE float32x4_t float_of(const unsigned char *block, int i, int part, crn_linear_format f) {
  if (f == CRN_LINEAR_F32) return vreinterpretq_f32_u32(load16(block + i * 64 + part * 16));
  if (f == CRN_LINEAR_F16) return half4(block + i * 32 + part * 8);
  uint32x4_t pair = load16(block + i / 2 * 64 + part * 16);
  return vreinterpretq_f32_u32(i % 2 ? vandq_u32(pair, vdupq_n_u32(0xffff0000u)) : vshlq_n_u32(pair, 16));
}

// --- one row --------------------------------------------------------------------------------------------------------------

INLINE void add_group(float32x4_t *acc, const unsigned char *block, int g, const float *x, float zero, crn_linear_format f) {
  if (!is_quant(f)) {
    for (int i = 0; i < GROUP; i += 2) {
      const unsigned char *pair = block + (g * GROUP + i) * (block_bytes(f) / LINEAR_BLOCK);
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; p++) {
        acc[p] = vfmaq_f32(acc[p], float_of(pair, 0, p, f), vld1q_dup_f32(x + i));
        acc[p] = vfmaq_f32(acc[p], float_of(pair, 1, p, f), vld1q_dup_f32(x + i + 1));
      }
    }
    return;
  }
  float32x4_t scale[PARTS], low[PARTS];
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) group_terms(block, g, p, zero, f, scale + p, low + p);
  const unsigned char *quants = block + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
  const int per_vector = is_4bit(f) ? 8 : 4;
  for (int j = 0; j < GROUP / per_vector; j++) {
    uint32x4_t q[PARTS];
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) q[p] = load16(quants + j * 64 + p * 16);
#pragma GCC unroll 8
    for (int i = 0; i < per_vector; i++) {
      float32x4_t input = vld1q_dup_f32(x + j * per_vector + i);
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; p++) acc[p] = vfmaq_f32(acc[p], vfmaq_f32(low[p], quant_of(q[p], i, f), scale[p]), input);
    }
  }
}

INLINE void one_row(const unsigned char *tile, int64_t blocks, const float *x, float zero, float *out, crn_linear_format f) {
  float32x4_t acc[PARTS];
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) acc[p] = vdupq_n_f32(0);
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f), x += LINEAR_BLOCK) {
    add_group(acc, tile, 0, x, zero, f);
    add_group(acc, tile, 1, x + GROUP, zero, f);
  }
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) vst1q_f32(out + p * QUARTER, acc[p]);
}

// --- many rows ------------------------------------------------------------------------------------------------------------

// A quarter of the outputs of a tile as [inputs][16] f32.
INLINE void widen_part(const unsigned char *tile, int64_t blocks, int part, float zero, float *out, crn_linear_format f) {
  for (int64_t g = 0; g < 2 * blocks; g++) {
    const unsigned char *block = tile + g / 2 * block_bytes(f);
    int in = (int)(g % 2);
    if (!is_quant(f)) {
      for (int i = 0; i < GROUP; i += 2, out += 2 * LANES) {
        const unsigned char *pair = block + (in * GROUP + i) * (block_bytes(f) / LINEAR_BLOCK);
        vst1q_f32(out, float_of(pair, 0, part, f));
        vst1q_f32(out + LANES, float_of(pair, 1, part, f));
      }
      continue;
    }
    float32x4_t scale, low;
    group_terms(block, in, part, zero, f, &scale, &low);
    const unsigned char *quants = block + in * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP) + part * 16;
    const int per_vector = is_4bit(f) ? 8 : 4;
    for (int j = 0; j < GROUP / per_vector; j++, out += per_vector * LANES) {
      uint32x4_t q = load16(quants + j * 64);
#pragma GCC unroll 8
      for (int i = 0; i < per_vector; i++) vst1q_f32(out + i * LANES, vfmaq_f32(low, quant_of(q, i, f), scale));
    }
  }
}

INLINE void widen_format(const crn_linear_weights *w, const unsigned char *tile, float *out, crn_linear_format f) {
  for (int p = 0; p < PARTS; p++) widen_part(tile, LINEAR_BLOCKS(w->k), p, zero_of(w, f), out + p * QUARTER, f);
}

void crn_linear_widen_tile__neon(const crn_linear_weights *w, int64_t tile, float *out) {
  const unsigned char *data = (const unsigned char *)w->data + tile * LINEAR_BLOCKS(w->k) * block_bytes(w->format);
#define CASE(f)                    \
  case f:                          \
    widen_format(w, data, out, f); \
    break;
  switch (w->format) {
    CASE(CRN_LINEAR_Q4)
    CASE(CRN_LINEAR_Q4M)
    CASE(CRN_LINEAR_Q8)
    CASE(CRN_LINEAR_Q8M)
    CASE(CRN_LINEAR_F16)
    CASE(CRN_LINEAR_F32)
    default:
      break;
  }
#undef CASE
}

// --- products -------------------------------------------------------------------------------------------------------------

// m rows times a tile in f32.
INLINE void tile_times(const float *w, int64_t k, const char *rows, size_t row_bytes, float *out, int64_t ld, int m) {
  float32x4_t acc[ROWS][PARTS];
  const float *x[ROWS];
#pragma GCC unroll 6
  for (int t = 0; t < m; t++) {
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) acc[t][p] = vdupq_n_f32(0);
    x[t] = (const float *)(const void *)(rows + (size_t)t * row_bytes);
  }
  for (int64_t i = 0; i < k; i++, w += LANES) {
    float32x4_t v[PARTS];
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) v[p] = vld1q_f32(w + p * QUARTER);
#pragma GCC unroll 6
    for (int t = 0; t < m; t++) {
      float32x4_t input = vld1q_dup_f32(x[t] + i);
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; p++) acc[t][p] = vfmaq_f32(acc[t][p], v[p], input);
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < m; t++) {
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) vst1q_f32(out + t * ld + p * QUARTER, acc[t][p]);
  }
}

typedef void (*tile_fn)(const float *w, int64_t k, const char *rows, size_t row_bytes, float *out, int64_t ld);

// A function of its own for each number of rows keeps the accumulators in registers.
#define TILE_OF(m)                                                                                                                        \
  __attribute__((noinline)) static void tile_##m(const float *w, int64_t k, const char *rows, size_t row_bytes, float *out, int64_t ld) { \
    tile_times(w, k, rows, row_bytes, out, ld, m);                                                                                        \
  }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)
static const tile_fn g_tiles[ROWS] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

void crn_linear_wide_tile__neon(const float *w, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows, float *out, int64_t ld) {
  int64_t n_parts = (n_rows + ROWS - 1) / ROWS;
  for (int64_t i = 0; i < n_parts; i++) {
    int64_t begin = n_rows * i / n_parts, end = n_rows * (i + 1) / n_parts;
    g_tiles[end - begin - 1](w, k, rows + (size_t)begin * row_bytes, row_bytes, out + begin * ld, ld);
  }
}

// --- kernels --------------------------------------------------------------------------------------------------------------

INLINE void run_few(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                    float *out, int64_t ld, crn_linear_format f) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f);
  for (int64_t r = 0; r < n_rows; r++, rows += row_bytes, out += ld) {
    const unsigned char *tile = (const unsigned char *)w->data + tile_begin * tile_bytes;
    for (int64_t t = 0; t < tile_end - tile_begin; t++, tile += tile_bytes) {
      one_row(tile, blocks, (const float *)(const void *)rows, zero_of(w, f), out + t * LANES, f);
    }
  }
}

INLINE void run_many(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                     float *out, int64_t ld, float *scratch, crn_linear_format f) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f), k = blocks * LINEAR_BLOCK;
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    const float *wide = scratch;
    if (f == CRN_LINEAR_F32) {
      wide = (const float *)(const void *)data;
    } else {
      widen_format(w, data, scratch, f);
    }
    crn_linear_wide_tile__neon(wide, k, rows, row_bytes, n_rows, out, ld);
  }
}

#define KERNELS(rhs, f)                                                                                                       \
  void crn_linear_f32_##rhs##_f32_1x16__neon(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                            \
    run_few(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, f);                                                    \
  }                                                                                                                           \
  void crn_linear_f32_##rhs##_f32_6x16__neon(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run_many(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f);                                          \
  }

KERNELS(q4, CRN_LINEAR_Q4)
KERNELS(q4m, CRN_LINEAR_Q4M)
KERNELS(q8, CRN_LINEAR_Q8)
KERNELS(q8m, CRN_LINEAR_Q8M)
KERNELS(f16, CRN_LINEAR_F16)
KERNELS(bf16, CRN_LINEAR_BF16)
KERNELS(f32, CRN_LINEAR_F32)
