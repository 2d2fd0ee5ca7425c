// Products of the bf16 mode on AMX tiles; everything else is in attention__avx512bf16.c.
#include <immintrin.h>

#include "backend/cpu/kernels/attention/packed.h"

enum { BLOCK = CRN_PACKED_BLOCK, TILE = 512 };  // elements of a packed tile

// Eight whole tiles: 0 to 3 sums, 4 and 5 left, 6 and 7 right sides. Constant and in memory, for the compiler does not see that the
// instruction reads all of it.
static const struct tile_config {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} g_config
    __attribute__((aligned(64))) = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void begin(void) { _tile_loadconfig(&g_config); }

static void end(void) { _tile_release(); }

// Asks for n lines, `bytes` apart, to be in the first cache: tile loads do not run ahead of the products far enough to hide the second.
static inline __attribute__((always_inline)) void ask(const void *p, int64_t bytes, int n) {
#pragma GCC unroll 32
  for (int i = 0; i < n; i++) _mm_prefetch((const char *)p + i * bytes, _MM_HINT_T0);
}

// The products of terms that count: with the first term of the keys both of the queries, and with the second one the first.
static void score(const void *queries, int64_t d, const void *packed, int key_terms, int from, int to, float *scores) {
  const uint16_t *q = queries, *keys = packed;
  size_t q_bytes = (size_t)d * 2 * 2;
  for (int c = from; c < to; c += 32) {
    const uint16_t *left = keys + c * d * key_terms, *right = left + 16 * d * key_terms;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < d; i += 32, left += key_terms * TILE, right += key_terms * TILE) {
      const uint16_t *items = q + i, *more = items + 32 * d;
      ask(left + 2 * key_terms * TILE, 64, 16 * key_terms);
      _tile_loadd(4, items + d, q_bytes);
      _tile_loadd(6, left, 64);
      _tile_dpbf16ps(0, 4, 6);
      ask(right + 2 * key_terms * TILE, 64, 16 * key_terms);
      _tile_loadd(7, right, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, more + d, q_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      _tile_loadd(4, items, q_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, more, q_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      if (key_terms == 1) continue;
      _tile_loadd(6, left + TILE, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(2, 5, 6);
      _tile_loadd(7, right + TILE, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, scores + c, BLOCK * 4);
    _tile_stored(1, scores + c + 16, BLOCK * 4);
    _tile_stored(2, scores + 16 * BLOCK + c, BLOCK * 4);
    _tile_stored(3, scores + 16 * BLOCK + c + 16, BLOCK * 4);
  }
}

static void add(const void *packed_weights, const void *packed_values, int from, int to, int64_t d, float *sums) {
  const uint16_t *weights = packed_weights, *values = packed_values;
  size_t sum_bytes = (size_t)d * 4;
  for (int64_t i = 0; i < d; i += 32) {
    float *top = sums + i, *bottom = sums + 16 * d + i;
    _tile_loadd(0, top, sum_bytes);
    _tile_loadd(1, top + 16, sum_bytes);
    _tile_loadd(2, bottom, sum_bytes);
    _tile_loadd(3, bottom + 16, sum_bytes);
    ask(top + 32, (int64_t)sum_bytes, 32);
    ask(top + 48, (int64_t)sum_bytes, 32);
    for (int c = from; c < to; c += 32) {
      const uint16_t *tiles = values + i * BLOCK + c / 32 * 2 * TILE;
      ask(tiles + 4 * TILE, 64, 32);
      _tile_loadd(4, weights + c, BLOCK * 2);
      _tile_loadd(6, tiles, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, tiles + TILE, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, weights + 16 * BLOCK + c, BLOCK * 2);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, top, sum_bytes);
    _tile_stored(1, top + 16, sum_bytes);
    _tile_stored(2, bottom, sum_bytes);
    _tile_stored(3, bottom + 16, sum_bytes);
  }
}

const crn_packed_parts crn_packed_parts__amx = {
    .exact = &crn_attention_parts__avx512,
    .bytes = 2,
    .query_terms = 2,
    .key_terms = {2, 2, 1},
    .begin = begin,
    .end = end,
    .pack_query = crn_bf16_pack_query,
    .pack_keys = {crn_bf16_pack_keys_f32, crn_bf16_pack_keys_f16, crn_bf16_pack_keys_bf16},
    .pack_values = {crn_bf16_pack_values_f32, crn_bf16_pack_values_f16, crn_bf16_pack_values_bf16},
    .score = score,
    .add_mask = crn_packed_add_mask,
    .soften = crn_bf16_soften,
    .add = add,
    .finish = crn_bf16_finish,
};
