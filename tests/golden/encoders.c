// Runs the models that are no language models against torch's values:
//   encoders MODELS_FOLDER
// Every folder below it with a golden.safetensors that holds in0_<input> and torch_f32_0_<output>, plus the vision
// tower of the vision-language bundle. The bound is 1e-4 of the largest golden value for f32, 1e-2 for f16.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cairn/model.h"
#include "import/safetensors.h"
#include "tensor/ndarray.h"

enum { MAX_INPUTS = 8 };

static int g_passed, g_failed;

static void report(bool ok, const char *model, int call, const char *what, const char *note) {
  ok ? g_passed++ : g_failed++;
  printf("%s %s, call %d, %s: %s\n", ok ? "passed" : "FAILED", model, call, what, note);
}

static cairn_status wrap(cairn_context *context, const crn_tensor *t, cairn_ndarray **out) {
  CRN_TRY(cairn_ndarray_create(context, t->dtype, t->dims, t->rank, out));
  return cairn_ndarray_write(*out, t->data, (size_t)crn_tensor_count(t) * cairn_dtype_bytes(t->dtype));
}

static void check_output(const char *model, int call, const char *name, const cairn_ndarray *actual, const crn_tensor *golden) {
  int64_t n = crn_tensor_count(golden);
  cairn_dtype dtype = cairn_ndarray_dtype(actual);
  double worst = 0, largest = 0;
  char note[128];
  if (cairn_ndarray_count(actual) != n) {
    report(false, model, call, name, "another number of elements");
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    double a = crn_load_f64(dtype, (const char *)cairn_ndarray_data(actual) + (size_t)i * cairn_dtype_bytes(dtype));
    double b = crn_load_f64(golden->dtype, crn_tensor_at(golden, i));
    if (!(fabs(a - b) <= worst)) worst = fabs(a - b);
    if (fabs(b) > largest) largest = fabs(b);
  }
  snprintf(note, sizeof note, "worst %.3g of %.3g", worst, largest);
  report(worst <= (dtype == CAIRN_F32 ? 1e-4 : 1e-2) * largest, model, call, name, note);
}

// Inputs are stored as `prefix` + name; the call does not exist when the first one is absent.
static cairn_status load_inputs(cairn_context *context, const crn_safetensors *data, const cairn_function_info *info, const char *prefix,
                                cairn_named_array *inputs, int *out_n) {
  for (int i = 0; i < info->n_inputs && i < MAX_INPUTS; i++) {
    char key[256];
    snprintf(key, sizeof key, "%s%s", prefix, info->inputs[i].name);
    const crn_safetensors_entry *e = crn_safetensors_find(data, key);
    if (!e) return CRN_FAIL(NOT_FOUND, "no '%s'", key);
    inputs[i].name = info->inputs[i].name;
    CRN_TRY(wrap(context, &e->tensor, &inputs[i].array));
    *out_n = i + 1;
  }
  return CAIRN_OK;
}

static bool run_one(cairn_context *context, cairn_function *f, const crn_safetensors *data, const char *model, int call,
                    const char *in_prefix, const char *out_prefix) {
  cairn_named_array inputs[MAX_INPUTS];
  int n = 0;
  cairn_outputs *outputs = NULL;
  const cairn_function_info *info = cairn_function_describe(f);
  cairn_status status = load_inputs(context, data, info, in_prefix, inputs, &n);
  bool exists = status == CAIRN_OK;
  if (exists) {
    status = cairn_function_run(f, &(cairn_run_args){.inputs = inputs, .n_inputs = n}, &outputs);
    if (status != CAIRN_OK) report(false, model, call, "run", cairn_last_error()->message);
  }
  for (int i = 0; i < info->n_outputs && outputs; i++) {
    char key[256];
    cairn_ndarray *array;
    snprintf(key, sizeof key, "%s%s", out_prefix, info->outputs[i].name);
    const crn_safetensors_entry *e = crn_safetensors_find(data, key);
    if (!e || cairn_outputs_take(outputs, info->outputs[i].name, &array) != CAIRN_OK) continue;
    check_output(model, call, info->outputs[i].name, array, &e->tensor);
    cairn_ndarray_release(array);
  }
  cairn_outputs_destroy(outputs);
  for (int i = 0; i < n; i++) cairn_ndarray_release(inputs[i].array);
  return exists;
}

static void run_asset(cairn_context *context, const crn_safetensors *data, const char *folder, const char *model, const char *asset,
                      bool is_vision, cairn_composites composites) {
  char path[4600], in_prefix[32], out_prefix[32];
  cairn_model *m;
  cairn_function *f = NULL;
  snprintf(path, sizeof path, "%.4300s/%.255s.aimodel", folder, asset);
  cairn_status status = cairn_model_load(context, path, &(cairn_model_options){.composites = composites}, &m);
  if (status == CAIRN_OK) status = cairn_model_function(m, "main", &f);
  if (status != CAIRN_OK) report(false, model, 0, "load", cairn_last_error()->message);
  for (int call = 0; f && call < 16; call++) {
    snprintf(in_prefix, sizeof in_prefix, is_vision ? "in_" : "in%d_", call);
    snprintf(out_prefix, sizeof out_prefix, is_vision ? "torch_" : "torch_f32_%d_", call);
    if (!run_one(context, f, data, model, call, in_prefix, out_prefix) || is_vision) break;
  }
  cairn_function_release(f);
  cairn_model_release(m);
}

static void run_model(cairn_context *context, const char *folder, const char *name) {
  char path[4600];
  crn_safetensors *data;
  snprintf(path, sizeof path, "%.4400s/golden.safetensors", folder);
  if (!crn_file_exists(path) || crn_safetensors_open(NULL, path, &data) != CAIRN_OK) return;
  bool is_vision = crn_safetensors_find(data, "torch_image_features") != NULL, is_encoder = false;
  for (size_t i = 0; i < crn_safetensors_count(data); i++) is_encoder |= !strncmp(crn_safetensors_at(data, i)->name, "in0_", 4);
  for (int composites = CAIRN_COMPOSITES_FAST; composites <= CAIRN_COMPOSITES_BODY && (is_vision || is_encoder); composites++) {
    run_asset(context, data, folder, name, is_vision ? "vision" : name, is_vision, (cairn_composites)composites);
  }
  crn_safetensors_close(data);
}

int main(int argc, char **argv) {
  cairn_context *context;
  DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
  struct dirent *e;
  if (!dir || cairn_context_create(NULL, &context) != CAIRN_OK) return 64;
  while ((e = readdir(dir))) {
    char folder[4400];
    snprintf(folder, sizeof folder, "%.4000s/%s", argv[1], e->d_name);
    if (e->d_name[0] != '.' && crn_is_directory(folder)) run_model(context, folder, e->d_name);
  }
  closedir(dir);
  cairn_context_release(context);
  printf("%d passed, %d failed\n", g_passed, g_failed);
  return g_failed || !g_passed;
}
