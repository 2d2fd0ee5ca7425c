// LLM: opening a language model and asking about it. Generation is in generate.c.
#include "llm.h"

#include <stdlib.h>

static cairn_llm *get(PyObject *self) { return ((crn_py_llm *)self)->llm; }

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {
      "path",      "array_type", "engine",  "kv",        "kv_capacity", "prefill_chunk", "max_context", "allow_vocab_mismatch",
      "tokenizer", "precision",  "kv_page", "kv_window", "kv_sinks",    "kv_type",       NULL};
  PyObject *object, *array_type, *tokenizer = Py_None;
  cairn_llm_options o = {0};
  long long capacity = 0, chunk = 0, max_context = 0, page = 0, window = 0, sinks = 0;
  int mismatch = 0;
  const char *precision = "default";
  cairn_model_options model = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|zzLLLpOsLLLz", keywords, &object, &array_type, &o.engine, &o.kv, &capacity, &chunk,
                                   &max_context, &mismatch, &tokenizer, &precision, &page, &window, &sinks, &o.kv_type) ||
      !crn_py_is_ndarray_type(array_type) || !crn_py_read_precision(precision, &model.precision))
    return NULL;
  PyObject *path = crn_py_path(object), *second = NULL, *self = NULL;
  if (path && tokenizer != Py_None) second = crn_py_path(tokenizer);
  if (path && (second || tokenizer == Py_None)) {
    o.kv_capacity = capacity;
    o.kv_page = page;
    o.kv_window = window;
    o.kv_sinks = sinks;
    o.prefill_chunk = chunk;
    o.max_context = max_context;
    o.allow_vocab_mismatch = mismatch;
    o.model = &model;
    o.tokenizer = second ? PyBytes_AsString(second) : NULL;
    const char *text = PyBytes_AsString(path);
    cairn_context *context = crn_py_context();
    cairn_llm *llm = NULL;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_llm_open(context, text, &o, &llm));
    cairn_context_release(context);
    if (status != CAIRN_OK) crn_py_raise(status);
    self = status == CAIRN_OK ? ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : NULL;
    if (self) {
      ((crn_py_llm *)self)->llm = llm;
      ((crn_py_llm *)self)->array_type = Py_NewRef(array_type);
    } else {
      cairn_llm_close(llm);
    }
  }
  Py_XDECREF(path);
  Py_XDECREF(second);
  return self;
}

static void deallocate(PyObject *self) {
  cairn_llm *llm = get(self);
  if (llm) {
    Py_BEGIN_ALLOW_THREADS cairn_llm_close(llm);
    Py_END_ALLOW_THREADS
  }
  Py_XDECREF(((crn_py_llm *)self)->array_type);
  crn_py_free(self);
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

static PyObject *info(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_llm_info i;
  cairn_llm_describe(get(self), &i);
  PyObject *list = decisions(&i);
  if (!list) return NULL;
  return Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:L,s:L,s:n,s:s,s:s,s:L,s:L,s:L,s:L,s:O,s:d,s:N}", "name", i.name, "source", i.source,
                       "engine", i.engine, "precision", i.precision, "kv_strategy", i.kv_strategy, "kv_capacity", (long long)i.kv_capacity,
                       "kv_limit", (long long)i.kv_limit, "kv_bytes", (Py_ssize_t)i.kv_bytes, "kv_dtype", crn_py_dtype_name(i.kv_dtype),
                       "logits_dtype", crn_py_dtype_name(i.logits_dtype), "vocab_size", (long long)i.vocab_size, "max_context",
                       (long long)i.max_context, "prefill_chunk", (long long)i.prefill_chunk, "prefill_threshold",
                       (long long)i.prefill_threshold, "hybrid", i.hybrid ? Py_True : Py_False, "load_seconds", i.load_seconds, "decisions",
                       list);
}

static PyObject *check_text(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_status status = cairn_llm_has_text(get(self));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *check_template(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_status status = cairn_llm_has_template(get(self));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *get_tokenizer(PyObject *self, void *unused) {
  (void)unused;
  cairn_tokenizer *tokenizer = cairn_llm_tokenizer(get(self));
  if (!tokenizer) Py_RETURN_NONE;
  cairn_tokenizer_retain(tokenizer);
  return crn_py_tokenizer_new(tokenizer);
}

static PyObject *get_stop_ids(PyObject *self, void *unused) {
  (void)unused;
  size_t n;
  const int32_t *ids = cairn_llm_stop_ids(get(self), &n);
  return crn_py_ids(ids, n);
}

static PyObject *get_history(PyObject *self, void *unused) {
  (void)unused;
  int64_t n;
  const int32_t *ids = cairn_llm_history(get(self), &n);
  return crn_py_ids(ids, (size_t)n);
}

static PyObject *render(PyObject *self, PyObject *args) {
  const char *json;
  Py_ssize_t n;
  if (!PyArg_ParseTuple(args, "s#", &json, &n)) return NULL;
  size_t capacity = 1 << 14, bytes = 0;
  char *text = NULL;
  cairn_status status = CAIRN_OK;
  for (int attempt = 0; attempt < 2; attempt++) {
    free(text);
    text = malloc(capacity);
    if (!text) return PyErr_NoMemory();
    CRN_PY_UNLOCKED(status, cairn_llm_render(get(self), json, (size_t)n, text, capacity, &bytes));
    if (status != CAIRN_OK || bytes <= capacity) break;
    capacity = bytes;
  }
  if (bytes > capacity) bytes = capacity;
  PyObject *result = status == CAIRN_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace") : crn_py_raise(status);
  free(text);
  return result;
}

// --- steps ------------------------------------------------------------------------------------------------------------------

static PyObject *cancel(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_llm_cancel(get(self));
  Py_RETURN_NONE;
}

static PyObject *reset(PyObject *self, PyObject *args) {
  long long n = 0;
  if (!PyArg_ParseTuple(args, "|L", &n)) return NULL;
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_llm_reset(get(self), n));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *warm_up(PyObject *self, PyObject *args) {
  long long n = 1;
  if (!PyArg_ParseTuple(args, "|L", &n)) return NULL;
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_llm_warm_up(get(self), n));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

static PyGetSetDef properties[] = {
    {"tokenizer", get_tokenizer, NULL, "The model's tokenizer, or None.", NULL},
    {"stop_ids", get_stop_ids, NULL, "The ids that end a generation.", NULL},
    {"history", get_history, NULL, "The tokens the engine's state stands for.", NULL},
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
    {"reset", reset, METH_VARARGS, "reset(n=0): cuts the sequence back to its first n tokens."},
    {"warm_up", warm_up, METH_VARARGS, "warm_up(n=1): runs n dummy tokens and forgets them."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A language model."}, {Py_tp_new, create},        {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},         {Py_tp_getset, properties}, {0, NULL},
};

static PyType_Spec spec = {
    .name = "cairn._native.LLM", .basicsize = sizeof(crn_py_llm), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};

bool crn_py_llm_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.llm_type); }
