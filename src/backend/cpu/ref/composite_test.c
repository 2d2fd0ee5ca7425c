// rms_norm, layer_norm, rope and gather_mm against the steps of their bodies, run with the kernels of the single ops.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"

typedef cairn_status (*kernel_fn)(const crn_kernel_args *args);
#define OP(name) CRN_OP_##name, crn_ref_##name

static crn_tensor broadcast(crn_op_id id, kernel_fn kernel, const crn_tensor *a, const crn_tensor *b) {
  crn_tensor operands[2] = {*a, *b};
  int rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t dims[CAIRN_MAX_RANK];
  for (int d = 0; d < rank; d++) {
    int64_t x = d < rank - a->rank ? 1 : a->dims[d - (rank - a->rank)], y = d < rank - b->rank ? 1 : b->dims[d - (rank - b->rank)];
    dims[d] = x > y ? x : y;
  }
  crn_tensor out = kt_tensor(a->dtype, rank, dims);
  kt_run(&(kt_call){.id = id, .kernel = kernel, .n = 2, .operands = operands, .result = &out});
  return out;
}

static crn_tensor unary(crn_op_id id, kernel_fn kernel, const crn_tensor *a) {
  crn_tensor out = kt_tensor(a->dtype, a->rank, a->dims);
  kt_run(&(kt_call){.id = id, .kernel = kernel, .n = 1, .operands = a, .result = &out});
  return out;
}

static crn_tensor convert(const crn_tensor *a, cairn_dtype dtype) {
  crn_tensor plain = kt_tensor(a->dtype, a->rank, a->dims), out = kt_tensor(dtype, a->rank, a->dims);
  crn_tensor_copy(a, &plain);
  crn_convert(a->dtype, plain.data, dtype, out.data, crn_tensor_count(a));
  return out;
}

static crn_tensor mean(const crn_tensor *a, int n_axes) {
  int64_t dims[CAIRN_MAX_RANK], axes[CAIRN_MAX_RANK];
  for (int d = 0; d < a->rank; d++) dims[d] = d < a->rank - n_axes ? a->dims[d] : 1;
  for (int i = 0; i < n_axes; i++) axes[i] = a->rank - 1 - i;
  crn_tensor operands[2] = {*a, kt_ints(CAIRN_SI32, n_axes, axes)}, out = kt_tensor(a->dtype, a->rank, dims);
  kt_run(&(kt_call){.id = CRN_OP_reduce_mean, .kernel = crn_ref_reduce_mean, .n = 2, .operands = operands, .result = &out});
  return out;
}

static crn_tensor number(double value) {
  crn_tensor t = kt_tensor(CAIRN_F32, 0, NULL);
  *(float *)t.data = (float)value;
  return t;
}

// x * rsqrt(mean(x * x) + eps) in f32.
static crn_tensor normalised(const crn_tensor *x, int n_axes, double eps) {
  crn_tensor squares = broadcast(OP(broadcasting_mul), x, x), m = mean(&squares, n_axes), e = number(eps),
             sum = broadcast(OP(broadcasting_add), &m, &e);
  crn_tensor factor = unary(OP(rsqrt), &sum);
  return broadcast(OP(broadcasting_mul), x, &factor);
}

static crn_tensor rms_by_body(const crn_tensor *x, const crn_tensor *scale, double eps) {
  crn_tensor wide = convert(x, CAIRN_F32), n = normalised(&wide, 1, eps);
  if (scale->dtype != x->dtype) {
    crn_tensor scaled = broadcast(OP(broadcasting_mul), &n, scale);
    return convert(&scaled, x->dtype);
  }
  crn_tensor narrow = convert(&n, x->dtype);
  return broadcast(OP(broadcasting_mul), &narrow, scale);
}

