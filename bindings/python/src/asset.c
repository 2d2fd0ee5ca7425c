// Asset: an `.aimodel` that was opened and checked, nothing loaded.
#include "module.h"

typedef struct asset_object {
  PyObject_HEAD cairn_asset *asset;
} asset_object;

static cairn_asset *get(PyObject *self) { return ((asset_object *)self)->asset; }

cairn_asset *crn_py_asset_get(PyObject *object) {
  if (PyObject_TypeCheck(object, crn_py.asset_type)) return get(object);
  PyErr_SetString(PyExc_TypeError, "an Asset is expected");
  return NULL;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"path", "strict_hash", "skip_hash", NULL};
  PyObject *object;
  int strict = 0, skip = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pp", keywords, &object, &strict, &skip)) return NULL;
  PyObject *path = crn_py_path(object);
  if (!path) return NULL;
  const char *text = PyBytes_AsString(path);
  cairn_asset_options options = {.strict_hash = strict, .skip_hash = skip};
  cairn_asset *asset = NULL;
  cairn_context *context = crn_py_context();
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_asset_open(context, text, &options, &asset));
  cairn_context_release(context);
  PyObject *self = NULL;
  if (status != CAIRN_OK) {
    crn_py_raise(status);
  } else {
    self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
      ((asset_object *)self)->asset = asset;
    else
      cairn_asset_release(asset);
  }
  Py_DECREF(path);
  return self;
}

static void deallocate(PyObject *self) {
  cairn_asset_release(get(self));
  crn_py_free(self);
}

static PyObject *get_path(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_DecodeFSDefault(cairn_asset_path(get(self)));
}

static PyObject *get_metadata(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(cairn_asset_metadata_json(get(self)));
}

static PyObject *get_hash(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(cairn_asset_hash(get(self)));
}

static PyObject *get_stamp(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(cairn_asset_version_stamp(get(self)));
}

static PyObject *get_warnings(PyObject *self, void *unused) {
  (void)unused;
  int n = cairn_asset_warning_count(get(self));
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *text = PyUnicode_FromString(cairn_asset_warning(get(self), i));
    if (!text || PyList_SetItem(list, i, text) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject *get_functions(PyObject *self, void *unused) {
  (void)unused;
  int n = cairn_asset_function_count(get(self));
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *info = crn_py_function_info(self, cairn_asset_function(get(self), i));
    if (!info || PyList_SetItem(list, i, info) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

// --- visits ---------------------------------------------------------------------------------------------------------------

// The callbacks below run on the calling thread, which keeps the GIL.
static cairn_status add_operation(void *user, const char *name, int64_t count) {
  PyObject *pair = Py_BuildValue("(sL)", name, (long long)count);
  bool added = pair && PyList_Append(user, pair) == 0;
  Py_XDECREF(pair);
  return added ? CAIRN_OK : CAIRN_OUT_OF_MEMORY;
}

static cairn_status add_weight(void *user, const cairn_weight_info *weight) {
  PyObject *shape = crn_py_sizes(weight->shape, weight->rank, false);
  PyObject *row =
      shape ? Py_BuildValue("(ssOn)", weight->name, crn_py_dtype_name(weight->dtype), shape, (Py_ssize_t)weight->stored_bytes) : NULL;
  bool added = row && PyList_Append(user, row) == 0;
  Py_XDECREF(row);
  Py_XDECREF(shape);
  return added ? CAIRN_OK : CAIRN_OUT_OF_MEMORY;
}

static cairn_status add_text(void *user, const char *text, size_t bytes) {
  PyObject *piece = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
  bool added = piece && PyList_Append(user, piece) == 0;
  Py_XDECREF(piece);
  return added ? CAIRN_OK : CAIRN_OUT_OF_MEMORY;
}

// Gives `list`, unless a visit failed: with an exception of Python's, or of the library.
static PyObject *finish(PyObject *list, cairn_status status) {
  if (status == CAIRN_OK) return list;
  Py_DECREF(list);
  return PyErr_Occurred() ? NULL : crn_py_raise(status);
}

static PyObject *operations(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *list = PyList_New(0);
  return list ? finish(list, cairn_asset_count_operations(get(self), add_operation, list)) : NULL;
}

static PyObject *weights(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *list = PyList_New(0);
  return list ? finish(list, cairn_asset_visit_weights(get(self), add_weight, list)) : NULL;
}

static PyObject *print(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"bodies", "locations", "large_data", NULL};
  int bodies = 0, locations = 0, large = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ppp", keywords, &bodies, &locations, &large)) return NULL;
  cairn_print_options options = {.bodies = bodies, .locations = locations, .large_data = large};
  PyObject *list = PyList_New(0);
  if (list) list = finish(list, cairn_asset_print(get(self), &options, add_text, list));
  if (!list) return NULL;
  PyObject *empty = PyUnicode_FromString(""), *text = empty ? PyUnicode_Join(empty, list) : NULL;
  Py_XDECREF(empty);
  Py_DECREF(list);
  return text;
}

static PyGetSetDef properties[] = {
    {"path", get_path, NULL, "The directory as given.", NULL},
    {"metadata_json", get_metadata, NULL, "metadata.json as text.", NULL},
    {"hash", get_hash, NULL, "SHA-256 of main.mlirb in hex, \"\" when the check was skipped.", NULL},
    {"version_stamp", get_stamp, NULL, "Date stamp YYYYMMDD of the newest construct used.", NULL},
    {"warnings", get_warnings, NULL, "Problems that did not stop the opening.", NULL},
    {"functions", get_functions, NULL, "A dict (name, inputs, outputs, states) per function.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"operations", operations, METH_NOARGS, "(name, count) per kind of operation."},
    {"weights", weights, METH_NOARGS, "(name, dtype, shape, stored bytes) per weight."},
    {"print", (PyCFunction)(void (*)(void))print, METH_VARARGS | METH_KEYWORDS, "The program as text."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Asset(path, strict_hash=False, skip_hash=False)"},
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "cairn._native.Asset",
    .basicsize = sizeof(asset_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

bool crn_py_asset_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.asset_type); }
