// One queued piece of work: what it is given, the checks of that, and doing it.
#include <string.h>

#include "base/trace.h"
#include "execute/stream.h"

// The job and its lists are one block, which is given out again for the next job of this size.
static size_t bytes_of(const crn_job *j, size_t name_bytes) {
  const size_t n_arrays = (size_t)j->n_inputs + (size_t)j->n_targets + (size_t)j->n_views;
  return sizeof *j + n_arrays * (sizeof *j->inputs + sizeof *j->work.accesses) + (size_t)j->n_inputs * sizeof *j->input_values +
         (size_t)j->n_outputs * (sizeof *j->outputs + sizeof *j->results) + name_bytes;
}

// Everything but the name is of pointers and integers of 8 bytes, so each list begins where one of them may.
static void lay_out(crn_job *j) {
  char *at = (char *)(j + 1);
  j->inputs = (cairn_named_array *)at;
  j->targets = j->inputs + j->n_inputs;
  j->views = j->targets + j->n_targets;
  j->work.accesses = (crn_access *)(j->views + j->n_views);
  j->input_values = (cairn_value **)(j->work.accesses + j->n_inputs + j->n_targets + j->n_views);
  j->outputs = j->input_values + j->n_inputs;
  j->results = (cairn_ndarray **)(j->outputs + j->n_outputs);
  j->name = (char *)(j->results + j->n_outputs);
}

cairn_status crn_job_create(cairn_context *c, const crn_job_size *size, crn_job **out_job) {
  const crn_job counts = {.n_inputs = size->n_inputs, .n_targets = size->n_targets, .n_views = size->n_views, .n_outputs = size->n_outputs};
  const size_t name_bytes = size->name ? strlen(size->name) + 1 : 0, bytes = bytes_of(&counts, name_bytes);
  crn_job *j;
  *out_job = NULL;
  CRN_TRY(crn_recycle_take(&c->blocks, bytes, &j));
  cairn_context_retain(c);
  j->context = c;
  j->bytes = bytes;
  j->n_inputs = size->n_inputs;
  j->n_targets = size->n_targets;
  j->n_views = size->n_views;
  j->n_outputs = size->n_outputs;
  lay_out(j);
  if (size->name) memcpy(j->name, size->name, name_bytes);
  if (!size->name) j->name = NULL;
  for (int i = 0; i < j->n_outputs; i++) {
    cairn_status status = crn_value_create_pending(c, &j->outputs[i]);
    if (status == CAIRN_OK) continue;
    crn_job_free(j);
    return status;
  }
  *out_job = j;
  return CAIRN_OK;
}

static void release_arrays(const cairn_named_array *list, int n) {
  for (int i = 0; i < n; i++) cairn_ndarray_release(list[i].array);
}

void crn_job_free(crn_job *j) {
  if (!j) return;
  cairn_context *c = j->context;
  release_arrays(j->inputs, j->n_inputs);
  release_arrays(j->targets, j->n_targets);
  release_arrays(j->views, j->n_views);
  for (int i = 0; i < j->n_inputs; i++) cairn_value_release(j->input_values[i]);
  for (int i = 0; i < j->n_outputs; i++) cairn_value_release(j->outputs[i]);
  for (int i = 0; i < j->n_outputs; i++) cairn_ndarray_release(j->results[i]);
  crn_work_free_edges(c, &j->work);
  crn_failure_release(j->work.failure);
  cairn_function_release(j->function);
  if (j->release) j->release(j->user);
  crn_recycle_give(&c->blocks, j, j->bytes);
  cairn_context_release(c);
}

void crn_jobs_free(crn_work *dead) {
  for (crn_work *w = dead, *next; w; w = next) {
    next = w->stream_next;
    crn_job_free((crn_job *)w);
  }
}

const char *crn_job_name(const crn_job *j) { return j->function ? j->function->info->name : j->name ? j->name : "mark"; }

// --- what it is given -------------------------------------------------------------------------------------------------

static void keep(cairn_named_array *slot, const char *name, cairn_ndarray *array) {
  if (array) cairn_ndarray_retain(array);
  *slot = (cairn_named_array){name, array};
}

static cairn_status keep_inputs(crn_job *j, const cairn_stream_input *inputs) {
  for (int i = 0; i < j->n_inputs; i++) {
    if (!inputs[i].name || !inputs[i].array == !inputs[i].value)
      return CRN_FAIL(INVALID_ARGUMENT, "input %d of '%s' must have a name and either an array or a value", i, crn_job_name(j));
    if (inputs[i].value && inputs[i].value->context != j->context)
      return CRN_FAIL(INVALID_ARGUMENT, "the value of input '%s' belongs to another context", inputs[i].name);
    keep(&j->inputs[i], inputs[i].name, inputs[i].array);
    j->input_values[i] = inputs[i].value;
    if (inputs[i].value) cairn_value_retain(inputs[i].value);
  }
  return CAIRN_OK;
}

