// INT8 mode on Arm: what files of its instruction sets share. ISA (for the names) is defined by the file that includes this.
#include <arm_neon.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

enum { LANES = LINEAR_LANES, GROUP = CRN_LINEAR_GROUP };

// --- preparation ----------------------------------------------------------------------------------------------------------

INLINE void quantize_group(const float *x, int8_t *quants, float *out_scale, int32_t *out_sum) {
  // Magnitudes are ordered like their bits; infinities and NaN are the largest.
  uint32x4_t most_bits = vdupq_n_u32(0);
  for (int i = 0; i < 8; i++) {
    most_bits = vmaxq_u32(most_bits, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + 4 * i)), vdupq_n_u32(0x7fffffffu)));
  }
  float most = vgetq_lane_f32(vreinterpretq_f32_u32(vdupq_n_u32(vmaxvq_u32(most_bits))), 0);
  bool odd = !(most <= 3.40282347e38f), usable = !odd && most >= LINEAR_SMALLEST;
  float inverse = usable ? 127.0f / most : 0;
  *out_scale = odd ? __builtin_nanf("") : usable ? most / 127.0f : 0;
  int32x4_t sum = vdupq_n_s32(0);
  for (int i = 0; i < 8; i += 2) {
    int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i + 4), inverse));
    if (odd) a = b = vdupq_n_s32(0);
    sum = vaddq_s32(sum, vaddq_s32(a, b));
    vst1_s8(quants + 4 * i, vmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
  }
  *out_sum = vaddvq_s32(sum);
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

// --- weights --------------------------------------------------------------------------------------------------------------

// Four inputs of four outputs as signed bytes: vector `index` of a group counts fours of inputs. 4-bit quants are small enough, 8-bit
// ones get their sign back.
INLINE int8x16_t quants_of(const unsigned char *quants, int index, int part, crn_linear_format f) {
  if (!is_4bit(f)) return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(quants + index * 64 + part * 16), vdupq_n_u8(0x80)));
  uint8x16_t x = vld1q_u8(quants + index / 2 * 64 + part * 16);
  return vreinterpretq_s8_u8(index % 2 ? vshrq_n_u8(x, 4) : vandq_u8(x, vdupq_n_u8(15)));
}

// A row as the preparation leaves it.
typedef struct row_parts {
  const int8_t *quants;
  const float *scales;
  const int32_t *sums;
} row_parts;

INLINE row_parts row_at(const char *rows, size_t row_bytes, int64_t r, int64_t blocks) {
  row_parts row;
  row.quants = (const int8_t *)rows + (size_t)r * row_bytes;
  row.scales = (const float *)(const void *)(row.quants + blocks * LINEAR_BLOCK);
  row.sums = (const int32_t *)(const void *)(row.scales + 2 * blocks);
  return row;
}

// --- products -------------------------------------------------------------------------------------------------------------

// m rows of `most` (those behind them are the last one again) times a tile.
typedef void (*tile_rows_fn)(const unsigned char *tile, int64_t blocks, const row_parts *rows, int zero, float *out, int64_t ld, int m,
                             crn_linear_format f);

// All rows of a call, `most` at a time, as evenly as they can be divided.
INLINE void run_rows(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                     float *out, int64_t ld, int most, tile_rows_fn times, crn_linear_format f) {
  enum { MOST = 8 };
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = blocks * block_bytes(f), n_parts = (n_rows + most - 1) / most;
  for (int64_t tile = tile_begin; tile < tile_end; tile++) {
    const unsigned char *data = (const unsigned char *)w->data + tile * tile_bytes;
    for (int64_t i = 0; i < n_parts; i++) {
      int64_t begin = n_rows * i / n_parts, m = n_rows * (i + 1) / n_parts - begin;
      row_parts part[MOST];
      for (int64_t t = 0; t < most; t++) part[t] = row_at(rows, row_bytes, begin + (t < m ? t : m - 1), blocks);
      times(data, blocks, part, w->zero, out + begin * ld + (tile - tile_begin) * LANES, ld, (int)m, f);
    }
  }
}
