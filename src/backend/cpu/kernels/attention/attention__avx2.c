#include <immintrin.h>

#include "backend/cpu/kernels/attention/parts.h"

// Everything below is inlined with constant tile sizes, so that accumulators live in registers. The 16 lanes of the contract are two
// registers: lanes 0 to 7 and lanes 8 to 15.
#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = CRN_ATTENTION_BLOCK, LANES = CRN_ATTENTION_LANES, HEAD = CRN_ATTENTION_HEAD };

INLINE __m256 load(const void *b, int64_t i, int type) {
  if (type == CRN_CACHE_F32) return _mm256_loadu_ps((const float *)b + i);
  __m128i h = _mm_loadu_si128((const __m128i *)((const uint16_t *)b + i));
  if (type == CRN_CACHE_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

INLINE const void *forward(const void *b, int64_t elements, int type) {
  return (const char *)b + elements * (type == CRN_CACHE_F32 ? 4 : 2);
}

// The last elements of a row, fewer than 16, in a block filled up with zeros. The barrier keeps the compiler from making a library
// call of the loop.
INLINE void copy_tail(const void *b, int64_t i, int64_t n, void *block, int type) {
  for (int64_t t = 0; t < n; t++) {
    if (type == CRN_CACHE_F32) {
      ((float *)block)[t] = ((const float *)b)[i + t];
    } else {
      ((uint16_t *)block)[t] = ((const uint16_t *)b)[i + t];
    }
    __asm__ volatile("" ::: "memory");
  }
}

// Tails and bytes are looked at one by one or eight at a time.
#define TAIL(type, excluded)             \
  for (; i < n; i++) {                   \
    type m = ((const type *)mask)[i];    \
    bits |= (uint64_t) !(excluded) << i; \
  }

static uint64_t alive_f32(const void *mask, int n) {
  uint64_t bits = 0;
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 m = _mm256_loadu_ps((const float *)mask + i);
    bits |= (uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(m, _mm256_set1_ps(CRN_ATTENTION_DEAD), _CMP_NLE_UQ)) << i;
  }
  TAIL(float, m <= CRN_ATTENTION_DEAD)
  return bits;
}

// Sixteen 16-bit floats: those whose bits are within [dead, lowest] exclude.
INLINE uint64_t alive16(const void *mask, int i, int dead, int lowest) {
  __m256i m = _mm256_loadu_si256((const __m256i *)((const uint16_t *)mask + i)), above = _mm256_set1_epi16((short)(lowest - dead));
  __m256i from_dead = _mm256_sub_epi16(m, _mm256_set1_epi16((short)dead));
  __m256i excluded = _mm256_cmpeq_epi16(_mm256_min_epu16(from_dead, above), from_dead);
  __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(excluded), _mm256_extracti128_si256(excluded, 1));
  return ~(unsigned)_mm_movemask_epi8(bytes) & 0xffff;
}

static uint64_t alive_f16(const void *mask, int n) {
  uint64_t bits = 0;
  int i = 0;
  for (; i + 16 <= n; i += 16) bits |= alive16(mask, i, CRN_ATTENTION_DEAD_F16, CRN_ATTENTION_LOWEST_F16) << i;
  TAIL(uint16_t, m >= CRN_ATTENTION_DEAD_F16 && m <= CRN_ATTENTION_LOWEST_F16)
  return bits;
}

static uint64_t alive_bf16(const void *mask, int n) {
  uint64_t bits = 0;
  int i = 0;
  for (; i + 16 <= n; i += 16) bits |= alive16(mask, i, CRN_ATTENTION_DEAD_BF16, CRN_ATTENTION_LOWEST_BF16) << i;
  TAIL(uint16_t, m >= CRN_ATTENTION_DEAD_BF16 && m <= CRN_ATTENTION_LOWEST_BF16)
  return bits;
}

static uint64_t alive_bool(const void *mask, int n) {
  uint64_t bits = 0;
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i m = _mm256_loadu_si256((const __m256i *)((const uint8_t *)mask + i));
    bits |= (uint64_t) ~(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(m, _mm256_setzero_si256())) << i;
  }
  TAIL(uint8_t, m == 0)
  return bits;
}

