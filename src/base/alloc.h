/// Allocation through the caller's allocator. Sizes are checked; memory is not cleared unless said.
#ifndef CRN_BASE_ALLOC_H
#define CRN_BASE_ALLOC_H

#include "base/status.h"
#include "cairn/context.h"

enum { CRN_ALIGN = 64 };  ///< of every allocation: a cache line, enough for any vector load

/// The allocator used when the caller gives none.
const cairn_allocator *crn_default_allocator(void);

/// Allocates `bytes` (0 gives a unique pointer too). Errors: OUT_OF_MEMORY.
cairn_status crn_alloc(const cairn_allocator *a, size_t bytes, void *out_pointer);
/// As crn_alloc, cleared.
cairn_status crn_alloc_zero(const cairn_allocator *a, size_t bytes, void *out_pointer);
/// `count * size` bytes, cleared, checked.
cairn_status crn_alloc_array(const cairn_allocator *a, size_t count, size_t size, void *out_pointer);
/// Moves a block to a new size, keeping min(old, new) bytes. On failure the old block stays valid.
cairn_status crn_realloc(const cairn_allocator *a, void *in_out_pointer, size_t old_bytes, size_t new_bytes);
/// NULL is allowed.
void crn_free(const cairn_allocator *a, void *pointer, size_t bytes);
/// Copies `n` bytes and adds a NUL; free with crn_free(a, p, n + 1).
cairn_status crn_strndup(const cairn_allocator *a, const char *text, size_t n, char **out_copy);

#endif
