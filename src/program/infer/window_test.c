#include "program/infer/testing.h"

static void window_counts(void **state) {
  (void)state;
  int64_t n;
  assert_true(crn_window_count(10, 3, 2, 1, &n));
  assert_int_equal(n, 4);
  assert_true(crn_window_count(10, 3, 1, 4, &n));
  assert_int_equal(n, 2);
  assert_false(crn_window_count(2, 3, 1, 1, &n));
  assert_false(crn_window_count(10, 3, 0, 1, &n));
  assert_false(crn_window_count(10, INT64_MAX, 1, 3, &n));
  // Pooling with ceil_mode: a last window behind the end counts here; torch leaves it out.
  assert_true(crn_window_count_ceil(10, 3, 2, 1, &n));
  assert_int_equal(n, 5);
  assert_true(crn_window_count_ceil(5, 2, 3, 1, &n));
  assert_int_equal(n, 2);
  assert_true(crn_window_count_ceil(4, 2, 3, 1, &n));
  assert_int_equal(n, 2);
  assert_true(crn_window_count_ceil(3, 1, 3, 1, &n));
  assert_int_equal(n, 2);
  assert_true(crn_window_count_ceil(6, 2, 3, 1, &n));
  assert_int_equal(n, 3);
  assert_true(crn_window_count_ceil(2, 3, 2, 1, &n));
  assert_int_equal(n, 1);
  assert_false(crn_window_count_ceil(2, 5, 2, 1, &n));
}

static void convolutions(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F32, DIMS(ANY, 4, 9, 8)), w = shaped(CAIRN_F32, DIMS(6, 2, 3, 3));
  assert_int_equal(INFER(conv2d, &out, x, w, U32(2, 1), U32(1, 2), I32_SCALAR(2)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(ANY, 6, 4, 4));
  assert_int_equal(INFER(conv2d, &out, x, w, shaped(CAIRN_UI32, DIMS(2)), U32(1, 2), I32_SCALAR(2)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(ANY, 6, ANY, ANY));
  assert_failure(INFER(conv2d, &out, x, w, U32(2, 0), U32(1, 2), I32_SCALAR(2)), CAIRN_INVALID_ARGUMENT, "values above 0");
  assert_failure(INFER(conv2d, &out, x, w, U32(1, 1), U32(1, 9), I32_SCALAR(2)), CAIRN_INVALID_ARGUMENT, "does not fit into dimension 3");
  assert_failure(INFER(conv2d, &out, x, w, U32(1, 1), U32(1, 1), I32_SCALAR(4)), CAIRN_INVALID_ARGUMENT, "do not divide into 4 groups");
  assert_failure(INFER(conv2d, &out, x, w, U32(1, 1), U32(1, 1), I32_SCALAR(3)), CAIRN_INVALID_ARGUMENT, "4 channels");
  assert_failure(INFER(conv2d, &out, x, w, U32(1, 1), U32(1, 1), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT, "0 groups");
  assert_failure(INFER(conv3d, &out, x, w, U32(1, 1, 1), U32(1, 1, 1), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "rank 4, it must be 5");
}

static void transposed_convolutions(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F32, DIMS(1, 4, 8, 5)), w = shaped(CAIRN_F32, DIMS(4, 3, 3, 3));
  assert_int_equal(INFER(conv_transpose2d, &out, x, w, U32(2, 1), U32(1, 0), U32(1, 2), U32(1, 0), I32_SCALAR(2)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 6, 16, 9));
  assert_failure(INFER(conv_transpose2d, &out, x, w, U32(2, 1), U32(99, 0), U32(1, 2), U32(1, 0), I32_SCALAR(2)), CAIRN_INVALID_ARGUMENT,
                 "dimension 2 of size 8");
  assert_failure(INFER(conv_transpose2d, &out, x, w, U32(2, 1), U32(1, 0), U32(1, 2), U32(1, 0), I32_SCALAR(3)), CAIRN_INVALID_ARGUMENT,
                 "3 groups");
}

static void pooling(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F16, DIMS(2, 3, 10, ANY));
  uint8_t no = 0, yes = 1;
  assert_int_equal(INFER(max_pool_2d, &out, x, U32(3, 3), U32(2, 2), U32(1, 1), crn_tensor_make(CAIRN_BOOL, NULL, 0, &no)), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 3, 4, ANY));
  assert_int_equal(INFER(max_pool_2d, &out, x, U32(3, 3), U32(2, 2), U32(1, 1), crn_tensor_make(CAIRN_BOOL, NULL, 0, &yes)), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 3, 5, ANY));
  assert_int_equal(INFER(sum_pool_2d, &out, x, U32(3, 3), U32(2, 2), U32(1, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 3, 4, ANY));
  assert_failure(INFER(sum_pool_2d, &out, x, U32(11, 3), U32(2, 2), U32(1, 1)), CAIRN_INVALID_ARGUMENT, "window of 11");
}

