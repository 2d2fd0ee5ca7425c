// Runs that follow the record of the last one against runs in a fresh workspace each: random programs, sizes and values, with failures in
// between. Everything that comes out must be the same, bit by bit: outputs, states, statuses, the bytes written to states.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "execute/failing_test.h"
#include "execute/internal.h"
#include "execute/model.h"
#include "execute/replay.h"
#include "program/builder.h"

enum { PROGRAMS = 40, RUNS = 500, OPS = 14, C = 8, CAPACITY = 48, MOST_ROWS = 9, MAX_VALUES = 64 };

static uint64_t g_seed;

static int draw(int n) {
  g_seed = g_seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((g_seed >> 33) % (uint64_t)n);
}

static float noise(void) { return (float)(draw(4096) - 2048) / 2048.0f; }

// --- programs ---------------------------------------------------------------------------------------------------------------

/// What a random program is made of: values [rows, C] by how many rows they have, and what their sizes are computed from.
typedef struct parts {
  crn_builder *b;
  crn_value *full[MAX_VALUES], *cut[MAX_VALUES], *window[MAX_VALUES];
  int n_full, n_cut, n_window;
  crn_value *x, *index, *length, *position, *state;
  crn_value *rows, *end;  ///< of x, and of x behind the position: si32[1]
  bool has_write;
} parts;

static float g_weights[C * C];

static crn_value *two(parts *p, crn_op_id id, crn_value *x, crn_value *y) { return crn_build_binary(p->b, id, x, y); }
static crn_value *numbers(parts *p, crn_value *first, int32_t second) {
  crn_value *pieces[] = {first, crn_build_i32(p->b, &second, 1)};
  return crn_build_concat(p->b, 0, pieces, 2);
}
static crn_value *zeros(parts *p) { return crn_build_i32(p->b, (int32_t[]){0, 0}, 2); }
static crn_value *ones(parts *p) { return crn_build_i32(p->b, (int32_t[]){1, 1}, 2); }

static crn_value *any(crn_value **list, int n) { return list[draw(n)]; }
static void keep(crn_value **list, int *n, crn_value *v) {
  if (v && *n < MAX_VALUES) list[(*n)++] = v;
}

static void begin_parts(parts *p) {
  crn_builder *b = p->b;
  p->x = crn_build_input(b, "x", CAIRN_F32, (int64_t[]){-1, C}, 2);
  p->index = crn_build_input(b, "index", CAIRN_SI32, (int64_t[]){-1}, 1);
  p->length = crn_build_input(b, "length", CAIRN_SI32, (int64_t[]){1}, 1);
  p->position = crn_build_input(b, "position", CAIRN_SI32, (int64_t[]){1}, 1);
  p->state = crn_build_state(b, "cache", CAIRN_F32, (int64_t[]){-1, C}, 2);
  crn_value *shape = crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, p->x), CAIRN_SI32);
  p->rows = crn_build_slice(b, shape, crn_build_i32(b, (int32_t[]){0}, 1), crn_build_i32(b, (int32_t[]){1}, 1),
                            crn_build_i32(b, (int32_t[]){1}, 1));
  p->end = two(p, CRN_OP_broadcasting_add, p->rows, p->position);
  keep(p->full, &p->n_full, p->x);
  keep(p->cut, &p->n_cut, crn_build_slice(b, p->x, zeros(p), numbers(p, p->length, C), ones(p)));
}

static crn_value *through_state(parts *p) {
  crn_builder *b = p->b;
  crn_value *old = crn_build_read_state(b, p->state);
  crn_value *operands[] = {old, numbers(p, p->position, 0), numbers(p, p->end, C), ones(p), any(p->full, p->n_full)};
  crn_value *fresh = crn_build_op(b, CRN_OP_slice_update, operands, 5, CAIRN_DTYPE_NONE, 0);
  // Sometimes the old value is wanted behind the write: then the state is copied.
  bool is_old_wanted = draw(6) == 0;
  if (is_old_wanted) keep(p->window, &p->n_window, crn_build_slice(b, old, zeros(p), numbers(p, p->end, C), ones(p)));
  crn_build_write_state(b, p->state, fresh);
  p->has_write = true;
  return crn_build_slice(b, crn_build_read_state(b, p->state), zeros(p), numbers(p, p->end, C), ones(p));
}

