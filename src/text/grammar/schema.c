// The frame of schemas: lists, references, types, finite sets of values.
#include "text/grammar/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- failures and what is made on the way -----------------------------------------------------------------------------------

cairn_status crn_schema_add_step(crn_str *place, const char *step) {
  CRN_TRY(crn_str_putc(place, '/'));
  for (; *step; step++) {
    if (*step == '~' || *step == '/') {
      CRN_TRY(crn_str_puts(place, *step == '~' ? "~0" : "~1"));
    } else {
      CRN_TRY(crn_str_putc(place, *step));
    }
  }
  return CAIRN_OK;
}

// Writes where `wanted` is below `at`: "/properties/a". False when it is not there.
static bool find_place(const json_t *at, const json_t *wanted, crn_str *path, int depth) {
  const char *key;
  json_t *item;
  size_t i, before = path->size;
  if (at == wanted) return true;
  if (depth > 2 * CRN_GRAMMAR_MAX_DEPTH) return false;
  json_object_foreach((json_t *)at, key, item) {
    if (crn_schema_add_step(path, key) == CAIRN_OK && find_place(item, wanted, path, depth + 1)) return true;
    path->size = before;
  }
  json_array_foreach(at, i, item) {
    if (crn_str_printf(path, "/%zu", i) == CAIRN_OK && find_place(item, wanted, path, depth + 1)) return true;
    path->size = before;
  }
  return false;
}

bool crn_schema_find(const crn_schema *s, const json_t *wanted, crn_str *path) { return find_place(s->root, wanted, path, 0); }

// The place a message names. A schema that was made on the way has none; what it was made of has.
static void say_where(const crn_schema *s, const json_t *where, const char *keyword, crn_str *path) {
  const char *key;
  json_t *item;
  if (crn_schema_find(s, where, path)) {
    if (*keyword) crn_str_printf(path, "/%s", keyword);
    return;
  }
  json_object_foreach((json_t *)where, key, item) {
    path->size = 0;
    if (crn_schema_find(s, item, path)) return;
  }
  path->size = 0;
}

const crn_node *crn_schema_fail(crn_schema *s, cairn_status code, const json_t *where, const char *keyword, const char *why) {
  if (crn_rules_failed(s->rules)) return crn_node_empty();
  crn_str path;
  crn_str_initialize(&path, s->rules->allocator);
  say_where(s, where, keyword, &path);
  crn_rules_fail(s->rules, crn_fail(code, __FILE__, __LINE__, "the schema: #%.*s: %s", (int)(path.size < 120 ? path.size : 120),
                                    path.size ? path.data : "", why));
  crn_str_deinitialize(&path);
  return crn_node_empty();
}

const json_t *crn_schema_make(crn_schema *s, json_t *made) {
  if (!made || json_array_append_new(s->made, made)) {
    crn_rules_fail(s->rules, CRN_FAIL(OUT_OF_MEMORY, "no memory for a schema"));
    return NULL;
  }
  return made;
}

void crn_terms_add(crn_schema *s, crn_terms *t, crn_term term) {
  if (crn_rules_failed(s->rules) || !term.schema) return;
  cairn_status status = crn_vec_push(s->rules->allocator, t, term);
  if (status != CAIRN_OK) crn_rules_fail(s->rules, status);
}

void crn_terms_copy(crn_schema *s, crn_terms *to, const crn_terms *from) {
  for (size_t i = 0; i < from->size; i++) crn_terms_add(s, to, from->items[i]);
}

void crn_terms_free(crn_schema *s, crn_terms *t) { crn_vec_free(s->rules->allocator, t); }

// --- keywords -----------------------------------------------------------------------------------------------------------------

unsigned crn_schema_type_of_name(const char *name) {
  static const struct {
    const char *name;
    unsigned type;
  } NAMES[] = {{"null", CRN_TYPE_NULL},       {"boolean", CRN_TYPE_BOOLEAN},
               {"integer", CRN_TYPE_INTEGER}, {"number", CRN_TYPE_INTEGER | CRN_TYPE_FRACTION},
               {"string", CRN_TYPE_STRING},   {"array", CRN_TYPE_ARRAY},
               {"object", CRN_TYPE_OBJECT}};
  for (size_t i = 0; name && i < sizeof NAMES / sizeof *NAMES; i++) {
    if (!strcmp(NAMES[i].name, name)) return NAMES[i].type;
  }
  return 0;
}

