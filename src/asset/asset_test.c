#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "asset/asset.h"
#include "asset/mlirbc/test_builder.h"
#include "asset/op_names.h"

#define ASSETS CAIRN_TEST_DATA "/assets/"

static cairn_context *g_context;
static char g_log[4096];
static char g_folder[64];  // of assets made by a test

static void keep_log(void *user, cairn_log_level level, const char *line) {
  (void)user;
  if (level == CAIRN_LOG_WARNING) snprintf(g_log, sizeof g_log, "%s", line);
}

static int set_up(void **state) {
  (void)state;
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-asset-test-XXXXXX");
  cairn_context_options options = {.n_threads = 1, .log_level = CAIRN_LOG_WARNING, .log = keep_log};
  return !mkdtemp(g_folder) || cairn_context_create(&options, &g_context) != CAIRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  char path[256];
  static const char *const names[] = {"main.mlirb", "main.hash", "metadata.json", "other.mlirb", ""};
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/%s", g_folder, names[i]);
    (void)remove(path);
  }
  cairn_context_release(g_context);
  return 0;
}

static cairn_asset *open_ok(const char *path) {
  cairn_asset *asset;
  if (cairn_asset_open(g_context, path, NULL, &asset) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  return asset;
}

static void expect_open(const char *path, const cairn_asset_options *options, cairn_status expected, const char *text) {
  cairn_asset *asset;
  assert_int_equal(cairn_asset_open(g_context, path, options, &asset), expected);
  if (expected == CAIRN_OK) {
    cairn_asset_release(asset);
    return;
  }
  assert_null(asset);
  char message[2048];
  cairn_last_error_text(message, sizeof message);
  if (!strstr(message, text)) fail_msg("'%s' does not hold '%s'", message, text);
}

// --- files ------------------------------------------------------------------------------------------------------------

// Writes a file of the asset made by the test; NULL removes it.
static void write_file(const char *name, const void *data, size_t bytes) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", g_folder, name);
  (void)remove(path);
  if (data) assert_int_equal(crn_file_replace(path, data, bytes), CAIRN_OK);
}

static void write_program(void) {
  crn_str s;
  crn_str_initialize(&s, NULL);
  assert_int_equal(crn_file_read(ASSETS "b1_clip.aimodel/main.mlirb", 1 << 20, &s), CAIRN_OK);
  write_file("main.mlirb", s.data, s.size);
  write_file("other.mlirb", s.data, s.size);
  crn_str_deinitialize(&s);
  write_file("metadata.json", NULL, 0);
  write_file("main.hash", NULL, 0);
}

static void test_paths(void **state) {
  (void)state;
  cairn_asset *asset = open_ok(ASSETS "b1_clip.aimodel");
  assert_string_equal(cairn_asset_path(asset), ASSETS "b1_clip.aimodel");
  assert_non_null(strstr(cairn_asset_metadata_json(asset), "\"2.0\""));
  assert_int_equal(strlen(cairn_asset_hash(asset)), 64);
  assert_int_equal(cairn_asset_warning_count(asset), 0);
  assert_null(cairn_asset_warning(asset, 0));
  cairn_asset_retain(asset);
  cairn_asset_release(asset);
  assert_int_equal(cairn_asset_function_count(asset), 1);
  cairn_asset_release(asset);
  expect_open(ASSETS "b1_clip.aimodel/", NULL, CAIRN_OK, "");
  expect_open(ASSETS "b1_clip.aimodel/main.mlirb", NULL, CAIRN_OK, "");
  expect_open(ASSETS, NULL, CAIRN_NOT_FOUND, "main.mlirb");
  expect_open(ASSETS "absent.aimodel", NULL, CAIRN_NOT_FOUND, "absent.aimodel");
  expect_open(ASSETS "b1_clip.aimodel/metadata.json", NULL, CAIRN_CORRUPT, "MLIR bytecode");
  expect_open(NULL, NULL, CAIRN_INVALID_ARGUMENT, "path");
  expect_open(CAIRN_TEST_DATA "/refused/rank40.aimodel", NULL, CAIRN_UNSUPPORTED, "big has rank 40");
  expect_open(CAIRN_TEST_DATA "/refused/body.aimodel", NULL, CAIRN_CORRUPT, "200 arguments and 0 results, more than its body");
}

