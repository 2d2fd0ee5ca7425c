/// Pages of one size, of all segmented arrays of a context that have that size: freed ones are used again, and some are cleared ahead of
/// time by a thread of their own, so that whoever needs a page does not wait for its zeros.
#ifndef CRN_TENSOR_PAGE_STORE_H
#define CRN_TENSOR_PAGE_STORE_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/context.h"

/// The head of a page; its bytes follow, aligned to CRN_ALIGN.
typedef struct crn_page {
  atomic_int references;  ///< tables that hold it
  struct crn_page *next;  ///< of the idle ones
} crn_page;

static inline void *crn_page_data(const crn_page *page) { return (char *)page + CRN_ALIGN; }

typedef struct crn_page_store crn_page_store;

/// The store of a context for pages of `bytes`; each call is to be matched by a release. Thread: safe. Errors: OUT_OF_MEMORY.
cairn_status crn_page_store_acquire(cairn_context *context, size_t bytes, crn_page_store **out_store);
/// The last release gives back all idle pages.
void crn_page_store_release(crn_page_store *store);

/// A page of zeros with one reference. Thread: safe. Errors: OUT_OF_MEMORY.
cairn_status crn_page_take(crn_page_store *store, crn_page **out_page);
/// The same for whoever writes all of it: it holds anything.
cairn_status crn_page_take_uncleared(crn_page_store *store, crn_page **out_page);
static inline void crn_page_retain(crn_page *page) { atomic_fetch_add_explicit(&page->references, 1, memory_order_relaxed); }
/// The last release puts the page among the idle ones. NULL is allowed.
void crn_page_release(crn_page_store *store, crn_page *page);

/// From now on at least `n` pages are to lie ready, if there is memory. They are made aside; where no thread can be had, they are not.
void crn_page_store_keep_ready(crn_page_store *store, int n);

typedef struct crn_page_counts {
  int64_t live;    ///< held by tables
  int64_t ready;   ///< idle and cleared
  int64_t idle;    ///< idle and to be cleared
  int64_t made;    ///< ever taken from the allocator
  int64_t waited;  ///< taken while none lay ready
} crn_page_counts;
crn_page_counts crn_page_store_count(crn_page_store *store);

#endif
