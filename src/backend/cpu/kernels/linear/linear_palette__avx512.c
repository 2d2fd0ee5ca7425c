// EXACT mode of P formats: every output is one chain of fused multiply-adds in rising k, whose weights are looked up in registers.
#include "backend/cpu/kernels/linear/linear_palette_avx512.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, TILES = 4 };

// --- one row --------------------------------------------------------------------------------------------------------------

P_INLINE void one_row(const crn_linear_weights *w, const unsigned char *tile, const float *x, float *out, int n, int bits, bool single) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = LINEAR_P_TILE(p, bits, blocks), reach = LINEAR_P_REACH(p, w->k, blocks);
  const unsigned char *group = tile + LINEAR_P_HEAD(p, bits);
  __m512 acc[TILES];
#pragma GCC unroll 4
  for (int t = 0; t < n; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t s = 0, g = 0; s < p->groups; s++) {
    int64_t end = s + 1 < p->groups ? g + reach : 2 * blocks;
    palette_tables tables[TILES];
#pragma GCC unroll 4
    for (int t = 0; t < n; t++) tables[t] = palette_begin(p, tile + t * tile_bytes, s, bits, single);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits), x += GROUP) {
#pragma GCC unroll 32
      for (int i = 0; i < GROUP; i++) {
        __m512 input = _mm512_set1_ps(x[i]);
#pragma GCC unroll 4
        for (int t = 0; t < n; t++)
          acc[t] = _mm512_fmadd_ps(palette_weights(p, tables + t, group + t * tile_bytes, i, bits, single), input, acc[t]);
      }
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < n; t++) _mm512_storeu_ps(out + t * LANES, acc[t]);
}

P_INLINE void run_few(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                      float *out, int64_t ld, int bits) {
  int64_t tile_bytes = LINEAR_P_TILE(&w->palette, bits, LINEAR_BLOCKS(w->k));
  bool single = w->palette.tables == 1 && !w->palette.has_factors;
  const int together = bits <= 4 ? TILES : bits == 6 ? 2 : TILES;
  for (int64_t r = 0; r < n_rows; r++, rows += row_bytes, out += ld) {
    const unsigned char *tile = (const unsigned char *)w->data + tile_begin * tile_bytes;
    const float *x = (const float *)(const void *)rows;
    float *target = out;
    int64_t left = tile_end - tile_begin;
    for (; single && left >= together; left -= together, tile += together * tile_bytes, target += together * LANES)
      one_row(w, tile, x, target, together, bits, true);
    for (; left > 0; left--, tile += tile_bytes, target += LANES) {
      if (single) {
        one_row(w, tile, x, target, 1, bits, true);
      } else {
        one_row(w, tile, x, target, 1, bits, false);
      }
    }
  }
}

// --- many rows ------------------------------------------------------------------------------------------------------------

// A tile as [inputs][16] f32.
P_INLINE void widen_tile(const crn_linear_weights *w, const unsigned char *tile, float *out, int bits, bool single) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(p, w->k, blocks);
  const unsigned char *group = tile + LINEAR_P_HEAD(p, bits);
  for (int64_t s = 0, g = 0; s < p->groups; s++) {
    int64_t end = s + 1 < p->groups ? g + reach : 2 * blocks;
    palette_tables tables = palette_begin(p, tile, s, bits, single);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits), out += GROUP * LANES) {
#pragma GCC unroll 32
      for (int i = 0; i < GROUP; i++) _mm512_store_ps(out + i * LANES, palette_weights(p, &tables, group, i, bits, single));
    }
  }
}

P_INLINE void run_many(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin,
                       int64_t tile_end, float *out, int64_t ld, float *scratch, int bits) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = LINEAR_P_TILE(&w->palette, bits, blocks), k = blocks * LINEAR_BLOCK;
  bool single = w->palette.tables == 1 && !w->palette.has_factors;
  for (int64_t tile = tile_begin; tile < tile_end; tile += 2) {
    int64_t n = tile + 1 < tile_end ? 2 : 1;
    for (int64_t i = 0; i < n; i++) {
      const unsigned char *data = (const unsigned char *)w->data + (tile + i) * tile_bytes;
      if (single) {
        widen_tile(w, data, scratch + i * k * LANES, bits, true);
      } else {
        widen_tile(w, data, scratch + i * k * LANES, bits, false);
      }
    }
    crn_linear_wide_pair__avx512(scratch, scratch + (n - 1) * k * LANES, k, rows, row_bytes, n_rows, out + (tile - tile_begin) * LANES, ld);
  }
}

#define KERNELS(rhs, bits)                                                                                                       \
  void crn_linear_f32_##rhs##_f32_1x64__avx512(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,  \
                                               int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {    \
    (void)scratch;                                                                                                               \
    run_few(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, bits);                                                    \
  }                                                                                                                              \
  void crn_linear_f32_##rhs##_f32_12x32__avx512(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run_many(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, bits);                                          \
  }

KERNELS(p1, 1)
KERNELS(p2, 2)
KERNELS(p4, 4)
KERNELS(p6, 6)
KERNELS(p8, 8)