static void test_files_beside_the_program(void **state) {
  (void)state;
  char program[256], other[256];
  snprintf(program, sizeof program, "%s/main.mlirb", g_folder);
  snprintf(other, sizeof other, "%s/other.mlirb", g_folder);
  write_program();
  expect_open(g_folder, NULL, CAIRN_OK, "");
  write_file("metadata.json", "{}", 2);
  expect_open(g_folder, NULL, CAIRN_CORRUPT, "assetVersion");
  expect_open(program, NULL, CAIRN_CORRUPT, "assetVersion");
  expect_open(other, NULL, CAIRN_OK, "");  // stands alone
  write_file("main.mlirb", "", 0);
  write_file("metadata.json", NULL, 0);
  expect_open(g_folder, NULL, CAIRN_CORRUPT, "MLIR bytecode");
}

static void test_metadata(void **state) {
  (void)state;
  static const struct {
    const char *json;
    cairn_status status;
    const char *text;
  } cases[] = {
      {"{\"assetVersion\": \"2.0\"}", CAIRN_OK, ""},
      {"{\"assetVersion\": \"2.1\", \"creationDate\": 7, \"mine\": [1]}", CAIRN_OK, ""},
      {"{\"assetVersion\": \"2\"}", CAIRN_OK, ""},
      {"{\"assetVersion\": \"1.0\"}", CAIRN_INCOMPATIBLE, "'1.0' is not supported, expected 2.x"},
      {"{\"assetVersion\": \"3.0\"}", CAIRN_INCOMPATIBLE, "'3.0'"},
      {"{\"assetVersion\": \"20.0\"}", CAIRN_INCOMPATIBLE, "'20.0'"},
      {"{\"assetVersion\": \"2x\"}", CAIRN_INCOMPATIBLE, "'2x'"},
      {"{\"assetVersion\": \"\"}", CAIRN_INCOMPATIBLE, "''"},
      {"{\"assetVersion\": 2}", CAIRN_CORRUPT, "assetVersion"},
      {"{\"assetVersion\": null}", CAIRN_CORRUPT, "assetVersion"},
      {"{\"producer\": \"x\"}", CAIRN_CORRUPT, "assetVersion"},
      {"[\"2.0\"]", CAIRN_CORRUPT, "object"},
      {"{\"assetVersion\": ", CAIRN_CORRUPT, "metadata.json"},
      {"", CAIRN_CORRUPT, "metadata.json"},
  };
  write_program();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_file("metadata.json", cases[i].json, strlen(cases[i].json));
    expect_open(g_folder, NULL, cases[i].status, cases[i].text);
  }
}

static void test_hash(void **state) {
  (void)state;
  const cairn_asset_options strict = {.strict_hash = true}, skip_it = {.skip_hash = true}, both = {true, true};
  static const unsigned char wrong[40] = {1, 2, 3};
  write_program();
  expect_open(g_folder, &strict, CAIRN_OK, "");  // no hash to differ from
  for (size_t bytes = 0; bytes <= sizeof wrong; bytes += 8) {
    write_file("main.hash", wrong, bytes);
    g_log[0] = 0;
    cairn_asset *asset = open_ok(g_folder);
    assert_int_equal(cairn_asset_warning_count(asset), 1);
    assert_non_null(strstr(cairn_asset_warning(asset, 0), "is not the SHA-256"));
    assert_string_equal(g_log, cairn_asset_warning(asset, 0));
    cairn_asset_release(asset);
    expect_open(g_folder, &strict, CAIRN_CORRUPT, "is not the SHA-256");
    expect_open(g_folder, &skip_it, CAIRN_OK, "");
  }
  expect_open(g_folder, &both, CAIRN_INVALID_ARGUMENT, "exclude");
  cairn_asset *asset;
  assert_int_equal(cairn_asset_open(g_context, g_folder, &skip_it, &asset), CAIRN_OK);
  assert_string_equal(cairn_asset_hash(asset), "");
  assert_int_equal(cairn_asset_warning_count(asset), 0);
  cairn_asset_release(asset);
}

// --- functions --------------------------------------------------------------------------------------------------------

