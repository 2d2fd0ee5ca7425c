// Chat templates: the calls themselves, hostile templates, failing memory, several threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <locale.h>
#include <pthread.h>

#include "base/str.h"
#include "cairn/template.h"

static cairn_context *make_context(const cairn_allocator *allocator) {
  cairn_context *context;
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  options.allocator = allocator;
  return cairn_context_create(&options, &context) == CAIRN_OK ? context : NULL;
}

// Sanitizers make a step a hundred times slower; a limit that is a hundred times lower shows the same.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const cairn_template_limits g_hostile_limits = {200000, 64 << 20, 200};
#else
static const cairn_template_limits g_hostile_limits = {20000000, 64 << 20, 200};
#endif

// Compiles and renders; the text goes to `out` (room for 4096 bytes and a NUL).
static cairn_status run(cairn_context *context, const char *source, const char *variables, const cairn_template_limits *limits, char *out) {
  cairn_template *t;
  size_t n = 0;
  cairn_status status = cairn_template_create(context, source, strlen(source), "hostile.jinja", &t);
  if (status != CAIRN_OK) return status;
  status = cairn_template_render(t, variables, strlen(variables), limits, out, 4096, &n);
  out[n < 4096 ? n : 4096] = 0;
  cairn_template_release(t);
  return status;
}

static void test_calls(void **state) {
  (void)state;
  cairn_context *context = make_context(NULL);
  cairn_template *t;
  char text[16] = "..............";
  size_t n;
  assert_int_equal(cairn_template_create(NULL, "", 0, "x", &t), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_template_create(context, NULL, 1, "x", &t), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_template_create(context, "{{ a }} world", 13, NULL, &t), CAIRN_OK);
  cairn_template_retain(t);
  cairn_template_release(t);
  assert_int_equal(cairn_template_render(t, "{\"a\":\"hello\"}", 13, NULL, text, 4, &n), CAIRN_OK);
  assert_int_equal(n, 11);
  assert_memory_equal(text, "hell....", 8);
  assert_int_equal(cairn_template_render(t, "[1]", 3, NULL, text, 4, &n), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_template_render(t, "{\"a\":", 5, NULL, text, 4, &n), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_template_render(t, NULL, 0, NULL, text, 4, &n), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_template_render(t, "{}", 2, NULL, NULL, 4, &n), CAIRN_INVALID_ARGUMENT);
  cairn_template_release(t);
  // The context may go before the template.
  assert_int_equal(cairn_template_create(context, "x", 1, "x", &t), CAIRN_OK);
  cairn_context_release(context);
  assert_int_equal(cairn_template_render(t, "{}", 2, NULL, text, sizeof text, &n), CAIRN_OK);
  assert_int_equal(n, 1);
  cairn_template_release(t);
  cairn_template_release(NULL);
}

static void test_errors_name_the_place(void **state) {
  (void)state;
  static const struct {
    const char *source;
    cairn_status status;
    const char *message;
  } cases[] = {
      {"a\n{% if x %}\n", CAIRN_CORRUPT, "hostile.jinja: line 2: unexpected end of template, looking for 'elif'"},
      {"a\n\n{{ x | nosuch }}", CAIRN_CORRUPT, "hostile.jinja: line 3: no filter named 'nosuch'"},
      {"{{ 'a }}", CAIRN_CORRUPT, "hostile.jinja: line 1: unexpected char '''"},
      {"\xff", CAIRN_CORRUPT, "hostile.jinja: a template must be UTF-8 text"},
      {"\n{% include 'x' %}", CAIRN_UNSUPPORTED, "hostile.jinja: line 2: a chat template cannot use other templates"},
      {"\n\n{{ x.y }}", CAIRN_FAILED_PRECONDITION, "hostile.jinja: line 3: 'x' is undefined"},
      {"{{ ''.__class__.__mro__ }}", CAIRN_FAILED_PRECONDITION,
       "hostile.jinja: line 1: access to attribute '__class__' of 'str' object is unsafe"},
      {"{{ messages.append(1) }}", CAIRN_FAILED_PRECONDITION,
       "hostile.jinja: line 1: access to attribute 'append' of 'list' object is unsafe"},
      {"{{ raise_exception('No ' ~ 'tools!') }}", CAIRN_INVALID_ARGUMENT, "No tools!"},
      {"{{ 9223372036854775807 + 1 }}", CAIRN_FAILED_PRECONDITION, "hostile.jinja: line 1: an integer does not fit in 64 bits"},
  };
  cairn_context *context = make_context(NULL);
  char text[4097];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(run(context, cases[i].source, "{\"messages\":[]}", NULL, text), cases[i].status);
    if (!crn_starts_with(cairn_last_error()->message, cases[i].message)) {
      fail_msg("wanted '%s', got '%s'", cases[i].message, cairn_last_error()->message);
    }
  }
  cairn_context_release(context);
}

