#include "program/infer/testing.h"

static void gathers(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F16, DIMS(5, 6, ANY));
  assert_int_equal(INFER(gather_along_axis, &out, x, shaped(CAIRN_SI32, DIMS(9, 6, 3)), I32_SCALAR(0)), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(9, 6, 3));
  assert_failure(INFER(gather_along_axis, &out, x, shaped(CAIRN_SI32, DIMS(9, 6, 3)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT,
                 "operand 1 has size 9 in dimension 0, operand 0 only 5");
  assert_failure(INFER(gather_along_axis, &out, x, shaped(CAIRN_SI32, DIMS(9, 6)), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT, "rank 2");
  assert_failure(INFER(gather_along_axis, &out, x, shaped(CAIRN_F32, DIMS(9, 6, 3)), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT, "integer");
  assert_int_equal(INFER(gather_nd, &out, x, shaped(CAIRN_SI32, DIMS(7, ANY, 2))), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(7, ANY, ANY));
  assert_int_equal(INFER(gather_nd, &out, x, shaped(CAIRN_SI32, DIMS(3))), CAIRN_OK);
  assert_int_equal(out.rank, 0);
  assert_failure(INFER(gather_nd, &out, x, shaped(CAIRN_SI32, DIMS(7, 4))), CAIRN_INVALID_ARGUMENT, "have 4 entries");
  assert_failure(INFER(gather_nd, &out, x, scalar(CAIRN_SI32)), CAIRN_INVALID_ARGUMENT, "rank 0");
  assert_failure(INFER(gather_nd, &out, x, shaped(CAIRN_SI32, DIMS(7, ANY))), CAIRN_INVALID_ARGUMENT, "last size of operand 1");
}

static void scatters(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F32, DIMS(4, 6, 5));
  assert_int_equal(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), shaped(CAIRN_F32, DIMS(3, 5))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(4, 6, 5));
  assert_failure(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), shaped(CAIRN_F32, DIMS(3, 6))), CAIRN_INVALID_ARGUMENT,
                 "operand 2 has size 6 in dimension 1, it must be 5 or 1");
  // Updates broadcast: a row for every index vector, one element for everything.
  assert_int_equal(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), shaped(CAIRN_F32, DIMS(5))), CAIRN_OK);
  assert_int_equal(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(ANY, 2)), shaped(CAIRN_F32, DIMS(1, 5))), CAIRN_OK);
  assert_int_equal(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), scalar(CAIRN_F32)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(4, 6, 5));
  assert_failure(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), shaped(CAIRN_F32, DIMS(3))), CAIRN_INVALID_ARGUMENT,
                 "operand 2 has size 3 in dimension 0, it must be 5 or 1");
  assert_failure(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), shaped(CAIRN_F32, DIMS(1, 3, 5))), CAIRN_INVALID_ARGUMENT,
                 "rank 3");
  assert_failure(INFER(scatter_nd, &out, x, shaped(CAIRN_SI32, DIMS(3, 2)), shaped(CAIRN_F16, DIMS(3, 5))), CAIRN_INVALID_ARGUMENT,
                 "float16");
  crn_tensor index = shaped(CAIRN_SI32, DIMS(2, 6, 5));
  assert_int_equal(INFER_MODE(scatter_along_axis, CRN_SCATTER_ADD, &out, x, index, shaped(CAIRN_F32, DIMS(2, 6, 5)), I32_SCALAR(0)),
                   CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(4, 6, 5));
  assert_failure(INFER_MODE(scatter_along_axis, CRN_SCATTER_ADD, &out, x, index, shaped(CAIRN_F32, DIMS(1, 6, 5)), I32_SCALAR(0)),
                 CAIRN_INVALID_ARGUMENT, "the indices need 2");
  assert_failure(INFER_MODE(scatter_along_axis, 9, &out, x, index, shaped(CAIRN_F32, DIMS(2, 6, 5)), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT,
                 "mode 9");
}

static void nonzero_counts_when_it_can(void **state) {
  (void)state;
  float data[6] = {0, -0.0f, NAN, 1, 0, 2};
  int64_t dims[2] = {2, 3};
  crn_tensor out;
  assert_int_equal(INFER(non_zero, &out, crn_tensor_make(CAIRN_F32, dims, 2, data)), CAIRN_OK);
  assert_shape(&out, CAIRN_SI32, DIMS(3, 2));
  assert_int_equal(INFER_DTYPE(non_zero, CAIRN_SI16, &out, shaped(CAIRN_BOOL, DIMS(4))), CAIRN_OK);
  assert_shape(&out, CAIRN_SI16, DIMS(ANY, 1));
}

