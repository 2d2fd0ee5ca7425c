#include "engines/llm/history.h"

#include <string.h>

#include "base/checked.h"
#include "base/status.h"

void crn_history_initialize(crn_history *h, const cairn_allocator *allocator) { *h = (crn_history){.allocator = allocator}; }

void crn_history_deinitialize(crn_history *h) {
  crn_free(h->allocator, h->tokens, (size_t)h->capacity * sizeof *h->tokens);
  crn_history_initialize(h, h->allocator);
}

cairn_status crn_history_reserve(crn_history *h, int64_t n) {
  if (n <= h->capacity) return CAIRN_OK;
  int64_t capacity = n < 2 * h->capacity ? 2 * h->capacity : n;
  size_t bytes;
  if (!crn_mul_size((size_t)capacity, sizeof *h->tokens, &bytes)) return CRN_FAIL(OUT_OF_MEMORY, "a history of %lld tokens", (long long)n);
  CRN_TRY(crn_realloc(h->allocator, &h->tokens, (size_t)h->capacity * sizeof *h->tokens, bytes));
  h->capacity = capacity;
  return CAIRN_OK;
}

cairn_status crn_history_append(crn_history *h, const int32_t *tokens, int64_t n) {
  int64_t total;
  if (!crn_add_i64(h->n, n, &total)) return CRN_FAIL(OUT_OF_MEMORY, "a history of more than %lld tokens", (long long)h->n);
  CRN_TRY(crn_history_reserve(h, total));
  if (n) memcpy(h->tokens + h->n, tokens, (size_t)n * sizeof *tokens);
  h->n = total;
  return CAIRN_OK;
}

void crn_history_truncate(crn_history *h, int64_t n) {
  if (n < h->n) h->n = n;
}

int64_t crn_history_common_prefix(const crn_history *h, const int32_t *tokens, int64_t n) {
  int64_t shorter = n < h->n ? n : h->n, i = 0;
  if (shorter && memcmp(h->tokens, tokens, (size_t)shorter * sizeof *tokens) == 0) return shorter;
  while (i < shorter && h->tokens[i] == tokens[i]) i++;
  return i;
}
