/// Lists of token ids, and the tokenizer object.
#ifndef CAIRN_PYTHON_IDS_H
#define CAIRN_PYTHON_IDS_H

#include "module.h"

/// Reads a sequence of ints (None = no list at all: NULL). `*out_ids` is to be freed. False with an exception.
bool crn_py_read_ids(PyObject *object, int32_t **out_ids, size_t *out_n);
PyObject *crn_py_ids(const int32_t *ids, size_t n);
/// Takes the caller's reference, also on failure.
PyObject *crn_py_tokenizer_new(cairn_tokenizer *tokenizer);

#endif
