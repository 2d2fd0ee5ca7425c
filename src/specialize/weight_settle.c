// Packed weights leave the file they were loaded from.
//
// A file's pages serve as well as others for the first results, which are sooner there. But they may be changed by whoever can write the
// file, and how fast they are is a matter of where they happen to lie, for as long as the system keeps them. Page by page their contents
// are therefore copied, checked once more, and put into their place.
#include <string.h>

#include "specialize/weights.h"

enum { PIECE = CRN_HUGE_PAGE };

typedef struct settle_job {
  const crn_huge_map *map;
  const uint64_t *digests;
  crn_huge_copy copy;
  atomic_bool is_changed, is_refused;
} settle_job;

static void settle_pieces(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  settle_job *j = user;
  for (int64_t i = begin; i < end && !j->is_changed && !j->is_refused; i++) {
    const size_t at = (size_t)i * PIECE, bytes = j->map->bytes - at < PIECE ? j->map->bytes - at : PIECE;
    memcpy(j->copy.pages + at, j->map->data + at, bytes);
    if (crn_weight_digest(j->copy.pages + at, bytes) != j->digests[i])
      j->is_changed = true;
    else if (!crn_huge_copy_put(&j->copy, j->map, at))
      j->is_refused = true;
  }
}

static size_t n_pieces(const crn_weight_store *s) { return (s->map.bytes + PIECE - 1) / PIECE; }

void crn_weight_store_forget_digests(crn_weight_store *s) {
  crn_free(s->allocator, s->digests, n_pieces(s) * sizeof *s->digests);
  s->digests = NULL;
}

static cairn_status settle(crn_weight_store *s, crn_pool *pool) {
  settle_job j = {.map = &s->map, .digests = s->digests};
  if (crn_huge_copy_begin(&s->map, &j.copy)) {
    crn_pool_run(pool, (int64_t)n_pieces(s), 1, settle_pieces, &j);
    crn_huge_copy_end(&j.copy);
  }
  if (j.is_changed) return CRN_FAIL(CORRUPT, "the file of packed weights was changed while the model was in use; load the model again");
  // Where the system gives no memory the file's pages go on to serve.
  crn_weight_store_forget_digests(s);
  atomic_store(&s->is_borrowed, false);
  return CAIRN_OK;
}

cairn_status crn_weight_store_settle(crn_weight_store *s, crn_pool *pool) {
  // Whoever has the lock is doing this already, or packs; then it is early enough with the next run.
  if (!atomic_load_explicit(&s->is_borrowed, memory_order_acquire) || pthread_mutex_trylock(&s->lock)) return CAIRN_OK;
  cairn_status status = atomic_load(&s->is_borrowed) ? settle(s, pool) : CAIRN_OK;
  pthread_mutex_unlock(&s->lock);
  return status;
}
