// INT8 mode with vectors of 8 outputs, a tile of 16 times 1 to 4 rows. Included by one file per instruction set, which defines
// ISA (for the names) and HAS_DOT: whether bytes are multiplied and summed in fours by one instruction.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_ahead.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

enum { LANES = LINEAR_LANES, HALF = 8, GROUP = CRN_LINEAR_GROUP, ROWS = 4, PARTS = LINEAR_INTERLEAVED / ROWS };

INLINE __m256i load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

// --- preparation ----------------------------------------------------------------------------------------------------------

INLINE __m256i largest_of_pairs(__m256i v, int step) {
  __m256i other = step == 4   ? _mm256_permute2x128_si256(v, v, 1)
                  : step == 2 ? _mm256_shuffle_epi32(v, 0x4e)
                              : _mm256_shuffle_epi32(v, 0xb1);
  return _mm256_max_epi32(v, other);
}

// The values are never negative, so their bits order them as integers; infinities and NaN are the largest.
INLINE float largest(const __m256 *x) {
  const __m256i sign = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < 4; i++) most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(x[i]), sign));
  most = largest_of_pairs(largest_of_pairs(largest_of_pairs(most, 4), 2), 1);
  return _mm256_cvtss_f32(_mm256_castsi256_ps(most));
}

INLINE void quantize_group(const float *values, int8_t *quants, float *out_scale, int32_t *out_sum) {
  __m256 x[4];
  for (int i = 0; i < 4; i++) x[i] = _mm256_loadu_ps(values + 8 * i);
  float most = largest(x);
  bool odd = !(most <= 3.40282347e38f), usable = !odd && most >= LINEAR_SMALLEST;
  __m256 inverse = _mm256_set1_ps(usable ? 127.0f / most : 0);
  *out_scale = odd ? __builtin_nanf("") : usable ? most / 127.0f : 0;
  __m256i q[4];
  for (int i = 0; i < 4; i++) q[i] = odd ? _mm256_setzero_si256() : _mm256_cvtps_epi32(_mm256_mul_ps(x[i], inverse));
  __m256i sum = _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
  __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256((__m256i *)(void *)quants, bytes);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  *out_sum = _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

void JOIN(crn_linear_prepare_int8__, ISA)(const float *x, int64_t k, void *out_row) {
  int64_t n = LINEAR_BLOCKS(k) * LINEAR_BLOCK;
  int8_t *quants = out_row;
  float *scales = (float *)(void *)(quants + n);
  int32_t *sums = (int32_t *)(void *)(scales + n / GROUP);
  for (int64_t i = 0; i < n; i += GROUP) {
    float some[GROUP];
    const float *group = x + i;
    if (k - i < GROUP) {
      for (int64_t j = 0; j < GROUP; j++) some[j] = i + j < k ? x[i + j] : 0;
      group = some;
    }
    quantize_group(group, quants + i, scales + i / GROUP, sums + i / GROUP);
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

// Sums of one group for 8 outputs and one row. Without dot products, 4-bit quants are summed in 16 bits, where 32 of them fit.
INLINE __m256i add_quants(__m256i c, __m256i w, __m256i a, crn_linear_format f) {
#if HAS_DOT
  (void)f;
  return _mm256_dpbusd_avx_epi32(c, w, a);
#else
  if (is_4bit(f)) return _mm256_add_epi16(c, _mm256_maddubs_epi16(w, a));
  // The products of two unsigned bytes with 127 do not fit in 16 bits; those of magnitudes up to 128 do.
  __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
  return _mm256_add_epi32(c, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
#endif
}

// c[half * m + t] += quants times row t.
INLINE void multiply(__m256i *c, const __m256i *w, const int8_t *a, int m, int halves, crn_linear_format f) {
#pragma GCC unroll 4
  for (int t = 0; t < m; t++) {
    __m256i input = _mm256_set1_epi32(*(const int32_t *)(const void *)(a + t * GROUP));
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++) c[h * m + t] = add_quants(c[h * m + t], w[h], input, f);
  }
}

// The first half is `half`; one or two halves are worked on.
INLINE void add_group(__m256 *acc, const unsigned char *quants, const unsigned char *scales, const part *p, int64_t g, int m, int halves,
                      crn_linear_format f) {
  const __m256i low = _mm256_set1_epi8(15);
  const int8_t *a = p->quants + g * m * GROUP;
  const int vectors = is_4bit(f) ? 4 : 8;
  __m256i c[ROWS], w[2], v[2];
  if (m <= 2) linear_ask_ahead(quants, is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
#pragma GCC unroll 4
  for (int t = 0; t < m * halves; t++) c[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int j = 0; j < vectors; j++) {
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++) {
      w[h] = load32(quants + 64 * j + 32 * h);
      if (is_4bit(f)) v[h] = _mm256_and_si256(_mm256_srli_epi16(w[h], 4), low), w[h] = _mm256_and_si256(w[h], low);
      if (!is_4bit(f) && !HAS_DOT) w[h] = _mm256_xor_si256(w[h], _mm256_set1_epi8((char)0x80));
    }
    multiply(c, w, a + (is_4bit(f) ? 8 : 4) * j, m, halves, f);
    if (is_4bit(f)) multiply(c, v, a + 8 * j + 4, m, halves, f);
  }
#pragma GCC unroll 2
  for (int h = 0; h < halves; h++) {
    __m256 scale = half8(scales + 16 * h);
#pragma GCC unroll 4
    for (int t = 0; t < m; t++) {
      __m256i sum = c[h * m + t];
      if (is_4bit(f) && !HAS_DOT) sum = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
      sum = _mm256_add_epi32(sum, _mm256_set1_epi32(p->corrections[g * m + t]));
      __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(p->scales[g * m + t]));
      acc[h * m + t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), both, acc[h * m + t]);
      if (!has_mins(f)) continue;
      acc[h * m + t] = _mm256_fmadd_ps(half8(scales + LINEAR_MINS + 16 * h), _mm256_set1_ps(p->shares[g * m + t]), acc[h * m + t]);
    }
  }
}

INLINE void halves_times(const unsigned char *tile, int64_t blocks, const part *p, float *out, int64_t ld, int m, int first, int halves,
                         crn_linear_format f) {
  int group_bytes = is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP;
  const unsigned char *scales = tile + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + 16 * first;
  __m256 acc[ROWS];
  tile += 32 * first;
#pragma GCC unroll 4
  for (int t = 0; t < m * halves; t++) acc[t] = _mm256_setzero_ps();
  for (int64_t g = 0; g < 2 * blocks; g += 2, tile += block_bytes(f), scales += block_bytes(f)) {
    add_group(acc, tile, scales, p, g, m, halves, f);
    add_group(acc, tile + group_bytes, scales + 32, p, g + 1, m, halves, f);
  }
#pragma GCC unroll 2
  for (int h = 0; h < halves; h++) {
#pragma GCC unroll 4
    for (int t = 0; t < m; t++) _mm256_storeu_ps(out + t * ld + (first + h) * HALF, acc[h * m + t]);
  }
}

// Registers hold the sums of four rows times 8 outputs or of two rows times 16.
INLINE void tile_times(const unsigned char *tile, int64_t blocks, const part *p, float *out, int64_t ld, crn_linear_format f) {
  if (p->n_rows == 1) {
    halves_times(tile, blocks, p, out, ld, 1, 0, 2, f);
  } else if (p->n_rows == 2) {
    halves_times(tile, blocks, p, out, ld, 2, 0, 2, f);
  } else if (p->n_rows == 3) {
    halves_times(tile, blocks, p, out, ld, 3, 0, 1, f);
    halves_times(tile, blocks, p, out, ld, 3, 1, 1, f);
  } else {
    halves_times(tile, blocks, p, out, ld, 4, 0, 1, f);
    halves_times(tile, blocks, p, out, ld, 4, 1, 1, f);
  }
}

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
      _mm256_storeu_si256((__m256i *)(void *)(quants + (g * m + t) * GROUP), load32(row_quants + g * GROUP));
    }
  }
  return (char *)(quants + groups * m * GROUP);
}

