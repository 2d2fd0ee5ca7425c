// Functions that are offered otherwise than their program says: pairs of input and output as states, inputs that another function gives.
// The same program is run in both ways; values are small integers, so that all must be equal to the bit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"
#include "cairn/model.h"
#include "execute/failing_test.h"
#include "execute/model.h"
#include "program/builder.h"

enum { LAYERS = 3, ROWS = 40, K = 32, OUTPUTS = 48, N = 2, STEPS = 16, LAYER = ROWS * K, ALL = LAYERS * LAYER };

#define V(...) ((crn_value *[]){__VA_ARGS__})
#define I32(b, ...) crn_build_i32(b, (int32_t[]){__VA_ARGS__}, (int)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t)))

// --- the program --------------------------------------------------------------------------------------------------------------

static cairn_status build_table(crn_program *p) {
  static float values[OUTPUTS * K];
  crn_builder b;
  for (int i = 0; i < OUTPUTS * K; i++) values[i] = (float)(i * 7 % 11 - 5);
  crn_builder_begin(&b, p, "give");
  const crn_tensor t = crn_tensor_make(CAIRN_F32, (int64_t[]){OUTPUTS, 1, K}, 3, values);
  crn_value *table = crn_build_constant(&b, "table", &t, sizeof values);
  return crn_builder_finish(&b, &table, (const char *[]){"table"}, 1);
}

// cache[layer, 0, at:at + N] = rows
static crn_value *write_slice(crn_builder *b, crn_value *cache, int layer, crn_value *at, crn_value *end, crn_value *rows) {
  crn_value *from = crn_build_concat(b, 0, V(I32(b, layer, 0), at, I32(b, 0)), 3);
  crn_value *to = crn_build_concat(b, 0, V(I32(b, layer + 1, 1), end, I32(b, K)), 3);
  return crn_build_op(b, CRN_OP_slice_update, V(cache, from, to, I32(b, 1, 1, 1, 1), rows), 5, CAIRN_DTYPE_NONE, 0);
}

// The same by a mask, for one row: where(this layer and that place, row, cache).
static crn_value *write_masked(crn_builder *b, crn_value *cache, int layer, crn_value *place, crn_value *rows) {
  static const uint8_t kLayers[LAYERS][LAYERS] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const crn_tensor t = crn_tensor_make(CAIRN_BOOL, (int64_t[]){LAYERS, 1, 1, 1}, 4, (void *)(uintptr_t)kLayers[layer]);
  crn_value *mask = crn_build_binary(b, CRN_OP_broadcasting_and, crn_build_constant(b, NULL, &t, LAYERS), place);
  crn_value *row = crn_build_slice(b, rows, I32(b, 0, 0, 0, 0), I32(b, 1, 1, 1, K), I32(b, 1, 1, 1, 1));
  return crn_build_op(b, CRN_OP_broadcasting_where, V(mask, row, cache), 3, CAIRN_DTYPE_NONE, 0);
}

// A cache that layers write to one after the other and read from in between, and a head that multiplies with a table.
static cairn_status build_step(crn_program *p, const char *name, bool is_masked) {
  crn_builder builder, *b = &builder;
  crn_builder_begin(b, p, name);
  crn_value *x = crn_build_input(b, "x", CAIRN_F32, (int64_t[]){1, N, 1, K}, 4);
  crn_value *at = crn_build_input(b, "at", CAIRN_SI32, (int64_t[]){1}, 1);
  crn_value *place = crn_build_input(b, "place", CAIRN_BOOL, (int64_t[]){1, 1, ROWS, 1}, 4);
  crn_value *table = crn_build_input(b, "table", CAIRN_F32, (int64_t[]){OUTPUTS, 1, K}, 3);
  crn_value *cache = crn_build_input(b, "cache", CAIRN_F32, (int64_t[]){LAYERS, 1, ROWS, K}, 4), *seen = NULL;
  crn_value *end = crn_build_binary(b, CRN_OP_add, at, I32(b, N)), *ones = I32(b, 1, 1, 1, 1);
  for (int layer = 0; layer < LAYERS; layer++) {
    crn_value *rows = crn_build_binary(b, CRN_OP_broadcasting_mul, crn_build_binary(b, CRN_OP_reshape, x, I32(b, 1, 1, N, K)),
                                       crn_build_scalar_f32(b, (float)(layer + 1)));
    cache = is_masked ? write_masked(b, cache, layer, place, rows) : write_slice(b, cache, layer, at, end, rows);
    crn_value *own = crn_build_slice(b, cache, I32(b, layer, 0, 0, 0), I32(b, layer + 1, 1, ROWS, K), ones);
    // A view that is kept while the next layer is written would cost a copy of the state.
    seen = crn_build_binary(b, CRN_OP_add, seen ? seen : own, own);
  }
  crn_value *turned = crn_build_transpose(b, x, (const uint32_t[]){0, 2, 3, 1}, 4);
  crn_value *product = crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, table, turned);
  crn_value *flat = crn_build_binary(b, CRN_OP_reshape, product, I32(b, 1, 1, OUTPUTS, N));
  crn_value *head = crn_build_transpose(b, flat, (const uint32_t[]){0, 1, 3, 2}, 4);
  return crn_builder_finish(b, V(head, cache, seen), (const char *[]){"head", "new_cache", "seen"}, 3);
}

