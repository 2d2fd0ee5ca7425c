// Which positions a mask leaves to see. A mask may be as long as a cache that is nearly empty, so what is hidden is passed over a block of
// elements at a time, in memory order where positions are the slowest dimension.
#include <string.h>

#include "backend/cpu/fused/attention.h"
#include "program/infer/dims.h"

enum { BLOCK = 64 };

cairn_status crn_infer_fused_extent(const crn_infer_args *args) {
  int64_t n = CRN_EXTENT_VALUES;
  return crn_infer_finish(args, 0, CAIRN_SI64, 1, &n);
}

// An added value excludes as the attention kernels say: -9000 or less.
static bool excludes(const crn_tensor *mask, int64_t offset) {
  const void *element = crn_tensor_at(mask, offset);
  switch (mask->dtype) {
    case CAIRN_BOOL:
      return *(const uint8_t *)element == 0;
    case CAIRN_F16: {
      // Negative, and 9000 or more in size: the pattern of 9000 is 0x7065. NaN excludes nothing.
      uint16_t bits;
      memcpy(&bits, element, sizeof bits);
      return bits >= 0xF065 && bits <= 0xFC00;
    }
    default:
      return crn_load_f64(mask->dtype, element) <= -9000.0;
  }
}

// Whether a whole block is excluded. Loops of a length that is known, which compilers make wide.
static bool excludes_block(const crn_tensor *mask, int64_t offset) {
  const void *p = crn_tensor_at(mask, offset);
  if (mask->dtype == CAIRN_BOOL) {
    const uint8_t *bytes = p;
    uint8_t any = 0;
    for (int i = 0; i < BLOCK; i++) any |= bytes[i];
    return any == 0;
  }
  if (mask->dtype == CAIRN_F16) {
    const uint16_t *bits = p;
    uint16_t any = 0;
    for (int i = 0; i < BLOCK; i++) any |= (uint16_t)((uint16_t)(bits[i] - 0xF065) > 0xFC00 - 0xF065);
    return any == 0;
  }
  if (mask->dtype == CAIRN_F32) {
    const float *values = p;
    int any = 0;
    for (int i = 0; i < BLOCK; i++) any |= !(values[i] <= -9000.0f);
    return any == 0;
  }
  for (int i = 0; i < BLOCK; i++) {
    if (!excludes(mask, offset + i)) return false;
  }
  return true;
}

// The first of [from, end) elements, `step` apart from `base` on, that is not excluded; `end` when there is none.
static int64_t find_first(const crn_tensor *mask, int64_t base, int64_t step, int64_t from, int64_t end) {
  int64_t i = from;
  while (step == 1 && i + BLOCK <= end && excludes_block(mask, base + i)) i += BLOCK;
  while (i < end && excludes(mask, base + i * step)) i++;
  return i;
}

// Behind the last of them; `from` when there is none.
static int64_t find_end(const crn_tensor *mask, int64_t base, int64_t step, int64_t from, int64_t end) {
  int64_t i = end;
  while (step == 1 && i - BLOCK >= from && excludes_block(mask, base + i - BLOCK)) i -= BLOCK;
  while (i > from && excludes(mask, base + (i - 1) * step)) i--;
  return i;
}

// How many elements lie behind one another for each position, where all of a position lie together and in front of those of the next;
// else 0. Rows that are one and the same in memory count once.
static int64_t position_size(const crn_tensor *mask, int axis) {
  int64_t size = 1;
  for (int d = mask->rank - 1; d >= 0; d--) {
    if (d == axis || mask->dims[d] == 1 || mask->strides[d] == 0) continue;
    if (mask->strides[d] != size) return 0;
    size *= mask->dims[d];
  }
  return mask->strides[axis] == size ? size : 0;
}

cairn_status crn_fused_extent_run(const crn_kernel_args *args) {
  const crn_fused_extent *f = args->fused;
  const crn_tensor *mask = &args->operands[0];
  int64_t *extent = args->results[0].data, dims[CAIRN_MAX_RANK];
  const int axis = mask->rank - 1 - f->position_axis;
  const int64_t n = mask->dims[axis], step = mask->strides[axis], size = position_size(mask, axis);
  int64_t first = n, end = 0, from = 0, to = n;
  bool all_see = true;
  if (size > 1) {
    // No row sees anything outside of what any row sees.
    from = find_first(mask, 0, 1, 0, n * size) / size;
    to = (find_end(mask, 0, 1, from * size, n * size) + size - 1) / size;
  }
  for (int d = 0; d < mask->rank; d++) dims[d] = d == axis || (mask->strides[d] == 0 && mask->dims[d] > 0) ? 1 : mask->dims[d];
  crn_nd_iter it;
  crn_nd_initialize(&it, mask->rank, dims);
  crn_nd_operand(&it, mask->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    const int64_t row = it.offset[0], seen = find_first(mask, row, step, from, to);
    all_see &= seen < to;
    if (seen == to) continue;
    if (seen < first) first = seen;
    // What lies behind the end of another row is all that may move the end.
    end = find_end(mask, row, step, end > seen ? end : seen, to);
  }
  const bool is_empty = end <= first;
  extent[0] = is_empty ? 0 : first;
  extent[1] = is_empty ? 0 : end;
  extent[2] = (all_see || args->blind_rows_unused) && !is_empty;
  return CAIRN_OK;
}
