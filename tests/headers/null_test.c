/// NULL for each pointer of each public function in turn: a call that gives a status refuses it, any other gives nothing, and none crashes.
/// The calls are made from the headers (make_null_calls.py). A call that crashes is named, and the others are made all the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cairn/cairn.h"

// A valid value for every argument there is.
typedef struct fixture {
  cairn_context *context;
  cairn_asset *asset;
  cairn_bundle *bundle;
  cairn_model *model;
  cairn_function *function;
  cairn_outputs *outputs;
  cairn_state *state;
  cairn_ndarray *array, *other, *segmented;
  cairn_value *value;
  cairn_stream *stream;
  cairn_llm *llm;
  cairn_llm_batch *batch;
  cairn_generation *generation;
  cairn_llm_loader *loader;
  cairn_tokenizer *tokenizer;
  cairn_detokenizer *detokenizer;
  cairn_template *template_;
  cairn_template_set *templates;
  cairn_dialogue *dialogue;
  cairn_grammar *grammar;
  cairn_grammar_compiler *compiler;
  cairn_matcher *matcher;

  cairn_asset_options asset_options;
  cairn_print_options print_options;
  cairn_llm_batch_options llm_batch_options;
  cairn_generate_options generate_options;
  cairn_llm_batch_step_info llm_batch_step_info;
  cairn_bundle_language bundle_language;
  cairn_bundle_vision bundle_vision;
  cairn_context_options context_options;
  cairn_dialogue_options dialogue_options;
  cairn_dialogue_result dialogue_result;
  cairn_grammar_source grammar_source;
  cairn_llm_options llm_options;
  cairn_llm_info llm_info;
  cairn_llm_images llm_images;
  cairn_generation_info generation_info;
  cairn_forward_options forward_options;
  cairn_model_options model_options;
  cairn_run_args run_args;
  cairn_state_shape state_shape;
  cairn_function_stats function_stats;
  cairn_function_options function_options;
  cairn_descriptor descriptor;
  cairn_ndarray_wrap_options ndarray_wrap_options;
  cairn_segments segments;
  cairn_ndarray_window ndarray_window;
  cairn_segment_counts segment_counts;
  cairn_llm_loader_counts llm_loader_counts;
  cairn_stream_options stream_options;
  cairn_encode_args encode_args;
  cairn_call_args call_args;
  cairn_template_limits template_limits;
  cairn_token_span spans[64];

  char path[64], folder[32];
  const char *asset_path, *bundle_path, *tokenizer_path, *borrowed;
  const cairn_template *borrowed_template;
  int integer;
  int32_t ids[64];
  int64_t shape[CAIRN_MAX_RANK], rows[CAIRN_MAX_RANK], start[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK];
  int64_t count;
  uint64_t bytes;
  size_t size, n_words;
  bool truth;
  uint32_t words[8192];
  char text[512];
  float data[64];
  cairn_status status;
  cairn_dialogue_format format;
  cairn_named_array input, kept;
  cairn_stream_input queued;
} fixture;

static fixture f;

static cairn_status visit_operation(void *user, const char *name, int64_t count) {
  (void)user, (void)name, (void)count;
  return CAIRN_OK;
}

static cairn_status visit_weight(void *user, const cairn_weight_info *weight) {
  (void)user, (void)weight;
  return CAIRN_OK;
}

static cairn_status write_text(void *user, const char *text, size_t bytes) {
  (void)user, (void)text, (void)bytes;
  return CAIRN_OK;
}

static void on_completed(void *user, cairn_status status, cairn_ndarray *array) { (void)user, (void)status, (void)array; }

static cairn_status queued_call(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets, int n_targets,
                                cairn_ndarray **out_arrays) {
  (void)user, (void)inputs, (void)n_inputs, (void)targets, (void)n_targets, (void)out_arrays;
  return CAIRN_OK;
}

// --- what a call may give ---------------------------------------------------------------------------------------------

static char g_got[300];

static bool is_expected(cairn_status status, cairn_status expected) {
  if (status == expected) return true;
  snprintf(g_got, sizeof g_got, "gave %s (%s) instead of %s", cairn_status_name(status), status ? cairn_last_error()->message : "",
           cairn_status_name(expected));
  return false;
}

static bool not_cleared(void) {
  snprintf(g_got, sizeof g_got, "left something in its out-handle");
  return false;
}