static crn_value *weighted(parts *p, crn_value *x) {
  crn_tensor t = crn_tensor_make(CAIRN_F32, (int64_t[]){C, C}, 2, g_weights);
  return two(p, CRN_OP_broadcasting_batch_matmul, x, crn_build_constant(p->b, NULL, &t, 0));
}

static crn_value *turned_twice(parts *p, crn_value *x) {
  crn_value *y = crn_build_transpose(p->b, x, (uint32_t[]){1, 0}, 2);
  if (draw(2)) y = two(p, CRN_OP_broadcasting_add, y, y);
  return crn_build_transpose(p->b, y, (uint32_t[]){1, 0}, 2);
}

static crn_value *flattened(parts *p, crn_value *x) {
  crn_value *shape = crn_build_unary(p->b, CRN_OP_get_shape, x);
  crn_value *flat =
      two(p, CRN_OP_reshape, draw(2) ? crn_build_transpose(p->b, x, (uint32_t[]){1, 0}, 2) : x, crn_build_i32(p->b, (int32_t[]){-1}, 1));
  return two(p, CRN_OP_reshape, flat, shape);
}

// The rows of x from `length` on behind those before it.
static crn_value *rejoined(parts *p, crn_value *x) {
  crn_value *first = crn_build_slice(p->b, x, zeros(p), numbers(p, p->length, C), ones(p));
  crn_value *rest = crn_build_slice(p->b, x, numbers(p, p->length, 0), numbers(p, p->rows, C), ones(p));
  crn_value *pieces[] = {first, rest};
  if (draw(2)) pieces[0] = rest, pieces[1] = first;
  return crn_build_concat(p->b, 0, pieces, 2);
}

static crn_value *gathered(parts *p, crn_value *x) {
  crn_value *places = two(p, CRN_OP_expand_dims, p->index, crn_build_i32(p->b, (int32_t[]){1}, 1));
  return two(p, CRN_OP_gather_nd, x, places);
}

static crn_value *summed(parts *p, crn_value *x) {
  crn_value *sum = two(p, CRN_OP_reduce_sum, x, crn_build_i32(p->b, (int32_t[]){draw(2)}, 1));
  return two(p, CRN_OP_broadcasting_add, x, sum);
}

static void add_op(parts *p) {
  crn_value **list = p->full;
  int *n = &p->n_full, kind = draw(12);
  if (p->n_cut && draw(4) == 0) list = p->cut, n = &p->n_cut;
  if (p->n_window && draw(4) == 0) list = p->window, n = &p->n_window;
  crn_value *x = any(list, *n);
  bool is_full = list == p->full;
  if (kind < 3) {
    keep(list, n, two(p, kind ? CRN_OP_broadcasting_add : CRN_OP_broadcasting_mul, x, any(list, *n)));
  } else if (kind == 3) {
    keep(list, n, weighted(p, x));
  } else if (kind == 4) {
    keep(list, n, turned_twice(p, x));
  } else if (kind == 5) {
    keep(list, n, flattened(p, x));
  } else if (kind == 6 && is_full) {
    keep(list, n, rejoined(p, x));
  } else if (kind == 7 && is_full) {
    keep(list, n, gathered(p, x));
  } else if (kind == 8) {
    keep(list, n, summed(p, x));
  } else if (kind == 9 && is_full) {
    keep(p->cut, &p->n_cut, crn_build_slice(p->b, x, zeros(p), numbers(p, p->length, C), ones(p)));
  } else if (kind == 10) {
    keep(p->window, &p->n_window, through_state(p));
  } else {
    keep(list, n, crn_build_unary(p->b, CRN_OP_abs, x));
  }
}

