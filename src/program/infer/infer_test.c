#include "program/infer/testing.h"

static void every_ready_row_has_an_inference(void **state) {
  (void)state;
  for (int id = CRN_OP_NONE + 1; id < CRN_OP_COUNT; id++) {
    if (!crn_op_info_of((crn_op_id)id)->is_ready) assert_null(crn_infer_of((crn_op_id)id));
  }
  assert_non_null(crn_infer_of(CRN_OP_add));
  assert_null(crn_infer_of(CRN_OP_constant));
  assert_null(crn_infer_of(CRN_OP_NONE));
  assert_null(crn_infer_of((crn_op_id)-1));
  assert_null(crn_infer_of(CRN_OP_COUNT));
}

// No row may read operands or results that are not there, whatever the file says: arrays of the exact size let the address
// sanitizer notice.
static void missing_operands_are_failures(void **state) {
  (void)state;
  for (int id = CRN_OP_NONE + 1; id < CRN_OP_COUNT; id++) {
    crn_infer_fn fn = crn_infer_of((crn_op_id)id);
    if (!fn) continue;
    int needed = crn_op_info_of((crn_op_id)id)->n_operands;
    needed = needed < 0 ? -needed - 1 : needed;
    for (int n = 0; n <= needed; n++) {
      crn_tensor *operands = test_malloc((size_t)n * sizeof *operands + 1), out = {.rank = -1};
      for (int i = 0; i < n; i++) operands[i] = shaped(CAIRN_SI32, DIMS(ANY));
      crn_infer_args args = {.id = (crn_op_id)id, .n_operands = n, .operands = operands, .n_results = 1, .results = &out};
      if (fn(&args) == CAIRN_OK && n == 0) fail_msg("%s infers from nothing", crn_op_info_of((crn_op_id)id)->name);
      args.n_results = 0;
      args.results = NULL;
      assert_int_not_equal(fn(&args), CAIRN_OK);
      test_free(operands);
    }
  }
}

static void broadcast_needs_equal_or_one(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(INFER(broadcasting_add, &out, shaped(CAIRN_F32, DIMS(2, 1, 4)), shaped(CAIRN_F32, DIMS(3, 1))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 3, 4));
  assert_int_equal(INFER(broadcasting_greater, &out, shaped(CAIRN_F16, DIMS(ANY, 1)), shaped(CAIRN_F16, DIMS(1, ANY))), CAIRN_OK);
  assert_shape(&out, CAIRN_BOOL, DIMS(ANY, ANY));
  assert_int_equal(INFER(broadcasting_mul, &out, shaped(CAIRN_F16, DIMS(ANY, 0)), shaped(CAIRN_F16, DIMS(5, 1))), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(5, 0));
  assert_int_equal(INFER(broadcasting_mul, &out, scalar(CAIRN_F16), shaped(CAIRN_F16, DIMS(5))), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(5));
  assert_failure(INFER(broadcasting_add, &out, shaped(CAIRN_F32, DIMS(2, 3)), shaped(CAIRN_F32, DIMS(2))), CAIRN_INVALID_ARGUMENT,
                 "coreai.decomposable.broadcasting_add: shapes [2, 3] and [2] do not broadcast");
  assert_failure(INFER(broadcasting_add, &out, shaped(CAIRN_F32, DIMS(2)), shaped(CAIRN_F16, DIMS(2))), CAIRN_INVALID_ARGUMENT,
                 "operand 0 is float32 and operand 1 is float16");
}

static void plain_elementwise_needs_the_same_shape(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(INFER(add, &out, shaped(CAIRN_SI8, DIMS(ANY, 3)), shaped(CAIRN_SI8, DIMS(2, ANY))), CAIRN_OK);
  assert_shape(&out, CAIRN_SI8, DIMS(2, 3));
  assert_int_equal(INFER(equal, &out, shaped(CAIRN_SI8, DIMS(2)), shaped(CAIRN_SI8, DIMS(2))), CAIRN_OK);
  assert_shape(&out, CAIRN_BOOL, DIMS(2));
  assert_failure(INFER(add, &out, shaped(CAIRN_F32, DIMS(2, 3)), shaped(CAIRN_F32, DIMS(1, 3))), CAIRN_INVALID_ARGUMENT,
                 "must be the same");
  assert_failure(INFER(add, &out, shaped(CAIRN_F32, DIMS(1)), scalar(CAIRN_F32)), CAIRN_INVALID_ARGUMENT, "[1] and operand 1 has []");
}