static crn_tensor layer_by_body(const crn_tensor *x, const crn_tensor *gamma, const crn_tensor *beta, int n_axes, double eps) {
  crn_tensor wide = convert(x, CAIRN_F32), m = mean(&wide, n_axes), centered = broadcast(OP(broadcasting_sub), &wide, &m);
  crn_tensor n = normalised(&centered, n_axes, eps), narrow = convert(&n, x->dtype), g = convert(gamma, x->dtype),
             b = convert(beta, x->dtype);
  crn_tensor scaled = broadcast(OP(broadcasting_mul), &narrow, &g);
  return broadcast(OP(broadcasting_add), &scaled, &b);
}

// Rows that lie behind one another are taken many at a time: those of heads with a scale each, of one batch and of several.
static void norms_of_rows_together(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const char *const names[] = {"input", "scale"};
  crn_attr items[2] = {kt_int("axes", -1), kt_float("eps", 1e-5)}, attrs = kt_dict(items, 2);
  for (int t = 0; t < 3 * 2 * 4; t++) {
    cairn_dtype type = types[t % 3], scale_type = t / 3 % 2 ? CAIRN_F32 : type;
    int64_t batch = t / 12 + 1, rows = t / 6 % 2 ? 3 : 1;
    crn_tensor x = KT_RANDOM(type, 5, batch, 60, rows, 80), out = kt_tensor(type, 4, x.dims), other = kt_swapped(x, 1, 2);
    crn_tensor scales[] = {KT_RANDOM(scale_type, 2, 60, 1, 80), KT_RANDOM(scale_type, 2, 80), KT_RANDOM(scale_type, 2, 1)};
    for (int i = 0; i < 3; i++) {
      crn_tensor operands[2] = {x, scales[i]}, want = rms_by_body(&x, &scales[i], 1e-5);
      kt_call call = {
          .id = CRN_OP_rms_norm, .kernel = crn_ref_rms_norm, .n = 2, .operands = operands, .result = &out, .attrs = &attrs, .names = names};
      kt_run(&call);
      assert_true(kt_same_bytes(&out, &want));
      if (i == 0) continue;
      // The same memory walked in another order.
      crn_tensor result = kt_tensor(type, 4, other.dims);
      operands[0] = other;
      want = rms_by_body(&other, &scales[i], 1e-5);
      call.result = &result;
      kt_run(&call);
      assert_true(kt_same_bytes(&result, &want));
    }
    kt_free_all(NULL);
  }
}

static void norms_equal_their_bodies(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const char *const rms_names[] = {"input", "scale"}, *const layer_names[] = {"input", "gamma", "beta"};
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  for (int t = 0; t < 3; t++) {
    for (int s = 0; s < 2; s++) {
      crn_tensor x = KT_RANDOM(types[t], 5, 2, 6, 7, 33), view = kt_swapped(kt_spread(&x, 1 + s), 1, 2),
                 out = kt_tensor(types[t], 4, view.dims);
      cairn_dtype scale_type = s ? CAIRN_F32 : types[t];
      crn_tensor scales[] = {KT_RANDOM(scale_type, 2, 33), KT_RANDOM(scale_type, 2, 7, 1, 33), KT_RANDOM(scale_type, 2, 1)};
      crn_attr items[2] = {kt_int("axes", s ? 3 : -1), kt_float("eps", 1e-5)}, attrs = kt_dict(items, 2);
      for (int i = 0; i < 3; i++) {
        crn_tensor operands[3] = {view, scales[i]}, want = rms_by_body(&view, &scales[i], 1e-5);
        kt_run(&(kt_call){.id = CRN_OP_rms_norm,
                          .kernel = crn_ref_rms_norm,
                          .n = 2,
                          .operands = operands,
                          .result = &out,
                          .attrs = &attrs,
                          .names = rms_names,
                          .pool = pool});
        assert_true(kt_same_bytes(&out, &want));
      }
      for (int n_axes = 1; n_axes <= 3; n_axes++) {
        crn_tensor flat = KT_RANDOM(types[t], 5, 3, 4, 5, 6), result = KT(types[t], 3, 4, 5, 6);
        crn_tensor gamma = kt_random_tensor(scale_type, 2, n_axes, flat.dims + 4 - n_axes),
                   beta = kt_random_tensor(scale_type, 2, n_axes, flat.dims + 4 - n_axes);
        crn_attr axes[3] = {kt_int(NULL, 3), kt_int(NULL, -2), kt_int(NULL, 1)},
                 layer_items[2] = {{.kind = CRN_ATTR_LIST, .key = "axes"}, kt_float("eps", 1e-6)};
        layer_items[0].list.items = axes, layer_items[0].list.n = (uint32_t)n_axes;
        crn_attr layer_attrs = kt_dict(layer_items, 2);
        crn_tensor operands[3] = {flat, gamma, kt_spread(&beta, 2)}, want = layer_by_body(&flat, &gamma, &beta, n_axes, 1e-6);
        kt_run(&(kt_call){.id = CRN_OP_layer_norm,
                          .kernel = crn_ref_layer_norm,
                          .n = 3,
                          .operands = operands,
                          .result = &result,
                          .attrs = &layer_attrs,
                          .names = layer_names});
        assert_true(kt_same_bytes(&result, &want));
      }
      kt_free_all(NULL);
    }
  }
  crn_pool_destroy(pool);
}

