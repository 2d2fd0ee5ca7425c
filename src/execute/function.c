// One run of a function: checks of what the caller gave, binding, the walk, outputs.
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "base/trace.h"
#include "execute/internal.h"
#include "execute/replay.h"
#include "tensor/pages.h"

// --- matching of names ------------------------------------------------------------------------------------------------------

static cairn_status list_names(const cairn_function *f, const char *kind, const char *given, const cairn_descriptor *d, int n) {
  crn_str names;
  crn_str_initialize(&names, &f->model->context->allocator);
  for (int i = 0; i < n && i < 32; i++) crn_str_printf(&names, "%s%s", i ? ", " : "", d[i].name);
  cairn_status status =
      CRN_FAIL(INVALID_ARGUMENT, "function '%s' has no %s '%s'; it has: %s", f->info->name, kind, given, n ? names.data : "none");
  crn_str_deinitialize(&names);
  return status;
}

static cairn_status check_given(const cairn_function *f, const char *kind, const cairn_named_array *given, int n_given,
                                const cairn_descriptor *d, int n, bool may_be_pending) {
  for (int i = 0; i < n_given; i++) {
    int k = 0;
    if (!given[i].name || (!given[i].array && !may_be_pending))
      return CRN_FAIL(INVALID_ARGUMENT, "function '%s': %s %d has no name or no array", f->info->name, kind, i);
    while (k < n && strcmp(d[k].name, given[i].name)) k++;
    if (k == n) return list_names(f, kind, given[i].name, d, n);
    for (k = 0; k < i; k++) {
      if (!strcmp(given[k].name, given[i].name))
        return CRN_FAIL(INVALID_ARGUMENT, "function '%s': %s '%s' is given twice", f->info->name, kind, given[i].name);
    }
  }
  return CAIRN_OK;
}

static const cairn_named_array *find_entry(const cairn_named_array *given, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (!strcmp(given[i].name, name)) return &given[i];
  }
  return NULL;
}

static cairn_ndarray *find_given(const cairn_named_array *given, int n, const char *name) {
  const cairn_named_array *entry = find_entry(given, n, name);
  return entry ? entry->array : NULL;
}

cairn_status crn_function_check_type(const cairn_function *f, const char *kind, const cairn_descriptor *d, cairn_dtype dtype, int rank,
                                     const int64_t *shape) {
  if (dtype != d->dtype) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s '%s' of function '%s' must be %s, %s was given", kind, d->name, f->info->name,
                    cairn_dtype_name(d->dtype), cairn_dtype_name(dtype));
  }
  if (rank != d->rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s '%s' of function '%s' must have rank %d, rank %d was given", kind, d->name, f->info->name,
                    d->rank, rank);
  }
  for (int i = 0; i < d->rank; i++) {
    // A dimension that is not known yet is checked when it is.
    if (d->shape[i] >= 0 && shape[i] >= 0 && d->shape[i] != shape[i]) {
      return CRN_FAIL(INVALID_ARGUMENT, "dim %d of %s '%s' of function '%s' must be %lld, %lld was given", i, kind, d->name, f->info->name,
                      (long long)d->shape[i], (long long)shape[i]);
    }
  }
  return CAIRN_OK;
}

static cairn_status check_fit(const cairn_function *f, const char *kind, const cairn_descriptor *d, const cairn_ndarray *a) {
  return crn_function_check_type(f, kind, d, a->view.dtype, a->view.rank, a->view.dims);
}

// --- overlapping memory -------------------------------------------------------------------------------------------------------

// Plainly overlapping memory is refused; views that interleave inside of one block without sharing elements pass.
bool crn_arrays_overlap(const cairn_ndarray *a, const cairn_ndarray *b) {
  if (!a || !b) return false;  // still to come
  size_t na = (size_t)crn_tensor_count(&a->view), nb = (size_t)crn_tensor_count(&b->view);
  if (!na || !nb) return false;
  if (a->view.pages || b->view.pages) return a->view.pages == b->view.pages;
  if (a->view.data == b->view.data) return true;
  if (!cairn_ndarray_is_contiguous(a) || !cairn_ndarray_is_contiguous(b)) return false;
  const char *pa = a->view.data, *pb = b->view.data;
  return pa < pb + nb * cairn_dtype_bytes(b->view.dtype) && pb < pa + na * cairn_dtype_bytes(a->view.dtype);
}

static cairn_status check_disjoint(const char *kind_a, const cairn_named_array *a, int n_a, const char *kind_b, const cairn_named_array *b,
                                   int n_b, bool same_list) {
  for (int i = 0; i < n_a; i++) {
    for (int k = same_list ? i + 1 : 0; k < n_b; k++) {
      if (crn_arrays_overlap(a[i].array, b[k].array))
        return CRN_FAIL(INVALID_ARGUMENT, "%s '%s' and %s '%s' share memory", kind_a, a[i].name, kind_b, b[k].name);
    }
  }
  return CAIRN_OK;
}

