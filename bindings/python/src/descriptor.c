// Descriptors of a function's inputs, outputs and states.
#include "module.h"

typedef struct descriptor_object {
  PyObject_HEAD PyObject *owner;  ///< keeps the name alive
  cairn_descriptor descriptor;
} descriptor_object;

static const cairn_descriptor *get(PyObject *self) { return &((descriptor_object *)self)->descriptor; }

PyObject *crn_py_descriptor_new(PyObject *owner, const cairn_descriptor *descriptor) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(crn_py.descriptor_type, Py_tp_alloc);
  PyObject *self = allocate(crn_py.descriptor_type, 0);
  if (!self) return NULL;
  ((descriptor_object *)self)->owner = Py_NewRef(owner);
  ((descriptor_object *)self)->descriptor = *descriptor;
  return self;
}

const cairn_descriptor *crn_py_descriptor_get(PyObject *object) {
  if (PyObject_TypeCheck(object, crn_py.descriptor_type)) return get(object);
  PyErr_SetString(PyExc_TypeError, "an NDArrayDescriptor is expected");
  return NULL;
}

static void deallocate(PyObject *self) {
  Py_XDECREF(((descriptor_object *)self)->owner);
  crn_py_free(self);
}

// --- a function as a dict -----------------------------------------------------------------------------------------------

static PyObject *descriptors(PyObject *owner, const cairn_descriptor *list, int n) {
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *item = crn_py_descriptor_new(owner, &list[i]);
    if (!item || PyTuple_SetItem(tuple, i, item) != 0) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

PyObject *crn_py_function_info(PyObject *owner, const cairn_function_info *info) {
  PyObject *inputs = descriptors(owner, info->inputs, info->n_inputs), *outputs = descriptors(owner, info->outputs, info->n_outputs),
           *states = descriptors(owner, info->states, info->n_states), *result = NULL;
  if (inputs && outputs && states)
    result = Py_BuildValue("{s:s,s:O,s:O,s:O}", "name", info->name, "inputs", inputs, "outputs", outputs, "states", states);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  Py_XDECREF(states);
  return result;
}

// --- properties ---------------------------------------------------------------------------------------------------------

static PyObject *get_name(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(get(self)->name);
}

static PyObject *get_dtype(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(crn_py_dtype_name(get(self)->dtype));
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  return crn_py_sizes(get(self)->shape, get(self)->rank, true);
}

static PyObject *get_rank(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(get(self)->rank);
}

static PyObject *get_storage_kind(PyObject *self, void *unused) {
  (void)self, (void)unused;
  return PyUnicode_FromString("bytes");
}

static PyObject *get_interleave(PyObject *self, void *unused) {
  (void)unused;
  return crn_py_sizes(get(self)->interleave, get(self)->rank, false);
}

static PyObject *get_dynamic(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(cairn_descriptor_is_dynamic(get(self)));
}

static PyObject *get_strides(PyObject *self, void *unused) {
  (void)unused;
  int64_t strides[CAIRN_MAX_RANK];
  cairn_status status = cairn_descriptor_resolve(get(self), NULL, get(self)->rank, strides, NULL);
  return status == CAIRN_OK ? crn_py_sizes(strides, get(self)->rank, false) : crn_py_raise(status);
}

static PyObject *get_bytes(PyObject *self, void *unused) {
  (void)unused;
  size_t bytes;
  cairn_status status = cairn_descriptor_resolve(get(self), NULL, get(self)->rank, NULL, &bytes);
  return status == CAIRN_OK ? PyLong_FromSize_t(bytes) : crn_py_raise(status);
}

static PyObject *get_is_image(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(get(self)->is_image);
}

static PyObject *get_image(PyObject *self, void *unused) {
  (void)unused;
  if (!get(self)->is_image) Py_RETURN_NONE;
  return Py_BuildValue("(III)", (unsigned)get(self)->image_format, (unsigned)get(self)->image_width, (unsigned)get(self)->image_height);
}

static PyObject *resolve(PyObject *self, PyObject *sequence) {
  descriptor_object *d = (descriptor_object *)self;
  int64_t shape[CAIRN_MAX_RANK];
  int rank = crn_py_read_shape(sequence, shape);
  if (rank < 0) return NULL;
  cairn_status status = cairn_descriptor_resolve(&d->descriptor, shape, rank, NULL, NULL);
  if (status != CAIRN_OK) return crn_py_raise(status);
  cairn_descriptor resolved = d->descriptor;
  for (int i = 0; i < rank; i++) resolved.shape[i] = shape[i];
  return crn_py_descriptor_new(d->owner, &resolved);
}

static PyObject *describe(PyObject *self) {
  const cairn_descriptor *d = get(self);
  if (d->is_image) return PyUnicode_FromFormat("image %ux%u", (unsigned)d->image_width, (unsigned)d->image_height);
  PyObject *shape = crn_py_sizes(d->shape, d->rank, true);
  if (!shape) return NULL;
  PyObject *text = PyUnicode_FromFormat("%S, %s, bytes", shape, crn_py_dtype_name(d->dtype));
  Py_DECREF(shape);
  return text;
}

static PyObject *represent(PyObject *self) {
  PyObject *text = describe(self);
  if (!text) return NULL;
  PyObject *full = PyUnicode_FromFormat("NDArrayDescriptor(%s: %U)", get(self)->name, text);
  Py_DECREF(text);
  return full;
}

static PyGetSetDef properties[] = {
    {"name", get_name, NULL, "The name of the value.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"shape", get_shape, NULL, "The sizes as a list; a dynamic one is None.", NULL},
    {"rank", get_rank, NULL, "Number of dimensions.", NULL},
    {"storage_kind", get_storage_kind, NULL, "Where arrays of it live: always \"bytes\".", NULL},
    {"interleave", get_interleave, NULL, "Block of consecutive elements per dimension, 1 = none.", NULL},
    {"has_dynamic_shape", get_dynamic, NULL, "Whether a size is still open.", NULL},
    {"preferred_strides", get_strides, NULL, "Strides, in elements, of the layout the function prefers.", NULL},
    {"minimum_byte_count", get_bytes, NULL, "Bytes an array in the preferred layout needs.", NULL},
    {"is_image", get_is_image, NULL, "Whether the value is an image.", NULL},
    {"image", get_image, NULL, "(format, width, height) of an image value, else None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"resolving_dynamic_dimensions", resolve, METH_O, "resolving_dynamic_dimensions(shape): the descriptor with all sizes known."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Describes one input, output or state."},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_str, describe},
    {Py_tp_repr, represent},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "cairn._native.NDArrayDescriptor",
    .basicsize = sizeof(descriptor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

bool crn_py_descriptor_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.descriptor_type); }
