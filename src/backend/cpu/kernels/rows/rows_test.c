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

static double gate_of(crn_gate gate, double x) {
  switch (gate) {
    case CRN_GATE_GELU:
      return x * erfc(-x / sqrt(2)) / 2;
    case CRN_GATE_GELU_TANH:
      return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case CRN_GATE_GELU_SIGMOID:
      return x / (1 + exp(-1.702 * x));
    default:
      return x / (1 + exp(-x));
  }
}

static const crn_gate g_gates[] = {CRN_GATE_SILU, CRN_GATE_GELU, CRN_GATE_GELU_TANH, CRN_GATE_GELU_SIGMOID};
enum { N_GATES = sizeof g_gates / sizeof *g_gates };

// exp carries the rounding of its argument, which is largest where the value is smallest.
static void check_near(const crn_rows_kernels *k, crn_gate gate, float x, float y) {
  double expected = gate_of(gate, (double)x), relative = gate == CRN_GATE_SILU ? 4e-7 : 1e-6 * (1 + fabs((double)x) * fabs((double)x) / 8);
  if (!(fabs((double)y - expected) <= relative * fabs(expected) + 1e-30))
    fail_msg("%s: gate %d of %g is %g, not %g", k->name, (int)gate, (double)x, (double)y, expected);
}

static void check_gates(const crn_rows_kernels *k, int64_t n) {
  for (int g = 0; g < N_GATES; g++) {
    float y[N + 1];
    y[n] = 77;
    k->activate(g_gates[g], g_x, y, n);
    for (int64_t i = 0; i < n; i++) check_near(k, g_gates[g], g_x[i], y[i]);
    assert_true(y[n] == 77);
  }
}

// Pairs have the bits of the gate alone, times the other half.
static void check_pairs(const crn_rows_kernels *k, int64_t n) {
  for (int g = 0; g < N_GATES; g++) {
    float out[N + 1], single[16];
    int64_t n_pairs = n / 32;
    out[n_pairs * 16] = 7;
    k->gate_pairs(g_gates[g], g_x, out, n_pairs);
    for (int64_t p = 0; p < n_pairs; p++) {
      k->activate(g_gates[g], g_x + p * 32, single, 16);
      for (int i = 0; i < 16; i++) assert_true(out[p * 16 + i] == single[i] * g_x[p * 32 + 16 + i]);
    }
    assert_true(out[n_pairs * 16] == 7);
  }
}

static void test_gates(void **state) {
  (void)state;
  for_every_set(check_gates);
  for_every_set(check_pairs);
  int n_sets;
  const crn_rows_kernels *sets = crn_rows_list(&n_sets);
  for (int i = 0; i < n_sets * N_GATES; i++) {
    const crn_rows_kernels *k = &sets[i / N_GATES];
    if (k->isa & ~crn_cpu_bits()) continue;
    float special[] = {INFINITY, -100, 0, -0.0f, NAN, 1e30f, -1e30f, 88, -88}, out[9], in_place[9];
    k->activate(g_gates[i % N_GATES], special, out, 9);
    assert_true(out[0] == INFINITY && fabsf(out[1]) < 1e-30f && out[2] == 0 && isnan(out[4]) && out[5] == 1e30f && out[7] == 88);
    assert_true(fabsf(out[6]) < 1e-30f && fabsf(out[8]) < 1e-30f && signbit(out[3]));
    memcpy(in_place, special, sizeof special);
    k->activate(g_gates[i % N_GATES], in_place, in_place, 9);
    assert_memory_equal(in_place, out, 4 * sizeof *out);
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
  k->scale_by(g_x, 1.7f, b, out, n);
  for (int64_t i = 0; i < n; i++) {
    volatile float product = g_x[i] * 1.7f;
    assert_true(out[i] == product * b[i]);
  }
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

static void check_turn(const crn_rows_kernels *k, int64_t n) {
  static float products[4 * N + 1];
  float sines[N], y[N], first[N + 1], second[N + 1];
  for (int i = 0; i < N; i++) sines[i] = g_x[(i * 5 + 1) % N], y[i] = g_x[(i * 11 + 2) % N];
  products[4 * n] = first[n] = second[n] = 3;
  k->turn(g_x, sines, y, sines, products, n);
  for (int64_t i = 0; i < n; i++) {
    assert_true(products[i] == g_x[i] * y[i] && products[n + i] == sines[i] * sines[i]);
    assert_true(products[2 * n + i] == sines[i] * y[i] && products[3 * n + i] == g_x[i] * sines[i]);
  }
  k->end_turn(products, first, second, n);
  for (int64_t i = 0; i < n; i++)
    assert_true(first[i] == products[i] - products[n + i] && second[i] == products[2 * n + i] + products[3 * n + i]);
  assert_true(products[4 * n] == 3 && first[n] == 3 && second[n] == 3);
  // Pairs stay where two of the products were.
  k->end_turn(products, products, products + 2 * n, n);
  assert_memory_equal(products, first, (size_t)n * sizeof *first);
  assert_memory_equal(products + 2 * n, second, (size_t)n * sizeof *second);
}

static void test_plain(void **state) {
  (void)state;
  for_every_set(check_plain);
  for_every_set(check_turn);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gates), cmocka_unit_test(test_residual), cmocka_unit_test(test_plain)};
  fill();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
