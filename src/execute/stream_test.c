// Unit tests of streams: order, overlap, failures, cancelling, bounds, lives; random graphs against sequential runs.
#include "execute/stream_test.h"

// --- order ------------------------------------------------------------------------------------------------------------

// Ten steps on one state, each taking the value of the one before: as ten runs.
static void test_chain_equals_runs(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 1, NULL);
  cairn_ndarray *reference = new_array(&f, 0), *s = new_array(&f, 0), *x = new_array(&f, 1);
  cairn_value *values[10][2], *previous = NULL;
  float expected[10];
  cairn_ndarray *at = x;
  cairn_ndarray_retain(at);
  for (int i = 0; i < 10; i++) {
    cairn_ndarray *y = run_step(&f, at, reference);
    expected[i] = first(y);
    cairn_ndarray_release(at);
    at = y;
  }
  cairn_ndarray_release(at);
  for (int i = 0; i < 10; i++) {
    assert_int_equal(encode_step(&f, f.stream, previous ? NULL : x, previous, s, NULL, values[i]), CAIRN_OK);
    previous = values[i][0];
  }
  cairn_ndarray *last;
  assert_int_equal(cairn_value_array(previous, &last), CAIRN_OK);
  assert_true(first(last) == expected[9]);
  assert_true(cairn_ndarray_is_read_only(last));
  cairn_ndarray_release(last);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
  for (int i = 0; i < 10; i++) {
    assert_true(value_first(values[i][0]) == expected[i]);
    cairn_value_release(values[i][0]);
  }
  assert_true(first(s) == first(reference));
  assert_int_equal(cairn_stream_pending(f.stream), 0);
  cairn_ndarray_release(reference);
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  fixture_close(&f);
}

// Encoding returns while the work is held up, and results are known only afterwards.
static void test_encode_returns_at_once(void **state) {
  (void)state;
  fixture f;
  gate g;
  fixture_open(&f, 1, NULL);
  gate_initialize(&g);
  cairn_ndarray *a = new_array(&f, 1);
  cairn_value *blocked, *after[2];
  assert_int_equal(encode_gate(f.stream, &g, NULL, a, &blocked), CAIRN_OK);
  cairn_ndarray *s = new_array(&f, 0);
  assert_int_equal(encode_step(&f, f.stream, a, NULL, s, NULL, after), CAIRN_OK);
  gate_await_entered(&g, 1);
  assert_false(cairn_value_is_done(blocked));
  assert_false(cairn_value_is_done(after[0]));
  assert_int_equal(cairn_stream_pending(f.stream), 2);
  gate_open(&g);
  assert_int_equal(cairn_value_wait(after[0]), CAIRN_OK);
  // The gate adds 100 to its target, which the step then reads.
  assert_true(value_first(after[0]) == step_result(101, 0));
  cairn_value_release(blocked);
  cairn_value_release(after[0]);
  cairn_ndarray_release(a);
  cairn_ndarray_release(s);
  gate_deinitialize(&g);
  fixture_close(&f);
}

