// The places where exporters and runtimes have been seen to go wrong, one test each. Wanted values are torch's (2.13).
#include "backend/cpu/ref/ref_testing.h"

#define ONE(id, mode, out, ...) test_run((test_call){CRN_OP_##id, mode, CAIRN_DTYPE_NONE, NULL, 1}, OPERANDS(__VA_ARGS__), out)
#define RUN(id, out, ...) assert_int_equal(ONE(id, 0, out, __VA_ARGS__), CAIRN_OK)

static crn_tensor halves(uint16_t *memory, const float *values, int n) {
  for (int i = 0; i < n; i++) crn_store_f64(CAIRN_F16, &memory[i], (double)values[i]);
  return over(CAIRN_F16, memory, n);
}

static void assert_near(crn_tensor *t, const float *wanted, int n) {
  assert_int_equal(crn_tensor_count(t), n);
  for (int i = 0; i < n; i++) {
    double v = crn_load_f64(t->dtype, crn_tensor_at(t, i)), w = (double)wanted[i];
    if (fabs(v - w) > 2e-6 * (1 + fabs(w))) fail_msg("element %d is %.9g, wanted %.9g", i, v, w);
  }
  test_release(t, 1);
}
#define FLOATS(...) ((const float[]){__VA_ARGS__}), (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

// A mask of booleans chooses; it is not added as 0 and 1.
static void boolean_masks_choose(void **state) {
  (void)state;
  float q[6], k[9], v[6];
  for (int i = 0; i < 9; i++) {
    k[i] = (float)(i % 5 - 2) / 3;
    if (i < 6) q[i] = (float)(i - 2) / 4, v[i] = (float)i - 1;
  }
  crn_tensor operands[4] = {crn_tensor_make(CAIRN_F32, DIMS(1, 1, 2, 3), q), crn_tensor_make(CAIRN_F32, DIMS(1, 1, 3, 3), k),
                            crn_tensor_make(CAIRN_F32, DIMS(1, 1, 3, 2), v),
                            crn_tensor_make(CAIRN_BOOL, DIMS(2, 3), (uint8_t[]){1, 0, 1, 1, 1, 0})};
  static const char *const names[] = {"query", "key", "value", "attn_mask"};
  crn_attr items[] = {{.kind = CRN_ATTR_BOOL, .key = "is_causal"}, {.kind = CRN_ATTR_FLOAT, .key = "scale", .f = 0.57735026918962573}};
  crn_attr attrs = {.kind = CRN_ATTR_DICT, .list = {items, 2}};
  float data[4];
  crn_tensor out = crn_tensor_make(CAIRN_F32, DIMS(1, 1, 2, 2), data);
  crn_kernel_args args = {.id = CRN_OP_scaled_dot_product_attention,
                          .attrs = &attrs,
                          .input_names = names,
                          .n_operands = 4,
                          .operands = operands,
                          .n_results = 1,
                          .results = &out};
  assert_int_equal(test_compute(&(test_call){.id = args.id}, &args), CAIRN_OK);
  out.data = memcpy(malloc(sizeof data), data, sizeof data);
  assert_near(&out, FLOATS(0.855912447f, 1.85591233f, 0.0720437467f, 1.07204366f));
}

