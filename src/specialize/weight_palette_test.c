// Palettized matrices in programs: packed as codes and tables they give, bit for bit in exact precision, what the expanded matrix gives.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cairn/cairn.h"
#include "execute/internal.h"
#include "execute/model.h"
#include "program/builder.h"
#include "specialize/weights.h"

enum { N = 96, K = 128, ROWS = 6, MOST = N * K };

static uint32_t g_seed = 5;
static uint32_t next_random(void) { return (g_seed = g_seed * 1664525u + 1013904223u) >> 8; }
static float noise(void) { return (float)((int32_t)next_random() - (1 << 23)) * 0x1p-23f; }

/// A matrix [N, K] made of codes.
typedef struct form {
  const char *name;
  cairn_dtype codes;
  int64_t groups_n, groups_k, vector;
  int axis;                    ///< of the vectors
  cairn_dtype entries, scale;  ///< scale NONE = not scaled
  cairn_dtype values;          ///< of what is multiplied with: cast where scaling gives another type
  const char *expected;        ///< in the plan
} form;

static const form forms[] = {
    {"whole", CAIRN_UI4, 1, 1, 1, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "4-bit palette"},
    {"rows of 32", CAIRN_UI4, 3, 1, 1, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "4-bit palette"},
    {"rows of 8", CAIRN_UI4, 12, 1, 1, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "4-bit palette"},
    {"rows of 24", CAIRN_UI2, 4, 1, 1, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "2-bit palette"},
    {"each row", CAIRN_UI1, 96, 1, 1, 0, CAIRN_F32, CAIRN_DTYPE_NONE, CAIRN_F32, "1-bit palette"},
    {"columns", CAIRN_UI2, 1, 4, 1, 0, CAIRN_F32, CAIRN_DTYPE_NONE, CAIRN_F32, "2-bit palette"},
    {"both", CAIRN_UI4, 6, 2, 1, 0, CAIRN_F32, CAIRN_DTYPE_NONE, CAIRN_F32, "4-bit palette"},
    {"narrow columns", CAIRN_UI4, 1, 8, 1, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "f16"},
    {"6 bits", CAIRN_UI6, 1, 1, 1, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "6-bit palette"},
    {"6 bits, cast", CAIRN_UI6, 3, 1, 1, 0, CAIRN_F32, CAIRN_DTYPE_NONE, CAIRN_F16, "6-bit palette"},
    {"8 bits", CAIRN_UI8, 1, 1, 1, 0, CAIRN_F32, CAIRN_DTYPE_NONE, CAIRN_F32, "8-bit palette"},
    {"bf16", CAIRN_UI4, 3, 1, 1, 0, CAIRN_BF16, CAIRN_DTYPE_NONE, CAIRN_BF16, "4-bit palette"},
    {"vectors of outputs", CAIRN_UI4, 1, 1, 2, 0, CAIRN_F16, CAIRN_DTYPE_NONE, CAIRN_F16, "6-bit palette"},
    {"vectors of inputs", CAIRN_UI2, 3, 1, 4, 1, CAIRN_F32, CAIRN_DTYPE_NONE, CAIRN_F32, "4-bit palette"},
    {"scaled", CAIRN_UI4, 3, 1, 1, 0, CAIRN_F16, CAIRN_F16, CAIRN_F16, "4-bit palette"},
    {"scaled f32", CAIRN_UI6, 1, 1, 1, 0, CAIRN_F32, CAIRN_F32, CAIRN_F32, "6-bit palette"},
    {"scaled bytes", CAIRN_UI4, 12, 1, 1, 0, CAIRN_SI8, CAIRN_F16, CAIRN_F16, "4-bit palette"},
    {"scaled and cast", CAIRN_UI4, 3, 1, 1, 0, CAIRN_SI8, CAIRN_F32, CAIRN_F16, "4-bit palette"},
    {"scaled bf16", CAIRN_UI2, 1, 1, 1, 0, CAIRN_BF16, CAIRN_BF16, CAIRN_BF16, "2-bit palette"},
};

typedef struct contents {
  uint8_t codes[MOST];
  unsigned char entries[MOST * 4], scale[N * 4], dense[MOST * 4];
} contents;

static void draw(cairn_dtype dtype, int64_t n, unsigned char *out) {
  for (int64_t i = 0; i < n; i++)
    crn_store_f64(dtype, out + (size_t)i * cairn_dtype_bytes(dtype), dtype == CAIRN_SI8 ? (int)(noise() * 127) : noise());
}

static crn_value *constant(crn_builder *b, cairn_dtype dtype, const int64_t *dims, int rank, const void *data, bool is_splat) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, (void *)data);
  t.packed = crn_dtype_bits(dtype) < 8;
  for (int d = 0; d < rank && is_splat; d++) t.strides[d] = 0;
  return crn_build_constant(b, NULL, &t, 0);
}

static crn_value *palettized(crn_builder *b, const form *f, const contents *c) {
  static const unsigned char zeros[8];
  static const int16_t axes[] = {0, 1};
  const int64_t codes[] = {N / (f->axis == 0 ? f->vector : 1), K / (f->axis == 1 ? f->vector : 1)}, factors[] = {N, 1};
  const int64_t table[] = {f->groups_n, f->groups_k, 1 << crn_dtype_bits(f->codes), f->vector};
  crn_value *w =
      crn_build_op(b, CRN_OP_lut_to_dense,
                   (crn_value *[]){constant(b, f->codes, codes, 2, c->codes, false), constant(b, f->entries, table, 4, c->entries, false),
                                   constant(b, CAIRN_SI16, NULL, 0, &axes[f->axis], false)},
                   3, CAIRN_DTYPE_NONE, 0);
  if (f->scale != CAIRN_DTYPE_NONE) {
    crn_value *parts[] = {w, constant(b, f->scale, factors, 2, c->scale, false), constant(b, f->entries, factors, 2, zeros, true),
                          constant(b, f->scale, factors, 2, zeros, true)};
    w = crn_build_op(b, CRN_OP_blockwise_shift_scale, parts, 4, f->scale, 0);
  }
  return w->type->dtype == f->values ? w : crn_build_cast(b, w, f->values);
}