// Read after write, write after read and write after write, between two streams, through two handles of one memory.
static void test_memory_orders_streams(void **state) {
  (void)state;
  fixture f;
  gate reader, writer;
  fixture_open(&f, 1, NULL);
  gate_initialize(&reader);
  gate_initialize(&writer);
  cairn_stream *other;
  assert_int_equal(cairn_stream_create(f.context, NULL, &other), CAIRN_OK);
  cairn_ndarray *block = new_array(&f, 5), *alias, *x = new_array(&f, 1), *s = new_array(&f, 0);
  assert_int_equal(wrap(&f, cairn_ndarray_mutable_data(block), &alias), CAIRN_OK);
  cairn_value *reading, *written[2], *seen[2], *rewritten[2];
  // The reader holds the block; a step that writes it as a view in the other stream must wait.
  assert_int_equal(encode_gate(f.stream, &reader, block, NULL, &reading), CAIRN_OK);
  gate_await_entered(&reader, 1);
  assert_int_equal(encode_step(&f, other, x, NULL, s, alias, written), CAIRN_OK);
  sleep_ms(20);
  assert_false(cairn_value_is_done(written[0]));
  assert_true(first(block) == 5);
  // Behind it, in the first stream: a reader of what it writes, and one more writer.
  assert_int_equal(encode_step(&f, f.stream, block, NULL, s, NULL, seen), CAIRN_OK);
  assert_int_equal(encode_step(&f, other, x, NULL, s, alias, rewritten), CAIRN_OK);
  gate_open(&reader);
  assert_int_equal(cairn_value_wait(rewritten[0]), CAIRN_OK);
  float y1 = step_result(1, 0), s1 = step_state(1, 0), s2 = step_state(y1, s1);
  assert_true(value_first(seen[0]) == step_result(y1, s1));
  assert_true(first(block) == step_result(1, s2));
  cairn_value *all[] = {reading, written[0], seen[0], rewritten[0]};
  for (int i = 0; i < 4; i++) cairn_value_release(all[i]);
  cairn_stream_destroy(other);
  cairn_ndarray_release(block);
  cairn_ndarray_release(alias);
  cairn_ndarray_release(x);
  cairn_ndarray_release(s);
  gate_deinitialize(&reader);
  gate_deinitialize(&writer);
  fixture_close(&f);
}

// Two gates that need each other to be entered at once: with two workers, or two streams, both get in.
static void test_independent_work_overlaps(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 2, NULL);
  cairn_stream *other;
  assert_int_equal(cairn_stream_create(f.context, NULL, &other), CAIRN_OK);
  for (int way = 0; way < 2; way++) {
    gate g;
    gate_initialize(&g);
    cairn_ndarray *a = new_array(&f, 1), *b = new_array(&f, 1);
    cairn_value *va, *vb;
    assert_int_equal(encode_gate(f.stream, &g, NULL, a, &va), CAIRN_OK);
    assert_int_equal(encode_gate(way ? other : f.stream, &g, NULL, b, &vb), CAIRN_OK);
    gate_await_entered(&g, 2);
    gate_open(&g);
    assert_int_equal(cairn_value_wait(va), CAIRN_OK);
    assert_int_equal(cairn_value_wait(vb), CAIRN_OK);
    cairn_value_release(va);
    cairn_value_release(vb);
    assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
    assert_int_equal(cairn_stream_wait(other), CAIRN_OK);
    cairn_ndarray_release(a);
    cairn_ndarray_release(b);
    gate_deinitialize(&g);
  }
  cairn_stream_destroy(other);
  fixture_close(&f);
}

// A snapshot is what the state was at that point, whatever came later; marks come behind callbacks.
static void count_slowly(void *user, cairn_status status, cairn_ndarray *array) {
  (void)status, (void)array;
  sleep_ms(1);
  __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
}

static void test_snapshots_and_marks(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 2, NULL);
  cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
  cairn_value *snapshots[5], *steps[2], *mark;
  int n_called = 0;
  float expected = 0;
  for (int i = 0; i < 5; i++) {
    assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, steps), CAIRN_OK);
    assert_int_equal(cairn_value_on_completed(steps[0], count_slowly, &n_called), CAIRN_OK);
    cairn_value_release(steps[0]);
    assert_int_equal(cairn_stream_encode_snapshot(f.stream, s, &snapshots[i]), CAIRN_OK);
  }
  assert_int_equal(cairn_stream_mark(f.stream, &mark), CAIRN_OK);
  assert_int_equal(cairn_value_wait(mark), CAIRN_OK);
  assert_int_equal(__atomic_load_n(&n_called, __ATOMIC_SEQ_CST), 5);
  cairn_ndarray *none;
  assert_int_equal(cairn_value_array(mark, &none), CAIRN_NOT_FOUND);
  cairn_value_release(mark);
  for (int i = 0; i < 5; i++) {
    expected = step_state(1, expected);
    assert_true(value_first(snapshots[i]) == expected);
    cairn_value_release(snapshots[i]);
  }
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  fixture_close(&f);
}

