/// A pool of persistent workers that split index ranges. One parallel loop runs at a time; others wait their turn.
#ifndef CRN_BASE_POOL_H
#define CRN_BASE_POOL_H

#include <stdint.h>

#include "base/alloc.h"

enum { CRN_MAX_THREADS = 256 };  ///< workers a pool may have, the caller counted

typedef struct crn_pool crn_pool;

/// Handles the indices [begin, end). `worker` is 0 .. threads-1, distinct among calls that run at once.
typedef void (*crn_pool_fn)(void *user, int64_t begin, int64_t end, int worker);

/// Creates a pool of `n_threads` workers, the calling thread being one of them. Errors: OUT_OF_MEMORY.
cairn_status crn_pool_create(const cairn_allocator *allocator, int n_threads, crn_pool **out_pool);
void crn_pool_destroy(crn_pool *pool);
int crn_pool_threads(const crn_pool *pool);

/// Splits [0, n) into chunks of at least `grain` indices and returns when all are done. Each worker has a range of its own, the same for
/// equal n and grain, and helps others when it is done. Small loops run on the caller without waking anybody. `pool` may be NULL (runs on
/// the caller). Thread: callers from several threads take turns.
void crn_pool_run(crn_pool *pool, int64_t n, int64_t grain, crn_pool_fn fn, void *user);

/// A loop that will most likely come next, with [0, n) and `grain`, whose index i reads `item_bytes` bytes at data + i * item_bytes.
typedef struct crn_pool_ahead {
  const void *data;
  size_t item_bytes;
  int64_t n, grain;
} crn_pool_ahead;

/// The same. Behind it, while the caller does what only one can do, workers ask memory for the first part of what they will read in the
/// loop announced. NULL = none. Nothing depends on whether that loop comes; the memory may be gone by then.
void crn_pool_run_before(crn_pool *pool, int64_t n, int64_t grain, crn_pool_fn fn, void *user, const crn_pool_ahead *ahead);

/// The cores this process may use: affinity mask and cgroup quota, at least 1.
int crn_usable_cores(void);

#endif
