// INT8 mode with byte dot products of four: a tile of 16 outputs times 1 to 12 rows in registers.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_ahead.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, ROWS = 12, PARTS = LINEAR_INTERLEAVED / ROWS, ROWS_THAT_WAIT = 4, BESIDE = 4 };

// --- preparation ----------------------------------------------------------------------------------------------------------

INLINE void quantize_group(__m512 x0, __m512 x1, int8_t *quants, float *out_scale, int32_t *out_sum) {
  __m512 a = _mm512_max_ps(_mm512_abs_ps(x0), _mm512_abs_ps(x1));
  // Compared as integers, infinities and NaN are the largest.
  __m512i bits = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(x0)), _mm512_castps_si512(_mm512_abs_ps(x1)));
  bool odd = _mm512_cmpge_epi32_mask(bits, _mm512_set1_epi32(0x7f800000)) != 0;
  float most = _mm512_reduce_max_ps(a);
  bool usable = !odd && most >= LINEAR_SMALLEST;
  __m512 inverse = _mm512_set1_ps(usable ? 127.0f / most : 0);
  *out_scale = odd ? __builtin_nanf("") : usable ? most / 127.0f : 0;
  if (odd) x0 = x1 = _mm512_setzero_ps();
  __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse)), q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
  _mm_storeu_si128((__m128i *)(void *)quants, _mm512_cvtepi32_epi8(q0));
  _mm_storeu_si128((__m128i *)(void *)(quants + LANES), _mm512_cvtepi32_epi8(q1));
  *out_sum = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
}

void crn_linear_prepare_int8__avx512vnni(const float *x, int64_t k, void *out_row) {
  int64_t n = LINEAR_BLOCKS(k) * LINEAR_BLOCK;
  int8_t *quants = out_row;
  float *scales = (float *)(void *)(quants + n);
  int32_t *sums = (int32_t *)(void *)(scales + n / GROUP);
  for (int64_t i = 0; i < n; i += GROUP) {
    __m512 x0 = load_some(x + i, k - i), x1 = load_some(x + i + LANES, k - i - LANES);
    quantize_group(x0, x1, quants + i, scales + i / GROUP, sums + i / GROUP);
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

// Rows as the products want them, group after group: all quants of the group, then its scales and so on. The correction is
// minus the zero point of the quants times the sum of the row's quants, `shares` are what minimums are multiplied with.
typedef struct part {
  const int8_t *quants;
  const float *scales, *shares;
  const int32_t *corrections;
  int n_rows;
} part;

INLINE __m512i load64(const unsigned char *p) { return _mm512_loadu_si512(p); }

// c[t] += 8 inputs of 4-bit quants, or 4 of 8-bit quants, times row t.
INLINE void multiply(__m512i *c, __m512i w, const int8_t *a, int m) {
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) c[t] = _mm512_dpbusd_epi32(c[t], w, _mm512_set1_epi32(*(const int32_t *)(const void *)(a + t * GROUP)));
}

INLINE void add_group(__m512 *acc, const unsigned char *quants, const unsigned char *scales, const part *p, int64_t g, int m,
                      crn_linear_format f) {
  const __m512i low = _mm512_set1_epi8(15);
  const int8_t *a = p->quants + g * m * GROUP;
  __m512i c[ROWS];
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) c[t] = _mm512_set1_epi32(p->corrections[g * m + t]);
  if (f <= CRN_LINEAR_Q4M) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      __m512i x = load64(quants + 64 * j);
      multiply(c, _mm512_and_si512(x, low), a + 8 * j, m);
      multiply(c, _mm512_and_si512(_mm512_srli_epi16(x, 4), low), a + 8 * j + 4, m);
    }
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) multiply(c, load64(quants + 64 * j), a + 4 * j, m);
  }
  __m512 scale = half16(scales);
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) {
    __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(p->scales[g * m + t]));
    acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(c[t]), both, acc[t]);
  }
  if (has_mins(f)) {
    __m512 minimum = half16(scales + LINEAR_MINS);
#pragma GCC unroll 12
    for (int t = 0; t < m; t++) acc[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(p->shares[g * m + t]), acc[t]);
  }
}

INLINE void tile_times(const unsigned char *tile, int64_t blocks, const part *p, float *out, int64_t ld, int m, crn_linear_format f) {
  bool is_4bit = f <= CRN_LINEAR_Q4M;
  int group_bytes = is_4bit ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP, scales = is_4bit ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES;
  __m512 acc[ROWS];
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) acc[t] = _mm512_setzero_ps();
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f)) {
    if (m <= ROWS_THAT_WAIT) linear_ask_ahead(tile, block_bytes(f));
    add_group(acc, tile, tile + scales, p, 2 * b, m, f);
    add_group(acc, tile + group_bytes, tile + scales + 32, p, 2 * b + 1, m, f);
  }