// Weights are read once for a block of rows, whose activations stay in the cache meanwhile.
INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, char *scratch, crn_linear_format f) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f);
  int zero = w->zero + (!is_4bit(f) && HAS_DOT ? LINEAR_Q8_BIAS : 0);
  for (int64_t r = 0; r < n_rows; r += LINEAR_INTERLEAVED) {
    part parts[PARTS];
    int64_t n = n_rows - r < LINEAR_INTERLEAVED ? n_rows - r : LINEAR_INTERLEAVED;
    int n_parts = (int)((n + ROWS - 1) / ROWS);
    char *free_scratch = scratch;
    for (int i = 0; i < n_parts; i++) {
      int begin = (int)(n * i / n_parts), end = (int)(n * (i + 1) / n_parts);
      free_scratch = gather_part(rows + (size_t)(r + begin) * row_bytes, row_bytes, blocks, end - begin, zero, free_scratch, parts + i);
    }
    for (int64_t tile = tile_begin; tile < tile_end; tile++) {
      const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
      float *target = out + r * ld + (tile - tile_begin) * LANES;
      for (int i = 0; i < n_parts; i++) {
        tile_times(data, blocks, parts + i, target, ld, f);
        target += parts[i].n_rows * ld;
      }
    }
  }
}

#define KERNEL(rhs, f)                                                                                                                \
  void JOIN(crn_linear_int8_##rhs##_f32_4x16__, ISA)(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                     int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, f);                                                       \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
