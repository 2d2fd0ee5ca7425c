// LLM._generate and LLM._forward: the calls that run the model, with callbacks into Python.
#include <stdlib.h>
#include <string.h>

#include "llm.h"

/// What the callbacks of one call need. They run on the calling thread, which has given up the GIL.
typedef struct call {
  PyObject *on_token, *on_logits, *should_cancel, *array_type;
  crn_py_callback error;
} call;

static bool keep_error(call *c) {
  crn_py_callback_keep(&c->error);
  return false;
}

// on_token(index, token, text): False ends the generation, anything else (None, too) goes on.
static bool on_token(void *user, const cairn_token_event *event) {
  call *c = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *text = PyUnicode_DecodeUTF8(event->text, (Py_ssize_t)event->text_bytes, "replace");
  PyObject *result = text ? PyObject_CallFunction(c->on_token, "LiO", (long long)event->index, (int)event->token, text) : NULL;
  bool more = result ? result != Py_False : keep_error(c);
  Py_XDECREF(text);
  Py_XDECREF(result);
  PyGILState_Release(gil);
  return more;
}

static PyObject *row_array(const call *c, const float *row, int64_t vocab_size) {
  cairn_ndarray *array;
  cairn_status status = cairn_ndarray_create(crn_py.context, CAIRN_F32, &vocab_size, 1, &array);
  if (status != CAIRN_OK) return crn_py_raise(status);
  memcpy(cairn_ndarray_mutable_data(array), row, (size_t)vocab_size * sizeof *row);
  return crn_py_ndarray_new((PyTypeObject *)c->array_type, array);
}

// on_logits(position, row)
static cairn_status on_logits(void *user, int64_t position, const float *row, int64_t vocab_size) {
  call *c = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *array = row_array(c, row, vocab_size);
  PyObject *result = array ? PyObject_CallFunction(c->on_logits, "LO", (long long)position, array) : NULL;
  bool ok = result ? true : keep_error(c);
  Py_XDECREF(array);
  Py_XDECREF(result);
  PyGILState_Release(gil);
  return ok ? CAIRN_OK : CAIRN_CANCELLED;
}

// Also the place where Ctrl-C is noticed.
static bool should_cancel(void *user) {
  call *c = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  bool stop = c->error.type != NULL;
  if (!stop && PyErr_CheckSignals() != 0) stop = !keep_error(c);
  if (!stop && c->should_cancel != Py_None) {
    PyObject *result = PyObject_CallNoArgs(c->should_cancel);
    int truth = result ? PyObject_IsTrue(result) : -1;
    stop = truth < 0 ? !keep_error(c) : truth;
    Py_XDECREF(result);
  }
  PyGILState_Release(gil);
  return stop;
}

// --- arguments ------------------------------------------------------------------------------------------------------------

/// Memory that lives for one call.
typedef struct lists {
  int32_t *tokens, *stop_ids, *forced;
  const char **stop;
  PyObject *stop_list;
} lists;

static void lists_free(lists *l) {
  free(l->tokens);
  free(l->stop_ids);
  free(l->forced);
  free(l->stop);
  Py_XDECREF(l->stop_list);
}

static bool read_stops(PyObject *stop, lists *l, cairn_generate_options *o) {
  if (stop == Py_None) return true;
  l->stop_list = PySequence_List(stop);
  Py_ssize_t n = l->stop_list ? PyList_Size(l->stop_list) : -1;
  if (n < 0) return false;
  l->stop = calloc((size_t)n + 1, sizeof *l->stop);
  if (!l->stop) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    l->stop[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(l->stop_list, i), NULL);
    if (!l->stop[i]) return false;
  }
  o->stop = l->stop;
  o->n_stop = (int)n;
  return true;
}

static bool read_int(PyObject *object, bool *out_has, int32_t *out) {
  *out_has = object != Py_None;
  if (!*out_has) return true;
  long long value = PyLong_AsLongLong(object);
  *out = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
  return !PyErr_Occurred();
}

static bool read_float(PyObject *object, bool *out_has, float *out) {
  *out_has = object != Py_None;
  if (*out_has) *out = (float)PyFloat_AsDouble(object);
  return !PyErr_Occurred();
}

static bool read_form(const char *text, cairn_prompt_form *out) {
  static const char *const names[] = {"auto", "raw", "template"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(text, names[i]) == 0) {
      *out = (cairn_prompt_form)i;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError, "prompt form '%s': \"auto\", \"raw\" or \"template\" expected", text);
  return false;
}

/// The arguments that are objects, as given.
typedef struct raw_args {
  PyObject *tokens, *top_k, *top_p, *min_p, *penalty, *window, *seed, *stop, *stop_ids, *forced;
  const char *form;
} raw_args;

static bool convert(const raw_args *r, lists *l, cairn_generate_options *o) {
  cairn_sampling *s = &o->sampling;
  if (!crn_py_read_ids(r->tokens, &l->tokens, &o->n_tokens) || !crn_py_read_ids(r->stop_ids, &l->stop_ids, &o->n_stop_ids) ||
      !crn_py_read_ids(r->forced, &l->forced, &o->n_forced) || !read_stops(r->stop, l, o) || !read_form(r->form, &o->form) ||
      !read_int(r->top_k, &s->has_top_k, &s->top_k) || !read_float(r->top_p, &s->has_top_p, &s->top_p) ||
      !read_float(r->min_p, &s->has_min_p, &s->min_p) || !read_float(r->penalty, &s->has_repetition_penalty, &s->repetition_penalty) ||
      !read_int(r->window, &s->has_repetition_window, &s->repetition_window))
    return false;
  o->tokens = l->tokens;
  o->stop_ids = l->stop_ids;
  o->forced = l->forced;
  o->use_forced = r->forced != Py_None;
  s->has_seed = r->seed != Py_None;
  if (s->has_seed) s->seed = PyLong_AsUnsignedLongLong(r->seed);
  return !PyErr_Occurred();
}

