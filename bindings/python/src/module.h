/// What the files of the Python module share. The module uses CPython's limited API of 3.11 only, so that one binary
/// works with every later version.
#ifndef CAIRN_PYTHON_MODULE_H
#define CAIRN_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "cairn/cairn.h"

// --- module state -----------------------------------------------------------------------------------------------------

/// Everything the module owns. The module allows one interpreter only (single-phase initialisation), so this is static.
typedef struct crn_py_state {
  cairn_context *context;  ///< of everything that is opened without one
  PyObject *errors;        ///< the module cairn._errors
  PyTypeObject *ndarray_type, *descriptor_type, *asset_type, *model_type, *function_type, *llm_type, *tokenizer_type, *template_type,
      *batch_type, *loader_type;
} crn_py_state;
extern crn_py_state crn_py;

/// Adds the type of `spec` to the module and stores it. False with an exception set on failure.
bool crn_py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out_type);
bool crn_py_ndarray_initialize(PyObject *module);
bool crn_py_descriptor_initialize(PyObject *module);
bool crn_py_asset_initialize(PyObject *module);
bool crn_py_model_initialize(PyObject *module);
bool crn_py_llm_initialize(PyObject *module);
bool crn_py_text_initialize(PyObject *module);
bool crn_py_batch_initialize(PyObject *module);
bool crn_py_loader_initialize(PyObject *module);
bool crn_py_functions_initialize(PyObject *module);

// --- helpers ----------------------------------------------------------------------------------------------------------

/// Raises the exception for the last failure of this thread and returns NULL. To be called at once after the failing
/// call, on the same thread, with the GIL held.
PyObject *crn_py_raise(cairn_status status);
/// Raises the exception of a status for something that the module notices itself, and returns NULL.
PyObject *crn_py_fail(cairn_status status, const char *message);
/// The context for a call that gives up the GIL, with a reference of its own: set_threads() may replace it meanwhile.
cairn_context *crn_py_context(void);
/// Frees an object of a heap type made by this module.
void crn_py_free(PyObject *self);
/// A path (str, bytes or os.PathLike) as bytes object; NULL with an exception.
PyObject *crn_py_path(PyObject *path);

/// Runs `call` (an expression giving a status) without the GIL and stores what it gave.
#define CRN_PY_UNLOCKED(status, call)        \
  do {                                       \
    Py_BEGIN_ALLOW_THREADS(status) = (call); \
    Py_END_ALLOW_THREADS                     \
  } while (0)

// --- arrays and descriptors -------------------------------------------------------------------------------------------

typedef struct crn_py_ndarray {
  PyObject_HEAD cairn_ndarray *array;
  Py_ssize_t shape[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK];  ///< in bytes, for the buffer protocol
} crn_py_ndarray;

/// Makes a Python object of type `type` (NDArray or a subclass of it), taking the caller's reference of `array`, also on
/// failure.
PyObject *crn_py_ndarray_new(PyTypeObject *type, cairn_ndarray *array);
/// The array of an object, or NULL with a TypeError that names `what`.
cairn_ndarray *crn_py_ndarray_get(PyObject *object, const char *what);
/// Whether `type` is NDArray or a subclass; otherwise a TypeError is set.
bool crn_py_is_ndarray_type(PyObject *type);
/// Wraps memory that a Python object lends (a buffer or a DLPack tensor): see ndarray_wrap.c and dlpack.c.
PyObject *crn_py_ndarray_from_buffer(PyObject *type, PyObject *args, PyObject *kwargs);
PyObject *crn_py_ndarray_from_dlpack(PyObject *type, PyObject *args, PyObject *kwargs);
PyObject *crn_py_ndarray_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *crn_py_ndarray_dlpack_device(PyObject *self, PyObject *unused);
/// Copies `source` into a new contiguous array. May be called without the GIL.
cairn_status crn_py_ndarray_contiguous(cairn_context *context, const cairn_ndarray *source, cairn_ndarray **out_array);

/// Reads a sequence of sizes (None = dynamic) of up to CAIRN_MAX_RANK entries; the rank, or -1 with an exception.
int crn_py_read_shape(PyObject *sequence, int64_t *out_shape);
/// A tuple (or list) of sizes; a dynamic one is None.
PyObject *crn_py_sizes(const int64_t *sizes, int n, bool as_list);

/// The name of an element type as Core AI's runtime spells it ("float8e4m3fn", "cfloat32").
const char *crn_py_dtype_name(cairn_dtype dtype);
/// The type of a name in that spelling or in numpy's; NONE with a ValueError.
cairn_dtype crn_py_dtype(const char *name);

/// A descriptor that keeps `owner` (the object the C descriptor belongs to) alive.
PyObject *crn_py_descriptor_new(PyObject *owner, const cairn_descriptor *descriptor);
/// A dict with the descriptors of a function: {"name", "inputs", "outputs", "states"}, the latter three tuples.
PyObject *crn_py_function_info(PyObject *owner, const cairn_function_info *info);
const cairn_descriptor *crn_py_descriptor_get(PyObject *object);

// --- models -----------------------------------------------------------------------------------------------------------

/// Reads "exact", "auto", …; false with a ValueError.
bool crn_py_read_precision(const char *text, cairn_precision *out_precision);
/// The C asset of an Asset object.
cairn_asset *crn_py_asset_get(PyObject *object);

/// Calls into Python from a thread of the library: takes the GIL, keeps the first exception for the caller of the run.
typedef struct crn_py_callback {
  PyObject *function;                  ///< NULL = none
  PyObject *type, *value, *traceback;  ///< of the first exception
} crn_py_callback;
/// Keeps the exception that is set now (the first one wins). GIL held.
void crn_py_callback_keep(crn_py_callback *callback);
/// Sets a kept exception again; false when there was none. GIL held.
bool crn_py_callback_restore(crn_py_callback *callback);

#endif
