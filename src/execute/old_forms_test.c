// Ops stored in older forms give what today's forms give.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cairn/model.h"

static void run_old_form(const char *name, const int64_t *shape, const void *input, size_t input_bytes, const void *expected,
                         size_t bytes) {
  cairn_context *context;
  cairn_model *model;
  cairn_function *f;
  cairn_ndarray *x, *y;
  cairn_outputs *outputs;
  char path[512], actual[256];
  snprintf(path, sizeof path, CAIRN_TEST_DATA "/assets/old_forms/%s.aimodel", name);
  assert_int_equal(cairn_context_create(NULL, &context), CAIRN_OK);
  assert_int_equal(cairn_model_load(context, path, NULL, &model), CAIRN_OK);
  if (cairn_model_function(model, "main", &f) != CAIRN_OK) fail_msg("%s: %s", name, cairn_last_error()->message);
  const cairn_descriptor *d = cairn_function_input(f, "x");
  assert_int_equal(cairn_ndarray_create_from_descriptor(context, d, shape, d->rank, &x), CAIRN_OK);
  assert_int_equal(cairn_ndarray_write(x, input, input_bytes), CAIRN_OK);
  cairn_run_args args = {.inputs = &(cairn_named_array){"x", x}, .n_inputs = 1};
  if (cairn_function_run(f, &args, &outputs) != CAIRN_OK) fail_msg("%s: %s", name, cairn_last_error()->message);
  assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
  assert_int_equal(cairn_ndarray_read(y, actual, bytes), CAIRN_OK);
  assert_memory_equal(actual, expected, bytes);
  cairn_ndarray_release(y);
  cairn_outputs_destroy(outputs);
  cairn_ndarray_release(x);
  cairn_function_release(f);
  cairn_model_release(model);
  cairn_context_release(context);
}

#define RUN(name, shape, input, expected) run_old_form(name, shape, input, sizeof input, expected, sizeof expected)

static void test_shapes(void **state) {
  (void)state;
  int64_t s53[2] = {5, 3}, s26[2] = {2, 6}, s23[2] = {2, 3};
  float fifteen[15] = {0}, twelve[12], six[6] = {1, 2, 3, 4, 5, 6}, doubled[12];
  for (int i = 0; i < 12; i++) {
    twelve[i] = (float)i;
    doubled[i] = (float)(i % 6 + 1);
  }
  RUN("get_shape_v1", s53, fifteen, ((int32_t[]){5, 3}));
  RUN("reshape_v1", s26, twelve, twelve);
  RUN("tile_v1", s23, six, doubled);
}

static void test_quantization(void **state) {
  (void)state;
  int64_t s23[2] = {2, 3}, s24[2] = {2, 4};
  // Scales 0.5, 0.25, 2 and zero points 0, 1, -2 along axis 1.
  int8_t q[6] = {4, 5, -4, -128, 127, 0}, rounded[6] = {3, 9, 0, 127, -128, -4};
  float real[6] = {1.3f, 2.0f, 4.1f, 1000, -1000, -4};
  RUN("dequantize_v1", s23, q, ((float[]){2, 1, -4, -64, 31.5f, 4}));
  RUN("quantize_v1", s23, real, rounded);
  int8_t blocks[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  RUN("blockwise_shift_scale_v1", s24, blocks, ((float[]){0.5f, 1, 0.5f, 0.75f, 14, 16, -4, -5}));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_quantization)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
