// Unit tests of runs: states in place, wrong calls, outputs, allocation, on programs built here and on a stored asset.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "execute/internal.h"
#include "execute/model.h"
#include "program/builder.h"

// --- an allocator that counts and can fail ----------------------------------------------------------------------------------

typedef struct counter {
  int64_t live_bytes, live_blocks, n_allocations;
  int64_t fail_at;  // this allocation fails (0 = none)
} counter;

static void *counting_alloc(void *self, size_t bytes, size_t align) {
  counter *c = self;
  if (++c->n_allocations == c->fail_at) return NULL;
  void *p = crn_default_allocator()->alloc(NULL, bytes, align);
  if (p) {
    c->live_bytes += (int64_t)bytes;
    c->live_blocks++;
  }
  return p;
}

static void counting_free(void *self, void *pointer, size_t bytes) {
  counter *c = self;
  c->live_bytes -= (int64_t)bytes;
  c->live_blocks--;
  crn_default_allocator()->free(NULL, pointer, bytes);
}

static cairn_status open_counted(counter *c, cairn_context **out_context) {
  cairn_allocator a = {c, counting_alloc, counting_free};
  return cairn_context_create(&(cairn_context_options){.allocator = &a, .n_threads = 1}, out_context);
}

// --- programs ---------------------------------------------------------------------------------------------------------------

// y = cache[:, 0:P] after rows [P - S, P) of the state were replaced by x + x: the shape of a KV cache.
static cairn_status build_cache(cairn_context *context, bool use_old_value, crn_program **out) {
  crn_program *p;
  crn_builder b;
  CRN_TRY(crn_program_create(&context->allocator, &p));
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){2, -1, 4}, 3);
  crn_value *at = crn_build_input(&b, "at", CAIRN_SI32, (int64_t[]){1}, 1);
  crn_value *cache = crn_build_state(&b, "cache", CAIRN_F32, (int64_t[]){2, -1, 4}, 3);
  crn_value *zero = crn_build_i32(&b, (int32_t[]){0}, 1), *ones = crn_build_i32(&b, (int32_t[]){1, 1, 1}, 3);
  crn_value *two = crn_build_i32(&b, (int32_t[]){2}, 1), *four = crn_build_i32(&b, (int32_t[]){4}, 1),
            *one = crn_build_i32(&b, (int32_t[]){1}, 1);
  crn_value *shape = crn_build_cast(&b, crn_build_unary(&b, CRN_OP_get_shape, x), CAIRN_SI32);
  crn_value *rows = crn_build_slice(&b, shape, one, two, one);
  crn_value *stop = crn_build_binary(&b, CRN_OP_add, at, rows);
  crn_value *start_at = crn_build_concat(&b, 0, (crn_value *[]){zero, at, zero}, 3),
            *end_at = crn_build_concat(&b, 0, (crn_value *[]){two, stop, four}, 3);
  crn_value *old = crn_build_read_state(&b, cache);
  crn_value *fresh =
      crn_build_op(&b, CRN_OP_slice_update, (crn_value *[]){old, start_at, end_at, ones, crn_build_binary(&b, CRN_OP_add, x, x)}, 5,
                   CAIRN_DTYPE_NONE, 0);
  crn_build_write_state(&b, cache, fresh);
  crn_value *now = use_old_value ? old : crn_build_read_state(&b, cache);
  crn_value *begin = crn_build_i32(&b, (int32_t[]){0, 0, 0}, 3);
  crn_value *y = crn_build_slice(&b, now, begin, end_at, ones);
  crn_value *outputs[1] = {crn_build_binary(&b, CRN_OP_add, y, y)};
  cairn_status status = crn_builder_finish(&b, outputs, (const char *[]){"y"}, 1);
  if (status != CAIRN_OK) {
    crn_program_destroy(p);
    return status;
  }
  *out = p;
  return CAIRN_OK;
}

typedef struct fixture {
  counter counter;
  cairn_context *context;
  cairn_model *model;
  cairn_function *function;
  cairn_ndarray *x, *at, *cache;
} fixture;

enum { CAPACITY = 32 };

