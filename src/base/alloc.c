#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void *malloc_alloc(void *self, size_t bytes, size_t align) {
  (void)self;
  void *p = NULL;
  if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1)) return NULL;
  return p;
}

static void malloc_free(void *self, void *pointer, size_t bytes) {
  (void)self;
  (void)bytes;
  free(pointer);
}

const cairn_allocator *crn_default_allocator(void) {
  static const cairn_allocator allocator = {NULL, malloc_alloc, malloc_free};
  return &allocator;
}

cairn_status crn_alloc(const cairn_allocator *a, size_t bytes, void *out_pointer) {
  void *p = a->alloc(a->self, bytes, CRN_ALIGN);
  *(void **)out_pointer = p;
  if (!p) return CRN_FAIL(OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
  return CAIRN_OK;
}

cairn_status crn_alloc_zero(const cairn_allocator *a, size_t bytes, void *out_pointer) {
  CRN_TRY(crn_alloc(a, bytes, out_pointer));
  memset(*(void **)out_pointer, 0, bytes);
  return CAIRN_OK;
}

cairn_status crn_alloc_array(const cairn_allocator *a, size_t count, size_t size, void *out_pointer) {
  size_t bytes;
  *(void **)out_pointer = NULL;
  if (!crn_mul_size(count, size, &bytes)) return CRN_FAIL(OUT_OF_MEMORY, "%zu elements of %zu bytes do not fit in memory", count, size);
  return crn_alloc_zero(a, bytes, out_pointer);
}

cairn_status crn_realloc(const cairn_allocator *a, void *in_out_pointer, size_t old_bytes, size_t new_bytes) {
  void *fresh = NULL, *old = *(void **)in_out_pointer;
  CRN_TRY(crn_alloc(a, new_bytes, &fresh));
  if (old) memcpy(fresh, old, old_bytes < new_bytes ? old_bytes : new_bytes);
  crn_free(a, old, old_bytes);
  *(void **)in_out_pointer = fresh;
  return CAIRN_OK;
}

void crn_free(const cairn_allocator *a, void *pointer, size_t bytes) {
  if (pointer) a->free(a->self, pointer, bytes);
}

cairn_status crn_strndup(const cairn_allocator *a, const char *text, size_t n, char **out_copy) {
  CRN_TRY(crn_alloc(a, n + 1, out_copy));
  if (n) memcpy(*out_copy, text, n);
  (*out_copy)[n] = 0;
  return CAIRN_OK;
}
