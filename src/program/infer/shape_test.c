#include "program/infer/testing.h"

static void slice_bounds_follow_the_rules(void **state) {
  (void)state;
  // n, start, end, stride -> first, count
  static const int64_t cases[][6] = {
      {10, 2, 5, 1, 2, 3},
      {10, -3, 10, 1, 7, 3},
      {10, 0, 99, 3, 0, 4},
      {10, 12, 20, 1, 10, 0},
      {10, 5, 2, 1, 5, 0},
      {10, -99, 3, 1, 0, 3},
      {10, 9, -99, -1, 9, 10},
      {10, 9, -1, -1, 9, 0},
      {10, 99, 5, -2, 9, 2},
      {0, 0, 5, 1, 0, 0},
      {0, 0, -5, -1, -1, 0},
      {10, 0, 10, INT64_MAX, 0, 1},
      {10, 9, -99, INT64_MIN, 9, 1},
      {5, INT64_MIN, INT64_MAX, 1, 0, 5},
      {5, INT64_MAX, INT64_MIN, -1, 4, 5},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t *c = cases[i];
    int64_t first, count;
    crn_slice_bounds(c[0], c[1], c[2], c[3], &first, &count);
    assert_int_equal(count, c[5]);
    assert_int_equal(first, c[4]);
  }
}

