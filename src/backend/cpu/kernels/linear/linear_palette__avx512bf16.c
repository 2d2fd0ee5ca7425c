// BF16 mode of P formats for a few rows: codes of 4 bits and fewer are looked up as pairs of bf16 entries, whose dot products sum in f32.
#include "backend/cpu/kernels/linear/linear_palette_avx512.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, ROWS = 4, CHAINS = 4 };

// 16 entries as bf16, twice: the fifth bit of an index is one of the next code.
P_INLINE __m512i narrow_table(const float *entries) {
  __m256i half = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(entries));
  return _mm512_broadcast_i64x4(half);
}

// Pair i of the inputs of a vector, of 16 outputs. Tables behind the first fill in their lanes.
P_INLINE __m512i pair_of(__m512i x, int i, const __m512i *tables, int n_tables, int bits) {
  __m512i codes = i ? _mm512_srli_epi16(x, (unsigned)(i * bits)) : x;
  __m512i v = _mm512_permutexvar_epi16(codes, tables[0]);
  int lanes = LANES / n_tables;
  for (int t = 1; t < n_tables; t++) {
    __mmask16 mine = (__mmask16)(((1u << lanes) - 1) << (t * lanes));
    v = _mm512_mask_blend_epi32(mine, v, _mm512_permutexvar_epi16(codes, tables[t]));
  }
  return v;
}

P_INLINE void tile_times(const crn_linear_weights *w, const unsigned char *tile, const char *rows, size_t row_bytes, float *out, int64_t ld,
                         int m, int n_tables, int bits) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(p, w->k, blocks), head = LINEAR_P_HEAD(p, bits);
  const unsigned char *group = tile + head;
  const int chains = m == 1 ? CHAINS : m == 2 ? 2 : 1;
  __m512 c[ROWS * CHAINS];
#pragma GCC unroll 16
  for (int t = 0; t < m * chains; t++) c[t] = _mm512_setzero_ps();
  for (int64_t s = 0, g = 0; s < p->groups; s++) {
    int64_t end = s + 1 < p->groups ? g + reach : 2 * blocks;
    __m512i tables[ROWS];
#pragma GCC unroll 4
    for (int t = 0; t < n_tables; t++) tables[t] = narrow_table((const float *)(const void *)tile + (s * n_tables + t) * LANES);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits), rows += GROUP * 2) {
#pragma GCC unroll 16
      for (int i = 0; i < GROUP / 2; i++) {
        const int per_vector = 16 / bits;
        __m512i weights = pair_of(palette_load(group + i / per_vector * 64), i % per_vector, tables, n_tables, bits);
#pragma GCC unroll 4
        for (int t = 0; t < m; t++) {
          __m512i x = _mm512_set1_epi32(*(const int32_t *)(const void *)(rows + (size_t)t * row_bytes + 4 * i));
          int at = i % chains * m + t;
          c[at] = _mm512_dpbf16_ps(c[at], (__m512bh)weights, (__m512bh)x);
        }
      }
    }
  }
  __m512 factors = p->has_factors ? _mm512_loadu_ps((const float *)(const void *)(tile + head) - LANES) : _mm512_set1_ps(1);
#pragma GCC unroll 4
  for (int t = 0; t < m; t++) {
    for (int k = 1; k < chains; k++) c[t] = _mm512_add_ps(c[t], c[k * m + t]);
    _mm512_storeu_ps(out + t * ld, _mm512_mul_ps(c[t], factors));
  }
}

P_INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                  float *out, int64_t ld, int n_tables, int bits) {
  int64_t tile_bytes = LINEAR_P_TILE(&w->palette, bits, LINEAR_BLOCKS(w->k));
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    for (int64_t r = 0; r < n_rows; r += ROWS) {
      const char *x = rows + (size_t)r * row_bytes;
      float *target = out + r * ld;
      if (n_rows - r >= 4) {
        tile_times(w, data, x, row_bytes, target, ld, 4, n_tables, bits);
      } else if (n_rows - r == 3) {
        tile_times(w, data, x, row_bytes, target, ld, 3, n_tables, bits);
      } else if (n_rows - r == 2) {
        tile_times(w, data, x, row_bytes, target, ld, 2, n_tables, bits);
      } else {
        tile_times(w, data, x, row_bytes, target, ld, 1, n_tables, bits);
      }
    }
  }
}

// Rows with more tables than that are turned into f32 one entry at a time: the weights cost more than the products.
P_INLINE void run_tables(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin,
                         int64_t tile_end, float *out, int64_t ld, int bits) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = LINEAR_P_TILE(p, bits, blocks), reach = LINEAR_P_REACH(p, w->k, blocks);
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes, *codes = data + LINEAR_P_HEAD(p, bits);
    for (int64_t r = 0; r < n_rows; r++) {
      const uint16_t *x = (const uint16_t *)(const void *)(rows + (size_t)r * row_bytes);
      __m512 acc = _mm512_setzero_ps();
      for (int64_t s = 0, g = 0; s < p->groups; s++) {
        int64_t end = s + 1 < p->groups ? g + reach : 2 * blocks;
        palette_tables tables = palette_begin(p, data, s, bits, false);
        for (; g < end; g++) {
          for (int i = 0; i < GROUP; i++) {
            __m512 input = _mm512_castsi512_ps(_mm512_set1_epi32((int)((uint32_t)x[g * GROUP + i] << 16)));
            acc = _mm512_fmadd_ps(palette_weights(p, &tables, codes + g * LINEAR_P_GROUP(bits), i, bits, false), input, acc);
          }
        }
      }
      _mm512_storeu_ps(out + r * ld, acc);
    }
  }
}

#define KERNEL(rhs, bits)                                                                                                            \
  void crn_linear_bf16_##rhs##_f32_4x16__avx512bf16(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                    int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                                   \
    if (w->palette.tables == 1) {                                                                                                    \
      run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, 1, bits);                                                       \
    } else if (w->palette.tables == 2) {                                                                                             \
      run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, 2, bits);                                                       \
    } else {                                                                                                                         \
      run_tables(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, bits);                                                   \
    }                                                                                                                                \
  }

KERNEL(p1, 1)
KERNEL(p2, 2)
KERNEL(p4, 4)
