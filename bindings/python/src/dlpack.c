// Arrays to and from DLPack tensors, both without a copy.
#include "dlpack.h"

#include <stdlib.h>
#include <string.h>

#include "module.h"

static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

// --- element types ----------------------------------------------------------------------------------------------------

typedef struct type_row {
  cairn_dtype dtype;
  uint8_t code, bits;
} type_row;

static const type_row types[] = {
    {CAIRN_BOOL, DL_BOOL, 8},      {CAIRN_F64, DL_FLOAT, 64},    {CAIRN_F32, DL_FLOAT, 32},        {CAIRN_F16, DL_FLOAT, 16},
    {CAIRN_BF16, DL_BFLOAT, 16},   {CAIRN_F8E5M2, DL_F8E5M2, 8}, {CAIRN_F8E4M3FN, DL_F8E4M3FN, 8}, {CAIRN_F8E8M0FNU, DL_F8E8M0FNU, 8},
    {CAIRN_SI64, DL_INT, 64},      {CAIRN_SI32, DL_INT, 32},     {CAIRN_SI16, DL_INT, 16},         {CAIRN_SI8, DL_INT, 8},
    {CAIRN_UI64, DL_UINT, 64},     {CAIRN_UI32, DL_UINT, 32},    {CAIRN_UI16, DL_UINT, 16},        {CAIRN_UI8, DL_UINT, 8},
    {CAIRN_C128, DL_COMPLEX, 128}, {CAIRN_C64, DL_COMPLEX, 64},  {CAIRN_C32, DL_COMPLEX, 32},
};
enum { N_TYPES = sizeof types / sizeof *types };

static const type_row *row_of_dtype(cairn_dtype dtype) {
  for (int i = 0; i < N_TYPES; i++) {
    if (types[i].dtype == dtype) return &types[i];
  }
  return NULL;
}

static const type_row *row_of_dl(dl_dtype t) {
  for (int i = 0; i < N_TYPES; i++) {
    if (types[i].code == t.code && types[i].bits == t.bits && t.lanes == 1) return &types[i];
  }
  return NULL;
}

// --- taking a tensor ----------------------------------------------------------------------------------------------------

static void release_plain(void *user) {
  dl_managed *m = user;
  if (!m->deleter || !Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  m->deleter(m);
  PyGILState_Release(gil);
}

static void release_versioned(void *user) {
  dl_managed_versioned *m = user;
  if (!m->deleter || !Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  m->deleter(m);
  PyGILState_Release(gil);
}

static bool check_tensor(const dl_tensor *t) {
  if (t->device.type != 1 && t->device.type != 3) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not in main memory: move it to the CPU first");
  } else if (!row_of_dl(t->dtype)) {
    PyErr_Format(PyExc_TypeError, "DLPack elements of code %d with %d bits are not supported", t->dtype.code, t->dtype.bits);
  } else if (t->ndim < 0 || t->ndim > CAIRN_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "rank %d is outside of 0 to %d", (int)t->ndim, (int)CAIRN_MAX_RANK);
  }
  return !PyErr_Occurred();
}

static bool is_sharable(const dl_tensor *t) {
  for (int i = 0; t->strides && i < t->ndim; i++) {
    if (t->strides[i] < 0) return false;
  }
  return ((uintptr_t)t->data + t->byte_offset) % cairn_dtype_bytes(row_of_dl(t->dtype)->dtype) == 0;
}

// Wraps the tensor; on success `release(user)` belongs to the array.
static cairn_status wrap(const dl_tensor *t, bool read_only, void (*release)(void *), void *user, cairn_ndarray **out) {
  cairn_dtype dtype = row_of_dl(t->dtype)->dtype;
  size_t item = cairn_dtype_bytes(dtype), reach = item;
  int64_t dense = 1;
  bool empty = false;
  for (int i = t->ndim - 1; i >= 0; i--) {
    int64_t stride = t->strides ? t->strides[i] : dense;
    if (t->shape[i] == 0) empty = true;
    if (t->shape[i] > 1) reach += (size_t)(t->shape[i] - 1) * (size_t)stride * item;
    dense *= t->shape[i];
  }
  cairn_ndarray_wrap_options options = {
      .data = (char *)t->data + t->byte_offset,
      .bytes = empty ? 0 : reach,
      .dtype = dtype,
      .rank = t->ndim,
      .shape = t->shape,
      .strides = t->strides,
      .read_only = read_only,
      .release = release,
      .user = user,
  };
  return cairn_ndarray_wrap(crn_py.context, &options, out);
}

