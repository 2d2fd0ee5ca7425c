// Objects: properties in the order of the schema, which of them must be there, which others may.
#include <string.h>

#include "text/grammar/schema.h"

enum { MAX_PROPERTIES = 1000, MAX_COUNTED = 100 };

typedef struct property {
  const char *name;
  const crn_node *node;  ///< name and value; NEVER = it may not be there
  bool is_required;
} property;

typedef struct object {
  crn_schema *s;
  crn_rules *r;
  const crn_terms *terms;
  CRN_VEC(property) properties;
  const crn_node *other;  ///< any further property; NEVER = none may be there
  const crn_node *comma, *space;
  int64_t min, max;
  bool is_counted;
} object;

static const crn_node *text(object *o, const char *t) { return crn_node_literal(o->r, t); }

// --- which properties there are ---------------------------------------------------------------------------------------------------

static property *find(object *o, const char *name) {
  for (size_t i = 0; i < o->properties.size; i++) {
    if (!strcmp(o->properties.items[i].name, name)) return &o->properties.items[i];
  }
  return NULL;
}

static void add(object *o, const json_t *where, const char *name, bool is_required) {
  property *p = find(o, name);
  if (p) {
    p->is_required = p->is_required || is_required;
    return;
  }
  if (o->properties.size >= MAX_PROPERTIES) CRN_SCHEMA_UNSUPPORTED(o->s, where, "properties", "more than 1000 of them are not supported");
  if (crn_rules_failed(o->r)) return;
  cairn_status status = crn_vec_push(o->r->allocator, &o->properties, ((property){name, NULL, is_required}));
  if (status != CAIRN_OK) crn_rules_fail(o->r, status);
}

static void find_properties(object *o) {
  const char *name;
  json_t *item;
  size_t i;
  for (size_t k = 0; k < o->terms->size; k++) {
    const json_t *schema = o->terms->items[k].schema, *properties = json_object_get(schema, "properties");
    json_object_foreach((json_t *)properties, name, item) add(o, schema, name, false);
  }
  for (size_t k = 0; k < o->terms->size; k++) {
    const json_t *schema = o->terms->items[k].schema, *required = json_object_get(schema, "required");
    json_array_foreach(required, i, item) add(o, schema, json_string_value(item), true);
  }
}

static bool matches(object *o, const json_t *schema, const char *pattern, const char *name) {
  const crn_node *node = crn_schema_pattern(o->s, schema, "patternProperties", pattern, strlen(pattern));
  return crn_language_has(o->r, node, name, strlen(name));
}

// What all schemas say of the value of a property. `name` NULL: of one that matches no pattern and has no name of its own.
static void value_terms(object *o, const char *name, const char *matched, crn_terms *out) {
  for (size_t k = 0; k < o->terms->size; k++) {
    const json_t *schema = o->terms->items[k].schema, *patterns = json_object_get(schema, "patternProperties"), *value;
    const char *pattern;
    json_t *item;
    bool is_said = false;
    if (name && (value = json_object_get(json_object_get(schema, "properties"), name))) {
      crn_terms_add(o->s, out, (crn_term){value, 0});
      is_said = true;
    }
    json_object_foreach((json_t *)patterns, pattern, item) {
      if (name ? !matches(o, schema, pattern, name) : !matched || strcmp(matched, pattern)) continue;
      crn_terms_add(o->s, out, (crn_term){item, 0});
      is_said = true;
    }
    value = json_object_get(schema, "additionalProperties");
    if (!is_said && value) crn_terms_add(o->s, out, (crn_term){value, 0});
  }
}

// Whether `propertyNames` allows a name.
static bool is_name_allowed(object *o, const char *name) {
  json_t *value = json_string(name);
  crn_truth holds = CRN_TRUE;
  if (!value) crn_rules_fail(o->r, CRN_FAIL(OUT_OF_MEMORY, "no memory for a name"));
  for (size_t k = 0; k < o->terms->size && value && holds == CRN_TRUE; k++) {
    const json_t *names = json_object_get(o->terms->items[k].schema, "propertyNames");
    if (names) holds = crn_schema_holds(o->s, names, value);
    if (holds == CRN_UNKNOWN)
      CRN_SCHEMA_UNSUPPORTED(o->s, o->terms->items[k].schema, "propertyNames", "it cannot be decided which names it allows");
  }
  json_decref(value);
  return holds == CRN_TRUE;
}

static const crn_node *member(object *o, const crn_node *name, const crn_node *value) {
  return CRN_ALL(o->r, name, o->space, text(o, ":"), o->space, value);
}

