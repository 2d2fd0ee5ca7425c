// Many rows of P formats as 16-bit integers (linear_int16__amx.c): entries become integers once a table, as two tables of bytes that stay
// in registers, and 64 codes at a time are looked up in both.
#include "backend/cpu/kernels/linear/linear_int16_amx.h"
#include "backend/cpu/kernels/linear/linear_palette_avx512.h"
#include "backend/cpu/kernels/linear/linear_palette_vbmi.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum {
  LANES = LINEAR_LANES,
  UNITS = LINEAR_INT16_UNITS,
  GROUP_UNITS = UNITS / 2,
  UNIT_INPUTS = LINEAR_BLOCK / UNITS,
  REGISTER = 64,                    ///< bytes
  PART = PALETTE_PARTS * REGISTER,  ///< entries that are looked up at a time
};

// --- tables ---------------------------------------------------------------------------------------------------------------

// The set of tables that serves a group, the last one all that follow.
P_INLINE int64_t set_of(const crn_linear_weights *w, int64_t group) {
  const int64_t set = group / LINEAR_P_REACH(&w->palette, w->k, LINEAR_BLOCKS(w->k));
  return set < w->palette.groups ? set : w->palette.groups - 1;
}

P_INLINE const float *entries_of(const linear_int16_weights *n, int64_t set, int bits) {
  return (const float *)(const void *)n->head + set * n->w->palette.tables * LINEAR_P_ENTRIES(bits);
}

// Whether weights are entries, but for a factor that scales take in: not when they are rounded behind the lookup.
P_INLINE bool has_bytes(const crn_linear_palette *p) { return !p->has_factors || p->rounding == CRN_LINEAR_TO_F32; }

// The largest entry of each output in all tables that the piece needs.
P_INLINE __m512 largest_entries(const linear_int16_weights *n, int bits) {
  const int tables = n->w->palette.tables, stored = LINEAR_P_ENTRIES(bits);
  float most[LINEAR_LANES] = {0};
  for (int64_t set = set_of(n->w, 2 * n->block), end = set_of(n->w, 2 * (n->block + n->n_blocks) - 1); set <= end; set++) {
    const float *entries = entries_of(n, set, bits);
    for (int table = 0; table < tables; table++, entries += stored) {
      __m512 v = _mm512_setzero_ps();
      for (int i = 0; i < stored; i += LANES) v = _mm512_max_ps(v, _mm512_abs_ps(_mm512_loadu_ps(entries + i)));
      const float top = _mm512_reduce_max_ps(v);
      for (int lane = table * LANES / tables; lane < (table + 1) * LANES / tables; lane++) most[lane] = most[lane] < top ? top : most[lane];
    }
  }
  return _mm512_loadu_ps(most);
}

P_INLINE void begin_tile(linear_int16_weights *n, int64_t tile, int bits) {
  const crn_linear_palette *p = &n->w->palette;
  n->head = (const unsigned char *)n->w->data + (n->tile + tile) * LINEAR_P_TILE(p, bits, LINEAR_BLOCKS(n->w->k));
  n->tables = -1;
  for (int i = 0; i < REGISTER; i++) n->lane_offsets[i] = (unsigned char)(i / 4 * p->tables / LANES * LINEAR_P_ENTRIES(bits) % PART);
  const __m512 most = largest_entries(n, bits);
  if (!p->has_factors) {
    linear_int16_scale(n, tile, most);
    return;
  }
  const __m512 factors = palette_begin(p, n->head, 0, bits, false).factors;
  linear_int16_scale(n, tile, has_bytes(p) ? most : palette_scaled(p, most, _mm512_abs_ps(factors)));
  float *scales = n->scales + tile * LANES;
  if (has_bytes(p)) _mm512_storeu_ps(scales, _mm512_mul_ps(_mm512_loadu_ps(scales), factors));
}

// Entries as integers. What is stored of them is 128 higher: so the byte above holds what is left when the low one is signed.
P_INLINE void begin_tables(linear_int16_weights *n, int64_t set, int bits) {
  const int tables = n->w->palette.tables, stored = LINEAR_P_ENTRIES(bits);
  const float *entries = entries_of(n, set, bits);
  float inverse[LINEAR_LANES];
  _mm512_storeu_ps(inverse, n->inverse);
  for (int i = 0; i < tables * stored; i += LANES) {
    const __m512 scale = _mm512_set1_ps(inverse[i / stored * LANES / tables]);
    const __m512i v = _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_loadu_ps(entries + i), scale, _mm512_set1_ps(128)));
    _mm_storeu_si128((__m128i *)(void *)(n->entries[0] + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(v, 8)));
    _mm_storeu_si128((__m128i *)(void *)(n->entries[1] + i), _mm512_cvtepi32_epi8(_mm512_xor_si512(v, _mm512_set1_epi32(128))));
  }
}

// --- codes ----------------------------------------------------------------------------------------------------------------

// Four inputs of 16 outputs, a byte each, from a plane of 1, 2 or 4 bits: codes from bit `to` on, and whatever lies around them. `first`:
// the first of the inputs, in the group.
P_INLINE __m512i spread(const unsigned char *plane, int first, int bits, int to) {
  const int per_vector = 32 / bits, at = first % per_vector / 2 * bits - to;
  // Bits at which the inputs of two lanes begin, which take turns in the halves of a lane.
  const int64_t lane = 16 << 8 | bits << 16 | (16 + bits) << 24, lanes = lane | (lane + 0x20202020) << 32;
  const __m512i places = _mm512_add_epi8(_mm512_set1_epi64(lanes), _mm512_set1_epi8((char)at));
  return _mm512_multishift_epi64_epi8(places, palette_load(plane + first / per_vector * REGISTER));
}

