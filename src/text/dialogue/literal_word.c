#include "text/dialogue/literal_word.h"

#include <string.h>

cairn_status crn_literal_put_code(crn_str *out, uint32_t code) {
  char utf8[4];
  switch (code) {
    case '"':
      return crn_str_append(out, "\\\"", 2);
    case '\\':
      return crn_str_append(out, "\\\\", 2);
    case '\n':
      return crn_str_append(out, "\\n", 2);
    case '\r':
      return crn_str_append(out, "\\r", 2);
    case '\t':
      return crn_str_append(out, "\\t", 2);
    case '\b':
      return crn_str_append(out, "\\b", 2);
    case '\f':
      return crn_str_append(out, "\\f", 2);
    default:
      break;
  }
  // The two separators end lines for some readers of JSON.
  if (code < 0x20 || code == 0x2028 || code == 0x2029) return crn_str_printf(out, "\\u%04x", (unsigned)code);
  return crn_str_append(out, utf8, (size_t)crn_utf8_encode(code, utf8));
}

cairn_status crn_literal_text(crn_str *out, const char *text, size_t n) {
  CRN_TRY(crn_str_putc(out, '"'));
  for (const char *p = text, *end = text + n; p < end;) {
    uint32_t code;
    bool valid;
    p += crn_utf8_decode(p, end, &code, &valid);
    CRN_TRY(crn_literal_put_code(out, code));
  }
  return crn_str_putc(out, '"');
}

static uint32_t hex_code(const char *p) {
  uint32_t code = 0;
  for (int i = 0; i < 4; i++) code = code * 16 + (uint32_t)(p[i] <= '9' ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
  return code;
}

cairn_status crn_literal_unescape(const char *json, size_t n, crn_str *out) {
  static const char kFrom[] = "nrtbf\"\\", kTo[] = "\n\r\t\b\f\"\\";
  char utf8[4];
  for (size_t i = 1; i + 1 < n; i++) {
    const char *at = json[i] == '\\' ? strchr(kFrom, json[i + 1]) : NULL;
    if (json[i] != '\\') {
      CRN_TRY(crn_str_putc(out, json[i]));
    } else if (at) {
      CRN_TRY(crn_str_putc(out, kTo[at - kFrom]));
      i++;
    } else {
      CRN_TRY(crn_str_append(out, utf8, (size_t)crn_utf8_encode(hex_code(json + i + 2), utf8)));
      i += 5;
    }
  }
  return CAIRN_OK;
}

// --- numbers --------------------------------------------------------------------------------------------------------

static size_t digits(const char *p, size_t n) {
  size_t i = 0;
  while (i < n && p[i] >= '0' && p[i] <= '9') i++;
  return i;
}

// -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
static bool is_json_number(const char *p, size_t n) {
  size_t i = n && *p == '-', whole = digits(p + i, n - i);
  if (!whole || (p[i] == '0' && whole > 1)) return false;
  i += whole;
  if (i < n && p[i] == '.') {
    size_t fraction = digits(p + i + 1, n - i - 1);
    if (!fraction) return false;
    i += 1 + fraction;
  }
  if (i < n && (p[i] == 'e' || p[i] == 'E')) {
    i++;
    if (i < n && (p[i] == '+' || p[i] == '-')) i++;
    size_t exponent = digits(p + i, n - i);
    if (!exponent) return false;
    i += exponent;
  }
  return i == n;
}

// Python also writes +1, .5, 5. and 1_000; these become what JSON knows.
static cairn_status python_number(const char *p, size_t n, crn_str *out, bool *out_ok) {
  size_t start = out->size, i = n && (*p == '-' || *p == '+');
  bool had_digit = false, any_digit = false;
  *out_ok = false;
  if (n && *p == '-') CRN_TRY(crn_str_putc(out, '-'));
  for (; i < n; i++) {
    bool is_digit = p[i] >= '0' && p[i] <= '9';
    bool between = had_digit && i + 1 < n && p[i + 1] >= '0' && p[i + 1] <= '9';
    if (p[i] == '_' && between) continue;
    if (p[i] == '.' && !had_digit) CRN_TRY(crn_str_putc(out, '0'));
    CRN_TRY(crn_str_putc(out, p[i]));
    bool ends = i + 1 == n || p[i + 1] == 'e' || p[i + 1] == 'E';
    if (p[i] == '.' && ends) CRN_TRY(crn_str_putc(out, '0'));
    had_digit = is_digit;
    any_digit = any_digit || is_digit;
  }
  *out_ok = any_digit && is_json_number(out->data + start, out->size - start);  // a lone point is no number
  return CAIRN_OK;
}

// --- words ----------------------------------------------------------------------------------------------------------

static bool is_word(const char *word, size_t n, const char *text) { return strlen(text) == n && !memcmp(word, text, n); }

// The JSON name of a constant, NULL when the word is none.
static const char *constant(crn_dialect dialect, const char *word, size_t n) {
  static const char *const kNames[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                          {"True", "true"}, {"False", "false"}, {"None", "null"}};
  size_t known = dialect == CRN_DIALECT_JSON ? 3 : 6;
  for (size_t i = 0; i < known; i++) {
    if (is_word(word, n, kNames[i][0])) return kNames[i][1];
  }
  return NULL;
}

cairn_status crn_literal_word(crn_dialect dialect, const char *word, size_t n, crn_str *out, bool *out_ok) {
  const char *name = constant(dialect, word, n);
  size_t start = out->size;
  *out_ok = true;
  if (name) return crn_str_puts(out, name);
  if (is_json_number(word, n)) return crn_str_append(out, word, n);
  *out_ok = false;
  if (dialect == CRN_DIALECT_PYTHON && n) CRN_TRY(python_number(word, n, out, out_ok));
  if (!*out_ok) {
    out->size = start;
    out->data[start] = 0;
  }
  if (*out_ok || dialect != CRN_DIALECT_GEMMA) return CAIRN_OK;
  *out_ok = n > 0;
  return n ? crn_literal_text(out, word, n) : CAIRN_OK;
}
