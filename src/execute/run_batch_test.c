// Runs in lockstep: bit for bit what plain runs give, in every precision, whatever the shapes; failures stay with their run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cairn/model.h"

enum { MOST = 9, CAPACITY = 96, LAYERS = 2, HEADS = 2, HEAD = 32 };
static const char g_path[] = CAIRN_TEST_DATA "/../cli/data/bundle/tiny-qwen3-macos-4bit.aimodel";

static uint64_t g_random = 1;

static int64_t draw(int64_t n) {
  g_random = g_random * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((g_random >> 33) % (uint64_t)n);
}

static void expect(cairn_status status, cairn_status wanted, const char *part) {
  char text[2048];
  cairn_last_error_text(text, sizeof text);
  if (status != wanted) fail_msg("%s (%s) instead of %s", cairn_status_name(status), status ? text : "", cairn_status_name(wanted));
  if (wanted && !strstr(text, part)) fail_msg("'%s' does not hold '%s'", text, part);
}

// --- sequences --------------------------------------------------------------------------------------------------------------

/// One sequence: its caches, and the arrays of its next run.
typedef struct sequence {
  cairn_state *states;
  cairn_ndarray *ids, *positions, *logits;
  cairn_named_array inputs[2], output;
  int64_t n;
} sequence;

static void open_sequence(cairn_function *f, sequence *s) {
  const int64_t shape[] = {LAYERS, 1, HEADS, CAPACITY, HEAD};
  const cairn_state_shape shapes[] = {{"keyCache", shape, 5}, {"valueCache", shape, 5}};
  *s = (sequence){0};
  expect(cairn_state_create(f, shapes, 2, &s->states), CAIRN_OK, "");
}

static void drop_arrays(sequence *s) {
  cairn_ndarray_release(s->ids);
  cairn_ndarray_release(s->positions);
  cairn_ndarray_release(s->logits);
  s->ids = s->positions = s->logits = NULL;
}

static void close_sequence(sequence *s) {
  drop_arrays(s);
  cairn_state_destroy(s->states);
}

// The arrays of a run of `n` tokens; `last` rows of logits are wanted (0 = all).
static cairn_run_args prepare(cairn_context *c, sequence *s, const int32_t *tokens, int64_t n, int64_t last) {
  drop_arrays(s);
  expect(cairn_ndarray_create(c, CAIRN_SI32, (int64_t[]){1, n}, 2, &s->ids), CAIRN_OK, "");
  expect(cairn_ndarray_create(c, CAIRN_SI32, (int64_t[]){1, s->n + n}, 2, &s->positions), CAIRN_OK, "");
  expect(cairn_ndarray_create(c, CAIRN_F16, (int64_t[]){1, last ? last : n, 384}, 3, &s->logits), CAIRN_OK, "");
  memcpy(cairn_ndarray_mutable_data(s->ids), tokens, (size_t)n * sizeof *tokens);
  int32_t *at = cairn_ndarray_mutable_data(s->positions);
  for (int64_t i = 0; i < s->n + n; i++) at[i] = (int32_t)i;
  s->n += n;
  s->inputs[0] = (cairn_named_array){"input_ids", s->ids};
  s->inputs[1] = (cairn_named_array){"position_ids", s->positions};
  s->output = (cairn_named_array){"logits", s->logits};
  cairn_run_args args = {.inputs = s->inputs, .n_inputs = 2, .outputs = &s->output, .n_outputs = 1, .last_rows = last};
  args.states = cairn_state_arrays(s->states, &args.n_states);
  return args;
}

static void expect_same(const cairn_ndarray *a, const cairn_ndarray *b, const char *what, int i) {
  size_t bytes = (size_t)cairn_ndarray_count(a) * cairn_dtype_bytes(cairn_ndarray_dtype(a));
  assert_int_equal(cairn_ndarray_count(a), cairn_ndarray_count(b));
  if (memcmp(cairn_ndarray_data(a), cairn_ndarray_data(b), bytes)) fail_msg("%s of run %d is not what a plain run gives", what, i);
}

