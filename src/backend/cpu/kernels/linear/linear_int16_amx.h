/// Weights as 16-bit integers on their way into tile registers: what linear_int16__amx.c wants to be made, and by whom. A block becomes the
/// high bytes [inputs / 4][16 outputs][4], then the low ones, signed, so that high * 256 + low is the integer.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_INT16_AMX_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_INT16_AMX_H

#include <immintrin.h>
#include <stdint.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_amx.h"
#include "backend/cpu/kernels/linear/linear_int16_rows.h"
#include "backend/cpu/kernels/linear/linear_layout.h"

enum {
  LINEAR_INT16_PLANE = LINEAR_BLOCK * LINEAR_LANES,  ///< bytes of a block's high or low bytes
  LINEAR_INT16_BLOCK = 2 * LINEAR_INT16_PLANE,
  LINEAR_INT16_UNITS = 8  ///< in which a block is made
};

/// A piece of the inputs of some tiles, unit after unit of block after block, tile after tile.
typedef struct linear_int16_weights {
  const crn_linear_weights *w;
  int64_t tile, block, n_blocks;  ///< the first ones, of the matrix
  unsigned char *out;
  float *scales;    ///< [tile][16], of the high bytes
  int64_t done, n;  ///< units
  /// Of whoever makes them.
  const unsigned char *packed;  ///< the block of quants, or the group of codes, that is begun
  __m512 inverse;               ///< of the scales of the tile begun
  __m512 scale[2], low[2];      ///< of quants: of the groups of the block
  /// Of codes: the tile begun, the set of its tables in use, high and low bytes of their entries, and where the table of a lane begins
  /// among these, four times each.
  const unsigned char *head;
  int64_t tables;
  unsigned char entries[2][256 * LINEAR_LANES], lane_offsets[64];
} linear_int16_weights;

/// Makes the units from `done` to `until`.
typedef void (*linear_int16_make)(linear_int16_weights *n, int64_t until);

/// Notes a tile's scales: its largest weights, of each output, become LINEAR_INT16_TOP.
INLINE void linear_int16_scale(linear_int16_weights *n, int64_t tile, __m512 most) {
  const __mmask16 some = _mm512_cmp_ps_mask(most, _mm512_setzero_ps(), _CMP_GT_OQ);
  n->inverse = _mm512_maskz_div_ps(some, _mm512_set1_ps(LINEAR_INT16_TOP), most);
  // A high byte stands for 256 of the units of its row and of its output each.
  _mm512_store_ps(n->scales + tile * LINEAR_LANES, _mm512_mul_ps(most, _mm512_set1_ps(256.0f / LINEAR_INT16_TOP)));
}

/// Four inputs of 16 outputs, 128 higher than they are: so the byte above holds what is left when the low one is signed.
INLINE void linear_int16_store(unsigned char *out, __m512i v0, __m512i v1, __m512i v2, __m512i v3) {
  const __m512i even = _mm512_set1_epi32(0x00ff00ff), sign = _mm512_set1_epi8((char)0x80);
  __m512i a = _mm512_mask_blend_epi16(0xaaaaaaaau, v0, _mm512_slli_epi32(v2, 16));
  __m512i b = _mm512_mask_blend_epi16(0xaaaaaaaau, v1, _mm512_slli_epi32(v3, 16));
  // even ? first : second
  _mm512_store_si512(out, _mm512_ternarylogic_epi32(even, _mm512_srli_epi32(a, 8), b, 0xca));
  _mm512_store_si512(out + LINEAR_INT16_PLANE, _mm512_xor_si512(_mm512_ternarylogic_epi32(even, a, _mm512_slli_epi32(b, 8), 0xca), sign));
}

/// A call of whatever weights. Scratch memory: scratch_int16 of linear_table.c.
void crn_linear_int16__amx(const crn_linear_weights *w, linear_int16_make make, const char *rows, size_t row_bytes, int64_t n_rows,
                           int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, char *scratch, const crn_linear_sink *sink);

/// Both forms of the kernel whose weights the file's make_unit(n, what) makes, a unit at a time.
#define LINEAR_INT16_KERNEL(rhs, isa, what)                                                                                       \
  static void make_##rhs(linear_int16_weights *n, int64_t until) {                                                                \
    while (n->done < until) make_unit(n, what);                                                                                   \
  }                                                                                                                               \
  void crn_linear_int16_parts_##rhs##__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,       \
                                           int64_t tile_begin, int64_t tile_end, float *sums, int64_t ld, void *scratch,          \
                                           const crn_linear_sink *sink) {                                                         \
    crn_linear_int16__amx(w, make_##rhs, rows, row_bytes, n_rows, tile_begin, tile_end, sums, ld, scratch, sink);                 \
  }                                                                                                                               \
  void crn_linear_int16_##rhs##_f32_32x16__##isa(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                 int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    crn_linear_int16__amx(w, make_##rhs, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, NULL);                  \
  }

#endif