static void test_hostile_templates_end(void **state) {
  (void)state;
  static const char *const sources[] = {
      "{{ 'a' * 10**9 }}",
      "{{ [1] * 10**9 }}",
      "{{ range(10**9) }}",
      "{% for i in range(10**5) %}{% for j in range(10**5) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% block b %}{{ self.b() }}{% endblock %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}",
      "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|select %}{% endfor %}{{ ns.g|list }}",
      "{% set ns = namespace(s='aa') %}{% for i in range(50) %}{% set ns.s = ns.s|replace('a', 'aaaaaaaaaa') %}{% endfor %}",
      "{% set x = 'a' * 10**6 %}{% for i in range(10**5) %}{{ 'b' in x }}{% endfor %}",
      "{% set x = 'a' * 10**6 %}{% for i in range(10**5) %}{{ x }}{% endfor %}",
      "{{ 'a'|center(10**12) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:9999999999}'.format(1) }}",
      "{{ [1]|tojson(indent=10**12) }}",
      "{{ [1]|batch(10**12, 0)|list }}",
  };
  cairn_context *context = make_context(NULL);
  char text[4097];
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    if (run(context, sources[i], "{}", &g_hostile_limits, text) != CAIRN_OUT_OF_RANGE) fail_msg("no limit stopped %s", sources[i]);
  }
  cairn_context_release(context);
}

// `count` times `open`, then `middle`, then `count` times `close`.
static char *nested(const char *open, const char *middle, const char *close, int count) {
  crn_str s;
  crn_str_initialize(&s, NULL);
  for (int i = 0; i < count; i++) assert_int_equal(crn_str_puts(&s, open), CAIRN_OK);
  assert_int_equal(crn_str_puts(&s, middle), CAIRN_OK);
  for (int i = 0; i < count; i++) assert_int_equal(crn_str_puts(&s, close), CAIRN_OK);
  char *text = strdup(s.data);
  assert_non_null(text);
  crn_str_deinitialize(&s);
  return text;
}

static void test_nesting_is_limited(void **state) {
  (void)state;
  static const char *const parts[][3] = {{"{{ (", "1", ""},       {"{% if 1 %}", "x", "{% endif %}"}, {"{{ [", "", ""},
                                         {"{% set a %}", "", ""}, {"{% for i in x %}", "", ""},       {"{{ not ", "1", ""},
                                         {"{{ -", "1", ""},       {"{% macro m() %}", "", ""},        {"{{ {1: ", "", ""}};
  static const char *const tails[] = {".a", "|upper", "()", "[0]", " if 1"};
  cairn_context *context = make_context(NULL);
  char text[4097];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    // Only the first opening has the start of the tag where the nesting is inside of one.
    const char *inner = !strncmp(parts[i][0], "{{ ", 3) ? parts[i][0] + 3 : parts[i][0];
    char *body = nested(inner, parts[i][1], parts[i][2], 100000);
    char *source = nested(inner == parts[i][0] ? "" : "{{ ", body, "", 1);
    assert_int_equal(run(context, source, "{}", NULL, text), CAIRN_UNSUPPORTED);
    free(body);
    free(source);
  }
  for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
    char *source = nested("", "{{ a", tails[i], 100000);
    assert_int_equal(run(context, source, "{}", NULL, text), CAIRN_UNSUPPORTED);
    free(source);
  }
  // Long is not deep.
  char *sum = nested("1 + ", "0", "", 10000), *source = nested("{{ ", sum, " }}", 1);
  assert_int_equal(run(context, source, "{}", NULL, text), CAIRN_OK);
  assert_string_equal(text, "10000");
  free(sum);
  free(source);
  cairn_context_release(context);
}

