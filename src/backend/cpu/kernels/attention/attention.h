/// Attention over a cache of keys and values: out = softmax(q · kᵀ · scale + mask) · v for grouped heads.
///
/// Semantics (those of scaled_dot_product_attention's reference kernel):
/// - A row sees the positions its causal and window ranges allow and its mask does not exclude. A mask excludes where a boolean
///   is false or an added value is -9000 or less; such positions have the weight 0, and blocks of 64 positions that no row of
///   a job sees are not read. NaN and infinity in keys and values a row does not see do not reach it.
/// - Where nothing is left, all positions of the row's range (all positions at all when the range is empty) count, with the
///   mask's values (-10000 where a range or a boolean excludes) added and rounded to `value_type` as the program rounds them.
/// - NaN in a query or in a score stays in its row.
///
/// Guarantees:
/// - Mode exact: f32 arithmetic. The bits of a row depend on its query, its visible positions and their keys and values, and on
///   nothing else: not on the other rows, the kernel (few or many rows), workers, jobs, pages or the cache's capacity. All sets
///   with FMA give the same bits; the scalar set rounds products separately. Order of sums: dots in 16 lanes as in dot/dot.h;
///   online softmax in blocks of 64 and ranges of 256 absolute positions; values in rising positions; ranges merged in order.
/// - Mode bf16: queries, keys, weights and values are rounded to bf16 (queries and keys in two terms) or kept in f32 where that is as fast;
///   sums are f32 and in the order of the kernel. Bits do not depend on workers or pages, but may depend on the rows of the call.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Element types of caches and masks; a mask may also be of bytes, 0 = excluded.
enum { CRN_CACHE_F32, CRN_CACHE_F16, CRN_CACHE_BF16, CRN_CACHE_TYPES, CRN_MASK_BOOL = CRN_CACHE_TYPES };
/// A cache of int8 codes with scales: an element is code * scale in f32, and what is computed with it is what a cache of such f32 gives.
enum { CRN_CACHE_I8 = CRN_MASK_BOOL + 1 };

enum { CRN_ATTENTION_EXACT, CRN_ATTENTION_BF16 };

/// page_shift of a cache that is one page.
enum { CRN_CACHE_ONE_PAGE = 62 };

/// Keys or values of all heads: element (head h, position p, feature d) lies
/// h * head_stride + (p & ((1 << page_shift) - 1)) * position_stride + d elements behind pages[p >> page_shift].
typedef struct crn_cache_view {
  int type;
  const void *const *pages;
  int page_shift;
  int64_t head_stride, position_stride;
  /// Of CRN_CACHE_I8: the element that lies e elements behind pages[p] has the scale scales[p][(base + e) / group].
  const float *const *scales;
  int64_t base, group;
} crn_cache_view;

typedef struct crn_attention {
  int64_t heads, kv_heads, rows, key_size, value_size;
  int64_t positions;  ///< cached positions; row r stands at the absolute position positions - rows + r
  bool causal;
  int64_t window;  ///< 0 = none; a row sees positions > own - window (and, not causal, < own + window)
  /// With kept > 0, row r stands at the position end - rows + r and does not see those from `spared` on up to its own - kept: they are not
  /// read. (`positions` may count rows of the cache that are not used yet.)
  int64_t spared, kept, end;
  float scale;
  const float *q;
  int64_t q_row_stride, q_head_stride;
  crn_cache_view k, v;
  const float *sinks;  ///< one logit a head in the softmax's denominator, or NULL
  const void *mask;    ///< NULL = none; strides in elements, 0 = broadcast
  int mask_type;
  int64_t mask_head_stride, mask_row_stride, mask_position_stride;
  int64_t mask_low, mask_high;  ///< the mask excludes all positions outside [mask_low, mask_high) for all rows; 0, 0 = not known
  int value_type;               ///< what the program computes in (CRN_CACHE_…): only rows with everything masked depend on it
  float *out;
  int64_t out_row_stride, out_head_stride;
} crn_attention;

/// The work of one call. Jobs run in any order on any worker; when all are done, merge jobs (possibly 0) do likewise.
typedef struct crn_attention_plan {
  int64_t jobs, merge_jobs;
  size_t worker_bytes;                                         ///< scratch of each worker, 64-byte aligned; contents do not outlive a job
  size_t shared_bytes;                                         ///< one block for the call, 64-byte aligned; needs no initialization
  int64_t block_rows, first_span, n_spans, n_runs, job_heads;  ///< the kernel's own
} crn_attention_plan;

typedef struct crn_attention_kernel crn_attention_kernel;
struct crn_attention_kernel {
  const char *name;
  uint64_t isa;  ///< feature bits it needs
  int mode;
  int64_t min_items;  ///< serves calls of at least that many rows * (heads / kv_heads)
  /// Job and byte counts. Calls nothing and costs nothing worth avoiding: meant for every step. `n_workers` shapes jobs, not bits.
  void (*plan)(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, crn_attention_plan *out);
  void (*run)(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job, void *scratch,
              void *shared);
  void (*merge)(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job, void *scratch,
                void *shared);
  const void *parts;  ///< the family's own
};

/// The best kernel of this processor for a call. NULL where none serves it (no positions, sizes of 0, heads that do not divide, an
/// unknown type): the reference kernel is then to be asked. Data are not looked at. Thread: safe.
const crn_attention_kernel *crn_attention_select(int mode, const crn_attention *a);
/// Finds the smallest [mask_low, mask_high) of a call's mask and stores it there, so that a mask that many calls share (the layers of
/// a model) is walked once and calls do not look at the rest of a cache with room to spare. Reads the whole mask. Thread: safe.
void crn_attention_find_mask_extent(crn_attention *a);
/// All kernels of this build, for tests; `*out_n` of them, best first.
const crn_attention_kernel *crn_attention_list(int *out_n);

#endif