static void expect_same_states(const sequence *a, const sequence *b, int i) {
  int n;
  const cairn_named_array *x = cairn_state_arrays(a->states, &n), *y = cairn_state_arrays(b->states, &n);
  for (int k = 0; k < n; k++) expect_same(x[k].array, y[k].array, x[k].name, i);
}

static cairn_function *open_function(cairn_context *c, cairn_precision precision, cairn_model **out_model) {
  cairn_function *f;
  const cairn_model_options options = {.precision = precision, .no_cache = true};
  expect(cairn_model_load(c, g_path, &options, out_model), CAIRN_OK, "");
  expect(cairn_model_function(*out_model, "main", &f), CAIRN_OK, "");
  return f;
}

// --- the same bits ----------------------------------------------------------------------------------------------------------

// One batch of up to MOST runs of 1 to 40 tokens, most of them of one, and the same runs alone.
static void run_round(cairn_context *c, cairn_function *f, sequence *batched, sequence *plain) {
  int32_t tokens[40];
  cairn_run_args args[MOST], alone;
  cairn_status statuses[MOST];
  int who[MOST], n = 0;
  for (int i = 0; i < MOST; i++) {
    int64_t length = draw(3) ? 1 : 1 + draw(40), last = draw(2) ? 1 : 0;
    if (draw(5) == 0 || batched[i].n + length > CAPACITY) continue;
    for (int64_t k = 0; k < length; k++) tokens[k] = (int32_t)draw(384);
    args[n] = prepare(c, &batched[i], tokens, length, last);
    alone = prepare(c, &plain[i], tokens, length, last);
    expect(cairn_function_run(f, &alone, NULL), CAIRN_OK, "");
    who[n++] = i;
  }
  if (!n) return;
  expect(cairn_function_run_batch(f, args, n, NULL, statuses), CAIRN_OK, "");
  for (int i = 0; i < n; i++) {
    assert_int_equal(statuses[i], CAIRN_OK);
    expect_same(batched[who[i]].logits, plain[who[i]].logits, "logits", who[i]);
    expect_same_states(&batched[who[i]], &plain[who[i]], who[i]);
  }
}

static void check_precision(cairn_precision precision, int n_threads) {
  cairn_context *c;
  cairn_model *model;
  expect(cairn_context_create(&(cairn_context_options){.n_threads = n_threads}, &c), CAIRN_OK, "");
  cairn_function *f = open_function(c, precision, &model);
  for (int game = 0; game < 6; game++) {
    sequence batched[MOST], plain[MOST];
    g_random = (uint64_t)(game * 17 + n_threads);
    for (int i = 0; i < MOST; i++) {
      open_sequence(f, &batched[i]);
      open_sequence(f, &plain[i]);
    }
    for (int round = 0; round < 8; round++) run_round(c, f, batched, plain);
    for (int i = 0; i < MOST; i++) {
      close_sequence(&batched[i]);
      close_sequence(&plain[i]);
    }
  }
  cairn_function_release(f);
  cairn_model_release(model);
  cairn_context_release(c);
}

static void test_same_bits(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads++) {
    check_precision(CAIRN_PRECISION_EXACT, threads);
    check_precision(CAIRN_PRECISION_BF16, threads);
    check_precision(CAIRN_PRECISION_INT8, threads);
  }
}

// --- failures ---------------------------------------------------------------------------------------------------------------

typedef struct one_model {
  cairn_context *context;
  cairn_model *model;
  cairn_function *function;
  sequence batched[4], plain[4];
  cairn_run_args args[4];
} one_model;

