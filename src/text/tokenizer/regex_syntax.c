// From Oniguruma's syntax to PCRE2's. What means the same in both is copied, what differs is rewritten, what has no
// counterpart is refused. Every construct is looked at: nothing of PCRE2's own syntax can slip through.
#include "text/tokenizer/regex_syntax.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/text.h"

enum { MAX_GROUPS = 200, MAX_CLASS_DEPTH = 16 };

/// An open group: where its text began and the options to return to.
typedef struct group {
  size_t begin;
  bool extended, ignore_case, implicit;
} group;

typedef struct translation {
  crn_regex_source in;
  crn_str *out;
  bool extended, ignore_case;
  group groups[MAX_GROUPS];
  int n_groups;
  bool has_atom, quantified;  ///< what a quantifier would apply to
  size_t atom;                ///< where it begins in the output
} translation;

cairn_status crn_regex_refuse(const crn_regex_source *in, const char *construct) {
  return CRN_FAIL(UNSUPPORTED, "%s: pattern '%.200s' uses %s, which is not supported", in->what, in->begin, construct);
}

cairn_status crn_regex_broken(const crn_regex_source *in, const char *problem) {
  return CRN_FAIL(CORRUPT, "%s: pattern '%.200s': %s", in->what, in->begin, problem);
}

bool crn_regex_at(const crn_regex_source *in, const char *text) {
  size_t n = strlen(text);
  return (size_t)(in->end - in->at) >= n && !memcmp(in->at, text, n);
}

static void start_atom(translation *t) {
  t->atom = t->out->size;
  t->has_atom = true;
  t->quantified = false;
}

static void no_atom(translation *t) { t->has_atom = t->quantified = false; }

// --- escapes -------------------------------------------------------------------------------------------------------------

static int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') return (c | 0x20) - 'a' + 10;
  return 99;
}

/// Reads up to `most` digits of a base.
static int read_digits(crn_regex_source *in, int base, int most, uint32_t *out) {
  int n = 0;
  *out = 0;
  while (n < most && in->at < in->end && digit_value(*in->at) < base) {
    *out = *out * (uint32_t)base + (uint32_t)digit_value(*in->at++);
    n++;
  }
  return n;
}

static cairn_status read_braced(crn_regex_source *in, int base, uint32_t *out) {
  in->at++;
  if (!read_digits(in, base, 8, out) || in->at == in->end || *in->at != '}')
    return crn_regex_broken(in, "a code in braces must be one number");
  in->at++;
  return CAIRN_OK;
}

static cairn_status read_hex(crn_regex_source *in, uint32_t *out) {
  if (in->at < in->end && *in->at == '{') return read_braced(in, 16, out);
  read_digits(in, 16, 2, out);
  return *out < 0x80 ? CAIRN_OK : crn_regex_refuse(in, "a byte above 7f");
}

cairn_status crn_regex_escape_code(crn_regex_source *in, bool in_brackets, uint32_t *out) {
  static const char controls[] = "t\tn\nr\rf\fv\va\ae\x1b";
  char c = *in->at;
  in->at += 1;
  for (const char *p = controls; *p; p += 2) {
    if (c == *p) return *out = (uint32_t)p[1], CAIRN_OK;
  }
  if (c == 'b' && in_brackets) return *out = 8, CAIRN_OK;
  if (c == 'x') {
    CRN_TRY(read_hex(in, out));
  } else if (c == 'u') {
    if (read_digits(in, 16, 4, out) != 4) return crn_regex_broken(in, "\\u needs four hexadecimal digits");
  } else if (c == 'o' && in->at < in->end && *in->at == '{') {
    CRN_TRY(read_braced(in, 8, out));
  } else if (c == '0' || (in_brackets && c >= '1' && c <= '7')) {
    in->at -= c != '0';
    read_digits(in, 8, c == '0' ? 2 : 3, out);
    if (*out >= 0x80) return crn_regex_refuse(in, "a byte above 7f");
  } else if (c == 'c' && in->at < in->end && (unsigned char)*in->at < 0x80) {
    *out = *in->at++ & 0x1f;
  } else if (strchr("CMkgKRXyYNOGAzZB", c) && c) {
    return crn_regex_refuse(in, (char[]){'\\', c, 0});
  } else {
    in->at--;
    in->at += crn_code_at(in->at, out);
  }
  return *out <= 0x10ffff && !(*out >= 0xd800 && *out <= 0xdfff) ? CAIRN_OK : crn_regex_broken(in, "a code is no character");
}

