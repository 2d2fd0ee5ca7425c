// EXACT mode of P formats in vectors of 4 outputs. Tables of up to 16 entries are looked up with byte shuffles of their 64 bytes, four
// outputs at a time, where the four share a table; larger ones with a load for each output.
#include <arm_neon.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_table.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = LINEAR_LANES, QUARTER = 4, PARTS = 4, GROUP = CRN_LINEAR_GROUP };

// How codes become weights: in registers, where a quarter of the outputs has one table and it fits; in memory, a table for each output.
typedef enum lookup { ONE_TABLE, TABLE_A_QUARTER, IN_MEMORY } lookup;

typedef struct tables {
  uint8x16x4_t bytes[PARTS];  // only the first of ONE_TABLE
  const float *memory[LANES];
  float32x4_t factors[PARTS];
  bool has_factors;
  crn_linear_rounding rounding;
} tables;

INLINE lookup lookup_of(const crn_linear_palette *p, int bits) {
  return bits > 4 || p->tables > PARTS ? IN_MEMORY : p->tables == 1 ? ONE_TABLE : TABLE_A_QUARTER;
}

INLINE uint8x16x4_t table_bytes(const float *entries) {
  uint8x16x4_t t;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) t.val[i] = vld1q_u8((const uint8_t *)(const void *)(entries + 4 * i));
  return t;
}

// The tables of set `set` of a tile.
INLINE tables begin_set(const crn_linear_palette *p, const unsigned char *tile, int64_t set, int bits, lookup how) {
  tables t;  // filled member by member: clearing all of it would be a library call
  t.has_factors = p->has_factors;
  t.rounding = p->rounding;
  int stored = LINEAR_P_ENTRIES(bits);
  const float *entries = (const float *)(const void *)tile + set * p->tables * stored;
  for (int i = 0; how == IN_MEMORY && i < LANES; i++) t.memory[i] = entries + i * p->tables / LANES * stored;
#pragma GCC unroll 4
  for (int i = 0; i < PARTS; i++) {
    if (how == TABLE_A_QUARTER || (how == ONE_TABLE && i == 0)) t.bytes[i] = table_bytes(entries + i * p->tables / PARTS * stored);
    t.factors[i] = vdupq_n_f32(1);
    if (p->has_factors) t.factors[i] = vld1q_f32((const float *)(const void *)(tile + LINEAR_P_HEAD(p, bits)) - LANES + i * QUARTER);
  }
  return t;
}

// Input `i` of a plane of 1, 2 or 4 bits for a quarter of the outputs.
INLINE uint32x4_t plane_codes(const unsigned char *plane, int i, int part, int bits) {
  int per_vector = 32 / bits, in = i % per_vector;
  uint32x4_t x = vld1q_u32((const uint32_t *)(const void *)(plane + i / per_vector * 64 + part * 16));
  x = vshlq_u32(x, vdupq_n_s32(-(16 * (in % 2) + bits * (in / 2))));
  return vandq_u32(x, vdupq_n_u32((1u << bits) - 1));
}

// The codes of input `i` of a group.
INLINE uint32x4_t codes_of(const unsigned char *group, int i, int part, int bits) {
  if (bits == 8) {
    group += i / 4 * 64 + (i % 2 * 2 + part / 2) * 16 + i % 4 / 2 * 8 + part % 2 * 4;
    uint32x2_t four = vld1_dup_u32((const uint32_t *)(const void *)group);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(four))));
  }
  if (bits != 6) return plane_codes(group, i, part, bits);
  return vorrq_u32(plane_codes(group, i, part, 4), vshlq_n_u32(plane_codes(group + LINEAR_P_GROUP(4), i, part, 2), 4));
}

INLINE float32x4_t rounded(float32x4_t v, crn_linear_rounding how) {
  if (how == CRN_LINEAR_TO_F16) return vcvt_f32_f16(vcvt_f16_f32(v));
  if (how == CRN_LINEAR_TO_F32) return v;
  uint32x4_t u = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  u = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  return vreinterpretq_f32_u32(vandq_u32(u, vdupq_n_u32(0xffff0000u)));
}

INLINE float32x4_t weights_of(const tables *t, const unsigned char *group, int i, int part, int bits, lookup how) {
  uint32x4_t codes = codes_of(group, i, part, bits);
  float32x4_t v;
  if (how == IN_MEMORY) {
    const float *const *memory = t->memory + part * QUARTER;
    v = vld1q_dup_f32(memory[0] + vgetq_lane_u32(codes, 0));
    v = vld1q_lane_f32(memory[1] + vgetq_lane_u32(codes, 1), v, 1);
    v = vld1q_lane_f32(memory[2] + vgetq_lane_u32(codes, 2), v, 2);
    v = vld1q_lane_f32(memory[3] + vgetq_lane_u32(codes, 3), v, 3);
  } else {
    // Bytes 4 * code to 4 * code + 3.
    uint32x4_t places = vmlaq_u32(vdupq_n_u32(0x03020100u), codes, vdupq_n_u32(0x04040404u));
    v = vreinterpretq_f32_u8(vqtbl4q_u8(t->bytes[how == ONE_TABLE ? 0 : part], vreinterpretq_u8_u32(places)));
  }
  return t->has_factors ? rounded(vmulq_f32(v, t->factors[part]), t->rounding) : v;
}

