// Arrays: items in order, how many, what must be among them.
#include "text/grammar/schema.h"

enum { MAX_UNIQUE = 8, MAX_CONTAINS = 64 };

typedef struct array {
  crn_schema *s;
  crn_rules *r;
  const crn_node *comma;
  size_t n_prefix;
  int64_t min, max;  ///< -1 = no bound
} array;

static const crn_node *text(array *a, const char *t) { return crn_node_literal(a->r, t); }

static const crn_node *bracketed(array *a, const crn_node *inside) {
  const crn_node *space = crn_form_space(&a->s->forms);
  return CRN_ALL(a->r, text(a, "["), space, inside, text(a, "]"));
}

// Draft 2020 has prefixItems and items, those before items as a list and additionalItems.
static const json_t *prefix_of(const json_t *schema) {
  const json_t *items = json_object_get(schema, "items");
  return json_is_array(items) ? items : json_object_get(schema, "prefixItems");
}

static const json_t *rest_of(const json_t *schema) {
  const json_t *items = json_object_get(schema, "items");
  if (!items || json_is_array(items)) items = json_object_get(schema, json_is_array(items) ? "additionalItems" : "items");
  return items ? items : json_object_get(schema, "unevaluatedItems");
}

// What all schemas say of item i; behind the prefix of a schema its `items` counts.
static void item_terms(array *a, const crn_terms *terms, size_t i, crn_terms *out) {
  for (size_t k = 0; k < terms->size; k++) {
    const json_t *schema = terms->items[k].schema, *prefix = prefix_of(schema);
    const json_t *item = i < json_array_size(prefix) ? json_array_get(prefix, i) : rest_of(schema);
    if (item) crn_terms_add(a->s, out, (crn_term){item, 0});
  }
}

static const crn_node *item_node(array *a, const crn_terms *terms, size_t i) {
  crn_terms item = {0};
  item_terms(a, terms, i, &item);
  return crn_schema_value(a->s, &item);
}

static int64_t less(int64_t count, int64_t n) { return count < 0 ? -1 : count > n ? count - n : 0; }

// min to max items, with commas between them.
static const crn_node *row(array *a, const crn_node *item, int64_t min, int64_t max) {
  const crn_node *space = crn_form_space(&a->s->forms);
  if (max == 0 || item->kind == CRN_NODE_NEVER) return min > 0 ? crn_node_never() : crn_node_empty();
  const crn_node *more = crn_node_repeat(a->r, CRN_ALL(a->r, a->comma, item), less(min, 1), less(max, 1));
  return crn_node_repeat(a->r, CRN_ALL(a->r, item, more, space), min > 0, 1);
}

// From item i on, where i items stand already.
static const crn_node *from_item(array *a, const crn_terms *terms, const crn_node *rest, size_t i) {
  crn_rules *r = a->r;
  const int64_t n = (int64_t)i;
  const crn_node *space = crn_form_space(&a->s->forms);
  const crn_node *end = n >= a->min ? (i ? space : crn_node_empty()) : crn_node_never();
  if (crn_rules_failed(r) || (a->max >= 0 && n >= a->max)) return end;
  if (i == a->n_prefix) {
    if (!i) return row(a, rest, a->min, a->max);
    return CRN_ALL(r, crn_node_repeat(r, CRN_ALL(r, a->comma, rest), less(a->min, n), less(a->max, n)), space);
  }
  const crn_node *item = item_node(a, terms, i);
  return CRN_ANY(r, end, CRN_ALL(r, i ? a->comma : crn_node_empty(), item, from_item(a, terms, rest, i + 1)));
}

// --- items that must all be different ---------------------------------------------------------------------------------------------

// A rule for each set of values that were used.
static const crn_node *unique_row(array *a, const crn_node *const *values, size_t n) {
  crn_rules *r = a->r;
  const crn_node *sets[1 << MAX_UNIQUE];
  for (size_t used = (size_t)1 << n; used-- > 0 && !crn_rules_failed(r);) {
    int64_t count = __builtin_popcountll(used);
    crn_node_vec choices = {0};
    if (count >= a->min) crn_nodes_add(r, &choices, count ? crn_form_space(&a->s->forms) : crn_node_empty());
    for (size_t i = 0; i < n && (a->max < 0 || count < a->max); i++) {
      if (used >> i & 1) continue;
      crn_nodes_add(r, &choices, CRN_ALL(r, count ? a->comma : crn_node_empty(), values[i], sets[used | (size_t)1 << i]));
    }
    int32_t rule = crn_rule_new(r);
    crn_rule_set(r, rule, crn_nodes_any(r, &choices));
    sets[used] = crn_node_rule(r, rule);
  }
  return crn_rules_failed(r) ? crn_node_empty() : sets[0];
}