#pragma GCC unroll 12
  for (int t = 0; t < m; t++) _mm512_storeu_ps(out + t * ld, acc[t]);
}

// One or two rows times n tiles side by side: memory gives more when it is read in several places.
INLINE void tiles_times(const unsigned char *tile, int64_t blocks, const part *p, float *out, int64_t ld, int m, int n,
                        crn_linear_format f) {
  bool is_4bit = f <= CRN_LINEAR_Q4M;
  int group_bytes = is_4bit ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP, scales = is_4bit ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES;
  int64_t tile_bytes = blocks * block_bytes(f);
  __m512 acc[BESIDE * 2];
#pragma GCC unroll 8
  for (int i = 0; i < n * m; i++) acc[i] = _mm512_setzero_ps();
  for (int64_t b = 0; b < blocks; b++) {
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      const unsigned char *block = tile + i * tile_bytes + b * block_bytes(f);
      linear_ask_beside(tile + i * tile_bytes, b * block_bytes(f), block_bytes(f), tile_bytes, n);
      add_group(acc + i * m, block, block + scales, p, 2 * b, m, f);
      add_group(acc + i * m, block + group_bytes, block + scales + 32, p, 2 * b + 1, m, f);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < n * m; i++) _mm512_storeu_ps(out + i % m * ld + i / m * LANES, acc[i]);
}

// A function of its own for each number of rows keeps the accumulators in registers.
#define TILE_OF(m, name, f)                                                                                                            \
  __attribute__((noinline)) static void name##_##m(const unsigned char *tile, int64_t blocks, const part *p, float *out, int64_t ld) { \
    tile_times(tile, blocks, p, out, ld, m, f);                                                                                        \
  }
#define BESIDE_OF(m, n, name, f)                                                                                                      \
  __attribute__((noinline)) static void name##_beside_##m##_##n(const unsigned char *tile, int64_t blocks, const part *p, float *out, \
                                                                int64_t ld) {                                                         \
    tiles_times(tile, blocks, p, out, ld, m, n, f);                                                                                   \
  }
#define TILES_OF(name, f)                                                                                                      \
  BESIDE_OF(1, 2, name, f)                                                                                                     \
  BESIDE_OF(2, 2, name, f)                                                                                                     \
  BESIDE_OF(1, 4, name, f)                                                                                                     \
  BESIDE_OF(2, 4, name, f)                                                                                                     \
  static const tile_fn name##_beside[2][2] = {{name##_beside_1_2, name##_beside_2_2}, {name##_beside_1_4, name##_beside_2_4}}; \
  LINEAR_TWELVE_ROWS(TILE_OF, name, f)

typedef void (*tile_fn)(const unsigned char *tile, int64_t blocks, const part *p, float *out, int64_t ld);

// --- rows and tiles -------------------------------------------------------------------------------------------------------

// Interleaves the m rows of a part in scratch memory, returned as far as it was used. A single row stays where it is.
INLINE char *gather_part(const char *rows, size_t row_bytes, int64_t blocks, int m, int zero, char *scratch, part *out_part) {
  int64_t groups = 2 * blocks;
  int32_t *corrections = (int32_t *)(void *)scratch;
  float *shares = (float *)(void *)(corrections + groups * m), *scales = shares + groups * m;
  int8_t *quants = (int8_t *)(void *)(scales + groups * m);
  *out_part = (part){quants, scales, shares, corrections, m};
  for (int t = 0; t < m; t++, rows += row_bytes) {
    const int8_t *row_quants = (const int8_t *)rows;
    const float *row_scales = (const float *)(const void *)(row_quants + blocks * LINEAR_BLOCK);
    const int32_t *row_sums = (const int32_t *)(const void *)(row_scales + groups);
    for (int64_t g = 0; g < groups; g++) {
      corrections[g * m + t] = -zero * row_sums[g];
      shares[g * m + t] = row_scales[g] * (float)row_sums[g];
    }
    if (m == 1) {
      out_part->quants = row_quants;
      out_part->scales = row_scales;
      return (char *)scales;
    }
    for (int64_t g = 0; g < groups; g++) {
      scales[g * m + t] = row_scales[g];
      __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)(row_quants + g * GROUP));
      _mm256_storeu_si256((__m256i *)(void *)(quants + (g * m + t) * GROUP), q);
    }
  }
  return (char *)(quants + groups * m * GROUP);
}

