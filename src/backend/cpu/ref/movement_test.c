#include "backend/cpu/ref/ref_testing.h"

#define RUN(op, out, ...) test_run((test_call){.id = CRN_OP_##op}, OPERANDS(__VA_ARGS__), out)
#define RUN_MODE(op, m, out, ...) test_run((test_call){.id = CRN_OP_##op, .mode = m}, OPERANDS(__VA_ARGS__), out)
#define RUN_DTYPE(op, d, out, ...) test_run((test_call){.id = CRN_OP_##op, .dtype = d}, OPERANDS(__VA_ARGS__), out)

static void concats(void **state) {
  (void)state;
  crn_tensor out, a = shape_as(F32(1, 2, 3, 4), DIMS(2, 2)), b = shape_as(F32(5, 6), DIMS(2, 1)), none = shape_as(F32(0), DIMS(2, 0));
  assert_int_equal(RUN(concat, &out, I32_SCALAR(-1), a, none, b), CAIRN_OK);
  assert_dims(&out, DIMS(2, 3));
  assert_values(&out, VALUES(1, 2, 5, 3, 4, 6));
  a.strides[0] = 1;
  a.strides[1] = 2;
  assert_int_equal(RUN(concat, &out, I32_SCALAR(0), a, a), CAIRN_OK);
  assert_values(&out, VALUES(1, 3, 2, 4, 1, 3, 2, 4));
  assert_int_equal(RUN(concat, &out, I32_SCALAR(0), U32(7, 8), crn_tensor_make(CAIRN_UI32, NULL, 0, (uint32_t[]){9})), CAIRN_OK);
  assert_values(&out, VALUES(7, 8, 9));
}

static void slice_updates(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(0, 1, 2, 3, 4, 5, 6, 7), DIMS(2, 4)), update = shape_as(F32(10, 11), DIMS(1, 2));
  assert_int_equal(RUN(slice_update, &out, x, I32(1, 1), I32(2, 3), I32(1, 1), update), CAIRN_OK);
  assert_values(&out, VALUES(0, 1, 2, 3, 4, 10, 11, 7));
  assert_int_equal(RUN(slice_update, &out, x, I32(-1, 3), I32(99, -99), I32(1, -2), update), CAIRN_OK);
  assert_values(&out, VALUES(0, 1, 2, 3, 4, 11, 6, 10));
  assert_failure(RUN(slice_update, &out, x, I32(1, 1), I32(2, 4), I32(1, 1), update), CAIRN_INVALID_ARGUMENT, "the slice takes 3 elements");
}

static void windows_are_checked(void **state) {
  (void)state;
  float data[8] = {0};
  crn_tensor base = crn_tensor_make(CAIRN_F32, DIMS(2, 4), data), window, update = shape_as(F32(1, 2), DIMS(1, 2));
  const crn_tensor operands[5] = {base, I32(1, 2), I32(2, 4), I32(1, 1), update},
                   zero_stride[5] = {base, I32(1, 2), I32(2, 4), I32(1, 0), update};
  crn_kernel_args args = {.id = CRN_OP_slice_update, .n_operands = 5, .operands = operands};
  assert_int_equal(crn_ref_slice_window(&args, &base, &window), CAIRN_OK);
  assert_dims(&window, DIMS(1, 2));
  assert_ptr_equal(window.data, data + 6);
  crn_tensor shorter = crn_tensor_make(CAIRN_F32, DIMS(2, 3), data), other = crn_tensor_make(CAIRN_F16, DIMS(2, 4), data);
  assert_failure(crn_ref_slice_window(&args, &shorter, &window), CAIRN_INVALID_ARGUMENT, "takes 1 elements");
  assert_failure(crn_ref_slice_window(&args, &other, &window), CAIRN_INVALID_ARGUMENT, "the target is float16");
  args.operands = zero_stride;
  assert_failure(crn_ref_slice_window(&args, &base, &window), CAIRN_INVALID_ARGUMENT, "stride 0");
}

