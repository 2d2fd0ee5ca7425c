// Sequences: several of one model, copies, going back, files; who uses one at the moment, and the end.
#include "llm.h"

static crn_py_llm *get(PyObject *self) { return (crn_py_llm *)self; }

// --- objects ----------------------------------------------------------------------------------------------------------------

static void close_unlocked(cairn_llm *llm) {
  if (!llm) return;
  Py_BEGIN_ALLOW_THREADS cairn_llm_close(llm);
  Py_END_ALLOW_THREADS
}

PyObject *crn_py_llm_new(PyTypeObject *type, PyObject *array_type, cairn_llm *llm) {
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  PyObject *engine = PyUnicode_FromString(info.engine);
  PyObject *self = engine ? ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : NULL;
  if (!self) {
    Py_XDECREF(engine);
    close_unlocked(llm);
    return NULL;
  }
  get(self)->llm = llm;
  get(self)->engine = engine;
  get(self)->array_type = Py_NewRef(array_type);
  return self;
}

bool crn_py_is_llm_type(PyObject *type) {
  if (PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, crn_py.llm_type)) return true;
  PyErr_SetString(PyExc_TypeError, "a subclass of LLM is needed");
  return false;
}

bool crn_py_llm_enter(crn_py_llm *self) {
  if (!self->llm) return crn_py_fail(CAIRN_FAILED_PRECONDITION, "the sequence is closed");
  self->n_calls++;
  return true;
}

void crn_py_llm_leave(crn_py_llm *self) { self->n_calls--; }

PyObject *crn_py_llm_close(PyObject *self, PyObject *unused) {
  (void)unused;
  if (get(self)->n_calls) return crn_py_fail(CAIRN_BUSY, "the sequence is in use by a call: it can be closed when that has ended");
  cairn_llm *llm = get(self)->llm;
  get(self)->llm = NULL;
  close_unlocked(llm);
  Py_RETURN_NONE;
}

// --- further sequences ------------------------------------------------------------------------------------------------------

PyObject *crn_py_llm_create_sequence(PyObject *self, PyObject *unused) {
  cairn_llm *made = NULL;
  (void)unused;
  CRN_PY_LLM_CALL(get(self), cairn_llm_create_sequence(get(self)->llm, &made));
  return crn_py_llm_new(Py_TYPE(self), get(self)->array_type, made);
}

// None = all tokens, as a negative number for the library.
static bool read_count(PyObject *args, const char *what, int64_t *out) {
  PyObject *object = Py_None;
  *out = -1;
  if (!PyArg_ParseTuple(args, "|O", &object)) return false;
  if (object == Py_None) return true;
  *out = PyLong_AsLongLong(object);
  if (PyErr_Occurred()) return false;
  if (*out >= 0) return true;
  PyObject *message = PyUnicode_FromFormat("%s at token %lld: 0 or more expected", what, (long long)*out);
  if (message) crn_py_fail(CAIRN_OUT_OF_RANGE, PyUnicode_AsUTF8AndSize(message, NULL));
  Py_XDECREF(message);
  return false;
}

PyObject *crn_py_llm_fork(PyObject *self, PyObject *args) {
  cairn_llm *made = NULL;
  int64_t n;
  if (!read_count(args, "a fork", &n)) return NULL;
  CRN_PY_LLM_CALL(get(self), cairn_llm_fork(get(self)->llm, n, &made));
  return crn_py_llm_new(Py_TYPE(self), get(self)->array_type, made);
}

PyObject *crn_py_llm_register_prefix(PyObject *self, PyObject *args) {
  int64_t n;
  if (!read_count(args, "a prefix", &n)) return NULL;
  CRN_PY_LLM_CALL(get(self), cairn_llm_register_prefix(get(self)->llm, n));
  Py_RETURN_NONE;
}

// --- going back -------------------------------------------------------------------------------------------------------------

PyObject *crn_py_llm_trim(PyObject *self, PyObject *args) {
  long long n;
  int64_t kept = 0;
  if (!PyArg_ParseTuple(args, "L", &n)) return NULL;
  CRN_PY_LLM_CALL(get(self), cairn_llm_trim(get(self)->llm, n, &kept));
  return PyLong_FromLongLong(kept);
}

PyObject *crn_py_llm_reset(PyObject *self, PyObject *args) {
  long long n = 0;
  if (!PyArg_ParseTuple(args, "|L", &n)) return NULL;
  CRN_PY_LLM_CALL(get(self), cairn_llm_reset(get(self)->llm, n));
  Py_RETURN_NONE;
}

PyObject *crn_py_llm_warm_up(PyObject *self, PyObject *args) {
  long long n = 1;
  if (!PyArg_ParseTuple(args, "|L", &n)) return NULL;
  CRN_PY_LLM_CALL(get(self), cairn_llm_warm_up(get(self)->llm, n));
  Py_RETURN_NONE;
}

// --- files --------------------------------------------------------------------------------------------------------------------

static PyObject *with_file(crn_py_llm *self, PyObject *object, cairn_status (*work)(cairn_llm *llm, const char *path)) {
  PyObject *path = crn_py_path(object);
  if (!path) return NULL;
  const char *text = PyBytes_AsString(path);
  bool ok = crn_py_llm_enter(self);
  if (ok) {
    cairn_status status;
    CRN_PY_UNLOCKED(status, work(self->llm, text));
    if (status != CAIRN_OK) crn_py_raise(status);
    ok = status == CAIRN_OK;
    crn_py_llm_leave(self);
  }
  Py_DECREF(path);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

PyObject *crn_py_llm_save(PyObject *self, PyObject *path) { return with_file(get(self), path, cairn_llm_save); }
PyObject *crn_py_llm_restore(PyObject *self, PyObject *path) { return with_file(get(self), path, cairn_llm_restore); }
