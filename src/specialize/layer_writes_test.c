// Layers that are written by choosing between them and the old ones: the printed plan, what is copied, and the values of state and results.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"
#include "cairn/model.h"
#include "execute/model.h"
#include "program/builder.h"

enum { LAYERS = 3, GROUPS = 2, ROWS = 40, D = 4, STEPS = 30, LAYER = GROUPS * ROWS * D, ALL = LAYERS * LAYER, WHOLE = INT32_MAX };

#define V(...) ((crn_value *[]){__VA_ARGS__})
#define I32(b, ...) crn_build_i32(b, (int32_t[]){__VA_ARGS__}, (int)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t)))

typedef enum variant {
  PLAIN,        ///< where(this layer, new, old)
  INVERTED,     ///< where(the other layers, old, new)
  READ_BEFORE,  ///< the old state is a result: it must not change under it
  READ_TWICE,   ///< the state is read again before it is written, and that is a result
  OTHER_LAYER,  ///< what is put into a layer comes from another one
  TWO_LAYERS,   ///< the mask names two layers
  NOT_WRITTEN,  ///< the chain is a result; the state gets another value
  VARIANTS
} variant;

static const bool kTaken[VARIANTS] = {[PLAIN] = true, [INVERTED] = true, [READ_BEFORE] = true};

typedef struct maker {
  crn_builder b;
  variant kind;
  crn_value *first, *end, *rows;
} maker;

static crn_value *mask_of(maker *m, int layer) {
  static const int64_t dims[] = {LAYERS, 1, 1, 1, 1};
  uint8_t *bits;
  char name[16];
  if (crn_arena_alloc(&m->b.program->arena, LAYERS * sizeof *bits, &bits) != CAIRN_OK) return NULL;
  for (int i = 0; i < LAYERS; i++) bits[i] = (i == layer || (m->kind == TWO_LAYERS && i == (layer + 1) % LAYERS)) != (m->kind == INVERTED);
  snprintf(name, sizeof name, "mask%d", layer);
  crn_tensor t = crn_tensor_make(CAIRN_BOOL, dims, 5, bits);
  return crn_build_constant(&m->b, name, &t, LAYERS);
}

static crn_value *write_layer(maker *m, int layer, crn_value *old) {
  crn_builder *b = &m->b;
  int from = m->kind == OTHER_LAYER ? (layer + 1) % LAYERS : layer;
  crn_value *ones = I32(b, 1, 1, 1, 1, 1), *zero = I32(b, 0);
  crn_value *one = crn_build_slice(b, old, I32(b, from, 0, 0, 0, 0), I32(b, from + 1, WHOLE, WHOLE, WHOLE, WHOLE), ones);
  crn_value *cut = crn_build_binary(b, CRN_OP_shrink_dims, one, zero);
  crn_value *start = crn_build_concat(b, 0, V(I32(b, 0, 0), m->first, zero), 3);
  crn_value *end = crn_build_concat(b, 0, V(I32(b, 1, GROUPS), m->end, I32(b, D)), 3);
  crn_value *changed = crn_build_op(b, CRN_OP_slice_update, V(cut, start, end, I32(b, 1, 1, 1, 1), m->rows), 5, CAIRN_DTYPE_NONE, 0);
  crn_value *raised = crn_build_binary(b, CRN_OP_expand_dims, changed, zero);
  crn_value *spread =
      crn_build_op(b, CRN_OP_broadcast_in_dims, V(raised, crn_build_u32(b, (uint32_t[]){LAYERS}, 1), zero), 3, CAIRN_DTYPE_NONE, 0);
  crn_value *mask = mask_of(m, layer), *first = m->kind == INVERTED ? old : spread, *second = m->kind == INVERTED ? spread : old;
  return crn_build_op(b, CRN_OP_broadcasting_where, V(mask, first, second), 3, CAIRN_DTYPE_NONE, 0);
}

static cairn_status build(crn_program *p, variant kind) {
  maker m = {.kind = kind};
  crn_builder *b = &m.b;
  crn_builder_begin(b, p, "main");
  m.rows = crn_build_input(b, "rows", CAIRN_F32, (int64_t[]){1, GROUPS, -1, D}, 4);
  crn_value *places = crn_build_input(b, "places", CAIRN_SI32, (int64_t[]){1, -1}, 2);
  crn_value *state = crn_build_state(b, "cache", CAIRN_F32, (int64_t[]){LAYERS, 1, GROUPS, ROWS, D}, 5);
  crn_value *old = crn_build_read_state(b, state), *cache = old, *again = NULL;
  crn_value *one = I32(b, 1), *size = crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, places), CAIRN_SI32);
  crn_value *n = crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, m.rows), CAIRN_SI32);
  m.end = crn_build_slice(b, size, one, I32(b, 2), one);
  m.first = crn_build_binary(b, CRN_OP_sub, m.end, crn_build_slice(b, n, I32(b, 2), I32(b, 3), one));
  for (int layer = 0; layer < LAYERS; layer++) {
    cache = write_layer(&m, layer, cache);
    if (layer == 1 && kind == READ_TWICE) again = crn_build_read_state(b, state);
  }
  crn_build_write_state(b, state, kind == NOT_WRITTEN ? crn_build_binary(b, CRN_OP_add, old, old) : cache);
  crn_value *seen = kind == READ_BEFORE ? old : kind == READ_TWICE ? again : kind == NOT_WRITTEN ? cache : crn_build_read_state(b, state);
  return crn_builder_finish(b, V(crn_build_binary(b, CRN_OP_add, seen, seen)), (const char *[]){"seen"}, 1);
}

