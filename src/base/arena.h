/// A bump allocator for data that lives and dies together. Nothing is freed piecemeal. Thread: one user at a time.
#ifndef CRN_BASE_ARENA_H
#define CRN_BASE_ARENA_H

#include "base/alloc.h"

typedef struct crn_arena_block crn_arena_block;

typedef struct crn_arena {
  const cairn_allocator *allocator;
  crn_arena_block *blocks;  ///< newest first
  size_t total_bytes;       ///< memory held
} crn_arena;

void crn_arena_initialize(crn_arena *arena, const cairn_allocator *allocator);
void crn_arena_deinitialize(crn_arena *arena);
/// Cleared memory, aligned to 16. Errors: OUT_OF_MEMORY.
cairn_status crn_arena_alloc(crn_arena *arena, size_t bytes, void *out_pointer);
cairn_status crn_arena_array(crn_arena *arena, size_t count, size_t size, void *out_pointer);
/// A NUL-terminated copy of `n` bytes.
cairn_status crn_arena_strndup(crn_arena *arena, const char *text, size_t n, const char **out_copy);

#endif