static void make_properties(object *o) {
  for (size_t i = 0; i < o->properties.size && !crn_rules_failed(o->r); i++) {
    property *p = &o->properties.items[i];
    crn_terms terms = {0};
    const crn_node *node = crn_node_never();
    if (is_name_allowed(o, p->name)) {
      value_terms(o, p->name, NULL, &terms);
      node = member(o, crn_form_key(o->r, p->name, strlen(p->name)), crn_schema_value(o->s, &terms));
    }
    o->properties.items[i].node = node;
  }
}

// --- properties without a name of their own -----------------------------------------------------------------------------------------

// Names that match a pattern (NULL: none of them), but for those of properties and of the other patterns.
static const crn_node *other_name(object *o, const char *pattern, const json_t *patterns) {
  json_t *words = (json_t *)crn_schema_make(o->s, json_array()), *others = (json_t *)crn_schema_make(o->s, json_array()), *item;
  size_t i;
  crn_terms names = {0};
  if (!words || !others) return crn_node_empty();
  for (size_t k = 0; k < o->properties.size; k++) json_array_append_new(words, json_string(o->properties.items[k].name));
  json_array_foreach(patterns, i, item) {
    if (!pattern || strcmp(pattern, json_string_value(item))) json_array_append(others, item);
  }
  if (pattern) crn_terms_add(o->s, &names, (crn_term){crn_schema_make(o->s, json_pack("{s:s}", "pattern", pattern)), 0});
  for (size_t k = 0; k < o->terms->size; k++) {
    const json_t *schema = json_object_get(o->terms->items[k].schema, "propertyNames");
    if (json_is_object(schema) && !json_object_get(schema, "$ref") && !json_object_get(schema, "allOf") &&
        !json_object_get(schema, "anyOf") && !json_object_get(schema, "enum") && !json_object_get(schema, "const") &&
        !json_object_get(schema, "oneOf") && !json_object_get(schema, "not")) {
      crn_terms_add(o->s, &names, (crn_term){schema, 0});
    } else if (schema && !json_is_true(schema)) {
      CRN_SCHEMA_UNSUPPORTED(o->s, o->terms->items[k].schema, "propertyNames",
                             "for names that are not listed only pattern and lengths are supported");
    }
  }
  const crn_node *name = crn_schema_string(o->s, &names, words, others, true);
  crn_terms_free(o->s, &names);
  return CRN_ALL(o->r, crn_form_quote(o->r), name, crn_form_quote(o->r));
}

static const json_t *all_patterns(object *o) {
  json_t *all = (json_t *)crn_schema_make(o->s, json_array());
  for (size_t k = 0; k < o->terms->size && all; k++) {
    const json_t *schema = o->terms->items[k].schema, *patterns = json_object_get(schema, "patternProperties");
    const char *pattern;
    json_t *item;
    json_object_foreach((json_t *)patterns, pattern, item) {
      bool is_there = false;
      for (size_t i = 0; i < json_array_size(all); i++) is_there = is_there || !strcmp(json_string_value(json_array_get(all, i)), pattern);
      if (!is_there) json_array_append_new(all, json_string(pattern));
    }
  }
  return all;
}

// Others are there when a schema asks for them, and in objects of which nothing is said.
static bool is_open(const object *o, size_t n_patterns) {
  for (size_t k = 0; k < o->terms->size; k++) {
    const json_t *schema = o->terms->items[k].schema, *more = json_object_get(schema, "additionalProperties");
    if (!more) more = json_object_get(schema, "unevaluatedProperties");
    if (more && !json_is_false(more)) return true;
    if (json_is_false(more)) return false;
  }
  return !o->properties.size && !n_patterns;
}

static void make_other(object *o) {
  const json_t *patterns = all_patterns(o);
  crn_node_vec choices = {0};
  json_t *item;
  size_t i;
  for (size_t k = 0; k < o->terms->size; k++) {
    const json_t *more = json_object_get(o->terms->items[k].schema, "unevaluatedProperties");
    if (more && !json_is_boolean(more))
      CRN_SCHEMA_UNSUPPORTED(o->s, o->terms->items[k].schema, "unevaluatedProperties", "only true and false are supported");
  }
  json_array_foreach(patterns, i, item) {
    crn_terms terms = {0};
    value_terms(o, NULL, json_string_value(item), &terms);
    const crn_node *value = crn_schema_value(o->s, &terms);
    if (value->kind != CRN_NODE_NEVER) crn_nodes_add(o->r, &choices, member(o, other_name(o, json_string_value(item), patterns), value));
  }
  if (is_open(o, json_array_size(patterns))) {
    crn_terms terms = {0};
    value_terms(o, NULL, NULL, &terms);
    const crn_node *value = crn_schema_value(o->s, &terms);
    if (value->kind != CRN_NODE_NEVER) crn_nodes_add(o->r, &choices, member(o, other_name(o, NULL, patterns), value));
  }
  o->other = crn_nodes_any(o->r, &choices);
}