// --- failures ---------------------------------------------------------------------------------------------------------

static void expect_failure(cairn_value *v, cairn_status code, const char *text, const char *note) {
  char full[2048];
  assert_int_equal(cairn_value_wait(v), code);
  assert_int_equal(cairn_last_error()->code, code);
  cairn_last_error_text(full, sizeof full);
  if (!strstr(full, text)) fail_msg("'%s' does not say '%s'", full, text);
  if (note && !strstr(full, note)) fail_msg("'%s' does not say '%s'", full, note);
}

static void test_failures_reach_dependents(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 1, NULL);
  cairn_ndarray *s = new_array(&f, 0), *t = new_array(&f, 0), *x = new_array(&f, 1);
  cairn_value *bad, *by_value[2], *by_state[2], *apart[2], *late[2], *healed[2];
  assert_int_equal(encode_failing(f.stream, s, &bad), CAIRN_OK);
  assert_int_equal(encode_step(&f, f.stream, NULL, bad, t, NULL, by_value), CAIRN_OK);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, by_state), CAIRN_OK);
  cairn_ndarray *u = new_array(&f, 0);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, u, NULL, apart), CAIRN_OK);
  expect_failure(bad, CAIRN_CORRUPT, "page 7 is damaged", "call 'failing'");
  expect_failure(by_value[0], CAIRN_CORRUPT, "page 7 is damaged", "needed by 'step'");
  expect_failure(by_state[0], CAIRN_CORRUPT, "page 7 is damaged", "needed by 'step'");
  assert_int_equal(cairn_value_wait(apart[0]), CAIRN_OK);
  // However late: until it is reported, the failure holds for what would read the spoilt state, and for runs.
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, late), CAIRN_OK);
  expect_failure(late[0], CAIRN_CORRUPT, "page 7 is damaged", NULL);
  cairn_named_array in = {"x", x}, st = {"s", s};
  cairn_outputs *o;
  cairn_run_args run = {.inputs = &in, .n_inputs = 1, .states = &st, .n_states = 1};
  assert_int_equal(cairn_function_run(f.function, &run, &o), CAIRN_CORRUPT);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_CORRUPT);
  assert_non_null(strstr(cairn_last_error()->message, "page 7"));
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, healed), CAIRN_OK);
  assert_int_equal(cairn_value_wait(healed[0]), CAIRN_OK);
  cairn_value *all[] = {bad, by_value[0], by_state[0], apart[0], late[0], healed[0]};
  for (int i = 0; i < 6; i++) cairn_value_release(all[i]);
  cairn_ndarray_release(s);
  cairn_ndarray_release(t);
  cairn_ndarray_release(u);
  cairn_ndarray_release(x);
  fixture_close(&f);
}

// A view is written anew: what failed before does not matter to it, nor afterwards to those who read it.
static void test_views_heal(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 1, NULL);
  cairn_ndarray *a = new_array(&f, 0), *s = new_array(&f, 0), *x = new_array(&f, 1);
  cairn_value *bad, *spoilt[2], *anew[2], *read[2];
  assert_int_equal(encode_failing(f.stream, a, &bad), CAIRN_OK);
  expect_failure(bad, CAIRN_CORRUPT, "page 7", NULL);
  assert_int_equal(encode_step(&f, f.stream, a, NULL, s, NULL, spoilt), CAIRN_OK);
  expect_failure(spoilt[0], CAIRN_CORRUPT, "page 7", NULL);
  cairn_ndarray *t = new_array(&f, 0);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, t, a, anew), CAIRN_OK);
  assert_int_equal(encode_step(&f, f.stream, a, NULL, t, NULL, read), CAIRN_OK);
  assert_int_equal(cairn_value_wait(read[0]), CAIRN_OK);
  cairn_value_release(read[0]);
  assert_int_equal(encode_step(&f, f.stream, a, NULL, t, NULL, read), CAIRN_OK);  // now that nothing is queued
  assert_int_equal(cairn_value_wait(read[0]), CAIRN_OK);
  cairn_value *all[] = {bad, spoilt[0], anew[0], read[0]};
  for (int i = 0; i < 4; i++) cairn_value_release(all[i]);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_CORRUPT);
  cairn_ndarray_release(a);
  cairn_ndarray_release(s);
  cairn_ndarray_release(t);
  cairn_ndarray_release(x);
  fixture_close(&f);
}

