#include "engines/llm/contract.h"

#include "engines/llm/states.h"
#include "engines/llm/test_folder.h"

static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  cairn_context_options options = {.n_threads = 1};
  return cairn_context_create(&options, &g_context) != CAIRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

static cairn_descriptor describe(const char *name, cairn_dtype dtype, int rank, const int64_t *shape) {
  cairn_descriptor d = {.name = name, .dtype = dtype, .rank = rank};
  for (int i = 0; i < CAIRN_MAX_RANK; i++) d.interleave[i] = 1;
  for (int i = 0; i < rank; i++) d.shape[i] = shape[i];
  return d;
}

#define D(name, dtype, ...) describe(name, dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

typedef struct model {
  cairn_descriptor inputs[3], outputs[2], states[5];
  cairn_function_info info;
} model;

// The standard contract; tests change parts of it.
static void standard(model *m) {
  m->inputs[0] = D("input_ids", CAIRN_SI32, 1, -1);
  m->inputs[1] = D("position_ids", CAIRN_SI32, 1, -1);
  m->outputs[0] = D("logits", CAIRN_F16, 1, -1, 50);
  m->states[0] = D("keyCache", CAIRN_F16, 2, 1, 2, -1, 8);
  m->states[1] = D("valueCache", CAIRN_F16, 2, 1, 2, -1, 8);
  m->info = (cairn_function_info){"main", 2, 1, 2, m->inputs, m->outputs, m->states};
}

static void refuse(const model *m, const char *part) {
  crn_llm_contract c;
  test_expect(crn_llm_contract_read(&m->info, NULL, &c), CAIRN_UNSUPPORTED, part);
}

static crn_llm_contract accept(const model *m) {
  crn_llm_contract c;
  test_expect(crn_llm_contract_read(&m->info, NULL, &c), CAIRN_OK, "");
  return c;
}

// --- contract -------------------------------------------------------------------------------------------------------

static void test_structures(void **state) {
  (void)state;
  const char *const dynamic[] = {"other", "main"}, *const chunked[] = {"load_embeddings", "extend_256_8", "main"},
                    *const segmenter[] = {"image_encode", "text_encode", "detect", "main"}, *const odd[] = {"extend_256_8"};
  assert_int_equal(crn_llm_structure_of(dynamic, 2), CRN_LLM_DYNAMIC);
  assert_int_equal(crn_llm_structure_of(chunked, 3), CRN_LLM_STATIC_SHAPE);
  assert_int_equal(crn_llm_structure_of(segmenter, 4), CRN_LLM_SEGMENTER);
  assert_int_equal(crn_llm_structure_of(odd, 1), CRN_LLM_UNKNOWN_STRUCTURE);
  assert_int_equal(crn_llm_structure_of(NULL, 0), CRN_LLM_UNKNOWN_STRUCTURE);
}

static void test_standard(void **state) {
  (void)state;
  model m;
  standard(&m);
  crn_llm_contract c = accept(&m);
  assert_string_equal(c.ids->name, "input_ids");
  assert_string_equal(c.positions->name, "position_ids");
  assert_int_equal(c.vocab_size, 50);
  assert_false(c.one_token || c.current_position || c.last_row_only || c.hybrid);
  assert_true(c.has_dynamic_kv);
  assert_int_equal(c.states[0].axis, 3);
  assert_int_equal(c.fixed_rows, 0);
}

static void test_names_before_positions(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.inputs[0].name = "position_ids";
  m.inputs[1].name = "input_ids";
  crn_llm_contract c = accept(&m);
  assert_ptr_equal(c.ids, &m.inputs[1]);
  m.inputs[0].name = "a";
  m.inputs[1].name = "b";
  c = accept(&m);
  assert_ptr_equal(c.ids, &m.inputs[0]);
  assert_ptr_equal(c.positions, &m.inputs[1]);
  m.inputs[0].name = "position_ids";
  c = accept(&m);
  assert_ptr_equal(c.ids, &m.inputs[1]);
  // A sole output is the logits, whatever its name; of several, the name tells.
  m.outputs[0].name = "out";
  accept(&m);
  m.outputs[1] = D("logits", CAIRN_F32, 1, -1, 60);
  m.info.n_outputs = 2;
  c = accept(&m);
  assert_int_equal(c.vocab_size, 60);
  m.outputs[1].name = "hidden";
  refuse(&m, "[out, hidden]");
}

