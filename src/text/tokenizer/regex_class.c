// Bracket expressions: unions of ranges, named sets and further brackets, cut with "&&".
#include <string.h>

#include "text/tokenizer/regex_syntax.h"
#include "text/tokenizer/text.h"

static bool at_set_escape(const crn_regex_source *in) {
  return in->at + 1 < in->end && in->at[0] == '\\' && in->at[1] && strchr("sSwWdDhHpP", in->at[1]);
}

static cairn_status read_code(crn_regex_source *in, uint32_t *out) {
  if (in->at == in->end) return crn_regex_broken(in, "brackets are not closed");
  if (*in->at != '\\') {
    in->at += crn_code_at(in->at, out);
    return CAIRN_OK;
  }
  if (++in->at == in->end) return crn_regex_broken(in, "a backslash at the end");
  return crn_regex_escape_code(in, true, out);
}

static cairn_status read_range(crn_regex_source *in, crn_regex_set *set) {
  uint32_t first, last;
  CRN_TRY(read_code(in, &first));
  bool range = crn_regex_at(in, "-") && in->at + 1 < in->end && in->at[1] != ']' && in->at[1] != '[' && !crn_regex_at(in, "-&&");
  if (!range) return crn_regex_set_range(set, first, first);
  in->at++;
  if (at_set_escape(in)) return crn_regex_broken(in, "a range ends in a set of characters");
  CRN_TRY(read_code(in, &last));
  if (last < first) return crn_regex_broken(in, "a range is upside down");
  return crn_regex_set_range(set, first, last);
}

static cairn_status read_posix(crn_regex_source *in, crn_regex_set *set, bool *out_read) {
  *out_read = false;
  if (!crn_regex_at(in, "[:")) return CAIRN_OK;
  const char *name = in->at + 2, *end = name;
  while (end < in->end && ((*end >= 'a' && *end <= 'z') || *end == '^')) end++;
  if (in->end - end < 2 || end[0] != ':' || end[1] != ']') return CAIRN_OK;
  *out_read = true;
  in->at = end + 2;
  return crn_regex_set_property(set, name, (size_t)(end - name), false, true, true, in->what);
}

static cairn_status read_nested(crn_regex_source *in, int depth, crn_regex_set *set) {
  bool posix;
  CRN_TRY(read_posix(in, set, &posix));
  if (posix) return CAIRN_OK;
  crn_str inner;
  crn_str_initialize(&inner, set->simple.allocator);
  cairn_status status = crn_regex_class(in, depth - 1, &inner);
  if (status == CAIRN_OK) status = crn_regex_set_other(set, inner.data, inner.size);
  crn_str_deinitialize(&inner);
  return status;
}

static cairn_status read_item(crn_regex_source *in, int depth, crn_regex_set *set) {
  if (*in->at == '[') return read_nested(in, depth, set);
  if (!at_set_escape(in)) return read_range(in, set);
  in->at++;
  if ((*in->at | 0x20) == 'p') return crn_regex_escape_property(in, true, set);
  return crn_regex_set_letter(set, *in->at++, true);
}

/// Reads items up to "&&" or the closing bracket and writes their union.
static cairn_status read_union(crn_regex_source *in, int depth, crn_str *out, bool negated) {
  crn_regex_set set;
  cairn_status status = CAIRN_OK;
  crn_regex_set_initialize(&set, out->allocator);
  while (status == CAIRN_OK && in->at < in->end && *in->at != ']' && !crn_regex_at(in, "&&")) status = read_item(in, depth, &set);
  if (status == CAIRN_OK && in->at == in->end) status = crn_regex_broken(in, "brackets are not closed");
  if (status == CAIRN_OK && !set.simple.size && !set.others.size) status = crn_regex_refuse(in, "an empty set of characters");
  if (status == CAIRN_OK) status = crn_regex_set_write(&set, negated && !crn_regex_at(in, "&&"), out);
  crn_regex_set_deinitialize(&set);
  return status;
}

/// A]  or  A&&B&&C]: each further part is asked for at the same character.
static cairn_status read_parts(crn_regex_source *in, int depth, bool negated, crn_str *out) {
  crn_str part;
  cairn_status status;
  bool several = false;
  crn_str_initialize(&part, out->allocator);
  CRN_TRY_GOTO(read_union(in, depth, &part, negated));
  while (crn_regex_at(in, "&&")) {
    CRN_TRY_GOTO(crn_str_printf(out, "%s(?=%s)", several ? "" : negated ? "(?:(?!(?:" : "(?:", part.data));
    several = true;
    in->at += 2;
    crn_str_clear(&part);
    CRN_TRY_GOTO(read_union(in, depth, &part, false));
  }
  CRN_TRY_GOTO(crn_str_puts(out, part.data));
  if (several) CRN_TRY_GOTO(crn_str_puts(out, negated ? "))(?s:.))" : ")"));
  in->at++;
done:
  crn_str_deinitialize(&part);
  return status;
}

cairn_status crn_regex_class(crn_regex_source *in, int depth, crn_str *out) {
  if (depth <= 0) return crn_regex_refuse(in, "brackets nested this deep");
  in->at++;
  bool negated = crn_regex_at(in, "^");
  if (negated) in->at++;
  // A closing bracket in the first place is a literal when another one follows.
  if (crn_regex_at(in, "]") && memchr(in->at + 1, ']', (size_t)(in->end - in->at - 1))) {
    crn_str rest;
    crn_str_initialize(&rest, out->allocator);
    in->at++;
    cairn_status status = crn_regex_at(in, "]") ? CAIRN_OK : read_parts(in, depth, false, &rest);
    if (status == CAIRN_OK && !rest.size) in->at++;
    if (status == CAIRN_OK) {
      status = rest.size ? crn_str_printf(out, negated ? "(?:(?!\\x{5d}|%s)(?s:.))" : "(?:\\x{5d}|%s)", rest.data)
                         : crn_str_puts(out, negated ? "[^\\x{5d}]" : "\\x{5d}");
    }
    crn_str_deinitialize(&rest);
    return status;
  }
  return read_parts(in, depth, negated, out);
}
