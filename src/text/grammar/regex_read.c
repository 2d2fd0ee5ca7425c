// Regular expressions.
#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

#include "text/grammar/readers.h"

typedef struct reader {
  crn_rules *rules;
  const char *begin, *at, *end;
  const char *what;
  int depth;
} reader;

static const crn_node *read_any(reader *r);

static const crn_node *refuse(reader *r, const char *at, cairn_status code, const char *why) {
  size_t place = (size_t)(at - r->begin) + 1;
  if (!crn_rules_failed(r->rules)) {
    crn_rules_fail(r->rules, crn_fail(code, __FILE__, __LINE__, "%s '%.60s': %s at byte %zu", r->what, r->begin, why, place));
  }
  r->at = r->end;  // nothing more is read
  return crn_node_empty();
}

static const crn_node *broken(reader *r, const char *at, const char *why) { return refuse(r, at, CAIRN_INVALID_ARGUMENT, why); }
static const crn_node *unsupported(reader *r, const char *at, const char *why) { return refuse(r, at, CAIRN_UNSUPPORTED, why); }

static uint32_t next_code(reader *r) {
  uint32_t code;
  bool valid;
  r->at += crn_utf8_decode(r->at, r->end, &code, &valid);
  if (!valid) broken(r, r->at - 1, "a byte that is not UTF-8");
  return code;
}

// --- classes of characters ------------------------------------------------------------------------------------------------

// Characters of a general category, "L" or "Lu".
static crn_set category_set(reader *r, const char *name, size_t bytes, const char *at) {
  CRN_VEC(crn_range) ranges = {0};
  cairn_status status = CAIRN_OK;
  bool is_known = false;
  for (uint32_t code = 0; code <= CRN_MAX_CODE && status == CAIRN_OK; code++) {
    const char *category = utf8proc_category_string((utf8proc_int32_t)code);
    if (strncmp(category, name, bytes)) continue;
    is_known = true;
    if (ranges.size && ranges.items[ranges.size - 1].last + 1 == code) {
      ranges.items[ranges.size - 1].last = code;
    } else {
      status = crn_vec_push(r->rules->allocator, &ranges, ((crn_range){code, code}));
    }
  }
  if (status != CAIRN_OK) crn_rules_fail(r->rules, status);
  if (!is_known) unsupported(r, at, "an unknown character property");
  crn_set set = crn_set_make(r->rules, ranges.items, ranges.size);
  crn_vec_free(r->rules->allocator, &ranges);
  return set;
}

