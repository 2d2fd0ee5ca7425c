#include "base/vec.h"

#include "base/checked.h"

cairn_status crn_vec_grow(const cairn_allocator *a, void **items, size_t size, size_t *capacity, size_t item_bytes, size_t extra) {
  size_t need, bytes;
  if (!crn_add_size(size, extra, &need)) return CRN_FAIL(OUT_OF_MEMORY, "array of more than %zu items", size);
  if (need <= *capacity) return CAIRN_OK;
  size_t fresh = *capacity < 8 ? 8 : *capacity + *capacity / 2;
  if (fresh < need) fresh = need;
  if (!crn_mul_size(fresh, item_bytes, &bytes)) return CRN_FAIL(OUT_OF_MEMORY, "array of %zu items of %zu bytes", fresh, item_bytes);
  CRN_TRY(crn_realloc(a, items, *capacity * item_bytes, bytes));
  *capacity = fresh;
  return CAIRN_OK;
}