static void pads(void **state) {
  (void)state;
  crn_tensor out, x = F32(1, 2, 3), value = F32_SCALAR(9);
  assert_int_equal(RUN_MODE(pad, CRN_PAD_CONSTANT, &out, x, U32(1, 2), value), CAIRN_OK);
  assert_values(&out, VALUES(9, 1, 2, 3, 9, 9));
  assert_int_equal(RUN_MODE(pad, CRN_PAD_REFLECT, &out, x, U32(2, 2), value), CAIRN_OK);
  assert_values(&out, VALUES(3, 2, 1, 2, 3, 2, 1));
  assert_int_equal(RUN_MODE(pad, CRN_PAD_SYMMETRIC, &out, x, U32(3, 2), value), CAIRN_OK);
  assert_values(&out, VALUES(3, 2, 1, 1, 2, 3, 3, 2));
  assert_int_equal(RUN_MODE(pad, CRN_PAD_REPLICATE, &out, x, U32(2, 3), value), CAIRN_OK);
  assert_values(&out, VALUES(1, 1, 1, 2, 3, 3, 3, 3));
  assert_int_equal(RUN_MODE(pad, CRN_PAD_CIRCULAR, &out, x, U32(2, 1), value), CAIRN_OK);
  assert_values(&out, VALUES(2, 3, 1, 2, 3, 1));
  crn_tensor square = shape_as(F32(1, 2, 3, 4), DIMS(2, 2));
  assert_int_equal(RUN_MODE(pad, CRN_PAD_CONSTANT, &out, square, U32(0, 1, 1, 0), value), CAIRN_OK);
  assert_values(&out, VALUES(9, 1, 2, 9, 3, 4, 9, 9, 9));
  square.strides[0] = 1;
  square.strides[1] = 2;
  assert_int_equal(RUN_MODE(pad, CRN_PAD_REFLECT, &out, square, U32(1, 0, 0, 1), value), CAIRN_OK);
  assert_values(&out, VALUES(2, 4, 2, 1, 3, 1, 2, 4, 2));
  assert_int_equal(RUN_MODE(pad, CRN_PAD_CONSTANT, &out, shape_as(F32(0), DIMS(0)), U32(1, 1), value), CAIRN_OK);
  assert_values(&out, VALUES(9, 9));
}

static void tiles(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4), DIMS(2, 2));
  assert_int_equal(RUN(tile, &out, x, U32(2)), CAIRN_OK);
  assert_values(&out, VALUES(1, 2, 1, 2, 3, 4, 3, 4));
  assert_int_equal(RUN(tile, &out, x, U32(2, 1, 1)), CAIRN_OK);
  assert_dims(&out, DIMS(2, 2, 2));
  assert_values(&out, VALUES(1, 2, 3, 4, 1, 2, 3, 4));
  assert_int_equal(RUN(tile, &out, x, U32(2, 0)), CAIRN_OK);
  assert_dims(&out, DIMS(4, 0));
  test_release(&out, 1);
}

static void casts(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1.75f, -3.5f, NAN, 300), DIMS(2, 2));
  assert_int_equal(RUN_DTYPE(cast, CAIRN_UI8, &out, x), CAIRN_OK);
  assert_values(&out, VALUES(1, 0, 0, 255));
  x.strides[0] = 1;
  x.strides[1] = 2;
  assert_int_equal(RUN_DTYPE(cast, CAIRN_SI8, &out, x), CAIRN_OK);
  assert_values(&out, VALUES(1, 0, -3, 127));
  assert_int_equal(RUN_DTYPE(cast, CAIRN_BOOL, &out, x), CAIRN_OK);
  assert_values(&out, VALUES(1, 1, 1, 1));
  assert_int_equal(RUN_DTYPE(cast, CAIRN_F32, &out, x), CAIRN_OK);
  assert_values(&out, VALUES(1.75, NAN, -3.5, 300));
}