static cairn_status build(cairn_context *context, crn_program **out) {
  crn_builder b;
  parts p = {.b = &b};
  CRN_TRY(crn_program_create(&context->allocator, out));
  crn_builder_begin(&b, *out, "main");
  begin_parts(&p);
  for (int i = 0; i < OPS; i++) add_op(&p);
  if (!p.has_write) keep(p.window, &p.n_window, through_state(&p));
  crn_value *outputs[] = {p.full[p.n_full - 1], p.cut[p.n_cut - 1], p.window[p.n_window - 1], p.end};
  cairn_status status = crn_builder_finish(&b, outputs, (const char *[]){"full", "cut", "window", "end"}, 4);
  if (status != CAIRN_OK) crn_program_destroy(*out);
  return status;
}

// --- runs -------------------------------------------------------------------------------------------------------------------

/// Two functions of one program: one keeps its workspace, the other gets a fresh one for every run.
typedef struct pair {
  cairn_context *context;
  cairn_model *model[2];
  cairn_function *function[2];
  cairn_ndarray *states[2][2];                         ///< by function: two caches of different capacity
  cairn_ndarray *x[2], *index[2], *length, *position;  ///< two of each, to be given in turn
  int64_t n_seen[2];                                   ///< steps the trace told of
  int64_t rows;
  int n_failed, n_replayed, n_scheduled;
  bool has_lost_runs;  ///< one of the functions was run alone
} pair;

static void see(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n, double seconds) {
  (void)step, (void)op, (void)location, (void)arrays, (void)n, (void)seconds;
  ++*(int64_t *)user;
}

static cairn_ndarray *new_array(const pair *p, cairn_dtype dtype, const int64_t *dims, int rank) {
  cairn_ndarray *a;
  assert_int_equal(cairn_ndarray_create(p->context, dtype, dims, rank, &a), CAIRN_OK);
  return a;
}

// --- memory that fails --------------------------------------------------------------------------------------------------------

static void open_pair(pair *p, uint64_t seed, bool is_traced) {
  const cairn_allocator allocator = {NULL, failing_alloc, failing_free};
  assert_int_equal(cairn_context_create(&(cairn_context_options){.allocator = &allocator, .n_threads = 1}, &p->context), CAIRN_OK);
  for (int k = 0; k < 2; k++) {
    crn_program *program;
    g_seed = seed;
    for (int i = 0; i < C * C; i++) g_weights[i] = noise();
    cairn_status status = build(p->context, &program);
    if (status != CAIRN_OK) print_error("seed %llu: %s\n", (unsigned long long)seed, cairn_last_error()->message);
    assert_int_equal(status, CAIRN_OK);
    cairn_model_options o = {0};
    if (is_traced) o = (cairn_model_options){.trace = see, .trace_user = &p->n_seen[k]};
    assert_int_equal(crn_model_create_from_program(p->context, program, &o, &p->model[k]), CAIRN_OK);
    assert_int_equal(cairn_model_function(p->model[k], "main", &p->function[k]), CAIRN_OK);
    for (int i = 0; i < 2; i++) p->states[k][i] = new_array(p, CAIRN_F32, (int64_t[]){CAPACITY + 16 * i, C}, 2);
  }
  p->length = new_array(p, CAIRN_SI32, (int64_t[]){1}, 1);
  p->position = new_array(p, CAIRN_SI32, (int64_t[]){1}, 1);
  p->rows = -1;
}

static void release_inputs(pair *p) {
  for (int i = 0; i < 2; i++) {
    cairn_ndarray_release(p->x[i]);
    cairn_ndarray_release(p->index[i]);
    p->x[i] = p->index[i] = NULL;
  }
}

static void drop_workspaces(cairn_function *f) {
  while (f->idle) {
    crn_workspace *w = f->idle;
    f->idle = w->next;
    crn_workspace_destroy(w);
  }
}

