// The keywords of a generation, and everything they become.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "llm.h"

#define AT(member) offsetof(crn_py_call, member)
#define FIELD(name, kind, member) \
  { #name, CRN_PY_FIELD_##kind, AT(member), CRN_PY_NOWHERE }
#define OPTION(name, kind, member) \
  { #name, CRN_PY_FIELD_##kind, AT(options.member), CRN_PY_NOWHERE }
#define BYTES(name, member) \
  { #name, CRN_PY_FIELD_BYTES, AT(options.member), AT(options.member##_bytes) }
#define SAMPLING(name, kind) \
  { #name, CRN_PY_FIELD_##kind, AT(options.sampling.name), AT(options.sampling.has_##name) }

static const crn_py_field kFields[] = {
    FIELD(tokens, OBJECT, tokens),
    BYTES(text, text),
    FIELD(form, TEXT, form),
    BYTES(conversation, conversation),
    FIELD(images, OBJECT, images),
    OPTION(max_tokens, INT64, max_tokens),
    OPTION(temperature, FLOAT, sampling.temperature),
    SAMPLING(top_k, INT32),
    SAMPLING(top_p, FLOAT),
    SAMPLING(min_p, FLOAT),
    SAMPLING(seed, UINT64),
    SAMPLING(repetition_penalty, FLOAT),
    SAMPLING(repetition_window, INT32),
    FIELD(stop, OBJECT, stop),
    FIELD(stop_ids, OBJECT, stop_ids),
    OPTION(ignore_eos, BOOL, ignore_eos),
    OPTION(keep_special_tokens, BOOL, keep_special_tokens),
    FIELD(shown_special_tokens, OBJECT, shown),
    FIELD(forced, OBJECT, forced),
    FIELD(overflow, TEXT, overflow),
    OPTION(overflow_sinks, INT64, overflow.sinks),
    OPTION(overflow_margin, INT64, overflow.margin),
    FIELD(summarise, OBJECT, summarise),
    FIELD(guide_kind, TEXT, guide_kind),
    {"guide", CRN_PY_FIELD_BYTES, AT(options.guide.text), AT(options.guide.text_bytes)},
    OPTION(compact_json, BOOL, guide.compact),
    FIELD(speculation, TEXT, speculation),
    FIELD(draft, OBJECT, draft),
    OPTION(max_draft, INT32, speculation.max_draft),
    OPTION(always_draft, BOOL, speculation.always),
    FIELD(on_token, OBJECT, on_token),
    FIELD(on_logits, OBJECT, on_logits),
    OPTION(prefill_logits, BOOL, prefill_logits),
    OPTION(first_logits, BOOL, first_logits),
    FIELD(logprobs, OBJECT, logprobs),
    FIELD(top_logprobs, OBJECT, top_logprobs),
    FIELD(n_top, INT, n_top),
    FIELD(should_cancel, OBJECT, should_cancel),
};

// --- what options point to --------------------------------------------------------------------------------------------------

static bool read_texts(crn_py_call *c, int place, PyObject *object, const char *const **out, int *out_n) {
  if (!object) return true;
  PyObject *list = c->lists[place] = PySequence_List(object);
  Py_ssize_t n = list ? PyList_Size(list) : -1;
  if (n < 0) return false;
  const char **texts = c->texts[place] = calloc((size_t)n + 1, sizeof *texts);
  if (!texts) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    texts[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
    if (!texts[i]) return false;
  }
  *out = texts;
  *out_n = (int)n;
  return true;
}

static bool read_ids(crn_py_call *c, int place, PyObject *object, const int32_t **out, size_t *out_n) {
  if (!crn_py_read_ids(object ? object : Py_None, &c->ids[place], out_n)) return false;
  *out = c->ids[place];
  return true;
}

// ("path", bytes), ("rgb", array [height, width, 3] of uint8) or ("pixel_values", array [1, 3, size, size] of float32)
static bool read_image(PyObject *pair, cairn_image *out) {
  const char *kind;
  PyObject *value;
  if (!PyArg_ParseTuple(pair, "sO", &kind, &value)) return false;
  if (strcmp(kind, "path") == 0) return (out->path = PyBytes_AsString(value)) != NULL;
  cairn_ndarray *array = crn_py_ndarray_get(value, "image");
  if (!array) return false;
  if (strcmp(kind, "pixel_values") == 0) {
    out->pixel_values = array;
    return true;
  }
  const int64_t *shape = cairn_ndarray_shape(array);
  if (cairn_ndarray_rank(array) != 3 || shape[2] != 3 || cairn_ndarray_dtype(array) != CAIRN_UI8 || !cairn_ndarray_is_contiguous(array))
    return crn_py_fail(CAIRN_INVALID_ARGUMENT, "an image: a contiguous array [height, width, 3] of uint8 expected");
  out->rgb = cairn_ndarray_data(array);
  out->height = shape[0];
  out->width = shape[1];
  return true;
}

static bool read_images(crn_py_call *c) {
  if (!c->images) return true;
  const Py_ssize_t n = PyList_Size(c->images);
  if (n < 0) return false;
  c->pictures = calloc((size_t)n + 1, sizeof *c->pictures);
  if (!c->pictures) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!read_image(PyList_GetItem(c->images, i), &c->pictures[i])) return false;
  }
  c->options.images = c->pictures;
  c->options.n_images = (int)n;
  return true;
}

static bool read_names(crn_py_call *c) {
  static const char *const forms[] = {"auto", "raw", "template"};
  static const char *const overflows[] = {"refuse", "slide", "summarise"};
  static const char *const guides[] = {"none", "json", "json_schema", "regex", "ebnf"};
  static const char *const speculations[] = {"off", "auto", "lookup", "draft"};
  int form, overflow, guide, speculation;
  if (!crn_py_choose("prompt form", c->form, forms, 3, &form) || !crn_py_choose("overflow", c->overflow, overflows, 3, &overflow) ||
      !crn_py_choose("guide", c->guide_kind, guides, 5, &guide) ||
      !crn_py_choose("speculation", c->speculation, speculations, 4, &speculation))
    return false;
  c->options.form = (cairn_prompt_form)form;
  c->options.overflow.kind = (cairn_overflow_kind)overflow;
  c->options.guide.kind = (cairn_grammar_kind)guide;
  c->options.speculation.mode = (cairn_speculation_mode)speculation;
  return true;
}

static bool read_draft(const crn_py_call *c) {
  if (!c->draft || PyType_IsSubtype(Py_TYPE((PyObject *)c->draft), crn_py.llm_type)) return true;
  PyErr_SetString(PyExc_TypeError, "draft: an LLM expected");
  return false;
}

static bool read_call(crn_py_call *c) {
  cairn_generate_options *o = &c->options;
  if (!crn_py_read_fields(c->args, kFields, sizeof kFields / sizeof *kFields, c)) return false;
  o->use_forced = c->forced != NULL;
  if (c->n_top < 0) return crn_py_fail(CAIRN_INVALID_ARGUMENT, "top_logprobs: 0 or more expected");
  return read_ids(c, 0, c->tokens, &o->tokens, &o->n_tokens) && read_ids(c, 1, c->stop_ids, &o->stop_ids, &o->n_stop_ids) &&
         read_ids(c, 2, c->forced, &o->forced, &o->n_forced) && read_texts(c, 0, c->stop, &o->stop, &o->n_stop) &&
         read_texts(c, 1, c->shown, &o->shown_special_tokens, &o->n_shown_special_tokens) && read_images(c) && read_names(c) &&
         read_draft(c);
}

// --- the whole ----------------------------------------------------------------------------------------------------------------

crn_py_call *crn_py_call_new(PyObject *array_type, PyObject *kwargs) {
  crn_py_call *c = calloc(1, sizeof *c);
  if (!c) {
    PyErr_NoMemory();
    return NULL;
  }
  c->options.max_tokens = -1;
  c->array_type = Py_NewRef(array_type);
  c->args = kwargs ? Py_NewRef(kwargs) : PyDict_New();
  if (c->args && read_call(c)) return c;
  crn_py_call_free(c);
  return NULL;
}

void crn_py_call_free(crn_py_call *c) {
  if (!c) return;
  for (int i = 0; i < 3; i++) free(c->ids[i]);
  for (int i = 0; i < 2; i++) {
    free(c->texts[i]);
    Py_XDECREF(c->lists[i]);
  }
  free(c->summary);
  free(c->pictures);
  free(c->row);
  Py_XDECREF(c->error.type);
  Py_XDECREF(c->error.value);
  Py_XDECREF(c->error.traceback);
  Py_XDECREF(c->args);
  Py_XDECREF(c->array_type);
  free(c);
}