// --- what is to come out ----------------------------------------------------------------------------------------------------

static void write_rows(float *layer, const float *rows, int64_t first, int64_t n) {
  for (int g = 0; g < GROUPS; g++) memcpy(layer + (g * ROWS + first) * D, rows + g * n * D, (size_t)(n * D) * sizeof *rows);
}

static void expect(variant kind, float *state, const float *rows, int64_t first, int64_t n, float *seen) {
  float cache[ALL], changed[LAYER];
  memcpy(cache, state, sizeof cache);
  for (int layer = 0; layer < LAYERS; layer++) {
    int from = kind == OTHER_LAYER ? (layer + 1) % LAYERS : layer;
    memcpy(changed, cache + from * LAYER, sizeof changed);
    write_rows(changed, rows, first, n);
    memcpy(cache + layer * LAYER, changed, sizeof changed);
    if (kind == TWO_LAYERS) memcpy(cache + (layer + 1) % LAYERS * LAYER, changed, sizeof changed);
  }
  const float *source = kind == READ_BEFORE || kind == READ_TWICE ? state : cache;
  for (int i = 0; i < ALL; i++) seen[i] = source[i] + source[i];
  for (int i = 0; i < ALL; i++) state[i] = kind == NOT_WRITTEN ? state[i] + state[i] : cache[i];
}

// --- runs -------------------------------------------------------------------------------------------------------------------

static void check_plan(const cairn_function *f, variant kind) {
  size_t bytes, again;
  int n = 0;
  assert_int_equal(cairn_function_print_plan(f, NULL, 0, &bytes), CAIRN_OK);
  char *text = calloc(1, bytes + 1);
  assert_non_null(text);
  assert_int_equal(cairn_function_print_plan(f, text, bytes, &again), CAIRN_OK);
  for (const char *at = text; (at = strstr(at, "= layer_update(")); at++) n++;
  if (n != (kTaken[kind] ? LAYERS : 0)) fail_msg("variant %d: %d updates of layers in the plan:\n%s", (int)kind, n, text);
  free(text);
}

static void check_step(cairn_context *context, cairn_function *f, cairn_state *state, variant kind, float *wanted, int64_t first,
                       int64_t n) {
  static uint32_t seed = 1;
  cairn_named_array inputs[] = {{"rows", NULL}, {"places", NULL}};
  cairn_outputs *outputs;
  cairn_ndarray *seen;
  float expected[ALL];
  int n_states;
  assert_int_equal(cairn_ndarray_create(context, CAIRN_F32, (int64_t[]){1, GROUPS, n, D}, 4, &inputs[0].array), CAIRN_OK);
  assert_int_equal(cairn_ndarray_create(context, CAIRN_SI32, (int64_t[]){1, first + n}, 2, &inputs[1].array), CAIRN_OK);
  float *rows = cairn_ndarray_mutable_data(inputs[0].array);
  for (int64_t i = 0; i < GROUPS * n * D; i++) rows[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f - 2;
  const cairn_named_array *states = cairn_state_arrays(state, &n_states);
  const cairn_run_args args = {.inputs = inputs, .n_inputs = 2, .states = states, .n_states = n_states};
  assert_int_equal(cairn_function_run(f, &args, &outputs), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(outputs, "seen", &seen), CAIRN_OK);
  expect(kind, wanted, rows, first, n, expected);
  assert_memory_equal(cairn_ndarray_data(seen), expected, sizeof expected);
  assert_memory_equal(cairn_ndarray_data(states[0].array), wanted, sizeof expected);
  cairn_ndarray_release(seen);
  cairn_outputs_destroy(outputs);
  for (int i = 0; i < 2; i++) cairn_ndarray_release(inputs[i].array);
}

static void check_variant(cairn_context *context, variant kind) {
  crn_program *p;
  cairn_model *model;
  cairn_function *f;
  cairn_state *state;
  cairn_function_stats stats;
  float wanted[ALL] = {0};
  int64_t first = 0, written = 0;
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  assert_int_equal(build(p, kind), CAIRN_OK);
  assert_int_equal(crn_model_create_from_program(context, p, NULL, &model), CAIRN_OK);
  assert_int_equal(cairn_model_function(model, "main", &f), CAIRN_OK);
  assert_int_equal(cairn_state_create(f, NULL, 0, &state), CAIRN_OK);
  check_plan(f, kind);
  for (int step = 0; step < STEPS; step++) {
    const int64_t n = step == 0 ? 5 : step % 9 == 8 ? 3 : 1;
    if (step == 15) first -= 6;
    check_step(context, f, state, kind, wanted, first, n);
    first += n;
    written += n * LAYERS * GROUPS * D * (int64_t)sizeof(float);
  }
  cairn_function_get_stats(f, &stats);
  if (kind == PLAIN || kind == INVERTED) {
    assert_int_equal(stats.state_bytes_copied, 0);
    assert_int_equal(stats.state_bytes_written, written);
  }
  cairn_state_destroy(state);
  cairn_function_release(f);
  cairn_model_release(model);
}

static void test_variants(void **state) {
  (void)state;
  cairn_context *context;
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  for (int kind = 0; kind < VARIANTS; kind++) check_variant(context, (variant)kind);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
