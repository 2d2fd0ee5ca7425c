#include "case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "import/safetensors.h"
#include "tensor/ndarray.h"

enum { MAX_VALUES = 256 };

typedef struct golden {
  cairn_context *context;
  json_t *manifest;
  crn_safetensors *data;
  cairn_model *model;
  cairn_function *function;
  const char *function_name;
  double rtol, atol;       ///< of results whose entry has no tolerance of its own
  bool is_second_opinion;  ///< expected values come from Apple's interpreter, which accumulates 16-bit floats in 16 bits
  cairn_named_array states[MAX_VALUES];
  int n_states;
} golden;

static const char *text_of(const json_t *entry, const char *key) { return json_string_value(json_object_get(entry, key)); }

// --- arrays from the golden file --------------------------------------------------------------------------------------------

// Stored forms differ from descriptors in three ways: rank 0 is stored as [1], complex as f32 pairs, and types that
// safetensors lacks as a wider one.
static cairn_status array_from_golden(golden *g, const char *key, const cairn_descriptor *d, cairn_ndarray **out) {
  const crn_safetensors_entry *e = crn_safetensors_find(g->data, key);
  if (!e) return CRN_FAIL(NOT_FOUND, "golden tensor '%s' is missing", key);
  crn_tensor t = e->tensor;
  if (crn_dtype_is_complex(d->dtype) && !crn_dtype_is_complex(t.dtype)) {
    t.rank--;
    t.dtype = CAIRN_C64;
  }
  if (d->rank == 0) t.rank = 0;
  CRN_TRY(cairn_ndarray_create_from_descriptor(g->context, d, t.dims, t.rank, out));
  int64_t n = crn_tensor_count(&t);
  size_t bytes = (size_t)n * cairn_dtype_bytes(d->dtype);
  void *converted = malloc(bytes ? bytes : 1);
  if (!converted) return CRN_FAIL(OUT_OF_MEMORY, "no memory");
  crn_convert(t.dtype, t.data, d->dtype, converted, n);
  cairn_status status = cairn_ndarray_write(*out, converted, bytes);
  free(converted);
  return status;
}

static double largest(const crn_tensor *t) {
  double m = 0;
  for (int64_t i = 0; i < crn_tensor_count(t); i++) m = fmax(m, fabs(crn_load_f64(t->dtype, crn_tensor_at(t, i))));
  return m;
}

// The shape must be the stored one, apart from the two differences named above.
static cairn_status compare_shape(const char *what, const cairn_ndarray *actual, const crn_tensor *expected, bool is_complex) {
  int rank = cairn_ndarray_rank(actual), stored = expected->rank - is_complex;
  bool same = rank == stored || (rank == 0 && stored == 1 && expected->dims[0] == 1);
  for (int i = 0; i < rank && same; i++) same = cairn_ndarray_shape(actual)[i] == expected->dims[i];
  return same ? CAIRN_OK : CRN_FAIL(INVALID_ARGUMENT, "%s has another shape than the golden value", what);
}

