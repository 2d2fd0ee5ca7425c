// Dialogues: each format, malformed calls, limits; and every case cut at every place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "cairn/dialogue.h"
#include "text/dialogue/dialogue_cases.h"

static cairn_context *g_context;

static int set_up(void **state) {
  cairn_context_options options;
  (void)state;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  return cairn_context_create(&options, &g_context) == CAIRN_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

// --- what the events add up to ----------------------------------------------------------------------------------------

typedef struct heard {
  crn_str content, reasoning, order;
  crn_str calls;  // "name(id)arguments;" of complete calls
  crn_str open;   // arguments of the open call
  char open_name[256];
  bool is_open;
  int n_calls;
} heard;

static void hear(void *user, const cairn_dialogue_event *e) {
  static const char kOrder[] = "crbaex";
  heard *h = user;
  char kind = kOrder[e->kind];
  // How much of a call that is none was given out before it was known depends on the cuts.
  if (kind == 'x' && h->order.data[h->order.size - 1] == 'a') h->order.data[--h->order.size] = 0;
  // Deltas next to each other are one.
  if (!h->order.size || h->order.data[h->order.size - 1] != kind || strchr("bex", kind)) assert_int_equal(crn_str_putc(&h->order, kind), 0);
  switch (e->kind) {
    case CAIRN_DIALOGUE_CONTENT:
      assert_int_equal(crn_str_append(&h->content, e->text, e->text_bytes), 0);
      break;
    case CAIRN_DIALOGUE_REASONING:
      assert_int_equal(crn_str_append(&h->reasoning, e->text, e->text_bytes), 0);
      break;
    case CAIRN_DIALOGUE_TOOL_BEGIN:
      assert_false(h->is_open);
      assert_int_equal(e->index, h->n_calls);
      h->is_open = true;
      snprintf(h->open_name, sizeof h->open_name, "%s", e->name);
      crn_str_clear(&h->open);
      break;
    case CAIRN_DIALOGUE_TOOL_ARGUMENTS:
      assert_true(h->is_open && e->index == h->n_calls && e->text_bytes);
      assert_string_equal(e->name, h->open_name);
      assert_int_equal(crn_str_append(&h->open, e->text, e->text_bytes), 0);
      break;
    case CAIRN_DIALOGUE_TOOL_END:
      assert_true(h->is_open && e->index == h->n_calls);
      assert_int_equal(crn_str_printf(&h->calls, "%s(%s)%s;", e->name, e->id ? e->id : "", h->open.data), 0);
      h->is_open = false;
      h->n_calls++;
      break;
    case CAIRN_DIALOGUE_TOOL_CANCEL:
      assert_true(h->is_open && e->index == h->n_calls);
      h->is_open = false;
      break;
  }
}

static void start_hearing(heard *h) {
  *h = (heard){0};
  crn_str *const kTexts[] = {&h->content, &h->reasoning, &h->order, &h->calls, &h->open};
  for (int i = 0; i < 5; i++) crn_str_initialize(kTexts[i], NULL);
}

static void stop_hearing(heard *h) {
  crn_str *const kTexts[] = {&h->content, &h->reasoning, &h->order, &h->calls, &h->open};
  for (int i = 0; i < 5; i++) crn_str_deinitialize(kTexts[i]);
}

static void check_result(const cairn_dialogue *d, const heard *h) {
  cairn_dialogue_result r;
  crn_str calls;
  crn_str_initialize(&calls, NULL);
  cairn_dialogue_get(d, &r);
  assert_string_equal(r.content, h->content.data);
  assert_int_equal(r.content_bytes, h->content.size);
  assert_string_equal(r.reasoning, h->reasoning.data);
  assert_int_equal(r.reasoning_bytes, h->reasoning.size);
  for (int i = 0; i < r.n_calls; i++) {
    assert_int_equal(strlen(r.calls[i].arguments), r.calls[i].arguments_bytes);
    assert_int_equal(crn_str_printf(&calls, "%s(%s)%s;", r.calls[i].name, r.calls[i].id ? r.calls[i].id : "", r.calls[i].arguments), 0);
  }
  assert_string_equal(calls.data, h->calls.data);
  assert_false(h->is_open);
  assert_true(r.n_warnings >= r.n_malformed);
  crn_str_deinitialize(&calls);
}

static cairn_dialogue_options options_of(const dialogue_case *c, heard *h) {
  return (cairn_dialogue_options){.format = c->format,
                                  .prompt = c->prompt,
                                  .prompt_bytes = c->prompt ? strlen(c->prompt) : 0,
                                  .tools = c->tools,
                                  .tools_bytes = c->tools ? strlen(c->tools) : 0,
                                  .trim = c->trim,
                                  .on_event = hear,
                                  .user = h};
}

// Cuts the text at two places (equal ones: at one) and gives what was heard.
static void run_cut(const dialogue_case *c, size_t first, size_t second, heard *h) {
  cairn_dialogue *d;
  size_t n = strlen(c->text);
  const size_t ends[] = {0, first, second, n};
  start_hearing(h);
  cairn_dialogue_options options = options_of(c, h);
  assert_int_equal(cairn_dialogue_create(g_context, &options, &d), CAIRN_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(cairn_dialogue_push(d, c->text + ends[i], ends[i + 1] - ends[i]), CAIRN_OK);
  assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
  check_result(d, h);
  cairn_dialogue_destroy(d);
}

static void run_bytes(const dialogue_case *c, heard *h) {
  cairn_dialogue *d;
  start_hearing(h);
  cairn_dialogue_options options = options_of(c, h);
  assert_int_equal(cairn_dialogue_create(g_context, &options, &d), CAIRN_OK);
  for (const char *p = c->text; *p; p++) assert_int_equal(cairn_dialogue_push(d, p, 1), CAIRN_OK);
  assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
  check_result(d, h);
  cairn_dialogue_destroy(d);
}

static void assert_same(const dialogue_case *c, const heard *a, const heard *b) {
  if (strcmp(a->order.data, b->order.data) != 0) print_error("%s\n", c->text);
  assert_string_equal(a->order.data, b->order.data);
  assert_string_equal(a->content.data, b->content.data);
  assert_string_equal(a->reasoning.data, b->reasoning.data);
  assert_string_equal(a->calls.data, b->calls.data);
}

static void test_cases(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof g_cases / sizeof *g_cases; i++) {
    const dialogue_case *c = &g_cases[i];
    heard h;
    size_t n = strlen(c->text);
    run_cut(c, n, n, &h);
    bool same = !strcmp(h.content.data, c->content) && !strcmp(h.reasoning.data, c->reasoning) && !strcmp(h.calls.data, c->calls);
    if (!same) {
      print_error("%s:\n  %s\n  content   '%s'\n  expected  '%s'\n  reasoning '%s'\n  expected  '%s'\n  calls     %s\n  expected  %s\n",
                  cairn_dialogue_format_text(c->format), c->text, h.content.data, c->content, h.reasoning.data, c->reasoning, h.calls.data,
                  c->calls);
      wrong++;
    }
    stop_hearing(&h);
  }
  assert_int_equal(wrong, 0);
}

// Every case cut at every place, at every pair of places, and into single bytes.
static void test_cuts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof g_cases / sizeof *g_cases; i++) {
    const dialogue_case *c = &g_cases[i];
    heard whole, h;
    size_t n = strlen(c->text);
    run_cut(c, n, n, &whole);
    for (size_t first = 0; first <= n; first++) {
      for (size_t second = first; second <= n; second += n > 90 && first != second ? 13 : 1) {
        run_cut(c, first, second, &h);
        assert_same(c, &whole, &h);
        stop_hearing(&h);
      }
    }
    run_bytes(c, &h);
    assert_same(c, &whole, &h);
    stop_hearing(&h);
    stop_hearing(&whole);
  }
}