// \d, \w, \s and their opposites. Readers do not agree on what is one beyond ASCII: what a set is made of is what all of them take, and
// what it must not hold (`outside`) is what any of them does.
static crn_set named_set(reader *r, char name, bool outside) {
  static const crn_range DIGITS[] = {{'0', '9'}}, WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  static const crn_range WIDE_WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x80, CRN_MAX_CODE}};
  static const crn_range SPACE[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  static const crn_range WIDE_SPACE[] = {{9, 13},          {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},
                                         {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                         {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  const bool is_not = isupper((unsigned char)name), is_wide = is_not != outside;
  crn_set set;
  switch (tolower((unsigned char)name)) {
    case 'd':
      set = is_wide ? category_set(r, "Nd", 2, r->at) : (crn_set){DIGITS, 1};
      break;
    case 'w':
      set = is_wide ? crn_set_make(r->rules, WIDE_WORD, 5) : (crn_set){WORD, 4};
      break;
    default:
      set = is_wide ? (crn_set){WIDE_SPACE, 11} : (crn_set){SPACE, 9};
  }
  return is_not ? crn_set_not(r->rules, set) : set;
}

// \p{Lu}, \P{L}; `at` is behind the p.
static crn_set read_property(reader *r, bool is_not) {
  const char *start = r->at - 2;
  const char *close = r->at < r->end && *r->at == '{' ? memchr(r->at, '}', (size_t)(r->end - r->at)) : NULL;
  size_t n = close ? (size_t)(close - r->at) - 1 : 0;
  if (n < 1 || n > 2) {
    unsupported(r, start, "a character property that is no general category like \\p{L} or \\p{Lu}");
    return (crn_set){0};
  }
  crn_set set = category_set(r, r->at + 1, n, start);
  r->at = close + 1;
  return is_not ? crn_set_not(r->rules, set) : set;
}

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
  return code;
}

static bool is_surrogate(uint32_t code) { return code >= 0xD800 && code < 0xE000; }

// \u{1F600}, \uD83D\uDE00, \u00e9. Half of a pair is given as it is.
static uint32_t read_u(reader *r, const char *start) {
  if (r->at < r->end && *r->at == '{') {
    uint32_t code = 0;
    int n = 0;
    for (r->at++; r->at < r->end && *r->at != '}' && n < 7; n++) code = code * 16 + read_hex(r, 1, start);
    if (r->at == r->end || *r->at != '}' || !n || code > CRN_MAX_CODE) broken(r, start, "a broken escape");
    if (r->at < r->end) r->at++;
    return code;
  }
  uint32_t code = read_hex(r, 4, start);
  if (code >= 0xD800 && code < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u' && r->at[2] != '{') {
    const char *behind = r->at;
    r->at += 2;
    uint32_t low = read_hex(r, 4, start);
    if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    r->at = behind;
  }
  return code;
}

// What stands for one character of a text or for several. Of ranges, only characters are ends.
typedef struct unit {
  bool is_char;
  uint32_t code;
  crn_set set;
} unit;

static unit char_unit(reader *r, uint32_t code) { return (unit){true, code, crn_set_one(r->rules, code, code)}; }

// An escape behind its backslash.
static unit read_escape(reader *r, bool in_class, bool outside) {
  const char *start = r->at - 1;
  if (r->at == r->end) {
    broken(r, start, "a backslash at the end");
    return (unit){0};
  }
  uint32_t c = next_code(r);
  static const char CONTROLS[] = "tnrfv0", VALUES[] = {9, 10, 13, 12, 11, 0};
  if (c && c < 128 && strchr("dDwWsS", (int)c)) return (unit){.set = named_set(r, (char)c, outside)};
  if (c == 'p' || c == 'P') return (unit){.set = read_property(r, c == 'P')};
  if (c == '0' && r->at < r->end && isdigit((unsigned char)*r->at)) {
    unsupported(r, start, "an octal escape");
    return (unit){0};
  }
  const char *control = c && c < 128 ? strchr(CONTROLS, (int)c) : NULL;
  if (control) {
    c = (uint32_t)VALUES[control - CONTROLS];
  } else if (c == 'b' && in_class) {
    c = 8;
  } else if (c == 'x') {
    c = read_hex(r, 2, start);
  } else if (c == 'u') {
    c = read_u(r, start);
    // No text has one; of a class it may be an end of a range.
    if (!in_class && is_surrogate(c)) broken(r, start, "half of a surrogate pair");
  } else if (c == 'c') {
    if (r->at == r->end || !isalpha((unsigned char)*r->at)) broken(r, start, "\\c without a letter");
    c = r->at < r->end ? (uint32_t)*r->at++ % 32 : 0;
  } else if (c < 128 && isdigit((int)c)) {
    unsupported(r, start, "a backreference");
  } else if (c == 'b' || c == 'B') {
    unsupported(r, start, "a word boundary");
  } else if (c < 128 && isalpha((int)c)) {
    unsupported(r, start, "an escape that ECMAScript does not have");
  }
  return char_unit(r, c);
}

static unit read_class_unit(reader *r, bool outside) {
  if (*r->at != '\\') return char_unit(r, next_code(r));
  r->at++;
  return read_escape(r, true, outside);
}

static const crn_node *read_class(reader *r) {
  const char *start = r->at++;
  bool is_not = r->at < r->end && *r->at == '^';
  CRN_VEC(crn_range) ranges = {0};
  cairn_status status = CAIRN_OK;
  if (is_not) r->at++;
  while (r->at < r->end && *r->at != ']' && status == CAIRN_OK && !crn_rules_failed(r->rules)) {
    const char *at = r->at;
    unit first = read_class_unit(r, is_not);
    if (first.is_char && r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
      r->at++;
      unit last = read_class_unit(r, is_not);
      if (!last.is_char || last.code < first.code) {
        broken(r, at, "a range whose end is no character behind its beginning");
        break;
      }
      first.set = crn_set_one(r->rules, first.code, last.code);
    }
    for (size_t i = 0; i < first.set.n && status == CAIRN_OK; i++) {
      status = crn_vec_push(r->rules->allocator, &ranges, first.set.ranges[i]);
    }
  }
  if (status != CAIRN_OK) crn_rules_fail(r->rules, status);
  if (r->at == r->end) {
    broken(r, start, "'[' without ']'");
  } else {
    r->at++;
  }
  crn_set set = crn_set_make(r->rules, ranges.items, ranges.size);
  crn_vec_free(r->rules->allocator, &ranges);
  return crn_node_set(r->rules, is_not ? crn_set_not(r->rules, set) : set);
}

// --- groups and counts ------------------------------------------------------------------------------------------------------

// Behind "<": a name as ECMAScript and Python take it, and the ">". NULL with a failure kept.
static const char *read_group_name(reader *r, const char *start, const char *name) {
  const char *end = name;
  while (end < r->end && (isalnum((unsigned char)*end) || *end == '_' || *end == '$' || (unsigned char)*end >= 0x80)) end++;
  if (end == r->end) {
    broken(r, start, "a group whose name does not end");
  } else if (*end != '>' || end == name || isdigit((unsigned char)*name)) {
    broken(r, start, "a group whose name is none: letters, digits, '_' and '$' are, that begin with no digit");
  } else {
    return end + 1;
  }
  return NULL;
}

// Behind "(?": where what the group holds begins; NULL with a failure kept. Patterns in schemas are written for readers of Python, too, so
// its way to name a group is taken beside that of ECMAScript.
static const char *read_group_kind(reader *r, const char *start, const char *at) {
  const size_t n = (size_t)(r->end - at);
  const bool is_python = n > 1 && at[0] == 'P' && at[1] == '<';
  if (n && *at == ':') return at + 1;
  if (n && (*at == '=' || *at == '!')) {
    unsupported(r, start, "lookaround");
  } else if (n > 1 && *at == '<' && (at[1] == '=' || at[1] == '!')) {
    unsupported(r, start, "lookaround");
  } else if (is_python || (n && *at == '<')) {
    return read_group_name(r, start, at + 1 + is_python);
  } else if (n > 1 && at[0] == 'P' && at[1] == '=') {
    unsupported(r, start, "a backreference");
  } else if (n && (isalpha((unsigned char)*at) || *at == '-' || *at == '^') && *at != 'P' && *at != 'R') {
    unsupported(r, start, "flags of a group");
  } else {
    unsupported(r, start,
                "a group of another dialect: (?:…), (?<name>…) and (?P<name>…) are those of ECMAScript and Python that are taken,");
  }
  return NULL;
}

static const crn_node *read_group(reader *r) {
  const char *start = r->at++;
  if (++r->depth > CRN_GRAMMAR_MAX_DEPTH) return unsupported(r, start, "groups nested deeper than 100");
  if (r->at < r->end && *r->at == '?') {
    const char *inside = read_group_kind(r, start, r->at + 1);
    if (!inside) return crn_node_empty();
    r->at = inside;
  }
  const crn_node *inside = read_any(r);
  if (crn_rules_failed(r->rules)) return inside;
  if (r->at == r->end) return broken(r, start, "'(' without ')'");
  r->at++;
  r->depth--;
  return inside;
}

// {m}, {m,}, {m,n}; false when the brace is a plain character.
static bool read_counts(reader *r, int64_t *min, int64_t *max) {
  const char *p = r->at + 1;
  if (p == r->end || !isdigit((unsigned char)*p)) return false;
  int64_t first = 0, last;
  for (; p < r->end && isdigit((unsigned char)*p); p++) first = first > 1000000 ? first : first * 10 + (*p - '0');
  last = first;
  if (p < r->end && *p == ',') {
    last = -1;
    for (p++; p < r->end && isdigit((unsigned char)*p); p++) last = last > 1000000 ? last : (last < 0 ? 0 : last * 10) + (*p - '0');
  }
  if (p == r->end || *p != '}') return false;
  if (last >= 0 && last < first) broken(r, r->at, "a count whose end is before its beginning");
  if (first > CRN_GRAMMAR_MAX_REPEAT || last > CRN_GRAMMAR_MAX_REPEAT) unsupported(r, r->at, "a count above 10000");
  r->at = p + 1;
  *min = first;
  *max = last;
  return true;
}

static const crn_node *read_quantifier(reader *r, const crn_node *item, bool *out_found) {
  int64_t min, max;
  *out_found = false;
  if (r->at == r->end) return item;
  switch (*r->at) {
    case '*':
      min = 0, max = -1, r->at++;
      break;
    case '+':
      min = 1, max = -1, r->at++;
      break;
    case '?':
      min = 0, max = 1, r->at++;
      break;
    case '{':
      if (read_counts(r, &min, &max)) break;
      return item;
    default:
      return item;
  }
  *out_found = true;
  if (item->kind == CRN_NODE_BEGIN || item->kind == CRN_NODE_END) return broken(r, r->at - 1, "nothing to repeat");
  if (r->at < r->end && *r->at == '?') r->at++;  // how greedy it is changes no language
  return crn_node_repeat(r->rules, item, min, max);
}

static const crn_node *read_atom(reader *r) {
  static const crn_range NO_LINE[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  const char *start = r->at;
  switch (*r->at) {
    case '(':
      return read_group(r);
    case '[':
      return read_class(r);
    case '.':
      r->at++;
      return crn_node_set(r->rules, crn_set_not(r->rules, (crn_set){NO_LINE, 3}));
    case '^':
      r->at++;
      return crn_node_mark(r->rules, CRN_NODE_BEGIN, (size_t)(start - r->begin));
    case '$':
      r->at++;
      return crn_node_mark(r->rules, CRN_NODE_END, (size_t)(start - r->begin));
    case '\\':
      r->at++;
      return crn_node_set(r->rules, read_escape(r, false, false).set);
    case '*':
    case '+':
    case '?':
      return broken(r, start, "nothing to repeat");
    case '{': {
      int64_t min, max;
      if (read_counts(r, &min, &max)) return broken(r, start, "nothing to repeat");
      next_code(r);
      return crn_node_text(r->rules, start, 1);
    }
    default:
      next_code(r);
      return crn_node_text(r->rules, start, (size_t)(r->at - start));
  }
}

static const crn_node *read_all(reader *r) {
  crn_node_vec items = {0};
  while (r->at < r->end && *r->at != '|' && *r->at != ')' && !crn_rules_failed(r->rules)) {
    bool found;
    const crn_node *item = read_quantifier(r, read_atom(r), &found);
    if (found && r->at < r->end && !crn_rules_failed(r->rules)) {
      int64_t min, max;
      const char *again = r->at;
      if (*again == '*' || *again == '+' || *again == '?' || (*again == '{' && read_counts(r, &min, &max))) {
        item = broken(r, again, "a repetition of a repetition");
      }
    }
    crn_nodes_add(r->rules, &items, item);
  }
  return crn_nodes_all(r->rules, &items);
}

static const crn_node *read_any(reader *r) {
  crn_node_vec choices = {0};
  crn_nodes_add(r->rules, &choices, read_all(r));
  while (r->at < r->end && *r->at == '|' && !crn_rules_failed(r->rules)) {
    r->at++;
    crn_nodes_add(r->rules, &choices, read_all(r));
  }
  return crn_nodes_any(r->rules, &choices);
}

// --- anchors ------------------------------------------------------------------------------------------------------------------

// '^' and '$' must stand at the ends of what the whole expression chooses from: there they say something a grammar can say.
static void check_no_marks(reader *r, const crn_node *node) {
  if (node->kind == CRN_NODE_BEGIN || node->kind == CRN_NODE_END) {
    unsupported(r, r->begin + node->place,
                node->kind == CRN_NODE_BEGIN ? "'^' that is not at the beginning" : "'$' that is not at the end");
  }
  for (size_t i = 0; i < node->n && node->items; i++) check_no_marks(r, node->items[i]);
}

static const crn_node *place_marks(reader *r, const crn_node *node, bool whole) {
  const crn_node *const *items = &node;
  size_t first = 0, n = 1;
  if (node->kind == CRN_NODE_ANY) {
    crn_node_vec choices = {0};
    for (size_t i = 0; i < node->n; i++) crn_nodes_add(r->rules, &choices, place_marks(r, node->items[i], whole));
    return crn_nodes_any(r->rules, &choices);
  }
  if (node->kind == CRN_NODE_ALL) items = node->items, n = node->n;
  bool is_begin = whole, is_end = whole;
  for (; first < n && items[first]->kind == CRN_NODE_BEGIN; first++) is_begin = true;
  for (; n > first && items[n - 1]->kind == CRN_NODE_END; n--) is_end = true;
  for (size_t i = first; i < n; i++) check_no_marks(r, items[i]);
  const crn_node *rest = crn_node_repeat(r->rules, crn_node_set(r->rules, crn_set_all), 0, -1);
  return CRN_ALL(r->rules, is_begin ? crn_node_empty() : rest, crn_node_all(r->rules, items + first, n - first),
                 is_end ? crn_node_empty() : rest);
}

const crn_node *crn_regex_read(crn_rules *rules, const char *pattern, size_t bytes, const char *what, bool whole) {
  reader r = {.rules = rules, .begin = pattern, .at = pattern, .end = pattern + bytes, .what = what};
  const crn_node *node = read_any(&r);
  if (!crn_rules_failed(rules) && r.at < r.end) return broken(&r, r.at, "')' without '('");
  return crn_rules_failed(rules) ? crn_node_empty() : place_marks(&r, node, whole);
}
