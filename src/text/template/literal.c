#include "text/template/literal.h"

#include <string.h>

#include "base/str.h"
#include "text/template/number.h"

static int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Digits of `base` with single underscores between them; `lead` allows one before the first. Returns the length.
static size_t scan_digits(const char *text, size_t n, int base, bool lead) {
  size_t at = 0;
  for (;;) {
    size_t next = at;
    if (next < n && text[next] == '_' && (at > 0 || lead)) next++;
    if (next >= n || digit_value(text[next]) >= base) return at;
    at = next + 1;
  }
}

static size_t scan_float(const char *text, size_t n) {
  size_t at = scan_digits(text, n, 10, false);
  size_t fraction = 0;
  if (at + 1 < n && text[at] == '.') {
    fraction = scan_digits(text + at + 1, n - at - 1, 10, false);
    if (fraction) at += 1 + fraction;
  }
  if (at < n && (text[at] | 32) == 'e') {
    size_t start = at + 1;
    if (start < n && (text[start] == '+' || text[start] == '-')) start++;
    size_t exponent = scan_digits(text + start, n - start, 10, false);
    if (exponent) return start + exponent;
  }
  return fraction ? at : 0;
}

static size_t scan_integer(const char *text, size_t n, int *out_base, size_t *out_prefix) {
  *out_base = 10;
  *out_prefix = 0;
  if (text[0] != '0') return scan_digits(text, n, 10, false);
  if (n > 1) {
    char kind = (char)(text[1] | 32);
    int base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 0;
    size_t digits = base ? scan_digits(text + 2, n - 2, base, true) : 0;
    if (digits) {
      *out_base = base;
      *out_prefix = 2;
      return 2 + digits;
    }
  }
  // A decimal zero may be written with several digits, but no other number starts with 0.
  size_t at = 1;
  for (;;) {
    size_t next = at;
    if (next < n && text[next] == '_') next++;
    if (next >= n || text[next] != '0') return at;
    at = next + 1;
  }
}

size_t crn_tmpl_scan_number(const char *text, size_t n, bool allow_float, bool *out_is_float, int64_t *out_integer, double *out_real,
                            bool *out_fits) {
  *out_fits = true;
  *out_is_float = false;
  size_t size = allow_float ? scan_float(text, n) : 0;
  if (size) {
    *out_is_float = true;
    *out_fits = crn_tmpl_parse_float(text, size, out_real);
    return size;
  }
  int base;
  size_t prefix;
  size = scan_integer(text, n, &base, &prefix);
  int64_t value = 0;
  for (size_t i = prefix; i < size; i++) {
    if (text[i] == '_') continue;
    if (__builtin_mul_overflow(value, (int64_t)base, &value) || __builtin_add_overflow(value, (int64_t)digit_value(text[i]), &value)) {
      *out_fits = false;
    }
  }
  *out_integer = value;
  return size;
}

// Python reads an escape after it has spelled out all other characters than ASCII as \xNN, \uNNNN or \UNNNNNNNN. The only
// visible effect is that a backslash before such a character stays, followed by its spelling without the backslash.
static size_t put_backslash_code(char *out, uint32_t code) {
  static const char hex[] = "0123456789abcdef";
  int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  size_t n = 0;
  out[n++] = '\\';
  out[n++] = digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
  for (int i = digits - 1; i >= 0; i--) out[n++] = hex[code >> (4 * i) & 15];
  return n;
}

static bool scan_hex(const char *p, const char *end, int digits, uint32_t *out_code) {
  *out_code = 0;
  for (int i = 0; i < digits; i++) {
    if (p + i >= end || digit_value(p[i]) > 15) return false;
    *out_code = *out_code << 4 | (uint32_t)digit_value(p[i]);
  }
  return true;
}

static char simple_escape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return 0;
  }
}

// A \u escape that is the first half of a surrogate pair takes its second half along; a half alone is no character.
static uint32_t join_surrogates(uint32_t code, const char **in_out_p, const char *end) {
  if (code < 0xd800 || code > 0xdfff) return code;
  uint32_t low;
  const char *p = *in_out_p;
  if (code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' && scan_hex(p + 2, end, 4, &low) && low >= 0xdc00 && low <= 0xdfff) {
    *in_out_p = p + 6;
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  return 0xfffd;
}

// Handles the escape whose backslash stands before `p`. Returns the position behind it, or NULL with a problem.
static const char *unescape_one(const char *p, const char *end, char *out, size_t *in_out_n, const char **out_problem) {
  uint32_t code;
  char simple = simple_escape(*p);
  if (simple) {
    out[(*in_out_n)++] = simple;
    return p + 1;
  }
  if (*p == '\n') return p + 1;
  if (*p >= '0' && *p <= '7') {
    code = 0;
    for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++) code = code * 8 + (uint32_t)(*p++ - '0');
    *in_out_n += (size_t)crn_utf8_encode(code, out + *in_out_n);
    return p;
  }
  if (*p == 'x' || *p == 'u' || *p == 'U') {
    int digits = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;
    if (!scan_hex(p + 1, end, digits, &code)) {
      *out_problem = digits == 2 ? "truncated \\xXX escape" : digits == 4 ? "truncated \\uXXXX escape" : "truncated \\UXXXXXXXX escape";
      return NULL;
    }
    if (code > 0x10ffff) {
      *out_problem = "illegal Unicode character";
      return NULL;
    }
    p += 1 + digits;
    code = join_surrogates(code, &p, end);
    *in_out_n += (size_t)crn_utf8_encode(code, out + *in_out_n);
    return p;
  }
  if (*p == 'N') {
    *out_problem = "escapes by character name (\\N{...}) are not supported; write \\uXXXX";
    return NULL;
  }
  out[(*in_out_n)++] = '\\';
  bool valid;
  int used = crn_utf8_decode(p, end, &code, &valid);
  if (code < 0x80) {
    out[(*in_out_n)++] = *p;
  } else {
    char spelled[12];
    size_t n = put_backslash_code(spelled, code);
    memcpy(out + *in_out_n, spelled + 1, n - 1);
    *in_out_n += n - 1;
  }
  return p + used;
}

cairn_status crn_tmpl_unescape(crn_arena *arena, const char *text, size_t n, const char **out_text, size_t *out_size,
                               const char **out_problem) {
  *out_text = text;
  *out_size = n;
  *out_problem = NULL;
  if (!n || !memchr(text, '\\', n)) return CAIRN_OK;
  // An escaped character other than ASCII (2 to 4 bytes and a backslash) can grow to 10 bytes.
  char *out;
  CRN_TRY(crn_arena_alloc(arena, n * 3 + 16, &out));
  size_t size = 0;
  for (const char *p = text, *end = text + n; p < end;) {
    if (*p != '\\' || p + 1 >= end) {
      out[size++] = *p++;
      continue;
    }
    p = unescape_one(p + 1, end, out, &size, out_problem);
    if (!p) return CAIRN_OK;
  }
  *out_text = out;
  *out_size = size;
  return CAIRN_OK;
}
