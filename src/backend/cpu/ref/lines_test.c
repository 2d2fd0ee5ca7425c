#include "backend/cpu/ref/ref_testing.h"

#define RUN(op, out, ...) test_run((test_call){.id = CRN_OP_##op}, OPERANDS(__VA_ARGS__), out)
#define RUN_MODE(op, m, out, ...) test_run((test_call){.id = CRN_OP_##op, .mode = m}, OPERANDS(__VA_ARGS__), out)

static void sorts(void **state) {
  (void)state;
  crn_tensor out, x = F32(3, NAN, -1, INFINITY, 3, -INFINITY, 0);
  assert_int_equal(RUN(sort, &out, x, I32_SCALAR(0), BOOL_SCALAR(0), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(-INFINITY, -1, 0, 3, 3, INFINITY, NAN));
  assert_int_equal(RUN(argsort, &out, x, I32_SCALAR(0), BOOL_SCALAR(0), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(5, 2, 6, 0, 4, 3, 1));
  // NaN is last in both directions, and ties keep their order in both.
  assert_int_equal(RUN(argsort, &out, x, I32_SCALAR(-1), BOOL_SCALAR(1), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(3, 0, 4, 6, 2, 5, 1));
  assert_int_equal(RUN(argsort, &out, F32(0.0f, -0.0f, 0.0f), I32_SCALAR(0), BOOL_SCALAR(0), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(0, 1, 2));
  crn_tensor columns = shape_as(I32(3, -2, 1, 9, 2, -9), DIMS(3, 2));
  assert_int_equal(RUN(sort, &out, columns, I32_SCALAR(0), BOOL_SCALAR(0), BOOL_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1, -9, 2, -2, 3, 9));
  int64_t wide[3] = {INT64_MAX, INT64_MIN, INT64_MAX - 1};
  assert_int_equal(RUN(argsort, &out, over(CAIRN_SI64, wide, 3), I32_SCALAR(0), BOOL_SCALAR(0), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(1, 2, 0));
  uint64_t large[2] = {UINT64_MAX, 1};
  assert_int_equal(RUN(argsort, &out, over(CAIRN_UI64, large, 2), I32_SCALAR(0), BOOL_SCALAR(1), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(0, 1));
}

static void many_lines_with_threads(void **state) {
  (void)state;
  enum { LINES = 500, LENGTH = 257 };
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  float *data = malloc(sizeof *data * LINES * LENGTH);
  assert_non_null(data);
  uint32_t seed = 5;
  for (int i = 0; i < LINES * LENGTH; i++) data[i] = (float)(test_random(&seed) % 1000);
  crn_tensor x = crn_tensor_make(CAIRN_F32, DIMS(LINES, LENGTH), data), sorted, places;
  test_call call = {.id = CRN_OP_sort, .pool = pool};
  assert_int_equal(test_run(call, OPERANDS(x, I32_SCALAR(1), BOOL_SCALAR(0), BOOL_SCALAR(1)), &sorted), CAIRN_OK);
  call.id = CRN_OP_argsort;
  assert_int_equal(test_run(call, OPERANDS(x, I32_SCALAR(1), BOOL_SCALAR(0), BOOL_SCALAR(1)), &places), CAIRN_OK);
  for (int i = 0; i < LINES * LENGTH; i++) {
    int32_t place = ((int32_t *)places.data)[i];
    float v = ((float *)sorted.data)[i];
    assert_true(data[i / LENGTH * LENGTH + place] == v);
    if (i % LENGTH == 0) continue;
    float before = ((float *)sorted.data)[i - 1];
    assert_true(before < v || (before == v && ((int32_t *)places.data)[i - 1] < place));
  }
  test_release(&sorted, 1);
  test_release(&places, 1);
  free(data);
  crn_pool_destroy(pool);
}

static void argmaxes(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(RUN(argmax, &out, F32(1, NAN, 3, 3), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(2));
  assert_int_equal(RUN(argmax, &out, F32(NAN, -INFINITY), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1));
  assert_int_equal(RUN(argmax, &out, F32(NAN, NAN), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(0));
  assert_int_equal(RUN(argmax, &out, shape_as(I32(1, 9, 5, 2, 5, 9), DIMS(2, 3)), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1, 0, 1));
  uint16_t halves[3] = {0xbc00, 0x3c00, 0x4000};  // -1, 1, 2
  assert_int_equal(RUN(argmax, &out, over(CAIRN_F16, halves, 3), I32_SCALAR(-1)), CAIRN_OK);
  assert_values(&out, VALUES(2));
  uint64_t large[3] = {1, UINT64_MAX, UINT64_MAX - 1};
  assert_int_equal(RUN(argmax, &out, over(CAIRN_UI64, large, 3), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1));
  int8_t bytes[3] = {-3, -1, -2};
  assert_int_equal(RUN(argmax, &out, over(CAIRN_SI8, bytes, 3), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1));
  assert_failure(RUN(argmax, &out, shape_as(F32(0), DIMS(2, 0)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "dimension 1 is empty");
}

static void scans(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4), DIMS(2, 2)), no = BOOL_SCALAR(0), yes = BOOL_SCALAR(1);
  assert_int_equal(RUN_MODE(scan, CRN_COMBINE_SUM, &out, x, I32_SCALAR(1), no), CAIRN_OK);
  assert_values(&out, VALUES(1, 3, 3, 7));
  assert_int_equal(RUN_MODE(scan, CRN_COMBINE_SUM, &out, x, I32_SCALAR(0), yes), CAIRN_OK);
  assert_values(&out, VALUES(4, 6, 3, 4));
  assert_int_equal(RUN_MODE(scan, CRN_COMBINE_PRODUCT, &out, F32(2, 3, 4), I32_SCALAR(0), no), CAIRN_OK);
  assert_values(&out, VALUES(2, 6, 24));
  assert_int_equal(RUN_MODE(scan, CRN_COMBINE_MAX, &out, F32(1, 3, NAN, 2), I32_SCALAR(0), no), CAIRN_OK);
  assert_values(&out, VALUES(1, 3, NAN, NAN));
  assert_int_equal(RUN_MODE(scan, CRN_COMBINE_MIN, &out, I32(4, 5, -1), I32_SCALAR(0), no), CAIRN_OK);
  assert_values(&out, VALUES(4, 4, -1));
  int8_t bytes[3] = {100, 100, 100};
  assert_int_equal(RUN_MODE(scan, CRN_COMBINE_SUM, &out, over(CAIRN_SI8, bytes, 3), I32_SCALAR(0), no), CAIRN_OK);
  assert_values(&out, VALUES(100, -56, 44));
  assert_failure(RUN_MODE(scan, 9, &out, x, I32_SCALAR(0), no), CAIRN_INVALID_ARGUMENT, "combiner 9");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sorts), cmocka_unit_test(many_lines_with_threads), cmocka_unit_test(argmaxes),
                                     cmocka_unit_test(scans)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
