// Model and Function: an asset made ready, and calls of its functions.
#include <stdlib.h>

#include "module.h"

/// `trace` outlives the C model: functions keep their Model object, and it frees the model before the callback.
typedef struct model_object {
  PyObject_HEAD cairn_model *model;
  crn_py_callback trace;
  PyObject *array_type;  ///< of the arrays given to the trace
} model_object;

typedef struct function_object {
  PyObject_HEAD cairn_function *function;
  PyObject *model;
} function_object;

// --- tracing ------------------------------------------------------------------------------------------------------------

static PyObject *arrays_of(PyObject *type, const cairn_ndarray *const *arrays, int n) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    // The arrays are made for this call and nobody writes them later: to keep one is enough.
    cairn_ndarray_retain((cairn_ndarray *)arrays[i]);
    PyObject *item = crn_py_ndarray_new((PyTypeObject *)type, (cairn_ndarray *)arrays[i]);
    if (!item || PyList_SetItem(list, i, item) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

// trace(step, operation, location, arrays, seconds), on the running thread.
static void on_trace(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n_arrays,
                     double seconds) {
  model_object *m = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *list = m->trace.function ? arrays_of(m->array_type, arrays, n_arrays) : NULL;
  PyObject *result = list ? PyObject_CallFunction(m->trace.function, "LssOd", (long long)step, op, location, list, seconds) : NULL;
  Py_XDECREF(list);
  if (!result && PyErr_Occurred()) crn_py_callback_keep(&m->trace);
  Py_XDECREF(result);
  PyGILState_Release(gil);
}

// --- Model ----------------------------------------------------------------------------------------------------------------

static bool read_composites(const char *text, cairn_composites *out) {
  static const char *const names[] = {"default", "fast", "body"};
  for (int i = 0; i < 3; i++) {
    if (PyOS_stricmp(text, names[i]) == 0) {
      *out = (cairn_composites)i;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError, "composites '%s': \"default\", \"fast\" or \"body\" expected", text);
  return false;
}

bool crn_py_read_precision(const char *text, cairn_precision *out) {
  for (int i = CAIRN_PRECISION_DEFAULT; i <= CAIRN_PRECISION_AUTO; i++) {
    if (PyOS_stricmp(text, cairn_precision_text((cairn_precision)i)) == 0) {
      *out = (cairn_precision)i;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError, "precision '%s': \"default\", \"exact\", \"bf16\", \"int8\" or \"auto\" expected", text);
  return false;
}

static PyObject *model_create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"asset", "array_type", "composites", "precision", "trace", NULL};
  PyObject *object, *array_type, *trace = Py_None;
  const char *composites = "default", *precision = "default";
  cairn_model_options options = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|ssO", keywords, &object, &array_type, &composites, &precision, &trace)) return NULL;
  cairn_asset *asset = crn_py_asset_get(object);
  if (!asset || !crn_py_is_ndarray_type(array_type) || !read_composites(composites, &options.composites) ||
      !crn_py_read_precision(precision, &options.precision))
    return NULL;
  PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!self) return NULL;
  model_object *m = (model_object *)self;
  m->array_type = Py_NewRef(array_type);
  if (trace != Py_None) {
    m->trace.function = Py_NewRef(trace);
    options.trace = on_trace;
    options.trace_user = m;
  }
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_model_create(asset, &options, &m->model));
  if (status == CAIRN_OK) return self;
  crn_py_raise(status);
  Py_DECREF(self);
  return NULL;
}

