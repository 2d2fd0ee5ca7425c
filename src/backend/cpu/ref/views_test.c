#include "backend/cpu/ref/ref_testing.h"

enum { ROOM = 4096 };

static int32_t numbers[ROOM];

static void number_everything(void) {
  for (int i = 0; i < ROOM; i++) numbers[i] = i * 7 + 1;
}

// A tensor over `numbers` with random shape and strides (permuted, reversed, spaced).
static crn_tensor random_tensor(uint32_t *seed, int least_rank) {
  crn_tensor t = {.dtype = CAIRN_SI32, .rank = least_rank + (int)(test_random(seed) % 4)};
  int64_t step = 1, start = 0;
  for (int i = t.rank - 1; i >= 0; i--) {
    t.dims[i] = 1 + test_random(seed) % 4;
    t.strides[i] = step;
    step *= t.dims[i] + test_random(seed) % 2;
  }
  if (t.rank > 1 && test_random(seed) % 2) {
    int a = (int)(test_random(seed) % (uint32_t)t.rank), b = (int)(test_random(seed) % (uint32_t)t.rank);
    int64_t d = t.dims[a], s = t.strides[a];
    t.dims[a] = t.dims[b];
    t.strides[a] = t.strides[b];
    t.dims[b] = d;
    t.strides[b] = s;
  }
  for (int i = 0; i < t.rank; i++) {
    if (test_random(seed) % 4) continue;
    start += (t.dims[i] - 1) * t.strides[i];
    t.strides[i] = -t.strides[i];
  }
  t.data = numbers + start;
  return t;
}

static int32_t element(const crn_tensor *t, const int64_t *at) {
  int64_t offset = 0;
  for (int i = 0; i < t->rank; i++) offset += at[i] * t->strides[i];
  return *(int32_t *)crn_tensor_at(t, offset);
}

// Runs an op as a view and as a copy and checks that they agree. The copy is released by the caller.
static bool run_both(test_call call, const crn_tensor *operands, int n, crn_tensor *out_copies) {
  assert_int_equal(test_run(call, operands, n, out_copies), CAIRN_OK);
  int n_results = call.n_results ? call.n_results : 1;
  crn_tensor views[8];
  for (int i = 0; i < n_results; i++) {
    views[i] = out_copies[i];
    views[i].data = NULL;
    for (int d = 0; d < CAIRN_MAX_RANK; d++) views[i].strides[d] = 12345;
  }
  crn_kernel_args args = {.id = call.id, .n_operands = n, .operands = operands, .n_results = n_results, .results = views};
  bool done;
  assert_int_equal(crn_ref_view_of(call.id)(&args, &done), CAIRN_OK);
  for (int i = 0; done && i < n_results; i++) {
    assert_true(crn_tensor_same_shape(&views[i], &out_copies[i]));
    assert_int_equal(views[i].dtype, out_copies[i].dtype);
    crn_nd_iter it;
    crn_nd_initialize(&it, views[i].rank, views[i].dims);
    crn_nd_operand(&it, views[i].strides);
    crn_nd_operand(&it, out_copies[i].strides);
    for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
      assert_int_equal(*(int32_t *)crn_tensor_at(&views[i], it.offset[0]), *(int32_t *)crn_tensor_at(&out_copies[i], it.offset[1]));
    }
  }
  return done;
}

static void transposes(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int round = 0; round < 200; round++) {
    crn_tensor x = random_tensor(&seed, 0), out;
    uint32_t order[CAIRN_MAX_RANK];
    for (int i = 0; i < x.rank; i++) order[i] = (uint32_t)i;
    for (int i = x.rank - 1; i > 0; i--) {
      uint32_t j = test_random(&seed) % (uint32_t)(i + 1), swap = order[i];
      order[i] = order[j];
      order[j] = swap;
    }
    assert_true(run_both((test_call){.id = CRN_OP_transpose}, OPERANDS(x, over(CAIRN_UI32, order, x.rank)), &out));
    for (int64_t p = 0; p < crn_tensor_count(&out); p++) {
      int64_t at[CAIRN_MAX_RANK], from[CAIRN_MAX_RANK], rest = p;
      for (int i = out.rank - 1; i >= 0; i--) {
        at[i] = rest % out.dims[i];
        rest /= out.dims[i];
      }
      for (int i = 0; i < out.rank; i++) from[order[i]] = at[i];
      assert_int_equal(element(&out, at), element(&x, from));
    }
    test_release(&out, 1);
  }
}