static void close_pair(pair *p) {
  release_inputs(p);
  cairn_ndarray_release(p->length);
  cairn_ndarray_release(p->position);
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 2; i++) cairn_ndarray_release(p->states[k][i]);
    cairn_function_release(p->function[k]);
    cairn_model_release(p->model[k]);
  }
  cairn_context_release(p->context);
}

static void set_rows(pair *p, int64_t rows) {
  if (rows == p->rows) return;
  release_inputs(p);
  p->rows = rows;
  for (int i = 0; i < 2; i++) {
    p->x[i] = new_array(p, CAIRN_F32, (int64_t[]){rows, C}, 2);
    p->index[i] = new_array(p, CAIRN_SI32, (int64_t[]){rows}, 1);
  }
}

static void same_arrays(const cairn_ndarray *a, const cairn_ndarray *b) {
  assert_int_equal(cairn_ndarray_rank(a), cairn_ndarray_rank(b));
  assert_memory_equal(cairn_ndarray_shape(a), cairn_ndarray_shape(b), (size_t)cairn_ndarray_rank(a) * sizeof(int64_t));
  size_t bytes = (size_t)cairn_ndarray_count(a) * cairn_dtype_bytes(cairn_ndarray_dtype(a));
  if (bytes) assert_memory_equal(cairn_ndarray_data(a), cairn_ndarray_data(b), bytes);
}

static void same_outputs(cairn_outputs *a, cairn_outputs *b) {
  static const char *const names[] = {"full", "cut", "window", "end"};
  for (int i = 0; i < 4; i++) {
    cairn_ndarray *x, *y;
    assert_int_equal(cairn_outputs_take(a, names[i], &x), CAIRN_OK);
    assert_int_equal(cairn_outputs_take(b, names[i], &y), CAIRN_OK);
    same_arrays(x, y);
    cairn_ndarray_release(x);
    cairn_ndarray_release(y);
  }
}

// Inputs like those of a decoder: mostly one row more, sometimes something else, and now and then something that cannot be.
static void choose_inputs(pair *p, int which, int *position) {
  if (draw(8) == 0) set_rows(p, 1 + draw(MOST_ROWS));
  if (p->rows < 0) set_rows(p, 1);
  *position = draw(12) == 0 ? draw(CAPACITY - MOST_ROWS) : *position + (int)p->rows;
  bool is_wrong = draw(25) == 0;
  if (*position + p->rows > CAPACITY && !is_wrong) *position = 0;
  int32_t *index = cairn_ndarray_mutable_data(p->index[which]);
  float *x = cairn_ndarray_mutable_data(p->x[which]);
  for (int64_t i = 0; i < p->rows; i++) index[i] = draw((int)p->rows);
  if (draw(40) == 0) index[p->rows - 1] = 1000;
  for (int64_t i = 0; i < p->rows * C; i++) x[i] = noise();
  *(int32_t *)cairn_ndarray_mutable_data(p->length) = draw((int)p->rows + 1);
  *(int32_t *)cairn_ndarray_mutable_data(p->position) = *position;
}

static void run_both(pair *p, int which, int cache, int64_t last_rows) {
  cairn_outputs *outputs[2] = {NULL, NULL};
  cairn_status status[2];
  cairn_function_stats stats[2];
  const cairn_named_array inputs[] = {{"x", p->x[which]}, {"index", p->index[which]}, {"length", p->length}, {"position", p->position}};
  drop_workspaces(p->function[1]);
  for (int k = 0; k < 2; k++) {
    const cairn_named_array state = {"cache", p->states[k][cache]};
    status[k] = cairn_function_run(
        p->function[k], &(cairn_run_args){.inputs = inputs, .n_inputs = 4, .states = &state, .n_states = 1, .last_rows = last_rows},
        &outputs[k]);
    cairn_function_get_stats(p->function[k], &stats[k]);
  }
  assert_int_equal(status[0], status[1]);
  p->n_failed += status[0] != CAIRN_OK;
  if (status[0] == CAIRN_OK) same_outputs(outputs[0], outputs[1]);
  same_arrays(p->states[0][cache], p->states[1][cache]);
  if (!p->has_lost_runs) {
    assert_int_equal(stats[0].state_bytes_written, stats[1].state_bytes_written);
    assert_int_equal(stats[0].state_bytes_copied, stats[1].state_bytes_copied);
  }
  assert_int_equal(p->n_seen[0], p->n_seen[1]);
  const crn_workspace *w = p->function[0]->idle;
  p->n_replayed += w->replay && w->replay->is_complete;
  p->n_scheduled += w->replay && w->replay->is_complete && w->replay->is_scheduled;
  for (int k = 0; k < 2; k++) cairn_outputs_destroy(outputs[k]);
}

