// Keywords that leave a choice: each way is a list of its own. One keyword is dealt with at a time; the lists that come of it meet the
// next one.
#include <stdio.h>
#include <string.h>

#include "text/grammar/schema.h"

// The list with one more schema, where `done` of term `at` needs no more looking at.
static const crn_node *way(crn_schema *s, const crn_terms *terms, size_t at, unsigned done, const json_t *a, const json_t *b) {
  crn_terms list = {0};
  crn_terms_copy(s, &list, terms);
  if (!crn_rules_failed(s->rules)) list.items[at].done |= done;
  if (a) crn_terms_add(s, &list, (crn_term){a, 0});
  if (b) crn_terms_add(s, &list, (crn_term){b, 0});
  return crn_schema_value(s, &list);
}

// --- anyOf and oneOf ----------------------------------------------------------------------------------------------------------------

// What a term says by itself: what it refers to is in the list, too, and of its choices one was taken. With these left in, the `oneOf` that
// is looked at would be part of its own context.
static json_t *alone(const crn_term *term) {
  static const struct {
    const char *keyword;
    unsigned done;
  } KEYWORDS[] = {{"$ref", 0},         {"allOf", 0},          {"anyOf", CRN_DONE_ANY_OF}, {"oneOf", CRN_DONE_ONE_OF},
                  {"if", CRN_DONE_IF}, {"then", CRN_DONE_IF}, {"else", CRN_DONE_IF},      {"not", CRN_DONE_NOT}};
  json_t *copy = json_copy((json_t *)term->schema);
  for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
    if (!KEYWORDS[i].done || term->done & KEYWORDS[i].done) json_object_del(copy, KEYWORDS[i].keyword);
  }
  return copy;
}

// An alternative of term `at` together with all that holds beside it.
static const json_t *in_context(crn_schema *s, const crn_terms *terms, size_t at, const json_t *alternative) {
  json_t *all = json_array();
  json_array_append(all, (json_t *)alternative);
  for (size_t i = 0; i < terms->size; i++) {
    crn_term term = terms->items[i];
    if (i == at) term.done |= CRN_DONE_ONE_OF;
    json_array_append_new(all, alone(&term));
  }
  return crn_schema_make(s, json_pack("{s:o}", "allOf", all));
}

static void check_one_of(crn_schema *s, const crn_terms *terms, size_t at, const json_t *alternatives) {
  const size_t n = json_array_size(alternatives);
  const json_t *schema = terms->items[at].schema;
  if (n > 64) {
    CRN_SCHEMA_UNSUPPORTED(s, schema, "oneOf", "more than 64 alternatives are not supported");
    return;
  }
  for (size_t i = 0; i < n && !crn_rules_failed(s->rules); i++) {
    const json_t *a = in_context(s, terms, at, json_array_get(alternatives, i));
    for (size_t k = i + 1; k < n && a && !crn_rules_failed(s->rules); k++) {
      if (crn_schema_apart(s, a, json_array_get(alternatives, k), 0)) continue;
      char why[160];
      snprintf(
          why, sizeof why,
          "a value may satisfy alternatives %zu and %zu, and exactly one is allowed; anyOf, or a property that tells them apart, helps", i,
          k);
      CRN_SCHEMA_UNSUPPORTED(s, schema, "oneOf", why);
    }
  }
}

static const crn_node *alternatives(crn_schema *s, const crn_terms *terms, size_t at, const char *keyword, unsigned done) {
  const json_t *schema = terms->items[at].schema, *list = json_object_get(schema, keyword);
  crn_node_vec ways = {0};
  json_t *item;
  size_t i;
  if (done == CRN_DONE_ONE_OF) check_one_of(s, terms, at, list);
  json_array_foreach(list, i, item) {
    if (!crn_rules_failed(s->rules)) crn_nodes_add(s->rules, &ways, way(s, terms, at, done, item, NULL));
  }
  return crn_nodes_any(s->rules, &ways);
}

// --- not ----------------------------------------------------------------------------------------------------------------------------

