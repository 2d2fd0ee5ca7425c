/// An allocator for tests of memory that fails: the `g_fail_at`-th allocation does.
#ifndef CRN_EXECUTE_FAILING_TEST_H
#define CRN_EXECUTE_FAILING_TEST_H

#include "base/alloc.h"

static int64_t g_allocations, g_fail_at, g_live;

static void *failing_alloc(void *self, size_t bytes, size_t align) {
  (void)self;
  if (++g_allocations == g_fail_at) return NULL;
  g_live++;
  return crn_default_allocator()->alloc(crn_default_allocator()->self, bytes, align);
}

static void failing_free(void *self, void *pointer, size_t bytes) {
  (void)self;
  g_live -= pointer != NULL;
  crn_default_allocator()->free(crn_default_allocator()->self, pointer, bytes);
}

#endif
