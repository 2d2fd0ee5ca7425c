// INT8 mode for a handful of rows, a token each of several sequences: byte products of 16 rows, 32 inputs and 16 outputs in tile
// registers, scaled group by group in vectors. The operations and their order are those of the kernels with dot products of
// linear__avx512vnni.c, whose prepared rows this one takes, so both give the same bits.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_amx.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum {
  LANES = LINEAR_LANES,
  GROUP = CRN_LINEAR_GROUP,
  ROWS = LINEAR_TILE_ROWS,
  SUMS_BYTES = ROWS * LANES * 4,  ///< of a group
  WIDE_BYTES = GROUP * LANES,     ///< weights of a group, as bytes
};

// The rows of a call, and what is told of each of their groups: [groups][ROWS].
typedef struct part {
  const char *rows;
  size_t row_bytes;
  const float *scales, *shares;
  const int32_t *corrections;
  int zero;  ///< what 4-bit quants are less it fits a signed byte: for any other zero point it is 0, and corrections make up for it
} part;

// --- integers -------------------------------------------------------------------------------------------------------------

// Tile registers: 0 to 3 sums, 4 and 5 rows, 6 and 7 weights.
static void configure(int rows) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config __attribute__((aligned(64))) = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    config.row_bytes[i] = i == 4 || i == 5 ? GROUP : 64;
    config.rows[i] = (uint8_t)(i < 6 ? rows : GROUP / 4);
  }
  FENCE();
  _tile_loadconfig(&config);
}

// 4-bit quants of a group less their zero point, as bytes in the order of tile registers, which is that of memory: four inputs a lane,
// then the next four.
INLINE void widen_group(const unsigned char *quants, __m512i zero, char *out) {
  const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    __m512i x = _mm512_load_si512(quants + 64 * j);
    _mm512_store_si512(out + 128 * j, _mm512_sub_epi8(_mm512_and_si512(x, low), zero));
    _mm512_store_si512(out + 128 * j + 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(x, 4), low), zero));
  }
}

INLINE void widen(const unsigned char *block, __m512i zero, char *out) {
  widen_group(block, zero, out);
  widen_group(block + LINEAR_Q4_GROUP, zero, out + WIDE_BYTES);
}

// The integer sums of the groups of a block. 4-bit quants come as bytes, less their zero point, 8-bit ones as they are stored, unsigned.
INLINE void multiply(const unsigned char *block, const char *wide, const char *rows, size_t row_bytes, char *sums, crn_linear_format f) {
  FENCE();
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(4, rows, row_bytes);
  _tile_loadd(5, rows + GROUP, row_bytes);
  if (is_4bit(f)) {
    _tile_loadd(6, wide, 64);
    _tile_loadd(7, wide + WIDE_BYTES, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 5, 7);
  } else {
    _tile_loadd(6, block, 64);
    _tile_loadd(7, block + LINEAR_Q8_GROUP, 64);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + SUMS_BYTES, 64);
  FENCE();
}

// --- scales ---------------------------------------------------------------------------------------------------------------

INLINE void add_group(__m512 *acc, const char *sums, const unsigned char *scales, const part *p, int64_t g, int m, crn_linear_format f,
                      bool corrects) {
  __m512 scale = half16(scales);
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) {
    __m512i c = _mm512_load_si512(sums + t * 64);
    if (corrects) c = _mm512_add_epi32(c, _mm512_set1_epi32(p->corrections[g * ROWS + t]));
    __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(p->scales[g * ROWS + t]));
    acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(c), both, acc[t]);
  }
  if (!has_mins(f)) return;
  __m512 minimum = half16(scales + LINEAR_MINS);
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) acc[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(p->shares[g * ROWS + t]), acc[t]);
}

INLINE void add_block(__m512 *acc, const char *sums, const unsigned char *block, const part *p, int64_t b, int m, crn_linear_format f,
                      bool corrects) {
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES);
  add_group(acc, sums, scales, p, 2 * b, m, f, corrects);
  add_group(acc, sums + SUMS_BYTES, scales + 32, p, 2 * b + 1, m, f, corrects);
}

