/// The contracts of tests/data/llm-forms through the engine: a static token a run, a function for prompts, caches as plain inputs, four
/// states, values for every token, recurrent states. Expected are torch's logits that came with them.
#include <math.h>

#include "base/json.h"
#include "base/str.h"
#include "engines/llm/internal.h"
#include "engines/llm/test_folder.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"

enum { VOCAB = 48 };

static cairn_context *g_context;

// --- goldens ----------------------------------------------------------------------------------------------------------

typedef struct sequence {
  int32_t tokens[128];
  int64_t n;
  lm_rows rows;
} sequence;

static const char *key_of(const json_t *list, const char *name) {
  json_t *item;
  size_t i;
  json_array_foreach(list, i, item) {
    if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0) return json_string_value(json_object_get(item, "key"));
  }
  return NULL;
}

// The calls of a golden one behind the other: one sequence of tokens, one row of logits for each.
static sequence read_sequence(const char *form) {
  sequence s = {.n = 0};
  crn_safetensors *file;
  json_t *root, *call;
  size_t i;
  char path[512];
  snprintf(path, sizeof path, FORMS "%s/golden.safetensors", form);
  LM_OK(crn_safetensors_open(NULL, path, &file));
  snprintf(path, sizeof path, FORMS "%s/manifest.json", form);
  LM_OK(crn_json_read(path, &root));
  json_array_foreach(json_object_get(root, "calls"), i, call) {
    lm_ids ids = lm_golden_ids(file, key_of(json_object_get(call, "inputs"), "input_ids"));
    lm_rows rows = lm_golden_rows(file, key_of(json_object_get(call, "outputs"), "logits"));
    assert_int_equal(ids.n, rows.n);
    for (int64_t k = 0; k < ids.n; k++) {
      s.tokens[s.n++] = ids.data[k];
      lm_keep_row(&s.rows, 0, rows.data + k * rows.width, rows.width);
    }
    free(ids.data);
    lm_rows_free(&rows);
  }
  json_decref(root);
  crn_safetensors_close(file);
  return s;
}

static cairn_llm *open_form(const char *form, const cairn_llm_options *options) {
  char path[512];
  // Without metadata the asset itself is opened.
  snprintf(path, sizeof path, FORMS "%s%s", form, strcmp(form, "lm_host_cache") == 0 ? "/model.aimodel" : "");
  return lm_open(g_context, path, options);
}

// --- one form -----------------------------------------------------------------------------------------------------------

static const lm_bound kBound = {1e-4, 1e-4, 0.9999};

// Every piece length gives the golden rows; a cut to the middle and a second feed give the same bits as the first.
static void check_form(const char *form, const sequence *s, bool can_cut, const cairn_llm_options *options) {
  static const int64_t kPieces[] = {1, 8, 11, 1000};
  cairn_llm *llm = open_form(form, options);
  for (size_t i = 0; i < sizeof kPieces / sizeof *kPieces; i++) {
    lm_rows rows = {0};
    LM_OK(cairn_llm_reset(llm, 0));
    lm_feed(llm, s->tokens, s->n, kPieces[i], &rows);
    lm_compare(form, &rows, &s->rows, &kBound);
    lm_rows again = {0};
    int64_t cut = s->n / 2;
    if (can_cut) {
      LM_OK(cairn_llm_reset(llm, cut));
      lm_feed(llm, s->tokens + cut, s->n - cut, 3, &again);
      assert_int_equal(again.n, s->n - cut);
      lm_rows tail = {.data = s->rows.data + cut * VOCAB, .n = s->n - cut, .width = VOCAB};
      lm_compare(form, &again, &tail, &kBound);
    } else {
      lm_expect(cairn_llm_reset(llm, cut), CAIRN_UNSUPPORTED, "cannot be cut back");
    }
    lm_rows_free(&again);
    lm_rows_free(&rows);
  }
  // Greedy generation: the tokens are the best of the rows the same engine gives for them.
  lm_ids prompt = {.data = (int32_t *)s->tokens, .n = 19}, tokens;
  lm_rows chosen_by;
  lm_greedy(llm, &prompt, 12, &tokens, &chosen_by);
  for (int i = 0; i < 12; i++) assert_int_equal(tokens.data[i], lm_argmax(chosen_by.data + i * VOCAB, VOCAB));
  free(tokens.data);
  lm_rows_free(&chosen_by);
  cairn_llm_close(llm);
}

static void check_own(const char *form, bool can_cut) {
  sequence s = read_sequence(form);
  check_form(form, &s, can_cut, NULL);
  check_form(form, &s, can_cut, &(cairn_llm_options){.kv = "growing", .kv_capacity = 4});
  check_form(form, &s, can_cut, &(cairn_llm_options){.kv = "fixed"});
  lm_rows_free(&s.rows);
}

