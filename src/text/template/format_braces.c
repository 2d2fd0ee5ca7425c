/// str.format: replacement fields in braces.
#include <string.h>

#include "text/template/format_spec.h"
#include "text/template/text.h"

typedef struct formatter {
  tmpl_render *r;
  const tmpl_args *args;
  tmpl_value mapping;  // in place of keyword arguments, or MISSING
  int64_t next;        // the number of the next field without one; -1 once fields are numbered by hand
  bool numbered;
} formatter;

// What stands inside of one pair of braces.
typedef struct field_text {
  const char *name, *spec;
  size_t name_size, spec_size;
  char conversion;
} field_text;

static cairn_status put_fields(formatter *f, const char *text, size_t n, int depth, tmpl_buffer *b);

// The closing brace that belongs to a field whose text starts at `p`; nested braces belong to its format.
static const char *field_end(const char *p, const char *end) {
  int depth = 1;
  bool bracket = false;
  for (; p < end; p++) {
    if (*p == '[') bracket = true;
    if (*p == ']') bracket = false;
    if (bracket) continue;
    if (*p == '{') depth++;
    if (*p == '}' && --depth == 0) return p;
  }
  return NULL;
}

static cairn_status split_field(formatter *f, const char *p, const char *end, field_text *out) {
  *out = (field_text){.name = p};
  bool bracket = false;
  while (p < end && (bracket || (*p != ':' && *p != '!'))) {
    if (*p == '[') bracket = true;
    if (*p == ']') bracket = false;
    if (*p == '{' || *p == '}') return crn_tmpl_fail(f->r, "unexpected '{' in field name");
    p++;
  }
  out->name_size = (size_t)(p - out->name);
  if (p < end && *p == '!') {
    if (end - p < 2) return crn_tmpl_fail(f->r, "end of string while looking for conversion specifier");
    out->conversion = p[1];
    p += 2;
    if (p < end && *p != ':') return crn_tmpl_fail(f->r, "expected ':' after conversion specifier");
  }
  if (p < end) p++;
  out->spec = p;
  out->spec_size = (size_t)(end - p);
  return CAIRN_OK;
}

static bool is_number(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (p[i] < '0' || p[i] > '9') return false;
  }
  return n > 0 && n < 10;
}

static int64_t read_number(const char *p, size_t n) {
  int64_t value = 0;
  for (size_t i = 0; i < n; i++) value = value * 10 + (p[i] - '0');
  return value;
}

static cairn_status first_value(formatter *f, const char *name, size_t n, tmpl_value *out) {
  tmpl_render *r = f->r;
  if (is_number(name, n)) {
    size_t at = (size_t)read_number(name, n);
    if (at >= f->args->n_positional) return crn_tmpl_fail(r, "Replacement index %zu out of range for positional args tuple", at);
    *out = f->args->positional[at];
    return CAIRN_OK;
  }
  tmpl_str key = {.data = name, .size = n, .chars = TMPL_CHARS_UNKNOWN};
  if (f->mapping.type != TMPL_MISSING) {
    const tmpl_pair *pair = f->mapping.type == TMPL_DICT ? crn_tmpl_dict_find_str(f->mapping.dict, &key) : NULL;
    if (pair) *out = pair->value;
    return pair ? CAIRN_OK : crn_tmpl_fail(r, "'%.*s' is no key of the mapping", (int)n, name);
  }
  for (size_t i = 0; i < f->args->n_keywords; i++) {
    if (!crn_tmpl_str_equal(f->args->names[i], &key)) continue;
    *out = f->args->keywords[i];
    return CAIRN_OK;
  }
  return crn_tmpl_fail(r, "'%.*s' is no argument of format()", (int)n, name);
}

// Follows `.name` and `[key]` from a first value.
static cairn_status follow(formatter *f, const char *p, const char *end, tmpl_value *in_out) {
  while (p < end) {
    tmpl_value key, object = *in_out;
    CRN_TRY(crn_tmpl_steps(f->r, 1));
    if (*p == '.') {
      const char *start = ++p;
      while (p < end && *p != '.' && *p != '[') p++;
      if (p == start) return crn_tmpl_fail(f->r, "Empty attribute in format string");
      CRN_TRY(crn_tmpl_str_borrow(f->r, start, (size_t)(p - start), &key));
      CRN_TRY(crn_tmpl_attribute(f->r, object, key.s, in_out));
    } else if (*p == '[') {
      const char *start = ++p, *close = memchr(p, ']', (size_t)(end - p));
      if (!close) return crn_tmpl_fail(f->r, "Missing ']' in format string");
      if (close == start) return crn_tmpl_fail(f->r, "Empty attribute in format string");
      size_t n = (size_t)(close - start);
      CRN_TRY(crn_tmpl_str_borrow(f->r, start, n, &key));
      if (is_number(start, n)) key = tmpl_int(read_number(start, n));
      CRN_TRY(crn_tmpl_item(f->r, object, key, in_out));
      p = close + 1;
    } else {
      return crn_tmpl_fail(f->r, "Only '.' or '[' may follow ']' in format field specifier");
    }
  }
  return CAIRN_OK;
}

