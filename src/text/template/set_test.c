// Sets of templates: where they are found, which one is used, and conversations that are continued.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cairn/template.h"

static cairn_context *g_context;
static char g_folder[64];

static int set_up(void **state) {
  cairn_context_options options;
  (void)state;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-set-XXXXXX");
  return mkdtemp(g_folder) && cairn_context_create(&options, &g_context) == CAIRN_OK ? 0 : -1;
}

static int tear_down(void **state) {
  static const char *const kFiles[] = {"chat_template.jinja",
                                       "chat_template.json",
                                       "tokenizer_config.json",
                                       "additional_chat_templates/rag.jinja",
                                       "additional_chat_templates/tool_use.jinja",
                                       "additional_chat_templates/notes.txt",
                                       "additional_chat_templates",
                                       ""};
  char path[128];
  (void)state;
  for (size_t i = 0; i < sizeof kFiles / sizeof *kFiles; i++) {
    snprintf(path, sizeof path, "%s/%s", g_folder, kFiles[i]);
    if (unlink(path) != 0) rmdir(path);
  }
  cairn_context_release(g_context);
  return 0;
}

static void put(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", g_folder, name);
  assert_int_equal(crn_file_replace(path, text, strlen(text)), CAIRN_OK);
}

static void make_folder(void) {
  char path[128];
  snprintf(path, sizeof path, "%s/additional_chat_templates", g_folder);
  assert_int_equal(crn_make_directories(path), CAIRN_OK);
}

static cairn_template_set *open_set(void) {
  cairn_template_set *set;
  assert_int_equal(cairn_template_set_open(g_context, g_folder, &set), CAIRN_OK);
  return set;
}

static void expect_source(const cairn_template_set *set, const char *name, bool tools, const char *source) {
  const char *got;
  size_t n;
  assert_int_equal(cairn_template_set_pick(set, name, tools, NULL, &got, &n), CAIRN_OK);
  assert_int_equal(n, strlen(source));
  assert_memory_equal(got, source, n);
}

static cairn_status render(const cairn_template_set *set, const char *conversation, char out[512]) {
  size_t n = 0;
  memset(out, 0, 512);
  cairn_status status = cairn_template_set_render(set, conversation, strlen(conversation), "{\"bos_token\":\"<s>\"}", NULL, out, 511, &n);
  assert_true(n < 512);
  return status;
}

static void expect_error(const char *part) { assert_non_null(strstr(cairn_last_error()->message, part)); }

// --- places -----------------------------------------------------------------------------------------------------------

static void test_places(void **state) {
  cairn_template_set *set = (cairn_template_set *)state;
  assert_int_equal(cairn_template_set_open(g_context, g_folder, &set), CAIRN_NOT_FOUND);
  assert_null(set);
  put("chat_template.json", "{\"chat_template\":\"legacy\"}");
  set = open_set();
  expect_source(set, NULL, true, "legacy");
  cairn_template_set_release(set);
  put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"},{\"name\":\"default\",\"template\":\"D\"},7]}");
  set = open_set();
  assert_int_equal(cairn_template_set_count(set), 2);
  assert_string_equal(cairn_template_set_name(set, 1), "default");
  assert_null(cairn_template_set_name(set, 2));
  expect_source(set, NULL, true, "D");
  expect_source(set, "rag", false, "R");
  cairn_template_set_release(set);
}

static void test_files_come_first(void **state) {
  (void)state;
  put("tokenizer_config.json",
      "{\"chat_template\":[{\"name\":\"default\",\"template\":\"C\"},{\"name\":\"tool_use\",\"template\":\"CT\"}]}");
  put("chat_template.jinja", "F");
  cairn_template_set *set = open_set();
  expect_source(set, NULL, true, "F");
  cairn_template_set_release(set);
  make_folder();
  put("additional_chat_templates/tool_use.jinja", "FT");
  put("additional_chat_templates/notes.txt", "no template");
  set = open_set();
  assert_int_equal(cairn_template_set_count(set), 2);
  expect_source(set, NULL, true, "FT");
  expect_source(set, NULL, false, "F");
  cairn_template_set_release(set);
}

static void test_no_default(void **state) {
  (void)state;
  make_folder();
  put("additional_chat_templates/rag.jinja", "R");
  cairn_template_set *set = open_set();
  assert_int_equal(cairn_template_set_pick(set, NULL, false, NULL, NULL, NULL), CAIRN_NOT_FOUND);
  expect_error("name one of: rag");
  assert_int_equal(cairn_template_set_pick(set, "default", false, NULL, NULL, NULL), CAIRN_NOT_FOUND);
  expect_error("'default'");
  cairn_template_set_release(set);
}

