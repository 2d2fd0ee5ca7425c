// NDArray: an array of the library as a Python object with the buffer protocol.
#include <string.h>

#include "module.h"

static crn_py_ndarray *cast(PyObject *self) { return (crn_py_ndarray *)self; }

PyObject *crn_py_ndarray_new(PyTypeObject *type, cairn_ndarray *array) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  PyObject *self = allocate(type, 0);
  if (!self) {
    cairn_ndarray_release(array);
    return NULL;
  }
  crn_py_ndarray *a = cast(self);
  a->array = array;
  Py_ssize_t item = (Py_ssize_t)cairn_dtype_bytes(cairn_ndarray_dtype(array));
  for (int i = 0; i < cairn_ndarray_rank(array); i++) {
    a->shape[i] = (Py_ssize_t)cairn_ndarray_shape(array)[i];
    a->strides[i] = (Py_ssize_t)cairn_ndarray_strides(array)[i] * item;
  }
  return self;
}

cairn_ndarray *crn_py_ndarray_get(PyObject *object, const char *what) {
  if (PyObject_TypeCheck(object, crn_py.ndarray_type)) return cast(object)->array;
  PyErr_Format(PyExc_TypeError, "Value for \"%s\" is not an NDArray.", what);
  return NULL;
}

bool crn_py_is_ndarray_type(PyObject *type) {
  if (PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, crn_py.ndarray_type)) return true;
  PyErr_SetString(PyExc_TypeError, "NDArray or a subclass of it expected");
  return false;
}

cairn_status crn_py_ndarray_contiguous(cairn_context *context, const cairn_ndarray *source, cairn_ndarray **out_array) {
  cairn_ndarray *copy;
  cairn_status status =
      cairn_ndarray_create(context, cairn_ndarray_dtype(source), cairn_ndarray_shape(source), cairn_ndarray_rank(source), &copy);
  if (status != CAIRN_OK) return status;
  status = cairn_ndarray_copy(source, copy);
  if (status != CAIRN_OK)
    cairn_ndarray_release(copy);
  else
    *out_array = copy;
  return status;
}

static void deallocate(PyObject *self) {
  cairn_ndarray_release(cast(self)->array);
  crn_py_free(self);
}

// --- making arrays ------------------------------------------------------------------------------------------------------

static PyObject *make_zeros(PyObject *type, PyObject *args) {
  PyObject *sequence;
  const char *name = "float32";
  int64_t shape[CAIRN_MAX_RANK];
  if (!PyArg_ParseTuple(args, "O|s", &sequence, &name)) return NULL;
  int rank = crn_py_read_shape(sequence, shape);
  if (rank < 0) return NULL;
  cairn_dtype dtype = crn_py_dtype(name);
  if (dtype == CAIRN_DTYPE_NONE) return NULL;
  cairn_ndarray *array;
  cairn_status status = cairn_ndarray_create(crn_py.context, dtype, shape, rank, &array);
  return status == CAIRN_OK ? crn_py_ndarray_new((PyTypeObject *)type, array) : crn_py_raise(status);
}

static PyObject *make_from_descriptor(PyObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"descriptor", "shape", NULL};
  PyObject *object, *sequence = Py_None;
  int64_t shape[CAIRN_MAX_RANK];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", keywords, &object, &sequence)) return NULL;
  const cairn_descriptor *descriptor = crn_py_descriptor_get(object);
  if (!descriptor) return NULL;
  int rank = sequence == Py_None ? 0 : crn_py_read_shape(sequence, shape);
  if (rank < 0) return NULL;
  cairn_ndarray *array;
  cairn_status status = cairn_ndarray_create_from_descriptor(crn_py.context, descriptor, sequence == Py_None ? NULL : shape, rank, &array);
  return status == CAIRN_OK ? crn_py_ndarray_new((PyTypeObject *)type, array) : crn_py_raise(status);
}

// --- properties ---------------------------------------------------------------------------------------------------------

static PyObject *get_dtype(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(crn_py_dtype_name(cairn_ndarray_dtype(cast(self)->array)));
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  return crn_py_sizes(cairn_ndarray_shape(cast(self)->array), cairn_ndarray_rank(cast(self)->array), false);
}

static PyObject *get_strides(PyObject *self, void *unused) {
  (void)unused;
  return crn_py_sizes(cairn_ndarray_strides(cast(self)->array), cairn_ndarray_rank(cast(self)->array), false);
}

static PyObject *get_interleave(PyObject *self, void *unused) {
  (void)unused;
  return crn_py_sizes(cairn_ndarray_interleave(cast(self)->array), cairn_ndarray_rank(cast(self)->array), false);
}

static PyObject *get_rank(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(cairn_ndarray_rank(cast(self)->array));
}

static PyObject *get_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(cairn_ndarray_count(cast(self)->array));
}

static PyObject *get_itemsize(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromSize_t(cairn_dtype_bytes(cairn_ndarray_dtype(cast(self)->array)));
}

static PyObject *get_address(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr((void *)cairn_ndarray_data(cast(self)->array));
}

