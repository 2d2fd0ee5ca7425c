// Mixtures of experts: gate and weighted sum in the steps of the products, which steps are made, and the same values as apart.
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"
#include "cairn/cairn.h"
#include "execute/model.h"
#include "program/builder.h"

enum { EXPERTS = 8, CHOSEN = 3, HIDDEN = 64, MOST_INNER = 96, MOST_ROWS = 60, STACK = EXPERTS * HIDDEN * MOST_INNER };

static uint32_t g_seed = 11;
static float noise(void) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return (float)(int32_t)g_seed / 2147483648.0f;
}

static void expect_ok(cairn_status status) {
  char text[512] = "";
  if (status == CAIRN_OK) return;
  cairn_last_error_text(text, sizeof text);
  fail_msg("%s", text);
}

// --- weights ------------------------------------------------------------------------------------------------------------------

typedef enum form { DENSE_F32, DENSE_F16, FOUR_BIT } form;

/// Stacks [experts, outputs, inputs] of gate, up and down in all forms, of which 4-bit codes are the values.
typedef struct stacks {
  uint8_t codes[3][STACK / 2];
  uint16_t scales[3][STACK / 32], f16[3][STACK];
  uint8_t zeros[STACK / 64];
  uint16_t offsets[STACK / 32];
  float f32[3][STACK];
} stacks;

static stacks g_stacks;

// Codes of -8 .. 7 with scales that are powers of two, so that every form holds the very same values.
static void fill_stacks(void) {
  static const uint16_t kScales[] = {0x2400, 0x2800, 0x2000, 0x2400};  // 1/64, 1/32, 1/128, 1/64
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < STACK / 32; k++) g_stacks.scales[i][k] = kScales[(unsigned)(noise() * 50 + 50) % 4];
    for (int k = 0; k < STACK; k++) {
      int code = (int)floorf(noise() * 7.99f), shift = k & 1 ? 4 : 0;
      if (!shift) g_stacks.codes[i][k / 2] = 0;
      g_stacks.codes[i][k / 2] |= (uint8_t)((code & 15) << shift);
      uint16_t scale = g_stacks.scales[i][k / 32];
      g_stacks.f32[i][k] = (float)code * ldexpf(1, (scale >> 10) - 15);
      crn_store_f64(CAIRN_F16, &g_stacks.f16[i][k], g_stacks.f32[i][k]);
    }
  }
}

static crn_value *constant(crn_builder *b, cairn_dtype dtype, const int64_t *dims, int rank, const void *data, bool packed) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, (void *)data);
  t.packed = packed;
  return crn_build_constant(b, NULL, &t, 0);
}

// A stack as gather_mm takes it: [1, experts, inputs, outputs].
static crn_value *build_stack(crn_builder *b, form f, int i, int64_t outputs, int64_t inputs) {
  const int64_t dims[] = {EXPERTS, outputs, inputs}, blocks[] = {EXPERTS, outputs, inputs / 32};
  crn_value *w;
  if (f == FOUR_BIT) {
    crn_value *parts[] = {
        constant(b, CAIRN_SI4, dims, 3, g_stacks.codes[i], true), constant(b, CAIRN_F16, blocks, 3, g_stacks.scales[i], false),
        constant(b, CAIRN_SI4, blocks, 3, g_stacks.zeros, true), constant(b, CAIRN_F16, blocks, 3, g_stacks.offsets, false)};
    w = crn_build_op(b, CRN_OP_blockwise_shift_scale, parts, 4, CAIRN_F16, 0);
  } else {
    w = f == DENSE_F16 ? constant(b, CAIRN_F16, dims, 3, g_stacks.f16[i], false) : constant(b, CAIRN_F32, dims, 3, g_stacks.f32[i], false);
  }
  return crn_build_binary(b, CRN_OP_expand_dims, crn_build_transpose(b, w, (uint32_t[]){0, 2, 1}, 3), crn_build_scalar_i32(b, 0));
}

// --- programs -----------------------------------------------------------------------------------------------------------------