static void open_one(one_model *m) {
  const int32_t tokens[] = {5, 6, 7};
  expect(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &m->context), CAIRN_OK, "");
  m->function = open_function(m->context, CAIRN_PRECISION_INT8, &m->model);
  for (int i = 0; i < 4; i++) {
    open_sequence(m->function, &m->batched[i]);
    open_sequence(m->function, &m->plain[i]);
    m->args[i] = prepare(m->context, &m->plain[i], tokens, i ? 1 : 3, 0);
    expect(cairn_function_run(m->function, &m->args[i], NULL), CAIRN_OK, "");
    m->args[i] = prepare(m->context, &m->batched[i], tokens, i ? 1 : 3, 0);
  }
}

static void close_one(one_model *m) {
  for (int i = 0; i < 4; i++) {
    close_sequence(&m->batched[i]);
    close_sequence(&m->plain[i]);
  }
  cairn_function_release(m->function);
  cairn_model_release(m->model);
  cairn_context_release(m->context);
}

static void expect_others(one_model *m, int failed, const cairn_status *statuses, cairn_status wanted) {
  for (int i = 0; i < 4; i++) {
    assert_int_equal(statuses[i], i == failed ? wanted : CAIRN_OK);
    if (i != failed) expect_same(m->batched[i].logits, m->plain[i].logits, "logits", i);
  }
}

// A token outside of the table fails in the middle of a run, after the others were let go.
static void test_run_that_fails(void **state) {
  (void)state;
  one_model m;
  cairn_status statuses[4];
  open_one(&m);
  ((int32_t *)cairn_ndarray_mutable_data(m.batched[2].ids))[0] = 1000000;
  expect(cairn_function_run_batch(m.function, m.args, 4, NULL, statuses), CAIRN_INVALID_ARGUMENT, "the states may have been changed");
  expect_others(&m, 2, statuses, CAIRN_INVALID_ARGUMENT);
  close_one(&m);
}

static void test_wrong_arguments(void **state) {
  (void)state;
  one_model m;
  cairn_status statuses[4];
  cairn_outputs *outputs[4];
  open_one(&m);
  m.args[1].n_inputs = 1;
  expect(cairn_function_run_batch(m.function, m.args, 4, NULL, statuses), CAIRN_INVALID_ARGUMENT,
         "'position_ids' of function 'main' is missing");
  expect_others(&m, 1, statuses, CAIRN_INVALID_ARGUMENT);
  expect(cairn_function_run_batch(m.function, m.args, 0, NULL, statuses), CAIRN_INVALID_ARGUMENT, "a batch of 0 runs");
  expect(cairn_function_run_batch(m.function, m.args + 1, 1, NULL, statuses), CAIRN_INVALID_ARGUMENT, "is missing");
  // Outputs without a view are in the bags of those that ran.
  m.args[0].n_outputs = m.args[2].n_outputs = 0;
  m.args[3] = m.args[2];
  expect(cairn_function_run_batch(m.function, m.args, 4, outputs, statuses), CAIRN_INVALID_ARGUMENT,
         "'position_ids' of function 'main' is missing");
  assert_int_equal(statuses[3], CAIRN_INVALID_ARGUMENT);
  for (int i = 0; i < 4; i++) {
    if (i == 1 || i == 3) assert_null(outputs[i]);
    if (i == 0 || i == 2) assert_int_equal(cairn_outputs_count(outputs[i]), 1);
    cairn_outputs_destroy(outputs[i]);
  }
  close_one(&m);
}

static void test_shared_states(void **state) {
  (void)state;
  one_model m;
  cairn_status statuses[4];
  open_one(&m);
  m.args[3].states = m.args[0].states;
  expect(cairn_function_run_batch(m.function, m.args, 4, NULL, statuses), CAIRN_INVALID_ARGUMENT, "of run 3 shares memory with run 0");
  expect_others(&m, 3, statuses, CAIRN_INVALID_ARGUMENT);
  close_one(&m);
}

// --- memory -----------------------------------------------------------------------------------------------------------------

typedef struct counter {
  int64_t n_allocations, live, fail_at;
} counter;

