// Kernels that expand compressed constants, quantise, pool, sample and spread.
#include "backend/cpu/ref/ref_testing.h"

#define RUN(op, out, ...) test_run((test_call){.id = CRN_OP_##op}, OPERANDS(__VA_ARGS__), out)
#define RUN_MODE(op, m, out, ...) test_run((test_call){.id = CRN_OP_##op, .mode = m}, OPERANDS(__VA_ARGS__), out)
#define RUN_DTYPE(op, d, out, ...) test_run((test_call){.id = CRN_OP_##op, .dtype = d}, OPERANDS(__VA_ARGS__), out)

static void tables(void **state) {
  (void)state;
  uint8_t picks[8] = {0, 1, 2, 3, 3, 2, 1, 0};
  crn_tensor out, index = crn_tensor_make(CAIRN_UI2, DIMS(2, 4), picks);
  // Two groups of rows, each with its own palette of four single values.
  assert_int_equal(RUN(lut_to_dense, &out, index, shape_as(F32(0, 1, 2, 3, 10, 11, 12, 13), DIMS(2, 1, 4, 1)), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(0, 1, 2, 3, 13, 12, 11, 10));
  assert_int_equal(RUN(lut_to_dense, &out, index, shape_as(F32(0, 1, 2, 3, 10, 11, 12, 13), DIMS(1, 2, 4, 1)), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(0, 1, 12, 13, 3, 2, 11, 10));
  // Entries of two values, laid out along either axis.
  crn_tensor pairs = shape_as(F32(0, 1, 2, 3, 4, 5, 6, 7), DIMS(1, 1, 4, 2));
  assert_int_equal(RUN(lut_to_dense, &out, index, pairs, I32_SCALAR(0)), CAIRN_OK);
  assert_dims(&out, DIMS(4, 4));
  assert_values(&out, VALUES(0, 2, 4, 6, 1, 3, 5, 7, 6, 4, 2, 0, 7, 5, 3, 1));
  assert_int_equal(RUN(lut_to_dense, &out, index, pairs, I32_SCALAR(-1)), CAIRN_OK);
  assert_dims(&out, DIMS(2, 8));
  assert_values(&out, VALUES(0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 4, 5, 2, 3, 0, 1));
}

// Codes of 1, 2, 4 and 6 bits straight from the stream, with rows that start inside of a byte.
static void packed_tables(void **state) {
  (void)state;
  uint8_t stream[16];
  for (int i = 0; i < 16; i++) stream[i] = (uint8_t)(37 * i + 11);
  float palette[64];
  for (int i = 0; i < 64; i++) palette[i] = (float)i;
  static const struct {
    cairn_dtype dtype;
    int bits;
  } types[] = {{CAIRN_UI1, 1}, {CAIRN_UI2, 2}, {CAIRN_UI3, 3}, {CAIRN_UI4, 4}, {CAIRN_UI6, 6}};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    int bits = types[t].bits;
    int64_t shape[4] = {1, 1, (int64_t)1 << bits, 1};
    crn_tensor out, index = crn_tensor_make(types[t].dtype, DIMS(3, 5), stream), table = crn_tensor_make(CAIRN_F32, shape, 4, palette);
    index.packed = true;
    assert_int_equal(RUN(lut_to_dense, &out, index, table, I32_SCALAR(0)), CAIRN_OK);
    for (int i = 0; i < 15; i++) {
      int code = 0;
      for (int b = 0; b < bits; b++) code |= (stream[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
      assert_int_equal((int)((float *)out.data)[i], code);
    }
    test_release(&out, 1);
  }
}

// Rows with a view get packed operands, too, and unpack them when they have to copy.
static void packed_operands_are_copied(void **state) {
  (void)state;
  uint8_t nibbles[3] = {0xf1, 0x2e, 0xd3};  // si4: 1 -1 -2 2 3 -3
  crn_tensor out, x = crn_tensor_make(CAIRN_SI4, DIMS(2, 3), nibbles);
  x.packed = true;
  assert_true(crn_kernel_takes_packed(CRN_OP_transpose) && crn_kernel_takes_packed(CRN_OP_lut_to_dense));
  assert_false(crn_kernel_takes_packed(CRN_OP_concat));
  assert_int_equal(RUN(transpose, &out, x, U32(1, 0)), CAIRN_OK);
  assert_values(&out, VALUES(1, 2, -1, 3, -2, -3));
  assert_int_equal(RUN(slice, &out, x, I32(1, 0), I32(2, 2), I32(1, 1)), CAIRN_OK);
  assert_values(&out, VALUES(2, 3));
  assert_int_equal(RUN_DTYPE(cast, CAIRN_F16, &out, x), CAIRN_OK);
  assert_values(&out, VALUES(1, -1, -2, 2, 3, -3));
  crn_tensor pieces[2];
  assert_int_equal(test_run((test_call){.id = CRN_OP_split, .n_results = 2}, OPERANDS(x, U32(1, 2), I32_SCALAR(1)), pieces), CAIRN_OK);
  assert_values(&pieces[1], VALUES(-1, -2, 3, -3));
  assert_values(&pieces[0], VALUES(1, 2));
}

static void sparse_values(void **state) {
  (void)state;
  uint8_t mask[6] = {1, 0, 0, 1, 1, 0};
  crn_tensor out, bits = crn_tensor_make(CAIRN_UI1, DIMS(2, 3), mask);
  assert_int_equal(RUN(build_sparse_with_bitmask, &out, F32(5, 6, 7), bits), CAIRN_OK);
  assert_values(&out, VALUES(5, 0, 0, 6, 7, 0));
  assert_failure(RUN(build_sparse_with_bitmask, &out, F32(5, 6), bits), CAIRN_INVALID_ARGUMENT, "3 bits set, operand 0 has 2 values");
  assert_int_equal(RUN(non_zero, &out, shape_as(F32(0, 2, -0.0f, NAN), DIMS(2, 2))), CAIRN_OK);
  assert_dims(&out, DIMS(2, 2));
  assert_values(&out, VALUES(0, 1, 1, 1));
  assert_int_equal(RUN(non_zero, &out, F32(0, 0)), CAIRN_OK);
  assert_dims(&out, DIMS(0, 1));
  test_release(&out, 1);
}

static void quantisation(void **state) {
  (void)state;
  int8_t zero = 0, shifts[2] = {10, -10};
  crn_tensor out, none = crn_tensor_make(CAIRN_SI8, NULL, 0, &zero), x = F32(0.5f, 1.5f, 2.5f, -1.5f, 1000, -1000, NAN, 0.4f);
  assert_int_equal(RUN_DTYPE(quantize, CAIRN_SI8, &out, x, F32_SCALAR(1), none, F32_SCALAR(0), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(0, 2, 2, -2, 127, -128, 0, 0));
  crn_tensor rows = shape_as(F32(1, 2, 3, 4), DIMS(2, 2));
  assert_int_equal(RUN_DTYPE(quantize, CAIRN_SI8, &out, rows, F32(0.5f, 2), over(CAIRN_SI8, shifts, 2), F32(1, 0), I32_SCALAR(-1)),
                   CAIRN_OK);
  assert_values(&out, VALUES(10, -9, 14, -8));
  uint8_t q[2] = {200, 0};
  uint8_t shift = 100;
  assert_int_equal(RUN_DTYPE(dequantize, CAIRN_F32, &out, over(CAIRN_UI8, q, 2), F32_SCALAR(0.5f),
                             crn_tensor_make(CAIRN_UI8, NULL, 0, &shift), F32_SCALAR(3), I32_SCALAR(0)),
                   CAIRN_OK);
  assert_values(&out, VALUES(53, -47));
  uint8_t float_zero = 0;
  crn_tensor e4m3 = crn_tensor_make(CAIRN_F8E4M3FN, NULL, 0, &float_zero);
  assert_int_equal(RUN_DTYPE(quantize, CAIRN_F8E4M3FN, &out, F32(1.0625f, 1e6f, -1e6f), F32_SCALAR(1), e4m3, F32_SCALAR(0), I32_SCALAR(0)),
                   CAIRN_OK);
  assert_values(&out, VALUES(1, 448, -448));
  // Integers are quantised in the type of the scale.
  assert_int_equal(RUN_DTYPE(quantize, CAIRN_SI8, &out, I32(5, -300), F32_SCALAR(2), none, F32_SCALAR(0), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(2, -128));
  assert_failure(
      RUN_DTYPE(quantize, CAIRN_SI8, &out, over(CAIRN_BOOL, (uint8_t[]){1}, 1), F32_SCALAR(1), none, F32_SCALAR(0), I32_SCALAR(0)),
      CAIRN_UNSUPPORTED, "from bool to int8");
}

static void complex_parts(void **state) {
  (void)state;
  crn_tensor pairs, out;
  assert_int_equal(RUN(create_complex, &pairs, shape_as(F32(1, 2, 3, 4), DIMS(2, 2)), shape_as(F32(5, 6, 7, 8), DIMS(2, 2))), CAIRN_OK);
  crn_tensor turned = pairs;
  turned.strides[0] = 1;
  turned.strides[1] = 2;
  assert_int_equal(RUN(real_part, &out, pairs), CAIRN_OK);
  assert_values(&out, VALUES(1, 2, 3, 4));
  assert_int_equal(RUN(imaginary_part, &out, turned), CAIRN_OK);
  assert_values(&out, VALUES(5, 7, 6, 8));
  test_release(&pairs, 1);
}

static void pools(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4, 5, 6, 7, 8, 9), DIMS(1, 1, 3, 3));
  assert_int_equal(RUN(sum_pool_2d, &out, x, U32(2, 2), U32(1, 1), U32(1, 1)), CAIRN_OK);
  assert_values(&out, VALUES(12, 16, 24, 28));
  assert_int_equal(RUN(max_pool_2d, &out, x, U32(2, 2), U32(2, 2), U32(1, 1), BOOL_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(5));
  assert_int_equal(RUN(max_pool_2d, &out, x, U32(2, 2), U32(2, 2), U32(1, 1), BOOL_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(5, 6, 8, 9));
  assert_int_equal(RUN(max_pool_2d, &out, x, U32(2, 2), U32(1, 1), U32(2, 2), BOOL_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(9));
  assert_int_equal(
      RUN(max_pool_2d, &out, shape_as(F32(NAN, 1, -INFINITY, -2), DIMS(1, 2, 1, 2)), U32(1, 2), U32(1, 1), U32(1, 1), BOOL_SCALAR(0)),
      CAIRN_OK);
  assert_values(&out, VALUES(NAN, -2));
  crn_tensor cube = shape_as(I32(1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8), DIMS(1, 2, 2, 2, 2));
  assert_int_equal(RUN(sum_pool_3d, &out, cube, U32(2, 2, 1), U32(1, 1, 1), U32(1, 1, 1)), CAIRN_OK);
  assert_values(&out, VALUES(16, 20, -16, -20));
  assert_int_equal(RUN(max_pool_3d, &out, cube, U32(1, 2, 2), U32(1, 1, 1), U32(1, 1, 1), BOOL_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(4, 8, -1, -5));
}

static void sampling(void **state) {
  (void)state;
  crn_tensor out, x = F32(0, 10, 20, 30), zero = F32_SCALAR(0), offset = shape_as(zero, DIMS(1));
  assert_int_equal(RUN_MODE(interpolate, CRN_INTERPOLATE_LINEAR, &out, x, I32(8), F32(2), offset), CAIRN_OK);
  assert_values(&out, VALUES(0, 2.5, 7.5, 12.5, 17.5, 22.5, 27.5, 30));
  assert_int_equal(RUN_MODE(interpolate, CRN_INTERPOLATE_NEAREST, &out, x, I32(2), F32(0.5f), offset), CAIRN_OK);
  assert_values(&out, VALUES(0, 20));
  crn_tensor square = shape_as(F32(0, 1, 2, 3), DIMS(2, 2));
  assert_int_equal(
      RUN_MODE(interpolate_coordinates, CRN_INTERPOLATE_LINEAR, &out, square, shape_as(F32(0.5f, 0.5f, -3, 9, 1, 0.25f), DIMS(3, 2))),
      CAIRN_OK);
  assert_values(&out, VALUES(1.5, 1, 2.25));
  // Ties go to the even element.
  assert_int_equal(RUN_MODE(interpolate_coordinates, CRN_INTERPOLATE_NEAREST, &out, x, shape_as(F32(0.5f, 1.5f, 2.5f, NAN), DIMS(4, 1))),
                   CAIRN_OK);
  assert_values(&out, VALUES(0, 20, 20, 0));
  assert_failure(RUN_MODE(interpolate, CRN_INTERPOLATE_LINEAR, &out, x, I32(8), F32(0), offset), CAIRN_INVALID_ARGUMENT, "scale 0");
}

static void spread(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4), DIMS(1, 1, 2, 2)), w = shape_as(F32(1, 10, 100, 1000), DIMS(1, 1, 2, 2));
  assert_int_equal(RUN(conv_transpose2d, &out, x, w, U32(2, 2), U32(0, 0), U32(1, 1), U32(0, 0), I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(1, 10, 2, 20, 100, 1000, 200, 2000, 3, 30, 4, 40, 300, 3000, 400, 4000));
  assert_int_equal(RUN(conv_transpose2d, &out, x, w, U32(1, 1), U32(1, 1), U32(1, 1), U32(0, 0), I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(1000 + 200 + 30 + 4));
  // Two groups of one channel each, a dilated kernel and one more row at the end.
  crn_tensor two = shape_as(F32(1, 2), DIMS(1, 2, 1, 1)), kernels = shape_as(F32(1, 2, 3, 4), DIMS(2, 1, 2, 1));
  assert_int_equal(RUN(conv_transpose2d, &out, two, kernels, U32(2, 1), U32(0, 0), U32(2, 1), U32(1, 0), I32_SCALAR(2)), CAIRN_OK);
  assert_dims(&out, DIMS(1, 2, 4, 1));
  assert_values(&out, VALUES(1, 0, 2, 0, 6, 0, 8, 0));
  crn_tensor solid = shape_as(F32(1, 2), DIMS(1, 1, 2, 1, 1)), unit = shape_as(F32(5, 7), DIMS(1, 2, 1, 1, 1));
  assert_int_equal(RUN(conv_transpose3d, &out, solid, unit, U32(1, 1, 1), U32(0, 0, 0), U32(1, 1, 1), U32(0, 0, 0), I32_SCALAR(1)),
                   CAIRN_OK);
  assert_values(&out, VALUES(5, 10, 7, 14));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables),        cmocka_unit_test(packed_tables), cmocka_unit_test(packed_operands_are_copied),
      cmocka_unit_test(sparse_values), cmocka_unit_test(quantisation),  cmocka_unit_test(complex_parts),
      cmocka_unit_test(pools),         cmocka_unit_test(sampling),      cmocka_unit_test(spread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