static void check_value(const cairn_descriptor *d, const char *name, cairn_dtype dtype, int rank, const int64_t *shape) {
  assert_string_equal(d->name, name);
  assert_int_equal(d->dtype, dtype);
  assert_int_equal(d->rank, rank);
  for (int i = 0; i < rank; i++) assert_true(d->shape[i] == shape[i]);
}

static void test_functions(void **state) {
  (void)state;
  static const char *const names[] = {"plain", "unnamed", "cache", "picture", "inline", "scope.inner.nested"};
  enum { N = sizeof names / sizeof *names };
  cairn_asset *asset = open_ok(ASSETS "interfaces.aimodel");
  assert_int_equal(cairn_asset_version_stamp(asset), 20260409);
  assert_int_equal(cairn_asset_function_count(asset), N);
  for (int i = 0; i < N; i++) {
    assert_string_equal(cairn_asset_function(asset, i)->name, names[i]);
    assert_ptr_equal(cairn_asset_find_function(asset, names[i]), cairn_asset_function(asset, i));
  }
  assert_null(cairn_asset_function(asset, N));
  assert_null(cairn_asset_function(asset, -1));
  assert_null(cairn_asset_find_function(asset, "hidden"));
  const cairn_function_info *f = cairn_asset_find_function(asset, "plain");
  const int64_t matrix[] = {CAIRN_DYNAMIC, 3};
  assert_int_equal(f->n_inputs, 2);
  assert_int_equal(f->n_outputs, 1);
  assert_int_equal(f->n_states, 0);
  check_value(&f->inputs[0], "x", CAIRN_F32, 2, matrix);
  check_value(&f->inputs[1], "flag", CAIRN_BOOL, 0, NULL);
  check_value(&f->outputs[0], "y", CAIRN_F32, 2, matrix);
  assert_int_equal(f->inputs[0].interleave[0], 1);
  assert_int_equal(f->inputs[0].alignment[2], 1);
  cairn_asset_release(asset);
}

static void test_unnamed_values(void **state) {
  (void)state;
  cairn_asset *asset = open_ok(ASSETS "interfaces.aimodel");
  const cairn_function_info *f = cairn_asset_find_function(asset, "unnamed");
  assert_string_equal(f->inputs[0].name, "input0");
  assert_string_equal(f->inputs[1].name, "input1");
  assert_string_equal(f->outputs[1].name, "output1");
  assert_int_equal(cairn_asset_warning_count(asset), 4);
  assert_string_equal(cairn_asset_warning(asset, 0), "input 0 of function 'unnamed' has no name, it is called 'input0'");
  cairn_asset_release(asset);
}

static void test_states_and_images(void **state) {
  (void)state;
  cairn_asset *asset = open_ok(ASSETS "interfaces.aimodel");
  const cairn_function_info *f = cairn_asset_find_function(asset, "cache");
  assert_int_equal(f->n_inputs, 1);
  assert_int_equal(f->n_outputs, 1);  // the token of the state is no output
  assert_int_equal(f->n_states, 1);
  const int64_t shape[] = {2, 16, CAIRN_DYNAMIC}, interleave[] = {1, 8, 1}, alignment[] = {1, 1, 64, 1};
  check_value(&f->states[0], "kv", CAIRN_F16, 3, shape);
  assert_memory_equal(f->states[0].interleave, interleave, sizeof interleave);
  assert_memory_equal(f->states[0].alignment, alignment, sizeof alignment);
  assert_string_equal(f->inputs[0].name, "step");
  assert_string_equal(f->outputs[0].name, "next");
  f = cairn_asset_find_function(asset, "picture");
  const cairn_descriptor *image = &f->inputs[1];
  assert_true(image->is_image);
  assert_int_equal(image->dtype, CAIRN_UI8);
  assert_int_equal(image->rank, 3);
  assert_int_equal(image->shape[0], 480);
  assert_int_equal(image->shape[1], 640);
  assert_int_equal(image->shape[2], 4);
  assert_int_equal(image->image_format, 0x42475241);
  assert_int_equal(image->image_height, 480);
  assert_int_equal(image->image_width, 640);
  assert_false(f->inputs[0].is_image);
  cairn_asset_release(asset);
}

// --- contents -----------------------------------------------------------------------------------------------------------

typedef struct counted {
  char names[64][64];
  int64_t counts[64], total;
  int n;
} counted;