static void test_wrong_calls(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 1, NULL);
  cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1), *odd;
  assert_int_equal(cairn_ndarray_create(f.context, CAIRN_F32, (int64_t[]){7}, 1, &odd), CAIRN_OK);
  cairn_value *v[2], *ready;
  assert_int_equal(cairn_value_create(odd, &ready), CAIRN_OK);
  assert_int_equal(encode_step(&f, f.stream, NULL, NULL, s, NULL, v), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "either an array or a value"));
  assert_int_equal(encode_step(&f, f.stream, odd, NULL, s, NULL, v), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "must be 4, 7 was given"));
  assert_int_equal(encode_step(&f, f.stream, NULL, ready, s, NULL, v), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(encode_step(&f, f.stream, s, NULL, s, NULL, v), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "share memory"));
  cairn_stream_input in = {.name = "x", .array = x};
  assert_int_equal(cairn_stream_encode(f.stream, f.function, &(cairn_encode_args){.inputs = &in, .n_inputs = 1}, v),
                   CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "state 's' of function 'step' is missing"));
  assert_null(v[0]);
  cairn_stream *none;
  assert_int_equal(cairn_stream_create(f.context, &(cairn_stream_options){.max_queued = -1}, &none), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_stream_create(f.context, &(cairn_stream_options){.n_workers = 65}, &none), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_stream_pending(f.stream), 0);
  assert_int_equal(cairn_value_cancel(ready), CAIRN_FAILED_PRECONDITION);
  cairn_value_release(ready);
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  cairn_ndarray_release(odd);
  fixture_close(&f);
}

// --- bounds -----------------------------------------------------------------------------------------------------------

static void *open_later(void *user) {
  sleep_ms(30);
  gate_open(user);
  return NULL;
}

static void test_full_stream(void **state) {
  (void)state;
  fixture f;
  gate g;
  fixture_open(&f, 1, &(cairn_stream_options){.max_queued = 3, .busy_when_full = true});
  gate_initialize(&g);
  cairn_ndarray *a = new_array(&f, 0);
  cairn_value *v[4];
  for (int i = 0; i < 3; i++) assert_int_equal(encode_gate(f.stream, &g, NULL, a, &v[i]), CAIRN_OK);
  assert_int_equal(encode_gate(f.stream, &g, NULL, a, &v[3]), CAIRN_BUSY);
  assert_null(v[3]);
  // The blocking kind waits for room.
  cairn_stream *blocking;
  assert_int_equal(cairn_stream_create(f.context, &(cairn_stream_options){.max_queued = 1}, &blocking), CAIRN_OK);
  cairn_value *w[2];
  pthread_t opener;
  assert_int_equal(encode_gate(blocking, &g, NULL, a, &w[0]), CAIRN_OK);
  assert_int_equal(pthread_create(&opener, NULL, open_later, &g), 0);
  assert_int_equal(encode_gate(blocking, &g, NULL, a, &w[1]), CAIRN_OK);
  assert_true(cairn_value_is_done(w[0]));
  pthread_join(opener, NULL);
  assert_int_equal(cairn_stream_wait(blocking), CAIRN_OK);
  assert_true(first(a) == 500);
  for (int i = 0; i < 3; i++) cairn_value_release(v[i]);
  for (int i = 0; i < 2; i++) cairn_value_release(w[i]);
  cairn_stream_destroy(blocking);
  cairn_ndarray_release(a);
  gate_deinitialize(&g);
  fixture_close(&f);
}

