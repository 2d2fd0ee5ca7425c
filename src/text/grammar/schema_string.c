// Strings: lengths, patterns, formats.
#include <stdio.h>
#include <string.h>

#include "text/grammar/schema.h"

typedef struct format {
  const char *name, *pattern;
} format;

// Formats say what a text means; these patterns are narrower than that, so that every reader agrees. Other formats are left to the
// model, as the standard allows.
static const format FORMATS[] = {
    {"date", "^(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"},
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-2]):[0-5][0-9])$"},
    {"date-time",
     "^(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
     "(Z|[+-](0[0-9]|1[0-2]):[0-5][0-9])$"},
    {"duration", "^P([0-9]{1,4}D|[0-9]{1,4}W|([0-9]{1,4}D)?T[0-9]{1,4}(H|M|S))$"},
    {"email", "^[A-Za-z0-9_]+([.+-][A-Za-z0-9_]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)*\\.[A-Za-z]{2,12}$"},
    {"hostname", "^[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?(\\.[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?){0,4}$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$"},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"uri", "^[a-z][a-z0-9+.-]*://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[0-9]{1,4})?(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~=&-]*)?$"},
    {"json-pointer", "^(/[A-Za-z0-9_ -]*)*$"},
};

static const char *pattern_of_format(const char *name) {
  for (size_t i = 0; name && i < sizeof FORMATS / sizeof *FORMATS; i++) {
    if (!strcmp(FORMATS[i].name, name)) return FORMATS[i].pattern;
  }
  return NULL;
}

// A failure below the schema is said again with its place there.
static const crn_node *say_place(crn_schema *s, const json_t *schema, const char *keyword) {
  cairn_status status = s->rules->status;
  char why[200];
  if (status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY) return crn_node_empty();
  snprintf(why, sizeof why, "%s", cairn_last_error()->message);
  s->rules->status = CAIRN_OK;
  return crn_schema_fail(s, status, schema, keyword, why);
}

const crn_node *crn_schema_pattern(crn_schema *s, const json_t *schema, const char *keyword, const char *pattern, size_t bytes) {
  if (crn_rules_failed(s->rules)) return crn_node_empty();
  const crn_node *node = crn_regex_read(s->rules, pattern, bytes, keyword, false);
  return crn_rules_failed(s->rules) ? say_place(s, schema, keyword) : node;
}

static void read_patterns(crn_schema *s, const crn_terms *terms, crn_node_vec *with) {
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema, *pattern = json_object_get(schema, "pattern");
    if (!pattern) continue;
    crn_nodes_add(s->rules, with, crn_schema_pattern(s, schema, "pattern", json_string_value(pattern), json_string_length(pattern)));
  }
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema;
    const char *pattern = pattern_of_format(json_string_value(json_object_get(schema, "format")));
    if (pattern) crn_nodes_add(s->rules, with, crn_schema_pattern(s, schema, "format", pattern, strlen(pattern)));
  }
}

static void read_excluded(crn_schema *s, const json_t *excluded, const json_t *patterns, crn_node_vec *without) {
  json_t *item;
  size_t i;
  json_array_foreach(excluded, i, item) {
    if (json_is_string(item)) crn_nodes_add(s->rules, without, crn_node_text(s->rules, json_string_value(item), json_string_length(item)));
  }
  json_array_foreach(patterns, i, item) {
    crn_nodes_add(s->rules, without,
                  crn_schema_pattern(s, s->root, "patternProperties", json_string_value(item), json_string_length(item)));
  }
}

const crn_node *crn_schema_string(crn_schema *s, const crn_terms *terms, const json_t *excluded, const json_t *excluded_patterns,
                                  bool written_once) {
  crn_rules *r = s->rules;
  int64_t min = crn_schema_most(terms, "minLength", 0, true), max = crn_schema_most(terms, "maxLength", -1, false);
  crn_node_vec with = {0}, without = {0};
  const crn_node *node = crn_node_never();
  read_patterns(s, terms, &with);
  read_excluded(s, excluded, excluded_patterns, &without);
  if (min > CRN_GRAMMAR_MAX_REPEAT)
    CRN_SCHEMA_UNSUPPORTED(s, terms->size ? terms->items[0].schema : s->root, "minLength", "more than 10000 characters are not supported");
  if (max > CRN_GRAMMAR_MAX_REPEAT) max = CRN_GRAMMAR_MAX_REPEAT;
  if (crn_rules_failed(r)) {
    node = crn_node_empty();
  } else if (max >= 0 && min > max) {
    node = crn_node_never();
  } else if (!with.size && !without.size) {
    node = crn_node_repeat(r, written_once ? crn_form_written_set(r, crn_set_all) : crn_form_character(&s->forms), min, max);
  } else {
    node = crn_language_node(r, with.items, with.size, without.items, without.size, min, max);
    if (crn_rules_failed(r)) node = say_place(s, terms->size ? terms->items[0].schema : s->root, "");
  }
  crn_vec_free(r->allocator, &with);
  crn_vec_free(r->allocator, &without);
  return node;
}
