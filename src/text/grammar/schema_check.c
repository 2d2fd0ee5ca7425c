// What the values of keywords must be. A schema is looked through as a whole before it is read, also where nothing leads to: what is
// malformed is refused with its place, and the readers of the keywords may take for granted what is said here.
#include <stdio.h>
#include <string.h>

#include "text/grammar/schema.h"

typedef enum shape {
  SCHEMA,
  SCHEMAS,
  ITEMS,
  SCHEMA_MAP,
  PATTERN_MAP,
  NAMES,
  NAMES_MAP,
  DEPENDENCIES,
  TYPES,
  VALUES,
  COUNT,
  NUMBER,
  EXCLUSIVE_MINIMUM,
  EXCLUSIVE_MAXIMUM,
  POSITIVE,
  BOOLEAN,
  TEXT,
  PATTERN,
  ANYTHING,
} shape;

static const char *const EXPECTED[] = {
    [SCHEMA] = "a schema (an object, true or false)",
    [SCHEMAS] = "a list of at least one schema",
    [ITEMS] = "a schema (an object, true or false) or a list of at least one",
    [SCHEMA_MAP] = "an object of schemas",
    [PATTERN_MAP] = "an object of schemas by regular expressions",
    [NAMES] = "a list of names",
    [NAMES_MAP] = "an object of lists of names",
    [DEPENDENCIES] = "an object of schemas and lists of names",
    [TYPES] = "null, boolean, integer, number, string, array, object or a list of them",
    [VALUES] = "a list of at least one value",
    [COUNT] = "a whole number of at least 0",
    [NUMBER] = "a number",
    [EXCLUSIVE_MINIMUM] = "a number, or true or false beside 'minimum'",
    [EXCLUSIVE_MAXIMUM] = "a number, or true or false beside 'maximum'",
    [POSITIVE] = "a number above 0",
    [BOOLEAN] = "true or false",
    [TEXT] = "a text",
    [PATTERN] = "a text that is a regular expression",
};

// Every keyword that is read anywhere.
static const struct {
  const char *name;
  shape kind;
} KEYWORDS[] = {
    {"$schema", TEXT},
    {"$id", TEXT},
    {"$anchor", TEXT},
    {"$ref", TEXT},
    {"$dynamicRef", TEXT},
    {"$recursiveRef", TEXT},
    {"$defs", SCHEMA_MAP},
    {"definitions", SCHEMA_MAP},
    {"type", TYPES},
    {"enum", VALUES},
    {"const", ANYTHING},
    {"allOf", SCHEMAS},
    {"anyOf", SCHEMAS},
    {"oneOf", SCHEMAS},
    {"not", SCHEMA},
    {"if", SCHEMA},
    {"then", SCHEMA},
    {"else", SCHEMA},
    {"properties", SCHEMA_MAP},
    {"patternProperties", PATTERN_MAP},
    {"additionalProperties", SCHEMA},
    {"unevaluatedProperties", SCHEMA},
    {"propertyNames", SCHEMA},
    {"required", NAMES},
    {"minProperties", COUNT},
    {"maxProperties", COUNT},
    {"dependentRequired", NAMES_MAP},
    {"dependentSchemas", SCHEMA_MAP},
    {"dependencies", DEPENDENCIES},
    {"items", ITEMS},
    {"prefixItems", SCHEMAS},
    {"additionalItems", SCHEMA},
    {"unevaluatedItems", SCHEMA},
    {"contains", SCHEMA},
    {"minContains", COUNT},
    {"maxContains", COUNT},
    {"minItems", COUNT},
    {"maxItems", COUNT},
    {"uniqueItems", BOOLEAN},
    {"minLength", COUNT},
    {"maxLength", COUNT},
    {"pattern", PATTERN},
    {"format", TEXT},
    {"minimum", NUMBER},
    {"maximum", NUMBER},
    {"exclusiveMinimum", EXCLUSIVE_MINIMUM},
    {"exclusiveMaximum", EXCLUSIVE_MAXIMUM},
    {"multipleOf", POSITIVE},
};

// --- shapes -------------------------------------------------------------------------------------------------------------------