// Runs, queued or not, of a bounded function: never more at once than the bound, and all get done.
static void test_runs_in_flight(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 4, NULL);
  cairn_ndarray *s[12], *x = new_array(&f, 1);
  cairn_value *v[12][2];
  assert_int_equal(cairn_function_set_max_in_flight(f.function, -1), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_function_set_max_in_flight(f.function, 2), CAIRN_OK);
  f.slow_ms = 5;
  for (int i = 0; i < 12; i++) {
    s[i] = new_array(&f, 0);
    assert_int_equal(encode_step(&f, f.stream, x, NULL, s[i], NULL, v[i]), CAIRN_OK);
  }
  cairn_ndarray *mine = new_array(&f, 0);
  cairn_named_array in = {"x", x}, st = {"s", mine};
  cairn_run_args run = {.inputs = &in, .n_inputs = 1, .states = &st, .n_states = 1};
  cairn_outputs *o = NULL;
  while (__atomic_load_n(&f.n_running, __ATOMIC_SEQ_CST) < 2) sleep_ms(1);
  assert_int_equal(cairn_function_run(f.function, &run, &o), CAIRN_BUSY);
  assert_non_null(strstr(cairn_last_error()->message, "in flight"));
  run.wait = true;
  assert_int_equal(cairn_function_run(f.function, &run, &o), CAIRN_OK);
  cairn_outputs_destroy(o);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
  assert_int_equal(f.max_running, 2);
  int n_workspaces = 0;
  for (const crn_workspace *w = f.function->idle; w; w = w->next) n_workspaces++;
  assert_int_equal(n_workspaces, 2);
  for (int i = 0; i < 12; i++) {
    assert_true(first(s[i]) == step_state(1, 0));
    cairn_value_release(v[i][0]);
    cairn_ndarray_release(s[i]);
  }
  cairn_ndarray_release(mine);
  cairn_ndarray_release(x);
  fixture_close(&f);
}

// Plain runs among queued work on one state: refused, or in turn; and queued work waits for a run that goes on.
static void test_runs_among_queued_work(void **state) {
  (void)state;
  fixture f;
  gate g;
  fixture_open(&f, 1, NULL);
  gate_initialize(&g);
  cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
  cairn_named_array in = {"x", x}, st = {"s", s};
  cairn_run_args run = {.inputs = &in, .n_inputs = 1, .states = &st, .n_states = 1};
  cairn_outputs *o = NULL;
  cairn_value *held, *v[2];
  pthread_t opener;
  assert_int_equal(encode_gate(f.stream, &g, NULL, s, &held), CAIRN_OK);
  assert_int_equal(cairn_function_run(f.function, &run, &o), CAIRN_BUSY);
  assert_non_null(strstr(cairn_last_error()->message, "'s' is in use"));
  assert_int_equal(pthread_create(&opener, NULL, open_later, &g), 0);
  run.wait = true;
  assert_int_equal(cairn_function_run(f.function, &run, &o), CAIRN_OK);
  cairn_outputs_destroy(o);
  assert_true(first(s) == step_state(1, 100));
  pthread_join(opener, NULL);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, v), CAIRN_OK);
  assert_int_equal(cairn_ndarray_wait_idle(s), CAIRN_OK);
  assert_true(first(s) == step_state(1, step_state(1, 100)));
  cairn_value_release(held);
  cairn_value_release(v[0]);
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  gate_deinitialize(&g);
  fixture_close(&f);
}

// --- cancelling and ending --------------------------------------------------------------------------------------------

enum { CHAIN = 12 };

typedef struct cancel_at {
  cairn_stream *stream;
  int at, n_done, n_cancelled;
} cancel_at;

// The stream is cancelled out of the callback of one of its own values.
static void cancel_there(void *user, cairn_status status, cairn_ndarray *array) {
  (void)array;
  cancel_at *c = user;
  if (status == CAIRN_CANCELLED) {
    __atomic_fetch_add(&c->n_cancelled, 1, __ATOMIC_SEQ_CST);
    return;
  }
  if (__atomic_add_fetch(&c->n_done, 1, __ATOMIC_SEQ_CST) == c->at) cairn_stream_cancel(c->stream);
}

