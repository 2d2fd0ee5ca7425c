// Matrix products and convolutions against f64 sums, in every layout and type, and the promise that the bits of a row
// depend on nothing but the row.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"

static void product(const crn_tensor *a, const crn_tensor *b, crn_tensor *out, crn_pool *pool) {
  crn_tensor in[2] = {*a, *b};
  kt_run(&(kt_call){.id = CRN_OP_broadcasting_batch_matmul,
                    .kernel = crn_ref_broadcasting_batch_matmul,
                    .n = 2,
                    .operands = in,
                    .result = out,
                    .pool = pool});
}

// One element of a product of the last two dimensions, batches broadcast from the right.
static double expected(const crn_tensor *a, const crn_tensor *b, const crn_tensor *out, int64_t at, double *out_magnitude) {
  int r = out->rank;
  int64_t j = at % out->dims[r - 1], i = at / out->dims[r - 1] % out->dims[r - 2], batch = at / out->dims[r - 1] / out->dims[r - 2];
  int64_t at_a = 0, at_b = 0;
  for (int d = r - 3; d >= 0; d--) {
    int64_t index = batch % out->dims[d];
    batch /= out->dims[d];
    int da = d - (r - a->rank), db = d - (r - b->rank);
    if (da >= 0 && a->dims[da] > 1) at_a += index * a->strides[da];
    if (db >= 0 && b->dims[db] > 1) at_b += index * b->strides[db];
  }
  double sum = 0;
  *out_magnitude = 0;
  for (int64_t k = 0; k < a->dims[a->rank - 1]; k++) {
    double p = kt_at(a, at_a + i * a->strides[a->rank - 2] + k * a->strides[a->rank - 1]) *
               kt_at(b, at_b + k * b->strides[b->rank - 2] + j * b->strides[b->rank - 1]);
    sum += p;
    *out_magnitude += fabs(p);
  }
  return sum;
}

static void check_product(const crn_tensor *a, const crn_tensor *b, const crn_tensor *out) {
  static const double rounding[CAIRN_DTYPE_COUNT] = {
      [CAIRN_F64] = 1e-15, [CAIRN_F32] = 1e-6, [CAIRN_F16] = 5e-4, [CAIRN_BF16] = 4e-3, [CAIRN_F8E5M2] = 0.13};
  for (int64_t i = 0; i < crn_tensor_count(out); i++) {
    double magnitude, want = expected(a, b, out, i, &magnitude);
    double tolerance = rounding[out->dtype] * fabs(want) + (out->dtype == CAIRN_F64 ? 1e-14 : 2e-6) * magnitude;
    if (fabs(kt_at(out, i) - want) > tolerance) fail_msg("element %d: %.9g instead of %.9g", (int)i, kt_at(out, i), want);
  }
}

static void all_layouts_and_types(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16, CAIRN_F64, CAIRN_F8E5M2};
  static const int64_t sizes[][3] = {{1, 64, 48}, {5, 33, 7}, {13, 1, 9}, {4, 17, 1}, {1, 1, 1}, {7, 70, 200}, {3, 0, 4}};
  for (int t = 0; t < 5; t++) {
    for (int s = 0; s < 7; s++) {
      int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
      crn_tensor a = kt_random_tensor(types[t], 1, 2, KT_DIMS(m, k)), b = kt_random_tensor(types[t], 1, 2, KT_DIMS(k, n));
      crn_tensor bt = kt_swapped(kt_random_tensor(types[t], 1, 2, KT_DIMS(n, k)), 0, 1), out = kt_tensor(types[t], 2, KT_DIMS(m, n));
      crn_tensor spread_a = kt_spread(&a, 2), spread_b = kt_spread(&b, 3), spread_rows = kt_spread(&b, 1);
      const crn_tensor *lefts[] = {&a, &spread_a}, *rights[] = {&b, &bt, &spread_b, &spread_rows};
      for (int l = 0; l < 2; l++) {
        for (int r = 0; r < 4; r++) {
          product(lefts[l], rights[r], &out, NULL);
          check_product(lefts[l], rights[r], &out);
        }
      }
      kt_free_all(NULL);
    }
  }
}

