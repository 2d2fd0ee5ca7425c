// The passes on small programs: what steps they become, and that a specialized function gives what its plain ops give.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cairn/cairn.h"
#include "execute/model.h"
#include "program/builder.h"
#include "specialize/weights.h"

enum { K = 96, N = 40, ROWS = 5, GROUPS = K / 32 };

// --- constants --------------------------------------------------------------------------------------------------------------

static uint32_t g_seed;
static float noise(void) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return (float)(int32_t)g_seed / 2147483648.0f;
}

typedef struct matrices {
  uint8_t codes[3][N * K / 2];
  uint16_t scales[3][N * GROUPS];  // f16
  uint8_t zeros[N * GROUPS / 2];
  uint16_t offsets[N * GROUPS];
  float dense[N * K], bias[N];
} matrices;

static void fill(matrices *m) {
  g_seed = 7;
  memset(m, 0, sizeof *m);
  for (int i = 0; i < 3; i++) {
    for (size_t b = 0; b < sizeof m->codes[i]; b++) m->codes[i][b] = (uint8_t)(noise() * 127 + 128);
    for (int s = 0; s < N * GROUPS; s++) m->scales[i][s] = (uint16_t)(0x2800 + (int)(noise() * 200));  // about 0.03
  }
  for (int i = 0; i < N * K; i++) m->dense[i] = noise() * 0.1f;
  for (int i = 0; i < N; i++) m->bias[i] = noise();
}

static crn_value *constant(crn_builder *b, cairn_dtype dtype, const int64_t *dims, int rank, const void *data, bool packed) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, (void *)data);
  t.packed = packed;
  return crn_build_constant(b, NULL, &t, 0);
}

// A quantised [N, K] matrix, transposed for a product.
static crn_value *quantized(crn_builder *b, const matrices *m, int i) {
  const int64_t dims[] = {N, K}, blocks[] = {N, GROUPS};
  crn_value *parts[] = {constant(b, CAIRN_SI4, dims, 2, m->codes[i], true), constant(b, CAIRN_F16, blocks, 2, m->scales[i], false),
                        constant(b, CAIRN_SI4, blocks, 2, m->zeros, true), constant(b, CAIRN_F16, blocks, 2, m->offsets, false)};
  crn_value *w = crn_build_op(b, CRN_OP_blockwise_shift_scale, parts, 4, CAIRN_F16, 0);
  return crn_build_transpose(b, w, (uint32_t[]){1, 0}, 2);
}

// --- programs ---------------------------------------------------------------------------------------------------------------

typedef enum shape { PLAIN, BIAS, RESIDUAL, GATE, DENSE, TWICE, SHAPES } shape;

static crn_value *product(crn_builder *b, crn_value *x, crn_value *w) {
  return crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, x, w);
}

static crn_value *build_shape(crn_builder *b, const matrices *m, shape what, crn_value *x, crn_value *h) {
  const int64_t n[] = {N}, dims[] = {N, K};
  crn_value *bias = constant(b, CAIRN_F32, n, 1, m->bias, false);
  switch (what) {
    case PLAIN:
      return product(b, x, quantized(b, m, 0));
    case BIAS:
      return crn_build_binary(b, CRN_OP_broadcasting_add, product(b, x, quantized(b, m, 0)), crn_build_cast(b, bias, CAIRN_F16));
    case RESIDUAL:
      return crn_build_binary(b, CRN_OP_broadcasting_add, h, product(b, x, quantized(b, m, 0)));
    case GATE:
      return crn_build_binary(b, CRN_OP_broadcasting_mul, product(b, x, quantized(b, m, 0)),
                              crn_build_unary(b, CRN_OP_silu, product(b, x, quantized(b, m, 1))));
    case DENSE:
      return product(b, crn_build_cast(b, x, CAIRN_F32),
                     crn_build_transpose(b, constant(b, CAIRN_F32, dims, 2, m->dense, false), (uint32_t[]){1, 0}, 2));
    default: {  // both products are read twice: nothing may be merged
      crn_value *a = product(b, x, quantized(b, m, 0));
      return crn_build_binary(b, CRN_OP_broadcasting_add,
                              crn_build_binary(b, CRN_OP_broadcasting_mul, a, crn_build_unary(b, CRN_OP_silu, a)), a);
    }
  }
}

