// Numbers within bounds, digit by digit. Bounds are compared as they are written, in decimal: at most 15 digits are generated where
// a bound is, so that readers who compare in double precision come to the same result.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema.h"

enum { DIGITS = 15, MAX_LISTED = 512, MAX_MODULUS = 200 };

/// A decimal of at least 0: digits before and behind the point.
typedef struct decimal {
  char whole[DIGITS + 2], part[DIGITS + 2];
} decimal;

typedef struct bound {
  bool is_there, is_open;  ///< open: the bound itself is out
  double value;
} bound;

typedef struct number {
  crn_schema *s;
  crn_rules *r;
  const json_t *where;  ///< a schema that bounds it
  bound low, high;
  double multiple;  ///< 0 = none
  bool is_integer;
} number;

// --- reading bounds -----------------------------------------------------------------------------------------------------------

static void tighten(bound *b, double value, bool is_open, bool is_low) {
  bool is_tighter = !b->is_there || (is_low ? value > b->value : value < b->value) || (value == b->value && is_open);
  if (is_tighter) *b = (bound){true, is_open, value};
}

static void read_bound(number *n, const json_t *schema, const char *keyword, const char *exclusive, bool is_low) {
  const json_t *value = json_object_get(schema, keyword), *open = json_object_get(schema, exclusive);
  bound *b = is_low ? &n->low : &n->high;
  // In draft 4 the exclusive keyword is a flag of the other.
  bool is_flag = json_is_boolean(open);
  if (value || (open && !is_flag)) n->where = schema;
  if (value) tighten(b, json_number_value(value), is_flag && json_is_true(open), is_low);
  if (open && !is_flag) tighten(b, json_number_value(open), true, is_low);
}

static void read_multiple(number *n, const json_t *schema) {
  const json_t *value = json_object_get(schema, "multipleOf");
  if (!value) return;
  double m = json_number_value(value);
  n->where = schema;
  if (!n->multiple || fmod(m, n->multiple) == 0) {
    n->multiple = m;
  } else if (fmod(n->multiple, m) != 0) {
    double a = n->multiple, b = m;  // both hold for the multiples of the least common one
    while (b > 0 && a == floor(a) && b == floor(b)) {
      double rest = fmod(a, b);
      a = b;
      b = rest;
    }
    if (b > 0) CRN_SCHEMA_UNSUPPORTED(n->s, schema, "multipleOf", "two steps of which one is no whole number are not supported");
    n->multiple = n->multiple / a * m;
  }
}

// --- digits -------------------------------------------------------------------------------------------------------------------

static const crn_node *digits(crn_rules *r, int64_t min, int64_t max) { return crn_node_repeat(r, crn_node_range(r, '0', '9'), min, max); }

static const crn_node *one(crn_rules *r, char c) { return crn_node_range(r, (unsigned char)c, (unsigned char)c); }

// Digits between two, both left out.
static const crn_node *between(crn_rules *r, char low, char high) {
  return high - low < 2 ? crn_node_never() : crn_node_range(r, (uint32_t)low + 1, (uint32_t)high - 1);
}

static bool is_all(const char *digits_of, char c) {
  while (*digits_of == c) digits_of++;
  return !*digits_of;
}

// Strings of as many digits as `a` that are at least `a`, at most `b`.
static const crn_node *at_least(crn_rules *r, const char *a) {
  int64_t left = (int64_t)strlen(a);
  if (is_all(a, '0')) return digits(r, left, left);
  return CRN_ANY(r, CRN_ALL(r, one(r, *a), at_least(r, a + 1)), CRN_ALL(r, between(r, *a, '9' + 1), digits(r, left - 1, left - 1)));
}

static const crn_node *at_most(crn_rules *r, const char *b) {
  int64_t left = (int64_t)strlen(b);
  if (is_all(b, '9')) return digits(r, left, left);
  return CRN_ANY(r, CRN_ALL(r, one(r, *b), at_most(r, b + 1)), CRN_ALL(r, between(r, '0' - 1, *b), digits(r, left - 1, left - 1)));
}