static void where_checks_all_three(void **state) {
  (void)state;
  crn_tensor out, mask = shaped(CAIRN_BOOL, DIMS(2, ANY));
  assert_int_equal(INFER(where, &out, mask, shaped(CAIRN_F16, DIMS(ANY, ANY)), shaped(CAIRN_F16, DIMS(ANY, 3))), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 3));
  assert_failure(INFER(where, &out, shaped(CAIRN_BOOL, DIMS(4)), shaped(CAIRN_F16, DIMS(ANY)), shaped(CAIRN_F16, DIMS(3))),
                 CAIRN_INVALID_ARGUMENT, "operand 0 has shape [4] and operand 2 has [3]");
  assert_failure(INFER(where, &out, shaped(CAIRN_UI8, DIMS(4)), shaped(CAIRN_F16, DIMS(4)), shaped(CAIRN_F16, DIMS(4))),
                 CAIRN_INVALID_ARGUMENT, "the condition must be bool");
  assert_int_equal(INFER(broadcasting_where, &out, shaped(CAIRN_BOOL, DIMS(2, 1)), shaped(CAIRN_SI32, DIMS(3)), scalar(CAIRN_SI32)),
                   CAIRN_OK);
  assert_shape(&out, CAIRN_SI32, DIMS(2, 3));
}

static void declared_result_types_are_used_and_checked(void **state) {
  (void)state;
  crn_tensor x = shaped(CAIRN_F32, DIMS(2, ANY)), out;
  assert_int_equal(INFER_DTYPE(cast, CAIRN_SI8, &out, x), CAIRN_OK);
  assert_shape(&out, CAIRN_SI8, DIMS(2, ANY));
  assert_failure(INFER(cast, &out, x), CAIRN_INVALID_ARGUMENT, "must be declared");
  assert_failure(INFER_DTYPE(abs, CAIRN_F16, &out, x), CAIRN_INVALID_ARGUMENT, "declared float16, its operands make it float32");

  crn_infer_args args = {.id = CRN_OP_abs, .n_operands = 1, .operands = &x, .n_results = 1, .results = &out};
  out = shaped(CAIRN_F32, DIMS(ANY, 5));
  assert_int_equal(crn_infer_of(CRN_OP_abs)(&args), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 5));
  out = shaped(CAIRN_F32, DIMS(3, 5));
  assert_failure(crn_infer_of(CRN_OP_abs)(&args), CAIRN_INVALID_ARGUMENT, "declared with shape [3, 5], its operands make it [2, ?]");
  out = shaped(CAIRN_F32, DIMS(2, 5, 1));
  assert_failure(crn_infer_of(CRN_OP_abs)(&args), CAIRN_INVALID_ARGUMENT, "coreai.abs: result 0");
}

