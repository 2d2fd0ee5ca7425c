// What a generation calls back into Python: tokens, rows of logits, whether it should end, what to go on from in a full context.
#include <stdlib.h>
#include <string.h>

#include "llm.h"

// --- in and out of Python -----------------------------------------------------------------------------------------------

// The sequence may be looked at on this thread while it calls back.
static PyGILState_STATE enter(crn_py_call *c) {
  PyGILState_STATE gil = PyGILState_Ensure();
  if (c->llm) {
    c->llm->is_in_callback = true;
    c->llm->callback_thread = PyThread_get_thread_ident();
  }
  return gil;
}

static void leave(crn_py_call *c, PyGILState_STATE gil) {
  if (c->llm) c->llm->is_in_callback = false;
  PyGILState_Release(gil);
}

void crn_py_call_keep_error(crn_py_call *c) {
  const bool is_ordinary = !c->interrupt || PyErr_ExceptionMatches(PyExc_Exception);
  crn_py_callback_keep(is_ordinary ? &c->error : c->interrupt);
}

// Whether there is a result; gives it up.
static bool done(crn_py_call *c, PyObject *result) {
  if (!result) crn_py_call_keep_error(c);
  Py_XDECREF(result);
  return result != NULL;
}

// --- tokens -------------------------------------------------------------------------------------------------------------

// on_token(index, token, text): False ends the generation, anything else (None, too) goes on.
static bool on_token(void *user, const cairn_token_event *event) {
  crn_py_call *c = user;
  PyGILState_STATE gil = enter(c);
  bool more = event->token < 0 || crn_py_call_rate(c, event->token);
  if (!more) crn_py_call_keep_error(c);
  if (more && c->on_token) {
    PyObject *text = PyUnicode_DecodeUTF8(event->text, (Py_ssize_t)event->text_bytes, "replace");
    PyObject *result = text ? PyObject_CallFunction(c->on_token, "LiO", (long long)event->index, (int)event->token, text) : NULL;
    const bool is_false = result == Py_False;
    more = done(c, result) && !is_false;
    Py_XDECREF(text);
  }
  leave(c, gil);
  return more;
}

// --- logits ---------------------------------------------------------------------------------------------------------------

static PyObject *row_array(const crn_py_call *c, const float *row, int64_t vocab_size) {
  cairn_ndarray *array;
  cairn_status status = cairn_ndarray_create(crn_py.context, CAIRN_F32, &vocab_size, 1, &array);
  if (status != CAIRN_OK) return crn_py_raise(status);
  memcpy(cairn_ndarray_mutable_data(array), row, (size_t)vocab_size * sizeof *row);
  return crn_py_ndarray_new((PyTypeObject *)c->array_type, array);
}

// The row is rated when the token that was chosen by it is known, which comes next.
static bool keep_row(crn_py_call *c, const float *row, int64_t vocab_size) {
  if (!c->row) c->row = malloc((size_t)vocab_size * sizeof *row);
  if (!c->row) return false;
  memcpy(c->row, row, (size_t)vocab_size * sizeof *row);
  c->row_size = vocab_size;
  c->has_row = true;
  return true;
}

// on_logits(position, row)
cairn_status crn_py_call_on_logits(void *user, int64_t position, const float *row, int64_t vocab_size) {
  crn_py_call *c = user;
  const bool wants_rates = c->logprobs || c->top_logprobs, is_kept = !wants_rates || keep_row(c, row, vocab_size);
  if (is_kept && !c->on_logits) return CAIRN_OK;
  PyGILState_STATE gil = enter(c);
  if (!is_kept) PyErr_NoMemory();
  PyObject *array = is_kept ? row_array(c, row, vocab_size) : NULL;
  const bool ok = done(c, array ? PyObject_CallFunction(c->on_logits, "LO", (long long)position, array) : NULL);
  Py_XDECREF(array);
  leave(c, gil);
  return ok ? CAIRN_OK : CAIRN_CANCELLED;
}

// --- the end --------------------------------------------------------------------------------------------------------------

// Also the place where Ctrl-C is noticed.
static bool should_cancel(void *user) {
  crn_py_call *c = user;
  PyGILState_STATE gil = enter(c);
  bool stop = c->error.type != NULL;
  if (!stop && PyErr_CheckSignals() != 0) {
    crn_py_call_keep_error(c);
    stop = true;
  }
  if (!stop && c->should_cancel) {
    PyObject *result = PyObject_CallNoArgs(c->should_cancel);
    int truth = result ? PyObject_IsTrue(result) : -1;
    if (truth < 0) crn_py_call_keep_error(c);
    stop = truth != 0;
    Py_XDECREF(result);
  }
  leave(c, gil);
  return stop;
}

// summarise(tokens, most) gives the ids to go on from.
static cairn_status summarise(void *user, const int32_t *tokens, size_t n, size_t most, const int32_t **out_tokens, size_t *out_n) {
  crn_py_call *c = user;
  PyGILState_STATE gil = enter(c);
  PyObject *list = crn_py_ids(tokens, n);
  PyObject *result = list ? PyObject_CallFunction(c->summarise, "On", list, (Py_ssize_t)most) : NULL;
  if (result == Py_None) {
    PyErr_SetString(PyExc_TypeError, "the overflow function gave None; token ids are expected");
    Py_CLEAR(result);
  }
  int32_t *ids = NULL;
  const bool ok = done(c, result && crn_py_read_ids(result, &ids, out_n) ? Py_NewRef(result) : NULL);
  free(c->summary);
  *out_tokens = c->summary = ids;
  Py_XDECREF(result);
  Py_XDECREF(list);
  leave(c, gil);
  return ok ? CAIRN_OK : CAIRN_CANCELLED;
}

void crn_py_call_set_callbacks(crn_py_call *c) {
  cairn_generate_options *o = &c->options;
  const bool wants_rates = c->logprobs || c->top_logprobs;
  if (c->on_token || wants_rates) o->on_token = on_token;
  if (c->on_logits || wants_rates) o->on_logits = crn_py_call_on_logits;
  if (wants_rates) o->first_logits = true;
  if (o->overflow.kind == CAIRN_OVERFLOW_SUMMARISE) o->overflow.replace = summarise;
  o->overflow.user = c;
  // Steps of a batch ask for signals themselves.
  if (c->llm || c->should_cancel) o->should_cancel = should_cancel;
  o->user = c;
}
