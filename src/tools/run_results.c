#include <math.h>
#include <string.h>

#include "base/file.h"
#include "tools/describe.h"
#include "tools/run.h"
#include "tools/values.h"

cairn_status crn_run_add_result(crn_run_results *results, const char *prefix, const char *name, int64_t step, cairn_ndarray *array) {
  crn_str full;
  crn_str_initialize(&full, NULL);
  crn_run_result item = {.is_state = prefix[0] != 0, .array = array};
  cairn_status status = crn_str_printf(&full, "%s%s", prefix, name);
  if (status == CAIRN_OK && step >= 0) status = crn_str_printf(&full, ".%lld", (long long)step);
  if (status == CAIRN_OK) status = crn_arena_strndup(results->t->arena, full.data, full.size, &item.name);
  if (status == CAIRN_OK) status = crn_vec_push(crn_default_allocator(), &results->items, item);
  if (status == CAIRN_OK) cairn_ndarray_retain(array);
  crn_str_deinitialize(&full);
  return status;
}

void crn_run_results_release(crn_run_results *results) {
  for (size_t i = 0; i < results->items.size; i++) cairn_ndarray_release(results->items.items[i].array);
  crn_vec_free(crn_default_allocator(), &results->items);
}

cairn_status crn_run_write_file(const crn_run_results *results, const char *path) {
  crn_arena arena;
  crn_safetensors_entry *entries = NULL;
  size_t n = results->items.size;
  crn_arena_initialize(&arena, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_arena_array(&arena, n, sizeof *entries, &entries));
  for (size_t i = 0; i < n; i++) {
    entries[i].name = results->items.items[i].name;
    CRN_TRY_GOTO(crn_array_to_file(results->items.items[i].array, &arena, &entries[i].tensor));
  }
  status = crn_safetensors_write(NULL, path, entries, n, NULL, 0);
done:
  crn_arena_deinitialize(&arena);
  return status;
}

cairn_status crn_run_write_npy(const crn_run_results *results, const char *directory) {
  CRN_TRY(crn_make_directories(directory));
  for (size_t i = 0; i < results->items.size; i++)
    CRN_TRY(crn_array_write_npy(results->items.items[i].array, directory, results->items.items[i].name));
  return CAIRN_OK;
}

// --- report -----------------------------------------------------------------------------------------------------------

cairn_status crn_run_print_text(const crn_run_results *results) {
  crn_str type;
  crn_str_initialize(&type, NULL);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < results->items.size; i++) {
    const crn_run_result *r = &results->items.items[i];
    crn_array_range range;
    crn_str_clear(&type);
    CRN_TRY_GOTO(crn_describe_array(&type, r->array));
    CRN_TRY_GOTO(crn_array_get_range(r->array, &range));
    if (range.n_finite)
      printf("%-24s %-28s min %.6g  max %.6g  mean %.6g", r->name, type.data, range.minimum, range.maximum, range.mean);
    else
      printf("%-24s %-28s min -  max -  mean -", r->name, type.data);
    if (range.n_not_finite) printf("  (%lld not finite)", (long long)range.n_not_finite);
    putchar('\n');
  }
done:
  crn_str_deinitialize(&type);
  return status;
}