static void reductions_keep_dims(void **state) {
  (void)state;
  crn_tensor x = shaped(CAIRN_F32, DIMS(2, 3, 1, ANY)), out;
  assert_int_equal(INFER(reduce_sum, &out, x, I32(-1, 1)), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(2, 1, 1, 1));
  assert_int_equal(INFER(reduce_sum, &out, x, shaped(CAIRN_SI32, DIMS(2))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(ANY, ANY, 1, ANY));
  assert_int_equal(INFER(reduce_max, &out, x, shaped(CAIRN_SI32, DIMS(4))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(1, 1, 1, 1));
  assert_failure(INFER(reduce_sum, &out, x, I32(4)), CAIRN_INVALID_ARGUMENT, "axis 4 is outside of [-4, 4)");
  assert_failure(INFER(reduce_sum, &out, x, I32(1, -3)), CAIRN_INVALID_ARGUMENT, "names axis 1 twice");
  assert_int_equal(INFER(argmax, &out, x, I32_SCALAR(1)), CAIRN_OK);
  assert_shape(&out, CAIRN_UI32, DIMS(2, 1, 1, ANY));
  assert_int_equal(INFER_DTYPE(argmax, CAIRN_UI16, &out, shaped(CAIRN_F16, DIMS(9)), scalar(CAIRN_SI32)), CAIRN_OK);
  assert_shape(&out, CAIRN_UI16, DIMS(1));
  assert_failure(INFER_DTYPE(argmax, CAIRN_F32, &out, x, I32_SCALAR(1)), CAIRN_INVALID_ARGUMENT, "index type");
  assert_int_equal(INFER(argsort, &out, x, I32_SCALAR(-1), scalar(CAIRN_BOOL), scalar(CAIRN_BOOL)), CAIRN_OK);
  assert_shape(&out, CAIRN_SI32, DIMS(2, 3, 1, ANY));
  assert_failure(INFER(sort, &out, x, I32_SCALAR(0), shaped(CAIRN_BOOL, DIMS(0)), scalar(CAIRN_BOOL)), CAIRN_INVALID_ARGUMENT,
                 "one element");
  assert_failure(INFER(scan, &out, x, I32_SCALAR(0), scalar(CAIRN_SI32)), CAIRN_INVALID_ARGUMENT, "must be bool");
  assert_failure(INFER(argmax, &out, scalar(CAIRN_F32), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT, "rank 0");
}

static void products_join_the_inner_size(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(INFER(batch_matmul, &out, shaped(CAIRN_F16, DIMS(ANY, 4, 5)), shaped(CAIRN_F16, DIMS(2, 5, 6))), CAIRN_OK);
  assert_shape(&out, CAIRN_F16, DIMS(2, 4, 6));
  assert_int_equal(INFER(broadcasting_batch_matmul, &out, shaped(CAIRN_F32, DIMS(3, 1, 4, 5)), shaped(CAIRN_F32, DIMS(5, 6))), CAIRN_OK);
  assert_shape(&out, CAIRN_F32, DIMS(3, 1, 4, 6));
  assert_failure(INFER(batch_matmul, &out, shaped(CAIRN_F32, DIMS(4, 5)), shaped(CAIRN_F32, DIMS(6, 4))), CAIRN_INVALID_ARGUMENT,
                 "[4, 5] times [6, 4]");
  assert_failure(INFER(batch_matmul, &out, shaped(CAIRN_F32, DIMS(1, 4, 5)), shaped(CAIRN_F32, DIMS(2, 5, 4))), CAIRN_INVALID_ARGUMENT,
                 "batch");
  assert_failure(INFER(batch_matmul, &out, shaped(CAIRN_F32, DIMS(5)), shaped(CAIRN_F32, DIMS(5, 4))), CAIRN_INVALID_ARGUMENT, "rank 1");
}

static void ranks_are_limited(void **state) {
  (void)state;
  crn_tensor out, x = shaped(CAIRN_F32, DIMS(1));
  x.rank = CAIRN_MAX_RANK + 1;
  assert_failure(INFER(abs, &out, x), CAIRN_INVALID_ARGUMENT, "rank");
  x.rank = -1;
  assert_failure(INFER(abs, &out, x), CAIRN_INVALID_ARGUMENT, "rank");
  crn_tensor full = {.dtype = CAIRN_F32, .rank = CAIRN_MAX_RANK};
  for (int i = 0; i < CAIRN_MAX_RANK; i++) full.dims[i] = 1;
  assert_failure(INFER(expand_dims, &out, full, I32(0)), CAIRN_INVALID_ARGUMENT, "at most");
  assert_failure(INFER(gather_nd, &out, full, shaped(CAIRN_SI32, DIMS(2, 2, 1))), CAIRN_INVALID_ARGUMENT, "at most");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_ready_row_has_an_inference),
      cmocka_unit_test(missing_operands_are_failures),
      cmocka_unit_test(broadcast_needs_equal_or_one),
      cmocka_unit_test(plain_elementwise_needs_the_same_shape),
      cmocka_unit_test(where_checks_all_three),
      cmocka_unit_test(declared_result_types_are_used_and_checked),
      cmocka_unit_test(reductions_keep_dims),
      cmocka_unit_test(products_join_the_inner_size),
      cmocka_unit_test(ranks_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