static void make_model(cairn_context *context, cairn_model **out) {
  crn_program *p;
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  assert_int_equal(build_table(p), CAIRN_OK);
  assert_int_equal(build_step(p, "slices", false), CAIRN_OK);
  assert_int_equal(build_step(p, "masks", true), CAIRN_OK);
  assert_int_equal(crn_model_create_from_program(context, p, NULL, out), CAIRN_OK);
}

// --- the same in both ways ------------------------------------------------------------------------------------------------------

static const cairn_carried kCache = {"cache", "new_cache"};
static const cairn_function_options kTied = {.carried = &kCache, .n_carried = 1, .take_constants = true};

static cairn_ndarray *new_array(cairn_context *c, cairn_dtype dtype, const int64_t *dims, int rank) {
  cairn_ndarray *a;
  assert_int_equal(cairn_ndarray_create(c, dtype, dims, rank, &a), CAIRN_OK);
  return a;
}

static cairn_ndarray *give_table(cairn_model *model) {
  cairn_function *f;
  cairn_outputs *outputs;
  cairn_ndarray *table;
  assert_int_equal(cairn_model_function(model, "give", &f), CAIRN_OK);
  assert_int_equal(cairn_function_run(f, &(cairn_run_args){0}, &outputs), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(outputs, "table", &table), CAIRN_OK);
  cairn_outputs_destroy(outputs);
  cairn_function_release(f);
  return table;
}

static void expect_equal(cairn_outputs *a, cairn_outputs *b, const char *name) {
  cairn_ndarray *x, *y;
  assert_int_equal(cairn_outputs_take(a, name, &x), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(b, name, &y), CAIRN_OK);
  assert_memory_equal(cairn_ndarray_data(x), cairn_ndarray_data(y), (size_t)cairn_ndarray_count(x) * sizeof(float));
  cairn_ndarray_release(x);
  cairn_ndarray_release(y);
}

typedef struct arrays {
  cairn_ndarray *x, *at, *place, *table, *cache, *state;
} arrays;

static void fill(const arrays *a, int step) {
  const int at = step * 5 % (ROWS - N);
  float *x = cairn_ndarray_mutable_data(a->x);
  uint8_t *place = cairn_ndarray_mutable_data(a->place);
  for (int i = 0; i < N * K; i++) x[i] = (float)((i * 3 + step * 5) % 9 - 4);
  *(int32_t *)cairn_ndarray_mutable_data(a->at) = at;
  for (int i = 0; i < ROWS; i++) place[i] = i == at;
}

static void run_both(cairn_function *plain, cairn_function *tied, const arrays *a) {
  const cairn_named_array inputs[] = {{"x", a->x}, {"at", a->at}, {"place", a->place}, {"table", a->table}, {"cache", a->cache}};
  const cairn_named_array state = {"cache", a->state};
  cairn_outputs *want, *got;
  cairn_ndarray *cache;
  assert_int_equal(cairn_function_run(plain, &(cairn_run_args){.inputs = inputs, .n_inputs = 5}, &want), CAIRN_OK);
  const cairn_run_args args = {.inputs = inputs, .n_inputs = 3, .states = &state, .n_states = 1};
  assert_int_equal(cairn_function_run(tied, &args, &got), CAIRN_OK);
  assert_int_equal(cairn_outputs_count(got), 2);
  expect_equal(want, got, "head");
  expect_equal(want, got, "seen");
  assert_int_equal(cairn_outputs_take(want, "new_cache", &cache), CAIRN_OK);
  assert_memory_equal(cairn_ndarray_data(cache), cairn_ndarray_data(a->state), ALL * sizeof(float));
  assert_int_equal(cairn_ndarray_copy(cache, a->cache), CAIRN_OK);
  cairn_ndarray_release(cache);
  cairn_outputs_destroy(want);
  cairn_outputs_destroy(got);
}

static void check_plan(const cairn_function *f) {
  size_t bytes, again;
  assert_int_equal(cairn_function_print_plan(f, NULL, 0, &bytes), CAIRN_OK);
  char *text = calloc(1, bytes + 1);
  assert_non_null(text);
  assert_int_equal(cairn_function_print_plan(f, text, bytes, &again), CAIRN_OK);
  // The head reads packed weights, from rows as they lie.
  if (!strstr(text, "[1,1,2,48] = linear(") || strstr(text, "batch_matmul") || strstr(text, "transpose(")) fail_msg("%s", text);
  free(text);
}