static void fixture_open(fixture *f, bool use_old_value, const cairn_model_options *options) {
  crn_program *p;
  memset(f, 0, sizeof *f);
  assert_int_equal(open_counted(&f->counter, &f->context), CAIRN_OK);
  assert_int_equal(build_cache(f->context, use_old_value, &p), CAIRN_OK);
  assert_int_equal(crn_model_create_from_program(f->context, p, options, &f->model), CAIRN_OK);
  assert_int_equal(cairn_model_function(f->model, "main", &f->function), CAIRN_OK);
  assert_int_equal(cairn_ndarray_create(f->context, CAIRN_F32, (int64_t[]){2, 1, 4}, 3, &f->x), CAIRN_OK);
  assert_int_equal(cairn_ndarray_create(f->context, CAIRN_SI32, (int64_t[]){1}, 1, &f->at), CAIRN_OK);
  assert_int_equal(cairn_ndarray_create(f->context, CAIRN_F32, (int64_t[]){2, CAPACITY, 4}, 3, &f->cache), CAIRN_OK);
}

static void fixture_close(fixture *f) {
  cairn_ndarray_release(f->x);
  cairn_ndarray_release(f->at);
  cairn_ndarray_release(f->cache);
  cairn_function_release(f->function);
  cairn_model_release(f->model);
  cairn_context_release(f->context);
  assert_int_equal(f->counter.live_blocks, 0);
  assert_int_equal(f->counter.live_bytes, 0);
}

static void set_step(fixture *f, int step) {
  float *x = cairn_ndarray_mutable_data(f->x);
  for (int i = 0; i < 8; i++) x[i] = (float)(step * 10 + i);
  *(int32_t *)cairn_ndarray_mutable_data(f->at) = step;
}

static cairn_status run_step(fixture *f, cairn_outputs **out, cairn_ndarray *view) {
  cairn_named_array inputs[2] = {{"x", f->x}, {"at", f->at}}, states[1] = {{"cache", f->cache}}, views[1] = {{"y", view}};
  cairn_run_args args = {.inputs = inputs, .n_inputs = 2, .states = states, .n_states = 1, .outputs = views, .n_outputs = view ? 1 : 0};
  return cairn_function_run(f->function, &args, out);
}

// --- states -----------------------------------------------------------------------------------------------------------------

static void test_state_in_place(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false, NULL);
  const void *address = cairn_ndarray_data(f.cache);
  for (int step = 0; step < 8; step++) {
    cairn_outputs *outputs;
    cairn_ndarray *y;
    set_step(&f, step);
    assert_int_equal(run_step(&f, &outputs, NULL), CAIRN_OK);
    assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
    assert_int_equal(cairn_ndarray_shape(y)[1], step + 1);
    const float *v = cairn_ndarray_data(y);
    // Row r of the first slab holds 2 * (10 r + i), the output doubles it.
    for (int r = 0; r <= step; r++) assert_true(v[r * 4 + 3] == 4.0f * (float)(r * 10 + 3));
    cairn_ndarray_release(y);
    cairn_outputs_destroy(outputs);
  }
  assert_ptr_equal(cairn_ndarray_data(f.cache), address);
  cairn_function_stats stats;
  cairn_function_get_stats(f.function, &stats);
  assert_int_equal(stats.n_runs, 8);
  assert_int_equal(stats.state_bytes_written, 8 * 2 * 4 * (int)sizeof(float));  // one row per slab and step
  assert_int_equal(stats.state_bytes_copied, 0);
  fixture_close(&f);
}

// A program that still uses the value read before the write must see that value: the update may not happen in place.
static void test_snapshot_survives_write(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, true, NULL);
  cairn_outputs *outputs;
  cairn_ndarray *y;
  set_step(&f, 0);
  assert_int_equal(run_step(&f, &outputs, NULL), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
  for (int i = 0; i < 8; i++) assert_true(((const float *)cairn_ndarray_data(y))[i] == 0);
  assert_true(((const float *)cairn_ndarray_data(f.cache))[3] == 6);
  cairn_ndarray_release(y);
  cairn_outputs_destroy(outputs);
  cairn_function_stats stats;
  cairn_function_get_stats(f.function, &stats);
  assert_int_equal(stats.state_bytes_copied, 2 * CAPACITY * 4 * (int)sizeof(float));
  fixture_close(&f);
}

