// Chat templates: committed cases, the shared corpus, the models' own templates.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>

#include "base/file.h"
#include "base/str.h"
#include "cairn/template.h"

enum { MAX_FILE_BYTES = 16 << 20 };

typedef struct rendering {
  cairn_status status;
  bool compiled;
  char *text;
  size_t size;
} rendering;

static cairn_context *make_context(void) {
  cairn_context *context;
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  assert_int_equal(cairn_context_create(&options, &context), CAIRN_OK);
  return context;
}

static rendering render(cairn_context *context, const char *source, size_t size, const json_t *variables) {
  rendering out = {0};
  cairn_template *t;
  out.status = cairn_template_create(context, source, size, "test", &t);
  if (out.status != CAIRN_OK) return out;
  out.compiled = true;
  char *json = json_dumps(variables, 0);
  assert_non_null(json);
  out.status = cairn_template_render(t, json, strlen(json), NULL, NULL, 0, &out.size);
  out.text = calloc(1, out.size + 1);
  assert_non_null(out.text);
  if (out.status == CAIRN_OK) {
    size_t again;
    assert_int_equal(cairn_template_render(t, json, strlen(json), NULL, out.text, out.size, &again), CAIRN_OK);
    assert_int_equal(again, out.size);
  }
  free(json);
  cairn_template_release(t);
  return out;
}

static crn_str read_text(const char *path) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  assert_int_equal(crn_file_read(path, MAX_FILE_BYTES, &text), CAIRN_OK);
  return text;
}

static bool exists(const char *path) {
  FILE *f = fopen(path, "r");
  if (f) fclose(f);
  return f != NULL;
}

static void show(const char *label, const json_t *value) {
  char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  print_error("  %s: %s\n", label, text ? text : "-");
  free(text);
}

// Compares with what is expected: a text, or a failure while compiling or rendering.
static bool check(cairn_context *context, const char *source, size_t size, const json_t *variables, const json_t *expected,
                  const char *error) {
  rendering r = render(context, source, size, variables);
  bool ok;
  if (expected) {
    ok = r.status == CAIRN_OK && r.size == json_string_length(expected) && !memcmp(r.text, json_string_value(expected), r.size);
  } else {
    ok = r.status != CAIRN_OK && r.compiled == !strcmp(error, "render");
    ok = ok && (r.compiled || r.status == CAIRN_CORRUPT || r.status == CAIRN_UNSUPPORTED);
  }
  if (!ok) {
    print_error("template: %.*s\n  status %s (%s), text: %s\n", (int)size, source, cairn_status_name(r.status),
                r.status ? cairn_last_error()->message : "", r.text ? r.text : "-");
    show("wanted", expected);
  }
  free(r.text);
  return ok;
}

static json_t *with_defaults(const json_t *defaults, const json_t *more) {
  json_t *all = json_copy((json_t *)defaults);
  assert_non_null(all);
  if (more) assert_int_equal(json_object_update(all, (json_t *)more), 0);
  return all;
}

static bool check_case(cairn_context *context, const json_t *defaults, const json_t *c) {
  const json_t *source = json_object_get(c, "source"), *file = json_object_get(c, "template");
  crn_str text;
  crn_str_initialize(&text, NULL);
  if (file) {
    crn_str path;
    crn_str_initialize(&path, NULL);
    assert_int_equal(crn_str_printf(&path, "%s/template/%s", CAIRN_TEST_DATA, json_string_value(file)), CAIRN_OK);
    text = read_text(path.data);
    crn_str_deinitialize(&path);
  } else {
    assert_int_equal(crn_str_append(&text, json_string_value(source), json_string_length(source)), CAIRN_OK);
  }
  json_t *variables = with_defaults(defaults, json_object_get(c, "variables"));
  const char *error = json_string_value(json_object_get(c, "error"));
  bool ok = check(context, text.data, text.size, variables, json_object_get(c, "expected"), error);
  json_decref(variables);
  crn_str_deinitialize(&text);
  return ok;
}

