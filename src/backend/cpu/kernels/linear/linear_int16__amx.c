// Many rows in the mode INT8: activations and weights as 16-bit integers, multiplied byte by byte.
//
// A row is scaled to 16 bits over each piece of some hundred inputs, and so are the weights of an output: both become a high and a low
// signed byte. Of the four products of bytes the three that count are summed as integers, high by high in one tile register and both mixed
// ones in another, and over a piece nothing is rounded. Products in bf16, which take two thirds of the time, keep 8 bits of each side, and
// a model of thirty layers adds up their errors to several thousandths of the cosine of its logits.
//
// A call goes in stages (linear_stages.h). Between tile instructions the weights of the next stage are made, and the sums of the tile
// before are scaled and added to what earlier pieces gave.
#include <immintrin.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_amx.h"
#include "backend/cpu/kernels/linear/linear_int16_amx.h"
#include "backend/cpu/kernels/linear/linear_int16_rows.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "backend/cpu/kernels/linear/linear_stages.h"
#include "backend/cpu/kernels/linear/linear_table.h"

enum {
  LANES = LINEAR_LANES,
  ROWS = LINEAR_TILE_ROWS,
  BLOCK_ROWS = CRN_LINEAR_ROW_BLOCK,
  ROW_LINE = CRN_LINEAR_ROW_LINE,  ///< bytes of a block of inputs, of which a row has two: high and low ones
  ROWS_BYTES = LINEAR_ROWS_BYTES,
  UNITS = LINEAR_INT16_UNITS,
  SUMS = ROWS * LANES,  ///< of a tile register
};

void crn_linear_prepare_int16__amx(const float *x, int64_t k, void *out_row) { linear_int16_prepare(x, k, out_row, false); }

// --- stages ---------------------------------------------------------------------------------------------------------------

/// The call's memory and who makes its weights, and the weights of the next stage on their way.
typedef struct making {
  linear_int16_make make;
  unsigned char *wide;  ///< two stages' weights
  float *scales;        ///< and their scales, [tile][16]
  int32_t *sums;        ///< of two tiles: four registers each
  linear_int16_weights weights;
  stage to;
  int64_t at_once;  ///< units that a tile takes along
} making;

INLINE unsigned char *wide_of(const making *m, const stage *s) {
  return m->wide + s->place * (LINEAR_WIDE_TILES * LINEAR_WIDE_BLOCKS * LINEAR_INT16_BLOCK);
}

INLINE float *scales_of(const making *m, const stage *s) { return m->scales + s->place * (LINEAR_WIDE_TILES * LANES); }

// False behind the last stage.
INLINE bool begin_making(making *m, const call *c, int64_t i) {
  linear_int16_weights *w = &m->weights;
  w->done = w->n = m->at_once = 0;
  if (i >= stages_of(c)) return false;
  m->to = stage_at(c, i);
  w->w = c->w;
  w->tile = c->tile_begin + m->to.tile;
  w->block = m->to.block;
  w->n_blocks = m->to.n_blocks;
  w->out = wide_of(m, &m->to);
  w->scales = scales_of(m, &m->to);
  w->n = m->to.n_tiles * m->to.n_blocks * UNITS;
  m->at_once = share_of(c, w->n, m->to.n_tiles);
  return true;
}

INLINE void make_until(making *m, int64_t until) {
  if (m->weights.done < until) m->make(&m->weights, until);
}

// --- sums -----------------------------------------------------------------------------------------------------------------

/// Integer sums of up to 32 rows and a tile that are complete, on their way to where they belong.
typedef struct scaling {
  const int32_t *sums;  ///< high ones of 16 rows, mixed ones, and the same of the other 16
  const char *row_scales;
  const float *scales;
  float *out;
  int64_t ld;
  int done, n;
  bool is_first;
} scaling;

INLINE void scale_row(scaling *s) {
  const int row = s->done++;
  const int32_t *sums = s->sums + row / ROWS * 2 * SUMS + row % ROWS * LANES;
  __m512 high = _mm512_cvtepi32_ps(_mm512_load_si512(sums)), mixed = _mm512_cvtepi32_ps(_mm512_load_si512(sums + SUMS));
  __m512 sum = _mm512_mul_ps(_mm512_fmadd_ps(high, _mm512_set1_ps(256), mixed), _mm512_load_ps(s->scales));
  __m512 scale = _mm512_set1_ps(*(const float *)(const void *)(s->row_scales + row * ROW_LINE));
  float *out = s->out + row * s->ld;
  _mm512_storeu_ps(out, s->is_first ? _mm512_mul_ps(sum, scale) : _mm512_fmadd_ps(sum, scale, _mm512_loadu_ps(out)));
}

INLINE void scale_rest(scaling *s) {
  while (s->done < s->n) scale_row(s);
}

// --- products -------------------------------------------------------------------------------------------------------------