static void norms_decline_what_they_do_not_know(void **state) {
  (void)state;
  static const char *const strange[] = {"input", "bias"}, *const names[] = {"input", "scale"};
  crn_tensor operands[2] = {KT_RANDOM(CAIRN_F16, 1, 3, 4), KT_RANDOM(CAIRN_F16, 1, 4)}, out = KT(CAIRN_F16, 3, 4);
  crn_attr items[2] = {kt_int("axes", -1), kt_float("eps", 1e-5)}, attrs = kt_dict(items, 2), without_eps = kt_dict(items, 1);
  kt_call call = {
      .id = CRN_OP_rms_norm, .kernel = crn_ref_rms_norm, .n = 2, .operands = operands, .result = &out, .attrs = &attrs, .names = strange};
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
  call.names = names;
  assert_int_equal(kt_try(&call), CAIRN_OK);
  call.attrs = &without_eps;
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
  items[0] = kt_int("axes", 0), call.attrs = &attrs;
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
  items[0] = kt_int("axes", -1), operands[1] = KT_RANDOM(CAIRN_BF16, 1, 4);
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
}

// --- rope -----------------------------------------------------------------------------------------------------------------

// Rounds like an op of that type would.
static float rounded(cairn_dtype dtype, float v) {
  unsigned char element[8];
  crn_store_f64(dtype, element, (double)v);
  return (float)crn_load_f64(dtype, element);
}

typedef struct rope_case {
  int64_t dims;
  bool interleaved;
  float scale;
  const int32_t *positions;  ///< [batch, sequence], NULL = offset + 0, 1, …
  const int32_t *offsets;    ///< one a batch, or NULL
  const float *freqs;        ///< NULL = from base 10000
} rope_case;

static void check_rope(const rope_case *c, const crn_tensor *x, const crn_tensor *out) {
  int64_t length = x->dims[3], sequence = x->dims[2], half = c->dims / 2;
  for (int64_t r = 0; r < crn_tensor_count(x) / length; r++) {
    int64_t row = r % sequence, batch = r / sequence / x->dims[1];
    int64_t position = c->positions ? c->positions[batch * sequence + row] : row + (c->offsets ? c->offsets[batch] : 0);
    for (int64_t i = 0; i < half; i++) {
      float frequency = (c->freqs ? c->freqs[i] : 1.0f / powf(10000.0f, (float)(2 * i) / (float)c->dims)) * c->scale;
      float angle = (float)position * frequency, cosine = rounded(x->dtype, cosf(angle)), sine = rounded(x->dtype, sinf(angle));
      int64_t even = r * length + (c->interleaved ? 2 * i : i), odd = even + (c->interleaved ? 1 : half);
      float a = (float)kt_at(x, even), b = (float)kt_at(x, odd);
      float first = rounded(x->dtype, rounded(x->dtype, a * cosine) - rounded(x->dtype, b * sine));
      float second = rounded(x->dtype, rounded(x->dtype, a * sine) + rounded(x->dtype, b * cosine));
      assert_true((float)kt_at(out, even) == first && (float)kt_at(out, odd) == second);
    }
    for (int64_t i = c->dims; i < length; i++) assert_true(kt_at(out, r * length + i) == kt_at(x, r * length + i));
  }
}