static int64_t in_range(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

static void slices(void **state) {
  (void)state;
  uint32_t seed = 2;
  for (int round = 0; round < 500; round++) {
    crn_tensor x = random_tensor(&seed, 1), out;
    int32_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK];
    for (int i = 0; i < x.rank; i++) {
      start[i] = (int32_t)(test_random(&seed) % 13) - 6;
      end[i] = (int32_t)(test_random(&seed) % 13) - 6;
      stride[i] = (int32_t)(test_random(&seed) % 7) - 3;
      if (stride[i] == 0) stride[i] = 1;
    }
    assert_true(run_both((test_call){.id = CRN_OP_slice},
                         OPERANDS(x, over(CAIRN_SI32, start, x.rank), over(CAIRN_SI32, end, x.rank), over(CAIRN_SI32, stride, x.rank)),
                         &out));
    // The elements as a plain loop over the bounds finds them.
    int64_t picks[CAIRN_MAX_RANK][8];
    for (int i = 0; i < x.rank; i++) {
      int64_t n = x.dims[i], count = 0, low = stride[i] > 0 ? 0 : -1, high = stride[i] > 0 ? n : n - 1;
      int64_t s = in_range(start[i] < 0 ? start[i] + n : start[i], low, high), e = in_range(end[i] < 0 ? end[i] + n : end[i], low, high);
      for (int64_t k = s; stride[i] > 0 ? k < e : k > e; k += stride[i]) picks[i][count++] = k;
      assert_int_equal(out.dims[i], count);
    }
    for (int64_t p = 0; p < crn_tensor_count(&out); p++) {
      int64_t at[CAIRN_MAX_RANK], from[CAIRN_MAX_RANK], rest = p;
      for (int i = out.rank - 1; i >= 0; i--) {
        at[i] = rest % out.dims[i];
        rest /= out.dims[i];
        from[i] = picks[i][at[i]];
      }
      assert_int_equal(element(&out, at), element(&x, from));
    }
    test_release(&out, 1);
  }
}

// Row-major order is what a reshape keeps: both sides are read element by element.
static void reshapes(void **state) {
  (void)state;
  uint32_t seed = 3;
  int viewed = 0, copied = 0;
  for (int round = 0; round < 500; round++) {
    crn_tensor x = random_tensor(&seed, 0), out;
    int32_t shape[4] = {1, 1, 1, 1};
    int64_t rest = crn_tensor_count(&x);
    for (int i = 0; i < 3; i++) {
      for (int32_t f = 2; f <= 3; f++) {
        while (rest % f == 0 && test_random(&seed) % 2) {
          shape[i] *= f;
          rest /= f;
        }
      }
    }
    shape[3] = -1;
    bool done = run_both((test_call){.id = CRN_OP_reshape}, OPERANDS(x, over(CAIRN_SI32, shape, 4)), &out);
    viewed += done;
    copied += !done;
    for (int64_t p = 0; p < crn_tensor_count(&x); p++) {
      int64_t from = 0, left = p;
      for (int i = x.rank - 1; i >= 0; i--) {
        from += left % x.dims[i] * x.strides[i];
        left /= x.dims[i];
      }
      assert_int_equal(((int32_t *)out.data)[p], *(int32_t *)crn_tensor_at(&x, from));
    }
    test_release(&out, 1);
  }
  // Both ways must have been taken, or the test says nothing about one of them.
  assert_true(viewed > 50 && copied > 50);
}

static void contiguous_reshapes_are_views(void **state) {
  (void)state;
  crn_tensor x = crn_tensor_make(CAIRN_SI32, DIMS(2, 3, 4), numbers), out;
  assert_true(run_both((test_call){.id = CRN_OP_reshape}, OPERANDS(x, I32(4, 1, -1)), &out));
  test_release(&out, 1);
  // Splitting and joining dims is possible in a transposed tensor, mixing them is not.
  crn_tensor t = crn_tensor_make(CAIRN_SI32, DIMS(4, 6), numbers);
  t.strides[0] = 1;
  t.strides[1] = 4;
  assert_true(run_both((test_call){.id = CRN_OP_reshape}, OPERANDS(t, I32(2, 2, 3, 2)), &out));
  test_release(&out, 1);
  assert_false(run_both((test_call){.id = CRN_OP_reshape}, OPERANDS(t, I32(24)), &out));
  test_release(&out, 1);
}

static void broadcasts(void **state) {
  (void)state;
  crn_tensor x = crn_tensor_make(CAIRN_SI32, DIMS(3, 1), numbers), out;
  assert_true(run_both((test_call){.id = CRN_OP_broadcast_to}, OPERANDS(x, U32(2, 3, 4)), &out));
  for (int i = 0; i < 24; i++) assert_int_equal(((int32_t *)out.data)[i], numbers[i / 4 % 3]);
  test_release(&out, 1);
  crn_tensor y = crn_tensor_make(CAIRN_SI32, DIMS(1, 3, 1), numbers);
  assert_true(run_both((test_call){.id = CRN_OP_broadcast_in_dims}, OPERANDS(y, U32(4, 2), I32(-1, 0)), &out));
  for (int i = 0; i < 24; i++) assert_int_equal(((int32_t *)out.data)[i], numbers[i / 4 % 3]);
  test_release(&out, 1);
  assert_true(run_both((test_call){.id = CRN_OP_broadcast_to}, OPERANDS(x, U32(3, 0)), &out));
  assert_dims(&out, DIMS(3, 0));
  test_release(&out, 1);
}