// Tile registers: 0 to 3 sums, high and mixed ones of 16 rows and of the other 16; 4 and 5 rows, 6 and 7 weights. Of the other rows some
// may be missing: what lies in their place is multiplied, and nobody looks at it.
static void configure(int n_rows) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config __attribute__((aligned(64))) = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    config.row_bytes[i] = 64;
    config.rows[i] = (uint8_t)(i < 6 && n_rows < ROWS ? n_rows : ROWS);
  }
  FENCE();
  _tile_loadconfig(&config);
}

/// Up to 32 rows times a tile.
typedef struct product {
  const char *rows, *next_rows;  ///< `next_rows`: what will be multiplied after these; this product asks for its part of it
  int64_t next_lines;            ///< a block
  const unsigned char *wide;
  int64_t n_blocks;
  int32_t *sums;
} product;

// A block of inputs. Weights are loaded past the first-level cache, in which the rows stay for all tiles. A product takes 52 cycles to come
// out and 16 to begin: the two that go to the same sums lie as far apart as they can.
INLINE void step(const product *p, int64_t i, bool two_rows) {
  const char *rows = p->rows + i * 2 * ROWS_BYTES, *low = rows + ROWS_BYTES;
  const unsigned char *wide = p->wide + i * LINEAR_INT16_BLOCK;
  _tile_loadd(4, rows, ROW_LINE);
  _tile_stream_loadd(7, wide + LINEAR_INT16_PLANE, 64);
  _tile_dpbssd(1, 4, 7);
  if (two_rows) _tile_loadd(5, rows + ROWS * ROW_LINE, ROW_LINE);
  if (two_rows) _tile_dpbssd(3, 5, 7);
  _tile_stream_loadd(6, wide, 64);
  _tile_dpbssd(0, 4, 6);
  if (two_rows) _tile_dpbssd(2, 5, 6);
  _tile_loadd(4, low, ROW_LINE);
  _tile_dpbssd(1, 4, 6);
  if (two_rows) _tile_loadd(5, low + ROWS * ROW_LINE, ROW_LINE);
  if (two_rows) _tile_dpbssd(3, 5, 6);
}

INLINE void multiply(const product *p, making *m, scaling *s, bool two_rows) {
  const int64_t from = m->weights.done, left = m->weights.n - from, units = left < m->at_once ? left : m->at_once;
  _tile_zero(0);
  _tile_zero(1);
  if (two_rows) _tile_zero(2);
  if (two_rows) _tile_zero(3);
  for (int64_t i = 0; i < p->n_blocks; i++) {
    const char *next = p->next_rows + i * p->next_lines * ROW_LINE;
    for (int64_t l = 0; l < p->next_lines; l++) _mm_prefetch(next + l * ROW_LINE, _MM_HINT_T1);
    step(p, i, two_rows);
    make_until(m, from + units * (i + 1) / p->n_blocks);
    while (s->done < s->n * (i + 1) / p->n_blocks) scale_row(s);
  }
  _tile_stored(0, p->sums, 64);
  _tile_stored(1, p->sums + SUMS, 64);
  if (two_rows) _tile_stored(2, p->sums + 2 * SUMS, 64);
  if (two_rows) _tile_stored(3, p->sums + 3 * SUMS, 64);
  FENCE();
}

INLINE void multiply_tiles(const call *c, const stage *s, const span *rows, const char *next, making *m, float *out, bool two_rows) {
  product p = {.rows = rows_of(c, rows->row, s->block) + rows->at * ROW_LINE, .n_blocks = s->n_blocks, .next_rows = next};
  scaling before = {0};
  p.next_lines = next ? (2 * BLOCK_ROWS + s->n_tiles - 1) / s->n_tiles : 0;
  const char *row_scales = rows_of(c, rows->row, c->blocks) + linear_int16_number(s->piece) + rows->at * ROW_LINE;
  for (int64_t t = 0; t < s->n_tiles; t++, p.next_rows += p.n_blocks * p.next_lines * ROW_LINE) {
    p.wide = wide_of(m, s) + t * s->n_blocks * LINEAR_INT16_BLOCK;
    p.sums = m->sums + t % 2 * 4 * SUMS;
    expect_share(c, s, rows, t, s->n_tiles);
    multiply(&p, m, &before, two_rows);
    before = (scaling){p.sums, row_scales, scales_of(m, s) + t * LANES, out + t * LANES, c->ld, 0, (int)rows->n, s->is_first};
  }
  scale_rest(&before);
}

static void multiply_span(const call *c, const stage *s, const span *rows, const char *next, void *user, float *out) {
  if (rows->n > ROWS) {
    multiply_tiles(c, s, rows, next, user, out, true);
  } else {
    multiply_tiles(c, s, rows, next, user, out, false);
  }
}

// --- calls ----------------------------------------------------------------------------------------------------------------