static void rope_equals_its_body(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const int32_t positions[10] = {0, 5, 9, 4095, 7, 1, 2, 3, 100000, 8}, offsets[2] = {12, 3};
  static const float freqs[7] = {1, 0.5f, 0.3f, 0.2f, 0.1f, 0.05f, 0.01f};
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  for (int t = 0; t < 3; t++) {
    for (int variant = 0; variant < 48; variant++) {
      int given = variant / 2 % 3;  // nothing, position_ids, offset
      rope_case c = {.dims = variant / 6 % 2 ? 8 : 14,
                     .interleaved = variant % 2,
                     .scale = variant / 24 ? 2.0f : 1.0f,
                     .positions = given == 1 ? positions : NULL,
                     .offsets = given == 2 ? offsets : NULL,
                     .freqs = variant / 12 % 2 ? freqs : NULL};
      crn_tensor x = KT_RANDOM(types[t], 3, 2, 3, 5, 14), view = kt_spread(&x, 1 + variant % 2), out = KT(types[t], 2, 3, 5, 14);
      crn_tensor operands[3] = {view};
      const char *names[3] = {"input"};
      int n = 1;
      if (given == 1) {
        operands[n] = KT(CAIRN_SI32, 2, 5);
        memcpy(operands[n].data, positions, sizeof positions);
        names[n++] = "position_ids";
      } else if (given == 2) {
        operands[n] = KT(CAIRN_SI32, 2);
        memcpy(operands[n].data, offsets, sizeof offsets);
        names[n++] = "offset";
      }
      if (c.freqs) {
        operands[n] = kt_tensor(CAIRN_F32, 1, KT_DIMS(c.dims / 2));
        memcpy(operands[n].data, freqs, (size_t)(c.dims / 2) * sizeof *freqs);
        names[n++] = "freqs";
      }
      crn_attr items[4] = {kt_float("base", 10000), kt_float("scale", (double)c.scale), kt_int("interleaved", c.interleaved ? -1 : 0),
                           kt_int("dims", c.dims)};
      crn_attr attrs = kt_dict(items, c.dims == 14 ? 3 : 4);
      kt_run(&(kt_call){.id = CRN_OP_rope,
                        .kernel = crn_ref_rope,
                        .n = n,
                        .operands = operands,
                        .result = &out,
                        .attrs = &attrs,
                        .names = names,
                        .pool = pool});
      check_rope(&c, &x, &out);
      // Rows that lie behind one another are read together.
      operands[0] = x;
      kt_run(&(kt_call){
          .id = CRN_OP_rope, .kernel = crn_ref_rope, .n = n, .operands = operands, .result = &out, .attrs = &attrs, .names = names});
      check_rope(&c, &x, &out);
      kt_free_all(NULL);
    }
  }
  crn_pool_destroy(pool);
}

// The frequencies genuine assets hold as constants (base 1e6, 16 elements): the turned value of 1 at position 1 shows them.
static void rope_frequencies_are_those_of_the_assets(void **state) {
  (void)state;
  static const float constants[8] = {1.0f,           0.177827939f,   0.0316227786f,   0.00562341325f,
                                     0.00100000005f, 0.00017782794f, 3.16227743e-05f, 5.62341347e-06f};
  crn_tensor operands[2] = {KT(CAIRN_F32, 1, 1, 1, 16), KT(CAIRN_SI32, 1, 1)}, out = KT(CAIRN_F32, 1, 1, 1, 16);
  static const char *const names[2] = {"input", "position_ids"};
  for (int i = 0; i < 16; i++) ((float *)operands[0].data)[i] = i < 8;
  *(int32_t *)operands[1].data = 1;
  crn_attr items[1] = {kt_float("base", 1e6)}, attrs = kt_dict(items, 1);
  kt_run(
      &(kt_call){.id = CRN_OP_rope, .kernel = crn_ref_rope, .n = 2, .operands = operands, .result = &out, .attrs = &attrs, .names = names});
  for (int i = 0; i < 8; i++) assert_true(((float *)out.data)[8 + i] == sinf(constants[i]));
}

