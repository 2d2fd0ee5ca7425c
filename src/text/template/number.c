#include "text/template/number.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"

// A process may have any LC_NUMERIC; the text of a template must not depend on it.
typedef struct c_numbers {
  locale_t own, previous;
} c_numbers;

static c_numbers enter_c_numbers(void) {
  c_numbers c = {.own = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (c.own) c.previous = uselocale(c.own);
  return c;
}

static void leave_c_numbers(c_numbers c) {
  if (!c.own) return;
  uselocale(c.previous);
  freelocale(c.own);
}

int crn_tmpl_format_double(char *out, size_t capacity, const char *fmt, int precision, double x) {
  c_numbers c = enter_c_numbers();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  int n = snprintf(out, capacity, fmt, precision, x);
#pragma GCC diagnostic pop
  leave_c_numbers(c);
  return n;
}

// Finds the shortest digits that read back as `x`: "d.ddde±xx" in `text`.
static void shortest_digits(double x, char text[CRN_REPR_BYTES]) {
  c_numbers c = enter_c_numbers();
  for (int precision = 0; precision < 17; precision++) {
    snprintf(text, CRN_REPR_BYTES, "%.*e", precision, x);
    if (strtod(text, NULL) == x) break;
  }
  leave_c_numbers(c);
}

size_t crn_tmpl_float_repr(double x, char out[CRN_REPR_BYTES]) {
  if (isnan(x)) return (size_t)snprintf(out, CRN_REPR_BYTES, "nan");
  if (isinf(x)) return (size_t)snprintf(out, CRN_REPR_BYTES, x < 0 ? "-inf" : "inf");
  char text[CRN_REPR_BYTES], digits[20];
  shortest_digits(x, text);
  char *p = text, *to = out;
  if (*p == '-') *to++ = *p++;
  int n = 0, exponent = 0;
  for (; *p && *p != 'e'; p++) {
    if (isdigit((unsigned char)*p) && n < 18) digits[n++] = *p;
  }
  if (*p == 'e') exponent = atoi(p + 1);
  while (n > 1 && digits[n - 1] == '0') n--;
  if (exponent < -4 || exponent >= 16) {
    *to++ = digits[0];
    if (n > 1) *to++ = '.';
    memcpy(to, digits + 1, (size_t)n - 1);
    to += n - 1;
    to += snprintf(to, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
  } else if (exponent < 0) {
    *to++ = '0';
    *to++ = '.';
    for (int i = 1; i < -exponent; i++) *to++ = '0';
    memcpy(to, digits, (size_t)n);
    to += n;
  } else {
    for (int i = 0; i <= exponent; i++) *to++ = i < n ? digits[i] : '0';
    *to++ = '.';
    if (n <= exponent + 1) *to++ = '0';
    for (int i = exponent + 1; i < n; i++) *to++ = digits[i];
  }
  *to = 0;
  return (size_t)(to - out);
}

bool crn_tmpl_parse_float(const char *text, size_t n, double *out) {
  // Longer than the exact decimal text of any double.
  char copy[1600];
  *out = 0;
  if (n >= sizeof copy) return false;
  size_t size = 0;
  for (size_t i = 0; i < n; i++) {
    if (text[i] != '_') copy[size++] = text[i];
  }
  copy[size] = 0;
  c_numbers c = enter_c_numbers();
  *out = strtod(copy, NULL);
  leave_c_numbers(c);
  return true;
}

// Decimal digits of other scripts count as the digits they stand for. They come in runs of ten, from zero to nine.
static char ascii_digit(uint32_t code) {
  uint32_t first = code;
  while (first > 0x7f && crn_code_is_decimal(first - 1)) first--;
  return (char)('0' + (code - first) % 10);
}

enum { NUMBER_BYTES = 1600 };

// Copies the text of a number with all digits in ASCII. False when it is too long for a number.
static bool to_ascii(const char *text, size_t n, char out[NUMBER_BYTES], size_t *out_n) {
  *out_n = 0;
  if (n >= NUMBER_BYTES) return false;
  for (const char *p = text, *end = text + n; p < end;) {
    uint32_t code;
    bool valid;
    int used = crn_utf8_decode(p, end, &code, &valid);
    out[(*out_n)++] = code < 0x80 ? (char)code : crn_code_is_decimal(code) ? ascii_digit(code) : '?';
    p += used;
  }
  return true;
}

// Drops whitespace on both sides.
static void strip(const char **in_out_text, size_t *in_out_n) {
  const char *p = *in_out_text, *end = p + *in_out_n;
  uint32_t code;
  bool valid;
  while (p < end) {
    int used = crn_utf8_decode(p, end, &code, &valid);
    if (!crn_code_is_space(code)) break;
    p += used;
  }
  while (end > p) {
    const char *start = end - 1;
    while (start > p && ((unsigned char)*start & 0xc0) == 0x80) start--;
    crn_utf8_decode(start, end, &code, &valid);
    if (!crn_code_is_space(code)) break;
    end = start;
  }
  *in_out_text = p;
  *in_out_n = (size_t)(end - p);
}

static bool same_word(const char *text, size_t n, const char *word) {
  if (strlen(word) != n) return false;
  for (size_t i = 0; i < n; i++) {
    if (tolower((unsigned char)text[i]) != word[i]) return false;
  }
  return true;
}

// Digits with single underscores between them; returns how many bytes, 0 when there is no digit.
static size_t digit_run(const char *text, size_t n) {
  size_t at = 0;
  for (;;) {
    size_t next = at;
    if (at > 0 && next < n && text[next] == '_') next++;
    if (next >= n || !isdigit((unsigned char)text[next])) return at;
    at = next + 1;
  }
}

bool crn_tmpl_float_of_text(const char *text, size_t n, double *out) {
  char ascii[NUMBER_BYTES];
  strip(&text, &n);
  if (!to_ascii(text, n, ascii, &n)) return false;
  text = ascii;
  size_t sign = n && (*text == '+' || *text == '-');
  const char *p = text + sign;
  size_t left = n - sign;
  double factor = sign && *text == '-' ? -1 : 1;
  if (same_word(p, left, "inf") || same_word(p, left, "infinity")) {
    *out = factor * (double)INFINITY;
    return true;
  }
  if (same_word(p, left, "nan")) {
    *out = (double)NAN;
    return true;
  }
  size_t whole = digit_run(p, left), at = whole, fraction = 0;
  if (at < left && p[at] == '.') {
    fraction = digit_run(p + at + 1, left - at - 1);
    at += 1 + fraction;
  }
  if (!whole && !fraction) return false;
  if (at < left && (p[at] | 32) == 'e') {
    at++;
    if (at < left && (p[at] == '+' || p[at] == '-')) at++;
    size_t exponent = digit_run(p + at, left - at);
    if (!exponent) return false;
    at += exponent;
  }
  return at == left && crn_tmpl_parse_float(text, n, out);
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 32);
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

static int prefix_base(const char *p, size_t n) {
  if (n < 2 || p[0] != '0') return 0;
  switch (p[1] | 32) {
    case 'b':
      return 2;
    case 'o':
      return 8;
    case 'x':
      return 16;
    default:
      return 0;
  }
}

tmpl_int_result crn_tmpl_int_of_text(const char *text, size_t n, int base, int64_t *out) {
  char ascii[NUMBER_BYTES];
  strip(&text, &n);
  if (!to_ascii(text, n, ascii, &n)) return TMPL_INT_INVALID;
  text = ascii;
  bool negative = n && *text == '-';
  size_t at = n && (*text == '+' || *text == '-');
  int prefix = prefix_base(text + at, n - at);
  bool leading_zero_only = false;
  if (prefix && (base == 0 || base == prefix)) {
    at += 2;
    base = prefix;
    if (at < n && text[at] == '_') at++;
  } else if (base == 0) {
    base = 10;
    leading_zero_only = at < n && text[at] == '0';
  }
  bool any = false, overflow = false, underscore = false, nonzero = false;
  int64_t value = 0;
  for (; at < n; at++) {
    if (text[at] == '_') {
      if (!any || underscore) return TMPL_INT_INVALID;
      underscore = true;
      continue;
    }
    int digit = digit_of(text[at]);
    if (digit >= base) return TMPL_INT_INVALID;
    any = true;
    underscore = false;
    nonzero = nonzero || digit;
    if (__builtin_mul_overflow(value, (int64_t)base, &value)) overflow = true;
    if (__builtin_sub_overflow(value, (int64_t)digit, &value)) overflow = true;
  }
  if (!any || underscore || (leading_zero_only && nonzero)) return TMPL_INT_INVALID;
  // Counted downwards, since the smallest integer has no positive counterpart.
  if (!negative && (overflow || value == INT64_MIN)) return TMPL_INT_TOO_LARGE;
  if (overflow) return TMPL_INT_TOO_LARGE;
  *out = negative ? value : -value;
  return TMPL_INT_OK;
}

// Rounds to a multiple of 10^digits on the exact decimal text of `x` (at most 309 digits before the point).
static double round_to_power(double x, int digits) {
  enum { CAPACITY = 1500 };
  char text[CAPACITY];
  int n = crn_tmpl_format_double(text, sizeof text, "%.*f", 1074, fabs(x));
  if (n <= 0 || n >= CAPACITY) return x;
  int point = (int)strcspn(text, ".");
  int keep = point - digits;
  if (keep < 0) return copysign(0.0, x);
  int first = keep < point ? text[keep] - '0' : 0;
  bool rest = false;
  for (int i = keep + 1; i < n; i++) rest = rest || (text[i] != '.' && text[i] != '0');
  bool odd = keep > 0 && (text[keep - 1] - '0') % 2;
  bool up = first > 5 || (first == 5 && (rest || odd));
  for (int i = keep; i < point; i++) text[i] = '0';
  text[point] = 0;
  for (int i = keep - 1; up && i >= 0; i--) {
    up = text[i] == '9';
    text[i] = up ? '0' : (char)(text[i] + 1);
  }
  char carried[CAPACITY + 1];
  snprintf(carried, sizeof carried, "%s%s", up ? "1" : "", text);
  double result;
  return crn_tmpl_parse_float(carried, strlen(carried), &result) ? copysign(result, x) : x;
}

double crn_tmpl_round_double(double x, int64_t digits) {
  if (!isfinite(x) || digits > 323) return x;
  if (digits < -308) return copysign(0.0, x);
  if (digits < 0) return round_to_power(x, (int)-digits);
  char text[800];
  int n = crn_tmpl_format_double(text, sizeof text, "%.*f", (int)digits, x);
  double result;
  if (n <= 0 || n >= (int)sizeof text || !crn_tmpl_parse_float(text, (size_t)n, &result)) return x;
  return result;
}
