/// The driver of attention for many rows in the modes that round, and the loops it puts together: blocks of 128 positions, whose keys and
/// values are packed once for tiles of 32 items.
///
/// What is packed are numbers of `bytes` each, f32 or bf16, and of queries and keys their terms. In bf16 these have two, what bf16 holds of
/// them and what that leaves (of keys stored as bf16 nothing is left, and their second term is not there): rounded ones would cost models
/// of many layers thousandths of the cosine of their logits. Weights and values cost little. How packed numbers lie is the parts' own, but
/// blocks of 32 positions of keys are behind one another. Scores are in units of ln 2, so that weights are powers of 2.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_PACKED_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_PACKED_H

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/attention/parts.h"

enum { CRN_PACKED_BLOCK = 128, CRN_PACKED_ITEMS = 32 };

#define CRN_PACKED_LOG2E 1.44269504f

/// What is kept of an item between blocks.
typedef struct crn_packed_state {
  float top, sum;  ///< the reference of its weights, and their sum
  bool seen;
} crn_packed_state;

typedef struct crn_packed_parts {
  const crn_attention_parts *exact;  ///< for masks and rows with everything masked
  int bytes, query_terms, key_terms[CRN_CACHE_TYPES];
  void (*begin)(void);  ///< before the products of a job, on its thread
  void (*end)(void);
  /// q[d] * scale in its terms, each filled up with zeros to a multiple of 32, as item `item` of those at `out`, 32 of which are packed
  /// independently of others.
  void (*pack_query)(const float *q, int64_t d, float scale, void *out, int64_t item);
  /// n rows (a multiple of 16) of d elements. Values that are not finite are packed as 0 and their positions returned in the bits.
  void (*pack_keys[CRN_CACHE_TYPES])(const void *const *rows, int n, int64_t d, void *out);
  void (*pack_values[CRN_CACHE_TYPES])(const void *const *rows, int n, int64_t d, void *out, uint64_t *strange);
  /// scores[i * 128 + c] for 32 items and columns [from, to), multiples of 32; d is a multiple of 32. Keys have `key_terms` terms.
  void (*score)(const void *q, int64_t d, const void *keys, int key_terms, int from, int to, float *scores);
  /// scores[c] += mask[c] / ln 2 for c in [from, to), multiples of 32.
  void (*add_mask)(float *scores, const float *mask, int from, int to);
  /// Scores to packed weights for n items; columns outside [from, to) are not touched. live: two words an item; NULL = all.
  void (*soften)(float *scores, void *weights, const uint64_t *live, int n, int from, int to, crn_packed_state *states, float *sums,
                 int64_t ld_sums);
  /// sums[i][d] += weights[i][c] * value[c][d] for 32 items, d a multiple of 32 and also the distance of sums.
  void (*add)(const void *weights, const void *values, int from, int to, int64_t d, float *sums);
  void (*finish)(const crn_packed_state *state, const float *sums, const float *sink, int64_t d, float *out);
} crn_packed_parts;

extern const crn_packed_parts crn_packed_parts__amx, crn_packed_parts__avx512;

/// The one of AVX-512, of whatever numbers are packed (attention_packed__avx512.c).
void crn_packed_add_mask(float *scores, const float *mask, int from, int to);

/// Loops in bf16 that need no tiles (attention__avx512bf16.c): packed queries are d first terms and d second ones; packed keys for each 16
/// positions and each 32 features a tile of 16 pairs of features × 16 positions × 2 for each term; packed values for each 32 features and
/// each 32 positions two tiles of 16 pairs of positions × 16 features × 2. Both are what a tile product takes as its right side.
#define CRN_BF16_SHARED(type)                                                           \
  void crn_bf16_pack_keys_##type(const void *const *rows, int n, int64_t d, void *out); \
  void crn_bf16_pack_values_##type(const void *const *rows, int n, int64_t d, void *out, uint64_t *strange);
CRN_BF16_SHARED(f32)
CRN_BF16_SHARED(f16)
CRN_BF16_SHARED(bf16)
#undef CRN_BF16_SHARED
void crn_bf16_pack_query(const float *q, int64_t d, float scale, void *out, int64_t item);
void crn_bf16_soften(float *scores, void *weights, const uint64_t *live, int n, int from, int to, crn_packed_state *states, float *sums,
                     int64_t ld_sums);
void crn_bf16_finish(const crn_packed_state *state, const float *sums, const float *sink, int64_t d, float *out);

void crn_attention_plan_packed(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, crn_attention_plan *out);
void crn_attention_run_packed(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                              void *scratch, void *shared);
void crn_attention_merge_packed(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                                void *scratch, void *shared);

#endif
