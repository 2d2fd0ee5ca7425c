/// Guided generation on every engine: texts keep to their grammar, engines agree, ends in the middle are told, logits stay the model's.
#include <jansson.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "cairn/batch.h"
#include "lm.h"

enum { VOCAB = 384 };

typedef struct variant {
  const char *model, *engine, *kv;
} variant;

static const variant kVariants[] = {
    {"tiny-qwen3-macos", "sequential", "growing"}, {"tiny-qwen3-macos", "pipelined", "growing"},
    {"tiny-qwen3-macos", "sequential", "paged"},   {"tiny-qwen3-macos", "pipelined", "paged"},
    {"tiny-mistral-macos", "sequential", "fixed"}, {"tiny-mistral-macos", "pipelined", "fixed"},
    {"tiny-qwen3-ios", "static-shape", "fixed"},   {"tiny-qwen3_vl-vlm", NULL, NULL},
};
#define FOR_EACH_VARIANT(v) for (const variant *v = kVariants; v < kVariants + sizeof kVariants / sizeof *kVariants; v++)

// Bounded, so that a model of random weights comes to an end.
static const char SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"cat\",\"dog\",\"newt\"]},\"age\":{\"type\":\"integer\",\"minimum\":0,"
    "\"maximum\":99},"
    "\"name\":{\"type\":\"string\",\"maxLength\":4},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":2}},"
    "\"required\":[\"kind\",\"age\",\"name\"],\"additionalProperties\":false}";

static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  if (access(LM_MODELS "tiny-qwen3-macos", R_OK) == 0) g_context = lm_context(1);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  if (g_context) cairn_context_release(g_context);
  return 0;
}

static void need_models(void) {
  if (!cairn_grammar_is_available()) skip();
  lm_need(LM_MODELS "tiny-qwen3-macos");
}

static cairn_llm *open_variant(const variant *v) {
  return lm_open(g_context, v->model, &(cairn_llm_options){.engine = v->engine, .kv = v->kv});
}

static cairn_grammar_source guide_of(cairn_grammar_kind kind, const char *text) {
  return (cairn_grammar_source){.kind = kind, .text = text, .text_bytes = strlen(text), .compact = true};
}

static cairn_generate_options options_of(cairn_grammar_kind kind, const char *grammar) {
  return (cairn_generate_options){
      .text = "Hello", .text_bytes = 5, .form = CAIRN_PROMPT_RAW, .max_tokens = 150, .guide = guide_of(kind, grammar)};
}

typedef struct result {
  char text[1024];
  int32_t tokens[160];
  size_t n;
  cairn_stop_reason reason;
  bool guided, complete;
} result;

static result take_result(cairn_generation *g) {
  result r = {.n = 0};
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  assert_true(info.n_tokens <= 160 && info.text_bytes < sizeof r.text);
  memcpy(r.text, info.text, info.text_bytes + 1);
  if (info.n_tokens) memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  r.n = info.n_tokens;
  r.reason = info.stop_reason;
  r.guided = info.guided;
  r.complete = info.guide_complete;
  cairn_generation_destroy(g);
  return r;
}

static result run(cairn_llm *llm, const cairn_generate_options *o) {
  cairn_generation *g;
  LM_OK(cairn_llm_generate(llm, o, &g));
  return take_result(g);
}

static void check_document(const result *r, const char *what) {
  json_error_t error;
  if (!r->guided || !r->complete || r->reason != CAIRN_STOP_EOS) {
    fail_msg("%s: '%s' ended with %s, complete %d", what, r->text, cairn_stop_reason_text(r->reason), r->complete);
  }
  json_t *json = json_loads(r->text, 0, &error);
  if (!json) fail_msg("%s: '%s' is no JSON: %s", what, r->text, error.text);
  const json_t *age = json_object_get(json, "age"), *name = json_object_get(json, "name"), *kind = json_object_get(json, "kind");
  assert_true(json_is_integer(age) && json_integer_value(age) >= 0 && json_integer_value(age) <= 99);
  assert_true(json_is_string(name) && json_is_string(kind));
  assert_non_null(strstr("cat dog newt", json_string_value(kind)));
  assert_true(json_object_size(json) <= 4);
  json_decref(json);
}

// Greedy, and drawn with several seeds and filters.
static void test_documents_on_every_engine(void **state) {
  (void)state;
  need_models();
  FOR_EACH_VARIANT(v) {
    cairn_llm *llm = open_variant(v);
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
    for (uint64_t seed = 0; seed < 6; seed++) {
      o.sampling = (cairn_sampling){.temperature = seed ? 1.5f : 0, .has_seed = true, .seed = seed};
      o.sampling.has_top_p = seed % 2;
      o.sampling.top_p = 0.9f;
      o.sampling.has_repetition_penalty = seed % 3 == 2;
      o.sampling.repetition_penalty = 1.2f;
      const result r = run(llm, &o);
      check_document(&r, v->model);
    }
    cairn_llm_close(llm);
  }
}

