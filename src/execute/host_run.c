// Runs of the caller among queued work: they refuse or wait for what is in use.
#include "execute/stream.h"

enum { STACK_ACCESSES = 64 };

typedef struct host_run {
  crn_work work;
  crn_access stack[STACK_ACCESSES];
  size_t heap_bytes;  // of accesses that do not fit there
} host_run;

static void add(crn_work *w, const cairn_named_array *list, int n, crn_access_kind kind) {
  for (int i = 0; i < n; i++) w->accesses[w->n_accesses++] = crn_access_of(list[i].array, list[i].name, kind);
}

static void add_all(crn_work *w, const cairn_run_args *args) {
  add(w, args->inputs, args->n_inputs, CRN_ACCESS_READ);
  add(w, args->states, args->n_states, CRN_ACCESS_UPDATE);
  add(w, args->outputs, args->n_outputs, CRN_ACCESS_WRITE);
}

static cairn_status describe(cairn_context *c, const cairn_run_args *args, host_run *r) {
  size_t n = (size_t)args->n_inputs + (size_t)args->n_states + (size_t)args->n_outputs;
  r->work = (crn_work){.accesses = r->stack, .is_host = true};
  r->heap_bytes = 0;
  if (n > STACK_ACCESSES) {
    CRN_TRY(crn_alloc_array(&c->allocator, n, sizeof *r->stack, &r->work.accesses));
    r->heap_bytes = n * sizeof *r->stack;
  }
  add_all(&r->work, args);
  return CAIRN_OK;
}

static void deinitialize(cairn_context *c, host_run *r) {
  crn_work_free_edges(c, &r->work);
  if (r->heap_bytes) crn_free(&c->allocator, r->work.accesses, r->heap_bytes);
  crn_failure_release(r->work.failure);
}

static bool is_full(const cairn_function *f) { return f->max_in_flight && f->n_in_flight >= f->max_in_flight; }

static cairn_status check_free(const cairn_function *f, const host_run *r, const char *conflict) {
  if (r->work.edges.size) return CRN_FAIL(BUSY, "'%s' is in use by another run or by queued work", conflict);
  if (is_full(f)) return CRN_FAIL(BUSY, "%d runs are in flight, which is the most the function may have", f->n_in_flight);
  return CAIRN_OK;
}

// With the lock held. On success the run is in the list and has its place in the function.
static cairn_status enter(cairn_function *f, const cairn_run_args *args, host_run *r, crn_work **dead) {
  cairn_context *c = f->model->context;
  crn_work *w = &r->work;
  const char *conflict = NULL;
  CRN_TRY(crn_work_find_edges(c, w, &conflict));
  // Inside of queued work nothing can be waited for: what it waits for might be behind itself.
  if (!args->wait || crn_work_is_inside()) CRN_TRY(check_free(f, r, conflict));
  crn_work_enter(&c->work, w);
  while (w->n_pending || (w->status == CAIRN_OK && is_full(f))) crn_work_await_change(&c->work);
  if (w->status == CAIRN_OK) {
    f->n_in_flight++;
    w->phase = CRN_WORK_RUNNING;
    return CAIRN_OK;
  }
  crn_work_leave(&c->work, w, dead);
  crn_failure_restore(w->failure, w->status);
  return crn_note(w->status, "an array of the run was to be written by queued work that failed");
}

static void leave(cairn_function *f, host_run *r, cairn_status status, crn_work **dead) {
  crn_work_list *list = &f->model->context->work;
  r->work.status = status;
  // Queued work that waited for this run gets its failure.
  if (status != CAIRN_OK && r->work.dependents) r->work.failure = crn_failure_capture(&f->model->context->allocator);
  f->n_in_flight--;
  if (f->max_in_flight) crn_stream_wake_all(list);
  crn_work_leave(list, &r->work, dead);
}

/// What is done between entering and leaving.
typedef struct host_body {
  cairn_function *function;
  const cairn_run_args *args;
  cairn_outputs **out_outputs;
} host_body;

static cairn_status run_one(void *user) {
  const host_body *b = user;
  return crn_function_run_checked(b->function, b->args, b->out_outputs);
}

// `args` says whether the run waits; what it uses is described already.
static cairn_status run_between(cairn_function *f, const cairn_run_args *args, host_run *r, cairn_status (*run)(void *user), void *user) {
  cairn_context *c = f->model->context;
  crn_work *dead = NULL;
  pthread_mutex_lock(&c->work.lock);
  cairn_status status = enter(f, args, r, &dead);
  pthread_mutex_unlock(&c->work.lock);
  if (status == CAIRN_OK) {
    status = run(user);
    pthread_mutex_lock(&c->work.lock);
    leave(f, r, status, &dead);
    pthread_mutex_unlock(&c->work.lock);
  } else {
    crn_note(status, "function '%s'", f->info->name);
  }
  deinitialize(c, r);
  crn_jobs_free(dead);
  return status;
}

cairn_status crn_function_run_on_host(cairn_function *f, const cairn_run_args *args, cairn_outputs **out_outputs) {
  host_run r;
  host_body body = {f, args, out_outputs};
  CRN_TRY(describe(f->model->context, args, &r));
  return run_between(f, args, &r, run_one, &body);
}

cairn_status crn_function_run_together_on_host(cairn_function *f, const cairn_run_args *const *args, int n, crn_access *accesses,
                                               cairn_status (*run)(void *user), void *user) {
  host_run r;
  r.work = (crn_work){.accesses = accesses, .is_host = true};
  r.heap_bytes = 0;
  for (int i = 0; i < n; i++) add_all(&r.work, args[i]);
  return run_between(f, args[0], &r, run, user);
}
