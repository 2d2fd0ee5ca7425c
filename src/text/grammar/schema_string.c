// Strings: lengths, patterns, formats.
#include <stdio.h>
#include <string.h>

#include "text/grammar/schema.h"

// A failure below the schema is said again with its place there, unless it names one.
static const crn_node *say_place(crn_schema *s, const json_t *schema, const char *keyword) {
  static const char placed[] = "the schema: #";
  cairn_status status = s->rules->status;
  char why[200];
  if (status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY) return crn_node_empty();
  if (!strncmp(cairn_last_error()->message, placed, sizeof placed - 1)) return crn_node_empty();
  snprintf(why, sizeof why, "%s", cairn_last_error()->message);
  s->rules->status = CAIRN_OK;
  return crn_schema_fail(s, status, schema, keyword, why);
}

const crn_node *crn_schema_pattern(crn_schema *s, const json_t *schema, const char *keyword, const char *pattern, size_t bytes) {
  if (crn_rules_failed(s->rules)) return crn_node_empty();
  const crn_node *node = crn_regex_read(s->rules, pattern, bytes, keyword, false);
  return crn_rules_failed(s->rules) ? say_place(s, schema, keyword) : node;
}

static void read_patterns(crn_schema *s, const crn_terms *terms, bool is_wide, crn_node_vec *with) {
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema, *pattern = json_object_get(schema, "pattern");
    if (!pattern) continue;
    crn_nodes_add(s->rules, with, crn_schema_pattern(s, schema, "pattern", json_string_value(pattern), json_string_length(pattern)));
  }
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema;
    const crn_format *format = crn_schema_format(schema);
    const char *pattern = !format ? NULL : is_wide && format->wide ? format->wide : format->near;
    if (pattern) crn_nodes_add(s->rules, with, crn_schema_pattern(s, schema, "format", pattern, strlen(pattern)));
  }
}

// No text is left. Where a format is narrower here than the standard says, that may be the reason.
static const crn_node *nothing_left(crn_schema *s, const crn_terms *terms) {
  for (size_t i = 0; i < terms->size; i++) {
    const crn_format *format = crn_schema_format(terms->items[i].schema);
    char why[160];
    if (!format || format->is_whole) continue;
    snprintf(why, sizeof why,
             "of what is supported of the format '%s', no text satisfies the other keywords; without 'format' they can be kept",
             format->name);
    return CRN_SCHEMA_UNSUPPORTED(s, terms->items[i].schema, "format", why);
  }
  return crn_node_never();
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

// Texts that all of it allows; `is_wide` says in which form formats hold.
static const crn_node *combined(crn_schema *s, const crn_terms *terms, bool is_wide, const json_t *excluded,
                                const json_t *excluded_patterns, int64_t min, int64_t max) {
  crn_rules *r = s->rules;
  crn_node_vec with = {0}, without = {0};
  read_patterns(s, terms, is_wide, &with);
  read_excluded(s, excluded, excluded_patterns, &without);
  const crn_node *node =
      crn_rules_failed(r) ? crn_node_empty() : crn_language_node(r, with.items, with.size, without.items, without.size, min, max);
  crn_vec_free(r->allocator, &with);
  crn_vec_free(r->allocator, &without);
  return node;
}

static bool has_text(const crn_schema *s, const crn_node *node) { return !crn_rules_failed(s->rules) && node->kind != CRN_NODE_NEVER; }

// A format alone, or with lengths, is as a model would write it, when there is such a text. With patterns it is all that it may be, unless
// that makes too much of it.
static const crn_node *said(crn_schema *s, const crn_terms *terms, const json_t *excluded, const json_t *excluded_patterns, int64_t min,
                            int64_t max) {
  size_t n_patterns = 0, n_formats = 0;
  for (size_t i = 0; i < terms->size; i++) {
    n_patterns += json_object_get(terms->items[i].schema, "pattern") != NULL;
    n_formats += crn_schema_format(terms->items[i].schema) != NULL;
  }
  const bool is_wide = n_patterns || n_formats > 1;
  const crn_node *node = combined(s, terms, is_wide, excluded, excluded_patterns, min, max);
  if (n_formats && !has_text(s, node) && (s->rules->status == CAIRN_OK || s->rules->status == CAIRN_UNSUPPORTED)) {
    const cairn_status failed = s->rules->status;
    s->rules->status = CAIRN_OK;
    node = combined(s, terms, !is_wide, excluded, excluded_patterns, min, max);
    // What was too large in one form and is nothing in the other is not decided.
    if (failed != CAIRN_OK && !crn_rules_failed(s->rules) && node->kind == CRN_NODE_NEVER)
      crn_rules_fail(s->rules, CRN_FAIL(UNSUPPORTED, "patterns, lengths and exceptions together are too large"));
  }
  if (crn_rules_failed(s->rules)) return say_place(s, terms->size ? terms->items[0].schema : s->root, "");
  return node->kind == CRN_NODE_NEVER ? nothing_left(s, terms) : node;
}

static cairn_status add_values(crn_str *key, const json_t *values) {
  size_t i;
  json_t *item;
  json_array_foreach(values, i, item) {
    if (!json_is_string(item)) continue;
    CRN_TRY(crn_str_putc(key, '\n'));
    CRN_TRY(crn_str_json(key, json_string_value(item), json_string_length(item)));
  }
  return crn_str_putc(key, '|');
}

// All that the texts depend on.
static cairn_status write_key(const crn_schema *s, const crn_terms *terms, const json_t *excluded, const json_t *excluded_patterns,
                              int64_t min, int64_t max, crn_str *key) {
  CRN_TRY(crn_str_printf(key, "%d %lld %lld", (int)s->rules->style.kind, (long long)min, (long long)max));
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *pattern = json_object_get(terms->items[i].schema, "pattern");
    const crn_format *format = crn_schema_format(terms->items[i].schema);
    if (format) CRN_TRY(crn_str_printf(key, "\nformat %s", format->name));
    if (!pattern) continue;
    CRN_TRY(crn_str_puts(key, "\npattern "));
    CRN_TRY(crn_str_json(key, json_string_value(pattern), json_string_length(pattern)));
  }
  CRN_TRY(crn_str_putc(key, '|'));
  CRN_TRY(add_values(key, excluded));
  return add_values(key, excluded_patterns);
}

