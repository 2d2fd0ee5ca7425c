// gated_delta_update against its definition, written out in f64.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"

enum { B = 2, H = 3, S = 4, K = 5, V = 6 };

typedef struct delta_case {
  crn_tensor x[6], results[2];
  cairn_dtype dtype;
  int64_t normalizes;
} delta_case;

static double at(const crn_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return crn_load_f64(t->dtype,
                      crn_tensor_at(t, a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + (t->rank > 3 ? d * t->strides[3] : 0)));
}

static void make(delta_case *c, cairn_dtype dtype, bool normalizes) {
  c->dtype = dtype;
  c->normalizes = normalizes;
  c->x[0] = KT_RANDOM(dtype, 1, B, H, S, K);
  c->x[1] = KT_RANDOM(dtype, 1, B, H, S, K);
  c->x[2] = KT_RANDOM(dtype, 1, B, H, S, V);
  c->x[3] = KT_RANDOM(dtype, 1, B, H, S);
  c->x[4] = KT_RANDOM(dtype, 1, B, H, S);
  c->x[5] = KT_RANDOM(dtype, 1, B, H, K, V);
  c->results[0] = KT(dtype, B, S, H, V);
  c->results[1] = KT(dtype, B, H, K, V);
}

static cairn_status run(delta_case *c, const char *const *names) {
  static crn_scratch scratch = {kt_take};
  crn_attr items[] = {{.kind = CRN_ATTR_BOOL, .key = "use_qk_l2_norm", .i = c->normalizes}};
  crn_attr attrs = {.kind = CRN_ATTR_DICT, .list = {items, 1}};
  crn_infer_args infer = {
      .id = CRN_OP_gated_delta_update, .attrs = &attrs, .n_operands = 6, .operands = c->x, .n_results = 2, .results = c->results};
  CRN_TRY(crn_infer_of(infer.id)(&infer));
  crn_kernel_args args = {.id = infer.id,
                          .attrs = &attrs,
                          .input_names = names,
                          .n_operands = 6,
                          .operands = c->x,
                          .n_results = 2,
                          .results = c->results,
                          .scratch = &scratch};
  return crn_ref_kernel_of(infer.id)(&args);
}

static const char *const usual[] = {"query", "key", "value", "g", "beta", "initial_state"};

static void wanted_head(const delta_case *c, int b, int h, double out[S][V], double state[K][V]) {
  for (int i = 0; i < K; i++) {
    for (int j = 0; j < V; j++) state[i][j] = at(&c->x[5], b, h, i, j);
  }
  for (int s = 0; s < S; s++) {
    double q2 = 1e-6, k2 = 1e-6;
    for (int i = 0; i < K; i++) {
      q2 += at(&c->x[0], b, h, s, i) * at(&c->x[0], b, h, s, i);
      k2 += at(&c->x[1], b, h, s, i) * at(&c->x[1], b, h, s, i);
    }
    double q_scale = (c->normalizes ? 1 / sqrt(q2) : 1) / sqrt(K), k_scale = c->normalizes ? 1 / sqrt(k2) : 1;
    for (int j = 0; j < V; j++) {
      double remembered = 0;
      for (int i = 0; i < K; i++) {
        state[i][j] *= exp(at(&c->x[3], b, h, s, 0));
        remembered += state[i][j] * at(&c->x[1], b, h, s, i) * k_scale;
      }
      double delta = (at(&c->x[2], b, h, s, j) - remembered) * at(&c->x[4], b, h, s, 0);
      out[s][j] = 0;
      for (int i = 0; i < K; i++) {
        state[i][j] += at(&c->x[1], b, h, s, i) * k_scale * delta;
        out[s][j] += state[i][j] * at(&c->x[0], b, h, s, i) * q_scale;
      }
    }
  }
}

static void check(const delta_case *c) {
  double unit = c->dtype == CAIRN_F32 ? 2e-6 : c->dtype == CAIRN_F16 ? 4e-3 : 3e-2;
  for (int b = 0; b < B; b++) {
    for (int h = 0; h < H; h++) {
      double out[S][V], state[K][V];
      wanted_head(c, b, h, out, state);
      for (int j = 0; j < V; j++) {
        for (int s = 0; s < S; s++) assert_true(fabs(at(&c->results[0], b, s, h, j) - out[s][j]) <= unit * (1 + fabs(out[s][j])));
        for (int i = 0; i < K; i++) assert_true(fabs(at(&c->results[1], b, h, i, j) - state[i][j]) <= unit * (1 + fabs(state[i][j])));
      }
    }
  }
}

static void matches_the_definition(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  for (int k = 0; k < 6; k++) {
    delta_case c;
    make(&c, types[k / 2], k % 2);
    assert_int_equal(run(&c, usual), CAIRN_OK);
    check(&c);
  }
}

// Operands as views: steps and heads in the other order, as models hand them over.
static void takes_views(void **state) {
  (void)state;
  delta_case c;
  make(&c, CAIRN_F32, true);
  for (int k = 0; k < 3; k++) {
    int64_t n = k == 2 ? V : K;
    crn_tensor t = kt_tensor(CAIRN_F32, 4, KT_DIMS(B, S, H, n));
    kt_fill(&t, 1);
    int64_t step = t.strides[1];
    t.strides[1] = t.strides[2];
    t.strides[2] = step;
    t.dims[1] = H;
    t.dims[2] = S;
    c.x[k] = t;
  }
  assert_int_equal(run(&c, usual), CAIRN_OK);
  check(&c);
}

static void declines_and_refuses(void **state) {
  (void)state;
  static const char *const turned[] = {"key", "query", "value", "g", "beta", "initial_state"};
  delta_case c;
  make(&c, CAIRN_F32, true);
  assert_int_equal(run(&c, turned), CAIRN_UNSUPPORTED);
  assert_int_equal(run(&c, NULL), CAIRN_UNSUPPORTED);
  c.x[4].dims[2] = S + 1;
  assert_int_equal(run(&c, usual), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "beta has size 5 in dimension 2"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(matches_the_definition, kt_free_all),
                                     cmocka_unit_test_teardown(takes_views, kt_free_all),
                                     cmocka_unit_test_teardown(declines_and_refuses, kt_free_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
