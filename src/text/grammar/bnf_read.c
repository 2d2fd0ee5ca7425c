// EBNF in the dialects of llama.cpp (GBNF) and xgrammar. A rule begins where a name is followed by "::=", so line ends mean nothing.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "text/grammar/readers.h"

typedef struct reader {
  crn_rules *rules;
  const char *begin, *at, *end;
  crn_map names;               ///< to rules
  CRN_VEC(const char *) uses;  ///< where each rule was named first, or was defined
  int depth;
} reader;

static const crn_node *read_any(reader *r);

crn_place crn_place_of(const char *text, size_t bytes, size_t at) {
  crn_place place = {1, 1};
  for (size_t i = 0; i < at && i < bytes; i++) {
    bool is_line = text[i] == '\n';
    place.line += is_line;
    place.column = is_line ? 1 : place.column + 1;
  }
  return place;
}

static const crn_node *refuse(reader *r, const char *at, cairn_status code, const char *why) {
  crn_place p = crn_place_of(r->begin, (size_t)(r->end - r->begin), (size_t)(at - r->begin));
  if (!crn_rules_failed(r->rules)) {
    crn_rules_fail(r->rules, crn_fail(code, __FILE__, __LINE__, "the grammar: line %zu, column %zu: %s", p.line, p.column, why));
  }
  r->at = r->end;  // nothing more is read
  return crn_node_empty();
}

static const crn_node *broken(reader *r, const char *at, const char *why) { return refuse(r, at, CAIRN_INVALID_ARGUMENT, why); }

static void skip_space(reader *r) {
  while (r->at < r->end) {
    if (*r->at == '#') {
      const char *line = memchr(r->at, '\n', (size_t)(r->end - r->at));
      r->at = line ? line : r->end;
    } else if (isspace((unsigned char)*r->at)) {
      r->at++;
    } else {
      return;
    }
  }
}

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.'; }

// The end of a name at `p`; `p` itself when there is none. A '.' alone is any character.
static const char *name_end(const reader *r, const char *p) {
  if (p < r->end && (*p == '.' || !is_name_char(*p))) return p;
  while (p < r->end && is_name_char(*p)) p++;
  return p;
}

static bool is_definition(const reader *r, const char *p) {
  const char *q = name_end(r, p);
  if (q == p) return false;
  while (q < r->end && isspace((unsigned char)*q)) q++;
  return r->end - q >= 3 && !memcmp(q, "::=", 3);
}

static int32_t rule_of(reader *r, const char *name, const char *end) {
  uint64_t rule;
  if (crn_map_get(&r->names, name, (size_t)(end - name), &rule)) return (int32_t)rule;
  int32_t made = crn_rule_new(r->rules);
  if (crn_rules_failed(r->rules)) return 0;
  cairn_status status = crn_map_set(&r->names, name, (size_t)(end - name), (uint64_t)made);
  if (status == CAIRN_OK) status = crn_vec_push(r->rules->allocator, &r->uses, name);
  if (status != CAIRN_OK) crn_rules_fail(r->rules, status);
  return made;
}

// --- characters -----------------------------------------------------------------------------------------------------------

static uint32_t read_hex(reader *r, int n, const char *start) {
  uint32_t code = 0;
  for (int i = 0; i < n; i++) {
    if (r->at == r->end || !isxdigit((unsigned char)*r->at)) {
      broken(r, start, "an escape without its hexadecimal digits");
      return 0;
    }
    char c = *r->at++;
    code = code * 16 + (uint32_t)(isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10);
  }
  if (code > CRN_MAX_CODE || (code >= 0xD800 && code < 0xE000)) broken(r, start, "an escape that is no character");
  return code;
}

static uint32_t read_char(reader *r) {
  const char *start = r->at;
  uint32_t code;
  bool valid;
  r->at += crn_utf8_decode(r->at, r->end, &code, &valid);
  if (!valid) broken(r, start, "a byte that is not UTF-8");
  if (code != '\\') return code;
  if (r->at == r->end) {
    broken(r, start, "a backslash at the end");
    return 0;
  }
  char c = *r->at++;
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'x':
      return read_hex(r, 2, start);
    case 'u':
      return read_hex(r, 4, start);
    case 'U':
      return read_hex(r, 8, start);
    default:
      if (isalnum((unsigned char)c) || (unsigned char)c >= 128) broken(r, start, "an unknown escape");
      return (uint32_t)(unsigned char)c;
  }
}