static int g_programs = PROGRAMS;  // more of them: the program's argument

static void test_random_programs(void **state) {
  (void)state;
  int n_failed = 0, n_replayed = 0, n_scheduled = 0;
  for (int i = 0; i < g_programs; i++) {
    pair p = {0};
    int position = 0;
    open_pair(&p, (uint64_t)i * 77 + 5, i % 5 == 0);
    for (int run = 0; run < RUNS; run++) {
      int which = draw(10) == 0;
      choose_inputs(&p, which, &position);
      run_both(&p, which, draw(50) == 0, draw(10) == 0 ? 1 + draw(3) : 0);
    }
    n_failed += p.n_failed;
    n_replayed += p.n_replayed;
    n_scheduled += p.n_scheduled;
    close_pair(&p);
  }
  print_message("%d runs: %d failed, %d left a record, %d followed a schedule\n", g_programs * RUNS, n_failed, n_replayed, n_scheduled);
  assert_true(n_failed > g_programs * RUNS / 100);
  assert_true(n_replayed > g_programs * RUNS / 3);
  assert_true(n_scheduled > g_programs * RUNS / 4);
}

// Whichever allocation of the second run, which makes the record, or of the third fails: that run says so, and the next ones are right.
static void test_allocation_failures(void **state) {
  (void)state;
  int n_failed = 0, quiet = 0;
  for (int64_t at = 1; quiet < 2; at++) {
    pair p = {0};
    int position = 0;
    quiet = at % 2 ? 0 : quiet;  // both runs must have had their turn
    open_pair(&p, 41, false);
    for (int run = 0; run < 6; run++) {
      set_rows(&p, run < 2 ? 2 : 1 + run % 3);
      choose_inputs(&p, 0, &position);
      bool fails = run == 1 + at % 2;
      g_fail_at = fails ? g_allocations + (at + 1) / 2 : 0;
      cairn_outputs *outputs = NULL;
      const cairn_named_array inputs[] = {{"x", p.x[0]}, {"index", p.index[0]}, {"length", p.length}, {"position", p.position}};
      const cairn_named_array cache = {"cache", p.states[0][0]};
      const cairn_run_args args = {.inputs = inputs, .n_inputs = 4, .states = &cache, .n_states = 1};
      cairn_status status = fails ? cairn_function_run(p.function[0], &args, &outputs) : CAIRN_OK;
      bool was_reached = g_allocations >= g_fail_at;
      g_fail_at = 0;
      cairn_outputs_destroy(outputs);
      if (fails) {
        p.has_lost_runs = true;
        n_failed += status == CAIRN_OUT_OF_MEMORY;
        quiet += !was_reached;
        // A run that failed may have changed the state, and inputs that cannot be fail as they do anywhere.
        assert_int_equal(cairn_ndarray_copy(p.states[0][0], p.states[1][0]), CAIRN_OK);
      } else {
        run_both(&p, 0, 0, 0);
      }
    }
    close_pair(&p);
  }
  print_message("%d runs without memory\n", n_failed);
  assert_true(n_failed > 20);
  assert_int_equal(g_live, 0);
}

int main(int n, char **arguments) {
  if (n > 1) g_programs = atoi(arguments[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs), cmocka_unit_test(test_allocation_failures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