typedef enum flags {
  APART = 1,               ///< all products are outputs, too: nothing may be done in their steps
  SUM_APART = 2,           ///< those that are added up are
  OTHER_FACTORS = 4,       ///< one row of factors for all rows, which is no factor a row
  NO_RESIDUAL = 8,         ///
  KEEPS_AXIS = 16,         ///< the sum keeps a dimension of 1
  SUM_IN_PLACE = 32,       ///< weighted in the type of the products
  FACTORS_FIRST = 64,      ///
  UP_CHOSEN_ANEW = 128,    ///< gate and up go by indices of their own
  GELU = 256,              ///
  RESHAPED_AXIS = 512,     ///< the dimension of 1 goes by a reshape
  RESIDUAL_OF_ONE = 1024,  ///< a residual that is the same for all rows
  OPEN_SIZES = 2048,       ///< a residual (of absolute values) whose number of rows reshapes leave open
  ROWS_OF_A_VIEW = 4096    ///< rows that do not lie next to one another
} flags;

static crn_value *two(crn_builder *b, crn_op_id id, crn_value *x, crn_value *y) { return crn_build_binary(b, id, x, y); }

static crn_value *first_columns(crn_builder *b, crn_value *x, int32_t n) {
  return crn_build_slice(b, x, crn_build_i32(b, (int32_t[]){0, 0, 0}, 3), crn_build_i32(b, (int32_t[]){INT_MAX, INT_MAX, n}, 3),
                         crn_build_i32(b, (int32_t[]){1, 1, 1}, 3));
}

static crn_value *gather(crn_builder *b, crn_value *rows, crn_value *stack, crn_value *places) {
  static const char *const names[] = {"lhs", "rhs", "rhs_indices"};
  crn_attr *attrs = crn_build_attrs(b, 1);
  assert_non_null(attrs);
  ((crn_attr *)attrs->list.items)[0] = (crn_attr){.kind = CRN_ATTR_INT, .key = "num_batch_axes", .i = 1};
  return crn_build_composite(b, CRN_OP_gather_mm, names, (crn_value *[]){rows, stack, places}, 3, attrs);
}

// The best experts by the first values of each row, and their weights.
static crn_value *choose(crn_builder *b, crn_value *x, crn_value **out_weights) {
  crn_value *scores = crn_build_cast(b, first_columns(b, x, EXPERTS), CAIRN_F32), *axis = crn_build_scalar_i32(b, 2);
  crn_value *yes = constant(b, CAIRN_BOOL, NULL, 0, "\1", false), *operands[] = {scores, axis, yes, yes};
  crn_value *best = first_columns(b, crn_build_op(b, CRN_OP_sort, operands, 4, CAIRN_DTYPE_NONE, 0), CHOSEN);
  crn_value *places = first_columns(b, crn_build_op(b, CRN_OP_argsort, operands, 4, CAIRN_SI32, 0), CHOSEN);
  *out_weights = two(b, CRN_OP_softmax, best, axis);
  return two(b, CRN_OP_reshape, crn_build_cast(b, places, CAIRN_UI16), crn_build_i32(b, (int32_t[]){-1, CHOSEN}, 2));
}

static crn_value *weigh(crn_builder *b, crn_value *products, crn_value *weights, crn_value *x, crn_value *few, cairn_dtype dtype, int how) {
  crn_value *count =
      crn_build_slice(b, crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, x), CAIRN_SI32), crn_build_i32(b, (int32_t[]){1}, 1),
                      crn_build_i32(b, (int32_t[]){2}, 1), crn_build_i32(b, (int32_t[]){1}, 1));
  crn_value *one = crn_build_i32(b, (int32_t[]){1}, 1), *hidden = crn_build_i32(b, (int32_t[]){HIDDEN}, 1);
  crn_value *shape = crn_build_concat(b, 0, (crn_value *[]){one, count, crn_build_i32(b, (int32_t[]){CHOSEN}, 1), hidden}, 4);
  crn_value *rows = two(b, CRN_OP_reshape, products, shape), *factors = how & OTHER_FACTORS ? few : weights;
  factors = two(b, CRN_OP_expand_dims, factors, crn_build_i32(b, (int32_t[]){-1}, 1));
  if (how & SUM_IN_PLACE) {
    factors = crn_build_cast(b, factors, dtype);
  } else {
    rows = crn_build_cast(b, rows, CAIRN_F32);
  }
  crn_value *weighted =
      how & FACTORS_FIRST ? two(b, CRN_OP_broadcasting_mul, factors, rows) : two(b, CRN_OP_broadcasting_mul, rows, factors);
  crn_value *y = two(b, CRN_OP_reduce_sum, weighted, crn_build_i32(b, (int32_t[]){2}, 1));
  if (how & RESHAPED_AXIS) {
    y = two(b, CRN_OP_reshape, y, crn_build_concat(b, 0, (crn_value *[]){one, count, hidden}, 3));
  } else if (!(how & KEEPS_AXIS)) {
    y = two(b, CRN_OP_shrink_dims, y, crn_build_i32(b, (int32_t[]){2}, 1));
  }
  return crn_build_cast(b, y, dtype);
}