static void test_cancel_at_every_point(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 1, NULL);
  for (int at = 1; at <= CHAIN; at++) {
    gate g;
    gate_initialize(&g);
    cancel_at c = {.stream = f.stream, .at = at};
    cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
    cairn_value *held, *v[CHAIN][2];
    float expected = 100;
    assert_int_equal(encode_gate(f.stream, &g, NULL, s, &held), CAIRN_OK);
    for (int i = 0; i < CHAIN; i++) {
      assert_int_equal(encode_step(&f, f.stream, i ? NULL : x, i ? v[i - 1][0] : NULL, s, NULL, v[i]), CAIRN_OK);
      assert_int_equal(cairn_value_on_completed(v[i][0], cancel_there, &c), CAIRN_OK);
    }
    gate_open(&g);
    assert_int_equal(cairn_stream_wait(f.stream), at < CHAIN ? CAIRN_CANCELLED : CAIRN_OK);
    assert_int_equal(c.n_done, at);
    assert_int_equal(c.n_cancelled, CHAIN - at);
    float input = 1;
    for (int i = 0; i < CHAIN; i++) {
      assert_int_equal(cairn_value_wait(v[i][0]), i < at ? CAIRN_OK : CAIRN_CANCELLED);
      if (i < at) {
        float y = step_result(input, expected);
        expected = step_state(input, expected);
        assert_true(value_first(v[i][0]) == y);
        input = y;
      }
      cairn_value_release(v[i][0]);
    }
    // The state is that of the last step that ran, and the stream goes on.
    assert_true(first(s) == expected);
    cairn_value *next[2];
    assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, next), CAIRN_OK);
    assert_int_equal(cairn_value_wait(next[0]), CAIRN_OK);
    assert_true(value_first(next[0]) == step_result(1, expected));
    cairn_value_release(next[0]);
    assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
    cairn_value_release(held);
    cairn_ndarray_release(s);
    cairn_ndarray_release(x);
    gate_deinitialize(&g);
  }
  fixture_close(&f);
}

// Cancelled work in the middle keeps the order of its neighbours in another stream.
static void test_cancelled_work_keeps_order(void **state) {
  (void)state;
  fixture f;
  gate g;
  fixture_open(&f, 1, NULL);
  gate_initialize(&g);
  cairn_stream *other;
  assert_int_equal(cairn_stream_create(f.context, NULL, &other), CAIRN_OK);
  cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
  cairn_value *held, *middle[2], *after[2], *later[2];
  assert_int_equal(encode_gate(f.stream, &g, NULL, s, &held), CAIRN_OK);
  assert_int_equal(encode_step(&f, other, x, NULL, s, NULL, middle), CAIRN_OK);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, after), CAIRN_OK);
  assert_int_equal(cairn_value_cancel(middle[0]), CAIRN_OK);
  assert_int_equal(cairn_value_wait(middle[0]), CAIRN_CANCELLED);
  assert_int_equal(cairn_value_cancel(middle[0]), CAIRN_FAILED_PRECONDITION);
  // Queued before the failure was reported: it fails as well. Once it was, later work is free, yet behind the gate.
  assert_int_equal(cairn_stream_wait(other), CAIRN_CANCELLED);
  assert_false(cairn_value_is_done(after[0]));
  cairn_stream_destroy(other);
  gate_open(&g);
  assert_int_equal(cairn_value_wait(after[0]), CAIRN_CANCELLED);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_CANCELLED);
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, later), CAIRN_OK);
  assert_int_equal(cairn_value_wait(later[0]), CAIRN_OK);
  assert_true(value_first(later[0]) == step_result(1, 100));
  cairn_value *all[] = {held, middle[0], after[0], later[0]};
  for (int i = 0; i < 4; i++) cairn_value_release(all[i]);
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  gate_deinitialize(&g);
  fixture_close(&f);
}

