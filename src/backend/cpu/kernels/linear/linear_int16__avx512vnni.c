// Many rows of quantised weights in the modes that round: activations as 16-bit integers, multiplied with quants byte by byte.
//
// Over a group of inputs, whose quants have one scale an output, the products with high bytes are summed, the sum is shifted by a byte, and
// those with low bytes are added. Nothing is rounded but the activations, and 16 instructions with products share one conversion and one
// product with the scale. Rows come straight from memory, four bytes for all lanes: what a row and four inputs of a tile cost is a single
// operation, so that the kernel is still fed when another thread of the core wants instructions, too.
//
// A call goes in stages (linear_stages.h). The quants of a stage are unpacked once and lie in the second level of the cache while blocks of
// rows pass by.
#include "backend/cpu/kernels/linear/linear_int16_rows.h"
#include "backend/cpu/kernels/linear/linear_stages.h"

enum {
  LANES = LINEAR_LANES,
  GROUP = CRN_LINEAR_GROUP,
  GROUPS = LINEAR_BLOCK / GROUP,
  ROWS = 16,  ///< times a tile
  KEPT = 12,  ///< rows whose sums over groups are in registers, which the sums of a group need, too
  ROW_LINE = CRN_LINEAR_ROW_LINE,
  ROWS_BYTES = LINEAR_ROWS_BYTES,
  /// Where in an unpacked group what lies: quants, four inputs of all outputs in turn; scales; what is added for the sum of a row's inputs.
  SCALES = GROUP * LANES,
  LOWS = SCALES + 4 * LANES,
  UNPACKED = LINEAR_UNPACKED_GROUP
};
_Static_assert(LOWS + 4 * LANES == UNPACKED, "scratch memory is for groups of this size");

void crn_linear_prepare_int16__avx512vnni(const float *x, int64_t k, void *out_row) { linear_int16_prepare(x, k, out_row, true); }

// --- weights --------------------------------------------------------------------------------------------------------------

// Group `g` of a block, with quants as they are stored.
INLINE void unpack_group(const crn_linear_weights *w, const unsigned char *block, int g, unsigned char *out, crn_linear_format f) {
  const unsigned char *quants = block + g * (is_4bit(f) ? LINEAR_Q4_GROUP : LINEAR_Q8_GROUP);
  const unsigned char *scales = block + (is_4bit(f) ? LINEAR_Q4_SCALES : LINEAR_Q8_SCALES) + g * 32;
  const __m512i low_half = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    if (is_4bit(f)) {
      const __m512i x = _mm512_load_si512(quants + 64 * i);
      _mm512_store_si512(out + 128 * i, _mm512_and_si512(x, low_half));
      _mm512_store_si512(out + 128 * i + 64, _mm512_and_si512(_mm512_srli_epi16(x, 4), low_half));
    } else {
      _mm512_store_si512(out + 128 * i, _mm512_load_si512(quants + 128 * i));
      _mm512_store_si512(out + 128 * i + 64, _mm512_load_si512(quants + 128 * i + 64));
    }
  }
  const __m512 scale = half16(scales), minimum = has_mins(f) ? half16(scales + LINEAR_MINS) : _mm512_setzero_ps();
  _mm512_store_ps(out + SCALES, scale);
  _mm512_store_ps(out + LOWS, _mm512_fnmadd_ps(_mm512_set1_ps(zero_of(w, f)), scale, minimum));
}

INLINE void unpack_stage(const call *c, const stage *s, unsigned char *out, crn_linear_format f) {
  for (int64_t t = 0; t < s->n_tiles; t++) {
    const int64_t first = (c->tile_begin + s->tile + t) * c->blocks + s->block;
    const unsigned char *block = (const unsigned char *)c->w->data + first * block_bytes(f);
    for (int64_t b = 0; b < s->n_blocks; b++, block += block_bytes(f)) {
      for (int g = 0; g < GROUPS; g++, out += UNPACKED) unpack_group(c->w, block, g, out, f);
    }
  }
}

// --- products -------------------------------------------------------------------------------------------------------------

/// Some rows times a tile over a piece.
typedef struct product {
  const char *rows, *numbers;  ///< the first block's bytes; the numbers behind the bytes
  int64_t scale, sum;          ///< numbers of the piece and of its first group
  int64_t n_blocks;
  const unsigned char *weights;
  float *out;
  int64_t ld;
  bool is_first;
} product;

INLINE float number_of(const char *line, int row) { return *(const float *)(const void *)(line + row * ROW_LINE); }

// c += bytes of 16 outputs times four of a row at `bytes`. Compilers load these by an instruction of its own.
INLINE __m512i add_four(__m512i c, __m512i w, const char *bytes) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(c) : "v"(w), "m"(*(const int32_t *)(const void *)bytes));
  return c;
}

// Adds 32 products a row and output with bytes of one kind.
INLINE void multiply(__m512i *c, const char *bytes, const unsigned char *weights, int m) {
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) {
    const __m512i w = _mm512_load_si512(weights + 64 * j);
#pragma GCC unroll 16
    for (int t = 0; t < m; t++) c[t] = add_four(c[t], w, bytes + t * ROW_LINE + 4 * j);
  }
}