// Stride, padding on both sides, output padding on one, dilation and groups at once.
static void transposed_convolution(void **state) {
  (void)state;
  float x[12], w[16];
  double wide_x[12], wide_w[16];
  for (int i = 0; i < 16; i++) {
    wide_w[i] = w[i] = (float)(i % 5 - 2) / 2;
    if (i < 12) wide_x[i] = x[i] = (float)(i % 7 - 3) / 2;
  }
  static const double wanted[] = {0, 2.25, 0, 1.5, 0, -0.75, 0, -1, 0, -1, 0, -0.25, 0, 0.5, 0, -2, 0, -0.75, 0, 1.25, 0, 2.25, 0, 0};
  crn_tensor out, one = crn_tensor_make(CAIRN_UI32, NULL, 0, (uint32_t[]){2});
  RUN(conv_transpose2d, &out, crn_tensor_make(CAIRN_F32, DIMS(1, 4, 1, 3), x), crn_tensor_make(CAIRN_F32, DIMS(4, 1, 2, 2), w), U32(1, 2),
      U32(0, 1), U32(1, 2), U32(0, 1), one);
  assert_dims(&out, DIMS(1, 2, 2, 6));
  assert_values(&out, wanted, 24);
  RUN(conv_transpose2d, &out, crn_tensor_make(CAIRN_F64, DIMS(1, 4, 1, 3), wide_x), crn_tensor_make(CAIRN_F64, DIMS(4, 1, 2, 2), wide_w),
      U32(1, 2), U32(0, 1), U32(1, 2), U32(0, 1), one);
  assert_values(&out, wanted, 24);
}

// A product with i turns (re, im) into (-im, re), through both kinds of convolution.
static void complex_convolutions(void **state) {
  (void)state;
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[2] = {0, 1};
  crn_tensor out, image = crn_tensor_make(CAIRN_C64, DIMS(1, 1, 2, 2), x), kernel = crn_tensor_make(CAIRN_C64, DIMS(1, 1, 1, 1), w);
  crn_tensor groups = crn_tensor_make(CAIRN_UI32, NULL, 0, (uint32_t[]){1});
  for (int transposed = 0; transposed < 2; transposed++) {
    if (transposed) {
      RUN(conv_transpose2d, &out, image, kernel, U32(1, 1), U32(0, 0), U32(1, 1), U32(0, 0), groups);
    } else {
      RUN(conv2d, &out, image, kernel, U32(1, 1), U32(1, 1), groups);
    }
    const float *y = out.data;
    for (int i = 0; i < 4; i++) assert_true(y[2 * i] == -x[2 * i + 1] && y[2 * i + 1] == x[2 * i]);
    test_release(&out, 1);
  }
}

static void integer_division(void **state) {
  (void)state;
  crn_tensor out, a = I32(-7, 7, -7, 7, 6), b = I32(2, -2, -2, 2, 3);
  RUN(divide, &out, a, b);
  assert_values(&out, VALUES(-3, -3, 3, 3, 2));
  RUN(floor_divide, &out, a, b);
  assert_values(&out, VALUES(-4, -4, 3, 3, 2));
  RUN(modulo, &out, a, b);
  assert_values(&out, VALUES(-1, 1, -1, 1, 0));
  // Division by zero is a status, not a trap; the smallest number by -1 wraps.
  assert_failure(ONE(divide, 0, &out, a, I32(1, 1, 0, 1, 1)), CAIRN_INVALID_ARGUMENT, "divisor is 0");
  assert_failure(ONE(floor_divide, 0, &out, a, I32(1, 1, 1, 1, 0)), CAIRN_INVALID_ARGUMENT, "divisor is 0");
  assert_failure(ONE(modulo, 0, &out, a, I32(0, 1, 1, 1, 1)), CAIRN_INVALID_ARGUMENT, "divisor is 0");
  RUN(divide, &out, I32(INT32_MIN, INT32_MIN), I32(-1, 1));
  assert_values(&out, VALUES(INT32_MIN, INT32_MIN));
  RUN(modulo, &out, I32(INT32_MIN), I32(-1));
  assert_values(&out, VALUES(0));
  RUN(floor_divide, &out, I32(INT32_MIN), I32(-1));
  assert_values(&out, VALUES(INT32_MIN));
}