// object.__dlpack__(), in the newest form it knows.
static PyObject *ask_capsule(PyObject *object) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  if (!method) return NULL;
  PyObject *empty = PyTuple_New(0), *kwargs = Py_BuildValue("{s:(ii)}", "max_version", 1, 0), *capsule = NULL;
  if (empty && kwargs) capsule = PyObject_Call(method, empty, kwargs);
  if (!capsule && empty && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_Call(method, empty, NULL);
  }
  Py_XDECREF(empty);
  Py_XDECREF(kwargs);
  Py_DECREF(method);
  return capsule;
}

static PyObject *array_of_capsule(PyTypeObject *type, PyObject *capsule, int copy) {
  bool versioned = PyCapsule_IsValid(capsule, versioned_name);
  void *managed = PyCapsule_GetPointer(capsule, versioned ? versioned_name : plain_name);
  if (!managed) return NULL;
  if (versioned && ((dl_managed_versioned *)managed)->major != 1) {
    PyErr_Format(PyExc_BufferError, "DLPack version %u is not supported, 1 expected", ((dl_managed_versioned *)managed)->major);
    return NULL;
  }
  const dl_tensor *t = versioned ? &((dl_managed_versioned *)managed)->tensor : &((dl_managed *)managed)->tensor;
  bool read_only = versioned && (((dl_managed_versioned *)managed)->flags & DL_FLAG_READ_ONLY);
  if (!check_tensor(t)) return NULL;
  if (!is_sharable(t)) {
    PyErr_SetString(PyExc_BufferError, "the tensor cannot be shared (negative strides, or not aligned): copy it first");
    return NULL;
  }
  cairn_ndarray *array, *result;
  cairn_status status = wrap(t, read_only, versioned ? release_versioned : release_plain, managed, &array);
  if (status != CAIRN_OK) return crn_py_raise(status);
  // From here on the tensor belongs to the array; the capsule must not delete it, too.
  PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
  if (copy != 1) return crn_py_ndarray_new(type, array);
  status = crn_py_ndarray_contiguous(crn_py.context, array, &result);
  cairn_ndarray_release(array);
  return status == CAIRN_OK ? crn_py_ndarray_new(type, result) : crn_py_raise(status);
}

// _from_dlpack(object, copy=None): `object` is a capsule or has __dlpack__.
PyObject *crn_py_ndarray_from_dlpack(PyObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"object", "copy", NULL};
  PyObject *object, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", keywords, &object, &copy)) return NULL;
  int truth = copy == Py_None ? 0 : PyObject_IsTrue(copy);
  if (truth < 0) return NULL;
  PyObject *capsule = PyCapsule_CheckExact(object) ? Py_NewRef(object) : ask_capsule(object);
  if (!capsule) return NULL;
  PyObject *result = array_of_capsule((PyTypeObject *)type, capsule, truth);
  Py_DECREF(capsule);
  return result;
}

// --- giving a tensor ----------------------------------------------------------------------------------------------------

/// One allocation for both forms. `array` is a reference of its own.
typedef struct lent {
  dl_managed plain;
  dl_managed_versioned versioned;
  cairn_ndarray *array;
  int64_t shape[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK];
} lent;

static void lent_free(lent *l) {
  cairn_ndarray_release(l->array);
  free(l);
}

static void delete_plain(dl_managed *m) { lent_free(m->manager); }
static void delete_versioned(dl_managed_versioned *m) { lent_free(m->manager); }