static void batches_broadcast(void **state) {
  (void)state;
  crn_tensor out = KT(CAIRN_F32, 2, 3, 4, 5);
  crn_tensor lefts[] = {KT_RANDOM(CAIRN_F32, 1, 2, 3, 4, 6), KT_RANDOM(CAIRN_F32, 1, 2, 1, 4, 6), KT_RANDOM(CAIRN_F32, 1, 4, 6),
                        KT_RANDOM(CAIRN_F32, 1, 3, 4, 6)};
  crn_tensor rights[] = {KT_RANDOM(CAIRN_F32, 1, 2, 3, 6, 5), KT_RANDOM(CAIRN_F32, 1, 6, 5), KT_RANDOM(CAIRN_F32, 1, 1, 3, 6, 5),
                         KT_RANDOM(CAIRN_F32, 1, 1, 1, 6, 5)};
  for (int l = 0; l < 4; l++) {
    for (int r = 0; r < 4; r++) {
      product(&lefts[l], &rights[r], &out, NULL);
      check_product(&lefts[l], &rights[r], &out);
    }
  }
}

static void integers_wrap(void **state) {
  (void)state;
  crn_tensor a = KT(CAIRN_SI8, 1, 2), b = KT(CAIRN_SI8, 2, 1), out = KT(CAIRN_SI8, 1, 1);
  int8_t x[2] = {100, 100}, y[2] = {3, -1};
  memcpy(a.data, x, 2);
  memcpy(b.data, y, 2);
  product(&a, &b, &out, NULL);
  assert_int_equal(*(int8_t *)out.data, (int8_t)200);
}

// The heart of the exact mode: rows alone, in chunks and together, with and without threads, have the same bits.
static void rows_do_not_depend_on_each_other(void **state) {
  (void)state;
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  for (int t = 0; t < 3; t++) {
    for (int layout = 0; layout < 2; layout++) {
      enum { M = 23, K = 219, N = 301 };
      crn_tensor a = KT_RANDOM(types[t], 1, M, K), out = KT(types[t], M, N), other = KT(types[t], M, N);
      crn_tensor b = layout ? KT_RANDOM(types[t], 1, K, N) : kt_swapped(KT_RANDOM(types[t], 1, N, K), 0, 1);
      product(&a, &b, &out, NULL);
      product(&a, &b, &other, pool);
      assert_true(kt_same_bytes(&out, &other));
      for (int64_t chunk = 1; chunk < M; chunk += 4) {
        for (int64_t row = 0; row < M; row += chunk) {
          crn_tensor part = a, part_out = other;
          part.dims[0] = part_out.dims[0] = M - row < chunk ? M - row : chunk;
          part.data = crn_tensor_at(&a, row * K);
          part_out.data = crn_tensor_at(&other, row * N);
          product(&part, &b, &part_out, pool);
        }
        assert_true(kt_same_bytes(&out, &other));
      }
      kt_free_all(NULL);
    }
  }
  crn_pool_destroy(pool);
}

// Probabilities that are zero behind the last position: a longer K changes no bit, in either layout of the values.
static void zero_weights_change_nothing(void **state) {
  (void)state;
  enum { M = 3, N = 40, SHORT = 77, LONG = 256 };
  for (int layout = 0; layout < 2; layout++) {
    crn_tensor a = KT(CAIRN_F16, M, LONG), out = KT(CAIRN_F16, M, N), other = KT(CAIRN_F16, M, N);
    crn_tensor b = layout ? KT_RANDOM(CAIRN_F16, 1, LONG, N) : kt_swapped(KT_RANDOM(CAIRN_F16, 1, N, LONG), 0, 1);
    for (int64_t i = 0; i < M * LONG; i++) crn_store_f64(CAIRN_F16, crn_tensor_at(&a, i), i % LONG < SHORT ? kt_random() : 0);
    product(&a, &b, &out, NULL);
    crn_tensor near = a, values = b;
    near.dims[1] = values.dims[0] = SHORT;
    product(&near, &values, &other, NULL);
    assert_true(kt_same_bytes(&out, &other));
  }
}