static cairn_model *build(cairn_context *context, const matrices *m, shape what, cairn_model_options options) {
  crn_program *p;
  crn_builder b;
  cairn_model *model;
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F16, (int64_t[]){1, -1, K}, 3),
            *h = crn_build_input(&b, "h", CAIRN_F16, (int64_t[]){1, -1, N}, 3);
  crn_value *y = build_shape(&b, m, what, x, h);
  crn_value *outputs[] = {y, crn_build_binary(&b, CRN_OP_add, h, h)};
  assert_int_equal(crn_builder_finish(&b, outputs, (const char *[]){"y", "unused"}, 2), CAIRN_OK);
  options.no_cache = true;
  assert_int_equal(crn_model_create_from_program(context, p, &options, &model), CAIRN_OK);
  return model;
}

// --- runs -------------------------------------------------------------------------------------------------------------------

static cairn_ndarray *array(cairn_context *context, int64_t rows, int64_t width) {
  cairn_ndarray *a;
  assert_int_equal(cairn_ndarray_create(context, CAIRN_F16, (int64_t[]){1, rows, width}, 3, &a), CAIRN_OK);
  uint16_t *data = cairn_ndarray_mutable_data(a);
  for (int64_t i = 0; i < rows * width; i++) {
    float v = noise();
    crn_convert(CAIRN_F32, &v, CAIRN_F16, data + i, 1);
  }
  return a;
}

typedef struct values {
  int64_t n;
  float data[ROWS * N];
} values;