static void test_steady_state_allocates_nothing(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false, NULL);
  cairn_ndarray *views[8];
  for (int i = 0; i < 8; i++)
    assert_int_equal(cairn_ndarray_create(f.context, CAIRN_F32, (int64_t[]){2, i + 1, 4}, 3, &views[i]), CAIRN_OK);
  for (int i = 0; i < 8; i++) {
    set_step(&f, i);
    assert_int_equal(run_step(&f, NULL, views[i]), CAIRN_OK);
  }
  int64_t before = f.counter.n_allocations;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 8; i++) {
      set_step(&f, i);
      assert_int_equal(run_step(&f, NULL, views[i]), CAIRN_OK);
    }
  }
  assert_int_equal(f.counter.n_allocations, before);
  for (int i = 0; i < 8; i++) cairn_ndarray_release(views[i]);
  fixture_close(&f);
}

typedef struct intruder {
  fixture *fixture;
  cairn_status seen;
} intruder;

static void run_again(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n,
                      double seconds) {
  (void)step, (void)op, (void)location, (void)arrays, (void)n, (void)seconds;
  intruder *i = user;
  if (i->seen != CAIRN_OK) return;
  i->seen = CAIRN_INTERNAL;  // the nested run traces too
  cairn_outputs *outputs;
  i->seen = run_step(i->fixture, &outputs, NULL);
}

static void test_busy_state(void **state) {
  (void)state;
  fixture f;
  intruder i = {&f, CAIRN_OK};
  fixture_open(&f, false, &(cairn_model_options){.trace = run_again, .trace_user = &i});
  cairn_outputs *outputs;
  set_step(&f, 0);
  assert_int_equal(run_step(&f, &outputs, NULL), CAIRN_OK);
  assert_int_equal(i.seen, CAIRN_BUSY);
  cairn_outputs_destroy(outputs);
  // Afterwards the state is free again.
  assert_int_equal(run_step(&f, &outputs, NULL), CAIRN_OK);
  cairn_outputs_destroy(outputs);
  fixture_close(&f);
}

// --- wrong calls ------------------------------------------------------------------------------------------------------------

static void expect(cairn_status actual, cairn_status wanted, const char *text) {
  assert_int_equal(actual, wanted);
  if (!strstr(cairn_last_error()->message, text)) fail_msg("'%s' does not say '%s'", cairn_last_error()->message, text);
}

static void test_wrong_calls(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false, NULL);
  cairn_outputs *o = NULL;
  cairn_named_array in[3] = {{"x", f.x}, {"at", f.at}, {"x", f.x}}, st[2] = {{"cache", f.cache}, {"cache", f.cache}};
  cairn_run_args good = {.inputs = in, .n_inputs = 2, .states = st, .n_states = 1}, r = good;
  r.n_inputs = 1;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "input 'at' of function 'main' is missing");
  r.n_inputs = 3;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "input 'x' is given twice");
  r = good;
  r.n_states = 0;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "state 'cache' of function 'main' is missing");
  r.n_states = 2;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "state 'cache' is given twice");
  cairn_named_array odd[2] = {{"x", f.x}, {"it", f.at}};
  r = good;
  r.inputs = odd;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "no input 'it'; it has: x, at");
  odd[1] = (cairn_named_array){"at", f.x};
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "input 'at' of function 'main' must be int32, float32 was given");
  cairn_ndarray *wrong, *fixed;
  assert_int_equal(cairn_ndarray_create(f.context, CAIRN_F32, (int64_t[]){2, 1, 5}, 3, &wrong), CAIRN_OK);
  odd[0] = (cairn_named_array){"x", wrong};
  odd[1] = (cairn_named_array){"at", f.at};
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "dim 2 of input 'x' of function 'main' must be 4, 5 was given");
  odd[0].array = f.at;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "must be float32");
  // The state as an input, a read-only state, a view of another shape.
  odd[0].array = f.cache;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "share memory");
  assert_int_equal(cairn_ndarray_const_view(f.cache, &fixed), CAIRN_OK);
  cairn_named_array locked[1] = {{"cache", fixed}};
  r = good;
  r.states = locked;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "read-only");
  cairn_named_array view[1] = {{"y", wrong}};
  r = good;
  r.outputs = view;
  r.n_outputs = 1;
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "the view of output 'y' does not have the shape");
  view[0].name = "z";
  expect(cairn_function_run(f.function, &r, &o), CAIRN_INVALID_ARGUMENT, "no output 'z'; it has: y");
  r = good;
  expect(cairn_function_run(f.function, &r, NULL), CAIRN_INVALID_ARGUMENT, "output 'y' has no view");
  cairn_function *none;
  expect(cairn_model_function(f.model, "decode", &none), CAIRN_NOT_FOUND, "no function 'decode'; the model has: main");
  cairn_state *s;
  expect(cairn_state_create(f.function, NULL, 0, &s), CAIRN_FAILED_PRECONDITION, "dim 1 of 'cache' is not resolved");
  assert_null(o);
  cairn_ndarray_release(fixed);
  cairn_ndarray_release(wrong);
  fixture_close(&f);
}

