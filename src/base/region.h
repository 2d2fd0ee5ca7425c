/// Large blocks of memory from the system: huge pages where the kernel gives them, cleared, never moved. For packed weights and
/// caches, whose reads are bound by memory and would otherwise pay for address translation.
#ifndef CRN_BASE_REGION_H
#define CRN_BASE_REGION_H

#include <stddef.h>

#include "base/alloc.h"

typedef struct crn_region_block crn_region_block;

/// Hands out pieces of large blocks; all are given back at once. Thread: one user at a time.
typedef struct crn_memory_region {
  crn_region_block *blocks;  ///< newest first
  size_t used_bytes;         ///< handed out
  size_t mapped_bytes;       ///< taken from the system
} crn_memory_region;

/// Cleared memory, aligned to 64 bytes. Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_memory_region_take(crn_memory_region *region, size_t bytes, void *out_pointer);
void crn_memory_region_release(crn_memory_region *region);

enum { CRN_HUGE_PAGE = 2 << 20 };  ///< bytes
/// As crn_alloc, aligned to a huge page, with huge pages for all of it that fills them where the system gives them: for memory of some
/// megabytes that is walked through in large steps. Freed with crn_free.
cairn_status crn_alloc_huge(const cairn_allocator *a, size_t bytes, void *out_pointer);

#endif
