// Bounds and views of caches that steps take over: the printed plan, and the same values and states as without passes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"
#include "cairn/model.h"
#include "execute/model.h"
#include "program/builder.h"

enum { LAYERS = 3, HEADS = 4, GROUPS = 2, D = 8, ROWS = 40, STEPS = 24, WHOLE = INT32_MAX };

#define V(...) ((crn_value *[]){__VA_ARGS__})
#define JOIN(b, ...) crn_build_concat(b, 0, V(__VA_ARGS__), (int)(sizeof V(__VA_ARGS__) / sizeof(crn_value *)))
#define I32(b, ...) crn_build_i32(b, (int32_t[]){__VA_ARGS__}, (int)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t)))

typedef enum variant {
  PLAIN,         ///< [layers, 1, groups, rows, d]
  TURNED,        ///< [layers, 1, rows, groups, d], which attention sees through a transposition
  MASKED,        ///< with a mask and sinks, which are further operands
  WHOLE_CACHE,   ///< views that are cut nowhere: nothing changes from run to run
  FROM_A_START,  ///< a view that begins at a computed row
  OLD_VALUE,     ///< attention behind a write sees what was there before
  SEEN_TWICE,    ///< the view is a result, too
  VARIANTS
} variant;

typedef struct expectation {
  const char *expected, *absent;
} expectation;

static const expectation kExpected[VARIANTS] = {
    [PLAIN] = {"= view+scaled_dot_product_attention(", "= view("},
    [TURNED] = {"= view+scaled_dot_product_attention(", "= scaled"},
    [MASKED] = {"= view+scaled_dot_product_attention(", "= view("},
    [WHOLE_CACHE] = {"= view+scaled_dot_product_attention(", "= view("},
    [FROM_A_START] = {"= scaled_dot_product_attention(", "view+"},
    [OLD_VALUE] = {"= scaled_dot_product_attention(", "view+"},
    [SEEN_TWICE] = {"= view(", "= scaled"},
};

typedef struct maker {
  crn_builder b;
  variant kind;
  crn_value *first, *end;  // si32[1]: where new rows go, and how many there are then
  crn_value *states[2], *caches[2], *seen;
} maker;

static crn_value *i32(maker *m, int32_t value) { return I32(&m->b, value); }

static crn_value *write_rows(maker *m, int which, int layer, crn_value *x) {
  crn_builder *b = &m->b;
  const bool turned = m->kind == TURNED;
  crn_value *start = turned ? JOIN(b, i32(m, layer), i32(m, 0), m->first, I32(b, 0, 0)) : JOIN(b, I32(b, layer, 0, 0), m->first, i32(m, 0));
  crn_value *end = turned ? JOIN(b, i32(m, layer + 1), i32(m, 1), m->end, i32(m, GROUPS), i32(m, D))
                          : JOIN(b, I32(b, layer + 1, 1, GROUPS), m->end, i32(m, WHOLE));
  if (turned) x = crn_build_transpose(b, x, (uint32_t[]){0, 2, 1, 3}, 4);
  crn_value *rows = crn_build_binary(b, CRN_OP_expand_dims, x, i32(m, 0));
  return crn_build_op(b, CRN_OP_slice_update, V(m->caches[which], start, end, I32(b, 1, 1, 1, 1, 1), rows), 5, CAIRN_DTYPE_NONE, 0);
}

static crn_value *see_rows(maker *m, int which, int layer) {
  crn_builder *b = &m->b;
  crn_value *ones = I32(b, 1, 1, 1, 1, 1), *all = i32(m, WHOLE), *zero = i32(m, 0);
  crn_value *one = crn_build_slice(b, m->caches[which], I32(b, layer, 0, 0, 0, 0), I32(b, layer + 1, WHOLE, WHOLE, WHOLE, WHOLE), ones);
  crn_value *start = I32(b, 0, 0, 0, 0, 0), *length = m->kind == WHOLE_CACHE ? all : m->end;
  // The row it begins at is always 0, but only a run tells.
  if (m->kind == FROM_A_START) start = JOIN(b, zero, zero, zero, crn_build_binary(b, CRN_OP_sub, m->first, m->first), zero);
  crn_value *end = m->kind == TURNED ? JOIN(b, all, all, length, all, all) : JOIN(b, all, all, all, length, all);
  crn_value *cut = crn_build_binary(b, CRN_OP_shrink_dims, crn_build_slice(b, one, start, end, ones), zero);
  return m->kind == TURNED ? crn_build_transpose(b, cut, (uint32_t[]){0, 2, 1, 3}, 4) : cut;
}