static bool has_only(const json_t *schema, const char *keyword) {
  return json_object_size(schema) == 1 && json_object_get(schema, keyword);
}

// A property that is not there.
static const json_t *without(crn_schema *s, const char *name) {
  return crn_schema_make(s, json_pack("{s:s,s:{s:b}}", "type", "object", "properties", name, 0));
}

static const json_t *negation(crn_schema *s, const json_t *schema) { return crn_schema_make(s, json_pack("{s:O}", "not", schema)); }

// One of several schemas must fail.
static const crn_node *one_fails(crn_schema *s, const crn_terms *terms, size_t at, const json_t *list) {
  crn_node_vec ways = {0};
  json_t *item;
  size_t i;
  json_array_foreach(list, i, item) crn_nodes_add(s->rules, &ways, way(s, terms, at, CRN_DONE_NOT, negation(s, item), NULL));
  return crn_nodes_any(s->rules, &ways);
}

// All of them must.
static const crn_node *all_fail(crn_schema *s, const crn_terms *terms, size_t at, const json_t *list) {
  crn_terms more = {0};
  json_t *item;
  size_t i;
  crn_terms_copy(s, &more, terms);
  if (!crn_rules_failed(s->rules)) more.items[at].done |= CRN_DONE_NOT;
  json_array_foreach(list, i, item) crn_terms_add(s, &more, (crn_term){negation(s, item), 0});
  return crn_schema_value(s, &more);
}

// Some required property is not there, or some property is there with a value of another kind; or, where the type is said, it is no object.
static const crn_node *not_object(crn_schema *s, const crn_terms *terms, size_t at, const json_t *no) {
  const json_t *required = json_object_get(no, "required"), *properties = json_object_get(no, "properties");
  crn_node_vec ways = {0};
  json_t *item;
  const char *name;
  size_t i;
  json_array_foreach(required, i, item) {
    if (json_is_string(item)) crn_nodes_add(s->rules, &ways, way(s, terms, at, CRN_DONE_NOT, without(s, json_string_value(item)), NULL));
  }
  json_object_foreach((json_t *)properties, name, item) {
    const json_t *other =
        crn_schema_make(s, json_pack("{s:s,s:[s],s:{s:{s:O}}}", "type", "object", "required", name, "properties", name, "not", item));
    crn_nodes_add(s->rules, &ways, way(s, terms, at, CRN_DONE_NOT, other, NULL));
  }
  if (json_object_get(no, "type")) {
    const json_t *others = crn_schema_make(s, json_pack("{s:{s:s}}", "not", "type", "object"));
    crn_nodes_add(s->rules, &ways, way(s, terms, at, CRN_DONE_NOT, others, NULL));
  }
  return crn_nodes_any(s->rules, &ways);
}

static bool is_object_condition(const json_t *schema) {
  const char *name;
  json_t *item;
  if (!json_is_object(schema) || !json_object_size(schema)) return false;
  json_object_foreach((json_t *)schema, name, item) {
    bool is_type = !strcmp(name, "type") && json_is_string(item) && !strcmp(json_string_value(item), "object");
    if (!is_type && strcmp(name, "required") && strcmp(name, "properties")) return false;
  }
  return json_object_get(schema, "required") || json_object_get(schema, "properties");
}

static const crn_node *not_this(crn_schema *s, const crn_terms *terms, size_t at) {
  const json_t *schema = terms->items[at].schema, *no = json_object_get(schema, "not");
  if (json_is_false(no)) return way(s, terms, at, CRN_DONE_NOT, NULL, NULL);
  if (json_is_true(no) || (json_is_object(no) && !json_object_size(no))) return crn_node_never();
  if (has_only(no, "type") || has_only(no, "enum") || has_only(no, "const")) return NULL;  // of the types and values that are left
  if (has_only(no, "not")) return way(s, terms, at, CRN_DONE_NOT, json_object_get(no, "not"), NULL);
  if (has_only(no, "anyOf")) return all_fail(s, terms, at, json_object_get(no, "anyOf"));
  if (has_only(no, "allOf")) return one_fails(s, terms, at, json_object_get(no, "allOf"));
  if (has_only(no, "$ref") && json_is_string(json_object_get(no, "$ref"))) {
    const json_t *target = crn_schema_resolve(s, no, json_string_value(json_object_get(no, "$ref")));
    return target ? way(s, terms, at, CRN_DONE_NOT, negation(s, target), NULL) : crn_node_empty();
  }
  if (is_object_condition(no)) return not_object(s, terms, at, no);
  return CRN_SCHEMA_UNSUPPORTED(s, schema, "not",
                                "only type, enum, const, not, anyOf, allOf, and required and properties of objects are supported in it");
}