static void *counting_alloc(void *self, size_t bytes, size_t align) {
  counter *c = self;
  if (++c->n_allocations == c->fail_at) return NULL;
  void *p = crn_default_allocator()->alloc(NULL, bytes, align);
  if (p) c->live++;
  return p;
}

static void counting_free(void *self, void *pointer, size_t bytes) {
  if (pointer) ((counter *)self)->live--;
  crn_default_allocator()->free(NULL, pointer, bytes);
}

enum { STEADY = 40 };

static void test_steady_state_allocates_nothing(void **state) {
  (void)state;
  counter count = {0};
  const cairn_allocator allocator = {&count, counting_alloc, counting_free};
  cairn_context *c;
  cairn_model *model;
  sequence s[MOST];
  cairn_run_args args[MOST];
  const int32_t token = 3;
  expect(cairn_context_create(&(cairn_context_options){.allocator = &allocator, .n_threads = 1}, &c), CAIRN_OK, "");
  cairn_function *f = open_function(c, CAIRN_PRECISION_INT8, &model);
  for (int i = 0; i < MOST; i++) open_sequence(f, &s[i]);
  for (int step = 0; step < 2 * STEADY; step++) {
    if (step == STEADY) {
      for (int i = 0; i < MOST; i++) s[i].n = 0;
    }
    for (int i = 0; i < MOST; i++) args[i] = prepare(c, &s[i], &token, 1, 1);
    int64_t before = count.n_allocations;
    expect(cairn_function_run_batch(f, args, MOST, NULL, NULL), CAIRN_OK, "");
    if (step >= STEADY && count.n_allocations != before)
      fail_msg("step %d allocated %lld times", step, (long long)(count.n_allocations - before));
  }
  for (int i = 0; i < MOST; i++) close_sequence(&s[i]);
  cairn_function_release(f);
  cairn_model_release(model);
  cairn_context_release(c);
  assert_int_equal(count.live, 0);
}

// Whichever allocation fails: it is told, nothing leaks, and the next call goes through.
static void test_failing_allocations(void **state) {
  (void)state;
  int n_failed = 0;
  for (int64_t k = 1;; k++) {
    counter count = {0};
    const cairn_allocator allocator = {&count, counting_alloc, counting_free};
    cairn_context *c;
    cairn_model *model;
    sequence s[3];
    cairn_run_args args[3];
    cairn_status statuses[3];
    const int32_t tokens[] = {1, 2, 3, 4, 5};
    expect(cairn_context_create(&(cairn_context_options){.allocator = &allocator, .n_threads = 1}, &c), CAIRN_OK, "");
    cairn_function *f = open_function(c, CAIRN_PRECISION_EXACT, &model);
    for (int i = 0; i < 3; i++) {
      open_sequence(f, &s[i]);
      args[i] = prepare(c, &s[i], tokens, i + 1, 0);
    }
    count.fail_at = count.n_allocations + k;
    cairn_status status = cairn_function_run_batch(f, args, 3, NULL, statuses);
    bool was_reached = count.n_allocations >= count.fail_at;
    count.fail_at = 0;
    if (status != CAIRN_OK) {
      expect(status, CAIRN_OUT_OF_MEMORY, "");
      n_failed++;
      expect(cairn_function_run_batch(f, args, 3, NULL, statuses), CAIRN_OK, "");
    }
    for (int i = 0; i < 3; i++) close_sequence(&s[i]);
    cairn_function_release(f);
    cairn_model_release(model);
    cairn_context_release(c);
    assert_int_equal(count.live, 0);
    if (!was_reached) break;
    if (k > 40) k += 7;
  }
  assert_true(n_failed > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_run_that_fails),
                                     cmocka_unit_test(test_wrong_arguments),
                                     cmocka_unit_test(test_shared_states),
                                     cmocka_unit_test(test_steady_state_allocates_nothing),
                                     cmocka_unit_test(test_failing_allocations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
