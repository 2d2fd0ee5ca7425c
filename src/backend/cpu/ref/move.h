/// Moving elements of any type between strided places: what copies, joins, pads and gathers are made of.
#ifndef CRN_BACKEND_CPU_REF_MOVE_H
#define CRN_BACKEND_CPU_REF_MOVE_H

#include <stdatomic.h>

#include "base/pool.h"
#include "tensor/tensor.h"

enum {
  CRN_MOVE_MAX_RANK = 2 * CAIRN_MAX_RANK,  ///< tile splits every dimension in two
  CRN_MOVE_GRAIN = 1 << 16                 ///< elements below which a loop is not worth a second thread
};

/// Copies all elements at the index tuples of `dims` from one strided place to another; they must not overlap. Strides are in
/// elements of `element_bytes` (1, 2, 4, 8 or 16). `pool` may be NULL.
void crn_move(crn_pool *pool, size_t element_bytes, int rank, const int64_t *dims, const void *source, const int64_t *source_strides,
              void *target, const int64_t *target_strides);

/// As crn_move between tensors of equal shape and type.
void crn_move_tensor(crn_pool *pool, const crn_tensor *source, const crn_tensor *target);

/// Copies `source` in row-major order into contiguous memory.
void crn_move_contiguous(crn_pool *pool, const crn_tensor *source, void *target);

/// Sets `n` consecutive elements to the same value.
void crn_move_fill(crn_pool *pool, size_t element_bytes, const void *value, void *target, int64_t n);

/// Copies one element.
static inline void crn_move_element(size_t element_bytes, const void *source, void *target) {
  switch (element_bytes) {
    case 1:
      *(uint8_t *)target = *(const uint8_t *)source;
      break;
    case 2:
      *(uint16_t *)target = *(const uint16_t *)source;
      break;
    case 4:
      *(uint32_t *)target = *(const uint32_t *)source;
      break;
    case 8:
      *(uint64_t *)target = *(const uint64_t *)source;
      break;
    default:
      __builtin_memcpy(target, source, element_bytes);
  }
}

/// The number of items one thread should take at least when an item stands for `elements` elements.
static inline int64_t crn_move_grain(int64_t elements) {
  return elements < CRN_MOVE_GRAIN ? CRN_MOVE_GRAIN / (elements > 0 ? elements : 1) : 1;
}

/// The index tuple of a row-major position, and its offset under given strides.
static inline int64_t crn_move_unravel(int rank, const int64_t *dims, const int64_t *strides, int64_t position, int64_t *out_index) {
  int64_t offset = 0;
  for (int i = rank - 1; i >= 0; i--) {
    int64_t at = position % dims[i];
    position /= dims[i];
    offset += at * strides[i];
    if (out_index) out_index[i] = at;
  }
  return offset;
}

/// Remembers the smallest position at which a parallel loop found something wrong.
typedef struct crn_first_bad {
  _Atomic int64_t position;  ///< INT64_MAX = none
} crn_first_bad;

static inline void crn_first_bad_note(crn_first_bad *bad, int64_t position) {
  int64_t seen = atomic_load_explicit(&bad->position, memory_order_relaxed);
  while (position < seen &&
         !atomic_compare_exchange_weak_explicit(&bad->position, &seen, position, memory_order_relaxed, memory_order_relaxed)) {
  }
}

#endif