// What begins with a first digit behind which anything may follow is one set and digits.
static const crn_node *in_range(crn_rules *r, const char *a, const char *b) {
  if (!*a) return crn_node_empty();
  const int64_t left = (int64_t)strlen(a) - 1;
  const bool from_first = is_all(a + 1, '0'), to_last = is_all(b + 1, '9');
  if (*a == *b && !(from_first && to_last)) return CRN_ALL(r, one(r, *a), in_range(r, a + 1, b + 1));
  return CRN_ANY(r, from_first ? crn_node_never() : CRN_ALL(r, one(r, *a), at_least(r, a + 1)),
                 CRN_ALL(r, between(r, (char)(*a - from_first), (char)(*b + to_last)), digits(r, left, left)),
                 to_last ? crn_node_never() : CRN_ALL(r, one(r, *b), at_most(r, b + 1)));
}

// Whole numbers low..high, both at least 0. Lengths of which all numbers are in are said together.
static const crn_node *whole_range(crn_rules *r, int64_t low, int64_t high) {
  crn_node_vec lengths = {0};
  int64_t first = 0, last = 9;
  int n_full = 0, longest = 0;
  for (int n = 1; n <= DIGITS; n++) {
    int64_t from = low > first ? low : first, to = high < last ? high : last;
    char a[32], b[32];
    snprintf(a, sizeof a, "%lld", (long long)from);
    snprintf(b, sizeof b, "%lld", (long long)to);
    const bool is_full = n > 1 && from == first && to == last;
    if (is_full) n_full++, longest = n;
    if (!is_full && from <= to) crn_nodes_add(r, &lengths, in_range(r, a, b));
    first = last + 1;
    last = last * 10 + 9;
  }
  if (n_full) crn_nodes_add(r, &lengths, CRN_ALL(r, crn_node_range(r, '1', '9'), digits(r, longest - n_full, longest - 1)));
  return crn_nodes_any(r, &lengths);
}

// --- fractions ----------------------------------------------------------------------------------------------------------------

static bool is_zero(const char *digits_of) { return digits_of[strspn(digits_of, "0")] == 0; }

// Digits behind the point, at most `room` more of them, that make at least `a`; more than `a` when open.
static const crn_node *part_above(crn_rules *r, const char *a, bool open, int64_t room) {
  if (is_zero(a)) {
    if (!open) return digits(r, 0, room);
    crn_node_vec choices = {0};
    for (int64_t zeros = 0; zeros < room; zeros++) {
      crn_nodes_add(r, &choices,
                    CRN_ALL(r, crn_node_repeat(r, one(r, '0'), zeros, zeros), crn_node_range(r, '1', '9'), digits(r, 0, room - zeros - 1)));
    }
    return crn_nodes_any(r, &choices);
  }
  if (room <= 0) return crn_node_never();
  return CRN_ANY(r, CRN_ALL(r, one(r, *a), part_above(r, a + 1, open, room - 1)),
                 CRN_ALL(r, between(r, *a, '9' + 1), digits(r, 0, room - 1)));
}

static const crn_node *part_below(crn_rules *r, const char *b, bool open, int64_t room) {
  if (!*b) return open ? crn_node_never() : crn_node_repeat(r, one(r, '0'), 0, room);
  const crn_node *here = open && is_zero(b) ? crn_node_never() : crn_node_empty();
  if (room <= 0) return here;
  return CRN_ANY(r, here, CRN_ALL(r, one(r, *b), part_below(r, b + 1, open, room - 1)),
                 CRN_ALL(r, between(r, '0' - 1, *b), digits(r, 0, room - 1)));
}

// Of two parts of one length.
static const crn_node *part_between(crn_rules *r, const char *a, bool a_open, const char *b, bool b_open, int64_t room) {
  if (!*a) return a_open || b_open ? crn_node_never() : crn_node_repeat(r, one(r, '0'), 0, room);
  const crn_node *here = is_zero(a) && !a_open && !(b_open && is_zero(b)) ? crn_node_empty() : crn_node_never();
  if (room <= 0) return here;
  if (*a == *b) return CRN_ANY(r, here, CRN_ALL(r, one(r, *a), part_between(r, a + 1, a_open, b + 1, b_open, room - 1)));
  return CRN_ANY(r, here, CRN_ALL(r, one(r, *a), part_above(r, a + 1, a_open, room - 1)),
                 CRN_ALL(r, between(r, *a, *b), digits(r, 0, room - 1)), CRN_ALL(r, one(r, *b), part_below(r, b + 1, b_open, room - 1)));
}

