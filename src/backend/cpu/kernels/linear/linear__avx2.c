// EXACT mode with vectors of 8: every output is one chain of fused multiply-adds in rising k. One row works on two tiles of packed
// weights at a time; more rows on a tile that was turned into f32 in scratch memory first.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_ahead.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, HALF = 8, GROUP = CRN_LINEAR_GROUP, ROWS = 6, TILES = 2 };

void crn_linear_prepare_f32__avx2(const float *x, int64_t k, void *out_row) {
  float *row = out_row;
  int64_t i = 0;
  for (; i + HALF <= k; i += HALF) _mm256_store_ps(row + i, _mm256_loadu_ps(x + i));
  for (; i < k; i++) row[i] = x[i];
  for (; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i++) row[i] = 0;
}

// --- weights --------------------------------------------------------------------------------------------------------------

INLINE __m256i load32(const unsigned char *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }

// Scales of one half of the outputs in a group, and what is added to quant * scale.
INLINE void group_terms(const unsigned char *block, int g, int half, float zero, crn_linear_format f, __m256 *out_scale, __m256 *out_low) {
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + g * 32 + half * 16;
  __m256 low = has_mins(f) ? half8(scales + LINEAR_MINS) : _mm256_setzero_ps();
  *out_scale = half8(scales);
  *out_low = _mm256_fnmadd_ps(_mm256_set1_ps(zero), *out_scale, low);
}

// Input i of a vector of quants (8 of 4 bits or 4 of 8 bits a lane) as a number.
INLINE __m256 quant_of(__m256i x, int i, crn_linear_format f) {
  int shift = !is_4bit(f) || i < 4 ? 8 * i : 8 * i - 28, bits = is_4bit(f) ? 4 : 8;
  if (shift) x = _mm256_srli_epi32(x, shift);
  if (shift + bits < 32) x = _mm256_and_si256(x, _mm256_set1_epi32((1 << bits) - 1));
  return _mm256_cvtepi32_ps(x);
}

// Weights of input i of a block that is no quants.
INLINE __m256 float_of(const unsigned char *block, int i, int half, crn_linear_format f) {
  if (f == CRN_LINEAR_F32) return _mm256_load_ps((const float *)(const void *)(block + i * 64 + half * 32));
  if (f == CRN_LINEAR_F16) return half8(block + i * 32 + half * 16);
  __m256i pair = load32(block + i / 2 * 64 + half * 32);
  return _mm256_castsi256_ps(i % 2 ? _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000)) : _mm256_slli_epi32(pair, 16));
}

// --- one row --------------------------------------------------------------------------------------------------------------

// One group of 32 inputs of n tiles, in the block `at` bytes behind their beginning, in halves.
INLINE void add_group(__m256 *acc, const unsigned char *tile, int64_t at, int64_t tile_bytes, int g, const float *x, float zero, int n,
                      crn_linear_format f) {
  const int group_bytes = block_bytes(f) * GROUP / LINEAR_BLOCK;
  const unsigned char *block = tile + at;
#pragma GCC unroll 2
  for (int t = 0; t < n; t++) linear_ask_beside(tile + t * tile_bytes, at + g * group_bytes, group_bytes, tile_bytes, n);
  if (!is_quant(f)) {
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) {
      __m256 input = _mm256_broadcast_ss(x + i);
#pragma GCC unroll 4
      for (int t = 0; t < 2 * n; t++) {
        acc[t] = _mm256_fmadd_ps(float_of(block + t / 2 * tile_bytes, g * GROUP + i, t % 2, f), input, acc[t]);
      }
    }
    return;
  }
  __m256 scale[2 * TILES], low[2 * TILES];
#pragma GCC unroll 4
  for (int t = 0; t < 2 * n; t++) group_terms(block + t / 2 * tile_bytes, g, t % 2, zero, f, scale + t, low + t);
  const unsigned char *quants = block + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
  int per_vector = is_4bit(f) ? 8 : 4;
  for (int j = 0; j < GROUP / per_vector; j++) {
#pragma GCC unroll 8
    for (int i = 0; i < per_vector; i++) {
      __m256 input = _mm256_broadcast_ss(x + j * per_vector + i);
#pragma GCC unroll 4
      for (int t = 0; t < 2 * n; t++) {
        __m256 quant = quant_of(load32(quants + t / 2 * tile_bytes + j * 64 + t % 2 * 32), i, f);
        acc[t] = _mm256_fmadd_ps(_mm256_fmadd_ps(quant, scale[t], low[t]), input, acc[t]);
      }
    }
  }
}

