// Streams: their workers, and waiting, cancelling and ending. What is queued is made in stream_encode.c.
#include <stdio.h>

#include "base/trace.h"
#include "execute/stream.h"

// --- the list of a stream ---------------------------------------------------------------------------------------------

static void unlink_from_stream(crn_work *work) {
  cairn_stream *s = work->stream;
  *(work->stream_previous ? &work->stream_previous->stream_next : &s->first) = work->stream_next;
  *(work->stream_next ? &work->stream_next->stream_previous : &s->last) = work->stream_previous;
  work->stream_previous = work->stream_next = NULL;
  work->stream = NULL;
  s->n_works--;
  // The end of a stream may have come into reach.
  if (s->first && s->first->is_mark) crn_stream_wake(s);
  crn_work_signal(&s->context->work);
}

static void note_failure(cairn_stream *s, cairn_status status, crn_failure *failure) {
  if (status == CAIRN_OK || s->status != CAIRN_OK) return;
  s->status = status;
  s->failure = crn_failure_retain(failure);
}

void crn_stream_wake(cairn_stream *s) {
  if (s->options.n_workers == 1) {
    pthread_cond_signal(&s->wake);
  } else {
    pthread_cond_broadcast(&s->wake);
  }
}

void crn_stream_wake_all(crn_work_list *list) {
  for (cairn_stream *s = list->streams; s; s = s->next_in_context) pthread_cond_broadcast(&s->wake);
}

// --- workers ----------------------------------------------------------------------------------------------------------

static bool has_room(const cairn_function *f) { return !f || !f->max_in_flight || f->n_in_flight < f->max_in_flight; }

// The first work that nothing holds back. Failed work needs no room: it is not run.
static crn_work *pick(const cairn_stream *s) {
  for (crn_work *w = s->first; w; w = w->stream_next) {
    if (w->is_mark && w == s->first && !s->n_calling && w->phase == CRN_WORK_WAITING) return w;
    if (w->phase == CRN_WORK_READY && (w->status != CAIRN_OK || has_room(((crn_job *)w)->function))) return w;
  }
  return NULL;
}

static void complete_values(crn_job *j, crn_callback ***end) {
  for (int i = 0; i < j->n_outputs; i++) {
    crn_value_complete(j->outputs[i], j->work.status, j->work.failure, j->results[i], end);
    j->results[i] = NULL;
  }
}

static void drop_results(crn_job *j) {
  for (int i = 0; i < j->n_outputs; i++) {
    cairn_ndarray_release(j->results[i]);
    j->results[i] = NULL;
  }
}

// Without the lock.
static void run_job(crn_job *j) {
  int64_t start = crn_trace_begin(j->context);
  cairn_status status = crn_job_run(j);
  if (status != CAIRN_OK) {
    j->work.status = status;
    j->work.failure = crn_failure_capture(&j->context->allocator);
    drop_results(j);
  }
  CRN_TRACE_END(j->context, start, "stream", status == CAIRN_OK ? NULL : cairn_status_name(status), "Work %lld: %s",
                (long long)j->work.sequence, crn_job_name(j));
}

// Work that got the failure of other work names where it would have been used.
static void note_origin(crn_job *j) {
  crn_failure_restore(j->work.failure, j->work.status);
  crn_note(j->work.status, "needed by '%s'", crn_job_name(j));
  crn_failure *noted = crn_failure_capture(&j->context->allocator);
  if (!noted) return;
  crn_failure_release(j->work.failure);
  j->work.failure = noted;
}

// Values are done first and what depends on them may go on; then callbacks are called, and only then is the work over.
static void finish(cairn_stream *s, crn_job *j) {
  crn_work_list *list = &s->context->work;
  crn_work *dead = NULL;
  crn_callback *callbacks = NULL, **end = &callbacks;
  note_failure(s, j->work.status, j->work.failure);
  complete_values(j, &end);
  crn_work_leave(list, &j->work, &dead);
  if (callbacks || dead) {
    pthread_mutex_unlock(&list->lock);
    crn_callbacks_call(s->context, callbacks);
    crn_jobs_free(dead);
    pthread_mutex_lock(&list->lock);
  }
}

static void do_work(cairn_stream *s, crn_work *w) {
  crn_work_list *list = &s->context->work;
  crn_job *j = (crn_job *)w;
  cairn_function *f = j->function;
  bool runs = w->status == CAIRN_OK;
  w->phase = CRN_WORK_RUNNING;
  if (f && runs) f->n_in_flight++;
  pthread_mutex_unlock(&list->lock);
  if (runs) {
    run_job(j);
  } else {
    note_origin(j);
  }
  pthread_mutex_lock(&list->lock);
  if (f && runs) {
    f->n_in_flight--;
    if (f->max_in_flight) {
      crn_stream_wake_all(list);
      crn_work_signal(list);
    }
  }
  finish(s, j);
  unlink_from_stream(w);
  if (w->is_failed_listed) return;
  // Releasing what the work was given may call the caller's code.
  pthread_mutex_unlock(&list->lock);
  crn_job_free(j);
  pthread_mutex_lock(&list->lock);
}

