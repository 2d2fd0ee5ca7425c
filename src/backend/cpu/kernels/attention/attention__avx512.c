#include <immintrin.h>

#include "backend/cpu/kernels/attention/loads_avx512.h"
#include "backend/cpu/kernels/attention/parts.h"

// Everything below is inlined with constant tile sizes, so that accumulators live in registers.

enum { BLOCK = CRN_ATTENTION_BLOCK, LANES = CRN_ATTENTION_LANES, HEAD = CRN_ATTENTION_HEAD };

INLINE __m512 load(const void *b, int64_t i, int type) {
  if (type == CRN_CACHE_F32) return _mm512_loadu_ps((const float *)b + i);
  __m256i h = _mm256_loadu_si256((const __m256i *)((const uint16_t *)b + i));
  if (type == CRN_CACHE_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE const void *forward(const void *b, int64_t elements, int type) {
  return (const char *)b + elements * (type == CRN_CACHE_F32 ? 4 : 2);
}

static uint64_t alive_f32(const void *mask, int n) {
  uint64_t bits = 0;
  for (int i = 0; i < n; i += 16) {
    __mmask16 some = some16(n - i);
    __m512 m = _mm512_maskz_loadu_ps(some, (const float *)mask + i);
    bits |= (uint64_t)_mm512_mask_cmp_ps_mask(some, m, _mm512_set1_ps(CRN_ATTENTION_DEAD), _CMP_NLE_UQ) << i;
  }
  return bits;
}

// 16-bit floats whose bits are within [dead, lowest] exclude.
INLINE uint64_t alive16(const void *mask, int n, int dead, int lowest) {
  uint64_t bits = 0;
  for (int i = 0; i < n; i += 32) {
    __mmask32 some = n - i >= 32 ? 0xffffffffu : (1u << (n - i)) - 1;
    __m512i m = _mm512_maskz_loadu_epi16(some, (const uint16_t *)mask + i), from_dead = _mm512_sub_epi16(m, _mm512_set1_epi16((short)dead));
    bits |= (uint64_t)_mm512_mask_cmpgt_epu16_mask(some, from_dead, _mm512_set1_epi16((short)(lowest - dead))) << i;
  }
  return bits;
}

static uint64_t alive_f16(const void *mask, int n) { return alive16(mask, n, CRN_ATTENTION_DEAD_F16, CRN_ATTENTION_LOWEST_F16); }
static uint64_t alive_bf16(const void *mask, int n) { return alive16(mask, n, CRN_ATTENTION_DEAD_BF16, CRN_ATTENTION_LOWEST_BF16); }

static uint64_t alive_bool(const void *mask, int n) {
  __m512i m = _mm512_maskz_loadu_epi8(n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1, mask);
  return _mm512_test_epi8_mask(m, m);
}

INLINE void widen(const void *source, int64_t ld, int64_t n, int64_t d, float *target, int type) {
  for (int64_t r = 0; r < n; r++) {
    const void *row = forward(source, r * ld, type);
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES, target += LANES) _mm512_storeu_ps(target, load(row, i, type));
    if (i < d) {
      _mm512_storeu_ps(target, load_some(row, i, some16(d - i), type));
      target += LANES;
    }
  }
}

// --- scores ---------------------------------------------------------------------------------------------------------------

// Sixteen registers to one: lane n is the fold of register n, 16 → 8 → 4 → 2 → 1, adding lane i and lane i + half.
INLINE __m512 fold16(const __m512 *a) {
  const __m512i swap4 = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  const __m512i swap1 = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
  __m512 s[8], t[4], u[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    s[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a[i], a[i + 8]), _mm512_shuffle_f32x4(a[i], a[i + 8], 0x4e));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, s[i], s[i + 4]), _mm512_permutex2var_ps(s[i], swap4, s[i + 4]));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) u[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, t[i], t[i + 2]), _mm512_shuffle_ps(t[i], t[i + 2], 0x4e));
  return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, u[0], u[1]), _mm512_permutex2var_ps(u[0], swap1, u[1]));
}

// Into the second cache, which keeps more requests under way than the first.
INLINE void ask(const void *ahead, int64_t elements, int type) { _mm_prefetch(forward(ahead, elements, type), _MM_HINT_T1); }

// Lines of rows in the order in which they lie, some at a time: then the processor's own guesses go the same way.
typedef struct asker {
  const char *line;
  int64_t row, in_row, gap;  ///< bytes of a row, those asked for, and those between rows
} asker;

INLINE void ask_some(asker *a, int lines) {
#pragma GCC unroll 16
  for (int i = 0; i < lines; i++) {
    _mm_prefetch(a->line, _MM_HINT_T1);
    a->line += 64;
    a->in_row += 64;
    if (a->in_row >= a->row) a->line += a->gap, a->in_row -= a->row;
  }
}

