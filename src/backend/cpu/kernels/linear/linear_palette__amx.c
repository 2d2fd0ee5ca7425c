// Many rows of P formats in the modes BF16 and INT8: weights are turned into bf16 tiles once, as the other formats' are.
#include "backend/cpu/kernels/linear/linear_pairs_avx512bf16.h"
#include "backend/cpu/kernels/linear/linear_palette_avx512.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP };

// Groups of inputs from `begin` to `end`; a set of tables serves `reach` of them, the last one all that follow.
P_INLINE void widen_groups(const crn_linear_weights *w, const unsigned char *tile, int64_t begin, int64_t end, unsigned char *out, int bits,
                           bool single) {
  const crn_linear_palette *p = &w->palette;
  int64_t reach = LINEAR_P_REACH(p, w->k, LINEAR_BLOCKS(w->k));
  const unsigned char *group = tile + LINEAR_P_HEAD(p, bits) + begin * LINEAR_P_GROUP(bits);
  for (int64_t g = begin; g < end;) {
    int64_t s = g / reach < p->groups ? g / reach : p->groups - 1,
            stop = s + 1 < p->groups && (s + 1) * reach < end ? (s + 1) * reach : end;
    palette_tables tables = palette_begin(p, tile, s, bits, single);
    for (; g < stop; g++, group += LINEAR_P_GROUP(bits), out += GROUP * LANES * 2) {
#pragma GCC unroll 16
      for (int i = 0; i < GROUP; i += 2) {
        linear_store_pair(out + i * LANES * 2, palette_weights(p, &tables, group, i, bits, single),
                          palette_weights(p, &tables, group, i + 1, bits, single));
      }
    }
  }
}

#define KERNEL(rhs, bits)                                                                                                      \
  static void widen_##rhs(const crn_linear_weights *w, int64_t tile, int64_t first_block, int64_t n_blocks, void *out) {       \
    const crn_linear_palette *p = &w->palette;                                                                                 \
    const unsigned char *data = (const unsigned char *)w->data + tile * LINEAR_P_TILE(p, bits, LINEAR_BLOCKS(w->k));           \
    if (p->tables == 1 && !p->has_factors) {                                                                                   \
      widen_groups(w, data, 2 * first_block, 2 * (first_block + n_blocks), out, bits, true);                                   \
    } else {                                                                                                                   \
      widen_groups(w, data, 2 * first_block, 2 * (first_block + n_blocks), out, bits, false);                                  \
    }                                                                                                                          \
  }                                                                                                                            \
  void crn_linear_bf16_##rhs##_f32_32x32__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    crn_linear_widened__amx(w, widen_##rhs, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch);                  \
  }

KERNEL(p1, 1)
KERNEL(p2, 2)
KERNEL(p4, 4)
KERNEL(p6, 6)
KERNEL(p8, 8)
