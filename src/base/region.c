#include "base/region.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/checked.h"

enum { ALIGN = 64 };
static const size_t huge_page = (size_t)2 << 20, least_block = (size_t)16 << 20;

/// At the start of each block.
struct crn_region_block {
  crn_region_block *next;
  void *mapping;  ///< what the system gave, before the alignment to huge pages
  size_t mapping_bytes, bytes, used;
};

static bool round_up(size_t n, size_t to, size_t *out) {
  size_t sum;
  if (!crn_add_size(n, to - 1, &sum)) return false;
  *out = sum / to * to;
  return true;
}

static cairn_status add_block(crn_memory_region *r, size_t bytes) {
  size_t wanted, mapping_bytes;
  if (!crn_add_size(bytes, ALIGN + sizeof(crn_region_block), &wanted) ||
      !round_up(wanted < least_block ? least_block : wanted, huge_page, &wanted) || !crn_add_size(wanted, huge_page, &mapping_bytes)) {
    return CRN_FAIL(OUT_OF_RANGE, "a block of %zu bytes is too large", bytes);
  }
  void *mapping = mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return CRN_FAIL(OUT_OF_MEMORY, "no memory for a block of %zu bytes", bytes);
  uintptr_t start = ((uintptr_t)mapping + huge_page - 1) / huge_page * huge_page;
#ifdef MADV_HUGEPAGE
  // Only a wish: without huge pages all works, more slowly.
  madvise((void *)start, wanted, MADV_HUGEPAGE);
#endif
  crn_region_block *b = (crn_region_block *)start;
  *b = (crn_region_block){r->blocks, mapping, mapping_bytes, wanted, (sizeof *b + ALIGN - 1) / ALIGN * ALIGN};
  r->blocks = b;
  r->mapped_bytes += wanted;
  return CAIRN_OK;
}

cairn_status crn_alloc_huge(const cairn_allocator *a, size_t bytes, void *out_pointer) {
  void *p = a->alloc(a->self, bytes, CRN_HUGE_PAGE);
  *(void **)out_pointer = p;
  if (!p) return CRN_FAIL(OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
#ifdef MADV_HUGEPAGE
  // An allocator may know no such alignment; then the wish is not made.
  if ((uintptr_t)p % CRN_HUGE_PAGE == 0 && bytes >= CRN_HUGE_PAGE) madvise(p, bytes / CRN_HUGE_PAGE * CRN_HUGE_PAGE, MADV_HUGEPAGE);
#endif
  return CAIRN_OK;
}

cairn_status crn_memory_region_take(crn_memory_region *r, size_t bytes, void *out_pointer) {
  size_t rounded;
  if (!round_up(bytes, ALIGN, &rounded)) return CRN_FAIL(OUT_OF_RANGE, "a block of %zu bytes is too large", bytes);
  if (!r->blocks || r->blocks->bytes - r->blocks->used < rounded) CRN_TRY(add_block(r, rounded));
  crn_region_block *b = r->blocks;
  *(void **)out_pointer = (char *)b + b->used;
  b->used += rounded;
  r->used_bytes += rounded;
  return CAIRN_OK;
}

void crn_memory_region_release(crn_memory_region *r) {
  while (r->blocks) {
    crn_region_block *b = r->blocks;
    r->blocks = b->next;
    munmap(b->mapping, b->mapping_bytes);
  }
  r->used_bytes = r->mapped_bytes = 0;
}