unsigned crn_schema_types(const json_t *schema) {
  const json_t *type = json_object_get(schema, "type");
  json_t *item;
  size_t i;
  unsigned types = 0;
  if (!type) return CRN_TYPE_ALL;
  if (!json_is_array(type)) return crn_schema_type_of_name(json_string_value(type));
  json_array_foreach(type, i, item) types |= crn_schema_type_of_name(json_string_value(item));
  return types;
}

bool crn_schema_is_whole(double number) { return number == floor(number); }

int64_t crn_schema_count(const json_t *schema, const char *keyword, int64_t none) {
  const double most = 1e15;  // far beyond whatever is supported, and exact
  const json_t *value = json_object_get(schema, keyword);
  if (!value) return none;
  const double number = json_number_value(value);
  return (int64_t)(number < most ? number : most);
}

int64_t crn_schema_most(const crn_terms *terms, const char *keyword, int64_t none, bool largest) {
  int64_t best = none;
  for (size_t i = 0; i < terms->size; i++) {
    int64_t count = crn_schema_count(terms->items[i].schema, keyword, -1);
    if (count < 0) continue;
    if (best == none || (largest ? count > best : count < best)) best = count;
  }
  return best;
}

// Without a type the keywords say what a value is meant to be.
static unsigned inferred_types(const crn_terms *terms) {
  static const struct {
    const char *keyword;
    unsigned type;
  } HINTS[] = {{"properties", CRN_TYPE_OBJECT},
               {"required", CRN_TYPE_OBJECT},
               {"additionalProperties", CRN_TYPE_OBJECT},
               {"patternProperties", CRN_TYPE_OBJECT},
               {"propertyNames", CRN_TYPE_OBJECT},
               {"minProperties", CRN_TYPE_OBJECT},
               {"maxProperties", CRN_TYPE_OBJECT},
               {"dependentRequired", CRN_TYPE_OBJECT},
               {"dependentSchemas", CRN_TYPE_OBJECT},
               {"dependencies", CRN_TYPE_OBJECT},
               {"items", CRN_TYPE_ARRAY},
               {"prefixItems", CRN_TYPE_ARRAY},
               {"contains", CRN_TYPE_ARRAY},
               {"minItems", CRN_TYPE_ARRAY},
               {"maxItems", CRN_TYPE_ARRAY},
               {"uniqueItems", CRN_TYPE_ARRAY},
               {"minLength", CRN_TYPE_STRING},
               {"maxLength", CRN_TYPE_STRING},
               {"pattern", CRN_TYPE_STRING},
               {"format", CRN_TYPE_STRING},
               {"minimum", CRN_TYPE_INTEGER | CRN_TYPE_FRACTION},
               {"maximum", CRN_TYPE_INTEGER | CRN_TYPE_FRACTION},
               {"exclusiveMinimum", CRN_TYPE_INTEGER | CRN_TYPE_FRACTION},
               {"exclusiveMaximum", CRN_TYPE_INTEGER | CRN_TYPE_FRACTION},
               {"multipleOf", CRN_TYPE_INTEGER | CRN_TYPE_FRACTION}};
  unsigned types = 0;
  for (size_t i = 0; i < terms->size; i++) {
    for (size_t k = 0; k < sizeof HINTS / sizeof *HINTS; k++) {
      if (json_object_get(terms->items[i].schema, HINTS[k].keyword)) types |= HINTS[k].type;
    }
  }
  return types ? types : CRN_TYPE_ALL;
}

// --- lists --------------------------------------------------------------------------------------------------------------------

static bool has_term(const crn_terms *t, const json_t *schema) {
  for (size_t i = 0; i < t->size; i++) {
    if (t->items[i].schema == schema) return true;
  }
  return false;
}

// Adds a schema that was not there before. False when nothing can satisfy it.
static bool add_schema(crn_schema *s, crn_terms *out, crn_term term) {
  const json_t *schema = term.schema;
  if (json_is_boolean(schema)) return json_is_true(schema);
  if (has_term(out, schema)) return true;
  if (out->size >= 4 * CRN_GRAMMAR_MAX_DEPTH) {
    CRN_SCHEMA_UNSUPPORTED(s, schema, "", "more than 400 schemas for one value");
    return true;
  }
  crn_terms_add(s, out, term);
  return true;
}

