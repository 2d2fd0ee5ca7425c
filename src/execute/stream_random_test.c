// Random graphs of dependent work on several streams against the same work done in order by arithmetic here. Failures are
// part of it: which works fail must not depend on timing.
#include "execute/stream_test.h"

enum { GRAPHS = 1000, WORKS = 30, MEMORIES = 5, MAX_STREAMS = 3 };

typedef struct memory {
  cairn_ndarray *handles[2];  // of one block
  float value;
  bool is_spoilt;
} memory;

typedef struct result {
  cairn_value *value;
  float expected;
  bool fails;
  int view;  // the memory it is a view of, -1 = none: then it never changes
} result;

typedef struct graph {
  fixture *f;
  uint64_t seed;
  cairn_stream *streams[MAX_STREAMS];
  int n_streams;
  memory memories[MEMORIES];
  result results[WORKS];
  int n_results, n_failed;
} graph;

static int draw(graph *g, int n) {
  g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((g->seed >> 33) % (uint64_t)n);
}

static cairn_ndarray *handle(graph *g, int m) { return g->memories[m].handles[draw(g, 2)]; }

static int other_than(graph *g, int a, int b) {
  int m = draw(g, MEMORIES);
  while (m == a || m == b) m = draw(g, MEMORIES);
  return m;
}

static void add_result(graph *g, cairn_value *value, bool fails, float expected, int view) {
  g->results[g->n_results++] = (result){value, expected, fails, view};
  g->n_failed += fails;
}

// A step with an input from memory or from an earlier value, and sometimes a view.
static void add_step(graph *g) {
  int s = draw(g, MEMORIES), view = -1, x = -1;
  cairn_value *value = NULL;
  float input;
  bool fails;
  if (g->n_results && draw(g, 2)) {
    const result *r = &g->results[draw(g, g->n_results)];
    if (r->view == s) return;
    value = r->value;
    // A view gives what is there at that point of the order.
    input = r->view < 0 ? r->expected : g->memories[r->view].value;
    fails = r->fails || (r->view >= 0 && g->memories[r->view].is_spoilt);
    x = r->view;
  } else {
    x = other_than(g, s, -1);
    input = g->memories[x].value;
    fails = g->memories[x].is_spoilt;
  }
  if (draw(g, 3) == 0) view = other_than(g, s, x);
  memory *state = &g->memories[s], *target = view < 0 ? NULL : &g->memories[view];
  cairn_value *out[1];
  cairn_stream *stream = g->streams[draw(g, g->n_streams)];
  assert_int_equal(encode_step(g->f, stream, value ? NULL : handle(g, x), value, handle(g, s), target ? handle(g, view) : NULL, out),
                   CAIRN_OK);
  fails = fails || state->is_spoilt;
  float y = step_result(input, state->value);
  if (fails) {
    state->is_spoilt = true;
    if (target) target->is_spoilt = true;
  } else {
    state->value = step_state(input, state->value);
    if (target) *target = (memory){{target->handles[0], target->handles[1]}, y, false};
  }
  add_result(g, out[0], fails, y, view);
}

static void add_snapshot(graph *g) {
  int m = draw(g, MEMORIES);
  cairn_value *v;
  assert_int_equal(cairn_stream_encode_snapshot(g->streams[draw(g, g->n_streams)], handle(g, m), &v), CAIRN_OK);
  add_result(g, v, g->memories[m].is_spoilt, g->memories[m].value, -1);
}

static void add_failure(graph *g) {
  int m = draw(g, MEMORIES);
  cairn_value *v;
  assert_int_equal(encode_failing(g->streams[draw(g, g->n_streams)], handle(g, m), &v), CAIRN_OK);
  g->memories[m].is_spoilt = true;
  add_result(g, v, true, 0, -1);
}

// A plain run that takes its turn behind what is queued.
static void add_run(graph *g) {
  int s = draw(g, MEMORIES), x = other_than(g, s, -1);
  cairn_named_array in = {"x", handle(g, x)}, st = {"s", handle(g, s)};
  cairn_outputs *o = NULL;
  bool fails = g->memories[s].is_spoilt || g->memories[x].is_spoilt;
  const cairn_run_args args = {.inputs = &in, .n_inputs = 1, .states = &st, .n_states = 1, .wait = true};
  assert_int_equal(cairn_function_run(g->f->function, &args, &o), fails ? CAIRN_CORRUPT : CAIRN_OK);
  cairn_outputs_destroy(o);
  if (!fails) g->memories[s].value = step_state(g->memories[x].value, g->memories[s].value);
}

static void build(graph *g) {
  bool has_failures = draw(g, 3) == 0;
  for (int i = 0; i < WORKS; i++) {
    int kind = draw(g, 20);
    if (kind == 0 && has_failures) {
      add_failure(g);
    } else if (kind == 1) {
      add_run(g);
    } else if (kind < 5) {
      add_snapshot(g);
    } else {
      add_step(g);
    }
  }
}