// The values that are listed for the items, when that is all there is to say of them.
static const crn_node *unique_items(array *a, const crn_terms *terms, const json_t *where) {
  const json_t *items = NULL, *list = NULL;
  const crn_node *values[MAX_UNIQUE];
  size_t n = 0, i;
  json_t *value;
  for (size_t k = 0; k < terms->size; k++) {
    const json_t *rest = rest_of(terms->items[k].schema);
    if (rest) items = rest;
    if (rest && json_object_get(rest, "enum")) list = json_object_get(rest, "enum");
  }
  const json_t *reference = json_object_get(items, "$ref");
  if (!list && json_is_string(reference)) {
    items = crn_schema_resolve(a->s, items, json_string_value(reference));
    list = json_object_get(items, "enum");
  }
  if (a->n_prefix || !list || json_array_size(list) > MAX_UNIQUE) {
    return CRN_SCHEMA_UNSUPPORTED(a->s, where, "uniqueItems",
                                  "it is supported for items of an enum of at most 8 values, and for at most one item");
  }
  json_array_foreach(list, i, value) {
    bool is_allowed = true;
    for (size_t k = 0; k < terms->size; k++) {
      const json_t *rest = rest_of(terms->items[k].schema);
      is_allowed = is_allowed && (!rest || crn_schema_holds(a->s, rest, value) == CRN_TRUE);
    }
    for (size_t k = 0; k < i; k++) is_allowed = is_allowed && !json_equal(value, json_array_get(list, k));
    if (is_allowed) values[n++] = crn_form_constant(&a->s->forms, value);
  }
  return unique_row(a, values, n);
}

// --- items of which one must be of a kind -------------------------------------------------------------------------------------------

// k items, the one that counts, and the rest, for every k that leaves room for it.
static const crn_node *contains_row(array *a, const crn_node *item, const crn_node *wanted, const json_t *where) {
  crn_rules *r = a->r;
  if (a->n_prefix || a->min > MAX_CONTAINS || a->max > MAX_CONTAINS) {
    return CRN_SCHEMA_UNSUPPORTED(a->s, where, "contains", "together with prefixItems or bounds above 64 it is not supported");
  }
  int64_t last = a->max >= 0 ? a->max - 1 : a->min > 0 ? a->min - 1 : 0;
  const crn_node *before = CRN_ALL(r, item, a->comma), *behind = CRN_ALL(r, a->comma, item);
  crn_node_vec choices = {0};
  for (int64_t k = 0; k <= last; k++) {
    bool is_open = a->max < 0 && k == last;
    crn_nodes_add(
        r, &choices,
        CRN_ALL(r, crn_node_repeat(r, before, k, is_open ? -1 : k), wanted,
                crn_node_repeat(r, behind, less(a->min, k + 1) < 0 ? 0 : less(a->min, k + 1), a->max < 0 ? -1 : less(a->max, k + 1)),
                crn_form_space(&a->s->forms)));
  }
  return crn_nodes_any(r, &choices);
}

// --- the whole ------------------------------------------------------------------------------------------------------------------------

static const crn_node *with_contains(array *a, const crn_terms *terms, const json_t *where, const crn_node *rest) {
  const json_t *contains = json_object_get(where, "contains");
  int64_t least = crn_schema_count(where, "minContains", 1);
  if (json_object_get(where, "maxContains") || least > 1) {
    return CRN_SCHEMA_UNSUPPORTED(a->s, where, "contains", "counts of what is contained are not supported");
  }
  if (least == 0) return from_item(a, terms, rest, 0);
  crn_terms wanted = {0};
  item_terms(a, terms, 0, &wanted);
  crn_terms_add(a->s, &wanted, (crn_term){contains, 0});
  return contains_row(a, rest, crn_schema_value(a->s, &wanted), where);
}

const crn_node *crn_schema_array(crn_schema *s, const crn_terms *terms) {
  array a = {.s = s, .r = s->rules};
  const json_t *unique = NULL, *contains = NULL;
  const crn_node *space = crn_form_space(&s->forms);
  a.comma = CRN_ALL(a.r, space, text(&a, ","), space);
  a.min = crn_schema_most(terms, "minItems", 0, true);
  a.max = crn_schema_most(terms, "maxItems", -1, false);
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema;
    size_t n = json_array_size(prefix_of(schema));
    if (n > a.n_prefix) a.n_prefix = n;
    if (json_is_true(json_object_get(schema, "uniqueItems"))) unique = schema;
    if (contains && json_object_get(schema, "contains")) CRN_SCHEMA_UNSUPPORTED(s, schema, "contains", "two of them are not supported");
    if (json_object_get(schema, "contains")) contains = schema;
  }
  if (a.min > CRN_GRAMMAR_MAX_REPEAT)
    CRN_SCHEMA_UNSUPPORTED(s, terms->items[0].schema, "minItems", "more than 10000 items are not supported");
  if (a.max > CRN_GRAMMAR_MAX_REPEAT) a.max = CRN_GRAMMAR_MAX_REPEAT;
  if (a.max >= 0 && a.min > a.max) return crn_node_never();
  if (unique && (a.max < 0 || a.max > 1)) {
    if (contains) return CRN_SCHEMA_UNSUPPORTED(s, contains, "contains", "together with uniqueItems it is not supported");
    return bracketed(&a, unique_items(&a, terms, unique));
  }
  const crn_node *rest = item_node(&a, terms, a.n_prefix);
  return bracketed(&a, contains ? with_contains(&a, terms, contains, rest) : from_item(&a, terms, rest, 0));
}