// The same of P8, whose vectors have halves of an input's lanes in turn.
P_INLINE __m512i gather_bytes(const unsigned char *group, int first) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
  const __m512i places = _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x28082000));
  return _mm512_permutexvar_epi8(places, palette_load(group + first * LANES));
}

// Where the entries of four inputs are.
P_INLINE __m512i indices(const linear_int16_weights *n, const unsigned char *group, int first, int bits) {
  if (bits == 8) return gather_bytes(group, first);
  __m512i codes;
  if (bits == 6) {
    const __m512i low = spread(group, first, 4, 0), high = spread(group + LINEAR_P_GROUP(4), first, 2, 4);
    codes = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, 0xca);  // 15 ? low : high
  } else {
    codes = spread(group, first, bits, 0);
  }
  const __m512i mask = _mm512_set1_epi8((char)(LINEAR_P_ENTRIES(bits) - 1));
  return _mm512_ternarylogic_epi32(mask, codes, _mm512_loadu_si512(n->lane_offsets), 0xca);
}

// In so many parts of a table, each with the entries of some lanes, the later lanes' after the earlier ones'; 0: a register is enough.
P_INLINE __m512i look_up(const unsigned char *entries, __m512i at, int parts) {
  if (parts == 0) return _mm512_permutexvar_epi8(at, _mm512_loadu_si512(entries));
  __m512i found = palette_pick(entries, at);
  for (int i = 1, lanes = REGISTER / parts; i < parts; i++)
    found = _mm512_mask_mov_epi8(found, ((1ull << lanes) - 1) << i * lanes, palette_pick(entries + i * PART, at));
  return found;
}

// --- units ----------------------------------------------------------------------------------------------------------------

P_INLINE void look_up_unit(const linear_int16_weights *n, const unsigned char *group, int first, unsigned char *out, int parts, int bits) {
#pragma GCC unroll 2
  for (int i = 0; i < UNIT_INPUTS; i += 4, out += REGISTER) {
    const __m512i at = indices(n, group, first + i, bits);
    _mm512_store_si512(out, look_up(n->entries[0], at, parts));
    _mm512_store_si512(out + LINEAR_INT16_PLANE, look_up(n->entries[1], at, parts));
  }
}

// Weights that are rounded behind the lookup.
P_INLINE void convert_unit(const linear_int16_weights *n, const unsigned char *group, int first, unsigned char *out, int bits) {
  const palette_tables tables = palette_begin(&n->w->palette, n->head, n->tables, bits, false);
  for (int i = 0; i < UNIT_INPUTS; i += 4, out += REGISTER) {
    __m512i v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      const __m512 weights = palette_weights(&n->w->palette, &tables, group, first + i + k, bits, false);
      v[k] = _mm512_cvtps_epi32(_mm512_fmadd_ps(weights, n->inverse, _mm512_set1_ps(128)));
    }
    linear_int16_store(out, v[0], v[1], v[2], v[3]);
  }
}

P_INLINE void begin_group(linear_int16_weights *n, int bits) {
  const int64_t i = n->done / UNITS, tile = i / n->n_blocks, b = i % n->n_blocks;
  if (b == 0 && n->done % UNITS == 0) begin_tile(n, tile, bits);
  const int64_t group = 2 * (n->block + b) + n->done % UNITS / GROUP_UNITS, set = set_of(n->w, group);
  n->packed = n->head + LINEAR_P_HEAD(&n->w->palette, bits) + group * LINEAR_P_GROUP(bits);
  if (set != n->tables && has_bytes(&n->w->palette)) begin_tables(n, set, bits);
  n->tables = set;
}

// 8 inputs of 16 outputs.
P_INLINE void make_unit(linear_int16_weights *n, int bits) {
  const crn_linear_palette *p = &n->w->palette;
  const int unit = (int)(n->done % UNITS), first = unit % GROUP_UNITS * UNIT_INPUTS;
  if (first == 0) begin_group(n, bits);
  unsigned char *out = n->out + n->done / UNITS * LINEAR_INT16_BLOCK + unit * UNIT_INPUTS * LANES;
  const int entries = p->tables * LINEAR_P_ENTRIES(bits);
  if (!has_bytes(p)) {
    convert_unit(n, n->packed, first, out, bits);
  } else if (entries <= REGISTER) {
    look_up_unit(n, n->packed, first, out, 0, bits);
  } else if (entries <= PART) {
    look_up_unit(n, n->packed, first, out, 1, bits);
  } else {
    look_up_unit(n, n->packed, first, out, entries / PART, bits);
  }
  n->done++;
}

LINEAR_INT16_KERNEL(p1, amxvbmi, 1)
LINEAR_INT16_KERNEL(p2, amxvbmi, 2)
LINEAR_INT16_KERNEL(p4, amxvbmi, 4)
LINEAR_INT16_KERNEL(p6, amxvbmi, 6)
LINEAR_INT16_KERNEL(p8, amxvbmi, 8)