// One tile of outputs for up to m rows, of which the first n are there. Every block is widened, AHEAD blocks later multiplied, and as much
// later scaled, each time in a line with the other two, so that all units have work. What one of them wrote another reads only when it has
// arrived in the cache: stores are not passed on to tile registers, nor theirs to vectors.
INLINE void tile_times(const unsigned char *tile, int64_t blocks, const part *p, int n, char *stages, float *out, int64_t ld, int m,
                       crn_linear_format f, bool corrects) {
  enum { AHEAD = LINEAR_FEW_BLOCKS, RING = 2 * AHEAD };
  char *sums = stages, *wide = stages + RING * 2 * SUMS_BYTES;
  const __m512i zero = _mm512_set1_epi8((char)p->zero);
  const int64_t bytes = block_bytes(f);
  __m512 acc[ROWS];
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t b = -2 * AHEAD; b < blocks; b++) {
    const int64_t next = b + AHEAD, last = next + AHEAD;
    if (is_4bit(f) && last < blocks) widen(tile + last * bytes, zero, wide + last % RING * 2 * WIDE_BYTES);
    if (next >= 0 && next < blocks) {
      multiply(tile + next * bytes, wide + next % RING * 2 * WIDE_BYTES, p->rows + next * LINEAR_BLOCK, p->row_bytes,
               sums + next % RING * 2 * SUMS_BYTES, f);
    }
    if (b >= 0) add_block(acc, sums + b % RING * 2 * SUMS_BYTES, tile + b * bytes, p, b, m, f, corrects);
  }
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) {
    if (t < n) _mm512_storeu_ps(out + t * ld, acc[t]);
  }
}

typedef void (*tile_fn)(const unsigned char *tile, int64_t blocks, const part *p, int n, char *stages, float *out, int64_t ld);

#define TILE_OF(name, m, f, corrects)                                                                                                   \
  __attribute__((noinline)) static void name(const unsigned char *tile, int64_t blocks, const part *p, int n, char *stages, float *out, \
                                             int64_t ld) {                                                                              \
    tile_times(tile, blocks, p, n, stages, out, ld, m, f, corrects);                                                                    \
  }
// For 8, 12 and 16 rows, and for any zero point.
#define TILES_OF(name, f)                \
  TILE_OF(name##_8, 8, f, !is_4bit(f))   \
  TILE_OF(name##_12, 12, f, !is_4bit(f)) \
  TILE_OF(name##_16, 16, f, !is_4bit(f)) \
  TILE_OF(name##_any, 16, f, true)       \
  static const tile_fn name##_tiles[] = {name##_8, name##_12, name##_16, name##_any};

// --- rows and tiles -------------------------------------------------------------------------------------------------------

// Lists what rows tell of their groups, as far as it is needed; rows that are not there count as zeros.
INLINE char *gather(const char *rows, size_t row_bytes, int n, int64_t blocks, int zero, bool corrects, char *scratch, part *out_part,
                    crn_linear_format f) {
  int64_t groups = 2 * blocks;
  int32_t *corrections = (int32_t *)(void *)scratch;
  float *shares = (float *)(void *)(corrections + groups * ROWS), *scales = shares + groups * ROWS;
  *out_part = (part){rows, row_bytes, scales, shares, corrections, corrects ? 0 : zero};
  for (int t = 0; t < ROWS; t++, rows += row_bytes) {
    const float *row_scales = (const float *)(const void *)(rows + blocks * LINEAR_BLOCK);
    const int32_t *row_sums = (const int32_t *)(const void *)(row_scales + groups);
    for (int64_t g = 0; g < groups; g++) {
      scales[g * ROWS + t] = t < n ? row_scales[g] : 0;
      if (corrects) corrections[g * ROWS + t] = t < n ? -zero * row_sums[g] : 0;
      if (has_mins(f)) shares[g * ROWS + t] = t < n ? row_scales[g] * (float)row_sums[g] : 0;
    }
  }
  return (char *)(scales + groups * ROWS);
}

INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, char *scratch, crn_linear_format f, const tile_fn *tiles) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f), n_parts = (n_rows + ROWS - 1) / ROWS;
  int zero = is_4bit(f) ? w->zero : w->zero + LINEAR_Q8_BIAS;
  bool corrects = !is_4bit(f) || zero < 15 - INT8_MAX || zero > -INT8_MIN;
  if (blocks == 0) {
    for (int64_t r = 0; r < n_rows; r++) {
      for (int64_t i = 0; i < (tile_end - tile_begin) * LANES; i++) out[r * ld + i] = 0;
    }
    return;
  }
  for (int64_t i = 0; i < n_parts; i++) {
    int64_t begin = n_rows * i / n_parts, n = n_rows * (i + 1) / n_parts - begin;
    part p;
    char *stages = gather(rows + (size_t)begin * row_bytes, row_bytes, (int)n, blocks, zero, corrects, scratch, &p, f);
    tile_fn times = tiles[is_4bit(f) && corrects ? 3 : n <= 8 ? 0 : n <= 12 ? 1 : 2];
    configure((int)n);
    for (int64_t tile = tile_begin; tile < tile_end; tile++) {
      const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
      times(data, blocks, &p, (int)n, stages, out + begin * ld + (tile - tile_begin) * LANES, ld);
    }
  }
  _tile_release();
}

#define KERNEL(rhs, f)                                                                                                         \
  TILES_OF(rhs, f)                                                                                                             \
  void crn_linear_int8_##rhs##_f32_16x16__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f, rhs##_tiles);                                   \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
