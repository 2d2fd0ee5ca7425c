// Convolutions, what surrounds them, and products with activations: the steps that the passes make, and the values of the program op by op.
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

static uint32_t g_seed = 3;
static float noise(void) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return (float)(int32_t)g_seed / 2147483648.0f;
}

/// A network: how it is built from x, the dims of x in a plan and in runs, and what is to be in its plan.
typedef struct network {
  const char *name;
  crn_value *(*build)(crn_builder *b, crn_value *x, const struct network *n);
  int rank;
  int64_t dims[5];          ///< of x; the first may be -1
  int64_t outputs, groups;  ///< of the convolution
  int64_t size, stride, dilation, before, after;
  const char *expected, *absent;
} network;

// Constants must outlive the builder.
static crn_value *random_constant(crn_builder *b, const int64_t *dims, int rank) {
  float *values;
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= dims[d];
  assert_int_equal(crn_arena_array(&b->program->arena, (size_t)n, sizeof *values, &values), CAIRN_OK);
  for (int64_t i = 0; i < n; i++) values[i] = noise() * 0.3f;
  crn_tensor t = crn_tensor_make(CAIRN_F32, dims, rank, values);
  return crn_build_constant(b, NULL, &t, 0);
}

static crn_value *padded(crn_builder *b, crn_value *x, int64_t before, int64_t after, float value) {
  uint32_t amounts[10] = {0};
  int rank = x->type->rank;
  for (int d = 2; d < rank; d++) {
    amounts[2 * d] = (uint32_t)before;
    amounts[2 * d + 1] = (uint32_t)after;
  }
  crn_value *operands[] = {x, crn_build_u32(b, amounts, 2 * rank), crn_build_scalar_f32(b, value)};
  return crn_build_op(b, CRN_OP_pad, operands, 3, CAIRN_DTYPE_NONE, CRN_PAD_CONSTANT);
}

static crn_value *spatial(crn_builder *b, int n, int64_t value) {
  uint32_t values[3] = {(uint32_t)value, (uint32_t)value, (uint32_t)value};
  return crn_build_u32(b, values, n);
}

static crn_value *convolution(crn_builder *b, crn_value *x, const network *n, int64_t outputs, int64_t groups, int64_t stride) {
  int rank = x->type->rank;
  int64_t dims[5] = {outputs, x->type->dims[1] / groups, n->size, n->size, n->size};
  uint32_t g = (uint32_t)groups;
  crn_value *operands[] = {x, random_constant(b, dims, rank), spatial(b, rank - 2, stride), spatial(b, rank - 2, n->dilation),
                           crn_build_u32(b, &g, 1)};
  return crn_build_op(b, rank == 5 ? CRN_OP_conv3d : CRN_OP_conv2d, operands, 5, CAIRN_DTYPE_NONE, 0);
}

static crn_value *channel_constant(crn_builder *b, crn_value *y) {
  return random_constant(b, (int64_t[]){1, y->type->dims[1], 1, 1, 1}, y->type->rank);
}

static crn_value *add(crn_builder *b, crn_value *x, crn_value *y) { return crn_build_binary(b, CRN_OP_broadcasting_add, x, y); }
static crn_value *mul(crn_builder *b, crn_value *x, crn_value *y) { return crn_build_binary(b, CRN_OP_broadcasting_mul, x, y); }

static crn_value *build_plain(crn_builder *b, crn_value *x, const network *n) {
  return convolution(b, n->before || n->after ? padded(b, x, n->before, n->after, 0) : x, n, n->outputs, n->groups, n->stride);
}

// A batch norm in pieces, between the bias and the activation.
static crn_value *build_norm(crn_builder *b, crn_value *x, const network *n) {
  crn_value *y = build_plain(b, x, n);
  y = add(b, channel_constant(b, y), y);
  y = crn_build_binary(b, CRN_OP_broadcasting_sub, y, channel_constant(b, y));
  y = add(b, mul(b, y, channel_constant(b, y)), channel_constant(b, y));
  return crn_build_unary(b, CRN_OP_silu, y);
}