// Products of 16 elements at i of each row, only those of `some` when it is not all ones.
INLINE void score_step(const float *q, int64_t ldq, const void *k, int64_t ldk, int64_t i, __m512 *acc, int items, int cols, __mmask16 some,
                       int type) {
  __m512 w[16];
#pragma GCC unroll 16
  for (int c = 0; c < cols; c++) {
    const void *row = forward(k, c * ldk, type);
    w[c] = some == 0xffff ? load(row, i, type) : load_some(row, i, some, type);
  }
#pragma GCC unroll 8
  for (int r = 0; r < items; r++) {
    __m512 x = _mm512_loadu_ps(q + r * ldq + i);
#pragma GCC unroll 16
    for (int c = 0; c < cols; c++) acc[r * cols + c] = _mm512_fmadd_ps(x, w[c], acc[r * cols + c]);
  }
}

// Stores lanes r * cols + c at out[r * 64 + c], through memory: shuffles are scarce here.
INLINE void store_dots(__m512 dots, float *out, int items, int cols) {
  float all[16];
  _mm512_storeu_ps(all, dots);
#pragma GCC unroll 8
  for (int r = 0; r < items; r++) {
    if (cols == 8) {
      _mm256_storeu_ps(out + r * BLOCK, _mm256_loadu_ps(all + 8 * r));
    } else if (cols == 4) {
      _mm_storeu_ps(out + r * BLOCK, _mm_loadu_ps(all + 4 * r));
    } else if (cols == 2) {
      _mm_storel_pi((__m64 *)(out + r * BLOCK), _mm_loadl_pi(_mm_setzero_ps(), (const __m64 *)(all + 2 * r)));
    } else {
      out[r * BLOCK] = all[r];
    }
  }
}

// Items × columns <= 16 dots at once.
INLINE void score_tile(const float *q, int64_t ldq, const void *k, int64_t ldk, int64_t d, const void *ahead, float *out, int items,
                       int cols, bool asks, int type) {
  __m512 acc[16];
#pragma GCC unroll 16
  for (int n = 0; n < 16; n++) acc[n] = _mm512_setzero_ps();
  int64_t i = 0, bytes = type == CRN_CACHE_F32 ? 4 : 2;
  asker later = {ahead, d * bytes, 0, (ldk - d) * bytes};
  for (; i + LANES <= d; i += LANES) {
    if (asks) ask_some(&later, type == CRN_CACHE_F32 ? cols : (cols + 1) / 2);
    score_step(q, ldq, k, ldk, i, acc, items, cols, 0xffff, type);
  }
  if (i < d) score_step(q, ldq, k, ldk, i, acc, items, cols, some16(d - i), type);
  store_dots(fold16(acc), out, items, cols);
}

INLINE void score_cols(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int64_t d, const void *ahead, float *out,
                       int cols, int type) {
  int r = 0;
#define TILES(items)                                                                            \
  if (items * cols <= 16) {                                                                     \
    if (ahead && r == 0 && n_items >= items) {                                                  \
      score_tile(q, ldq, k, ldk, d, ahead, out, items, cols, true, type);                       \
      r = items;                                                                                \
    }                                                                                           \
    for (; r + items <= n_items; r += items) {                                                  \
      score_tile(q + r * ldq, ldq, k, ldk, d, NULL, out + r * BLOCK, items, cols, false, type); \
    }                                                                                           \
  }
  TILES(8)
  TILES(4)
  TILES(2)
  TILES(1)
#undef TILES
}

INLINE void score(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d, const void *ahead,
                  float *out, int type) {
  int c = 0;
#define COLUMNS(cols)                                                                          \
  for (; c + cols <= n_cols; c += cols) {                                                      \
    const void *later = ahead ? forward(ahead, c * ldk, type) : NULL;                          \
    score_cols(q, ldq, n_items, forward(k, c *ldk, type), ldk, d, later, out + c, cols, type); \
  }
  if (n_items < 4) {
    COLUMNS(8)
  }
  if (n_items < 8 || type == CRN_CACHE_F32) {
    COLUMNS(4)
  }
  COLUMNS(2)
  COLUMNS(1)
#undef COLUMNS
}

// --- softmax --------------------------------------------------------------------------------------------------------------

