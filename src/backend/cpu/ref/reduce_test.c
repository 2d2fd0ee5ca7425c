// Reductions and softmax against plain sums, in all layouts, and what the exact mode promises about their order.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"

typedef cairn_status (*kernel_fn)(const crn_kernel_args *args);
#define OP(name) CRN_OP_##name, crn_ref_##name

static void reduce_into(crn_op_id id, kernel_fn kernel, const crn_tensor *x, crn_tensor axes, crn_tensor *out, crn_pool *pool) {
  crn_tensor in[2] = {*x, axes};
  kt_run(&(kt_call){.id = id, .kernel = kernel, .n = 2, .operands = in, .result = out, .pool = pool});
}

static double reduce_one(crn_op_id id, kernel_fn kernel, cairn_dtype dtype, int n, const double *values) {
  crn_tensor x = kt_tensor(dtype, 1, KT_DIMS(n)), out = KT(dtype, 1);
  for (int i = 0; i < n; i++) crn_store_f64(dtype, crn_tensor_at(&x, i), values[i]);
  reduce_into(id, kernel, &x, KT_INTS(CAIRN_SI32, -1), &out, NULL);
  return kt_at(&out, 0);
}
#define REDUCE(name, dtype, ...) \
  reduce_one(OP(name), dtype, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__})

static void edges(void **state) {
  (void)state;
  assert_true(isnan(REDUCE(reduce_max, CAIRN_F32, 1, NAN, 3)) && isnan(REDUCE(reduce_min, CAIRN_F16, 1, 2, NAN)));
  assert_true(REDUCE(reduce_max, CAIRN_F32, -INFINITY, -5) == -5 && REDUCE(reduce_min, CAIRN_BF16, 4, 2, 3) == 2);
  assert_true(REDUCE(reduce_max, CAIRN_SI8, -128, -100) == -100 && REDUCE(reduce_min, CAIRN_UI8, 200, 255) == 200);
  assert_true(REDUCE(reduce_sum, CAIRN_SI8, 100, 100) == -56 && REDUCE(reduce_product, CAIRN_UI8, 16, 17) == 16);
  assert_true(REDUCE(reduce_sum, CAIRN_F16, 60000, 60000, -60000) == 60000);  // added up wide
  assert_true(REDUCE(reduce_mean, CAIRN_F32, 1, 2, 4, 5) == 3 && REDUCE(reduce_product, CAIRN_F64, 1, 2, 4, 5) == 40);
  assert_true(REDUCE(all, CAIRN_BOOL, 1, 1, 0) == 0 && REDUCE(all, CAIRN_BOOL, 1, 1) == 1);
  assert_true(REDUCE(any, CAIRN_BOOL, 0, 0) == 0 && REDUCE(any, CAIRN_BOOL, 0, 1) == 1);
  crn_tensor x = KT(CAIRN_SI32, 4), axes = KT_INTS(CAIRN_SI32, 0), out = KT(CAIRN_SI32, 1), in[2] = {x, axes};
  assert_int_equal(kt_try(&(kt_call){.id = CRN_OP_reduce_mean, .kernel = crn_ref_reduce_mean, .n = 2, .operands = in, .result = &out}),
                   CAIRN_UNSUPPORTED);
}

// 2048 ones in f16 and then more: a sum in f16 would stop at 2048.
static void f16_sums_are_wide(void **state) {
  (void)state;
  crn_tensor x = KT(CAIRN_F16, 4048), out = KT(CAIRN_F16, 1);
  for (int i = 0; i < 4048; i++) crn_store_f64(CAIRN_F16, crn_tensor_at(&x, i), 1);
  reduce_into(OP(reduce_sum), &x, KT_INTS(CAIRN_SI32, 0), &out, NULL);
  assert_true(kt_at(&out, 0) == 4048);
}

// All subsets of axes of a tensor with odd strides.
static void any_axes_of_any_strides(void **state) {
  (void)state;
  const int64_t dims[4] = {3, 4, 5, 70};
  for (int set = 1; set < 16; set++) {
    crn_tensor x = kt_random_tensor(CAIRN_F32, 1, 4, dims), spread = kt_spread(&x, 1 + set % 2);
    int64_t out_dims[4], axes[4];
    int n = 0;
    for (int d = 0; d < 4; d++) {
      bool reduced = set >> d & 1;
      out_dims[d] = reduced ? 1 : dims[d];
      if (reduced) axes[n++] = set % 3 ? d : d - 4;
    }
    crn_tensor out = kt_tensor(CAIRN_F32, 4, out_dims), plain = kt_tensor(CAIRN_F32, 4, out_dims);
    reduce_into(OP(reduce_sum), &spread, kt_ints(CAIRN_SI16, n, axes), &out, NULL);
    reduce_into(OP(reduce_sum), &x, kt_ints(CAIRN_SI32, n, axes), &plain, NULL);
    assert_true(kt_same_bytes(&out, &plain));
    double want[3 * 4 * 5 * 70] = {0};
    for (int64_t i = 0; i < crn_tensor_count(&x); i++) {
      int64_t rest = i, at = 0, step = 1;
      for (int d = 3; d >= 0; d--) {
        if (out_dims[d] != 1) at += rest % dims[d] * step;
        step *= out_dims[d];
        rest /= dims[d];
      }
      want[at] += kt_at(&x, i);
    }
    for (int64_t i = 0; i < crn_tensor_count(&out); i++) assert_true(fabs(kt_at(&out, i) - want[i]) < 1e-4);
    kt_free_all(NULL);
  }
}

