// Unit tests of traces (what is recorded, and that files are good JSON) and of the notice of widening runs.
#include <jansson.h>
#include <unistd.h>

#include "base/trace.h"
#include "execute/stream_test.h"

static char g_path[64];

static json_t *stop_and_read(cairn_context *context) {
  json_error_t error;
  assert_int_equal(cairn_trace_stop(context, g_path), CAIRN_OK);
  json_t *root = json_load_file(g_path, 0, &error);
  if (!root) fail_msg("line %d: %s", error.line, error.text);
  return root;
}

// How many spans there are whose name begins so; the last one is given out.
static int find(json_t *root, const char *category, const char *prefix, double *out_start, double *out_end) {
  size_t i;
  json_t *e;
  int n = 0;
  json_array_foreach(json_object_get(root, "traceEvents"), i, e) {
    if (strcmp(json_string_value(json_object_get(e, "ph")), "X")) continue;
    assert_true(json_integer_value(json_object_get(e, "tid")) > 0);
    if (strcmp(json_string_value(json_object_get(e, "cat")), category)) continue;
    if (strncmp(json_string_value(json_object_get(e, "name")), prefix, strlen(prefix))) continue;
    double start = json_number_value(json_object_get(e, "ts")), length = json_number_value(json_object_get(e, "dur"));
    assert_true(start >= 0 && length >= 0);
    if (out_start) *out_start = start;
    if (out_end) *out_end = start + length;
    n++;
  }
  return n;
}

static void test_spans(void **state) {
  (void)state;
  fixture f = {0};
  crn_program *p = NULL;
  f.counter = &f.own;
  pthread_mutex_init(&f.own.lock, NULL);
  cairn_allocator a = {&f.own, counting_alloc, counting_free};
  assert_int_equal(cairn_context_create(&(cairn_context_options){.allocator = &a, .n_threads = 1}, &f.context), CAIRN_OK);
  assert_int_equal(cairn_trace_stop(f.context, g_path), CAIRN_FAILED_PRECONDITION);
  assert_int_equal(cairn_trace_start(f.context), CAIRN_OK);
  assert_int_equal(cairn_trace_start(f.context), CAIRN_ALREADY_EXISTS);
  cairn_model *stored;
  assert_int_equal(cairn_model_load(f.context, CAIRN_TEST_DATA "/execute/stateful.aimodel", NULL, &stored), CAIRN_OK);
  cairn_model_release(stored);
  assert_int_equal(build_step(f.context, &p), CAIRN_OK);
  assert_int_equal(crn_model_create_from_program(f.context, p, NULL, &f.model), CAIRN_OK);
  assert_int_equal(cairn_model_function(f.model, "step", &f.function), CAIRN_OK);
  assert_int_equal(cairn_stream_create(f.context, NULL, &f.stream), CAIRN_OK);
  cairn_ndarray *s = new_array(&f, 0), *x = new_array(&f, 1);
  for (int i = 0; i < 3; i++) cairn_ndarray_release(run_step(&f, x, s));
  cairn_value *v[1];
  assert_int_equal(encode_step(&f, f.stream, x, NULL, s, NULL, v), CAIRN_OK);
  assert_int_equal(cairn_stream_wait(f.stream), CAIRN_OK);
  cairn_value_release(v[0]);
  json_t *root = stop_and_read(f.context);
  double setup_end, run_start, run_end, work_start, work_end;
  assert_int_equal(find(root, "load", "Open asset", NULL, NULL), 1);
  assert_int_equal(find(root, "load", "Load model", NULL, NULL), 1);
  assert_int_equal(find(root, "specialization", "Specialize step", NULL, NULL), 1);
  assert_int_equal(find(root, "specialization", "Compile", NULL, NULL), 1);
  assert_int_equal(find(root, "setup", "Setup for step", NULL, &setup_end), 4);
  // Memory of a run is used again.
  const int n_made = find(root, "setup", "Context.alloc for step", NULL, NULL);
  assert_true(n_made >= 1 && n_made <= 2);
  assert_int_equal(find(root, "inference", "Run step", &run_start, &run_end), 4);
  assert_int_equal(find(root, "stream", "Work ", &work_start, &work_end), 1);
  assert_int_equal(find(root, "stream", "Encode", NULL, NULL), 1);
  // The last run was the queued one: setup, then the run, both inside of the work. Times are rounded to nanoseconds.
  assert_true(setup_end <= run_start + 0.002 && run_start + 0.002 >= work_start && run_end <= work_end + 0.002);
  json_decref(root);
  // Off again, nothing is recorded; a second trace begins empty.
  cairn_ndarray_release(run_step(&f, x, s));
  assert_int_equal(cairn_trace_start(f.context), CAIRN_OK);
  root = stop_and_read(f.context);
  assert_int_equal(find(root, "inference", "", NULL, NULL), 0);
  json_decref(root);
  assert_int_equal(cairn_trace_start(f.context), CAIRN_OK);
  assert_int_equal(cairn_trace_stop(f.context, "/nonexistent/folder/trace.json"), CAIRN_NOT_FOUND);
  // A trace that is never stopped leaves nothing behind.
  assert_int_equal(cairn_trace_start(f.context), CAIRN_OK);
  cairn_ndarray_release(run_step(&f, x, s));
  cairn_ndarray_release(s);
  cairn_ndarray_release(x);
  fixture_close(&f);
}

