// Loader: a model that is loaded when it is needed.
#include "llm.h"

typedef struct loader_object {
  PyObject_HEAD cairn_llm_loader *loader;
} loader_object;

static cairn_llm_loader *get(PyObject *self) { return ((loader_object *)self)->loader; }

// Loader(path, **options), with `eager` among them
static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *object, *path = NULL, *self = NULL;
  crn_py_llm_options o;
  if (!PyArg_ParseTuple(args, "O", &object)) return NULL;
  if (crn_py_llm_options_read(kwargs, &o)) path = crn_py_path(object);
  if (path) {
    const char *text = PyBytes_AsString(path);
    cairn_context *context = crn_py_context();
    cairn_llm_loader *loader = NULL;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_llm_loader_open(context, text, &o.llm, o.is_eager, &loader));
    cairn_context_release(context);
    self = status == CAIRN_OK ? ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : crn_py_raise(status);
    if (self)
      ((loader_object *)self)->loader = loader;
    else if (status == CAIRN_OK)
      cairn_llm_loader_release(loader);
  }
  crn_py_llm_options_free(&o);
  Py_XDECREF(path);
  return self;
}

static void deallocate(PyObject *self) {
  Py_BEGIN_ALLOW_THREADS cairn_llm_loader_release(get(self));
  Py_END_ALLOW_THREADS crn_py_free(self);
}

// _borrow(type, array_type)
static PyObject *borrow(PyObject *self, PyObject *args) {
  PyObject *type, *array_type;
  cairn_llm *llm = NULL;
  cairn_status status;
  if (!PyArg_ParseTuple(args, "OO", &type, &array_type) || !crn_py_is_llm_type(type) || !crn_py_is_ndarray_type(array_type)) return NULL;
  CRN_PY_UNLOCKED(status, cairn_llm_loader_borrow(get(self), &llm));
  return status == CAIRN_OK ? crn_py_llm_new((PyTypeObject *)type, array_type, llm) : crn_py_raise(status);
}

static PyObject *prewarm(PyObject *self, PyObject *args) {
  long long n = 1;
  cairn_status status;
  if (!PyArg_ParseTuple(args, "|L", &n)) return NULL;
  CRN_PY_UNLOCKED(status, cairn_llm_loader_prewarm(get(self), n));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *unload(PyObject *self, PyObject *unused) {
  (void)unused;
  Py_BEGIN_ALLOW_THREADS cairn_llm_loader_unload(get(self));
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *counts(PyObject *self, PyObject *unused) {
  cairn_llm_loader_counts c;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS cairn_llm_loader_count(get(self), &c);
  Py_END_ALLOW_THREADS return Py_BuildValue("{s:O,s:L,s:L}", "is_loaded", c.is_loaded ? Py_True : Py_False, "n_loads", (long long)c.n_loads,
                                            "n_borrowed", (long long)c.n_borrowed);
}

static PyMethodDef methods[] = {
    {"_borrow", borrow, METH_VARARGS, NULL},
    {"prewarm", prewarm, METH_VARARGS, "prewarm(n=1): loads the model and runs n dummy tokens."},
    {"unload", unload, METH_NOARGS, "Gives the model up: its memory goes with the last sequence that was borrowed."},
    {"counts", counts, METH_NOARGS, "Whether the model is loaded, how often it was, how many sequences are borrowed, as a dict."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A language model that is loaded when it is needed."},
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "cairn._native.Loader", .basicsize = sizeof(loader_object), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};

bool crn_py_loader_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.loader_type); }
