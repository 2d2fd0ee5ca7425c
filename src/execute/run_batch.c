// Several runs of one function in lockstep: steps on packed weights are done once for all of them, so that weights are read once;
// all other steps go on in the workspace of each run, several workspaces at a time.
//
// Every run gets the bits it gets alone. Joint steps compute rows together only where each would have had the same kernel, and the
// other steps do not see that there are other runs.
#include <string.h>

#include "backend/cpu/fused/gather.h"
#include "backend/cpu/fused/linear.h"
#include "base/checked.h"
#include "base/trace.h"
#include "execute/stream.h"

enum {
  MANY_ROWS = 8,  ///< a run with more rows than this is worth all workers between two joint steps
  MOST_RUNS = 4096,
  N_BUFFERS = 7
};

/// One of the runs.
typedef struct member {
  const cairn_run_args *args;
  crn_workspace *w;
  cairn_outputs *bag;
  cairn_status status;
  crn_failure *failure;  ///< of `status`
  uint32_t at;           ///< the step it has come to
  int64_t rows;          ///< of the last joint step
  crn_call *call;        ///< of the joint step it has come to
} member;

typedef struct batch {
  cairn_function *f;
  crn_workspace *memory;  ///< nothing runs in it: it holds what follows, and the scratch memory of joint steps
  member *members;
  int n;
  member **running, **few;  ///< those without a failure, and the ones of them with few rows
  const crn_kernel_args **calls;
  const cairn_run_args **args;
  crn_access *accesses;
  crn_call *joint_calls;
  crn_buffer *buffers[N_BUFFERS];  ///< what all of these lie in
  int n_buffers, n_running, n_few;
  bool has_bags, is_entered;
  uint32_t stop;  ///< the joint step all go to, or the end
} batch;

typedef cairn_status (*joint_fn)(const crn_kernel_args *const *args, int n);

static joint_fn joint_of(const crn_step *s) {
  if (s->kind != CRN_STEP_KERNEL || !s->fused || s->view) return NULL;
  return s->kernel == crn_fused_linear_run   ? crn_fused_linear_run_joint
         : s->kernel == crn_fused_gather_run ? crn_fused_gather_run_joint
                                             : NULL;
}

// The next step that can be done for all. What lies in bodies, branches and loops is not: the runs may go different ways there.
static uint32_t next_joint(const crn_plan *p, uint32_t i) {
  for (; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    if (s->body_end) {
      i = s->body_end;
    } else if (joint_of(s)) {
      return i;
    }
  }
  return i;
}

static void fail(batch *b, member *m, cairn_status status) {
  m->status = status;
  m->failure = crn_failure_capture(&b->f->model->context->allocator);
}

// --- the steps between joint steps --------------------------------------------------------------------------------------------

// Goes on to the next joint step and prepares its call.
static cairn_status advance(const batch *b, member *m) {
  static const crn_trace kNoTrace = {0};
  while (m->at < b->stop) CRN_TRY(crn_run_next(m->w, &kNoTrace, b->stop, &m->at));
  if (b->stop == m->w->plan->n_steps) return CAIRN_OK;
  cairn_status status = crn_run_prepare(m->w, &m->w->plan->steps[m->at], m->call);
  return status == CAIRN_OK ? status : crn_run_note(status, m->w, m->at);
}

static void advance_one(batch *b, member *m) {
  cairn_status status = advance(b, m);
  if (status != CAIRN_OK) fail(b, m, status);
}

static void advance_some(void *user, int64_t begin, int64_t end, int worker) {
  batch *b = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    member *m = b->few[i];
    m->w->pool = NULL;
    advance_one(b, m);
    m->w->pool = b->memory->pool;
  }
}

static void keep_running(batch *b) {
  int n = 0;
  for (int i = 0; i < b->n_running; i++) {
    if (b->running[i]->status == CAIRN_OK) b->running[n++] = b->running[i];
  }
  b->n_running = n;
}