static void *worker_main(void *argument) {
  cairn_stream *s = argument;
  crn_work_list *list = &s->context->work;
  char name[48];
  bool is_named = false;
  pthread_mutex_lock(&list->lock);
  snprintf(name, sizeof name, "stream worker %d", ++s->n_named);
  for (;;) {
    crn_work *w = pick(s);
    if (w) {
      if (!is_named && atomic_load_explicit(&s->context->is_tracing, memory_order_relaxed)) {
        is_named = true;
        crn_trace_name_thread(s->context, name);
      }
      do_work(s, w);
    } else if (s->is_ending && !s->first) {
      break;
    } else {
      pthread_cond_wait(&s->wake, &list->lock);
    }
  }
  // The other workers look, too.
  pthread_cond_broadcast(&s->wake);
  pthread_mutex_unlock(&list->lock);
  return NULL;
}

// --- cancelling -------------------------------------------------------------------------------------------------------

crn_failure *crn_stream_cancellation(cairn_context *c) {
  crn_fail(CAIRN_CANCELLED, __FILE__, __LINE__, "the work was cancelled before it started");
  return crn_failure_capture(&c->allocator);
}

void crn_stream_cancel_work(crn_work *w, crn_failure *failure, crn_callback ***end, crn_work **dead) {
  cairn_stream *s = w->stream;
  crn_work_list *list = &s->context->work;
  if (w->status == CAIRN_OK) {
    w->status = CAIRN_CANCELLED;
    w->failure = crn_failure_retain(failure);
  }
  note_failure(s, w->status, w->failure);
  complete_values((crn_job *)w, end);
  unlink_from_stream(w);
  w->phase = CRN_WORK_CANCELLED;
  s->n_calling++;
  if (!w->n_pending) crn_work_leave(list, w, dead);
  crn_work_signal(list);
}

static void end_calls(cairn_stream *s, int n) {
  s->n_calling -= n;
  if (s->first && s->first->is_mark) crn_stream_wake(s);
  crn_work_signal(&s->context->work);
}

void crn_stream_end_cancel(cairn_stream *s, crn_callback *callbacks, crn_work *dead) {
  crn_work_list *list = &s->context->work;
  crn_callbacks_call(s->context, callbacks);
  crn_jobs_free(dead);
  pthread_mutex_lock(&list->lock);
  end_calls(s, 1);
  pthread_mutex_unlock(&list->lock);
}

static bool is_cancellable(const crn_work *w) { return w->phase == CRN_WORK_WAITING || w->phase == CRN_WORK_READY; }

// A mark is no work: it tells that the rest is over, which is so all the sooner.
int cairn_stream_cancel(cairn_stream *s) {
  if (!s) return 0;
  crn_work_list *list = &s->context->work;
  crn_work *dead = NULL;
  crn_callback *callbacks = NULL, **end = &callbacks;
  int n = 0;
  crn_failure *failure = crn_stream_cancellation(s->context);
  pthread_mutex_lock(&list->lock);
  for (crn_work *w = s->first, *next; w; w = next) {
    next = w->stream_next;
    if (w->is_mark || !is_cancellable(w)) continue;
    crn_stream_cancel_work(w, failure, &end, &dead);
    n++;
  }
  pthread_mutex_unlock(&list->lock);
  crn_failure_release(failure);
  crn_callbacks_call(s->context, callbacks);
  crn_jobs_free(dead);
  pthread_mutex_lock(&list->lock);
  end_calls(s, n);
  pthread_mutex_unlock(&list->lock);
  return n;
}

// --- waiting ----------------------------------------------------------------------------------------------------------

static void await_works_before(cairn_stream *s, int64_t sequence) {
  while (s->n_calling || (s->first && s->first->sequence < sequence)) crn_work_await_change(&s->context->work);
}

cairn_status cairn_stream_wait(cairn_stream *s) {
  CRN_REQUIRE_NAMED(s, "stream");
  crn_work_list *list = &s->context->work;
  crn_work *dead = NULL;
  CRN_TRY(crn_work_check_may_wait("a stream"));
  pthread_mutex_lock(&list->lock);
  await_works_before(s, list->n_entered);
  cairn_status status = s->status;
  crn_failure *failure = s->failure;
  s->status = CAIRN_OK;
  s->failure = NULL;
  crn_work_acknowledge(list, s, false, &dead);
  pthread_mutex_unlock(&list->lock);
  crn_jobs_free(dead);
  if (status != CAIRN_OK) crn_failure_restore(failure, status);
  crn_failure_release(failure);
  return status;
}

