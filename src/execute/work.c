#include "execute/work.h"

#include <string.h>

// --- the thread -------------------------------------------------------------------------------------------------------

static crn_work g_no_work;  // stands for callbacks, which belong to no work
static _Thread_local crn_work *t_current;

bool crn_work_is_inside(void) { return t_current != NULL; }

crn_work *crn_work_enter_thread(crn_work *work) {
  crn_work *before = t_current;
  t_current = work ? work : &g_no_work;
  return before;
}

void crn_work_leave_thread(crn_work *before) { t_current = before; }

cairn_status crn_work_check_may_wait(const char *what) {
  if (!t_current) return CAIRN_OK;
  return CRN_FAIL(FAILED_PRECONDITION, "waiting for %s inside of queued work or a callback could never end", what);
}

// --- accesses ---------------------------------------------------------------------------------------------------------

// Bytes from element 0 to the last element. Strides of wrapped memory are not negative, and views do not reverse.
static size_t extent(const cairn_ndarray *a) {
  const crn_tensor *t = &a->view;
  int64_t last = 0, block = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == 0) return 0;
    last += (t->dims[i] - 1) / a->interleave[i] * t->strides[i];
    block *= a->interleave[i];
  }
  return (size_t)(last + block) * cairn_dtype_bytes(t->dtype);
}

crn_access crn_access_of(const cairn_ndarray *a, const char *name, crn_access_kind kind) {
  const char *begin = a->view.data;
  // Pages have no address that stays: the table stands for all of them.
  if (a->view.pages)
    return (crn_access){.begin = (const char *)a->storage, .end = (const char *)a->storage + 1, .name = name, .kind = kind};
  return (crn_access){.begin = begin, .end = begin + extent(a), .name = name, .kind = kind, .is_dense = cairn_ndarray_is_contiguous(a)};
}

static bool overlaps(const crn_access *a, const crn_access *b) { return a->begin < b->end && b->begin < a->end; }

static bool conflicts(const crn_access *a, const crn_access *b) {
  return (a->kind != CRN_ACCESS_READ || b->kind != CRN_ACCESS_READ) && overlaps(a, b);
}

static bool encloses(const crn_access *outer, const crn_access *inner) { return outer->begin <= inner->begin && inner->end <= outer->end; }

// Whether whoever comes behind `writer` sees nothing of what was in `a` before it, except through `writer` itself.
static bool covers(const crn_access *writer, const crn_access *a) {
  return (writer->kind == CRN_ACCESS_UPDATE || (writer->kind == CRN_ACCESS_WRITE && writer->is_dense)) && encloses(writer, a);
}

// --- edges ------------------------------------------------------------------------------------------------------------

// What runs of the caller do to plain arrays of each other is the caller's business, as it is for all memory; states are
// guarded.
static bool concerns(const crn_work *work, const crn_access *a, const crn_work *earlier, const crn_access *b) {
  if (work->is_host && earlier->is_host && a->kind != CRN_ACCESS_UPDATE && b->kind != CRN_ACCESS_UPDATE) return false;
  return conflicts(a, b);
}

// Edges move only before the work is entered, which is when others begin to point to them.
static cairn_status push_edge(cairn_context *c, crn_work *work, crn_edge edge) {
  crn_edges *e = &work->edges;
  const size_t few = sizeof e->few / sizeof *e->few;
  if (!e->items) {
    e->items = e->few;
    e->capacity = few;
  }
  if (e->size == e->capacity) {
    crn_edge *more;
    CRN_TRY(crn_alloc_array(&c->allocator, 2 * e->capacity, sizeof *more, &more));
    memcpy(more, e->items, e->size * sizeof *more);
    crn_work_free_edges(c, work);
    e->items = more;
    e->capacity *= 2;
  }
  e->items[e->size++] = edge;
  return CAIRN_OK;
}

void crn_work_free_edges(cairn_context *c, crn_work *work) {
  crn_edges *e = &work->edges;
  if (e->items != e->few) crn_free(&c->allocator, e->items, e->capacity * sizeof *e->items);
}

