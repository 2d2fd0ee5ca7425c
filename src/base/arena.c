#include "base/arena.h"

#include <string.h>

#include "base/checked.h"

enum { BLOCK_BYTES = 64 * 1024 - 64, ARENA_ALIGN = 16 };

struct crn_arena_block {
  crn_arena_block *next;
  size_t capacity, used;  // bytes behind the header
  _Alignas(ARENA_ALIGN) unsigned char data[];
};

void crn_arena_initialize(crn_arena *arena, const cairn_allocator *allocator) {
  *arena = (crn_arena){.allocator = allocator ? allocator : crn_default_allocator()};
}

void crn_arena_deinitialize(crn_arena *arena) {
  for (crn_arena_block *b = arena->blocks; b;) {
    crn_arena_block *next = b->next;
    crn_free(arena->allocator, b, sizeof *b + b->capacity);
    b = next;
  }
  arena->blocks = NULL;
  arena->total_bytes = 0;
}

static cairn_status add_block(crn_arena *arena, size_t capacity) {
  size_t bytes;
  if (!crn_add_size(sizeof(crn_arena_block), capacity, &bytes)) return CRN_FAIL(OUT_OF_MEMORY, "block of %zu bytes is too large", capacity);
  crn_arena_block *b;
  CRN_TRY(crn_alloc(arena->allocator, bytes, &b));
  b->capacity = capacity;
  b->used = 0;
  // A large block goes behind the current one, so that the room left in the current one stays in use.
  if (arena->blocks && capacity > BLOCK_BYTES) {
    b->next = arena->blocks->next;
    arena->blocks->next = b;
  } else {
    b->next = arena->blocks;
    arena->blocks = b;
  }
  arena->total_bytes += bytes;
  return CAIRN_OK;
}

cairn_status crn_arena_alloc(crn_arena *arena, size_t bytes, void *out_pointer) {
  size_t need;
  *(void **)out_pointer = NULL;
  if (!crn_align_size(bytes, ARENA_ALIGN, &need)) return CRN_FAIL(OUT_OF_MEMORY, "block of %zu bytes is too large", bytes);
  crn_arena_block *b = arena->blocks;
  if (!b || b->capacity - b->used < need) {
    CRN_TRY(add_block(arena, need > BLOCK_BYTES ? need : BLOCK_BYTES));
    b = arena->blocks;
    if (b->capacity - b->used < need) b = b->next;
  }
  void *p = b->data + b->used;
  b->used += need;
  memset(p, 0, need);
  *(void **)out_pointer = p;
  return CAIRN_OK;
}

cairn_status crn_arena_array(crn_arena *arena, size_t count, size_t size, void *out_pointer) {
  size_t bytes;
  *(void **)out_pointer = NULL;
  if (!crn_mul_size(count, size, &bytes)) return CRN_FAIL(OUT_OF_MEMORY, "%zu elements of %zu bytes do not fit in memory", count, size);
  return crn_arena_alloc(arena, bytes, out_pointer);
}

cairn_status crn_arena_strndup(crn_arena *arena, const char *text, size_t n, const char **out_copy) {
  char *p;
  CRN_TRY(crn_arena_alloc(arena, n + 1, &p));
  if (n) memcpy(p, text, n);
  *out_copy = p;
  return CAIRN_OK;
}
