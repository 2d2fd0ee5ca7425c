// Attention against an f64 evaluation of the composite's body, and the promises of the exact mode.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"

typedef struct attention_case {
  int64_t batch, heads, kv_heads, rows, positions, key_size, value_size;
  bool causal;
  int64_t window;
  double scale;  ///< 0 = default
  crn_tensor q, k, v;
  const crn_tensor *mask, *sinks;
} attention_case;

static void make_case(attention_case *c, cairn_dtype dtype) {
  c->q = KT_RANDOM(dtype, 2, c->batch, c->heads, c->rows, c->key_size);
  c->k = KT_RANDOM(dtype, 2, c->batch, c->kv_heads, c->positions, c->key_size);
  c->v = KT_RANDOM(dtype, 2, c->batch, c->kv_heads, c->positions, c->value_size);
}

static cairn_status attend(const attention_case *c, crn_tensor *out, crn_pool *pool) {
  crn_attr items[3] = {kt_int("is_causal", c->causal ? -1 : 0), kt_int("window_size", c->window), kt_float("scale", c->scale)};
  crn_attr attrs = kt_dict(items, c->scale != 0 ? 3 : 2);
  crn_tensor operands[4] = {c->q, c->k, c->v};
  const char *names[4] = {"query", "key", "value", c->mask ? "attn_mask" : "sinks"};
  int n = 3;
  if (c->mask || c->sinks) operands[n++] = c->mask ? *c->mask : *c->sinks;
  return kt_try(&(kt_call){.id = CRN_OP_scaled_dot_product_attention,
                           .kernel = crn_ref_scaled_dot_product_attention,
                           .n = n,
                           .operands = operands,
                           .result = out,
                           .attrs = &attrs,
                           .names = names,
                           .pool = pool});
}

static crn_tensor result_of(const attention_case *c, crn_pool *pool) {
  crn_tensor out = KT(c->q.dtype, c->batch, c->heads, c->rows, c->value_size);
  if (attend(c, &out, pool) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  return out;
}

static double mask_value(const attention_case *c, int64_t batch, int64_t head, int64_t row, int64_t j) {
  int64_t position = row + c->positions - c->rows;
  bool visible = true;
  if (c->causal) visible = j <= position && (!c->window || j > position - c->window);
  if (!c->causal && c->window) visible = j > position - c->window && j < position + c->window;
  double value = visible ? 0 : -10000;
  if (c->mask) {
    const crn_tensor *m = c->mask;
    int64_t index[4] = {batch, head, row, j}, at = 0;
    for (int d = 0; d < m->rank; d++) at += m->dims[d] == 1 ? 0 : index[d + 4 - m->rank] * m->strides[d];
    value += m->dtype == CAIRN_BOOL ? (kt_at(m, at) != 0 ? 0 : -10000) : kt_at(m, at);
  }
  return value;
}

static void check_against_body(const attention_case *c, const crn_tensor *out, double tolerance) {
  double scale = c->scale != 0 ? c->scale : 1 / sqrt((double)c->key_size);
  for (int64_t r = 0; r < c->batch * c->heads * c->rows; r++) {
    int64_t row = r % c->rows, head = r / c->rows % c->heads, batch = r / c->rows / c->heads, kv = head / (c->heads / c->kv_heads);
    double weights[512], top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c->positions; j++) {
      double s = 0;
      for (int64_t d = 0; d < c->key_size; d++) {
        s += kt_at(&c->q, r * c->key_size + d) *
             kt_at(&c->k, batch * c->k.strides[0] + kv * c->k.strides[1] + j * c->k.strides[2] + d * c->k.strides[3]);
      }
      weights[j] = s * scale + mask_value(c, batch, head, row, j);
      top = fmax(top, weights[j]);
    }
    if (c->sinks) top = fmax(top, kt_at(c->sinks, head));
    for (int64_t j = 0; j < c->positions; j++) sum += weights[j] = exp(weights[j] - top);
    if (c->sinks) sum += exp(kt_at(c->sinks, head) - top);
    for (int64_t d = 0; d < c->value_size; d++) {
      double want = 0;
      for (int64_t j = 0; j < c->positions; j++) {
        want += weights[j] / sum * kt_at(&c->v, batch * c->v.strides[0] + kv * c->v.strides[1] + j * c->v.strides[2] + d * c->v.strides[3]);
      }
      double got = kt_at(out, r * c->value_size + d);
      if (!(fabs(got - want) <= tolerance))
        fail_msg("row %d of head %d, element %d: %.9g instead of %.9g", (int)row, (int)head, (int)d, got, want);
    }
  }
}

