/// Inside of cairn_context.
#ifndef CRN_BASE_CONTEXT_H
#define CRN_BASE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/pool.h"
#include "base/recycle.h"
#include "cairn/context.h"

typedef struct cairn_stream cairn_stream;
struct crn_work;
struct crn_tracer;
struct crn_page_store;

/// The unfinished work of a context, in the order it came. Kept by execute/work.c; runs and streams of a context are ordered
/// through it.
typedef struct crn_work_list {
  pthread_mutex_t lock;    ///< guards this, all streams, values and counts of invocations of the context
  pthread_cond_t changed;  ///< for threads of the caller that wait for anything
  int n_waiting;           ///< on `changed`
  struct crn_work *first, *last;
  struct crn_work *failed;  ///< done, but its failure was not reported yet
  cairn_stream *streams;
  int64_t n_entered;
} crn_work_list;

struct cairn_context {
  atomic_int references;
  cairn_allocator allocator;
  crn_recycler blocks;  ///< of queued work, values and heads of arrays
  crn_pool *pool;
  cairn_log_level log_level;
  cairn_log_fn log;
  void *log_user;
  crn_work_list work;
  pthread_mutex_t page_lock;           ///< guards the list of page stores
  struct crn_page_store *page_stores;  ///< of the segmented arrays there are (tensor/page_store.c)
  atomic_bool is_tracing;
  _Atomic(struct crn_tracer *) tracer;
};

#endif