void crn_linear_int16__amx(const crn_linear_weights *w, linear_int16_make make, const char *rows, size_t row_bytes, int64_t n_rows,
                           int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, char *scratch, const crn_linear_sink *sink) {
  const call c = begin_call(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, sink);
  making next = {.make = make, .wide = (unsigned char *)scratch};
  next.scales = (float *)(void *)(scratch + 2 * LINEAR_WIDE_TILES * LINEAR_WIDE_BLOCKS * LINEAR_INT16_BLOCK);
  next.sums = (int32_t *)(void *)(next.scales + 2 * LINEAR_WIDE_TILES * LANES);
  bool is_more = begin_making(&next, &c, 0);
  make_until(&next, next.weights.n);
  for (int64_t i = 1; is_more; i++) {
    const stage s = next.to;
    is_more = begin_making(&next, &c, i);
    FENCE();
    run_stage(&c, &s, is_more ? &next.to : NULL, (stage_user){configure, multiply_span, &next});
    make_until(&next, next.weights.n);
  }
  _tile_release();
}

// --- weights of quants ------------------------------------------------------------------------------------------------------

INLINE void read_group(const crn_linear_weights *w, const unsigned char *block, int group, __m512 *out_scale, __m512 *out_low,
                       crn_linear_format f) {
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + group * 32;
  const __m512 zero = _mm512_set1_ps((float)(is_4bit(f) ? w->zero : w->zero + LINEAR_Q8_BIAS));
  *out_scale = half16(scales);
  *out_low = has_mins(f) ? half16(scales + LINEAR_MINS) : _mm512_setzero_ps();
  *out_low = _mm512_fnmadd_ps(zero, *out_scale, *out_low);
}

// The largest weight that the scales of a tile's blocks allow.
INLINE __m512 largest_weights(const linear_int16_weights *n, crn_linear_format f) {
  const __m512 quants = _mm512_set1_ps(is_4bit(f) ? 15 : 255);
  __m512 most = _mm512_setzero_ps();
  for (int64_t b = 0; b < n->n_blocks; b++) {
#pragma GCC unroll 2
    for (int g = 0; g < 2; g++) {
      __m512 scale, low;
      read_group(n->w, n->packed + b * block_bytes(f), g, &scale, &low, f);
      const __m512 high = _mm512_fmadd_ps(quants, scale, low);
      most = _mm512_max_ps(most, _mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    }
  }
  return most;
}

// The part of `x` under a mask is quant * 2^shift; the scale takes the power of two out again, exactly.
INLINE __m512i words_at(__m512i x, int shift, int bits, __m512 scale, __m512 low) {
  __m512i masked = _mm512_and_si512(x, _mm512_set1_epi32((int)(((1u << bits) - 1) << shift)));
  __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(1.0f / (float)(1u << shift)));
  return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepu32_ps(masked), factor, low));
}

INLINE void begin_block(linear_int16_weights *n, crn_linear_format f) {
  const int64_t i = n->done / UNITS, tile = i / n->n_blocks, b = i % n->n_blocks;
  const int64_t blocks = LINEAR_BLOCKS(n->w->k), at = (n->tile + tile) * blocks + n->block + b;
  n->packed = (const unsigned char *)n->w->data + at * block_bytes(f);
  if (b == 0) linear_int16_scale(n, tile, largest_weights(n, f));
#pragma GCC unroll 2
  for (int g = 0; g < 2; g++) {
    read_group(n->w, n->packed, g, &n->scale[g], &n->low[g], f);
    n->scale[g] = _mm512_mul_ps(n->scale[g], n->inverse);
    n->low[g] = _mm512_fmadd_ps(n->low[g], n->inverse, _mm512_set1_ps(128));
  }
}

// 8 inputs of 16 outputs.
INLINE void make_unit(linear_int16_weights *n, crn_linear_format f) {
  const int unit = (int)(n->done % UNITS);
  if (unit == 0) begin_block(n, f);
  const __m512 scale = n->scale[unit / 4], low = n->low[unit / 4];
  unsigned char *out = n->out + n->done / UNITS * LINEAR_INT16_BLOCK + 128 * unit;
  if (is_4bit(f)) {
    const __m512i x = _mm512_load_si512(n->packed + 64 * unit);
    linear_int16_store(out, words_at(x, 0, 4, scale, low), words_at(x, 8, 4, scale, low), words_at(x, 16, 4, scale, low),
                       words_at(x, 24, 4, scale, low));
    linear_int16_store(out + 64, words_at(x, 4, 4, scale, low), words_at(x, 12, 4, scale, low), words_at(x, 20, 4, scale, low),
                       words_at(x, 28, 4, scale, low));
  } else {
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++, out += 64) {
      const __m512i x = _mm512_load_si512(n->packed + 128 * unit + 64 * j);
      linear_int16_store(out, words_at(x, 0, 8, scale, low), words_at(x, 8, 8, scale, low), words_at(x, 16, 8, scale, low),
                         words_at(x, 24, 8, scale, low));
    }
  }
  n->done++;
}

LINEAR_INT16_KERNEL(q4, amx, CRN_LINEAR_Q4)
LINEAR_INT16_KERNEL(q4m, amx, CRN_LINEAR_Q4M)
LINEAR_INT16_KERNEL(q8, amx, CRN_LINEAR_Q8)
LINEAR_INT16_KERNEL(q8m, amx, CRN_LINEAR_Q8M)
