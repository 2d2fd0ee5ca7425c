#include "tensor/blocks.h"

#include <stddef.h>
#include <string.h>

#include "tensor/half.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

static float load_f16(const unsigned char *p) { return crn_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

static void unpack_q8_0(const unsigned char *block, uint8_t *codes, float *scale, float *shift) {
  *scale = load_f16(block);
  *shift = 0;
  memcpy(codes, block + 2, BLOCK);
}

// Elements 0..15 lie in the low and 16..31 in the high halves of the bytes.
static void unpack_nibbles(const unsigned char *bytes, uint8_t *codes) {
  for (int i = 0; i < HALF; i++) {
    codes[i] = bytes[i] & 15;
    codes[i + HALF] = bytes[i] >> 4;
  }
}

static void unpack_q4_0(const unsigned char *block, uint8_t *codes, float *scale, float *shift) {
  *scale = load_f16(block);
  *shift = 0;
  unpack_nibbles(block + 2, codes);
}

static void unpack_q4_1(const unsigned char *block, uint8_t *codes, float *scale, float *shift) {
  *scale = load_f16(block);
  *shift = load_f16(block + 2);
  unpack_nibbles(block + 4, codes);
}

static const crn_block_format formats[CRN_BLOCK_KINDS] = {
    [CRN_BLOCKS_Q8_0] = {"Q8_0", 8, 0, false, BLOCK, 34, unpack_q8_0},
    [CRN_BLOCKS_Q4_0] = {"Q4_0", 4, 8, false, BLOCK, 18, unpack_q4_0},
    [CRN_BLOCKS_Q4_1] = {"Q4_1", 4, 0, true, BLOCK, 20, unpack_q4_1},
};

const crn_block_format *crn_block_format_of(int kind) { return (unsigned)kind < CRN_BLOCK_KINDS ? &formats[kind] : NULL; }