static values run(cairn_function *f, cairn_ndarray *x, cairn_ndarray *h, int64_t last_rows) {
  cairn_named_array inputs[] = {{"x", x}, {"h", h}};
  cairn_outputs *outputs;
  cairn_ndarray *y;
  values v;
  const cairn_run_args args = {.inputs = inputs, .n_inputs = 2, .last_rows = last_rows};
  assert_int_equal(cairn_function_run(f, &args, &outputs), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
  v.n = cairn_ndarray_count(y);
  assert_true(v.n <= ROWS * N);
  crn_convert(cairn_ndarray_dtype(y), cairn_ndarray_data(y), CAIRN_F32, v.data, v.n);
  cairn_ndarray_release(y);
  cairn_outputs_destroy(outputs);
  return v;
}

static char *plan_of(cairn_function *f) {
  size_t bytes, again;
  assert_int_equal(cairn_function_print_plan(f, NULL, 0, &bytes), CAIRN_OK);
  char *text = calloc(1, bytes + 1);
  assert_int_equal(cairn_function_print_plan(f, text, bytes, &again), CAIRN_OK);
  return text;
}

// How far the values may lie apart: a few roundings to f16, and what 15-bit or bf16 operands cost.
static double tolerance(cairn_precision precision) { return precision == CAIRN_PRECISION_BF16 ? 2e-2 : 4e-3; }

static void check(shape what, cairn_precision precision, const char *expected) {
  static matrices m;
  fill(&m);
  cairn_context *context;
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  cairn_model *plain = build(context, &m, what, (cairn_model_options){.composites = CAIRN_COMPOSITES_BODY});
  cairn_model *fast = build(context, &m, what, (cairn_model_options){.precision = precision});
  cairn_function *a, *b;
  assert_int_equal(cairn_model_function(plain, "main", &a), CAIRN_OK);
  assert_int_equal(cairn_model_function(fast, "main", &b), CAIRN_OK);
  assert_int_equal(cairn_function_get_precision(b), precision);
  char *text = plan_of(b);
  if (!strstr(text, expected)) fail_msg("no '%s' in the plan:\n%s", expected, text);
  free(text);
  for (int64_t rows = 1; rows <= ROWS; rows++) {
    cairn_ndarray *x = array(context, rows, K), *h = array(context, rows, N);
    values u = run(a, x, h, 0), v = run(b, x, h, 0), last = run(b, x, h, 1);
    assert_int_equal(u.n, rows * N);
    assert_int_equal(v.n, u.n);
    assert_int_equal(last.n, N);
    for (int64_t i = 0; i < u.n; i++) {
      if (!(fabs(u.data[i] - v.data[i]) <= tolerance(precision) * (1 + fabs(u.data[i]))))
        fail_msg("shape %d, %lld rows, value %lld: %g instead of %g", (int)what, (long long)rows, (long long)i, (double)v.data[i],
                 (double)u.data[i]);
    }
    for (int64_t i = 0; i < N && precision == CAIRN_PRECISION_EXACT; i++) assert_true(last.data[i] == v.data[(rows - 1) * N + i]);
    cairn_ndarray_release(x);
    cairn_ndarray_release(h);
  }
  cairn_function_release(a);
  cairn_function_release(b);
  cairn_model_release(plain);
  cairn_model_release(fast);
  cairn_context_release(context);
}

static void test_shapes(void **state) {
  (void)state;
  static const char *const expected[SHAPES] = {"= linear(", "linear+bias(", "linear+add(", "linear+gate(", "40x96 f32", "= linear("};
  for (shape what = PLAIN; what < SHAPES; what++) {
    check(what, CAIRN_PRECISION_EXACT, expected[what]);
    check(what, CAIRN_PRECISION_BF16, expected[what]);
    check(what, CAIRN_PRECISION_INT8, expected[what]);
  }
}

// --- the cache --------------------------------------------------------------------------------------------------------------

static crn_weight_source dense_source(const float *data) {
  crn_weight_source s = {.dtype = CAIRN_F32, .n = N, .k = K, .stack = 1, .n_axis = 0, .k_axis = 1, .stack_axis = CRN_NO_AXIS};
  s.data = crn_tensor_make(CAIRN_F32, (int64_t[]){N, K}, 2, (void *)data);
  return s;
}

typedef struct cache_fixture {
  matrices *m;
  char path[64];
} cache_fixture;

static void open_store(crn_weight_store *s, const matrices *m) {
  crn_weight_store_initialize(s, crn_default_allocator());
  s->base = m;
  s->base_bytes = sizeof *m;
}

static void save(const cache_fixture *f, crn_linear_weights *out) {
  crn_weight_store s;
  crn_weight_source source = dense_source(f->m->dense);
  open_store(&s, f->m);
  assert_int_equal(crn_weight_store_pack(&s, NULL, &source, 1, false, out), CAIRN_OK);
  assert_int_equal(crn_weight_cache_write(&s, f->path, "one"), CAIRN_OK);
  crn_weight_store_deinitialize(&s);
}

static cairn_status load(const cache_fixture *f, const char *identity, bool *out_found) {
  crn_weight_store s;
  crn_linear_weights w;
  crn_weight_source source = dense_source(f->m->dense);
  open_store(&s, f->m);
  cairn_status status = crn_weight_cache_read(&s, NULL, f->path, identity);
  size_t used = s.region.used_bytes;
  assert_int_equal(crn_weight_store_pack(&s, NULL, &source, 1, false, &w), CAIRN_OK);
  *out_found = s.region.used_bytes == used;
  float row[K];
  crn_linear_unpack_row(&w, N - 1, row);
  assert_memory_equal(row, f->m->dense + (N - 1) * K, sizeof row);
  crn_weight_store_deinitialize(&s);
  return status;
}

// Every byte of the file matters: one that is changed or missing makes the entry unusable, never wrong.
static void test_cache(void **state) {
  (void)state;
  static matrices m;
  fill(&m);
  cache_fixture f = {.m = &m};
  snprintf(f.path, sizeof f.path, "/tmp/cairn-specialize-%ld.packed", (long)getpid());
  crn_linear_weights w;
  bool found;
  save(&f, &w);
  assert_int_equal(load(&f, "one", &found), CAIRN_OK);
  assert_true(found);
  assert_int_equal(load(&f, "two", &found), CAIRN_NOT_FOUND);
  assert_false(found);
  FILE *file = fopen(f.path, "rb");
  assert_non_null(file);
  static char bytes[1 << 17];
  size_t n = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_true(n > 4096 && n < sizeof bytes);
  for (size_t i = 0; i < n; i += n < 40 ? 1 : i < 64 ? 1 : 509) {
    char kept = bytes[i];
    bytes[i] ^= 0x10;
    file = fopen(f.path, "wb");
    fwrite(bytes, 1, n, file);
    fclose(file);
    bytes[i] = kept;
    load(&f, "one", &found);  // padding between the parts may change unseen; values may not (checked inside)
  }
  for (size_t i = 0; i < n; i += 1 + n / 50) {
    file = fopen(f.path, "wb");
    fwrite(bytes, 1, i, file);
    fclose(file);
    assert_int_equal(load(&f, "one", &found), CAIRN_NOT_FOUND);
    assert_false(found);
  }
  unlink(f.path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_cache)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
