// Traces of what the module does, and reading grammars: functions of the module that have no object.
#include "fields.h"

// The context that is being traced: set_threads() may replace that of the module meanwhile.
static cairn_context *g_traced;

static PyObject *start_trace(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  if (g_traced) return crn_py_fail(CAIRN_ALREADY_EXISTS, "a trace is being made already");
  cairn_context *context = crn_py_context();
  cairn_status status = cairn_trace_start(context);
  if (status != CAIRN_OK) {
    cairn_context_release(context);
    return crn_py_raise(status);
  }
  g_traced = context;
  Py_RETURN_NONE;
}

static PyObject *stop_trace(PyObject *module, PyObject *object) {
  (void)module;
  PyObject *path = crn_py_path(object);
  if (!path) return NULL;
  cairn_context *context = g_traced;
  cairn_status status = CAIRN_FAILED_PRECONDITION;
  g_traced = NULL;
  if (context) {
    const char *text = PyBytes_AsString(path);
    CRN_PY_UNLOCKED(status, cairn_trace_stop(context, text));
    if (status != CAIRN_OK) crn_py_raise(status);
    cairn_context_release(context);
  } else {
    crn_py_fail(status, "no trace is being made");
  }
  Py_DECREF(path);
  if (status != CAIRN_OK) return NULL;
  Py_RETURN_NONE;
}

// check_guide(kind, text, compact=False)
static PyObject *check_guide(PyObject *module, PyObject *args) {
  static const char *const kinds[] = {"none", "json", "json_schema", "regex", "ebnf"};
  const char *kind;
  Py_ssize_t bytes;
  int at, compact = 0;
  cairn_grammar_source source = {0};
  (void)module;
  if (!PyArg_ParseTuple(args, "sz#|p", &kind, &source.text, &bytes, &compact) || !crn_py_choose("guide", kind, kinds, 5, &at)) return NULL;
  source.kind = (cairn_grammar_kind)at;
  source.text_bytes = (size_t)bytes;
  source.compact = compact;
  cairn_context *context = crn_py_context();
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_grammar_check(context, &source));
  cairn_context_release(context);
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *has_guides(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(cairn_grammar_is_available());
}

static PyMethodDef methods[] = {
    {"start_trace", start_trace, METH_NOARGS, "Starts recording what the module does."},
    {"stop_trace", stop_trace, METH_O, "stop_trace(path): stops recording and writes the file."},
    {"check_guide", check_guide, METH_VARARGS, "check_guide(kind, text, compact=False): reads a grammar without compiling it."},
    {"has_guides", has_guides, METH_NOARGS, "Whether this build has guided generation."},
    {NULL, NULL, 0, NULL},
};

bool crn_py_functions_initialize(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }
