#include "text/grammar/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void crn_forms_initialize(crn_forms *p, crn_rules *rules, bool compact) { *p = (crn_forms){rules, compact, -1, -1, -1, -1, -1, -1, -1}; }

static const crn_node *text(crn_rules *r, const char *t) { return crn_node_literal(r, t); }

// Makes `*rule` when it is not there. A body that needs the rule itself may use it already.
static bool is_new(crn_forms *p, int32_t *rule) {
  if (*rule >= 0) return false;
  *rule = crn_rule_new(p->rules);
  return true;
}

const crn_node *crn_form_space(crn_forms *p) {
  crn_rules *r = p->rules;
  if (p->compact) return crn_node_empty();
  // Without a bound a model can get lost in white space.
  if (is_new(p, &p->space)) {
    static const crn_range BLANKS[] = {{'\t', '\t'}, {' ', ' '}};
    const crn_node *blank = crn_node_set(r, (crn_set){BLANKS, 2});
    crn_rule_set(r, p->space, CRN_ANY(r, crn_node_empty(), text(r, " "), CRN_ALL(r, text(r, "\n"), crn_node_repeat(r, blank, 0, 32))));
  }
  return crn_node_rule(r, p->space);
}

// --- strings ----------------------------------------------------------------------------------------------------------------

// Strings without escapes: what cannot stand in them cannot be said.
static bool is_raw(const crn_rules *r) { return r->style.kind == CRN_STYLE_DELIMITED || r->style.kind == CRN_STYLE_PLAIN; }

// Characters that stand for themselves in a string.
static crn_set plain_set(const crn_rules *r) {
  static const crn_range RANGES[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, CRN_MAX_CODE}};
  static const crn_range TAGGED[] = {{0x20, 0x21}, {0x23, '<' - 1}, {'<' + 1, 0x5B}, {0x5D, 0xD7FF}, {0xE000, CRN_MAX_CODE}};
  static const crn_range RAW[] = {{'\t', '\n'}, {0x20, '<' - 1}, {'<' + 1, 0xD7FF}, {0xE000, CRN_MAX_CODE}};
  if (is_raw(r)) return (crn_set){RAW, 4};
  return r->style.kind == CRN_STYLE_TAGGED ? (crn_set){TAGGED, 5} : (crn_set){RANGES, 4};
}

static void escape(uint32_t code, char out[8]) {
  static const char FROM[] = "\"\\\b\f\n\r\t", TO[] = "\"\\bfnrt";
  const char *found = code ? strchr(FROM, (int)code) : NULL;
  if (found) {
    snprintf(out, 8, "\\%c", TO[found - FROM]);
  } else {
    snprintf(out, 8, "\\u%04x", (unsigned)code & 0xFFFF);
  }
}

const crn_node *crn_form_written_set(crn_rules *r, crn_set set) {
  crn_node_vec choices = {0};
  crn_nodes_add(r, &choices, crn_node_set(r, crn_set_and(r, set, plain_set(r))));
  for (uint32_t code = 1; code <= '\\' && !is_raw(r); code++) {
    if (crn_set_has(plain_set(r), code) || !crn_set_has(set, code)) continue;
    char written[8];
    escape(code, written);
    crn_nodes_add(r, &choices, text(r, written));
  }
  return crn_nodes_any(r, &choices);
}

// Each character in one way, but for the slash. All of them are single characters and fixed texts, and in the rule that holds the quotes:
// then the states of this rule tell of nearly all tokens by themselves whether they match, and masks come from memory.
static const crn_node *character(crn_rules *r) {
  const bool is_json = r->style.kind == CRN_STYLE_JSON || r->style.kind == CRN_STYLE_TAGGED;
  return CRN_ANY(r, crn_form_written_set(r, crn_set_all), is_json ? text(r, "\\/") : crn_node_never());
}

const crn_node *crn_form_character(crn_forms *p) {
  if (is_new(p, &p->character)) crn_rule_set(p->rules, p->character, character(p->rules));
  return crn_node_rule(p->rules, p->character);
}

const crn_node *crn_form_string(crn_forms *p) {
  crn_rules *r = p->rules;
  if (is_new(p, &p->string)) {
    crn_rule_set(r, p->string, CRN_ALL(r, crn_form_quote(r), crn_node_repeat(r, character(r), 0, -1), crn_form_quote(r)));
  }
  return crn_node_rule(r, p->string);
}

static const crn_node *written_text(crn_rules *r, const char *t, size_t bytes) {
  crn_str out;
  crn_str_initialize(&out, r->allocator);
  cairn_status status = CAIRN_OK;
  bool has_nul = false;
  for (const char *p = t; p < t + bytes && status == CAIRN_OK; p++) {
    unsigned char c = (unsigned char)*p;
    char written[8];
    has_nul = has_nul || !c;
    if (!is_raw(r) && (c < 0x20 || c == '"' || c == '\\' || (c == '<' && r->style.kind == CRN_STYLE_TAGGED))) {
      escape(c, written);
      status = crn_str_puts(&out, written);
    } else {
      status = crn_str_putc(&out, *p);
    }
  }
  if (status != CAIRN_OK) crn_rules_fail(r, status);
  const crn_node *node = has_nul ? crn_node_never() : crn_node_text(r, out.data, out.size);
  crn_str_deinitialize(&out);
  return node;
}

const crn_node *crn_form_quote(crn_rules *r) {
  if (r->style.kind == CRN_STYLE_PLAIN) return crn_node_empty();
  return text(r, r->style.kind == CRN_STYLE_DELIMITED ? r->style.delimiter : "\"");
}

const crn_node *crn_form_quoted(crn_rules *r, const char *t, size_t bytes) {
  if (is_raw(r) && memchr(t, '<', bytes)) return crn_node_never();
  return CRN_ALL(r, crn_form_quote(r), written_text(r, t, bytes), crn_form_quote(r));
}

const crn_node *crn_form_key(crn_rules *r, const char *t, size_t bytes) {
  bool is_name = r->style.kind == CRN_STYLE_DELIMITED && bytes > 0;
  for (size_t i = 0; i < bytes; i++) is_name = is_name && (unsigned char)t[i] > ' ' && !strchr(":,{}[]<>\"", t[i]);
  return is_name ? crn_node_text(r, t, bytes) : crn_form_quoted(r, t, bytes);
}

const crn_node *crn_form_word(crn_rules *r, const char *json) {
  if (r->style.kind != CRN_STYLE_PYTHON) return text(r, json);
  return text(r, *json == 't' ? "True" : *json == 'f' ? "False" : "None");
}

const crn_node *crn_form_written(crn_rules *r, const crn_node *node) {
  crn_node_vec items = {0};
  switch (node->kind) {
    case CRN_NODE_SET:
      return crn_form_written_set(r, node->set);
    case CRN_NODE_TEXT:
      return written_text(r, node->text, node->n);
    case CRN_NODE_REPEAT:
      return crn_node_repeat(r, crn_form_written(r, node->items[0]), node->min, node->max);
    case CRN_NODE_ALL:
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) crn_nodes_add(r, &items, crn_form_written(r, node->items[i]));
      return node->kind == CRN_NODE_ALL ? crn_nodes_all(r, &items) : crn_nodes_any(r, &items);
    default:
      return node;
  }
}

// --- numbers ------------------------------------------------------------------------------------------------------------------

static const crn_node *digits(crn_rules *r, int64_t min, int64_t max) { return crn_node_repeat(r, crn_node_range(r, '0', '9'), min, max); }

static const crn_node *whole_number(crn_rules *r) {
  return CRN_ALL(r, crn_node_repeat(r, text(r, "-"), 0, 1),
                 CRN_ANY(r, text(r, "0"), CRN_ALL(r, crn_node_range(r, '1', '9'), digits(r, 0, 15))));
}

const crn_node *crn_form_integer(crn_forms *p) { return whole_number(p->rules); }

const crn_node *crn_form_number(crn_forms *p) {
  crn_rules *r = p->rules;
  if (is_new(p, &p->number)) {
    static const crn_range E[] = {{'E', 'E'}, {'e', 'e'}}, SIGN[] = {{'+', '+'}, {'-', '-'}};
    const crn_node *exponent =
        CRN_ALL(r, crn_node_set(r, (crn_set){E, 2}), crn_node_repeat(r, crn_node_set(r, (crn_set){SIGN, 2}), 0, 1), digits(r, 1, 2));
    crn_rule_set(r, p->number,
                 CRN_ALL(r, whole_number(r), crn_node_repeat(r, CRN_ALL(r, text(r, "."), digits(r, 1, 16)), 0, 1),
                         crn_node_repeat(r, exponent, 0, 1)));
  }
  return crn_node_rule(r, p->number);
}