// Adds what the reference and `allOf` of a schema say.
static bool expand(crn_schema *s, crn_terms *out, const json_t *schema) {
  static const char *const REFUSED[] = {"$dynamicRef", "$recursiveRef"};
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
    if (json_object_get(schema, REFUSED[i])) CRN_SCHEMA_UNSUPPORTED(s, schema, REFUSED[i], "this keyword is not supported");
  }
  const json_t *ref = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf");
  if (ref) {
    const json_t *target = crn_schema_resolve(s, schema, json_string_value(ref));
    if (target && !add_schema(s, out, (crn_term){target, 0})) return false;
  }
  json_t *item;
  size_t i;
  json_array_foreach(all, i, item) {
    if (!add_schema(s, out, (crn_term){item, 0})) return false;
  }
  return true;
}

// All schemas that hold for a value when those of a list do. Those of the list come first: they know what was dealt with.
static bool flatten(crn_schema *s, crn_terms *out, const crn_terms *terms) {
  for (size_t i = 0; i < terms->size; i++) {
    if (!add_schema(s, out, terms->items[i])) return false;
  }
  for (size_t i = 0; i < out->size && !crn_rules_failed(s->rules); i++) {
    if (!expand(s, out, out->items[i].schema)) return false;
  }
  return true;
}

void crn_schema_gather(crn_schema *s, const json_t *schema, crn_terms *out) {
  crn_terms one = {0};
  crn_terms_add(s, &one, (crn_term){schema, 0});
  flatten(s, out, &one);
  crn_terms_free(s, &one);
}

static int compare_terms(const void *a, const void *b) {
  const crn_term *x = a, *y = b;
  if (x->schema != y->schema) return (uintptr_t)x->schema < (uintptr_t)y->schema ? -1 : 1;
  return (x->done > y->done) - (x->done < y->done);
}

// The rule of a list that was met before, else a new one that is remembered.
static int32_t rule_of(crn_schema *s, const crn_terms *terms, bool *out_is_new) {
  crn_term *key;
  *out_is_new = false;
  cairn_status status = crn_arena_array(&s->rules->arena, terms->size, sizeof *key, &key);
  if (status != CAIRN_OK) {
    crn_rules_fail(s->rules, status);
    return 0;
  }
  memcpy(key, terms->items, terms->size * sizeof *key);
  qsort(key, terms->size, sizeof *key, compare_terms);
  for (size_t i = 0; i < s->known.size; i++) {
    const crn_known_terms *k = &s->known.items[i];
    size_t same = 0;
    if (k->n != terms->size) continue;
    while (same < k->n && !compare_terms(&k->terms[same], &key[same])) same++;
    if (same == k->n) return k->rule;
  }
  int32_t rule = crn_rule_new(s->rules);
  *out_is_new = true;
  status = crn_vec_push(s->rules->allocator, &s->known, ((crn_known_terms){key, terms->size, rule}));
  if (status != CAIRN_OK) crn_rules_fail(s->rules, status);
  return rule;
}

// --- values -------------------------------------------------------------------------------------------------------------------

// The values a list allows by `enum` and `const`; NULL when it does not list any.
static const json_t *listed_values(crn_schema *s, const crn_terms *terms) {
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema, *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    if (one) return crn_schema_make(s, json_pack("[O]", one));
    if (list) return list;
  }
  return NULL;
}

static const crn_node *constants(crn_schema *s, const crn_terms *terms, const json_t *values) {
  crn_node_vec choices = {0};
  json_t *value;
  size_t i;
  json_array_foreach(values, i, value) {
    crn_truth holds = CRN_TRUE;
    for (size_t k = 0; k < terms->size && holds == CRN_TRUE; k++) {
      holds = crn_schema_holds(s, terms->items[k].schema, value);
      if (holds == CRN_UNKNOWN) {
        CRN_SCHEMA_UNSUPPORTED(s, terms->items[k].schema, "", "it cannot be decided which listed values satisfy this");
      }
    }
    if (holds == CRN_TRUE) crn_nodes_add(s->rules, &choices, crn_form_constant(&s->forms, value));
  }
  return crn_nodes_any(s->rules, &choices);
}