static void test_refusals(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.inputs[2] = D("extra", CAIRN_F16, 1, 7);
  m.info.n_inputs = 3;
  refuse(&m, "input 'extra' is neither token ids, positions, a cache with an output of its own, nor a value for every token");
  refuse(&m, "[input_ids, position_ids, extra]");
  standard(&m);
  m.info.n_inputs = 1;
  refuse(&m, "expected 2 inputs (token ids and positions), got 1: [input_ids]");
  standard(&m);
  m.inputs[0] = D("inputs_embeds", CAIRN_F16, 1, -1);
  refuse(&m, "should hold embeddings of the shape [1, n, width]");
  standard(&m);
  standard(&m);
  m.inputs[1].shape[1] = 64;
  refuse(&m, "takes exactly 64 positions");
  standard(&m);
  m.inputs[0].shape[0] = 2;
  refuse(&m, "should have the shape [1, n]");
  standard(&m);
  m.info.n_outputs = 0;
  refuse(&m, "expected at least 1 output");
  standard(&m);
  m.outputs[0].dtype = CAIRN_SI32;
  refuse(&m, "unsupported logits type: 'logits' is int32");
  standard(&m);
  m.outputs[0].shape[2] = CAIRN_DYNAMIC;
  refuse(&m, "no fixed vocabulary");
  standard(&m);
  m.states[0].shape[0] = CAIRN_DYNAMIC;
  refuse(&m, "two dynamic dims");
}

// Further inputs, embeddings, caches that are plain arrays, no memory at all, and the scales of a quantised cache.
static void test_other_inputs(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.inputs[2] = D("per_layer_inputs", CAIRN_F16, 1, -1, 2, 4);
  m.info.n_inputs = 3;
  crn_llm_contract c = accept(&m);
  assert_int_equal(c.n_extras, 1);
  assert_ptr_equal(c.extras[0], &m.inputs[2]);
  standard(&m);
  m.inputs[0] = D("inputs_embeds", CAIRN_F16, 1, -1, 8);
  c = accept(&m);
  assert_null(c.ids);
  assert_ptr_equal(c.embeds, &m.inputs[0]);
  standard(&m);
  m.inputs[0].shape[1] = 8;
  assert_int_equal(accept(&m).query, 8);  // good for prompts only; the engine refuses it as the main function
  m.outputs[0].shape[1] = 4;
  refuse(&m, "has exactly 4 rows");
}

static void test_plain_caches(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.inputs[2] = D("past_k", CAIRN_F16, 2, 1, 2, -1, 8);
  m.outputs[1] = D("present_k", CAIRN_F16, 2, 1, 2, -1, 8);
  m.info.n_inputs = 3;
  m.info.n_outputs = 2;
  refuse(&m, "has caches as inputs and 2 states");
  m.info.n_states = 0;
  crn_llm_contract c = accept(&m);
  assert_true(c.host_cache && c.has_dynamic_kv && !c.stateless);
  assert_int_equal(c.n_states, 1);
  assert_int_equal(c.states[0].axis, 3);
  assert_ptr_equal(c.states[0].output, &m.outputs[1]);
  m.inputs[2].name = "past_key_values.0.key";
  m.outputs[1].name = "present.0.key";
  assert_true(accept(&m).host_cache);
  m.outputs[1].name = "present.1.key";
  refuse(&m, "is neither token ids");
  m.outputs[1].name = "present.0.key";
  m.inputs[2].shape[3] = m.outputs[1].shape[3] = 64;
  refuse(&m, "is an input of fixed size");
}

