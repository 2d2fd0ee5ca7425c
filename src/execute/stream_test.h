/// What the tests of streams share: a small model with a state, gates that hold work up, an allocator that counts.
///
/// The function "step" takes x and keeps s, both four floats: s becomes s / 2 + x, and y is the new s plus x.
#ifndef CRN_EXECUTE_STREAM_TEST_H
#define CRN_EXECUTE_STREAM_TEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "execute/model.h"
#include "execute/stream.h"
#include "program/builder.h"

enum { WIDTH = 4 };

typedef struct counter {
  pthread_mutex_t lock;
  int64_t live_bytes, live_blocks, n_allocations;
  int64_t fail_at;  // this allocation fails (0 = none)
} counter;

typedef struct fixture {
  counter own, *counter;
  cairn_context *context;
  cairn_model *model;
  cairn_function *function;
  cairn_stream *stream;
  int slow_ms;  // every operation of the function takes so long
  int n_running, max_running;
} fixture;

/// Work that waits until the gate opens.
typedef struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int n_entered;
  bool is_open;
} gate;

static inline void sleep_ms(int ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }

static inline float step_state(float x, float s) { return s * 0.5f + x; }
static inline float step_result(float x, float s) { return step_state(x, s) + x; }

static inline void *counting_alloc(void *self, size_t bytes, size_t align) {
  counter *c = self;
  pthread_mutex_lock(&c->lock);
  bool fails = ++c->n_allocations == c->fail_at;
  void *p = fails ? NULL : crn_default_allocator()->alloc(NULL, bytes, align);
  c->live_bytes += p ? (int64_t)bytes : 0;
  c->live_blocks += p != NULL;
  pthread_mutex_unlock(&c->lock);
  return p;
}

static inline void counting_free(void *self, void *pointer, size_t bytes) {
  counter *c = self;
  pthread_mutex_lock(&c->lock);
  c->live_bytes -= (int64_t)bytes;
  c->live_blocks--;
  pthread_mutex_unlock(&c->lock);
  crn_default_allocator()->free(NULL, pointer, bytes);
}

static inline cairn_status build_step(cairn_context *context, crn_program **out) {
  crn_program *p;
  crn_builder b;
  const int64_t shape[] = {WIDTH};
  CRN_TRY(crn_program_create(&context->allocator, &p));
  crn_builder_begin(&b, p, "step");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F32, shape, 1), *s = crn_build_state(&b, "s", CAIRN_F32, shape, 1);
  crn_value *half = crn_build_scalar_f32(&b, 0.5f);
  crn_value *fresh = crn_build_binary(&b, CRN_OP_add, crn_build_binary(&b, CRN_OP_broadcasting_mul, crn_build_read_state(&b, s), half), x);
  crn_build_write_state(&b, s, fresh);
  crn_value *outputs[1] = {crn_build_binary(&b, CRN_OP_add, fresh, x)};
  cairn_status status = crn_builder_finish(&b, outputs, (const char *[]){"y"}, 1);
  if (status != CAIRN_OK) {
    crn_program_destroy(p);
    return status;
  }
  *out = p;
  return CAIRN_OK;
}