// exp(x) in the lanes of `some`, 0 in the others.
INLINE __m512 exp_down(__m512 x, __mmask16 some) {
  const __m512 rounder = _mm512_set1_ps(CRN_EXP_ROUNDER);
  __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(CRN_EXP_LOG2E), rounder), n = _mm512_sub_ps(t, rounder);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(CRN_EXP_LN2_HIGH), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(CRN_EXP_LN2_LOW), r);
  __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(CRN_EXP_Q4), r, _mm512_set1_ps(CRN_EXP_Q3));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(CRN_EXP_Q2));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(CRN_EXP_Q1));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(CRN_EXP_Q0));
  __m512 e = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r), _mm512_set1_ps(1));
  // Scaling keeps NaN, and gives the bits of adding n to the exponent: no result is subnormal.
  return _mm512_maskz_scalef_ps(_mm512_mask_cmp_ps_mask(some, x, _mm512_set1_ps(CRN_EXP_LOWEST), _CMP_NLT_UQ), e, n);
}

INLINE float exp_one(float x) { return _mm512_cvtss_f32(exp_down(_mm512_set1_ps(x), 0xffff)); }

INLINE float fold(__m512 v) {
  __m256 w = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static void soften(float *scores, const uint64_t *live, int n_items, float *states, int64_t ld_state, int64_t n_sums) {
  const float lowest = -__builtin_inff();
  for (int i = 0; i < n_items; i++) {
    float *state = states + i * ld_state, before = state[CRN_STATE_TOP], factor = 1;
    __m512 s[4], most = _mm512_set1_ps(before);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
      s[v] = _mm512_loadu_ps(scores + i * BLOCK + 16 * v);
      // NaN gives way to the second operand: the top never is one.
      most = _mm512_mask_max_ps(most, (__mmask16)(live[i] >> 16 * v), s[v], most);
    }
    float top = _mm512_reduce_max_ps(most), base = top == lowest ? 0 : top;
    __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
      s[v] = exp_down(_mm512_sub_ps(s[v], _mm512_set1_ps(base)), (__mmask16)(live[i] >> 16 * v));
      sum = _mm512_add_ps(sum, s[v]);
      _mm512_storeu_ps(scores + i * BLOCK + 16 * v, s[v]);
    }
    if (top != before) {
      factor = exp_one(before - base);
      __m512 f = _mm512_set1_ps(factor);
      for (int64_t d = HEAD; d < HEAD + n_sums; d += LANES) _mm512_storeu_ps(state + d, _mm512_mul_ps(_mm512_loadu_ps(state + d), f));
    }
    state[CRN_STATE_TOP] = top;
    state[CRN_STATE_SUM] = state[CRN_STATE_SUM] * factor + fold(sum);
    state[CRN_STATE_FACTOR] = factor;
    if (live[i]) state[CRN_STATE_SEEN] = 1;
  }
}

// --- values ---------------------------------------------------------------------------------------------------------------

