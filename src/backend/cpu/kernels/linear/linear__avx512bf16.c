// BF16 mode with dot products of pairs: a tile of 16 outputs times 1 to 12 rows in registers.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_ahead.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"
#include "backend/cpu/kernels/narrow_avx512.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, ROWS = 12, CHAINS = 4, PARTS = LINEAR_INTERLEAVED / ROWS, ROWS_THAT_WAIT = 4 };

// --- preparation ----------------------------------------------------------------------------------------------------------

void crn_linear_prepare_bf16__avx512bf16(const float *x, int64_t k, void *out_row) {
  uint16_t *row = out_row;
  for (int64_t i = 0; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i += LANES) {
    int64_t left = k - i;
    __mmask16 mask = left >= LANES ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
    _mm256_store_si256((__m256i *)(void *)(row + i), crn_narrow_bf16(_mm512_maskz_loadu_ps(mask, x + i)));
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

// Rows as the products want them, group after group: the values of all rows, and their sums.
typedef struct part {
  const uint16_t *values;
  const float *sums;
  int n_rows;
} part;

// One or two rows have several sums each, as a product takes long to come out.
INLINE int chains(int m) { return m == 1 ? CHAINS : m == 2 ? CHAINS / 2 : 1; }

INLINE void clear(__m512 *c, int m) {
#pragma GCC unroll 12
  for (int t = 0; t < m * chains(m); t++) c[t] = _mm512_setzero_ps();
}

INLINE void fold(__m512 *c, int m) {
  if (m == 1) c[0] = _mm512_add_ps(_mm512_add_ps(c[0], c[1]), _mm512_add_ps(c[2], c[3]));
  if (m == 2) c[0] = _mm512_add_ps(c[0], c[2]), c[1] = _mm512_add_ps(c[1], c[3]);
}

// c[t] += pair i of inputs of 16 outputs times the pair of row t.
INLINE void multiply(__m512 *c, int i, __m512i w, const uint16_t *x, int m) {
  c += i % chains(m) * m;
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) {
    __m512i pair = _mm512_set1_epi32(*(const int32_t *)(const void *)(x + t * GROUP));
    c[t] = _mm512_dpbf16_ps(c[t], (__m512bh)w, (__m512bh)pair);
  }
}

// Bytes `first` and `first` + 1 of each lane as bf16, which holds 0..255 exactly: the upper halves of f32 numbers.
INLINE __m512i byte_pair(__m512i x, int first) {
  const __m512i byte = _mm512_set1_epi32(255);
  __m512i low = _mm512_and_si512(first ? _mm512_srli_epi32(x, 16) : x, byte), high = _mm512_srli_epi32(x, first ? 24 : 8);
  if (!first) high = _mm512_and_si512(high, byte);
  __m512i low_bits = _mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(low)), 16);
  return _mm512_or_si512(low_bits, _mm512_castps_si512(_mm512_cvtepi32_ps(high)));
}

INLINE void add_group(__m512 *acc, const unsigned char *quants, const unsigned char *scales, __m512 zero, const part *p, int64_t g, int m,
                      crn_linear_format f) {
  const uint16_t *x = p->values + g * m * GROUP;
  __m512 c[ROWS];
  if (m <= ROWS_THAT_WAIT) linear_ask_ahead(quants, is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
  clear(c, m);
  if (is_4bit(f)) {
    // 0..15 as bf16, twice: the fifth bit of an index is one of the next quant.
    const __m512i table = _mm512_broadcast_i64x4(_mm256_setr_epi16(0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100,
                                                                   0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170));
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      __m512i q = _mm512_load_si512(quants + 64 * j);
      multiply(c, 0, _mm512_permutexvar_epi16(q, table), x + 8 * j, m);
      multiply(c, 1, _mm512_permutexvar_epi16(_mm512_srli_epi16(q, 4), table), x + 8 * j + 2, m);
      multiply(c, 2, _mm512_permutexvar_epi16(_mm512_srli_epi16(q, 8), table), x + 8 * j + 4, m);
      multiply(c, 3, _mm512_permutexvar_epi16(_mm512_srli_epi16(q, 12), table), x + 8 * j + 6, m);
    }
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
      __m512i q = _mm512_load_si512(quants + 64 * j);
      multiply(c, 2 * j, byte_pair(q, 0), x + 4 * j, m);
      multiply(c, 2 * j + 1, byte_pair(q, 2), x + 4 * j + 2, m);
    }
  }
  fold(c, m);
  __m512 scale = half16(scales), low = _mm512_setzero_ps();
  if (has_mins(f)) low = half16(scales + LINEAR_MINS);
  low = _mm512_fnmadd_ps(zero, scale, low);
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) {
    acc[t] = _mm512_fmadd_ps(c[t], scale, acc[t]);
    acc[t] = _mm512_fmadd_ps(low, _mm512_set1_ps(p->sums[g * m + t]), acc[t]);
  }
}