static void rope_takes_tables(void **state) {
  (void)state;
  crn_tensor operands[3] = {KT_RANDOM(CAIRN_F16, 1, 2, 3, 5, 6), KT_RANDOM(CAIRN_F16, 1, 5, 2), KT_RANDOM(CAIRN_F16, 1, 5, 2)},
             out = KT(CAIRN_F16, 2, 3, 5, 6);
  static const char *const names[3] = {"input", "cos", "sin"};
  crn_attr items[1] = {kt_int("dims", 4)}, attrs = kt_dict(items, 1);
  kt_call call = {.id = CRN_OP_rope, .kernel = crn_ref_rope, .n = 3, .operands = operands, .result = &out, .attrs = &attrs, .names = names};
  kt_run(&call);
  for (int64_t r = 0; r < 30; r++) {
    for (int64_t i = 0; i < 2; i++) {
      float a = (float)kt_at(&operands[0], r * 6 + i), b = (float)kt_at(&operands[0], r * 6 + i + 2);
      float cosine = (float)kt_at(&operands[1], r % 5 * 2 + i), sine = (float)kt_at(&operands[2], r % 5 * 2 + i);
      assert_true((float)kt_at(&out, r * 6 + i) == rounded(CAIRN_F16, rounded(CAIRN_F16, a * cosine) - rounded(CAIRN_F16, b * sine)));
      assert_true((float)kt_at(&out, r * 6 + i + 2) == rounded(CAIRN_F16, rounded(CAIRN_F16, a * sine) + rounded(CAIRN_F16, b * cosine)));
    }
  }
  call.n = 2;
  assert_int_equal(kt_try(&call), CAIRN_UNSUPPORTED);
}

// --- gather_mm ------------------------------------------------------------------------------------------------------------

// lhs [1, S, 1, 1, K] or [1, S, T, 1, K] with experts [B.., E, K, N] chosen by [1, S, T].
static void experts_by_token(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const char *const names[3] = {"lhs", "rhs", "rhs_indices"};
  enum { S = 9, T = 2, E = 4, K = 24, N = 20 };
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  for (int t = 0; t < 3; t++) {
    for (int variant = 0; variant < 8; variant++) {
      int64_t sets = variant & 1 ? 2 : 1, copies = variant & 2 ? T : 1;
      crn_tensor lhs = KT_RANDOM(types[t], 1, 1, S, copies, 1, K), index = KT(CAIRN_UI16, 1, S, T);
      for (int i = 0; i < S * T; i++) ((uint16_t *)index.data)[i] = (uint16_t)(fabs(kt_random()) * E);
      crn_tensor rhs = KT_RANDOM(types[t], 1, sets, E, variant & 4 ? N : K, variant & 4 ? K : N);
      if (variant & 4) rhs = kt_swapped(rhs, 2, 3);
      crn_tensor operands[3] = {lhs, rhs, index}, out = KT(types[t], sets, 1, S, T, 1, N);
      crn_attr items[1] = {kt_int("num_batch_axes", 1)}, attrs = kt_dict(items, 1);
      kt_call call = {.id = CRN_OP_gather_mm,
                      .kernel = crn_ref_gather_mm,
                      .n = 3,
                      .operands = operands,
                      .result = &out,
                      .attrs = &attrs,
                      .names = names,
                      .pool = pool};
      kt_run(&call);
      for (int64_t r = 0; r < sets * S * T; r++) {
        // The same product by the op the body uses: one row, one matrix.
        int64_t token = r / T % S, expert = ((uint16_t *)index.data)[token * T + r % T], set = r / (S * T);
        crn_tensor row = crn_tensor_make(types[t], KT_DIMS(1, K), 2, crn_tensor_at(&lhs, (token * copies + (copies > 1 ? r % T : 0)) * K));
        crn_tensor matrix = rhs, one[2], want = KT(types[t], 1, N);
        matrix.rank = 2;
        for (int d = 0; d < 2; d++) matrix.dims[d] = rhs.dims[d + 2], matrix.strides[d] = rhs.strides[d + 2];
        matrix.data = crn_tensor_at(&rhs, set * rhs.strides[0] + expert * rhs.strides[1]);
        one[0] = row, one[1] = matrix;
        kt_run(&(kt_call){.id = CRN_OP_batch_matmul, .kernel = crn_ref_batch_matmul, .n = 2, .operands = one, .result = &want});
        assert_memory_equal(crn_tensor_at(&out, r * N), want.data, N * cairn_dtype_bytes(types[t]));
      }
      ((uint16_t *)index.data)[3] = E;
      assert_int_equal(kt_try(&call), CAIRN_INVALID_ARGUMENT);
      kt_free_all(NULL);
    }
  }
  crn_pool_destroy(pool);
}

