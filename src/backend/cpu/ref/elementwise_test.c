// The elementwise kernels: edge values of every type, broadcasting over odd strides, and errors instead of traps.
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

static double unary_of(crn_op_id id, kernel_fn kernel, cairn_dtype dtype, double x) {
  crn_tensor in = KT(dtype, 1), out = KT(dtype, 1);
  crn_store_f64(dtype, in.data, x);
  kt_run(&(kt_call){.id = id, .kernel = kernel, .n = 1, .operands = &in, .result = &out});
  return kt_at(&out, 0);
}

static cairn_status binary_try(crn_op_id id, kernel_fn kernel, cairn_dtype dtype, int64_t a, int64_t b, int64_t *out_value) {
  crn_tensor in[2] = {KT(dtype, 1), KT(dtype, 1)}, out = KT(dtype, 1);
  crn_store_i64(dtype, in[0].data, a);
  crn_store_i64(dtype, in[1].data, b);
  cairn_status status = kt_try(&(kt_call){.id = id, .kernel = kernel, .n = 2, .operands = in, .result = &out});
  *out_value = crn_load_i64(dtype, out.data);
  return status;
}

static int64_t integers(crn_op_id id, kernel_fn kernel, cairn_dtype dtype, int64_t a, int64_t b) {
  int64_t value;
  assert_int_equal(binary_try(id, kernel, dtype, a, b, &value), CAIRN_OK);
  return value;
}

static double floats(crn_op_id id, kernel_fn kernel, cairn_dtype dtype, cairn_dtype result, double a, double b) {
  crn_tensor in[2] = {KT(dtype, 1), KT(dtype, 1)}, out = KT(result, 1);
  crn_store_f64(dtype, in[0].data, a);
  crn_store_f64(dtype, in[1].data, b);
  kt_run(&(kt_call){.id = id, .kernel = kernel, .n = 2, .operands = in, .result = &out});
  return kt_at(&out, 0);
}
#define OP(name) CRN_OP_##name, crn_ref_##name

static void unary_edges(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F64, CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  for (int t = 0; t < 4; t++) {
    cairn_dtype d = types[t];
    assert_false(signbit(unary_of(OP(relu), d, -0.0)));
    assert_true(isnan(unary_of(OP(relu), d, NAN)));
    assert_true(unary_of(OP(relu), d, -3) == 0 && unary_of(OP(relu), d, 3) == 3);
    assert_true(unary_of(OP(rsqrt), d, 0) == INFINITY && unary_of(OP(rsqrt), d, -0.0) == -INFINITY && isnan(unary_of(OP(rsqrt), d, -1)));
    assert_true(isnan(unary_of(OP(silu), d, -INFINITY)) && unary_of(OP(silu), d, INFINITY) == INFINITY);
    assert_true(unary_of(OP(round), d, 0.5) == 0 && unary_of(OP(round), d, 1.5) == 2 && unary_of(OP(round), d, 2.5) == 2);
    assert_true(signbit(unary_of(OP(round), d, -0.25)) && signbit(unary_of(OP(round), d, -0.0)));
    assert_true(unary_of(OP(exp), d, -INFINITY) == 0 && unary_of(OP(sigmoid), d, 0) == 0.5);
    assert_true(unary_of(OP(abs), d, -2.5) == 2.5 && isnan(unary_of(OP(sqrt), d, -1)) && isnan(unary_of(OP(log), d, -1)));
  }
  assert_true(signbit(unary_of(OP(silu), CAIRN_F32, -100)));
  assert_true(unary_of(OP(exp), CAIRN_F16, 12) == INFINITY);
  assert_true(unary_of(OP(abs), CAIRN_SI8, -128) == -128 && unary_of(OP(abs), CAIRN_SI32, -5) == 5);
  assert_true(unary_of(OP(abs), CAIRN_UI8, 200) == 200 && unary_of(OP(relu), CAIRN_SI16, -7) == 0);
  // Unsigned values above the signed range are not negative.
  crn_tensor big = KT(CAIRN_UI64, 1), out = KT(CAIRN_UI64, 1);
  *(uint64_t *)big.data = UINT64_MAX - 1;
  kt_run(&(kt_call){.id = CRN_OP_relu, .kernel = crn_ref_relu, .n = 1, .operands = &big, .result = &out});
  assert_true(*(uint64_t *)out.data == UINT64_MAX - 1);
}

