// Tokenizer and ChatTemplate.
#include <stdlib.h>
#include <string.h>

#include "ids.h"

typedef struct tokenizer_object {
  PyObject_HEAD cairn_tokenizer *tokenizer;
} tokenizer_object;

static cairn_tokenizer *get(PyObject *self) { return ((tokenizer_object *)self)->tokenizer; }

PyObject *crn_py_tokenizer_new(cairn_tokenizer *tokenizer) {
  PyObject *self = ((allocfunc)PyType_GetSlot(crn_py.tokenizer_type, Py_tp_alloc))(crn_py.tokenizer_type, 0);
  if (self)
    ((tokenizer_object *)self)->tokenizer = tokenizer;
  else
    cairn_tokenizer_release(tokenizer);
  return self;
}

static PyObject *tokenizer_create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"path", NULL};
  PyObject *object;
  (void)type;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", keywords, &object)) return NULL;
  PyObject *path = crn_py_path(object);
  if (!path) return NULL;
  const char *text = PyBytes_AsString(path);
  cairn_tokenizer *tokenizer = NULL;
  cairn_context *context = crn_py_context();
  cairn_status status;
  CRN_PY_UNLOCKED(status, cairn_tokenizer_open(context, text, &tokenizer));
  cairn_context_release(context);
  PyObject *self = status == CAIRN_OK ? crn_py_tokenizer_new(tokenizer) : crn_py_raise(status);
  Py_DECREF(path);
  return self;
}

static void tokenizer_deallocate(PyObject *self) {
  cairn_tokenizer_release(get(self));
  crn_py_free(self);
}

// Text never needs more ids than it has bytes plus what the post-processor adds; when that guess fails, the count is known.
static PyObject *encode(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"text", "add_special_tokens", NULL};
  const char *text;
  Py_ssize_t bytes;
  int special = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s#|p", keywords, &text, &bytes, &special)) return NULL;
  size_t capacity = (size_t)bytes + 16, count = 0;
  int32_t *ids = NULL;
  cairn_status status = CAIRN_OK;
  for (int attempt = 0; attempt < 2; attempt++) {
    free(ids);
    ids = malloc(capacity * sizeof *ids);
    if (!ids) return PyErr_NoMemory();
    CRN_PY_UNLOCKED(status, cairn_tokenizer_encode(get(self), text, (size_t)bytes, special, ids, capacity, &count));
    if (status != CAIRN_OK || count <= capacity) break;
    capacity = count;
  }
  PyObject *result = status == CAIRN_OK ? crn_py_ids(ids, count) : crn_py_raise(status);
  free(ids);
  return result;
}

static PyObject *decode(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"ids", "skip_special_tokens", NULL};
  PyObject *object;
  int skip = 1;
  int32_t *ids;
  size_t n, bytes = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", keywords, &object, &skip) || !crn_py_read_ids(object, &ids, &n)) return NULL;
  cairn_status status = cairn_tokenizer_decode(get(self), ids, n, skip, NULL, 0, &bytes);
  char *text = status == CAIRN_OK ? malloc(bytes + 1) : NULL;
  PyObject *result = NULL;
  if (status != CAIRN_OK)
    crn_py_raise(status);
  else if (!text)
    PyErr_NoMemory();
  else if ((status = cairn_tokenizer_decode(get(self), ids, n, skip, text, bytes, &bytes)) != CAIRN_OK)
    crn_py_raise(status);
  else
    result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
  free(text);
  free(ids);
  return result;
}

static PyObject *token_to_id(PyObject *self, PyObject *args) {
  const char *token;
  if (!PyArg_ParseTuple(args, "s", &token)) return NULL;
  int32_t id = cairn_tokenizer_id(get(self), token);
  if (id < 0) Py_RETURN_NONE;
  return PyLong_FromLong(id);
}

static PyObject *text_or_none(const char *text) {
  if (!text) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *id_to_token(PyObject *self, PyObject *args) {
  int id;
  return PyArg_ParseTuple(args, "i", &id) ? text_or_none(cairn_tokenizer_token(get(self), id)) : NULL;
}

static PyObject *is_special(PyObject *self, PyObject *args) {
  int id;
  return PyArg_ParseTuple(args, "i", &id) ? PyBool_FromLong(cairn_tokenizer_is_special(get(self), id)) : NULL;
}

static PyObject *role(PyObject *self, PyObject *args) {
  const char *name;
  return PyArg_ParseTuple(args, "s", &name) ? text_or_none(cairn_tokenizer_role(get(self), name)) : NULL;
}

static PyObject *vocab_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(cairn_tokenizer_vocab_size(get(self)));
}

