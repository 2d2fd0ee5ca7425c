// Sets of characters.
#include <stdlib.h>
#include <string.h>

#include "text/grammar/rules.h"

static const crn_range ALL_RANGES[] = {{0, 0xD7FF}, {0xE000, CRN_MAX_CODE}};
const crn_set crn_set_all = {ALL_RANGES, 2};

static int compare(const void *a, const void *b) {
  const crn_range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

static crn_range *room(crn_rules *r, size_t n) {
  crn_range *ranges = NULL;
  if (crn_rules_failed(r)) return NULL;
  cairn_status status = crn_arena_array(&r->arena, n, sizeof *ranges, &ranges);
  if (status != CAIRN_OK) crn_rules_fail(r, status);
  return status == CAIRN_OK ? ranges : NULL;
}

crn_set crn_set_and(crn_rules *r, crn_set a, crn_set b) {
  crn_range *out = room(r, a.n + b.n);
  size_t n = 0;
  if (!out) return (crn_set){0};
  for (size_t i = 0, j = 0; i < a.n && j < b.n;) {
    uint32_t first = a.ranges[i].first > b.ranges[j].first ? a.ranges[i].first : b.ranges[j].first;
    uint32_t last = a.ranges[i].last < b.ranges[j].last ? a.ranges[i].last : b.ranges[j].last;
    if (first <= last) out[n++] = (crn_range){first, last};
    if (a.ranges[i].last < b.ranges[j].last) {
      i++;
    } else {
      j++;
    }
  }
  return (crn_set){out, n};
}

crn_set crn_set_make(crn_rules *r, const crn_range *ranges, size_t n) {
  crn_range *out = room(r, n);
  size_t kept = 0;
  if (!out || !n) return (crn_set){0};
  memcpy(out, ranges, n * sizeof *out);
  qsort(out, n, sizeof *out, compare);
  for (size_t i = 0; i < n; i++) {
    if (kept && out[i].first <= out[kept - 1].last + 1) {
      if (out[i].last > out[kept - 1].last) out[kept - 1].last = out[i].last;
    } else {
      out[kept++] = out[i];
    }
  }
  return crn_set_and(r, (crn_set){out, kept}, crn_set_all);
}

crn_set crn_set_not(crn_rules *r, crn_set set) {
  crn_range *out = room(r, set.n + 1);
  size_t n = 0;
  uint32_t next = 0;
  if (!out) return (crn_set){0};
  for (size_t i = 0; i < set.n; i++) {
    if (set.ranges[i].first > next) out[n++] = (crn_range){next, set.ranges[i].first - 1};
    next = set.ranges[i].last + 1;
  }
  if (next <= CRN_MAX_CODE) out[n++] = (crn_range){next, CRN_MAX_CODE};
  return crn_set_and(r, (crn_set){out, n}, crn_set_all);
}

bool crn_set_has(crn_set set, uint32_t code) {
  for (size_t i = 0; i < set.n; i++) {
    if (code >= set.ranges[i].first && code <= set.ranges[i].last) return true;
  }
  return false;
}

crn_set crn_set_one(crn_rules *r, uint32_t first, uint32_t last) { return crn_set_make(r, &(crn_range){first, last}, 1); }

const crn_node *crn_node_range(crn_rules *r, uint32_t first, uint32_t last) { return crn_node_set(r, crn_set_one(r, first, last)); }
