// Packing and unpacking of the P formats. Plain code: it runs once per load, or for single rows.
#include <string.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "base/checked.h"
#include "tensor/half.h"

enum { GROUP = CRN_LINEAR_GROUP, LANES = LINEAR_LANES };

int crn_linear_code_bits(crn_linear_format format) {
  static const int bits[] = {1, 2, 4, 6, 8};
  return format >= CRN_LINEAR_P1 && format <= CRN_LINEAR_P8 ? bits[format - CRN_LINEAR_P1] : 0;
}

bool crn_linear_weights_bytes(const crn_linear_weights *w, size_t *out_bytes) {
  const crn_linear_palette *p = &w->palette;
  int bits = crn_linear_code_bits(w->format);
  size_t codes, head;
  if (!bits) return crn_linear_packed_bytes(w->format, w->n, w->k, out_bytes);
  if (w->n < 0 || w->k < 0 || w->k > INT64_MAX - LINEAR_BLOCK || p->tables < 1 || p->tables > LANES || LANES % p->tables || p->groups < 1)
    return false;
  if (p->groups > 1 && (w->k % p->groups || w->k / p->groups % GROUP)) return false;
  return crn_mul_size((size_t)LINEAR_BLOCKS(w->k), 2 * (size_t)LINEAR_P_GROUP(bits), &codes) &&
         crn_mul_size((size_t)p->groups, (size_t)p->tables * (size_t)LINEAR_P_ENTRIES(bits) * 4, &head) &&
         crn_add_size(head, p->has_factors ? 4 * LANES : 0, &head) && crn_add_size(codes, head, &codes) &&
         crn_mul_size(codes, (size_t)crn_linear_tiles(w->n), out_bytes);
}

// --- codes ----------------------------------------------------------------------------------------------------------------

// Where the code of input `i` of a group lies in a plane of 1, 2 or 4 bits.
typedef struct place {
  int byte, shift;
} place;

static place place_of(int i, int lane, int bits) {
  int per_vector = 32 / bits, in = i % per_vector, bit = 16 * (in % 2) + bits * (in / 2);
  return (place){i / per_vector * 64 + lane * 4 + bit / 8, bit % 8};
}

static void put_bits(unsigned char *plane, int i, int lane, int bits, unsigned code) {
  place at = place_of(i, lane, bits);
  unsigned mask = ((1u << bits) - 1) << at.shift;
  plane[at.byte] = (unsigned char)((plane[at.byte] & ~mask) | (code << at.shift & mask));
}

static unsigned get_bits(const unsigned char *plane, int i, int lane, int bits) {
  place at = place_of(i, lane, bits);
  return (unsigned)plane[at.byte] >> at.shift & ((1u << bits) - 1);
}

// P8 groups have two half rows of each input, where unpacking bytes of a vector brings them together.
static int byte_of(int i, int lane) { return i / 4 * 64 + (i % 2 * 2 + lane / 8) * 16 + i % 4 / 2 * 8 + lane % 8; }

static void put_code(unsigned char *group, int bits, int i, int lane, unsigned code) {
  if (bits == 8) {
    group[byte_of(i, lane)] = (unsigned char)code;
  } else if (bits == 6) {
    put_bits(group, i, lane, 4, code & 15);
    put_bits(group + LINEAR_P_GROUP(4), i, lane, 2, code >> 4);
  } else {
    put_bits(group, i, lane, bits, code);
  }
}

static unsigned get_code(const unsigned char *group, int bits, int i, int lane) {
  if (bits == 8) return group[byte_of(i, lane)];
  if (bits == 6) return get_bits(group, i, lane, 4) | get_bits(group + LINEAR_P_GROUP(4), i, lane, 2) << 4;
  return get_bits(group, i, lane, bits);
}

static void pack_lane(const crn_linear_weights *w, int lane, const uint8_t *codes, unsigned char *blocks) {
  int bits = crn_linear_code_bits(w->format);
  for (int64_t k = 0; k < LINEAR_BLOCKS(w->k) * LINEAR_BLOCK; k++) {
    unsigned char *group = blocks + k / GROUP * LINEAR_P_GROUP(bits);
    put_code(group, bits, (int)(k % GROUP), lane, codes && k < w->k ? codes[k] : 0);
  }
}

// --- rows -----------------------------------------------------------------------------------------------------------------

void crn_linear_pack_codes(const crn_linear_weights *w, int64_t row, const uint8_t *codes, const float *tables, float factor,
                           void *packed) {
  const crn_linear_palette *p = &w->palette;
  int bits = crn_linear_code_bits(w->format), stored = LINEAR_P_ENTRIES(bits), lane = (int)(row % LANES);
  int64_t head = LINEAR_P_HEAD(p, bits);
  unsigned char *tile = (unsigned char *)packed + row / LANES * LINEAR_P_TILE(p, bits, LINEAR_BLOCKS(w->k));
  float *entries = (float *)(void *)tile, *factors = (float *)(void *)(tile + head - 4 * LANES);
  int table = lane / (LANES / p->tables);
  for (int g = 0; g < p->groups; g++) {
    float *to = entries + ((int64_t)g * p->tables + table) * stored;
    for (int i = 0; i < stored; i++) to[i] = tables[(g << bits) + (i & ((1 << bits) - 1))];
  }
  if (p->has_factors) factors[lane] = factor;
  pack_lane(w, lane, codes, tile + head);
  if (row != w->n - 1) return;
  // Missing outputs have codes and tables that can be looked up.
  for (int other = lane + 1; other < LANES; other++) {
    pack_lane(w, other, NULL, tile + head);
    if (p->has_factors) factors[other] = 0;
    int more = other / (LANES / p->tables);
    for (int g = 0; g < p->groups && more != table; g++) memset(entries + ((int64_t)g * p->tables + more) * stored, 0, (size_t)stored * 4);
  }
}

void crn_linear_unpack_codes(const crn_linear_weights *w, int64_t row, float *out) {
  const crn_linear_palette *p = &w->palette;
  int bits = crn_linear_code_bits(w->format), stored = LINEAR_P_ENTRIES(bits), lane = (int)(row % LANES);
  int64_t blocks = LINEAR_BLOCKS(w->k), head = LINEAR_P_HEAD(p, bits), reach = LINEAR_P_REACH(p, w->k, blocks);
  const unsigned char *tile = (const unsigned char *)w->data + row / LANES * LINEAR_P_TILE(p, bits, blocks);
  const float *entries = (const float *)(const void *)tile;
  float factor = p->has_factors ? ((const float *)(const void *)(tile + head))[lane - LANES] : 1;
  for (int64_t k = 0; k < w->k; k++) {
    int64_t group = k / GROUP, table = group / reach * p->tables + lane / (LANES / p->tables);
    float v = entries[table * stored + get_code(tile + head + group * LINEAR_P_GROUP(bits), bits, (int)(k % GROUP), lane)];
    if (p->has_factors) {
      v *= factor;
      if (p->rounding == CRN_LINEAR_TO_F16) v = crn_f16_to_f32(crn_f16_from_f32(v));
      if (p->rounding == CRN_LINEAR_TO_BF16) v = crn_bf16_to_f32(crn_bf16_from_f32(v));
    }
    out[k] = v;
  }
}