static cairn_status compare(golden *g, const json_t *entry, const cairn_ndarray *actual) {
  const char *what = text_of(entry, "name"), *key = text_of(entry, "key");
  const crn_safetensors_entry *e = crn_safetensors_find(g->data, key);
  if (!e) return CRN_FAIL(NOT_FOUND, "golden tensor '%s' is missing", key);
  bool is_complex = crn_dtype_is_complex(cairn_ndarray_dtype(actual)) && !crn_dtype_is_complex(e->tensor.dtype);
  int64_t n = cairn_ndarray_count(actual) * (is_complex ? 2 : 1);
  CRN_TRY(compare_shape(what, actual, &e->tensor, is_complex));
  cairn_dtype dtype = is_complex ? CAIRN_F32 : cairn_ndarray_dtype(actual);
  size_t bytes = (size_t)n * cairn_dtype_bytes(dtype);
  char *plain = malloc(bytes ? bytes : 1);
  if (!plain) return CRN_FAIL(OUT_OF_MEMORY, "no memory");
  cairn_status status = cairn_ndarray_read(actual, plain, bytes);
  const json_t *own = json_object_get(entry, "tolerance");
  double worst = 0, rtol = own ? json_number_value(json_array_get(own, 0)) : g->rtol;
  double atol = own ? json_number_value(json_array_get(own, 1)) : g->atol;
  int64_t n_bad = 0, first = -1;
  if (!crn_dtype_is_float(dtype) && !crn_dtype_is_complex(dtype)) rtol = atol = 0;  // integers and truth values are exact
  if (g->is_second_opinion && cairn_dtype_bytes(dtype) == 2 && crn_dtype_is_float(dtype)) atol = 0.01 * largest(&e->tensor);
  for (int64_t i = 0; i < n && status == CAIRN_OK; i++) {
    double a = crn_load_f64(dtype, plain + (size_t)i * cairn_dtype_bytes(dtype)),
           b = crn_load_f64(e->tensor.dtype, crn_tensor_at(&e->tensor, i));
    if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= atol + rtol * fabs(b)) continue;
    if (first < 0) first = i;
    n_bad++;
    if (!(fabs(a - b) <= worst)) worst = fabs(a - b);
  }
  if (n_bad && status == CAIRN_OK) {
    status = CRN_FAIL(INVALID_ARGUMENT, "%s: %lld of %lld elements differ, worst %g, first at %lld: %g for %g", what, (long long)n_bad,
                      (long long)n, worst, (long long)first, crn_load_f64(dtype, plain + (size_t)first * cairn_dtype_bytes(dtype)),
                      crn_load_f64(e->tensor.dtype, crn_tensor_at(&e->tensor, first)));
  }
  free(plain);
  return status;
}

// --- one call ---------------------------------------------------------------------------------------------------------------

// The environment variable CAIRN_TEST_PAGED_STATES puts states into pages: 1 = along their last axis, 2 = along the one before, …
static cairn_status put_into_pages(golden *g, cairn_ndarray **array) {
  const char *text = getenv("CAIRN_TEST_PAGED_STATES");
  int rank = cairn_ndarray_rank(*array), axis = text ? rank - atoi(text) : rank;
  if (axis < 0 || axis >= rank || cairn_ndarray_count(*array) == 0) return CAIRN_OK;
  cairn_ndarray *paged;
  const cairn_segments segments = {.axis = axis, .page_rows = 64};
  CRN_TRY(cairn_ndarray_create_segmented(g->context, cairn_ndarray_dtype(*array), cairn_ndarray_shape(*array), rank, &segments, &paged));
  cairn_status status = cairn_ndarray_copy(*array, paged);
  cairn_ndarray_release(status == CAIRN_OK ? *array : paged);
  if (status == CAIRN_OK) *array = paged;
  return status;
}

static cairn_status load_values(golden *g, const json_t *list, bool are_states, cairn_named_array *out, int *out_n) {
  size_t i;
  json_t *entry;
  json_array_foreach(list, i, entry) {
    const char *name = text_of(entry, "name");
    const cairn_descriptor *d = are_states ? cairn_function_state(g->function, name) : cairn_function_input(g->function, name);
    if (!d) return CRN_FAIL(NOT_FOUND, "the function has no value '%s'", name);
    out[*out_n].name = name;
    CRN_TRY(array_from_golden(g, text_of(entry, "key"), d, &out[*out_n].array));
    ++*out_n;
    if (are_states) CRN_TRY(put_into_pages(g, &out[*out_n - 1].array));
  }
  return CAIRN_OK;
}

static void release_arrays(cairn_named_array *arrays, int *n) {
  for (int i = 0; i < *n; i++) cairn_ndarray_release(arrays[i].array);
  *n = 0;
}

static cairn_status check_outputs(golden *g, const json_t *call, cairn_outputs *outputs) {
  size_t i;
  json_t *entry;
  json_array_foreach(json_object_get(call, "outputs"), i, entry) {
    cairn_ndarray *array;
    CRN_TRY(cairn_outputs_take(outputs, text_of(entry, "name"), &array));
    cairn_status status = compare(g, entry, array);
    cairn_ndarray_release(array);
    CRN_TRY(status);
  }
  json_array_foreach(json_object_get(call, "states_out"), i, entry) {
    for (int k = 0; k < g->n_states; k++) {
      if (!strcmp(g->states[k].name, text_of(entry, "name"))) CRN_TRY(compare(g, entry, g->states[k].array));
    }
  }
  return CAIRN_OK;
}