static void advance_all(batch *b) {
  b->n_few = 0;
  for (int i = 0; i < b->n_running; i++) {
    member *m = b->running[i];
    if (m->rows <= MANY_ROWS) {
      b->few[b->n_few++] = m;
    } else {
      advance_one(b, m);
    }
  }
  if (b->n_few == 1) {
    advance_one(b, b->few[0]);
  } else {
    crn_pool_run(b->memory->pool, b->n_few, 1, advance_some, b);
  }
  keep_running(b);
}

// --- joint steps --------------------------------------------------------------------------------------------------------------

static int64_t count_rows(const crn_tensor *result) {
  return result->rank ? crn_tensor_count(result) / (result->dims[result->rank - 1] ? result->dims[result->rank - 1] : 1) : 1;
}

static void run_joint(batch *b) {
  const crn_step *s = &b->f->plan->steps[b->stop];
  for (int i = 0; i < b->n_running; i++) {
    member *m = b->running[i];
    m->rows = count_rows(&m->call->results[0]);
    m->call->args.pool = b->memory->pool;
    b->calls[i] = &m->call->args;
  }
  if (!b->n_running) return;
  crn_kernel_args first = *b->calls[0];
  first.scratch = &b->memory->scratch;
  b->calls[0] = &first;
  cairn_status status = joint_of(s)(b->calls, b->n_running);
  crn_workspace_end_scratch(b->memory);
  for (int i = 0; i < b->n_running; i++) {
    member *m = b->running[i];
    crn_workspace_end_scratch(m->w);
    if (status == CAIRN_OK) {
      crn_run_release(m->w, s);
      m->at++;
    } else {
      crn_run_note(status, m->w, b->stop);
      fail(b, m, status);
    }
  }
  keep_running(b);
}

static void run_steps(batch *b) {
  const crn_plan *p = b->f->plan;
  for (uint32_t next = 0; next < p->n_steps && b->n_running;) {
    b->stop = next_joint(p, next);
    advance_all(b);
    if (b->stop < p->n_steps) run_joint(b);
    next = b->stop + 1;
  }
}

// --- from beginning to end ----------------------------------------------------------------------------------------------------

static void begin_all(batch *b) {
  for (int i = 0; i < b->n; i++) {
    member *m = &b->members[i];
    if (m->status != CAIRN_OK) continue;
    cairn_status status = b->has_bags ? crn_function_create_outputs(b->f, &m->bag) : CAIRN_OK;
    if (status == CAIRN_OK) status = crn_function_begin(b->f, m->args, &m->w);
    if (status == CAIRN_OK) {
      b->running[b->n_running++] = m;
    } else {
      fail(b, m, status);
    }
  }
}

// Workspaces go back in the other order, so that the next batch gives each to the place it had.
static void end_all(batch *b) {
  const bool has_states = b->f->info->n_states > 0;
  for (int i = b->n - 1; i >= 0; i--) {
    member *m = &b->members[i];
    if (!m->w) continue;
    crn_run_end_states(m->w, m->status == CAIRN_OK);
    if (m->status == CAIRN_OK) {
      cairn_status status = crn_function_collect(b->f, m->w, m->args, m->bag);
      if (status != CAIRN_OK) fail(b, m, status);
    }
    if (m->status != CAIRN_OK && has_states) {
      crn_failure_restore(m->failure, m->status);
      crn_note(m->status, "the states may have been changed");
      crn_failure_release(m->failure);
      fail(b, m, m->status);
    }
    crn_function_end(b->f, m->w, m->status == CAIRN_OK);
  }
}

static cairn_status first_failure(const batch *b, bool of_started) {
  for (int i = 0; i < b->n; i++) {
    if (b->members[i].status != CAIRN_OK && (b->members[i].w || !of_started))
      return crn_failure_restore(b->members[i].failure, b->members[i].status);
  }
  return CAIRN_OK;
}

