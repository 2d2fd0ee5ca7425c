// What is malformed in a schema is refused with its place and with what would be accepted, wherever it stands.
#include "text/tokenizer/test_support.h"

#include "cairn/grammar.h"

static json_t *cases;

static int setup(void **state) {
  *state = test_context();
  cases = test_json_file(CAIRN_TEST_DATA "/grammar/keywords.json");
  return 0;
}

static int teardown(void **state) {
  json_decref(cases);
  cairn_context_release(*state);
  return 0;
}

static cairn_status check(cairn_context *context, const json_t *schema, char *text, size_t bytes) {
  const size_t n = json_dumpb(schema, text, bytes, JSON_ENCODE_ANY | JSON_COMPACT);
  assert_true(n < bytes);
  text[n] = 0;
  const cairn_grammar_source source = {.kind = CAIRN_GRAMMAR_JSON_SCHEMA, .text = text, .text_bytes = n};
  return cairn_grammar_check(context, &source);
}

static void check_refused(cairn_context *context, const json_t *schema, const char *place, const char *expected) {
  char text[1024], wanted[300];
  const cairn_status status = check(context, schema, text, sizeof text);
  snprintf(wanted, sizeof wanted, "the schema: #/%s: ", place);
  if (status != CAIRN_INVALID_ARGUMENT) fail_msg("%s: status %d", text, (int)status);
  const char *message = cairn_last_error()->message;
  if (!strstr(message, wanted)) fail_msg("%s: '%s' is not in: %s", text, wanted, message);
  if (!strstr(message, expected)) fail_msg("%s: '%s' is not in: %s", text, expected, message);
}

// Schemas with one in which something is malformed, and its place there.
static const struct {
  const char *before, *behind, *place;
} AROUND[] = {
    {"", "", ""},
    {"{\"type\":\"object\",\"properties\":{\"p\":", "}}", "properties/p/"},
    {"{\"type\":\"integer\",\"properties\":{\"p\":", "}}", "properties/p/"},
    {"{\"$defs\":{\"d\":", "}}", "$defs/d/"},
    {"{\"type\":\"string\",\"not\":", "}", "not/"},
    {"{\"anyOf\":[{\"type\":\"null\"},", "]}", "anyOf/1/"},
    {"{\"oneOf\":[{\"type\":\"null\"},{\"allOf\":[", "]}]}", "oneOf/1/allOf/0/"},
    {"{\"type\":\"array\",\"prefixItems\":[{},", "]}", "prefixItems/1/"},
    {"{\"enum\":[1,\"a\"],\"if\":", "}", "if/"},
    {"{\"propertyNames\":", ",\"additionalProperties\":{\"type\":\"null\"}}", "propertyNames/"},
};

static json_t *wrap(size_t i, const json_t *schema) {
  char *inner = json_dumps(schema, 0), text[1024];
  json_error_t error;
  snprintf(text, sizeof text, "%s%s%s", AROUND[i].before, inner, AROUND[i].behind);
  free(inner);
  json_t *whole = json_loads(text, 0, &error);
  assert_non_null(whole);
  return whole;
}

static void test_wrong_values(void **state) {
  json_t *rule, *value;
  const char *keyword;
  size_t k, n = 0;
  json_object_foreach(json_object_get(cases, "keywords"), keyword, rule) {
    json_array_foreach(json_object_get(rule, "wrong"), k, value) {
      for (size_t i = 0; i < sizeof AROUND / sizeof *AROUND; i++) {
        char place[200];
        json_t *schema = json_pack("{s:O}", keyword, value), *whole = wrap(i, schema);
        snprintf(place, sizeof place, "%s%s", AROUND[i].place, keyword);
        check_refused(*state, whole, place, json_string_value(json_object_get(rule, "expected")));
        json_decref(whole);
        json_decref(schema);
        n++;
      }
    }
  }
  assert_true(n > 3000);
}

// What is fine is not called malformed; whether it can be kept is another question.
static void test_right_values(void **state) {
  json_t *rule, *value;
  const char *keyword;
  char text[1024];
  size_t k;
  json_object_foreach(json_object_get(cases, "keywords"), keyword, rule) {
    json_array_foreach(json_object_get(rule, "right"), k, value) {
      json_t *schema = json_pack("{s:O}", keyword, value), *whole = json_pack("{s:{s:O,s:{}}}", "$defs", "d", schema, "there");
      if (check(*state, whole, text, sizeof text) != CAIRN_OK) fail_msg("%s: %s", text, cairn_last_error()->message);
      json_object_set_new(schema, "$defs", json_pack("{s:{}}", "there"));
      if (!strcmp(keyword, "$defs")) json_object_set(schema, "$defs", value);
      if (check(*state, schema, text, sizeof text) != CAIRN_OK && strstr(cairn_last_error()->message, "expected"))
        fail_msg("%s: %s", text, cairn_last_error()->message);
      json_decref(whole);
      json_decref(schema);
    }
  }
  json_array_foreach(json_object_get(cases, "fine"), k, value) {
    if (check(*state, value, text, sizeof text) != CAIRN_OK) fail_msg("%s: %s", text, cairn_last_error()->message);
  }
}

static void test_within(void **state) {
  json_t *c;
  size_t k;
  json_array_foreach(json_object_get(cases, "within"), k, c) {
    check_refused(*state, json_object_get(c, "schema"), json_string_value(json_object_get(c, "place")),
                  json_string_value(json_object_get(c, "expected")));
  }
}

// The whole schema may be none, and what was found is shown, cut where it is long.
static void test_what_was_found(void **state) {
  char text[1024];
  json_t *schema = json_string("x");
  assert_int_equal(check(*state, schema, text, sizeof text), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "#: expected a schema (an object, true or false), not \"x\""));
  json_decref(schema);
  schema = json_pack("{s:s}", "uniqueItems", "a very long text of which not all needs to be shown to know what is meant");
  check_refused(*state, schema, "uniqueItems", "expected true or false, not \"a very long text of which not all needs to be s…");
  json_decref(schema);
  schema = json_pack("{s:s}", "type", "日本日本日本日本日本日本日本日本");
  check_refused(*state, schema, "type", "not \"日本日本日本日本日本日本日本日…");
  json_decref(schema);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wrong_values),
      cmocka_unit_test(test_right_values),
      cmocka_unit_test(test_within),
      cmocka_unit_test(test_what_was_found),
  };
  return cmocka_run_group_tests_name("keywords of schemas", tests, setup, teardown);
}