// --- checks before the run ---------------------------------------------------------------------------------------------------

static cairn_status check_all_present(const cairn_function *f, const char *kind, const cairn_named_array *given, int n_given,
                                      const cairn_descriptor *d, int n) {
  for (int i = 0; i < n; i++) {
    const cairn_named_array *entry = find_entry(given, n_given, d[i].name);
    if (!entry) return CRN_FAIL(INVALID_ARGUMENT, "%s '%s' of function '%s' is missing", kind, d[i].name, f->info->name);
    if (entry->array) CRN_TRY(check_fit(f, kind, &d[i], entry->array));
  }
  return CAIRN_OK;
}

cairn_status crn_function_check_args(const cairn_function *f, const cairn_run_args *r, bool has_bag, bool may_be_pending) {
  const cairn_function_info *info = f->info;
  if (r->last_rows < 0) return CRN_FAIL(INVALID_ARGUMENT, "last_rows is %lld, 0 (all) or more expected", (long long)r->last_rows);
  CRN_TRY(check_given(f, "input", r->inputs, r->n_inputs, info->inputs, info->n_inputs, may_be_pending));
  CRN_TRY(check_given(f, "state", r->states, r->n_states, info->states, info->n_states, false));
  CRN_TRY(check_given(f, "output", r->outputs, r->n_outputs, info->outputs, info->n_outputs, false));
  CRN_TRY(check_all_present(f, "input", r->inputs, r->n_inputs, info->inputs, info->n_inputs));
  CRN_TRY(check_all_present(f, "state", r->states, r->n_states, info->states, info->n_states));
  for (int i = 0; i < info->n_outputs; i++) {
    const cairn_ndarray *view = find_given(r->outputs, r->n_outputs, info->outputs[i].name);
    if (view) CRN_TRY(check_fit(f, "output view", &info->outputs[i], view));
    if (view && view->is_read_only) return CRN_FAIL(INVALID_ARGUMENT, "the view of output '%s' is read-only", info->outputs[i].name);
    if (!view && !has_bag)
      return CRN_FAIL(INVALID_ARGUMENT, "output '%s' has no view, and no bag for outputs was asked for", info->outputs[i].name);
  }
  for (int i = 0; i < r->n_states; i++) {
    if (r->states[i].array->is_read_only) return CRN_FAIL(INVALID_ARGUMENT, "state '%s' is read-only", r->states[i].name);
  }
  CRN_TRY(check_disjoint("state", r->states, r->n_states, "state", r->states, r->n_states, true));
  CRN_TRY(check_disjoint("state", r->states, r->n_states, "input", r->inputs, r->n_inputs, false));
  CRN_TRY(check_disjoint("state", r->states, r->n_states, "output view", r->outputs, r->n_outputs, false));
  CRN_TRY(check_disjoint("output view", r->outputs, r->n_outputs, "output view", r->outputs, r->n_outputs, true));
  return check_disjoint("output view", r->outputs, r->n_outputs, "input", r->inputs, r->n_inputs, false);
}

// --- binding ------------------------------------------------------------------------------------------------------------------

static cairn_status bind_input(crn_workspace *w, uint32_t slot, const cairn_ndarray *a) {
  if (!a->is_interleaved && !a->view.pages) {
    w->slots[slot] = (crn_slot){a->view, NULL};
    return CAIRN_OK;
  }
  // Kernels see plain strides only: an interleaved or segmented input is put into plain order, once.
  crn_tensor plain = crn_tensor_make(a->view.dtype, a->view.dims, a->view.rank, NULL);
  crn_buffer *buffer;
  CRN_TRY(crn_workspace_take(w, (size_t)crn_tensor_count(&plain) * cairn_dtype_bytes(plain.dtype), &buffer));
  plain.data = buffer->data;
  crn_ndarray_copy_out(a, &plain);
  w->slots[slot] = (crn_slot){plain, buffer};
  return CAIRN_OK;
}

static cairn_status bind(cairn_function *f, crn_workspace *w, const cairn_run_args *r) {
  cairn_model *m = f->model;
  if (atomic_load_explicit(&m->has_run, memory_order_relaxed)) CRN_TRY(crn_weight_store_settle(&m->weights, m->context->pool));
  const cairn_function_info *info = f->info;
  w->last_rows = r->last_rows;
  w->rows_as_one = r->rows_as_one;
  w->blind_rows_unused = r->blind_rows_unused;
  for (int i = 0; i < info->n_inputs; i++) {
    CRN_TRY(bind_input(w, f->plan->input_slots[i], find_given(r->inputs, r->n_inputs, info->inputs[i].name)));
  }
  for (int i = 0; i < info->n_states; i++) {
    crn_bound_state *s = &w->states[i];
    s->array = find_given(r->states, r->n_states, info->states[i].name);
    s->buffer = (crn_buffer){.is_state = true};
    CRN_TRY(crn_ndarray_acquire(s->array, w, info->states[i].name, &s->is_locked));
    if (s->array->view.pages) s->read_before = atomic_load(&s->array->view.pages->bytes_read);
  }
  return crn_replay_begin(w);
}