static cairn_model *build(cairn_context *context, form f, int64_t inner, int how, cairn_precision precision) {
  static const char *const names[] = {"y", "c", "a", "b"};
  const cairn_dtype dtype = f == DENSE_F32 ? CAIRN_F32 : CAIRN_F16;
  crn_program *p;
  crn_builder b;
  crn_value *weights;
  cairn_model *model;
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_cast(&b, crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){1, -1, HIDDEN}, 3), dtype);
  crn_value *few = crn_build_input(&b, "few", CAIRN_F32, (int64_t[]){1, 1, CHOSEN}, 3);
  crn_value *places = choose(&b, x, &weights), *again = places;
  if (how & UP_CHOSEN_ANEW) again = crn_build_cast(&b, crn_build_cast(&b, places, CAIRN_SI32), CAIRN_UI8);
  crn_value *rows = two(&b, CRN_OP_reshape, x, crn_build_i32(&b, (int32_t[]){-1, 1, 1, HIDDEN}, 4));
  if (how & ROWS_OF_A_VIEW) {
    rows = first_columns(&b, crn_build_concat(&b, 2, (crn_value *[]){x, x}, 2), HIDDEN);
    rows = two(&b, CRN_OP_shrink_dims, rows, crn_build_i32(&b, (int32_t[]){0}, 1));
    rows = two(&b, CRN_OP_expand_dims, rows, crn_build_i32(&b, (int32_t[]){1, 2}, 2));
  }
  crn_value *up = gather(&b, rows, build_stack(&b, f, 1, inner, HIDDEN), again);
  crn_value *gate = gather(&b, rows, build_stack(&b, f, 0, inner, HIDDEN), places);
  crn_value *active =
      how & GELU ? crn_build_op(&b, CRN_OP_gelu, &gate, 1, CAIRN_DTYPE_NONE, CRN_GELU_TANH) : crn_build_unary(&b, CRN_OP_silu, gate);
  crn_value *down = gather(&b, two(&b, CRN_OP_broadcasting_mul, active, up), build_stack(&b, f, 2, HIDDEN, inner), places);
  crn_value *y = weigh(&b, down, weights, x, few, dtype, how);
  if (how & RESIDUAL_OF_ONE) {
    crn_value *row = crn_build_slice(&b, x, crn_build_i32(&b, (int32_t[]){0, 0, 0}, 3), crn_build_i32(&b, (int32_t[]){1, 1, HIDDEN}, 3),
                                     crn_build_i32(&b, (int32_t[]){1, 1, 1}, 3));
    y = two(&b, CRN_OP_broadcasting_add, row, y);
  } else if (how & OPEN_SIZES) {
    crn_value *parts = two(&b, CRN_OP_reshape, x, crn_build_i32(&b, (int32_t[]){1, -1, 4, HIDDEN / 4}, 4));
    y = two(&b, CRN_OP_broadcasting_add, y,
            two(&b, CRN_OP_reshape, crn_build_unary(&b, CRN_OP_abs, parts), crn_build_i32(&b, (int32_t[]){1, -1, HIDDEN}, 3)));
  } else if (!(how & NO_RESIDUAL) && !(how & KEEPS_AXIS)) {
    y = two(&b, CRN_OP_broadcasting_add, x, y);
  }
  crn_value *outputs[] = {crn_build_cast(&b, y, CAIRN_F32), down, gate, up};
  expect_ok(crn_builder_finish(&b, outputs, names, how & APART ? 4 : how & SUM_APART ? 2 : 1));
  cairn_model_options options = {.precision = precision, .no_cache = true};
  assert_int_equal(crn_model_create_from_program(context, p, &options, &model), CAIRN_OK);
  return model;
}

// --- runs ---------------------------------------------------------------------------------------------------------------------

typedef struct machine {
  cairn_context *context;
  cairn_model *model;
  cairn_function *f;
} machine;

static machine begin(form f, int64_t inner, int how, cairn_precision precision) {
  machine m;
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &m.context), CAIRN_OK);
  m.model = build(m.context, f, inner, how, precision);
  assert_int_equal(cairn_model_function(m.model, "main", &m.f), CAIRN_OK);
  return m;
}

static void end(machine *m) {
  cairn_function_release(m->f);
  cairn_model_release(m->model);
  cairn_context_release(m->context);
}