// The sums of `items` items in `vectors` registers each, over all positions; the only register is partial when `some` says so.
INLINE void add_tile(const float *p, const void *v, int64_t ldv, int64_t n, const void *ahead, float *sums, int64_t ld_sums, int items,
                     int vectors, __mmask16 some, bool asks, int type) {
  __m512 acc[16], w[16];
#pragma GCC unroll 8
  for (int r = 0; r < items; r++) {
#pragma GCC unroll 16
    for (int j = 0; j < vectors; j++) acc[r * vectors + j] = _mm512_loadu_ps(sums + r * ld_sums + 16 * j);
  }
  for (int64_t c = 0; c < n; c++) {
    const void *row = forward(v, c * ldv, type);
#pragma GCC unroll 16
    for (int j = 0; j < vectors; j++) {
      w[j] = some == 0xffff ? load(row, 16 * j, type) : load_some(row, 16 * j, some, type);
      if (asks && (type == CRN_CACHE_F32 || j % 2 == 0)) ask(ahead, c * ldv + 16 * j, type);
    }
#pragma GCC unroll 8
    for (int r = 0; r < items; r++) {
      __m512 x = _mm512_set1_ps(p[r * BLOCK + c]);
#pragma GCC unroll 16
      for (int j = 0; j < vectors; j++) acc[r * vectors + j] = _mm512_fmadd_ps(x, w[j], acc[r * vectors + j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < items; r++) {
#pragma GCC unroll 16
    for (int j = 0; j < vectors; j++) _mm512_storeu_ps(sums + r * ld_sums + 16 * j, acc[r * vectors + j]);
  }
}

INLINE void add_strip(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, const void *ahead, float *sums, int64_t ld_sums,
                      int vectors, __mmask16 some, int type) {
  int r = 0;
#define TILES(items)                                                                                            \
  if (items * vectors <= 16) {                                                                                  \
    if (ahead && r == 0 && n_items >= items) {                                                                  \
      add_tile(p, v, ldv, n, ahead, sums, ld_sums, items, vectors, some, true, type);                           \
      r = items;                                                                                                \
    }                                                                                                           \
    for (; r + items <= n_items; r += items) {                                                                  \
      add_tile(p + r * BLOCK, v, ldv, n, NULL, sums + r * ld_sums, ld_sums, items, vectors, some, false, type); \
    }                                                                                                           \
  }
  TILES(8)
  TILES(4)
  TILES(2)
  TILES(1)
#undef TILES
}

INLINE void add(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead, float *sums,
                int64_t ld_sums, int type) {
  int64_t i = 0;
#define STRIPS(vectors)                                                                                  \
  for (; i + 16 * vectors <= d; i += 16 * vectors) {                                                     \
    const void *later = ahead ? forward(ahead, i, type) : NULL;                                          \
    add_strip(p, n_items, forward(v, i, type), ldv, n, later, sums + i, ld_sums, vectors, 0xffff, type); \
  }
  if (n_items <= 2) {
    STRIPS(8)
  }
  if (n_items < 8 || type == CRN_CACHE_F32) {
    STRIPS(4)
  }
  STRIPS(2)
  STRIPS(1)
#undef STRIPS
  if (i < d) add_strip(p, n_items, forward(v, i, type), ldv, n, NULL, sums + i, ld_sums, 1, some16(d - i), type);
}

static void merge(float *total, const float *part, int64_t n_sums) {
  if (part[CRN_STATE_SEEN] == 0) return;
  if (total[CRN_STATE_SEEN] == 0) {
    for (int64_t d = 0; d < HEAD + n_sums; d += LANES) _mm512_storeu_ps(total + d, _mm512_loadu_ps(part + d));
    return;
  }
  float a = total[CRN_STATE_TOP], b = part[CRN_STATE_TOP], top = b > a ? b : a, base = top == -__builtin_inff() ? 0 : top;
  float keep = exp_one(a - base), take = exp_one(b - base);
  total[CRN_STATE_TOP] = top;
  total[CRN_STATE_SUM] = total[CRN_STATE_SUM] * keep + part[CRN_STATE_SUM] * take;
  __m512 k = _mm512_set1_ps(keep), t = _mm512_set1_ps(take);
  for (int64_t d = HEAD; d < HEAD + n_sums; d += LANES) {
    __m512 old = _mm512_mul_ps(_mm512_loadu_ps(total + d), k), more = _mm512_mul_ps(_mm512_loadu_ps(part + d), t);
    _mm512_storeu_ps(total + d, _mm512_add_ps(old, more));
  }
}

// Adding 0 makes a zero positive, whose sign would tell whether weights of 0 were added or left out.
static void finish(const float *state, const float *sink, int64_t d, float *out) {
  float top = state[CRN_STATE_TOP], denominator = state[CRN_STATE_SUM], keep = 1;
  if (sink) {
    float base = *sink > top ? *sink : top;
    keep = exp_one(top - base);
    denominator = denominator * keep + exp_one(*sink - base);
  }
  __m512 k = _mm512_set1_ps(keep), under = _mm512_set1_ps(denominator);
  for (int64_t i = 0; i < d; i += LANES) {
    __m512 v = _mm512_div_ps(_mm512_mul_ps(_mm512_loadu_ps(state + HEAD + i), k), under);
    _mm512_mask_storeu_ps(out + i, some16(d - i), _mm512_add_ps(v, _mm512_setzero_ps()));
  }
}

#define DEFINE(name, type)                                                                                                                 \
  static void widen_##name(const void *source, int64_t ld, int64_t n, int64_t d, float *target) { widen(source, ld, n, d, target, type); } \
  static void score_##name(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d, const void *ahead, \
                           float *out) {                                                                                                   \
    score(q, ldq, n_items, k, ldk, n_cols, d, ahead, out, type);                                                                           \
  }                                                                                                                                        \
  static void add_##name(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead, float *sums,    \
                         int64_t ld_sums) {                                                                                                \
    add(p, n_items, v, ldv, n, d, ahead, sums, ld_sums, type);                                                                             \
  }

DEFINE(f32, CRN_CACHE_F32)
DEFINE(f16, CRN_CACHE_F16)
DEFINE(bf16, CRN_CACHE_BF16)

static void dequantize(const int8_t *codes, float scale, int64_t n, float *target) {
  __m512 factor = _mm512_set1_ps(scale);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(codes + i)));
    _mm512_storeu_ps(target + i, _mm512_mul_ps(_mm512_cvtepi32_ps(wide), factor));
  }
  for (; i < n; i++) target[i] = (float)codes[i] * scale;
}

CRN_ATTENTION_DEFINE_PARTS(avx512)
