// Passes on small programs: the steps they make, and the same values as the program op by op, whatever the sizes and the data.
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

enum { MAX_ARRAYS = 8, K = 64, N = 48, P = 40, D = 16, MAX_VALUES = 1 << 14 };

static uint32_t g_seed;
static float noise(void) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return (float)(int32_t)g_seed / 2147483648.0f;
}

static float g_weights[N * K], g_other_weights[N * K], g_scale[K], g_bias[N];

static void fill_constants(void) {
  g_seed = 11;
  for (int i = 0; i < N * K; i++) g_weights[i] = noise() * 0.2f;
  for (int i = 0; i < K; i++) g_scale[i] = 1 + noise() * 0.5f;
  for (int i = 0; i < N; i++) g_bias[i] = noise();
  for (int i = 0; i < N * K; i++) g_other_weights[i] = noise() * 0.2f;
}

static crn_value *constant(crn_builder *b, const int64_t *dims, int rank, const float *data) {
  crn_tensor t = crn_tensor_make(CAIRN_F32, dims, rank, (void *)data);
  return crn_build_constant(b, NULL, &t, 0);
}

static crn_value *two(crn_builder *b, crn_op_id id, crn_value *x, crn_value *y) { return crn_build_binary(b, id, x, y); }
static crn_value *mul(crn_builder *b, crn_value *x, crn_value *y) { return two(b, CRN_OP_broadcasting_mul, x, y); }
static crn_value *add(crn_builder *b, crn_value *x, crn_value *y) { return two(b, CRN_OP_broadcasting_add, x, y); }
static crn_value *product(crn_builder *b, crn_value *x, crn_value *y) { return two(b, CRN_OP_broadcasting_batch_matmul, x, y); }
static crn_value *last_axis(crn_builder *b) { return crn_build_i32(b, (int32_t[]){-1}, 1); }

// --- programs ---------------------------------------------------------------------------------------------------------------

/// What a program is given: dims of its inputs (-1 = the number of rows) and states, and what is to be in its plan.
typedef struct array_spec {
  const char *name;
  cairn_dtype dtype;
  int rank;
  int64_t dims[4];
} array_spec;

typedef struct program {
  const char *name;
  crn_value *(*build)(crn_builder *b, crn_value **inputs, crn_value **states, int variant);
  int variant;
  array_spec inputs[5], states[1];
  const char *expected, *absent;
  int64_t written;  ///< bytes of the state a run may write; 0 = not looked at
} program;

static crn_value *build_norm(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)states;
  crn_value *x = in[0], *square = mul(b, x, x), *mean;
  if (variant & 1)
    mean = mul(b, two(b, CRN_OP_reduce_sum, square, last_axis(b)), crn_build_scalar_f32(b, 1.0f / K));
  else
    mean = two(b, CRN_OP_reduce_mean, square, last_axis(b));
  crn_value *factor = crn_build_unary(b, CRN_OP_rsqrt, add(b, crn_build_scalar_f32(b, 1e-3f), mean));
  crn_value *y = variant & 2 ? mul(b, factor, x) : mul(b, x, factor);
  if (variant & 4) return y;
  crn_value *scale = constant(b, (int64_t[]){K}, 1, g_scale);
  return variant & 2 ? mul(b, scale, y) : mul(b, y, scale);
}