// --- malformed calls, limits ------------------------------------------------------------------------------------------

static void test_malformed_is_told(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof g_cases / sizeof *g_cases; i++) {
    const dialogue_case *c = &g_cases[i];
    cairn_dialogue *d;
    cairn_dialogue_result r;
    heard h;
    start_hearing(&h);
    cairn_dialogue_options options = options_of(c, &h);
    assert_int_equal(cairn_dialogue_create(g_context, &options, &d), CAIRN_OK);
    assert_int_equal(cairn_dialogue_push(d, c->text, strlen(c->text)), CAIRN_OK);
    assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
    cairn_dialogue_get(d, &r);
    if (r.n_malformed != c->n_malformed) print_error("%s: %d malformed\n", c->text, r.n_malformed);
    assert_int_equal(r.n_malformed, c->n_malformed);
    cairn_dialogue_destroy(d);
    stop_hearing(&h);
  }
}

static cairn_status push_all(const cairn_dialogue_options *options, const char *text) {
  cairn_dialogue *d;
  assert_int_equal(cairn_dialogue_create(g_context, options, &d), CAIRN_OK);
  cairn_status status = cairn_dialogue_push(d, text, strlen(text));
  if (status == CAIRN_OK) {
    status = cairn_dialogue_finish(d);
  } else {
    assert_int_equal(cairn_dialogue_push(d, "x", 1), CAIRN_FAILED_PRECONDITION);
    assert_int_equal(cairn_dialogue_finish(d), CAIRN_FAILED_PRECONDITION);
  }
  cairn_dialogue_destroy(d);
  return status;
}