static cairn_status run_entered(void *user) {
  batch *b = user;
  cairn_context *c = b->f->model->context;
  int64_t start = crn_trace_begin(c);
  b->is_entered = true;
  begin_all(b);
  run_steps(b);
  end_all(b);
  CRN_TRACE_END(c, start, "inference", NULL, "Run %s for %d", b->f->info->name, b->n);
  return first_failure(b, true);
}

// --- checks -------------------------------------------------------------------------------------------------------------------

static bool overlap(const cairn_named_array *a, int n_a, const cairn_named_array *b, int n_b, const char **out_name) {
  for (int i = 0; i < n_a; i++) {
    for (int k = 0; k < n_b; k++) {
      if (!crn_arrays_overlap(a[i].array, b[k].array)) continue;
      *out_name = a[i].name;
      return true;
    }
  }
  return false;
}

// What one run writes, no other run of the batch may use.
static bool conflict(const cairn_run_args *a, const cairn_run_args *b, const char **out_name) {
  return overlap(a->states, a->n_states, b->states, b->n_states, out_name) ||
         overlap(a->states, a->n_states, b->inputs, b->n_inputs, out_name) ||
         overlap(a->states, a->n_states, b->outputs, b->n_outputs, out_name) ||
         overlap(a->inputs, a->n_inputs, b->states, b->n_states, out_name) ||
         overlap(a->inputs, a->n_inputs, b->outputs, b->n_outputs, out_name) ||
         overlap(a->outputs, a->n_outputs, b->states, b->n_states, out_name) ||
         overlap(a->outputs, a->n_outputs, b->inputs, b->n_inputs, out_name) ||
         overlap(a->outputs, a->n_outputs, b->outputs, b->n_outputs, out_name);
}

static cairn_status check(const batch *b, int i) {
  const member *m = &b->members[i];
  const char *name;
  CRN_TRY(crn_function_check_args(b->f, m->args, b->has_bags, false));
  for (int k = 0; k < i; k++) {
    if (b->members[k].status == CAIRN_OK && conflict(m->args, b->members[k].args, &name))
      return CRN_FAIL(INVALID_ARGUMENT, "'%s' of run %d shares memory with run %d of the batch, and one of them writes it", name, i, k);
  }
  return CAIRN_OK;
}

// --- memory -------------------------------------------------------------------------------------------------------------------