static void test_dynamic(void **state) {
  (void)state;
  check_own("lm_dynamic", true);
}

static void test_static_one(void **state) {
  (void)state;
  check_own("lm_static_one", true);
}

static void test_four_states(void **state) {
  (void)state;
  check_own("lm_four_states", true);
}

static void test_hybrid(void **state) {
  (void)state;
  check_own("lm_hybrid", false);
}

// The function for prompts takes whole pieces of 8, the other what is left over, on one set of states.
static void test_two_functions(void **state) {
  (void)state;
  check_own("lm_two_functions", true);
  sequence s = read_sequence("lm_two_functions");
  cairn_llm *llm = open_form("lm_two_functions", NULL);
  cairn_function_stats main_stats, prefill_stats;
  assert_non_null(llm->model->prefill);
  const cairn_forward_options o = {.tokens = s.tokens, .n_tokens = 19};
  LM_OK(cairn_llm_forward(llm, &o));
  cairn_function_get_stats(llm->model->function, &main_stats);
  cairn_function_get_stats(llm->model->prefill, &prefill_stats);
  assert_int_equal(prefill_stats.n_runs, 2);
  assert_int_equal(main_stats.n_runs, 3);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  bool is_told = false;
  for (int i = 0; i < info.n_decisions; i++) is_told |= strcmp(info.decisions[i].what, "prefill") == 0;
  assert_true(is_told);
  cairn_llm_close(llm);
  lm_rows_free(&s.rows);
}

// The metadata lists both functions under "main", in either order; or none, and the name tells.
static void test_function_maps(void **state) {
  (void)state;
  static const char *const kMaps[] = {"{\"main\":[\"main\",\"prefill\"]}", "{\"main\":[\"prefill\",\"main\"]}", "{\"main\":[\"main\"]}"};
  test_folder folder;
  char from[512], to[512], json[512];
  sequence s = read_sequence("lm_two_functions");
  test_folder_create(&folder);
  test_put(&folder, "b/metadata.json", "{}");
  snprintf(to, sizeof to, "%s", test_path(&folder, "b/model.aimodel"));
  assert_non_null(realpath(FORMS "lm_two_functions/model.aimodel", from));
  char command[1200];
  snprintf(command, sizeof command, "cp -r '%s' '%s'", from, to);
  assert_int_equal(system(command), 0);
  for (size_t i = 0; i < sizeof kMaps / sizeof *kMaps; i++) {
    snprintf(json, sizeof json,
             "{\"metadata_version\":\"0.2\",\"kind\":\"llm\",\"name\":\"n\",\"assets\":{\"main\":\"model.aimodel\"},\"language\":{"
             "\"tokenizer\":\"none\",\"vocab_size\":48,\"max_context_length\":80,\"embedded_tokenizer\":false,\"function_map\":%s}}",
             kMaps[i]);
    test_put(&folder, "b/metadata.json", json);
    cairn_llm *llm;
    lm_rows rows = {0};
    LM_OK(cairn_llm_open(g_context, test_path(&folder, "b"), NULL, &llm));
    assert_string_equal(cairn_function_describe(llm->model->function)->name, "main");
    assert_non_null(llm->model->prefill);
    lm_feed(llm, s.tokens, s.n, s.n, &rows);
    lm_compare(kMaps[i], &rows, &s.rows, &kBound);
    lm_rows_free(&rows);
    cairn_llm_close(llm);
  }
  test_folder_remove(&folder);
  lm_rows_free(&s.rows);
}

// The caches as plain inputs: the same model as lm_dynamic, so its goldens hold.
static void test_host_cache(void **state) {
  (void)state;
  sequence s = read_sequence("lm_dynamic");
  check_form("lm_host_cache", &s, true, NULL);
  check_form("lm_host_cache", &s, true, &(cairn_llm_options){.kv_capacity = 4, .max_context = 80});
  lm_rows_free(&s.rows);
}

// --- values for every token -------------------------------------------------------------------------------------------

static cairn_ndarray *make_table(int64_t vocab) {
  cairn_ndarray *table;
  LM_OK(cairn_ndarray_create(g_context, CAIRN_F32, (const int64_t[]){vocab, 2, 4}, 3, &table));
  float *data = cairn_ndarray_mutable_data(table);
  for (int64_t i = 0; i < vocab * 8; i++) data[i] = (float)sin((double)i) * 0.5f;
  return table;
}

