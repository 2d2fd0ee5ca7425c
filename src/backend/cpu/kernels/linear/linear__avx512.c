// EXACT mode: every output is one chain of fused multiply-adds in rising k. One row works on several tiles of packed weights at
// a time; more rows on pairs of tiles that were turned into f32 in scratch memory first.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_ahead.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, ROWS = 12, TILES = 4, TILE_BYTES = LANES * 4 };

void crn_linear_prepare_f32__avx512(const float *x, int64_t k, void *out_row) {
  float *row = out_row;
  for (int64_t i = 0; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i += LANES) {
    _mm512_store_ps(row + i, load_some(x + i, k - i));
  }
}

// --- weights --------------------------------------------------------------------------------------------------------------

// Scales of a group and what is added to quant * scale.
INLINE void group_terms(const unsigned char *block, int g, float zero, crn_linear_format f, __m512 *out_scale, __m512 *out_low) {
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + g * 32;
  __m512 low = has_mins(f) ? half16(scales + LINEAR_MINS) : _mm512_setzero_ps();
  *out_scale = half16(scales);
  *out_low = _mm512_fnmadd_ps(_mm512_set1_ps(zero), *out_scale, low);
}

// Input i of a vector of quants (8 of 4 bits or 4 of 8 bits a lane) as a number.
INLINE __m512 quant_of(__m512i x, int i, crn_linear_format f) {
  if (is_4bit(f)) {
    const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int shift = i < 4 ? 8 * i : 8 * i - 28;
    return _mm512_permutexvar_ps(shift ? _mm512_srli_epi32(x, (unsigned)shift) : x, numbers);
  }
  __m512i byte = i ? _mm512_srli_epi32(x, (unsigned)(8 * i)) : x;
  return _mm512_cvtepi32_ps(i < 3 ? _mm512_and_si512(byte, _mm512_set1_epi32(255)) : byte);
}

// Weights of input i of a block that is no quants.
INLINE __m512 float_of(const unsigned char *block, int i, crn_linear_format f) {
  if (f == CRN_LINEAR_F32) return _mm512_load_ps(block + i * 64);
  if (f == CRN_LINEAR_F16) return half16(block + i * 32);
  __m512i pair = _mm512_load_si512(block + i / 2 * 64);
  return _mm512_castsi512_ps(i % 2 ? _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000)) : _mm512_slli_epi32(pair, 16));
}

// --- one row --------------------------------------------------------------------------------------------------------------

// One group of 32 inputs of n tiles, in the block `at` bytes behind their beginning.
INLINE void add_group(__m512 *acc, const unsigned char *tile, int64_t at, int64_t tile_bytes, int g, const float *x, float zero, int n,
                      crn_linear_format f) {
  const int group_bytes = block_bytes(f) * GROUP / LINEAR_BLOCK;
  const unsigned char *block = tile + at;
#pragma GCC unroll 4
  for (int t = 0; t < n; t++) linear_ask_beside(tile + t * tile_bytes, at + g * group_bytes, group_bytes, tile_bytes, n);
  if (!is_quant(f)) {
#pragma GCC unroll 32
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 4
      for (int t = 0; t < n; t++) {
        acc[t] = _mm512_fmadd_ps(float_of(block + t * tile_bytes, g * GROUP + i, f), _mm512_set1_ps(x[i]), acc[t]);
      }
    }
    return;
  }
  __m512 scale[TILES], low[TILES];
#pragma GCC unroll 4
  for (int t = 0; t < n; t++) group_terms(block + t * tile_bytes, g, zero, f, scale + t, low + t);
  const unsigned char *quants = block + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
  int per_vector = is_4bit(f) ? 8 : 4;
  for (int j = 0; j < GROUP / per_vector; j++) {
    __m512i q[TILES];
#pragma GCC unroll 4
    for (int t = 0; t < n; t++) q[t] = _mm512_load_si512(quants + t * tile_bytes + j * 64);
#pragma GCC unroll 8
    for (int i = 0; i < per_vector; i++) {
      __m512 input = _mm512_set1_ps(x[j * per_vector + i]);
#pragma GCC unroll 4
      for (int t = 0; t < n; t++) acc[t] = _mm512_fmadd_ps(_mm512_fmadd_ps(quant_of(q[t], i, f), scale[t], low[t]), input, acc[t]);
    }
  }
}

INLINE void one_row(const unsigned char *tile, int64_t blocks, const float *x, float zero, float *out, int n, crn_linear_format f) {
  int64_t tile_bytes = blocks * block_bytes(f);
  __m512 acc[TILES];
#pragma GCC unroll 4
  for (int t = 0; t < n; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t at = 0; at < tile_bytes; at += block_bytes(f), x += LINEAR_BLOCK) {
    add_group(acc, tile, at, tile_bytes, 0, x, zero, n, f);
    add_group(acc, tile, at, tile_bytes, 1, x + GROUP, zero, n, f);
  }
#pragma GCC unroll 4
  for (int t = 0; t < n; t++) _mm512_storeu_ps(out + t * LANES, acc[t]);
}

// --- many rows ------------------------------------------------------------------------------------------------------------