static void wrong_shapes_are_refused(void **state) {
  (void)state;
  crn_tensor in[2] = {KT(CAIRN_F32, 3, 4), KT(CAIRN_F32, 5, 6)}, out = KT(CAIRN_F32, 3, 6);
  kt_call call = {.id = CRN_OP_batch_matmul, .kernel = crn_ref_batch_matmul, .n = 2, .operands = in, .result = &out};
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  in[1] = KT(CAIRN_F16, 4, 6);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  in[0] = KT(CAIRN_BOOL, 3, 4), in[1] = KT(CAIRN_BOOL, 4, 6), out = KT(CAIRN_BOOL, 3, 6);
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
}

// --- convolution ----------------------------------------------------------------------------------------------------------

typedef struct conv_case {
  int64_t batch, groups, channels, outputs;  ///< channels and outputs of one group
  int64_t size[3], kernel[3], stride[3], dilation[3];
} conv_case;

static double conv_expected(const crn_tensor *x, const crn_tensor *w, const crn_tensor *y, const conv_case *c, int spatial, int64_t at,
                            double *out_magnitude) {
  int64_t place[3], rest = at;
  for (int d = spatial - 1; d >= 0; d--) {
    place[d] = rest % y->dims[d + 2];
    rest /= y->dims[d + 2];
  }
  int64_t output = rest % y->dims[1], image = rest / y->dims[1], group = output / c->outputs, taps = 1;
  for (int d = 0; d < spatial; d++) taps *= c->kernel[d];
  double sum = 0;
  *out_magnitude = 0;
  for (int64_t channel = 0; channel < c->channels; channel++) {
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t at_x = image * x->strides[0] + (group * c->channels + channel) * x->strides[1],
              at_w = output * w->strides[0] + channel * w->strides[1], t = tap;
      for (int d = spatial - 1; d >= 0; d--) {
        at_x += (place[d] * c->stride[d] + t % c->kernel[d] * c->dilation[d]) * x->strides[d + 2];
        at_w += t % c->kernel[d] * w->strides[d + 2];
        t /= c->kernel[d];
      }
      double p = kt_at(x, at_x) * kt_at(w, at_w);
      sum += p;
      *out_magnitude += fabs(p);
    }
  }
  return sum;
}

