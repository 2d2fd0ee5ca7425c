/// The tokens the states of an engine stand for. Without it a second conversation would read the rows of the first.
#ifndef CRN_ENGINES_LLM_HISTORY_H
#define CRN_ENGINES_LLM_HISTORY_H

#include <stdint.h>

#include "base/alloc.h"

typedef struct crn_history {
  const cairn_allocator *allocator;
  int32_t *tokens;
  int64_t n, capacity;
} crn_history;

void crn_history_initialize(crn_history *h, const cairn_allocator *allocator);
void crn_history_deinitialize(crn_history *h);
/// Makes room for `n` tokens in all.
cairn_status crn_history_reserve(crn_history *h, int64_t n);
cairn_status crn_history_append(crn_history *h, const int32_t *tokens, int64_t n);
/// Keeps the first `n` tokens; nothing happens when there are not more.
void crn_history_truncate(crn_history *h, int64_t n);
/// How many tokens at the start are the same.
int64_t crn_history_common_prefix(const crn_history *h, const int32_t *tokens, int64_t n);

#endif