// Sums do not change when zeros follow (a longer cache), when threads share the rows, or when the rows come in pieces.
static void order_is_fixed(void **state) {
  (void)state;
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  crn_tensor x = KT_RANDOM(CAIRN_F32, 1, 400, 301), axes = KT_INTS(CAIRN_SI32, 1), out = KT(CAIRN_F32, 400, 1),
             other = KT(CAIRN_F32, 400, 1);
  reduce_into(OP(reduce_sum), &x, axes, &out, NULL);
  reduce_into(OP(reduce_sum), &x, axes, &other, pool);
  assert_true(kt_same_bytes(&out, &other));
  crn_tensor longer = KT(CAIRN_F32, 400, 517);
  memset(longer.data, 0, 400 * 517 * sizeof(float));
  crn_tensor window = longer;
  window.dims[1] = 301;
  crn_tensor_copy(&x, &window);
  reduce_into(OP(reduce_sum), &longer, axes, &other, NULL);
  assert_true(kt_same_bytes(&out, &other));
  crn_pool_destroy(pool);
}

// --- softmax --------------------------------------------------------------------------------------------------------------

static void softmax_into(const crn_tensor *x, int64_t axis, crn_tensor *out, crn_pool *pool) {
  crn_tensor in[2] = {*x, kt_ints(CAIRN_SI32, 1, &axis)};
  kt_run(&(kt_call){.id = CRN_OP_softmax, .kernel = crn_ref_softmax, .n = 2, .operands = in, .result = out, .pool = pool});
}

static void softmax_matches_its_definition(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F64, CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const double tolerance[] = {1e-15, 2e-7, 1e-3, 8e-3};
  for (int t = 0; t < 4; t++) {
    for (int axis = 0; axis < 3; axis++) {
      crn_tensor x = KT_RANDOM(types[t], 8, 4, 33, 5), spread = kt_spread(&x, 2), out = KT(types[t], 4, 33, 5);
      softmax_into(&spread, axis - (axis == 1 ? 3 : 0), &out, NULL);
      int64_t n = x.dims[axis], stride = x.strides[axis];
      for (int64_t i = 0; i < crn_tensor_count(&x); i++) {
        if (i / stride % n) continue;
        double top = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++) top = fmax(top, kt_at(&x, i + k * stride));
        for (int64_t k = 0; k < n; k++) sum += exp(kt_at(&x, i + k * stride) - top);
        for (int64_t k = 0; k < n; k++) {
          double want = exp(kt_at(&x, i + k * stride) - top) / sum;
          assert_true(fabs(kt_at(&out, i + k * stride) - want) <= tolerance[t] * want + 1e-7);
        }
      }
      kt_free_all(NULL);
    }
  }
}

static void softmax_edges(void **state) {
  (void)state;
  crn_tensor x = KT(CAIRN_F16, 3), out = KT(CAIRN_F16, 3);
  double large[3] = {60000, 60000, 0};
  for (int i = 0; i < 3; i++) crn_store_f64(CAIRN_F16, crn_tensor_at(&x, i), large[i]);
  softmax_into(&x, 0, &out, NULL);
  assert_true(kt_at(&out, 0) == 0.5 && kt_at(&out, 1) == 0.5 && kt_at(&out, 2) == 0);
  for (int i = 0; i < 3; i++) crn_store_f64(CAIRN_F16, crn_tensor_at(&x, i), -INFINITY);
  softmax_into(&x, 0, &out, NULL);
  for (int i = 0; i < 3; i++) assert_true(isnan(kt_at(&out, i)));
}

// Masked columns at the end, as a cache with more capacity has them, change no bit of the others.
static void softmax_ignores_masked_capacity(void **state) {
  (void)state;
  crn_tensor x = KT_RANDOM(CAIRN_F32, 4, 7, 45), out = KT(CAIRN_F32, 7, 45), wide = KT(CAIRN_F32, 7, 300), wide_out = KT(CAIRN_F32, 7, 300);
  for (int64_t i = 0; i < 7 * 300; i++) ((float *)wide.data)[i] = i % 300 < 45 ? ((float *)x.data)[i / 300 * 45 + i % 300] : -INFINITY;
  softmax_into(&x, 1, &out, NULL);
  softmax_into(&wide, 1, &wide_out, NULL);
  for (int64_t i = 0; i < 7 * 300; i++) {
    float want = i % 300 < 45 ? ((float *)out.data)[i / 300 * 45 + i % 300] : 0.0f;
    assert_memory_equal(crn_tensor_at(&wide_out, i), &want, sizeof want);
  }
}

#define TEST(fn) cmocka_unit_test_teardown(fn, kt_free_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(edges),
      TEST(f16_sums_are_wide),
      TEST(any_axes_of_any_strides),
      TEST(order_is_fixed),
      TEST(softmax_matches_its_definition),
      TEST(softmax_edges),
      TEST(softmax_ignores_masked_capacity),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