INLINE void widen(const void *source, int64_t ld, int64_t n, int64_t d, float *target, int type) {
  for (int64_t r = 0; r < n; r++) {
    const void *row = forward(source, r * ld, type);
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES, target += LANES) {
      _mm256_storeu_ps(target, load(row, i, type));
      _mm256_storeu_ps(target + 8, load(row, i + 8, type));
    }
    if (i < d) {
      float tail[LANES] = {0};
      copy_tail(row, i, d - i, tail, type);
      _mm256_storeu_ps(target, load(tail, 0, type));
      _mm256_storeu_ps(target + 8, load(tail, 8, type));
      target += LANES;
    }
  }
}

// --- scores ---------------------------------------------------------------------------------------------------------------

INLINE float fold(__m256 low, __m256 high) {
  __m256 w = _mm256_add_ps(low, high);
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

// The folds of four dots, 16 → 8 → 4 → 2 → 1, adding lane i and lane i + half.
INLINE __m128 fold4(const __m256 (*a)[2]) {
  __m128 s[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    __m256 w = _mm256_add_ps(a[i][0], a[i][1]);
    s[i] = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
  }
  __m128 t0 = _mm_add_ps(_mm_movelh_ps(s[0], s[1]), _mm_movehl_ps(s[1], s[0]));
  __m128 t1 = _mm_add_ps(_mm_movelh_ps(s[2], s[3]), _mm_movehl_ps(s[3], s[2]));
  return _mm_add_ps(_mm_shuffle_ps(t0, t1, 0x88), _mm_shuffle_ps(t0, t1, 0xdd));
}

INLINE void score_step(const float *q, int64_t ldq, const void *const *rows, int64_t at, int64_t i, __m256 (*acc)[2], int items, int cols,
                       int type) {
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    __m256 w[4];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) w[c] = load(rows[c], at + 8 * h, type);
#pragma GCC unroll 2
    for (int r = 0; r < items; r++) {
      __m256 x = _mm256_loadu_ps(q + r * ldq + i + 8 * h);
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) acc[r * cols + c][h] = _mm256_fmadd_ps(x, w[c], acc[r * cols + c][h]);
    }
  }
}

// Items × columns are 4, or 1.
INLINE void score_tile(const float *q, int64_t ldq, const void *k, int64_t ldk, int64_t d, const void *ahead, float *out, int items,
                       int cols, int type) {
  __m256 acc[4][2];
  const void *rows[4];
#pragma GCC unroll 4
  for (int n = 0; n < 4; n++) acc[n][0] = acc[n][1] = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int c = 0; c < cols; c++) rows[c] = forward(k, c * ldk, type);
  int64_t i = 0;
  for (; i + LANES <= d; i += LANES) {
    if (ahead) {
#pragma GCC unroll 4
      for (int c = 0; c < cols; c++) _mm_prefetch(forward(ahead, c * ldk + i, type), _MM_HINT_T1);
    }
    score_step(q, ldq, rows, i, i, acc, items, cols, type);
  }
  if (i < d) {
    float tails[4][LANES] = {{0}};
    for (int c = 0; c < cols; c++) copy_tail(rows[c], i, d - i, tails[c], type), rows[c] = tails[c];
    score_step(q, ldq, rows, 0, i, acc, items, cols, type);
  }
  if (items * cols == 1) {
    out[0] = fold(acc[0][0], acc[0][1]);
    return;
  }
  __m128 dots = fold4(acc);
  if (cols == 4) {
    _mm_storeu_ps(out, dots);
  } else {
    _mm_storel_pi((__m64 *)out, dots);
    _mm_storeh_pi((__m64 *)(out + BLOCK), dots);
  }
}

INLINE void score(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d, const void *ahead,
                  float *out, int type) {
  int c = 0;
  if (n_items == 1) {
    for (; c + 4 <= n_cols; c += 4) {
      score_tile(q, ldq, forward(k, c * ldk, type), ldk, d, ahead ? forward(ahead, c * ldk, type) : NULL, out + c, 1, 4, type);
    }
  }
  for (; c + 2 <= n_cols; c += 2) {
    const void *keys = forward(k, c * ldk, type), *later = ahead ? forward(ahead, c * ldk, type) : NULL;
    int r = 0;
    for (; r + 2 <= n_items; r += 2) {
      score_tile(q + r * ldq, ldq, keys, ldk, d, r == 0 ? later : NULL, out + r * BLOCK + c, 2, 2, type);
    }
    if (r < n_items) {
      score_tile(q + r * ldq, ldq, keys, ldk, d, NULL, out + r * BLOCK + c, 1, 1, type);
      score_tile(q + r * ldq, ldq, forward(keys, ldk, type), ldk, d, NULL, out + r * BLOCK + c + 1, 1, 1, type);
    }
  }
  for (; c < n_cols; c++) {
    for (int r = 0; r < n_items; r++) {
      score_tile(q + r * ldq, ldq, forward(k, c * ldk, type), ldk, d, NULL, out + r * BLOCK + c, 1, 1, type);
    }
  }
}