// Texts of which the same is said are the same nodes, however often they are asked for: automata are large.
static const crn_node *shared(crn_schema *s, const crn_terms *terms, const json_t *excluded, const json_t *excluded_patterns, int64_t min,
                              int64_t max) {
  crn_str key;
  uint64_t known;
  const crn_node *node = crn_node_empty();
  crn_str_initialize(&key, s->rules->allocator);
  cairn_status status = write_key(s, terms, excluded, excluded_patterns, min, max, &key);
  if (status == CAIRN_OK && crn_map_get(&s->texts, key.data, key.size, &known)) {
    node = (const crn_node *)(uintptr_t)known;
  } else if (status == CAIRN_OK) {
    node = said(s, terms, excluded, excluded_patterns, min, max);
    if (!crn_rules_failed(s->rules)) status = crn_map_set(&s->texts, key.data, key.size, (uintptr_t)node);
  }
  if (status != CAIRN_OK) node = crn_rules_fail(s->rules, status);
  crn_str_deinitialize(&key);
  return node;
}

const crn_node *crn_schema_string(crn_schema *s, const crn_terms *terms, const json_t *excluded, const json_t *excluded_patterns,
                                  bool written_once) {
  crn_rules *r = s->rules;
  int64_t min = crn_schema_most(terms, "minLength", 0, true), max = crn_schema_most(terms, "maxLength", -1, false);
  bool is_free = !json_array_size(excluded) && !json_array_size(excluded_patterns);
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema;
    is_free = is_free && !json_object_get(schema, "pattern") && !crn_schema_format(schema);
  }
  if (min > CRN_GRAMMAR_MAX_REPEAT)
    CRN_SCHEMA_UNSUPPORTED(s, terms->size ? terms->items[0].schema : s->root, "minLength", "more than 10000 characters are not supported");
  if (max > CRN_GRAMMAR_MAX_REPEAT) max = CRN_GRAMMAR_MAX_REPEAT;
  if (crn_rules_failed(r)) return crn_node_empty();
  if (max >= 0 && min > max) return crn_node_never();
  if (!is_free) return shared(s, terms, excluded, excluded_patterns, min, max);
  return crn_node_repeat(r, written_once ? crn_form_written_set(r, crn_set_all) : crn_form_character(&s->forms), min, max);
}