static cairn_status keep_targets(crn_job *j, const char *kind, cairn_named_array *slots, const cairn_named_array *given, int n) {
  for (int i = 0; i < n; i++) {
    if (!given[i].name || !given[i].array)
      return CRN_FAIL(INVALID_ARGUMENT, "%s %d of '%s' has no name or no array", kind, i, crn_job_name(j));
    keep(&slots[i], given[i].name, given[i].array);
  }
  return CAIRN_OK;
}

// Names the caller gave become those of the descriptors, which live as long as the function.
static void adopt_names(cairn_named_array *list, int n, const cairn_descriptor *d, int n_d) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n_d; k++) {
      if (!strcmp(list[i].name, d[k].name)) list[i].name = d[k].name;
    }
  }
}

static int find_view(const crn_job *j, const char *name) {
  for (int i = 0; i < j->n_views; i++) {
    if (!strcmp(j->views[i].name, name)) return i;
  }
  return -1;
}

static void describe_outputs(crn_job *j) {
  for (int i = 0; i < j->n_outputs; i++) {
    cairn_value *v = j->outputs[i];
    v->type = &j->function->info->outputs[i];
    v->function = j->function;
    cairn_function_retain(v->function);
    int at = find_view(j, v->type->name);
    if (at < 0) continue;
    v->view = j->views[at].array;
    cairn_ndarray_retain(v->view);
  }
}

// Fills in the arrays of values that exist already.
static void fetch_done_values(crn_job *j) {
  pthread_mutex_lock(&j->context->work.lock);
  for (int i = 0; i < j->n_inputs; i++) {
    const cairn_value *v = j->input_values[i];
    if (v && v->is_done && v->array) keep(&j->inputs[i], j->inputs[i].name, v->array);
  }
  pthread_mutex_unlock(&j->context->work.lock);
}

// A value that is still to come has a type, and a shape where that is static.
static cairn_status check_pending_values(const crn_job *j) {
  for (int i = 0; i < j->n_inputs; i++) {
    const cairn_value *v = j->input_values[i];
    if (!v || j->inputs[i].array || !v->type) continue;
    const cairn_descriptor *d = cairn_function_input(j->function, j->inputs[i].name);
    CRN_TRY(crn_function_check_type(j->function, "input", d, v->type->dtype, v->type->rank, v->type->shape));
  }
  return CAIRN_OK;
}

cairn_status crn_job_set_function(crn_job *j, cairn_function *f, const cairn_encode_args *args) {
  const cairn_function_info *info = f->info;
  cairn_function_retain(f);
  j->function = f;
  j->last_rows = args->last_rows;
  CRN_TRY(keep_inputs(j, args->inputs));
  CRN_TRY(keep_targets(j, "state", j->targets, args->states, j->n_targets));
  CRN_TRY(keep_targets(j, "view", j->views, args->views, j->n_views));
  adopt_names(j->inputs, j->n_inputs, info->inputs, info->n_inputs);
  adopt_names(j->targets, j->n_targets, info->states, info->n_states);
  adopt_names(j->views, j->n_views, info->outputs, info->n_outputs);
  const cairn_run_args run = {.inputs = j->inputs,
                              .n_inputs = j->n_inputs,
                              .states = j->targets,
                              .n_states = j->n_targets,
                              .outputs = j->views,
                              .n_outputs = j->n_views,
                              .last_rows = j->last_rows};
  fetch_done_values(j);
  CRN_TRY(crn_function_check_args(f, &run, true, true));
  CRN_TRY(check_pending_values(j));
  describe_outputs(j);
  return CAIRN_OK;
}

cairn_status crn_job_set_call(crn_job *j, const cairn_call_args *args) {
  const char *name = j->name;
  if (!args->call) return CRN_FAIL(INVALID_ARGUMENT, "'%s' has no function to call", name);
  j->call = args->call;
  j->user = args->user;
  CRN_TRY(keep_inputs(j, args->inputs));
  CRN_TRY(keep_targets(j, "target", j->targets, args->targets, j->n_targets));
  for (int i = 0; i < j->n_targets; i++) {
    if (j->targets[i].array->is_read_only) return CRN_FAIL(INVALID_ARGUMENT, "target '%s' of '%s' is read-only", j->targets[i].name, name);
  }
  return CAIRN_OK;
}

