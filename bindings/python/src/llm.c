// LLM: opening a language model and asking about it. Generation is in generate.c.
#include "llm.h"

#include <stdlib.h>

// LLM(path, array_type, **options)
static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *object, *array_type, *path = NULL, *self = NULL;
  crn_py_llm_options o;
  if (!PyArg_ParseTuple(args, "OO", &object, &array_type) || !crn_py_is_ndarray_type(array_type)) return NULL;
  if (crn_py_llm_options_read(kwargs, &o)) path = crn_py_path(object);
  if (path) {
    const char *text = PyBytes_AsString(path);
    cairn_context *context = crn_py_context();
    cairn_llm *llm = NULL;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_llm_open(context, text, &o.llm, &llm));
    cairn_context_release(context);
    self = status == CAIRN_OK ? crn_py_llm_new(type, array_type, llm) : crn_py_raise(status);
  }
  crn_py_llm_options_free(&o);
  Py_XDECREF(path);
  return self;
}

static void deallocate(PyObject *self) {
  crn_py_llm *object = (crn_py_llm *)self;
  if (object->llm) {
    Py_BEGIN_ALLOW_THREADS cairn_llm_close(object->llm);
    Py_END_ALLOW_THREADS
  }
  Py_XDECREF(object->array_type);
  Py_XDECREF(object->engine);
  crn_py_free(self);
}

// The sequence for something that is neither a call nor safe beside one: what a call on another thread is about to change is refused.
static cairn_llm *look(PyObject *self) {
  const crn_py_llm *object = (crn_py_llm *)self;
  const bool is_callback = object->is_in_callback && object->callback_thread == PyThread_get_thread_ident();
  if (!object->llm) {
    crn_py_fail(CAIRN_FAILED_PRECONDITION, "the sequence is closed");
    return NULL;
  }
  if (object->n_calls && !is_callback) {
    crn_py_fail(CAIRN_BUSY, "the sequence is in use by another call");
    return NULL;
  }
  return object->llm;
}

// The sequence for something that is safe beside a call.
static cairn_llm *get(PyObject *self) {
  if (!((crn_py_llm *)self)->llm) crn_py_fail(CAIRN_FAILED_PRECONDITION, "the sequence is closed");
  return ((crn_py_llm *)self)->llm;
}

// --- what the engine is -----------------------------------------------------------------------------------------------------

static PyObject *decisions(const cairn_llm_info *info) {
  PyObject *list = PyList_New(info->n_decisions);
  for (int i = 0; list && i < info->n_decisions; i++) {
    const cairn_llm_decision *d = &info->decisions[i];
    PyObject *row = Py_BuildValue("(sss)", d->what, d->chosen, d->why);
    if (!row || PyList_SetItem(list, i, row) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static bool put_numbers(PyObject *dict, const cairn_llm_info *i) {
  const struct {
    const char *name;
    long long value;
  } numbers[] = {{"kv_capacity", i->kv_capacity},      {"kv_limit", i->kv_limit},
                 {"kv_bytes", (long long)i->kv_bytes}, {"kv_bytes_copied", (long long)i->kv_bytes_copied},
                 {"vocab_size", i->vocab_size},        {"max_context", i->max_context},
                 {"prefill_chunk", i->prefill_chunk},  {"prefill_threshold", i->prefill_threshold},
                 {"n_snapshots", i->n_snapshots},      {"snapshot_bytes", (long long)i->snapshot_bytes}};
  bool ok = true;
  for (size_t k = 0; ok && k < sizeof numbers / sizeof *numbers; k++)
    ok = crn_py_put(dict, numbers[k].name, PyLong_FromLongLong(numbers[k].value));
  return ok;
}

static PyObject *info(PyObject *self, PyObject *unused) {
  cairn_llm *llm = look(self);
  cairn_llm_info i;
  (void)unused;
  if (!llm) return NULL;
  cairn_llm_describe(llm, &i);
  PyObject *dict =
      Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:O,s:d}", "name", i.name, "source", i.source, "engine", i.engine, "precision",
                    i.precision, "kv_strategy", i.kv_strategy, "kv_dtype", crn_py_dtype_name(i.kv_dtype), "logits_dtype",
                    crn_py_dtype_name(i.logits_dtype), "hybrid", i.hybrid ? Py_True : Py_False, "load_seconds", i.load_seconds);
  if (dict && put_numbers(dict, &i) && crn_py_put(dict, "decisions", decisions(&i))) return dict;
  Py_XDECREF(dict);
  return NULL;
}

static PyObject *images(PyObject *self, PyObject *unused) {
  cairn_llm *llm = get(self);
  cairn_llm_images i;
  (void)unused;
  if (!llm) return NULL;
  cairn_llm_describe_images(llm, &i);
  return Py_BuildValue("{s:L,s:L,s:i}", "image_size", (long long)i.image_size, "image_tokens", (long long)i.image_tokens, "image_token",
                       (int)i.image_token);
}

static PyObject *check(cairn_llm *llm, cairn_status (*has)(const cairn_llm *llm)) {
  cairn_status status = llm ? has(llm) : CAIRN_OK;
  if (status != CAIRN_OK) crn_py_raise(status);
  if (!llm || status != CAIRN_OK) return NULL;
  Py_RETURN_NONE;
}

static PyObject *check_text(PyObject *self, PyObject *unused) {
  (void)unused;
  return check(get(self), cairn_llm_has_text);
}

static PyObject *check_template(PyObject *self, PyObject *unused) {
  (void)unused;
  return check(get(self), cairn_llm_has_template);
}

static PyObject *get_tokenizer(PyObject *self, void *unused) {
  cairn_llm *llm = get(self);
  (void)unused;
  if (!llm) return NULL;
  cairn_tokenizer *tokenizer = cairn_llm_tokenizer(llm);
  if (!tokenizer) Py_RETURN_NONE;
  cairn_tokenizer_retain(tokenizer);
  return crn_py_tokenizer_new(tokenizer);
}

static PyObject *get_stop_ids(PyObject *self, void *unused) {
  cairn_llm *llm = get(self);
  size_t n;
  (void)unused;
  if (!llm) return NULL;
  const int32_t *ids = cairn_llm_stop_ids(llm, &n);
  return crn_py_ids(ids, n);
}

static PyObject *get_history(PyObject *self, void *unused) {
  cairn_llm *llm = look(self);
  int64_t n;
  (void)unused;
  if (!llm) return NULL;
  const int32_t *ids = cairn_llm_history(llm, &n);
  return crn_py_ids(ids, (size_t)n);
}

static PyObject *get_engine(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(((crn_py_llm *)self)->engine);
}

static PyObject *get_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(!((crn_py_llm *)self)->llm);
}