static cairn_status find_edge(cairn_context *c, crn_work *work, crn_work *earlier, const char **out_conflict) {
  bool found = false, is_data = false;
  for (int i = 0; i < work->n_accesses; i++) {
    crn_access *a = &work->accesses[i];
    if (a->is_covered) continue;
    bool covered = false;
    for (int k = 0; k < earlier->n_accesses; k++) {
      const crn_access *b = &earlier->accesses[k];
      if (!concerns(work, a, earlier, b)) continue;
      found = true;
      if (out_conflict && !*out_conflict) *out_conflict = a->name;
      is_data = is_data || (b->kind != CRN_ACCESS_READ && a->kind != CRN_ACCESS_WRITE);
      covered = covered || covers(b, a);
    }
    // A failure that was reported stops at the work that had it, so behind such work one has to look on.
    a->is_covered = covered && !earlier->is_acknowledged;
  }
  if (!found) return CAIRN_OK;
  return push_edge(c, work, (crn_edge){.from = earlier, .to = work, .is_data = is_data && !earlier->is_acknowledged});
}

static void take_failure(crn_work *work, const crn_work *from) {
  if (work->status != CAIRN_OK) return;
  work->status = from->status;
  work->failure = crn_failure_retain(from->failure);
}

// Work that failed before and was not reported poisons what it should have written.
static void find_failure(const crn_work_list *list, crn_work *work) {
  for (const crn_work *f = list->failed; f && work->status == CAIRN_OK; f = f->next) {
    for (int i = 0; i < work->n_accesses; i++) {
      const crn_access *a = &work->accesses[i];
      if (a->is_covered || a->kind == CRN_ACCESS_WRITE) continue;
      for (int k = 0; k < f->n_accesses; k++) {
        if (overlaps(a, &f->accesses[k])) take_failure(work, f);
      }
    }
  }
}

static bool all_covered(const crn_work *work) {
  for (int i = 0; i < work->n_accesses; i++) {
    if (!work->accesses[i].is_covered) return false;
  }
  return true;
}

cairn_status crn_work_find_edges(cairn_context *c, crn_work *work, const char **out_conflict) {
  if (out_conflict) *out_conflict = NULL;
  for (crn_work *earlier = c->work.last; earlier && !all_covered(work); earlier = earlier->previous) {
    if (earlier != t_current) CRN_TRY(find_edge(c, work, earlier, out_conflict));
  }
  find_failure(&c->work, work);
  return CAIRN_OK;
}

cairn_status crn_work_add_data_edge(cairn_context *c, crn_work *work, crn_work *from) {
  return push_edge(c, work, (crn_edge){.from = from, .to = work, .is_data = true});
}

// --- in and out -------------------------------------------------------------------------------------------------------

void crn_work_enter(crn_work_list *list, crn_work *work) {
  work->sequence = list->n_entered++;
  work->previous = list->last;
  work->next = NULL;
  *(list->last ? &list->last->next : &list->first) = work;
  list->last = work;
  work->is_listed = true;
  for (size_t i = 0; i < work->edges.size; i++) {
    crn_edge *e = &work->edges.items[i];
    e->next = e->from->dependents;
    e->from->dependents = e;
  }
  work->n_pending = (int)work->edges.size;
  work->phase = work->n_pending || work->is_mark ? CRN_WORK_WAITING : CRN_WORK_READY;
}

static void unlink_work(crn_work_list *list, crn_work *work) {
  *(work->previous ? &work->previous->next : &list->first) = work->next;
  *(work->next ? &work->next->previous : &list->last) = work->previous;
  work->is_listed = false;
}

static void unlink_failed(crn_work_list *list, crn_work *work, crn_work **dead) {
  crn_work **at = &list->failed;
  while (*at != work) at = &(*at)->next;
  *at = work->next;
  work->is_failed_listed = false;
  if (work->stream) return;  // its worker is not through with it
  work->stream_next = *dead;
  *dead = work;
}