static void write_arrays(crn_json_writer *w, const char *key, const crn_run_results *results, bool states) {
  crn_jw_key(w, key);
  crn_jw_open_array(w, false);
  for (size_t i = 0; i < results->items.size; i++) {
    const crn_run_result *r = &results->items.items[i];
    if (r->is_state != states) continue;
    crn_jw_open_inline_object(w);
    crn_jw_put_text(w, "name", r->name);
    crn_jw_put_text(w, "dtype", cairn_dtype_name(cairn_ndarray_dtype(r->array)));
    crn_jw_key(w, "shape");
    crn_write_shape(w, cairn_ndarray_shape(r->array), cairn_ndarray_rank(r->array));
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
}

cairn_status crn_run_print_json(const crn_run_results *results, cairn_function *function, int64_t steps, crn_run_timing timing) {
  cairn_function_stats stats;
  cairn_function_get_stats(function, &stats);
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "function", cairn_function_describe(function)->name);
  crn_jw_put_integer(&w, "steps", steps);
  write_arrays(&w, "outputs", results, false);
  write_arrays(&w, "states", results, true);
  crn_jw_key(&w, "timing");
  crn_jw_open_inline_object(&w);
  crn_jw_put_number(&w, "load_s", timing.load_s);
  crn_jw_put_number(&w, "prepare_s", timing.prepare_s);
  crn_jw_put_number(&w, "run_s", timing.run_s);
  crn_jw_close_object(&w);
  crn_jw_key(&w, "stats");
  crn_jw_open_inline_object(&w);
  crn_jw_put_integer(&w, "state_bytes_written", stats.state_bytes_written);
  crn_jw_put_integer(&w, "state_bytes_copied", stats.state_bytes_copied);
  crn_jw_put_integer(&w, "workspace_allocations", stats.workspace_allocations);
  crn_jw_put_integer(&w, "folded_bytes", stats.folded_bytes);
  crn_jw_close_object(&w);
  crn_jw_put_text(&w, "device", "cpu");
  crn_jw_put_text(&w, "precision", cairn_precision_text(cairn_function_get_precision(function)));
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

// --- watching -----------------------------------------------------------------------------------------------------------

static cairn_status step_directory(const crn_run_watch *watch, crn_str *out) {
  if (!watch->many_steps) return crn_str_puts(out, watch->dump);
  char name[32];
  snprintf(name, sizeof name, "%lld", (long long)watch->step);
  return crn_path_join(out, watch->dump, name);
}

static void keep_failure(crn_run_watch *watch, cairn_status status) {
  if (status == CAIRN_OK || watch->status != CAIRN_OK) return;
  watch->status = status;
  cairn_last_error_text(watch->message, sizeof watch->message);
}

cairn_status crn_run_watch_step(crn_run_watch *watch, int64_t step) {
  watch->step = step;
  watch->n_ops = 0;
  if (watch->print && watch->many_steps) fprintf(watch->print, "step %lld\n", (long long)step);
  if (!watch->dump) return CAIRN_OK;
  crn_str directory;
  crn_str_initialize(&directory, NULL);
  cairn_status status = step_directory(watch, &directory);
  if (status == CAIRN_OK) status = crn_make_directories(directory.data);
  crn_str_deinitialize(&directory);
  return status;
}

static cairn_status dump(const crn_run_watch *watch, const char *op, const cairn_ndarray *const *arrays, int n) {
  crn_str directory;
  char name[128];
  crn_str_initialize(&directory, NULL);
  cairn_status status = step_directory(watch, &directory);
  for (int k = 0; k < n && status == CAIRN_OK; k++) {
    snprintf(name, sizeof name, "%04lld_%.80s_%d", (long long)watch->n_ops, op, k);
    status = crn_array_write_npy(arrays[k], directory.data, name);
  }
  crn_str_deinitialize(&directory);
  return status;
}

static cairn_status print_op(const crn_run_watch *watch, const char *op, const char *location, const cairn_ndarray *const *arrays, int n,
                             double seconds) {
  crn_str types;
  crn_str_initialize(&types, NULL);
  cairn_status status = CAIRN_OK;
  for (int k = 0; k < n && status == CAIRN_OK; k++) {
    if (k) status = crn_str_puts(&types, ", ");
    if (status == CAIRN_OK) status = crn_describe_array(&types, arrays[k]);
  }
  if (status == CAIRN_OK)
    fprintf(watch->print, "%6lld %-44s %10.1f us  %s%s%s\n", (long long)watch->n_ops, op, seconds * 1e6, types.data,
            location && location[0] ? "  " : "", location ? location : "");
  crn_str_deinitialize(&types);
  return status;
}

void crn_run_watch_op(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n,
                      double seconds) {
  (void)step;
  crn_run_watch *watch = user;
  if (watch->print) keep_failure(watch, print_op(watch, op, location, arrays, n, seconds));
  if (watch->dump && watch->status == CAIRN_OK) keep_failure(watch, dump(watch, op, arrays, n));
  watch->n_ops++;
}

cairn_status crn_run_watch_status(const crn_run_watch *watch) {
  if (watch->status != CAIRN_OK) crn_error_restore(watch->status, watch->message);
  return watch->status;
}