static void check(graph *g) {
  // A value with a view of its own memory was written again perhaps; the others are checked in any order.
  for (int i = g->n_results - 1; i >= 0; i--) {
    result *r = &g->results[i];
    assert_int_equal(cairn_value_wait(r->value), r->fails ? CAIRN_CORRUPT : CAIRN_OK);
    if (!r->fails && r->view < 0) assert_true(value_first(r->value) == r->expected);
    cairn_value_release(r->value);
  }
  for (int i = 0; i < g->n_streams; i++) {
    cairn_status status = cairn_stream_wait(g->streams[i]);
    assert_true(status == CAIRN_OK || (g->n_failed && status == CAIRN_CORRUPT));
  }
  for (int i = 0; i < MEMORIES; i++) {
    if (!g->memories[i].is_spoilt) assert_true(first(g->memories[i].handles[0]) == g->memories[i].value);
  }
}

static int run_graph(fixture *f, uint64_t seed) {
  graph g = {.f = f, .seed = seed};
  g.n_streams = 1 + draw(&g, MAX_STREAMS);
  for (int i = 0; i < g.n_streams; i++) {
    const cairn_stream_options o = {.max_queued = 1 + draw(&g, 40), .n_workers = 1 + draw(&g, 3)};
    assert_int_equal(cairn_stream_create(f->context, &o, &g.streams[i]), CAIRN_OK);
  }
  for (int i = 0; i < MEMORIES; i++) {
    memory *m = &g.memories[i];
    m->value = (float)i;
    m->handles[0] = new_array(f, m->value);
    assert_int_equal(wrap(f, cairn_ndarray_mutable_data(m->handles[0]), &m->handles[1]), CAIRN_OK);
  }
  assert_int_equal(cairn_function_set_max_in_flight(f->function, draw(&g, 3)), CAIRN_OK);
  build(&g);
  check(&g);
  for (int i = 0; i < g.n_streams; i++) cairn_stream_destroy(g.streams[i]);
  for (int i = 0; i < MEMORIES * 2; i++) cairn_ndarray_release(g.memories[i / 2].handles[1 - i % 2]);
  return g.n_failed;
}

static void test_random_graphs(void **state) {
  (void)state;
  fixture f = {0};
  assert_int_equal(fixture_open_with(&f, &f.own, NULL), CAIRN_OK);
  int n_failed = 0, n_with = 0;
  for (int i = 0; i < GRAPHS; i++) {
    int failed = run_graph(&f, (uint64_t)i * 7919 + 17);
    n_failed += failed;
    n_with += failed > 0;
  }
  fixture_close(&f);
  print_message("%d graphs of %d works; in %d of them %d works failed\n", GRAPHS, WORKS, n_with, n_failed);
  assert_true(n_with > GRAPHS / 10 && n_with < GRAPHS);
}

// Several threads queue, run, cancel and wait at once. What they do to memory of their own must come out right.
typedef struct user_thread {
  fixture *f;
  cairn_stream *shared;
  int seed;
  cairn_ndarray *common;
} user_thread;

static void *use_streams(void *argument) {
  user_thread *u = argument;
  cairn_ndarray *s = new_array(u->f, 0), *x = new_array(u->f, 1);
  float expected = 0;
  for (int round = 0; round < 60; round++) {
    cairn_value *mine[1], *common[1];
    assert_int_equal(encode_step(u->f, u->shared, x, NULL, s, NULL, mine), CAIRN_OK);
    assert_int_equal(encode_step(u->f, u->shared, x, NULL, u->common, NULL, common), CAIRN_OK);
    if ((round + u->seed) % 7 == 0) cairn_value_cancel(common[0]);
    cairn_status status = cairn_value_wait(mine[0]);
    assert_int_equal(status, CAIRN_OK);
    assert_true(value_first(mine[0]) == step_result(1, expected));
    expected = step_state(1, expected);
    status = cairn_value_wait(common[0]);
    assert_true(status == CAIRN_OK || status == CAIRN_CANCELLED);
    if (status != CAIRN_OK) cairn_stream_wait(u->shared);
    cairn_value_release(mine[0]);
    cairn_value_release(common[0]);
  }
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  return NULL;
}

static void test_many_threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  fixture f;
  pthread_t threads[THREADS];
  user_thread users[THREADS];
  fixture_open(&f, 2, &(cairn_stream_options){.max_queued = 5});
  cairn_ndarray *common = new_array(&f, 0);
  for (int i = 0; i < THREADS; i++) {
    users[i] = (user_thread){&f, f.stream, i, common};
    assert_int_equal(pthread_create(&threads[i], NULL, use_streams, &users[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  cairn_stream_wait(f.stream);
  cairn_ndarray_release(common);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_graphs),
      cmocka_unit_test(test_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
