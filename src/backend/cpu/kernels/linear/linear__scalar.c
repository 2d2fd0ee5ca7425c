// The plain kernels: they say what the others must compute, and serve processors without any of their instructions.
#include <string.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"
#include "tensor/half.h"

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP, BLOCK = LINEAR_BLOCK };

// --- preparation of rows --------------------------------------------------------------------------------------------------

static int64_t padded(int64_t k) { return LINEAR_BLOCKS(k) * BLOCK; }

void crn_linear_prepare_f32__scalar(const float *x, int64_t k, void *out_row) {
  float *row = out_row;
  for (int64_t i = 0; i < k; i++) row[i] = x[i];
  for (int64_t i = k; i < padded(k); i++) row[i] = 0;
}

void crn_linear_prepare_bf16__scalar(const float *x, int64_t k, void *out_row) {
  uint16_t *row = out_row;
  for (int64_t i = 0; i < k; i++) row[i] = crn_bf16_from_f32(x[i]);
  for (int64_t i = k; i < padded(k); i++) row[i] = 0;
}

// Quantises n <= 32 values; the rest of the group becomes zeros. A group with an infinity or NaN gets a scale of NaN, one of
// values so small that their inverse would overflow counts as zeros.
static void quantize_group(const float *x, int64_t n, int8_t *quants, float *out_scale, int32_t *out_sum) {
  float most = 0;
  uint32_t odd = 0;
  for (int64_t i = 0; i < n; i++) {
    float a = crn_f32_from_bits(crn_f32_bits(x[i]) & 0x7fffffffu);
    odd |= crn_f32_bits(a) >= 0x7f800000u;
    most = a > most ? a : most;
  }
  bool usable = !odd && most >= LINEAR_SMALLEST;
  float inverse = usable ? 127.0f / most : 0;
  *out_scale = odd ? crn_f32_from_bits(0x7fc00000u) : usable ? most / 127.0f : 0;
  *out_sum = 0;
  for (int64_t i = 0; i < GROUP; i++) {
    // Adding 1.5 * 2^23 leaves the value rounded to nearest even in the low bits.
    uint32_t bits = crn_f32_bits((usable && i < n ? x[i] * inverse : 0) + 12582912.0f);
    quants[i] = (int8_t)(bits & 0xff);
    *out_sum += quants[i];
  }
}

void crn_linear_prepare_int8__scalar(const float *x, int64_t k, void *out_row) {
  int64_t n = padded(k);
  int8_t *quants = out_row;
  float *scales = (float *)(void *)(quants + n);
  int32_t *sums = (int32_t *)(void *)(scales + n / GROUP);
  for (int64_t i = 0; i < n; i += GROUP) {
    int64_t left = k - i < 0 ? 0 : k - i < GROUP ? k - i : GROUP;
    quantize_group(x + i, left, quants + i, scales + i / GROUP, sums + i / GROUP);
  }
}

// --- weights as f32 -------------------------------------------------------------------------------------------------------

INLINE int quant_of(const unsigned char *block, int i, int lane, bool is_4bit) {
  if (!is_4bit) return block[i / 4 * 64 + lane * 4 + i % 4];
  int byte = block[i / 8 * 64 + lane * 4 + i % 4];
  return i % 8 < 4 ? byte & 15 : byte >> 4;
}

INLINE float half_of(const unsigned char *p, int i) {
  uint16_t half;
  memcpy(&half, p + 2 * i, 2);
  return crn_f16_to_f32(half);
}