static void unbind(crn_workspace *w, bool is_finished) {
  if (is_finished) {
    crn_workspace_finish(w);
  } else {
    crn_workspace_reset(w);
  }
  for (uint32_t i = 0; i < w->plan->n_states; i++) {
    crn_bound_state *s = &w->states[i];
    if (s->is_locked && s->array->view.pages) w->bytes_gathered += atomic_load(&s->array->view.pages->bytes_read) - s->read_before;
    if (s->is_locked) crn_ndarray_unlock(s->array, w);
    *s = (crn_bound_state){0};
  }
}

// --- outputs ------------------------------------------------------------------------------------------------------------------

cairn_status crn_function_create_outputs(cairn_function *f, cairn_outputs **out) {
  const cairn_allocator *a = &f->model->context->allocator;
  cairn_outputs *o;
  CRN_TRY(crn_alloc_zero(a, sizeof *o, &o));
  o->allocator = a;
  o->capacity = f->info->n_outputs;
  o->function = f;
  cairn_function_retain(f);
  cairn_status status = crn_alloc_array(a, (size_t)o->capacity, sizeof *o->names, &o->names);
  if (status == CAIRN_OK) status = crn_alloc_array(a, (size_t)o->capacity, sizeof *o->arrays, &o->arrays);
  if (status != CAIRN_OK) {
    cairn_outputs_destroy(o);
    return status;
  }
  *out = o;
  return CAIRN_OK;
}

static cairn_status put_output(cairn_function *f, const crn_tensor *value, const cairn_descriptor *d, int64_t last_rows,
                               cairn_ndarray *view, cairn_outputs *bag) {
  crn_tensor t = *value;
  if (d->rank >= 2 && d->shape[d->rank - 2] < 0) crn_tensor_keep_last_rows(&t, last_rows);
  if (view) {
    if (!crn_tensor_same_shape(&view->view, &t))
      return CRN_FAIL(INVALID_ARGUMENT, "the view of output '%s' does not have the shape of the result", d->name);
    return crn_ndarray_copy_in(view, &t);
  }
  cairn_ndarray *array;
  CRN_TRY(crn_ndarray_create_uninitialized(f->model->context, t.dtype, t.dims, t.rank, &array));
  if (t.packed) {
    crn_tensor_unpack(&t, &array->view);
  } else {
    crn_tensor_copy(&t, &array->view);
  }
  bag->names[bag->n] = d->name;
  bag->arrays[bag->n++] = array;
  return CAIRN_OK;
}

cairn_status crn_function_collect(cairn_function *f, crn_workspace *w, const cairn_run_args *r, cairn_outputs *bag) {
  for (int i = 0; i < f->info->n_outputs; i++) {
    const cairn_descriptor *d = &f->info->outputs[i];
    cairn_ndarray *view = find_given(r->outputs, r->n_outputs, d->name);
    CRN_TRY(put_output(f, &w->slots[f->plan->output_slots[i]].tensor, d, r->last_rows, view, bag));
  }
  return CAIRN_OK;
}

int cairn_outputs_count(const cairn_outputs *o) {
  if (!o) return 0;
  int n = 0;
  for (int i = 0; i < o->n; i++) n += o->arrays[i] != NULL;
  return n;
}

const char *cairn_outputs_name(const cairn_outputs *o, int i) {
  if (!o) return NULL;
  for (int k = 0; k < o->n; k++) {
    if (o->arrays[k] && i-- == 0) return o->names[k];
  }
  return NULL;
}

cairn_status cairn_outputs_take(cairn_outputs *o, const char *name, cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE_NAMED(o, "outputs");
  CRN_REQUIRE(name);
  for (int i = 0; i < o->n; i++) {
    if (strcmp(o->names[i], name)) continue;
    if (!o->arrays[i]) return CRN_FAIL(NOT_FOUND, "output '%s' was taken already", name);
    *out_array = o->arrays[i];
    o->arrays[i] = NULL;
    return CAIRN_OK;
  }
  return CRN_FAIL(NOT_FOUND, "no output '%s' among the results (a given view is not among them)", name);
}

void cairn_outputs_destroy(cairn_outputs *o) {
  if (!o) return;
  for (int i = 0; i < o->n; i++) cairn_ndarray_release(o->arrays[i]);
  cairn_allocator a = *o->allocator;
  crn_free(&a, o->names, (size_t)o->capacity * sizeof *o->names);
  crn_free(&a, o->arrays, (size_t)o->capacity * sizeof *o->arrays);
  cairn_function *f = o->function;
  crn_free(&a, o, sizeof *o);
  cairn_function_release(f);
}