void crn_job_set_accesses(crn_job *j) {
  crn_work *w = &j->work;
  for (int i = 0; i < j->n_inputs; i++) {
    const cairn_value *v = j->input_values[i];
    const cairn_ndarray *array = !v ? j->inputs[i].array : v->view ? v->view : v->array;
    if (array) w->accesses[w->n_accesses++] = crn_access_of(array, j->inputs[i].name, CRN_ACCESS_READ);
  }
  for (int i = 0; i < j->n_targets; i++)
    w->accesses[w->n_accesses++] = crn_access_of(j->targets[i].array, j->targets[i].name, CRN_ACCESS_UPDATE);
  for (int i = 0; i < j->n_views; i++) w->accesses[w->n_accesses++] = crn_access_of(j->views[i].array, j->views[i].name, CRN_ACCESS_WRITE);
}

// --- doing it ---------------------------------------------------------------------------------------------------------

// Values are done by now, and what they hold does not change any more.
static cairn_status fetch_inputs(crn_job *j) {
  for (int i = 0; i < j->n_inputs; i++) {
    cairn_value *v = j->input_values[i];
    if (!v || j->inputs[i].array) continue;
    if (!v->array)
      return CRN_FAIL(INVALID_ARGUMENT, "input '%s' of '%s' is a mark, which has no array", j->inputs[i].name, crn_job_name(j));
    keep(&j->inputs[i], j->inputs[i].name, v->array);
  }
  return CAIRN_OK;
}

static cairn_status take_results(crn_job *j, cairn_outputs *bag) {
  for (int i = 0; i < j->n_outputs; i++) {
    cairn_ndarray *array = NULL;
    if (j->outputs[i]->view) {
      array = j->outputs[i]->view;
      cairn_ndarray_retain(array);
    } else {
      CRN_TRY(cairn_outputs_take(bag, j->outputs[i]->type->name, &array));
    }
    cairn_status status = cairn_ndarray_const_view(array, &j->results[i]);
    cairn_ndarray_release(array);
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

// Outputs with views need nothing to be collected in.
static bool needs_bag(const crn_job *j) {
  for (int i = 0; i < j->n_outputs; i++) {
    if (!j->outputs[i]->view) return true;
  }
  return false;
}

static cairn_status run_function(crn_job *j) {
  cairn_outputs *bag = NULL;
  const cairn_run_args args = {.inputs = j->inputs,
                               .n_inputs = j->n_inputs,
                               .states = j->targets,
                               .n_states = j->n_targets,
                               .outputs = j->views,
                               .n_outputs = j->n_views,
                               .last_rows = j->last_rows};
  CRN_TRY(crn_function_check_args(j->function, &args, true, false));
  CRN_TRY(crn_function_run_checked(j->function, &args, needs_bag(j) ? &bag : NULL));
  cairn_status status = take_results(j, bag);
  cairn_outputs_destroy(bag);
  return status;
}

// Arrays that the call made become read-only views.
static cairn_status freeze_results(crn_job *j) {
  for (int i = 0; i < j->n_outputs; i++) {
    cairn_ndarray *array = j->results[i];
    if (!array) return CRN_FAIL(INTERNAL, "call '%s' did not set output %d of %d", j->name, i, j->n_outputs);
    j->results[i] = NULL;
    cairn_status status = cairn_ndarray_const_view(array, &j->results[i]);
    cairn_ndarray_release(array);
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

static cairn_status run_call(crn_job *j) {
  int64_t start = crn_trace_begin(j->context);
  crn_error_clear();
  cairn_status status = j->call(j->user, j->inputs, j->n_inputs, j->targets, j->n_targets, j->results);
  // A call may fail on its own, without a record, or with a code that is not one of ours.
  if (status != CAIRN_OK && cairn_last_error()->code != status) crn_error_restore(status, cairn_status_text(status));
  CRN_TRACE_END(j->context, start, "stream", NULL, "Call %s", j->name);
  if (status != CAIRN_OK) return crn_note(status, "call '%s'", j->name);
  return freeze_results(j);
}

cairn_status crn_job_run(crn_job *j) {
  if (j->work.is_mark) return CAIRN_OK;
  crn_work *before = crn_work_enter_thread(&j->work);
  cairn_status status = fetch_inputs(j);
  if (status == CAIRN_OK) status = j->function ? run_function(j) : run_call(j);
  crn_work_leave_thread(before);
  return status;
}
