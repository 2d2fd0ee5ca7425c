#include "text/template/format_spec.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "text/template/number.h"
#include "text/template/text.h"

static size_t count_chars(const char *text, size_t n) {
  tmpl_str s = {.data = text, .size = n, .chars = TMPL_CHARS_UNKNOWN};
  return crn_tmpl_str_chars(&s);
}

static cairn_status put_fill(tmpl_render *r, tmpl_buffer *b, uint32_t code, size_t count) {
  char text[4];
  return crn_tmpl_put_repeated(r, b, text, (size_t)crn_utf8_encode(code, text), count);
}

cairn_status crn_tmpl_put_padded(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, const char *text, size_t n) {
  int64_t missing = f->width - (int64_t)count_chars(text, n);
  size_t total = missing > 0 ? (size_t)missing : 0, left = 0;
  if (f->align == '>' || f->align == '=') left = total;
  if (f->align == '^') left = total / 2;
  CRN_TRY(put_fill(r, b, f->fill, left));
  CRN_TRY(crn_tmpl_put(r, b, text, n));
  return put_fill(r, b, f->fill, total - left);
}

// Groups of three decimal digits, or of four in other bases.
static size_t group_size(const tmpl_field *f) { return f->type == 'b' || f->type == 'o' || f->type == 'x' || f->type == 'X' ? 4 : 3; }

// How many characters `digits` digits take with separators.
static size_t grouped_size(const tmpl_field *f, size_t digits) {
  return f->grouping && digits ? digits + (digits - 1) / group_size(f) : digits;
}