// The same for two rows, as the terms of one come, by whole vectors: a decode step does it for every piece of its products.
INLINE void gather_pair(const char *rows, size_t row_bytes, int64_t blocks, int zero, char *scratch, part *out_part) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  int64_t groups = 2 * blocks;
  int32_t *corrections = (int32_t *)(void *)scratch;
  float *shares = (float *)(void *)(corrections + groups * 2), *scales = shares + groups * 2;
  int8_t *quants = (int8_t *)(void *)(scales + groups * 2);
  const int8_t *first = (const int8_t *)rows, *second = first + row_bytes;
  const float *row_scales[2] = {(const float *)(const void *)(first + blocks * LINEAR_BLOCK),
                                (const float *)(const void *)(second + blocks * LINEAR_BLOCK)};
  *out_part = (part){quants, scales, shares, corrections, 2};
  for (int64_t g = 0; g < groups; g += LANES) {
    int64_t left = groups - g;
    __mmask16 some = left >= LANES ? 0xffff : (__mmask16)((1u << left) - 1);
    __m512i sum[2];
    __m512 scale[2], share[2];
#pragma GCC unroll 2
    for (int t = 0; t < 2; t++) {
      sum[t] = _mm512_maskz_loadu_epi32(some, row_scales[t] + groups + g);
      scale[t] = _mm512_maskz_loadu_ps(some, row_scales[t] + g);
      share[t] = _mm512_mul_ps(scale[t], _mm512_cvtepi32_ps(sum[t]));
      sum[t] = _mm512_mullo_epi32(sum[t], _mm512_set1_epi32(-zero));
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
      const __m512i order = half ? high : low;
      int64_t n = 2 * left - LANES * half, at = 2 * g + LANES * half;
      __mmask16 these = n >= LANES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
      _mm512_mask_storeu_epi32(corrections + at, these, _mm512_permutex2var_epi32(sum[0], order, sum[1]));
      _mm512_mask_storeu_ps(shares + at, these, _mm512_permutex2var_ps(share[0], order, share[1]));
      _mm512_mask_storeu_ps(scales + at, these, _mm512_permutex2var_ps(scale[0], order, scale[1]));
    }
  }
  for (int64_t g = 0; g < groups; g++) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(first + g * GROUP));
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(second + g * GROUP));
    _mm512_storeu_si512(quants + g * 2 * GROUP, _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
  }
}

// Splits up to LINEAR_INTERLEAVED rows into parts of nearly equal size; returns their number.
INLINE int gather(const char *rows, size_t row_bytes, int64_t n_rows, int64_t blocks, int zero, char *scratch, part *out_parts) {
  int n_parts = (int)((n_rows + ROWS - 1) / ROWS);
  if (n_rows == 2) {
    gather_pair(rows, row_bytes, blocks, zero, scratch, out_parts);
    return 1;
  }
  for (int i = 0; i < n_parts; i++) {
    int begin = (int)(n_rows * i / n_parts), end = (int)(n_rows * (i + 1) / n_parts);
    scratch = gather_part(rows + (size_t)begin * row_bytes, row_bytes, blocks, end - begin, zero, scratch, out_parts + i);
  }
  return n_parts;
}

// Weights are read once for a block of rows, whose activations stay in the cache meanwhile.
INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, char *scratch, crn_linear_format f, const tile_fn *tiles, const tile_fn (*beside)[2]) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f);
  int zero = f <= CRN_LINEAR_Q4M ? w->zero : w->zero + LINEAR_Q8_BIAS;
  for (int64_t r = 0; r < n_rows; r += LINEAR_INTERLEAVED) {
    part parts[PARTS];
    int64_t n = n_rows - r < LINEAR_INTERLEAVED ? n_rows - r : LINEAR_INTERLEAVED;
    int n_parts = gather(rows + (size_t)r * row_bytes, row_bytes, n, blocks, zero, scratch, parts);
    int64_t tile = tile_begin;
    for (int step = BESIDE; n <= 2 && step >= 2; step /= 2) {
      for (; tile + step <= tile_end; tile += step)
        beside[step == BESIDE][n - 1]((const unsigned char *)w->data + tile * tile_bytes, blocks, parts,
                                      out + r * ld + (tile - tile_begin) * LANES, ld);
    }
    for (; tile < tile_end; tile++) {
      const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
      float *target = out + r * ld + (tile - tile_begin) * LANES;
      for (int i = 0; i < n_parts; i++) {
        tiles[parts[i].n_rows - 1](data, blocks, parts + i, target, ld);
        target += parts[i].n_rows * ld;
      }
    }
  }
}

#define KERNEL(rhs, f)                                                                                                                \
  TILES_OF(rhs, f)                                                                                                                    \
  void crn_linear_int8_##rhs##_f32_12x16__avx512vnni(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                     int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f, rhs##_tiles, rhs##_beside);                            \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
