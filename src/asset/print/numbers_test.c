#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <locale.h>
#include <string.h>

#include "asset/print/printer.h"

static crn_printer g_printer;

static const char *printed(void) {
  g_printer.buffer[g_printer.used] = 0;
  g_printer.used = 0;
  return g_printer.buffer;
}

static void expect_float(uint64_t bits, uint64_t width, const char *text) {
  crn_print_float(&g_printer, bits, width);
  assert_string_equal(printed(), text);
}

static void check_floats(void) {
  expect_float(0x3f800000, 32, "1.000000e+00");
  expect_float(0x80000000, 32, "-0.000000e+00");
  expect_float(0x3dcccccd, 32, "1.000000e-01");
  expect_float(0x40490fdb, 32, "3.14159274");
  expect_float(0x7f800000, 32, "0x7F800000");
  expect_float(0xffc00001, 32, "0xFFC00001");
  expect_float(0x4b7fffff, 32, "0x4B7FFFFF");  // 16777215 has no point at nine digits
  expect_float(0x7f7fffff, 32, "3.40282347e+38");
  expect_float(0x3ff0000000000000, 64, "1.000000e+00");
  expect_float(0x400921fb54442d18, 64, "3.1415926535897931");
  expect_float(0x3c00, 16, "1.000000e+00");
  expect_float(0x7bff, 16, "6.550400e+04");
  expect_float(0x0001, 16, "5.960464e-08");
  expect_float(0x7e00, 16, "0x7E00");
}

static void test_floats(void **state) {
  (void)state;
  check_floats();
}

static void test_floats_with_a_decimal_comma(void **state) {
  (void)state;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
  check_floats();
  setlocale(LC_NUMERIC, "C");
}

static void expect_wide(const uint64_t *words, uint32_t n, uint64_t width, bool is_unsigned, const char *text) {
  crn_print_wide(&g_printer, words, n, width, is_unsigned);
  assert_string_equal(printed(), text);
}

static void test_integers(void **state) {
  (void)state;
  uint64_t top[2] = {0, 1ull << 63}, ones[2] = {~0ull, ~0ull}, ten20[2] = {7766279631452241920u, 5}, eight[1] = {0x80}, zero[2] = {0};
  expect_wide(eight, 1, 8, false, "-128");
  expect_wide(eight, 1, 8, true, "128");
  expect_wide(zero, 1, 0, false, "0");
  expect_wide(zero, 2, 128, true, "0");
  expect_wide(ones, 1, 64, false, "-1");
  expect_wide(ones, 1, 64, true, "18446744073709551615");
  expect_wide(ones, 2, 128, true, "340282366920938463463374607431768211455");
  expect_wide(ones, 2, 128, false, "-1");
  expect_wide(top, 2, 128, false, "-170141183460469231731687303715884105728");
  expect_wide(ten20, 2, 128, true, "100000000000000000000");
  crn_print_signed(&g_printer, INT64_MIN);
  assert_string_equal(printed(), "-9223372036854775808");
}

static void test_base64(void **state) {
  (void)state;
  static const char *const expected[] = {"", "AA==", "AAE=", "AAEC", "AAEC/w=="};
  static const unsigned char data[] = {0, 1, 2, 255};
  for (size_t n = 0; n <= sizeof data; n++) {
    crn_print_base64(&g_printer, data, n);
    assert_string_equal(printed(), expected[n]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats), cmocka_unit_test(test_floats_with_a_decimal_comma),
                                     cmocka_unit_test(test_integers), cmocka_unit_test(test_base64)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
