// A language model's function on several streams at once, with kernels on several threads: bit for bit what plain runs give.
#include "execute/stream_test.h"

enum { SEQUENCES = 4, PROMPT = 7, STEPS = 12, CAPACITY = 64 };
static const char g_path[] = CAIRN_TEST_DATA "/../cli/data/bundle/tiny-qwen3-macos-4bit.aimodel";

typedef struct sequence {
  cairn_state *states;
  int n;  // tokens that were given
  int seed;
} sequence;

static cairn_state *new_states(cairn_function *function) {
  const int64_t shape[] = {2, 1, 2, CAPACITY, 32};
  const cairn_state_shape shapes[] = {{"keyCache", shape, 5}, {"valueCache", shape, 5}};
  cairn_state *states;
  assert_int_equal(cairn_state_create(function, shapes, 2, &states), CAIRN_OK);
  return states;
}

// The inputs of the next `n` tokens.
static void next_inputs(cairn_context *context, sequence *s, int n, cairn_ndarray **out_ids, cairn_ndarray **out_positions) {
  assert_int_equal(cairn_ndarray_create(context, CAIRN_SI32, (int64_t[]){1, n}, 2, out_ids), CAIRN_OK);
  assert_int_equal(cairn_ndarray_create(context, CAIRN_SI32, (int64_t[]){1, s->n + n}, 2, out_positions), CAIRN_OK);
  int32_t *ids = cairn_ndarray_mutable_data(*out_ids), *at = cairn_ndarray_mutable_data(*out_positions);
  for (int i = 0; i < n; i++) ids[i] = (s->seed * 131 + (s->n + i) * 37) % 300;
  for (int i = 0; i < s->n + n; i++) at[i] = i;
  s->n += n;
}

static cairn_ndarray *run_plainly(cairn_context *context, cairn_function *function, sequence *s, int n) {
  cairn_ndarray *ids, *positions, *logits;
  cairn_outputs *outputs;
  next_inputs(context, s, n, &ids, &positions);
  const cairn_named_array inputs[] = {{"input_ids", ids}, {"position_ids", positions}};
  cairn_run_args args = {.inputs = inputs, .n_inputs = 2};
  args.states = cairn_state_arrays(s->states, &args.n_states);
  assert_int_equal(cairn_function_run(function, &args, &outputs), CAIRN_OK);
  assert_int_equal(cairn_outputs_take(outputs, "logits", &logits), CAIRN_OK);
  cairn_outputs_destroy(outputs);
  cairn_ndarray_release(ids);
  cairn_ndarray_release(positions);
  return logits;
}

static cairn_value *queue_step(cairn_context *context, cairn_stream *stream, cairn_function *function, sequence *s, int n) {
  cairn_ndarray *ids, *positions;
  cairn_value *value;
  next_inputs(context, s, n, &ids, &positions);
  const cairn_stream_input inputs[] = {{.name = "input_ids", .array = ids}, {.name = "position_ids", .array = positions}};
  cairn_encode_args args = {.inputs = inputs, .n_inputs = 2};
  args.states = cairn_state_arrays(s->states, &args.n_states);
  assert_int_equal(cairn_stream_encode(stream, function, &args, &value), CAIRN_OK);
  cairn_ndarray_release(ids);
  cairn_ndarray_release(positions);
  return value;
}

static void expect_equal(cairn_value *value, cairn_ndarray *expected) {
  cairn_ndarray *array;
  assert_int_equal(cairn_value_array(value, &array), CAIRN_OK);
  size_t bytes = (size_t)cairn_ndarray_count(expected) * cairn_dtype_bytes(cairn_ndarray_dtype(expected));
  assert_int_equal(cairn_ndarray_count(array), cairn_ndarray_count(expected));
  assert_memory_equal(cairn_ndarray_data(array), cairn_ndarray_data(expected), bytes);
  cairn_ndarray_release(array);
  cairn_ndarray_release(expected);
  cairn_value_release(value);
}

static void test_sequences_on_streams(void **state) {
  (void)state;
  cairn_context *context;
  cairn_model *model;
  cairn_function *function;
  cairn_stream *streams[2];
  cairn_value *values[SEQUENCES][1 + STEPS];
  sequence queued[SEQUENCES] = {{0}};
  assert_int_equal(cairn_context_create(&(cairn_context_options){.n_threads = 2}, &context), CAIRN_OK);
  assert_int_equal(cairn_model_load(context, g_path, &(cairn_model_options){.no_cache = true, .max_in_flight = 3}, &model), CAIRN_OK);
  assert_int_equal(cairn_model_function(model, "main", &function), CAIRN_OK);
  for (int i = 0; i < 2; i++)
    assert_int_equal(cairn_stream_create(context, &(cairn_stream_options){.n_workers = 2, .max_queued = 9}, &streams[i]), CAIRN_OK);
  // Steps of all sequences in turn; a sequence changes its stream in the middle.
  for (int i = 0; i < SEQUENCES; i++) queued[i] = (sequence){.states = new_states(function), .seed = i + 1};
  for (int k = 0; k <= STEPS; k++) {
    for (int i = 0; i < SEQUENCES; i++) values[i][k] = queue_step(context, streams[(i + k / 5) % 2], function, &queued[i], k ? 1 : PROMPT);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(cairn_stream_wait(streams[i]), CAIRN_OK);
  for (int i = 0; i < SEQUENCES; i++) {
    sequence plain = {.states = new_states(function), .seed = i + 1};
    for (int k = 0; k <= STEPS; k++) {
      expect_equal(values[i][k], run_plainly(context, function, &plain, k ? 1 : PROMPT));
    }
    cairn_state_destroy(plain.states);
    cairn_state_destroy(queued[i].states);
  }
  cairn_function_stats stats;
  cairn_function_get_stats(function, &stats);
  assert_int_equal(stats.n_runs, 2 * SEQUENCES * (1 + STEPS));
  assert_int_equal(stats.state_bytes_copied, 0);
  for (int i = 0; i < 2; i++) cairn_stream_destroy(streams[i]);
  cairn_function_release(function);
  cairn_model_release(model);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sequences_on_streams)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