static const crn_node *read_string(reader *r) {
  const char *start = r->at++;
  crn_str text;
  crn_str_initialize(&text, r->rules->allocator);
  cairn_status status = CAIRN_OK;
  while (r->at < r->end && *r->at != '"' && *r->at != '\n' && status == CAIRN_OK && !crn_rules_failed(r->rules)) {
    char bytes[4];
    int n = crn_utf8_encode(read_char(r), bytes);
    status = crn_str_append(&text, bytes, (size_t)n);
  }
  if (status != CAIRN_OK) crn_rules_fail(r->rules, status);
  if (r->at == r->end || *r->at != '"') {
    broken(r, start, "a string that does not end on its line");
  } else {
    r->at++;
  }
  const crn_node *node = crn_node_text(r->rules, text.data, text.size);
  crn_str_deinitialize(&text);
  return node;
}

// \d, \w and \s in a class.
static bool read_named(reader *r, crn_set *out) {
  static const crn_range DIGITS[] = {{'0', '9'}}, WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  static const crn_range SPACE[] = {{9, 13}, {' ', ' '}};
  if (r->end - r->at < 2 || *r->at != '\\' || !strchr("dws", r->at[1])) return false;
  *out = r->at[1] == 'd' ? (crn_set){DIGITS, 1} : r->at[1] == 'w' ? (crn_set){WORD, 4} : (crn_set){SPACE, 2};
  r->at += 2;
  return true;
}

static const crn_node *read_class(reader *r) {
  const char *start = r->at++;
  bool is_not = r->at < r->end && *r->at == '^';
  CRN_VEC(crn_range) ranges = {0};
  cairn_status status = CAIRN_OK;
  if (is_not) r->at++;
  while (r->at < r->end && *r->at != ']' && *r->at != '\n' && status == CAIRN_OK && !crn_rules_failed(r->rules)) {
    const char *item = r->at;
    crn_set named;
    crn_range range;
    if (read_named(r, &named)) {
      for (size_t i = 0; i < named.n && status == CAIRN_OK; i++) status = crn_vec_push(r->rules->allocator, &ranges, named.ranges[i]);
      continue;
    }
    range.first = range.last = read_char(r);
    if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
      r->at++;
      range.last = read_char(r);
      if (range.last < range.first) broken(r, item, "a range whose end is before its beginning");
    }
    status = crn_vec_push(r->rules->allocator, &ranges, range);
  }
  if (status != CAIRN_OK) crn_rules_fail(r->rules, status);
  if (r->at == r->end || *r->at != ']') {
    broken(r, start, "'[' without ']' on its line");
  } else {
    r->at++;
  }
  crn_set set = crn_set_make(r->rules, ranges.items, ranges.size);
  crn_vec_free(r->rules->allocator, &ranges);
  return crn_node_set(r->rules, is_not ? crn_set_not(r->rules, set) : set);
}

// --- elements ---------------------------------------------------------------------------------------------------------------

static const crn_node *read_group(reader *r) {
  const char *start = r->at++;
  if (r->at < r->end && *r->at == '=') return refuse(r, start, CAIRN_UNSUPPORTED, "lookahead is not supported");
  if (++r->depth > CRN_GRAMMAR_MAX_DEPTH) return refuse(r, start, CAIRN_UNSUPPORTED, "groups nested deeper than 100");
  const crn_node *inside = read_any(r);
  if (crn_rules_failed(r->rules)) return inside;
  if (r->at == r->end || *r->at != ')') return broken(r, start, "'(' without ')'");
  r->at++;
  r->depth--;
  return inside;
}

static const crn_node *read_element(reader *r) {
  const char *start = r->at, *end = name_end(r, r->at);
  if (end > start) {
    r->at = end;
    return crn_node_rule(r->rules, rule_of(r, start, end));
  }
  switch (*start) {
    case '"':
      return read_string(r);
    case '[':
      return read_class(r);
    case '(':
      return read_group(r);
    case '.':
      r->at++;
      return crn_node_set(r->rules, crn_set_all);
    case '<':
    case '!':
      return refuse(r, start, CAIRN_UNSUPPORTED, "tokens by name are not supported");
    default:
      return broken(r, start, "expected a name, a string, a class or a group");
  }
}

static int64_t read_number(reader *r, int64_t none) {
  int64_t value = 0;
  skip_space(r);
  if (r->at == r->end || !isdigit((unsigned char)*r->at)) return none;
  for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++) value = value > 1000000 ? value : value * 10 + (*r->at - '0');
  skip_space(r);
  return value;
}

