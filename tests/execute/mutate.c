// Truncations and single-byte flips of a real asset: each must end in a status or in a load that works.
//   mutate ASSET COUNT
// The allocator refuses more than CAP bytes: a mutated program may ask for any amount, and must then get a status.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cairn/model.h"

static size_t g_live, g_peak, g_cap;

static void *capped_alloc(void *self, size_t bytes, size_t align) {
  (void)self;
  if (bytes > g_cap || g_live > g_cap - bytes) return NULL;
  void *p = NULL;
  if (posix_memalign(&p, align < 16 ? 16 : align, bytes ? bytes : 1)) return NULL;
  g_live += bytes;
  if (g_live > g_peak) g_peak = g_live;
  return p;
}

static void capped_free(void *self, void *pointer, size_t bytes) {
  (void)self;
  g_live -= bytes;
  free(pointer);
}

static cairn_status make_inputs(cairn_context *context, const cairn_function_info *info, cairn_named_array *inputs, int *out_n) {
  for (int i = 0; i < info->n_inputs && i < 16; i++) {
    int64_t shape[CAIRN_MAX_RANK];
    for (int d = 0; d < info->inputs[i].rank; d++) shape[d] = info->inputs[i].shape[d] < 0 ? 2 : info->inputs[i].shape[d];
    inputs[i].name = info->inputs[i].name;
    cairn_status status = cairn_ndarray_create_from_descriptor(context, &info->inputs[i], shape, info->inputs[i].rank, &inputs[i].array);
    if (status != CAIRN_OK) return status;
    *out_n = i + 1;
  }
  return CAIRN_OK;
}

static cairn_status make_states(cairn_function *f, const cairn_function_info *info, cairn_state **out) {
  cairn_state_shape shapes[16];
  int64_t dims[16][CAIRN_MAX_RANK];
  int n = info->n_states < 16 ? info->n_states : 16;
  for (int i = 0; i < n; i++) {
    for (int d = 0; d < info->states[i].rank; d++) dims[i][d] = info->states[i].shape[d] < 0 ? 4 : info->states[i].shape[d];
    shapes[i] = (cairn_state_shape){info->states[i].name, dims[i], info->states[i].rank};
  }
  return cairn_state_create(f, shapes, n, out);
}

static cairn_status run_once(cairn_context *context, cairn_model *model) {
  cairn_function *f = NULL;
  cairn_state *states = NULL;
  cairn_outputs *outputs = NULL;
  cairn_named_array inputs[16];
  int n_inputs = 0, n_states = 0;
  cairn_status status = cairn_model_function(model, cairn_model_function_info(model, 0)->name, &f);
  if (status == CAIRN_OK) status = make_states(f, cairn_function_describe(f), &states);
  if (status == CAIRN_OK) status = make_inputs(context, cairn_function_describe(f), inputs, &n_inputs);
  if (status == CAIRN_OK) {
    const cairn_named_array *arrays = cairn_state_arrays(states, &n_states);
    status =
        cairn_function_run(f, &(cairn_run_args){.inputs = inputs, .n_inputs = n_inputs, .states = arrays, .n_states = n_states}, &outputs);
  }
  cairn_outputs_destroy(outputs);
  for (int i = 0; i < n_inputs; i++) cairn_ndarray_release(inputs[i].array);
  cairn_state_destroy(states);
  cairn_function_release(f);
  return status;
}

// Not through base/file: its flush to disk would be most of the time of 4,000 writes.
static cairn_status write_plain(const char *path, const void *data, size_t bytes) {
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(data, 1, bytes, f) == bytes;
  if (f) ok = fclose(f) == 0 && ok;
  return ok ? CAIRN_OK : CAIRN_IO;
}

static cairn_status try_file(const char *path, const void *data, size_t bytes) {
  cairn_context *context;
  cairn_model *model;
  cairn_allocator a = {NULL, capped_alloc, capped_free};
  cairn_status status = write_plain(path, data, bytes);
  if (status != CAIRN_OK) return status;
  status = cairn_context_create(&(cairn_context_options){.allocator = &a, .n_threads = 1}, &context);
  if (status != CAIRN_OK) return status;
  status = cairn_model_load(context, path, NULL, &model);
  if (status == CAIRN_OK) status = run_once(context, model);
  cairn_model_release(model);
  cairn_context_release(context);
  return status;
}

static bool is_clean(cairn_status status, const char *what, size_t at) {
  if (g_live == 0 && status != CAIRN_INTERNAL && (status == CAIRN_OK || *cairn_last_error()->message)) return true;
  printf("FAILED  %s at %zu: %s '%s', %zu bytes leaked\n", what, at, cairn_status_name(status), cairn_last_error()->message, g_live);
  return false;
}

int main(int argc, char **argv) {
  if (argc != 3) return 64;
  crn_file_map map;
  char source[4200], folder[] = "/tmp/cairn-mutate-XXXXXX", target[64];
  snprintf(source, sizeof source, "%.4000s/main.mlirb", argv[1]);
  if (crn_file_map_open(source, &map) != CAIRN_OK || !mkdtemp(folder)) return 1;
  snprintf(target, sizeof target, "%s/main.mlirb", folder);
  unsigned char *copy = malloc(map.bytes);
  size_t count = strtoul(argv[2], NULL, 10), passed = 0, failed = 0, loaded = 0;
  g_cap = map.bytes * 8 + (64 << 20);
  uint64_t random = 88172645463325252u;
  for (size_t i = 0; i < 2 * count; i++) {
    bool is_truncation = i < count;
    size_t at = is_truncation ? i * map.bytes / count : (size_t)(random % map.bytes);
    memcpy(copy, map.data, map.bytes);
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    if (!is_truncation) copy[at] ^= (unsigned char)(1u << (random >> 32 & 7));
    cairn_status status = try_file(target, copy, is_truncation ? at : map.bytes);
    loaded += status == CAIRN_OK;
    is_clean(status, is_truncation ? "truncation" : "flip", at) ? passed++ : failed++;
  }
  unlink(target);
  rmdir(folder);
  free(copy);
  printf("%zu mutations of %zu bytes still ran, peak %zu bytes\n%zu passed, %zu failed\n", loaded, map.bytes, g_peak, passed, failed);
  return failed != 0;
}
