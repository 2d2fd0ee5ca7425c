// Reads a translated pattern into the parts of a program. The translation writes few constructs, always in the same way:
// letters and digits stand for themselves, every other character is \x{…}, and brackets hold no closing bracket.
#include <string.h>

#include "text/tokenizer/regex_program_parts.h"

typedef struct reader {
  const char *at, *end;
  crn_program_sets *sets;
  const cairn_allocator *allocator;
  bool known;  ///< false once something was met that programs do not have
} reader;

static bool at_text(const reader *r, const char *text) {
  size_t n = strlen(text);
  return (size_t)(r->end - r->at) >= n && !memcmp(r->at, text, n);
}

static bool take(reader *r, const char *text) {
  if (!at_text(r, text)) return false;
  r->at += strlen(text);
  return true;
}

static cairn_status unknown(reader *r) {
  r->known = false;
  return CAIRN_OK;
}

/// The size of the expression for one character that begins here, 0 when there is none.
static size_t atom_bytes(const reader *r) {
  const char *close;
  if (r->at == r->end) return 0;
  char c = *r->at;
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return 1;
  // Opposites of named sets come in a group of their own.
  bool wrapped = at_text(r, "(?:[");
  if (c == '[' || wrapped) {
    close = memchr(r->at, ']', (size_t)(r->end - r->at));
  } else if (at_text(r, "\\x{") || at_text(r, "\\p{")) {
    close = memchr(r->at, '}', (size_t)(r->end - r->at));
  } else {
    return 0;
  }
  if (close && wrapped) close = close + 1 < r->end && close[1] == ')' ? close + 1 : NULL;
  return close ? (size_t)(close - r->at) + 1 : 0;
}

/// Reads an expression for one character; equal expressions are one set.
static cairn_status read_set(reader *r, bool ignore_case, uint32_t *out_set) {
  size_t bytes = atom_bytes(r), n = r->sets->n;
  // The one property that tells places without a character apart, which the making of sets does not look at one by one.
  if (!bytes || n == CRN_PROGRAM_MAX_SETS || memmem(r->at, bytes, "noncharacter", 12)) return unknown(r);
  crn_str *fresh = &r->sets->expressions[n];
  crn_str_clear(fresh);
  CRN_TRY(crn_str_puts(fresh, ignore_case ? "(?i:" : "(?:"));
  CRN_TRY(crn_str_append(fresh, r->at, bytes));
  CRN_TRY(crn_str_puts(fresh, ")++"));
  r->at += bytes;
  size_t i = 0;
  while (r->sets->expressions[i].size != fresh->size || memcmp(r->sets->expressions[i].data, fresh->data, fresh->size)) i++;
  if (i == n) r->sets->n++;
  *out_set = 1u << i;
  return CAIRN_OK;
}

static uint32_t read_number(reader *r) {
  uint32_t n = 0;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && n < 100000) n = n * 10 + (uint32_t)(*r->at++ - '0');
  return n;
}

static void read_quantifier(reader *r, crn_program_item *item) {
  item->min = item->max = 1;
  if (r->at == r->end || !strchr("?*+{", *r->at)) return;
  char c = *r->at++;
  if (c == '{') {
    item->min = item->max = read_number(r);
    if (take(r, ",")) item->max = at_text(r, "}") ? UINT32_MAX : read_number(r);
    if (!take(r, "}") || item->max < item->min || !item->max) r->known = false;
  } else {
    item->min = c == '+';
    item->max = c == '?' ? 1 : UINT32_MAX;
    item->possessive = take(r, "+");
  }
  // Lazy ones.
  if (at_text(r, "?")) r->known = false;
}

/// The rows of a group up to and with its closing parenthesis.
static cairn_status read_branches(reader *r, bool ignore_case, crn_program_item *item) {
  crn_program_branch *b = &item->branches[0];
  item->n_branches = 1;
  while (r->known && !take(r, ")")) {
    if (take(r, "|")) {
      if (item->n_branches == CRN_PROGRAM_MAX_BRANCHES || !b->n) return unknown(r);
      b = &item->branches[item->n_branches++];
      continue;
    }
    if (b->n == CRN_PROGRAM_MAX_CHARS) return unknown(r);
    CRN_TRY(read_set(r, ignore_case, &b->sets[b->n++]));
  }
  if (!b->n) return unknown(r);
  item->optional = take(r, "?");
  if (r->at < r->end && strchr("?*+{", *r->at)) return unknown(r);
  return CAIRN_OK;
}

static cairn_status read_item(reader *r, crn_program_item *item) {
  *item = (crn_program_item){.kind = CRN_PROGRAM_GROUP};
  if (take(r, "(?i:")) return read_branches(r, true, item);
  if (!atom_bytes(r) && (take(r, "(?-i:") || take(r, "(?:"))) return read_branches(r, false, item);
  item->negated = at_text(r, "(?!");
  if (take(r, "(?!") || take(r, "(?=")) {
    item->kind = CRN_PROGRAM_LOOK;
    CRN_TRY(read_set(r, false, &item->set));
    return take(r, ")") ? CAIRN_OK : unknown(r);
  }
  item->kind = CRN_PROGRAM_RUN;
  CRN_TRY(read_set(r, false, &item->set));
  read_quantifier(r, item);
  return CAIRN_OK;
}

/// Sets an alternative can begin with. An alternative that can be empty is not known.
static bool find_first(crn_program_alternative *a) {
  for (size_t i = 0; i < a->n_items; i++) {
    const crn_program_item *item = &a->items[i];
    if (item->kind == CRN_PROGRAM_LOOK) continue;
    if (item->kind == CRN_PROGRAM_RUN) a->first |= item->set;
    for (size_t k = 0; k < item->n_branches; k++) a->first |= item->branches[k].sets[0];
    if (item->kind == CRN_PROGRAM_GROUP ? !item->optional : item->min > 0) return true;
  }
  return false;
}

cairn_status crn_regex_program_read(const char *pattern, size_t bytes, crn_regex_program *program, crn_program_sets *sets,
                                    bool *out_known) {
  reader r = {pattern, pattern + bytes, sets, program->allocator, true};
  crn_program_alternative *a = &program->alternatives[0];
  program->n_alternatives = 1;
  while (r.known && r.at < r.end) {
    if (take(&r, "|")) {
      r.known = find_first(a) && program->n_alternatives < CRN_PROGRAM_MAX_ALTERNATIVES;
      if (r.known) a = &program->alternatives[program->n_alternatives++];
    } else if (a->n_items == CRN_PROGRAM_MAX_ITEMS) {
      r.known = false;
    } else {
      CRN_TRY(read_item(&r, &a->items[a->n_items++]));
    }
  }
  *out_known = r.known && find_first(a);
  return CAIRN_OK;
}
