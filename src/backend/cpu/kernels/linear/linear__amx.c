// Many rows in the modes BF16 and INT8: weights are turned into bf16 tiles in scratch memory once, then all rows are multiplied
// with them, 32 rows times 32 outputs in tile registers and sums in f32 over all inputs.
//
// A call goes in stages: up to LINEAR_WIDE_TILES tiles of outputs over up to LINEAR_WIDE_BLOCKS blocks of inputs. 32 rows of a stage stay
// in the first-level cache while they are multiplied with pair after pair of tiles, which come from the second level; sums wait there
// between stages. All the rows, the tiles and the sums of a stage together fit into a second level of 2 MB. What the next stage needs is
// made ready meanwhile: its weights are widened between tile instructions, and its packed weights, rows and sums are asked for in time.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_amx.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_pairs_avx512bf16.h"
#include "backend/cpu/kernels/linear/linear_table.h"
#include "backend/cpu/kernels/narrow_avx512.h"

enum {
  LANES = LINEAR_LANES,
  STEP = 32,                                     ///< inputs a tile instruction multiplies
  TILE_BYTES = STEP * LANES * 2,                 ///< of such a piece of 16 outputs
  ROWS = 16,                                     ///< rows of a tile register
  ROW_LINE = CRN_LINEAR_ROW_LINE,                ///< bytes of such a piece of a row
  ROWS_BYTES = CRN_LINEAR_ROW_BLOCK * ROW_LINE,  ///< of a block of rows
  UNITS = 8,                                     ///< in which a block is widened
  UNIT_BYTES = 2 * TILE_BYTES / UNITS,
  FEW_ROWS = 64,  ///< that wait for weights from memory
};

// --- weights as bf16 ------------------------------------------------------------------------------------------------------

// The part of `x` under a mask is quant * 2^shift; the scale takes the power of two out again, exactly.
INLINE __m512 quants_at(__m512i x, int shift, int bits, __m512 scale, __m512 low) {
  __m512i masked = _mm512_and_si512(x, _mm512_set1_epi32((int)(((1u << bits) - 1) << shift)));
  __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(1.0f / (float)(1u << shift)));
  return _mm512_fmadd_ps(_mm512_cvtepu32_ps(masked), factor, low);
}

INLINE bool is_quant(crn_linear_format f) { return f <= CRN_LINEAR_Q8M; }

/// Scale and offset of a group of 32 inputs.
typedef struct group_scale {
  __m512 scale, low;
} group_scale;

INLINE group_scale scale_of(const unsigned char *block, int group, __m512 zero, crn_linear_format f) {
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + group * 32;
  group_scale s = {half16(scales), _mm512_setzero_ps()};
  if (f == CRN_LINEAR_Q4M || f == CRN_LINEAR_Q8M) s.low = half16(scales + LINEAR_MINS);
  s.low = _mm512_fnmadd_ps(zero, s.scale, s.low);
  return s;
}

// An eighth of a block: 8 inputs of 16 outputs.
INLINE void widen_unit(const unsigned char *block, int unit, group_scale s, unsigned char *out, crn_linear_format f) {
  if (is_4bit(f)) {
    __m512i x = _mm512_load_si512(block + 64 * unit);
    linear_store_pair(out, quants_at(x, 0, 4, s.scale, s.low), quants_at(x, 8, 4, s.scale, s.low));
    linear_store_pair(out + 64, quants_at(x, 16, 4, s.scale, s.low), quants_at(x, 24, 4, s.scale, s.low));
    linear_store_pair(out + 128, quants_at(x, 4, 4, s.scale, s.low), quants_at(x, 12, 4, s.scale, s.low));
    linear_store_pair(out + 192, quants_at(x, 20, 4, s.scale, s.low), quants_at(x, 28, 4, s.scale, s.low));
  } else if (is_quant(f)) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++, out += 128) {
      __m512i x = _mm512_load_si512(block + 128 * unit + 64 * j);
      linear_store_pair(out, quants_at(x, 0, 8, s.scale, s.low), quants_at(x, 8, 8, s.scale, s.low));
      linear_store_pair(out + 64, quants_at(x, 16, 8, s.scale, s.low), quants_at(x, 24, 8, s.scale, s.low));
    }
  } else if (f == CRN_LINEAR_F16) {
    const unsigned char *in = block + 256 * unit;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) linear_store_pair(out + 64 * i, half16(in + 64 * i), half16(in + 64 * i + 32));
  } else {
    const unsigned char *in = block + 512 * unit;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) linear_store_pair(out + 64 * i, _mm512_load_ps(in + 128 * i), _mm512_load_ps(in + 128 * i + 64));
  }
}

