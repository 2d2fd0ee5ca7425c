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
  PART_STEPS = 18,                ///< of 32 rows that stay in the first-level cache, and some room
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

// Up to 32 rows at hand times pairs of tiles of weights, over a part of the inputs; `ahead` rows of the next block are fetched a pair.
typedef struct part {
  const char *rows;
  size_t row_bytes;
  const unsigned char *weights;
  int64_t tile_stride, n_steps;
  float *out;
  int64_t ld;
  int ahead;
  bool is_first;   ///< of the parts: sums begin at 0, else with what the last part left
  bool is_stream;  ///< the weights come from memory and serve few rows
} part;

INLINE void load_sums(const part *p, float *out, bool two_rows, bool two_tiles) {
  if (p->is_first) {
    _tile_zero(0);
    if (two_tiles) _tile_zero(1);
    if (two_rows) _tile_zero(2);
    if (two_rows && two_tiles) _tile_zero(3);
    return;
  }
  _tile_loadd(0, out, p->ld * 4);
  if (two_tiles) _tile_loadd(1, out + LANES, p->ld * 4);
  if (two_rows) _tile_loadd(2, out + ROWS * p->ld, p->ld * 4);
  if (two_rows && two_tiles) _tile_loadd(3, out + ROWS * p->ld + LANES, p->ld * 4);
}

