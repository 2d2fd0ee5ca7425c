// P formats with plain code: they say what the others must compute.
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"
#include "tensor/half.h"

// A row of weights after the other, as a row is looked up: nothing is gained by tiles.
static void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, float *weights, bool is_bf16) {
  for (int64_t n = tile_begin * LINEAR_LANES; n < tile_end * LINEAR_LANES; n++) {
    int64_t column = n - tile_begin * LINEAR_LANES;
    if (n < w->n) crn_linear_unpack_codes(w, n, weights);
    for (int64_t r = 0; r < n_rows; r++) {
      const char *row = rows + (size_t)r * row_bytes;
      float acc = 0;
      for (int64_t k = 0; k < w->k && n < w->n; k++) {
        float x = is_bf16 ? crn_bf16_to_f32(((const uint16_t *)(const void *)row)[k]) : ((const float *)(const void *)row)[k];
        acc += x * weights[k];
      }
      out[r * ld + column] = acc;
    }
  }
}

#define KERNELS(rhs)                                                                                                             \
  void crn_linear_f32_##rhs##_f32_1x16__scalar(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,  \
                                               int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {    \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, false);                                              \
  }                                                                                                                              \
  void crn_linear_bf16_##rhs##_f32_1x16__scalar(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, true);                                               \
  }

KERNELS(p1)
KERNELS(p2)
KERNELS(p4)
KERNELS(p6)
KERNELS(p8)
