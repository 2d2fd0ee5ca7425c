/// Small blocks that come and go all the time (queued work, values, views): a block that is given back is kept and given out again, so
/// work that goes on evenly asks the allocator for nothing. What an allocator with aligned blocks does for each of them is most of
/// what a queued work costs otherwise.
#ifndef CRN_BASE_RECYCLE_H
#define CRN_BASE_RECYCLE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/alloc.h"

enum {
  CRN_RECYCLE_CLASSES = 6,    ///< blocks of 64, 128, … 2048 bytes; larger ones come from the allocator each time
  CRN_RECYCLE_SMALLEST = 64,  ///< bytes
  CRN_RECYCLE_KEPT = 64       ///< blocks of a class, at most
};

typedef struct crn_recycler {
  const cairn_allocator *allocator;
  pthread_mutex_t lock;  ///< guards what follows
  int n_users;
  struct crn_recycled {
    struct crn_recycled *next;
  } * kept[CRN_RECYCLE_CLASSES];
  int n_kept[CRN_RECYCLE_CLASSES];
} crn_recycler;

/// `allocator` is borrowed.
void crn_recycler_initialize(crn_recycler *r, const cairn_allocator *allocator);
/// Gives what is kept back to the allocator.
void crn_recycler_deinitialize(crn_recycler *r);

/// Blocks are kept while somebody works with them: from the first `begin` to the last `end`, which gives all of them back. Thread: safe.
void crn_recycler_begin(crn_recycler *r);
void crn_recycler_end(crn_recycler *r);

/// `bytes` bytes, cleared. Thread: safe. Errors: OUT_OF_MEMORY.
cairn_status crn_recycle_take(crn_recycler *r, size_t bytes, void *out_pointer);
/// Takes a block back; `bytes` as it was taken. NULL is allowed. Thread: safe.
void crn_recycle_give(crn_recycler *r, void *pointer, size_t bytes);

#endif