// A cancellation that was reported is over, though the cancelled work still stands in the queue behind the gate.
static void test_reported_cancellation_is_over(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++) {
    fixture f;
    gate g;
    fixture_open(&f, 1, NULL);
    gate_initialize(&g);
    cairn_stream *other;
    assert_int_equal(cairn_stream_create(f.context, NULL, &other), CAIRN_OK);
    cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
    cairn_value *held, *middle[1], *later[1];
    assert_int_equal(encode_gate(f.stream, &g, NULL, s, &held), CAIRN_OK);
    assert_int_equal(encode_step(&f, other, x, NULL, s, NULL, middle), CAIRN_OK);
    assert_int_equal(cairn_stream_cancel(other), 1);
    if (way) {
      cairn_stream_destroy(other);
    } else {
      assert_int_equal(cairn_stream_wait(other), CAIRN_CANCELLED);
    }
    assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, later), CAIRN_OK);
    sleep_ms(5);
    assert_false(cairn_value_is_done(later[0]));
    gate_open(&g);
    assert_true(value_first(later[0]) == step_result(1, 100));
    cairn_value_release(held);
    cairn_value_release(middle[0]);
    cairn_value_release(later[0]);
    assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
    if (!way) cairn_stream_destroy(other);
    cairn_ndarray_release(s);
    cairn_ndarray_release(x);
    gate_deinitialize(&g);
    fixture_close(&f);
  }
}

static void test_destroy_with_work(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    fixture f;
    fixture_open(&f, 1 + round % 3, NULL);
    f.slow_ms = round % 2;
    cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
    cairn_value *v[20][2];
    int n_called = 0;
    for (int i = 0; i < 20; i++) {
      assert_int_equal(encode_step(&f, f.stream, i ? NULL : x, i ? v[i - 1][0] : NULL, s, NULL, v[i]), CAIRN_OK);
      assert_int_equal(cairn_value_on_completed(v[i][0], count_slowly, &n_called), CAIRN_OK);
    }
    if (round % 5) sleep_ms(round % 5);
    cairn_stream_destroy(f.stream);
    f.stream = NULL;
    assert_int_equal(__atomic_load_n(&n_called, __ATOMIC_SEQ_CST), 20);
    // Values outlive their stream.
    for (int i = 0; i < 20; i++) {
      assert_true(cairn_value_is_done(v[i][0]));
      cairn_status status = cairn_value_wait(v[i][0]);
      assert_true(status == CAIRN_OK || status == CAIRN_CANCELLED);
      cairn_value_release(v[i][0]);
    }
    cairn_ndarray_release(s);
    cairn_ndarray_release(x);
    fixture_close(&f);
  }
}

// --- callbacks --------------------------------------------------------------------------------------------------------

typedef struct inside {
  fixture *f;
  cairn_value *other;
  cairn_ndarray *x, *s;
  cairn_value *encoded[2];
  cairn_status wait, stream_wait, encode;
} inside;

static void misuse(void *user, cairn_status status, cairn_ndarray *array) {
  (void)status, (void)array;
  inside *i = user;
  i->wait = cairn_value_wait(i->other);
  i->stream_wait = cairn_stream_wait(i->f->stream);
  i->encode = encode_step(i->f, i->f->stream, i->x, NULL, i->s, NULL, i->encoded);
}

// Waiting inside of a callback is refused, queuing there works.
static void test_callbacks(void **state) {
  (void)state;
  fixture f;
  gate g, last;
  fixture_open(&f, 1, NULL);
  gate_initialize(&g);
  gate_initialize(&last);
  cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1), *t = new_array(&f, 0);
  cairn_value *held, *behind;
  assert_int_equal(encode_gate(f.stream, &g, NULL, s, &held), CAIRN_OK);
  assert_int_equal(encode_gate(f.stream, &last, NULL, s, &behind), CAIRN_OK);
  inside i = {.f = &f, .other = behind, .x = x, .s = t};
  assert_int_equal(cairn_value_on_completed(held, misuse, &i), CAIRN_OK);
  gate_open(&g);
  gate_await_entered(&last, 1);
  gate_open(&last);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
  assert_int_equal(cairn_value_wait(i.encoded[0]), CAIRN_OK);
  assert_int_equal(i.wait, CAIRN_FAILED_PRECONDITION);
  assert_int_equal(i.stream_wait, CAIRN_FAILED_PRECONDITION);
  assert_int_equal(i.encode, CAIRN_OK);
  // On a value that is done the callback comes at once.
  int n = 0;
  assert_int_equal(cairn_value_on_completed(held, count_slowly, &n), CAIRN_OK);
  assert_int_equal(n, 1);
  cairn_value_release(held);
  cairn_value_release(behind);
  cairn_value_release(i.encoded[0]);
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  cairn_ndarray_release(t);
  gate_deinitialize(&g);
  gate_deinitialize(&last);
  fixture_close(&f);
}