// One block as [64][16] floats.
INLINE void widen(const unsigned char *block, crn_linear_format f, int zero, float *out) {
  if (f >= CRN_LINEAR_F16) {
    for (int i = 0; i < BLOCK * LANES; i++) {
      if (f == CRN_LINEAR_F16) out[i] = half_of(block, i);
      // Pairs of inputs are neighbours: element i is input i % 2 of pair i / 32.
      if (f == CRN_LINEAR_BF16) {
        uint16_t half;
        memcpy(&half, block + 2 * i, 2);
        out[(i / 32 * 2 + i % 2) * LANES + i % 32 / 2] = crn_bf16_to_f32(half);
      }
    }
    if (f == CRN_LINEAR_F32) memcpy(out, block, LINEAR_F32_BLOCK);
    return;
  }
  float offset = (float)(is_4bit(f) ? zero : zero + LINEAR_Q8_BIAS);
  for (int g = 0; g < BLOCK / GROUP; g++) {
    const unsigned char *quants = block + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
    const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + g * 32;
    for (int lane = 0; lane < LANES; lane++) {
      float scale = half_of(scales, lane), shift = (has_mins(f) ? half_of(scales + LINEAR_MINS, lane) : 0) - offset * scale;
      for (int i = 0; i < GROUP; i++) {
        out[(g * GROUP + i) * LANES + lane] = (float)quant_of(quants, i, lane, is_4bit(f)) * scale + shift;
      }
    }
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

// Accumulates in `out` block by block, so that a block is widened once for all rows.
INLINE void run_floats(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin,
                       int64_t tile_end, float *out, int64_t ld, void *scratch, crn_linear_format f, bool is_bf16) {
  int64_t blocks = LINEAR_BLOCKS(w->k);
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    for (int64_t r = 0; r < n_rows; r++) memset(out + r * ld, 0, LANES * sizeof(float));
    for (int64_t b = 0; b < blocks; b++) {
      widen((const unsigned char *)w->data + (size_t)(tile * blocks + b) * block_bytes(f), f, w->zero, scratch);
      for (int64_t r = 0; r < n_rows; r++) {
        const char *row = (const char *)rows + (size_t)r * row_bytes;
        const float *wide = scratch;
        float acc[LANES];
        memcpy(acc, out + r * ld, sizeof acc);
        for (int i = 0; i < BLOCK; i++, wide += LANES) {
          float x = is_bf16 ? crn_bf16_to_f32(((const uint16_t *)(const void *)row)[b * BLOCK + i])
                            : ((const float *)(const void *)row)[b * BLOCK + i];
          for (int lane = 0; lane < LANES; lane++) acc[lane] += x * wide[lane];
        }
        memcpy(out + r * ld, acc, sizeof acc);
      }
    }
  }
}

// One group of one tile times one row.
INLINE void add_group(const unsigned char *block, int g, crn_linear_format f, int zero, const int8_t *a, float scale, int32_t sum,
                      float *acc) {
  const unsigned char *quants = block + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + g * 32;
  int offset = is_4bit(f) ? zero : zero + LINEAR_Q8_BIAS;
  for (int lane = 0; lane < LANES; lane++) {
    int32_t dot = -offset * sum;
    for (int i = 0; i < GROUP; i++) dot += quant_of(quants, i, lane, is_4bit(f)) * a[i];
    acc[lane] += (float)dot * (half_of(scales, lane) * scale);
    if (has_mins(f)) acc[lane] += half_of(scales + LINEAR_MINS, lane) * (scale * (float)sum);
  }
}

INLINE void run_int8(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                     float *out, int64_t ld, crn_linear_format f) {
  int64_t blocks = LINEAR_BLOCKS(w->k);
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    for (int64_t r = 0; r < n_rows; r++) {
      const int8_t *a = (const int8_t *)rows + (size_t)r * row_bytes;
      const float *scales = (const float *)(const void *)(a + blocks * BLOCK);
      const int32_t *sums = (const int32_t *)(const void *)(scales + blocks * 2);
      float acc[LANES] = {0};
      for (int64_t g = 0; g < blocks * 2; g++) {
        const unsigned char *block = (const unsigned char *)w->data + (size_t)(tile * blocks + g / 2) * block_bytes(f);
        add_group(block, (int)(g % 2), f, w->zero, a + g * GROUP, scales[g], sums[g], acc);
      }
      memcpy(out + r * ld, acc, sizeof acc);
    }
  }
}

#define FLOATS(lhs, rhs, format, is_bf16)                                                                                           \
  void crn_linear_##lhs##_##rhs##_f32_1x16__scalar(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                   int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run_floats(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, format, is_bf16);                                \
  }
#define INTEGERS(rhs, format)                                                                                                    \
  void crn_linear_int8_##rhs##_f32_1x16__scalar(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                               \
    run_int8(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, format);                                                 \
  }
#define BOTH_FLOATS(rhs, format)  \
  FLOATS(f32, rhs, format, false) \
  FLOATS(bf16, rhs, format, true)

BOTH_FLOATS(q4, CRN_LINEAR_Q4)
BOTH_FLOATS(q4m, CRN_LINEAR_Q4M)
BOTH_FLOATS(q8, CRN_LINEAR_Q8)
BOTH_FLOATS(q8m, CRN_LINEAR_Q8M)
BOTH_FLOATS(f16, CRN_LINEAR_F16)
BOTH_FLOATS(bf16, CRN_LINEAR_BF16)
BOTH_FLOATS(f32, CRN_LINEAR_F32)
INTEGERS(q4, CRN_LINEAR_Q4)
INTEGERS(q4m, CRN_LINEAR_Q4M)
INTEGERS(q8, CRN_LINEAR_Q8)
INTEGERS(q8m, CRN_LINEAR_Q8M)