INLINE int block_bytes(crn_linear_format f) {
  if (is_quant(f)) return quant_block_bytes(f);
  return f == CRN_LINEAR_F32 ? LINEAR_F32_BLOCK : LINEAR_HALF_BLOCK;
}

INLINE __m512 zero_of(const crn_linear_weights *w, crn_linear_format f) {
  return _mm512_set1_ps((float)(is_4bit(f) ? w->zero : w->zero + LINEAR_Q8_BIAS));
}

// A block of a tile as [inputs / 2][16][2] bf16.
INLINE void widen_block(const unsigned char *block, __m512 zero, unsigned char *out, crn_linear_format f) {
#pragma GCC unroll 2
  for (int g = 0; g < 2; g++) {
    group_scale s = {zero, zero};
    if (is_quant(f)) s = scale_of(block, g, zero, f);
#pragma GCC unroll 4
    for (int j = 0; j < UNITS / 2; j++) widen_unit(block, g * UNITS / 2 + j, s, out + (g * UNITS / 2 + j) * UNIT_BYTES, f);
  }
}

// --- stages ---------------------------------------------------------------------------------------------------------------

/// A call: where its rows begin, and how its tiles and inputs are divided.
typedef struct call {
  const crn_linear_weights *w;
  const char *rows;
  int64_t row_stride;  ///< bytes of a block of rows
  int64_t first;       ///< row of its block the call begins with
  int64_t n_rows, tile_begin, n_tiles, blocks, tile_bytes;
  int64_t groups, pieces;  ///< of tiles and of inputs
  float *out;
  int64_t ld;
  unsigned char *scratch;
  const crn_linear_sink *sink;
  bool is_stream;  ///< the weights come from memory and serve few rows
} call;

typedef struct stage {
  int64_t tile, n_tiles, block, n_blocks;
  bool is_first, is_last;      ///< of the pieces: sums begin at 0; are complete
  const unsigned char *tiles;  ///< bf16, one tile after the other
  int64_t tile_stride;
  unsigned char *wide;  ///< the same where they have to be made
} stage;

INLINE int64_t stages_of(const call *c) { return c->groups * c->pieces; }

INLINE stage stage_at(const call *c, int64_t i, crn_linear_format f) {
  int64_t group = i / c->pieces, piece = i % c->pieces, tile = group_begin(c->n_tiles, c->groups, group),
          block = c->blocks * piece / c->pieces;
  stage s = {.tile = tile, .n_tiles = group_begin(c->n_tiles, c->groups, group + 1) - tile, .block = block};
  s.n_blocks = c->blocks * (piece + 1) / c->pieces - block;
  s.is_first = piece == 0;
  s.is_last = piece + 1 == c->pieces;
  if (f == CRN_LINEAR_BF16) {
    // bf16 weights are stored as tile registers want them.
    s.tiles = (const unsigned char *)c->w->data + (c->tile_begin + tile) * c->tile_bytes + block * LINEAR_HALF_BLOCK;
    s.tile_stride = c->tile_bytes;
  } else {
    // Two stages have a place: one is read while the other is made.
    s.tiles = s.wide = c->scratch + i % 2 * (LINEAR_WIDE_TILES * LINEAR_WIDE_BLOCKS * 2 * TILE_BYTES);
    s.tile_stride = s.n_blocks * 2 * TILE_BYTES;
  }
  return s;
}

/// Weights of the next stage on their way, block after block, tile after tile.
typedef struct widening {
  const call *call;
  stage to;
  int64_t done, n;  ///< blocks
  int64_t at_once;  ///< blocks that a pair of tiles takes along
  __m512 zero;
} widening;

INLINE const unsigned char *packed_block(const widening *n, int64_t i) {
  const call *c = n->call;
  return (const unsigned char *)c->w->data + (c->tile_begin + n->to.tile + i / n->to.n_blocks) * c->tile_bytes +
         (n->to.block + i % n->to.n_blocks) * (c->tile_bytes / c->blocks);
}

INLINE unsigned char *wide_block(const widening *n, int64_t i) { return n->to.wide + i * 2 * TILE_BYTES; }