// --- allocation failures ----------------------------------------------------------------------------------------------

static cairn_status use_stream(counter *c) {
  fixture f = {0};
  cairn_value *v[2] = {NULL}, *w[2] = {NULL}, *mark = NULL, *snapshot = NULL;
  cairn_ndarray *s = NULL, *x = NULL;
  cairn_status status = fixture_try_open(&f, c);
  if (status != CAIRN_OK) return status;
  int n = 0;
  CRN_TRY_GOTO(cairn_ndarray_create(f.context, CAIRN_F32, (int64_t[]){WIDTH}, 1, &s));
  CRN_TRY_GOTO(cairn_ndarray_create(f.context, CAIRN_F32, (int64_t[]){WIDTH}, 1, &x));
  CRN_TRY_GOTO(cairn_stream_create(f.context, NULL, &f.stream));
  CRN_TRY_GOTO(encode_step(&f, f.stream, x, NULL, s, NULL, v));
  CRN_TRY_GOTO(cairn_value_on_completed(v[0], count_slowly, &n));
  CRN_TRY_GOTO(encode_step(&f, f.stream, NULL, v[0], s, NULL, w));
  CRN_TRY_GOTO(cairn_stream_encode_snapshot(f.stream, s, &snapshot));
  CRN_TRY_GOTO(cairn_stream_mark(f.stream, &mark));
  CRN_TRY_GOTO(cairn_value_wait(mark));
  status = cairn_stream_wait(f.stream);
done:
  cairn_value_release(v[0]);
  cairn_value_release(w[0]);
  cairn_value_release(mark);
  cairn_value_release(snapshot);
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  fixture_try_close(&f);
  return status;
}

static void test_allocation_failures(void **state) {
  (void)state;
  counter c = {0};
  assert_int_equal(use_stream(&c), CAIRN_OK);
  int64_t total = c.n_allocations;
  int n_failed = 0;
  // Memory is taken on two threads, so a few numbers more or less may be reached.
  for (int64_t n = 1; n <= total; n++) {
    c = (counter){.fail_at = n};
    cairn_status status = use_stream(&c);
    assert_true(status == CAIRN_OUT_OF_MEMORY || status == CAIRN_OK);
    n_failed += status == CAIRN_OUT_OF_MEMORY;
    assert_int_equal(c.live_blocks, 0);
    assert_int_equal(c.live_bytes, 0);
  }
  assert_true(n_failed >= total - 8);
  print_message("%lld allocations, %d failures seen\n", (long long)total, n_failed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain_equals_runs),
      cmocka_unit_test(test_encode_returns_at_once),
      cmocka_unit_test(test_memory_orders_streams),
      cmocka_unit_test(test_independent_work_overlaps),
      cmocka_unit_test(test_snapshots_and_marks),
      cmocka_unit_test(test_failures_reach_dependents),
      cmocka_unit_test(test_views_heal),
      cmocka_unit_test(test_wrong_calls),
      cmocka_unit_test(test_full_stream),
      cmocka_unit_test(test_runs_in_flight),
      cmocka_unit_test(test_runs_among_queued_work),
      cmocka_unit_test(test_cancel_at_every_point),
      cmocka_unit_test(test_cancelled_work_keeps_order),
      cmocka_unit_test(test_reported_cancellation_is_over),
      cmocka_unit_test(test_destroy_with_work),
      cmocka_unit_test(test_callbacks),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