// --- one row --------------------------------------------------------------------------------------------------------------

INLINE void one_row(const crn_linear_weights *w, const unsigned char *tile, const float *x, float *out, int bits, lookup how) {
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(&w->palette, w->k, blocks);
  const unsigned char *group = tile + LINEAR_P_HEAD(&w->palette, bits);
  float32x4_t acc[PARTS];
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) acc[p] = vdupq_n_f32(0);
  for (int64_t set = 0, g = 0; set < w->palette.groups; set++) {
    int64_t end = set + 1 < w->palette.groups ? g + reach : 2 * blocks;
    tables t = begin_set(&w->palette, tile, set, bits, how);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits), x += GROUP) {
#pragma GCC unroll 2
      for (int i = 0; i < GROUP; i++) {
        float32x4_t input = vld1q_dup_f32(x + i);
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++) acc[p] = vfmaq_f32(acc[p], weights_of(&t, group, i, p, bits, how), input);
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) vst1q_f32(out + p * QUARTER, acc[p]);
}

// --- many rows ------------------------------------------------------------------------------------------------------------

// A tile as [inputs][16] f32.
INLINE void widen_tile(const crn_linear_weights *w, const unsigned char *tile, float *out, int bits, lookup how) {
  int64_t blocks = LINEAR_BLOCKS(w->k), reach = LINEAR_P_REACH(&w->palette, w->k, blocks);
  const unsigned char *group = tile + LINEAR_P_HEAD(&w->palette, bits);
  for (int64_t set = 0, g = 0; set < w->palette.groups; set++) {
    int64_t end = set + 1 < w->palette.groups ? g + reach : 2 * blocks;
    tables t = begin_set(&w->palette, tile, set, bits, how);
    for (; g < end; g++, group += LINEAR_P_GROUP(bits)) {
#pragma GCC unroll 2
      for (int i = 0; i < GROUP; i++, out += LANES) {
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++) vst1q_f32(out + p * QUARTER, weights_of(&t, group, i, p, bits, how));
      }
    }
  }
}

// --- kernels --------------------------------------------------------------------------------------------------------------

INLINE void run_few(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                    float *out, int64_t ld, int bits, lookup how) {
  int64_t tile_bytes = LINEAR_P_TILE(&w->palette, bits, LINEAR_BLOCKS(w->k));
  for (int64_t r = 0; r < n_rows; r++, rows += row_bytes, out += ld) {
    const unsigned char *tile = (const unsigned char *)w->data + tile_begin * tile_bytes;
    for (int64_t i = 0; i < tile_end - tile_begin; i++, tile += tile_bytes) {
      one_row(w, tile, (const float *)(const void *)rows, out + i * LANES, bits, how);
    }
  }
}

INLINE void run_many(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                     float *out, int64_t ld, float *scratch, int bits, lookup how) {
  int64_t blocks = LINEAR_BLOCKS(w->k), tile_bytes = LINEAR_P_TILE(&w->palette, bits, blocks);
  for (int64_t tile = tile_begin; tile < tile_end; tile++, out += LANES) {
    widen_tile(w, (const unsigned char *)w->data + tile * tile_bytes, scratch, bits, how);
    crn_linear_wide_tile__neon(scratch, blocks * LINEAR_BLOCK, rows, row_bytes, n_rows, out, ld);
  }
}

// A loop for each way to look up, so that none is chosen inside. Larger tables have but one.
#define FOR_LOOKUP(call, bits, ...)                              \
  if ((bits) > 4 || lookup_of(&w->palette, bits) == IN_MEMORY) { \
    call(__VA_ARGS__, bits, IN_MEMORY);                          \
  } else if (lookup_of(&w->palette, bits) == ONE_TABLE) {        \
    call(__VA_ARGS__, bits, ONE_TABLE);                          \
  } else {                                                       \
    call(__VA_ARGS__, bits, TABLE_A_QUARTER);                    \
  }

void crn_linear_widen_codes__neon(const crn_linear_weights *w, int64_t tile, float *out) {
#define CASE(format, bits)                                                                                        \
  case format: {                                                                                                  \
    const unsigned char *data = (const unsigned char *)w->data + tile * LINEAR_P_TILE(&w->palette, bits, blocks); \
    FOR_LOOKUP(widen_tile, bits, w, data, out)                                                                    \
    break;                                                                                                        \
  }
  int64_t blocks = LINEAR_BLOCKS(w->k);
  switch (w->format) {
    CASE(CRN_LINEAR_P1, 1)
    CASE(CRN_LINEAR_P2, 2)
    CASE(CRN_LINEAR_P4, 4)
    CASE(CRN_LINEAR_P6, 6)
    CASE(CRN_LINEAR_P8, 8)
    default:
      break;
  }
#undef CASE
}

#define KERNELS(rhs, bits)                                                                                                    \
  void crn_linear_f32_##rhs##_f32_1x16__neon(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    (void)scratch;                                                                                                            \
    FOR_LOOKUP(run_few, bits, w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld)                                      \
  }                                                                                                                           \
  void crn_linear_f32_##rhs##_f32_6x16__neon(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                             int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    FOR_LOOKUP(run_many, bits, w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch)                            \
  }

KERNELS(p1, 1)
KERNELS(p2, 2)
KERNELS(p4, 4)
KERNELS(p6, 6)
KERNELS(p8, 8)
