// blockwise_shift_scale: packing, block grids, and the rounding of every step.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"
#include "tensor/half.h"

static void shift_scale(const crn_tensor *operands, crn_tensor *out, crn_pool *pool) {
  kt_run(&(kt_call){.id = CRN_OP_blockwise_shift_scale,
                    .kernel = crn_ref_blockwise_shift_scale,
                    .n = 4,
                    .operands = operands,
                    .result = out,
                    .pool = pool});
}

// A packed stream of codes with the first element in the lowest bits.
static crn_tensor packed(cairn_dtype dtype, int rank, const int64_t *dims, const crn_tensor *values) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, NULL);
  size_t bytes;
  int bits = crn_dtype_bits(dtype);
  assert_true(crn_packed_bytes(dtype, crn_tensor_count(&t), &bytes));
  uint8_t *data = t.data = kt_memory(bytes);
  memset(data, 0, bytes);
  for (int64_t i = 0; i < crn_tensor_count(&t); i++) {
    unsigned code = ((uint8_t *)values->data)[i] & ((1u << bits) - 1);
    int64_t bit = i * bits;
    data[bit / 8] |= (uint8_t)(code << bit % 8);
    if (bit % 8 + bits > 8) data[bit / 8 + 1] |= (uint8_t)(code >> (8 - bit % 8));
  }
  t.packed = true;
  return t;
}

// Any value of an element type.
static crn_tensor any_values(cairn_dtype dtype, int rank, const int64_t *dims) {
  crn_tensor t = kt_tensor(dtype, rank, dims);
  for (int64_t i = 0; i < crn_tensor_count(&t); i++) {
    if (crn_dtype_is_integer(dtype)) {
      crn_store_i64(dtype, crn_tensor_at(&t, i), (int64_t)(kt_random() * 1000));
    } else {
      crn_store_f64(dtype, crn_tensor_at(&t, i), kt_random() * 6);
    }
  }
  return t;
}

// One step of the arithmetic in the result type. bf16 results keep f32 until the end.
static double step(cairn_dtype result, double v) {
  if (result == CAIRN_F16) return crn_f16_to_f32(crn_f16_from_f32((float)v));
  return result == CAIRN_F64 ? v : (double)(float)v;
}

static void check_values(const crn_tensor *operands, const crn_tensor *plain_data, const crn_tensor *plain_shift, const crn_tensor *out) {
  const crn_tensor *scale = &operands[1], *offset2 = &operands[3];
  for (int64_t i = 0; i < crn_tensor_count(out); i++) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
      int64_t block = out->dims[d] / scale->dims[d];
      at += rest % out->dims[d] / block * stride;
      stride *= scale->dims[d];
      rest /= out->dims[d];
    }
    double s = kt_at(scale, at), bias = step(out->dtype, kt_at(offset2, at) - step(out->dtype, kt_at(plain_shift, at) * s));
    double want = step(out->dtype, step(out->dtype, kt_at(plain_data, i) * s) + bias);
    unsigned char element[8];
    crn_store_f64(out->dtype, element, want);
    if (memcmp(element, crn_tensor_at(out, i), cairn_dtype_bytes(out->dtype))) {
      fail_msg("%s to %s, element %d: %.9g instead of %.9g", cairn_dtype_name(plain_data->dtype), cairn_dtype_name(out->dtype), (int)i,
               kt_at(out, i), want);
    }
  }
}

static void all_types_and_grids(void **state) {
  (void)state;
  static const cairn_dtype data_types[] = {CAIRN_SI2, CAIRN_SI4, CAIRN_SI8,      CAIRN_UI2,    CAIRN_UI3,      CAIRN_UI4,
                                           CAIRN_UI6, CAIRN_UI8, CAIRN_F8E4M3FN, CAIRN_F8E5M2, CAIRN_F4E2M1FN, CAIRN_F32};
  static const cairn_dtype results[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16, CAIRN_F64};
  static const struct {
    int rank;
    int64_t dims[4], grid[4];
  } shapes[] = {
      {2, {3, 5}, {3, 5}},  // rows that start inside of a byte
      {2, {3, 5}, {1, 1}},
      {2, {6, 64}, {6, 2}},
      {2, {6, 64}, {3, 1}},
      {2, {5, 33}, {5, 1}},
      {1, {40}, {5}},
      {4, {2, 3, 2, 96}, {2, 3, 2, 3}},
      {4, {2, 1, 4, 6}, {1, 1, 2, 2}},
      {2, {2, 600}, {2, 1}},
  };
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  for (size_t t = 0; t < sizeof data_types / sizeof *data_types; t++) {
    for (int r = 0; r < 4; r++) {
      for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int rank = shapes[s].rank;
        crn_tensor data = any_values(data_types[t], rank, shapes[s].dims), shift = any_values(data_types[t], rank, shapes[s].grid);
        crn_tensor scale = kt_random_tensor(results[r], 0.1, rank, shapes[s].grid),
                   offset2 = kt_random_tensor(results[r], 1, rank, shapes[s].grid);
        crn_tensor out = kt_tensor(results[r], rank, shapes[s].dims), again = kt_tensor(results[r], rank, shapes[s].dims);
        crn_tensor operands[4] = {data, scale, shift, offset2};
        shift_scale(operands, &out, NULL);
        check_values(operands, &data, &shift, &out);
        if (crn_dtype_bits(data_types[t]) < 8) {
          crn_tensor stream[4] = {packed(data_types[t], rank, shapes[s].dims, &data), scale,
                                  packed(data_types[t], rank, shapes[s].grid, &shift), offset2};
          shift_scale(stream, &again, pool);
          assert_true(kt_same_bytes(&out, &again));
        }
        crn_tensor strided[4] = {kt_spread(&data, 2), kt_spread(&scale, 2), kt_spread(&shift, 1), kt_spread(&offset2, 3)};
        shift_scale(strided, &again, pool);
        assert_true(kt_same_bytes(&out, &again));
        kt_free_all(NULL);
      }
    }
  }
  crn_pool_destroy(pool);
}