// The remainder has the sign of the dividend, the floor goes down; and a rounded quotient does not jump to the next whole number.
static void float_division(void **state) {
  (void)state;
  crn_tensor out, a = F32(-4, 5.5f, -5.5f, 0, 7), b = F32(3, -2, 2, 3, INFINITY);
  RUN(modulo, &out, a, b);
  assert_values(&out, VALUES(-1, 1.5, -1.5, 0, 7));
  RUN(floor_divide, &out, a, b);
  assert_values(&out, VALUES(-2, -3, -3, 0, 0));
  RUN(floor_divide, &out, F32(1, -7, 5, -5, 0, NAN), F32(0.1f, INFINITY, 0, 0, 0, 1));
  assert_values(&out, VALUES(9, -1, INFINITY, -INFINITY, NAN, NAN));
}

// There are no shifts in the dialect: they arrive as products with and floor divisions by powers of two.
static void shifts(void **state) {
  (void)state;
  crn_tensor out;
  RUN(mul, &out, I32(1, 3, -5), I32(8, 8, 8));
  assert_values(&out, VALUES(8, 24, -40));
  RUN(floor_divide, &out, I32(17, -17, 8), I32(4, 4, 4));
  assert_values(&out, VALUES(4, -5, 2));
  RUN(pow, &out, I32(2, 2, 2, -2), I32(3, 0, 31, -1));
  assert_values(&out, VALUES(8, 1, INT32_MIN, 0));
}

// log is the natural one; other bases are quotients.
static void log_bases(void **state) {
  (void)state;
  crn_tensor out, logs;
  RUN(log, &logs, F32(8, 1000, 0.1f, 3));
  RUN(divide, &out, logs, F32(0.693147182f, 2.30258512f, 2.30258512f, 0.693147182f));
  test_release(&logs, 1);
  assert_near(&out, FLOATS(3, 3, -1, 1.58496249f));
}

static void roots_and_their_reciprocals(void **state) {
  (void)state;
  crn_tensor out;
  RUN(sqrt, &out, F32(4, 0.25f, -1));
  assert_values(&out, VALUES(2, 0.5, NAN));
  RUN(rsqrt, &out, F32(4, 0.25f, 0, -0.0f, -1));
  assert_values(&out, VALUES(0.5, 2, INFINITY, -INFINITY, NAN));
}

static void nan_in_minima_and_maxima(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, NAN, 3, 4, 5, 6), DIMS(2, 3));
  RUN(maximum, &out, F32(1, NAN, NAN), F32(NAN, 1, NAN));
  assert_values(&out, VALUES(NAN, NAN, NAN));
  RUN(minimum, &out, F32(1, NAN, NAN), F32(NAN, 1, NAN));
  assert_values(&out, VALUES(NAN, NAN, NAN));
  RUN(reduce_max, &out, x, I32(1));
  assert_values(&out, VALUES(NAN, 6));
  RUN(reduce_min, &out, x, I32(1));
  assert_values(&out, VALUES(NAN, 4));
  RUN(argmax, &out, x, I32_SCALAR(1));
  assert_values(&out, VALUES(2, 2));
  RUN(relu, &out, F32(NAN, -1, 2));
  assert_values(&out, VALUES(NAN, 0, 2));
  RUN(sort, &out, F32(3, NAN, -1, INFINITY), I32_SCALAR(0), BOOL_SCALAR(0), BOOL_SCALAR(1));
  assert_values(&out, VALUES(-1, 3, INFINITY, NAN));
  // Apple's interpreter puts NaN last here too, which assets rely on more than on torch's order.
  RUN(sort, &out, F32(3, NAN, -1, INFINITY), I32_SCALAR(0), BOOL_SCALAR(1), BOOL_SCALAR(1));
  assert_values(&out, VALUES(INFINITY, 3, -1, NAN));
}