static PyObject *get_contiguous(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(cairn_ndarray_is_contiguous(cast(self)->array));
}

static PyObject *get_read_only(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(cairn_ndarray_is_read_only(cast(self)->array));
}

static bool is_interleaved(const cairn_ndarray *a) {
  for (int i = 0; i < cairn_ndarray_rank(a); i++) {
    if (cairn_ndarray_interleave(a)[i] != 1) return true;
  }
  return false;
}

// --- methods ------------------------------------------------------------------------------------------------------------

static PyObject *copy(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_ndarray *array = NULL;
  cairn_status status;
  cairn_context *context = crn_py_context();
  CRN_PY_UNLOCKED(status, crn_py_ndarray_contiguous(context, cast(self)->array, &array));
  cairn_context_release(context);
  return status == CAIRN_OK ? crn_py_ndarray_new(Py_TYPE(self), array) : crn_py_raise(status);
}

static PyObject *copy_from(PyObject *self, PyObject *other) {
  cairn_ndarray *source = crn_py_ndarray_get(other, "source");
  if (!source) return NULL;
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_ndarray_copy(source, cast(self)->array));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *zero(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_ndarray_zero(cast(self)->array));
  if (status != CAIRN_OK) return crn_py_raise(status);
  Py_RETURN_NONE;
}

static PyObject *slice(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"start", "end", NULL};
  PyObject *start = Py_None, *end = Py_None;
  int64_t from[CAIRN_MAX_RANK], to[CAIRN_MAX_RANK];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", keywords, &start, &end)) return NULL;
  cairn_ndarray *array = cast(self)->array, *view;
  int rank = cairn_ndarray_rank(array);
  int n_from = start == Py_None ? rank : crn_py_read_shape(start, from), n_to = end == Py_None ? rank : crn_py_read_shape(end, to);
  if (n_from < 0 || n_to < 0) return NULL;
  if (n_from != rank || n_to != rank) {
    PyErr_Format(PyExc_ValueError, "%d places expected, one per dimension", rank);
    return NULL;
  }
  cairn_status status = cairn_ndarray_slice(array, start == Py_None ? NULL : from, end == Py_None ? NULL : to, &view);
  return status == CAIRN_OK ? crn_py_ndarray_new(Py_TYPE(self), view) : crn_py_raise(status);
}

static PyObject *const_view(PyObject *self, PyObject *unused) {
  (void)unused;
  cairn_ndarray *view;
  cairn_status status = cairn_ndarray_const_view(cast(self)->array, &view);
  return status == CAIRN_OK ? crn_py_ndarray_new(Py_TYPE(self), view) : crn_py_raise(status);
}

static void release_array(void *array) { cairn_ndarray_release(array); }

// The same memory as elements of another type of the same size, e.g. bfloat16 as uint16.
static PyObject *view_as(PyObject *self, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  cairn_dtype dtype = crn_py_dtype(name);
  if (dtype == CAIRN_DTYPE_NONE) return NULL;
  cairn_ndarray *array = cast(self)->array, *view;
  size_t item = cairn_dtype_bytes(dtype);
  if (item != cairn_dtype_bytes(cairn_ndarray_dtype(array)) || is_interleaved(array)) {
    PyErr_Format(PyExc_ValueError, "an array of %s cannot be viewed as %s", crn_py_dtype_name(cairn_ndarray_dtype(array)), name);
    return NULL;
  }
  size_t reach = item;
  for (int i = 0; i < cairn_ndarray_rank(array); i++) {
    if (cairn_ndarray_shape(array)[i] > 1)
      reach += (size_t)(cairn_ndarray_shape(array)[i] - 1) * (size_t)cairn_ndarray_strides(array)[i] * item;
  }
  cairn_ndarray_wrap_options options = {
      .data = (void *)cairn_ndarray_data(array),
      .bytes = cairn_ndarray_count(array) ? reach : 0,
      .dtype = dtype,
      .rank = cairn_ndarray_rank(array),
      .shape = cairn_ndarray_shape(array),
      .strides = cairn_ndarray_strides(array),
      .read_only = cairn_ndarray_is_read_only(array),
      .release = release_array,
      .user = array,
  };
  cairn_status status = cairn_ndarray_wrap(crn_py.context, &options, &view);
  if (status != CAIRN_OK) return crn_py_raise(status);
  cairn_ndarray_retain(array);
  return crn_py_ndarray_new(Py_TYPE(self), view);
}

static PyObject *describe(PyObject *self) {
  cairn_ndarray *a = cast(self)->array;
  PyObject *shape = crn_py_sizes(cairn_ndarray_shape(a), cairn_ndarray_rank(a), true);
  if (!shape) return NULL;
  PyObject *text = PyUnicode_FromFormat("%S, %s", shape, crn_py_dtype_name(cairn_ndarray_dtype(a)));
  Py_DECREF(shape);
  return text;
}

static PyObject *represent(PyObject *self) {
  PyObject *text = describe(self);
  if (!text) return NULL;
  PyObject *full = PyUnicode_FromFormat("NDArray(%U)", text);
  Py_DECREF(text);
  return full;
}

