// Options that come from Python as a dict.
#include "fields.h"

#include <string.h>

static const crn_py_field *find(PyObject *name, const crn_py_field *fields, size_t n) {
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  for (size_t i = 0; text && i < n; i++) {
    if (strcmp(fields[i].name, text) == 0) return &fields[i];
  }
  if (text) PyErr_Format(PyExc_TypeError, "there is no option '%s'", text);
  return NULL;
}

static bool read_text(PyObject *value, const crn_py_field *f, char *out) {
  const char *text;
  Py_ssize_t n;
  if (PyBytes_Check(value)) {
    char *bytes;
    if (PyBytes_AsStringAndSize(value, &bytes, &n) != 0) return false;
    text = bytes;
  } else {
    text = PyUnicode_AsUTF8AndSize(value, &n);
    if (!text) return false;
  }
  if (f->kind == CRN_PY_FIELD_BYTES) {
    *(size_t *)(void *)(out + f->beside) = (size_t)n;
  } else if (strlen(text) != (size_t)n) {
    PyErr_SetString(PyExc_ValueError, "there is a NUL in the text");
    return false;
  }
  *(const char **)(void *)(out + f->at) = text;
  return true;
}

// Numbers outside of int32 are as far outside of every range that is checked later on.
static int32_t clamp(long long value) { return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value; }

static bool read_number(PyObject *value, const crn_py_field *f, void *at) {
  switch (f->kind) {
    case CRN_PY_FIELD_BOOL: {
      // "no" and "false" are true to Python, and surely not meant so.
      if (PyUnicode_Check(value) || PyBytes_Check(value)) {
        PyErr_Format(PyExc_TypeError, "True or False expected, not %R", value);
        break;
      }
      const int truth = PyObject_IsTrue(value);
      *(bool *)at = truth > 0;
      break;
    }
    case CRN_PY_FIELD_INT:
      *(int *)at = clamp(PyLong_AsLongLong(value));
      break;
    case CRN_PY_FIELD_INT32:
      *(int32_t *)at = clamp(PyLong_AsLongLong(value));
      break;
    case CRN_PY_FIELD_INT64:
      *(int64_t *)at = PyLong_AsLongLong(value);
      break;
    case CRN_PY_FIELD_UINT64:
      *(uint64_t *)at = PyLong_AsUnsignedLongLong(value);
      break;
    case CRN_PY_FIELD_SIZE:
      *(size_t *)at = PyLong_AsSize_t(value);
      break;
    case CRN_PY_FIELD_FLOAT:
      *(float *)at = (float)PyFloat_AsDouble(value);
      break;
    default:
      *(double *)at = PyFloat_AsDouble(value);
      break;
  }
  return !PyErr_Occurred();
}

static bool read_field(PyObject *value, const crn_py_field *f, char *out) {
  if (f->kind == CRN_PY_FIELD_OBJECT) {
    *(PyObject **)(void *)(out + f->at) = value;
    return true;
  }
  if (f->kind == CRN_PY_FIELD_TEXT || f->kind == CRN_PY_FIELD_BYTES) return read_text(value, f, out);
  if (!read_number(value, f, out + f->at)) return false;
  if (f->beside != CRN_PY_NOWHERE) *(bool *)(void *)(out + f->beside) = true;
  return true;
}

// "must be real number, not str" says nothing without the name of the option.
static void name_error(const char *name) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  if (text && (type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError)) {
    PyErr_Format(type, "%s: %U", name, text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  } else {
    PyErr_Restore(type, value, traceback);
  }
  Py_XDECREF(text);
}

bool crn_py_read_fields(PyObject *dict, const crn_py_field *fields, size_t n_fields, void *out) {
  PyObject *name, *value;
  Py_ssize_t at = 0;
  while (dict && PyDict_Next(dict, &at, &name, &value)) {
    const crn_py_field *f = find(name, fields, n_fields);
    if (!f) return false;
    if (value == Py_None || read_field(value, f, out)) continue;
    name_error(f->name);
    return false;
  }
  return true;
}

bool crn_py_choose(const char *what, const char *text, const char *const *names, int n_names, int *out_at) {
  *out_at = 0;
  if (!text) return true;
  for (int i = 0; i < n_names; i++) {
    if (strcmp(names[i], text) != 0) continue;
    *out_at = i;
    return true;
  }
  PyObject *list = PyUnicode_FromFormat("%s '%s': one of", what, text);
  for (int i = 0; list && i < n_names; i++) {
    PyObject *longer = PyUnicode_FromFormat("%U%s \"%s\"", list, i ? "," : "", names[i]);
    Py_DECREF(list);
    list = longer;
  }
  PyObject *message = list ? PyUnicode_FromFormat("%U expected", list) : NULL;
  Py_XDECREF(list);
  if (message) crn_py_fail(CAIRN_INVALID_ARGUMENT, PyUnicode_AsUTF8AndSize(message, NULL));
  Py_XDECREF(message);
  return false;
}

bool crn_py_put(PyObject *dict, const char *name, PyObject *value) {
  const bool ok = value && PyDict_SetItemString(dict, name, value) == 0;
  Py_XDECREF(value);
  return ok;
}