static bool is_schema(const json_t *value) { return json_is_object(value) || json_is_boolean(value); }

static bool is_names(const json_t *value) {
  size_t i;
  const json_t *name;
  json_array_foreach(value, i, name) {
    if (!json_is_string(name)) return false;
  }
  return json_is_array(value);
}

static bool is_types(const json_t *value) {
  size_t i;
  const json_t *name;
  json_array_foreach(value, i, name) {
    if (!crn_schema_type_of_name(json_string_value(name))) return false;
  }
  return json_is_array(value) ? json_array_size(value) > 0 : crn_schema_type_of_name(json_string_value(value)) != 0;
}

static bool is_count(const json_t *value) {
  const double number = json_number_value(value);
  return json_is_number(value) && number >= 0 && crn_schema_is_whole(number);
}

// Whether a value is of the shape of a kind. What is within is looked at later.
static bool fits(shape kind, const json_t *schema, const json_t *value) {
  switch (kind) {
    case SCHEMA:
      return is_schema(value);
    case SCHEMAS:
    case VALUES:
      return json_array_size(value) > 0;
    case ITEMS:
      return is_schema(value) || json_array_size(value) > 0;
    case SCHEMA_MAP:
    case PATTERN_MAP:
    case NAMES_MAP:
    case DEPENDENCIES:
      return json_is_object(value);
    case NAMES:
      return is_names(value);
    case TYPES:
      return is_types(value);
    case COUNT:
      return is_count(value);
    case NUMBER:
      return json_is_number(value);
    case EXCLUSIVE_MINIMUM:
      return json_is_number(value) || (json_is_boolean(value) && json_object_get(schema, "minimum"));
    case EXCLUSIVE_MAXIMUM:
      return json_is_number(value) || (json_is_boolean(value) && json_object_get(schema, "maximum"));
    case POSITIVE:
      return json_is_number(value) && json_number_value(value) > 0;
    case BOOLEAN:
      return json_is_boolean(value);
    case TEXT:
    case PATTERN:
      return json_is_string(value);
    case ANYTHING:
      return true;
  }
  return true;
}

// --- failures -----------------------------------------------------------------------------------------------------------------

enum { SHOWN = 48 };

typedef struct beginning {
  char text[SHOWN + 1];
  size_t n;
} beginning;

static int keep_beginning(const char *text, size_t bytes, void *user) {
  beginning *b = user;
  const size_t room = sizeof b->text - b->n;
  memcpy(b->text + b->n, text, bytes < room ? bytes : room);
  b->n += bytes < room ? bytes : room;
  return b->n == sizeof b->text ? -1 : 0;  // enough
}

// `value` as it is written, or its beginning.
static void show(const json_t *value, char *out, size_t bytes) {
  beginning b = {.n = 0};
  json_dump_callback(value, keep_beginning, &b, JSON_ENCODE_ANY | JSON_COMPACT);
  const bool is_cut = b.n > SHOWN;
  while (is_cut && b.n && ((unsigned char)b.text[b.n - 1] & 0xC0) == 0x80) b.n--;
  if (is_cut) b.n--;
  snprintf(out, bytes, "%.*s%s", (int)b.n, b.text, is_cut ? "…" : "");
}

static void refuse(crn_schema *s, const json_t *schema, const char *place, const char *expected, const json_t *value) {
  char why[256], shown[64];
  show(value, shown, sizeof shown);
  snprintf(why, sizeof why, "expected %s, not %s", expected, shown);
  CRN_SCHEMA_BROKEN(s, schema, place, why);
}

// The place of something within the value of a keyword: "properties/a".
static void refuse_within(crn_schema *s, const json_t *schema, const char *keyword, const char *step, shape kind, const json_t *value) {
  crn_str place;
  crn_str_initialize(&place, s->rules->allocator);
  cairn_status status = crn_str_puts(&place, keyword);
  if (status == CAIRN_OK) status = crn_schema_add_step(&place, step);
  if (status != CAIRN_OK) crn_rules_fail(s->rules, status);
  refuse(s, schema, place.size ? place.data : keyword, EXPECTED[kind], value);
  crn_str_deinitialize(&place);
}