// --- the buffer protocol -------------------------------------------------------------------------------------------------

// The format of PEP 3118; NULL for types it cannot express.
static const char *buffer_format(cairn_dtype dtype) {
  switch (dtype) {
    case CAIRN_BOOL:
      return "?";
    case CAIRN_F64:
      return "d";
    case CAIRN_F32:
      return "f";
    case CAIRN_F16:
      return "e";
    case CAIRN_SI64:
      return "q";
    case CAIRN_SI32:
      return "i";
    case CAIRN_SI16:
      return "h";
    case CAIRN_SI8:
      return "b";
    case CAIRN_UI64:
      return "Q";
    case CAIRN_UI32:
      return "I";
    case CAIRN_UI16:
      return "H";
    case CAIRN_UI8:
      return "B";
    case CAIRN_C128:
      return "Zd";
    case CAIRN_C64:
      return "Zf";
    default:
      return NULL;
  }
}

static const char *buffer_problem(const cairn_ndarray *a, int flags) {
  if (is_interleaved(a)) return "an interleaved array has no plain layout: use copy()";
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && cairn_ndarray_is_read_only(a)) return "the array is read-only";
  if ((flags & PyBUF_FORMAT) && !buffer_format(cairn_ndarray_dtype(a)))
    return "the buffer protocol cannot express the element type: use numpy() or view()";
  bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  bool in_order = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  if ((!strided || in_order) && !cairn_ndarray_is_contiguous(a)) return "the array is not contiguous";
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && cairn_ndarray_rank(a) > 1) return "the array is in row-major order";
  return NULL;
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
  crn_py_ndarray *object = cast(self);
  cairn_ndarray *a = object->array;
  view->obj = NULL;
  const char *problem = buffer_problem(a, flags);
  if (problem) {
    PyErr_SetString(PyExc_BufferError, problem);
    return -1;
  }
  size_t item = cairn_dtype_bytes(cairn_ndarray_dtype(a));
  view->buf = (void *)cairn_ndarray_data(a);
  view->len = (Py_ssize_t)(item * (size_t)cairn_ndarray_count(a));
  view->itemsize = (Py_ssize_t)item;
  view->readonly = cairn_ndarray_is_read_only(a);
  view->ndim = cairn_ndarray_rank(a);
  view->format = flags & PyBUF_FORMAT ? (char *)buffer_format(cairn_ndarray_dtype(a)) : NULL;
  view->shape = flags & PyBUF_ND ? object->shape : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? object->strides : NULL;
  view->suboffsets = NULL;
  view->internal = NULL;
  view->obj = Py_NewRef(self);
  return 0;
}

// --- the type -----------------------------------------------------------------------------------------------------------

static PyGetSetDef properties[] = {
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"shape", get_shape, NULL, "The size of every dimension.", NULL},
    {"strides", get_strides, NULL, "Distance between consecutive elements of every dimension, in elements.", NULL},
    {"interleave", get_interleave, NULL, "Block of consecutive elements per dimension, 1 = none.", NULL},
    {"ndim", get_rank, NULL, "Number of dimensions.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"address", get_address, NULL, "Address of the first element.", NULL},
    {"is_contiguous", get_contiguous, NULL, "Whether the elements lie one after another in row-major order.", NULL},
    {"is_read_only", get_read_only, NULL, "Whether the array refuses to be written.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef methods[] = {
    {"zeros", make_zeros, METH_VARARGS | METH_CLASS, "zeros(shape, dtype='float32'): a new array of zeros."},
    {"from_descriptor", KEYWORDS(make_from_descriptor), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_descriptor(descriptor, shape=None): a zeroed array in the layout the function prefers."},
    {"_from_buffer", KEYWORDS(crn_py_ndarray_from_buffer), METH_VARARGS | METH_KEYWORDS | METH_CLASS, NULL},
    {"_from_dlpack", KEYWORDS(crn_py_ndarray_from_dlpack), METH_VARARGS | METH_KEYWORDS | METH_CLASS, NULL},
    {"__dlpack__", KEYWORDS(crn_py_ndarray_dlpack), METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", crn_py_ndarray_dlpack_device, METH_NOARGS, NULL},
    {"copy", copy, METH_NOARGS, "A contiguous copy."},
    {"copy_from", copy_from, METH_O, "Copies all elements of an array of the same shape and type, whatever the layouts."},
    {"zero", zero, METH_NOARGS, "Sets every element to zero."},
    {"slice", KEYWORDS(slice), METH_VARARGS | METH_KEYWORDS, "slice(start=None, end=None): a view of the elements [start, end)."},
    {"const_view", const_view, METH_NOARGS, "A read-only view."},
    {"view", view_as, METH_VARARGS, "view(dtype): the same memory with elements of another type of the same size."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An n-dimensional array of the library."},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_str, describe},
    {Py_tp_repr, represent},
    {Py_bf_getbuffer, get_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "cairn._native.NDArray",
    .basicsize = sizeof(crn_py_ndarray),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

bool crn_py_ndarray_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.ndarray_type); }