// --- putting them in a row ------------------------------------------------------------------------------------------------------------

// Behind all named properties, `count` of them there. Two others may have one name, so they count as one at least.
static const crn_node *at_end(object *o, int64_t count, bool has_any) {
  crn_rules *r = o->r;
  int64_t missing = o->is_counted && o->min > count ? o->min - count : 0;
  int64_t most = o->is_counted && o->max >= 0 ? o->max - count : -1;
  if (o->is_counted && o->max >= 0 && count > o->max) return crn_node_never();
  const crn_node *end = has_any ? o->space : crn_node_empty();
  if (missing > 1) return crn_node_never();
  if (o->other->kind == CRN_NODE_NEVER || most == 0) return missing ? crn_node_never() : end;
  const crn_node *more = CRN_ALL(r, o->comma, o->other);
  if (has_any) return CRN_ALL(r, crn_node_repeat(r, more, missing, most), o->space);
  return crn_node_repeat(r, CRN_ALL(r, o->other, crn_node_repeat(r, more, 0, most < 0 ? -1 : most - 1), o->space), missing, 1);
}

typedef struct tails {
  const crn_node *fresh, *behind;  ///< where no property stands yet, where one does
} tails;

static const crn_node *as_rule(object *o, const crn_node *node) {
  if (node->kind == CRN_NODE_NEVER || node->kind == CRN_NODE_EMPTY || node->kind == CRN_NODE_RULE) return node;
  int32_t rule = crn_rule_new(o->r);
  crn_rule_set(o->r, rule, node);
  return crn_node_rule(o->r, rule);
}

// From the last property to the first: what may follow where so many are there.
static const crn_node *row(object *o) {
  crn_rules *r = o->r;
  const int64_t n = (int64_t)o->properties.size, n_counts = o->is_counted ? n + 1 : 1;
  tails *now;
  cairn_status status = crn_alloc_array(r->allocator, (size_t)n_counts + 1, sizeof *now, &now);
  if (status != CAIRN_OK) return crn_rules_fail(r, status);
  for (int64_t c = 0; c < n_counts; c++) now[c] = (tails){at_end(o, c, false), as_rule(o, at_end(o, c, true))};
  now[n_counts] = (tails){crn_node_never(), crn_node_never()};
  for (int64_t i = n; i-- > 0 && !crn_rules_failed(r);) {
    const property *p = &o->properties.items[i];
    for (int64_t c = 0; c < n_counts; c++) {
      const crn_node *next = now[o->is_counted ? c + 1 : 0].behind;
      const crn_node *never = crn_node_never();
      const crn_node *fresh = CRN_ANY(r, CRN_ALL(r, p->node, next), p->is_required ? never : now[c].fresh);
      const crn_node *behind = CRN_ANY(r, CRN_ALL(r, o->comma, p->node, next), p->is_required ? never : now[c].behind);
      // Only the first of a row has nothing before it.
      now[c] = (tails){as_rule(o, fresh), as_rule(o, behind)};
    }
  }
  const crn_node *node = now[0].fresh;
  crn_free(r->allocator, now, ((size_t)n_counts + 1) * sizeof *now);
  return node;
}

const crn_node *crn_schema_object(crn_schema *s, const crn_terms *terms) {
  object o = {.s = s, .r = s->rules, .terms = terms};
  o.space = crn_form_space(&s->forms);
  o.comma = CRN_ALL(o.r, o.space, text(&o, ","), o.space);
  o.min = crn_schema_most(terms, "minProperties", 0, true);
  o.max = crn_schema_most(terms, "maxProperties", -1, false);
  find_properties(&o);
  make_properties(&o);
  make_other(&o);
  int64_t n_required = 0;
  for (size_t i = 0; i < o.properties.size; i++) n_required += o.properties.items[i].is_required;
  o.is_counted = o.max >= 0 || o.min > n_required;
  if (o.is_counted && o.properties.size > MAX_COUNTED) {
    CRN_SCHEMA_UNSUPPORTED(s, terms->items[0].schema, "minProperties", "counts of more than 100 properties are not supported");
  }
  if (o.min > (int64_t)o.properties.size + (o.other->kind != CRN_NODE_NEVER) && o.other->kind != CRN_NODE_NEVER) {
    CRN_SCHEMA_UNSUPPORTED(s, terms->items[0].schema, "minProperties",
                           "at least two properties without names of their own are not supported");
  }
  const crn_node *inside = crn_rules_failed(o.r) ? crn_node_empty() : row(&o);
  crn_vec_free(o.r->allocator, &o.properties);
  return CRN_ALL(o.r, text(&o, "{"), o.space, inside, text(&o, "}"));
}