INLINE void tile_times(const unsigned char *tile, int64_t blocks, const part *p, float zero_point, float *out, int64_t ld, int m,
                       crn_linear_format f) {
  int group_bytes = is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP, scales = is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES;
  __m512 acc[ROWS], zero = _mm512_set1_ps(zero_point);
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f)) {
    if (is_quant(f)) {
      add_group(acc, tile, tile + scales, zero, p, 2 * b, m, f);
      add_group(acc, tile + group_bytes, tile + scales + 32, zero, p, 2 * b + 1, m, f);
      continue;
    }
    for (int g = 0; g < 2; g++) {
      __m512 c[ROWS];
      if (m <= ROWS_THAT_WAIT) linear_ask_ahead(tile + g * 1024, 1024);
      clear(c, m);
#pragma GCC unroll 16
      for (int i = 0; i < 16; i++)
        multiply(c, i, _mm512_load_si512(tile + g * 1024 + i * 64), p->values + (2 * b + g) * m * GROUP + 2 * i, m);
      fold(c, m);
#pragma GCC unroll 12
      for (int t = 0; t < m; t++) acc[t] = _mm512_add_ps(acc[t], c[t]);
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) _mm512_storeu_ps(out + t * ld, acc[t]);
}

typedef void (*tile_fn)(const unsigned char *tile, int64_t blocks, const part *p, float zero, float *out, int64_t ld);

// A function of its own for each number of rows keeps the accumulators in registers.
#define TILE_OF(m, name, f)                                                                                                          \
  __attribute__((noinline)) static void name##_##m(const unsigned char *tile, int64_t blocks, const part *p, float zero, float *out, \
                                                   int64_t ld) {                                                                     \
    tile_times(tile, blocks, p, zero, out, ld, m, f);                                                                                \
  }
#define TILES_OF(name, f) LINEAR_TWELVE_ROWS(TILE_OF, name, f)

// --- rows and tiles -------------------------------------------------------------------------------------------------------

// The inputs of a group in the order in which the halves of packed words come out: 4-bit words hold inputs 0, 4, 1, 5 and 2, 6, 3, 7.
INLINE __m512i ordered(__m512i group, crn_linear_format f) {
  if (!is_4bit(f)) return group;
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  return _mm512_shuffle_epi8(group, order);
}

INLINE float sum_of(__m512i group) {
  __m512 low = _mm512_castsi512_ps(_mm512_slli_epi32(group, 16));
  __m512 high = _mm512_castsi512_ps(_mm512_and_si512(group, _mm512_set1_epi32((int)0xffff0000)));
  return _mm512_reduce_add_ps(_mm512_add_ps(low, high));
}

// Interleaves the m rows of a part in scratch memory, returned as far as it was used.
INLINE char *gather_part(const char *rows, size_t row_bytes, int64_t blocks, int m, char *scratch, part *out_part, crn_linear_format f) {
  int64_t groups = 2 * blocks;
  uint16_t *values = (uint16_t *)(void *)scratch;
  float *sums = (float *)(void *)(values + groups * m * GROUP);
  *out_part = (part){values, sums, m};
  for (int t = 0; t < m; t++, rows += row_bytes) {
    for (int64_t g = 0; g < groups; g++) {
      __m512i x = _mm512_load_si512(rows + g * GROUP * 2);
      _mm512_storeu_si512(values + (g * m + t) * GROUP, ordered(x, f));
      if (is_quant(f)) sums[g * m + t] = sum_of(x);
    }
  }
  return (char *)(sums + (groups * m + 15) / 16 * 16);
}

// Weights are read once for a block of rows, whose activations stay in the cache meanwhile.
INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, char *scratch, crn_linear_format f, const tile_fn *tiles) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f);
  float zero = (float)(is_4bit(f) ? w->zero : w->zero + LINEAR_Q8_BIAS);
  for (int64_t r = 0; r < n_rows; r += LINEAR_INTERLEAVED) {
    part parts[PARTS];
    int64_t n = n_rows - r < LINEAR_INTERLEAVED ? n_rows - r : LINEAR_INTERLEAVED;
    int n_parts = (int)((n + ROWS - 1) / ROWS);
    char *free_scratch = scratch;
    for (int i = 0; i < n_parts; i++) {
      int begin = (int)(n * i / n_parts), end = (int)(n * (i + 1) / n_parts);
      free_scratch = gather_part(rows + (size_t)(r + begin) * row_bytes, row_bytes, blocks, end - begin, free_scratch, parts + i, f);
    }
    for (int64_t tile = tile_begin; tile < tile_end; tile++) {
      const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
      float *target = out + r * ld + (tile - tile_begin) * LANES;
      for (int i = 0; i < n_parts; i++) {
        tiles[parts[i].n_rows - 1](data, blocks, parts + i, zero, target, ld);
        target += parts[i].n_rows * ld;
      }
    }
  }
}

#define KERNEL(rhs, f)                                                                                                                \
  TILES_OF(rhs, f)                                                                                                                    \
  void crn_linear_bf16_##rhs##_f32_12x16__avx512bf16(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                     int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f, rhs##_tiles);                                          \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
KERNEL(bf16, CRN_LINEAR_BF16)
