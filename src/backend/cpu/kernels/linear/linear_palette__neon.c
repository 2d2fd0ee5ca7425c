// EXACT mode of P formats: tiles are turned into f32 with plain loads from their tables, the products are those of the other formats.
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES };

// A tile as [inputs][16] f32, row by row of the packed form.
static void widen_tile(const crn_linear_weights *w, int64_t tile, float *out) {
  int64_t padded = LINEAR_BLOCKS(w->k) * LINEAR_BLOCK;
  float *row = out + padded * LANES;
  for (int64_t i = 0; i < padded * LANES; i++) out[i] = 0;
  for (int lane = 0; lane < LANES && tile * LANES + lane < w->n; lane++) {
    crn_linear_unpack_codes(w, tile * LANES + lane, row);
    for (int64_t k = 0; k < w->k; k++) out[k * LANES + lane] = row[k];
  }
}

static void run(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, float *scratch) {
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    widen_tile(w, tile, scratch);
    crn_linear_wide_tile__neon(scratch, LINEAR_BLOCKS(w->k) * LINEAR_BLOCK, rows, row_bytes, n_rows, out, ld);
  }
}

#define KERNEL(rhs)                                                                                                           \
  void crn_linear_f32_##rhs##_f32_6x16__neon(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch);                                                  \
  }

KERNEL(p1)
KERNEL(p2)
KERNEL(p4)
KERNEL(p6)
KERNEL(p8)