// What is left of a stage's weights, before it begins.
INLINE void widen_rest(widening *n, crn_linear_format f) {
  if (f == CRN_LINEAR_BF16) return;
  for (; n->done < n->n; n->done++) widen_block(packed_block(n, n->done), n->zero, wide_block(n, n->done), f);
}

INLINE widening begin_widening(const call *c, int64_t i, crn_linear_format f) {
  widening n = {.call = c, .zero = zero_of(c->w, f)};
  if (i >= stages_of(c)) return n;
  n.to = stage_at(c, i, f);
  n.n = n.to.n_tiles * n.to.n_blocks;
  int64_t pairs = (n.to.n_tiles + 1) / 2, turns = (c->n_rows + CRN_LINEAR_ROW_BLOCK - 1) / CRN_LINEAR_ROW_BLOCK * pairs;
  if (!c->is_stream) n.at_once = (n.n + turns - 1) / turns;
  return n;
}

// --- products -------------------------------------------------------------------------------------------------------------

// Tile registers: 0..3 sums, 4 and 5 rows, 6 and 7 weights. The second 16 rows may be missing.
static void configure(int rows0, int rows1) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config __attribute__((aligned(64))) = {.palette = 1};
  const int rows[8] = {rows0, rows0, rows1, rows1, rows0, rows1, ROWS, ROWS};
  for (int i = 0; i < 8; i++) {
    config.row_bytes[i] = rows[i] ? 64 : 0;
    config.rows[i] = (uint8_t)rows[i];
  }
  FENCE();
  _tile_loadconfig(&config);
}

/// Up to 32 rows times a pair of tiles.
typedef struct pair {
  const char *rows, *next_rows;  ///< `next_rows`: what will be multiplied after these; this pair asks for its part of it
  int64_t next_lines;            ///< a step
  const unsigned char *w0, *w1;
  int64_t n_steps;
  float *out;
  int64_t ld;
  bool is_first, is_stream;
} pair;

INLINE void load_sums(const pair *p, bool two_rows, bool two_tiles) {
  if (p->is_first) {
    _tile_zero(0);
    if (two_tiles) _tile_zero(1);
    if (two_rows) _tile_zero(2);
    if (two_rows && two_tiles) _tile_zero(3);
    return;
  }
  _tile_loadd(0, p->out, p->ld * 4);
  if (two_tiles) _tile_loadd(1, p->out + LANES, p->ld * 4);
  if (two_rows) _tile_loadd(2, p->out + ROWS * p->ld, p->ld * 4);
  if (two_rows && two_tiles) _tile_loadd(3, p->out + ROWS * p->ld + LANES, p->ld * 4);
}

INLINE void store_sums(const pair *p, bool two_rows, bool two_tiles) {
  _tile_stored(0, p->out, p->ld * 4);
  if (two_tiles) _tile_stored(1, p->out + LANES, p->ld * 4);
  if (two_rows) _tile_stored(2, p->out + ROWS * p->ld, p->ld * 4);
  if (two_rows && two_tiles) _tile_stored(3, p->out + ROWS * p->ld + LANES, p->ld * 4);
}

// 32 inputs. Weights are loaded past the first-level cache, in which the rows stay for all pairs: the second level alone does not deliver
// both as fast as they are multiplied. What comes from memory needs the first level's prefetcher.
INLINE void step(const pair *p, int64_t i, bool two_rows, bool two_tiles) {
  if (p->is_stream) {
    _tile_loadd(6, p->w0 + i * TILE_BYTES, 64);
  } else {
    _tile_stream_loadd(6, p->w0 + i * TILE_BYTES, 64);
  }
  _tile_loadd(4, p->rows + i * ROWS_BYTES, ROW_LINE);
  _tile_dpbf16ps(0, 4, 6);
  if (two_rows) {
    _tile_loadd(5, p->rows + i * ROWS_BYTES + ROWS * ROW_LINE, ROW_LINE);
    _tile_dpbf16ps(2, 5, 6);
  }
  if (two_tiles) {
    if (p->is_stream) {
      _tile_loadd(7, p->w1 + i * TILE_BYTES, 64);
    } else {
      _tile_stream_loadd(7, p->w1 + i * TILE_BYTES, 64);
    }
    if (two_rows) _tile_dpbf16ps(3, 5, 7);
    _tile_dpbf16ps(1, 4, 7);
  }
}