static inline void slow_down(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n,
                             double seconds) {
  (void)step, (void)op, (void)location, (void)arrays, (void)n, (void)seconds;
  fixture *f = user;
  if (!f->slow_ms) return;
  int running = __atomic_add_fetch(&f->n_running, 1, __ATOMIC_SEQ_CST);
  int most = __atomic_load_n(&f->max_running, __ATOMIC_SEQ_CST);
  while (running > most && !__atomic_compare_exchange_n(&f->max_running, &most, running, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  sleep_ms(f->slow_ms);
  __atomic_fetch_sub(&f->n_running, 1, __ATOMIC_SEQ_CST);
}

static inline void fixture_try_close(fixture *f) {
  cairn_stream_destroy(f->stream);
  cairn_function_release(f->function);
  cairn_model_release(f->model);
  cairn_context_release(f->context);
  pthread_mutex_destroy(&f->counter->lock);
}

static inline cairn_status fixture_open_with(fixture *f, counter *c, const cairn_model_options *options) {
  crn_program *p;
  f->counter = c;
  pthread_mutex_init(&c->lock, NULL);
  cairn_allocator a = {c, counting_alloc, counting_free};
  cairn_status status = cairn_context_create(&(cairn_context_options){.allocator = &a, .n_threads = 1}, &f->context);
  if (status == CAIRN_OK) status = build_step(f->context, &p);
  if (status == CAIRN_OK) status = crn_model_create_from_program(f->context, p, options, &f->model);
  if (status == CAIRN_OK) status = cairn_model_function(f->model, "step", &f->function);
  if (status != CAIRN_OK) fixture_try_close(f);
  return status;
}

static inline cairn_status fixture_try_open(fixture *f, counter *c) { return fixture_open_with(f, c, NULL); }

static inline void fixture_open(fixture *f, int n_workers, const cairn_stream_options *options) {
  memset(f, 0, sizeof *f);
  cairn_stream_options o = options ? *options : (cairn_stream_options){0};
  o.n_workers = n_workers;
  assert_int_equal(fixture_open_with(f, &f->own, &(cairn_model_options){.trace = slow_down, .trace_user = f}), CAIRN_OK);
  assert_int_equal(cairn_stream_create(f->context, &o, &f->stream), CAIRN_OK);
}

static inline void fixture_close(fixture *f) {
  fixture_try_close(f);
  assert_int_equal(f->own.live_blocks, 0);
  assert_int_equal(f->own.live_bytes, 0);
}

static inline cairn_ndarray *new_array(fixture *f, float value) {
  cairn_ndarray *a;
  assert_int_equal(cairn_ndarray_create(f->context, CAIRN_F32, (int64_t[]){WIDTH}, 1, &a), CAIRN_OK);
  for (int i = 0; i < WIDTH; i++) ((float *)cairn_ndarray_mutable_data(a))[i] = value;
  return a;
}

static inline cairn_status wrap(fixture *f, void *data, cairn_ndarray **out) {
  const cairn_ndarray_wrap_options o = {
      .data = data, .bytes = WIDTH * sizeof(float), .dtype = CAIRN_F32, .rank = 1, .shape = (const int64_t[]){WIDTH}};
  return cairn_ndarray_wrap(f->context, &o, out);
}

// The elements of an array are equal in these tests; that they are is checked along.
static inline float first(const cairn_ndarray *a) {
  const float *v = cairn_ndarray_data(a);
  for (int i = 1; i < WIDTH; i++) assert_true(v[i] == v[0]);
  return v[0];
}

static inline float value_first(cairn_value *v) {
  cairn_ndarray *a;
  assert_int_equal(cairn_value_array(v, &a), CAIRN_OK);
  float x = first(a);
  cairn_ndarray_release(a);
  return x;
}

static inline cairn_ndarray *run_step(fixture *f, cairn_ndarray *x, cairn_ndarray *s) {
  cairn_named_array in = {"x", x}, st = {"s", s};
  cairn_outputs *o;
  cairn_ndarray *y;
  assert_int_equal(cairn_function_run(f->function, &(cairn_run_args){.inputs = &in, .n_inputs = 1, .states = &st, .n_states = 1}, &o),
                   CAIRN_OK);
  assert_int_equal(cairn_outputs_take(o, "y", &y), CAIRN_OK);
  cairn_outputs_destroy(o);
  return y;
}

// One value, at out_values[0].
static inline cairn_status encode_step(fixture *f, cairn_stream *stream, cairn_ndarray *x, cairn_value *value, cairn_ndarray *s,
                                       cairn_ndarray *view, cairn_value **out_values) {
  cairn_stream_input in = {.name = "x", .array = x, .value = value};
  cairn_named_array st = {"s", s}, y = {"y", view};
  const cairn_encode_args args = {.inputs = &in, .n_inputs = 1, .states = &st, .n_states = 1, .views = &y, .n_views = view != NULL};
  return cairn_stream_encode(stream, f->function, &args, out_values);
}

// --- gates ------------------------------------------------------------------------------------------------------------

static inline void gate_initialize(gate *g) {
  memset(g, 0, sizeof *g);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->changed, NULL);
}

static inline void gate_deinitialize(gate *g) {
  pthread_mutex_destroy(&g->lock);
  pthread_cond_destroy(&g->changed);
}

static inline void gate_open(gate *g) {
  pthread_mutex_lock(&g->lock);
  g->is_open = true;
  pthread_cond_broadcast(&g->changed);
  pthread_mutex_unlock(&g->lock);
}

static inline void gate_await_entered(gate *g, int n) {
  pthread_mutex_lock(&g->lock);
  while (g->n_entered < n) pthread_cond_wait(&g->changed, &g->lock);
  pthread_mutex_unlock(&g->lock);
}

static inline cairn_status copy_to_output(cairn_ndarray *source, cairn_ndarray **out) {
  CRN_TRY(cairn_ndarray_create(source->storage->context, CAIRN_F32, cairn_ndarray_shape(source), 1, out));
  return cairn_ndarray_copy(source, *out);
}

static inline cairn_status pass_gate(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets,
                                     int n_targets, cairn_ndarray **out_arrays) {
  gate *g = user;
  pthread_mutex_lock(&g->lock);
  g->n_entered++;
  pthread_cond_broadcast(&g->changed);
  while (!g->is_open) pthread_cond_wait(&g->changed, &g->lock);
  pthread_mutex_unlock(&g->lock);
  for (int i = 0; i < WIDTH && n_targets; i++) ((float *)cairn_ndarray_mutable_data(targets[0].array))[i] += 100;
  return copy_to_output(n_inputs ? inputs[0].array : targets[0].array, out_arrays);
}

// Reads `array` (if any), adds 100 to `target` (if any).
static inline cairn_status encode_gate(cairn_stream *stream, gate *g, cairn_ndarray *array, cairn_ndarray *target, cairn_value **out) {
  cairn_stream_input in = {.name = "array", .array = array};
  cairn_named_array to = {"target", target};
  return cairn_stream_encode_call(stream,
                                  &(cairn_call_args){.name = "gate",
                                                     .call = pass_gate,
                                                     .user = g,
                                                     .inputs = &in,
                                                     .n_inputs = array != NULL,
                                                     .targets = &to,
                                                     .n_targets = target != NULL,
                                                     .n_outputs = 1},
                                  out);
}

static inline cairn_status fail_with_text(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets,
                                          int n_targets, cairn_ndarray **out_arrays) {
  (void)user, (void)inputs, (void)n_inputs, (void)targets, (void)n_targets, (void)out_arrays;
  return CRN_FAIL(CORRUPT, "page 7 is damaged");
}

static inline cairn_status encode_failing(cairn_stream *stream, cairn_ndarray *target, cairn_value **out) {
  cairn_named_array to = {"target", target};
  return cairn_stream_encode_call(
      stream, &(cairn_call_args){.name = "failing", .call = fail_with_text, .targets = &to, .n_targets = 1, .n_outputs = 1}, out);
}

#endif
