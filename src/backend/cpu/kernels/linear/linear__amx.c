// Many rows in the modes BF16 and INT8: weights are turned into bf16 tiles in scratch memory once, then all rows are multiplied
// with them, 32 rows times 32 outputs in tile registers and sums in f32 over all inputs.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

#define INLINE static inline __attribute__((always_inline))
// The compiler does not know which memory tile instructions read and write.
#define FENCE() __asm__ volatile("" : : : "memory")

enum {
  LANES = LINEAR_LANES,
  STEP = 32,                      ///< inputs a tile instruction multiplies
  TILE_BYTES = STEP * LANES * 2,  ///< of such a piece of 16 outputs
  ROWS = 16,                      ///< rows of a tile register
};

// --- weights as bf16 ------------------------------------------------------------------------------------------------------

INLINE __m512 half16(const unsigned char *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }

// Two inputs of 16 outputs as pairs, rounded to nearest even.
INLINE void store_pair(unsigned char *out, __m512 even, __m512 odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                         18, 2, 17, 1, 16, 0);
  __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  _mm512_store_si512(out, _mm512_permutexvar_epi16(order, both));
}

// The part of `x` under a mask is quant * 2^shift; the scale takes the power of two out again, exactly.
INLINE __m512 quants_at(__m512i x, int shift, int bits, __m512 scale, __m512 low) {
  __m512i masked = _mm512_and_si512(x, _mm512_set1_epi32((int)(((1u << bits) - 1) << shift)));
  __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(1.0f / (float)(1u << shift)));
  return _mm512_fmadd_ps(_mm512_cvtepu32_ps(masked), factor, low);
}

// One group of 32 inputs.
INLINE void widen_group(const unsigned char *quants, const unsigned char *scales, __m512 zero, unsigned char *out, crn_linear_format f) {
  __m512 scale = half16(scales), low = _mm512_setzero_ps();
  if (f == CRN_LINEAR_Q4M || f == CRN_LINEAR_Q8M) low = half16(scales + LINEAR_MINS);
  low = _mm512_fnmadd_ps(zero, scale, low);
  if (f <= CRN_LINEAR_Q4M) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++, out += 256) {
      __m512i x = _mm512_load_si512(quants + 64 * j);
      store_pair(out, quants_at(x, 0, 4, scale, low), quants_at(x, 8, 4, scale, low));
      store_pair(out + 64, quants_at(x, 16, 4, scale, low), quants_at(x, 24, 4, scale, low));
      store_pair(out + 128, quants_at(x, 4, 4, scale, low), quants_at(x, 12, 4, scale, low));
      store_pair(out + 192, quants_at(x, 20, 4, scale, low), quants_at(x, 28, 4, scale, low));
    }
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++, out += 128) {
      __m512i x = _mm512_load_si512(quants + 64 * j);
      store_pair(out, quants_at(x, 0, 8, scale, low), quants_at(x, 8, 8, scale, low));
      store_pair(out + 64, quants_at(x, 16, 8, scale, low), quants_at(x, 24, 8, scale, low));
    }
  }
}

INLINE int block_bytes(crn_linear_format f) {
  return f == CRN_LINEAR_Q4    ? LINEAR_Q4_BLOCK
         : f == CRN_LINEAR_Q4M ? LINEAR_Q4M_BLOCK
         : f == CRN_LINEAR_Q8  ? LINEAR_Q8_BLOCK
         : f == CRN_LINEAR_Q8M ? LINEAR_Q8M_BLOCK
         : f == CRN_LINEAR_F32 ? LINEAR_F32_BLOCK
                               : LINEAR_HALF_BLOCK;
}

// All inputs of one tile of outputs as [inputs / 2][16][2] bf16.
INLINE void widen_tile(const unsigned char *tile, int64_t blocks, int zero, unsigned char *out, crn_linear_format f) {
  bool is_4bit = f <= CRN_LINEAR_Q4M;
  int group_bytes = is_4bit ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP, scales = is_4bit ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES;
  __m512 offset = _mm512_set1_ps((float)(is_4bit ? zero : zero + LINEAR_Q8_BIAS));
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f), out += 2 * TILE_BYTES) {
    if (f <= CRN_LINEAR_Q8M) {
      widen_group(tile, tile + scales, offset, out, f);
      widen_group(tile + group_bytes, tile + scales + 32, offset, out + TILE_BYTES, f);
      continue;
    }
    for (int i = 0; i < LINEAR_BLOCK; i += 2) {
      if (f == CRN_LINEAR_F16) store_pair(out + i * 32, half16(tile + i * 32), half16(tile + i * 32 + 32));
      if (f == CRN_LINEAR_F32) store_pair(out + i * 32, _mm512_load_ps(tile + i * 64), _mm512_load_ps(tile + i * 64 + 64));
    }
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

// Tile registers: 0..3 sums, 4 and 5 rows, 6 and 7 weights. The second 16 rows may be missing.
static void configure(int rows0, int rows1) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config __attribute__((aligned(64))) = {.palette = 1};
  const int rows[8] = {rows0, rows0, rows1, rows1, rows0, rows1, ROWS, ROWS};
  for (int i = 0; i < 8; i++) {
    config.row_bytes[i] = rows[i] ? 64 : 0;
    config.rows[i] = (uint8_t)rows[i];
  }
  FENCE();
  _tile_loadconfig(&config);
}