// A block of a residual network: two convolutions, and one beside them.
static crn_value *build_block(crn_builder *b, crn_value *x, const network *n) {
  crn_value *y = build_plain(b, x, n);
  y = crn_build_unary(b, CRN_OP_relu, add(b, y, channel_constant(b, y)));
  y = convolution(b, padded(b, y, n->before, n->after, 0), n, n->outputs, 1, 1);
  y = add(b, y, channel_constant(b, y));
  network one = *n;
  one.size = one.dilation = 1;
  crn_value *skip = convolution(b, x, &one, n->outputs, 1, n->stride);
  skip = add(b, skip, channel_constant(b, skip));
  return crn_build_unary(b, CRN_OP_relu, n->groups > 1 ? add(b, y, skip) : add(b, skip, y));
}

// The rest of a stem: maxima over padded windows, and ops of single elements.
static crn_value *build_stem(crn_builder *b, crn_value *x, const network *n) {
  crn_value *y = build_plain(b, x, n);
  crn_value *operands[] = {padded(b, y, 1, 1, -INFINITY), spatial(b, 2, 3), spatial(b, 2, 2), spatial(b, 2, 1), NULL};
  static bool no = false;
  crn_tensor t = crn_tensor_make(CAIRN_BOOL, NULL, 0, &no);
  operands[4] = crn_build_constant(b, NULL, &t, 0);
  y = crn_build_op(b, CRN_OP_max_pool_2d, operands, 5, CAIRN_DTYPE_NONE, 0);
  return mul(b, crn_build_unary(b, CRN_OP_sigmoid, y), add(b, y, channel_constant(b, y)));
}

static crn_value *build_product(crn_builder *b, crn_value *x, const network *n, int mode) {
  crn_value *y = crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, x, random_constant(b, (int64_t[]){x->type->dims[2], n->outputs}, 2));
  y = add(b, y, random_constant(b, &n->outputs, 1));
  return mode < 0 ? crn_build_unary(b, CRN_OP_relu, y) : crn_build_op(b, CRN_OP_gelu, &y, 1, CAIRN_DTYPE_NONE, mode);
}
static crn_value *build_gelu(crn_builder *b, crn_value *x, const network *n) { return build_product(b, x, n, CRN_GELU_NONE); }
static crn_value *build_tanh(crn_builder *b, crn_value *x, const network *n) { return build_product(b, x, n, CRN_GELU_TANH); }
static crn_value *build_relu(crn_builder *b, crn_value *x, const network *n) { return build_product(b, x, n, -1); }

// Attention's way out: rows of another rank, a product, the shape of the rest again, and the residual.
static crn_value *build_rows(crn_builder *b, crn_value *x, const network *n) {
  const int64_t *d = x->type->dims;
  uint32_t flat[] = {(uint32_t)(d[0] * d[1]), (uint32_t)d[2]}, shape[] = {(uint32_t)d[0], (uint32_t)d[1], (uint32_t)d[2]};
  crn_value *y = crn_build_binary(b, CRN_OP_reshape, crn_build_unary(b, CRN_OP_tanh, x), crn_build_u32(b, flat, 2));
  y = crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, y, random_constant(b, (int64_t[]){d[2], n->outputs}, 2));
  y = crn_build_binary(b, CRN_OP_reshape, add(b, y, random_constant(b, &n->outputs, 1)), crn_build_u32(b, shape, 3));
  return add(b, x, y);
}

// --- running --------------------------------------------------------------------------------------------------------------------

