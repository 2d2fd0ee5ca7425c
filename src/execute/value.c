// Values: arrays that may not exist yet.
#include "execute/stream.h"

static crn_work_list *list_of(const cairn_value *v) { return &v->context->work; }

cairn_status crn_value_create_pending(cairn_context *c, cairn_value **out_value) {
  cairn_value *v;
  *out_value = NULL;
  CRN_TRY(crn_recycle_take(&c->blocks, sizeof *v, &v));
  atomic_init(&v->references, 1);
  cairn_context_retain(c);
  v->context = c;
  v->callbacks_end = &v->callbacks;
  *out_value = v;
  return CAIRN_OK;
}

cairn_status cairn_value_create(cairn_ndarray *array, cairn_value **out_value) {
  CRN_REQUIRE(out_value);
  *out_value = NULL;
  CRN_REQUIRE(array);
  cairn_ndarray *view;
  CRN_TRY(cairn_ndarray_const_view(array, &view));
  cairn_status status = crn_value_create_pending(array->storage->context, out_value);
  if (status != CAIRN_OK) {
    cairn_ndarray_release(view);
    return status;
  }
  (*out_value)->array = view;
  (*out_value)->is_done = true;
  return CAIRN_OK;
}

void cairn_value_retain(cairn_value *v) {
  if (!v) return;
  atomic_fetch_add_explicit(&v->references, 1, memory_order_relaxed);
}

// Work holds its values, so a value that goes away is done, or its work was never queued. Callbacks hold it too.
void cairn_value_release(cairn_value *v) {
  if (!v || atomic_fetch_sub_explicit(&v->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *c = v->context;
  cairn_ndarray_release(v->array);
  cairn_ndarray_release(v->view);
  crn_failure_release(v->failure);
  cairn_function_release(v->function);
  crn_recycle_give(&c->blocks, v, sizeof *v);
  cairn_context_release(c);
}

void crn_value_complete(cairn_value *v, cairn_status status, crn_failure *failure, cairn_ndarray *array, crn_callback ***end) {
  v->is_done = true;
  v->status = status;
  v->failure = crn_failure_retain(failure);
  v->array = array;
  v->producer = NULL;
  if (!v->callbacks) return;
  **end = v->callbacks;
  *end = v->callbacks_end;
  v->callbacks = NULL;
  v->callbacks_end = &v->callbacks;
}

// The value does not change any more. Its record becomes the last error, so that the callback can read it.
static void call(cairn_value *v, cairn_value_completed_fn fn, void *user) {
  crn_work *before = crn_work_enter_thread(NULL);
  if (v->status != CAIRN_OK) crn_failure_restore(v->failure, v->status);
  fn(user, v->status, v->status == CAIRN_OK ? v->array : NULL);
  crn_work_leave_thread(before);
}

void crn_callbacks_call(cairn_context *context, crn_callback *first) {
  for (crn_callback *c = first, *next; c; c = next) {
    next = c->next;
    cairn_value *v = c->value;
    call(v, c->fn, c->user);
    crn_recycle_give(&context->blocks, c, sizeof *c);
    cairn_value_release(v);
  }
}

// --- the caller's side ------------------------------------------------------------------------------------------------

bool cairn_value_is_done(const cairn_value *v) {
  if (!v) return false;
  crn_work_list *list = list_of(v);
  pthread_mutex_lock(&list->lock);
  bool done = v->is_done;
  pthread_mutex_unlock(&list->lock);
  return done;
}

cairn_status cairn_value_wait(cairn_value *v) {
  CRN_REQUIRE_NAMED(v, "value");
  crn_work_list *list = list_of(v);
  cairn_status status = CAIRN_OK;
  pthread_mutex_lock(&list->lock);
  if (!v->is_done) status = crn_work_check_may_wait("a value");
  while (!v->is_done && status == CAIRN_OK) crn_work_await_change(list);
  pthread_mutex_unlock(&list->lock);
  if (status != CAIRN_OK || v->status == CAIRN_OK) return status;
  return crn_failure_restore(v->failure, v->status);
}

cairn_status cairn_value_array(cairn_value *v, cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE_NAMED(v, "value");
  CRN_TRY(cairn_value_wait(v));
  if (!v->array) return CRN_FAIL(NOT_FOUND, "the value of a mark has no array");
  cairn_ndarray_retain(v->array);
  *out_array = v->array;
  return CAIRN_OK;
}

cairn_status cairn_value_on_completed(cairn_value *v, cairn_value_completed_fn completed, void *user) {
  CRN_REQUIRE_NAMED(v, "value");
  CRN_REQUIRE(completed);
  crn_work_list *list = list_of(v);
  crn_callback *c;
  CRN_TRY(crn_recycle_take(&v->context->blocks, sizeof *c, &c));
  *c = (crn_callback){.fn = completed, .user = user, .value = v};
  pthread_mutex_lock(&list->lock);
  bool done = v->is_done;
  if (!done) {
    cairn_value_retain(v);
    *v->callbacks_end = c;
    v->callbacks_end = &c->next;
  }
  pthread_mutex_unlock(&list->lock);
  if (!done) return CAIRN_OK;
  crn_recycle_give(&v->context->blocks, c, sizeof *c);
  call(v, completed, user);
  return CAIRN_OK;
}

cairn_status cairn_value_cancel(cairn_value *v) {
  CRN_REQUIRE_NAMED(v, "value");
  crn_work_list *list = list_of(v);
  crn_work *dead = NULL;
  crn_callback *callbacks = NULL, **end = &callbacks;
  cairn_stream *stream = NULL;
  crn_failure *failure = crn_stream_cancellation(v->context);
  pthread_mutex_lock(&list->lock);
  crn_work *work = v->producer;
  if (work && (work->phase == CRN_WORK_WAITING || work->phase == CRN_WORK_READY)) {
    stream = work->stream;
    crn_stream_cancel_work(work, failure, &end, &dead);
  }
  pthread_mutex_unlock(&list->lock);
  crn_failure_release(failure);
  if (!stream) return CRN_FAIL(FAILED_PRECONDITION, "the work of the value has started already");
  crn_stream_end_cancel(stream, callbacks, dead);
  return CAIRN_OK;
}