// What the function itself gives when it is called with the rows of the table, token by token.
static void run_by_hand(cairn_model *model, const float *table, const int32_t *tokens, int64_t n, lm_rows *out) {
  cairn_function *f;
  cairn_state *states;
  LM_OK(cairn_model_function(model, "main", &f));
  const cairn_state_shape shapes[] = {{"keyCache", (const int64_t[]){2, 1, 1, 80, 8}, 5},
                                      {"valueCache", (const int64_t[]){2, 1, 1, 80, 8}, 5}};
  LM_OK(cairn_state_create(f, shapes, 2, &states));
  for (int64_t i = 0; i < n; i++) {
    cairn_ndarray *ids, *positions, *extra, *logits;
    cairn_outputs *outputs;
    LM_OK(cairn_ndarray_create(g_context, CAIRN_SI32, (const int64_t[]){1, 1}, 2, &ids));
    LM_OK(cairn_ndarray_create(g_context, CAIRN_SI32, (const int64_t[]){1, i + 1}, 2, &positions));
    LM_OK(cairn_ndarray_create(g_context, CAIRN_F32, (const int64_t[]){1, 1, 2, 4}, 4, &extra));
    *(int32_t *)cairn_ndarray_mutable_data(ids) = tokens[i];
    for (int64_t k = 0; k <= i; k++) ((int32_t *)cairn_ndarray_mutable_data(positions))[k] = (int32_t)k;
    memcpy(cairn_ndarray_mutable_data(extra), table + tokens[i] * 8, 8 * sizeof *table);
    const cairn_named_array inputs[] = {{"input_ids", ids}, {"position_ids", positions}, {"per_layer_inputs", extra}};
    cairn_run_args args = {.inputs = inputs, .n_inputs = 3};
    args.states = cairn_state_arrays(states, &args.n_states);
    LM_OK(cairn_function_run(f, &args, &outputs));
    LM_OK(cairn_outputs_take(outputs, "logits", &logits));
    lm_keep_row(out, i, cairn_ndarray_data(logits), VOCAB);
    cairn_ndarray *const arrays[] = {ids, positions, extra, logits};
    for (int k = 0; k < 4; k++) cairn_ndarray_release(arrays[k]);
    cairn_outputs_destroy(outputs);
  }
  cairn_state_destroy(states);
  cairn_function_release(f);
}

static void test_extra_input(void **state) {
  (void)state;
  sequence s = read_sequence("lm_extra_input");
  cairn_ndarray *table = make_table(VOCAB), *small = make_table(VOCAB - 1);
  const cairn_named_array given = {"per_layer_inputs", table}, wrong = {"per_layer_inputs", small}, other = {"nothing", table};
  cairn_llm *llm = NULL;
  lm_expect(cairn_llm_open(g_context, FORMS "lm_extra_input", NULL, &llm), CAIRN_INVALID_ARGUMENT, "input 'per_layer_inputs' takes values");
  const cairn_llm_options bad = {.token_tables = &wrong, .n_token_tables = 1},
                          strange = {.token_tables = (const cairn_named_array[]){given, other}, .n_token_tables = 2};
  lm_expect(cairn_llm_open(g_context, FORMS "lm_extra_input", &bad, &llm), CAIRN_INVALID_ARGUMENT, "of the shape [48, ...]");
  lm_expect(cairn_llm_open(g_context, FORMS "lm_extra_input", &strange, &llm), CAIRN_INVALID_ARGUMENT, "a table for 'nothing'");
  const cairn_llm_options options = {.token_tables = &given, .n_token_tables = 1};
  llm = open_form("lm_extra_input", &options);
  sequence expected = s;
  expected.rows = (lm_rows){0};
  run_by_hand(llm->model->source.model, cairn_ndarray_data(table), s.tokens, s.n, &expected.rows);
  // The table matters: without it the rows would be others.
  assert_true(fabsf(expected.rows.data[0] - s.rows.data[0]) > 1e-3f);
  cairn_llm_close(llm);
  check_form("lm_extra_input", &expected, true, &options);
  cairn_ndarray_release(table);
  cairn_ndarray_release(small);
  lm_rows_free(&expected.rows);
  lm_rows_free(&s.rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dynamic),       cmocka_unit_test(test_static_one),
                                     cmocka_unit_test(test_four_states),   cmocka_unit_test(test_hybrid),
                                     cmocka_unit_test(test_two_functions), cmocka_unit_test(test_function_maps),
                                     cmocka_unit_test(test_host_cache),    cmocka_unit_test(test_extra_input)};
  g_context = lm_context(2);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cairn_context_release(g_context);
  return failed;
}