static const float g_few[CHOSEN] = {0.5f, 0.25f, -1};

static cairn_ndarray *array_of(cairn_context *context, const int64_t *dims, const float *values) {
  cairn_ndarray *a;
  assert_int_equal(cairn_ndarray_create(context, CAIRN_F32, dims, 3, &a), CAIRN_OK);
  memcpy(cairn_ndarray_mutable_data(a), values, (size_t)cairn_ndarray_count(a) * sizeof *values);
  return a;
}

/// Runs with some rows each, in one batch.
static void run_batch(const machine *m, const float *const *x, const int64_t *rows, int n, float **out) {
  enum { MOST = 8 };
  cairn_named_array inputs[MOST][2];
  cairn_run_args args[MOST] = {0};
  cairn_outputs *outputs[MOST];
  cairn_ndarray *y;
  for (int i = 0; i < n; i++) {
    inputs[i][0] = (cairn_named_array){"x", array_of(m->context, (int64_t[]){1, rows[i], HIDDEN}, x[i])};
    inputs[i][1] = (cairn_named_array){"few", array_of(m->context, (int64_t[]){1, 1, CHOSEN}, g_few)};
    args[i].inputs = inputs[i];
    args[i].n_inputs = 2;
  }
  cairn_status status = n == 1 ? cairn_function_run(m->f, args, outputs) : cairn_function_run_batch(m->f, args, n, outputs, NULL);
  expect_ok(status);
  for (int i = 0; i < n; i++) {
    assert_int_equal(cairn_outputs_take(outputs[i], "y", &y), CAIRN_OK);
    assert_int_equal(cairn_ndarray_count(y), rows[i] * HIDDEN);
    memcpy(out[i], cairn_ndarray_data(y), (size_t)(rows[i] * HIDDEN) * sizeof **out);
    cairn_ndarray_release(y);
    for (int k = 0; k < 2; k++) cairn_ndarray_release(inputs[i][k].array);
    cairn_outputs_destroy(outputs[i]);
  }
}

static void run(const machine *m, const float *x, int64_t rows, float *out) { run_batch(m, &x, &rows, 1, &out); }

static void expect_plan(const machine *m, const char *const *expected, const char *const *absent) {
  static char text[1 << 15];
  size_t bytes;
  assert_int_equal(cairn_function_print_plan(m->f, text, sizeof text - 1, &bytes), CAIRN_OK);
  text[bytes] = 0;
  for (; *expected; expected++) {
    if (!strstr(text, *expected)) fail_msg("'%s' expected in the plan:\n%s", *expected, text);
  }
  for (; *absent; absent++) {
    if (strstr(text, *absent)) fail_msg("'%s' not expected in the plan:\n%s", *absent, text);
  }
}

// --- reference ----------------------------------------------------------------------------------------------------------------

static double dot(const float *w, const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)w[i] * x[i];
  return sum;
}

static void reference_expert(int e, int64_t inner, const double *x, double factor, int how, double *out) {
  double values[MOST_INNER];
  for (int64_t i = 0; i < inner; i++) {
    double a = dot(&g_stacks.f32[0][(e * inner + i) * HIDDEN], x, HIDDEN), u = dot(&g_stacks.f32[1][(e * inner + i) * HIDDEN], x, HIDDEN);
    values[i] = u * (how & GELU ? a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))) / 2 : a / (1 + exp(-a)));
  }
  for (int64_t i = 0; i < HIDDEN; i++) out[i] += factor * dot(&g_stacks.f32[2][(e * HIDDEN + i) * inner], values, inner);
}

// One row in f64, from the definition.
static void reference(const float *given, const float *first, int64_t inner, int how, double *out) {
  double x[HIDDEN], weight[CHOSEN], sum = 0;
  int best[CHOSEN];
  for (int i = 0; i < HIDDEN; i++) x[i] = given[i];
  for (int c = 0; c < CHOSEN; c++) {
    best[c] = -1;
    for (int e = 0; e < EXPERTS; e++) {
      bool is_taken = false;
      for (int k = 0; k < c; k++) is_taken |= best[k] == e;
      if (!is_taken && (best[c] < 0 || x[e] > x[best[c]])) best[c] = e;
    }
    sum += weight[c] = exp(x[best[c]]);
  }
  bool has_residual = !(how & (NO_RESIDUAL | KEEPS_AXIS)) || how & RESIDUAL_OF_ONE;
  for (int i = 0; i < HIDDEN; i++) {
    float added = how & RESIDUAL_OF_ONE ? first[i] : how & OPEN_SIZES ? fabsf(given[i]) : given[i];
    out[i] = has_residual ? added : 0;
  }
  for (int c = 0; c < CHOSEN; c++) reference_expert(best[c], inner, x, how & OTHER_FACTORS ? (double)g_few[c] : weight[c] / sum, how, out);
}

