#include "base/json.h"

#include <string.h>

#include "base/file.h"

enum { MAX_JSON_BYTES = 512 << 20 };

static cairn_status parse(const char *text, size_t bytes, const char *what, size_t flags, json_t **out_json) {
  json_error_t e;
  *out_json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &e);
  if (*out_json) return CAIRN_OK;
  if (json_error_code(&e) == json_error_out_of_memory) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory for the JSON tree", what);
  enum json_error_code code = json_error_code(&e);
  // The library's own words name a flag of its.
  bool is_nul = code == json_error_null_character || code == json_error_null_byte_in_key;
  return CRN_FAIL(CORRUPT, "%s: line %d column %d: %s", what, e.line, e.column, is_nul ? "the character U+0000 is not allowed" : e.text);
}

cairn_status crn_json_parse(const char *text, size_t bytes, const char *what, json_t **out_json) {
  return parse(text, bytes, what, 0, out_json);
}

// --- U+0000 in keys, which jansson has no place for -----------------------------------------------------------------------

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The closing quote of the string that opens at `p`, or `end`.
static const char *string_end(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++) {
    if (*p == '\\' && p + 1 < end) p++;
  }
  return p;
}

/// Copies a string with each escaped U+0000 as CRN_JSON_NUL.
static cairn_status copy_key(const char *p, const char *end, crn_str *out) {
  while (p < end) {
    size_t used = *p == '\\' && end - p > 1 ? 2 : 1;
    if (end - p >= 6 && !memcmp(p, "\\u0000", 6)) {
      CRN_TRY(crn_str_puts(out, CRN_JSON_NUL));
      p += 6;
      continue;
    }
    CRN_TRY(crn_str_append(out, p, used));
    p += used;
  }
  return CAIRN_OK;
}

static cairn_status respell_keys(const char *text, size_t bytes, crn_str *out) {
  const char *p = text, *end = text + bytes;
  while (p < end) {
    const char *quote = memchr(p, '"', (size_t)(end - p));
    if (!quote) break;
    const char *close = string_end(quote, end), *next = close < end ? close + 1 : end;
    CRN_TRY(crn_str_append(out, p, (size_t)(quote - p)));
    while (next < end && is_blank(*next)) next++;
    bool is_key = next < end && *next == ':';
    CRN_TRY(is_key ? copy_key(quote, close, out) : crn_str_append(out, quote, (size_t)(close - quote)));
    p = close;
    if (p < end) CRN_TRY(crn_str_putc(out, *p++));
  }
  return crn_str_append(out, p, (size_t)(end - p));
}

cairn_status crn_json_parse_nul(const char *text, size_t bytes, const char *what, json_t **out_json) {
  *out_json = NULL;
  if (!bytes || !memmem(text, bytes, "\\u0000", 6)) return parse(text, bytes, what, JSON_ALLOW_NUL, out_json);
  if (memmem(text, bytes, CRN_JSON_NUL, sizeof CRN_JSON_NUL - 1) || memmem(text, bytes, "\\ufdd0", 6) ||
      memmem(text, bytes, "\\uFDD0", 6)) {
    return CRN_FAIL(UNSUPPORTED, "%s holds both U+0000 and the noncharacter U+FDD0", what);
  }
  crn_str respelled;
  crn_str_initialize(&respelled, NULL);
  cairn_status status = respell_keys(text, bytes, &respelled);
  if (status == CAIRN_OK) status = parse(respelled.data, respelled.size, what, JSON_ALLOW_NUL, out_json);
  crn_str_deinitialize(&respelled);
  return status;
}

typedef cairn_status (*parse_fn)(const char *text, size_t bytes, const char *what, json_t **out_json);

static cairn_status read_with(const char *path, parse_fn parse_text, json_t **out_json) {
  crn_str text;
  *out_json = NULL;
  crn_str_initialize(&text, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_file_read(path, MAX_JSON_BYTES, &text));
  CRN_TRY_GOTO(parse_text(text.data, text.size, path, out_json));
done:
  crn_str_deinitialize(&text);
  return status;
}

cairn_status crn_json_read(const char *path, json_t **out_json) { return read_with(path, crn_json_parse, out_json); }

cairn_status crn_json_read_nul(const char *path, json_t **out_json) { return read_with(path, crn_json_parse_nul, out_json); }

static cairn_status member(const json_t *object, const char *what, const char *key, bool required, json_t **out) {
  if (!json_is_object(object)) return CRN_FAIL(CORRUPT, "%s must be a JSON object", what);
  *out = json_object_get(object, key);
  if (!*out && required) return CRN_FAIL(CORRUPT, "%s: '%s' is missing", what, key);
  return CAIRN_OK;
}

static cairn_status wrong_type(const char *what, const char *key, const char *wanted) {
  return CRN_FAIL(CORRUPT, "%s: '%s' must be %s", what, key, wanted);
}

cairn_status crn_json_string(const json_t *object, const char *what, const char *key, bool required, const char **out) {
  json_t *v;
  CRN_TRY(member(object, what, key, required, &v));
  if (!v) return CAIRN_OK;
  if (!json_is_string(v)) return wrong_type(what, key, "a string");
  if (strlen(json_string_value(v)) != json_string_length(v)) return wrong_type(what, key, "a string without U+0000");
  *out = json_string_value(v);
  return CAIRN_OK;
}

cairn_status crn_json_int(const json_t *object, const char *what, const char *key, bool required, int64_t *out) {
  json_t *v;
  CRN_TRY(member(object, what, key, required, &v));
  if (!v) return CAIRN_OK;
  if (!json_is_integer(v)) return wrong_type(what, key, "an integer");
  *out = json_integer_value(v);
  return CAIRN_OK;
}

cairn_status crn_json_double(const json_t *object, const char *what, const char *key, bool required, double *out) {
  json_t *v;
  CRN_TRY(member(object, what, key, required, &v));
  if (!v) return CAIRN_OK;
  if (!json_is_number(v)) return wrong_type(what, key, "a number");
  *out = json_number_value(v);
  return CAIRN_OK;
}

cairn_status crn_json_bool(const json_t *object, const char *what, const char *key, bool required, bool *out) {
  json_t *v;
  CRN_TRY(member(object, what, key, required, &v));
  if (!v) return CAIRN_OK;
  if (!json_is_boolean(v)) return wrong_type(what, key, "true or false");
  *out = json_is_true(v);
  return CAIRN_OK;
}
