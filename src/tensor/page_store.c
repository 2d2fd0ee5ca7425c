#include "tensor/page_store.h"

#include <pthread.h>
#include <string.h>

#include "base/checked.h"
#include "base/region.h"

// Idle pages beyond so many bytes (but always two) go back to the allocator.
enum { IDLE_BYTES = 64 << 20, IDLE_PAGES = 2 };

// Pages of some size are cut out of larger blocks that begin and end where huge pages of the system do: attention walks through a layer of
// all pages, and with small ones nearly every piece of it would have its address looked up anew. Blocks grow with what there is; of theirs
// only what was cut is memory. Such pages are given back with the store.
enum { SMALLEST_CUT = 128 << 10, SMALLEST_BLOCK = 8 << 20, LARGEST_BLOCK = 64 << 20 };

typedef struct block {
  struct block *next;
  void *data;
  size_t bytes;
} block;

struct crn_page_store {
  cairn_context *context;  ///< borrowed: arrays keep it alive
  crn_page_store *next;    ///< in the context
  int references;          ///< guarded by the lock of the context's stores
  size_t bytes;
  pthread_mutex_t lock;  ///< guards what follows
  pthread_cond_t wake;
  crn_page *ready, *idle;
  crn_page_counts counts;
  int n_wanted;
  block *blocks;
  char *fresh;  ///< of the last block, what was not cut yet
  size_t n_fresh;
  pthread_t thread;
  bool has_thread, is_closing;
};

static size_t whole_bytes(const crn_page_store *s) { return (CRN_ALIGN + s->bytes + CRN_ALIGN - 1) / CRN_ALIGN * CRN_ALIGN; }

static bool is_cut(const crn_page_store *s) { return whole_bytes(s) >= SMALLEST_CUT; }

// For several pages, or for one that is as large; `made` pages there are.
static cairn_status make_block(const crn_page_store *s, int64_t made, block **out_block, size_t *out_n) {
  const cairn_allocator *a = &s->context->allocator;
  size_t page = whole_bytes(s), wanted = SMALLEST_BLOCK;
  while (wanted < LARGEST_BLOCK && wanted / page < (size_t)made) wanted *= 2;
  size_t n = page < wanted ? wanted / page : 1;
  block *b;
  if (!crn_align_size(n * page, CRN_HUGE_PAGE, &wanted)) return CRN_FAIL(OUT_OF_RANGE, "a page of %zu bytes is too large", s->bytes);
  CRN_TRY(crn_alloc(a, sizeof *b, &b));
  b->bytes = wanted;
  cairn_status status = crn_alloc_huge(a, wanted, &b->data);
  if (status != CAIRN_OK) {
    crn_free(a, b, sizeof *b);
    return status;
  }
  *out_block = b;
  *out_n = n;
  return CAIRN_OK;
}

// With the lock held.
static crn_page *cut(crn_page_store *s) {
  if (!s->n_fresh) return NULL;
  crn_page *page = (crn_page *)s->fresh;
  s->fresh += whole_bytes(s);
  s->n_fresh--;
  s->counts.made++;
  return page;
}

// A page that is not cleared. Of two threads that find nothing left each makes a block; the rest of one is cut up then.
static cairn_status make_page(crn_page_store *s, crn_page **out) {
  if (!is_cut(s)) {
    CRN_TRY(crn_alloc(&s->context->allocator, CRN_ALIGN + s->bytes, out));
    pthread_mutex_lock(&s->lock);
    s->counts.made++;
    pthread_mutex_unlock(&s->lock);
    return CAIRN_OK;
  }
  pthread_mutex_lock(&s->lock);
  int64_t made = s->counts.made;
  *out = cut(s);
  pthread_mutex_unlock(&s->lock);
  if (*out) return CAIRN_OK;
  block *b;
  size_t n;
  CRN_TRY(make_block(s, made, &b, &n));
  pthread_mutex_lock(&s->lock);
  for (crn_page *page; (page = cut(s));) {
    page->next = s->idle;
    s->idle = page;
    s->counts.idle++;
  }
  b->next = s->blocks;
  s->blocks = b;
  s->fresh = b->data;
  s->n_fresh = n;
  *out = cut(s);
  pthread_mutex_unlock(&s->lock);
  return CAIRN_OK;
}

static void free_page(const crn_page_store *s, crn_page *page) { crn_free(&s->context->allocator, page, CRN_ALIGN + s->bytes); }

static void free_blocks(crn_page_store *s) {
  const cairn_allocator *a = &s->context->allocator;
  for (block *b = s->blocks, *next; b; b = next) {
    next = b->next;
    crn_free(a, b->data, b->bytes);
    crn_free(a, b, sizeof *b);
  }
}

static void free_list(const crn_page_store *s, crn_page *list) {
  while (list) {
    crn_page *next = list->next;
    free_page(s, list);
    list = next;
  }
}

// --- stores of a context ----------------------------------------------------------------------------------------------

static void destroy(crn_page_store *s) {
  const cairn_allocator *a = &s->context->allocator;
  pthread_mutex_lock(&s->lock);
  s->is_closing = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  if (s->has_thread) pthread_join(s->thread, NULL);
  if (is_cut(s)) {
    free_blocks(s);
  } else {
    free_list(s, s->ready);
    free_list(s, s->idle);
  }
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->wake);
  crn_free(a, s, sizeof *s);
}