// y = x · wᵀ, and w itself where it is made of codes.
static cairn_model *build(cairn_context *context, const form *f, const contents *c, bool is_dense, cairn_precision precision) {
  crn_program *p;
  crn_builder b;
  cairn_model *model;
  const int64_t dims[] = {N, K};
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_cast(&b, crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){-1, K}, 2), f->values);
  crn_value *w = is_dense ? constant(&b, f->values, dims, 2, c->dense, false) : palettized(&b, f, c);
  crn_value *y = crn_build_binary(&b, CRN_OP_broadcasting_batch_matmul, x, crn_build_transpose(&b, w, (uint32_t[]){1, 0}, 2));
  assert_int_equal(crn_builder_finish(&b, (crn_value *[]){y, w}, (const char *[]){"y", "w"}, is_dense ? 1 : 2), CAIRN_OK);
  cairn_model_options options = {.precision = precision, .no_cache = true};
  assert_int_equal(crn_model_create_from_program(context, p, &options, &model), CAIRN_OK);
  return model;
}

static void run(cairn_function *f, const float *x, int64_t rows, cairn_dtype dtype, float *out_y, void *out_w) {
  cairn_ndarray *input, *y, *w;
  cairn_outputs *outputs;
  assert_int_equal(cairn_ndarray_create(f->model->context, CAIRN_F32, (int64_t[]){rows, K}, 2, &input), CAIRN_OK);
  memcpy(cairn_ndarray_mutable_data(input), x, (size_t)(rows * K) * sizeof *x);
  cairn_named_array inputs[] = {{"x", input}};
  assert_int_equal(cairn_function_run(f, &(cairn_run_args){.inputs = inputs, .n_inputs = 1}, &outputs), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
  assert_int_equal(cairn_ndarray_dtype(y), dtype);
  crn_convert(dtype, cairn_ndarray_data(y), CAIRN_F32, out_y, rows * N);
  if (out_w) {
    assert_int_equal(cairn_outputs_take(outputs, "w", &w), CAIRN_OK);
    memcpy(out_w, cairn_ndarray_data(w), N * K * cairn_dtype_bytes(dtype));
    cairn_ndarray_release(w);
  }
  cairn_ndarray_release(y);
  cairn_ndarray_release(input);
  cairn_outputs_destroy(outputs);
}

static void check_plan(cairn_function *f, const form *what) {
  static char text[1 << 16];
  size_t bytes;
  assert_int_equal(cairn_function_print_plan(f, text, sizeof text - 1, &bytes), CAIRN_OK);
  text[bytes] = 0;
  if (!strstr(text, what->expected)) fail_msg("%s: no '%s' in the plan:\n%s", what->name, what->expected, text);
}

static void check(cairn_context *context, const form *f, cairn_precision precision) {
  static contents c;
  static float x[ROWS * K], y[ROWS * N], want[ROWS * N];
  for (size_t i = 0; i < sizeof c.codes; i++) c.codes[i] = (uint8_t)next_random();
  draw(f->entries, (f->groups_n * f->groups_k * f->vector) << crn_dtype_bits(f->codes), c.entries);
  if (f->scale != CAIRN_DTYPE_NONE) draw(f->scale, N, c.scale);
  for (int i = 0; i < ROWS * K; i++) x[i] = noise();
  cairn_model *packed = build(context, f, &c, false, precision), *dense;
  cairn_function *a, *b;
  assert_int_equal(cairn_model_function(packed, "main", &a), CAIRN_OK);
  check_plan(a, f);
  run(a, x, 1, f->values, y, c.dense);
  dense = build(context, f, &c, true, CAIRN_PRECISION_EXACT);
  assert_int_equal(cairn_model_function(dense, "main", &b), CAIRN_OK);
  for (int64_t rows = 1; rows <= ROWS; rows++) {
    run(a, x, rows, f->values, y, c.dense);
    run(b, x, rows, f->values, want, NULL);
    for (int64_t i = 0; i < rows * N; i++) {
      double near = precision == CAIRN_PRECISION_EXACT ? 0 : 0.12 * (f->entries == CAIRN_SI8 ? 64 : 1);
      if (!(fabs(y[i] - want[i]) <= near)) fail_msg("%s, %d rows: value %d is %.9g, want %.9g", f->name, (int)rows, (int)i, y[i], want[i]);
    }
  }
  cairn_function_release(a);
  cairn_function_release(b);
  cairn_model_release(packed);
  cairn_model_release(dense);
}

static void check_forms(cairn_precision precision) {
  cairn_context *context;
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check(context, &forms[i], precision);
  cairn_context_release(context);
}

static void exact_is_what_the_expanded_matrix_gives(void **state) {
  (void)state;
  check_forms(CAIRN_PRECISION_EXACT);
}

static void rounded_precisions_come_near(void **state) {
  (void)state;
  check_forms(CAIRN_PRECISION_BF16);
  check_forms(CAIRN_PRECISION_INT8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_is_what_the_expanded_matrix_gives),
      cmocka_unit_test(rounded_precisions_come_near),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