static cairn_status put_grouped(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, size_t zeros, const char *digits, size_t n) {
  size_t total = zeros + n;
  for (size_t i = 0; i < total; i++) {
    if (i && f->grouping && (total - i) % group_size(f) == 0) CRN_TRY(crn_tmpl_putc(r, b, f->grouping));
    CRN_TRY(crn_tmpl_putc(r, b, i < zeros ? '0' : digits[i - zeros]));
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_put_number(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, bool negative, const char *prefix, const char *digits,
                                 size_t n) {
  size_t whole = 0;
  while (whole < n && isxdigit((unsigned char)digits[whole]) && !(group_size(f) == 3 && !isdigit((unsigned char)digits[whole]))) whole++;
  char sign[2] = {negative ? '-' : f->sign == '+' || f->sign == ' ' ? f->sign : 0, 0};
  size_t around = strlen(sign) + strlen(prefix) + (n - whole);
  size_t zeros = 0;
  // Zeros take part in the grouping, so they are added one by one until the field is full.
  if (f->align == '=' && f->fill == '0' && whole) {
    while ((int64_t)(around + grouped_size(f, whole + zeros)) < f->width) zeros++;
  }
  tmpl_buffer body = {0};
  CRN_TRY(put_grouped(r, &body, f, zeros, digits, whole));
  CRN_TRY(crn_tmpl_put(r, &body, digits + whole, n - whole));
  tmpl_buffer head = {0};
  CRN_TRY(crn_tmpl_puts(r, &head, sign));
  CRN_TRY(crn_tmpl_puts(r, &head, prefix));
  if (f->align == '=') {
    int64_t missing = f->width - (int64_t)(head.used + body.used);
    CRN_TRY(crn_tmpl_put(r, b, head.base, head.used));
    if (missing > 0) CRN_TRY(put_fill(r, b, f->fill, (size_t)missing));
    return crn_tmpl_put(r, b, body.base, body.used);
  }
  CRN_TRY(crn_tmpl_put(r, &head, body.base, body.used));
  return crn_tmpl_put_padded(r, b, f, head.base, head.used);
}

cairn_status crn_tmpl_put_int_field(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, int64_t value, int64_t min_digits) {
  char digits[TMPL_MAX_PRECISION + 72];
  size_t at = sizeof digits;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  unsigned base = f->type == 'b' ? 2 : f->type == 'o' ? 8 : f->type == 'x' || f->type == 'X' ? 16 : 10;
  const char *alphabet = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  if (min_digits > TMPL_MAX_PRECISION) return crn_tmpl_fail(r, "precision too large");
  do digits[--at] = alphabet[rest % base];
  while (rest /= base);
  while ((int64_t)(sizeof digits - at) < min_digits) digits[--at] = '0';
  const char *prefix = "";
  if (f->alternate && base == 2) prefix = "0b";
  if (f->alternate && base == 8) prefix = "0o";
  if (f->alternate && base == 16) prefix = f->type == 'X' ? "0X" : "0x";
  return crn_tmpl_put_number(r, b, f, value < 0, prefix, digits + at, sizeof digits - at);
}

// Without a type, a precision counts significant digits, but the result still looks like a float: it takes an exponent
// as soon as no digit would be left behind the point.
static size_t untyped_digits(char *text, size_t capacity, double x, int64_t precision) {
  if (precision < 0) return crn_tmpl_float_repr(x, text);
  int digits = precision > 0 ? (int)precision : 1;
  char probe[TMPL_MAX_PRECISION + 40];
  crn_tmpl_format_double(probe, sizeof probe, "%.*e", digits - 1, x);
  const char *e = strchr(probe, 'e');
  int exponent = e ? (int)strtol(e + 1, NULL, 10) : 0;
  if (e && (exponent < -4 || exponent >= digits - 1)) {
    size_t mantissa = (size_t)(e - probe);
    while (digits > 1 && probe[mantissa - 1] == '0') mantissa--;
    if (probe[mantissa - 1] == '.') mantissa--;
    return (size_t)snprintf(text, capacity, "%.*s%s", (int)mantissa, probe, e);
  }
  int n = crn_tmpl_format_double(text, capacity, "%.*g", digits, x);
  if (!strchr(text, '.')) n += snprintf(text + n, capacity - (size_t)n, ".0");
  return (size_t)n;
}

static void upper_case(char *text, size_t n) {
  for (size_t i = 0; i < n; i++) text[i] = (char)toupper((unsigned char)text[i]);
}

cairn_status crn_tmpl_put_float_field(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, double value) {
  enum { CAPACITY = 400 + TMPL_MAX_PRECISION };
  char text[CAPACITY];
  char type = (char)tolower((unsigned char)f->type);
  if (f->precision > TMPL_MAX_PRECISION) return crn_tmpl_fail(r, "precision too large");
  int precision = f->precision < 0 ? 6 : (int)f->precision;
  bool negative = signbit(value) && !isnan(value);
  double x = fabs(value);
  size_t n;
  if (isnan(x) || isinf(x)) {
    n = (size_t)snprintf(text, sizeof text, "%s%s", isnan(x) ? "nan" : "inf", type == '%' ? "%" : "");
  } else if (type == 0) {
    n = untyped_digits(text, sizeof text, x, f->precision);
  } else if (type == '%') {
    n = (size_t)crn_tmpl_format_double(text, sizeof text - 1, f->alternate ? "%#.*f" : "%.*f", precision, x * 100);
    text[n++] = '%';
  } else {
    static const char *const formats[2][3] = {{"%.*e", "%.*f", "%.*g"}, {"%#.*e", "%#.*f", "%#.*g"}};
    n = (size_t)crn_tmpl_format_double(text, sizeof text, formats[f->alternate][type == 'e' ? 0 : type == 'f' ? 1 : 2], precision, x);
  }
  if (f->no_negative_zero && strspn(text, "0.e+-%") >= n) negative = false;
  if (isupper((unsigned char)f->type)) upper_case(text, n);
  return crn_tmpl_put_number(r, b, f, negative, "", text, n);
}

// --- [[fill]align][sign][z][#][0][width][grouping][.precision][type] --------------------------------------------------------

static bool is_align(uint32_t c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

static cairn_status scan_size(tmpl_render *r, const char **in_out_p, const char *end, int64_t *out) {
  *out = 0;
  for (; *in_out_p < end && isdigit((unsigned char)**in_out_p); (*in_out_p)++) {
    *out = *out * 10 + (**in_out_p - '0');
    if (*out > TMPL_MAX_FIELD) return crn_tmpl_limit(r, "a field of more than %d characters", TMPL_MAX_FIELD);
  }
  return CAIRN_OK;
}

static cairn_status parse_spec(tmpl_render *r, const char *spec, size_t n, tmpl_field *f) {
  const char *p = spec, *end = spec + n;
  *f = (tmpl_field){.fill = ' ', .precision = -1};
  if (p < end) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    if (next < end && is_align((unsigned char)*next)) {
      f->fill = code;
      f->align = *next;
      p = next + 1;
    } else if (is_align(code)) {
      f->align = *p++;
    }
  }
  if (p < end && strchr("+- ", *p) && *p) f->sign = *p++;
  if (p < end && *p == 'z') {
    f->no_negative_zero = true;
    p++;
  }
  if (p < end && *p == '#') {
    f->alternate = true;
    p++;
  }
  if (p < end && *p == '0') {
    // A zero before the width fills with zeros behind the sign, unless something else was asked for.
    if (!f->align) f->fill = '0';
    if (!f->align) f->align = '0';
    p++;
  }
  CRN_TRY(scan_size(r, &p, end, &f->width));
  if (p < end && (*p == ',' || *p == '_')) f->grouping = *p++;
  if (p < end && *p == '.') {
    const char *digits = ++p;
    CRN_TRY(scan_size(r, &p, end, &f->precision));
    if (p == digits) return crn_tmpl_fail(r, "Format specifier missing precision");
  }
  if (p < end) f->type = *p++;
  return p < end ? crn_tmpl_fail(r, "Invalid format specifier") : CAIRN_OK;
}

static cairn_status bad_type(tmpl_render *r, const tmpl_field *f, tmpl_value v) {
  return crn_tmpl_fail(r, "Unknown format code '%c' for object of type '%s'", f->type, crn_tmpl_type_name(v));
}

static cairn_status put_text_field(tmpl_render *r, tmpl_buffer *b, tmpl_field *f, tmpl_value v) {
  if (f->type && f->type != 's') return bad_type(r, f, v);
  if (f->sign || f->alternate || f->no_negative_zero || f->grouping || f->align == '=')
    return crn_tmpl_fail(r, "format not allowed in string format specifier");
  if (!f->align || f->align == '0') f->align = '<';
  size_t n = v.s->size, chars = crn_tmpl_str_chars(v.s);
  if (f->precision >= 0 && (size_t)f->precision < chars) n = crn_tmpl_str_offset(v.s, (size_t)f->precision);
  return crn_tmpl_put_padded(r, b, f, v.s->data, n);
}

static cairn_status put_number_field(tmpl_render *r, tmpl_buffer *b, tmpl_field *f, tmpl_value v) {
  if (!f->align || f->align == '0') f->align = f->align ? '=' : '>';
  if (f->type == 'n') f->type = v.type == TMPL_FLOAT ? 'g' : 'd';
  bool float_type = f->type && strchr("eEfFgG%", f->type);
  if (v.type == TMPL_FLOAT) {
    if (f->type && !float_type) return bad_type(r, f, v);
    return crn_tmpl_put_float_field(r, b, f, v.d);
  }
  if (float_type) return crn_tmpl_put_float_field(r, b, f, tmpl_as_double(v));
  if (f->no_negative_zero) return crn_tmpl_fail(r, "Negative zero coercion (z) not allowed in format specifier with integer");
  if (f->precision >= 0) return crn_tmpl_fail(r, "Precision not allowed in integer format specifier");
  int64_t value = tmpl_as_int(v);
  if (f->type == 'c') {
    char text[4];
    if (value < 0 || value > 0x10ffff) return crn_tmpl_fail(r, "%%c arg not in range(0x110000)");
    // A character is text: it stands on the left unless asked otherwise.
    if (f->align == '>') f->align = '<';
    return crn_tmpl_put_padded(r, b, f, text, (size_t)crn_utf8_encode((uint32_t)value, text));
  }
  if (f->type && !strchr("dboxX", f->type)) return bad_type(r, f, v);
  if (f->grouping == ',' && f->type && f->type != 'd') return crn_tmpl_fail(r, "Cannot specify ',' with '%c'.", f->type);
  return crn_tmpl_put_int_field(r, b, f, value, 0);
}

cairn_status crn_tmpl_put_formatted(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const char *spec, size_t n) {
  tmpl_field f;
  if (!n) return crn_tmpl_put_str(r, b, v);
  if (v.type != TMPL_STRING && !tmpl_is_number(v)) {
    return crn_tmpl_fail(r, "unsupported format string passed to %s.__format__", crn_tmpl_type_name(v));
  }
  CRN_TRY(parse_spec(r, spec, n, &f));
  return v.type == TMPL_STRING ? put_text_field(r, b, &f, v) : put_number_field(r, b, &f, v);
}
