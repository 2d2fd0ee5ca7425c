// Packing and unpacking of weights, sizes. Plain code: it runs once per load, or for single rows.
#include <string.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_formats.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "base/checked.h"
#include "tensor/half.h"

enum { GROUPS_OF_BLOCK = LINEAR_BLOCK / CRN_LINEAR_GROUP };

static const size_t g_block_bytes[CRN_LINEAR_FORMATS] = {
    [CRN_LINEAR_Q4] = LINEAR_Q4_BLOCK,   [CRN_LINEAR_Q4M] = LINEAR_Q4M_BLOCK,  [CRN_LINEAR_Q8] = LINEAR_Q8_BLOCK,
    [CRN_LINEAR_Q8M] = LINEAR_Q8M_BLOCK, [CRN_LINEAR_F16] = LINEAR_HALF_BLOCK, [CRN_LINEAR_BF16] = LINEAR_HALF_BLOCK,
    [CRN_LINEAR_F32] = LINEAR_F32_BLOCK,
};

static bool is_8bit(crn_linear_format format) { return format == CRN_LINEAR_Q8 || format == CRN_LINEAR_Q8M; }
static size_t scales_offset(crn_linear_format format) { return is_4bit(format) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES; }

bool crn_linear_packed_bytes(crn_linear_format format, int64_t n, int64_t k, size_t *out_bytes) {
  if (n < 0 || k < 0 || !g_block_bytes[format]) return false;
  size_t blocks = (size_t)k / LINEAR_BLOCK + (k % LINEAR_BLOCK != 0), tile;
  return crn_mul_size(blocks, g_block_bytes[format], &tile) && crn_mul_size(tile, (size_t)crn_linear_tiles(n), out_bytes);
}

size_t crn_linear_row_bytes(crn_linear_mode mode, int64_t k) {
  size_t blocks = (size_t)LINEAR_BLOCKS(k), groups = blocks * GROUPS_OF_BLOCK, bytes;
  if (mode == CRN_LINEAR_EXACT) {
    bytes = blocks * LINEAR_BLOCK * sizeof(float);
  } else if (mode == CRN_LINEAR_MODE_BF16) {
    bytes = blocks * LINEAR_BLOCK * sizeof(uint16_t);
  } else if (mode == CRN_LINEAR_ROWS_INT16) {
    bytes = blocks * LINEAR_BLOCK * sizeof(uint16_t) + (LINEAR_PIECES(blocks) + groups) * sizeof(float);
  } else {
    bytes = blocks * LINEAR_BLOCK + groups * (sizeof(float) + sizeof(int32_t));
  }
  return (bytes + 63) / 64 * 64 | 64;
}

// --- one weight of a block ------------------------------------------------------------------------------------------------

static void put_quant(unsigned char *block, crn_linear_format format, int64_t i, int lane, int quant) {
  int64_t group = i / CRN_LINEAR_GROUP, in = i % CRN_LINEAR_GROUP;
  if (is_4bit(format)) {
    unsigned char *byte = block + group * LINEAR_Q4_GROUP + in / 8 * 64 + lane * 4 + in % 4;
    *byte = (unsigned char)(in % 8 < 4 ? (*byte & 0xf0) | quant : (*byte & 0x0f) | quant << 4);
  } else {
    block[group * LINEAR_Q8_GROUP + in / 4 * 64 + lane * 4 + in % 4] = (unsigned char)quant;
  }
}

static int get_quant(const unsigned char *block, crn_linear_format format, int64_t i, int lane) {
  int64_t group = i / CRN_LINEAR_GROUP, in = i % CRN_LINEAR_GROUP;
  if (!is_4bit(format)) return block[group * LINEAR_Q8_GROUP + in / 4 * 64 + lane * 4 + in % 4];
  int byte = block[group * LINEAR_Q4_GROUP + in / 8 * 64 + lane * 4 + in % 4];
  return in % 8 < 4 ? byte & 15 : byte >> 4;
}

static bool put_f16(unsigned char *block, size_t offset, int64_t group, int lane, float value) {
  uint16_t half = crn_f16_from_f32(value);
  memcpy(block + offset + (size_t)(group * LINEAR_LANES + lane) * 2, &half, 2);
  return crn_f16_to_f32(half) == value || value != value;
}

static float get_f16(const unsigned char *block, size_t offset, int64_t group, int lane) {
  uint16_t half;
  memcpy(&half, block + offset + (size_t)(group * LINEAR_LANES + lane) * 2, 2);
  return crn_f16_to_f32(half);
}

// Where a 16-bit or 32-bit float of a block is, in elements.
static size_t float_index(crn_linear_format format, int64_t i, int lane) {
  if (format == CRN_LINEAR_BF16) return (size_t)(i / 2 * 2 * LINEAR_LANES + lane * 2 + i % 2);
  return (size_t)(i * LINEAR_LANES + lane);
}

// --- blocks ---------------------------------------------------------------------------------------------------------------

// All 32 quants of a group and lane; the loads and stores of put_quant without its choices.
static void pack_group(crn_linear_format format, const unsigned char *bytes, int lane, unsigned char *target) {
  target += lane * 4;
  for (int i = 0; i < CRN_LINEAR_GROUP; i += is_4bit(format) ? 8 : 4, target += 64, bytes += is_4bit(format) ? 8 : 4) {
    for (int b = 0; b < 4; b++) {
      target[b] = (unsigned char)(is_4bit(format) ? (bytes[b] & 15) | (bytes[b + 4] & 15) << 4 : bytes[b] ^ 0x80);
    }
  }
}