static crn_value *attend(maker *m, crn_value *q, crn_value *k, crn_value *v, crn_value *mask, crn_value *sinks) {
  static const char *const names[] = {"query", "key", "value", "attn_mask", "sinks"}, *const with_sinks[] = {"query", "key", "value",
                                                                                                             "sinks"};
  crn_attr *attrs = crn_build_attrs(&m->b, 2);
  if (!attrs) return NULL;
  crn_attr *items = (crn_attr *)attrs->list.items;
  items[0] = (crn_attr){.kind = CRN_ATTR_FLOAT, .key = "scale", .f = 0.4};
  items[1] = (crn_attr){.kind = CRN_ATTR_BOOL, .key = "is_causal", .i = mask || m->kind == WHOLE_CACHE ? 0 : 1};
  if (sinks) return crn_build_composite(&m->b, CRN_OP_scaled_dot_product_attention, with_sinks, V(q, k, v, sinks), 4, attrs);
  return crn_build_composite(&m->b, CRN_OP_scaled_dot_product_attention, names, V(q, k, v, mask), mask ? 4 : 3, attrs);
}

static crn_value *layer_of(maker *m, int layer, crn_value *q, crn_value *k, crn_value *v, crn_value *mask, crn_value *sinks) {
  crn_value *fresh[2], *seen[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    if (m->kind == OLD_VALUE) seen[i] = see_rows(m, i, layer);
    fresh[i] = write_rows(m, i, layer, i ? v : k);
    crn_build_write_state(&m->b, m->states[i], fresh[i]);
    m->caches[i] = crn_build_read_state(&m->b, m->states[i]);
    if (m->kind != OLD_VALUE) seen[i] = see_rows(m, i, layer);
  }
  m->seen = seen[0];
  return attend(m, q, seen[0], seen[1], m->kind == MASKED && layer == 0 ? mask : NULL, m->kind == MASKED && layer == 1 ? sinks : NULL);
}

static cairn_status build(crn_program *p, variant kind) {
  const int64_t plain[] = {LAYERS, 1, GROUPS, ROWS, D}, turned[] = {LAYERS, 1, ROWS, GROUPS, D};
  maker m = {.kind = kind};
  crn_builder *b = &m.b;
  crn_builder_begin(b, p, "main");
  crn_value *q = crn_build_input(b, "q", CAIRN_F32, (int64_t[]){1, HEADS, -1, D}, 4);
  crn_value *k = crn_build_input(b, "k", CAIRN_F32, (int64_t[]){1, GROUPS, -1, D}, 4);
  crn_value *v = crn_build_input(b, "v", CAIRN_F32, (int64_t[]){1, GROUPS, -1, D}, 4);
  crn_value *places = crn_build_input(b, "places", CAIRN_SI32, (int64_t[]){1, -1}, 2);
  crn_value *mask = kind == MASKED ? crn_build_input(b, "mask", CAIRN_F32, (int64_t[]){1, 1, -1, -1}, 4) : NULL;
  crn_value *sinks = kind == MASKED ? crn_build_input(b, "sinks", CAIRN_F32, (int64_t[]){HEADS}, 1) : NULL;
  for (int i = 0; i < 2; i++) {
    m.states[i] = crn_build_state(b, i ? "values" : "keys", CAIRN_F32, kind == TURNED ? turned : plain, 5);
    m.caches[i] = crn_build_read_state(b, m.states[i]);
  }
  crn_value *one = i32(&m, 1), *size = crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, places), CAIRN_SI32);
  crn_value *rows = crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, q), CAIRN_SI32);
  m.end = crn_build_slice(b, size, one, i32(&m, 2), one);
  m.first = crn_build_binary(b, CRN_OP_sub, m.end, crn_build_slice(b, rows, i32(&m, 2), i32(&m, 3), one));
  for (int layer = 0; layer < LAYERS; layer++)
    q = crn_build_binary(b, CRN_OP_broadcasting_add, q, layer_of(&m, layer, q, k, v, mask, sinks));
  crn_value *results[] = {q, m.seen};
  return crn_builder_finish(b, results, (const char *[]){"y", "seen"}, kind == SEEN_TWICE ? 2 : 1);
}

// --- runs -----------------------------------------------------------------------------------------------------------------------

typedef struct subject {
  cairn_model *model;
  cairn_function *f;
  cairn_state *state;
} subject;

static subject open_subject(cairn_context *context, variant kind, cairn_composites composites) {
  crn_program *p;
  subject s;
  const cairn_model_options options = {.composites = composites};
  assert_int_equal(crn_program_create(&context->allocator, &p), CAIRN_OK);
  assert_int_equal(build(p, kind), CAIRN_OK);
  assert_int_equal(crn_model_create_from_program(context, p, &options, &s.model), CAIRN_OK);
  assert_int_equal(cairn_model_function(s.model, "main", &s.f), CAIRN_OK);
  assert_int_equal(cairn_state_create(s.f, NULL, 0, &s.state), CAIRN_OK);
  return s;
}

static void close_subject(subject *s) {
  cairn_state_destroy(s->state);
  cairn_function_release(s->f);
  cairn_model_release(s->model);
}

static uint32_t g_seed;