// A call may name another function of the asset than the case does: such functions share states.
static cairn_status choose_function(golden *g, const char *name) {
  if (!name || !strcmp(name, g->function_name)) return CAIRN_OK;
  cairn_function *other;
  CRN_TRY(cairn_model_function(g->model, name, &other));
  cairn_function_release(g->function);
  g->function = other;
  g->function_name = name;
  return CAIRN_OK;
}

static cairn_status run_call(golden *g, const json_t *call) {
  cairn_named_array inputs[MAX_VALUES];
  CRN_TRY(choose_function(g, text_of(call, "function")));
  int n_inputs = 0;
  cairn_outputs *outputs = NULL;
  // States given with a call replace the carried ones; without them the states of the last call go on.
  if (json_array_size(json_object_get(call, "states_in"))) {
    release_arrays(g->states, &g->n_states);
    CRN_TRY(load_values(g, json_object_get(call, "states_in"), true, g->states, &g->n_states));
  }
  cairn_status status = load_values(g, json_object_get(call, "inputs"), false, inputs, &n_inputs);
  if (status == CAIRN_OK) {
    cairn_run_args args = {.inputs = inputs, .n_inputs = n_inputs, .states = g->states, .n_states = g->n_states};
    status = cairn_function_run(g->function, &args, &outputs);
  }
  if (status == CAIRN_OK) status = check_outputs(g, call, outputs);
  cairn_outputs_destroy(outputs);
  release_arrays(inputs, &n_inputs);
  return status;
}

// --- the case ---------------------------------------------------------------------------------------------------------------

static cairn_status open_case(golden *g, const char *folder, cairn_composites composites) {
  crn_str path;
  crn_str_initialize(&path, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_join(&path, folder, "manifest.json"));
  CRN_TRY_GOTO(crn_json_read(path.data, &g->manifest));
  json_t *tolerance = json_object_get(g->manifest, "tolerance");
  g->rtol = json_number_value(json_object_get(tolerance, "rtol"));
  g->atol = json_number_value(json_object_get(tolerance, "atol"));
  const char *source = text_of(g->manifest, "expected_source");
  g->is_second_opinion = source && strstr(source, "interpreter");
  CRN_TRY_GOTO(crn_path_join(&path, folder, "golden.safetensors"));
  CRN_TRY_GOTO(crn_safetensors_open(NULL, path.data, &g->data));
  CRN_TRY_GOTO(crn_path_join(&path, folder, "model.aimodel"));
  CRN_TRY_GOTO(cairn_model_load(g->context, path.data, &(cairn_model_options){.composites = composites}, &g->model));
  g->function_name = text_of(g->manifest, "function");
  if (!g->function_name) g->function_name = "main";
  CRN_TRY_GOTO(cairn_model_function(g->model, g->function_name, &g->function));
done:
  crn_str_deinitialize(&path);
  return status;
}

static cairn_status run_calls(golden *g) {
  size_t i;
  json_t *call;
  const char *function = text_of(g->manifest, "function");
  CRN_TRY(choose_function(g, function ? function : "main"));
  json_array_foreach(json_object_get(g->manifest, "calls"), i, call) CRN_TRY(run_call(g, call));
  return CAIRN_OK;
}

// Runs after the first one follow what it recorded: they must give the same. Without states to begin with there is one round.
static int n_rounds(const golden *g) {
  json_t *first = json_array_get(json_object_get(g->manifest, "calls"), 0);
  bool begins_anew = json_array_size(json_object_get(first, "states_in")) || !cairn_function_describe(g->function)->n_states;
  return begins_anew ? 3 : 1;
}

case_outcome run_case(cairn_context *context, const char *folder, cairn_composites composites, char *note, int note_bytes) {
  golden g = {.context = context};
  cairn_status status = open_case(&g, folder, composites);
  bool opened = status == CAIRN_OK;
  for (int round = 0; status == CAIRN_OK && round < n_rounds(&g); round++) status = run_calls(&g);
  if (status != CAIRN_OK) cairn_last_error_text(note, note_bytes);
  release_arrays(g.states, &g.n_states);
  cairn_function_release(g.function);
  cairn_model_release(g.model);
  crn_safetensors_close(g.data);
  json_decref(g.manifest);
  if (status == CAIRN_OK) return CASE_PASSED;
  return !opened && status == CAIRN_UNSUPPORTED ? CASE_REFUSED : CASE_FAILED;
}
