// Deciding things about schemas: whether a value satisfies one, and whether two can have no value in common. What is not certain is
// UNKNOWN, and whoever asks refuses then.
#include <math.h>
#include <string.h>

#include "text/grammar/schema.h"

static crn_truth not(crn_truth t) { return t == CRN_UNKNOWN ? t : t == CRN_TRUE ? CRN_FALSE : CRN_TRUE; }
static crn_truth both(crn_truth a, crn_truth b) {
  return a == CRN_FALSE || b == CRN_FALSE ? CRN_FALSE : a == CRN_UNKNOWN || b == CRN_UNKNOWN ? CRN_UNKNOWN : CRN_TRUE;
}
static crn_truth truth(bool b) { return b ? CRN_TRUE : CRN_FALSE; }

static unsigned type_of(const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_NULL:
      return CRN_TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
      return CRN_TYPE_BOOLEAN;
    case JSON_INTEGER:
      return CRN_TYPE_INTEGER;
    case JSON_REAL:
      return json_real_value(value) == floor(json_real_value(value)) ? CRN_TYPE_INTEGER : CRN_TYPE_FRACTION;
    case JSON_STRING:
      return CRN_TYPE_STRING;
    case JSON_ARRAY:
      return CRN_TYPE_ARRAY;
    default:
      return CRN_TYPE_OBJECT;
  }
}

// As the standard compares: 1 and 1.0 are one number.
static bool is_equal(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b);
}

static crn_truth holds(crn_schema *s, const json_t *schema, const json_t *value, int depth);

// --- numbers and strings ----------------------------------------------------------------------------------------------------------

static crn_truth number_holds(const json_t *schema, double v) {
  const json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
  const json_t *above = json_object_get(schema, "exclusiveMinimum"), *below = json_object_get(schema, "exclusiveMaximum");
  const json_t *step = json_object_get(schema, "multipleOf");
  if (low && (json_is_true(above) ? v <= json_number_value(low) : v < json_number_value(low))) return CRN_FALSE;
  if (high && (json_is_true(below) ? v >= json_number_value(high) : v > json_number_value(high))) return CRN_FALSE;
  if (json_is_number(above) && v <= json_number_value(above)) return CRN_FALSE;
  if (json_is_number(below) && v >= json_number_value(below)) return CRN_FALSE;
  if (!step) return CRN_TRUE;
  double m = json_number_value(step);
  if (m == floor(m) && v == floor(v)) return truth(m > 0 && fmod(v, m) == 0);
  return CRN_UNKNOWN;
}

static crn_truth string_holds(crn_schema *s, const json_t *schema, const json_t *value) {
  const char *text = json_string_value(value), *pattern = json_string_value(json_object_get(schema, "pattern"));
  const size_t bytes = json_string_length(value);
  int64_t n = 0, max = crn_schema_count(schema, "maxLength", -1);
  for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
  if (n < crn_schema_count(schema, "minLength", 0) || (max >= 0 && n > max)) return CRN_FALSE;
  if (pattern) {
    const crn_node *node = crn_schema_pattern(s, schema, "pattern", pattern, strlen(pattern));
    if (!crn_language_has(s->rules, node, text, bytes)) return CRN_FALSE;
  }
  const crn_format *format = crn_schema_format(schema);
  if (!format) return CRN_TRUE;
  const char *wide = format->wide ? format->wide : format->near;
  const crn_node *node = crn_schema_pattern(s, schema, "format", wide, strlen(wide));
  return crn_language_has(s->rules, node, text, bytes) ? CRN_TRUE : format->is_whole ? CRN_FALSE : CRN_UNKNOWN;
}

// --- arrays and objects -------------------------------------------------------------------------------------------------------------

