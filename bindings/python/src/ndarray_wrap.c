// Arrays over memory that a Python object lends through the buffer protocol.
#include <stdlib.h>
#include <string.h>

#include "module.h"

// --- from the format of PEP 3118 to an element type ------------------------------------------------------------------------

static cairn_dtype signed_of(Py_ssize_t bytes) {
  return bytes == 8 ? CAIRN_SI64 : bytes == 4 ? CAIRN_SI32 : bytes == 2 ? CAIRN_SI16 : bytes == 1 ? CAIRN_SI8 : CAIRN_DTYPE_NONE;
}

static cairn_dtype unsigned_of(Py_ssize_t bytes) {
  return bytes == 8 ? CAIRN_UI64 : bytes == 4 ? CAIRN_UI32 : bytes == 2 ? CAIRN_UI16 : bytes == 1 ? CAIRN_UI8 : CAIRN_DTYPE_NONE;
}

static cairn_dtype dtype_of_format(const char *format, Py_ssize_t item) {
  if (!format) return CAIRN_UI8;
  const unsigned one = 1;
  bool little = *(const char *)&one == 1;
  if (*format == '@' || *format == '=' || *format == (little ? '<' : '>')) format++;
  if (*format == 'Z') {
    format++;
    return *format == 'f' && !format[1] ? CAIRN_C64 : *format == 'd' && !format[1] ? CAIRN_C128 : CAIRN_DTYPE_NONE;
  }
  if (!*format || format[1]) return CAIRN_DTYPE_NONE;
  switch (*format) {
    case '?':
      return CAIRN_BOOL;
    case 'e':
      return CAIRN_F16;
    case 'f':
      return CAIRN_F32;
    case 'd':
      return CAIRN_F64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return signed_of(item);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return unsigned_of(item);
    default:
      return CAIRN_DTYPE_NONE;
  }
}

// --- wrapping -------------------------------------------------------------------------------------------------------------

// The last view may go away on any thread. After the interpreter has ended the buffer is left alone: there is no one to
// give it back to.
static void release_buffer(void *user) {
  Py_buffer *view = user;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(view);
  PyGILState_Release(gil);
  free(view);
}

// Whether the library can use the memory as it lies there. Strides are turned into elements.
static bool can_share(const Py_buffer *view, int64_t *out_strides) {
  if (((uintptr_t)view->buf) % (size_t)view->itemsize) return false;
  for (int i = 0; i < view->ndim; i++) {
    Py_ssize_t stride = view->strides ? view->strides[i] : 0;
    // The stride of a dimension nobody steps along may be anything.
    if (view->shape[i] <= 1) stride = 0;
    if (stride < 0 || stride % view->itemsize) return false;
    out_strides[i] = stride / view->itemsize;
  }
  return true;
}

static cairn_status share(Py_buffer *view, cairn_dtype dtype, const int64_t *shape, int64_t *strides, cairn_ndarray **out) {
  size_t reach = (size_t)view->itemsize;
  int64_t inner = 1;
  for (int i = view->ndim - 1; i >= 0; i--) {
    if (shape[i] > 1) reach += (size_t)(shape[i] - 1) * (size_t)strides[i] * (size_t)view->itemsize;
    if (shape[i] <= 1) strides[i] = inner;
    inner *= shape[i] > 1 ? shape[i] : 1;
  }
  cairn_ndarray_wrap_options options = {
      .data = view->buf,
      .bytes = view->len ? reach : 0,
      .dtype = dtype,
      .rank = view->ndim,
      .shape = shape,
      .strides = view->strides ? strides : NULL,
      .read_only = view->readonly,
      .release = release_buffer,
      .user = view,
  };
  return cairn_ndarray_wrap(crn_py.context, &options, out);
}

static PyObject *copy_of(PyTypeObject *type, const Py_buffer *view, cairn_dtype dtype, const int64_t *shape) {
  cairn_ndarray *array;
  cairn_status status = cairn_ndarray_create(crn_py.context, dtype, shape, view->ndim, &array);
  if (status != CAIRN_OK) return crn_py_raise(status);
  if (view->len && PyBuffer_ToContiguous(cairn_ndarray_mutable_data(array), view, view->len, 'C') != 0) {
    cairn_ndarray_release(array);
    return NULL;
  }
  return crn_py_ndarray_new(type, array);
}

typedef enum copy_rule { COPY_IF_NEEDED, COPY_NEVER, COPY_ALWAYS } copy_rule;

static bool read_copy_rule(PyObject *object, copy_rule *out) {
  int truth = object == Py_None ? 0 : PyObject_IsTrue(object);
  *out = object == Py_None ? COPY_IF_NEEDED : truth ? COPY_ALWAYS : COPY_NEVER;
  return truth >= 0;
}

// Takes over `view` (allocated, acquired): it is released or belongs to the array.
static PyObject *array_of_view(PyTypeObject *type, Py_buffer *view, cairn_dtype dtype, copy_rule rule) {
  int64_t shape[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK] = {0};
  for (int i = 0; i < view->ndim; i++) shape[i] = view->shape[i];
  bool fits = can_share(view, strides);
  if (rule == COPY_ALWAYS || (rule == COPY_IF_NEEDED && !fits)) {
    PyObject *result = copy_of(type, view, dtype, shape);
    PyBuffer_Release(view);
    free(view);
    return result;
  }
  cairn_ndarray *array;
  cairn_status status = CAIRN_OK;
  if (fits) {
    status = share(view, dtype, shape, strides, &array);
    if (status == CAIRN_OK) return crn_py_ndarray_new(type, array);
    crn_py_raise(status);
  } else {
    PyErr_SetString(PyExc_BufferError, "the memory cannot be shared (negative or odd strides, or not aligned): allow a copy");
  }
  PyBuffer_Release(view);
  free(view);
  return NULL;
}

static bool acquire(PyObject *object, Py_buffer *view) {
  if (PyObject_GetBuffer(object, view, PyBUF_RECORDS) == 0) return true;
  PyErr_Clear();
  return PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO) == 0;
}

// _from_buffer(object, dtype=None, copy=None): `dtype` overrides what the buffer says of its elements.
PyObject *crn_py_ndarray_from_buffer(PyObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"object", "dtype", "copy", NULL};
  PyObject *object, *copy = Py_None;
  const char *name = NULL;
  copy_rule rule;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zO", keywords, &object, &name, &copy)) return NULL;
  if (!read_copy_rule(copy, &rule)) return NULL;
  Py_buffer *view = malloc(sizeof *view);
  if (!view) return PyErr_NoMemory();
  if (!acquire(object, view)) {
    free(view);
    return NULL;
  }
  cairn_dtype dtype = name ? crn_py_dtype(name) : dtype_of_format(view->format, view->itemsize);
  if (!PyErr_Occurred()) {
    if (dtype == CAIRN_DTYPE_NONE)
      PyErr_Format(PyExc_TypeError, "elements of format '%s' are not supported", view->format ? view->format : "?");
    else if ((size_t)view->itemsize != cairn_dtype_bytes(dtype))
      PyErr_Format(PyExc_ValueError, "elements of %zd bytes cannot be %s", view->itemsize, crn_py_dtype_name(dtype));
    else if (view->ndim > CAIRN_MAX_RANK)
      PyErr_Format(PyExc_ValueError, "rank %d is above %d", view->ndim, (int)CAIRN_MAX_RANK);
  }
  if (PyErr_Occurred()) {
    PyBuffer_Release(view);
    free(view);
    return NULL;
  }
  return array_of_view((PyTypeObject *)type, view, dtype, rule);
}