// Values that `not` excludes, as a list.
static const json_t *excluded_values(crn_schema *s, const crn_terms *terms) {
  json_t *all = NULL, *item;
  size_t i;
  for (size_t k = 0; k < terms->size; k++) {
    const json_t *no = json_object_get(terms->items[k].schema, "not"), *one = json_object_get(no, "const");
    if (!no || json_object_size(no) != 1) continue;
    if (!all && (one || json_object_get(no, "enum"))) all = (json_t *)crn_schema_make(s, json_array());
    if (one) json_array_append(all, (json_t *)one);
    json_array_foreach(json_object_get(no, "enum"), i, item) json_array_append(all, item);
  }
  return all;
}

static bool is_excluded(const json_t *excluded, const json_t *value) {
  json_t *item;
  size_t i;
  json_array_foreach(excluded, i, item) {
    if (json_equal(item, value)) return true;
  }
  return false;
}

static bool excludes_type(const json_t *excluded, json_type a, json_type b) {
  json_t *item;
  size_t i;
  json_array_foreach(excluded, i, item) {
    if (json_typeof(item) == a || json_typeof(item) == b) return true;
  }
  return false;
}

static const crn_node *simple_types(crn_schema *s, unsigned types, const json_t *excluded) {
  crn_rules *r = s->rules;
  const crn_node *never = crn_node_never();
  bool has_true = types & CRN_TYPE_BOOLEAN && !is_excluded(excluded, json_true());
  bool has_false = types & CRN_TYPE_BOOLEAN && !is_excluded(excluded, json_false());
  bool has_null = types & CRN_TYPE_NULL && !is_excluded(excluded, json_null());
  return CRN_ANY(r, has_null ? crn_form_word(r, "null") : never, has_true ? crn_form_word(r, "true") : never,
                 has_false ? crn_form_word(r, "false") : never);
}

// A string of which nothing is said is the same rule everywhere.
static const crn_node *quoted_string(crn_schema *s, const crn_terms *terms, const json_t *excluded) {
  static const char *const KEYWORDS[] = {"minLength", "maxLength", "pattern", "format"};
  const crn_node *quote = crn_form_quote(s->rules);
  bool is_free = !json_array_size(excluded);
  for (size_t i = 0; i < terms->size * (sizeof KEYWORDS / sizeof *KEYWORDS) && is_free; i++) {
    is_free = !json_object_get(terms->items[i / 4].schema, KEYWORDS[i % 4]);
  }
  return is_free ? crn_form_string(&s->forms) : CRN_ALL(s->rules, quote, crn_schema_string(s, terms, excluded, NULL, false), quote);
}

static const crn_node *typed(crn_schema *s, const crn_terms *terms) {
  crn_rules *r = s->rules;
  unsigned types = CRN_TYPE_ALL;
  bool is_typed = false;
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema, *no = json_object_get(schema, "not");
    types &= crn_schema_types(schema);
    is_typed = is_typed || json_object_get(schema, "type");
    if (json_is_object(no) && json_object_size(no) == 1 && json_object_get(no, "type")) {
      unsigned not_these = crn_schema_types(no);
      if (not_these == CRN_TYPE_INTEGER && types & CRN_TYPE_FRACTION) {
        return CRN_SCHEMA_UNSUPPORTED(s, schema, "not", "numbers that are no integers are not supported");
      }
      types &= ~not_these;
    }
  }
  if (!is_typed) types &= inferred_types(terms);
  const json_t *excluded = excluded_values(s, terms);
  bool numbers = types & (CRN_TYPE_INTEGER | CRN_TYPE_FRACTION);
  if ((numbers && excludes_type(excluded, JSON_INTEGER, JSON_REAL)) ||
      (types & (CRN_TYPE_ARRAY | CRN_TYPE_OBJECT) && excludes_type(excluded, JSON_ARRAY, JSON_OBJECT))) {
    return CRN_SCHEMA_UNSUPPORTED(s, terms->items[0].schema, "not", "numbers, lists and objects cannot be left out one by one");
  }
  const crn_node *never = crn_node_never();
  return CRN_ANY(r, types & CRN_TYPE_OBJECT ? crn_schema_object(s, terms) : never,
                 types & CRN_TYPE_ARRAY ? crn_schema_array(s, terms) : never,
                 types & CRN_TYPE_STRING ? quoted_string(s, terms, excluded) : never,
                 numbers ? crn_schema_number(s, terms, !(types & CRN_TYPE_FRACTION)) : never, simple_types(s, types, excluded));
}