static void test_limits(void **state) {
  (void)state;
  cairn_dialogue_options o = {.format = CAIRN_DIALOGUE_HERMES, .max_depth = 3, .max_call_bytes = 80, .max_calls = 2};
  const char *call = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[[1]]}}</tool_call>";
  crn_str three;
  assert_int_equal(push_all(&o, call), CAIRN_OK);
  assert_int_equal(push_all(&o, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[[[1]]]}}</tool_call>"), CAIRN_OUT_OF_RANGE);
  assert_int_equal(push_all(&o, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"0123456789012345678901234567890123456789\"}}"),
                   CAIRN_OUT_OF_RANGE);
  crn_str_initialize(&three, NULL);
  assert_int_equal(crn_str_printf(&three, "%s%s%s", call, call, call), CAIRN_OK);
  assert_int_equal(push_all(&o, three.data), CAIRN_OUT_OF_RANGE);
  crn_str_deinitialize(&three);
}

static void test_options_are_checked(void **state) {
  (void)state;
  cairn_dialogue *d = (cairn_dialogue *)&d;
  const cairn_dialogue_options kBad[] = {{.reasoning_open = "<a>"},
                                         {.reasoning_open = "", .reasoning_close = "x"},
                                         {.max_depth = 251},
                                         {.max_calls = -1},
                                         {.format = (cairn_dialogue_format)99},
                                         {.tools = "{}", .tools_bytes = 2},
                                         {.tools = "[", .tools_bytes = 1}};
  for (size_t i = 0; i < sizeof kBad / sizeof *kBad; i++) {
    assert_int_equal(cairn_dialogue_create(g_context, &kBad[i], &d), CAIRN_INVALID_ARGUMENT);
    assert_null(d);
  }
  cairn_dialogue_format format;
  assert_int_equal(cairn_dialogue_format_parse("qwen-coder", &format), CAIRN_OK);
  assert_int_equal(format, CAIRN_DIALOGUE_QWEN_CODER);
  assert_int_equal(cairn_dialogue_format_parse("json", &format), CAIRN_INVALID_ARGUMENT);
}

// Text goes out at once unless it can still become a marker.
static void test_hold_back(void **state) {
  (void)state;
  static const struct {
    const char *text, *given;
  } kSteps[] = {{"abc", "abc"}, {"ab<", "ab"}, {"ab<thi", "ab"}, {"a<b", "a<b"}, {"a <tool_cal", "a "}, {"\xc3", ""}, {"a\xe2\x82", "a"}};
  for (size_t i = 0; i < sizeof kSteps / sizeof *kSteps; i++) {
    cairn_dialogue *d;
    heard h;
    start_hearing(&h);
    const cairn_dialogue_options o = {.format = CAIRN_DIALOGUE_HERMES, .on_event = hear, .user = &h};
    assert_int_equal(cairn_dialogue_create(g_context, &o, &d), CAIRN_OK);
    assert_int_equal(cairn_dialogue_push(d, kSteps[i].text, strlen(kSteps[i].text)), CAIRN_OK);
    assert_string_equal(h.content.data, kSteps[i].given);
    assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
    assert_string_equal(h.content.data, kSteps[i].text);
    cairn_dialogue_destroy(d);
    stop_hearing(&h);
  }
}

// Arguments go out while the call is being written.
static void test_arguments_stream(void **state) {
  (void)state;
  cairn_dialogue *d;
  heard h;
  const char *text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"some te";
  start_hearing(&h);
  const cairn_dialogue_options o = {.format = CAIRN_DIALOGUE_HERMES, .on_event = hear, .user = &h};
  assert_int_equal(cairn_dialogue_create(g_context, &o, &d), CAIRN_OK);
  assert_int_equal(cairn_dialogue_push(d, text, strlen(text)), CAIRN_OK);
  assert_true(h.is_open);
  assert_string_equal(h.open.data, "{\"a\":\"some te");
  assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
  assert_false(h.is_open);
  assert_string_equal(h.order.data, "bxc");
  assert_string_equal(h.content.data, text);
  cairn_dialogue_destroy(d);
  stop_hearing(&h);
}