// --- what is within -----------------------------------------------------------------------------------------------------------

// A pattern that is read here is thrown away. What no grammar can say is refused where it matters.
static void check_pattern(crn_schema *s, const json_t *schema, const char *keyword, const char *pattern, size_t bytes) {
  crn_rules rules;
  crn_rules_initialize(&rules, s->rules->allocator);
  crn_regex_read(&rules, pattern, bytes, "pattern", false);
  const cairn_status status = rules.status;
  crn_rules_deinitialize(&rules);
  if (status == CAIRN_OUT_OF_MEMORY) crn_rules_fail(s->rules, status);
  if (status != CAIRN_INVALID_ARGUMENT) return;
  char why[200];
  snprintf(why, sizeof why, "%s", cairn_last_error()->message);
  CRN_SCHEMA_BROKEN(s, schema, keyword, why);
}

static void check(crn_schema *s, const json_t *schema, int depth);

static void check_list(crn_schema *s, const json_t *schema, const char *keyword, const json_t *list, int depth) {
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) {
    char step[24];
    snprintf(step, sizeof step, "%zu", i);
    if (!is_schema(item)) refuse_within(s, schema, keyword, step, SCHEMA, item);
    check(s, item, depth + 1);
  }
}

static void check_map(crn_schema *s, const json_t *schema, const char *keyword, shape kind, const json_t *map, int depth) {
  const char *name;
  json_t *item;
  json_object_foreach((json_t *)map, name, item) {
    const bool may_be_names = kind == NAMES_MAP || (kind == DEPENDENCIES && json_is_array(item));
    if (may_be_names && !is_names(item)) refuse_within(s, schema, keyword, name, NAMES, item);
    if (!may_be_names && !is_schema(item)) refuse_within(s, schema, keyword, name, SCHEMA, item);
    if (kind == PATTERN_MAP) check_pattern(s, schema, keyword, name, strlen(name));
    if (!may_be_names) check(s, item, depth + 1);
  }
}

static void check_keyword(crn_schema *s, const json_t *schema, const char *keyword, shape kind, const json_t *value, int depth) {
  if (!fits(kind, schema, value)) {
    refuse(s, schema, keyword, EXPECTED[kind], value);
    return;
  }
  switch (kind) {
    case SCHEMA:
      check(s, value, depth + 1);
      return;
    case SCHEMAS:
    case ITEMS:
      if (json_is_array(value)) {
        check_list(s, schema, keyword, value, depth);
      } else {
        check(s, value, depth + 1);
      }
      return;
    case SCHEMA_MAP:
    case PATTERN_MAP:
    case NAMES_MAP:
    case DEPENDENCIES:
      check_map(s, schema, keyword, kind, value, depth);
      return;
    case PATTERN:
      check_pattern(s, schema, keyword, json_string_value(value), json_string_length(value));
      return;
    default:
      return;
  }
}

// Each object once: references may lead to it again.
static bool is_known(crn_schema *s, const json_t *schema) {
  const char *key = (const char *)&schema;
  if (crn_map_get(&s->checked, key, sizeof schema, NULL)) return true;
  const cairn_status status = crn_map_set(&s->checked, key, sizeof schema, 1);
  if (status != CAIRN_OK) crn_rules_fail(s->rules, status);
  return false;
}

static void check(crn_schema *s, const json_t *schema, int depth) {
  if (crn_rules_failed(s->rules) || json_is_boolean(schema) || is_known(s, schema)) return;
  if (!json_is_object(schema)) {
    refuse(s, schema, "", EXPECTED[SCHEMA], schema);
    return;
  }
  if (depth > 4 * CRN_GRAMMAR_MAX_DEPTH) {
    CRN_SCHEMA_UNSUPPORTED(s, schema, "", "schemas nested too deep");
    return;
  }
  for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS && !crn_rules_failed(s->rules); i++) {
    const json_t *value = json_object_get(schema, KEYWORDS[i].name);
    if (value) check_keyword(s, schema, KEYWORDS[i].name, KEYWORDS[i].kind, value, depth);
  }
}

void crn_schema_check(crn_schema *s, const json_t *schema) { check(s, schema, 0); }