static cairn_model *make_model(cairn_context *context, const network *n, cairn_model_options options) {
  static const char *const names[] = {"y"};
  crn_program *p;
  crn_builder b;
  cairn_model *model;
  g_seed = 17;
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "main");
  crn_value *y = n->build(&b, crn_build_input(&b, "x", CAIRN_F32, n->dims, n->rank), n);
  if (!y) fail_msg("%s: %s", n->name, cairn_last_error()->message);
  if (crn_builder_finish(&b, &y, names, 1) != CAIRN_OK) fail_msg("%s: %s", n->name, cairn_last_error()->message);
  options.no_cache = true;
  if (crn_model_create_from_program(context, p, &options, &model) != CAIRN_OK) fail_msg("%s: %s", n->name, cairn_last_error()->message);
  return model;
}

static cairn_ndarray *run(cairn_context *context, cairn_model *model, const network *n, int64_t batch) {
  cairn_function *f;
  cairn_ndarray *x, *y;
  cairn_outputs *outputs;
  int64_t dims[5];
  memcpy(dims, n->dims, sizeof dims);
  if (dims[0] < 0) dims[0] = batch;
  assert_int_equal(cairn_model_function(model, "main", &f), CAIRN_OK);
  assert_int_equal(cairn_ndarray_create(context, CAIRN_F32, dims, n->rank, &x), CAIRN_OK);
  g_seed = 23;
  for (int64_t i = 0; i < cairn_ndarray_count(x); i++) ((float *)cairn_ndarray_mutable_data(x))[i] = noise();
  cairn_named_array inputs[] = {{"x", x}};
  for (int i = 0; i < 2; i++) {  // the second time as the first was recorded
    if (cairn_function_run(f, &(cairn_run_args){.inputs = inputs, .n_inputs = 1}, &outputs) != CAIRN_OK)
      fail_msg("%s: %s", n->name, cairn_last_error()->message);
    if (i) assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
    cairn_outputs_destroy(outputs);
  }
  cairn_ndarray_release(x);
  cairn_function_release(f);
  return y;
}

static void check_plan(cairn_model *model, const network *n) {
  static char text[1 << 14];
  cairn_function *f;
  size_t bytes;
  assert_int_equal(cairn_model_function(model, "main", &f), CAIRN_OK);
  assert_int_equal(cairn_function_print_plan(f, text, sizeof text - 1, &bytes), CAIRN_OK);
  text[bytes] = 0;
  if (!strstr(text, n->expected)) fail_msg("%s: '%s' expected in the plan:\n%s", n->name, n->expected, text);
  if (n->absent && strstr(text, n->absent)) fail_msg("%s: no '%s' expected in the plan:\n%s", n->name, n->absent, text);
  cairn_function_release(f);
}

static void check(const network *n) {
  for (int threads = 1; threads <= 2; threads++) {
    cairn_context *context;
    assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = threads}, &context), CAIRN_OK);
    cairn_model *fast = make_model(context, n, (cairn_model_options){.precision = CAIRN_PRECISION_EXACT});
    cairn_model *plain = make_model(context, n, (cairn_model_options){.composites = CAIRN_COMPOSITES_BODY});
    check_plan(fast, n);
    for (int64_t batch = 1; batch <= (n->dims[0] < 0 ? 4 : 1); batch++) {
      cairn_ndarray *got = run(context, fast, n, batch), *want = run(context, plain, n, batch);
      assert_int_equal(cairn_ndarray_count(got), cairn_ndarray_count(want));
      const float *a = cairn_ndarray_data(got), *b = cairn_ndarray_data(want);
      for (int64_t i = 0; i < cairn_ndarray_count(got); i++) {
        if (!(fabsf(a[i] - b[i]) <= 2e-5f * (1 + fabsf(b[i]))))
          fail_msg("%s: value %d is %g, not %g", n->name, (int)i, (double)a[i], (double)b[i]);
      }
      cairn_ndarray_release(got);
      cairn_ndarray_release(want);
    }
    cairn_model_release(fast);
    cairn_model_release(plain);
    cairn_context_release(context);
  }
}

#define CHECK(...) check(&(network){__VA_ARGS__})

