// Attention for many rows in f32, of the modes that round: what bf16 would make no faster without tiles. Sums need not be those of exact
// attention, so that keys lie as features × 16 positions and nothing is added up across lanes.
#include "backend/cpu/kernels/attention/packed_avx512.h"

enum { BLOCK = CRN_PACKED_BLOCK, LANES = 16, ITEMS = 16 };

static void nothing(void) {}

// Features × 16 items.
static void pack_query(const float *q, int64_t d, float scale, void *packed, int64_t item) {
  const int64_t padded = (d + 31) / 32 * 32;
  float *out = (float *)packed + item / ITEMS * ITEMS * padded + item % ITEMS;
  for (int64_t i = 0; i < d; i++) out[i * ITEMS] = q[i] * scale;
}

// For each 16 positions: features × positions.
INLINE void pack_keys(const void *const *rows, int n, int64_t d, float *out, int type) {
  const int64_t padded = (d + 31) / 32 * 32;
  for (int c = 0; c < n; c += LANES) {
    for (int64_t i = 0; i < padded; i += LANES, out += LANES * LANES) {
      __m512i r[16];
#pragma GCC unroll 16
      for (int j = 0; j < 16; j++) r[j] = _mm512_castps_si512(load_some(rows[c + j], i, some16(d - i), type));
      transpose16(r);
#pragma GCC unroll 16
      for (int j = 0; j < 16; j++) _mm512_storeu_si512(out + LANES * j, r[j]);
    }
  }
}

// For each 16 features: 128 positions × features.
INLINE void pack_values(const void *const *rows, int n, int64_t d, float *out, uint64_t *strange, int type) {
  const int64_t padded = (d + 31) / 32 * 32;
  strange[0] = strange[1] = 0;
  for (int c = 0; c < n; c++) {
    __mmask16 any = 0;
    for (int64_t i = 0; i < padded; i += LANES) {
      const __m512 v = load_some(rows[c], i, some16(d - i), type);
      // Not a number, or infinite, of both signs.
      const __mmask16 odd = _mm512_fpclass_ps_mask(v, 0x01 | 0x08 | 0x10 | 0x80);
      any |= odd;
      _mm512_storeu_ps(out + i * BLOCK + c * LANES, _mm512_maskz_mov_ps((__mmask16)~odd, v));
    }
    strange[c / 64] |= (uint64_t)(any != 0) << c % 64;
  }
}

#define DEFINE(name, type)                                                                                                 \
  static void pack_keys_##name(const void *const *rows, int n, int64_t d, void *out) { pack_keys(rows, n, d, out, type); } \
  static void pack_values_##name(const void *const *rows, int n, int64_t d, void *out, uint64_t *strange) {                \
    pack_values(rows, n, d, out, strange, type);                                                                           \
  }
DEFINE(f32, CRN_CACHE_F32)
DEFINE(f16, CRN_CACHE_F16)
DEFINE(bf16, CRN_CACHE_BF16)

// sums[t] += left[t * item + i * step] * right[i] for n vectors `right`. Numbers of the left side are operands in memory, for all lanes.
INLINE void multiply(__m512 *sums, const float *left, int item, int step, const float *right, int64_t n) {
  for (int64_t i = 0; i < n; i++, left += step) {
    const __m512 r = _mm512_loadu_ps(right + LANES * i);
#pragma GCC unroll 16
    for (int t = 0; t < ITEMS; t++) sums[t] = _mm512_fmadd_ps(r, _mm512_set1_ps(left[t * item]), sums[t]);
  }
}

static void score(const void *queries, int64_t d, const void *keys, int key_terms, int from, int to, float *scores) {
  (void)key_terms;
  for (int c = from; c < to; c += LANES) {
    for (int item = 0; item < CRN_PACKED_ITEMS; item += ITEMS) {
      __m512 sums[ITEMS];
#pragma GCC unroll 16
      for (int t = 0; t < ITEMS; t++) sums[t] = _mm512_setzero_ps();
      multiply(sums, (const float *)queries + item * d, 1, ITEMS, (const float *)keys + c * d, d);
#pragma GCC unroll 16
      for (int t = 0; t < ITEMS; t++) _mm512_storeu_ps(scores + (item + t) * BLOCK + c, sums[t]);
    }
  }
}

static void add(const void *weights, const void *values, int from, int to, int64_t d, float *out) {
  for (int64_t i = 0; i < d; i += LANES) {
    for (int item = 0; item < CRN_PACKED_ITEMS; item += ITEMS) {
      __m512 sums[ITEMS];
      float *at = out + item * d + i;
#pragma GCC unroll 16
      for (int t = 0; t < ITEMS; t++) sums[t] = _mm512_loadu_ps(at + t * d);
      multiply(sums, (const float *)weights + item * BLOCK + from, BLOCK, 1, (const float *)values + i * BLOCK + from * LANES, to - from);
#pragma GCC unroll 16
      for (int t = 0; t < ITEMS; t++) _mm512_storeu_ps(at + t * d, sums[t]);
    }
  }
}

INLINE void put(void *weights, int c, __m512 low, __m512 high) {
  _mm512_storeu_ps((float *)weights + c, low);
  _mm512_storeu_ps((float *)weights + c + LANES, high);
}

static void soften(float *scores, void *weights, const uint64_t *live, int n, int from, int to, crn_packed_state *states, float *sums,
                   int64_t ld_sums) {
  packed_soften(scores, weights, BLOCK * sizeof(float), live, n, from, to, states, sums, ld_sums, false, put);
}

void crn_packed_add_mask(float *scores, const float *mask, int from, int to) {
  for (int c = from; c < to; c += 16) {
    __m512 sum = _mm512_fmadd_ps(_mm512_loadu_ps(mask + c), _mm512_set1_ps(CRN_PACKED_LOG2E), _mm512_loadu_ps(scores + c));
    _mm512_storeu_ps(scores + c, sum);
  }
}

static void finish(const crn_packed_state *state, const float *sums, const float *sink, int64_t d, float *out) {
  packed_finish(state, sums, sink, d, out, false);
}

const crn_packed_parts crn_packed_parts__avx512 = {
    .exact = &crn_attention_parts__avx512,
    .bytes = 4,
    .query_terms = 1,
    .key_terms = {1, 1, 1},
    .begin = nothing,
    .end = nothing,
    .pack_query = pack_query,
    .pack_keys = {pack_keys_f32, pack_keys_f16, pack_keys_bf16},
    .pack_values = {pack_values_f32, pack_values_f16, pack_values_bf16},
    .score = score,
    .add_mask = crn_packed_add_mask,
    .soften = soften,
    .add = add,
    .finish = finish,
};
