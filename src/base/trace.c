#include "base/trace.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/vec.h"

enum { NAME_BYTES = 96, DETAIL_BYTES = 96, MAX_EVENTS = 4000000, WRITE_BYTES = 1 << 16 };

typedef struct event {
  int64_t start, end;    // end 0: the name of a thread
  const char *category;  // a constant
  long thread;
  char name[NAME_BYTES], detail[DETAIL_BYTES];
} event;

/// Made at the first start and kept until the context is released, so that a span that ends late finds it.
struct crn_tracer {
  pthread_mutex_t lock;
  int64_t start;
  int64_t n_dropped;
  CRN_VEC(event) events;
};

int64_t crn_trace_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + 1;
}

static void record(cairn_context *c, const event *e) {
  struct crn_tracer *t = atomic_load_explicit(&c->tracer, memory_order_acquire);
  if (!t) return;
  pthread_mutex_lock(&t->lock);
  if (atomic_load_explicit(&c->is_tracing, memory_order_relaxed)) {
    if (t->events.size >= MAX_EVENTS || crn_vec_push(&c->allocator, &t->events, *e) != CAIRN_OK) t->n_dropped++;
  }
  pthread_mutex_unlock(&t->lock);
}

static event new_event(int64_t start, const char *category) {
  return (event){.start = start, .category = category, .thread = syscall(SYS_gettid)};
}

void crn_trace_span(cairn_context *c, int64_t start, const char *category, const char *detail, const char *fmt, ...) {
  event e = new_event(start, category);
  e.end = crn_trace_now();
  va_list args;
  va_start(args, fmt);
  vsnprintf(e.name, sizeof e.name, fmt, args);
  va_end(args);
  if (detail) snprintf(e.detail, sizeof e.detail, "%s", detail);
  record(c, &e);
}

void crn_trace_name_thread(cairn_context *c, const char *name) {
  if (!atomic_load_explicit(&c->is_tracing, memory_order_relaxed)) return;
  event e = new_event(0, "");
  snprintf(e.name, sizeof e.name, "%s", name);
  record(c, &e);
}

// --- start and stop ---------------------------------------------------------------------------------------------------

// Starting and stopping from several threads at once is decided by the flag.
cairn_status cairn_trace_start(cairn_context *c) {
  CRN_REQUIRE_NAMED(c, "context");
  struct crn_tracer *t = atomic_load_explicit(&c->tracer, memory_order_acquire);
  if (!t) {
    CRN_TRY(crn_alloc_zero(&c->allocator, sizeof *t, &t));
    pthread_mutex_init(&t->lock, NULL);
    struct crn_tracer *none = NULL;
    if (!atomic_compare_exchange_strong(&c->tracer, &none, t)) {
      pthread_mutex_destroy(&t->lock);
      crn_free(&c->allocator, t, sizeof *t);
      t = none;
    }
  }
  pthread_mutex_lock(&t->lock);
  bool was_on = atomic_exchange(&c->is_tracing, true);
  if (!was_on) t->start = crn_trace_now();
  pthread_mutex_unlock(&t->lock);
  if (was_on) return CRN_FAIL(ALREADY_EXISTS, "a trace is being made already; stop it first");
  return CAIRN_OK;
}

static cairn_status print_event(crn_str *s, const struct crn_tracer *t, const event *e) {
  int pid = (int)getpid();
  if (!e->end) {
    CRN_TRY(crn_str_printf(s, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%ld,\"args\":{\"name\":", pid, e->thread));
    CRN_TRY(crn_str_json(s, e->name, strlen(e->name)));
    return crn_str_puts(s, "}}");
  }
  CRN_TRY(crn_str_puts(s, "{\"name\":"));
  CRN_TRY(crn_str_json(s, e->name, strlen(e->name)));
  CRN_TRY(crn_str_printf(s, ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%ld", e->category,
                         (double)(e->start - t->start) * 1e-3, (double)(e->end - e->start) * 1e-3, pid, e->thread));
  if (*e->detail) {
    CRN_TRY(crn_str_puts(s, ",\"args\":{\"detail\":"));
    CRN_TRY(crn_str_json(s, e->detail, strlen(e->detail)));
    CRN_TRY(crn_str_putc(s, '}'));
  }
  return crn_str_putc(s, '}');
}

static cairn_status write_events(crn_file_writer *w, const struct crn_tracer *t, crn_str *s) {
  CRN_TRY(crn_str_printf(s,
                         "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"producer\":\"cairn %s\",\"dropped_events\":%lld},\"traceEvents\":[\n"
                         "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"cairn\"}}",
                         cairn_version(), (long long)t->n_dropped, (int)getpid()));
  for (size_t i = 0; i < t->events.size; i++) {
    CRN_TRY(crn_str_puts(s, ",\n"));
    CRN_TRY(print_event(s, t, &t->events.items[i]));
    if (s->size < WRITE_BYTES) continue;
    CRN_TRY(crn_file_write(w, s->data, s->size));
    crn_str_clear(s);
  }
  CRN_TRY(crn_str_puts(s, "\n]}\n"));
  return crn_file_write(w, s->data, s->size);
}

cairn_status cairn_trace_stop(cairn_context *c, const char *path) {
  CRN_REQUIRE_NAMED(c, "context");
  CRN_REQUIRE(path);
  struct crn_tracer *t = atomic_load_explicit(&c->tracer, memory_order_acquire);
  if (!t || !atomic_exchange(&c->is_tracing, false)) return CRN_FAIL(FAILED_PRECONDITION, "no trace is being made; start one first");
  crn_file_writer w;
  crn_str text;
  pthread_mutex_lock(&t->lock);
  crn_str_initialize(&text, &c->allocator);
  cairn_status status = crn_file_create(path, &w);
  if (status == CAIRN_OK) {
    status = write_events(&w, t, &text);
    if (status == CAIRN_OK) {
      status = crn_file_commit(&w);
    } else {
      crn_file_discard(&w);
    }
  }
  crn_str_deinitialize(&text);
  crn_vec_free(&c->allocator, &t->events);
  t->n_dropped = 0;
  pthread_mutex_unlock(&t->lock);
  return status == CAIRN_OK ? status : crn_note(status, "writing the trace");
}

void crn_trace_drop(cairn_context *c) {
  struct crn_tracer *t = atomic_load_explicit(&c->tracer, memory_order_acquire);
  if (!t) return;
  crn_vec_free(&c->allocator, &t->events);
  pthread_mutex_destroy(&t->lock);
  crn_free(&c->allocator, t, sizeof *t);
}
