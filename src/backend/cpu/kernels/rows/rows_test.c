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

static float g_x[N];

static void fill(void) {
  uint32_t seed = 3;
  for (int i = 0; i < N; i++) {
    seed = seed * 1664525u + 1013904223u;
    g_x[i] = (float)(int32_t)seed / 2147483648.0f * 12;
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

// Bits do not depend on the set: these loops have one meaning.
static void check_plain(const crn_rows_kernels *k, int64_t n) {
  float b[N], out[N + 1];
  double lanes[8] = {0};
  for (int i = 0; i < N; i++) b[i] = g_x[(i * 7 + 3) % N];
  out[n] = 9;
  k->multiply(g_x, b, out, n);
  for (int64_t i = 0; i < n; i++) assert_true(out[i] == g_x[i] * b[i]);
  k->add(g_x, b, out, n);
  for (int64_t i = 0; i < n; i++) assert_true(out[i] == g_x[i] + b[i]);
  k->subtract(g_x, b, out, n);
  for (int64_t i = 0; i < n; i++) assert_true(out[i] == g_x[i] - b[i]);
  k->scale(g_x, 1.7f, out, n);
  for (int64_t i = 0; i < n; i++) assert_true(out[i] == g_x[i] * 1.7f);
  assert_true(out[n] == 9);
  for (int64_t i = 0; i < n; i++) {
    volatile float square = g_x[i] * g_x[i];
    lanes[i % 8] += (double)square;
  }
  for (int half = 4; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
  }
  assert_true(k->squares(g_x, n) == lanes[0]);
}

static void test_plain(void **state) {
  (void)state;
  for_every_set(check_plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_silu), cmocka_unit_test(test_residual), cmocka_unit_test(test_plain)};
  fill();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