// Values that f16 holds, so that every form is given the same.
static void fill_rows(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint16_t rounded;
    crn_store_f64(CAIRN_F16, &rounded, noise());
    x[i] = (float)crn_load_f64(CAIRN_F16, &rounded);
  }
}

// --- tests --------------------------------------------------------------------------------------------------------------------

static double cosine(const float *a, const double *b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < n; i++) ab += a[i] * b[i], aa += (double)a[i] * a[i], bb += b[i] * b[i];
  return ab / sqrt(aa * bb);
}

static void check_rows(const float *x, int64_t rows, form f, int64_t inner, int how, double least, const float *got) {
  double want[HIDDEN];
  for (int64_t r = 0; r < rows; r++, got += HIDDEN) {
    reference(x + r * HIDDEN, x, inner, how, want);
    if (!(cosine(got, want, HIDDEN) >= least))
      fail_msg("form %d, row %d of %d: cosine %.9f", (int)f, (int)r, (int)rows, cosine(got, want, HIDDEN));
  }
}

static void check(form f, int64_t inner, int how, cairn_precision precision, const char *const *expected, const char *const *absent) {
  static const int64_t kRows[] = {1, 2, 7, MOST_ROWS};
  static float x[MOST_ROWS * HIDDEN], got[MOST_ROWS * HIDDEN], apart[MOST_ROWS * HIDDEN];
  const bool is_exact = precision == CAIRN_PRECISION_EXACT;
  const double near = f == DENSE_F32 ? 1e-9 : 1e-5;
  machine m = begin(f, inner, how, precision), sum_apart = begin(f, inner, how | SUM_APART, precision);
  machine all_apart = begin(f, inner, how | APART, precision);
  expect_plan(&m, expected, absent);
  expect_plan(&sum_apart, (const char *const[]){"gather_linear(", NULL}, (const char *const[]){"gather_linear+sum", NULL});
  expect_plan(&all_apart, (const char *const[]){"gather_linear(", NULL}, (const char *const[]){"gather_linear+", NULL});
  fill_rows(x, MOST_ROWS * HIDDEN);
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; i++) {
    const int64_t n = kRows[i];
    run(&m, x, n, got);
    check_rows(x, n, f, inner, how, is_exact ? 1 - near : 0.9995, got);
    // The sum rounds where separate ops do. The gate has an exponential function of its own.
    run(&sum_apart, x, n, apart);
    if (is_exact) assert_memory_equal(got, apart, (size_t)(n * HIDDEN) * sizeof *got);
    run(&all_apart, x, n, apart);
    check_rows(x, n, f, inner, how, is_exact ? 1 - near : 0.9995, apart);
  }
  end(&all_apart);
  end(&sum_apart);
  end(&m);
}

static void whole_mixtures_are_two_steps(void **state) {
  static const char *const kAll[] = {"gather_linear+gate(", "gather_linear+sum+add(", "a row reads 3 of them", NULL};
  static const char *const kNone[] = {"gather_linear(", "silu(", "gelu(", "reduce_sum(", "broadcasting_mul(", "broadcasting_add(", NULL};
  static const int kWays[] = {0, FACTORS_FIRST | GELU, RESHAPED_AXIS | OPEN_SIZES, SUM_IN_PLACE | ROWS_OF_A_VIEW};
  (void)state;
  for (size_t i = 0; i < sizeof kWays / sizeof *kWays; i++) {
    for (int precision = 0; precision < 3; precision++) {
      static const cairn_precision kPrecisions[] = {CAIRN_PRECISION_EXACT, CAIRN_PRECISION_BF16, CAIRN_PRECISION_INT8};
      check(DENSE_F32, 48, kWays[i], kPrecisions[precision], kAll, kNone);  // an odd number of tiles
      check(DENSE_F16, 96, kWays[i], kPrecisions[precision], kAll, kNone);
      check(FOUR_BIT, 96, kWays[i], kPrecisions[precision], kAll, kNone);
    }
  }
}

