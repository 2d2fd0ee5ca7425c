// EXACT mode of P8 for a few rows: 256 entries that are f16 numbers stay in eight registers, their low bytes in four and their high bytes
// in four, and 64 codes at a time pick both.
#include "backend/cpu/kernels/linear/linear_palette_avx512.h"
#include "backend/cpu/kernels/linear/linear_palette_vbmi.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, PARTS = PALETTE_PARTS, ROWS = 4 };

typedef struct byte_tables {
  __m512i low[PARTS], high[PARTS];
} byte_tables;

// False when the entries are no f16 numbers.
P_INLINE bool begin_bytes(const float *entries, byte_tables *t) {
  __mmask16 same = 0xffff;
  for (int part = 0; part < PARTS; part++) {
    __m512i halves[2];
    for (int h = 0; h < 2; h++) {
      __m256i pieces[2];
      for (int i = 0; i < 2; i++) {
        __m512 v = _mm512_loadu_ps(entries + part * 64 + h * 32 + i * 16);
        pieces[i] = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
        same &= _mm512_cmp_ps_mask(v, _mm512_cvtph_ps(pieces[i]), _CMP_EQ_OQ);
      }
      halves[h] = _mm512_inserti64x4(_mm512_castsi256_si512(pieces[0]), pieces[1], 1);
    }
    const __m512i even = _mm512_set_epi8(126, 124, 122, 120, 118, 116, 114, 112, 110, 108, 106, 104, 102, 100, 98, 96, 94, 92, 90, 88, 86,
                                         84, 82, 80, 78, 76, 74, 72, 70, 68, 66, 64, 62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36,
                                         34, 32, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    t->low[part] = _mm512_permutex2var_epi8(halves[0], even, halves[1]);
    t->high[part] = _mm512_permutex2var_epi8(halves[0], _mm512_add_epi8(even, _mm512_set1_epi8(1)), halves[1]);
  }
  return same == 0xffff;
}

P_INLINE void tile_times(const crn_linear_weights *w, const unsigned char *tile, const char *rows, size_t row_bytes, float *out, int64_t ld,
                         int m) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(p, w->k, blocks), k = 0;
  const unsigned char *codes = tile + LINEAR_P_HEAD(p, 8);
  __m512 acc[ROWS];
#pragma GCC unroll 4
  for (int t = 0; t < m; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t s = 0; s < p->groups; s++) {
    int64_t end = s + 1 < p->groups ? (s + 1) * reach * GROUP : blocks * LINEAR_BLOCK;
    byte_tables tables;
    begin_bytes((const float *)(const void *)tile + s * 256, &tables);
    for (; k < end; k += 4, codes += 64) {
      __m512i c = palette_load(codes);
      __m512i low = palette_pick(tables.low, c), high = palette_pick(tables.high, c);
      __m512i pairs[2] = {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        __m512 v = _mm512_cvtph_ps(i % 2 ? _mm512_extracti64x4_epi64(pairs[i / 2], 1) : _mm512_castsi512_si256(pairs[i / 2]));
#pragma GCC unroll 4
        for (int t = 0; t < m; t++) {
          const float *x = (const float *)(const void *)(rows + (size_t)t * row_bytes);
          acc[t] = _mm512_fmadd_ps(v, _mm512_set1_ps(x[k + i]), acc[t]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < m; t++) _mm512_storeu_ps(out + t * ld, acc[t]);
}

// All tables of the tile: whether this file can look them up.
static bool has_halves(const crn_linear_weights *w, const unsigned char *tile) {
  byte_tables tables;
  bool fits = w->palette.tables == 1 && !w->palette.has_factors;
  for (int64_t s = 0; s < w->palette.groups && fits; s++) fits = begin_bytes((const float *)(const void *)tile + s * 256, &tables);
  return fits;
}

void crn_linear_f32_p8_f32_1x16__avx512vbmi(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,
                                            int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {
  int64_t tile_bytes = LINEAR_P_TILE(&w->palette, 8, LINEAR_BLOCKS(w->k));
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    if (!has_halves(w, data)) {
      (n_rows < ROWS ? crn_linear_f32_p8_f32_1x64__avx512 : crn_linear_f32_p8_f32_12x32__avx512)(w, rows, row_bytes, n_rows, tile, tile + 1,
                                                                                                 out, ld, scratch);
      continue;
    }
    for (int64_t r = 0; r < n_rows; r += ROWS) {
      const char *x = (const char *)rows + (size_t)r * row_bytes;
      int64_t m = n_rows - r < ROWS ? n_rows - r : ROWS;
      if (m == 4) tile_times(w, data, x, row_bytes, out + r * ld, ld, 4);
      if (m == 3) tile_times(w, data, x, row_bytes, out + r * ld, ld, 3);
      if (m == 2) tile_times(w, data, x, row_bytes, out + r * ld, ld, 2);
      if (m == 1) tile_times(w, data, x, row_bytes, out + r * ld, ld, 1);
    }
  }
}
