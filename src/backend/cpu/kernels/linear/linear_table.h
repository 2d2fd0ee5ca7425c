/// Declarations of the functions that rows of linear.def name.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_TABLE_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_TABLE_H

#include "backend/cpu/kernels/linear/linear.h"
#include "base/cpu.h"

/// A group of activations whose largest magnitude is below this counts as zeros in INT8: 127 divided by less could overflow.
#define LINEAR_SMALLEST 0x1p-116f

/// Rows that kernels with dot products interleave in scratch memory at a time.
enum { LINEAR_INTERLEAVED = 96 };

/// Rows a tile register has.
enum { LINEAR_TILE_ROWS = 16 };
/// Blocks that the kernel with byte tiles has in each of its stages.
enum { LINEAR_FEW_BLOCKS = 4 };

/// Bytes of a group of inputs of a tile, unpacked: quants, scales and what goes with the sum of a row's inputs.
enum { LINEAR_UNPACKED_GROUP = CRN_LINEAR_GROUP * CRN_LINEAR_TILE + 2 * 4 * CRN_LINEAR_TILE };

/// Products with weights that somebody turned into [inputs][16] f32 (a pair of tiles: w1 may equal w0), for the palettes.
void crn_linear_wide_pair__avx512(const float *w0, const float *w1, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows,
                                  float *out, int64_t ld);
void crn_linear_wide_tile__avx2(const float *w, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows, float *out, int64_t ld);
void crn_linear_wide_tile__neon(const float *w, int64_t k, const char *rows, size_t row_bytes, int64_t n_rows, float *out, int64_t ld);
/// A tile as such f32: of quants, F16 and F32, and of P formats.
void crn_linear_widen_tile__neon(const crn_linear_weights *w, int64_t tile, float *out);
void crn_linear_widen_codes__neon(const crn_linear_weights *w, int64_t tile, float *out);
#if defined(__x86_64__)
#define LINEAR_AMX_PARTS(PART) PART(f16) PART(bf16) PART(f32)
#define LINEAR_DECLARE_PARTS(rhs)                                                                                                         \
  void crn_linear_parts_##rhs##__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, \
                                     int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink);
LINEAR_AMX_PARTS(LINEAR_DECLARE_PARTS)
#define LINEAR_AMX_INT16_PARTS(PART) \
  PART(q4, amx)                      \
  PART(q4m, amx) PART(q8, amx) PART(q8m, amx) PART(p1, amxvbmi) PART(p2, amxvbmi) PART(p4, amxvbmi) PART(p6, amxvbmi) PART(p8, amxvbmi)
#define LINEAR_VNNI_PARTS(PART) PART(q4) PART(q4m) PART(q8) PART(q8m)
#define LINEAR_DECLARE_INT16_PARTS(rhs, isa)                                                                                  \
  void crn_linear_int16_parts_##rhs##__##isa(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *sums, int64_t ld, void *scratch,    \
                                             const crn_linear_sink *sink);
#define LINEAR_DECLARE_AMX(rhs, isa) LINEAR_DECLARE_INT16_PARTS(rhs, amx)
#define LINEAR_DECLARE_VNNI(rhs) LINEAR_DECLARE_INT16_PARTS(rhs, avx512vnni)
LINEAR_AMX_INT16_PARTS(LINEAR_DECLARE_AMX)
LINEAR_VNNI_PARTS(LINEAR_DECLARE_VNNI)
#endif

#define LINEAR(format, mode, rows, least, lhs, rhs, tile, isa, bits, prepare, scratch)                                                 \
  void crn_linear_prepare_##prepare(const float *x, int64_t k, void *out_row);                                                         \
  void crn_linear_##lhs##_##rhs##_f32_##tile##__##isa(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                      int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch);
#include "backend/cpu/kernels/linear/linear.def"
#undef LINEAR

#endif