static void test_engines_agree(void **state) {
  (void)state;
  need_models();
  for (uint64_t seed = 0; seed < 8; seed++) {
    result first;
    int n = 0;
    FOR_EACH_VARIANT(v) {
      if (strcmp(v->model, "tiny-qwen3-macos") != 0) continue;
      cairn_llm *llm = open_variant(v);
      cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
      o.sampling = (cairn_sampling){.temperature = seed ? 1 : 0, .has_seed = true, .seed = seed};
      o.guide.compact = seed % 2;
      const result r = run(llm, &o);
      if (!n++) first = r;
      assert_int_equal(r.n, first.n);
      assert_memory_equal(r.tokens, first.tokens, r.n * sizeof *r.tokens);
      cairn_llm_close(llm);
    }
  }
}

static void test_batch(void **state) {
  (void)state;
  need_models();
  static const char *const GRAMMARS[] = {SCHEMA, "{\"type\":\"boolean\"}", "{\"enum\":[\"one\",\"two\"]}", SCHEMA};
  cairn_llm *llm = open_variant(&kVariants[0]);
  cairn_llm_batch *batch;
  int64_t ids[4];
  result alone[4];
  LM_OK(cairn_llm_batch_create(llm, NULL, &batch));
  for (int i = 0; i < 4; i++) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", GRAMMARS[i]);
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, copy);
    o.sampling = (cairn_sampling){.temperature = 1, .has_seed = true, .seed = (uint64_t)i};
    alone[i] = run(llm, &o);
    LM_OK(cairn_llm_batch_join(batch, &o, &ids[i]));
    memset(copy, 'x', sizeof copy);  // what it points to is copied
  }
  LM_OK(cairn_llm_batch_run(batch));
  for (int i = 0; i < 4; i++) {
    cairn_generation *g;
    LM_OK(cairn_llm_batch_take(batch, ids[i], &g));
    const result r = take_result(g);
    assert_true(r.complete);
    assert_string_equal(r.text, alone[i].text);
    assert_int_equal(r.n, alone[i].n);
  }
  cairn_llm_batch_destroy(batch);
  cairn_llm_close(llm);
}

static void test_speculation_changes_nothing(void **state) {
  (void)state;
  need_models();
  cairn_llm *llm = open_variant(&kVariants[0]);
  for (uint64_t seed = 0; seed < 6; seed++) {
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
    o.sampling = (cairn_sampling){.temperature = seed ? 1 : 0, .has_seed = true, .seed = seed};
    const result plain = run(llm, &o);
    o.speculation = (cairn_speculation){.mode = CAIRN_SPECULATION_LOOKUP, .always = true};
    const result drafted = run(llm, &o);
    assert_string_equal(drafted.text, plain.text);
    assert_int_equal(drafted.n, plain.n);
    assert_true(drafted.complete);
  }
  cairn_llm_close(llm);
}

// --- ends ---------------------------------------------------------------------------------------------------------------------------

static bool leave_after_two(void *user, const cairn_token_event *event) {
  (void)user;
  return event->index < 1;
}

static void test_incomplete_is_told(void **state) {
  (void)state;
  need_models();
  FOR_EACH_VARIANT(v) {
    cairn_llm *llm = open_variant(v);
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
    o.max_tokens = 3;
    result r = run(llm, &o);
    assert_int_equal(r.reason, CAIRN_STOP_MAX_TOKENS);
    assert_true(r.guided && !r.complete);
    o.max_tokens = 100;
    o.on_token = leave_after_two;
    r = run(llm, &o);
    assert_int_equal(r.reason, CAIRN_STOP_CANCELLED);
    assert_true(r.guided && !r.complete);
    // The engine is as good as new.
    o.on_token = NULL;
    r = run(llm, &o);
    check_document(&r, v->model);
    // A text that may go on, but need not, is complete.
    o = options_of(CAIRN_GRAMMAR_REGEX, "[a-z]*");
    o.max_tokens = 2;
    r = run(llm, &o);
    assert_true(r.complete);
    cairn_llm_close(llm);
  }
}

// A text that can be read in ever more ways: masks take ever longer, seconds after fifty tokens.
static const char AMBIGUOUS[] = "root ::= x{1,3000} \"END\"\nx ::= y{1,120} [ -~]?\ny ::= z{1,100} | \"(\" root \")\"\nz ::= [ -~]{1,50}";

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct slowness {
  double last, took;  // when the last token came, and how long it took
} slowness;

static bool measure(void *user, const cairn_token_event *event) {
  slowness *s = user;
  const double now = seconds_now();
  (void)event;
  s->took = s->last > 0 ? now - s->last : 0;
  s->last = now;
  return true;
}