static void test_limits_of_the_caller(void **state) {
  (void)state;
  const char *source = "{% for i in range(50) %}{% if true %}{% if true %}x{% endif %}{% endif %}{% endfor %}";
  cairn_context *context = make_context(NULL);
  char text[4097];
  assert_int_equal(run(context, source, "{}", &(cairn_template_limits){1000000, 50, 10}, text), CAIRN_OK);
  assert_int_equal(strlen(text), 50);
  assert_int_equal(run(context, source, "{}", &(cairn_template_limits){1000000, 49, 10}, text), CAIRN_OUT_OF_RANGE);
  assert_int_equal(run(context, source, "{}", &(cairn_template_limits){100, 50, 10}, text), CAIRN_OUT_OF_RANGE);
  assert_int_equal(run(context, source, "{}", &(cairn_template_limits){1000000, 50, 3}, text), CAIRN_OUT_OF_RANGE);
  // However deep the caller allows, the stack holds.
  const char *deep = "{% macro m(n) %}{{ [m(n + 1)] }}{% endmacro %}{{ m(0) }}";
  assert_int_equal(run(context, deep, "{}", &(cairn_template_limits){100000000, 1000, 1 << 30}, text), CAIRN_OUT_OF_RANGE);
  cairn_context_release(context);
}

static void test_deep_variables(void **state) {
  (void)state;
  cairn_context *context = make_context(NULL);
  char text[4097];
  char *deep = nested("[", "", "]", 1500), *json = nested("{\"a\":", deep, "}", 1);
  assert_int_equal(run(context, "{{ a|length }}", json, NULL, text), CAIRN_OK);
  assert_int_equal(run(context, "{{ a }}", json, NULL, text), CAIRN_OUT_OF_RANGE);
  assert_int_equal(run(context, "{{ a|tojson }}", json, NULL, text), CAIRN_OUT_OF_RANGE);
  assert_int_equal(run(context, "{{ a == [a] }}", json, NULL, text), CAIRN_OUT_OF_RANGE);
  assert_int_equal(run(context, "{{ a|pprint }}", json, NULL, text), CAIRN_OUT_OF_RANGE);
  free(deep);
  free(json);
  // A namespace can hold itself; Python prints such a circle once.
  assert_int_equal(run(context, "{% set n = namespace() %}{% set n.l = [n] %}{{ n.l }}", "{}", NULL, text), CAIRN_OK);
  assert_string_equal(text, "[<Namespace {'l': [...]}>]");
  cairn_context_release(context);
}

static void test_time_and_chance(void **state) {
  (void)state;
  cairn_context *context = make_context(NULL);
  char text[4097];
  assert_int_equal(run(context, "{{ strftime_now('%Y-%m-%d|%f|%z|%Z|100%%') }}", "{}", NULL, text), CAIRN_OK);
  int year, month, day, microsecond;
  assert_int_equal(sscanf(text, "%4d-%2d-%2d|%6d|||100%%", &year, &month, &day, &microsecond), 4);
  assert_true(year >= 2024 && month >= 1 && month <= 12 && day >= 1 && day <= 31);
  assert_int_equal(run(context, "{{ [7]|random }}{{ []|random is defined }}", "{}", NULL, text), CAIRN_OK);
  assert_string_equal(text, "7False");
  cairn_context_release(context);
}

// A process with a decimal comma reads and writes the same numbers.
static void test_locale_has_no_effect(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !setlocale(LC_ALL, names[i]); i++) continue;
  cairn_context *context = make_context(NULL);
  char text[4097];
  assert_int_equal(run(context, "{{ 1.5 + a }} {{ '%.2f' % a }} {{ '2.5'|float }} {{ 2.567|round(1) }}", "{\"a\":0.25}", NULL, text),
                   CAIRN_OK);
  assert_string_equal(text, "1.75 0.25 2.5 2.6");
  cairn_context_release(context);
  setlocale(LC_ALL, "C");
}