int cairn_stream_pending(const cairn_stream *s) {
  if (!s) return 0;
  crn_work_list *list = &s->context->work;
  pthread_mutex_lock(&list->lock);
  int n = s->n_works;
  pthread_mutex_unlock(&list->lock);
  return n;
}

cairn_status cairn_ndarray_wait_idle(cairn_ndarray *array) {
  CRN_REQUIRE(array);
  crn_work_list *list = &array->storage->context->work;
  const crn_access access = crn_access_of(array, "", CRN_ACCESS_UPDATE);
  cairn_status status = CAIRN_OK;
  pthread_mutex_lock(&list->lock);
  while (status == CAIRN_OK && crn_work_is_used(list, &access)) {
    status = crn_work_check_may_wait("an array");
    if (status == CAIRN_OK) crn_work_await_change(list);
  }
  pthread_mutex_unlock(&list->lock);
  return status;
}

// --- beginning and end ------------------------------------------------------------------------------------------------

static cairn_status start_workers(cairn_stream *s) {
  CRN_TRY(crn_alloc_array(&s->context->allocator, (size_t)s->options.n_workers, sizeof *s->threads, &s->threads));
  for (int i = 0; i < s->options.n_workers; i++) {
    if (pthread_create(&s->threads[i], NULL, worker_main, s))
      return CRN_FAIL(OUT_OF_MEMORY, "cannot start worker %d of %d of a stream", i + 1, s->options.n_workers);
    s->n_threads++;
  }
  return CAIRN_OK;
}

cairn_status cairn_stream_create(cairn_context *c, const cairn_stream_options *options, cairn_stream **out_stream) {
  CRN_REQUIRE(out_stream);
  *out_stream = NULL;
  CRN_REQUIRE_NAMED(c, "context");
  enum { DEFAULT_QUEUED = 64, MAX_WORKERS = 64 };
  cairn_stream_options o = options ? *options : (cairn_stream_options){0};
  if (o.max_queued < 0) return CRN_FAIL(INVALID_ARGUMENT, "max_queued is %d, 1 or more expected (0 = %d)", o.max_queued, DEFAULT_QUEUED);
  if (o.n_workers < 0 || o.n_workers > MAX_WORKERS)
    return CRN_FAIL(INVALID_ARGUMENT, "n_workers is %d, 1 to %d expected (0 = 1)", o.n_workers, MAX_WORKERS);
  if (!o.max_queued) o.max_queued = DEFAULT_QUEUED;
  if (!o.n_workers) o.n_workers = 1;
  cairn_stream *s;
  CRN_TRY(crn_alloc_zero(&c->allocator, sizeof *s, &s));
  cairn_context_retain(c);
  crn_recycler_begin(&c->blocks);
  s->context = c;
  s->options = o;
  pthread_cond_init(&s->wake, NULL);
  pthread_mutex_lock(&c->work.lock);
  s->next_in_context = c->work.streams;
  c->work.streams = s;
  pthread_mutex_unlock(&c->work.lock);
  cairn_status status = start_workers(s);
  if (status != CAIRN_OK) {
    cairn_stream_destroy(s);
    return status;
  }
  *out_stream = s;
  return CAIRN_OK;
}

static void take_out_of_context(cairn_stream *s) {
  crn_work_list *list = &s->context->work;
  crn_work *dead = NULL;
  pthread_mutex_lock(&list->lock);
  await_works_before(s, INT64_MAX);
  cairn_stream **at = &list->streams;
  while (*at != s) at = &(*at)->next_in_context;
  *at = s->next_in_context;
  crn_work_acknowledge(list, s, true, &dead);
  pthread_mutex_unlock(&list->lock);
  crn_jobs_free(dead);
}

void cairn_stream_destroy(cairn_stream *s) {
  if (!s) return;
  cairn_context *c = s->context;
  pthread_mutex_lock(&c->work.lock);
  s->is_ending = true;
  pthread_cond_broadcast(&s->wake);
  pthread_mutex_unlock(&c->work.lock);
  cairn_stream_cancel(s);
  for (int i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
  take_out_of_context(s);
  pthread_cond_destroy(&s->wake);
  crn_failure_release(s->failure);
  crn_free(&c->allocator, s->threads, (size_t)s->options.n_workers * sizeof *s->threads);
  crn_free(&c->allocator, s, sizeof *s);
  crn_recycler_end(&c->blocks);
  cairn_context_release(c);
}