static void both_sides_by_index(void **state) {
  (void)state;
  static const char *const names[4] = {"lhs", "rhs", "lhs_indices", "rhs_indices"};
  crn_tensor lhs = KT_RANDOM(CAIRN_F32, 1, 8, 2, 12), rhs = KT_RANDOM(CAIRN_F32, 1, 5, 12, 7), left = KT(CAIRN_UI16, 3, 2),
             right = KT(CAIRN_SI32, 3, 2);
  static const uint16_t rows[6] = {0, 7, 3, 3, 1, 6};
  static const int32_t columns[6] = {4, 0, -1, 2, 2, 1};
  memcpy(left.data, rows, sizeof rows);
  memcpy(right.data, columns, sizeof columns);
  crn_tensor operands[4] = {lhs, rhs, left, right}, out = KT(CAIRN_F32, 3, 2, 2, 7);
  crn_attr items[1] = {kt_int("num_batch_axes", 0)}, attrs = kt_dict(items, 1);
  kt_run(&(kt_call){
      .id = CRN_OP_gather_mm, .kernel = crn_ref_gather_mm, .n = 4, .operands = operands, .result = &out, .attrs = &attrs, .names = names});
  for (int64_t i = 0; i < 6; i++) {
    for (int64_t r = 0; r < 2; r++) {
      for (int64_t c = 0; c < 7; c++) {
        double want = 0;
        int64_t expert = columns[i] < 0 ? columns[i] + 5 : columns[i];
        for (int64_t k = 0; k < 12; k++) want += kt_at(&lhs, (rows[i] * 2 + r) * 12 + k) * kt_at(&rhs, (expert * 12 + k) * 7 + c);
        assert_true(fabs(kt_at(&out, (i * 2 + r) * 7 + c) - want) < 1e-5);
      }
    }
  }
  // Only the left side: the right one broadcasts.
  crn_tensor single = KT_RANDOM(CAIRN_F32, 1, 12, 7);
  operands[1] = single;
  kt_run(&(kt_call){
      .id = CRN_OP_gather_mm, .kernel = crn_ref_gather_mm, .n = 3, .operands = operands, .result = &out, .attrs = &attrs, .names = names});
  for (int64_t i = 0; i < 6 * 2 * 7; i++) {
    double want = 0;
    for (int64_t k = 0; k < 12; k++) want += kt_at(&lhs, (rows[i / 14] * 2 + i / 7 % 2) * 12 + k) * kt_at(&single, k * 7 + i % 7);
    assert_true(fabs(kt_at(&out, i) - want) < 1e-5);
  }
}

#define TEST(fn) cmocka_unit_test_teardown(fn, kt_free_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(norms_of_rows_together),
      TEST(norms_equal_their_bodies),
      TEST(norms_decline_what_they_do_not_know),
      TEST(rope_equals_its_body),
      TEST(rope_frequencies_are_those_of_the_assets),
      TEST(rope_takes_tables),
      TEST(experts_by_token),
      TEST(both_sides_by_index),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