static void slice_and_slice_update(void **state) {
  (void)state;
  crn_tensor x = shaped(CAIRN_F32, DIMS(4, ANY, 6)), out;
  assert_int_equal(INFER(slice, &out, x, I32(1, 0, -2), I32(3, 5, 99), I32(1, 1, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, ANY, 2));
  assert_int_equal(INFER(slice, &out, x, shaped(CAIRN_SI32, DIMS(3)), I32(3, 5, 99), I32(1, 1, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(ANY, ANY, ANY));
  assert_failure(INFER(slice, &out, x, I32(1, 0, 0), I32(3, 5, 9), I32(1, 0, 1)), CAIRN_INVALID_ARGUMENT, "stride 0 in dimension 1");
  assert_failure(INFER(slice, &out, x, I32(1, 0), I32(3, 5, 9), I32(1, 1, 1)), CAIRN_INVALID_ARGUMENT,
                 "operand 1 has 2 entries, it must have 3");
  assert_failure(INFER(slice, &out, x, shaped(CAIRN_F32, DIMS(3)), I32(3, 5, 9), I32(1, 1, 1)), CAIRN_INVALID_ARGUMENT, "integer");
  crn_tensor base = shaped(CAIRN_F16, DIMS(4, 6)), update = shaped(CAIRN_F16, DIMS(2, 6));
  assert_int_equal(INFER(slice_update, &out, base, I32(1, 0), I32(3, 6), I32(1, 1), update), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(4, 6));
  assert_failure(INFER(slice_update, &out, base, I32(1, 0), I32(4, 6), I32(1, 1), update), CAIRN_INVALID_ARGUMENT,
                 "operand 4 has size 2 in dimension 0, the slice takes 3");
}

static void reshape_finds_one_size(void **state) {
  (void)state;
  crn_tensor x = shaped(CAIRN_F32, DIMS(2, 3, 4)), out;
  assert_int_equal(INFER(reshape, &out, x, I32(6, -1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(6, 4));
  assert_int_equal(INFER(reshape, &out, x, U32(24)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(24));
  assert_int_equal(INFER(reshape, &out, shaped(CAIRN_F32, DIMS(1, 1)), shaped(CAIRN_SI32, DIMS(0))), CAIRN_OK);
  assert_int_equal(out.rank, 0);
  assert_int_equal(INFER(reshape, &out, shaped(CAIRN_F32, DIMS(ANY, 4)), I32(2, -1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, ANY));
  assert_int_equal(INFER(reshape, &out, shaped(CAIRN_F32, DIMS(0, 4)), I32(2, -1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 0));
  assert_int_equal(INFER(reshape, &out, x, shaped(CAIRN_UI32, DIMS(2))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(ANY, ANY));
  assert_failure(INFER(reshape, &out, x, I32(5, -1)), CAIRN_INVALID_ARGUMENT, "shape [2, 3, 4] cannot become [5, ?]");
  assert_failure(INFER(reshape, &out, x, I32(5, 5)), CAIRN_INVALID_ARGUMENT, "number of elements differs");
  assert_failure(INFER(reshape, &out, shaped(CAIRN_F32, DIMS(0)), I32(0, -1)), CAIRN_INVALID_ARGUMENT, "number of elements differs");
  assert_failure(INFER(reshape, &out, x, I32(-1, -1)), CAIRN_INVALID_ARGUMENT, "one -1");
  assert_failure(INFER(reshape, &out, x, I32(-2, 12)), CAIRN_INVALID_ARGUMENT, "holds -2");
  assert_failure(INFER(reshape, &out, x, U32(4294967295u, 4294967295u, 4294967295u)), CAIRN_INVALID_ARGUMENT, "number of elements differs");
  assert_failure(INFER(reshape, &out, x, shaped(CAIRN_SI32, DIMS(ANY))), CAIRN_INVALID_ARGUMENT, "length of operand 1");
}

static void broadcasts_grow_only_size_one(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(INFER(broadcast_to, &out, shaped(CAIRN_F32, DIMS(1, 4)), U32(2, 3, 4)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 3, 4));
  assert_int_equal(INFER(broadcast_to, &out, shaped(CAIRN_F32, DIMS(7, 1)), shaped(CAIRN_UI32, DIMS(3))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(ANY, 7, ANY));
  assert_failure(INFER(broadcast_to, &out, shaped(CAIRN_F32, DIMS(2, 4)), U32(3, 4)), CAIRN_INVALID_ARGUMENT, "size 2 and cannot become 3");
  assert_failure(INFER(broadcast_to, &out, shaped(CAIRN_F32, DIMS(2, 4)), U32(4)), CAIRN_INVALID_ARGUMENT, "1 sizes for the 2 dimensions");
  assert_failure(INFER(broadcast_to, &out, shaped(CAIRN_F32, DIMS(1)), U32(4294967295u, 4294967295u, 4294967295u)), CAIRN_OUT_OF_RANGE,
                 "not possible in memory");
  assert_failure(INFER(broadcast_to, &out, shaped(CAIRN_F32, DIMS(1)), I32(-4)), CAIRN_INVALID_ARGUMENT, "size -4");
  // A declared floating type wins over the operand's, any other difference is an error.
  assert_int_equal(INFER_DTYPE(broadcast_to, CAIRN_BF16, &out, shaped(CAIRN_F32, DIMS(1, 1)), U32(2, 3)), CAIRN_OK);
  assert_shape(&out, CAIRN_BF16, DIMS(2, 3));
  assert_failure(INFER_DTYPE(broadcast_to, CAIRN_SI32, &out, shaped(CAIRN_F32, DIMS(1, 1)), U32(2, 3)), CAIRN_INVALID_ARGUMENT,
                 "declared int32, its operands make it float32");
  assert_int_equal(INFER(broadcast_in_dims, &out, shaped(CAIRN_F32, DIMS(1, 4, 1)), U32(5, 2), I32(-1, 0)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 4, 5));
  assert_int_equal(INFER(broadcast_in_dims, &out, shaped(CAIRN_F32, DIMS(1, 4, 1)), shaped(CAIRN_UI32, DIMS(1)), I32(2)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 4, ANY));
  assert_failure(INFER(broadcast_in_dims, &out, shaped(CAIRN_F32, DIMS(1, 4)), U32(5), I32(1)), CAIRN_INVALID_ARGUMENT, "dimension 1");
  assert_failure(INFER(broadcast_in_dims, &out, shaped(CAIRN_F32, DIMS(1, 4)), U32(5, 6), I32(0)), CAIRN_INVALID_ARGUMENT,
                 "2 sizes for the 1 axes");
  assert_int_equal(INFER(broadcast_shapes, &out, U32(2, 1, 4), U32(4)), CAIRN_OK);
  assert_shape(&out, CAIRN_UI32, DIMS(3));
}

static void dims_come_and_go(void **state) {
  (void)state;
  crn_tensor x = shaped(CAIRN_F32, DIMS(3, 4)), out;
  assert_int_equal(INFER(expand_dims, &out, x, I32(-1, 0)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 3, 4, 1));
  assert_failure(INFER(expand_dims, &out, x, I32(3)), CAIRN_INVALID_ARGUMENT, "axis 3 is outside of [-3, 3)");
  assert_int_equal(INFER(shrink_dims, &out, shaped(CAIRN_F32, DIMS(1, 3, ANY)), I32(-1, 0)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(3));
  assert_failure(INFER(shrink_dims, &out, x, I32(0)), CAIRN_INVALID_ARGUMENT, "dimension 0 has size 3");
  assert_int_equal(INFER(transpose, &out, shaped(CAIRN_F32, DIMS(2, 3, 4)), U32(2, 0, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(4, 2, 3));
  assert_failure(INFER(transpose, &out, x, U32(1, 1)), CAIRN_INVALID_ARGUMENT, "axis 1 twice");
  assert_failure(INFER(transpose, &out, x, U32(0)), CAIRN_INVALID_ARGUMENT, "must have 2");
  assert_int_equal(INFER(get_shape, &out, x), CAIRN_OK);
  assert_shape(&out, CAIRN_UI32, DIMS(2));
}

static void concat_split_tile(void **state) {
  (void)state;
  crn_tensor out, a = shaped(CAIRN_F32, DIMS(2, ANY)), b = shaped(CAIRN_F32, DIMS(3, 4));
  assert_int_equal(INFER(concat, &out, I32_SCALAR(-2), a, b, b), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(8, 4));
  assert_int_equal(INFER(concat, &out, I32_SCALAR(0), shaped(CAIRN_UI32, DIMS(2)), scalar(CAIRN_UI32), scalar(CAIRN_UI32)), CAIRN_OK);
  assert_shape(&out, CAIRN_UI32, DIMS(4));
  assert_failure(INFER(concat, &out, I32_SCALAR(1), a, b), CAIRN_INVALID_ARGUMENT, "operand 2 has size 3 in dimension 0");
  assert_failure(INFER(concat, &out, I32_SCALAR(0), b, scalar(CAIRN_F32)), CAIRN_INVALID_ARGUMENT, "operand 2 has rank 0");
  assert_failure(INFER(concat, &out, I32_SCALAR(2), a, b), CAIRN_INVALID_ARGUMENT, "axis 2");
  assert_failure(INFER(concat, &out, I32_SCALAR(0), shaped(CAIRN_UI8, DIMS(INT64_MAX)), shaped(CAIRN_UI8, DIMS(5))), CAIRN_OUT_OF_RANGE,
                 "too large");

  crn_tensor results[3] = {{.rank = -1}, {.rank = -1}, {.rank = -1}}, operands[3] = {shaped(CAIRN_F32, DIMS(2, 7)), U32(0), I32_SCALAR(1)};
  crn_infer_args args = {.id = CRN_OP_split, .n_operands = 3, .operands = operands, .n_results = 3, .results = results};
  uint32_t chunk = 3, sizes[3] = {1, 2, 4};
  operands[1] = crn_tensor_make(CAIRN_UI32, NULL, 0, &chunk);
  assert_int_equal(crn_infer_of(CRN_OP_split)(&args), CAIRN_OK);
  assert_shape(&results[1], CAIRN_F32, DIMS(2, 3));
  assert_shape(&results[2], CAIRN_F32, DIMS(2, 1));
  operands[1] = vector_over(CAIRN_UI32, sizes, 3);
  for (int i = 0; i < 3; i++) results[i] = (crn_tensor){.rank = -1};
  assert_int_equal(crn_infer_of(CRN_OP_split)(&args), CAIRN_OK);
  assert_shape(&results[2], CAIRN_F32, DIMS(2, 4));
  sizes[2] = 5;
  for (int i = 0; i < 3; i++) results[i] = (crn_tensor){.rank = -1};
  assert_failure(crn_infer_of(CRN_OP_split)(&args), CAIRN_INVALID_ARGUMENT, "do not make up the size 7");
  args.n_results = 2;
  assert_failure(crn_infer_of(CRN_OP_split)(&args), CAIRN_INVALID_ARGUMENT, "3 sizes for 2 results");

  assert_int_equal(INFER(tile, &out, shaped(CAIRN_F32, DIMS(2, 3)), U32(4)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 12));
  assert_int_equal(INFER(tile, &out, shaped(CAIRN_F32, DIMS(3)), U32(2, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 3));
  assert_failure(INFER(tile, &out, shaped(CAIRN_F32, DIMS(INT64_MAX / 2)), U32(4)), CAIRN_OUT_OF_RANGE, "too large");
}

static crn_tensor one(cairn_dtype dtype, void *value) { return crn_tensor_make(dtype, NULL, 0, value); }

static void range_counts(void **state) {
  (void)state;
  static const struct {
    int32_t from, to, by;
    int64_t count;
  } cases[] = {{0, 5, 1, 5}, {0, 5, 2, 3}, {5, 0, -2, 3}, {5, 0, 1, 0}, {INT32_MIN, INT32_MAX, INT32_MAX, 3}, {3, 3, 1, 0}};
  crn_tensor out;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t v[3] = {cases[i].from, cases[i].to, cases[i].by};
    assert_int_equal(INFER(range, &out, one(CAIRN_SI32, &v[0]), one(CAIRN_SI32, &v[1]), one(CAIRN_SI32, &v[2])), CAIRN_OK);
    assert_shape(&out, CAIRN_SI32, DIMS(cases[i].count));
  }
  float f[3] = {0, 1, 0.25f}, nan[3] = {0, NAN, 1}, zero[3] = {0, 1, 0}, tiny[3] = {0, 1e30f, 1e-30f};
  assert_int_equal(INFER(range, &out, one(CAIRN_F32, &f[0]), one(CAIRN_F32, &f[1]), one(CAIRN_F32, &f[2])), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(4));
  assert_failure(INFER(range, &out, one(CAIRN_F32, &nan[0]), one(CAIRN_F32, &nan[1]), one(CAIRN_F32, &nan[2])), CAIRN_INVALID_ARGUMENT,
                 "no finite range");
  assert_failure(INFER(range, &out, one(CAIRN_F32, &zero[0]), one(CAIRN_F32, &zero[1]), one(CAIRN_F32, &zero[2])), CAIRN_INVALID_ARGUMENT,
                 "step must not be 0");
  assert_failure(INFER(range, &out, one(CAIRN_F32, &tiny[0]), one(CAIRN_F32, &tiny[1]), one(CAIRN_F32, &tiny[2])), CAIRN_INVALID_ARGUMENT,
                 "no finite range");
  uint64_t u[3] = {0, UINT64_MAX, 1};
  assert_failure(INFER(range, &out, one(CAIRN_UI64, &u[0]), one(CAIRN_UI64, &u[1]), one(CAIRN_UI64, &u[2])), CAIRN_INVALID_ARGUMENT,
                 "no finite range");
  assert_int_equal(INFER(range, &out, scalar(CAIRN_SI32), scalar(CAIRN_SI32), scalar(CAIRN_SI32)), CAIRN_OK);
  assert_shape(&out, CAIRN_SI32, DIMS(ANY));
  assert_failure(INFER(range, &out, shaped(CAIRN_SI32, DIMS(2)), scalar(CAIRN_SI32), scalar(CAIRN_SI32)), CAIRN_INVALID_ARGUMENT,
                 "one element");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slice_bounds_follow_the_rules),
      cmocka_unit_test(slice_and_slice_update),
      cmocka_unit_test(reshape_finds_one_size),
      cmocka_unit_test(broadcasts_grow_only_size_one),
      cmocka_unit_test(dims_come_and_go),
      cmocka_unit_test(concat_split_tile),
      cmocka_unit_test(range_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