static void test_failing_step_names_the_op(void **state) {
  (void)state;
  fixture f;
  cairn_outputs *o;
  char text[1024];
  fixture_open(&f, false, NULL);
  set_step(&f, CAPACITY);  // the window lies behind the end of the cache
  assert_int_equal(run_step(&f, &o, NULL), CAIRN_INVALID_ARGUMENT);
  cairn_last_error_text(text, sizeof text);
  assert_non_null(strstr(text, "coreai.slice_update"));
  assert_non_null(strstr(text, "the states may have been changed"));
  set_step(&f, 0);
  assert_int_equal(run_step(&f, &o, NULL), CAIRN_OK);
  cairn_outputs_destroy(o);
  fixture_close(&f);
}

static void test_outputs(void **state) {
  (void)state;
  fixture f;
  cairn_outputs *o;
  cairn_ndarray *y, *big, *strided;
  fixture_open(&f, false, NULL);
  set_step(&f, 0);
  assert_int_equal(run_step(&f, &o, NULL), CAIRN_OK);
  assert_int_equal(cairn_outputs_count(o), 1);
  assert_string_equal(cairn_outputs_name(o, 0), "y");
  assert_int_equal(cairn_outputs_take(o, "y", &y), CAIRN_OK);
  cairn_ndarray *again;
  expect(cairn_outputs_take(o, "y", &again), CAIRN_NOT_FOUND, "was taken already");
  expect(cairn_outputs_take(o, "q", &again), CAIRN_NOT_FOUND, "no output 'q'");
  assert_int_equal(cairn_outputs_count(o), 0);
  assert_null(cairn_outputs_name(o, 0));
  cairn_outputs_destroy(o);
  // A view may be strided: here every other column of a wider array.
  assert_int_equal(cairn_ndarray_create(f.context, CAIRN_F32, (int64_t[]){2, 3, 4}, 3, &big), CAIRN_OK);
  assert_int_equal(cairn_ndarray_slice(big, (int64_t[]){0, 1, 0}, (int64_t[]){2, 2, 4}, &strided), CAIRN_OK);
  assert_int_equal(run_step(&f, &o, strided), CAIRN_OK);
  assert_int_equal(cairn_outputs_count(o), 0);
  assert_memory_equal((const float *)cairn_ndarray_data(big) + 4, cairn_ndarray_data(y), 4 * sizeof(float));
  assert_true(((const float *)cairn_ndarray_data(big))[0] == 0);
  cairn_outputs_destroy(o);
  cairn_ndarray_release(y);
  cairn_ndarray_release(strided);
  cairn_ndarray_release(big);
  fixture_close(&f);
}