static void compressed_constants(void **state) {
  (void)state;
  crn_tensor out, index = shaped(CAIRN_UI4, DIMS(4, 6));
  assert_int_equal(INFER(lut_to_dense, &out, index, shaped(CAIRN_F16, DIMS(2, 1, 16, 3)), I32_SCALAR(1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(4, 18));
  assert_int_equal(INFER(lut_to_dense, &out, index, shaped(CAIRN_SI8, DIMS(2, 1, 16, 1)), scalar(CAIRN_SI16)), CAIRN_OK);
  assert_shape(&out, CAIRN_SI8, DIMS(4, 6));
  assert_failure(INFER(lut_to_dense, &out, index, shaped(CAIRN_F16, DIMS(3, 1, 16, 1)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "3 groups");
  assert_failure(INFER(lut_to_dense, &out, index, shaped(CAIRN_F16, DIMS(0, 1, 16, 1)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "0 groups");
  assert_failure(INFER(lut_to_dense, &out, index, shaped(CAIRN_F16, DIMS(2, 1, 4, 1)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT,
                 "palettes of 4");
  assert_failure(INFER(lut_to_dense, &out, index, shaped(CAIRN_F16, DIMS(2, 16, 1)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "rank 3");
  assert_failure(INFER(lut_to_dense, &out, shaped(CAIRN_SI4, DIMS(4)), shaped(CAIRN_F16, DIMS(1, 16, 1)), I32_SCALAR(0)),
                 CAIRN_INVALID_ARGUMENT, "unsigned");
  assert_int_equal(INFER(build_sparse_with_bitmask, &out, shaped(CAIRN_SI8, DIMS(ANY)), shaped(CAIRN_UI1, DIMS(3, 4))), CAIRN_OK);
  assert_shape(&out, CAIRN_SI8, DIMS(3, 4));
  crn_tensor p = shaped(CAIRN_F32, DIMS(6)), zero = scalar(CAIRN_SI8), min = scalar(CAIRN_F32);
  assert_int_equal(INFER_DTYPE(quantize, CAIRN_SI8, &out, shaped(CAIRN_F32, DIMS(4, 6)), p, zero, min, I32_SCALAR(-1)), CAIRN_OK);
  assert_shape(&out, CAIRN_SI8, DIMS(4, 6));
  assert_failure(INFER_DTYPE(quantize, CAIRN_SI8, &out, shaped(CAIRN_F32, DIMS(4, 6)), p, zero, min, I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT,
                 "operand 1 has 6 entries, dimension 0 of operand 0 has size 4");
  // With single values all axes may be listed.
  crn_tensor one = scalar(CAIRN_F32), x = shaped(CAIRN_F32, DIMS(4, 6));
  assert_int_equal(INFER_DTYPE(quantize, CAIRN_SI8, &out, x, one, zero, min, I32(0, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_SI8, DIMS(4, 6));
  assert_failure(INFER_DTYPE(quantize, CAIRN_SI8, &out, x, p, zero, min, I32(0, 1)), CAIRN_INVALID_ARGUMENT, "over all axes");
  assert_failure(INFER_DTYPE(quantize, CAIRN_SI8, &out, x, one, zero, min, I32(0, 1, 2)), CAIRN_INVALID_ARGUMENT, "lists 3 axes");
  assert_int_equal(INFER(create_complex, &out, p, p), CAIRN_OK);
  assert_shape(&out, CAIRN_C64, DIMS(6));
  assert_int_equal(INFER(real_part, &out, shaped(CAIRN_C64, DIMS(6))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(6));
  assert_failure(INFER(imaginary_part, &out, p), CAIRN_INVALID_ARGUMENT, "complex");
}

static void attention(void **state) {
  (void)state;
  crn_tensor out, q = shaped(CAIRN_F16, DIMS(ANY, 8, 5, 16)), k = shaped(CAIRN_F16, DIMS(2, 2, ANY, 16)),
                  v = shaped(CAIRN_F16, DIMS(2, 2, 9, 12));
  assert_int_equal(INFER(scaled_dot_product_attention, &out, q, k, v), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 8, 5, 12));
  crn_tensor q3 = shaped(CAIRN_F32, DIMS(8, 5, 16)), k3 = shaped(CAIRN_F32, DIMS(4, 7, 16));
  assert_int_equal(INFER(scaled_dot_product_attention, &out, q3, k3, k3), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(8, 5, 16));
  assert_failure(INFER(scaled_dot_product_attention, &out, q3, shaped(CAIRN_F32, DIMS(3, 7, 16)), shaped(CAIRN_F32, DIMS(3, 7, 16))),
                 CAIRN_INVALID_ARGUMENT, "multiple of 3");
  assert_failure(INFER(scaled_dot_product_attention, &out, q3, shaped(CAIRN_F32, DIMS(4, 7, 8)), k3), CAIRN_INVALID_ARGUMENT,
                 "same last size");
  assert_failure(INFER(scaled_dot_product_attention, &out, q3, k3, shaped(CAIRN_F32, DIMS(4, 6, 16))), CAIRN_INVALID_ARGUMENT,
                 "last size only");
}

static cairn_status gather_mm(int64_t n_batch, const crn_tensor *operands, int n, crn_tensor *out) {
  crn_attr batch = {.kind = CRN_ATTR_INT, .key = "num_batch_axes", .i = n_batch}, dict = {.kind = CRN_ATTR_DICT, .list = {&batch, 1}};
  crn_infer_args args = {.id = CRN_OP_gather_mm, .attrs = &dict, .n_operands = n, .operands = operands, .n_results = 1, .results = out};
  return crn_infer_of(CRN_OP_gather_mm)(&args);
}

static void gathered_products(void **state) {
  (void)state;
  crn_tensor index = shaped(CAIRN_UI16, DIMS(1, 6, 2)), out = {.rank = -1};
  crn_tensor rhs_only[3] = {shaped(CAIRN_F32, DIMS(1, 6, 1, 1, 64)), shaped(CAIRN_F32, DIMS(8, 64, 128)), index};
  assert_int_equal(gather_mm(0, rhs_only, 3, &out), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 6, 2, 1, 128));
  crn_tensor lhs_only[3] = {shaped(CAIRN_F32, DIMS(8, 1, 64)), shaped(CAIRN_F32, DIMS(64, 128)), index};
  out = (crn_tensor){.rank = -1};
  assert_int_equal(gather_mm(0, lhs_only, 3, &out), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 6, 2, 1, 128));
  crn_tensor both[4] = {shaped(CAIRN_F32, DIMS(8, 1, 64)), shaped(CAIRN_F32, DIMS(8, 64, 128)), index, index};
  out = (crn_tensor){.rank = -1};
  assert_int_equal(gather_mm(0, both, 4, &out), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 6, 2, 1, 128));
  crn_tensor fused[3] = {shaped(CAIRN_F16, DIMS(1, ANY, 1, 1, 64)), shaped(CAIRN_F16, DIMS(2, 8, 64, 128)),
                         shaped(CAIRN_UI16, DIMS(1, ANY, 2))};
  out = (crn_tensor){.rank = -1};
  assert_int_equal(gather_mm(1, fused, 3, &out), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 1, ANY, 2, 1, 128));
  // Both readings of the index are possible: the declared result decides.
  crn_tensor either[3] = {shaped(CAIRN_F32, DIMS(8, 1, 64)), shaped(CAIRN_F32, DIMS(8, 64, 128)), shaped(CAIRN_UI16, DIMS(3, 8))};
  out = (crn_tensor){.rank = -1};
  assert_int_equal(gather_mm(0, either, 3, &out), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(3, 8, 1, 128));
  assert_failure(gather_mm(-1, rhs_only, 3, &out), CAIRN_INVALID_ARGUMENT, "num_batch_axes is -1");
  crn_tensor wrong[3] = {rhs_only[0], rhs_only[1], shaped(CAIRN_F32, DIMS(2))};
  assert_failure(gather_mm(0, wrong, 3, &out), CAIRN_INVALID_ARGUMENT, "integer");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gathers),
      cmocka_unit_test(scatters),
      cmocka_unit_test(nonzero_counts_when_it_can),
      cmocka_unit_test(compressed_constants),
      cmocka_unit_test(attention),
      cmocka_unit_test(gathered_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