// A part that may be empty, behind its point; the empty one stands for no point at all. A point needs a digit behind it, so the
// digits are read once more with a first one.
static const crn_node *with_point(crn_rules *r, const crn_node *part) {
  crn_node_vec choices = {0};
  if (part->kind == CRN_NODE_EMPTY) return part;
  if (part->kind == CRN_NODE_REPEAT && part->min == 0) {
    return crn_node_repeat(r, CRN_ALL(r, crn_node_literal(r, "."), crn_node_repeat(r, part->items[0], 1, part->max)), 0, 1);
  }
  if (part->kind != CRN_NODE_ANY) return CRN_ALL(r, crn_node_literal(r, "."), part);
  for (size_t i = 0; i < part->n; i++) crn_nodes_add(r, &choices, with_point(r, part->items[i]));
  return crn_nodes_any(r, &choices);
}

// Decimals low..high, both at least 0, with at most `room` digits behind the point.
static const crn_node *decimal_range(crn_rules *r, const decimal *low, bool low_open, const decimal *high, bool high_open, int64_t room) {
  int64_t a = atoll(low->whole), b = atoll(high->whole);
  if (a == b) {
    return CRN_ALL(r, crn_node_literal(r, low->whole), with_point(r, part_between(r, low->part, low_open, high->part, high_open, room)));
  }
  const crn_node *first = CRN_ALL(r, crn_node_literal(r, low->whole), with_point(r, part_above(r, low->part, low_open, room)));
  const crn_node *last = CRN_ALL(r, crn_node_literal(r, high->whole), with_point(r, part_below(r, high->part, high_open, room)));
  const crn_node *middle = a + 1 <= b - 1 ? CRN_ALL(r, whole_range(r, a + 1, b - 1), with_point(r, digits(r, 0, room))) : crn_node_never();
  return CRN_ANY(r, first, middle, last);
}

// The shortest decimal that is this number, without an exponent. False when it has too many digits.
static bool to_decimal(double value, decimal *out) {
  char text[64];
  for (int n = 1; n <= 17; n++) {
    snprintf(text, sizeof text, "%.*e", n - 1, value);
    if (strtod(text, NULL) == value) break;
  }
  int exponent = atoi(strchr(text, 'e') + 1);
  int n_digits = (int)(strchr(text, 'e') - text) - (strchr(text, '.') != NULL);
  int behind = n_digits - 1 - exponent;
  if (behind > DIGITS || exponent >= DIGITS) return false;
  if (behind < 0) behind = 0;
  snprintf(text, sizeof text, "%.*f", behind, value);
  char *point = strchr(text, '.');
  snprintf(out->part, sizeof out->part, "%s", point ? point + 1 : "");
  if (point) *point = 0;
  snprintf(out->whole, sizeof out->whole, "%.16s", text);
  return true;
}

static void same_length(decimal *a, decimal *b) {
  while (strlen(a->part) < strlen(b->part)) strcat(a->part, "0");
  while (strlen(b->part) < strlen(a->part)) strcat(b->part, "0");
}

// Magnitudes low..high as decimals.
static const crn_node *magnitudes(number *n, double low, bool low_open, double high, bool high_open) {
  decimal a, b;
  if (low > high || (low == high && (low_open || high_open))) return crn_node_never();
  if (!to_decimal(low, &a) || !to_decimal(high, &b)) {
    return CRN_SCHEMA_UNSUPPORTED(n->s, n->where, "",
                                  "bounds of a number with more than 15 digits before or behind the point are not supported");
  }
  same_length(&a, &b);
  int64_t room = DIGITS - (int64_t)strlen(b.whole), needed = (int64_t)strlen(a.part);
  if (room < needed) {
    return CRN_SCHEMA_UNSUPPORTED(n->s, n->where, "", "bounds of a number with more than 15 digits in all are not supported");
  }
  return decimal_range(n->r, &a, low_open, &b, high_open, room);
}

// --- multiples ----------------------------------------------------------------------------------------------------------------

