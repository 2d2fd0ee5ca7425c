#include "text/tokenizer/models/heap.h"

#include <string.h>

static bool before(const crn_candidate *a, const crn_candidate *b) {
  if (a->score != b->score) return a->score > b->score;
  if (a->rank != b->rank) return a->rank < b->rank;
  return a->position < b->position;
}

cairn_status crn_heap_push(crn_run *run, crn_candidate candidate) {
  CRN_TRY(crn_vec_push(run->allocator, &run->heap, candidate));
  crn_candidate *h = run->heap.items;
  size_t i = run->heap.size - 1;
  while (i && before(&candidate, &h[(i - 1) / 2])) {
    h[i] = h[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  h[i] = candidate;
  return CAIRN_OK;
}

bool crn_heap_pop(crn_run *run, crn_candidate *out_candidate) {
  crn_candidate *h = run->heap.items;
  if (!run->heap.size) return false;
  *out_candidate = h[0];
  size_t n = --run->heap.size, i = 0;
  crn_candidate last = h[n];
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && before(&h[child + 1], &h[child])) child++;
    if (!before(&h[child], &last)) break;
    h[i] = h[child];
  }
  h[i] = last;
  return true;
}
