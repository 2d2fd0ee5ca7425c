#include "backend/cpu/kernels/attention/items.h"

#include "tensor/half.h"

enum { BLOCK = CRN_ATTENTION_BLOCK };

crn_attention_item crn_attention_item_whole(const crn_attention *a, int64_t row, int64_t head) {
  int64_t own = a->positions - a->rows + row;
  crn_attention_item item = {.row = row, .head = head, .high = a->causal ? own + 1 : a->positions};
  if (a->window > 0) {
    item.low = own - a->window + 1;
    if (!a->causal && own < a->positions - a->window) item.high = own + a->window;
  }
  if (item.low < 0) item.low = 0;
  if (item.high <= item.low) item.low = item.high = 0;
  if (a->kept > 0) {
    item.hole_low = a->spared;
    item.hole_high = a->end - a->rows + row + 1 - a->kept;
  }
  return item;
}

crn_attention_item crn_attention_item_of(const crn_attention *a, int64_t row, int64_t head) {
  crn_attention_item item = crn_attention_item_whole(a, row, head);
  if (!a->mask || a->mask_high <= a->mask_low) return item;
  if (item.low < a->mask_low) item.low = a->mask_low;
  if (item.high > a->mask_high) item.high = a->mask_high;
  if (item.high <= item.low) item.low = item.high = 0;
  return item;
}

void crn_attention_rows_range(const crn_attention *a, int64_t first, int64_t last, int64_t *low, int64_t *high) {
  *low = crn_attention_item_whole(a, first, 0).low;
  *high = crn_attention_item_whole(a, last, 0).high;
  if (!a->mask || a->mask_high <= a->mask_low) return;
  if (*low < a->mask_low) *low = a->mask_low;
  if (*high > a->mask_high) *high = a->mask_high;
}

uint64_t crn_attention_block_range(const crn_attention_item *item, int64_t first) {
  int64_t from = item->low - first, to = item->high - first;
  if (from < 0) from = 0;
  if (to > BLOCK) to = BLOCK;
  uint64_t bits = from >= to ? 0 : crn_attention_bits((int)from, (int)to);
  if (item->hole_low >= item->hole_high) return bits;
  from = item->hole_low - first, to = item->hole_high - first;
  if (from < 0) from = 0;
  if (to > BLOCK) to = BLOCK;
  return from >= to ? bits : bits & ~crn_attention_bits((int)from, (int)to);
}

static float mask_element(const crn_attention *a, int64_t at) {
  switch (a->mask_type) {
    case CRN_CACHE_F32:
      return ((const float *)a->mask)[at];
    case CRN_CACHE_F16:
      return crn_f16_to_f32(((const uint16_t *)a->mask)[at]);
    case CRN_CACHE_BF16:
      return crn_bf16_to_f32(((const uint16_t *)a->mask)[at]);
    default:
      return ((const uint8_t *)a->mask)[at] ? 0 : CRN_ATTENTION_EXCLUDED;
  }
}

static const void *mask_at(const crn_attention *a, int64_t at) {
  int bytes = a->mask_type == CRN_CACHE_F32 ? 4 : a->mask_type == CRN_MASK_BOOL ? 1 : 2;
  return (const char *)a->mask + at * bytes;
}

// Bits of n <= 64 elements of the mask from `at` on.
static uint64_t alive_bits(const crn_attention *a, const crn_attention_parts *parts, int64_t at, int n) {
  if (a->mask_position_stride == 1) return parts->alive[a->mask_type](mask_at(a, at), n);
  uint64_t bits = 0;
  for (int c = 0; c < n; c++) bits |= (uint64_t) !(mask_element(a, at + c * a->mask_position_stride) <= CRN_ATTENTION_DEAD) << c;
  return bits;
}

static int64_t mask_offset(const crn_attention *a, const crn_attention_item *item, int64_t position) {
  return item->head * a->mask_head_stride + item->row * a->mask_row_stride + position * a->mask_position_stride;
}

uint64_t crn_attention_block_alive(const crn_attention *a, const crn_attention_parts *parts, const crn_attention_item *item,
                                   int64_t first) {
  uint64_t bits = crn_attention_block_range(item, first);
  if (!bits || !a->mask) return bits;
  int from = __builtin_ctzll(bits), to = BLOCK - __builtin_clzll(bits);
  return bits & alive_bits(a, parts, mask_offset(a, item, first + from), to - from) << from;
}

void crn_attention_block_values(const crn_attention *a, const crn_attention_parts *parts, const crn_attention_item *item, int64_t first,
                                float *mask) {
  uint64_t bits = crn_attention_block_range(item, first);
  if (!bits) return;
  int from = __builtin_ctzll(bits), to = BLOCK - __builtin_clzll(bits);
  int64_t at = mask_offset(a, item, first + from);
  if (a->mask_position_stride != 1 || a->mask_type == CRN_MASK_BOOL) {
    for (int c = from; c < to; c++) mask[c] = mask_element(a, at + (c - from) * a->mask_position_stride);
  } else if (from == 0) {
    parts->widen[a->mask_type](mask_at(a, at), 0, 1, to, mask);
  } else {
    // Widening fills up to a multiple of 16, which might be beyond the block here.
    float line[BLOCK];
    parts->widen[a->mask_type](mask_at(a, at), 0, 1, to - from, line);
    for (int c = from; c < to; c++) mask[c] = line[c - from];
  }
}

// Widens [a->mask_low, a->mask_high) to what a row of the mask leaves alive.
static void extend(crn_attention *a, const crn_attention_parts *parts, const crn_attention_item *item) {
  for (int64_t first = 0; first < a->positions; first += BLOCK) {
    int n = a->positions - first < BLOCK ? (int)(a->positions - first) : BLOCK;
    uint64_t bits = alive_bits(a, parts, mask_offset(a, item, first), n);
    if (!bits) continue;
    int64_t low = first + __builtin_ctzll(bits), high = first + BLOCK - __builtin_clzll(bits);
    if (low < a->mask_low) a->mask_low = low;
    if (high > a->mask_high) a->mask_high = high;
  }
}

void crn_attention_extend_extent(crn_attention *a, const crn_attention_parts *parts) {
  int64_t heads = a->mask_head_stride ? a->heads : 1, rows = a->mask_row_stride ? a->rows : 1;
  a->mask_low = a->positions, a->mask_high = 0;
  for (int64_t head = 0; head < heads; head++) {
    for (int64_t row = 0; row < rows; row++) extend(a, parts, &(crn_attention_item){.row = row, .head = head});
  }
  if (a->mask_high == 0) a->mask_low = 0;
}