// f16 results are the correctly rounded values of the wide ones.
static void f16_results_are_rounded_once(void **state) {
  (void)state;
  static const struct {
    crn_op_id id;
    kernel_fn kernel;
    double (*wide)(double);
  } cases[] = {{OP(exp), exp}, {OP(tanh), tanh}, {OP(sin), sin}, {OP(erf), erf}, {OP(sqrt), sqrt}, {OP(cosh), cosh}, {OP(atan), atan}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    crn_tensor x = KT(CAIRN_F16, 4096), y = KT(CAIRN_F16, 4096);
    for (int i = 0; i < 4096; i++) crn_store_f64(CAIRN_F16, crn_tensor_at(&x, i), kt_random() * 5);
    kt_run(&(kt_call){.id = cases[c].id, .kernel = cases[c].kernel, .n = 1, .operands = &x, .result = &y});
    for (int i = 0; i < 4096; i++) {
      uint16_t want;
      crn_store_f64(CAIRN_F16, &want, cases[c].wide(kt_at(&x, i)));
      assert_true(isnan(kt_at(&y, i)) ? kt_at(&x, i) < 0 : ((uint16_t *)y.data)[i] == want);
    }
  }
}

static void gelu_has_three_forms(void **state) {
  (void)state;
  static const double at_one[] = {0.8413447460685429, 0.8411919906082768, 0.8457957659328212};
  for (int mode = CRN_GELU_NONE; mode <= CRN_GELU_SIGMOID; mode++) {
    crn_tensor x = KT(CAIRN_F64, 1), y = KT(CAIRN_F64, 1);
    *(double *)x.data = 1;
    kt_run(&(kt_call){.id = CRN_OP_gelu, .kernel = crn_ref_gelu, .n = 1, .operands = &x, .result = &y, .mode = mode});
    assert_true(fabs(kt_at(&y, 0) - at_one[mode]) < 1e-15);
  }
  crn_tensor x = KT(CAIRN_F32, 1);
  assert_int_equal(kt_try(&(kt_call){.id = CRN_OP_gelu, .kernel = crn_ref_gelu, .n = 1, .operands = &x, .result = &x, .mode = 7}),
                   CAIRN_UNSUPPORTED);
}

static void integer_arithmetic_wraps_and_divides(void **state) {
  (void)state;
  assert_int_equal(integers(OP(add), CAIRN_SI8, 127, 1), -128);
  assert_int_equal(integers(OP(sub), CAIRN_UI8, 0, 1), 255);
  assert_int_equal(integers(OP(mul), CAIRN_SI32, 65536, 65536), 0);
  assert_int_equal(integers(OP(mul), CAIRN_SI64, INT64_MAX, 2), -2);
  assert_int_equal(integers(OP(divide), CAIRN_SI32, -7, 2), -3);
  assert_int_equal(integers(OP(floor_divide), CAIRN_SI32, -7, 2), -4);
  assert_int_equal(integers(OP(floor_divide), CAIRN_SI32, 7, -2), -4);
  assert_int_equal(integers(OP(floor_divide), CAIRN_SI32, -8, 2), -4);
  assert_int_equal(integers(OP(modulo), CAIRN_SI32, -7, 2), -1);
  assert_int_equal(integers(OP(modulo), CAIRN_SI32, 7, -2), 1);
  assert_int_equal(integers(OP(divide), CAIRN_UI64, -1, 2), INT64_MAX);
  assert_int_equal(integers(OP(pow), CAIRN_SI32, 3, 5), 243);
  assert_int_equal(integers(OP(pow), CAIRN_SI32, 2, -1), 0);
  assert_int_equal(integers(OP(pow), CAIRN_SI32, -1, -3), -1);
  assert_int_equal(integers(OP(pow), CAIRN_SI8, 2, 8), 0);
  assert_int_equal(integers(OP(bitwise_xor), CAIRN_SI16, 12, 10), 6);
  assert_int_equal(integers(OP(maximum), CAIRN_UI64, -1, 5), -1);
  assert_int_equal(integers(OP(maximum), CAIRN_SI64, -1, 5), 5);
  static const cairn_dtype signed_types[] = {CAIRN_SI8, CAIRN_SI16, CAIRN_SI32, CAIRN_SI64};
  for (int i = 0; i < 4; i++) {
    int64_t least = INT64_MIN >> (64 - (8 << i)), value;
    assert_int_equal(integers(OP(divide), signed_types[i], least, -1), least);
    assert_int_equal(integers(OP(floor_divide), signed_types[i], least, -1), least);
    assert_int_equal(integers(OP(modulo), signed_types[i], least, -1), 0);
    assert_int_equal(binary_try(OP(divide), signed_types[i], 5, 0, &value), CAIRN_INVALID_ARGUMENT);
    assert_int_equal(binary_try(OP(floor_divide), signed_types[i], 5, 0, &value), CAIRN_INVALID_ARGUMENT);
    assert_int_equal(binary_try(OP(broadcasting_modulo), signed_types[i], 5, 0, &value), CAIRN_INVALID_ARGUMENT);
  }
}

