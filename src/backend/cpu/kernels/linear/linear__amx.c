// Many rows of 16-bit and f32 weights in the modes BF16 and INT8: weights that are not bf16 are turned into bf16 tiles in scratch memory
// once, then all rows are multiplied with them, 32 rows times 32 outputs in tile registers and sums in f32 over all inputs.
//
// A call goes in stages (linear_stages.h). Between tile instructions the weights of the next stage are widened, and its packed weights,
// rows and sums are asked for in time.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_amx.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_pairs_avx512bf16.h"
#include "backend/cpu/kernels/linear/linear_stages.h"
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

// An eighth of a block: 8 inputs of 16 outputs.
INLINE void widen_unit(const unsigned char *block, int unit, unsigned char *out, crn_linear_format f) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, out += 64) {
    if (f == CRN_LINEAR_F16) {
      const unsigned char *in = block + 256 * unit + 64 * i;
      linear_store_pair(out, half16(in), half16(in + 32));
    } else {
      const unsigned char *in = block + 512 * unit + 128 * i;
      linear_store_pair(out, _mm512_load_ps(in), _mm512_load_ps(in + 64));
    }
  }
}

// --- stages ---------------------------------------------------------------------------------------------------------------

/// The call's memory, and weights of the next stage on their way, block after block, tile after tile.
typedef struct widening {
  const call *call;
  unsigned char *scratch;
  bool is_stream;  ///< the weights come from memory and serve few rows
  stage to;
  int64_t done, n;  ///< blocks
  int64_t at_once;  ///< blocks that a pair of tiles takes along
} widening;

INLINE const unsigned char *packed_at(const call *c, int64_t tile, int64_t block, crn_linear_format f) {
  return (const unsigned char *)c->w->data + ((c->tile_begin + tile) * c->blocks + block) * block_bytes(f);
}

INLINE const unsigned char *packed_block(const widening *n, int64_t i, crn_linear_format f) {
  return packed_at(n->call, n->to.tile + i / n->to.n_blocks, n->to.block + i % n->to.n_blocks, f);
}

INLINE unsigned char *wide_of(const widening *n, const stage *s) {
  return n->scratch + s->place * (LINEAR_WIDE_TILES * LINEAR_WIDE_BLOCKS * 2 * TILE_BYTES);
}

// A tile of a stage as tile registers want it, which bf16 weights are as they are stored.
INLINE const unsigned char *tile_of(const widening *n, const stage *s, int64_t t, crn_linear_format f) {
  return f == CRN_LINEAR_BF16 ? packed_at(n->call, s->tile + t, s->block, f) : wide_of(n, s) + t * s->n_blocks * 2 * TILE_BYTES;
}

// What is left of a stage's weights, before it begins.
INLINE void widen_rest(widening *n, crn_linear_format f) {
  for (; n->done < n->n && f != CRN_LINEAR_BF16; n->done++) {
    unsigned char *out = wide_of(n, &n->to) + n->done * 2 * TILE_BYTES;
    for (int unit = 0; unit < UNITS; unit++) widen_unit(packed_block(n, n->done, f), unit, out + unit * UNIT_BYTES, f);
  }
}

// False behind the last stage.
INLINE bool begin_widening(widening *n, int64_t i) {
  n->done = n->n = n->at_once = 0;
  if (i >= stages_of(n->call)) return false;
  n->to = stage_at(n->call, i);
  n->n = n->to.n_tiles * n->to.n_blocks;
  if (!n->is_stream) n->at_once = share_of(n->call, n->n, (n->to.n_tiles + 1) / 2);
  return true;
}

// --- products -------------------------------------------------------------------------------------------------------------

// Tile registers: 0..3 sums, 4 and 5 rows, 6 and 7 weights. The second 16 rows may be missing.
static void configure(int n_rows) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config __attribute__((aligned(64))) = {.palette = 1};
  const int rows0 = n_rows < ROWS ? n_rows : ROWS, rows1 = n_rows - rows0, rows[8] = {rows0, rows0, rows1, rows1, rows0, rows1, ROWS, ROWS};
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
  const unsigned char *block = packed_block(n, n->done, f),
                      *later = packed_block(n, n->done + (f == CRN_LINEAR_BF16 ? 0 : 2 * n->to.n_blocks), f);
  unsigned char *out = f == CRN_LINEAR_BF16 ? NULL : wide_of(n, &n->to) + n->done * 2 * TILE_BYTES;