static crn_truth items_hold(crn_schema *s, const json_t *schema, const json_t *value, int depth) {
  const json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
  const json_t *rest = items, *contains = json_object_get(schema, "contains");
  crn_truth result = CRN_TRUE;
  size_t i;
  json_t *item;
  int64_t n = (int64_t)json_array_size(value), max = crn_schema_count(schema, "maxItems", -1);
  if (n < crn_schema_count(schema, "minItems", 0) || (max >= 0 && n > max)) return CRN_FALSE;
  if (json_object_get(schema, "unevaluatedItems")) return CRN_UNKNOWN;
  if (json_is_array(items)) prefix = items, rest = json_object_get(schema, "additionalItems");
  json_array_foreach(value, i, item) {
    const json_t *of = i < json_array_size(prefix) ? json_array_get(prefix, i) : rest;
    if (of) result = both(result, holds(s, of, item, depth + 1));
    for (size_t k = 0; k < i && json_is_true(json_object_get(schema, "uniqueItems")); k++) {
      if (is_equal(item, json_array_get(value, k))) return CRN_FALSE;
    }
  }
  if (!contains) return result;
  if (json_object_get(schema, "minContains") || json_object_get(schema, "maxContains")) return CRN_UNKNOWN;
  crn_truth found = CRN_FALSE;
  json_array_foreach(value, i, item) found = not(both(not(found), not(holds(s, contains, item, depth + 1))));
  return both(result, found);
}

static crn_truth member_holds(crn_schema *s, const json_t *schema, const char *name, const json_t *item, int depth) {
  const json_t *of = json_object_get(json_object_get(schema, "properties"), name), *patterns = json_object_get(schema, "patternProperties");
  crn_truth result = of ? holds(s, of, item, depth + 1) : CRN_TRUE;
  bool is_said = of != NULL;
  const char *pattern;
  json_t *other;
  json_object_foreach((json_t *)patterns, pattern, other) {
    const crn_node *node = crn_schema_pattern(s, schema, "patternProperties", pattern, strlen(pattern));
    if (!crn_language_has(s->rules, node, name, strlen(name))) continue;
    is_said = true;
    result = both(result, holds(s, other, item, depth + 1));
  }
  of = json_object_get(schema, "additionalProperties");
  if (!is_said && of) result = both(result, holds(s, of, item, depth + 1));
  const json_t *names = json_object_get(schema, "propertyNames");
  if (names) {
    json_t *text = json_string(name);
    result = both(result, text ? holds(s, names, text, depth + 1) : CRN_UNKNOWN);
    json_decref(text);
  }
  return result;
}

static crn_truth members_hold(crn_schema *s, const json_t *schema, const json_t *value, int depth) {
  static const char *const UNDECIDED[] = {"unevaluatedProperties", "dependentSchemas", "dependentRequired", "dependencies"};
  crn_truth result = CRN_TRUE;
  const char *name;
  json_t *item;
  size_t i;
  int64_t n = (int64_t)json_object_size(value), max = crn_schema_count(schema, "maxProperties", -1);
  if (n < crn_schema_count(schema, "minProperties", 0) || (max >= 0 && n > max)) return CRN_FALSE;
  json_array_foreach(json_object_get(schema, "required"), i, item) {
    if (json_is_string(item) && !json_object_get(value, json_string_value(item))) return CRN_FALSE;
  }
  for (i = 0; i < sizeof UNDECIDED / sizeof *UNDECIDED; i++) {
    if (json_object_get(schema, UNDECIDED[i])) result = CRN_UNKNOWN;
  }
  json_object_foreach((json_t *)value, name, item) result = both(result, member_holds(s, schema, name, item, depth));
  return result;
}

// --- the whole ----------------------------------------------------------------------------------------------------------------------

static crn_truth combined_holds(crn_schema *s, const json_t *schema, const json_t *value, int depth) {
  const json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf"), *one = json_object_get(schema, "oneOf");
  const json_t *no = json_object_get(schema, "not"), *when = json_object_get(schema, "if");
  crn_truth result = CRN_TRUE, found = CRN_FALSE;
  json_t *item;
  size_t i, n_true = 0, n_unknown = 0;
  json_array_foreach(all, i, item) result = both(result, holds(s, item, value, depth + 1));
  json_array_foreach(any, i, item) found = not(both(not(found), not(holds(s, item, value, depth + 1))));
  if (any) result = both(result, found);
  json_array_foreach(one, i, item) {
    crn_truth t = holds(s, item, value, depth + 1);
    n_true += t == CRN_TRUE;
    n_unknown += t == CRN_UNKNOWN;
  }
  if (one) result = both(result, n_true > 1 ? CRN_FALSE : n_unknown ? CRN_UNKNOWN : truth(n_true == 1));
  if (no) result = both(result, not(holds(s, no, value, depth + 1)));
  if (when) {
    crn_truth is = holds(s, when, value, depth + 1);
    const json_t *then = json_object_get(schema, is == CRN_TRUE ? "then" : "else");
    result = is == CRN_UNKNOWN ? both(result, CRN_UNKNOWN) : then ? both(result, holds(s, then, value, depth + 1)) : result;
  }
  return result;
}