// Once a token was slow, soon after the next mask has begun.
static bool is_slow(void *user) {
  const slowness *s = user;
  return s->took > 0.2 && seconds_now() > s->last + 0.1 * s->took;
}

// The next mask would have taken longer than the last one.
static void check_cancelled(const slowness *s, cairn_stop_reason reason, const char *what) {
  const double took = seconds_now() - s->last;
  assert_int_equal(reason, CAIRN_STOP_CANCELLED);
  if (took > 0.8 * s->took) fail_msg("%s: cancelled %.3f s after the last token, which took %.3f s", what, took, s->took);
}

// Cancelling is heard while a mask is made.
static void test_cancel_in_a_mask(void **state) {
  (void)state;
  need_models();
  for (size_t i = 0; i < 2; i++) {
    cairn_llm *llm = open_variant(&kVariants[i]);
    slowness s = {0};
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_EBNF, AMBIGUOUS);
    o.on_token = measure;
    o.should_cancel = is_slow;
    o.user = &s;
    result r = run(llm, &o);
    check_cancelled(&s, r.reason, kVariants[i].engine);
    // The engine is as good as new.
    o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
    r = run(llm, &o);
    check_document(&r, kVariants[i].model);
    cairn_llm_close(llm);
  }
}

static void test_nothing_may_follow(void **state) {
  (void)state;
  need_models();
  FOR_EACH_VARIANT(v) {
    cairn_llm *llm = open_variant(v);
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_REGEX, "(yes|no)!");
    result r = run(llm, &o);
    assert_int_equal(r.reason, CAIRN_STOP_EOS);
    assert_true(r.complete);
    // Without an id that ends a text the end is the grammar's.
    o.ignore_eos = true;
    r = run(llm, &o);
    assert_int_equal(r.reason, CAIRN_STOP_GRAMMAR);
    assert_true(r.complete);
    assert_true(!strcmp(r.text, "yes!") || !strcmp(r.text, "no!"));
    o.guide = guide_of(CAIRN_GRAMMAR_REGEX, "");
    r = run(llm, &o);
    assert_int_equal(r.reason, CAIRN_STOP_GRAMMAR);
    assert_int_equal(r.n, 0);
    assert_true(r.complete);
    cairn_llm_close(llm);
  }
}

static void test_stop_text_in_the_middle(void **state) {
  (void)state;
  need_models();
  static const char *const STOP[] = {"\"age\""};
  cairn_llm *llm = open_variant(&kVariants[0]);
  cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
  o.stop = STOP;
  o.n_stop = 1;
  const result r = run(llm, &o);
  assert_int_equal(r.reason, CAIRN_STOP_SEQUENCE);
  assert_true(r.guided && !r.complete);
  cairn_llm_close(llm);
}

// --- logits and refusals --------------------------------------------------------------------------------------------------------------

static void test_rows_are_the_models(void **state) {
  (void)state;
  need_models();
  FOR_EACH_VARIANT(v) {
    lm_rows rows = {0};
    cairn_llm *llm = open_variant(v);
    cairn_generate_options o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
    o.on_logits = lm_keep_row;
    o.user = &rows;
    run(llm, &o);
    assert_true(rows.n > 4);
    for (int64_t i = 0; i < rows.n * rows.width; i++) assert_true(isfinite(rows.data[i]));
    lm_rows_free(&rows);
    cairn_llm_close(llm);
  }
}

static void test_refusals(void **state) {
  (void)state;
  need_models();
  cairn_llm *llm = open_variant(&kVariants[0]);
  cairn_generation *g;
  cairn_generate_options o = options_of(CAIRN_GRAMMAR_REGEX, "[");
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "'[' without ']'");
  assert_null(g);
  o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"uniqueItems\":true}");
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_UNSUPPORTED, "uniqueItems");
  o = options_of(CAIRN_GRAMMAR_JSON, "");
  o.forced = (const int32_t[]){1};
  o.n_forced = 1;
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INVALID_ARGUMENT, "forced");
  o = options_of(CAIRN_GRAMMAR_JSON_SCHEMA, SCHEMA);
  const result r = run(llm, &o);
  check_document(&r, "after refusals");
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_documents_on_every_engine),
      cmocka_unit_test(test_engines_agree),
      cmocka_unit_test(test_batch),
      cmocka_unit_test(test_speculation_changes_nothing),
      cmocka_unit_test(test_incomplete_is_told),
      cmocka_unit_test(test_cancel_in_a_mask),
      cmocka_unit_test(test_nothing_may_follow),
      cmocka_unit_test(test_stop_text_in_the_middle),
      cmocka_unit_test(test_rows_are_the_models),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("guided generation", tests, set_up, tear_down);
}
