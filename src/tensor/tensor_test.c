// Unit tests of element types, views, conversions and arrays.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/half.h"
#include "tensor/ndarray.h"

static cairn_context *g_context;

static int open_context(void **state) {
  (void)state;
  return cairn_context_create(NULL, &g_context);
}

static int close_context(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

static void test_dtypes(void **state) {
  (void)state;
  for (int d = 1; d < CAIRN_DTYPE_COUNT; d++) {
    assert_int_equal(cairn_dtype_from_name(cairn_dtype_name((cairn_dtype)d)), d);
    assert_true(cairn_dtype_bytes((cairn_dtype)d) * 8 >= (size_t)crn_dtype_bits((cairn_dtype)d));
  }
  assert_int_equal(cairn_dtype_from_name("float17"), CAIRN_DTYPE_NONE);
  assert_string_equal(cairn_dtype_name((cairn_dtype)1000), "none");
  assert_int_equal(cairn_dtype_bytes(CAIRN_SI4), 1);
}

static void test_half_round_trips(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x10000; h++) {
    float f = crn_f16_to_f32((uint16_t)h), b = crn_bf16_to_f32((uint16_t)h);
    if (isnan(f)) {
      assert_true(isnan(crn_f16_to_f32(crn_f16_from_f32(f))));
    } else {
      assert_int_equal(crn_f16_from_f32(f), h);
    }
    if (!isnan(b)) assert_int_equal(crn_bf16_from_f32(b), h);
  }
  // Ties go to even, in the normal and the subnormal range, and overflow starts at 65520.
  assert_int_equal(crn_f16_from_f32(1.0f + 0x1p-11f), 0x3c00);
  assert_int_equal(crn_f16_from_f32(1.0f + 3 * 0x1p-11f), 0x3c02);
  assert_int_equal(crn_f16_from_f32(0x1p-25f), 0);
  assert_int_equal(crn_f16_from_f32(3 * 0x1p-25f), 2);
  assert_int_equal(crn_f16_from_f32(65519.0f), 0x7bff);
  assert_int_equal(crn_f16_from_f32(65520.0f), 0x7c00);
  assert_int_equal(crn_f16_from_f32(-INFINITY), 0xfc00);
  for (int v = 0; v < 256; v++) {
    float a = crn_f8e5m2_to_f32((uint8_t)v), b = crn_f8e4m3fn_to_f32((uint8_t)v), c = crn_f8e8m0fnu_to_f32((uint8_t)v);
    if (!isnan(a)) assert_int_equal(crn_f8e5m2_from_f32(a), v);
    if (!isnan(b)) assert_int_equal(crn_f8e4m3fn_from_f32(b), v);
    if (!isnan(c)) assert_int_equal(crn_f8e8m0fnu_from_f32(c), v);
  }
  for (int v = 0; v < 16; v++) assert_int_equal(crn_f4e2m1fn_from_f32(crn_f4e2m1fn_to_f32((uint8_t)v)), v);
  assert_true(crn_f8e4m3fn_to_f32(crn_f8e4m3fn_from_f32(448.0f)) == 448.0f);
  assert_true(isnan(crn_f8e4m3fn_to_f32(crn_f8e4m3fn_from_f32(500.0f))));
}

static void test_conversions(void **state) {
  (void)state;
  float f[6] = {NAN, 3e9f, -3e9f, 2.9f, -2.9f, 0.5f};
  int32_t i[6];
  uint8_t u[6], b[6];
  crn_convert(CAIRN_F32, f, CAIRN_SI32, i, 6);
  assert_int_equal(i[0], 0);
  assert_int_equal(i[1], INT32_MAX);
  assert_int_equal(i[2], INT32_MIN);
  assert_int_equal(i[3], 2);
  assert_int_equal(i[4], -2);
  crn_convert(CAIRN_F32, f, CAIRN_UI8, u, 6);
  assert_int_equal(u[1], 255);
  assert_int_equal(u[2], 0);
  crn_convert(CAIRN_F32, f, CAIRN_BOOL, b, 6);
  assert_int_equal(b[0], 1);
  assert_int_equal(b[5], 1);
  int64_t wide[3] = {INT64_MAX, -5, 300}, back[3];
  int8_t narrow[3];
  uint64_t big[3];
  crn_convert(CAIRN_SI64, wide, CAIRN_SI8, narrow, 3);
  assert_int_equal(narrow[0], 127);
  assert_int_equal(narrow[1], -5);
  assert_int_equal(narrow[2], 127);
  crn_convert(CAIRN_SI64, wide, CAIRN_UI64, big, 3);
  assert_true(big[0] == INT64_MAX && big[1] == 0);
  uint64_t top = UINT64_MAX;
  crn_convert(CAIRN_UI64, &top, CAIRN_SI64, back, 1);
  assert_true(back[0] == INT64_MAX);
  float pair[2] = {1.5f, -2.5f};
  uint16_t half[2];
  crn_convert(CAIRN_C64, pair, CAIRN_C32, half, 1);
  assert_true(crn_f16_to_f32(half[1]) == -2.5f);
}