static crn_truth holds(crn_schema *s, const json_t *schema, const json_t *value, int depth) {
  if (json_is_boolean(schema)) return truth(json_is_true(schema));
  if (!json_is_object(schema) || depth > CRN_GRAMMAR_MAX_DEPTH || crn_rules_failed(s->rules)) return CRN_UNKNOWN;
  const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const"), *ref = json_object_get(schema, "$ref");
  json_t *item;
  size_t i;
  bool is_listed = !list;
  unsigned type = type_of(value);
  if (json_object_get(schema, "$dynamicRef") || json_object_get(schema, "$recursiveRef")) return CRN_UNKNOWN;
  if (!(crn_schema_types(schema) & type)) return CRN_FALSE;
  json_array_foreach(list, i, item) is_listed = is_listed || is_equal(item, value);
  if (!is_listed || (one && !is_equal(one, value))) return CRN_FALSE;
  crn_truth result = CRN_TRUE;
  if (json_is_string(ref)) {
    const json_t *target = crn_schema_resolve(s, schema, json_string_value(ref));
    result = target ? holds(s, target, value, depth + 1) : CRN_UNKNOWN;
  }
  result = both(result, combined_holds(s, schema, value, depth));
  if (type & (CRN_TYPE_INTEGER | CRN_TYPE_FRACTION)) return both(result, number_holds(schema, json_number_value(value)));
  if (type == CRN_TYPE_STRING) return both(result, string_holds(s, schema, value));
  if (type == CRN_TYPE_ARRAY) return both(result, items_hold(s, schema, value, depth));
  if (type == CRN_TYPE_OBJECT) return both(result, members_hold(s, schema, value, depth));
  return result;
}

crn_truth crn_schema_holds(crn_schema *s, const json_t *schema, const json_t *value) { return holds(s, schema, value, 0); }

// --- nothing in common ----------------------------------------------------------------------------------------------------------------

static const json_t *listed(const crn_terms *t, json_t **out_one) {
  for (size_t i = 0; i < t->size; i++) {
    const json_t *one = json_object_get(t->items[i].schema, "const"), *list = json_object_get(t->items[i].schema, "enum");
    if (one) return *out_one = json_pack("[O]", one);
    if (json_is_array(list)) return list;
  }
  return NULL;
}

// Whether every value that is listed in `a` fails in `a` or `b`.
static bool values_apart(crn_schema *s, const crn_terms *a, const crn_terms *b) {
  json_t *one = NULL, *value;
  const json_t *values = listed(a, &one);
  bool apart = values != NULL;
  size_t i;
  json_array_foreach(values, i, value) {
    crn_truth in = CRN_TRUE;
    for (size_t k = 0; k < a->size; k++) in = both(in, crn_schema_holds(s, a->items[k].schema, value));
    for (size_t k = 0; k < b->size; k++) in = both(in, crn_schema_holds(s, b->items[k].schema, value));
    apart = apart && in == CRN_FALSE;
  }
  json_decref(one);
  return apart;
}

static bool requires(const crn_terms *t, const char *name) {
  json_t *item;
  size_t i;
  for (size_t k = 0; k < t->size; k++) {
    json_array_foreach(json_object_get(t->items[k].schema, "required"), i, item) {
      if (json_is_string(item) && !strcmp(json_string_value(item), name)) return true;
    }
  }
  return false;
}

// Whether `b` has no place for a property that `a` requires.
static bool forbids(const crn_terms *b, const char *name) {
  for (size_t k = 0; k < b->size; k++) {
    const json_t *schema = b->items[k].schema, *of = json_object_get(json_object_get(schema, "properties"), name);
    if (json_is_false(of)) return true;
    if (!of && json_is_false(json_object_get(schema, "additionalProperties")) && !json_object_get(schema, "patternProperties")) return true;
  }
  return false;
}

