/// Options that come from Python as a dict: which names there are, what they are in C, and where they go.
#ifndef CAIRN_PYTHON_FIELDS_H
#define CAIRN_PYTHON_FIELDS_H

#include "module.h"

typedef enum crn_py_field_kind {
  CRN_PY_FIELD_BOOL,
  CRN_PY_FIELD_INT,
  CRN_PY_FIELD_INT32,
  CRN_PY_FIELD_INT64,
  CRN_PY_FIELD_UINT64,
  CRN_PY_FIELD_SIZE,
  CRN_PY_FIELD_FLOAT,
  CRN_PY_FIELD_DOUBLE,
  CRN_PY_FIELD_TEXT,   ///< const char *, of a str or bytes: NUL-terminated
  CRN_PY_FIELD_BYTES,  ///< const char * and, beside it, a size_t
  CRN_PY_FIELD_OBJECT  ///< PyObject *, borrowed from the dict
} crn_py_field_kind;

/// `beside` is the place of the size of BYTES, or of a bool that tells that there is a value; CRN_PY_NOWHERE = none.
typedef struct crn_py_field {
  const char *name;
  crn_py_field_kind kind;
  size_t at, beside;
} crn_py_field;
#define CRN_PY_NOWHERE ((size_t)-1)

/// Stores the values of `dict` in the struct at `out`. None leaves what is there. Texts and objects live as long as the dict does.
/// False with an exception: TypeError for a name that is none of the fields, else the one of the conversion, with the name.
bool crn_py_read_fields(PyObject *dict, const crn_py_field *fields, size_t n_fields, void *out);

/// The place of `text` among `names`; false with an InvalidArgumentError that lists them. NULL gives 0.
bool crn_py_choose(const char *what, const char *text, const char *const *names, int n_names, int *out_at);

/// Puts a new reference into a dict and gives it up, also on failure (NULL: there is an exception already).
bool crn_py_put(PyObject *dict, const char *name, PyObject *value);

#endif
