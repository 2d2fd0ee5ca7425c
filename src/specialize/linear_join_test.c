// Products of one operand share a step and a packed matrix: the same bits as apart in exact precision, and near them in others.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"
#include "cairn/cairn.h"
#include "execute/model.h"
#include "program/builder.h"

enum { K = 96, N_PARTS = 3, MOST = 80 * K, ROWS = 7 };

static uint32_t g_seed = 11;
static float noise(void) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return (float)(int32_t)g_seed / 2147483648.0f;
}

typedef struct matrices {
  float values[N_PARTS][MOST], bias[MOST];
} matrices;

// Products of x with matrices of n[i] outputs, negated: what is an output of the function itself stays apart.
static cairn_model *build(cairn_context *context, const matrices *m, const int64_t *n, bool has_bias, cairn_model_options options) {
  static const char *const names[] = {"a", "b", "c"};
  crn_program *p;
  crn_builder b;
  crn_value *outputs[N_PARTS];
  cairn_model *model;
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){1, -1, K}, 3);
  for (int i = 0; i < N_PARTS; i++) {
    crn_tensor t = crn_tensor_make(CAIRN_F32, (int64_t[]){n[i], K}, 2, (void *)m->values[i]);
    crn_tensor bias = crn_tensor_make(CAIRN_F32, &n[i], 1, (void *)m->bias);
    crn_value *w = crn_build_transpose(&b, crn_build_constant(&b, NULL, &t, 0), (uint32_t[]){1, 0}, 2);
    crn_value *y = crn_build_binary(&b, CRN_OP_broadcasting_batch_matmul, x, w);
    if (has_bias && i == 1) y = crn_build_binary(&b, CRN_OP_broadcasting_add, y, crn_build_constant(&b, NULL, &bias, 0));
    outputs[i] = crn_build_unary(&b, CRN_OP_abs, y);
  }
  assert_int_equal(crn_builder_finish(&b, outputs, names, N_PARTS), CAIRN_OK);
  options.no_cache = true;
  assert_int_equal(crn_model_create_from_program(context, p, &options, &model), CAIRN_OK);
  return model;
}

static void run(cairn_context *context, cairn_function *f, const float *x, int64_t rows, const int64_t *n, float *out) {
  static const char *const names[] = {"a", "b", "c"};
  cairn_ndarray *input, *y;
  cairn_outputs *outputs;
  assert_int_equal(cairn_ndarray_create(context, CAIRN_F32, (int64_t[]){1, rows, K}, 3, &input), CAIRN_OK);
  memcpy(cairn_ndarray_mutable_data(input), x, (size_t)(rows * K) * sizeof *x);
  cairn_named_array inputs[] = {{"x", input}};
  assert_int_equal(cairn_function_run(f, &(cairn_run_args){.inputs = inputs, .n_inputs = 1}, &outputs), CAIRN_OK);
  for (int i = 0; i < N_PARTS; out += rows * n[i++]) {
    assert_int_equal(cairn_outputs_take(outputs, names[i], &y), CAIRN_OK);
    assert_int_equal(cairn_ndarray_count(y), rows * n[i]);
    memcpy(out, cairn_ndarray_data(y), (size_t)(rows * n[i]) * sizeof *out);
    cairn_ndarray_release(y);
  }
  cairn_ndarray_release(input);
  cairn_outputs_destroy(outputs);
}

static void check(const int64_t *n, bool has_bias, cairn_precision precision, const char *expected, const char *unexpected) {
  static matrices m;
  static float x[ROWS * K], got[ROWS * 240], want[ROWS * 240], one[240];
  static char text[1 << 14];
  cairn_context *context;
  cairn_function *f, *g;
  size_t bytes;
  for (int i = 0; i < N_PARTS; i++) {
    for (int k = 0; k < MOST; k++) m.values[i][k] = noise();
  }
  for (int k = 0; k < MOST; k++) m.bias[k] = noise();
  for (int k = 0; k < ROWS * K; k++) x[k] = noise();
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  cairn_model *fast = build(context, &m, n, has_bias, (cairn_model_options){.precision = precision});
  cairn_model *plain = build(context, &m, n, has_bias, (cairn_model_options){.composites = CAIRN_COMPOSITES_BODY});
  assert_int_equal(cairn_model_function(fast, "main", &f), CAIRN_OK);
  assert_int_equal(cairn_model_function(plain, "main", &g), CAIRN_OK);
  assert_int_equal(cairn_function_print_plan(f, text, sizeof text - 1, &bytes), CAIRN_OK);
  text[bytes] = 0;
  if (!strstr(text, expected) || (unexpected && strstr(text, unexpected))) fail_msg("'%s' expected in the plan:\n%s", expected, text);
  double near = precision == CAIRN_PRECISION_EXACT ? 1e-4 : 0.2;
  for (int64_t rows = 1; rows <= ROWS; rows++) {
    int64_t total = n[0] + n[1] + n[2];
    run(context, f, x, rows, n, got);
    run(context, g, x, rows, n, want);
    for (int64_t i = 0; i < rows * total; i++) {
      if (!(fabs(got[i] - want[i]) <= near)) fail_msg("%d rows, value %d: %g instead of %g", (int)rows, (int)i, got[i], want[i]);
    }
  }
  // In exact precision a row has the same bits alone and among others.
  run(context, f, x, ROWS, n, got);
  run(context, f, x, 1, n, one);
  if (precision == CAIRN_PRECISION_EXACT) assert_memory_equal(one, got, (size_t)n[0] * sizeof *one);
  cairn_function_release(f);
  cairn_function_release(g);
  cairn_model_release(fast);
  cairn_model_release(plain);
  cairn_context_release(context);
}

static void whole_tiles_are_joined(void **state) {
  (void)state;
  for (int bias = 0; bias < 2; bias++) {
    const char *expected = bias ? "linear+joined+bias(" : "linear+joined(";
    check((int64_t[]){80, 16, 48}, bias, CAIRN_PRECISION_EXACT, expected, "= linear(");
    check((int64_t[]){16, 16, 16}, bias, CAIRN_PRECISION_BF16, expected, "= linear(");
    check((int64_t[]){80, 48, 80}, bias, CAIRN_PRECISION_INT8, expected, "= linear(");
  }
}

static void others_stay_apart(void **state) {
  (void)state;
  check((int64_t[]){80, 24, 48}, false, CAIRN_PRECISION_EXACT, "linear+joined(", NULL);  // the first and the last
  check((int64_t[]){40, 24, 8}, false, CAIRN_PRECISION_EXACT, "= linear(", "joined");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_tiles_are_joined), cmocka_unit_test(others_stay_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