static void masks_windows_and_groups(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const double tolerance[] = {1e-5, 2e-3, 1.6e-2};
  static const int64_t windows[] = {0, 1, 2, 11, 100};
  for (int t = 0; t < 3; t++) {
    for (int causal = 0; causal < 2; causal++) {
      for (int w = 0; w < 5; w++) {
        for (int64_t rows = 1; rows <= 33; rows += 8) {
          attention_case c = {2, 6, 2, rows, 37, 11, 13, causal, windows[w], w % 2 ? 0.7 : 0, {0}, {0}, {0}, NULL, NULL};
          make_case(&c, types[t]);
          crn_tensor out = result_of(&c, NULL);
          check_against_body(&c, &out, tolerance[t]);
          crn_tensor sinks = KT_RANDOM(types[t], 2, 6);
          c.sinks = &sinks;
          out = result_of(&c, NULL);
          check_against_body(&c, &out, tolerance[t]);
          kt_free_all(NULL);
        }
      }
    }
  }
}

static void explicit_masks(void **state) {
  (void)state;
  attention_case c = {2, 4, 2, 9, 21, 8, 8, false, 0, 0, {0}, {0}, {0}, NULL, NULL};
  make_case(&c, CAIRN_F32);
  crn_tensor masks[] = {KT(CAIRN_BOOL, 9, 21),          KT(CAIRN_BOOL, 2, 1, 9, 21),          KT(CAIRN_BOOL, 1, 1, 1, 21),
                        KT_RANDOM(CAIRN_F32, 3, 9, 21), KT_RANDOM(CAIRN_F32, 3, 2, 4, 9, 21), KT_RANDOM(CAIRN_F32, 3, 4, 1, 21)};
  for (int m = 0; m < 6; m++) {
    for (int64_t i = 0; i < crn_tensor_count(&masks[m]); i++) {
      if (m < 3) ((uint8_t *)masks[m].data)[i] = i % 21 == 3 || kt_random() > 0;  // holes, and one position everybody sees
      if (m >= 3 && i % 21 != 3 && kt_random() > 0.4) ((float *)masks[m].data)[i] = i % 3 ? -INFINITY : -40000;
    }
    c.mask = &masks[m];
    crn_tensor out = result_of(&c, NULL);
    check_against_body(&c, &out, 1e-5);
  }
  // Masked positions are not read, whatever lies there.
  c.mask = &masks[2];
  crn_tensor want = result_of(&c, NULL);
  for (int64_t i = 0; i < crn_tensor_count(&c.k); i++) {
    if (!((uint8_t *)masks[2].data)[i / 8 % 21]) ((float *)c.k.data)[i] = ((float *)c.v.data)[i] = NAN;
  }
  crn_tensor out = result_of(&c, NULL);
  assert_true(kt_same_bytes(&out, &want));
}

// Rows without any visible position see all of them equally masked; a row of -inf gives NaN.
static void rows_that_see_nothing(void **state) {
  (void)state;
  attention_case c = {1, 2, 1, 7, 4, 8, 8, true, 0, 0, {0}, {0}, {0}, NULL, NULL};  // the first 3 rows lie before position 0
  make_case(&c, CAIRN_F32);
  crn_tensor out = result_of(&c, NULL);
  check_against_body(&c, &out, 3e-3);  // -10000 takes the low bits of the scores
  crn_tensor mask = KT(CAIRN_F32, 7, 4);
  for (int i = 0; i < 28; i++) ((float *)mask.data)[i] = i < 4 ? -INFINITY : 0;
  c.causal = false;
  c.mask = &mask;
  out = result_of(&c, NULL);
  for (int64_t i = 0; i < crn_tensor_count(&out); i++) assert_true(isnan(kt_at(&out, i)) == (i % (7 * 8) < 8));
}

// A prompt in one piece, in chunks and token by token; one thread and several; a cache with room and rubbish behind the
// visible positions, and heads interleaved in memory: always the same bits.
static void bits_depend_on_the_row_alone(void **state) {
  (void)state;
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const int64_t windows[] = {0, 7, 40};
  enum { HEADS = 6, KV = 2, LENGTH = 61, CAPACITY = 150, SIZE = 24 };
  for (int t = 0; t < 3; t++) {
    for (int w = 0; w < 3; w++) {
      attention_case whole = {1, HEADS, KV, LENGTH, LENGTH, SIZE, SIZE, true, windows[w], 0, {0}, {0}, {0}, NULL, NULL};
      make_case(&whole, types[t]);
      crn_tensor want = result_of(&whole, NULL), threaded = result_of(&whole, pool);
      assert_true(kt_same_bytes(&want, &threaded));
      // [KV, CAPACITY, SIZE] and [CAPACITY, KV, SIZE], full of NaN.
      crn_tensor cache[2][2] = {
          {KT(types[t], 1, KV, CAPACITY, SIZE), KT(types[t], 1, KV, CAPACITY, SIZE)},
          {kt_swapped(KT(types[t], 1, CAPACITY, KV, SIZE), 1, 2), kt_swapped(KT(types[t], 1, CAPACITY, KV, SIZE), 1, 2)}};
      for (int layout = 0; layout < 2; layout++) {
        for (int side = 0; side < 2; side++) {
          crn_tensor *room = &cache[layout][side], used = *room;
          for (int64_t i = 0; i < KV * CAPACITY * SIZE; i++) crn_store_f64(types[t], crn_tensor_at(room, i), NAN);
          used.dims[2] = LENGTH;
          crn_tensor_copy(side ? &whole.v : &whole.k, &used);
        }
      }
      for (int64_t chunk = 1; chunk < LENGTH; chunk = chunk * 3 + 1) {
        for (int64_t start = 0; start < LENGTH; start += chunk) {
          attention_case part = whole;
          part.rows = LENGTH - start < chunk ? LENGTH - start : chunk;
          part.positions = start + part.rows;
          part.k = cache[chunk % 2][0], part.v = cache[chunk % 2][1];
          part.k.dims[2] = part.v.dims[2] = part.positions;
          part.q.data = crn_tensor_at(&whole.q, start * SIZE);
          part.q.dims[2] = part.rows;
          crn_tensor out = result_of(&part, chunk % 2 ? pool : NULL), expected = out;
          expected.data = kt_memory((size_t)crn_tensor_count(&out) * cairn_dtype_bytes(types[t]));
          crn_tensor view = want;
          view.data = crn_tensor_at(&want, start * SIZE);
          view.dims[2] = part.rows;
          crn_tensor_copy(&view, &expected);
          assert_true(kt_same_bytes(&out, &expected));
        }
      }
      kt_free_all(NULL);
    }
  }
  crn_pool_destroy(pool);
}