cairn_status crn_regex_escape_property(crn_regex_source *in, bool in_brackets, crn_regex_set *set) {
  bool negated = *in->at++ == 'P';
  const char *close = memchr(in->at, '}', (size_t)(in->end - in->at));
  if (in->at == in->end || *in->at != '{' || !close) return crn_regex_refuse(in, "\\p without braces");
  const char *name = in->at + 1;
  in->at = close + 1;
  return crn_regex_set_property(set, name, (size_t)(close - name), negated, false, in_brackets, in->what);
}

static cairn_status put_set(translation *t, crn_regex_set *set, cairn_status status) {
  start_atom(t);
  if (status == CAIRN_OK) status = crn_regex_set_write(set, false, t->out);
  crn_regex_set_deinitialize(set);
  return status;
}

static cairn_status word_boundary(translation *t, bool negated) {
  crn_regex_set set;
  crn_str word;
  cairn_status status;
  crn_regex_set_initialize(&set, t->out->allocator);
  crn_str_initialize(&word, t->out->allocator);
  CRN_TRY_GOTO(crn_regex_set_letter(&set, 'w', false));
  CRN_TRY_GOTO(crn_regex_set_write(&set, false, &word));
  no_atom(t);
  status = crn_str_printf(t->out, negated ? "(?:(?<=%s)(?=%s)|(?<!%s)(?!%s))" : "(?:(?<=%s)(?!%s)|(?<!%s)(?=%s))", word.data, word.data,
                          word.data, word.data);
done:
  crn_regex_set_deinitialize(&set);
  crn_str_deinitialize(&word);
  return status;
}

// A character whose case folding is several characters matches those as well, which PCRE2 has no way to say.
static bool folds_to_many(uint32_t code) {
  utf8proc_int32_t folded[8];
  if (code < 0x80) return false;
  return utf8proc_decompose_char((utf8proc_int32_t)code, folded, 8, UTF8PROC_CASEFOLD, NULL) > 1;
}

// And several characters in a row match the one that folds to them.
static bool starts_folded_pair(const crn_regex_source *in, uint32_t code) {
  static const char pairs[] = "ss ff fi fl st";
  if (in->at == in->end || code >= 0x80) return false;
  char pair[3] = {(char)(code | 0x20), (char)(*in->at | 0x20), 0};
  return (unsigned char)*in->at < 0x80 && pair[0] >= 'a' && strstr(pairs, pair) != NULL;
}

static cairn_status put_literal(translation *t, uint32_t code) {
  if (t->ignore_case && (folds_to_many(code) || starts_folded_pair(&t->in, code))) {
    return crn_regex_refuse(&t->in, "letters without case that fold to several");
  }
  start_atom(t);
  return crn_regex_put_code(t->out, code);
}

static cairn_status escape(translation *t) {
  crn_regex_source *in = &t->in;
  if (++in->at == in->end) return crn_regex_broken(in, "a backslash at the end");
  char c = *in->at;
  crn_regex_set set;
  uint32_t code;
  if (c && strchr("sSwWdDhH", c)) {
    in->at++;
    crn_regex_set_initialize(&set, t->out->allocator);
    return put_set(t, &set, crn_regex_set_letter(&set, c, false));
  }
  if ((c == 'p' || c == 'P') && in->at + 1 < in->end && in->at[1] == '{') {
    crn_regex_set_initialize(&set, t->out->allocator);
    return put_set(t, &set, crn_regex_escape_property(in, false, &set));
  }
  if (c && strchr("AzZGK", c)) {
    in->at++;
    no_atom(t);
    return crn_str_printf(t->out, "\\%c", c);
  }
  if (c == 'b' || c == 'B') {
    in->at++;
    return word_boundary(t, c == 'B');
  }
  if (c && strchr("RNO", c)) {
    in->at++;
    start_atom(t);
    if (c == 'R') return crn_str_puts(t->out, "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])");
    return crn_str_puts(t->out, c == 'N' ? "[^\\n]" : "(?s:.)");
  }
  if (c >= '1' && c <= '9') {
    if (in->at + 1 < in->end && in->at[1] >= '0' && in->at[1] <= '9') return crn_regex_refuse(in, "a reference above 9");
    in->at++;
    start_atom(t);
    return crn_str_printf(t->out, "\\g{%c}", c);
  }
  CRN_TRY(crn_regex_escape_code(in, false, &code));
  return put_literal(t, code);
}