static cairn_status take(batch *b, size_t n, size_t bytes_each, void *out_pointer) {
  size_t bytes;
  crn_buffer *buffer;
  if (!crn_mul_size(n, bytes_each, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "too many runs");
  CRN_TRY(crn_workspace_take(b->memory, bytes, &buffer));
  b->buffers[b->n_buffers++] = buffer;
  *(void **)out_pointer = buffer->data;
  return CAIRN_OK;
}

static cairn_status take_all(batch *b, const cairn_run_args *args) {
  const size_t n = (size_t)b->n;
  size_t n_accesses = 0;
  for (int i = 0; i < b->n; i++) n_accesses += (size_t)args[i].n_inputs + (size_t)args[i].n_states + (size_t)args[i].n_outputs;
  CRN_TRY(take(b, n, sizeof *b->members, &b->members));
  CRN_TRY(take(b, n, 2 * sizeof *b->running, &b->running));
  CRN_TRY(take(b, n, sizeof *b->calls, &b->calls));
  CRN_TRY(take(b, n, sizeof *b->args, &b->args));
  CRN_TRY(take(b, n_accesses, sizeof *b->accesses, &b->accesses));
  CRN_TRY(take(b, n, sizeof *b->joint_calls, &b->joint_calls));
  b->few = b->running + n;
  for (int i = 0; i < b->n; i++) b->members[i] = (member){.args = &args[i], .call = &b->joint_calls[i]};
  return CAIRN_OK;
}

// --- the public side ----------------------------------------------------------------------------------------------------------

static cairn_status run_members(batch *b) {
  int n = 0;
  for (int i = 0; i < b->n; i++) {
    cairn_status status = check(b, i);
    if (status != CAIRN_OK) {
      fail(b, &b->members[i], status);
    } else {
      b->args[n++] = b->members[i].args;
    }
  }
  cairn_status status = !n ? CAIRN_OK : crn_function_run_together_on_host(b->f, b->args, n, b->accesses, run_entered, b);
  // Refused before anything ran: that is so for all that had no failure of their own.
  for (int i = 0; i < b->n && status != CAIRN_OK; i++) {
    if (b->members[i].status == CAIRN_OK && !b->is_entered) b->members[i].status = status;
  }
  return status == CAIRN_OK ? first_failure(b, false) : status;
}

// Gives out results and forgets the rest.
static void give(batch *b, cairn_outputs **out_outputs, cairn_status *out_statuses) {
  for (int i = 0; i < b->n; i++) {
    member *m = &b->members[i];
    if (out_statuses) out_statuses[i] = m->status;
    if (out_outputs) out_outputs[i] = m->status == CAIRN_OK ? m->bag : NULL;
    if (m->status != CAIRN_OK) cairn_outputs_destroy(m->bag);
    crn_failure_release(m->failure);
  }
}

static cairn_status run_together(cairn_function *f, const cairn_run_args *args, int n, cairn_outputs **out_outputs,
                                 cairn_status *out_statuses) {
  batch b = {.f = f, .n = n, .has_bags = out_outputs != NULL};
  CRN_TRY(crn_function_take_workspace(f, &b.memory));
  cairn_status status = take_all(&b, args);
  if (status == CAIRN_OK) {
    status = run_members(&b);
    give(&b, out_outputs, out_statuses);
  } else {
    for (int i = 0; i < n && out_statuses; i++) out_statuses[i] = status;
  }
  for (int i = 0; i < b.n_buffers; i++) crn_workspace_drop(b.memory, b.buffers[i]);
  crn_function_return_workspace(f, b.memory);
  return status == CAIRN_OK ? status : crn_note(status, "function '%s'", f->info->name);
}

// One after the other, for those who want to see every step.
static cairn_status run_apart(cairn_function *f, const cairn_run_args *args, int n, cairn_outputs **out_outputs,
                              cairn_status *out_statuses) {
  crn_failure *failure = NULL;
  cairn_status first = CAIRN_OK;
  for (int i = 0; i < n; i++) {
    cairn_status status = cairn_function_run(f, &args[i], out_outputs ? &out_outputs[i] : NULL);
    if (out_statuses) out_statuses[i] = status;
    if (status == CAIRN_OK || first != CAIRN_OK) continue;
    first = status;
    failure = crn_failure_capture(&f->model->context->allocator);
  }
  if (first != CAIRN_OK) crn_failure_restore(failure, first);
  crn_failure_release(failure);
  return first;
}

cairn_status cairn_function_run_batch(cairn_function *f, const cairn_run_args *args, int n, cairn_outputs **out_outputs,
                                      cairn_status *out_statuses) {
  CRN_REQUIRE_NAMED(f, "function");
  CRN_REQUIRE_SOME(args, n);
  for (int i = 0; i < n; i++) {
    if (out_outputs) out_outputs[i] = NULL;
    if (out_statuses) out_statuses[i] = CAIRN_OK;
  }
  if (n < 1 || n > MOST_RUNS) {
    cairn_status status = CRN_FAIL(INVALID_ARGUMENT, "a batch of %d runs; 1 to %d expected", n, MOST_RUNS);
    for (int i = 0; i < n && out_statuses; i++) out_statuses[i] = status;
    return status;
  }
  return n == 1 || f->trace.fn ? run_apart(f, args, n, out_outputs, out_statuses) : run_together(f, args, n, out_outputs, out_statuses);
}