static PyObject *render(PyObject *self, PyObject *args) {
  crn_py_llm *object = (crn_py_llm *)self;
  const char *json;
  Py_ssize_t n;
  if (!PyArg_ParseTuple(args, "s#", &json, &n) || !crn_py_llm_enter(object)) return NULL;
  size_t capacity = 1 << 14, bytes = 0;
  char *text = NULL;
  cairn_status status = CAIRN_OK;
  for (int attempt = 0; attempt < 2; attempt++) {
    free(text);
    text = malloc(capacity);
    if (!text) break;
    CRN_PY_UNLOCKED(status, cairn_llm_render(object->llm, json, (size_t)n, text, capacity, &bytes));
    if (status != CAIRN_OK || bytes <= capacity) break;
    capacity = bytes;
  }
  // A template that reads the clock may give a longer text the second time.
  if (bytes > capacity) bytes = capacity;
  PyObject *result = !text                ? PyErr_NoMemory()
                     : status == CAIRN_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace")
                                          : crn_py_raise(status);
  free(text);
  crn_py_llm_leave(object);
  return result;
}

// Of a sequence that is closed there is nothing to end.
static PyObject *cancel(PyObject *self, PyObject *unused) {
  (void)unused;
  if (((crn_py_llm *)self)->llm) cairn_llm_cancel(((crn_py_llm *)self)->llm);
  Py_RETURN_NONE;
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

static PyGetSetDef properties[] = {
    {"tokenizer", get_tokenizer, NULL, "The model's tokenizer, or None.", NULL},
    {"stop_ids", get_stop_ids, NULL, "The ids that end a generation.", NULL},
    {"history", get_history, NULL, "The tokens the sequence's state stands for.", NULL},
    {"engine", get_engine, NULL, "The engine that was chosen.", NULL},
    {"closed", get_closed, NULL, "Whether the sequence was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"info", info, METH_NOARGS, "What the engine is, as a dict."},
    {"check_text", check_text, METH_NOARGS, "Raises when text cannot be used, with the reason."},
    {"check_template", check_template, METH_NOARGS, "Raises when there is no chat template, with the reason."},
    {"_render", render, METH_VARARGS, NULL},
    {"_generate", KEYWORDS(crn_py_llm_generate), METH_VARARGS | METH_KEYWORDS, NULL},
    {"_forward", KEYWORDS(crn_py_llm_forward), METH_VARARGS | METH_KEYWORDS, NULL},
    {"cancel", cancel, METH_NOARGS, "Ends the generation that is going on."},
    {"images", images, METH_NOARGS, "What the model does with images, as a dict."},
    {"close", crn_py_llm_close, METH_NOARGS, "Closes the sequence; BusyError while a call uses it. The model goes with its last sequence."},
    {"create_sequence", crn_py_llm_create_sequence, METH_NOARGS, "An empty sequence of the same model."},
    {"fork", crn_py_llm_fork, METH_VARARGS, "fork(n=None): a second sequence that begins with the first n tokens, or with all."},
    {"trim", crn_py_llm_trim, METH_VARARGS,
     "trim(n): goes back to n tokens, or to the last point before that is known; how many were kept."},
    {"reset", crn_py_llm_reset, METH_VARARGS, "reset(n=0): cuts the sequence back to its first n tokens."},
    {"warm_up", crn_py_llm_warm_up, METH_VARARGS, "warm_up(n=1): runs n dummy tokens and forgets them."},
    {"register_prefix", crn_py_llm_register_prefix, METH_VARARGS,
     "register_prefix(n=None): keeps the first n tokens, or all, in memory for other sequences of the model (prefix_bytes)."},
    {"save", crn_py_llm_save, METH_O, "save(path): writes the sequence to a file."},
    {"restore", crn_py_llm_restore, METH_O, "restore(path): makes the sequence the one that was saved."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A language model."}, {Py_tp_new, create},        {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},         {Py_tp_getset, properties}, {0, NULL},
};

static PyType_Spec spec = {
    .name = "cairn._native.LLM", .basicsize = sizeof(crn_py_llm), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};

bool crn_py_llm_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.llm_type); }
