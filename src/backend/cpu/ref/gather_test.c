#include "backend/cpu/ref/ref_testing.h"

#define RUN(op, out, ...) test_run((test_call){.id = CRN_OP_##op}, OPERANDS(__VA_ARGS__), out)
#define RUN_MODE(op, m, out, ...) test_run((test_call){.id = CRN_OP_##op, .mode = m}, OPERANDS(__VA_ARGS__), out)

static void along_an_axis(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(0, 1, 2, 10, 11, 12), DIMS(2, 3));
  assert_int_equal(RUN(gather_along_axis, &out, x, shape_as(I32(2, 0, -1, -3), DIMS(2, 2)), I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(2, 0, 12, 10));
  assert_int_equal(RUN(gather_along_axis, &out, x, shape_as(I32(1, 0, 1), DIMS(1, 3)), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(10, 1, 12));
  // An index broadcast over the last dimension moves rows; the result is the same for a transposed input.
  crn_tensor rows = shape_as(I32(1, 0, 1), DIMS(3, 1));
  rows.dims[1] = 3;
  rows.strides[1] = 0;
  assert_int_equal(RUN(gather_along_axis, &out, x, rows, I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(10, 11, 12, 0, 1, 2, 10, 11, 12));
  crn_tensor turned = x;
  turned.dims[0] = 3;
  turned.dims[1] = 2;
  turned.strides[0] = 1;
  turned.strides[1] = 3;
  rows.dims[1] = 2;
  assert_int_equal(RUN(gather_along_axis, &out, turned, rows, I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1, 11, 0, 10, 1, 11));
  assert_failure(RUN(gather_along_axis, &out, x, shape_as(I32(0, 3, 7, 0), DIMS(2, 2)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT,
                 "index 3 is outside of [-3, 3), the range of dimension 1");
  assert_failure(RUN(gather_along_axis, &out, x, shape_as(I32(-4), DIMS(1, 1)), I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "index -4");
}

static void by_vectors(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(0, 1, 2, 10, 11, 12), DIMS(2, 3));
  assert_int_equal(RUN(gather_nd, &out, x, shape_as(I32(1, -1, 0, 0), DIMS(2, 2))), CAIRN_OK);
  assert_values(&out, VALUES(12, 0));
  assert_int_equal(RUN(gather_nd, &out, x, shape_as(I32(-1, 0, 1), DIMS(3, 1))), CAIRN_OK);
  assert_dims(&out, DIMS(3, 3));
  assert_values(&out, VALUES(10, 11, 12, 0, 1, 2, 10, 11, 12));
  crn_tensor turned = x;
  turned.dims[0] = 3;
  turned.dims[1] = 2;
  turned.strides[0] = 1;
  turned.strides[1] = 3;
  assert_int_equal(RUN(gather_nd, &out, turned, shape_as(I32(2, 0), DIMS(2, 1))), CAIRN_OK);
  assert_values(&out, VALUES(2, 12, 0, 10));
  assert_int_equal(RUN(gather_nd, &out, x, shape_as(I32(0), DIMS(1, 0))), CAIRN_OK);
  assert_dims(&out, DIMS(1, 2, 3));
  assert_values(&out, VALUES(0, 1, 2, 10, 11, 12));
  assert_failure(RUN(gather_nd, &out, x, shape_as(I32(0, 0, 1, 3, 2, 0), DIMS(3, 2))), CAIRN_INVALID_ARGUMENT,
                 "index 3 is outside of [-3, 3), the range of dimension 1");
}

// The first bad index in row-major order is named whatever the threads do.
static void the_first_bad_index_is_named(void **state) {
  (void)state;
  enum { N = 200000 };
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 4, &pool), CAIRN_OK);
  int32_t *index = calloc(N, sizeof *index);
  assert_non_null(index);
  for (int i = 0; i < 20; i++) index[N - 1 - i * 9001] = 100 + i;
  int64_t dims[2] = {N, 1};
  crn_tensor x = F32(1, 2, 3), at = crn_tensor_make(CAIRN_SI32, dims, 2, index), flat = crn_tensor_make(CAIRN_SI32, dims, 1, index), out;
  for (int i = 0; i < 20; i++) {
    assert_failure(test_run((test_call){.id = CRN_OP_gather_nd, .pool = pool}, OPERANDS(x, at), &out), CAIRN_INVALID_ARGUMENT, "index 119");
    assert_failure(test_run((test_call){.id = CRN_OP_gather_along_axis, .pool = pool}, OPERANDS(x, flat, I32_SCALAR(0)), &out),
                   CAIRN_INVALID_ARGUMENT, "index 119");
  }
  free(index);
  crn_pool_destroy(pool);
}

static void scatters_along_an_axis(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4, 5, 6), DIMS(2, 3)), index = shape_as(I32(0, 0, -1, 5), DIMS(2, 2)),
                  update = shape_as(F32(10, 20, 30, 40), DIMS(2, 2));
  // Duplicates are applied in order; 5 and everything else outside is left out.
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_UPDATE, &out, x, index, update, I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(20, 2, 3, 4, 5, 30));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_ADD, &out, x, index, update, I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(31, 2, 3, 4, 5, 36));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_SUB, &out, x, index, update, I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(-29, 2, 3, 4, 5, -24));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_MUL, &out, x, index, update, I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(200, 2, 3, 4, 5, 180));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_DIV, &out, x, index, update, I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES((float)((float)(1.0f / 10) / 20), 2, 3, 4, 5, (float)(6.0f / 30)));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_MAX, &out, x, index, update, I32_SCALAR(1)), CAIRN_OK);
  assert_values(&out, VALUES(20, 2, 3, 4, 5, 30));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_MIN, &out, x, index, update, I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(1, 2, 3, 4, 5, 6));
  assert_int_equal(RUN_MODE(scatter_along_axis, CRN_SCATTER_DIV, &out, I32(-7, INT32_MIN), I32(0, 1), I32(2, -1), I32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(-3, INT32_MIN));
  assert_failure(RUN_MODE(scatter_along_axis, CRN_SCATTER_DIV, &out, I32(1, 2), I32(0, 1), I32(1, 0), I32_SCALAR(0)),
                 CAIRN_INVALID_ARGUMENT, "zero");
}