static void broadcasts_convert_to_a_declared_float(void **state) {
  (void)state;
  float values[] = {1.0f, -2.5f, 1.00390625f};  // the last one is half way between two bfloat16 values and goes to the even one
  crn_tensor x = crn_tensor_make(CAIRN_F32, DIMS(3, 1), values), out;
  assert_false(run_both((test_call){.id = CRN_OP_broadcast_to, .dtype = CAIRN_BF16}, OPERANDS(x, U32(2, 3, 4)), &out));
  assert_int_equal(out.dtype, CAIRN_BF16);
  assert_dims(&out, DIMS(2, 3, 4));
  const uint16_t expected[] = {0x3F80, 0xC020, 0x3F80};
  for (int i = 0; i < 24; i++) assert_int_equal(((uint16_t *)out.data)[i], expected[i / 4 % 3]);
  test_release(&out, 1);
}

static void dims_and_directions(void **state) {
  (void)state;
  crn_tensor x = crn_tensor_make(CAIRN_SI32, DIMS(2, 1, 3), numbers), out;
  assert_true(run_both((test_call){.id = CRN_OP_expand_dims}, OPERANDS(x, I32(0, -1)), &out));
  assert_dims(&out, DIMS(1, 2, 1, 3, 1));
  test_release(&out, 1);
  assert_true(run_both((test_call){.id = CRN_OP_shrink_dims}, OPERANDS(x, I32(1)), &out));
  assert_dims(&out, DIMS(2, 3));
  test_release(&out, 1);
  assert_true(run_both((test_call){.id = CRN_OP_reverse}, OPERANDS(x, I32(-1, 0)), &out));
  for (int i = 0; i < 6; i++) assert_int_equal(((int32_t *)out.data)[i], numbers[5 - i]);
  test_release(&out, 1);
  assert_true(run_both((test_call){.id = CRN_OP_cast, .dtype = CAIRN_SI32}, OPERANDS(x), &out));
  test_release(&out, 1);
  assert_true(run_both((test_call){.id = CRN_OP_coreaix_copy_with_constraints}, OPERANDS(x), &out));
  test_release(&out, 1);
  assert_true(run_both((test_call){.id = CRN_OP_sparse_with_bitmask_to_dense}, OPERANDS(x), &out));
  test_release(&out, 1);
}

static void splits(void **state) {
  (void)state;
  crn_tensor x = crn_tensor_make(CAIRN_SI32, DIMS(2, 7), numbers), out[3];
  uint32_t chunk = 3;
  assert_true(run_both((test_call){.id = CRN_OP_split, .n_results = 3},
                       OPERANDS(x, crn_tensor_make(CAIRN_UI32, NULL, 0, &chunk), I32_SCALAR(-1)), out));
  assert_dims(&out[2], DIMS(2, 1));
  assert_int_equal(((int32_t *)out[1].data)[4], numbers[7 + 4]);
  assert_int_equal(((int32_t *)out[2].data)[1], numbers[13]);
  test_release(out, 3);
  assert_true(run_both((test_call){.id = CRN_OP_split, .n_results = 2}, OPERANDS(x, U32(2, 0), I32_SCALAR(0)), out));
  assert_dims(&out[1], DIMS(0, 7));
  test_release(out, 2);
}

static void packed_operands_are_only_reshaped(void **state) {
  (void)state;
  uint8_t bits[3] = {0x21, 0x43, 0x65};
  crn_tensor x = crn_tensor_make(CAIRN_UI4, DIMS(2, 3), bits), view = crn_tensor_make(CAIRN_UI4, DIMS(6), NULL);
  x.packed = true;
  crn_tensor shape = I32(6);
  const crn_tensor operands[2] = {x, shape};
  crn_kernel_args args = {.id = CRN_OP_reshape, .n_operands = 2, .operands = operands, .n_results = 1, .results = &view};
  bool done = false;
  assert_int_equal(crn_view_reshape(&args, &done), CAIRN_OK);
  assert_true(done && view.packed && view.data == bits);
  args.id = CRN_OP_transpose;
  assert_int_equal(crn_view_transpose(&args, &done), CAIRN_OK);
  assert_false(done);
}

static void views_are_exactly_the_rows_with_the_trait(void **state) {
  (void)state;
  for (int id = 0; id < CRN_OP_COUNT; id++) {
    const crn_op_info *info = crn_op_info_of((crn_op_id)id);
    bool ready = crn_ref_kernel_of((crn_op_id)id) != NULL;
    assert_int_equal(crn_ref_view_of((crn_op_id)id) != NULL, ready && (info->traits & CRN_VIEW) != 0);
    assert_int_equal(ready, crn_infer_of((crn_op_id)id) != NULL);
  }
  assert_null(crn_ref_kernel_of((crn_op_id)-1));
  assert_null(crn_ref_view_of(CRN_OP_COUNT));
}

int main(void) {
  number_everything();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transposes),
      cmocka_unit_test(slices),
      cmocka_unit_test(reshapes),
      cmocka_unit_test(contiguous_reshapes_are_views),
      cmocka_unit_test(broadcasts),
      cmocka_unit_test(broadcasts_convert_to_a_declared_float),
      cmocka_unit_test(dims_and_directions),
      cmocka_unit_test(splits),
      cmocka_unit_test(packed_operands_are_only_reshaped),
      cmocka_unit_test(views_are_exactly_the_rows_with_the_trait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