static void test_committed_cases(void **state) {
  (void)state;
  cairn_context *context = make_context();
  json_t *defaults = json_load_file(CAIRN_TEST_DATA "/template/variables.json", 0, NULL);
  assert_non_null(defaults);
  crn_str lines = read_text(CAIRN_TEST_DATA "/template/cases.jsonl");
  int n = 0, bad = 0;
  for (char *line = lines.data, *next; *line; line = next) {
    next = strchr(line, '\n');
    assert_non_null(next);
    *next++ = 0;
    json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL);
    assert_non_null(c);
    bad += !check_case(context, defaults, c);
    n++;
    json_decref(c);
  }
  assert_true(n > 1000);
  assert_int_equal(bad, 0);
  crn_str_deinitialize(&lines);
  json_decref(defaults);
  cairn_context_release(context);
}

// The error of a case reads "TemplateError: text", and the text is what the record must hold.
static bool check_raised(cairn_context *context, const crn_str *source, const json_t *variables, const char *error) {
  rendering r = render(context, source->data, source->size, variables);
  const char *text = strstr(error, ": ");
  assert_non_null(text);
  bool ok = r.status == CAIRN_INVALID_ARGUMENT && !strcmp(cairn_last_error()->message, text + 2);
  if (!ok) print_error("wanted '%s', got %s\n", error, r.status ? cairn_last_error()->message : r.text);
  free(r.text);
  return ok;
}

static void test_shared_corpus(void **state) {
  (void)state;
  const char *path = CAIRN_SHARED_DATA "/corpus/chat_template/cases.public.json";
  if (!exists(path)) skip();
  cairn_context *context = make_context();
  json_t *cases = json_load_file(path, JSON_ALLOW_NUL, NULL), *c;
  assert_non_null(cases);
  size_t i;
  int bad = 0;
  json_array_foreach(cases, i, c) {
    char file[512];
    snprintf(file, sizeof file, "%s/corpus/chat_template/templates/%s.jinja", CAIRN_SHARED_DATA,
             json_string_value(json_object_get(c, "template")));
    crn_str source = read_text(file);
    json_t *variables = with_defaults(json_object_get(c, "kwargs"), NULL);
    json_object_set(variables, "messages", json_object_get(c, "messages"));
    json_object_set(variables, "tools", json_object_get(c, "tools"));
    const char *error = json_string_value(json_object_get(c, "error"));
    if (error)
      bad += !check_raised(context, &source, variables, error);
    else
      bad += !check(context, source.data, source.size, variables, json_object_get(c, "expected"), NULL);
    json_decref(variables);
    crn_str_deinitialize(&source);
  }
  assert_true(json_array_size(cases) > 0);
  assert_int_equal(bad, 0);
  json_decref(cases);
  cairn_context_release(context);
}

static void test_templates_of_models(void **state) {
  (void)state;
  DIR *models = opendir(CAIRN_SHARED_DATA "/models");
  if (!models) skip();
  cairn_context *context = make_context();
  json_t *variables = json_loads("{\"messages\":[{\"role\":\"user\",\"content\":\"2+2?\"}],\"add_generation_prompt\":true}", 0, NULL);
  int n = 0;
  for (const struct dirent *entry; (entry = readdir(models)) != NULL;) {
    char file[1024];
    snprintf(file, sizeof file, "%s/models/%s/tokenizer/chat_template.jinja", CAIRN_SHARED_DATA, entry->d_name);
    if (!exists(file)) continue;
    crn_str source = read_text(file);
    rendering r = render(context, source.data, source.size, variables);
    assert_int_equal(r.status, CAIRN_OK);
    assert_non_null(strstr(r.text, "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"));
    if (strstr(entry->d_name, "smollm2"))
      assert_true(crn_starts_with(r.text, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM"));
    free(r.text);
    crn_str_deinitialize(&source);
    n++;
  }
  closedir(models);
  assert_true(n > 0);
  json_decref(variables);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_committed_cases),
      cmocka_unit_test(test_shared_corpus),
      cmocka_unit_test(test_templates_of_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