// --- failing memory ---------------------------------------------------------------------------------------------------------

typedef struct failing_memory {
  long left, held;
} failing_memory;

static void *failing_alloc(void *self, size_t bytes, size_t align) {
  failing_memory *m = self;
  void *p = NULL;
  if (m->left-- <= 0) return NULL;
  if (posix_memalign(&p, align, bytes ? bytes : 1)) return NULL;
  m->held++;
  return p;
}

static void failing_free(void *self, void *pointer, size_t bytes) {
  (void)bytes;
  if (pointer) ((failing_memory *)self)->held--;
  free(pointer);
}

static void test_every_allocation_may_fail(void **state) {
  (void)state;
  const char *source =
      "{% macro m(a, b=2) %}{{ a ~ b }}{{ caller('c') }}{{ varargs }}{{ kwargs }}{% endmacro %}{% set ns = namespace(n='') %}"
      "{% for x in messages if x is string %}{% set ns.n = ns.n + x|upper %}{{ loop.index }}{% endfor %}{% block b %}{{ ns.n }}{% endblock "
      "%}"
      "{% call(q) m(1, x=3) %}{{ q }}{% endcall %}{{ ('a' * 70000)|length }}{{ {'k': [1, 2]}|tojson }}{% filter trim %} x {% endfilter %}";
  char text[4097];
  bool done = false;
  for (long n = 0; !done; n++) {
    failing_memory memory = {.left = n};
    cairn_allocator allocator = {&memory, failing_alloc, failing_free};
    cairn_context *context = make_context(&allocator);
    cairn_status status = context ? run(context, source, "{\"messages\":[\"ab\",1,\"cd\"]}", NULL, text) : CAIRN_OUT_OF_MEMORY;
    done = status == CAIRN_OK;
    if (!done) assert_int_equal(status, CAIRN_OUT_OF_MEMORY);
    cairn_context_release(context);
    assert_int_equal(memory.held, 0);
    assert_true(n < 1000);
  }
  assert_string_equal(text, "12ABCD12c(){'x': 3}70000{\"k\": [1, 2]}x");
}

// --- threads ------------------------------------------------------------------------------------------------------------------

typedef struct worker {
  const cairn_template *t;
  int id, wrong;
} worker;

static void *render_often(void *self) {
  worker *w = self;
  char json[64], text[256], wanted[256];
  int n_json = snprintf(json, sizeof json, "{\"a\":[%d,\"\u00e9\"]}", w->id);
  int n_wanted = snprintf(wanted, sizeof wanted, "\u00fc1 %d é\u00fc", w->id);
  for (int i = 0; i < 2000; i++) {
    size_t n;
    cairn_status status = cairn_template_render(w->t, json, (size_t)n_json, NULL, text, sizeof text, &n);
    w->wrong += status != CAIRN_OK || n != (size_t)n_wanted || memcmp(text, wanted, n) != 0;
  }
  return NULL;
}

static void test_threads_share_a_template(void **state) {
  (void)state;
  const char *source = "{% set u = '\u00fc' %}{{ u }}{{ u|length }}{% for x in a %} {{ x }}{% endfor %}{{ u[-1:] }}";
  cairn_context *context = make_context(NULL);
  cairn_template *t;
  worker workers[3];
  pthread_t threads[3];
  assert_int_equal(cairn_template_create(context, source, strlen(source), "shared", &t), CAIRN_OK);
  for (int i = 0; i < 3; i++) {
    workers[i] = (worker){.t = t, .id = i};
    assert_int_equal(pthread_create(&threads[i], NULL, render_often, &workers[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].wrong, 0);
  }
  cairn_template_release(t);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_errors_name_the_place),
      cmocka_unit_test(test_hostile_templates_end),
      cmocka_unit_test(test_nesting_is_limited),
      cmocka_unit_test(test_limits_of_the_caller),
      cmocka_unit_test(test_deep_variables),
      cmocka_unit_test(test_time_and_chance),
      cmocka_unit_test(test_locale_has_no_effect),
      cmocka_unit_test(test_every_allocation_may_fail),
      cmocka_unit_test(test_threads_share_a_template),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