// A norm in front of products. Variant 1: two of them, 2: somebody else reads the norm too, 3 to 5: a gate (silu, gelu, gelu by tanh),
// 6: the two halves of one product.
static crn_value *build_prologue(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  crn_value *x = build_norm(b, in, states, 0), *y = product(b, x, constant(b, (int64_t[]){K, N}, 2, g_weights)), *halves[2];
  if (variant == 0) return y;
  if (variant == 2)
    return add(b, y,
               crn_build_slice(b, x, crn_build_i32(b, (int32_t[]){0, 0, 0}, 3), crn_build_i32(b, (int32_t[]){1, 99, N}, 3),
                               crn_build_i32(b, (int32_t[]){1, 1, 1}, 3)));
  halves[0] = y;
  halves[1] = product(b, x, constant(b, (int64_t[]){K, N}, 2, g_other_weights));
  if (variant == 1) return mul(b, y, crn_build_unary(b, CRN_OP_abs, halves[1]));
  if (variant == 6) {
    const crn_type *types[2];
    for (int i = 0; i < 2; i++) types[i] = crn_build_tensor_type(b, CAIRN_F32, (int64_t[]){1, -1, N / 2}, 3);
    crn_value *operands[] = {y, crn_build_u32(b, (uint32_t[]){N / 2, N / 2}, 2), crn_build_scalar_i32(b, -1)};
    crn_value *parts = crn_build_region_op(b, CRN_OP_split, operands, 3, NULL, 0, types, 2);
    halves[0] = &parts[0], halves[1] = &parts[1];
  }
  crn_value *gate = variant == 4 || variant == 5
                        ? crn_build_op(b, CRN_OP_gelu, &halves[0], 1, CAIRN_DTYPE_NONE, variant == 5 ? CRN_GELU_TANH : CRN_GELU_NONE)
                        : crn_build_unary(b, CRN_OP_silu, halves[0]);
  return mul(b, gate, halves[1]);
}

// A factor that is not 1/n: no norm.
static crn_value *build_no_norm(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)states, (void)variant;
  crn_value *mean = mul(b, two(b, CRN_OP_reduce_sum, mul(b, in[0], in[0]), last_axis(b)), crn_build_scalar_f32(b, 2.0f / K));
  return mul(b, in[0], crn_build_unary(b, CRN_OP_rsqrt, add(b, mean, crn_build_scalar_f32(b, 1e-3f))));
}

static crn_value *build_silu(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)states;
  crn_value *s = crn_build_unary(b, CRN_OP_sigmoid, in[0]);
  return variant ? mul(b, s, in[0]) : mul(b, in[0], s);
}

static crn_value *build_identity(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)states, (void)variant;
  crn_value *shape = crn_build_unary(b, CRN_OP_get_shape, in[0]), *y = two(b, CRN_OP_broadcast_to, in[0], shape);
  return add(b, two(b, CRN_OP_reshape, y, shape), crn_build_transpose(b, y, (uint32_t[]){0, 1, 2}, 3));
}

static crn_value *build_attention(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)states;
  crn_value *scores = mul(b, product(b, in[0], in[1]), crn_build_scalar_f32(b, 0.25f));
  if (variant == 1) scores = add(b, scores, in[3]);
  if (variant == 2)
    scores =
        crn_build_op(b, CRN_OP_broadcasting_where, (crn_value *[]){in[3], scores, crn_build_scalar_f32(b, -1e9f)}, 3, CAIRN_DTYPE_NONE, 0);
  crn_value *weights;
  if (variant == 3) {
    crn_value *e = crn_build_unary(b, CRN_OP_exp, two(b, CRN_OP_broadcasting_sub, scores, two(b, CRN_OP_reduce_max, scores, last_axis(b))));
    weights = two(b, CRN_OP_broadcasting_divide, e, two(b, CRN_OP_reduce_sum, e, last_axis(b)));
  } else {
    weights = two(b, CRN_OP_softmax, scores, crn_build_scalar_i32(b, -1));
  }
  return product(b, weights, in[2]);
}

// Pieces of a value along an axis, all of one size.
static crn_value *split(crn_builder *b, crn_value *x, int axis, uint32_t n, uint32_t size) {
  uint32_t sizes[8];
  const crn_type *types[8];
  int64_t dims[4];
  for (int d = 0; d < 4; d++) dims[d] = d == axis ? size : x->type->dims[d];
  for (uint32_t i = 0; i < n; i++) {
    sizes[i] = size;
    types[i] = crn_build_tensor_type(b, CAIRN_F32, dims, 4);
  }
  crn_value *operands[] = {x, crn_build_u32(b, sizes, (int)n), crn_build_scalar_i32(b, axis)};
  return crn_build_region_op(b, CRN_OP_split, operands, 3, NULL, 0, types, (int)n);
}

