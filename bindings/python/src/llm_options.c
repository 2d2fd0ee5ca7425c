// How a model is opened: the keywords of LLM and ModelLoader.
#include <stddef.h>
#include <stdlib.h>

#include "llm.h"

#define FIELD(name, kind, member) \
  { #name, CRN_PY_FIELD_##kind, offsetof(crn_py_llm_options, member), CRN_PY_NOWHERE }

static const crn_py_field kFields[] = {
    FIELD(engine, TEXT, llm.engine),
    FIELD(pipeline_depth, INT, llm.pipeline_depth),
    FIELD(kv, TEXT, llm.kv),
    FIELD(kv_capacity, INT64, llm.kv_capacity),
    FIELD(kv_page, INT64, llm.kv_page),
    FIELD(kv_window, INT64, llm.kv_window),
    FIELD(kv_sinks, INT64, llm.kv_sinks),
    FIELD(kv_type, TEXT, llm.kv_type),
    FIELD(prefill_chunk, INT64, llm.prefill_chunk),
    FIELD(max_context, INT64, llm.max_context),
    FIELD(allow_vocab_mismatch, BOOL, llm.allow_vocab_mismatch),
    FIELD(tokenizer, TEXT, llm.tokenizer),
    FIELD(token_tables, OBJECT, token_tables),
    FIELD(precision, TEXT, precision),
    FIELD(when_busy, TEXT, when_busy),
    FIELD(snapshot_interval, INT64, llm.snapshot_interval),
    FIELD(max_snapshots, INT, llm.max_snapshots),
    FIELD(snapshot_bytes, SIZE, llm.snapshot_bytes),
    FIELD(prompt_cache, TEXT, llm.prompt_cache),
    FIELD(prompt_cache_bytes, UINT64, llm.prompt_cache_bytes),
    FIELD(prefix_bytes, SIZE, llm.prefix_bytes),
    FIELD(eager, BOOL, is_eager),
};

static bool read_tables(crn_py_llm_options *o) {
  if (!o->token_tables) return true;
  if (!PyDict_Check(o->token_tables)) {
    PyErr_SetString(PyExc_TypeError, "token_tables: a dict of arrays expected");
    return false;
  }
  const Py_ssize_t n = PyDict_Size(o->token_tables);
  PyObject *name, *array;
  Py_ssize_t at = 0;
  o->tables = calloc((size_t)n + 1, sizeof *o->tables);
  if (!o->tables) {
    PyErr_NoMemory();
    return false;
  }
  for (int i = 0; PyDict_Next(o->token_tables, &at, &name, &array); i++) {
    o->tables[i].name = PyUnicode_AsUTF8AndSize(name, NULL);
    o->tables[i].array = o->tables[i].name ? crn_py_ndarray_get(array, o->tables[i].name) : NULL;
    if (!o->tables[i].array) return false;
  }
  o->llm.token_tables = o->tables;
  o->llm.n_token_tables = (int)n;
  return true;
}

bool crn_py_llm_options_read(PyObject *kwargs, crn_py_llm_options *out) {
  static const char *const busy[] = {"error", "wait"};
  int when = 0;
  *out = (crn_py_llm_options){.precision = "default"};
  if (!crn_py_read_fields(kwargs, kFields, sizeof kFields / sizeof *kFields, out) || !read_tables(out) ||
      !crn_py_choose("when_busy", out->when_busy, busy, 2, &when) || !crn_py_read_precision(out->precision, &out->model.precision))
    return false;
  out->llm.when_busy = (cairn_busy)when;
  out->llm.model = &out->model;
  return true;
}

void crn_py_llm_options_free(crn_py_llm_options *options) { free(options->tables); }