static void check_conv(const conv_case *c, int spatial, cairn_dtype dtype, crn_pool *pool) {
  int64_t x_dims[5] = {c->batch, c->groups * c->channels}, w_dims[5] = {c->groups * c->outputs, c->channels},
          y_dims[5] = {c->batch, c->groups * c->outputs};
  for (int d = 0; d < spatial; d++) {
    x_dims[d + 2] = c->size[d];
    w_dims[d + 2] = c->kernel[d];
    y_dims[d + 2] = (c->size[d] - (c->kernel[d] - 1) * c->dilation[d] - 1) / c->stride[d] + 1;
  }
  crn_tensor x = kt_random_tensor(dtype, 1, spatial + 2, x_dims), w = kt_random_tensor(dtype, 1, spatial + 2, w_dims);
  crn_tensor spread = kt_spread(&x, 2), odd = kt_spread(&w, 1), y = kt_tensor(dtype, spatial + 2, y_dims),
             again = kt_tensor(dtype, spatial + 2, y_dims);
  crn_tensor in[5] = {x, w, kt_ints(CAIRN_UI32, spatial, c->stride), kt_ints(CAIRN_UI32, spatial, c->dilation),
                      kt_ints(CAIRN_UI32, 1, &c->groups)};
  kt_call call = {.id = spatial == 2 ? CRN_OP_conv2d : CRN_OP_conv3d,
                  .kernel = spatial == 2 ? crn_ref_conv2d : crn_ref_conv3d,
                  .n = 5,
                  .operands = in,
                  .result = &y};
  kt_run(&call);
  double rounding = dtype == CAIRN_F64 ? 1e-15 : dtype == CAIRN_F32 ? 1e-6 : dtype == CAIRN_F16 ? 5e-4 : 4e-3;
  for (int64_t i = 0; i < crn_tensor_count(&y); i++) {
    double magnitude, want = conv_expected(&x, &w, &y, c, spatial, i, &magnitude);
    assert_true(fabs(kt_at(&y, i) - want) <= rounding * fabs(want) + (dtype == CAIRN_F64 ? 1e-14 : 2e-6) * magnitude);
  }
  in[0] = spread, in[1] = odd;
  call.result = &again, call.pool = pool;
  kt_run(&call);
  assert_true(kt_same_bytes(&y, &again));
}

static void convolutions(void **state) {
  (void)state;
  static const conv_case cases[] = {
      {1, 1, 3, 8, {9, 11, 0}, {3, 3, 0}, {1, 1, 0}, {1, 1, 0}},  {2, 1, 16, 5, {4, 8, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
      {2, 4, 2, 3, {12, 10, 0}, {3, 2, 0}, {2, 3, 0}, {2, 1, 0}}, {1, 6, 1, 1, {8, 8, 0}, {5, 3, 0}, {1, 2, 0}, {1, 3, 0}},
      {1, 1, 80, 4, {1, 60, 0}, {1, 3, 0}, {1, 2, 0}, {1, 1, 0}},
  };
  static const conv_case deep = {2, 2, 3, 2, {5, 6, 7}, {2, 3, 2}, {1, 2, 2}, {2, 1, 3}};
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16, CAIRN_F64};
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  for (int t = 0; t < 4; t++) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      check_conv(&cases[i], 2, types[t], pool);
      kt_free_all(NULL);
    }
    check_conv(&deep, 3, types[t], pool);
    kt_free_all(NULL);
  }
  crn_pool_destroy(pool);
}

static void impossible_convolutions_are_refused(void **state) {
  (void)state;
  crn_tensor x = KT_RANDOM(CAIRN_F32, 1, 1, 4, 5, 5), w = KT_RANDOM(CAIRN_F32, 1, 4, 2, 3, 3), y = KT(CAIRN_F32, 1, 4, 3, 3);
  crn_tensor in[5] = {x, w, KT_INTS(CAIRN_UI32, 1, 1), KT_INTS(CAIRN_UI32, 1, 1), KT_INTS(CAIRN_UI32, 1)};
  kt_call call = {.id = CRN_OP_conv2d, .kernel = crn_ref_conv2d, .n = 5, .operands = in, .result = &y};
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);  // two channels a group, one group
  in[4] = KT_INTS(CAIRN_UI32, 2);
  assert_int_equal(kt_try(&call), CAIRN_OK);
  in[3] = KT_INTS(CAIRN_UI32, 2, 2);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);  // reads past the end
  in[3] = KT_INTS(CAIRN_UI32, 0, 1);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  in[3] = KT_INTS(CAIRN_UI32, 1, 1), in[4] = KT_INTS(CAIRN_UI32, 0);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
}

#define TEST(fn) cmocka_unit_test_teardown(fn, kt_free_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(all_layouts_and_types),       TEST(batches_broadcast),        TEST(integers_wrap), TEST(rows_do_not_depend_on_each_other),
      TEST(zero_weights_change_nothing), TEST(wrong_shapes_are_refused), TEST(convolutions),  TEST(impossible_convolutions_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