// Writes the inputs [begin, begin + 64) of one lane; what lies behind k, or all of it without a source, becomes zeros.
static bool pack_quants(crn_linear_format format, int64_t k, int64_t begin, int lane, const crn_linear_row *source, unsigned char *block) {
  bool exact = true;
  int bias = is_8bit(format) ? LINEAR_Q8_BIAS : 0;
  const unsigned char *bytes = source ? source->values : NULL;
  bool whole = source && begin + LINEAR_BLOCK <= k;
  for (int64_t g = 0; whole && g < GROUPS_OF_BLOCK; g++) {
    size_t group_bytes = is_4bit(format) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP;
    pack_group(format, bytes + begin + g * CRN_LINEAR_GROUP, lane, block + (size_t)g * group_bytes);
  }
  for (int64_t i = whole ? LINEAR_BLOCK : 0; i < LINEAR_BLOCK; i++) {
    bool present = source && begin + i < k;
    // Adding 128 to a two's complement byte is flipping its highest bit.
    put_quant(block, format, i, lane, present ? (is_8bit(format) ? bytes[begin + i] ^ 0x80 : bytes[begin + i] & 15) : bias);
  }
  for (int64_t group = 0; group < GROUPS_OF_BLOCK; group++) {
    int64_t index = begin / CRN_LINEAR_GROUP + group;
    bool present = source && index * CRN_LINEAR_GROUP < k;
    exact &= put_f16(block, scales_offset(format), group, lane, present ? source->scales[index] : 0);
    if (has_mins(format)) exact &= put_f16(block, scales_offset(format) + LINEAR_MINS, group, lane, present ? source->mins[index] : 0);
  }
  return exact;
}

static void pack_floats(crn_linear_format format, int64_t k, int64_t begin, int lane, const crn_linear_row *source, unsigned char *block) {
  size_t width = format == CRN_LINEAR_F32 ? 4 : 2;
  for (int64_t i = 0; i < LINEAR_BLOCK; i++) {
    unsigned char *target = block + float_index(format, i, lane) * width;
    if (source && begin + i < k) {
      memcpy(target, (const unsigned char *)source->values + (size_t)(begin + i) * width, width);
    } else {
      memset(target, 0, width);
    }
  }
}

static bool pack_lane(crn_linear_format format, int64_t k, int lane, const crn_linear_row *source, unsigned char *tile) {
  bool exact = true;
  for (int64_t b = 0; b < LINEAR_BLOCKS(k); b++, tile += g_block_bytes[format]) {
    if (is_4bit(format) || is_8bit(format)) {
      exact &= pack_quants(format, k, b * LINEAR_BLOCK, lane, source, tile);
    } else {
      pack_floats(format, k, b * LINEAR_BLOCK, lane, source, tile);
    }
  }
  return exact;
}

static size_t tile_bytes(crn_linear_format format, int64_t k) { return (size_t)LINEAR_BLOCKS(k) * g_block_bytes[format]; }

bool crn_linear_pack_row(crn_linear_format format, int64_t n, int64_t k, int64_t row, const crn_linear_row *source, void *packed) {
  unsigned char *tile = (unsigned char *)packed + (size_t)(row / LINEAR_LANES) * tile_bytes(format, k);
  int lane = (int)(row % LINEAR_LANES);
  bool exact = pack_lane(format, k, lane, source, tile);
  if (row == n - 1) {
    while (++lane < LINEAR_LANES) pack_lane(format, k, lane, NULL, tile);
  }
  return exact;
}

static float float_at(crn_linear_format format, const unsigned char *block, int64_t i, int lane) {
  if (format == CRN_LINEAR_F32) {
    float value;
    memcpy(&value, block + float_index(format, i, lane) * 4, 4);
    return value;
  }
  uint16_t half;
  memcpy(&half, block + float_index(format, i, lane) * 2, 2);
  return format == CRN_LINEAR_F16 ? crn_f16_to_f32(half) : crn_bf16_to_f32(half);
}

// n <= 32 weights of one lane in a group of a block.
static void unpack_group(const crn_linear_weights *w, const unsigned char *block, int64_t group, int lane, int64_t n, float *out) {
  if (!is_4bit(w->format) && !is_8bit(w->format)) {
    for (int64_t i = 0; i < n; i++) out[i] = float_at(w->format, block, group * CRN_LINEAR_GROUP + i, lane);
    return;
  }
  size_t offset = scales_offset(w->format);
  float scale = get_f16(block, offset, group, lane);
  float minimum = has_mins(w->format) ? get_f16(block, offset + LINEAR_MINS, group, lane) : 0;
  float zero = (float)(w->zero + (is_8bit(w->format) ? LINEAR_Q8_BIAS : 0)), shift = minimum - zero * scale;
  for (int64_t i = 0; i < n; i++) out[i] = (float)get_quant(block, w->format, group * CRN_LINEAR_GROUP + i, lane) * scale + shift;
}

void crn_linear_unpack_row(const crn_linear_weights *w, int64_t row, float *out) {
  if (crn_linear_code_bits(w->format)) {
    crn_linear_unpack_codes(w, row, out);
    return;
  }
  const unsigned char *tile = (const unsigned char *)w->data + (size_t)(row / LINEAR_LANES) * tile_bytes(w->format, w->k);
  for (int64_t i = 0; i < w->k; i += CRN_LINEAR_GROUP) {
    const unsigned char *block = tile + (size_t)(i / LINEAR_BLOCK) * g_block_bytes[w->format];
    int64_t left = w->k - i < CRN_LINEAR_GROUP ? w->k - i : CRN_LINEAR_GROUP;
    unpack_group(w, block, i / CRN_LINEAR_GROUP % GROUPS_OF_BLOCK, (int)(row % LINEAR_LANES), left, out + i);
  }
}