static void convolutions(void **state) {
  (void)state;
  CHECK("3x3", build_plain, 4, {-1, 5, 9, 17}, 40, 1, 3, 1, 1, 1, 1, "= pad+conv(", "coreai.pad");
  CHECK("7x7 with stride", build_plain, 4, {2, 3, 40, 31}, 33, 1, 7, 2, 1, 3, 2, "= pad+conv(", "coreai.pad");
  CHECK("1x1", build_plain, 4, {2, 37, 6, 5}, 16, 1, 1, 1, 1, 0, 0, "= conv(", NULL);
  CHECK("1x1 with stride", build_plain, 4, {2, 20, 9, 8}, 70, 1, 1, 2, 1, 1, 0, "= pad+conv(", NULL);
  CHECK("dilated", build_plain, 4, {1, 4, 21, 20}, 24, 1, 3, 2, 3, 2, 4, "= pad+conv(", NULL);
  CHECK("short lines", build_plain, 4, {-1, 70, 7, 7}, 48, 1, 3, 1, 1, 1, 1, "= pad+conv(", NULL);
  CHECK("large", build_plain, 4, {1, 64, 70, 60}, 40, 1, 3, 1, 1, 1, 1, "= pad+conv(", NULL);
  CHECK("three dimensions", build_plain, 5, {2, 3, 8, 7, 9}, 20, 1, 3, 2, 1, 1, 1, "= pad+conv(", NULL);
  CHECK("three dimensions, dilated", build_plain, 5, {-1, 3, 12, 9, 9}, 20, 1, 3, 1, 2, 2, 2, "= pad+conv(", NULL);
  CHECK("depthwise", build_plain, 4, {-1, 50, 11, 13}, 50, 50, 3, 2, 1, 1, 1, "= pad+conv(", NULL);
  CHECK("depthwise, dilated", build_plain, 4, {1, 16, 14, 15}, 16, 16, 3, 1, 2, 0, 0, "= conv(", NULL);
  CHECK("groups", build_plain, 4, {2, 8, 9, 9}, 12, 4, 3, 1, 1, 1, 1, "coreai.conv2d(", "= pad+conv");
}

static void surroundings(void **state) {
  (void)state;
  CHECK("norm", build_norm, 4, {-1, 6, 12, 11}, 36, 1, 3, 1, 1, 1, 1, "= pad+conv+bias+silu(", "broadcasting");
  CHECK("depthwise norm", build_norm, 4, {3, 24, 12, 11}, 24, 24, 3, 2, 1, 1, 1, "= pad+conv+bias+silu(", "broadcasting");
  CHECK("block", build_block, 4, {-1, 8, 10, 10}, 32, 1, 3, 1, 1, 1, 1, "+bias+add+relu(", "broadcasting");
  CHECK("block with stride", build_block, 4, {2, 8, 13, 13}, 48, 1, 3, 2, 1, 1, 1, "+bias+add+relu(", "broadcasting");
  CHECK("stem", build_stem, 4, {-1, 3, 17, 18}, 24, 1, 3, 1, 1, 1, 1, "= pad+max_pool(", "coreai.pad");
}

static void products(void **state) {
  (void)state;
  CHECK("gelu", build_gelu, 3, {-1, 5, 64}, 70, 1, 0, 0, 0, 0, 0, "= linear+bias+gelu(", "coreai.gelu");
  CHECK("tanh", build_tanh, 3, {2, 30, 50}, 32, 1, 0, 0, 0, 0, 0, "= linear+bias+gelu_tanh(", "coreai.gelu");
  CHECK("relu", build_relu, 3, {1, 1, 50}, 20, 1, 0, 0, 0, 0, 0, "= linear+bias+relu(", "coreai.relu");
  CHECK("rows", build_rows, 3, {3, 9, 64}, 64, 1, 0, 0, 0, 0, 0, "= linear+bias+add(", "broadcasting_add");
  CHECK("rows that meet in the cache", build_rows, 3, {2, 10, 1024}, 1024, 1, 0, 0, 0, 0, 0, "= linear+bias+add(", "broadcasting_add");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(surroundings), cmocka_unit_test(products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