// A broken template is told when it is used, and does not keep others from being used.
static void test_broken(void **state) {
  const cairn_template *t;
  char out[512];
  (void)state;
  put("tokenizer_config.json",
      "{\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},{\"name\":\"rag\",\"template\":\"{% for %}\"}]}");
  cairn_template_set *set = open_set();
  assert_int_equal(render(set, "[]", out), CAIRN_OK);
  assert_string_equal(out, "D");
  assert_int_equal(cairn_template_set_pick(set, "rag", false, &t, NULL, NULL), CAIRN_CORRUPT);
  assert_int_equal(render(set, "{\"messages\":[],\"chat_template\":\"rag\"}", out), CAIRN_CORRUPT);
  expect_error("tokenizer_config.json");
  cairn_template_set_release(set);
}

// --- conversations ----------------------------------------------------------------------------------------------------

static cairn_template_set *set_of(const char *source) {
  cairn_template_set *set;
  assert_int_equal(cairn_template_set_create(g_context, source, strlen(source), "test", &set), CAIRN_OK);
  return set;
}

static void test_variables(void **state) {
  char out[512];
  (void)state;
  cairn_template_set *set = set_of(
      "{{ bos_token }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ chat_template is defined }}"
      "{{ continue_final_message is defined }}{{ messages | length }}");
  assert_int_equal(render(set, "[1,2]", out), CAIRN_OK);
  assert_string_equal(out, "<s>TrueTrueFalseFalseFalse2");
  assert_int_equal(render(set, "{\"messages\":[],\"bos_token\":\"B\",\"chat_template\":\"default\",\"continue_final_message\":false}", out),
                   CAIRN_OK);
  assert_string_equal(out, "BTrueTrueFalseFalseFalse0");
  assert_int_equal(render(set, "{\"messages\":3}", out), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(render(set, "3", out), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(render(set, "[", out), CAIRN_INVALID_ARGUMENT);
  cairn_template_set_release(set);
}

#define LOOP(what) "{% for m in messages %}<{{ m.role }}>{{ " what " }}</>{% endfor %}"
#define ASK(more) "{\"continue_final_message\":true,\"messages\":[{\"role\":\"u\",\"content\":\"q\"},{\"role\":\"a\"," more "}]}"

static void expect_continued(const char *source, const char *conversation, const char *expected) {
  char out[512];
  cairn_template_set *set = set_of(source);
  cairn_status status = render(set, conversation, out);
  if (status != CAIRN_OK) print_error("%s\n", cairn_last_error()->message);
  assert_int_equal(status, CAIRN_OK);
  assert_string_equal(out, expected);
  cairn_template_set_release(set);
}

static void test_continue(void **state) {
  (void)state;
  expect_continued(LOOP("m.content"), ASK("\"content\":\"one, two\""), "<u>q</><a>one, two");
  expect_continued(LOOP("m.content"), ASK("\"content\":\" one \""), "<u>q</><a> one ");
  expect_continued(LOOP("m.content | trim"), ASK("\"content\":\" one \\u3000\""), "<u>q</><a>one");
  expect_continued(LOOP("m.content"), ASK("\"content\":\"\""), "<u>q</><a>");
  // The text may be in the conversation before; its last place counts.
  expect_continued(LOOP("m.content"), ASK("\"content\":\"q\""), "<u>q</><a>q");
  expect_continued("{% for m in messages %}{{ m.content if m.content is string else m.content[0].text }}</>{% endfor %}",
                   ASK("\"content\":[{\"type\":\"text\",\"text\":\"part\"},{\"type\":\"image\"}]"), "q</>part");
  expect_continued("{{ messages[-1].thoughts }}</>{{ messages[-1].content }}",
                   "{\"continue_final_message\":\"thoughts\",\"messages\":[{\"thoughts\":\"hm\",\"content\":\"c\"}]}", "hm");
}

static void refuse_continued(const char *source, const char *conversation, const char *part) {
  char out[512];
  cairn_template_set *set = set_of(source);
  assert_int_equal(render(set, conversation, out), CAIRN_INVALID_ARGUMENT);
  expect_error(part);
  cairn_template_set_release(set);
}

static void test_continue_refusals(void **state) {
  (void)state;
  refuse_continued(LOOP("m.content"), "{\"continue_final_message\":true,\"messages\":[]}", "no last message");
  refuse_continued(LOOP("m.content"), ASK("\"content\":null"), "no 'content'");
  refuse_continued(LOOP("m.content"), ASK("\"content\":7"), "no text");
  refuse_continued(LOOP("m.content"), ASK("\"content\":[{\"type\":\"image\"}]"), "no part");
  refuse_continued(LOOP("m.role"), ASK("\"content\":\"x\""), "'content' is nothing the chat template looks at");
  refuse_continued("{{ messages[0].content }}", ASK("\"content\":\"x\""), "does not appear");
  refuse_continued(LOOP("m.content"), "{\"continue_final_message\":true,\"add_generation_prompt\":true,\"messages\":[{\"content\":\"x\"}]}",
                   "only one of the two");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {TEST(test_places),    TEST(test_files_come_first), TEST(test_no_default),       TEST(test_broken),
                                     TEST(test_variables), TEST(test_continue),         TEST(test_continue_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
