/// A growing array. `CRN_VEC(int) v` declares one; it is plain data: {items, size, capacity}.
#ifndef CRN_BASE_VEC_H
#define CRN_BASE_VEC_H

#include <string.h>

#include "base/alloc.h"

#define CRN_VEC(type)      \
  struct {                 \
    type *items;           \
    size_t size, capacity; \
  }

/// Makes room for `extra` more items. Evaluates to a cairn_status.
#define crn_vec_reserve(allocator, v, extra) \
  crn_vec_grow((allocator), (void **)&(v)->items, (v)->size, &(v)->capacity, sizeof *(v)->items, (extra))

/// Appends one item; on failure the vector is unchanged. Evaluates to a cairn_status.
#define crn_vec_push(allocator, v, item) \
  (crn_vec_reserve((allocator), (v), 1) == CAIRN_OK ? ((v)->items[(v)->size++] = (item), CAIRN_OK) : CAIRN_OUT_OF_MEMORY)

/// Removes the item at `at`; those behind it move up.
#define crn_vec_remove(v, at) memmove((v)->items + (at), (v)->items + (at) + 1, (--(v)->size - (size_t)(at)) * sizeof *(v)->items)

#define crn_vec_free(allocator, v)                                         \
  do {                                                                     \
    crn_free((allocator), (v)->items, (v)->capacity * sizeof *(v)->items); \
    (v)->items = NULL;                                                     \
    (v)->size = (v)->capacity = 0;                                         \
  } while (0)

cairn_status crn_vec_grow(const cairn_allocator *a, void **items, size_t size, size_t *capacity, size_t item_bytes, size_t extra);

#endif
