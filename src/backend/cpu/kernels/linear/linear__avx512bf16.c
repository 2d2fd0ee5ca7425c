// Weights of bf16 with dot products of pairs: a tile of 16 outputs times 1 to 12 rows in registers.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_ahead.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"
#include "backend/cpu/kernels/narrow_avx512.h"

enum {
  LANES = LINEAR_LANES,
  GROUP = CRN_LINEAR_GROUP,
  GROUP_BYTES = GROUP * LANES * 2,
  ROWS = 12,
  CHAINS = 4,
  PARTS = LINEAR_INTERLEAVED / ROWS,
  ROWS_THAT_WAIT = 4
};

// --- preparation ----------------------------------------------------------------------------------------------------------

void crn_linear_prepare_bf16__avx512bf16(const float *x, int64_t k, void *out_row) {
  uint16_t *row = out_row;
  for (int64_t i = 0; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i += LANES) {
    _mm256_store_si256((__m256i *)(void *)(row + i), crn_narrow_bf16(load_some(x + i, k - i)));
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

// Rows as the products want them, group after group: the values of all rows.
typedef struct part {
  const uint16_t *values;
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

INLINE void tile_times(const unsigned char *tile, int64_t groups, const part *p, float *out, int64_t ld, int m) {
  __m512 acc[ROWS];
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; g++, tile += GROUP_BYTES) {
    __m512 c[ROWS];
    if (m <= ROWS_THAT_WAIT) linear_ask_ahead(tile, GROUP_BYTES);
    clear(c, m);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) multiply(c, i, _mm512_load_si512(tile + i * 64), p->values + g * m * GROUP + 2 * i, m);
    fold(c, m);
#pragma GCC unroll 12
    for (int t = 0; t < m; t++) acc[t] = _mm512_add_ps(acc[t], c[t]);
  }
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) _mm512_storeu_ps(out + t * ld, acc[t]);
}

typedef void (*tile_fn)(const unsigned char *tile, int64_t groups, const part *p, float *out, int64_t ld);

// A function of its own for each number of rows keeps the accumulators in registers.
#define TILE_OF(m, name, f)                                                                                                            \
  __attribute__((noinline)) static void name##_##m(const unsigned char *tile, int64_t groups, const part *p, float *out, int64_t ld) { \
    tile_times(tile, groups, p, out, ld, m);                                                                                           \
  }
LINEAR_TWELVE_ROWS(TILE_OF, bf16, CRN_LINEAR_BF16)

// --- rows and tiles -------------------------------------------------------------------------------------------------------

// Interleaves the m rows of a part in scratch memory, returned as far as it was used.
static char *gather_part(const char *rows, size_t row_bytes, int64_t groups, int m, char *scratch, part *out_part) {
  uint16_t *values = (uint16_t *)(void *)scratch;
  *out_part = (part){values, m};
  for (int t = 0; t < m; t++, rows += row_bytes) {
    for (int64_t g = 0; g < groups; g++) _mm512_storeu_si512(values + (g * m + t) * GROUP, _mm512_load_si512(rows + g * GROUP * 2));
  }
  return (char *)(values + groups * m * GROUP);
}

// Weights are read once for a block of rows, whose activations stay in the cache meanwhile.
void crn_linear_bf16_bf16_f32_12x16__avx512bf16(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,
                                                int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {
  const int64_t groups = LINEAR_BLOCKS(w->k) * (LINEAR_BLOCK / GROUP), tile_bytes = groups * GROUP_BYTES;
  for (int64_t r = 0; r < n_rows; r += LINEAR_INTERLEAVED) {
    part parts[PARTS];
    int64_t n = n_rows - r < LINEAR_INTERLEAVED ? n_rows - r : LINEAR_INTERLEAVED;
    int n_parts = (int)((n + ROWS - 1) / ROWS);
    char *free_scratch = scratch;
    for (int i = 0; i < n_parts; i++) {
      int begin = (int)(n * i / n_parts), end = (int)(n * (i + 1) / n_parts);
      free_scratch =
          gather_part((const char *)rows + (size_t)(r + begin) * row_bytes, row_bytes, groups, end - begin, free_scratch, parts + i);
    }
    for (int64_t tile = tile_begin; tile < tile_end; tile++) {
      const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
      float *target = out + r * ld + (tile - tile_begin) * LANES;
      for (int i = 0; i < n_parts; i++) {
        bf16_tiles[parts[i].n_rows - 1](data, groups, parts + i, target, ld);
        target += parts[i].n_rows * ld;
      }
    }
  }
}
