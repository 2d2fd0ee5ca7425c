#include "module.h"

#include <string.h>

crn_py_state crn_py;

// --- errors -----------------------------------------------------------------------------------------------------------

// cairn._errors.make(code, name, message, notes) gives an exception of the class that belongs to the code. Takes `notes`.
static PyObject *raise_text(cairn_status status, const char *text, PyObject *notes) {
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  if (message && !crn_py.errors) crn_py.errors = PyImport_ImportModule("cairn._errors");
  PyObject *error = message && crn_py.errors
                        ? PyObject_CallMethod(crn_py.errors, "make", "isOO", (int)status, cairn_status_name(status), message, notes)
                        : NULL;
  Py_XDECREF(message);
  Py_DECREF(notes);
  if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  return NULL;
}

PyObject *crn_py_raise(cairn_status status) {
  const cairn_error *e = cairn_last_error();
  bool known = e->code == status;
  PyObject *notes = PyTuple_New(known ? e->n_context : 0);
  if (!notes) return NULL;
  for (int i = 0; known && i < e->n_context; i++) {
    PyObject *note = PyUnicode_DecodeUTF8(e->context[i], (Py_ssize_t)strlen(e->context[i]), "replace");
    if (!note || PyTuple_SetItem(notes, i, note) != 0) {
      Py_DECREF(notes);
      return NULL;
    }
  }
  return raise_text(status, known ? e->message : cairn_status_text(status), notes);
}

PyObject *crn_py_fail(cairn_status status, const char *message) {
  PyObject *notes = PyTuple_New(0);
  return notes ? raise_text(status, message, notes) : NULL;
}

void crn_py_callback_keep(crn_py_callback *c) {
  if (c->type)
    PyErr_Clear();
  else
    PyErr_Fetch(&c->type, &c->value, &c->traceback);
}

bool crn_py_callback_restore(crn_py_callback *c) {
  if (!c->type) return false;
  PyErr_Restore(c->type, c->value, c->traceback);
  c->type = c->value = c->traceback = NULL;
  return true;
}

// --- small helpers ------------------------------------------------------------------------------------------------------

cairn_context *crn_py_context(void) {
  cairn_context_retain(crn_py.context);
  return crn_py.context;
}

void crn_py_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

PyObject *crn_py_path(PyObject *path) {
  PyObject *bytes = NULL;
  return PyUnicode_FSConverter(path, &bytes) ? bytes : NULL;
}

bool crn_py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out_type) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  if (!type) return false;
  *out_type = (PyTypeObject *)type;
  return PyModule_AddType(module, (PyTypeObject *)type) == 0;
}

// --- the module ---------------------------------------------------------------------------------------------------------

static PyObject *get_version(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyUnicode_FromString(cairn_version());
}

static PyObject *get_threads(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(cairn_context_threads(crn_py.context));
}

// What is open keeps the context it was opened with.
static PyObject *set_threads(PyObject *module, PyObject *args) {
  (void)module;
  int n;
  if (!PyArg_ParseTuple(args, "i", &n)) return NULL;
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = n;
  cairn_context *context;
  cairn_status status = cairn_context_create(&options, &context);
  if (status != CAIRN_OK) return crn_py_raise(status);
  cairn_context_release(crn_py.context);
  crn_py.context = context;
  Py_RETURN_NONE;
}

static PyObject *list_statuses(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *dict = PyDict_New();
  if (!dict) return NULL;
#define CRN_PY_STATUS(name, value, text)                                    \
  {                                                                         \
    PyObject *number = PyLong_FromLong(value);                              \
    bool stored = number && PyDict_SetItemString(dict, #name, number) == 0; \
    Py_XDECREF(number);                                                     \
    if (!stored) goto failed;                                               \
  }
  CAIRN_STATUS_LIST(CRN_PY_STATUS)
  return dict;
failed:
  Py_DECREF(dict);
  return NULL;
}

static PyObject *find_model(PyObject *module, PyObject *args) {
  (void)module;
  const char *name, *search = NULL;
  if (!PyArg_ParseTuple(args, "s|z", &name, &search)) return NULL;
  char path[4096];
  size_t bytes;
  cairn_status status = cairn_model_find(name, search, path, sizeof path, &bytes);
  if (status != CAIRN_OK) return crn_py_raise(status);
  return PyUnicode_DecodeFSDefault(path);
}

static PyMethodDef methods[] = {
    {"version", get_version, METH_NOARGS, "Version of the library."},
    {"threads", get_threads, METH_NOARGS, "Number of threads functions are run with."},
    {"set_threads", set_threads, METH_VARARGS, "Sets the number of threads for what is opened from now on; 0 = default."},
    {"statuses", list_statuses, METH_NOARGS, "Names and values of the status codes."},
    {"find_model", find_model, METH_VARARGS, "Finds a model by name in the search folders."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "cairn._native",
    .m_doc = "The C part of cairn. Use the names of the package cairn instead.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
  if (!crn_py.context) {
    cairn_status status = cairn_context_create(NULL, &crn_py.context);
    if (status != CAIRN_OK) return crn_py_raise(status);
  }
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (!crn_py_ndarray_initialize(module) || !crn_py_descriptor_initialize(module) || !crn_py_asset_initialize(module) ||
      !crn_py_model_initialize(module) || !crn_py_text_initialize(module) || !crn_py_llm_initialize(module) ||
      !crn_py_batch_initialize(module) || !crn_py_loader_initialize(module) || !crn_py_functions_initialize(module)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
