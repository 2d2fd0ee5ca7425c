// INT8 mode on Arm for one to four rows at a time: a tile of 16 outputs times one or two rows, half a tile times three or four. The file
// that includes this has included linear_int8_neon.h and says how bytes are multiplied:
//   add_products: c[t * parts + p] += products of a group of the quarter `first` + p of the outputs with row t
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_INT8_ROWS_NEON_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_INT8_ROWS_NEON_H

enum { ROWS = 4, PARTS = 4 };

INLINE void add_products(int32x4_t *c, const unsigned char *quants, const row_parts *rows, int64_t g, int m, int first, int parts,
                         crn_linear_format f);

// acc[t * parts + p] += one group of the quarter `first` + p of the outputs times row t.
INLINE void add_group(float32x4_t *acc, const unsigned char *quants, const unsigned char *scales, const row_parts *rows, int64_t g,
                      int zero, int m, int first, int parts, crn_linear_format f) {
  int32x4_t c[ROWS * 2];
#pragma GCC unroll 4
  for (int t = 0; t < m; t++) {
#pragma GCC unroll 4
    for (int p = 0; p < parts; p++) c[t * parts + p] = vdupq_n_s32(-zero * rows[t].sums[g]);
  }
  add_products(c, quants, rows, g, m, first, parts, f);
#pragma GCC unroll 4
  for (int p = 0; p < parts; p++) {
    float32x4_t scale = half4(scales + 8 * (first + p));
#pragma GCC unroll 4
    for (int t = 0; t < m; t++) {
      float32x4_t *sum = acc + t * parts + p;
      *sum = vfmaq_f32(*sum, vcvtq_f32_s32(c[t * parts + p]), vmulq_n_f32(scale, rows[t].scales[g]));
      if (!has_mins(f)) continue;
      float share = rows[t].scales[g] * (float)rows[t].sums[g];
      *sum = vfmaq_n_f32(*sum, half4(scales + LINEAR_MINS + 8 * (first + p)), share);
    }
  }
}

INLINE void parts_times(const unsigned char *tile, int64_t blocks, const row_parts *rows, int zero, float *out, int64_t ld, int m,
                        int first, int parts, crn_linear_format f) {
  int group_bytes = is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP, scales = is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES;
  float32x4_t acc[ROWS * 2];
#pragma GCC unroll 8
  for (int i = 0; i < m * parts; i++) acc[i] = vdupq_n_f32(0);
  for (int64_t b = 0; b < blocks; b++, tile += block_bytes(f)) {
    add_group(acc, tile, tile + scales, rows, 2 * b, zero, m, first, parts, f);
    add_group(acc, tile + group_bytes, tile + scales + 32, rows, 2 * b + 1, zero, m, first, parts, f);
  }
#pragma GCC unroll 4
  for (int t = 0; t < m; t++) {
#pragma GCC unroll 4
    for (int p = 0; p < parts; p++) vst1q_f32(out + t * ld + 4 * (first + p), acc[t * parts + p]);
  }
}

INLINE void tile_times(const unsigned char *tile, int64_t blocks, const row_parts *rows, int zero, float *out, int64_t ld, int m,
                       crn_linear_format f) {
  if (m == 1) {
    parts_times(tile, blocks, rows, zero, out, ld, 1, 0, 4, f);
  } else if (m == 2) {
    parts_times(tile, blocks, rows, zero, out, ld, 2, 0, 4, f);
  } else if (m == 3) {
    parts_times(tile, blocks, rows, zero, out, ld, 3, 0, 2, f);
    parts_times(tile, blocks, rows, zero, out, ld, 3, 2, 2, f);
  } else {
    parts_times(tile, blocks, rows, zero, out, ld, 4, 0, 2, f);
    parts_times(tile, blocks, rows, zero, out, ld, 4, 2, 2, f);
  }
}

// Defines the kernel of a format.
#define KERNEL(rhs, f)                                                                                                                \
  void JOIN(crn_linear_int8_##rhs##_f32_4x16__, ISA)(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                     int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                                    \
    run_rows(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, ROWS, tile_times, f);                                         \
  }

#endif