// The byte strings of the format description.
static void streams_start_with_the_lowest_bits(void **state) {
  (void)state;
  static const struct {
    cairn_dtype dtype;
    int n;
    uint8_t bytes[4];
    double values[4];
  } cases[] = {
      {CAIRN_UI2, 4, {0xe4}, {0, 1, 2, 3}}, {CAIRN_SI2, 4, {0x4e}, {-2, -1, 0, 1}},           {CAIRN_UI4, 4, {0x10, 0x32}, {0, 1, 2, 3}},
      {CAIRN_SI4, 2, {0x98}, {-8, -7}},     {CAIRN_UI6, 4, {0x40, 0x20, 0x0c}, {0, 1, 2, 3}}, {CAIRN_F4E2M1FN, 2, {0x01}, {0.5, 0}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    crn_tensor data = crn_tensor_make(cases[c].dtype, KT_DIMS(cases[c].n), 1, kt_memory(8)),
               out = kt_tensor(CAIRN_F32, 1, KT_DIMS(cases[c].n));
    memcpy(data.data, cases[c].bytes, 4);
    data.packed = true;
    crn_tensor zero = KT(cases[c].dtype, 1), operands[4] = {data, KT(CAIRN_F32, 1), zero, KT(CAIRN_F32, 1)};
    memset(zero.data, 0, 1);
    *(float *)operands[1].data = 1;
    *(float *)operands[3].data = 0;
    shift_scale(operands, &out, NULL);
    for (int i = 0; i < cases[c].n; i++) assert_true(kt_at(&out, i) == cases[c].values[i]);
  }
}

// A splat constant (strides 0) for the offsets, a power-of-two scale of another type than the result.
static void splats_and_power_of_two_scales(void **state) {
  (void)state;
  crn_tensor data = any_values(CAIRN_F8E4M3FN, 2, KT_DIMS(4, 64)), out = KT(CAIRN_F16, 4, 64), scale = KT(CAIRN_F8E8M0FNU, 4, 2);
  for (int i = 0; i < 8; i++) ((uint8_t *)scale.data)[i] = (uint8_t)(120 + i);
  crn_tensor zero = KT(CAIRN_F8E4M3FN, 1, 1), offset = KT(CAIRN_F16, 1, 1);
  ((uint8_t *)zero.data)[0] = 0;
  ((uint16_t *)offset.data)[0] = 0;
  zero.dims[0] = offset.dims[0] = 4, zero.dims[1] = offset.dims[1] = 2;
  zero.strides[0] = zero.strides[1] = offset.strides[0] = offset.strides[1] = 0;
  crn_tensor operands[4] = {data, scale, zero, offset};
  shift_scale(operands, &out, NULL);
  for (int64_t i = 0; i < 4 * 64; i++) assert_true(kt_at(&out, i) == kt_at(&data, i) * ldexp(1, (int)(i / 32) - 7));
}

static void bad_grids_are_refused(void **state) {
  (void)state;
  crn_tensor operands[4] = {KT_RANDOM(CAIRN_SI8, 9, 4, 6), KT_RANDOM(CAIRN_F32, 1, 4, 4), KT_RANDOM(CAIRN_SI8, 9, 4, 4),
                            KT_RANDOM(CAIRN_F32, 1, 4, 4)};
  crn_tensor out = KT(CAIRN_F32, 4, 6);
  kt_call call = {
      .id = CRN_OP_blockwise_shift_scale, .kernel = crn_ref_blockwise_shift_scale, .n = 4, .operands = operands, .result = &out};
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  operands[1] = KT_RANDOM(CAIRN_F32, 1, 4, 3);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);  // offsets of another grid
  operands[2] = KT_RANDOM(CAIRN_SI8, 9, 4, 3), operands[3] = KT_RANDOM(CAIRN_F32, 1, 4, 3);
  assert_int_equal(kt_try(&call), CAIRN_OK);
  operands[1] = KT_RANDOM(CAIRN_F32, 1, 4);
  assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
  out = KT(CAIRN_BOOL, 4, 6);
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
}

#define TEST(fn) cmocka_unit_test_teardown(fn, kt_free_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(all_types_and_grids),
      TEST(streams_start_with_the_lowest_bits),
      TEST(splats_and_power_of_two_scales),
      TEST(bad_grids_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