// A callback may well hold the function it was given to: such circles are found by the collector.
static int model_traverse(PyObject *self, visitproc visit, void *arg) {
  model_object *m = (model_object *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(m->trace.function);
  Py_VISIT(m->trace.type);
  Py_VISIT(m->trace.value);
  Py_VISIT(m->trace.traceback);
  Py_VISIT(m->array_type);
  return 0;
}

static int model_clear(PyObject *self) {
  model_object *m = (model_object *)self;
  Py_CLEAR(m->trace.function);
  Py_CLEAR(m->trace.type);
  Py_CLEAR(m->trace.value);
  Py_CLEAR(m->trace.traceback);
  return 0;
}

static void model_deallocate(PyObject *self) {
  model_object *m = (model_object *)self;
  PyObject_GC_UnTrack(self);
  cairn_model_release(m->model);
  model_clear(self);
  Py_XDECREF(m->array_type);
  crn_py_free(self);
}

static PyObject *model_functions(PyObject *self, void *unused) {
  (void)unused;
  cairn_model *model = ((model_object *)self)->model;
  int n = cairn_model_function_count(model);
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *info = crn_py_function_info(self, cairn_model_function_info(model, i));
    if (!info || PyList_SetItem(list, i, info) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject *model_function(PyObject *self, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  cairn_function *function = NULL;
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_model_function(((model_object *)self)->model, name, &function));
  if (status != CAIRN_OK) return crn_py_raise(status);
  PyObject *result = ((allocfunc)PyType_GetSlot(crn_py.function_type, Py_tp_alloc))(crn_py.function_type, 0);
  if (!result) {
    cairn_function_release(function);
    return NULL;
  }
  ((function_object *)result)->function = function;
  ((function_object *)result)->model = Py_NewRef(self);
  return result;
}

// --- Function: a run ------------------------------------------------------------------------------------------------------

/// The arrays of one dict. `items` keeps names and arrays alive while the GIL is released.
typedef struct named_arrays {
  PyObject *items;
  cairn_named_array *list;
  int n;
} named_arrays;

static void named_free(named_arrays *a) {
  Py_XDECREF(a->items);
  free(a->list);
}

static bool named_read(PyObject *dict, named_arrays *out) {
  if (dict == Py_None) return true;
  out->items = PyMapping_Items(dict);
  if (!out->items) return false;
  Py_ssize_t n = PyList_Size(out->items);
  out->list = calloc((size_t)n + 1, sizeof *out->list);
  if (!out->list) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *pair = PyList_GetItem(out->items, i), *key = PyTuple_GetItem(pair, 0);
    const char *name = key ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    if (!name) return false;
    out->list[i].name = name;
    out->list[i].array = crn_py_ndarray_get(PyTuple_GetItem(pair, 1), name);
    if (!out->list[i].array) return false;
  }
  out->n = (int)n;
  return true;
}

static PyObject *take_outputs(cairn_outputs *outputs, PyTypeObject *type) {
  PyObject *dict = PyDict_New();
  int n = outputs ? cairn_outputs_count(outputs) : 0;
  // What was taken is no longer counted, so the first that is left is taken until there is none.
  for (int i = 0; dict && i < n; i++) {
    const char *name = cairn_outputs_name(outputs, 0);
    PyObject *key = PyUnicode_FromString(name), *value = NULL;
    cairn_ndarray *array;
    cairn_status status = key ? cairn_outputs_take(outputs, name, &array) : CAIRN_OUT_OF_MEMORY;
    if (status == CAIRN_OK)
      value = crn_py_ndarray_new(type, array);
    else if (key)
      crn_py_raise(status);
    bool stored = value && PyDict_SetItem(dict, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    if (!stored) {
      Py_DECREF(dict);
      dict = NULL;
    }
  }
  return dict;
}

// run(inputs, states, outputs, last_rows, array_type): the outputs no view was given for, as a dict.
static PyObject *function_run(PyObject *self, PyObject *args) {
  PyObject *inputs, *states, *views, *type, *result = NULL;
  long long last_rows;
  if (!PyArg_ParseTuple(args, "OOOLO", &inputs, &states, &views, &last_rows, &type) || !crn_py_is_ndarray_type(type)) return NULL;
  function_object *f = (function_object *)self;
  crn_py_callback *trace = &((model_object *)f->model)->trace;
  named_arrays in = {0}, state = {0}, out = {0};
  if (named_read(inputs, &in) && named_read(states, &state) && named_read(views, &out)) {
    cairn_run_args run = {
        .inputs = in.list,
        .n_inputs = in.n,
        .states = state.list,
        .n_states = state.n,
        .outputs = out.list,
        .n_outputs = out.n,
        .last_rows = last_rows,
    };
    cairn_outputs *outputs = NULL;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_function_run(f->function, &run, &outputs));
    if (status != CAIRN_OK)
      crn_py_raise(status);
    else if (!crn_py_callback_restore(trace))
      result = take_outputs(outputs, (PyTypeObject *)type);
    cairn_outputs_destroy(outputs);
  }
  named_free(&in);
  named_free(&state);
  named_free(&out);
  return result;
}

static PyObject *function_stats(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_function_stats s;
  cairn_function_get_stats(((function_object *)self)->function, &s);
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "n_runs", (long long)s.n_runs, "state_bytes_written", (long long)s.state_bytes_written,
                       "state_bytes_copied", (long long)s.state_bytes_copied, "workspace_allocations", (long long)s.workspace_allocations,
                       "folded_bytes", (long long)s.folded_bytes);
}