// A strided operand goes through buffers: more elements than one of them, and several threads.
static void large_casts_do_not_depend_on_threads(void **state) {
  (void)state;
  enum { ROWS = 300, COLUMNS = 401 };
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  int32_t *data = malloc(sizeof *data * ROWS * COLUMNS);
  assert_non_null(data);
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = i;
  crn_tensor x = crn_tensor_make(CAIRN_SI32, DIMS(COLUMNS, ROWS), data), out;
  x.strides[0] = 1;
  x.strides[1] = COLUMNS;
  assert_int_equal(test_run((test_call){.id = CRN_OP_cast, .dtype = CAIRN_F32, .pool = pool}, &x, 1, &out), CAIRN_OK);
  for (int i = 0; i < ROWS * COLUMNS; i++) assert_true(((float *)out.data)[i] == (float)(i % ROWS * COLUMNS + i / ROWS));
  test_release(&out, 1);
  free(data);
  crn_pool_destroy(pool);
}

static void selections(void **state) {
  (void)state;
  uint8_t mask[4] = {1, 0, 0, 1};
  crn_tensor out, condition = crn_tensor_make(CAIRN_BOOL, DIMS(2, 2), mask), a = shape_as(F32(1, 2, 3, 4), DIMS(2, 2));
  assert_int_equal(RUN(where, &out, condition, a, shape_as(F32(NAN, 6, 7, NAN), DIMS(2, 2))), CAIRN_OK);
  assert_values(&out, VALUES(1, 6, 7, 4));
  assert_int_equal(RUN(broadcasting_where, &out, condition, F32_SCALAR(-1), shape_as(F32(5, 6), DIMS(2, 1))), CAIRN_OK);
  assert_values(&out, VALUES(-1, 5, 6, -1));
  assert_int_equal(RUN(broadcasting_where, &out, shape_as(condition, DIMS(4, 1)), F32(1, 2), F32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1, 2, 0, 0, 0, 0, 1, 2));
  assert_int_equal(RUN(broadcasting_where, &out, BOOL_SCALAR(0), F32_SCALAR(1), F32_SCALAR(2)), CAIRN_OK);
  assert_values(&out, VALUES(2));
}

static void shapes_and_ranges(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(RUN(get_shape, &out, shape_as(F32(0), DIMS(3, 0, 5))), CAIRN_OK);
  assert_values(&out, VALUES(3, 0, 5));
  assert_failure(RUN_DTYPE(get_shape, CAIRN_UI8, &out, shape_as(F32(0), DIMS(300, 0))), CAIRN_OUT_OF_RANGE, "size 300");
  assert_int_equal(RUN(broadcast_shapes, &out, U32(4, 1, 3), U32(5, 1)), CAIRN_OK);
  assert_values(&out, VALUES(4, 5, 3));
  assert_failure(RUN(broadcast_shapes, &out, U32(4), U32(5)), CAIRN_INVALID_ARGUMENT, "do not broadcast");
  assert_int_equal(RUN(range, &out, I32_SCALAR(5), I32_SCALAR(-4), I32_SCALAR(-3)), CAIRN_OK);
  assert_values(&out, VALUES(5, 2, -1));
  assert_int_equal(RUN(range, &out, F32_SCALAR(0.5f), F32_SCALAR(2), F32_SCALAR(0.5f)), CAIRN_OK);
  assert_values(&out, VALUES(0.5, 1, 1.5));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(concats),
      cmocka_unit_test(slice_updates),
      cmocka_unit_test(windows_are_checked),
      cmocka_unit_test(pads),
      cmocka_unit_test(tiles),
      cmocka_unit_test(casts),
      cmocka_unit_test(large_casts_do_not_depend_on_threads),
      cmocka_unit_test(selections),
      cmocka_unit_test(shapes_and_ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