static const crn_node *list_multiples(number *n, double step, double low, double high) {
  crn_node_vec values = {0};
  for (double k = ceil(low / step); k * step <= high && !crn_rules_failed(n->r); k++) {
    char text[64];
    double value = k * step;
    snprintf(text, sizeof text, "%.15g", value == 0 ? 0 : value);
    if (strchr(text, 'e')) return CRN_SCHEMA_UNSUPPORTED(n->s, n->where, "multipleOf", "such large or small multiples are not supported");
    if ((n->low.is_open && value == n->low.value) || (n->high.is_open && value == n->high.value)) continue;
    crn_nodes_add(n->r, &values, crn_node_literal(n->r, text));
  }
  return crn_nodes_any(n->r, &values);
}

// Digit strings without a leading zero whose value is a multiple: a rule for each remainder and number of digits that may follow.
static const crn_node *long_multiples(number *n, int64_t step) {
  crn_rules *r = n->r;
  const crn_node *next[MAX_MODULUS], *now[MAX_MODULUS];
  for (int64_t left = 0; left < DIGITS && !crn_rules_failed(r); left++) {
    for (int64_t rest = 0; rest < step; rest++) {
      crn_node_vec choices = {0};
      if (rest == 0) crn_nodes_add(r, &choices, crn_node_empty());
      for (int d = 0; d < 10 && left; d++) {
        crn_nodes_add(r, &choices, CRN_ALL(r, one(r, (char)('0' + d)), next[(rest * 10 + d) % step]));
      }
      int32_t rule = crn_rule_new(r);
      crn_rule_set(r, rule, crn_nodes_any(r, &choices));
      now[rest] = crn_node_rule(r, rule);
    }
    memcpy(next, now, sizeof now);
  }
  crn_node_vec starts = {0};
  for (int d = 1; d < 10; d++) crn_nodes_add(r, &starts, CRN_ALL(r, one(r, (char)('0' + d)), next[d % step]));
  return crn_nodes_any(r, &starts);
}

static const crn_node *multiples(number *n) {
  double low = n->low.value, high = n->high.value, step = n->multiple;
  bool is_bounded = n->low.is_there && n->high.is_there;
  if (is_bounded && (high - low) / step <= MAX_LISTED) return list_multiples(n, step, low, high);
  bool is_sign = (!n->low.is_there || low == 0) && (!n->high.is_there || high == 0);
  if (step != floor(step) || step > MAX_MODULUS || !is_sign) {
    return CRN_SCHEMA_UNSUPPORTED(
        n->s, n->where, "multipleOf",
        "it is supported with bounds that leave at most 512 values, and else for whole numbers up to 200 whose only bound is 0");
  }
  crn_rules *r = n->r;
  const crn_node *zero = n->low.is_open || n->high.is_open ? crn_node_never() : crn_node_literal(r, "0");
  const crn_node *above = long_multiples(n, (int64_t)step), *below = CRN_ALL(r, crn_node_literal(r, "-"), above);
  return CRN_ANY(r, zero, n->high.is_there ? crn_node_never() : above, n->low.is_there ? crn_node_never() : below);
}

// --- the whole ----------------------------------------------------------------------------------------------------------------

static const crn_node *integers(number *n) {
  const double most = 999999999999999;  // of 15 digits
  double low = n->low.is_there ? ceil(n->low.value) : -most, high = n->high.is_there ? floor(n->high.value) : most;
  if (n->low.is_there && n->low.is_open && low == n->low.value) low++;
  if (n->high.is_there && n->high.is_open && high == n->high.value) high--;
  if (low < -most) low = -most;
  if (high > most) high = most;
  if (low > most || high < -most) {
    return CRN_SCHEMA_UNSUPPORTED(n->s, n->where, "", "integers of more than 15 digits are not supported between bounds");
  }
  crn_rules *r = n->r;
  const crn_node *above = high >= 0 ? whole_range(r, low > 0 ? (int64_t)low : 0, (int64_t)high) : crn_node_never();
  const crn_node *below = low < 0 && low <= high ? whole_range(r, high < 0 ? (int64_t)-high : 1, (int64_t)-low) : crn_node_never();
  return CRN_ANY(r, low <= high ? above : crn_node_never(), CRN_ALL(r, crn_node_literal(r, "-"), below));
}