static void test_unpack(void **state) {
  (void)state;
  // The packings of COMPRESSION §2.
  const uint8_t s4[] = {0x98, 0x10}, u6[] = {0x40, 0x20, 0x0c}, u3[] = {0x88, 0xc6, 0xfa}, s2[] = {0x4e}, u1[] = {0xaa};
  const struct {
    cairn_dtype dtype;
    const uint8_t *data;
    int64_t n;
    int values[8];
  } cases[] = {{CAIRN_SI4, s4, 4, {-8, -7, 0, 1}},
               {CAIRN_UI6, u6, 4, {0, 1, 2, 3}},
               {CAIRN_UI3, u3, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
               {CAIRN_SI2, s2, 4, {-2, -1, 0, 1}},
               {CAIRN_UI1, u1, 8, {0, 1, 0, 1, 0, 1, 0, 1}}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    uint8_t out[8];
    crn_tensor packed = crn_tensor_make(cases[k].dtype, &cases[k].n, 1, (void *)cases[k].data);
    packed.packed = true;
    crn_tensor plain = crn_tensor_make(cases[k].dtype, &cases[k].n, 1, out);
    crn_tensor_unpack(&packed, &plain);
    for (int64_t i = 0; i < cases[k].n; i++) assert_int_equal(crn_load_i64(cases[k].dtype, out + i), cases[k].values[i]);
  }
}

static void test_strided_copy(void **state) {
  (void)state;
  int64_t dims[3] = {3, 4, 5};
  int32_t data[60], out[60];
  for (int i = 0; i < 60; i++) data[i] = i;
  crn_tensor source = crn_tensor_make(CAIRN_SI32, dims, 3, data), view = source;
  // Reversed and transposed: view[a][b][c] = source[c][3-b][a].
  view.dims[0] = 5, view.dims[1] = 4, view.dims[2] = 3;
  view.strides[0] = 1, view.strides[1] = -5, view.strides[2] = 20;
  view.data = data + 15;
  crn_tensor target = crn_tensor_make(CAIRN_SI32, view.dims, 3, out);
  crn_tensor_copy(&view, &target);
  for (int a = 0; a < 5; a++) {
    for (int b = 0; b < 4; b++) {
      for (int c = 0; c < 3; c++) assert_int_equal(out[a * 12 + b * 3 + c], c * 20 + (3 - b) * 5 + a);
    }
  }
  int64_t empty[2] = {0, 3}, n;
  assert_true(crn_shape_count(empty, 2, &n) && n == 0);
  int64_t huge[3] = {INT64_MAX, 2, 2};
  assert_false(crn_shape_count(huge, 3, &n));
}

static void test_arrays(void **state) {
  (void)state;
  int64_t shape[2] = {3, 4};
  cairn_ndarray *a, *view, *fixed;
  assert_int_equal(cairn_ndarray_create(g_context, CAIRN_F32, shape, 2, &a), CAIRN_OK);
  float values[12], out[12];
  for (int i = 0; i < 12; i++) values[i] = (float)i;
  assert_int_equal(cairn_ndarray_write(a, values, sizeof values), CAIRN_OK);
  assert_int_equal(cairn_ndarray_write(a, values, 8), CAIRN_INVALID_ARGUMENT);
  int64_t start[2] = {1, 1}, end[2] = {3, 3};
  assert_int_equal(cairn_ndarray_slice(a, start, end, &view), CAIRN_OK);
  assert_false(cairn_ndarray_is_contiguous(view));
  assert_int_equal(cairn_ndarray_read(view, out, 16), CAIRN_OK);
  assert_true(out[0] == 5 && out[1] == 6 && out[2] == 9 && out[3] == 10);
  cairn_ndarray_release(a);  // the view keeps the storage alive
  assert_int_equal(cairn_ndarray_zero(view), CAIRN_OK);
  assert_int_equal(cairn_ndarray_const_view(view, &fixed), CAIRN_OK);
  assert_null(cairn_ndarray_mutable_data(fixed));
  assert_int_equal(cairn_ndarray_zero(fixed), CAIRN_FAILED_PRECONDITION);
  end[0] = 4;
  cairn_ndarray *bad;
  assert_int_equal(cairn_ndarray_slice(view, start, end, &bad), CAIRN_INVALID_ARGUMENT);
  cairn_ndarray_release(fixed);
  cairn_ndarray_release(view);
  shape[0] = -1;
  assert_int_equal(cairn_ndarray_create(g_context, CAIRN_F32, shape, 2, &a), CAIRN_INVALID_ARGUMENT);
  shape[0] = INT64_MAX / 2;
  assert_int_equal(cairn_ndarray_create(g_context, CAIRN_F32, shape, 2, &a), CAIRN_OUT_OF_RANGE);
}

static void count_release(void *user) { ++*(int *)user; }

static void test_order(void **state) {
  (void)state;
  cairn_ndarray *a;
  const int64_t shape[] = {2, 3, 5};
  assert_int_equal(cairn_ndarray_create_ordered(g_context, CAIRN_SI32, shape, 3, (const int[]){0, 2, 1}, &a), CAIRN_OK);
  assert_memory_equal(cairn_ndarray_shape(a), shape, sizeof shape);
  assert_memory_equal(cairn_ndarray_strides(a), ((const int64_t[]){15, 1, 3}), sizeof shape);
  int32_t values[30], back[30];
  for (int i = 0; i < 30; i++) values[i] = i;
  assert_int_equal(cairn_ndarray_write(a, values, sizeof values), CAIRN_OK);
  assert_int_equal(((const int32_t *)cairn_ndarray_data(a))[1], 5);  // [0, 1, 0]
  assert_int_equal(cairn_ndarray_read(a, back, sizeof back), CAIRN_OK);
  assert_memory_equal(back, values, sizeof values);
  cairn_ndarray_release(a);
  static const int kWrong[][3] = {{0, 1, 1}, {0, 1, 3}, {-1, 1, 2}};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(cairn_ndarray_create_ordered(g_context, CAIRN_SI32, shape, 3, kWrong[i], &a), CAIRN_INVALID_ARGUMENT);
    assert_null(a);
  }
}