INLINE void one_row(const unsigned char *tile, int64_t blocks, const float *x, float zero, float *out, int n, crn_linear_format f) {
  int64_t tile_bytes = blocks * block_bytes(f);
  __m256 acc[2 * TILES];
#pragma GCC unroll 4
  for (int t = 0; t < 2 * n; t++) acc[t] = _mm256_setzero_ps();
  for (int64_t at = 0; at < tile_bytes; at += block_bytes(f), x += LINEAR_BLOCK) {
    add_group(acc, tile, at, tile_bytes, 0, x, zero, n, f);
    add_group(acc, tile, at, tile_bytes, 1, x + GROUP, zero, n, f);
  }
#pragma GCC unroll 4
  for (int t = 0; t < 2 * n; t++) _mm256_storeu_ps(out + t * HALF, acc[t]);
}

// --- many rows ------------------------------------------------------------------------------------------------------------

// One half of the outputs of a tile as [inputs][16] f32.
INLINE void widen_half(const unsigned char *tile, int64_t blocks, int half, float zero, float *out, crn_linear_format f) {
  for (int64_t g = 0; g < 2 * blocks; g++) {
    const unsigned char *block = tile + g / 2 * block_bytes(f);
    int in = (int)(g % 2);
    if (!is_quant(f)) {
      for (int i = 0; i < GROUP; i += 2, out += 2 * LANES) {
        const unsigned char *pair = block + (in * GROUP + i) * (block_bytes(f) / LINEAR_BLOCK);
        _mm256_store_ps(out, float_of(pair, 0, half, f));
        _mm256_store_ps(out + LANES, float_of(pair, 1, half, f));
      }
      continue;
    }
    __m256 scale, low;
    group_terms(block, in, half, zero, f, &scale, &low);
    const unsigned char *quants = block + in * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP) + half * 32;
    int per_vector = is_4bit(f) ? 8 : 4;
    for (int j = 0; j < GROUP / per_vector; j++, out += per_vector * LANES) {
      __m256i q = load32(quants + j * 64);
#pragma GCC unroll 8
      for (int i = 0; i < per_vector; i++) _mm256_store_ps(out + i * LANES, _mm256_fmadd_ps(quant_of(q, i, f), scale, low));
    }
  }
}

// m rows times a tile in f32.
INLINE void tile_times(const float *w, int64_t k, const char *rows, size_t row_bytes, float *out, int64_t ld, int m) {
  __m256 acc0[ROWS], acc1[ROWS];
  const float *x[ROWS];
#pragma GCC unroll 6
  for (int t = 0; t < m; t++) {
    acc0[t] = acc1[t] = _mm256_setzero_ps();
    x[t] = (const float *)(const void *)(rows + (size_t)t * row_bytes);
  }
  for (int64_t i = 0; i < k; i++, w += LANES) {
    __m256 a = _mm256_load_ps(w), b = _mm256_load_ps(w + HALF);
#pragma GCC unroll 6
    for (int t = 0; t < m; t++) {
      __m256 input = _mm256_broadcast_ss(x[t] + i);
      acc0[t] = _mm256_fmadd_ps(a, input, acc0[t]);
      acc1[t] = _mm256_fmadd_ps(b, input, acc1[t]);
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < m; t++) {
    _mm256_storeu_ps(out + t * ld, acc0[t]);
    _mm256_storeu_ps(out + t * ld + HALF, acc1[t]);
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

void crn_linear_wide_tile__avx2(const float *w, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows, float *out, int64_t ld) {
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
  float zero = zero_of(w, f);
  for (int64_t r = 0; r < n_rows; r++, rows += row_bytes, out += ld) {
    const unsigned char *tile = (const unsigned char *)w->data + tile_begin * tile_bytes;
    const float *x = (const float *)(const void *)rows;
    float *target = out;
    int64_t left = tile_end - tile_begin;
    for (; left >= TILES; left -= TILES, tile += TILES * tile_bytes, target += TILES * LANES)
      one_row(tile, blocks, x, zero, target, TILES, f);
    if (left == 1) one_row(tile, blocks, x, zero, target, 1, f);
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
      widen_half(data, blocks, 0, zero_of(w, f), scratch, f);
      widen_half(data, blocks, 1, zero_of(w, f), scratch + HALF, f);
    }
    crn_linear_wide_tile__avx2(wide, k, rows, row_bytes, n_rows, out, ld);
  }
}

#define KERNELS(rhs, f)                                                                                                       \
  void crn_linear_f32_##rhs##_f32_1x32__avx2(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                            \
    run_few(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, f);                                                    \
  }                                                                                                                           \
  void crn_linear_f32_##rhs##_f32_6x16__avx2(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
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