// A tile as [inputs][16] f32.
INLINE void widen_tile(const unsigned char *tile, int64_t blocks, float zero, float *out, crn_linear_format f) {
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f)) {
    for (int g = 0; g < LINEAR_BLOCK / GROUP; g++) {
      __m512 scale, low;
      if (!is_quant(f)) {
        for (int i = 0; i < GROUP; i += 2, out += 2 * LANES) {
          const unsigned char *pair = tile + (g * GROUP + i) * (block_bytes(f) / LINEAR_BLOCK);
          _mm512_store_ps(out, float_of(pair, 0, f));
          _mm512_store_ps(out + LANES, float_of(pair, 1, f));
        }
        continue;
      }
      group_terms(tile, g, zero, f, &scale, &low);
      const unsigned char *quants = tile + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
      int per_vector = is_4bit(f) ? 8 : 4;
      for (int j = 0; j < GROUP / per_vector; j++, out += per_vector * LANES) {
        __m512i q = _mm512_load_si512(quants + j * 64);
#pragma GCC unroll 8
        for (int i = 0; i < per_vector; i++) _mm512_store_ps(out + i * LANES, _mm512_fmadd_ps(quant_of(q, i, f), scale, low));
      }
    }
  }
}

// m rows times a pair of tiles in f32; `w1` may equal `w0`, then only one tile is stored.
INLINE void pair_times(const float *w0, const float *w1, int64_t k, const char *rows, size_t row_bytes, float *out, int64_t ld, int m) {
  __m512 acc0[ROWS], acc1[ROWS];
  const float *x[ROWS];
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) {
    acc0[t] = acc1[t] = _mm512_setzero_ps();
    x[t] = (const float *)(const void *)(rows + (size_t)t * row_bytes);
  }
  for (int64_t i = 0; i < k; i++) {
    __m512 a = _mm512_load_ps(w0 + i * LANES), b = _mm512_load_ps(w1 + i * LANES);
#pragma GCC unroll 12
    for (int t = 0; t < m; t++) {
      __m512 input = _mm512_set1_ps(x[t][i]);
      acc0[t] = _mm512_fmadd_ps(a, input, acc0[t]);
      acc1[t] = _mm512_fmadd_ps(b, input, acc1[t]);
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) {
    _mm512_storeu_ps(out + t * ld, acc0[t]);
    if (w1 != w0) _mm512_storeu_ps(out + t * ld + LANES, acc1[t]);
  }
}

typedef void (*pair_fn)(const float *w0, const float *w1, int64_t k, const char *rows, size_t row_bytes, float *out, int64_t ld);

// A function of its own for each number of rows keeps the accumulators in registers.
#define PAIR_OF(m)                                                                                                                \
  __attribute__((noinline)) static void pair_##m(const float *w0, const float *w1, int64_t k, const char *rows, size_t row_bytes, \
                                                 float *out, int64_t ld) {                                                        \
    pair_times(w0, w1, k, rows, row_bytes, out, ld, m);                                                                           \
  }
PAIR_OF(1)
PAIR_OF(2)
PAIR_OF(3)
PAIR_OF(4)
PAIR_OF(5)
PAIR_OF(6)
PAIR_OF(7)
PAIR_OF(8)
PAIR_OF(9)
PAIR_OF(10)
PAIR_OF(11)
PAIR_OF(12)
static const pair_fn g_pairs[ROWS] = {pair_1, pair_2, pair_3, pair_4, pair_5, pair_6, pair_7, pair_8, pair_9, pair_10, pair_11, pair_12};

void crn_linear_wide_pair__avx512(const float *w0, const float *w1, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows,
                                  float *out, int64_t ld) {
  int64_t n_parts = (n_rows + ROWS - 1) / ROWS;
  for (int64_t i = 0; i < n_parts; i++) {
    int64_t begin = n_rows * i / n_parts, end = n_rows * (i + 1) / n_parts;
    g_pairs[end - begin - 1](w0, w1, k, rows + (size_t)begin * row_bytes, row_bytes, out + begin * ld, ld);
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
    if (left == 3) one_row(tile, blocks, x, zero, target, 3, f);
    if (left == 2) one_row(tile, blocks, x, zero, target, 2, f);
    if (left == 1) one_row(tile, blocks, x, zero, target, 1, f);
  }
}

INLINE void run_many(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                     float *out, int64_t ld, float *scratch, crn_linear_format f) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f), k = blocks * LINEAR_BLOCK;
  for (int64_t tile = tile_begin; tile < tile_end; tile += 2) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    bool two = tile + 1 < tile_end;
    const float *w0 = scratch, *w1 = two ? scratch + k * LANES : w0;
    if (f == CRN_LINEAR_F32) {
      w0 = (const float *)(const void *)data;
      w1 = two ? w0 + k * LANES : w0;
    } else {
      widen_tile(data, blocks, zero_of(w, f), scratch, f);
      if (two) widen_tile(data + tile_bytes, blocks, zero_of(w, f), scratch + k * LANES, f);
    }
    crn_linear_wide_pair__avx512(w0, w1, k, rows, row_bytes, n_rows, out + (tile - tile_begin) * LANES, ld);
  }
}

#define KERNELS(rhs, f)                                                                                                          \
  void crn_linear_f32_##rhs##_f32_1x64__avx512(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,  \
                                               int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {    \
    (void)scratch;                                                                                                               \
    run_few(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, f);                                                       \
  }                                                                                                                              \
  void crn_linear_f32_##rhs##_f32_12x32__avx512(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run_many(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f);                                             \
  }

KERNELS(q4, CRN_LINEAR_Q4)
KERNELS(q4m, CRN_LINEAR_Q4M)
KERNELS(q8, CRN_LINEAR_Q8)
KERNELS(q8m, CRN_LINEAR_Q8M)
KERNELS(f16, CRN_LINEAR_F16)
KERNELS(bf16, CRN_LINEAR_BF16)
KERNELS(f32, CRN_LINEAR_F32)