// What is needed next: the sums of the next pair, and the next rows into the second level.
INLINE void ask_for_next(const pair *p, int64_t i) {
  if (!p->is_first && i < ROWS) {
    const float *sums = p->out + 2 * LANES + 2 * i * p->ld;
    _mm_prefetch((const char *)sums, _MM_HINT_T0);
    _mm_prefetch((const char *)(sums + LANES), _MM_HINT_T0);
    _mm_prefetch((const char *)(sums + p->ld), _MM_HINT_T0);
    _mm_prefetch((const char *)(sums + p->ld + LANES), _MM_HINT_T0);
  }
  const char *next = p->next_rows + i * p->next_lines * ROW_LINE;
  for (int64_t n = 0; n < p->next_lines; n++) _mm_prefetch(next + n * ROW_LINE, _MM_HINT_T1);
}

// Eight steps, between which a block of the next stage is widened; of weights that are bf16 it is only asked for.
INLINE void steps_and_block(const pair *p, int64_t i, widening *n, crn_linear_format f) {
  const unsigned char *block = packed_block(n, n->done),
                      *later = packed_block(n, n->done + (f == CRN_LINEAR_BF16 ? 0 : 2 * n->to.n_blocks));
  unsigned char *out = f == CRN_LINEAR_BF16 ? NULL : wide_block(n, n->done);
#pragma GCC unroll 2
  for (int g = 0; g < 2; g++) {
    group_scale s = {n->zero, n->zero};
    if (is_quant(f)) s = scale_of(block, g, n->zero, f);
#pragma GCC unroll 4
    for (int j = 0; j < UNITS / 2; j++, i++) {
      const int unit = g * UNITS / 2 + j, bytes = (block_bytes(f) + UNITS * 64 - 1) / (UNITS * 64) * 64;
      for (int line = 0; line < bytes; line += 64) _mm_prefetch((const char *)later + unit * bytes + line, _MM_HINT_T1);
      ask_for_next(p, i);
      step(p, i, true, true);
      if (f != CRN_LINEAR_BF16) widen_unit(block, unit, s, out + unit * UNIT_BYTES, f);
    }
  }
  n->done++;
}

INLINE void multiply(const pair *p, widening *n, bool two_rows, bool two_tiles, crn_linear_format f) {
  int64_t i = 0;
  load_sums(p, two_rows, two_tiles);
  if (two_rows && two_tiles) {
    for (int64_t k = 0; k < n->at_once && i + UNITS <= p->n_steps && n->done < n->n; k++, i += UNITS) steps_and_block(p, i, n, f);
  }
  for (; i < p->n_steps; i++) {
    ask_for_next(p, i);
    step(p, i, two_rows, two_tiles);
  }
  store_sums(p, two_rows, two_tiles);
}

// --- calls ----------------------------------------------------------------------------------------------------------------

INLINE const char *rows_of(const call *c, int64_t row, int64_t block) {
  return c->rows + (c->first + row) / CRN_LINEAR_ROW_BLOCK * c->row_stride + block * 2 * ROWS_BYTES;
}

INLINE void multiply_span(const call *c, const stage *s, const span *rows, const char *next, widening *n, float *out, bool two_rows,
                          crn_linear_format f) {
  int64_t pairs = (s->n_tiles + 1) / 2, t = 0;
  pair p = {.rows = rows_of(c, rows->row, s->block) + rows->at * ROW_LINE, .n_steps = 2 * s->n_blocks, .out = out, .ld = c->ld};
  p.is_first = s->is_first;
  p.is_stream = c->is_stream;
  p.next_rows = next;
  p.next_lines = next ? (CRN_LINEAR_ROW_BLOCK + pairs - 1) / pairs : 0;
  for (; t < s->n_tiles; t += 2, p.out += 2 * LANES, p.next_rows += p.n_steps * p.next_lines * ROW_LINE) {
    p.w0 = s->tiles + t * s->tile_stride;
    p.w1 = p.w0 + s->tile_stride;
    if (s->is_last && c->sink && c->sink->expect) {
      const int64_t begin = rows->n * (t / 2) / pairs, end = rows->n * (t / 2 + 1) / pairs;
      c->sink->expect(c->sink->user, rows->row + begin, end - begin, c->tile_begin + s->tile, s->n_tiles);
    }
    if (t + 1 < s->n_tiles) {
      multiply(&p, n, two_rows, true, f);
    } else {
      multiply(&p, n, two_rows, false, f);
    }
  }
}

