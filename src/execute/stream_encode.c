// Queuing work.
#include "base/trace.h"
#include "execute/stream.h"

// With the lock held: waits for room, or refuses.
static cairn_status find_room(cairn_stream *s) {
  while (s->n_works >= s->options.max_queued) {
    if (s->options.busy_when_full || crn_work_is_inside())
      return CRN_FAIL(BUSY, "the stream holds %d works, which is the most it may (max_queued)", s->n_works);
    crn_work_await_change(&s->context->work);
  }
  return CAIRN_OK;
}

// Values that are not done order the work behind their makers; those of failed work give it their failure.
static cairn_status depend_on_values(crn_job *j) {
  crn_work *w = &j->work;
  for (int i = 0; i < j->n_inputs; i++) {
    const cairn_value *v = j->input_values[i];
    if (!v) continue;
    if (!v->is_done) {
      CRN_TRY(crn_work_add_data_edge(j->context, w, v->producer));
    } else if (v->status != CAIRN_OK && w->status == CAIRN_OK) {
      w->status = v->status;
      w->failure = crn_failure_retain(v->failure);
    }
  }
  return CAIRN_OK;
}

static void append(cairn_stream *s, crn_work *w) {
  w->stream = w->owner = s;
  w->stream_previous = s->last;
  *(s->last ? &s->last->stream_next : &s->first) = w;
  s->last = w;
  s->n_works++;
}

static cairn_status queue_locked(cairn_stream *s, crn_job *j, cairn_value **out_values) {
  crn_work *w = &j->work;
  CRN_TRY(find_room(s));
  crn_job_set_accesses(j);
  CRN_TRY(depend_on_values(j));
  CRN_TRY(crn_work_find_edges(s->context, w, NULL));
  append(s, w);
  crn_work_enter(&s->context->work, w);
  for (int i = 0; i < j->n_outputs; i++) {
    j->outputs[i]->producer = w;
    if (!out_values) continue;
    cairn_value_retain(j->outputs[i]);
    out_values[i] = j->outputs[i];
  }
  if (w->phase == CRN_WORK_READY || w == s->first) crn_stream_wake(s);
  return CAIRN_OK;
}

// Takes the job over. A caller whose work was refused keeps what `release` would release.
static cairn_status queue(cairn_stream *s, crn_job *j, void (*release)(void *), cairn_value **out_values) {
  crn_work_list *list = &s->context->work;
  int64_t start = crn_trace_begin(s->context);
  j->release = release;
  pthread_mutex_lock(&list->lock);
  cairn_status status = queue_locked(s, j, out_values);
  pthread_mutex_unlock(&list->lock);
  // The job itself may be done and gone by now.
  CRN_TRACE_END(s->context, start, "stream", NULL, "Encode");
  if (status == CAIRN_OK) return CAIRN_OK;
  j->release = NULL;
  crn_job_free(j);
  return status;
}

static void clear(cairn_value **out_values, int n) {
  for (int i = 0; out_values && i < n; i++) out_values[i] = NULL;
}

cairn_status cairn_stream_encode(cairn_stream *s, cairn_function *f, const cairn_encode_args *args, cairn_value **out_values) {
  CRN_REQUIRE_NAMED(s, "stream");
  CRN_REQUIRE_NAMED(f, "function");
  CRN_REQUIRE(args);
  crn_job *j;
  int n = f->info->n_outputs;
  clear(out_values, n);
  if (f->model->context != s->context)
    return CRN_FAIL(INVALID_ARGUMENT, "function '%s' belongs to another context than the stream", f->info->name);
  if (args->n_inputs < 0 || args->n_states < 0 || args->n_views < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "function '%s': a count of arrays is negative", f->info->name);
  const crn_job_size size = {.n_inputs = args->n_inputs, .n_targets = args->n_states, .n_views = args->n_views, .n_outputs = n};
  CRN_TRY(crn_job_create(s->context, &size, &j));
  cairn_status status = crn_job_set_function(j, f, args);
  if (status != CAIRN_OK) {
    crn_job_free(j);
    return status;
  }
  return queue(s, j, NULL, out_values);
}

cairn_status cairn_stream_encode_call(cairn_stream *s, const cairn_call_args *args, cairn_value **out_values) {
  CRN_REQUIRE_NAMED(s, "stream");
  CRN_REQUIRE(args);
  crn_job *j;
  if (args->n_inputs < 0 || args->n_targets < 0 || args->n_outputs < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "call '%s': a count is negative", args->name ? args->name : "");
  clear(out_values, args->n_outputs);
  const crn_job_size size = {
      .n_inputs = args->n_inputs, .n_targets = args->n_targets, .n_outputs = args->n_outputs, .name = args->name ? args->name : "call"};
  CRN_TRY(crn_job_create(s->context, &size, &j));
  cairn_status status = crn_job_set_call(j, args);
  if (status != CAIRN_OK) {
    crn_job_free(j);
    return status;
  }
  return queue(s, j, args->release, out_values);
}

static cairn_status copy_array(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets, int n_targets,
                               cairn_ndarray **out_arrays) {
  (void)user, (void)n_inputs, (void)targets, (void)n_targets;
  const cairn_ndarray *source = inputs[0].array;
  CRN_TRY(
      crn_ndarray_create_uninitialized(source->storage->context, source->view.dtype, source->view.dims, source->view.rank, &out_arrays[0]));
  return cairn_ndarray_copy(source, out_arrays[0]);
}

cairn_status cairn_stream_encode_snapshot(cairn_stream *s, cairn_ndarray *array, cairn_value **out_value) {
  CRN_REQUIRE(out_value);
  *out_value = NULL;
  CRN_REQUIRE_NAMED(s, "stream");
  const cairn_stream_input input = {.name = "array", .array = array};
  return cairn_stream_encode_call(
      s, &(cairn_call_args){.name = "snapshot", .call = copy_array, .inputs = &input, .n_inputs = 1, .n_outputs = 1}, out_value);
}

cairn_status cairn_stream_mark(cairn_stream *s, cairn_value **out_value) {
  CRN_REQUIRE(out_value);
  *out_value = NULL;
  CRN_REQUIRE_NAMED(s, "stream");
  crn_job *j;
  CRN_TRY(crn_job_create(s->context, &(crn_job_size){.n_outputs = 1}, &j));
  j->work.is_mark = true;
  return queue(s, j, NULL, out_value);
}
