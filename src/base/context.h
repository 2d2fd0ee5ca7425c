/// Inside of cairn_context.
#ifndef CRN_BASE_CONTEXT_H
#define CRN_BASE_CONTEXT_H

#include <stdatomic.h>

#include "base/pool.h"
#include "cairn/context.h"

struct cairn_context {
  atomic_int references;
  cairn_allocator allocator;
  crn_pool *pool;
  cairn_log_level log_level;
  cairn_log_fn log;
  void *log_user;
};

#endif