static bool parse(PyObject *args, PyObject *kwargs, call *c, lists *l, cairn_generate_options *o) {
  static char *keywords[] = {"tokens",
                             "text",
                             "form",
                             "conversation",
                             "max_tokens",
                             "temperature",
                             "top_k",
                             "top_p",
                             "min_p",
                             "seed",
                             "repetition_penalty",
                             "repetition_window",
                             "stop",
                             "stop_ids",
                             "forced",
                             "ignore_eos",
                             "keep_special_tokens",
                             "on_token",
                             "on_logits",
                             "prefill_logits",
                             "should_cancel",
                             NULL};
  raw_args r = {Py_None, Py_None, Py_None, Py_None, Py_None, Py_None, Py_None, Py_None, Py_None, Py_None, "auto"};
  Py_ssize_t n_text = 0, n_conversation = 0;
  long long max_tokens = -1;
  int ignore = 0, keep = 0, prefill = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Oz#sz#LfOOOOOOOOOppOOpO", keywords, &r.tokens, &o->text, &n_text, &r.form,
                                   &o->conversation, &n_conversation, &max_tokens, &o->sampling.temperature, &r.top_k, &r.top_p, &r.min_p,
                                   &r.seed, &r.penalty, &r.window, &r.stop, &r.stop_ids, &r.forced, &ignore, &keep, &c->on_token,
                                   &c->on_logits, &prefill, &c->should_cancel))
    return false;
  o->text_bytes = (size_t)n_text;
  o->conversation_bytes = (size_t)n_conversation;
  o->max_tokens = max_tokens;
  o->ignore_eos = ignore;
  o->keep_special_tokens = keep;
  o->prefill_logits = prefill;
  o->on_token = c->on_token == Py_None ? NULL : on_token;
  o->on_logits = c->on_logits == Py_None ? NULL : on_logits;
  o->should_cancel = should_cancel;
  o->user = c;
  return convert(&r, l, o);
}

// --- results --------------------------------------------------------------------------------------------------------------

static PyObject *result_of(const cairn_generation *g) {
  cairn_generation_info i;
  cairn_generation_get(g, &i);
  PyObject *prompt = crn_py_ids(i.prompt_tokens, i.n_prompt_tokens), *tokens = crn_py_ids(i.tokens, i.n_tokens);
  PyObject *text = PyUnicode_DecodeUTF8(i.text, (Py_ssize_t)i.text_bytes, "replace"), *result = NULL;
  if (prompt && tokens && text)
    result = Py_BuildValue("{s:O,s:O,s:O,s:s,s:s,s:L,s:s,s:s,s:K,s:d,s:L,s:d,s:L}", "prompt_tokens", prompt, "tokens", tokens, "text", text,
                           "stop_reason", cairn_stop_reason_text(i.stop_reason), "stop_text", i.stop_text, "prefix_hit",
                           (long long)i.prefix_hit, "prefix_note", i.prefix_note, "prompt_form", i.prompt_form, "seed",
                           (unsigned long long)i.seed, "prefill_seconds", i.prefill_seconds, "prefill_tokens", (long long)i.prefill_tokens,
                           "decode_seconds", i.decode_seconds, "decode_tokens", (long long)i.decode_tokens);
  Py_XDECREF(prompt);
  Py_XDECREF(tokens);
  Py_XDECREF(text);
  return result;
}

PyObject *crn_py_llm_generate(PyObject *self, PyObject *args, PyObject *kwargs) {
  crn_py_llm *llm = (crn_py_llm *)self;
  call c = {Py_None, Py_None, Py_None, llm->array_type, {0}};
  lists l = {0};
  cairn_generate_options o = {0};
  PyObject *result = NULL;
  if (parse(args, kwargs, &c, &l, &o)) {
    cairn_generation *generation = NULL;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_llm_generate(llm->llm, &o, &generation));
    if (status != CAIRN_OK) crn_py_raise(status);
    // What a callback raised comes before what the library made of it.
    if (!crn_py_callback_restore(&c.error) && status == CAIRN_OK) result = result_of(generation);
    cairn_generation_destroy(generation);
  }
  lists_free(&l);
  return result;
}

// _forward(tokens, on_logits, positions=None, all_rows=False)
PyObject *crn_py_llm_forward(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"tokens", "on_logits", "positions", "all_rows", NULL};
  crn_py_llm *llm = (crn_py_llm *)self;
  PyObject *tokens, *positions = Py_None;
  call c = {Py_None, Py_None, Py_None, llm->array_type, {0}};
  int all = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|Op", keywords, &tokens, &c.on_logits, &positions, &all)) return NULL;
  int32_t *ids = NULL, *places = NULL;
  cairn_forward_options o = {.all_rows = all, .on_logits = on_logits, .user = &c};
  bool ok = crn_py_read_ids(tokens, &ids, &o.n_tokens) && crn_py_read_ids(positions, &places, &o.n_positions);
  if (ok) {
    o.tokens = ids;
    o.positions = places;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_llm_forward(llm->llm, &o));
    if (status != CAIRN_OK) crn_py_raise(status);
    ok = !crn_py_callback_restore(&c.error) && status == CAIRN_OK;
  }
  free(ids);
  free(places);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}
