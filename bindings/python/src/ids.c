// Lists of token ids between Python and C.
#include "ids.h"

#include <stdlib.h>

bool crn_py_read_ids(PyObject *object, int32_t **out_ids, size_t *out_n) {
  *out_ids = NULL;
  *out_n = 0;
  if (object == Py_None) return true;
  PyObject *list = PySequence_List(object);
  if (!list) return false;
  Py_ssize_t n = PyList_Size(list);
  int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
  if (!ids) PyErr_NoMemory();
  for (Py_ssize_t i = 0; ids && i < n; i++) {
    long long value = PyLong_AsLongLong(PyList_GetItem(list, i));
    if (!PyErr_Occurred() && (value < INT32_MIN || value > INT32_MAX))
      PyErr_Format(PyExc_ValueError, "token %lld at %zd is out of range", value, i);
    if (PyErr_Occurred()) {
      free(ids);
      ids = NULL;
      break;
    }
    ids[i] = (int32_t)value;
  }
  Py_DECREF(list);
  if (!ids) return false;
  *out_ids = ids;
  *out_n = (size_t)n;
  return true;
}

PyObject *crn_py_ids(const int32_t *ids, size_t n) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *item = PyLong_FromLong(ids[i]);
    if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}