// Slices clamp, gathers refuse, a scatter along an axis leaves out; negative indices count from the end once.
static void indices_out_of_range(void **state) {
  (void)state;
  crn_tensor out, x = F32(10, 20, 30);
  RUN(slice, &out, x, I32(-9), I32(99), I32(1));
  assert_values(&out, VALUES(10, 20, 30));
  RUN(slice, &out, x, I32(5), I32(7), I32(1));
  assert_dims(&out, DIMS(0));
  test_release(&out, 1);
  RUN(gather_along_axis, &out, x, I32(-1, 0, 2), I32_SCALAR(0));
  assert_values(&out, VALUES(30, 10, 30));
  assert_failure(ONE(gather_along_axis, 0, &out, x, I32(0, 3), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT, "3");
  assert_failure(ONE(gather_nd, 0, &out, x, shape_as(I32(-4), DIMS(1, 1))), CAIRN_INVALID_ARGUMENT, "-4");
  assert_failure(ONE(scatter_nd, 0, &out, x, shape_as(I32(3), DIMS(1, 1)), F32(1)), CAIRN_INVALID_ARGUMENT, "3");
  RUN(scatter_along_axis, &out, x, I32(-1, 7), F32(1, 2), I32_SCALAR(0));
  assert_values(&out, VALUES(10, 20, 1));
}

// Sums in half precision go on above 2048, and so do products of matrices and running sums.
static void half_sums_are_wide(void **state) {
  (void)state;
  enum { N = 2001 };
  static float values[N];
  static uint16_t row[N], ones[N];
  values[0] = 2048;
  for (int i = 1; i < N; i++) values[i] = 1;
  crn_tensor out, x = halves(row, values, N);
  RUN(reduce_sum, &out, x, I32(0));
  assert_values(&out, VALUES(4048));
  values[0] = 1;
  crn_tensor column = shape_as(halves(ones, values, N), DIMS(N, 1));
  RUN(batch_matmul, &out, shape_as(x, DIMS(1, N)), column);
  assert_values(&out, VALUES(4048));
  RUN(broadcasting_batch_matmul, &out, shape_as(x, DIMS(1, 1, N)), column);
  assert_values(&out, VALUES(4048));
  crn_tensor few = crn_tensor_make(CAIRN_F16, DIMS(5), row);
  RUN(scan, &out, few, I32_SCALAR(0), BOOL_SCALAR(0));
  assert_values(&out, VALUES(2048, 2048, 2050, 2052, 2052));
  crn_tensor image = crn_tensor_make(CAIRN_F16, DIMS(1, 1, 1, N), row);
  RUN(sum_pool_2d, &out, image, U32(1, N), U32(1, 1), U32(1, 1));
  assert_values(&out, VALUES(4048));
  RUN(conv2d, &out, image, crn_tensor_make(CAIRN_F16, DIMS(1, 1, 1, N), ones), U32(1, 1), U32(1, 1),
      crn_tensor_make(CAIRN_UI32, NULL, 0, (uint32_t[]){1}));
  assert_values(&out, VALUES(4048));
}

// A range of floats has the type of its operands and counts from the start, without adding up errors.
static void float_ranges(void **state) {
  (void)state;
  crn_tensor out;
  RUN(range, &out, F32_SCALAR(0.1f), F32_SCALAR(1), F32_SCALAR(0.3f));
  assert_int_equal(out.dtype, CAIRN_F32);
  assert_near(&out, FLOATS(0.100000001f, 0.400000006f, 0.699999988f));
  RUN(range, &out, F32_SCALAR(3), F32_SCALAR(0), F32_SCALAR(1));
  assert_dims(&out, DIMS(0));
  test_release(&out, 1);
  assert_failure(ONE(range, 0, &out, I32_SCALAR(0), I32_SCALAR(3), I32_SCALAR(0)), CAIRN_INVALID_ARGUMENT, "step");
}

// A full reduction keeps its dimensions as 1, and the mean divides by the number of elements of the reduced axes alone.
static void means(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 4, 5, 6), DIMS(2, 3));
  RUN(reduce_mean, &out, x, I32(0, 1));
  assert_dims(&out, DIMS(1, 1));
  assert_values(&out, VALUES(3.5));
  RUN(reduce_mean, &out, x, I32(-1));
  assert_values(&out, VALUES(2, 5));
}