static cairn_ndarray *random_array(cairn_context *context, const int64_t *shape, int rank) {
  cairn_ndarray *a;
  assert_int_equal(cairn_ndarray_create(context, CAIRN_F32, shape, rank, &a), CAIRN_OK);
  float *data = cairn_ndarray_mutable_data(a);
  for (int64_t i = 0; i < cairn_ndarray_count(a); i++) {
    g_seed = g_seed * 1664525u + 1013904223u;
    data[i] = (float)((int32_t)(g_seed >> 8) - (1 << 23)) * 0x1p-22f;
  }
  return a;
}

static int run(const subject *s, const cairn_named_array *inputs, int n_inputs, cairn_ndarray **out) {
  cairn_outputs *outputs;
  int n_states;
  const cairn_named_array *states = cairn_state_arrays(s->state, &n_states);
  const cairn_run_args args = {.inputs = inputs, .n_inputs = n_inputs, .states = states, .n_states = n_states};
  assert_int_equal(cairn_function_run(s->f, &args, &outputs), CAIRN_OK);
  const int n = cairn_outputs_count(outputs);
  for (int i = 0; i < n; i++) assert_int_equal(cairn_outputs_take(outputs, i ? "seen" : "y", &out[i]), CAIRN_OK);
  cairn_outputs_destroy(outputs);
  return n;
}

static void expect_same(variant kind, int step, const cairn_ndarray *a, const cairn_ndarray *b) {
  assert_int_equal(cairn_ndarray_count(a), cairn_ndarray_count(b));
  if (memcmp(cairn_ndarray_data(a), cairn_ndarray_data(b), (size_t)cairn_ndarray_count(a) * sizeof(float)))
    fail_msg("variant %d, step %d: values differ", (int)kind, step);
}

static void check_step(cairn_context *context, variant kind, int step, subject *s, int64_t first, int64_t rows) {
  const int64_t q[] = {1, HEADS, rows, D}, k[] = {1, GROUPS, rows, D}, places[] = {1, first + rows}, mask[] = {1, 1, rows, first + rows},
                n = HEADS;
  cairn_named_array inputs[] = {{"q", random_array(context, q, 4)},       {"k", random_array(context, k, 4)},
                                {"v", random_array(context, k, 4)},       {"places", NULL},
                                {"mask", random_array(context, mask, 4)}, {"sinks", random_array(context, &n, 1)}};
  cairn_ndarray *out[2][2];
  assert_int_equal(cairn_ndarray_create(context, CAIRN_SI32, places, 2, &inputs[3].array), CAIRN_OK);
  int n_out[2], n_states;
  for (int i = 0; i < 2; i++) n_out[i] = run(&s[i], inputs, kind == MASKED ? 6 : 4, out[i]);
  assert_int_equal(n_out[0], n_out[1]);
  for (int i = 0; i < n_out[0]; i++) expect_same(kind, step, out[0][i], out[1][i]);
  for (int i = 0; i < 2; i++)
    expect_same(kind, step, cairn_state_arrays(s[0].state, &n_states)[i].array, cairn_state_arrays(s[1].state, &n_states)[i].array);
  for (int i = 0; i < 2 * n_out[0]; i++) cairn_ndarray_release(out[i / n_out[0]][i % n_out[0]]);
  for (int i = 0; i < 6; i++) cairn_ndarray_release(inputs[i].array);
}

static void check_plan(const subject *s, variant kind) {
  size_t bytes, again;
  assert_int_equal(cairn_function_print_plan(s->f, NULL, 0, &bytes), CAIRN_OK);
  char *text = calloc(1, bytes + 1);
  assert_non_null(text);
  assert_int_equal(cairn_function_print_plan(s->f, text, bytes, &again), CAIRN_OK);
  const expectation *e = &kExpected[kind];
  if (!strstr(text, e->expected)) fail_msg("variant %d: no '%s' in the plan:\n%s", (int)kind, e->expected, text);
  if (strstr(text, e->absent)) fail_msg("variant %d: '%s' in the plan:\n%s", (int)kind, e->absent, text);
  // Bounds of writes are numbers of the update itself.
  if (!strstr(text, "= slice_update(") || strstr(text, "coreai.slice_update("))
    fail_msg("variant %d: bounds in the plan:\n%s", (int)kind, text);
  free(text);
}

// A prompt, steps of one row, a few rows at once, a step back, and on.
static void check_variant(cairn_context *context, variant kind) {
  subject s[2] = {open_subject(context, kind, CAIRN_COMPOSITES_BODY), open_subject(context, kind, CAIRN_COMPOSITES_DEFAULT)};
  int64_t first = 0;
  check_plan(&s[1], kind);
  g_seed = 1;
  for (int step = 0; step < STEPS; step++) {
    const int64_t rows = step == 0 ? 7 : step % 9 == 8 ? 3 : 1;
    if (step == 15) first -= 5;
    check_step(context, kind, step, s, first, rows);
    first += rows;
  }
  cairn_function_stats stats;
  cairn_function_get_stats(s[1].f, &stats);
  // Who sees the old value makes an update copy.
  if (kind != OLD_VALUE) assert_int_equal(stats.state_bytes_copied, 0);
  close_subject(&s[0]);
  close_subject(&s[1]);
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