static void pads(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F32, DIMS(3, ANY)), value = scalar(CAIRN_F32);
  assert_int_equal(INFER_MODE(pad, CRN_PAD_CONSTANT, &out, x, U32(9, 1, 0, 2), value), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(13, ANY));
  assert_int_equal(INFER_MODE(pad, CRN_PAD_REFLECT, &out, x, U32(2, 1, 0, 0), value), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(6, ANY));
  assert_failure(INFER_MODE(pad, CRN_PAD_REFLECT, &out, x, U32(3, 1, 0, 0), value), CAIRN_INVALID_ARGUMENT, "at most 2");
  assert_failure(INFER_MODE(pad, CRN_PAD_SYMMETRIC, &out, x, U32(4, 1, 0, 0), value), CAIRN_INVALID_ARGUMENT, "at most 3");
  assert_failure(INFER_MODE(pad, CRN_PAD_CIRCULAR, &out, x, U32(0, 4, 0, 0), value), CAIRN_INVALID_ARGUMENT, "at most 3");
  assert_failure(INFER_MODE(pad, CRN_PAD_REPLICATE, &out, shaped(CAIRN_F32, DIMS(0)), U32(0, 1), value), CAIRN_INVALID_ARGUMENT,
                 "at most 0");
  assert_failure(INFER_MODE(pad, CRN_PAD_CONSTANT, &out, x, U32(1, 1), value), CAIRN_INVALID_ARGUMENT, "must have 4");
  assert_failure(INFER_MODE(pad, 7, &out, x, U32(1, 1, 1, 1), value), CAIRN_INVALID_ARGUMENT, "mode 7");
  assert_failure(INFER_MODE(pad, CRN_PAD_CONSTANT, &out, x, I32(-1, 1, 1, 1), value), CAIRN_INVALID_ARGUMENT, "amounts are 0 or more");
}

static void interpolations(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F32, DIMS(1, 4)), f = shaped(CAIRN_F32, DIMS(2));
  assert_int_equal(INFER(interpolate, &out, x, I32(1, 9), f, f), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 9));
  assert_failure(INFER(interpolate, &out, x, I32(1, -9), f, f), CAIRN_INVALID_ARGUMENT, "cannot become -9");
  assert_failure(INFER(interpolate, &out, x, I32(1, 9), f, shaped(CAIRN_F32, DIMS(3))), CAIRN_INVALID_ARGUMENT, "operand 3");
  assert_int_equal(INFER(interpolate_coordinates, &out, x, shaped(CAIRN_F32, DIMS(5, 2))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(5));
  assert_failure(INFER(interpolate_coordinates, &out, x, shaped(CAIRN_F32, DIMS(5, 3))), CAIRN_INVALID_ARGUMENT, "coordinates of 3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(window_counts), cmocka_unit_test(convolutions), cmocka_unit_test(transposed_convolutions),
      cmocka_unit_test(pooling),       cmocka_unit_test(pads),         cmocka_unit_test(interpolations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