// Head by head, as programs for fixed shapes write it. Variant 1 gives the heads other groups than their own.
static crn_value *build_heads(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  enum { HEADS = 4, GROUPS = 2 };
  (void)states;
  const uint32_t swap[] = {0, 3, 2, 1}, rows[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
  crn_value *q = split(b, in[0], 1, HEADS, D), *scores[HEADS], *masks[HEADS], *results[HEADS];
  crn_value *k = split(b, mul(b, crn_build_transpose(b, in[1], swap, 4), crn_build_scalar_f32(b, 0.25f)), 3, GROUPS, D);
  for (int h = 0; h < HEADS; h++) {
    crn_value *key = crn_build_transpose(b, &k[variant ? h % GROUPS : h * GROUPS / HEADS], rows, 4);
    scores[h] = crn_build_transpose(b, product(b, crn_build_transpose(b, &q[h], rows, 4), key), back, 4);
    masks[h] = in[3];
  }
  crn_value *joined = add(b, crn_build_concat(b, 2, scores, HEADS), crn_build_concat(b, 2, masks, HEADS));
  crn_value *w = split(b, two(b, CRN_OP_softmax, joined, crn_build_scalar_i32(b, 1)), 2, HEADS, 1), *v = split(b, in[2], 1, GROUPS, D);
  for (int h = 0; h < HEADS; h++) {
    crn_value *values = crn_build_transpose(b, &v[h * GROUPS / HEADS], rows, 4);
    results[h] = crn_build_transpose(b, product(b, crn_build_transpose(b, &w[h], rows, 4), values), back, 4);
  }
  return crn_build_concat(b, 1, results, HEADS);
}

static crn_value *build_conv(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)states;
  crn_value *ones = crn_build_u32(b, (uint32_t[]){1, 1}, 2), *group = crn_build_u32(b, (uint32_t[]){1}, 1);
  crn_value *operands[] = {in[0], constant(b, (int64_t[]){N, K, 1, 1}, 4, g_weights), ones, ones, group};
  crn_value *y = crn_build_op(b, CRN_OP_conv2d, operands, 5, CAIRN_DTYPE_NONE, 0);
  if (variant >= 1) y = add(b, y, constant(b, (int64_t[]){1, N, 1, 1}, 4, g_bias));
  if (variant >= 2) y = add(b, in[1], crn_build_transpose(b, y, (uint32_t[]){0, 3, 2, 1}, 4));
  return y;
}

// --- updates of states --------------------------------------------------------------------------------------------------------

static crn_value *new_value(crn_builder *b, crn_value *old, crn_value **in, int variant) {
  crn_value *mask = in[1];
  switch (variant) {
    case 0:
      return crn_build_op(b, CRN_OP_broadcasting_where, (crn_value *[]){mask, in[0], old}, 3, CAIRN_DTYPE_NONE, 0);
    case 1:
      return crn_build_op(b, CRN_OP_broadcasting_where, (crn_value *[]){crn_build_unary(b, CRN_OP_not, mask), old, in[0]}, 3,
                          CAIRN_DTYPE_NONE, 0);
    case 2: {
      crn_value *m = crn_build_cast(b, mask, CAIRN_F32);
      return add(b, mul(b, in[0], m), mul(b, old, two(b, CRN_OP_broadcasting_sub, crn_build_scalar_f32(b, 1), m)));
    }
    case 3:
      return crn_build_slice(b, crn_build_concat(b, 1, (crn_value *[]){old, in[0]}, 2), crn_build_i32(b, (int32_t[]){0, 1, 0}, 3),
                             crn_build_i32(b, (int32_t[]){2, P + 1, D}, 3), crn_build_i32(b, (int32_t[]){1, 1, 1}, 3));
    default:
      return crn_build_concat(
          b, 1,
          (crn_value *[]){crn_build_slice(b, old, crn_build_i32(b, (int32_t[]){0, 1, 0}, 3), crn_build_i32(b, (int32_t[]){2, P, D}, 3),
                                          crn_build_i32(b, (int32_t[]){1, 1, 1}, 3)),
                          in[0]},
          2);
  }
}

