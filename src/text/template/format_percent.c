/// text % values: conversions as in C's printf.
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "text/template/format_spec.h"
#include "text/template/html.h"

typedef struct percent {
  tmpl_render *r;
  const char *p, *end;
  tmpl_value values;
  bool is_tuple, is_mapping;
  bool markup;
  size_t next;  // of the values
} percent;

static cairn_status next_value(percent *f, tmpl_value *out) {
  size_t n = f->is_tuple ? f->values.list->size : 1;
  if (f->next >= n) return crn_tmpl_fail(f->r, "not enough arguments for format string");
  *out = f->is_tuple ? f->values.list->items[f->next] : f->values;
  f->next++;
  return CAIRN_OK;
}

// "(key)" behind the percent sign: the value is looked up instead of being taken in order.
static cairn_status keyed_value(percent *f, tmpl_value *out) {
  const char *start = ++f->p;
  int depth = 1;
  for (; f->p < f->end && depth; f->p++) depth += *f->p == '(' ? 1 : *f->p == ')' ? -1 : 0;
  if (depth) return crn_tmpl_fail(f->r, "incomplete format key");
  if (!f->is_mapping) return crn_tmpl_fail(f->r, "format requires a mapping");
  if (f->values.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(f->r, f->values);
  tmpl_str key = {.data = start, .size = (size_t)(f->p - 1 - start), .chars = TMPL_CHARS_UNKNOWN};
  const tmpl_pair *pair = f->values.type == TMPL_DICT ? crn_tmpl_dict_find_str(f->values.dict, &key) : NULL;
  if (!pair) return crn_tmpl_fail(f->r, "'%.*s' is no key of the mapping", (int)key.size, key.data);
  *out = pair->value;
  return CAIRN_OK;
}

// A width or precision: digits, or a value for `*`.
static cairn_status read_size(percent *f, int64_t *out) {
  *out = 0;
  if (f->p < f->end && *f->p == '*') {
    tmpl_value v;
    f->p++;
    CRN_TRY(next_value(f, &v));
    if (!tmpl_is_integral(v)) return crn_tmpl_fail(f->r, "* wants int");
    *out = tmpl_as_int(v);
  }
  for (; f->p < f->end && isdigit((unsigned char)*f->p) && *out <= TMPL_MAX_FIELD; f->p++) *out = *out * 10 + (*f->p - '0');
  if (*out > TMPL_MAX_FIELD || *out < -TMPL_MAX_FIELD) return crn_tmpl_limit(f->r, "a field of more than %d characters", TMPL_MAX_FIELD);
  return CAIRN_OK;
}

static cairn_status parse_conversion(percent *f, tmpl_field *out, tmpl_value *out_value, bool *out_has_value) {
  bool left = false, zero = false;
  *out = (tmpl_field){.fill = ' ', .align = '>', .sign = '-', .precision = -1};
  *out_has_value = f->p < f->end && *f->p == '(';
  if (*out_has_value) CRN_TRY(keyed_value(f, out_value));
  for (; f->p < f->end && *f->p && strchr("#0- +", *f->p); f->p++) {
    left = left || *f->p == '-';
    zero = zero || *f->p == '0';
    out->alternate = out->alternate || *f->p == '#';
    if (*f->p == '+' || (*f->p == ' ' && out->sign != '+')) out->sign = *f->p;
  }
  CRN_TRY(read_size(f, &out->width));
  if (out->width < 0) {
    left = true;
    out->width = -out->width;
  }
  if (f->p < f->end && *f->p == '.') {
    f->p++;
    CRN_TRY(read_size(f, &out->precision));
    if (out->precision < 0) out->precision = 0;
  }
  if (f->p < f->end && *f->p && strchr("hlL", *f->p)) f->p++;
  if (f->p >= f->end) return crn_tmpl_fail(f->r, "incomplete format");
  out->type = *f->p++;
  if (left) {
    out->align = '<';
  } else if (zero && !strchr("srac", out->type)) {
    out->align = '=';
    out->fill = '0';
  }
  return CAIRN_OK;
}

static cairn_status put_text(percent *f, tmpl_field *field, tmpl_value v, tmpl_buffer *b) {
  tmpl_value text;
  tmpl_buffer shown = {0};
  if (field->type == 'a' && v.type == TMPL_STRING)
    CRN_TRY(crn_tmpl_put_quoted(f->r, &shown, v.s->data, v.s->size, true));
  else if (field->type == 's')
    CRN_TRY(crn_tmpl_put_str(f->r, &shown, v));
  else
    CRN_TRY(crn_tmpl_put_repr(f->r, &shown, v));
  CRN_TRY(crn_tmpl_str_finish(f->r, &shown, &text));
  // What is put into safe HTML is escaped.
  bool safe = field->type == 's' && v.type == TMPL_STRING && v.s->markup;
  if (f->markup && !safe) CRN_TRY(crn_tmpl_escape(f->r, text, &text));
  size_t n = text.s->size;
  if (field->precision >= 0 && (size_t)field->precision < crn_tmpl_str_chars(text.s))
    n = crn_tmpl_str_offset(text.s, (size_t)field->precision);
  return crn_tmpl_put_padded(f->r, b, field, text.s->data, n);
}

static cairn_status put_character(percent *f, const tmpl_field *field, tmpl_value v, tmpl_buffer *b) {
  char text[4];
  if (v.type == TMPL_STRING && crn_tmpl_str_chars(v.s) == 1) return crn_tmpl_put_padded(f->r, b, field, v.s->data, v.s->size);
  if (!tmpl_is_integral(v)) return crn_tmpl_fail(f->r, "%%c requires int or char");
  int64_t code = tmpl_as_int(v);
  if (code < 0 || code > 0x10ffff) return crn_tmpl_fail(f->r, "%%c arg not in range(0x110000)");
  return crn_tmpl_put_padded(f->r, b, field, text, (size_t)crn_utf8_encode((uint32_t)code, text));
}

static cairn_status put_integer(percent *f, tmpl_field *field, tmpl_value v, tmpl_buffer *b) {
  bool decimal = strchr("diu", field->type) != NULL;
  int64_t value;
  if (tmpl_is_integral(v)) {
    value = tmpl_as_int(v);
  } else if (decimal && v.type == TMPL_FLOAT) {
    if (!(fabs(v.d) < 9.2e18)) return crn_tmpl_fail(f->r, "a float is too large for %%%c", field->type);
    value = (int64_t)v.d;
  } else if (v.type == TMPL_UNDEFINED) {
    return crn_tmpl_undefined_fail(f->r, v);
  } else {
    return crn_tmpl_fail(f->r, "%%%c format: %s is required, not %s", field->type, decimal ? "a real number" : "an integer",
                         crn_tmpl_type_name(v));
  }
  if (decimal) field->type = 'd';
  return crn_tmpl_put_int_field(f->r, b, field, value, field->precision);
}

static cairn_status put_float(percent *f, const tmpl_field *field, tmpl_value v, tmpl_buffer *b) {
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(f->r, v);
  if (!tmpl_is_number(v)) return crn_tmpl_fail(f->r, "must be real number, not %s", crn_tmpl_type_name(v));
  return crn_tmpl_put_float_field(f->r, b, field, tmpl_as_double(v));
}

static cairn_status put_conversion(percent *f, tmpl_buffer *b) {
  tmpl_field field;
  tmpl_value v = tmpl_none();
  bool has_value;
  if (f->p < f->end && *f->p == '%') {
    f->p++;
    return crn_tmpl_putc(f->r, b, '%');
  }
  CRN_TRY(parse_conversion(f, &field, &v, &has_value));
  if (!has_value) CRN_TRY(next_value(f, &v));
  switch (field.type) {
    case 's':
    case 'r':
    case 'a':
      return put_text(f, &field, v, b);
    case 'c':
      return put_character(f, &field, v, b);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      return put_integer(f, &field, v, b);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return put_float(f, &field, v, b);
    default:
      return crn_tmpl_fail(f->r, "unsupported format character 0x%02x", (unsigned)(unsigned char)field.type);
  }
}

cairn_status crn_tmpl_format_percent(tmpl_render *r, const tmpl_str *format, tmpl_value values, tmpl_value *out) {
  percent f = {.r = r, .p = format->data, .end = format->data + format->size, .values = values, .markup = format->markup};
  tmpl_buffer b = {0};
  f.is_tuple = values.type == TMPL_TUPLE;
  f.is_mapping = values.type == TMPL_DICT || values.type == TMPL_LIST || values.type == TMPL_RANGE || values.type == TMPL_UNDEFINED;
  bool all_used = f.is_mapping;
  while (f.p < f.end) {
    const char *sign = memchr(f.p, '%', (size_t)(f.end - f.p));
    CRN_TRY(crn_tmpl_put(r, &b, f.p, (size_t)((sign ? sign : f.end) - f.p)));
    if (!sign) break;
    f.p = sign + 1;
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(put_conversion(&f, &b));
  }
  all_used = all_used || f.next == (f.is_tuple ? values.list->size : 1);
  if (!all_used) return crn_tmpl_fail(r, "not all arguments converted during string formatting");
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, format->markup, out);
}