static void test_wrapping(void **state) {
  (void)state;
  float block[16];
  int released = 0;
  int64_t shape[2] = {2, 3}, strides[2] = {8, 2};
  for (int i = 0; i < 16; i++) block[i] = (float)i;
  cairn_ndarray_wrap_options o = {.data = block,
                                  .bytes = sizeof block,
                                  .byte_offset = 4,
                                  .dtype = CAIRN_F32,
                                  .rank = 2,
                                  .shape = shape,
                                  .strides = strides,
                                  .release = count_release,
                                  .user = &released};
  cairn_ndarray *a;
  float out[6];
  assert_int_equal(cairn_ndarray_wrap(g_context, &o, &a), CAIRN_OK);
  assert_int_equal(cairn_ndarray_read(a, out, sizeof out), CAIRN_OK);
  assert_true(out[0] == 1 && out[1] == 3 && out[3] == 9 && out[5] == 13);
  cairn_ndarray_release(a);
  assert_int_equal(released, 1);
  o.bytes = 52;  // one element short
  assert_int_equal(cairn_ndarray_wrap(g_context, &o, &a), CAIRN_INVALID_ARGUMENT);
  o.bytes = sizeof block;
  o.byte_offset = 2;
  assert_int_equal(cairn_ndarray_wrap(g_context, &o, &a), CAIRN_INVALID_ARGUMENT);
  o.byte_offset = 0;
  strides[0] = INT64_MAX;
  assert_int_equal(cairn_ndarray_wrap(g_context, &o, &a), CAIRN_OUT_OF_RANGE);
  strides[0] = -1;
  assert_int_equal(cairn_ndarray_wrap(g_context, &o, &a), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(released, 1);
}

// The layout of the key cache of static models: strides (KV/8*8*ctx, same, 8*ctx, 8*ctx, 8), element (l,c,s) at
// l*st0 + (c/8)*st2 + s*8 + c%8.
static void test_interleave(void **state) {
  (void)state;
  cairn_descriptor d = {.name = "key_cache", .dtype = CAIRN_SI32, .rank = 5, .shape = {2, 1, 20, 1, 7}};
  for (int i = 0; i < CAIRN_MAX_RANK; i++) d.interleave[i] = i == 2 ? 8 : 1;
  int64_t strides[5];
  size_t bytes;
  assert_int_equal(cairn_descriptor_resolve(&d, NULL, 0, strides, &bytes), CAIRN_OK);
  assert_int_equal(strides[4], 8);
  assert_int_equal(strides[3], 56);
  assert_int_equal(strides[2], 56);
  assert_int_equal(strides[0], 168);
  assert_int_equal(bytes, 2 * 168 * 4);
  cairn_ndarray *a, *plain;
  assert_int_equal(cairn_ndarray_create_from_descriptor(g_context, &d, NULL, 0, &a), CAIRN_OK);
  int32_t values[280], out[280];
  for (int i = 0; i < 280; i++) values[i] = i + 1;
  assert_int_equal(cairn_ndarray_write(a, values, sizeof values), CAIRN_OK);
  const int32_t *raw = cairn_ndarray_data(a);
  for (int l = 0; l < 2; l++) {
    for (int c = 0; c < 20; c++) {
      for (int s = 0; s < 7; s++) assert_int_equal(raw[l * 168 + c / 8 * 56 + s * 8 + c % 8], l * 140 + c * 7 + s + 1);
    }
  }
  assert_int_equal(cairn_ndarray_read(a, out, sizeof out), CAIRN_OK);
  assert_memory_equal(out, values, sizeof out);
  assert_int_equal(cairn_ndarray_create(g_context, CAIRN_SI32, d.shape, 5, &plain), CAIRN_OK);
  assert_int_equal(cairn_ndarray_copy(a, plain), CAIRN_OK);
  assert_memory_equal(cairn_ndarray_data(plain), values, sizeof values);
  cairn_ndarray_release(plain);
  cairn_ndarray_release(a);
}

static void test_descriptors(void **state) {
  (void)state;
  cairn_descriptor d = {.name = "x", .dtype = CAIRN_F16, .rank = 2, .shape = {-1, 4}};
  for (int i = 0; i < CAIRN_MAX_RANK; i++) d.interleave[i] = 1;
  assert_true(cairn_descriptor_is_dynamic(&d));
  assert_int_equal(cairn_descriptor_resolve(&d, NULL, 0, NULL, NULL), CAIRN_FAILED_PRECONDITION);
  int64_t shape[2] = {3, 5};
  assert_int_equal(cairn_descriptor_resolve(&d, shape, 2, NULL, NULL), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "dim 1 of 'x' must be 4, 5 was given"));
  assert_int_equal(cairn_descriptor_resolve(&d, shape, 1, NULL, NULL), CAIRN_INVALID_ARGUMENT);
  shape[1] = 4;
  size_t bytes;
  assert_int_equal(cairn_descriptor_resolve(&d, shape, 2, NULL, &bytes), CAIRN_OK);
  assert_int_equal(bytes, 24);
  shape[0] = INT64_MAX / 2;
  assert_int_equal(cairn_descriptor_resolve(&d, shape, 2, NULL, &bytes), CAIRN_OUT_OF_RANGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dtypes),      cmocka_unit_test(test_half_round_trips), cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_unpack),      cmocka_unit_test(test_strided_copy),     cmocka_unit_test(test_arrays),
      cmocka_unit_test(test_order),       cmocka_unit_test(test_wrapping),         cmocka_unit_test(test_interleave),
      cmocka_unit_test(test_descriptors),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
