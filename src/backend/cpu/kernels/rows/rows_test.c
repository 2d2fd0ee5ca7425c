// Row kernels: every set the processor has against f64, and sets against one another.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/rows/rows.h"
#include "base/cpu.h"

enum { N = 301 };

static float g_x[N], g_y[N], g_c[N], g_s[N];

static void fill(void) {
  uint32_t seed = 3;
  for (int i = 0; i < N; i++) {
    float *at[] = {&g_x[i], &g_y[i], &g_c[i], &g_s[i]};
    for (int k = 0; k < 4; k++) {
      seed = seed * 1664525u + 1013904223u;
      *at[k] = (float)(int32_t)seed / 2147483648.0f * (k < 2 ? 12 : 1);
    }
  }
}

typedef void (*check_fn)(const crn_rows_kernels *k, int64_t n);

static void for_every_set(check_fn check) {
  int n_sets, ran = 0;
  const crn_rows_kernels *sets = crn_rows_list(&n_sets);
  for (int i = 0; i < n_sets; i++) {
    if (sets[i].isa & ~crn_cpu_bits()) continue;
    for (int64_t n = 0; n <= N; n += n < 70 ? 1 : 33) check(&sets[i], n);
    ran++;
  }
  assert_true(ran >= 1);
}

static void check_silu(const crn_rows_kernels *k, int64_t n) {
  float y[N + 1];
  y[n] = 77;
  k->silu(g_x, y, n);
  for (int64_t i = 0; i < n; i++) {
    double expected = (double)g_x[i] / (1 + exp(-(double)g_x[i]));
    if (!(fabs(y[i] - expected) <= 4e-7 * fabs(expected) + 1e-30))
      fail_msg("%s: silu(%g) is %g, not %g", k->name, (double)g_x[i], (double)y[i], expected);
  }
  assert_true(y[n] == 77);
}

static void test_silu(void **state) {
  (void)state;
  for_every_set(check_silu);
  int n_sets;
  const crn_rows_kernels *sets = crn_rows_list(&n_sets);
  for (int i = 0; i < n_sets; i++) {
    if (sets[i].isa & ~crn_cpu_bits()) continue;
    float special[] = {INFINITY, -100, 0, -0.0f, NAN, 1e30f, -1e30f, 88, -88}, out[9];
    sets[i].silu(special, out, 9);
    assert_true(out[0] == INFINITY && fabsf(out[1]) < 1e-30f && out[2] == 0 && isnan(out[4]) && out[5] == 1e30f && out[7] == 88);
    assert_true(fabsf(out[8]) < 1e-30f && signbit(out[3]));
  }
}

static void check_squares(const crn_rows_kernels *k, int64_t n) {
  double expected = 0;
  for (int64_t i = 0; i < n; i++) expected += (double)g_x[i] * g_x[i];
  float sum = k->sum_squares(g_x, n);
  assert_true(fabs(sum - expected) <= 1e-6 * expected);
  int n_sets;
  // The order of the sum is part of the contract: sets give equal bits.
  const crn_rows_kernels *scalar = crn_rows_list(&n_sets) + n_sets - 1;
  assert_true(sum == scalar->sum_squares(g_x, n));
}

static void test_squares(void **state) {
  (void)state;
  for_every_set(check_squares);
}

static void check_rotate(const crn_rows_kernels *k, int64_t n) {
  float a[N], b[N];
  k->rotate(g_x, g_y, g_c, g_s, a, b, n);
  for (int64_t i = 0; i < n; i++) {
    float xc = g_x[i] * g_c[i], ys = g_y[i] * g_s[i], yc = g_y[i] * g_c[i], xs = g_x[i] * g_s[i];
    assert_true(a[i] == xc - ys && b[i] == yc + xs);
  }
}

static void test_rotate(void **state) {
  (void)state;
  for_every_set(check_rotate);
}

static void check_residual(const crn_rows_kernels *k, int64_t n) {
  int8_t quants[N];
  float scales[N / 32 + 1], out[N + 1];
  for (int i = 0; i < N; i++) quants[i] = (int8_t)(i * 37);
  for (int i = 0; i <= N / 32; i++) scales[i] = 0.01f * (float)(i + 1);
  out[n] = 5;
  k->residual(g_x, quants, scales, out, n);
  for (int64_t i = 0; i < n; i++) {
    float product = (float)quants[i] * scales[i / 32];
    assert_true(out[i] == g_x[i] - product);
  }
  assert_true(out[n] == 5);
}

static void test_residual(void **state) {
  (void)state;
  for_every_set(check_residual);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_silu), cmocka_unit_test(test_squares), cmocka_unit_test(test_rotate),
                                     cmocka_unit_test(test_residual)};
  fill();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
