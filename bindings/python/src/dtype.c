// Element types as Core AI's Python runtime and as numpy spell them.
#include <string.h>

#include "module.h"

typedef struct spelling {
  cairn_dtype dtype;
  const char *name;
} spelling;

// Where the runtime's spelling differs from numpy's (which cairn_dtype_name gives).
static const spelling runtime_names[] = {
    {CAIRN_F8E5M2, "float8e5m2"}, {CAIRN_F8E4M3FN, "float8e4m3fn"}, {CAIRN_F8E8M0FNU, "float8e8m0fn"}, {CAIRN_F4E2M1FN, "float4e2m1fn"},
    {CAIRN_C128, "cfloat64"},     {CAIRN_C64, "cfloat32"},          {CAIRN_C32, "cfloat16"},
};
enum { N_RUNTIME_NAMES = sizeof runtime_names / sizeof *runtime_names };

const char *crn_py_dtype_name(cairn_dtype dtype) {
  for (int i = 0; i < N_RUNTIME_NAMES; i++) {
    if (runtime_names[i].dtype == dtype) return runtime_names[i].name;
  }
  return cairn_dtype_name(dtype);
}

cairn_dtype crn_py_dtype(const char *name) {
  for (int i = 0; i < N_RUNTIME_NAMES; i++) {
    if (strcmp(runtime_names[i].name, name) == 0) return runtime_names[i].dtype;
  }
  cairn_dtype dtype = cairn_dtype_from_name(name);
  if (dtype == CAIRN_DTYPE_NONE)
    PyErr_Format(PyExc_ValueError, "'%s' is not an element type; known are float32, float16, bfloat16, int32, ...", name);
  return dtype;
}

int crn_py_read_shape(PyObject *sequence, int64_t *out_shape) {
  Py_ssize_t n = PySequence_Size(sequence);
  if (n < 0) return -1;
  if (n > CAIRN_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "rank %zd is above %d", n, (int)CAIRN_MAX_RANK);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(sequence, i);
    if (!item) return -1;
    out_shape[i] = item == Py_None ? CAIRN_DYNAMIC : PyLong_AsLongLong(item);
    Py_DECREF(item);
    if (PyErr_Occurred()) return -1;
  }
  return (int)n;
}

PyObject *crn_py_sizes(const int64_t *sizes, int n, bool as_list) {
  PyObject *result = as_list ? PyList_New(n) : PyTuple_New(n);
  for (int i = 0; result && i < n; i++) {
    PyObject *item = sizes[i] == CAIRN_DYNAMIC ? Py_NewRef(Py_None) : PyLong_FromLongLong(sizes[i]);
    if (!item || (as_list ? PyList_SetItem(result, i, item) : PyTuple_SetItem(result, i, item)) != 0) {
      Py_DECREF(result);
      return NULL;
    }
  }
  return result;
}