static void rank_three(void **state) {
  (void)state;
  attention_case c = {3, 1, 1, 5, 8, 16, 4, true, 0, 0, {0}, {0}, {0}, NULL, NULL};
  make_case(&c, CAIRN_F32);
  crn_tensor want = result_of(&c, NULL);
  crn_tensor operands[3] = {crn_tensor_make(CAIRN_F32, KT_DIMS(3, 5, 16), 3, c.q.data),
                            crn_tensor_make(CAIRN_F32, KT_DIMS(3, 8, 16), 3, c.k.data),
                            crn_tensor_make(CAIRN_F32, KT_DIMS(3, 8, 4), 3, c.v.data)};
  crn_tensor out = KT(CAIRN_F32, 3, 5, 4);
  crn_attr items[1] = {kt_int("is_causal", 1)}, attrs = kt_dict(items, 1);
  const char *names[3] = {"query", "key", "value"};
  kt_run(&(kt_call){.id = CRN_OP_scaled_dot_product_attention,
                    .kernel = crn_ref_scaled_dot_product_attention,
                    .n = 3,
                    .operands = operands,
                    .result = &out,
                    .attrs = &attrs,
                    .names = names});
  assert_true(kt_same_bytes(&out, &want));
}

static void transposed_keys_are_copied(void **state) {
  (void)state;
  attention_case c = {1, 2, 2, 3, 9, 8, 8, false, 0, 0, {0}, {0}, {0}, NULL, NULL};
  make_case(&c, CAIRN_F16);
  crn_tensor want = result_of(&c, NULL);
  crn_tensor turned = kt_swapped(KT(CAIRN_F16, 1, 2, 8, 9), 2, 3);
  crn_tensor_copy(&c.k, &turned);
  c.k = turned;
  crn_tensor out = result_of(&c, NULL);
  assert_true(kt_same_bytes(&out, &want));
}

// Combinations no body was seen for go back to the executor.
static void unknown_combinations_are_declined(void **state) {
  (void)state;
  attention_case c = {1, 4, 2, 3, 5, 8, 8, true, 0, 0, {0}, {0}, {0}, NULL, NULL};
  make_case(&c, CAIRN_F32);
  crn_tensor mask = KT(CAIRN_BOOL, 3, 5), out = KT(CAIRN_F32, 1, 4, 3, 8);
  c.mask = &mask;
  assert_int_equal(attend(&c, &out, NULL), CAIRN_UNSUPPORTED);  // beside is_causal
  c.mask = NULL;
  crn_tensor sinks = KT(CAIRN_F32, 3);
  c.sinks = &sinks;
  assert_int_equal(attend(&c, &out, NULL), CAIRN_UNSUPPORTED);
  c.sinks = NULL;
  c.k = KT(CAIRN_F16, 1, 2, 5, 8);
  assert_int_equal(attend(&c, &out, NULL), CAIRN_UNSUPPORTED);
  c.k = KT(CAIRN_F32, 1, 3, 5, 8), c.v = KT(CAIRN_F32, 1, 3, 5, 8);
  assert_int_equal(attend(&c, &out, NULL), CAIRN_UNSUPPORTED);
}

#define TEST(fn) cmocka_unit_test_teardown(fn, kt_free_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(masks_windows_and_groups),          TEST(explicit_masks), TEST(rows_that_see_nothing),
      TEST(bits_depend_on_the_row_alone),      TEST(rank_three),     TEST(transposed_keys_are_copied),
      TEST(unknown_combinations_are_declined),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