// --- softmax --------------------------------------------------------------------------------------------------------------

INLINE __m256 exp_down(__m256 x) {
  const __m256 rounder = _mm256_set1_ps(CRN_EXP_ROUNDER);
  __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(CRN_EXP_LOG2E), rounder), n = _mm256_sub_ps(t, rounder);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(CRN_EXP_LN2_HIGH), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(CRN_EXP_LN2_LOW), r);
  __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(CRN_EXP_Q4), r, _mm256_set1_ps(CRN_EXP_Q3));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(CRN_EXP_Q2));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(CRN_EXP_Q1));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(CRN_EXP_Q0));
  __m256 e = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r), _mm256_set1_ps(1));
  __m256i bits = _mm256_add_epi32(_mm256_castps_si256(e), _mm256_slli_epi32(_mm256_castps_si256(t), 23));
  __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(CRN_EXP_LOWEST), _CMP_NLT_UQ), is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_blendv_ps(_mm256_and_ps(above, _mm256_castsi256_ps(bits)), x, is_nan);
}

INLINE float exp_one(float x) { return _mm256_cvtss_f32(exp_down(_mm256_set1_ps(x))); }

// Eight bits to lanes of all ones or zeros.
INLINE __m256 lanes_of(uint64_t bits) {
  const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits & 255)), each), each));
}

INLINE float most_of(__m256 v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

static void soften(float *scores, const uint64_t *live, int n_items, float *states, int64_t ld_state, int64_t n_sums) {
  const float lowest = -__builtin_inff();
  for (int i = 0; i < n_items; i++) {
    float *s = scores + i * BLOCK, *state = states + i * ld_state, before = state[CRN_STATE_TOP], factor = 1;
    __m256 most = _mm256_set1_ps(before), sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int c = 0; c < BLOCK; c += 8) {
      __m256 v = _mm256_blendv_ps(_mm256_set1_ps(lowest), _mm256_loadu_ps(s + c), lanes_of(live[i] >> c));
      most = _mm256_max_ps(v, most);  // NaN gives way to the second operand: the top never is one
    }
    float top = most_of(most), base = top == lowest ? 0 : top;
    for (int c = 0; c < BLOCK; c += 16) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++) {
        __m256 p = exp_down(_mm256_sub_ps(_mm256_loadu_ps(s + c + 8 * h), _mm256_set1_ps(base)));
        p = _mm256_and_ps(p, lanes_of(live[i] >> (c + 8 * h)));
        sum[h] = _mm256_add_ps(sum[h], p);
        _mm256_storeu_ps(s + c + 8 * h, p);
      }
    }
    if (top != before) {
      factor = exp_one(before - base);
      __m256 f = _mm256_set1_ps(factor);
      for (int64_t d = HEAD; d < HEAD + n_sums; d += 8) _mm256_storeu_ps(state + d, _mm256_mul_ps(_mm256_loadu_ps(state + d), f));
    }
    state[CRN_STATE_TOP] = top;
    state[CRN_STATE_SUM] = state[CRN_STATE_SUM] * factor + fold(sum[0], sum[1]);
    state[CRN_STATE_FACTOR] = factor;
    if (live[i]) state[CRN_STATE_SEEN] = 1;
  }
}

// --- values ---------------------------------------------------------------------------------------------------------------

// The sums of `items` items in `vectors` registers each, over all positions.
INLINE void add_tile(const float *p, const void *v, int64_t ldv, int64_t n, const void *ahead, float *sums, int64_t ld_sums, int items,
                     int vectors, int type) {
  __m256 acc[8];
#pragma GCC unroll 4
  for (int r = 0; r < items; r++) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) acc[r * vectors + j] = _mm256_loadu_ps(sums + r * ld_sums + 8 * j);
  }
  for (int64_t c = 0; c < n; c++) {
    const void *row = forward(v, c * ldv, type);
    if (ahead) {
      for (int j = 0; j < vectors; j += type == CRN_CACHE_F32 ? 2 : 4) _mm_prefetch(forward(ahead, c * ldv + 8 * j, type), _MM_HINT_T1);
    }
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
      __m256 w = load(row, 8 * j, type);
#pragma GCC unroll 4
      for (int r = 0; r < items; r++) acc[r * vectors + j] = _mm256_fmadd_ps(_mm256_set1_ps(p[r * BLOCK + c]), w, acc[r * vectors + j]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < items; r++) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) _mm256_storeu_ps(sums + r * ld_sums + 8 * j, acc[r * vectors + j]);
  }
}

