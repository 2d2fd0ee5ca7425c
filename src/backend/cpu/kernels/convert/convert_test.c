// Every set of conversion kernels against the one-value conversions: all 16-bit patterns, edges of rounding, all tails.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/kernels/convert/convert.h"
#include "base/cpu.h"
#include "tensor/half.h"

enum { ALL = 65536 };

static uint16_t g_half[ALL + 64], g_back[ALL + 64];
static float g_wide[ALL + 64];

#define FOR_EACH_SET(set)                                                 \
  int n_sets;                                                             \
  const crn_convert_kernels *set = crn_convert_list(&n_sets);             \
  for (const crn_convert_kernels *last = set + n_sets; set < last; set++) \
    if ((set->isa & ~crn_cpu_bits()) == 0)

static bool is_nan_f16(uint16_t h) { return (h & 0x7fff) > 0x7c00; }
static bool is_nan_bf16(uint16_t h) { return (h & 0x7fff) > 0x7f80; }

static void widening_is_exact(void **state) {
  (void)state;
  for (int i = 0; i < ALL; i++) g_half[i] = (uint16_t)i;
  FOR_EACH_SET(set) {
    set->f16_f32(g_half, g_wide, ALL);
    for (int i = 0; i < ALL; i++) {
      float want = crn_f16_to_f32((uint16_t)i);
      if (is_nan_f16((uint16_t)i) ? g_wide[i] == g_wide[i] : crn_f32_bits(g_wide[i]) != crn_f32_bits(want))
        fail_msg("%s: f16 %04x", set->name, i);
    }
    set->bf16_f32(g_half, g_wide, ALL);
    for (int i = 0; i < ALL; i++) assert_true(crn_f32_bits(g_wide[i]) == (uint32_t)i << 16);
  }
}

static void narrowing_gives_values_back(void **state) {
  (void)state;
  for (int i = 0; i < ALL; i++) g_half[i] = (uint16_t)i;
  FOR_EACH_SET(set) {
    set->f16_f32(g_half, g_wide, ALL);
    set->f32_f16(g_wide, g_back, ALL);
    for (int i = 0; i < ALL; i++) {
      if (is_nan_f16((uint16_t)i) ? !is_nan_f16(g_back[i]) : g_back[i] != i)
        fail_msg("%s: f16 %04x came back as %04x", set->name, i, g_back[i]);
    }
    set->bf16_f32(g_half, g_wide, ALL);
    set->f32_bf16(g_wide, g_back, ALL);
    for (int i = 0; i < ALL; i++) {
      if (is_nan_bf16((uint16_t)i) ? !is_nan_bf16(g_back[i]) : g_back[i] != i)
        fail_msg("%s: bf16 %04x came back as %04x", set->name, i, g_back[i]);
    }
  }
}

// f32 values on, just below and just above the middle between neighbours, and patterns from all over the range.
static void narrowing_rounds_to_nearest_even(void **state) {
  (void)state;
  for (int shift = 12; shift <= 16; shift++) {
    for (int i = 0; i < ALL; i++) {
      uint32_t bits = (uint32_t)i << 16 | 1u << (shift - 1);
      g_wide[i] = crn_f32_from_bits(i % 3 == 0 ? bits : i % 3 == 1 ? bits - 1 : bits + 1);
    }
    FOR_EACH_SET(set) {
      set->f32_f16(g_wide, g_back, ALL);
      for (int i = 0; i < ALL; i++) {
        uint16_t want = crn_f16_from_f32(g_wide[i]);
        if (is_nan_f16(want) ? !is_nan_f16(g_back[i]) : g_back[i] != want)
          fail_msg("%s: %08x gave f16 %04x, not %04x", set->name, crn_f32_bits(g_wide[i]), g_back[i], want);
      }
      set->f32_bf16(g_wide, g_back, ALL);
      for (int i = 0; i < ALL; i++) {
        uint16_t want = crn_bf16_from_f32(g_wide[i]);
        if (is_nan_bf16(want) ? !is_nan_bf16(g_back[i]) : g_back[i] != want)
          fail_msg("%s: %08x gave bf16 %04x, not %04x", set->name, crn_f32_bits(g_wide[i]), g_back[i], want);
      }
    }
  }
}

static void tails_stay_in_bounds(void **state) {
  (void)state;
  FOR_EACH_SET(set) {
    for (int64_t n = 0; n <= 40; n++) {
      for (int offset = 0; offset < 3; offset++) {
        for (int i = 0; i < 64; i++) g_half[i] = (uint16_t)(0x3c00 + i), g_wide[i] = 777, g_back[i] = 777;
        set->f16_f32(g_half + offset, g_wide + offset, n);
        set->f32_f16(g_wide + offset, g_back + offset, n);
        for (int i = 0; i < 64; i++) {
          bool inside = i >= offset && i < offset + n;
          assert_true(g_wide[i] == (inside ? crn_f16_to_f32(g_half[i]) : 777.0f));
          assert_int_equal(g_back[i], inside ? g_half[i] : 777);
        }
        for (int i = 0; i < 64; i++) g_wide[i] = 777, g_back[i] = 777;
        set->bf16_f32(g_half + offset, g_wide + offset, n);
        set->f32_bf16(g_wide + offset, g_back + offset, n);
        for (int i = 0; i < 64; i++) {
          bool inside = i >= offset && i < offset + n;
          assert_true(g_wide[i] == (inside ? crn_bf16_to_f32(g_half[i]) : 777.0f));
          assert_int_equal(g_back[i], inside ? g_half[i] : 777);
        }
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(widening_is_exact),
      cmocka_unit_test(narrowing_gives_values_back),
      cmocka_unit_test(narrowing_rounds_to_nearest_even),
      cmocka_unit_test(tails_stay_in_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