// --- values ---------------------------------------------------------------------------------------------------------------------

const crn_node *crn_form_object(crn_forms *p) {
  crn_rules *r = p->rules;
  if (is_new(p, &p->object)) {
    const crn_node *s = crn_form_space(p);
    const crn_node *member = CRN_ALL(r, crn_form_string(p), s, text(r, ":"), s, crn_form_value(p));
    const crn_node *more = crn_node_repeat(r, CRN_ALL(r, s, text(r, ","), s, member), 0, -1);
    crn_rule_set(r, p->object, CRN_ALL(r, text(r, "{"), s, crn_node_repeat(r, CRN_ALL(r, member, more, s), 0, 1), text(r, "}")));
  }
  return crn_node_rule(r, p->object);
}

const crn_node *crn_form_array(crn_forms *p) {
  crn_rules *r = p->rules;
  if (is_new(p, &p->array)) {
    const crn_node *s = crn_form_space(p), *item = crn_form_value(p);
    const crn_node *more = crn_node_repeat(r, CRN_ALL(r, s, text(r, ","), s, item), 0, -1);
    crn_rule_set(r, p->array, CRN_ALL(r, text(r, "["), s, crn_node_repeat(r, CRN_ALL(r, item, more, s), 0, 1), text(r, "]")));
  }
  return crn_node_rule(r, p->array);
}

const crn_node *crn_form_value(crn_forms *p) {
  crn_rules *r = p->rules;
  if (is_new(p, &p->value)) {
    crn_rule_set(r, p->value,
                 CRN_ANY(r, crn_form_object(p), crn_form_array(p), crn_form_string(p), crn_form_number(p), crn_form_word(r, "true"),
                         crn_form_word(r, "false"), crn_form_word(r, "null")));
  }
  return crn_node_rule(r, p->value);
}

void crn_json_read_any(crn_rules *r, bool compact) {
  crn_forms p;
  crn_forms_initialize(&p, r, compact);
  int32_t start = crn_rule_new(r);
  crn_rule_set(r, start, crn_form_value(&p));
}

static const crn_node *constant_list(crn_forms *p, const json_t *value) {
  crn_rules *r = p->rules;
  crn_node_vec items = {0};
  const crn_node *s = crn_form_space(p);
  bool is_object = json_is_object(value);
  size_t i, n = 0;
  const char *key;
  json_t *item;
  crn_nodes_add(r, &items, text(r, is_object ? "{" : "["));
  crn_nodes_add(r, &items, s);
  json_object_foreach((json_t *)value, key, item) {
    if (n++) crn_nodes_add(r, &items, CRN_ALL(r, text(r, ","), s));
    crn_nodes_add(r, &items, CRN_ALL(r, crn_form_key(r, key, strlen(key)), s, text(r, ":"), s, crn_form_constant(p, item), s));
  }
  json_array_foreach(value, i, item) {
    if (n++) crn_nodes_add(r, &items, CRN_ALL(r, text(r, ","), s));
    crn_nodes_add(r, &items, CRN_ALL(r, crn_form_constant(p, item), s));
  }
  crn_nodes_add(r, &items, text(r, is_object ? "}" : "]"));
  return crn_nodes_all(r, &items);
}

// The shortest form that reads back as the same number: 0.1, not 0.10000000000000001. NULL without memory.
static char *number_text(const json_t *value) {
  enum { SURE = 15, ALL = 17 };
  for (size_t digits = SURE;; digits++) {
    char *written = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
    json_t *read = written ? json_loads(written, JSON_DECODE_ANY, NULL) : NULL;
    const bool is_same = read && json_equal(read, value);
    json_decref(read);
    if (is_same || !written || digits == ALL) return written;
    free(written);
  }
}

const crn_node *crn_form_constant(crn_forms *p, const json_t *value) {
  crn_rules *r = p->rules;
  if (json_is_string(value)) return crn_form_quoted(r, json_string_value(value), json_string_length(value));
  if (json_is_object(value) || json_is_array(value)) return constant_list(p, value);
  if (json_is_boolean(value) || json_is_null(value))
    return crn_form_word(r, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
  char *written = number_text(value);
  if (!written) return crn_rules_fail(r, CRN_FAIL(OUT_OF_MEMORY, "no memory for a value of a schema"));
  const crn_node *node = text(r, written);
  free(written);
  return node;
}