// Up to 32 rows at hand, and what the next ones need from memory meanwhile: `n_next` rows a pair of tiles.
typedef struct block {
  const char *rows, *next;
  size_t row_bytes;
  int64_t n_steps;
  int n_next;
} block;

// The rows of a block times one or two tiles of outputs.
INLINE void multiply(const block *p, const unsigned char *w0, const unsigned char *w1, float *out, int64_t ld, bool two_rows,
                     bool two_tiles) {
  const char *low_rows = p->rows + ROWS * p->row_bytes;
  _tile_zero(0);
  if (two_tiles) _tile_zero(1);
  if (two_rows) _tile_zero(2);
  if (two_rows && two_tiles) _tile_zero(3);
  for (int64_t i = 0; i < p->n_steps; i++) {
    for (int n = 0; n < p->n_next; n++) _mm_prefetch(p->next + (size_t)n * p->row_bytes + i * 64, _MM_HINT_T1);
    _tile_loadd(4, p->rows + i * 64, p->row_bytes);
    _tile_loadd(6, w0 + i * TILE_BYTES, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (two_tiles) {
      _tile_loadd(7, w1 + i * TILE_BYTES, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (two_rows) {
      _tile_loadd(5, low_rows + i * 64, p->row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if (two_tiles) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, out, ld * 4);
  if (two_tiles) _tile_stored(1, out + LANES, ld * 4);
  if (two_rows) _tile_stored(2, out + ROWS * ld, ld * 4);
  if (two_rows && two_tiles) _tile_stored(3, out + ROWS * ld + LANES, ld * 4);
}

// All rows times up to LINEAR_PANELS pairs of tiles, whose weights together stay in the cache, as do the rows of a block.
static void multiply_tiles(const char *rows, size_t row_bytes, int64_t n_rows, const unsigned char *weights, int64_t blocks,
                           int64_t n_tiles, float *out, int64_t ld) {
  int64_t tile_bytes = 2 * blocks * TILE_BYTES;
  for (int64_t r = 0; r < n_rows; r += 2 * ROWS, rows += 2 * ROWS * row_bytes, out += 2 * ROWS * ld) {
    int64_t left = n_rows - r, ahead = left >= 4 * ROWS ? (2 * ROWS + (n_tiles + 1) / 2 - 1) / ((n_tiles + 1) / 2) : 0;
    block p = {rows, rows, row_bytes, 2 * blocks, 0};
    if (r == 0 || left < 2 * ROWS) configure(left < ROWS ? (int)left : ROWS, left <= ROWS ? 0 : left < 2 * ROWS ? (int)left - ROWS : ROWS);
    for (int64_t t = 0; t < n_tiles; t += 2) {
      const unsigned char *w0 = weights + t * tile_bytes, *w1 = w0 + tile_bytes;
      bool two_rows = left > ROWS, two_tiles = t + 1 < n_tiles;
      int64_t begin = t / 2 * ahead, end = begin + ahead < 2 * ROWS ? begin + ahead : 2 * ROWS;
      p.next = rows + (2 * ROWS + begin) * row_bytes;
      p.n_next = begin < end ? (int)(end - begin) : 0;
      if (two_rows && two_tiles) {
        multiply(&p, w0, w1, out + t * LANES, ld, true, true);
      } else if (two_rows) {
        multiply(&p, w0, w0, out + t * LANES, ld, true, false);
      } else if (two_tiles) {
        multiply(&p, w0, w1, out + t * LANES, ld, false, true);
      } else {
        multiply(&p, w0, w0, out + t * LANES, ld, false, false);
      }
    }
  }
}

INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, unsigned char *scratch, crn_linear_format f) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f), wide_bytes = 2 * blocks * TILE_BYTES;
  int64_t most = 2 * LINEAR_PANELS(w->k);
  for (int64_t t = tile_begin; t < tile_end; t += most) {
    int64_t n_tiles = tile_end - t < most ? tile_end - t : most;
    const unsigned char *weights = (const unsigned char *)w->data + t * tile_bytes;
    // bf16 weights are stored as tile registers want them.
    if (f != CRN_LINEAR_BF16) {
      for (int64_t i = 0; i < n_tiles; i++) widen_tile(weights + i * tile_bytes, blocks, w->zero, scratch + i * wide_bytes, f);
      weights = scratch;
    }
    FENCE();
    multiply_tiles(rows, row_bytes, n_rows, weights, blocks, n_tiles, out + (t - tile_begin) * LANES, ld);
    FENCE();
  }
  _tile_release();
}

#define KERNEL(rhs, f)                                                                                                         \
  void crn_linear_bf16_##rhs##_f32_32x32__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f);                                                \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
KERNEL(f16, CRN_LINEAR_F16)
KERNEL(bf16, CRN_LINEAR_BF16)
KERNEL(f32, CRN_LINEAR_F32)