// A capsule that nobody took.
static void destroy_capsule(PyObject *capsule) {
  bool versioned = PyCapsule_IsValid(capsule, versioned_name);
  if (!versioned && !PyCapsule_IsValid(capsule, plain_name)) return;
  if (versioned)
    delete_versioned(PyCapsule_GetPointer(capsule, versioned_name));
  else
    delete_plain(PyCapsule_GetPointer(capsule, plain_name));
}

// Takes the caller's reference of `array`, also on failure.
static PyObject *lend(cairn_ndarray *array, bool versioned, bool copied) {
  lent *l = calloc(1, sizeof *l);
  if (!l) {
    cairn_ndarray_release(array);
    return PyErr_NoMemory();
  }
  const type_row *row = row_of_dtype(cairn_ndarray_dtype(array));
  l->array = array;
  int rank = cairn_ndarray_rank(array);
  memcpy(l->shape, cairn_ndarray_shape(array), (size_t)rank * sizeof *l->shape);
  memcpy(l->strides, cairn_ndarray_strides(array), (size_t)rank * sizeof *l->strides);
  dl_tensor t = {.data = (void *)cairn_ndarray_data(array),
                 .device = {1, 0},
                 .ndim = rank,
                 .dtype = {row->code, row->bits, 1},
                 .shape = l->shape,
                 .strides = l->strides};
  l->plain = (dl_managed){t, l, delete_plain};
  l->versioned = (dl_managed_versioned){.major = 1, .manager = l, .deleter = delete_versioned, .tensor = t};
  if (cairn_ndarray_is_read_only(array)) l->versioned.flags |= DL_FLAG_READ_ONLY;
  if (copied) l->versioned.flags |= DL_FLAG_COPIED;
  PyObject *capsule =
      versioned ? PyCapsule_New(&l->versioned, versioned_name, destroy_capsule) : PyCapsule_New(&l->plain, plain_name, destroy_capsule);
  if (!capsule) lent_free(l);
  return capsule;
}

static bool is_plain_layout(const cairn_ndarray *a) {
  for (int i = 0; i < cairn_ndarray_rank(a); i++) {
    if (cairn_ndarray_interleave(a)[i] != 1) return false;
  }
  return true;
}

static bool check_request(const cairn_ndarray *a, PyObject *stream, PyObject *device, int major, int copy) {
  long type = 1;
  if (device != Py_None) {
    PyObject *first = PySequence_GetItem(device, 0);
    if (!first) return false;
    type = PyLong_AsLong(first);
    Py_DECREF(first);
    if (PyErr_Occurred()) return false;
  }
  const char *problem = NULL;
  if (!row_of_dtype(cairn_ndarray_dtype(a)))
    problem = "DLPack has no form for the element type: use view()";
  else if (stream != Py_None)
    problem = "arrays in main memory have no streams";
  else if (type != 1)
    problem = "arrays are in main memory only";
  else if (copy == 0 && !is_plain_layout(a))
    problem = "an interleaved array cannot be given out without a copy";
  else if (major < 1 && copy != 1 && cairn_ndarray_is_read_only(a))
    problem = "the array is read-only, which DLPack before version 1 cannot say";
  if (problem) PyErr_SetString(PyExc_BufferError, problem);
  return !problem;
}

PyObject *crn_py_ndarray_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO", keywords, &stream, &version, &device, &copy)) return NULL;
  cairn_ndarray *array = ((crn_py_ndarray *)self)->array, *given = array;
  int major = 0, minor = 0, rule = copy == Py_None ? -1 : PyObject_IsTrue(copy);
  if (PyErr_Occurred() || (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor))) return NULL;
  if (!check_request(array, stream, device, major, rule)) return NULL;
  bool copied = rule == 1 || !is_plain_layout(array);
  if (copied) {
    cairn_status status = crn_py_ndarray_contiguous(crn_py.context, array, &given);
    if (status != CAIRN_OK) return crn_py_raise(status);
  } else {
    cairn_ndarray_retain(given);
  }
  return lend(given, major >= 1, copied);
}

PyObject *crn_py_ndarray_dlpack_device(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(ii)", 1, 0);
}
