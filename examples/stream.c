// Pipelined use of a stream: steps of a stateful model are queued ahead of the consumer, and each result is taken while
// later steps run. The states order the steps; the stream's bound keeps the queue short.
//
//   stream MODEL.aimodel [STEPS]      any model with a function "main" whose shapes are fixed
#include <stdio.h>
#include <stdlib.h>

#include <cairn/cairn.h>

enum { IN_FLIGHT = 3, MAX_NAMES = 16 };

static int fail(const char *what) {
  char text[1024];
  cairn_last_error_text(text, sizeof text);
  fprintf(stderr, "%s: %s\n", what, text);
  return 1;
}

// Zeroed arrays for the inputs, with the number of the step in the first element of floats.
static cairn_status make_inputs(cairn_context *context, const cairn_function_info *info, int step, cairn_stream_input *out) {
  for (int i = 0; i < info->n_inputs; i++) {
    out[i] = (cairn_stream_input){.name = info->inputs[i].name};
    cairn_status status = cairn_ndarray_create_from_descriptor(context, &info->inputs[i], NULL, 0, &out[i].array);
    if (status != CAIRN_OK) return status;
    if (info->inputs[i].dtype == CAIRN_F32 && cairn_ndarray_count(out[i].array) > 0)
      *(float *)cairn_ndarray_mutable_data(out[i].array) = (float)step;
  }
  return CAIRN_OK;
}

// Queues one step. The stream keeps the inputs for as long as it needs them.
static cairn_status queue_step(cairn_stream *stream, cairn_function *function, cairn_context *context, const cairn_state *states, int step,
                               cairn_value **out_values) {
  const cairn_function_info *info = cairn_function_describe(function);
  cairn_stream_input inputs[MAX_NAMES] = {{0}};
  cairn_encode_args args = {.inputs = inputs, .n_inputs = info->n_inputs};
  args.states = cairn_state_arrays(states, &args.n_states);
  cairn_status status = make_inputs(context, info, step, inputs);
  if (status == CAIRN_OK) status = cairn_stream_encode(stream, function, &args, out_values);
  for (int i = 0; i < info->n_inputs; i++) cairn_ndarray_release(inputs[i].array);
  return status;
}

// Takes the results of a step, which waits for it, and prints the first element of each that holds floats.
static cairn_status take_step(const cairn_function_info *info, int step, cairn_value **values) {
  cairn_status first = CAIRN_OK;
  printf("step %d:", step);
  for (int i = 0; i < info->n_outputs; i++) {
    cairn_ndarray *array = NULL;
    cairn_status status = cairn_value_array(values[i], &array);
    if (status == CAIRN_OK && info->outputs[i].dtype == CAIRN_F32 && cairn_ndarray_count(array) > 0)
      printf(" %s[0] = %g", info->outputs[i].name, (double)*(const float *)cairn_ndarray_data(array));
    if (first == CAIRN_OK) first = status;
    cairn_ndarray_release(array);
    cairn_value_release(values[i]);
  }
  putchar('\n');
  return first;
}

static cairn_status run_pipeline(cairn_context *context, cairn_stream *stream, cairn_function *function, const cairn_state *states,
                                 int n_steps) {
  const cairn_function_info *info = cairn_function_describe(function);
  cairn_value *values[IN_FLIGHT][MAX_NAMES];
  cairn_status status = CAIRN_OK;
  int n_queued = 0, n_taken = 0;
  while (status == CAIRN_OK && n_taken < n_steps) {
    // Fill the pipeline, then take the oldest step.
    while (status == CAIRN_OK && n_queued < n_steps && n_queued - n_taken < IN_FLIGHT) {
      status = queue_step(stream, function, context, states, n_queued, values[n_queued % IN_FLIGHT]);
      if (status == CAIRN_OK) n_queued++;
    }
    if (status != CAIRN_OK) break;
    status = take_step(info, n_taken, values[n_taken % IN_FLIGHT]);
    n_taken++;
  }
  // After a failure the rest is dropped: nothing is left behind.
  for (; n_taken < n_queued; n_taken++) {
    for (int i = 0; i < info->n_outputs; i++) cairn_value_release(values[n_taken % IN_FLIGHT][i]);
  }
  return status;
}

int main(int argc, char **argv) {
  cairn_context *context = NULL;
  cairn_model *model = NULL;
  cairn_function *function = NULL;
  cairn_state *states = NULL;
  cairn_stream *stream = NULL;
  int n_steps = argc > 2 ? atoi(argv[2]) : 5;
  if (argc < 2 || n_steps < 1) {
    fprintf(stderr, "usage: %s MODEL.aimodel [STEPS]\n", argv[0]);
    return 64;
  }
  cairn_status status = cairn_context_create(NULL, &context);
  if (status == CAIRN_OK) status = cairn_model_load(context, argv[1], NULL, &model);
  if (status == CAIRN_OK) status = cairn_model_function(model, "main", &function);
  if (status == CAIRN_OK) {
    const cairn_function_info *info = cairn_function_describe(function);
    if (info->n_inputs > MAX_NAMES || info->n_outputs > MAX_NAMES) {
      fprintf(stderr, "%s: more inputs or outputs than this example takes\n", argv[1]);
      status = CAIRN_UNSUPPORTED;
    }
  }
  if (status == CAIRN_OK) status = cairn_state_create(function, NULL, 0, &states);
  if (status == CAIRN_OK) status = cairn_stream_create(context, &(cairn_stream_options){.max_queued = IN_FLIGHT}, &stream);
  if (status == CAIRN_OK) status = run_pipeline(context, stream, function, states, n_steps);
  int code = status == CAIRN_OK ? 0 : fail(argv[1]);
  cairn_stream_destroy(stream);
  cairn_state_destroy(states);
  cairn_function_release(function);
  cairn_model_release(model);
  cairn_context_release(context);
  return code;
}