static cairn_status create(cairn_context *c, size_t bytes, crn_page_store **out) {
  crn_page_store *s;
  CRN_TRY(crn_alloc_zero(&c->allocator, sizeof *s, &s));
  s->context = c;
  s->bytes = bytes;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->wake, NULL);
  s->next = c->page_stores;
  c->page_stores = s;
  *out = s;
  return CAIRN_OK;
}

cairn_status crn_page_store_acquire(cairn_context *c, size_t bytes, crn_page_store **out_store) {
  cairn_status status = CAIRN_OK;
  pthread_mutex_lock(&c->page_lock);
  crn_page_store *s = c->page_stores;
  while (s && s->bytes != bytes) s = s->next;
  if (!s) status = create(c, bytes, &s);
  if (status == CAIRN_OK) s->references++;
  pthread_mutex_unlock(&c->page_lock);
  *out_store = s;
  return status;
}

void crn_page_store_release(crn_page_store *s) {
  cairn_context *c = s->context;
  pthread_mutex_lock(&c->page_lock);
  bool is_last = --s->references == 0;
  if (is_last) {
    crn_page_store **at = &c->page_stores;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
  }
  pthread_mutex_unlock(&c->page_lock);
  if (is_last) destroy(s);
}

// --- pages ------------------------------------------------------------------------------------------------------------

static crn_page *pop(crn_page **list) {
  crn_page *page = *list;
  if (page) *list = page->next;
  return page;
}

// Those that are cleared are left to whoever needs zeros.
static cairn_status take(crn_page_store *s, bool needs_zeros, crn_page **out_page) {
  pthread_mutex_lock(&s->lock);
  crn_page *page = needs_zeros ? pop(&s->ready) : NULL;
  bool is_clear = page != NULL;
  s->counts.ready -= is_clear;
  if (!page && (page = pop(&s->idle))) s->counts.idle--;
  s->counts.live++;
  s->counts.waited += needs_zeros && !is_clear;
  if (s->has_thread) pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  cairn_status status = CAIRN_OK;
  if (!page) {
    status = make_page(s, &page);
    if (status != CAIRN_OK) {
      pthread_mutex_lock(&s->lock);
      s->counts.live--;
      pthread_mutex_unlock(&s->lock);
    }
  }
  if (status != CAIRN_OK) {
    *out_page = NULL;
    return status;
  }
  if (needs_zeros && !is_clear) memset(crn_page_data(page), 0, s->bytes);
  atomic_init(&page->references, 1);
  *out_page = page;
  return CAIRN_OK;
}

cairn_status crn_page_take(crn_page_store *s, crn_page **out_page) { return take(s, true, out_page); }
cairn_status crn_page_take_uncleared(crn_page_store *s, crn_page **out_page) { return take(s, false, out_page); }

void crn_page_release(crn_page_store *s, crn_page *page) {
  if (!page || atomic_fetch_sub_explicit(&page->references, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_lock(&s->lock);
  s->counts.live--;
  bool keep =
      is_cut(s) || s->counts.idle + s->counts.ready < IDLE_PAGES || (size_t)(s->counts.idle + s->counts.ready + 1) * s->bytes <= IDLE_BYTES;
  if (keep) {
    page->next = s->idle;
    s->idle = page;
    s->counts.idle++;
    if (s->has_thread) pthread_cond_signal(&s->wake);
  }
  pthread_mutex_unlock(&s->lock);
  if (!keep) free_page(s, page);
}

crn_page_counts crn_page_store_count(crn_page_store *s) {
  pthread_mutex_lock(&s->lock);
  crn_page_counts counts = s->counts;
  pthread_mutex_unlock(&s->lock);
  return counts;
}

// --- aside ------------------------------------------------------------------------------------------------------------

// With the lock held, which is given up meanwhile. False when there is no memory: then whoever needs a page has to make it.
static bool make_ready(crn_page_store *s) {
  crn_page *page = pop(&s->idle);
  bool is_new = !page;
  s->counts.idle -= !is_new;
  pthread_mutex_unlock(&s->lock);
  cairn_status status = is_new ? make_page(s, &page) : CAIRN_OK;
  if (status == CAIRN_OK) {
    memset(crn_page_data(page), 0, s->bytes);
  } else {
    crn_error_clear();
  }
  pthread_mutex_lock(&s->lock);
  if (status != CAIRN_OK) return false;
  s->counts.ready++;
  page->next = s->ready;
  s->ready = page;
  return true;
}

static void *work(void *user) {
  crn_page_store *s = user;
  pthread_mutex_lock(&s->lock);
  while (!s->is_closing) {
    bool goes_on = s->counts.ready < s->n_wanted && make_ready(s);
    if (!goes_on && !s->is_closing) pthread_cond_wait(&s->wake, &s->lock);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

void crn_page_store_keep_ready(crn_page_store *s, int n) {
  pthread_mutex_lock(&s->lock);
  if (n > s->n_wanted) s->n_wanted = n;
  if (!s->has_thread) s->has_thread = pthread_create(&s->thread, NULL, work, s) == 0;
  if (s->has_thread) pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
}