static cairn_status keep_count(void *user, const char *name, int64_t count) {
  counted *c = user;
  snprintf(c->names[c->n], sizeof c->names[0], "%s", name);
  c->total += count;
  c->counts[c->n++] = count;
  return c->n < 64 ? CAIRN_OK : CAIRN_INTERNAL;
}

static cairn_status append_text(void *user, const char *text, size_t bytes) { return crn_str_append(user, text, bytes); }

static void print_to(const cairn_asset *asset, bool bodies, bool locations, crn_str *out) {
  const cairn_print_options options = {.bodies = bodies, .locations = locations};
  crn_str_initialize(out, NULL);
  assert_int_equal(cairn_asset_print(asset, &options, append_text, out), CAIRN_OK);
}

static int64_t occurrences(const char *text, const char *what) {
  int64_t n = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) n++;
  return n;
}

static void test_counts(void **state) {
  (void)state;
  static const char *const assets[] = {"composite", "while_loop", "state_only", "fp4_e8m0", "interfaces", "old_forms/tile_v1"};
  for (size_t i = 0; i < sizeof assets / sizeof *assets; i++) {
    char path[4096];
    snprintf(path, sizeof path, ASSETS "%s.aimodel", assets[i]);
    cairn_asset *asset = open_ok(path);
    counted c = {.n = 0};
    crn_str text;
    assert_int_equal(cairn_asset_count_operations(asset, keep_count, &c), CAIRN_OK);
    for (int k = 1; k < c.n; k++) assert_true(strcmp(c.names[k - 1], c.names[k]) < 0);
    print_to(asset, false, false, &text);
    assert_int_equal(c.total, occurrences(text.data, "\"(") - 1);  // all lines but that of the container
    crn_str_deinitialize(&text);
    cairn_asset_release(asset);
  }
}

static int64_t count_of(const counted *c, const char *name) {
  for (int i = 0; i < c->n; i++) {
    if (!strcmp(c->names[i], name)) return c->counts[i];
  }
  return 0;
}

static void test_names_in_memory(void **state) {
  (void)state;
  cairn_asset *asset = open_ok(ASSETS "while_loop.aimodel");
  counted c = {.n = 0};
  assert_int_equal(cairn_asset_count_operations(asset, keep_count, &c), CAIRN_OK);
  assert_int_equal(count_of(&c, "coreai.while"), 1);
  assert_int_equal(count_of(&c, "coreai.condition"), 1);
  assert_int_equal(count_of(&c, "coreai.graph"), 1);
  assert_int_equal(count_of(&c, "coreai.output"), 1);
  cairn_asset_release(asset);
  asset = open_ok(ASSETS "interfaces.aimodel");
  c.n = 0;
  assert_int_equal(cairn_asset_count_operations(asset, keep_count, &c), CAIRN_OK);
  assert_int_equal(count_of(&c, "udml.namespace"), 2);
  assert_int_equal(count_of(&c, "coreai.graph"), 9);
  cairn_asset_release(asset);
}

static void test_op_name_table(void **state) {
  (void)state;
  int bodies = 0;
  for (int i = 0; i < crn_op_name_count(); i++) {
    const crn_op_name *row = crn_op_name_at(i);
    assert_ptr_equal(crn_find_op_name(row->stored), row);  // sorted and without duplicates
    bodies += row->has_body;
  }
  assert_int_equal(crn_op_name_count(), 161);
  assert_int_equal(bodies, 41);
  assert_string_equal(crn_find_op_name("primitive.add_v1")->memory, "coreai.add");
  assert_string_equal(crn_find_op_name("broadcasting_add_v1")->memory, "coreai.decomposable.broadcasting_add");
  assert_string_equal(crn_find_op_name("primitive.get_shape_v1")->memory, "coreai.get_shape");
  assert_string_equal(crn_find_op_name("ax.copy_with_constraints_v1")->memory, "coreaix.copy_with_constraints");
  assert_null(crn_find_op_name("primitive.add_v9"));
  assert_null(crn_op_name_at(161));
}