static void test_stateless(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.info.n_states = 0;
  assert_true(accept(&m).stateless);
  m.info.n_inputs = 1;
  crn_llm_contract c = accept(&m);
  assert_true(c.stateless && !c.positions);
  assert_true(crn_llm_can_cut(&c, 100));
  m.inputs[0].shape[1] = 1;
  m.outputs[0].shape[1] = 1;
  refuse(&m, "keeps no state and takes exactly 1 tokens");
  standard(&m);
  m.info.n_states = 0;
  m.outputs[0].name = "last_hidden_state";
  refuse(&m, "expected 2 to 4 states, or none and an output named 'logits'");
}

static void test_scales_of_a_cache(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.states[0] = D("keyCache", CAIRN_SI8, 2, 1, 2, 64, 8);
  m.states[1] = D("keyScale", CAIRN_F16, 2, 1, 2, 64, 1);
  m.states[2] = D("valueCache", CAIRN_SI8, 2, 1, 2, 64, 8);
  m.states[3] = D("recState", CAIRN_F16, 2, 1, 2, 8, 8);
  m.info.n_states = 4;
  crn_llm_contract c = accept(&m);
  assert_int_equal(c.states[1].kind, CAIRN_STATE_SLIDING_CACHE);
  assert_int_equal(c.states[3].kind, CAIRN_STATE_FIXED);
  assert_true(c.hybrid);
  m.states[3] = D("valueScale", CAIRN_F16, 2, 1, 2, 64, 1);
  assert_false(accept(&m).hybrid);
}

static void test_state_counts_and_kinds(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.info.n_states = 1;
  refuse(&m, "expected 2 to 4 states, got 1: [keyCache]");
  for (int i = 2; i < 5; i++) m.states[i] = D("conv_state", CAIRN_F16, 2, 4, 8);
  m.info.n_states = 5;
  refuse(&m, "expected 2 to 4 states, got 5");
  m.info.n_states = 3;
  crn_llm_contract c = accept(&m);
  assert_int_equal(c.states[0].kind, CAIRN_STATE_KV_CACHE);
  assert_int_equal(c.states[2].kind, CAIRN_STATE_FIXED);
  assert_true(c.hybrid);
  assert_false(crn_llm_can_cut(&c, 1));
  m.states[2] = D("k_cache_local", CAIRN_F16, 2, 1, 2, 16, 8);
  c = accept(&m);
  assert_int_equal(c.states[2].kind, CAIRN_STATE_SLIDING_CACHE);
  assert_false(c.hybrid);
  assert_true(crn_llm_can_cut(&c, 16));
  assert_false(crn_llm_can_cut(&c, 17));  // rows were dropped
  m.states[2].name = "myKV";
  assert_int_equal(accept(&m).states[2].kind, CAIRN_STATE_SLIDING_CACHE);
}

static void test_fixed_cache(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.states[0] = D("k_cache", CAIRN_F16, 2, 1, 2, 128, 8);
  m.states[1] = D("v_cache", CAIRN_F16, 2, 1, 2, 96, 8);
  crn_llm_contract c = accept(&m);
  assert_false(c.has_dynamic_kv);
  assert_int_equal(c.states[1].kind, CAIRN_STATE_KV_CACHE);
  assert_int_equal(c.fixed_rows, 96);
}

static void test_one_token(void **state) {
  (void)state;
  model m;
  standard(&m);
  m.inputs[0].shape[1] = 1;
  m.outputs[0].shape[1] = 1;
  crn_llm_contract c = accept(&m);
  assert_true(c.one_token);
  assert_false(c.current_position || c.last_row_only);
  m.inputs[1].shape[1] = 1;
  assert_true(accept(&m).current_position);
  m.inputs[0].shape[1] = CAIRN_DYNAMIC;
  refuse(&m, "takes exactly 1 positions");
  m.inputs[1].shape[1] = CAIRN_DYNAMIC;
  assert_true(accept(&m).last_row_only);
}

