// LLM._generate and LLM._forward: the calls that run the model, and what they give.
#include <stdlib.h>
#include <string.h>

#include "llm.h"

// --- results --------------------------------------------------------------------------------------------------------------

static bool put_numbers(PyObject *dict, const cairn_generation_info *i) {
  const struct {
    const char *name;
    long long value;
  } numbers[] = {
      {"prefix_hit", i->prefix_hit},         {"prefix_from_memory", i->prefix_from_memory}, {"prefix_from_disk", i->prefix_from_disk},
      {"n_overflows", i->n_overflows},       {"overflow_dropped", i->overflow_dropped},     {"overflow_fed", i->overflow_fed},
      {"prefill_tokens", i->prefill_tokens}, {"decode_tokens", i->decode_tokens},           {"decode_runs", i->decode_runs},
      {"drafted_tokens", i->drafted_tokens}, {"accepted_tokens", i->accepted_tokens}};
  const struct {
    const char *name;
    double value;
  } seconds[] = {{"prefill_seconds", i->prefill_seconds},
                 {"decode_seconds", i->decode_seconds},
                 {"mask_seconds", i->mask_seconds},
                 {"mask_wait_seconds", i->mask_wait_seconds}};
  bool ok = crn_py_put(dict, "seed", PyLong_FromUnsignedLongLong(i->seed));
  for (size_t k = 0; ok && k < sizeof numbers / sizeof *numbers; k++)
    ok = crn_py_put(dict, numbers[k].name, PyLong_FromLongLong(numbers[k].value));
  for (size_t k = 0; ok && k < sizeof seconds / sizeof *seconds; k++)
    ok = crn_py_put(dict, seconds[k].name, PyFloat_FromDouble(seconds[k].value));
  return ok;
}

static PyObject *text_of(const char *text, size_t bytes) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace"); }

static bool put_texts(PyObject *dict, const cairn_generation_info *i) {
  const struct {
    const char *name, *value;
  } texts[] = {{"stop_reason", cairn_stop_reason_text(i->stop_reason)},
               {"stop_text", i->stop_text},
               {"prefix_note", i->prefix_note},
               {"prompt_form", i->prompt_form},
               {"overflow", i->overflow},
               {"speculation_note", i->speculation_note}};
  bool ok = crn_py_put(dict, "text", text_of(i->text, i->text_bytes));
  for (size_t k = 0; ok && k < sizeof texts / sizeof *texts; k++)
    ok = crn_py_put(dict, texts[k].name, text_of(texts[k].value, strlen(texts[k].value)));
  return ok;
}

PyObject *crn_py_generation_dict(const cairn_generation *generation, PyObject *engine) {
  cairn_generation_info i;
  PyObject *dict = PyDict_New();
  cairn_generation_get(generation, &i);
  if (dict && crn_py_put(dict, "prompt_tokens", crn_py_ids(i.prompt_tokens, i.n_prompt_tokens)) &&
      crn_py_put(dict, "tokens", crn_py_ids(i.tokens, i.n_tokens)) && put_texts(dict, &i) && put_numbers(dict, &i) &&
      crn_py_put(dict, "speculates", PyBool_FromLong(i.speculates)) && crn_py_put(dict, "guided", PyBool_FromLong(i.guided)) &&
      crn_py_put(dict, "guide_complete", PyBool_FromLong(i.guide_complete)) && crn_py_put(dict, "engine", Py_NewRef(engine)))
    return dict;
  Py_XDECREF(dict);
  return NULL;
}

// --- generating -----------------------------------------------------------------------------------------------------------

static PyObject *generate(crn_py_llm *self, crn_py_call *c) {
  PyObject *result = NULL;
  cairn_generation *generation = NULL;
  cairn_status status;
  c->llm = self;
  crn_py_call_set_callbacks(c);
  c->options.speculation.draft = c->draft ? c->draft->llm : NULL;
  CRN_PY_UNLOCKED(status, cairn_llm_generate(self->llm, &c->options, &generation));
  if (status != CAIRN_OK) crn_py_raise(status);
  // What a callback raised comes before what the library made of it.
  if (!crn_py_callback_restore(&c->error) && status == CAIRN_OK) result = crn_py_generation_dict(generation, self->engine);
  cairn_generation_destroy(generation);
  return result;
}

PyObject *crn_py_llm_generate(PyObject *object, PyObject *args, PyObject *kwargs) {
  crn_py_llm *self = (crn_py_llm *)object;
  PyObject *result = NULL;
  if (!PyArg_ParseTuple(args, "")) return NULL;
  crn_py_call *c = crn_py_call_new(self->array_type, kwargs);
  if (c && crn_py_llm_enter(self)) {
    if (!c->draft) {
      result = generate(self, c);
    } else if (crn_py_llm_enter(c->draft)) {
      result = generate(self, c);
      crn_py_llm_leave(c->draft);
    }
    crn_py_llm_leave(self);
  }
  crn_py_call_free(c);
  return result;
}

// --- one step at a time ---------------------------------------------------------------------------------------------------

// _forward(tokens, on_logits, positions=None, all_rows=False)
PyObject *crn_py_llm_forward(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"tokens", "on_logits", "positions", "all_rows", NULL};
  crn_py_llm *self = (crn_py_llm *)object;
  PyObject *tokens, *positions = Py_None;
  crn_py_call c = {.llm = self, .array_type = self->array_type};
  int all = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|Op", keywords, &tokens, &c.on_logits, &positions, &all)) return NULL;
  int32_t *ids = NULL, *places = NULL;
  cairn_forward_options o = {.all_rows = all, .on_logits = crn_py_call_on_logits, .user = &c};
  bool ok = crn_py_read_ids(tokens, &ids, &o.n_tokens) && crn_py_read_ids(positions, &places, &o.n_positions) && crn_py_llm_enter(self);
  if (ok) {
    o.tokens = ids;
    o.positions = places;
    cairn_status status;
    CRN_PY_UNLOCKED(status, cairn_llm_forward(self->llm, &o));
    if (status != CAIRN_OK) crn_py_raise(status);
    ok = !crn_py_callback_restore(&c.error) && status == CAIRN_OK;
    crn_py_llm_leave(self);
  }
  free(ids);
  free(places);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}