static crn_value *build_update(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  crn_build_write_state(b, states[0], new_value(b, crn_build_read_state(b, states[0]), in, variant));
  return two(b, CRN_OP_reduce_sum, crn_build_read_state(b, states[0]), last_axis(b));
}

static crn_value *integers(crn_builder *b, const int64_t *dims, int rank, const int32_t *data) {
  crn_tensor t = crn_tensor_make(CAIRN_SI32, dims, rank, (void *)data);
  return crn_build_constant(b, NULL, &t, 0);
}

static crn_value *build_indexed(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  static int32_t run[P], places[] = {0, 3, 1, 3}, fives[2 * D];
  for (int i = 0; i < P; i++) run[i] = variant == 3 && i == 4 ? 0 : i + 1;
  for (int i = 0; i < 2 * D; i++) fives[i] = 5;
  crn_value *old = crn_build_read_state(b, states[0]), *new;
  crn_value *axis = crn_build_scalar_i32(b, 1);
  if (variant == 0) {
    crn_value *update = two(b, CRN_OP_reshape, in[0], crn_build_u32(b, (uint32_t[]){2, D}, 2));
    new =
        crn_build_op(b, CRN_OP_scatter_nd, (crn_value *[]){old, integers(b, (int64_t[]){2, 2}, 2, places), update}, 3, CAIRN_DTYPE_NONE, 0);
  } else if (variant == 1) {
    new = crn_build_op(b, CRN_OP_scatter_along_axis, (crn_value *[]){old, integers(b, (int64_t[]){2, 1, D}, 3, fives), in[0], axis}, 4,
                       CAIRN_DTYPE_NONE, CRN_SCATTER_UPDATE);
  } else {
    crn_value *index = two(b, CRN_OP_broadcast_to, integers(b, (int64_t[]){1, P, 1}, 3, run), crn_build_u32(b, (uint32_t[]){2, P, D}, 3));
    new = crn_build_op(b, CRN_OP_gather_along_axis, (crn_value *[]){crn_build_concat(b, 1, (crn_value *[]){old, in[0]}, 2), index, axis}, 3,
                       CAIRN_DTYPE_NONE, 0);
  }
  crn_build_write_state(b, states[0], new);
  return two(b, CRN_OP_reduce_sum, crn_build_read_state(b, states[0]), last_axis(b));
}

static crn_value *build_pick(crn_builder *b, crn_value **in, crn_value **states, int variant) {
  (void)variant;
  crn_build_write_state(b, states[0], new_value(b, crn_build_read_state(b, states[0]), in, 0));
  crn_tensor t = crn_tensor_make(CAIRN_SI32, (int64_t[]){1, 1}, 2, (int32_t[]){1});
  static const int32_t one = 1;
  t.data = (void *)&one;
  return two(b, CRN_OP_gather_nd, crn_build_read_state(b, states[0]), crn_build_constant(b, NULL, &t, 0));
}

#define X3                            \
  {                                   \
    {                                 \
      "x", CAIRN_F32, 3, { 1, -1, K } \
    }                                 \
  }
#define QKV                                                                \
  {"q", CAIRN_F32, 4, {2, 4, -1, D}}, {"k", CAIRN_F32, 4, {2, 1, D, P}}, { \
    "v", CAIRN_F32, 4, { 2, 1, P, D }                                      \
  }
#define CONV                              \
  {                                       \
    {"x", CAIRN_F32, 4, {1, K, 1, -1}}, { \
      "h", CAIRN_F32, 4, { 1, -1, 1, N }  \
    }                                     \
  }
#define UPDATE                        \
  {                                   \
    {"c", CAIRN_F32, 3, {2, 1, D}}, { \
      "m", CAIRN_BOOL, 3, { 1, P, 1 } \
    }                                 \
  }