static void test_state_object(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false, NULL);
  cairn_state *s;
  int n;
  int64_t shape[3] = {2, 8, 4};
  assert_int_equal(cairn_state_create(f.function, &(cairn_state_shape){"cache", shape, 3}, 1, &s), CAIRN_OK);
  const cairn_named_array *arrays = cairn_state_arrays(s, &n);
  assert_int_equal(n, 1);
  float *data = cairn_ndarray_mutable_data(arrays[0].array);
  assert_true(data[0] == 0);
  data[5] = 7;
  assert_int_equal(cairn_state_reset(s), CAIRN_OK);
  assert_true(data[5] == 0);
  cairn_state *bad;
  expect(cairn_state_create(f.function, &(cairn_state_shape){"kache", shape, 3}, 1, &bad), CAIRN_INVALID_ARGUMENT, "no state 'kache'");
  cairn_state_destroy(s);
  fixture_close(&f);
}

// --- allocation failures ------------------------------------------------------------------------------------------------------

static cairn_status open_load_run_close(counter *c) {
  cairn_context *context;
  cairn_model *model = NULL;
  cairn_function *function = NULL;
  cairn_state *states = NULL;
  cairn_ndarray *x = NULL;
  cairn_outputs *outputs = NULL;
  CRN_TRY(open_counted(c, &context));
  cairn_status status;
  CRN_TRY_GOTO(cairn_model_load(context, CAIRN_TEST_DATA "/execute/stateful.aimodel", NULL, &model));
  CRN_TRY_GOTO(cairn_model_function(model, "main", &function));
  CRN_TRY_GOTO(cairn_state_create(function, NULL, 0, &states));
  const cairn_descriptor *d = &cairn_function_describe(function)->inputs[0];
  CRN_TRY_GOTO(cairn_ndarray_create_from_descriptor(context, d, NULL, 0, &x));
  int n;
  const cairn_named_array *arrays = cairn_state_arrays(states, &n);
  for (int step = 0; step < 2; step++) {
    cairn_run_args args = {.inputs = &(cairn_named_array){d->name, x}, .n_inputs = 1, .states = arrays, .n_states = n};
    CRN_TRY_GOTO(cairn_function_run(function, &args, &outputs));
    cairn_outputs_destroy(outputs);
    outputs = NULL;
  }
done:
  cairn_outputs_destroy(outputs);
  cairn_ndarray_release(x);
  cairn_state_destroy(states);
  cairn_function_release(function);
  cairn_model_release(model);
  cairn_context_release(context);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  counter c = {0};
  assert_int_equal(open_load_run_close(&c), CAIRN_OK);
  int64_t total = c.n_allocations;
  assert_true(total > 20);
  for (int64_t n = 1; n <= total; n++) {
    c = (counter){.fail_at = n};
    assert_int_equal(open_load_run_close(&c), CAIRN_OUT_OF_MEMORY);
    assert_int_equal(c.live_blocks, 0);
    assert_int_equal(c.live_bytes, 0);
  }
  print_message("%lld allocations, each failed once\n", (long long)total);
}

// A device there are no kernels for is refused by name; the one that is used can be asked for.
static void test_devices(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false, &(cairn_model_options){.device = CAIRN_DEVICE_CPU, .expect_frequent_reshapes = true});
  assert_int_equal(cairn_function_get_device(f.function), CAIRN_DEVICE_CPU);
  static const struct {
    int device;
    cairn_status status;
    const char *text;
  } kWrong[] = {{CAIRN_DEVICE_GPU, CAIRN_UNSUPPORTED, "device gpu is not available"},
                {CAIRN_DEVICE_NEURAL_ENGINE, CAIRN_UNSUPPORTED, "device neural-engine is not available"},
                {4, CAIRN_INVALID_ARGUMENT, "device is 4"}};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    crn_program *p;
    cairn_model *model;
    assert_int_equal(build_cache(f.context, false, &p), CAIRN_OK);
    const cairn_model_options o = {.device = (cairn_device)kWrong[i].device};
    assert_int_equal(crn_model_create_from_program(f.context, p, &o, &model), kWrong[i].status);
    assert_null(model);
    assert_non_null(strstr(cairn_last_error()->message, kWrong[i].text));
  }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_state_in_place),
      cmocka_unit_test(test_snapshot_survives_write),
      cmocka_unit_test(test_steady_state_allocates_nothing),
      cmocka_unit_test(test_busy_state),
      cmocka_unit_test(test_wrong_calls),
      cmocka_unit_test(test_failing_step_names_the_op),
      cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_state_object),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
