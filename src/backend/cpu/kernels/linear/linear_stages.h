/// The walk of kernels for many rows, whose rows lie in blocks, through rows and tiles. A call goes in stages: up to LINEAR_WIDE_TILES
/// tiles of outputs over a piece of up to LINEAR_WIDE_BLOCKS blocks of inputs. 32 rows of a piece stay in the first-level cache while they
/// are multiplied with tile after tile, which come from the second level; sums wait there between pieces. All the rows, tiles and sums of a
/// stage together fit into a second level of 2 MB. What the next stage needs is made ready meanwhile.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_STAGES_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_STAGES_H

#include "backend/cpu/kernels/linear/linear_amx.h"

/// Rows of one block.
typedef struct span {
  int64_t row, n;  ///< from the first row of the call on
  int64_t at;      ///< in the block
} span;

/// Those from `row` on, of a call of n_rows that begins with row `first` of its block.
INLINE span span_at(int64_t first, int64_t n_rows, int64_t row) {
  span s = {row, n_rows - row, (first + row) % CRN_LINEAR_ROW_BLOCK};
  if (s.n > CRN_LINEAR_ROW_BLOCK - s.at) s.n = CRN_LINEAR_ROW_BLOCK - s.at;
  return s;
}

/// A call: where its rows begin, and how its tiles and inputs are divided.
typedef struct call {
  const crn_linear_weights *w;
  const char *rows;
  int64_t row_stride;  ///< bytes of a block of rows
  int64_t first;       ///< row of its block the call begins with
  int64_t n_rows, tile_begin, n_tiles, blocks;
  int64_t groups, pieces;  ///< of tiles and of inputs
  float *out;
  int64_t ld;
  const crn_linear_sink *sink;
} call;

typedef struct stage {
  int64_t tile, n_tiles, block, n_blocks, piece;
  bool is_first, is_last;  ///< of the pieces: sums begin at 0; are complete
  int place;               ///< of two, for what is made: one is read while the other is written
} stage;

INLINE call begin_call(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin,
                       int64_t tile_end, float *out, int64_t ld, const crn_linear_sink *sink) {
  call c = {.w = w, .n_rows = n_rows, .tile_begin = tile_begin, .n_tiles = tile_end - tile_begin, .out = out, .ld = ld, .sink = sink};
  // Blocks of rows have sizes and addresses that are multiples of what a step reads.
  c.first = (int64_t)((uintptr_t)rows % CRN_LINEAR_ROWS_ALIGN / CRN_LINEAR_ROW_LINE);
  c.rows = rows - c.first * CRN_LINEAR_ROW_LINE;
  c.row_stride = (int64_t)row_bytes * CRN_LINEAR_ROW_BLOCK;
  c.blocks = LINEAR_BLOCKS(w->k);
  c.groups = (c.n_tiles + LINEAR_WIDE_TILES - 1) / LINEAR_WIDE_TILES;
  c.pieces = LINEAR_PIECES(c.blocks);
  return c;
}

INLINE int64_t stages_of(const call *c) { return c->groups * c->pieces; }

/// Where the group of tiles begins: with an even one.
INLINE int64_t group_begin(const call *c, int64_t group) {
  const int64_t tile = (c->n_tiles + 1) / 2 * group / c->groups * 2;
  return tile < c->n_tiles ? tile : c->n_tiles;
}

INLINE stage stage_at(const call *c, int64_t i) {
  const int64_t group = i / c->pieces, piece = i % c->pieces;
  stage s = {.tile = group_begin(c, group), .block = c->blocks * piece / c->pieces, .piece = piece, .place = (int)(i % 2)};
  s.n_tiles = group_begin(c, group + 1) - s.tile;
  s.n_blocks = c->blocks * (piece + 1) / c->pieces - s.block;
  s.is_first = piece == 0;
  s.is_last = piece + 1 == c->pieces;
  return s;
}

/// Prepared rows from `row` on, of which a block of inputs has two lines.
INLINE const char *rows_of(const call *c, int64_t row, int64_t block) {
  return c->rows + (c->first + row) / CRN_LINEAR_ROW_BLOCK * c->row_stride + block * 2 * CRN_LINEAR_ROWS_ALIGN;
}

/// Turns in which `n` of what the next stage needs are made, of which the stage before has one for each of `per_block` in a block of rows.
INLINE int64_t share_of(const call *c, int64_t n, int64_t per_block) {
  const int64_t turns = (c->n_rows + CRN_LINEAR_ROW_BLOCK - 1) / CRN_LINEAR_ROW_BLOCK * per_block;
  return (n + turns - 1) / turns;
}

/// Tells the sink what it gets soon: of the rows the share that `t` of `n` turns have.
INLINE void expect_share(const call *c, const stage *s, const span *rows, int64_t t, int64_t n) {
  if (!s->is_last || !c->sink || !c->sink->expect) return;
  const int64_t begin = rows->n * t / n, end = rows->n * (t + 1) / n;
  c->sink->expect(c->sink->user, rows->row + begin, end - begin, c->tile_begin + s->tile, s->n_tiles);
}

/// What a kernel does with a stage, for rows of one block: shapes tile registers when their number is another one (NULL where there are
/// none), and multiplies them with all tiles. `next`: the rows that come after these, NULL where asking for them is not worth while.
typedef struct stage_user {
  void (*configure)(int n_rows);
  void (*multiply)(const call *c, const stage *s, const span *rows, const char *next, void *user, float *out);
  void *user;
} stage_user;

/// `after`: the stage behind it, or NULL.
INLINE void run_stage(const call *c, const stage *s, const stage *after, stage_user u) {
  // Sums that wait for nothing have one place for all rows.
  const bool is_compact = c->sink && c->pieces == 1;
  int64_t configured = -1;
  span rows;
  for (int64_t row = 0; row < c->n_rows; row += rows.n) {
    rows = span_at(c->first, c->n_rows, row);
    if (u.configure && rows.n != configured) u.configure((int)rows.n);
    configured = rows.n;
    float *out = c->out + (is_compact ? 0 : row * c->ld) + (c->sink ? 0 : s->tile * LINEAR_LANES);
    const char *next = row + rows.n < c->n_rows ? rows_of(c, row + rows.n, s->block) : after ? rows_of(c, 0, after->block) : NULL;
    u.multiply(c, s, &rows, c->n_rows <= CRN_LINEAR_ROW_BLOCK ? NULL : next, u.user, out);
    FENCE();
    if (c->sink && s->is_last) c->sink->take(c->sink->user, row, rows.n, c->tile_begin + s->tile, s->n_tiles, out, c->ld);
  }
}

#endif