#define CACHE                            \
  {                                      \
    {                                    \
      "cache", CAIRN_F32, 3, { 2, P, D } \
    }                                    \
  }

#define BY_HEADS                                                                                                            \
  {                                                                                                                         \
    {"q", CAIRN_F32, 4, {1, 4 * D, 1, -1}}, {"k", CAIRN_F32, 4, {1, 2 * D, 1, P}}, {"v", CAIRN_F32, 4, {1, 2 * D, 1, P}}, { \
      "turned", CAIRN_F32, 4, { 1, P, 1, -1 }                                                                               \
    }                                                                                                                       \
  }

static const program g_programs[] = {
    {"norm", build_norm, 0, X3, .expected = "= rms_norm(", .absent = "rsqrt"},
    {"norm of a sum", build_norm, 1, X3, .expected = "= rms_norm(", .absent = "rsqrt"},
    {"norm, factors first", build_norm, 2, X3, .expected = "= rms_norm(", .absent = "rsqrt"},
    {"norm without a scale", build_norm, 5, X3, .expected = "= rms_norm(", .absent = "rsqrt"},
    {"no norm", build_no_norm, 0, X3, .expected = "rsqrt", .absent = "rms_norm"},
    {"norm and product", build_prologue, 0, X3, .expected = "= norm+linear(", .absent = "rms_norm"},
    {"norm and products", build_prologue, 1, X3, .expected = "= norm+linear+joined(", .absent = "rms_norm"},
    {"norm that is read besides", build_prologue, 2, X3, .expected = "= rms_norm(", .absent = "norm+"},
    {"norm and gate", build_prologue, 3, X3, .expected = "= norm+linear+gate(", .absent = "silu"},
    {"norm and gelu gate", build_prologue, 4, X3, .expected = "= norm+linear+gate(", .absent = "gelu"},
    {"norm and gelu gate by tanh", build_prologue, 5, X3, .expected = "= norm+linear+gate(", .absent = "gelu"},
    {"norm and split gate", build_prologue, 6, X3, .expected = "= norm+linear+gate(", .absent = "split"},
    {"silu", build_silu, 0, X3, .expected = "silu(", .absent = "sigmoid"},
    {"silu, other order", build_silu, 1, X3, .expected = "silu(", .absent = "sigmoid"},
    {"identities", build_identity, 0, X3, .expected = "broadcasting_add(", .absent = "reshape"},
    {"attention", build_attention, 0, {QKV}, .expected = "= attention(", .absent = "softmax"},
    {"attention, mask added",
     build_attention,
     1,
     {QKV, {"mask", CAIRN_F32, 4, {1, 1, -1, P}}},
     .expected = "mask_extent(",
     .absent = "softmax"},
    {"attention, mask chosen",
     build_attention,
     2,
     {QKV, {"mask", CAIRN_BOOL, 4, {1, 1, -1, P}}},
     .expected = "mask_extent(",
     .absent = "softmax"},
    {"attention, softmax spelled out", build_attention, 3, {QKV}, .expected = "= attention(", .absent = "coreai.exp("},
    {"attention by heads", build_heads, 0, BY_HEADS, .expected = "= attention(", .absent = "softmax"},
    {"attention by heads of other groups", build_heads, 1, BY_HEADS, .expected = "softmax", .absent = "attention("},
    {"conv", build_conv, 0, CONV, .expected = "= linear(", .absent = "conv2d"},
    {"conv, bias", build_conv, 1, CONV, .expected = "= linear+bias(", .absent = "conv2d"},
    {"conv, bias, residual", build_conv, 2, CONV, .expected = "= linear+bias+add(", .absent = "transpose"},
    {"where", build_update, 0, UPDATE, CACHE, "choose_update(", "copy the whole", 2 * D * 4},
    {"where not", build_update, 1, UPDATE, CACHE, "choose_update(", "copy the whole", 2 * D * 4},
    {"blend", build_update, 2, UPDATE, CACHE, "blend_update(", "copy the whole", 2 * D * 4},
    {"shift by a slice", build_update, 3, UPDATE, CACHE, "shift_update(", "copy the whole", 2 * P *D * 4},
    {"shift by a concat", build_update, 4, UPDATE, CACHE, "shift_update(", "copy the whole", 2 * P *D * 4},
    {"scatter_nd", build_indexed, 0, UPDATE, CACHE, "scatter_nd(", "copy the whole", 2 * D * 4},
    {"scatter_along_axis", build_indexed, 1, UPDATE, CACHE, "scatter_along_axis(", "copy the whole", 2 * D * 4},
    {"roll", build_indexed, 2, UPDATE, CACHE, "roll_update(", "copy the whole", 2 * P *D * 4},
    {"indices that do not run on", build_indexed, 3, UPDATE, CACHE, .expected = "roll_update("},
    {"pick", build_pick, 0, UPDATE, CACHE, "gather_nd(", "copy the whole", 2 * D * 4},
};