// --- groups --------------------------------------------------------------------------------------------------------------------

static cairn_status open_group(translation *t, const char *text, bool implicit) {
  if (t->n_groups == MAX_GROUPS) return crn_regex_refuse(&t->in, "groups nested this deep");
  t->groups[t->n_groups++] = (group){t->out->size, t->extended, t->ignore_case, implicit};
  no_atom(t);
  return crn_str_puts(t->out, text);
}

static cairn_status close_one(translation *t) {
  const group *g = &t->groups[--t->n_groups];
  t->extended = g->extended;
  t->ignore_case = g->ignore_case;
  t->atom = g->begin;
  t->has_atom = true;
  t->quantified = false;
  return crn_str_putc(t->out, ')');
}

// Options that stand alone hold to the end of the enclosing group and make one group of all that follows.
static cairn_status close_group(translation *t) {
  while (t->n_groups && t->groups[t->n_groups - 1].implicit) CRN_TRY(close_one(t));
  if (!t->n_groups) return crn_regex_broken(&t->in, "a closing parenthesis too many");
  t->in.at++;
  return close_one(t);
}

static cairn_status read_options(translation *t) {
  crn_regex_source *in = &t->in;
  bool on = true, extended = t->extended, ignore_case = t->ignore_case;
  char text[8];
  int dot_all = -1;
  for (; in->at < in->end && *in->at != ':' && *in->at != ')'; in->at++) {
    if (*in->at == '-') {
      on = false;
    } else if (*in->at == 'i') {
      ignore_case = on;
    } else if (*in->at == 'x') {
      extended = on;
    } else if (*in->at == 'm') {
      dot_all = on;
    } else {
      return crn_regex_refuse(in, "this kind of group");
    }
  }
  if (in->at == in->end) return crn_regex_broken(in, "a group is not closed");
  bool alone = *in->at++ == ')';
  // Ruby's m is what others call s; its line anchors are always on.
  snprintf(text, sizeof text, "%s", dot_all == 1 ? "s" : "");
  if (ignore_case) strcat(text, "i");
  if (dot_all == 0 || !ignore_case) strcat(text, "-");
  if (dot_all == 0) strcat(text, "s");
  if (!ignore_case) strcat(text, "i");
  char open[16];
  snprintf(open, sizeof open, "(?%s:", text);
  CRN_TRY(open_group(t, open, alone));
  t->extended = extended;
  t->ignore_case = ignore_case;
  return CAIRN_OK;
}

static cairn_status open_named(translation *t, char close) {
  crn_regex_source *in = &t->in;
  const char *end = memchr(in->at, close, (size_t)(in->end - in->at));
  if (!end || end == in->at) return crn_regex_broken(in, "a group name is not closed");
  in->at = end + 1;
  return open_group(t, "(", false);
}

static cairn_status group_start(translation *t) {
  static const char *const same[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
  crn_regex_source *in = &t->in;
  if (crn_regex_at(in, "(*")) return crn_regex_refuse(in, "callouts");
  if (!crn_regex_at(in, "(?")) {
    in->at++;
    return open_group(t, "(", false);
  }
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    if (!crn_regex_at(in, same[i])) continue;
    in->at += strlen(same[i]);
    return open_group(t, same[i], false);
  }
  if (crn_regex_at(in, "(?#")) {
    const char *end = memchr(in->at, ')', (size_t)(in->end - in->at));
    if (!end) return crn_regex_broken(in, "a comment is not closed");
    in->at = end + 1;
    return CAIRN_OK;
  }
  bool quoted = crn_regex_at(in, "(?'"), named_group = quoted || crn_regex_at(in, "(?<");
  in->at += named_group ? 3 : 2;
  return named_group ? open_named(t, quoted ? '\'' : '>') : read_options(t);
}