// What a work wrote anew is no longer spoilt by those who failed to.
static void heal(crn_work_list *list, const crn_work *work, crn_work **dead) {
  for (crn_work *f = list->failed, *next; f; f = next) {
    next = f->next;
    for (int i = 0; i < work->n_accesses; i++) {
      const crn_access *a = &work->accesses[i];
      for (int k = f->n_accesses - 1; a->kind == CRN_ACCESS_WRITE && a->is_dense && k >= 0; k--) {
        if (encloses(a, &f->accesses[k])) f->accesses[k] = f->accesses[--f->n_accesses];
      }
    }
    if (!f->n_accesses) unlink_failed(list, f, dead);
  }
}

static bool is_poisoned_already(const crn_work_list *list, const crn_work *work, const crn_access *a) {
  for (const crn_work *f = list->failed; f; f = f->next) {
    for (int k = 0; k < f->n_accesses && f->owner == work->owner; k++) {
      if (encloses(&f->accesses[k], a)) return true;
    }
  }
  return false;
}

// Keeps failed work while it spoils memory that no other failed work of its stream spoils.
static void keep_failed(crn_work_list *list, crn_work *work) {
  if (!work->owner || work->is_acknowledged) return;
  int n = 0;
  for (int i = 0; i < work->n_accesses; i++) {
    const crn_access a = work->accesses[i];
    if (a.kind != CRN_ACCESS_READ && !is_poisoned_already(list, work, &a)) work->accesses[n++] = a;
  }
  if (!n) return;
  work->n_accesses = n;
  work->next = list->failed;
  list->failed = work;
  work->is_failed_listed = true;
}

// Lets go what waited for `work`; cancelled work that has nothing more to wait for goes to `*gone`.
static void release_dependents(crn_work *work, crn_work **gone) {
  for (crn_edge *e = work->dependents, *next; e; e = next) {
    next = e->next;
    crn_work *to = e->to;
    if (work->status != CAIRN_OK && e->is_data) take_failure(to, work);
    if (--to->n_pending) continue;
    if (to->phase == CRN_WORK_CANCELLED) {
      to->stream_next = *gone;
      *gone = to;
      continue;
    }
    to->phase = CRN_WORK_READY;
    if (to->stream) crn_stream_wake(to->stream);
  }
  work->dependents = NULL;
}

void crn_work_leave(crn_work_list *list, crn_work *work, crn_work **dead) {
  crn_work *gone = NULL;
  for (; work; work = gone) {
    if (gone) gone = gone->stream_next;
    unlink_work(list, work);
    release_dependents(work, &gone);
    if (work->status == CAIRN_OK) {
      heal(list, work, dead);
    } else {
      keep_failed(list, work);
    }
    if (work->phase == CRN_WORK_CANCELLED && !work->is_failed_listed) {
      work->stream_next = *dead;
      *dead = work;
    }
  }
  crn_work_signal(list);
}

void crn_work_acknowledge(crn_work_list *list, const cairn_stream *owner, bool owner_ends, crn_work **dead) {
  for (crn_work *f = list->failed, *next; f; f = next) {
    next = f->next;
    if (f->owner == owner) unlink_failed(list, f, dead);
  }
  for (crn_work *w = list->first; w; w = w->next) {
    if (w->owner != owner || w->phase != CRN_WORK_CANCELLED) continue;
    w->is_acknowledged = true;
    if (owner_ends) w->owner = NULL;
  }
}

// --- waiting ----------------------------------------------------------------------------------------------------------

void crn_work_signal(crn_work_list *list) {
  if (list->n_waiting) pthread_cond_broadcast(&list->changed);
}

void crn_work_await_change(crn_work_list *list) {
  list->n_waiting++;
  pthread_cond_wait(&list->changed, &list->lock);
  list->n_waiting--;
}

bool crn_work_is_used(const crn_work_list *list, const crn_access *access) {
  for (const crn_work *w = list->first; w; w = w->next) {
    for (int i = 0; i < w->n_accesses; i++) {
      if (conflicts(access, &w->accesses[i])) return true;
    }
  }
  return false;
}