static void test_states_of_metadata(void **state) {
  (void)state;
  test_folder folder;
  cairn_bundle *bundle;
  model m;
  crn_llm_contract c;
  standard(&m);
  test_folder_create(&folder);
  test_put(&folder, "b/metadata.json",
           "{\"metadata_version\":\"0.2\",\"kind\":\"llm\",\"name\":\"n\",\"language\":{\"states\":{\"valueCache\":\"fixed\",\"keyCache\":"
           "\"sliding_cache\"}}}");
  test_expect(cairn_bundle_open(g_context, test_path(&folder, "b"), &bundle), CAIRN_OK, "");
  test_expect(crn_llm_contract_read(&m.info, bundle, &c), CAIRN_OK, "");
  assert_int_equal(c.states[0].kind, CAIRN_STATE_SLIDING_CACHE);
  assert_int_equal(c.states[1].kind, CAIRN_STATE_FIXED);
  assert_true(c.hybrid);
  cairn_bundle_release(bundle);
  test_folder_remove(&folder);
}

// --- states ---------------------------------------------------------------------------------------------------------

static void test_strategy_names(void **state) {
  (void)state;
  crn_llm_kv kv;
  static const struct {
    const char *name;
    crn_llm_kv kv;
  } kGood[] = {{NULL, CRN_LLM_KV_AUTO},          {"auto", CRN_LLM_KV_AUTO},        {"fixed", CRN_LLM_KV_FIXED},
               {"fixed_size", CRN_LLM_KV_FIXED}, {"fixed-size", CRN_LLM_KV_FIXED}, {"growing", CRN_LLM_KV_GROWING},
               {"paged", CRN_LLM_KV_PAGED},      {"chunked", CRN_LLM_KV_CHUNKED}};
  for (size_t i = 0; i < sizeof kGood / sizeof *kGood; i++) {
    test_expect(crn_llm_kv_parse(kGood[i].name, &kv), CAIRN_OK, "");
    assert_int_equal(kv, kGood[i].kv);
  }
  test_expect(crn_llm_kv_parse("big", &kv), CAIRN_INVALID_ARGUMENT, "unknown KV strategy 'big'");
}

typedef struct sizes {
  int64_t capacity, limit;
} sizes;

static sizes sizes_of(const crn_llm_contract *c, crn_llm_kv kv, int64_t capacity, int64_t max_context) {
  crn_llm_states s;
  const crn_llm_states_options options = {.strategy = kv, .capacity = capacity, .max_context = max_context};
  test_expect(crn_llm_states_initialize(&s, g_context, c, &options), CAIRN_OK, "");
  sizes result = {s.capacity, s.limit};
  assert_int_equal(cairn_ndarray_shape(s.arrays[0].array)[3], c->has_dynamic_kv ? s.capacity : c->fixed_rows);
  crn_llm_states_deinitialize(&s);
  return result;
}

static void test_capacities(void **state) {
  (void)state;
  model m;
  standard(&m);
  crn_llm_contract c = accept(&m);
  sizes x = sizes_of(&c, CRN_LLM_KV_AUTO, 0, 2048);
  assert_true(x.capacity == 256 && x.limit == 2048);
  x = sizes_of(&c, CRN_LLM_KV_AUTO, 0, 100);
  assert_true(x.capacity == 100 && x.limit == 100);
  x = sizes_of(&c, CRN_LLM_KV_FIXED, 0, 300);
  assert_true(x.capacity == 300 && x.limit == 300);
  x = sizes_of(&c, CRN_LLM_KV_FIXED, 128, 300);
  assert_true(x.capacity == 128 && x.limit == 128);
  x = sizes_of(&c, CRN_LLM_KV_GROWING, 100, 300);
  assert_true(x.capacity == 100 && x.limit == 300);
  m.states[0].shape[3] = m.states[1].shape[3] = 512;
  c = accept(&m);
  x = sizes_of(&c, CRN_LLM_KV_AUTO, 1024, 4096);
  assert_true(x.capacity == 512 && x.limit == 512);
  x = sizes_of(&c, CRN_LLM_KV_FIXED, 128, 4096);  // the array keeps its size, the rows are limited
  assert_true(x.capacity == 128 && x.limit == 128);
  crn_llm_states s;
  const crn_llm_states_options growing = {.strategy = CRN_LLM_KV_GROWING, .max_context = 4096};
  test_expect(crn_llm_states_initialize(&s, g_context, &c, &growing), CAIRN_UNSUPPORTED,
              "needs a cache with a dynamic dim; this model's is fixed at 512 rows");
}