// --- quantifiers ---------------------------------------------------------------------------------------------------------------

/// Reads "{n}", "{n,}", "{n,m}" or "{,m}"; anything else is no interval.
static bool read_interval(crn_regex_source *in, char out[32], bool *out_exact) {
  const char *start = in->at++;
  uint32_t low, high = 0;
  int n_low = read_digits(in, 10, 6, &low), n_high = 0;
  bool comma = in->at < in->end && *in->at == ',';
  if (comma) {
    in->at++;
    n_high = read_digits(in, 10, 6, &high);
  }
  if (in->at == in->end || *in->at != '}' || (!n_low && !n_high)) {
    in->at = start;
    return false;
  }
  in->at++;
  if (!comma) {
    snprintf(out, 32, "{%u}", (unsigned)low);
  } else if (!n_high) {
    snprintf(out, 32, "{%u,}", (unsigned)low);
  } else {
    snprintf(out, 32, "{%u,%u}", (unsigned)low, (unsigned)high);
  }
  *out_exact = !comma;
  return true;
}

/// Makes one group of what the quantifier applies to.
static cairn_status wrap_atom(translation *t) {
  CRN_TRY(crn_str_puts(t->out, "(?:)"));
  memmove(t->out->data + t->atom + 3, t->out->data + t->atom, t->out->size - 4 - t->atom);
  memcpy(t->out->data + t->atom, "(?:", 3);
  t->out->data[t->out->size - 1] = ')';
  return CAIRN_OK;
}

static cairn_status quantifier(translation *t) {
  crn_regex_source *in = &t->in;
  char text[32];
  bool exact = false, interval = *in->at == '{';
  if (interval) {
    if (!read_interval(in, text, &exact)) {
      in->at++;
      return put_literal(t, '{');
    }
  } else {
    snprintf(text, sizeof text, "%c", *in->at++);
  }
  if (!t->has_atom) return crn_regex_broken(in, "a quantifier has nothing to repeat");
  // A quantifier on a quantifier repeats the whole; PCRE2 wants the group spelled out.
  if (t->quantified) CRN_TRY(wrap_atom(t));
  CRN_TRY(crn_str_puts(t->out, text));
  t->quantified = true;
  if (in->at == in->end) return CAIRN_OK;
  // Behind an interval '+' is one more quantifier, and so is '?' behind an exact count.
  bool suffix = *in->at == '?' ? !exact : *in->at == '+' && !interval;
  return suffix ? crn_str_putc(t->out, *in->at++) : CAIRN_OK;
}

// --- the whole -------------------------------------------------------------------------------------------------------------------

static void skip_extended(translation *t) {
  crn_regex_source *in = &t->in;
  if (*in->at == '#') {
    while (in->at < in->end && *in->at != '\n') in->at++;
  } else {
    in->at++;
  }
}

static cairn_status one(translation *t) {
  crn_regex_source *in = &t->in;
  char c = *in->at;
  if (t->extended && (c == '#' || c == ' ' || (c >= 9 && c <= 13))) return skip_extended(t), CAIRN_OK;
  switch (c) {
    case '\\':
      return escape(t);
    case '[':
      start_atom(t);
      return crn_regex_class(in, MAX_CLASS_DEPTH, t->out);
    case '(':
      return group_start(t);
    case ')':
      return close_group(t);
    case '*':
    case '+':
    case '?':
    case '{':
      return quantifier(t);
    case '|':
    case '^':
    case '$':
      in->at++;
      no_atom(t);
      return crn_str_putc(t->out, c);
    case '.':
      in->at++;
      start_atom(t);
      return crn_str_putc(t->out, c);
    default:
      break;
  }
  uint32_t code;
  in->at += crn_code_at(in->at, &code);
  return put_literal(t, code);
}

cairn_status crn_regex_translate(const char *pattern, size_t bytes, const char *what, crn_str *out) {
  translation t = {.in = {pattern, pattern, pattern + bytes, what}, .out = out};
  while (t.in.at < t.in.end) CRN_TRY(one(&t));
  while (t.n_groups && t.groups[t.n_groups - 1].implicit) CRN_TRY(close_one(&t));
  return t.n_groups ? crn_regex_broken(&t.in, "a group is not closed") : CAIRN_OK;
}
