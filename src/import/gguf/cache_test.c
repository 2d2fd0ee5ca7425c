// An imported file is packed once: the second model of it takes its matrices from the cache, and the file's pages are given back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "base/context.h"
#include "base/file.h"
#include "cairn/specialize.h"
#include "execute/internal.h"
#include "execute/model.h"
#include "import/gguf/import.h"
#include "import/synthetic/synthetic.h"

static char g_folder[64], g_file[96];

// A file of 76 MB: smaller ones are not cached.
static int set_up(void **state) {
  (void)state;
  crn_memory_region region = {0};
  crn_file_writer writer;
  const void *data;
  size_t bytes;
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-gguf-cache-%ld", (long)getpid());
  snprintf(g_file, sizeof g_file, "%s/model.gguf", g_folder);
  setenv("CAIRN_CACHE_DIR", g_folder, 1);
  unsetenv("CAIRN_CACHE");
  if (crn_make_directories(g_folder) != CAIRN_OK) return -1;
  cairn_status status = crn_synthetic_make(NULL, NULL, "synthetic:smollm2-135m:q4", &region, &data, &bytes);
  if (status == CAIRN_OK) status = crn_file_create(g_file, &writer);
  if (status == CAIRN_OK) status = crn_file_write(&writer, data, bytes);
  if (status == CAIRN_OK) status = crn_file_commit(&writer);
  crn_memory_region_release(&region);
  return status == CAIRN_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  int64_t n;
  uint64_t bytes;
  char hashes[96];
  cairn_cache_clear(&n, &bytes);
  unlink(g_file);
  snprintf(hashes, sizeof hashes, "%s/hashes", g_folder);
  rmdir(hashes);
  rmdir(g_folder);
  return 0;
}

typedef struct counts {
  int64_t packed, cached;
  size_t bytes;
  char hash[65];
} counts;

static counts load_with(cairn_context *context, cairn_model_options options) {
  crn_imported_model imported;
  cairn_model *model;
  cairn_function *f;
  counts c = {0};
  assert_int_equal(crn_gguf_import(context, g_file, &imported), CAIRN_OK);
  crn_program *program = imported.program;
  imported.program = NULL;
  options.precision = CAIRN_PRECISION_INT8;
  assert_int_equal(crn_model_create_from_program(context, program, &options, &model), CAIRN_OK);
  assert_int_equal(cairn_model_function(model, "main", &f), CAIRN_OK);
  // What was not written to the cache counts as new; it is marked only when it was.
  for (const crn_packed_weight *w = model->weights.first; w; w = w->next) {
    c.packed++;
    c.cached += w->is_cached;
    c.bytes += w->weights.bytes;
  }
  memcpy(c.hash, model->hash, sizeof c.hash);
  cairn_function_release(f);
  cairn_model_release(model);
  crn_imported_model_destroy(&imported);
  return c;
}

static counts load(cairn_context *context, bool no_cache) { return load_with(context, (cairn_model_options){.no_cache = no_cache}); }

static cairn_status count_entry(void *user, const cairn_cache_entry *e) {
  assert_string_equal(e->model, g_file);
  ++*(int *)user;
  return CAIRN_OK;
}

static int entries(void) {
  int n = 0;
  assert_int_equal(cairn_cache_list(count_entry, &n), CAIRN_OK);
  return n;
}

// Kilobytes of the file that are mapped in.
static long mapped_kb(void) {
  FILE *f = fopen("/proc/self/smaps", "r");
  char line[512];
  bool is_ours = false;
  long sum = 0, kb;
  while (f && fgets(line, sizeof line, f)) {
    if (strchr(line, '-') && strchr(line, ' ') && strchr(line, '-') < strchr(line, ' ')) is_ours = strstr(line, g_file) != NULL;
    if (is_ours && sscanf(line, "Rss: %ld kB", &kb) == 1) sum += kb;
  }
  if (f) fclose(f);
  return sum;
}

static void second_load_comes_from_the_cache(void **state) {
  (void)state;
  cairn_context *context;
  assert_int_equal(cairn_context_create(NULL, &context), CAIRN_OK);
  counts none = load(context, true);
  assert_int_equal(entries(), 0);
  assert_string_equal(none.hash, "");
  counts first = load(context, false);
  assert_int_equal(strlen(first.hash), 64);
  assert_int_equal(entries(), 1);
  assert_true(first.packed > 100 && first.bytes > 70 << 20);
  counts second = load(context, false);
  assert_int_equal(second.packed, first.packed);
  assert_int_equal(second.cached, second.packed);
  assert_int_equal(second.bytes, first.bytes);
  assert_string_equal(second.hash, first.hash);
  assert_int_equal(entries(), 1);
  cairn_context_release(context);
}

// Each set of options has its own entry; all entries of a model go together.
static void options_have_entries_of_their_own(void **state) {
  (void)state;
  cairn_context *context;
  int64_t n;
  uint64_t bytes;
  assert_int_equal(cairn_context_create(NULL, &context), CAIRN_OK);
  assert_int_equal(cairn_cache_clear(&n, &bytes), CAIRN_OK);
  load(context, false);
  load_with(context, (cairn_model_options){.device = CAIRN_DEVICE_CPU});
  assert_int_equal(entries(), 1);
  load_with(context, (cairn_model_options){.expect_frequent_reshapes = true});
  assert_int_equal(entries(), 2);
  counts again = load_with(context, (cairn_model_options){.expect_frequent_reshapes = true});
  assert_int_equal(again.cached, again.packed);
  assert_int_equal(entries(), 2);
  assert_int_equal(cairn_cache_remove("/tmp/another.gguf", &n, &bytes), CAIRN_OK);
  assert_int_equal(n, 0);
  assert_int_equal(cairn_cache_remove(g_file, &n, &bytes), CAIRN_OK);
  assert_int_equal(n, 2);
  assert_true(bytes > 2ull * 70 << 20);
  assert_int_equal(entries(), 0);
  load(context, false);
  cairn_context_release(context);
}

static void pages_of_the_file_are_given_back(void **state) {
  (void)state;
  cairn_context *context;
  crn_imported_model imported;
  cairn_model *model;
  cairn_function *f;
  assert_int_equal(cairn_context_create(NULL, &context), CAIRN_OK);
  assert_int_equal(crn_gguf_import(context, g_file, &imported), CAIRN_OK);
  crn_program *program = imported.program;
  imported.program = NULL;
  cairn_model_options options = {.precision = CAIRN_PRECISION_INT8, .no_cache = true};
  assert_int_equal(crn_model_create_from_program(context, program, &options, &model), CAIRN_OK);
  assert_int_equal(cairn_model_function(model, "main", &f), CAIRN_OK);
  // Nothing but what lies around the ends of the matrices: a fraction of the 76 MB.
  long kb = mapped_kb();
  if (kb > 8 << 10) fail_msg("%ld kB of the file stay mapped in", kb);
  cairn_function_release(f);
  cairn_model_release(model);
  crn_imported_model_destroy(&imported);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(second_load_comes_from_the_cache),
      cmocka_unit_test(options_have_entries_of_their_own),
      cmocka_unit_test(pages_of_the_file_are_given_back),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