static bool is_nothing(bool it_is) {
  if (!it_is) snprintf(g_got, sizeof g_got, "gave something");
  return it_is;
}

static bool is_no_text(const char *text) { return is_nothing(!text || !*text); }

static bool is_anything(bool it_is) {
  (void)it_is;
  return true;
}

typedef struct null_call {
  const char *function, *argument;
  bool (*call)(void);
} null_call;

#include "null_calls.inc"

// --- running them -----------------------------------------------------------------------------------------------------

static sigjmp_buf g_back;

// Only a crash of the thread that makes the calls is caught. What it held stays held, so that an alarm ends later calls that wait for it.
static void take_crash(int number) { siglongjmp(g_back, number); }

static void set_signals(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER};
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGALRM};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

static bool makes(const null_call *c) {
  g_got[0] = 0;
  int number = sigsetjmp(g_back, 1);
  if (!number) return c->call();
  snprintf(g_got, sizeof g_got, "crashed: signal %d", number);
  return false;
}

#define OK(expr)                                                                    \
  do {                                                                              \
    if ((expr) != CAIRN_OK) fail_msg("%s: %s", #expr, cairn_last_error()->message); \
  } while (0)

static void make_arrays(void) {
  f.shape[0] = 4, f.rows[0] = 128, f.state_shape = (cairn_state_shape){"state", f.shape, 1};
  OK(cairn_ndarray_create(f.context, CAIRN_F32, f.shape, 1, &f.array));
  OK(cairn_ndarray_create(f.context, CAIRN_F32, f.shape, 1, &f.other));
  f.segments = (cairn_segments){.axis = 0, .page_rows = 64};
  f.rows[1] = 4;
  OK(cairn_ndarray_create_segmented(f.context, CAIRN_F32, f.rows, 2, &f.segments, &f.segmented));
  f.rows[1] = 0;
  f.descriptor = (cairn_descriptor){.name = "x", .dtype = CAIRN_F32, .rank = 1, .shape = {4}};
  for (int i = 0; i < CAIRN_MAX_RANK; i++) f.descriptor.interleave[i] = f.descriptor.alignment[i] = 1;
  f.ndarray_wrap_options =
      (cairn_ndarray_wrap_options){.data = f.data, .bytes = sizeof f.data, .dtype = CAIRN_F32, .rank = 1, .shape = f.shape};
  OK(cairn_value_create(f.array, &f.value));
}

static void make_function(void) {
  f.asset_path = CAIRN_TEST_DATA "/assets/state_only.aimodel";
  OK(cairn_asset_open(f.context, f.asset_path, NULL, &f.asset));
  OK(cairn_model_create(f.asset, NULL, &f.model));
  OK(cairn_model_function(f.model, "main", &f.function));
  OK(cairn_state_create(f.function, NULL, 0, &f.state));
  f.input = (cairn_named_array){"x", f.array};
  f.kept = (cairn_named_array){"state", f.other};
  f.run_args = (cairn_run_args){.inputs = &f.input, .n_inputs = 1, .states = &f.kept, .n_states = 1, .wait = true};
  f.queued = (cairn_stream_input){.name = "x", .array = f.array};
  f.encode_args = (cairn_encode_args){.inputs = &f.queued, .n_inputs = 1, .states = &f.kept, .n_states = 1};
  f.call_args = (cairn_call_args){.name = "call", .call = queued_call};
  OK(cairn_function_run(f.function, &f.run_args, &f.outputs));
  OK(cairn_stream_create(f.context, NULL, &f.stream));
}

static void make_llm(void) {
  f.bundle_path = CAIRN_SHARED_DATA "/models/tiny-qwen3-macos";
  f.tokenizer_path = CAIRN_SHARED_DATA "/models/tiny-qwen3-macos/tokenizer";
  OK(cairn_bundle_open(f.context, f.bundle_path, &f.bundle));
  OK(cairn_llm_open(f.context, f.bundle_path, NULL, &f.llm));
  OK(cairn_llm_batch_create(f.llm, NULL, &f.batch));
  f.ids[0] = 1;
  f.generate_options = (cairn_generate_options){.tokens = f.ids, .n_tokens = 1, .max_tokens = 1};
  f.forward_options = (cairn_forward_options){.tokens = f.ids, .n_tokens = 1};
  OK(cairn_llm_generate(f.llm, &f.generate_options, &f.generation));
  OK(cairn_llm_loader_open(f.context, f.bundle_path, NULL, false, &f.loader));
}

static void make_texts(void) {
  OK(cairn_tokenizer_open(f.context, f.tokenizer_path, &f.tokenizer));
  OK(cairn_detokenizer_create(f.tokenizer, true, &f.detokenizer));
  OK(cairn_template_create(f.context, "a", 1, "a template", &f.template_));
  OK(cairn_template_set_create(f.context, "a", 1, "a template", &f.templates));
  OK(cairn_dialogue_create(f.context, NULL, &f.dialogue));
  f.template_limits = (cairn_template_limits){.max_steps = 1000, .max_output_bytes = 1000, .max_depth = 100};
  f.grammar_source = (cairn_grammar_source){.kind = CAIRN_GRAMMAR_JSON};
  if (!cairn_grammar_is_available()) return;
  OK(cairn_grammar_compiler_create(f.context, f.tokenizer, 0, &f.compiler));
  OK(cairn_grammar_compile(f.compiler, &f.grammar_source, &f.grammar));
  OK(cairn_matcher_create(f.grammar, NULL, 0, &f.matcher));
  f.n_words = (size_t)(cairn_grammar_vocab_size(f.grammar) + 31) / 32;
  assert_true(f.n_words <= sizeof f.words / sizeof *f.words);
}

static void drop_all(void) {
  cairn_matcher_destroy(f.matcher);
  cairn_grammar_release(f.grammar);
  cairn_grammar_compiler_release(f.compiler);
  cairn_dialogue_destroy(f.dialogue);
  cairn_template_set_release(f.templates);
  cairn_template_release(f.template_);
  cairn_detokenizer_destroy(f.detokenizer);
  cairn_tokenizer_release(f.tokenizer);
  cairn_llm_loader_release(f.loader);
  cairn_generation_destroy(f.generation);
  cairn_llm_batch_destroy(f.batch);
  cairn_llm_close(f.llm);
  cairn_bundle_release(f.bundle);
  cairn_stream_destroy(f.stream);
  cairn_outputs_destroy(f.outputs);
  cairn_state_destroy(f.state);
  cairn_function_release(f.function);
  cairn_model_release(f.model);
  cairn_asset_release(f.asset);
  cairn_value_release(f.value);
  cairn_ndarray_release(f.segmented);
  cairn_ndarray_release(f.other);
  cairn_ndarray_release(f.array);
  cairn_context_release(f.context);
}

// Without guided generation there is nothing to be made valid for its functions, which refuse all.
static bool is_left_out(const null_call *c) {
  if (cairn_grammar_is_available()) return false;
  return strncmp(c->function, "cairn_grammar", 13) == 0 || strncmp(c->function, "cairn_matcher", 13) == 0;
}

static void test_null_arguments(void **state) {
  (void)state;
  if (access(CAIRN_SHARED_DATA "/models/tiny-qwen3-macos", F_OK) != 0) skip();
  snprintf(f.folder, sizeof f.folder, "/tmp/cairn-null-XXXXXX");
  assert_non_null(mkdtemp(f.folder));
  setenv("CAIRN_CACHE_DIR", f.folder, 1);
  snprintf(f.path, sizeof f.path, "%s/file", f.folder);
  OK(cairn_context_create(NULL, &f.context));
  cairn_context_options_initialize(&f.context_options);
  make_arrays();
  make_function();
  make_llm();
  make_texts();

  int n_wrong = 0;
  set_signals(take_crash);
  for (size_t i = 0; i < sizeof kCalls / sizeof *kCalls; i++) {
    const null_call *c = &kCalls[i];
    alarm(20);
    if (is_left_out(c) || makes(c)) continue;
    fprintf(stderr, "%s with NULL for '%s' %s\n", c->function, c->argument, g_got);
    n_wrong++;
  }
  alarm(0);
  set_signals(SIG_DFL);
  // A call that crashed may have left what it held locked.
  if (n_wrong) fail_msg("%d of %zu calls are wrong", n_wrong, sizeof kCalls / sizeof *kCalls);
  drop_all();
  (void)unlink(f.path);
  assert_int_equal(rmdir(f.folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_null_arguments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