static cairn_status field_value(formatter *f, const field_text *t, tmpl_value *out) {
  const char *end = t->name + t->name_size, *p = t->name;
  while (p < end && *p != '.' && *p != '[') p++;
  size_t n = (size_t)(p - t->name);
  if (t->name_size == 0) {
    if (f->numbered) return crn_tmpl_fail(f->r, "cannot switch from manual field specification to automatic field numbering");
    if ((size_t)f->next >= f->args->n_positional) {
      return crn_tmpl_fail(f->r, "Replacement index %lld out of range for positional args tuple", (long long)f->next);
    }
    *out = f->args->positional[f->next++];
    return CAIRN_OK;
  }
  if (is_number(t->name, t->name_size)) {
    if (f->next) return crn_tmpl_fail(f->r, "cannot switch from manual field specification to automatic field numbering");
    f->numbered = true;
  }
  CRN_TRY(first_value(f, t->name, n, out));
  return follow(f, p, end, out);
}

static cairn_status convert(formatter *f, char conversion, tmpl_value *in_out) {
  tmpl_buffer b = {0};
  if (!conversion) return CAIRN_OK;
  if (conversion == 's') return crn_tmpl_to_str(f->r, *in_out, in_out);
  if (conversion != 'r' && conversion != 'a') return crn_tmpl_fail(f->r, "Unknown conversion specifier '%c'", conversion);
  if (conversion == 'a' && in_out->type == TMPL_STRING)
    CRN_TRY(crn_tmpl_put_quoted(f->r, &b, in_out->s->data, in_out->s->size, true));
  else
    CRN_TRY(crn_tmpl_put_repr(f->r, &b, *in_out));
  return crn_tmpl_str_finish(f->r, &b, in_out);
}

static cairn_status put_field(formatter *f, const char *p, const char *end, int depth, tmpl_buffer *b) {
  field_text t;
  tmpl_value v;
  tmpl_buffer spec = {0};
  CRN_TRY(split_field(f, p, end, &t));
  CRN_TRY(field_value(f, &t, &v));
  CRN_TRY(convert(f, t.conversion, &v));
  if (t.spec_size) CRN_TRY(put_fields(f, t.spec, t.spec_size, depth + 1, &spec));
  return crn_tmpl_put_formatted(f->r, b, v, spec.base, spec.used);
}

static cairn_status put_fields(formatter *f, const char *text, size_t n, int depth, tmpl_buffer *b) {
  // A format may itself hold fields, but those may not hold formats with fields again.
  if (depth > 2) return crn_tmpl_fail(f->r, "Max string recursion exceeded");
  const char *p = text, *end = text + n;
  while (p < end) {
    const char *start = p;
    while (p < end && *p != '{' && *p != '}') p++;
    CRN_TRY(crn_tmpl_put(f->r, b, start, (size_t)(p - start)));
    if (p == end) break;
    if (p + 1 < end && p[1] == *p) {
      CRN_TRY(crn_tmpl_putc(f->r, b, *p));
      p += 2;
      continue;
    }
    if (*p == '}') return crn_tmpl_fail(f->r, "Single '}' encountered in format string");
    const char *close = field_end(p + 1, end);
    if (!close) return crn_tmpl_fail(f->r, p + 1 == end ? "Single '{' encountered in format string" : "expected '}' before end of string");
    CRN_TRY(crn_tmpl_steps(f->r, 1));
    CRN_TRY(put_field(f, p + 1, close, depth, b));
    p = close + 1;
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_format_braces(tmpl_render *r, const tmpl_str *format, const tmpl_args *args, tmpl_value mapping, tmpl_value *out) {
  formatter f = {.r = r, .args = args, .mapping = mapping};
  tmpl_buffer b = {0};
  CRN_TRY(put_fields(&f, format->data, format->size, 1, &b));
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, format->markup, out);
}