static const crn_node *body_of(crn_schema *s, const crn_terms *terms) {
  const json_t *values = listed_values(s, terms);
  if (values) return constants(s, terms, values);
  const crn_node *choices = crn_schema_choices(s, terms);
  return choices ? choices : typed(s, terms);
}

const crn_node *crn_schema_value(crn_schema *s, crn_terms *terms) {
  crn_terms flat = {0};
  bool is_possible = flatten(s, &flat, terms), is_new;
  crn_terms_free(s, terms);
  const crn_node *node = crn_node_never();
  if (crn_rules_failed(s->rules)) {
    node = crn_node_empty();
  } else if (is_possible && !flat.size) {
    node = crn_form_value(&s->forms);
  } else if (is_possible) {
    int32_t rule = rule_of(s, &flat, &is_new);
    if (is_new && ++s->depth > 4 * CRN_GRAMMAR_MAX_DEPTH) CRN_SCHEMA_UNSUPPORTED(s, flat.items[0].schema, "", "schemas nested too deep");
    if (is_new && !crn_rules_failed(s->rules)) {
      crn_rule_set(s->rules, rule, body_of(s, &flat));
      s->depth--;
    }
    node = crn_node_rule(s->rules, rule);
  }
  crn_terms_free(s, &flat);
  return node;
}

const crn_node *crn_schema_value_of(crn_schema *s, const json_t *schema) {
  crn_terms terms = {0};
  crn_terms_add(s, &terms, (crn_term){schema, 0});
  return crn_schema_value(s, &terms);
}

// --- the whole ----------------------------------------------------------------------------------------------------------------

void crn_schema_initialize(crn_schema *s, crn_rules *rules, bool compact) {
  *s = (crn_schema){.rules = rules, .made = json_array()};
  crn_forms_initialize(&s->forms, rules, compact);
  crn_map_initialize(&s->checked, rules->allocator);
  crn_map_initialize(&s->texts, rules->allocator);
  if (!s->made) crn_rules_fail(rules, CRN_FAIL(OUT_OF_MEMORY, "no memory for a schema"));
}

void crn_schema_deinitialize(crn_schema *s) {
  crn_vec_free(s->rules->allocator, &s->known);
  crn_vec_free(s->rules->allocator, &s->numbers);
  crn_map_deinitialize(&s->checked);
  crn_map_deinitialize(&s->texts);
  json_decref(s->made);
}

// A part that leaves nothing is named; where it is the whole, whoever writes the rules says so.
static void check_possible(crn_schema *s, int32_t start) {
  crn_str place;
  bool *can_end;
  cairn_status status = s->rules->status;
  crn_str_initialize(&place, s->rules->allocator);
  if (status == CAIRN_OK) status = crn_rules_find_ends(s->rules, &can_end);
  if (status == CAIRN_OK && !can_end[start]) status = crn_schema_find_empty(s, can_end, start, &place);
  if (status == CAIRN_OK && place.size) status = CRN_FAIL(INVALID_ARGUMENT, "the schema: #%s: no value can ever satisfy this", place.data);
  if (status != CAIRN_OK) crn_rules_fail(s->rules, status);
  crn_str_deinitialize(&place);
}

void crn_schema_read(crn_rules *rules, const char *text, size_t bytes, bool compact) {
  crn_schema s;
  json_t *root;
  cairn_status status = crn_json_parse(text, bytes, "the schema", &root);
  if (status != CAIRN_OK) {
    // A schema is an argument, not a file.
    const char *message = cairn_last_error()->message;
    char copy[256];
    snprintf(copy, sizeof copy, "%s", message);
    crn_rules_fail(rules, status == CAIRN_OUT_OF_MEMORY ? status : CRN_FAIL(INVALID_ARGUMENT, "%s", copy));
    return;
  }
  crn_schema_initialize(&s, rules, compact);
  s.root = root;
  int32_t start = crn_rule_new(rules);
  crn_schema_check(&s, root);
  if (!crn_rules_failed(rules)) crn_rule_set(rules, start, crn_schema_value_of(&s, root));
  check_possible(&s, start);
  crn_schema_deinitialize(&s);
  json_decref(root);
}