#pragma GCC unroll 8
  for (int unit = 0; unit < UNITS; unit++, i++) {
    const int bytes = block_bytes(f) / UNITS;
    for (int line = 0; line < bytes; line += 64) _mm_prefetch((const char *)later + unit * bytes + line, _MM_HINT_T1);
    ask_for_next(p, i);
    step(p, i, true, true);
    if (f != CRN_LINEAR_BF16) widen_unit(block, unit, out + unit * UNIT_BYTES, f);
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

INLINE void multiply_pairs(const call *c, const stage *s, const span *rows, const char *next, widening *n, float *out, bool two_rows,
                           crn_linear_format f) {
  const int64_t pairs = (s->n_tiles + 1) / 2;
  pair p = {.rows = rows_of(c, rows->row, s->block) + rows->at * ROW_LINE, .n_steps = 2 * s->n_blocks, .out = out, .ld = c->ld};
  p.is_first = s->is_first;
  p.is_stream = n->is_stream;
  p.next_rows = next;
  p.next_lines = next ? (CRN_LINEAR_ROW_BLOCK + pairs - 1) / pairs : 0;
  for (int64_t t = 0; t < s->n_tiles; t += 2, p.out += 2 * LANES, p.next_rows += p.n_steps * p.next_lines * ROW_LINE) {
    p.w0 = tile_of(n, s, t, f);
    p.w1 = tile_of(n, s, t + 1, f);
    expect_share(c, s, rows, t / 2, pairs);
    if (t + 1 < s->n_tiles) {
      multiply(&p, n, two_rows, true, f);
    } else {
      multiply(&p, n, two_rows, false, f);
    }
  }
}

// --- calls ----------------------------------------------------------------------------------------------------------------

INLINE void run(call c, char *scratch, crn_linear_format f, stage_user user) {
  widening next = {.call = &c, .scratch = (unsigned char *)scratch, .is_stream = f == CRN_LINEAR_BF16 && c.n_rows <= FEW_ROWS};
  if (next.is_stream) c.pieces = 1;
  user.user = &next;
  bool is_more = begin_widening(&next, 0);
  widen_rest(&next, f);
  for (int64_t i = 1; is_more; i++) {
    const stage s = next.to;
    is_more = begin_widening(&next, i);
    FENCE();
    run_stage(&c, &s, is_more ? &next.to : NULL, user);
    widen_rest(&next, f);
  }
  _tile_release();
}

#define KERNEL(rhs, f)                                                                                                                    \
  static void multiply_##rhs(const call *c, const stage *s, const span *rows, const char *next, void *user, float *out) {                 \
    if (rows->n > ROWS) {                                                                                                                 \
      multiply_pairs(c, s, rows, next, user, out, true, f);                                                                               \
    } else {                                                                                                                              \
      multiply_pairs(c, s, rows, next, user, out, false, f);                                                                              \
    }                                                                                                                                     \
  }                                                                                                                                       \
  void crn_linear_parts_##rhs##__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, \
                                     int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink) {             \
    run(begin_call(w, rows, row_bytes, n_rows, tile_begin, tile_end, sums, ld, sink), scratch, f,                                         \
        (stage_user){configure, multiply_##rhs, NULL});                                                                                   \
  }                                                                                                                                       \
  void crn_linear_bf16_##rhs##_f32_32x32__amx(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,            \
                                              int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {              \
    crn_linear_parts_##rhs##__amx(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, NULL);                              \
  }

KERNEL(f16, CRN_LINEAR_F16)
KERNEL(bf16, CRN_LINEAR_BF16)
KERNEL(f32, CRN_LINEAR_F32)

// Rows in blocks, in each of which what a step takes lies together.
void crn_linear_prepare_bf16__amx(const float *x, int64_t k, void *out_row) {
  char *out = out_row;
  for (int64_t i = 0; i < LINEAR_BLOCKS(k) * LINEAR_BLOCK; i += STEP, out += ROWS_BYTES) {
    for (int64_t j = 0; j < STEP; j += LANES) {
      _mm256_store_si256((__m256i *)(void *)(out + j * 2), crn_narrow_bf16(load_some(x + i + j, k - i - j)));
    }
  }
}