static const crn_node *read_counts(reader *r, const crn_node *item) {
  const char *start = r->at++;
  int64_t min = read_number(r, -1), max = min;
  if (min < 0) return broken(r, start, "'{' without a count");
  if (r->at < r->end && *r->at == ',') {
    r->at++;
    max = read_number(r, -1);
  }
  if (r->at == r->end || *r->at != '}') return broken(r, start, "'{' without '}'");
  r->at++;
  if (max >= 0 && max < min) return broken(r, start, "a count whose end is before its beginning");
  if (min > CRN_GRAMMAR_MAX_REPEAT || max > CRN_GRAMMAR_MAX_REPEAT) {
    return refuse(r, start, CAIRN_UNSUPPORTED, "a count above 10000");
  }
  return crn_node_repeat(r->rules, item, min, max);
}

static const crn_node *read_repeated(reader *r) {
  const crn_node *item = read_element(r);
  int repeats = 0;
  for (;; repeats++) {
    const char *here = r->at;
    skip_space(r);
    if (crn_rules_failed(r->rules) || r->at == r->end || !strchr("*+?{", *r->at)) {
      r->at = here;
      return item;
    }
    if (repeats > 8) return broken(r, r->at, "a repetition of repetitions");
    if (*r->at == '{') {
      item = read_counts(r, item);
    } else {
      item = crn_node_repeat(r->rules, item, *r->at == '+', *r->at == '?' ? 1 : -1);
      r->at++;
    }
  }
}

static const crn_node *read_all(reader *r) {
  crn_node_vec items = {0};
  for (;;) {
    skip_space(r);
    if (crn_rules_failed(r->rules) || r->at == r->end || *r->at == '|' || *r->at == ')' || is_definition(r, r->at)) break;
    crn_nodes_add(r->rules, &items, read_repeated(r));
  }
  return crn_nodes_all(r->rules, &items);
}

static const crn_node *read_any(reader *r) {
  crn_node_vec choices = {0};
  crn_nodes_add(r->rules, &choices, read_all(r));
  while (!crn_rules_failed(r->rules) && r->at < r->end && *r->at == '|') {
    r->at++;
    crn_nodes_add(r->rules, &choices, read_all(r));
  }
  return crn_nodes_any(r->rules, &choices);
}

// --- rules --------------------------------------------------------------------------------------------------------------------

static void read_rule(reader *r) {
  const char *name = r->at, *end = name_end(r, name);
  if (!is_definition(r, name)) {
    broken(r, name, "expected a rule: name ::= …");
    return;
  }
  int32_t rule = rule_of(r, name, end);
  if (crn_rules_failed(r->rules)) return;
  if (r->rules->bodies.items[rule]) {
    broken(r, name, "a second rule of this name");
    return;
  }
  r->at = end;
  skip_space(r);
  r->at += 3;
  const crn_node *body = read_any(r);
  if (!crn_rules_failed(r->rules) && r->at < r->end && *r->at == ')') broken(r, r->at, "')' without '('");
  crn_rule_set(r->rules, rule, body);
}

static void check_uses(reader *r) {
  for (size_t i = 0; i < r->uses.size && !crn_rules_failed(r->rules); i++) {
    if (r->rules->bodies.items[i]) continue;
    const char *name = r->uses.items[i], *end = name ? name_end(r, name) : NULL;
    if (!name) {
      broken(r, r->begin, "there is no rule 'root'");
      return;
    }
    char why[96];
    snprintf(why, sizeof why, "rule '%.*s' is not defined", (int)(end - name < 60 ? end - name : 60), name);
    broken(r, name, why);
  }
}

void crn_bnf_read(crn_rules *rules, const char *text, size_t bytes) {
  reader r = {.rules = rules, .begin = text, .at = text, .end = text + bytes};
  static const char ROOT[] = "root";
  crn_map_initialize(&r.names, rules->allocator);
  rule_of(&r, ROOT, ROOT + 4);
  if (!crn_rules_failed(rules)) r.uses.items[0] = NULL;  // not a place of the text
  for (skip_space(&r); r.at < r.end && !crn_rules_failed(rules); skip_space(&r)) read_rule(&r);
  check_uses(&r);
  crn_vec_free(rules->allocator, &r.uses);
  crn_map_deinitialize(&r.names);
}