static cairn_model *build(cairn_context *context, const program *t, cairn_model_options options) {
  crn_program *p;
  crn_builder b;
  cairn_model *model;
  crn_value *in[5] = {0}, *states[1] = {0};
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "main");
  for (int i = 0; i < 5 && t->inputs[i].name; i++)
    in[i] = crn_build_input(&b, t->inputs[i].name, t->inputs[i].dtype, t->inputs[i].dims, t->inputs[i].rank);
  if (t->states[0].name) states[0] = crn_build_state(&b, t->states[0].name, t->states[0].dtype, t->states[0].dims, t->states[0].rank);
  crn_value *y = t->build(&b, in, states, t->variant);
  if (crn_builder_finish(&b, &y, (const char *[]){"y"}, 1) != CAIRN_OK) fail_msg("%s: %s", t->name, b.message);
  options.no_cache = true;
  if (crn_model_create_from_program(context, p, &options, &model) != CAIRN_OK) fail_msg("%s: %s", t->name, cairn_last_error()->message);
  return model;
}

// --- runs -------------------------------------------------------------------------------------------------------------------

static cairn_ndarray *array(cairn_context *context, const array_spec *spec, int64_t rows, int64_t column) {
  int64_t dims[4] = {0}, count = 1;
  cairn_ndarray *a;
  for (int d = 0; d < spec->rank; d++) {
    dims[d] = spec->dims[d] < 0 ? rows : spec->dims[d];
    count *= dims[d];
  }
  assert_int_equal(cairn_ndarray_create(context, spec->dtype, dims, spec->rank, &a), CAIRN_OK);
  void *data = cairn_ndarray_mutable_data(a);
  bool is_turned = !strcmp(spec->name, "turned"), is_mask = is_turned || !strcmp(spec->name, "mask");
  for (int64_t i = 0; i < count; i++) {
    // A mask leaves positions [2, 2 + column + row) to a row; the first row of some sees nothing at all.
    int64_t position = is_turned ? i / rows : i % P, row = is_turned ? i % rows : i / P;
    bool sees = position >= 2 && position < 2 + column + row && !(column % 3 == 0 && row == 0);
    if (spec->dtype == CAIRN_BOOL)
      ((uint8_t *)data)[i] = is_mask ? sees : position == column % P;
    else
      ((float *)data)[i] = is_mask ? (sees ? noise() : -40000.0f) : noise();
  }
  return a;
}

static int64_t run(cairn_function *f, const program *t, cairn_ndarray **inputs, cairn_ndarray *state, float *values) {
  cairn_named_array in[5], states[1] = {{t->states[0].name, state}};
  cairn_outputs *outputs;
  cairn_ndarray *y;
  int n = 0;
  for (; n < 5 && t->inputs[n].name; n++) in[n] = (cairn_named_array){t->inputs[n].name, inputs[n]};
  const cairn_run_args args = {.inputs = in, .n_inputs = n, .states = states, .n_states = t->states[0].name != NULL};
  if (cairn_function_run(f, &args, &outputs) != CAIRN_OK) fail_msg("%s: %s", t->name, cairn_last_error()->message);
  assert_int_equal(cairn_outputs_take(outputs, "y", &y), CAIRN_OK);
  int64_t count = cairn_ndarray_count(y);
  assert_true(count <= MAX_VALUES);
  memcpy(values, cairn_ndarray_data(y), (size_t)count * sizeof *values);
  cairn_ndarray_release(y);
  cairn_outputs_destroy(outputs);
  return count;
}