static void booleans_have_their_own_arithmetic(void **state) {
  (void)state;
  for (int a = 0; a < 2; a++) {
    for (int b = 0; b < 2; b++) {
      assert_int_equal(integers(OP(add), CAIRN_BOOL, a, b), a | b);
      assert_int_equal(integers(OP(mul), CAIRN_BOOL, a, b), a & b);
      assert_int_equal(integers(OP(and), CAIRN_BOOL, a, b), a & b);
      assert_int_equal(integers(OP(or), CAIRN_BOOL, a, b), a | b);
      assert_int_equal(integers(OP(xor), CAIRN_BOOL, a, b), a ^ b);
      assert_int_equal(integers(OP(not_equal), CAIRN_BOOL, a, b), a != b);
      assert_int_equal(integers(OP(greater), CAIRN_BOOL, a, b), a > b);
    }
  }
  int64_t value;
  assert_int_equal(binary_try(OP(sub), CAIRN_BOOL, 1, 1, &value), CAIRN_UNSUPPORTED);
  assert_int_equal(binary_try(OP(and), CAIRN_SI32, 1, 1, &value), CAIRN_UNSUPPORTED);
}

static void float_pairs(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F64, CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  for (int t = 0; t < 4; t++) {
    cairn_dtype d = types[t];
    assert_true(isnan(floats(OP(maximum), d, d, NAN, 1)) && isnan(floats(OP(maximum), d, d, 1, NAN)));
    assert_true(isnan(floats(OP(minimum), d, d, NAN, 1)) && isnan(floats(OP(minimum), d, d, 1, NAN)));
    assert_true(signbit(floats(OP(maximum), d, d, -0.0, 0.0)) && !signbit(floats(OP(maximum), d, d, 0.0, -0.0)));
    assert_true(signbit(floats(OP(minimum), d, d, -0.0, 0.0)) && !signbit(floats(OP(minimum), d, d, 0.0, -0.0)));
    assert_true(floats(OP(divide), d, d, 5, 0) == INFINITY && floats(OP(floor_divide), d, d, 5, 0) == INFINITY);
    assert_true(floats(OP(floor_divide), d, d, -7, 2) == -4 && floats(OP(modulo), d, d, -7, 2) == -1 &&
                floats(OP(modulo), d, d, 7, -2) == 1);
    assert_true(floats(OP(pow), d, d, NAN, 0) == 1 && floats(OP(pow), d, d, 1, NAN) == 1 && isnan(floats(OP(pow), d, d, -8, 0.5)));
    assert_true(floats(OP(equal), d, CAIRN_BOOL, NAN, NAN) == 0 && floats(OP(not_equal), d, CAIRN_BOOL, NAN, NAN) == 1);
    assert_true(floats(OP(equal), d, CAIRN_BOOL, -0.0, 0.0) == 1 && floats(OP(greater), d, CAIRN_BOOL, 2, 1) == 1);
    assert_true(floats(OP(greater), d, CAIRN_BOOL, 1, NAN) == 0);
  }
  assert_true(floats(OP(add), CAIRN_F16, CAIRN_F16, 2048, 1) == 2048);  // ties to even
  assert_true(floats(OP(add), CAIRN_F16, CAIRN_F16, 60000, 60000) == INFINITY);
}

// Every shape of broadcasting against a plain index calculation, with operands whose strides are not the usual ones.
static void broadcasting_walks_any_strides(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{3, 5, 300}, {3, 1, 300}, {1, 5, 1}, {1, 1, 300}, {3, 5, 1}, {1, 1, 1}};
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_SI32};
  for (int t = 0; t < 3; t++) {
    for (int a = 0; a < 6; a++) {
      for (int b = 0; b < 6; b++) {
        int64_t dims[3];
        for (int d = 0; d < 3; d++) dims[d] = shapes[a][d] > shapes[b][d] ? shapes[a][d] : shapes[b][d];
        crn_tensor x = kt_random_tensor(types[t], 100, 3, shapes[a]), y = kt_random_tensor(types[t], 100, 3, shapes[b]);
        crn_tensor in[2] = {kt_spread(&x, 1 + a % 2), kt_spread(&y, 1 + b % 3)}, out = kt_tensor(types[t], 3, dims);
        kt_run(&(kt_call){.id = CRN_OP_broadcasting_sub, .kernel = crn_ref_broadcasting_sub, .n = 2, .operands = in, .result = &out});
        for (int64_t i = 0; i < crn_tensor_count(&out); i++) {
          int64_t index[3] = {i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]}, at_x = 0, at_y = 0;
          for (int d = 0; d < 3; d++) {
            at_x = at_x * shapes[a][d] + (shapes[a][d] == 1 ? 0 : index[d]);
            at_y = at_y * shapes[b][d] + (shapes[b][d] == 1 ? 0 : index[d]);
          }
          unsigned char want[8];
          crn_store_f64(types[t], want, kt_at(&x, at_x) - kt_at(&y, at_y));
          assert_memory_equal(crn_tensor_at(&out, i), want, cairn_dtype_bytes(types[t]));
        }
        kt_free_all(NULL);
      }
    }
  }
}