static bool property_apart(crn_schema *s, const crn_terms *a, const crn_terms *b, const char *name, int depth) {
  for (size_t i = 0; i < a->size; i++) {
    const json_t *x = json_object_get(json_object_get(a->items[i].schema, "properties"), name);
    for (size_t k = 0; k < b->size && x; k++) {
      const json_t *y = json_object_get(json_object_get(b->items[k].schema, "properties"), name);
      if (y && crn_schema_apart(s, x, y, depth + 1)) return true;
    }
  }
  return false;
}

// Of objects only.
static bool objects_apart(crn_schema *s, const crn_terms *a, const crn_terms *b, int depth) {
  json_t *item;
  size_t i;
  for (size_t k = 0; k < a->size; k++) {
    json_array_foreach(json_object_get(a->items[k].schema, "required"), i, item) {
      const char *name = json_string_value(item);
      if (name && requires(a, name) && (forbids(b, name) || property_apart(s, a, b, name, depth))) return true;
    }
  }
  return false;
}

static void bounds(const crn_terms *t, double *low, double *high) {
  *low = -INFINITY;
  *high = INFINITY;
  for (size_t i = 0; i < t->size; i++) {
    const json_t *schema = t->items[i].schema, *a = json_object_get(schema, "minimum"), *b = json_object_get(schema, "maximum");
    const json_t *c = json_object_get(schema, "exclusiveMinimum"), *d = json_object_get(schema, "exclusiveMaximum");
    if (json_is_number(a)) *low = fmax(*low, json_number_value(a));
    if (json_is_number(b)) *high = fmin(*high, json_number_value(b));
    if (json_is_number(c)) *low = fmax(*low, nextafter(json_number_value(c), INFINITY));
    if (json_is_number(d)) *high = fmin(*high, nextafter(json_number_value(d), -INFINITY));
  }
}

static bool numbers_apart(const crn_terms *a, const crn_terms *b) {
  double a_low, a_high, b_low, b_high;
  bounds(a, &a_low, &a_high);
  bounds(b, &b_low, &b_high);
  return a_high < b_low || b_high < a_low;
}

// Whether each alternative of `a` is apart from b.
static bool alternatives_apart(crn_schema *s, const crn_terms *a, const json_t *b, int depth) {
  static const char *const KEYWORDS[] = {"anyOf", "oneOf"};
  for (size_t k = 0; k < a->size * 2; k++) {
    const json_t *any = json_object_get(a->items[k / 2].schema, KEYWORDS[k % 2]);
    bool apart = json_array_size(any) > 0;
    json_t *item;
    size_t i;
    json_array_foreach(any, i, item) apart = apart && crn_schema_apart(s, item, b, depth + 1);
    if (apart) return true;
  }
  return false;
}

static unsigned types_of(const crn_terms *t) {
  unsigned types = CRN_TYPE_ALL;
  for (size_t i = 0; i < t->size; i++) types &= crn_schema_types(t->items[i].schema);
  return types;
}

bool crn_schema_apart(crn_schema *s, const json_t *a, const json_t *b, int depth) {
  if (json_is_false(a) || json_is_false(b)) return true;
  if (!json_is_object(a) || !json_is_object(b) || depth > 12 || crn_rules_failed(s->rules)) return false;
  crn_terms x = {0}, y = {0};
  crn_schema_gather(s, a, &x);
  crn_schema_gather(s, b, &y);
  unsigned types = types_of(&x) & types_of(&y);
  bool apart = !types || values_apart(s, &x, &y) || values_apart(s, &y, &x);
  if (types == CRN_TYPE_OBJECT) apart = apart || objects_apart(s, &x, &y, depth) || objects_apart(s, &y, &x, depth);
  if (!(types & ~(unsigned)(CRN_TYPE_INTEGER | CRN_TYPE_FRACTION))) apart = apart || numbers_apart(&x, &y);
  apart = apart || alternatives_apart(s, &x, b, depth) || alternatives_apart(s, &y, a, depth);
  crn_terms_free(s, &x);
  crn_terms_free(s, &y);
  return apart;
}