// The sums of rows behind KEPT wait in memory.
INLINE void add_group(__m512 *kept, float *others, const char *rows, const unsigned char *weights, const char *row_sums, int m) {
  __m512i c[ROWS];
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) c[t] = _mm512_setzero_si512();
  multiply(c, rows, weights, m);
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) c[t] = _mm512_slli_epi32(c[t], 8);
  multiply(c, rows + ROWS_BYTES, weights, m);
  const __m512 scale = _mm512_load_ps(weights + SCALES), low = _mm512_load_ps(weights + LOWS);
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) {
    float *other = others + (t - KEPT) * LANES;
    __m512 sum = t < KEPT ? kept[t] : _mm512_load_ps(other);
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(c[t]), scale, sum);
    sum = _mm512_fmadd_ps(low, _mm512_set1_ps(number_of(row_sums, t)), sum);
    if (t < KEPT) {
      kept[t] = sum;
    } else {
      _mm512_store_ps(other, sum);
    }
  }
}

INLINE void times(const product *p, int m) {
  __m512 kept[KEPT];
  float others[(ROWS - KEPT) * LANES] __attribute__((aligned(64)));
#pragma GCC unroll 12
  for (int t = 0; t < KEPT; t++) kept[t] = _mm512_setzero_ps();
#pragma GCC unroll 4
  for (int t = 0; t < ROWS - KEPT; t++) _mm512_store_ps(others + t * LANES, _mm512_setzero_ps());
  const unsigned char *weights = p->weights;
  int64_t sum = p->sum;
  for (int64_t b = 0; b < p->n_blocks; b++) {
    for (int g = 0; g < GROUPS; g++, sum++, weights += UNPACKED)
      add_group(kept, others, p->rows + b * 2 * ROWS_BYTES + g * GROUP, weights, p->numbers + linear_int16_number(sum), m);
  }
#pragma GCC unroll 16
  for (int t = 0; t < m; t++) {
    float *out = p->out + t * p->ld;
    const __m512 total = t < KEPT ? kept[t] : _mm512_load_ps(others + (t - KEPT) * LANES);
    const __m512 scale = _mm512_set1_ps(number_of(p->numbers + linear_int16_number(p->scale), t));
    _mm512_storeu_ps(out, p->is_first ? _mm512_mul_ps(total, scale) : _mm512_fmadd_ps(total, scale, _mm512_loadu_ps(out)));
  }
}

// A function of its own for each number of rows keeps the sums in registers.
#define TIMES_OF(m) \
  __attribute__((noinline)) static void times_##m(const product *p) { times(p, m); }
#define ALL_TIMES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
ALL_TIMES(TIMES_OF)
#define TIMES_NAME(m) times_##m,
static void (*const g_times[ROWS])(const product *p) = {ALL_TIMES(TIMES_NAME)};

// --- calls ----------------------------------------------------------------------------------------------------------------

// `user`: the weights of the stage.
static void multiply_span(const call *c, const stage *s, const span *rows, const char *next, void *user, float *out) {
  (void)next;
  const char *bytes = rows_of(c, rows->row, s->block), *numbers = rows_of(c, rows->row, c->blocks);
  const int64_t parts = (rows->n + ROWS - 1) / ROWS;
  for (int64_t part = 0; part < parts; part++) {
    const int64_t begin = rows->n * part / parts, n = rows->n * (part + 1) / parts - begin, line = (rows->at + begin) * ROW_LINE;
    for (int64_t t = 0; t < s->n_tiles; t++) {
      expect_share(c, s, rows, part * s->n_tiles + t, parts * s->n_tiles);
      const product p = {.rows = bytes + line,
                         .numbers = numbers + line,
                         .scale = s->piece,
                         .sum = c->pieces + s->block * GROUPS,
                         .n_blocks = s->n_blocks,
                         .weights = (const unsigned char *)user + t * s->n_blocks * GROUPS * UNPACKED,
                         .out = out + begin * c->ld + t * LANES,
                         .ld = c->ld,
                         .is_first = s->is_first};
      g_times[n - 1](&p);
    }
  }
}

INLINE void run(const crn_linear_weights *w, const char *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin, int64_t tile_end,
                float *out, int64_t ld, unsigned char *scratch, const crn_linear_sink *sink, crn_linear_format f) {
  const call c = begin_call(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, sink);
  for (int64_t i = 0; i < stages_of(&c); i++) {
    const stage s = stage_at(&c, i);
    unpack_stage(&c, &s, scratch, f);
    run_stage(&c, &s, NULL, (stage_user){NULL, multiply_span, scratch});
  }
}

#define KERNEL(rhs, f)                                                                                                                 \
  void crn_linear_int16_parts_##rhs##__avx512vnni(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows,     \
                                                  int64_t tile_begin, int64_t tile_end, float *sums, int64_t ld, void *scratch,        \
                                                  const crn_linear_sink *sink) {                                                       \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, sums, ld, scratch, sink, f);                                                 \
  }                                                                                                                                    \
  void crn_linear_int16_##rhs##_f32_16x16__avx512vnni(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, \
                                                      int64_t tile_begin, int64_t tile_end, float *out, int64_t ld, void *scratch) {   \
    run(w, rows, row_bytes, n_rows, tile_begin, tile_end, out, ld, scratch, NULL, f);                                                  \
  }

KERNEL(q4, CRN_LINEAR_Q4)
KERNEL(q4m, CRN_LINEAR_Q4M)
KERNEL(q8, CRN_LINEAR_Q8)
KERNEL(q8m, CRN_LINEAR_Q8M)