// The rows times tiles t and t + 1. Weights are loaded past the first-level cache, in which the part of the rows stays for all pairs:
// the second level alone does not deliver both as fast as they are multiplied. What comes from memory needs the first level's prefetcher.
INLINE void multiply(const part *p, int64_t t, bool two_rows, bool two_tiles, bool is_stream) {
  const char *low_rows = p->rows + ROWS * p->row_bytes;
  const char *next = p->rows + (size_t)(2 * ROWS + t / 2 * p->ahead) * p->row_bytes;
  const unsigned char *w0 = p->weights + t * p->tile_stride, *w1 = w0 + p->tile_stride;
  float *out = p->out + t * LANES;
  load_sums(p, out, two_rows, two_tiles);
  for (int64_t i = 0; i < p->n_steps; i++) {
    for (int n = 0; n < p->ahead; n++) _mm_prefetch(next + (size_t)n * p->row_bytes + i * 64, _MM_HINT_T1);
    if (is_stream) {
      _tile_loadd(6, w0 + i * TILE_BYTES, 64);
    } else {
      _tile_stream_loadd(6, w0 + i * TILE_BYTES, 64);
    }
    _tile_loadd(4, p->rows + i * 64, p->row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if (two_rows) {
      _tile_loadd(5, low_rows + i * 64, p->row_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (two_tiles) {
      if (is_stream) {
        _tile_loadd(7, w1 + i * TILE_BYTES, 64);
      } else {
        _tile_stream_loadd(7, w1 + i * TILE_BYTES, 64);
      }
      if (two_rows) _tile_dpbf16ps(3, 5, 7);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, out, p->ld * 4);
  if (two_tiles) _tile_stored(1, out + LANES, p->ld * 4);
  if (two_rows) _tile_stored(2, out + ROWS * p->ld, p->ld * 4);
  if (two_rows && two_tiles) _tile_stored(3, out + ROWS * p->ld + LANES, p->ld * 4);
}

INLINE void multiply_part(const part *p, int64_t n_tiles, bool two_rows) {
  int64_t t = 0;
  for (; p->is_stream && t + 1 < n_tiles; t += 2) multiply(p, t, two_rows, true, true);
  for (; t + 1 < n_tiles; t += 2) multiply(p, t, two_rows, true, false);
  if (t < n_tiles) multiply(p, t, two_rows, false, false);
}

/// Who takes the sums of tiles from `tile` on, once all parts are in; sink NULL = they are wanted in `out`. `is_compact`: sums wait for
/// nothing else, and those of 32 rows after those of the last have one place.
typedef struct target {
  const crn_linear_sink *sink;
  int64_t tile;
  bool is_compact;
} target;

// All rows times up to LINEAR_WIDE_TILES tiles over the inputs of `whole`, whose weights stay in the second-level cache.
static void multiply_tiles(const part *whole, int64_t n_rows, int64_t n_tiles, const target *to) {
  int64_t n_parts = whole->is_stream ? 1 : (whole->n_steps + PART_STEPS - 1) / PART_STEPS, pairs = (n_tiles + 1) / 2;
  for (int64_t r = 0; r < n_rows; r += 2 * ROWS) {
    int64_t left = n_rows - r;
    float *out = to->is_compact ? whole->out : whole->out + r * whole->ld;
    if (r == 0 || left < 2 * ROWS) configure(left < ROWS ? (int)left : ROWS, left <= ROWS ? 0 : left < 2 * ROWS ? (int)left - ROWS : ROWS);
    for (int64_t i = 0; i < n_parts; i++) {
      int64_t begin = whole->n_steps * i / n_parts, end = whole->n_steps * (i + 1) / n_parts;
      part p = *whole;
      p.rows += (size_t)r * p.row_bytes + (size_t)begin * 64;
      p.weights += begin * TILE_BYTES;
      p.n_steps = end - begin;
      p.out = out;
      p.is_first = whole->is_first && i == 0;
      p.ahead = left >= 4 * ROWS ? (int)(2 * ROWS / pairs) : 0;
      if (left > ROWS) {
        multiply_part(&p, n_tiles, true);
      } else {
        multiply_part(&p, n_tiles, false);
      }
    }
    FENCE();
    if (to->sink) to->sink->take(to->sink->user, r, left < 2 * ROWS ? left : 2 * ROWS, to->tile, n_tiles, out, whole->ld);
  }
}

// Long rows are taken in pieces, so that the weights of all tiles over a piece fit into the cache; sums wait in `out` meanwhile.
typedef struct pieces {
  int64_t n, blocks;
} pieces;

INLINE pieces pieces_of(int64_t blocks) {
  return (pieces){blocks <= LINEAR_WIDE_BLOCKS ? 1 : (blocks + LINEAR_WIDE_BLOCKS * 3 / 4 - 1) / (LINEAR_WIDE_BLOCKS * 3 / 4), blocks};
}

INLINE int64_t piece_begin(pieces p, int64_t i) { return p.blocks * i / p.n; }

INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, unsigned char *scratch, crn_linear_format f, const crn_linear_sink *sink) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f);
  bool is_stream = f == CRN_LINEAR_BF16 && n_rows <= 64;
  pieces all = is_stream ? (pieces){1, blocks} : pieces_of(blocks);
  for (int64_t t = tile_begin; t < tile_end; t += LINEAR_WIDE_TILES) {
    int64_t n_tiles = tile_end - t < LINEAR_WIDE_TILES ? tile_end - t : LINEAR_WIDE_TILES;
    for (int64_t i = 0; i < all.n; i++) {
      int64_t begin = piece_begin(all, i), n_blocks = piece_begin(all, i + 1) - begin;
      const unsigned char *weights = (const unsigned char *)w->data + t * tile_bytes + begin * block_bytes(f);
      part p = {rows + begin * 128, row_bytes, weights, tile_bytes, 2 * n_blocks, out + (t - tile_begin) * LANES, ld, 0, i == 0, is_stream};
      // bf16 weights are stored as tile registers want them.
      if (f != CRN_LINEAR_BF16) {
        p.weights = scratch;
        p.tile_stride = 2 * n_blocks * TILE_BYTES;
        for (int64_t k = 0; k < n_tiles; k++) widen_tile(weights + k * tile_bytes, n_blocks, w->zero, scratch + k * p.tile_stride, f);
      }
      const target to = {i + 1 == all.n ? sink : NULL, t, sink && all.n == 1};
      FENCE();
      multiply_tiles(&p, n_rows, n_tiles, &to);
      FENCE();
    }
  }
  _tile_release();
}

void crn_linear_widened__amx(const crn_linear_weights *w, crn_linear_widen_fn widen, const char *rows, size_t row_bytes, int64_t n_rows,
                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {
  pieces all = pieces_of(LINEAR_BLOCKS(w->k));
  for (int64_t t = tile_begin; t < tile_end; t += LINEAR_WIDE_TILES) {
    int64_t n_tiles = tile_end - t < LINEAR_WIDE_TILES ? tile_end - t : LINEAR_WIDE_TILES;
    for (int64_t i = 0; i < all.n; i++) {
      int64_t begin = piece_begin(all, i), n_blocks = piece_begin(all, i + 1) - begin, stride = 2 * n_blocks * TILE_BYTES;
      part p = {rows + begin * 128, row_bytes, scratch, stride, 2 * n_blocks, out + (t - tile_begin) * LANES, ld, 0, i == 0, false};
      for (int64_t k = 0; k < n_tiles; k++) widen(w, t + k, begin, n_blocks, (unsigned char *)scratch + k * stride);
      FENCE();
      multiply_tiles(&p, n_rows, n_tiles, &(const target){0});
      FENCE();
    }
  }
  _tile_release();
}

#define KERNEL(rhs, f)                                                                                                                    \
  void crn_linear_bf16_##rhs##_f32_32x32__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,            \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {              \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f, NULL);                                                     \
  }                                                                                                                                       \
  void crn_linear_parts_##rhs##__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, \
                                     int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink) {             \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, sums, ld, scratch, f, sink);                                                    \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
KERNEL(f16, CRN_LINEAR_F16)
KERNEL(bf16, CRN_LINEAR_BF16)
KERNEL(f32, CRN_LINEAR_F32)