static void check_function(cairn_context *context, cairn_model *model, const char *name, int64_t step_bytes) {
  cairn_function *plain, *tied;
  cairn_function_stats stats;
  assert_int_equal(cairn_model_function(model, name, &plain), CAIRN_OK);
  assert_int_equal(cairn_model_function_with(model, name, &kTied, &tied), CAIRN_OK);
  const cairn_function_info *info = cairn_function_describe(tied);
  assert_string_equal(info->name, name);
  assert_int_equal(info->n_inputs, 3);
  assert_int_equal(info->n_states, 1);
  assert_int_equal(info->n_outputs, 2);
  assert_string_equal(info->states[0].name, "cache");
  assert_null(cairn_function_input(tied, "table"));
  assert_non_null(cairn_function_input(plain, "table"));
  check_plan(tied);
  const arrays a = {
      new_array(context, CAIRN_F32, (int64_t[]){1, N, 1, K}, 4),         new_array(context, CAIRN_SI32, (int64_t[]){1}, 1),
      new_array(context, CAIRN_BOOL, (int64_t[]){1, 1, ROWS, 1}, 4),     give_table(model),
      new_array(context, CAIRN_F32, (int64_t[]){LAYERS, 1, ROWS, K}, 4), new_array(context, CAIRN_F32, (int64_t[]){LAYERS, 1, ROWS, K}, 4)};
  for (int step = 0; step < STEPS; step++) {
    fill(&a, step);
    run_both(plain, tied, &a);
  }
  cairn_function_get_stats(tied, &stats);
  assert_int_equal(stats.state_bytes_copied, 0);
  assert_int_equal(stats.state_bytes_written, STEPS * step_bytes);
  cairn_ndarray *const all[] = {a.x, a.at, a.place, a.table, a.cache, a.state};
  for (int i = 0; i < 6; i++) cairn_ndarray_release(all[i]);
  cairn_function_release(plain);
  cairn_function_release(tied);
}

static void test_values(void **state) {
  (void)state;
  cairn_context *context;
  cairn_model *model;
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  make_model(context, &model);
  check_function(context, model, "slices", (int64_t)LAYERS * N * K * (int64_t)sizeof(float));
  check_function(context, model, "masks", (int64_t)LAYERS * K * (int64_t)sizeof(float));
  cairn_model_release(model);
  cairn_context_release(context);
}

// --- what does not fit ------------------------------------------------------------------------------------------------------------

static void expect_refusal(cairn_model *model, const cairn_carried *carried, int n, const char *message) {
  const cairn_function_options options = {.carried = carried, .n_carried = n};
  cairn_function *f;
  assert_int_equal(cairn_model_function_with(model, "slices", &options, &f), CAIRN_INVALID_ARGUMENT);
  assert_null(f);
  if (!strstr(cairn_last_error()->message, message)) fail_msg("'%s' instead of '%s'", cairn_last_error()->message, message);
}

static void test_refusals(void **state) {
  (void)state;
  cairn_context *context;
  cairn_model *model;
  assert_int_equal(cairn_context_create(NULL, &context), CAIRN_OK);
  make_model(context, &model);
  expect_refusal(model, &(cairn_carried){"cash", "new_cache"}, 1, "no input 'cash'");
  expect_refusal(model, &(cairn_carried){"cache", "cache"}, 1, "no output 'cache'");
  expect_refusal(model, &(cairn_carried){"x", "new_cache"}, 1, "different types");
  expect_refusal(model, (cairn_carried[]){kCache, kCache}, 2, "carried twice");
  expect_refusal(model, NULL, 1, "must not be NULL");
  expect_refusal(model, &(cairn_carried){NULL, "new_cache"}, 1, "must not be NULL");
  cairn_model_release(model);
  cairn_context_release(context);
}

// --- memory that fails ------------------------------------------------------------------------------------------------------------

static void test_failing_allocations(void **state) {
  (void)state;
  const cairn_allocator allocator = {NULL, failing_alloc, failing_free};
  cairn_context *context;
  cairn_model *model;
  cairn_function *f = NULL;
  assert_int_equal(cairn_context_create(&(cairn_context_options){.allocator = &allocator, .n_threads = 1}, &context), CAIRN_OK);
  for (int64_t at = 1; !f; at++) {
    make_model(context, &model);
    g_allocations = 0;
    g_fail_at = at;
    const cairn_status status = cairn_model_function_with(model, "masks", &kTied, &f);
    g_fail_at = 0;
    if (status != CAIRN_OK) assert_int_equal(status, CAIRN_OUT_OF_MEMORY);
    cairn_model_release(model);
  }
  cairn_function_release(f);
  cairn_context_release(context);
  assert_int_equal(g_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_failing_allocations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
