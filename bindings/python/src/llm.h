/// The language model object, shared by llm.c and generate.c.
#ifndef CAIRN_PYTHON_LLM_H
#define CAIRN_PYTHON_LLM_H

#include "ids.h"

typedef struct crn_py_llm {
  PyObject_HEAD cairn_llm *llm;
  PyObject *array_type;  ///< of the rows of logits
} crn_py_llm;

PyObject *crn_py_llm_generate(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *crn_py_llm_forward(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