// --- ChatTemplate ---------------------------------------------------------------------------------------------------------

typedef struct template_object {
  PyObject_HEAD cairn_template *value;
} template_object;

static PyObject *template_create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"source", "name", NULL};
  const char *source, *what = "chat template";
  Py_ssize_t bytes;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s#|s", keywords, &source, &bytes, &what)) return NULL;
  cairn_template *value;
  cairn_status status = cairn_template_create(crn_py.context, source, (size_t)bytes, what, &value);
  if (status != CAIRN_OK) return crn_py_raise(status);
  PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self)
    ((template_object *)self)->value = value;
  else
    cairn_template_release(value);
  return self;
}

static void template_deallocate(PyObject *self) {
  cairn_template_release(((template_object *)self)->value);
  crn_py_free(self);
}

static PyObject *template_render(PyObject *self, PyObject *args) {
  const char *variables;
  Py_ssize_t n;
  if (!PyArg_ParseTuple(args, "s#", &variables, &n)) return NULL;
  cairn_template *t = ((template_object *)self)->value;
  size_t capacity = 1 << 14, bytes = 0;
  char *text = NULL;
  cairn_status status = CAIRN_OK;
  for (int attempt = 0; attempt < 2; attempt++) {
    free(text);
    text = malloc(capacity);
    if (!text) return PyErr_NoMemory();
    CRN_PY_UNLOCKED(status, cairn_template_render(t, variables, (size_t)n, NULL, text, capacity, &bytes));
    if (status != CAIRN_OK || bytes <= capacity) break;
    capacity = bytes;
  }
  // A template that reads the clock may give a longer text the second time.
  if (bytes > capacity) bytes = capacity;
  PyObject *result = status == CAIRN_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace") : crn_py_raise(status);
  free(text);
  return result;
}

// --- the types ------------------------------------------------------------------------------------------------------------

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

static PyGetSetDef tokenizer_properties[] = {
    {"vocab_size", vocab_size, NULL, "Number of ids, added tokens included.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef tokenizer_methods[] = {
    {"encode", KEYWORDS(encode), METH_VARARGS | METH_KEYWORDS, "encode(text, add_special_tokens=True): the ids of a text."},
    {"decode", KEYWORDS(decode), METH_VARARGS | METH_KEYWORDS, "decode(ids, skip_special_tokens=True): the text of ids."},
    {"token_to_id", token_to_id, METH_VARARGS, "The id of a token, or None."},
    {"id_to_token", id_to_token, METH_VARARGS, "The token of an id as the vocabulary spells it, or None."},
    {"is_special", is_special, METH_VARARGS, "Whether an id is a special token."},
    {"role", role, METH_VARARGS, "The text of a special token by its role, e.g. \"eos_token\", or None."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot tokenizer_slots[] = {
    {Py_tp_doc, "Tokenizer(path): a tokenizer.json, or the folder that holds one."},
    {Py_tp_new, tokenizer_create},
    {Py_tp_dealloc, tokenizer_deallocate},
    {Py_tp_methods, tokenizer_methods},
    {Py_tp_getset, tokenizer_properties},
    {0, NULL},
};
static PyType_Spec tokenizer_spec = {
    .name = "cairn._native.Tokenizer", .basicsize = sizeof(tokenizer_object), .flags = Py_TPFLAGS_DEFAULT, .slots = tokenizer_slots};

static PyMethodDef template_methods[] = {
    {"_render", template_render, METH_VARARGS, "_render(variables as JSON)"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot template_slots[] = {
    {Py_tp_doc, "ChatTemplate(source, name='chat template'): a compiled template."},
    {Py_tp_new, template_create},
    {Py_tp_dealloc, template_deallocate},
    {Py_tp_methods, template_methods},
    {0, NULL},
};
static PyType_Spec template_spec = {.name = "cairn._native.ChatTemplate",
                                    .basicsize = sizeof(template_object),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                    .slots = template_slots};

bool crn_py_text_initialize(PyObject *module) {
  return crn_py_add_type(module, &tokenizer_spec, &crn_py.tokenizer_type) && crn_py_add_type(module, &template_spec, &crn_py.template_type);
}