static cairn_status keep_weight(void *user, const cairn_weight_info *w) {
  crn_str *s = user;
  CRN_TRY(crn_str_printf(s, "%s %s %zu [", w->name, cairn_dtype_name(w->dtype), w->stored_bytes));
  for (int i = 0; i < w->rank; i++) CRN_TRY(crn_str_printf(s, "%lld ", (long long)w->shape[i]));
  return crn_str_puts(s, "]");
}

static cairn_status refuse_weight(void *user, const cairn_weight_info *w) {
  (void)user;
  (void)w;
  return CAIRN_CANCELLED;
}

static void test_weights(void **state) {
  (void)state;
  crn_str s;
  crn_str_initialize(&s, NULL);
  cairn_asset *asset = open_ok(ASSETS "lut6.aimodel");
  assert_int_equal(cairn_asset_visit_weights(asset, keep_weight, &s), CAIRN_OK);
  assert_string_equal(s.data, "resource_8905927733202744624 uint6 24 [3 5 2 ]");
  assert_int_equal(cairn_asset_visit_weights(asset, refuse_weight, NULL), CAIRN_CANCELLED);
  cairn_asset_release(asset);
  crn_str_clear(&s);
  asset = open_ok(ASSETS "b1_clip.aimodel");
  assert_int_equal(cairn_asset_visit_weights(asset, keep_weight, &s), CAIRN_OK);
  assert_string_equal(s.data, "");
  cairn_asset_release(asset);
  crn_str_deinitialize(&s);
}

// --- printing -------------------------------------------------------------------------------------------------------------

static void test_bodies_are_left_out(void **state) {
  (void)state;
  cairn_asset *asset = open_ok(ASSETS "composite.aimodel");
  crn_str with, without;
  print_to(asset, true, false, &with);
  print_to(asset, false, false, &without);
  assert_non_null(strstr(with.data, "\"aicode.dataflow.yield_v1\""));
  assert_null(strstr(without.data, "\"aicode.dataflow.yield_v1\""));
  assert_true(occurrences(without.data, "({\n") < occurrences(with.data, "({\n"));
  assert_null(strstr(with.data, " loc("));
  crn_str_deinitialize(&with);
  crn_str_deinitialize(&without);
  print_to(asset, true, true, &with);
  assert_non_null(strstr(with.data, " loc(#aicode.debuginfo."));
  crn_str_deinitialize(&with);
  cairn_asset_release(asset);
}

static cairn_status refuse_text(void *user, const char *text, size_t bytes) {
  (void)text;
  *(size_t *)user += bytes;
  return CAIRN_CANCELLED;
}

static void test_writer_may_stop(void **state) {
  (void)state;
  cairn_asset *asset = open_ok(ASSETS "records.aimodel");
  size_t bytes = 0;
  assert_int_equal(cairn_asset_print(asset, NULL, refuse_text, &bytes), CAIRN_CANCELLED);
  assert_true(bytes > 0 && bytes <= 8192);  // one piece and no more
  cairn_asset_release(asset);
}

static cairn_status drop_text(void *user, const char *text, size_t bytes) {
  (void)user;
  (void)text;
  (void)bytes;
  return CAIRN_OK;
}

static void test_text_that_explodes(void **state) {
  (void)state;
  static test_program program;
  static test_bytes region, file;
  start_program(&program);
  for (uint8_t i = 1; i <= 60; i++) ADD_ATTR(&program, V(5), V(2), V(i - 1), V(i - 1));
  ADD_PROPERTIES(&program, V(60), V(0));
  PUT(&region, V(1), V(0), V(1 << 1), V(OP_OPAQUE), 0x40, V(0), V(1));
  finish_program(&program, &region, &file);
  cairn_asset *asset;
  assert_int_equal(crn_asset_open_memory(g_context, file.data, file.size, &asset), CAIRN_OK);
  assert_int_equal(cairn_asset_print(asset, NULL, drop_text, NULL), CAIRN_OUT_OF_RANGE);
  cairn_asset_release(asset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_files_beside_the_program),
      cmocka_unit_test(test_metadata),
      cmocka_unit_test(test_hash),
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_unnamed_values),
      cmocka_unit_test(test_states_and_images),
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_names_in_memory),
      cmocka_unit_test(test_op_name_table),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_bodies_are_left_out),
      cmocka_unit_test(test_writer_may_stop),
      cmocka_unit_test(test_text_that_explodes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
