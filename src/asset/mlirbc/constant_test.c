#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>

#include "asset/mlirbc/private.h"

enum { F32 = 6, F16 = 7, BOOL = 4, C64 = 12, SI4 = 21, UI4 = 27, UI2 = 28, UI1 = 29, UI6 = 36, UI3 = 37, FP4 = 46, TOKEN = 32 };
enum { REFUSED = 0, FULL = 1, SPLAT = 2, PACKED = 4, BYTES = 8 };

// A constant and how it must be read.
typedef struct constant_case {
  int code;  // of the element type
  int64_t dims[2];
  int rank;
  bool resource, splat_flag;
  size_t bytes;
  int expected;  // REFUSED, or FULL or SPLAT with PACKED or BYTES
} constant_case;

static const constant_case k_cases[] = {
    // Inline, a byte or more.
    {F32, {2, 3}, 2, false, false, 24, FULL},
    {F32, {2, 3}, 2, false, true, 4, SPLAT},
    {F32, {2, 3}, 2, false, false, 4, SPLAT},  // one element is enough, whatever the flag says
    {F32, {2, 3}, 2, false, true, 24, FULL},
    {F32, {2, 3}, 2, false, false, 20, REFUSED},
    {F32, {2, 3}, 2, false, false, 28, REFUSED},
    {F32, {0}, 0, false, true, 4, FULL},
    {F32, {0, 5}, 2, false, false, 0, FULL},
    {F32, {0, 5}, 2, false, false, 1, REFUSED},
    {F32, {0, INT64_MAX}, 2, false, false, 0, FULL},
    {F32, {INT64_MAX, INT64_MAX}, 2, false, false, 4, REFUSED},
    {F32, {INT64_MAX / 2, 1}, 2, false, true, 24, REFUSED},
    {F32, {INT64_MIN, 3}, 2, false, true, 4, REFUSED},
    {C64, {3}, 1, false, false, 24, FULL},
    {C64, {3}, 1, false, true, 8, SPLAT},
    // Inline truth values: a byte each, a splat in full.
    {BOOL, {5}, 1, false, true, 5, FULL},
    {BOOL, {5}, 1, false, true, 1, SPLAT},
    {BOOL, {5}, 1, true, false, 5, FULL},
    {BOOL, {5}, 1, true, false, 1, REFUSED},
    // Inline below a byte: a byte each.
    {SI4, {3}, 1, false, false, 3, FULL | BYTES},
    {SI4, {3}, 1, false, true, 1, SPLAT | BYTES},
    {SI4, {3}, 1, false, false, 2, REFUSED},
    {UI6, {4}, 1, false, false, 4, FULL | BYTES},
    {FP4, {4}, 1, false, true, 1, SPLAT | BYTES},
    {FP4, {4}, 1, false, false, 2, REFUSED},
    // Inline one-bit integers: a bit stream.
    {UI1, {10}, 1, false, false, 2, FULL | PACKED},
    {UI1, {10}, 1, false, true, 1, SPLAT | PACKED},
    {UI1, {8}, 1, false, false, 1, FULL | PACKED},
    {UI1, {8}, 1, false, true, 1, SPLAT | PACKED},
    {UI1, {10}, 1, false, false, 10, REFUSED},
    // Resources: full, a bit stream below a byte.
    {F16, {3}, 1, true, false, 6, FULL},
    {F16, {3}, 1, true, false, 2, REFUSED},
    {UI4, {4, 32}, 2, true, false, 64, FULL | PACKED},
    {UI4, {4, 32}, 2, true, false, 63, REFUSED},
    {UI4, {3}, 1, true, false, 2, FULL | PACKED},
    {UI2, {5}, 1, true, false, 2, FULL | PACKED},
    {UI1, {9}, 1, true, false, 2, FULL | PACKED},
    {UI1, {9}, 1, true, false, 9, REFUSED},
    {UI3, {8}, 1, true, false, 3, FULL | PACKED},
    {UI3, {9}, 1, true, false, 4, FULL | PACKED},
    {UI3, {9}, 1, true, false, 6, FULL | PACKED},  // the last group of three bytes filled up
    {UI3, {9}, 1, true, false, 5, REFUSED},
    {UI6, {30}, 1, true, false, 23, FULL | PACKED},
    {UI6, {30}, 1, true, false, 24, FULL | PACKED},
    {UI6, {30}, 1, true, false, 25, REFUSED},
    {TOKEN, {2}, 1, false, false, 2, REFUSED},
};

static int read_case(const constant_case *k, crn_bc_constant *out) {
  static const char data[64] = {0};
  crn_bc_type element = {.code = (uint16_t)k->code};
  crn_bc_field shape[2] = {{.kind = 'I', .n = (uint32_t)k->rank, .is = k->dims}, {.kind = 't', .n = 1, .t = &element}};
  crn_bc_type type = {.code = CRN_BC_TYPE_TENSOR, .n_fields = 2, .fields = shape};
  crn_bc_field dense[2] = {{.kind = 'b', .n = 1, .u = k->splat_flag}, {.kind = 'd', .n = 1, .s = {data, k->bytes}}};
  crn_bc_field index = {.kind = 'r', .n = 1, .u = 0};
  crn_bc_attr value = {.code = CRN_BC_ATTR_DENSE_ELEMENTS, .n_fields = 2, .fields = dense};
  if (k->resource) value = (crn_bc_attr){.code = CRN_BC_ATTR_DENSE_RESOURCE, .n_fields = 1, .fields = &index};
  crn_bc_resource resource = {.key = {"weight", 6}, .data = data, .bytes = k->bytes};
  crn_bc_module m = {.n_resources = 1, .resources = &resource};
  cairn_status status = crn_bc_constant_data(&m, &value, &type, out);
  if (status != CAIRN_OK) {
    assert_int_equal(status, CAIRN_CORRUPT);
    return REFUSED;
  }
  assert_ptr_equal(out->data, data);
  assert_int_equal(out->bytes, k->bytes);
  return (out->splat ? SPLAT : FULL) | (out->packed ? PACKED : 0) | (out->bytes_per_subbyte ? BYTES : 0);
}

static void test_lengths(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof k_cases / sizeof *k_cases; i++) {
    crn_bc_constant c;
    int got = read_case(&k_cases[i], &c);
    if (got != k_cases[i].expected) fail_msg("case %zu: %d, expected %d", i, got, k_cases[i].expected);
  }
}

static void test_other_values(void **state) {
  (void)state;
  crn_bc_type element = {.code = F32};
  crn_bc_field shape[3] = {{.kind = 'I'}, {.kind = 't', .n = 1, .t = &element}};
  crn_bc_type type = {.code = CRN_BC_TYPE_TENSOR, .n_fields = 2, .fields = shape};
  crn_bc_attr unit = {.code = CRN_BC_ATTR_UNIT}, sparse = {.code = CRN_BC_ATTR_SPARSE};
  crn_bc_module m = {0};
  crn_bc_constant c;
  assert_int_equal(crn_bc_constant_data(&m, NULL, &type, &c), CAIRN_CORRUPT);
  assert_int_equal(crn_bc_constant_data(&m, &unit, &type, &c), CAIRN_CORRUPT);
  assert_int_equal(crn_bc_constant_data(&m, &unit, &element, &c), CAIRN_CORRUPT);
  shape[2] = (crn_bc_field){.kind = 'a', .n = 1, .a = &sparse};
  type.code = CRN_BC_TYPE_TENSOR_ENCODED;
  assert_int_equal(crn_bc_constant_data(&m, &unit, &type, &c), CAIRN_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths), cmocka_unit_test(test_other_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