// What an additive mask of -inf or -1e4 leaves; a row without anything is not a number.
static void masked_rows(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(-INFINITY, -INFINITY, -INFINITY, 0, -INFINITY, 0, 1000, 1000 - 1e4f, 1000), DIMS(3, 3));
  RUN(softmax, &out, x, I32_SCALAR(-1));
  assert_values(&out, VALUES(NAN, NAN, NAN, 0.5, 0, 0.5, 0.5, 0, 0.5));
}

static void rounding_and_powers(void **state) {
  (void)state;
  crn_tensor out;
  RUN(round, &out, F32(0.5f, 1.5f, 2.5f, -0.5f, -1.5f));
  assert_true(signbit(((float *)out.data)[3]));
  assert_values(&out, VALUES(0, 2, 2, 0, -2));
  RUN(pow, &out, F32(-8, 2, NAN, 1), F32(1.0f / 3, -2, 0, NAN));
  assert_values(&out, VALUES(NAN, 0.25, 1, 1));
  RUN(pow, &out, I32(2, -2, 3), I32(10, 3, 0));
  assert_values(&out, VALUES(1024, -8, 1));
}

// Casts saturate, cut off toward zero and make zero of what is no number.
static void casts(void **state) {
  (void)state;
  crn_tensor out, x = F32(300, -1, NAN, INFINITY, 1.9f, -1.9f);
  assert_int_equal(test_run((test_call){.id = CRN_OP_cast, .dtype = CAIRN_UI8}, &x, 1, &out), CAIRN_OK);
  assert_values(&out, VALUES(255, 0, 0, 255, 1, 0));
  assert_int_equal(test_run((test_call){.id = CRN_OP_cast, .dtype = CAIRN_SI8}, &x, 1, &out), CAIRN_OK);
  assert_values(&out, VALUES(127, -1, 0, 127, 1, -1));
  assert_int_equal(test_run((test_call){.id = CRN_OP_cast, .dtype = CAIRN_BOOL}, &x, 1, &out), CAIRN_OK);
  assert_values(&out, VALUES(1, 1, 1, 1, 1, 1));
}

// Each side has its own amount of padding.
static void padding_is_not_averaged(void **state) {
  (void)state;
  crn_tensor out;
  assert_int_equal(ONE(pad, CRN_PAD_CONSTANT, &out, F32(0, 1, 2), U32(2, 0), F32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(0, 0, 0, 1, 2));
  assert_int_equal(ONE(pad, CRN_PAD_REFLECT, &out, F32(0, 1, 2, 3), U32(2, 1), F32_SCALAR(0)), CAIRN_OK);
  assert_values(&out, VALUES(2, 1, 0, 1, 2, 3, 2));
}

// What is not chosen is never looked at.
static void where_ignores_the_other(void **state) {
  (void)state;
  crn_tensor out, condition = over(CAIRN_BOOL, (uint8_t[]){1, 0}, 2);
  RUN(where, &out, condition, F32(1, NAN), F32(INFINITY, 2));
  assert_values(&out, VALUES(1, 2));
}

#define TEST(name) cmocka_unit_test(name)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(boolean_masks_choose),
      TEST(transposed_convolution),
      TEST(complex_convolutions),
      TEST(integer_division),
      TEST(float_division),
      TEST(shifts),
      TEST(log_bases),
      TEST(roots_and_their_reciprocals),
      TEST(nan_in_minima_and_maxima),
      TEST(indices_out_of_range),
      TEST(half_sums_are_wide),
      TEST(float_ranges),
      TEST(means),
      TEST(masked_rows),
      TEST(rounding_and_powers),
      TEST(casts),
      TEST(padding_is_not_averaged),
      TEST(where_ignores_the_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