static const crn_node *decimals(number *n) {
  // So that digits are left for those behind the point.
  bool is_large = (n->low.is_there && fabs(n->low.value) >= 1e8) || (n->high.is_there && fabs(n->high.value) >= 1e8);
  const double most = is_large ? 99999999999999 : 999999999;
  double low = n->low.is_there && n->low.value > -most ? n->low.value : -most;
  double high = n->high.is_there && n->high.value < most ? n->high.value : most;
  bool low_open = n->low.is_open && low == n->low.value, high_open = n->high.is_open && high == n->high.value;
  if (low > most || high < -most) return CRN_SCHEMA_UNSUPPORTED(n->s, n->where, "", "such large bounds of a number are not supported");
  const crn_node *above = crn_node_never(), *below = crn_node_never();
  if (high >= 0) above = magnitudes(n, low > 0 ? low : 0, low > 0 ? low_open : low == 0 && low_open, high, high_open);
  if (low < 0) below = magnitudes(n, high < 0 ? -high : 0, high < 0 ? high_open : true, -low, low_open);
  return CRN_ANY(n->r, above, CRN_ALL(n->r, crn_node_literal(n->r, "-"), below));
}

static bool is_same_bound(const bound *a, const bound *b) {
  return a->is_there == b->is_there && a->is_open == b->is_open && a->value == b->value;
}

// Numbers of the same bounds are one rule, however often they are asked for.
static const crn_node *shared(const number *n, const crn_node *(*make)(number *n)) {
  crn_schema *s = n->s;
  number own = *n;
  for (size_t i = 0; i < s->numbers.size; i++) {
    const crn_known_number *k = &s->numbers.items[i];
    const bound low = {k->has_low, k->low_open, k->low}, high = {k->has_high, k->high_open, k->high};
    if (k->is_integer == n->is_integer && k->multiple == n->multiple && is_same_bound(&low, &n->low) && is_same_bound(&high, &n->high))
      return crn_node_rule(s->rules, k->rule);
  }
  const crn_node *node = make(&own);
  if (crn_rules_failed(s->rules) || node->kind == CRN_NODE_NEVER) return node;
  const crn_known_number k = {.has_low = n->low.is_there,
                              .low_open = n->low.is_open,
                              .has_high = n->high.is_there,
                              .high_open = n->high.is_open,
                              .is_integer = n->is_integer,
                              .low = n->low.value,
                              .high = n->high.value,
                              .multiple = n->multiple,
                              .rule = crn_rule_new(s->rules)};
  crn_rule_set(s->rules, k.rule, node);
  cairn_status status = crn_vec_push(s->rules->allocator, &s->numbers, k);
  if (status != CAIRN_OK) crn_rules_fail(s->rules, status);
  return crn_node_rule(s->rules, k.rule);
}

const crn_node *crn_schema_number(crn_schema *s, const crn_terms *terms, bool is_integer) {
  number n = {.s = s, .r = s->rules, .where = terms->items[0].schema, .is_integer = is_integer};
  for (size_t i = 0; i < terms->size; i++) {
    const json_t *schema = terms->items[i].schema;
    read_bound(&n, schema, "minimum", "exclusiveMinimum", true);
    read_bound(&n, schema, "maximum", "exclusiveMaximum", false);
    read_multiple(&n, schema);
  }
  if (crn_rules_failed(s->rules)) return crn_node_empty();
  // A multiple of a whole number is one; an integer that is a multiple of 0.5 is any.
  if (n.multiple == floor(n.multiple) && n.multiple) n.is_integer = true;
  if (n.is_integer && n.multiple && fmod(1, n.multiple) == 0) n.multiple = 0;
  if (n.is_integer && n.multiple != floor(n.multiple)) {
    return CRN_SCHEMA_UNSUPPORTED(s, n.where, "multipleOf", "integers in such steps are not supported");
  }
  if (n.multiple) return shared(&n, multiples);
  if (!n.low.is_there && !n.high.is_there) return n.is_integer ? crn_form_integer(&s->forms) : crn_form_number(&s->forms);
  return shared(&n, n.is_integer ? integers : decimals);
}
