/// The loops of exact attention that each instruction set has of its own; exact.c puts them together.
///
/// An item is one row of one head. Its state is an array of floats: the four below, then from STATE_HEAD on the sums over
/// the values, `value_size` rounded up to 16 of them. Scores and weights of a block are 64 floats an item.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_PARTS_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_PARTS_H

#include <stdint.h>

#include "backend/cpu/kernels/attention/attention.h"

enum { CRN_ATTENTION_BLOCK = 64, CRN_ATTENTION_SPAN = 256, CRN_ATTENTION_LANES = 16, CRN_ATTENTION_HEAD = 16 };

/// Largest score, sum of weights relative to it, factor of the last rescaling, and whether any position was seen (0 or 1).
enum { CRN_STATE_TOP, CRN_STATE_SUM, CRN_STATE_FACTOR, CRN_STATE_SEEN };

typedef struct crn_attention_parts {
  /// Bit i: element i < n <= 64 of a mask does not exclude its position (it is not -9000 or less; a byte is not 0).
  uint64_t (*alive[CRN_CACHE_TYPES + 1])(const void *mask, int n);
  /// Rows of d elements, ld apart, to f32 rows filled up with zeros to a multiple of 16, which is their distance.
  void (*widen[CRN_CACHE_TYPES])(const void *source, int64_t ld, int64_t n, int64_t d, float *target);
  /// target[i] = codes[i] * scale for i < n.
  void (*dequantize)(const int8_t *codes, float scale, int64_t n, float *target);
  /// out[i * 64 + c] = q[i] · k[c] for c < n_cols in the order of dot/dot.h. Rows of q are padded with zeros to a multiple of 16.
  /// `ahead`, if not NULL: as many rows as k's, to be read soon, which the processor is asked to fetch meanwhile.
  void (*score[CRN_CACHE_TYPES])(const float *q, int64_t ldq, int n_items, const void *k, int64_t ldk, int n_cols, int64_t d,
                                 const void *ahead, float *out);
  /// Scores of a block to weights relative to the largest score so far; live has a bit for each position seen, others get weight 0.
  /// Sums add in lanes of position mod 16, folded 8, 4, 2, 1. States, n_sums sums each, are rescaled where the top rises.
  void (*soften)(float *scores, const uint64_t *live, int n_items, float *states, int64_t ld_state, int64_t n_sums);
  /// sums[i][d] += p[i * 64 + c] * v[c][d] in rising c < n. `ahead` as above.
  void (*add[CRN_CACHE_TYPES])(const float *p, int n_items, const void *v, int64_t ldv, int64_t n, int64_t d, const void *ahead,
                               float *sums, int64_t ld_sums);
  /// Takes the state of a later range into the total of those before.
  void (*merge)(float *total, const float *part, int64_t n_sums);
  /// out[d] = sums[d] / denominator, the denominator with the sink's share where sink is not NULL.
  void (*finish)(const float *state, const float *sink, int64_t d, float *out);
} crn_attention_parts;

// Added values that exclude: as f32, and as ranges of the bits of f16 and bf16, down to -inf.
#define CRN_ATTENTION_DEAD -9000.0f
#define CRN_ATTENTION_DEAD_F16 0xf065
#define CRN_ATTENTION_DEAD_BF16 0xc60d
#define CRN_ATTENTION_LOWEST_F16 0xfc00
#define CRN_ATTENTION_LOWEST_BF16 0xff80

// The exponential function of the family, for arguments up to 0: 2^n * (1 + r + r² * q(r)), r within ±ln 2 / 2, 0 below -86.
#define CRN_EXP_LOWEST -86.0f
#define CRN_EXP_LOG2E 0x1.715476p+0f
#define CRN_EXP_LN2_HIGH 0x1.62e4p-1f
#define CRN_EXP_LN2_LOW 0x1.7f7d1cp-20f
#define CRN_EXP_ROUNDER 0x1.8p23f
#define CRN_EXP_Q0 0x1.fffffcp-2f
#define CRN_EXP_Q1 0x1.555492p-3f
#define CRN_EXP_Q2 0x1.5558f2p-5f
#define CRN_EXP_Q3 0x1.1239e2p-7f
#define CRN_EXP_Q4 0x1.6a2434p-10f

/// Defines crn_attention_parts__<isa> out of static functions named alive_f32, widen_f32, dequantize, score_f16 … soften, merge, finish.
#define CRN_ATTENTION_DEFINE_PARTS(isa)                                                                   \
  const crn_attention_parts crn_attention_parts__##isa = {{alive_f32, alive_f16, alive_bf16, alive_bool}, \
                                                          {widen_f32, widen_f16, widen_bf16},             \
                                                          dequantize,                                     \
                                                          {score_f32, score_f16, score_bf16},             \
                                                          soften,                                         \
                                                          {add_f32, add_f16, add_bf16},                   \
                                                          merge,                                          \
                                                          finish};

extern const crn_attention_parts crn_attention_parts__scalar, crn_attention_parts__avx2, crn_attention_parts__avx512,
    crn_attention_parts__neon;

#endif
