// EXACT mode of P formats in vectors of 8 outputs. The only table of a tile, of up to 16 entries, stays in registers; others are gathered
// from.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = LINEAR_LANES, HALF = 8, GROUP = CRN_LINEAR_GROUP };

// How the codes of one half of a tile are looked up.
typedef struct half_tables {
  __m256 low, high;  // of the only table
  const float *memory;
  __m256i lane_offsets;
  __m256 factors;
} half_tables;

INLINE half_tables begin_half(const crn_linear_palette *p, const unsigned char *tile, int64_t group, int half, int bits) {
  half_tables t;
  int stored = LINEAR_P_ENTRIES(bits);
  t.memory = (const float *)(const void *)tile + group * p->tables * stored;
  t.low = _mm256_loadu_ps(t.memory);
  t.high = _mm256_loadu_ps(t.memory + HALF);
  __m256i lanes = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(half * HALF));
  __m256i table = _mm256_srli_epi32(_mm256_mullo_epi32(lanes, _mm256_set1_epi32(p->tables)), 4);
  t.lane_offsets = _mm256_mullo_epi32(table, _mm256_set1_epi32(stored));
  t.factors = _mm256_setzero_ps();
  if (p->has_factors) t.factors = _mm256_loadu_ps((const float *)(const void *)(tile + LINEAR_P_HEAD(p, bits)) - LANES + half * HALF);
  return t;
}

// Input `i` of a vector of a plane in the low bits of each lane; what is above them means nothing.
INLINE __m256i shifted(const unsigned char *vector, int i, int bits) {
  __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)vector);
  int shift = 16 * (i % 2) + bits * (i / 2);
  return shift ? _mm256_srli_epi32(x, shift) : x;
}

INLINE __m256i codes_of(const unsigned char *group, int i, int half, int bits) {
  if (bits == 8) {
    group += i / 4 * 64 + i % 2 * 32 + i % 4 / 2 * 8 + half * 16;
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)group));
  }
  group += half * 32;
  if (bits == 6) {
    __m256i low = shifted(group + i / 8 * 64, i % 8, 4), high = shifted(group + LINEAR_P_GROUP(4) + i / 16 * 64, i % 16, 2);
    high = _mm256_and_si256(_mm256_slli_epi32(high, 4), _mm256_set1_epi32(48));
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)), high);
  }
  return shifted(group + i / (32 / bits) * 64, i % (32 / bits), bits);
}

INLINE __m256 rounded(__m256 v, crn_linear_rounding how) {
  if (how == CRN_LINEAR_TO_F16) return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  if (how == CRN_LINEAR_TO_BF16) {
    __m256i u = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    u = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000)));
  }
  return v;
}

INLINE __m256 weights_of(const crn_linear_palette *p, const half_tables *t, const unsigned char *group, int i, int half, int bits,
                         bool single) {
  __m256i codes = codes_of(group, i, half, bits);
  if (single && bits <= 4) {
    // The fourth bit of a code, as the sign of its lane, chooses the half of the table.
    __m256 which = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t->low, codes), _mm256_permutevar8x32_ps(t->high, codes), which);
  }
  if (bits <= 4) codes = _mm256_and_si256(codes, _mm256_set1_epi32(15));
  __m256 v = _mm256_i32gather_ps(t->memory, single ? codes : _mm256_add_epi32(codes, t->lane_offsets), 4);
  return p->has_factors ? rounded(_mm256_mul_ps(v, t->factors), p->rounding) : v;
}

// --- products -------------------------------------------------------------------------------------------------------------

INLINE void one_row(const crn_linear_weights *w, const unsigned char *tile, const float *x, float *out, int bits, bool single) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(p, w->k, blocks);
  const unsigned char *group = tile + LINEAR_P_HEAD(p, bits);
  __m256 acc0 = _mm256_setzero_ps(), acc1 = acc0;
  for (int64_t s = 0, g = 0; s < p->groups; s++) {
    int64_t end = s + 1 < p->groups ? g + reach : 2 * blocks;
    half_tables t0 = begin_half(p, tile, s, 0, bits), t1 = begin_half(p, tile, s, 1, bits);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits), x += GROUP) {
#pragma GCC unroll 32
      for (int i = 0; i < GROUP; i++) {
        __m256 input = _mm256_broadcast_ss(x + i);
        acc0 = _mm256_fmadd_ps(weights_of(p, &t0, group, i, 0, bits, single), input, acc0);
        acc1 = _mm256_fmadd_ps(weights_of(p, &t1, group, i, 1, bits, single), input, acc1);
      }
    }
  }
  _mm256_storeu_ps(out, acc0);
  _mm256_storeu_ps(out + HALF, acc1);
}

INLINE void widen_tile(const crn_linear_weights *w, const unsigned char *tile, float *out, int bits, bool single) {
  const crn_linear_palette *p = &w->palette;
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(p, w->k, blocks);
  const unsigned char *group = tile + LINEAR_P_HEAD(p, bits);
  for (int64_t s = 0, g = 0; s < p->groups; s++) {
    int64_t end = s + 1 < p->groups ? g + reach : 2 * blocks;
    half_tables t0 = begin_half(p, tile, s, 0, bits), t1 = begin_half(p, tile, s, 1, bits);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits), out += GROUP * LANES) {
#pragma GCC unroll 32
      for (int i = 0; i < GROUP; i++) {
        _mm256_store_ps(out + i * LANES, weights_of(p, &t0, group, i, 0, bits, single));
        _mm256_store_ps(out + i * LANES + HALF, weights_of(p, &t1, group, i, 1, bits, single));
      }
    }
  }
}

INLINE void run_few(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                    float *out, int64_t ld, int bits) {
  int64_t tile_bytes = LINEAR_P_TILE(&w->palette, bits, LINEAR_BLOCKS(w->k));
  bool single = w->palette.tables == 1 && !w->palette.has_factors;
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    for (int64_t r = 0; r < n_rows; r++) {
      const float *x = (const float *)(const void *)(rows + (size_t)r * row_bytes);
      if (single) {
        one_row(w, data, x, out + r * ld, bits, true);
      } else {
        one_row(w, data, x, out + r * ld, bits, false);
      }
    }
  }
}

INLINE void run_many(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                     float *out, int64_t ld, float *scratch, int bits) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = LINEAR_P_TILE(&w->palette, bits, blocks);
  bool single = w->palette.tables == 1 && !w->palette.has_factors;
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    if (single) {
      widen_tile(w, data, scratch, bits, true);
    } else {
      widen_tile(w, data, scratch, bits, false);
    }
    crn_linear_wide_tile__avx2(scratch, blocks * LINEAR_BLOCK, rows, row_bytes, n_rows, out, ld);
  }
}

#define KERNELS(rhs, bits)                                                                                                    \
  void crn_linear_f32_##rhs##_f32_1x32__avx2(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                            \
    run_few(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, bits);                                                 \
  }                                                                                                                           \
  void crn_linear_f32_##rhs##_f32_6x16__avx2(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run_many(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, bits);                                       \
  }

KERNELS(p1, 1)
KERNELS(p2, 2)
KERNELS(p4, 4)
KERNELS(p6, 6)
KERNELS(p8, 8)