INLINE void run_stage(const call *c, const stage *s, widening *n, crn_linear_format f) {
  // Sums that wait for nothing have one place for all rows.
  const bool is_compact = c->sink && c->pieces == 1;
  int64_t configured = -1;
  span rows;
  for (int64_t row = 0; row < c->n_rows; row += rows.n) {
    rows = span_at(c->first, c->n_rows, row);
    if (rows.n != configured) configure(rows.n < ROWS ? (int)rows.n : ROWS, rows.n < ROWS ? 0 : (int)rows.n - ROWS);
    configured = rows.n;
    float *out = c->out + (is_compact ? 0 : row * c->ld) + (c->sink ? 0 : s->tile * LANES);
    const char *next = row + rows.n < c->n_rows ? rows_of(c, row + rows.n, s->block) : n->n ? rows_of(c, 0, n->to.block) : NULL;
    if (c->n_rows <= CRN_LINEAR_ROW_BLOCK) next = NULL;
    if (rows.n > ROWS) {
      multiply_span(c, s, &rows, next, n, out, true, f);
    } else {
      multiply_span(c, s, &rows, next, n, out, false, f);
    }
    FENCE();
    if (c->sink && s->is_last) c->sink->take(c->sink->user, row, rows.n, c->tile_begin + s->tile, s->n_tiles, out, c->ld);
  }
}

INLINE void run(call *c, const char *rows, size_t row_bytes, crn_linear_format f) {
  // Blocks of rows have sizes and addresses that are multiples of what a step reads.
  c->first = (int64_t)((uintptr_t)rows % ROWS_BYTES / ROW_LINE);
  c->rows = rows - c->first * ROW_LINE;
  c->row_stride = (int64_t)row_bytes * CRN_LINEAR_ROW_BLOCK;
  c->blocks = LINEAR_BLOCKS(c->w->k);
  c->tile_bytes = c->blocks * block_bytes(f);
  c->is_stream = f == CRN_LINEAR_BF16 && c->n_rows <= FEW_ROWS;
  c->groups = (c->n_tiles + LINEAR_WIDE_TILES - 1) / LINEAR_WIDE_TILES;
  c->pieces = c->is_stream ? 1 : (c->blocks + LINEAR_WIDE_BLOCKS - 1) / LINEAR_WIDE_BLOCKS;
  widening next = begin_widening(c, 0, f);
  widen_rest(&next, f);
  for (int64_t i = 0, n = stages_of(c); i < n; i++) {
    const stage s = next.to;
    next = begin_widening(c, i + 1, f);
    FENCE();
    run_stage(c, &s, &next, f);
    if (i + 1 < n) widen_rest(&next, f);
  }
  _tile_release();
}

#define KERNEL(rhs, f)                                                                                                                    \
  void crn_linear_parts_##rhs##__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, \
                                     int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink) {             \
    call c = {.w = w, .n_rows = n_rows, .tile_begin = tile_begin, .n_tiles = tile_end - tile_begin};                                      \
    c.out = sums;                                                                                                                         \
    c.ld = ld;                                                                                                                            \
    c.scratch = scratch;                                                                                                                  \
    c.sink = sink;                                                                                                                        \
    run(&c, rows, row_bytes, f);                                                                                                          \
  }                                                                                                                                       \
  void crn_linear_bf16_##rhs##_f32_32x32__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,            \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {              \
    crn_linear_parts_##rhs##__amx(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, NULL);                              \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
KERNEL(f16, CRN_LINEAR_F16)
KERNEL(bf16, CRN_LINEAR_BF16)
KERNEL(f32, CRN_LINEAR_F32)

// Rows in blocks, in each of which what a step takes lies together.
void crn_linear_prepare_bf16__amx(const float *x, int64_t k, void *out_row) {
  char *out = out_row;
  for (int64_t i = 0; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i += STEP, out += ROWS_BYTES) {
    for (int64_t j = 0; j < STEP; j += LANES) {
      const int64_t left = k - i - j;
      const __mmask16 mask = left >= LANES ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
      _mm256_store_si256((__m256i *)(void *)(out + j * 2), crn_narrow_bf16(_mm512_maskz_loadu_ps(mask, x + i + j)));
    }
  }
}