// --- the run ------------------------------------------------------------------------------------------------------------------

cairn_status crn_function_take_workspace(cairn_function *f, crn_workspace **out) {
  pthread_mutex_lock(&f->lock);
  crn_workspace *w = f->idle;
  if (w) f->idle = w->next;
  pthread_mutex_unlock(&f->lock);
  *out = w;
  if (w) return CAIRN_OK;
  cairn_context *c = f->model->context;
  int64_t start = crn_trace_begin(c);
  cairn_status status = crn_workspace_create(f->plan, out);
  CRN_TRACE_END(c, start, "setup", NULL, "Context.alloc for %s", f->info->name);
  return status;
}

static void return_workspace(cairn_function *f, crn_workspace *w, int n_runs) {
  bool copied = w->bytes_copied > 0;
  pthread_mutex_lock(&f->lock);
  f->stats.n_runs += n_runs;
  f->stats.state_bytes_written += w->bytes_written;
  f->stats.state_bytes_copied += w->bytes_copied;
  f->stats.state_bytes_gathered += w->bytes_gathered;
  f->stats.workspace_allocations += w->n_allocations;
  w->bytes_written = w->bytes_copied = w->bytes_gathered = w->n_allocations = 0;
  w->next = f->idle;
  f->idle = w;
  bool warn = copied && !f->warned_copy;
  f->warned_copy |= copied;
  pthread_mutex_unlock(&f->lock);
  if (warn)
    CRN_WARN(f->model->context, "function '%s' rewrites a whole state on each run: its update could not be proven safe in place",
             f->info->name);
}

static cairn_status run(cairn_function *f, crn_workspace *w, const cairn_run_args *args, cairn_outputs *bag) {
  cairn_context *c = f->model->context;
  int64_t start = crn_trace_begin(c);
  CRN_TRY(bind(f, w, args));
  CRN_TRACE_END(c, start, "setup", f->model->asset ? cairn_asset_path(f->model->asset) : NULL, "Setup for %s", f->info->name);
  start = crn_trace_begin(c);
  cairn_status status = crn_run_plan(w, &f->trace);
  if (status == CAIRN_OK) status = crn_function_collect(f, w, args, bag);
  CRN_TRACE_END(c, start, "inference", status == CAIRN_OK ? NULL : cairn_status_name(status), "Run %s", f->info->name);
  if (status != CAIRN_OK && f->info->n_states) crn_note(status, "the states may have been changed");
  return status;
}

cairn_status crn_function_begin(cairn_function *f, const cairn_run_args *args, crn_workspace **out) {
  crn_workspace *w;
  CRN_TRY(crn_function_take_workspace(f, &w));
  cairn_status status = bind(f, w, args);
  if (status != CAIRN_OK) {
    crn_function_end(f, w, false);
    return status;
  }
  *out = w;
  return CAIRN_OK;
}

void crn_function_end(cairn_function *f, crn_workspace *w, bool is_finished) {
  unbind(w, is_finished);
  if (is_finished) atomic_store_explicit(&f->model->has_run, true, memory_order_relaxed);
  return_workspace(f, w, 1);
}

void crn_function_return_workspace(cairn_function *f, crn_workspace *w) { return_workspace(f, w, 0); }

cairn_status crn_function_run_checked(cairn_function *f, const cairn_run_args *args, cairn_outputs **out_outputs) {
  crn_workspace *w;
  cairn_outputs *bag = NULL;
  if (out_outputs) *out_outputs = NULL;
  if (out_outputs) CRN_TRY(crn_function_create_outputs(f, &bag));
  int64_t started = crn_widening_begin(&f->widening, f->info, args);
  cairn_status status = crn_function_take_workspace(f, &w);
  if (status == CAIRN_OK) {
    status = run(f, w, args, bag);
    crn_function_end(f, w, status == CAIRN_OK);
  }
  if (started) crn_widening_end(&f->widening, f->model->context, f->info->name, started);
  if (status != CAIRN_OK) {
    cairn_outputs_destroy(bag);
    return crn_note(status, "function '%s'", f->info->name);
  }
  if (out_outputs) *out_outputs = bag;
  return CAIRN_OK;
}

cairn_status cairn_function_run(cairn_function *f, const cairn_run_args *args, cairn_outputs **out_outputs) {
  CRN_REQUIRE_NAMED(f, "function");
  CRN_REQUIRE(args);
  if (out_outputs) *out_outputs = NULL;
  CRN_TRY(crn_function_check_args(f, args, out_outputs != NULL, false));
  return crn_function_run_on_host(f, args, out_outputs);
}