static void broadcasting_aligns_at_the_right(void **state) {
  (void)state;
  crn_tensor in[2] = {KT_RANDOM(CAIRN_F32, 1, 2, 3, 4), KT_RANDOM(CAIRN_F32, 1, 4)}, out = KT(CAIRN_F32, 2, 3, 4);
  kt_call call = {.id = CRN_OP_broadcasting_mul, .kernel = crn_ref_broadcasting_mul, .n = 2, .operands = in, .result = &out};
  kt_run(&call);
  for (int i = 0; i < 24; i++) assert_true(((float *)out.data)[i] == ((float *)in[0].data)[i] * ((float *)in[1].data)[i % 4]);
  in[1] = KT_RANDOM(CAIRN_F32, 1, 3);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  in[1] = KT_RANDOM(CAIRN_F16, 1, 4);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  // A reversed view: negative strides.
  in[1] = KT_RANDOM(CAIRN_F32, 1, 4);
  crn_tensor reversed = in[1];
  reversed.data = crn_tensor_at(&in[1], 3);
  reversed.strides[0] = -1;
  float want[4] = {((float *)in[1].data)[3], ((float *)in[1].data)[2], ((float *)in[1].data)[1], ((float *)in[1].data)[0]};
  in[1] = reversed;
  kt_run(&call);
  for (int i = 0; i < 24; i++) assert_true(((float *)out.data)[i] == ((float *)in[0].data)[i] * want[i % 4]);
}

static void empty_tensors_are_fine(void **state) {
  (void)state;
  crn_tensor in[2] = {KT(CAIRN_F32, 2, 0, 3), KT(CAIRN_F32, 1)}, out = KT(CAIRN_F32, 2, 0, 3);
  kt_run(&(kt_call){.id = CRN_OP_broadcasting_add, .kernel = crn_ref_broadcasting_add, .n = 2, .operands = in, .result = &out});
  kt_run(&(kt_call){.id = CRN_OP_exp, .kernel = crn_ref_exp, .n = 1, .operands = in, .result = &out});
}

static void complex_values(void **state) {
  (void)state;
  crn_tensor in[2] = {KT(CAIRN_C64, 2), KT(CAIRN_C64, 2)}, out = KT(CAIRN_C64, 2), same = KT(CAIRN_BOOL, 2);
  float x[4] = {1, 2, -3, 0.5f}, y[4] = {4, -1, -3, 0.5f};
  memcpy(in[0].data, x, sizeof x);
  memcpy(in[1].data, y, sizeof y);
  kt_call call = {.id = CRN_OP_mul, .kernel = crn_ref_mul, .n = 2, .operands = in, .result = &out};
  kt_run(&call);
  const float *v = out.data;
  assert_true(v[0] == 6 && v[1] == 7 && v[2] == 8.75f && v[3] == -3);
  call.id = CRN_OP_divide, call.kernel = crn_ref_divide;
  kt_run(&call);
  assert_true(fabsf(v[0] - 2.0f / 17) < 1e-6f && fabsf(v[1] - 9.0f / 17) < 1e-6f && v[2] == 1 && v[3] == 0);
  call.id = CRN_OP_exp, call.kernel = crn_ref_exp, call.n = 1;
  kt_run(&call);
  assert_true(fabsf(v[0] - expf(1) * cosf(2)) < 1e-6f && fabsf(v[1] - expf(1) * sinf(2)) < 1e-6f);
  kt_run(&(kt_call){.id = CRN_OP_equal, .kernel = crn_ref_equal, .n = 2, .operands = in, .result = &same});
  assert_true(((uint8_t *)same.data)[0] == 0 && ((uint8_t *)same.data)[1] == 1);
}

#define TEST(fn) cmocka_unit_test_teardown(fn, kt_free_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(unary_edges),
      TEST(f16_results_are_rounded_once),
      TEST(gelu_has_three_forms),
      TEST(integer_arithmetic_wraps_and_divides),
      TEST(booleans_have_their_own_arithmetic),
      TEST(float_pairs),
      TEST(broadcasting_walks_any_strides),
      TEST(broadcasting_aligns_at_the_right),
      TEST(empty_tensors_are_fine),
      TEST(complex_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