static void bytes_are_those_of_the_chosen(void **state) {
  (void)state;
  // 3 of 8 experts: 2 * 96 rows of 64 weights and 64 rows of 96 (padded to 128) of half a byte and an f16 scale for 32 of them.
  machine m = begin(FOUR_BIT, 96, 0, CAIRN_PRECISION_INT8);
  expect_plan(&m,
              (const char *const[]){"8 of 192x64 4-bit, a row reads 3 of them: 20736 bytes",
                                    "8 of 64x96 4-bit, a row reads 3 of them: 13824 bytes", "one row reads 34560 bytes of weights", NULL},
              (const char *const[]){NULL});
  end(&m);
}

static void parts_that_are_there_are_taken(void **state) {
  static const char *const kGate[] = {"gather_linear+gate(", NULL}, *const kSum[] = {"gather_linear+gate(", "gather_linear+sum(", NULL};
  static const char *const kNoSum[] = {"gather_linear+sum", NULL}, *const kNoAdd[] = {"gather_linear+sum+add", NULL};
  static const char *const kSumOnly[] = {"gather_linear(", "gather_linear+sum+add(", NULL}, *const kNoGate[] = {"gather_linear+gate", NULL};
  (void)state;
  check(DENSE_F16, 96, NO_RESIDUAL, CAIRN_PRECISION_EXACT, kSum, kNoAdd);
  check(DENSE_F16, 96, KEEPS_AXIS, CAIRN_PRECISION_EXACT, kSum, kNoAdd);
  check(FOUR_BIT, 96, KEEPS_AXIS | SUM_IN_PLACE, CAIRN_PRECISION_EXACT, kSum, kNoAdd);
  // A residual of one row is no residual for every row; one row of factors is none for every row.
  check(DENSE_F16, 96, RESIDUAL_OF_ONE, CAIRN_PRECISION_EXACT, kSum, kNoAdd);
  check(DENSE_F16, 96, OTHER_FACTORS, CAIRN_PRECISION_EXACT, kGate, kNoSum);
  // Experts of gate and up that are chosen by other indices are other experts for all that is known.
  check(DENSE_F16, 96, UP_CHOSEN_ANEW, CAIRN_PRECISION_EXACT, kSumOnly, kNoGate);
}

// Prompts beside single rows: rows of some runs get kernels for many rows and those of others kernels for few.
static void batches_have_the_bits_of_runs_alone(void **state) {
  static const int64_t kRows[] = {1, MOST_ROWS, 2, 1, 30};
  enum { RUNS = sizeof kRows / sizeof *kRows };
  static float x[RUNS][MOST_ROWS * HIDDEN], got[RUNS][MOST_ROWS * HIDDEN], alone[MOST_ROWS * HIDDEN];
  static const cairn_precision kPrecisions[] = {CAIRN_PRECISION_EXACT, CAIRN_PRECISION_BF16, CAIRN_PRECISION_INT8};
  (void)state;
  for (int i = 0; i < 6; i++) {
    machine m = begin(i % 2 ? FOUR_BIT : DENSE_F16, 96, 0, kPrecisions[i / 2]);
    const float *rows[RUNS];
    float *out[RUNS];
    for (int k = 0; k < RUNS; k++) {
      fill_rows(x[k], kRows[k] * HIDDEN);
      rows[k] = x[k];
      out[k] = got[k];
    }
    run_batch(&m, rows, kRows, RUNS, out);
    for (int k = 0; k < RUNS; k++) {
      run(&m, x[k], kRows[k], alone);
      assert_memory_equal(got[k], alone, (size_t)(kRows[k] * HIDDEN) * sizeof *alone);
    }
    end(&m);
  }
}

static void in_exact_precision_rows_do_not_depend_on_others(void **state) {
  static float x[MOST_ROWS * HIDDEN], got[MOST_ROWS * HIDDEN], one[HIDDEN];
  (void)state;
  machine m = begin(FOUR_BIT, 96, 0, CAIRN_PRECISION_EXACT);
  fill_rows(x, MOST_ROWS * HIDDEN);
  run(&m, x, MOST_ROWS, got);
  for (int r = 0; r < MOST_ROWS; r += 7) {
    run(&m, x + r * HIDDEN, 1, one);
    assert_memory_equal(one, got + r * HIDDEN, sizeof one);
  }
  end(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_mixtures_are_two_steps),
      cmocka_unit_test(bytes_are_those_of_the_chosen),
      cmocka_unit_test(parts_that_are_there_are_taken),
      cmocka_unit_test(batches_have_the_bits_of_runs_alone),
      cmocka_unit_test(in_exact_precision_rows_do_not_depend_on_others),
  };
  fill_stacks();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