// --- if and what depends on a property ------------------------------------------------------------------------------------------------

static const crn_node *condition(crn_schema *s, const crn_terms *terms, size_t at) {
  const json_t *schema = terms->items[at].schema, *when = json_object_get(schema, "if");
  const json_t *then = json_object_get(schema, "then"), *otherwise = json_object_get(schema, "else");
  if (!then && !otherwise) return way(s, terms, at, CRN_DONE_IF, NULL, NULL);
  return CRN_ANY(s->rules, way(s, terms, at, CRN_DONE_IF, when, then), way(s, terms, at, CRN_DONE_IF, negation(s, when), otherwise));
}

// What must hold when a property is there, as one schema.
static const json_t *consequence(crn_schema *s, const char *name, const json_t *of) {
  if (!json_is_array(of)) return crn_schema_make(s, json_pack("{s:s,s:[s],s:[O]}", "type", "object", "required", name, "allOf", of));
  json_t *names = json_copy((json_t *)of);
  if (names) json_array_append_new(names, json_string(name));
  return crn_schema_make(s, json_pack("{s:s,s:o}", "type", "object", "required", names));
}

// Of several properties: an `allOf` of choices, so that each is looked at by itself.
static const crn_node *dependent(crn_schema *s, const crn_terms *terms, size_t at) {
  static const char *const KEYWORDS[] = {"dependentRequired", "dependentSchemas", "dependencies"};
  const json_t *schema = terms->items[at].schema;
  json_t *all = json_array(), *of;
  const char *name;
  for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
    const json_t *map = json_object_get(schema, KEYWORDS[i]);
    json_object_foreach((json_t *)map, name, of) {
      json_array_append_new(all, json_pack("{s:[O,O]}", "anyOf", without(s, name), consequence(s, name, of)));
    }
  }
  return way(s, terms, at, CRN_DONE_DEPENDENT, crn_schema_make(s, json_pack("{s:o}", "allOf", all)), NULL);
}

// --- which of them --------------------------------------------------------------------------------------------------------------------

static bool has_dependent(const json_t *schema) {
  return json_object_get(schema, "dependentRequired") || json_object_get(schema, "dependentSchemas") ||
         json_object_get(schema, "dependencies");
}

const crn_node *crn_schema_choices(crn_schema *s, const crn_terms *terms) {
  for (size_t i = 0; i < terms->size && !crn_rules_failed(s->rules); i++) {
    const json_t *schema = terms->items[i].schema;
    const unsigned done = terms->items[i].done;
    if (!(done & CRN_DONE_DEPENDENT) && has_dependent(schema)) return dependent(s, terms, i);
    if (!(done & CRN_DONE_ONE_OF) && json_object_get(schema, "oneOf")) return alternatives(s, terms, i, "oneOf", CRN_DONE_ONE_OF);
    if (!(done & CRN_DONE_ANY_OF) && json_object_get(schema, "anyOf")) return alternatives(s, terms, i, "anyOf", CRN_DONE_ANY_OF);
    if (!(done & CRN_DONE_IF) && json_object_get(schema, "if")) return condition(s, terms, i);
    const crn_node *no = !(done & CRN_DONE_NOT) && json_object_get(schema, "not") ? not_this(s, terms, i) : NULL;
    if (no) return no;
  }
  return NULL;
}
