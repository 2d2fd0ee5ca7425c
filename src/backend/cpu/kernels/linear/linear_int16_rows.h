/// Rows as 16-bit integers: scaled over each piece of some hundred inputs, and divided into a high and a low signed byte. Always inlined,
/// so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_INT16_ROWS_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_INT16_ROWS_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum {
  LINEAR_INT16_TOP = 127 * 256,                                    ///< the largest integer
  LINEAR_ROWS_BYTES = CRN_LINEAR_ROW_BLOCK * CRN_LINEAR_ROW_LINE,  ///< of a line of each row of a block of rows
  LINEAR_LINE_NUMBERS = CRN_LINEAR_ROW_LINE / (int)sizeof(float)   ///< f32 in a line
};

/// Where number i behind the bytes of a row lies, from the first one on: the scales of its pieces, then the sums of its groups of inputs.
INLINE int64_t linear_int16_number(int64_t i) {
  const uint64_t n = (uint64_t)i;
  return (int64_t)(n / LINEAR_LINE_NUMBERS * LINEAR_ROWS_BYTES + n % LINEAR_LINE_NUMBERS * sizeof(float));
}

/// Blocks of inputs in front of a piece.
INLINE int64_t linear_piece_begin(int64_t blocks, int64_t piece) { return blocks * piece / LINEAR_PIECES(blocks); }

/// The scale of n values, and its inverse; NaN and 0 when there are infinities or NaN.
INLINE float linear_int16_scale_of(const float *x, int64_t n, float *out_inverse) {
  // Its inverse times the largest integer is still a number.
  const float smallest = LINEAR_SMALLEST * 256;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  // Compared as integers, infinities and NaN are the largest.
  __m512i most = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += LINEAR_LANES)
    most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(load_some(x + i, n - i)), magnitude));
  const int32_t bits = _mm512_reduce_max_epi32(most);
  const float top = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
  *out_inverse = 0;
  if (bits >= 0x7f800000) return __builtin_nanf("");
  if (top < smallest) return 0;
  *out_inverse = LINEAR_INT16_TOP / top;
  return top / LINEAR_INT16_TOP;
}

/// A group of inputs, of which n count. `high`, `low`: where its bytes go. Returns the integers' sum.
INLINE __m512i linear_int16_group(const float *x, int64_t n, float inverse, char *high, char *low) {
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 2
  for (int i = 0; i < CRN_LINEAR_GROUP; i += LINEAR_LANES) {
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(load_some(x + i, n - i), _mm512_set1_ps(inverse)));
    if (inverse == 0) v = _mm512_setzero_si512();
    sum = _mm512_add_epi32(sum, v);
    // The low byte is signed: what it takes away the high one has more.
    _mm_store_si128((__m128i *)(void *)(high + i), _mm512_cvtepi32_epi8(_mm512_srai_epi32(_mm512_add_epi32(v, _mm512_set1_epi32(128)), 8)));
    _mm_store_si128((__m128i *)(void *)(low + i), _mm512_cvtepi32_epi8(v));
  }
  return sum;
}

/// All of a row, with the sums of groups where they are wanted.
INLINE void linear_int16_prepare(const float *x, int64_t k, char *out_row, bool has_sums) {
  const int64_t blocks = LINEAR_BLOCKS(k), pieces = LINEAR_PIECES(blocks);
  char *numbers = out_row + 2 * blocks * LINEAR_ROWS_BYTES;
  for (int64_t piece = 0; piece < pieces; piece++) {
    const int64_t at = linear_piece_begin(blocks, piece) * LINEAR_BLOCK, end = linear_piece_begin(blocks, piece + 1) * LINEAR_BLOCK;
    float inverse;
    *(float *)(void *)(numbers + linear_int16_number(piece)) = linear_int16_scale_of(x + at, (k < end ? k : end) - at, &inverse);
    for (int64_t i = at; i < end; i += CRN_LINEAR_GROUP) {
      char *high = out_row + i / LINEAR_BLOCK * 2 * LINEAR_ROWS_BYTES + i % LINEAR_BLOCK;
      const __m512i sum = linear_int16_group(x + i, (k < end ? k : end) - i, inverse, high, high + LINEAR_ROWS_BYTES);
      if (!has_sums) continue;
      *(float *)(void *)(numbers + linear_int16_number(pieces + i / CRN_LINEAR_GROUP)) = (float)_mm512_reduce_add_epi32(sum);
    }
  }
}

#endif
