#include "import/gguf/unpack.h"

#include <string.h>

#include "import/gguf/private.h"
#include "tensor/half.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

static float load_f16(const unsigned char *p) { return crn_f16_to_f32((uint16_t)crn_gguf_load(p, 2)); }

static void unpack_q8_0(const unsigned char *block, unsigned char *elements, float *scale, float *shift) {
  (void)shift;
  *scale = load_f16(block);
  memcpy(elements, block + 2, BLOCK);
}

// The file keeps elements 0..15 in the low and 16..31 in the high halves of its bytes; a packed stream keeps neighbours
// in one byte. `flip` turns an element that counts from -8 into its two's complement.
static void regroup_nibbles(const unsigned char *source, unsigned char flip, unsigned char *elements) {
  for (int i = 0; i < HALF / 2; i++) {
    unsigned a = source[2 * i], b = source[2 * i + 1];
    elements[i] = (unsigned char)(((a & 0x0f) | (b & 0x0f) << 4) ^ flip);
    elements[i + HALF / 2] = (unsigned char)((a >> 4 | (b & 0xf0)) ^ flip);
  }
}

static void unpack_q4_0(const unsigned char *block, unsigned char *elements, float *scale, float *shift) {
  (void)shift;
  *scale = load_f16(block);
  regroup_nibbles(block + 2, 0x88, elements);
}

static void unpack_q4_1(const unsigned char *block, unsigned char *elements, float *scale, float *shift) {
  *scale = load_f16(block);
  *shift = load_f16(block + 2);
  regroup_nibbles(block + 4, 0, elements);
}

static const crn_gguf_unpacking rows[] = {
    {CRN_GGUF_Q8_0, CAIRN_SI8, false, unpack_q8_0},
    {CRN_GGUF_Q4_0, CAIRN_SI4, false, unpack_q4_0},
    {CRN_GGUF_Q4_1, CAIRN_UI4, true, unpack_q4_1},
};

const crn_gguf_unpacking *crn_gguf_unpacking_of(uint32_t type) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].type == type) return &rows[i];
  }
  return NULL;
}
