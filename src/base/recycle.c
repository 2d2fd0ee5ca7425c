#include "base/recycle.h"

#include <string.h>

// A checker of memory has to see that a block is free.
#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { KEEPS = 0 };
#else
enum { KEEPS = 1 };
#endif
#else
enum { KEEPS = 1 };
#endif

static size_t bytes_of_class(int k) { return (size_t)CRN_RECYCLE_SMALLEST << k; }

// The class of the smallest blocks that hold so many bytes; CRN_RECYCLE_CLASSES when none do.
static int class_of(size_t bytes) {
  int k = 0;
  while (k < CRN_RECYCLE_CLASSES && bytes_of_class(k) < bytes) k++;
  return k;
}

void crn_recycler_initialize(crn_recycler *r, const cairn_allocator *allocator) {
  *r = (crn_recycler){.allocator = allocator};
  pthread_mutex_init(&r->lock, NULL);
}

static void free_all(crn_recycler *r) {
  for (int k = 0; k < CRN_RECYCLE_CLASSES; k++) {
    for (struct crn_recycled *b = r->kept[k], *next; b; b = next) {
      next = b->next;
      crn_free(r->allocator, b, bytes_of_class(k));
    }
    r->kept[k] = NULL;
    r->n_kept[k] = 0;
  }
}

void crn_recycler_deinitialize(crn_recycler *r) {
  free_all(r);
  pthread_mutex_destroy(&r->lock);
}

void crn_recycler_begin(crn_recycler *r) {
  pthread_mutex_lock(&r->lock);
  r->n_users++;
  pthread_mutex_unlock(&r->lock);
}

void crn_recycler_end(crn_recycler *r) {
  pthread_mutex_lock(&r->lock);
  if (--r->n_users == 0) free_all(r);
  pthread_mutex_unlock(&r->lock);
}

cairn_status crn_recycle_take(crn_recycler *r, size_t bytes, void *out_pointer) {
  const int k = class_of(bytes);
  if (k == CRN_RECYCLE_CLASSES) return crn_alloc_zero(r->allocator, bytes, out_pointer);
  pthread_mutex_lock(&r->lock);
  struct crn_recycled *b = r->kept[k];
  if (b) {
    r->kept[k] = b->next;
    r->n_kept[k]--;
  }
  pthread_mutex_unlock(&r->lock);
  if (!b) CRN_TRY(crn_alloc(r->allocator, bytes_of_class(k), &b));
  memset(b, 0, bytes);
  *(void **)out_pointer = b;
  return CAIRN_OK;
}

void crn_recycle_give(crn_recycler *r, void *pointer, size_t bytes) {
  const int k = class_of(bytes);
  bool is_kept = false;
  if (!pointer) return;
  if (KEEPS && k < CRN_RECYCLE_CLASSES) {
    struct crn_recycled *b = pointer;
    pthread_mutex_lock(&r->lock);
    is_kept = r->n_users > 0 && r->n_kept[k] < CRN_RECYCLE_KEPT;
    if (is_kept) {
      b->next = r->kept[k];
      r->kept[k] = b;
      r->n_kept[k]++;
    }
    pthread_mutex_unlock(&r->lock);
  }
  if (!is_kept) crn_free(r->allocator, pointer, k < CRN_RECYCLE_CLASSES ? bytes_of_class(k) : bytes);
}