INLINE void add_strip(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, const void *ahead, float *sums, int64_t ld_sums,
                      int vectors, int type) {
  int r = 0;
  if (vectors <= 2) {
    for (; r + 4 <= n_items; r += 4) {
      add_tile(p + r * BLOCK, v, ldv, n, r == 0 ? ahead : NULL, sums + r * ld_sums, ld_sums, 4, vectors, type);
    }
  }
  for (; r < n_items; r++) add_tile(p + r * BLOCK, v, ldv, n, r == 0 ? ahead : NULL, sums + r * ld_sums, ld_sums, 1, vectors, type);
}

// The last values, fewer than 8.
INLINE void add_tail(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t left, float *sums, int64_t ld_sums,
                     int type) {
  for (int64_t c = 0; c < n; c++) {
    float tail[8] = {0};
    copy_tail(forward(v, c * ldv, type), 0, left, tail, type);
    __m256 w = load(tail, 0, type);
    for (int r = 0; r < n_items; r++) {
      float *sum = sums + r * ld_sums;
      _mm256_storeu_ps(sum, _mm256_fmadd_ps(_mm256_set1_ps(p[r * BLOCK + c]), w, _mm256_loadu_ps(sum)));
    }
  }
}

INLINE void add(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead, float *sums,
                int64_t ld_sums, int type) {
  int64_t i = 0;
#define STRIPS(vectors)                                                                                                           \
  for (; i + 8 * vectors <= d; i += 8 * vectors) {                                                                                \
    add_strip(p, n_items, forward(v, i, type), ldv, n, ahead ? forward(ahead, i, type) : NULL, sums + i, ld_sums, vectors, type); \
  }
  if (n_items == 1) {
    STRIPS(8)
    STRIPS(4)
  }
  STRIPS(2)
  STRIPS(1)
#undef STRIPS
  if (i < d) add_tail(p, n_items, forward(v, i, type), ldv, n, d - i, sums + i, ld_sums, type);
}

static void merge(float *total, const float *part, int64_t n_sums) {
  if (part[CRN_STATE_SEEN] == 0) return;
  if (total[CRN_STATE_SEEN] == 0) {
    for (int64_t d = 0; d < HEAD + n_sums; d += 8) _mm256_storeu_ps(total + d, _mm256_loadu_ps(part + d));
    return;
  }
  float a = total[CRN_STATE_TOP], b = part[CRN_STATE_TOP], top = b > a ? b : a, base = top == -__builtin_inff() ? 0 : top;
  float keep = exp_one(a - base), take = exp_one(b - base);
  total[CRN_STATE_TOP] = top;
  total[CRN_STATE_SUM] = total[CRN_STATE_SUM] * keep + part[CRN_STATE_SUM] * take;
  __m256 k = _mm256_set1_ps(keep), t = _mm256_set1_ps(take);
  for (int64_t d = HEAD; d < HEAD + n_sums; d += 8) {
    __m256 old = _mm256_mul_ps(_mm256_loadu_ps(total + d), k), more = _mm256_mul_ps(_mm256_loadu_ps(part + d), t);
    _mm256_storeu_ps(total + d, _mm256_add_ps(old, more));
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
  int64_t i = 0;
  for (; i + 8 <= d; i += 8) {
    __m256 v = _mm256_div_ps(_mm256_mul_ps(_mm256_loadu_ps(state + HEAD + i), _mm256_set1_ps(keep)), _mm256_set1_ps(denominator));
    _mm256_storeu_ps(out + i, _mm256_add_ps(v, _mm256_setzero_ps()));
  }
  for (; i < d; i++) out[i] = state[HEAD + i] * keep / denominator + 0.0f;
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
  __m256 factor = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(codes + i)));
    _mm256_storeu_ps(target + i, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), factor));
  }
  for (; i < n; i++) target[i] = (float)codes[i] * scale;
}

CRN_ATTENTION_DEFINE_PARTS(avx2)