// --- memory -----------------------------------------------------------------------------------------------------------

typedef struct failing {
  int left;  // allocations that still succeed
  int n_held;
} failing;

static void *failing_alloc(void *self, size_t bytes, size_t align) {
  failing *f = self;
  void *p = NULL;
  if (f->left-- <= 0 || posix_memalign(&p, align, bytes ? bytes : 1) != 0) return NULL;
  f->n_held++;
  return p;
}

static void failing_free(void *self, void *pointer, size_t bytes) {
  (void)bytes;
  if (pointer) ((failing *)self)->n_held--;
  free(pointer);
}

static cairn_status run_with(cairn_context *context, const dialogue_case *c, const cairn_dialogue_options *options) {
  cairn_dialogue *d;
  cairn_status status = cairn_dialogue_create(context, options, &d);
  if (status != CAIRN_OK) return status;
  for (const char *p = c->text; *p && status == CAIRN_OK; p++) status = cairn_dialogue_push(d, p, 1);
  if (status == CAIRN_OK) status = cairn_dialogue_finish(d);
  cairn_dialogue_destroy(d);
  return status;
}

// Wherever memory runs out, the result is a status and nothing is left behind.
static void test_out_of_memory(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof g_cases / sizeof *g_cases; i++) {
    failing f = {.left = 1 << 30};
    const cairn_allocator allocator = {&f, failing_alloc, failing_free};
    cairn_context_options o;
    cairn_context *context;
    cairn_context_options_initialize(&o);
    o.n_threads = 1;
    o.allocator = &allocator;
    assert_int_equal(cairn_context_create(&o, &context), CAIRN_OK);
    int before = f.n_held;
    cairn_status status = CAIRN_OUT_OF_MEMORY;
    cairn_dialogue_options options = options_of(&g_cases[i], NULL);
    options.on_event = NULL;
    for (int n = 0; status == CAIRN_OUT_OF_MEMORY; n++) {
      f.left = n;
      status = run_with(context, &g_cases[i], &options);
      assert_int_equal(f.n_held, before);
    }
    assert_int_equal(status, CAIRN_OK);
    f.left = 1 << 30;
    cairn_context_release(context);
    assert_int_equal(f.n_held, 0);
  }
}

static void test_detection(void **state) {
  (void)state;
  static const struct {
    const char *source;
    cairn_dialogue_format format;
  } kSources[] = {{"", CAIRN_DIALOGUE_GENERIC},
                  {"x <tool_call>\n{\"name\"", CAIRN_DIALOGUE_HERMES},
                  {"<tool_call>\n<function=example>\n<parameter=p>", CAIRN_DIALOGUE_QWEN_CODER},
                  {"<|start|>assistant<|channel|>analysis<|message|>", CAIRN_DIALOGUE_HARMONY},
                  {"to=self<|message|> <|eom|> <|eot|>", CAIRN_DIALOGUE_AGENTIC},
                  {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", CAIRN_DIALOGUE_DEEPSEEK},
                  {"[TOOL_CALLS]", CAIRN_DIALOGUE_MISTRAL},
                  {"Environment: ipython", CAIRN_DIALOGUE_LLAMA3},
                  {"<start_of_turn>model", CAIRN_DIALOGUE_GEMMA},
                  {"<start_of_turn><start_function_call>", CAIRN_DIALOGUE_FUNCTIONGEMMA},
                  {"<|tool_call>call:", CAIRN_DIALOGUE_GEMMA4}};
  for (size_t i = 0; i < sizeof kSources / sizeof *kSources; i++) {
    assert_int_equal(cairn_dialogue_detect(kSources[i].source, strlen(kSources[i].source), NULL), kSources[i].format);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                     cmocka_unit_test(test_cuts),
                                     cmocka_unit_test(test_malformed_is_told),
                                     cmocka_unit_test(test_limits),
                                     cmocka_unit_test(test_options_are_checked),
                                     cmocka_unit_test(test_hold_back),
                                     cmocka_unit_test(test_arguments_stream),
                                     cmocka_unit_test(test_out_of_memory),
                                     cmocka_unit_test(test_detection)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
