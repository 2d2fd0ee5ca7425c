// Tile registers, played in memory: what AMX instructions do to them, for kernels that are compiled with this file in front of them. A
// number that no instruction would take, or shapes that do not fit, trap as the instruction would.
#ifndef CAIRN_TESTS_TILES_H
#define CAIRN_TESTS_TILES_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PLAYED_TILES = 8, PLAYED_ROWS = 16, PLAYED_BYTES = 64 };

typedef struct played_tiles {
  bool is_configured;
  int rows[PLAYED_TILES], bytes[PLAYED_TILES];
  unsigned char data[PLAYED_TILES][PLAYED_ROWS][PLAYED_BYTES];
} played_tiles;

static __thread played_tiles g_tiles;

static inline void played_need(bool condition) {
  if (!condition) __builtin_trap();
}

static inline void played_configure(const void *config) {
  const uint8_t *c = config;
  played_need(c[0] == 1);
  memset(&g_tiles, 0, sizeof g_tiles);
  for (int i = 0; i < PLAYED_TILES; i++) {
    uint16_t bytes;
    memcpy(&bytes, c + 16 + 2 * i, sizeof bytes);
    g_tiles.bytes[i] = bytes;
    g_tiles.rows[i] = c[48 + i];
    played_need(bytes <= PLAYED_BYTES && g_tiles.rows[i] <= PLAYED_ROWS);
  }
  g_tiles.is_configured = true;
}

static inline void played_zero(int tile) {
  played_need(g_tiles.is_configured);
  memset(g_tiles.data[tile], 0, sizeof g_tiles.data[tile]);
}

static inline void played_load(int tile, const void *from, int64_t stride) {
  played_zero(tile);
  for (int r = 0; r < g_tiles.rows[tile]; r++) memcpy(g_tiles.data[tile][r], (const char *)from + r * stride, (size_t)g_tiles.bytes[tile]);
}

static inline void played_store(int tile, void *to, int64_t stride) {
  played_need(g_tiles.is_configured);
  for (int r = 0; r < g_tiles.rows[tile]; r++) memcpy((char *)to + r * stride, g_tiles.data[tile][r], (size_t)g_tiles.bytes[tile]);
}

static inline void played_need_shapes(int c, int a, int b) {
  played_need(g_tiles.is_configured && c != a && c != b && a != b);
  played_need(g_tiles.rows[c] == g_tiles.rows[a] && g_tiles.bytes[a] / 4 == g_tiles.rows[b] && g_tiles.bytes[c] == g_tiles.bytes[b]);
}

static inline __mmask16 played_lanes(int tile) { return (__mmask16)((1u << g_tiles.bytes[tile] / 4) - 1); }

// Byte k % 4 of each lane as an integer.
static inline __m512i played_right_bytes(__m512i lanes, int k, bool is_signed) {
  const __m512i high = _mm512_sll_epi32(lanes, _mm_cvtsi32_si128(24 - 8 * (k % 4)));
  return is_signed ? _mm512_srai_epi32(high, 24) : _mm512_srli_epi32(high, 24);
}

static inline void played_bytes(int c, int a, int b, bool a_signed, bool b_signed) {
  played_need_shapes(c, a, b);
  for (int m = 0; m < g_tiles.rows[c]; m++) {
    __m512i sums = _mm512_loadu_si512(g_tiles.data[c][m]);
    for (int k = 0; k < g_tiles.bytes[a]; k++) {
      const unsigned char left = g_tiles.data[a][m][k];
      const __m512i right = played_right_bytes(_mm512_loadu_si512(g_tiles.data[b][k / 4]), k, b_signed);
      sums = _mm512_add_epi32(sums, _mm512_mullo_epi32(right, _mm512_set1_epi32(a_signed ? (int8_t)left : left)));
    }
    _mm512_mask_storeu_epi32(g_tiles.data[c][m], played_lanes(c), sums);
  }
}

// Number k % 2 of each lane.
static inline __m512 played_right_bf16(__m512i lanes, int k) {
  return _mm512_castsi512_ps(k % 2 ? _mm512_and_si512(lanes, _mm512_set1_epi32((int)0xffff0000)) : _mm512_slli_epi32(lanes, 16));
}

static inline void played_pairs(int c, int a, int b) {
  played_need_shapes(c, a, b);
  for (int m = 0; m < g_tiles.rows[c]; m++) {
    __m512 sums = _mm512_loadu_ps(g_tiles.data[c][m]);
    for (int k = 0; k < g_tiles.bytes[a] / 2; k++) {
      uint16_t half;
      memcpy(&half, &g_tiles.data[a][m][2 * k], sizeof half);
      const __m512 left = _mm512_castsi512_ps(_mm512_set1_epi32((int)((uint32_t)half << 16)));
      sums = _mm512_add_ps(sums, _mm512_mul_ps(left, played_right_bf16(_mm512_loadu_si512(g_tiles.data[b][k / 2]), k)));
    }
    _mm512_mask_storeu_ps(g_tiles.data[c][m], played_lanes(c), sums);
  }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) played_configure(config)
#define _tile_release() ((void)(g_tiles.is_configured = false))
#define _tile_zero(tile) played_zero(tile)
#define _tile_loadd(tile, from, stride) played_load(tile, from, (int64_t)(stride))
#define _tile_stream_loadd(tile, from, stride) played_load(tile, from, (int64_t)(stride))
#define _tile_stored(tile, to, stride) played_store(tile, to, (int64_t)(stride))
#define _tile_dpbssd(c, a, b) played_bytes(c, a, b, true, true)
#define _tile_dpbsud(c, a, b) played_bytes(c, a, b, true, false)
#define _tile_dpbf16ps(c, a, b) played_pairs(c, a, b)

#endif
