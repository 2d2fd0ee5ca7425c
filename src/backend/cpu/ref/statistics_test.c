#include "backend/cpu/ref/ref_testing.h"

static cairn_status both(crn_tensor x, crn_tensor range, int axis, crn_tensor *out) {
  return test_run((test_call){.id = CRN_OP_asymmetric_quantization_statistics, .n_results = 2}, OPERANDS(x, range, I32_SCALAR(axis)), out);
}

static cairn_status scale_only(crn_tensor x, crn_tensor range, int axis, crn_tensor *out) {
  return test_run((test_call){.id = CRN_OP_symmetric_quantization_statistics}, OPERANDS(x, range, I32_SCALAR(axis)), out);
}

static void asymmetric(void **state) {
  (void)state;
  crn_tensor out[2], x = shape_as(F32(-2, -1, 3, 6, 1, 5), DIMS(2, 3));
  // The width of an int8 range does not fit int8.
  assert_int_equal(both(x, over(CAIRN_SI8, (int8_t[]){-128, 127}, 2), 1, out), CAIRN_OK);
  assert_int_equal(out[1].dtype, CAIRN_SI8);
  assert_values(&out[0], VALUES((float)(8.0 / 255), (float)(2.0 / 255), (float)(5.0 / 255)));
  assert_values(&out[1], VALUES(-64, -1, -128));
  assert_int_equal(both(x, F32(0, 8), -2, out), CAIRN_OK);
  assert_values(&out[0], VALUES(0.625, 0.75));
  assert_values(&out[1], VALUES(3.2f, 0));
  // Nothing but zeros: no scale, and a zero point within the range.
  crn_tensor zeros = F32(0, 0, 0);
  assert_int_equal(both(zeros, over(CAIRN_SI8, (int8_t[]){5, 127}, 2), 0, out), CAIRN_OK);
  assert_values(&out[0], VALUES(0, 0, 0));
  assert_values(&out[1], VALUES(5, 5, 5));
  assert_failure(both(x, F32(3, 3), 0, out), CAIRN_INVALID_ARGUMENT, "range");
  assert_failure(both(x, F32(0, 1, 2), 0, out), CAIRN_INVALID_ARGUMENT, "3 entries");
  assert_failure(both(x, F32(0, 1), 2, out), CAIRN_INVALID_ARGUMENT, "axis 2");
}

static void symmetric(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(-2, -1, 3, 6, 1, NAN), DIMS(2, 3));
  assert_int_equal(scale_only(x, F32(-8, 8), 1, &out), CAIRN_OK);
  assert_values(&out, VALUES(0.75, 0.125, NAN));
  uint16_t halves[2];
  for (int i = 0; i < 2; i++) crn_store_f64(CAIRN_F16, &halves[i], i ? 60000 : -50000);
  // Twice the largest value is above what f16 holds; its quotient is not.
  uint16_t range[2];
  for (int i = 0; i < 2; i++) crn_store_f64(CAIRN_F16, &range[i], i ? 4 : -4);
  assert_int_equal(scale_only(over(CAIRN_F16, halves, 2), over(CAIRN_F16, range, 2), 0, &out), CAIRN_OK);
  assert_values(&out, VALUES(12496, 15000));
  assert_failure(scale_only(shape_as(F32(1), NULL, 0), F32(-8, 8), 0, &out), CAIRN_INVALID_ARGUMENT, "rank");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(asymmetric), cmocka_unit_test(symmetric)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
