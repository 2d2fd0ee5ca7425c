/// Items (one row of one head), what they see, and where positions lie; shared by the drivers.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_ITEMS_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_ITEMS_H

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/attention/parts.h"

/// What stands for "excluded" in sums of rows that see nothing else.
#define CRN_ATTENTION_EXCLUDED -10000.0f

/// Sees positions [low, high) at most, without [hole_low, hole_high); low = high = 0 when its ranges leave none.
typedef struct crn_attention_item {
  int64_t row, head, low, high, hole_low, hole_high;
} crn_attention_item;

/// What the ranges of a row leave.
crn_attention_item crn_attention_item_whole(const crn_attention *a, int64_t row, int64_t head);
/// The same within the known extent of the mask.
crn_attention_item crn_attention_item_of(const crn_attention *a, int64_t row, int64_t head);

/// The positions [*low, *high) that rows [first, last] may see at most: ranges move with the rows, so that the first row begins and the
/// last row ends them. Empty when *high <= *low.
void crn_attention_rows_range(const crn_attention *a, int64_t first, int64_t last, int64_t *low, int64_t *high);

/// Bits [from, to) of a block of 64.
static inline uint64_t crn_attention_bits(int from, int to) {
  return to <= from ? 0 : ~(uint64_t)0 >> (CRN_ATTENTION_BLOCK - (to - from)) << from;
}

/// A bit for each position of the block at `first` that the item's ranges leave it.
uint64_t crn_attention_block_range(const crn_attention_item *item, int64_t first);

/// The same without those the mask, if there is one, excludes.
uint64_t crn_attention_block_alive(const crn_attention *a, const crn_attention_parts *parts, const crn_attention_item *item, int64_t first);
/// What the mask adds to the item's scores at positions of its range, to mask[64]; other elements are left alone.
void crn_attention_block_values(const crn_attention *a, const crn_attention_parts *parts, const crn_attention_item *item, int64_t first,
                                float *mask);

/// crn_attention_find_mask_extent with the parts to look with.
void crn_attention_extend_extent(crn_attention *a, const crn_attention_parts *parts);

static inline const void *crn_cache_at(const crn_cache_view *view, int64_t head, int64_t position) {
  int64_t in_page = position & (((int64_t)1 << view->page_shift) - 1);
  int64_t element = head * view->head_stride + in_page * view->position_stride;
  return (const char *)view->pages[position >> view->page_shift] + element * (view->type == CRN_CACHE_F32  ? 4
                                                                              : view->type == CRN_CACHE_I8 ? 1
                                                                                                           : 2);
}

/// How many positions from `position` on lie in one page, at most n.
static inline int64_t crn_cache_run(const crn_cache_view *view, int64_t position, int64_t n) {
  int64_t left = ((int64_t)1 << view->page_shift) - (position & (((int64_t)1 << view->page_shift) - 1));
  return left < n ? left : n;
}

#endif