static void scatters_by_vectors(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4, 5, 6), DIMS(3, 2));
  assert_int_equal(RUN(scatter_nd, &out, x, shape_as(I32(2, 0, -1), DIMS(3, 1)), shape_as(F32(10, 11, 20, 21, 30, 31), DIMS(3, 2))),
                   CAIRN_OK);
  assert_values(&out, VALUES(20, 21, 3, 4, 30, 31));
  assert_int_equal(RUN(scatter_nd, &out, x, shape_as(I32(0, 1, 2, -2), DIMS(2, 2)), F32(7, 8)), CAIRN_OK);
  assert_values(&out, VALUES(1, 7, 3, 4, 8, 6));
  // One row of updates for every index vector, one column for every row, one element for all.
  assert_int_equal(RUN(scatter_nd, &out, x, shape_as(I32(0, -1), DIMS(2, 1)), F32(7, 8)), CAIRN_OK);
  assert_values(&out, VALUES(7, 8, 3, 4, 7, 8));
  assert_int_equal(RUN(scatter_nd, &out, x, shape_as(I32(0, -1), DIMS(2, 1)), shape_as(F32(7, 8), DIMS(2, 1))), CAIRN_OK);
  assert_values(&out, VALUES(7, 7, 3, 4, 8, 8));
  assert_int_equal(RUN(scatter_nd, &out, x, shape_as(I32(0, 1, 2, 0), DIMS(2, 2)), F32_SCALAR(9)), CAIRN_OK);
  assert_values(&out, VALUES(1, 9, 3, 4, 9, 6));
  assert_failure(RUN(scatter_nd, &out, x, shape_as(I32(0, 1, 2, 2), DIMS(2, 2)), F32(7, 8)), CAIRN_INVALID_ARGUMENT,
                 "index 2 is outside of [-2, 2)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(along_an_axis),          cmocka_unit_test(by_vectors),          cmocka_unit_test(the_first_bad_index_is_named),
      cmocka_unit_test(scatters_along_an_axis), cmocka_unit_test(scatters_by_vectors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