static void test_names_are_escaped(void **state) {
  (void)state;
  cairn_context *c;
  assert_int_equal(cairn_context_create(NULL, &c), CAIRN_OK);
  assert_int_equal(cairn_trace_start(c), CAIRN_OK);
  int64_t start = crn_trace_begin(c);
  assert_true(start > 0);
  CRN_TRACE_END(c, start, "load", "a\\b\nc", "quote \" and \xff and %s", "\x01");
  json_t *root = stop_and_read(c);
  assert_int_equal(find(root, "load", "quote \" and \xef\xbf\xbd and \x01", NULL, NULL), 1);
  json_decref(root);
  assert_int_equal(crn_trace_begin(c), 0);
  cairn_context_release(c);
}

// --- widening ---------------------------------------------------------------------------------------------------------

static bool is_seen(double constant, double per_step, double noise) {
  double seconds[CRN_WIDENING_RUNS], first, last;
  for (int i = 0; i < CRN_WIDENING_RUNS; i++) seconds[i] = constant + per_step * i + (i % 3 == 0 ? noise : 0);
  return crn_widening_is_seen(seconds, &first, &last);
}

static void test_rule(void **state) {
  (void)state;
  assert_true(is_seen(1, 0.1, 0));
  assert_true(is_seen(1, 1, 0.5));
  assert_false(is_seen(1, 0, 0.5));
  assert_false(is_seen(1, 0.001, 0));
  assert_false(is_seen(5, -0.1, 0));
}

typedef struct watched {
  int us_per_element, us_per_run;
  int n_warnings;
  char line[512];
} watched;

static void slow_by_size(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n,
                         double seconds) {
  (void)step, (void)op, (void)location, (void)seconds;
  const watched *w = user;
  int64_t us = w->us_per_run + w->us_per_element * (n ? cairn_ndarray_count(arrays[0]) : 0);
  nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

static void keep_line(void *user, cairn_log_level level, const char *line) {
  watched *w = user;
  if (level != CAIRN_LOG_WARNING) return;
  w->n_warnings++;
  snprintf(w->line, sizeof w->line, "%s", line);
}

// y = x + x over a dynamic length, run with the lengths from `first` on, `step` more each time.
static void run_lengths(watched *w, int64_t first_length, int64_t step, int n_runs) {
  cairn_context *c;
  crn_program *p = NULL;
  crn_builder b;
  cairn_model *m;
  cairn_function *f;
  w->n_warnings = 0;
  assert_int_equal(
      cairn_context_create(&(cairn_context_options){.n_threads = 1, .log_level = CAIRN_LOG_WARNING, .log = keep_line, .log_user = w}, &c),
      CAIRN_OK);
  assert_int_equal(crn_program_create(&c->allocator, &p), CAIRN_OK);
  crn_builder_begin(&b, p, "forgetful");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){-1}, 1);
  crn_value *outputs[1] = {crn_build_binary(&b, CRN_OP_add, x, x)};
  assert_int_equal(crn_builder_finish(&b, outputs, (const char *[]){"y"}, 1), CAIRN_OK);
  assert_int_equal(crn_model_create_from_program(c, p, &(cairn_model_options){.trace = slow_by_size, .trace_user = w}, &m), CAIRN_OK);
  assert_int_equal(cairn_model_function(m, "forgetful", &f), CAIRN_OK);
  for (int i = 0; i < n_runs; i++) {
    cairn_ndarray *a;
    cairn_outputs *o;
    assert_int_equal(cairn_ndarray_create(c, CAIRN_F32, (int64_t[]){first_length + step * i}, 1, &a), CAIRN_OK);
    cairn_named_array in = {"x", a};
    assert_int_equal(cairn_function_run(f, &(cairn_run_args){.inputs = &in, .n_inputs = 1}, &o), CAIRN_OK);
    cairn_outputs_destroy(o);
    cairn_ndarray_release(a);
  }
  cairn_function_release(f);
  cairn_model_release(m);
  cairn_context_release(c);
}

static void test_widening_runs_are_reported(void **state) {
  (void)state;
  watched w = {.us_per_element = 100};
  run_lengths(&w, 1, 1, 60);
  assert_int_equal(w.n_warnings, 1);
  assert_non_null(strstr(w.line, "'forgetful' keeps no states"));
  // A long beginning, which the growth is small against at first.
  w = (watched){.us_per_element = 20};
  run_lengths(&w, 60, 1, 100);
  assert_int_equal(w.n_warnings, 1);
  // The same length again and again, or shorter ones, whatever they take.
  w = (watched){.us_per_element = 20};
  run_lengths(&w, 20, 0, 40);
  assert_int_equal(w.n_warnings, 0);
  run_lengths(&w, 60, -1, 40);
  assert_int_equal(w.n_warnings, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spans),
      cmocka_unit_test(test_names_are_escaped),
      cmocka_unit_test(test_rule),
      cmocka_unit_test(test_widening_runs_are_reported),
  };
  snprintf(g_path, sizeof g_path, "/tmp/cairn-trace-test-%d.json", (int)getpid());
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(g_path);
  return failed;
}