static void compare(const program *t, int64_t rows, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
    if (!(fabsf(a[i] - b[i]) <= 2e-5f * (1 + fabsf(a[i]))))
      fail_msg("%s, %d rows, value %d: %g instead of %g", t->name, (int)rows, (int)i, (double)b[i], (double)a[i]);
  }
}

static void check_plan(cairn_function *f, const program *t) {
  size_t bytes, again;
  assert_int_equal(cairn_function_print_plan(f, NULL, 0, &bytes), CAIRN_OK);
  char *text = calloc(1, bytes + 1);
  assert_int_equal(cairn_function_print_plan(f, text, bytes, &again), CAIRN_OK);
  if (!strstr(text, t->expected)) fail_msg("%s: no '%s' in the plan:\n%s", t->name, t->expected, text);
  if (t->absent && strstr(text, t->absent)) fail_msg("%s: '%s' in the plan:\n%s", t->name, t->absent, text);
  free(text);
}

static void check(cairn_context *context, const program *t) {
  static float u[MAX_VALUES], v[MAX_VALUES];
  cairn_model *plain = build(context, t, (cairn_model_options){.composites = CAIRN_COMPOSITES_BODY}),
              *fast = build(context, t, (cairn_model_options){0});
  cairn_function *f, *g;
  cairn_ndarray *states[2] = {0}, *inputs[5] = {0};
  assert_int_equal(cairn_model_function(plain, "main", &f), CAIRN_OK);
  assert_int_equal(cairn_model_function(fast, "main", &g), CAIRN_OK);
  check_plan(g, t);
  g_seed = 3;
  for (int k = 0; k < 2 && t->states[0].name; k++) {
    g_seed = 5;
    states[k] = array(context, &t->states[0], 1, 0);
  }
  for (int64_t step = 0; step < 70; step++) {
    int64_t rows = 1 + step % 9;
    for (int i = 0; i < 5 && t->inputs[i].name; i++) inputs[i] = array(context, &t->inputs[i], rows, step);
    // What is not finite must come through as the ops let it through.
    if (t->states[0].name && step == 60) ((float *)cairn_ndarray_mutable_data(inputs[0]))[1] = INFINITY;
    int64_t n = run(f, t, inputs, states[0], u), m = run(g, t, inputs, states[1], v);
    assert_int_equal(n, m);
    compare(t, rows, u, v, n);
    if (states[0]) compare(t, rows, cairn_ndarray_data(states[0]), cairn_ndarray_data(states[1]), cairn_ndarray_count(states[0]));
    for (int i = 0; i < 5 && t->inputs[i].name; i++) cairn_ndarray_release(inputs[i]);
    cairn_function_stats stats;
    cairn_function_get_stats(g, &stats);
    if (t->written && step < 60) {
      assert_int_equal(stats.state_bytes_copied, 0);
      if (stats.state_bytes_written != (step + 1) * t->written)
        fail_msg("%s: %lld bytes in %d steps", t->name, (long long)stats.state_bytes_written, (int)step + 1);
    }
  }
  for (int k = 0; k < 2; k++) cairn_ndarray_release(states[k]);
  cairn_function_release(f);
  cairn_function_release(g);
  cairn_model_release(plain);
  cairn_model_release(fast);
}

static void test_programs(void **state) {
  (void)state;
  cairn_context *context;
  fill_constants();
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  for (size_t i = 0; i < sizeof g_programs / sizeof *g_programs; i++) check(context, &g_programs[i]);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