// Growing keeps every row of every head and the rest is zero; a plain copy of memory would not do.
static void test_growth(void **state) {
  (void)state;
  model m;
  standard(&m);
  crn_llm_contract c = accept(&m);
  crn_llm_states s;
  const crn_llm_states_options options = {.strategy = CRN_LLM_KV_GROWING, .capacity = 4, .max_context = 20};
  test_expect(crn_llm_states_initialize(&s, g_context, &c, &options), CAIRN_OK, "");
  uint16_t *data = cairn_ndarray_mutable_data(s.arrays[1].array);
  for (int i = 0; i < 4 * 4 * 8; i++) data[i] = (uint16_t)(i + 1);
  test_expect(crn_llm_states_reserve(&s, 4, 4), CAIRN_OK, "");
  assert_int_equal(s.capacity, 4);
  size_t before = s.bytes;
  test_expect(crn_llm_states_reserve(&s, 9, 3), CAIRN_OK, "");
  assert_int_equal(s.capacity, 16);
  assert_int_equal(s.bytes, 4 * before);
  const uint16_t *grown = cairn_ndarray_data(s.arrays[1].array);
  for (int slab = 0; slab < 4; slab++) {
    for (int row = 0; row < 16; row++) {
      for (int i = 0; i < 8; i++) assert_int_equal(grown[(slab * 16 + row) * 8 + i], row < 3 ? (slab * 4 + row) * 8 + i + 1 : 0);
    }
  }
  test_expect(crn_llm_states_reserve(&s, 17, 3), CAIRN_OK, "");
  assert_int_equal(s.capacity, 20);
  test_expect(crn_llm_states_reserve(&s, 21, 3), CAIRN_CONTEXT_FULL, "21 tokens are needed but only 20 fit");
  test_expect(crn_llm_states_zero(&s), CAIRN_OK, "");
  grown = cairn_ndarray_data(s.arrays[1].array);
  for (int i = 0; i < 4 * 20 * 8; i++) assert_int_equal(grown[i], 0);
  crn_llm_states_deinitialize(&s);
}

static void test_growth_steps(void **state) {
  (void)state;
  static const int64_t kCases[][4] = {
      {256, 257, 2048, 512}, {256, 2000, 2048, 2048}, {100, 430, 450, 450}, {256, 300, 100000, 512}, {1, 1000, 100000, 1024}};
  model m;
  standard(&m);
  crn_llm_contract c = accept(&m);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    crn_llm_states s;
    const crn_llm_states_options options = {.strategy = CRN_LLM_KV_GROWING, .capacity = kCases[i][0], .max_context = kCases[i][2]};
    test_expect(crn_llm_states_initialize(&s, g_context, &c, &options), CAIRN_OK, "");
    test_expect(crn_llm_states_reserve(&s, kCases[i][1], 0), CAIRN_OK, "");
    assert_int_equal(s.capacity, kCases[i][3]);
    crn_llm_states_deinitialize(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(test_structures),     TEST(test_standard),          TEST(test_names_before_positions),
      TEST(test_refusals),       TEST(test_other_inputs),      TEST(test_plain_caches),
      TEST(test_stateless),      TEST(test_scales_of_a_cache), TEST(test_state_counts_and_kinds),
      TEST(test_fixed_cache),    TEST(test_one_token),         TEST(test_states_of_metadata),
      TEST(test_strategy_names), TEST(test_capacities),        TEST(test_growth),
      TEST(test_growth_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
