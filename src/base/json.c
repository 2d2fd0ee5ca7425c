#include "base/json.h"

#include "base/file.h"

enum { MAX_JSON_BYTES = 512 << 20 };

cairn_status crn_json_parse(const char *text, size_t bytes, const char *what, json_t **out_json) {
  json_error_t e;
  *out_json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
  if (*out_json) return CAIRN_OK;
  if (json_error_code(&e) == json_error_out_of_memory) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory for the JSON tree", what);
  return CRN_FAIL(CORRUPT, "%s: line %d column %d: %s", what, e.line, e.column, e.text);
}

cairn_status crn_json_read(const char *path, json_t **out_json) {
  crn_str text;
  *out_json = NULL;
  crn_str_initialize(&text, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_file_read(path, MAX_JSON_BYTES, &text));
  CRN_TRY_GOTO(crn_json_parse(text.data, text.size, path, out_json));
done:
  crn_str_deinitialize(&text);
  return status;
}

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