static PyObject *function_precision(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(cairn_precision_text(cairn_function_get_precision(((function_object *)self)->function)));
}

static PyObject *function_plan(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_function *function = ((function_object *)self)->function;
  size_t bytes = 0, capacity = 0;
  cairn_status status = cairn_function_print_plan(function, NULL, 0, &bytes);
  char *text = status == CAIRN_OK ? malloc(bytes + 1) : NULL;
  capacity = bytes;
  PyObject *result = NULL;
  if (status == CAIRN_OK && text) status = cairn_function_print_plan(function, text, capacity, &bytes);
  if (status != CAIRN_OK)
    crn_py_raise(status);
  else if (!text)
    PyErr_NoMemory();
  else
    result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)(bytes < capacity ? bytes : capacity), "replace");
  free(text);
  return result;
}

static PyObject *function_info(PyObject *self, void *unused) {
  (void)unused;
  return crn_py_function_info(self, cairn_function_describe(((function_object *)self)->function));
}

static int function_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((function_object *)self)->model);
  return 0;
}

static void function_deallocate(PyObject *self) {
  function_object *f = (function_object *)self;
  PyObject_GC_UnTrack(self);
  cairn_function_release(f->function);
  Py_XDECREF(f->model);
  crn_py_free(self);
}

// --- the types ------------------------------------------------------------------------------------------------------------

static PyGetSetDef model_properties[] = {
    {"functions", model_functions, NULL, "A dict (name, inputs, outputs, states) per function.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef model_methods[] = {
    {"function", model_function, METH_VARARGS, "function(name): prepares a function."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot model_slots[] = {
    {Py_tp_doc, "Model(asset, array_type, composites='default', precision='default', trace=None)"},
    {Py_tp_new, model_create},
    {Py_tp_dealloc, model_deallocate},
    {Py_tp_traverse, model_traverse},
    {Py_tp_clear, model_clear},
    {Py_tp_methods, model_methods},
    {Py_tp_getset, model_properties},
    {0, NULL},
};
static PyType_Spec model_spec = {.name = "cairn._native.Model",
                                 .basicsize = sizeof(model_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                 .slots = model_slots};

static PyGetSetDef function_properties[] = {
    {"info", function_info, NULL, "A dict (name, inputs, outputs, states).", NULL},
    {"precision", function_precision, NULL, "The precision the function really runs with.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef function_methods[] = {
    {"run", function_run, METH_VARARGS, "run(inputs, states, outputs, last_rows, array_type)"},
    {"plan", function_plan, METH_NOARGS, "The plan as text, a line a step."},
    {"stats", function_stats, METH_NOARGS, "What the runs did so far."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot function_slots[] = {
    {Py_tp_doc, "A function that was prepared."}, {Py_tp_dealloc, function_deallocate},
    {Py_tp_traverse, function_traverse},          {Py_tp_methods, function_methods},
    {Py_tp_getset, function_properties},          {0, NULL},
};
static PyType_Spec function_spec = {.name = "cairn._native.Function",
                                    .basicsize = sizeof(function_object),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    .slots = function_slots};

bool crn_py_model_initialize(PyObject *module) {
  return crn_py_add_type(module, &model_spec, &crn_py.model_type) && crn_py_add_type(module, &function_spec, &crn_py.function_type);
}
