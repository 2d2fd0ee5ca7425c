// Helpers of the loaders: members of the file, patterns, nested sequences.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/internal.h"

cairn_status crn_build_grow(crn_build *build, void **items, size_t n, size_t *room, size_t item_bytes) {
  if (n < *room) return CAIRN_OK;
  size_t fresh = *room ? *room * 2 : 4;
  void *moved;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, fresh, item_bytes, &moved));
  if (n) memcpy(moved, *items, n * item_bytes);
  *items = moved;
  *room = fresh;
  return CAIRN_OK;
}

cairn_status crn_build_regex(crn_build *build, const char *pattern, size_t bytes, bool literal, const crn_regex **out_regex) {
  cairn_tokenizer *t = build->tokenizer;
  crn_regex *regex;
  CRN_TRY(crn_regex_create(build->allocator, pattern, bytes, literal, build->what, &regex));
  cairn_status status = crn_vec_push(build->allocator, &t->regexes, regex);
  if (status != CAIRN_OK) {
    crn_regex_destroy(regex);
    return status;
  }
  *out_regex = regex;
  return CAIRN_OK;
}

cairn_status crn_build_pattern(crn_build *build, const json_t *object, const char *where, const crn_regex **out_regex,
                               crn_view *out_literal) {
  const json_t *pattern = json_object_get(object, "pattern");
  const json_t *literal = json_object_get(pattern, "String"), *regex = json_object_get(pattern, "Regex");
  const json_t *text = literal ? literal : regex;
  if (!json_is_string(text) || json_object_size(pattern) != 1) {
    return CRN_FAIL(CORRUPT, "%s: 'pattern' must be {\"String\": text} or {\"Regex\": text}", where);
  }
  if (out_literal) *out_literal = (crn_view){0};
  if (literal && out_literal) {
    out_literal->bytes = json_string_length(text);
    CRN_TRY(crn_arena_strndup(&build->tokenizer->arena, json_string_value(text), out_literal->bytes, &out_literal->text));
  }
  return crn_build_regex(build, json_string_value(text), json_string_length(text), literal != NULL, out_regex);
}

cairn_status crn_build_view(crn_build *build, const json_t *object, const char *where, const char *key, bool required, crn_view *out_view) {
  const json_t *v = json_object_get(object, key);
  *out_view = (crn_view){0};
  if (!required && (!v || json_is_null(v))) return CAIRN_OK;
  if (!json_is_string(v)) return CRN_FAIL(CORRUPT, "%s: '%s' must be a string", where, key);
  out_view->bytes = json_string_length(v);
  return crn_arena_strndup(&build->tokenizer->arena, json_string_value(v), out_view->bytes, &out_view->text);
}

cairn_status crn_build_char(crn_build *build, const json_t *object, const char *where, const char *key, uint32_t *out_code) {
  const json_t *v = json_object_get(object, key);
  const char *text = json_string_value(v);
  (void)build;
  if (!text || !json_string_length(v) || (size_t)crn_code_at(text, out_code) != json_string_length(v)) {
    return CRN_FAIL(CORRUPT, "%s: '%s' must be a string of one character", where, key);
  }
  return CAIRN_OK;
}

cairn_status crn_build_type(const json_t *object, const char *where, const char **out_type) {
  if (!json_is_object(object)) return CRN_FAIL(CORRUPT, "%s must be an object or null", where);
  return crn_json_string(object, where, "type", true, out_type);
}

cairn_status crn_build_bool(const json_t *object, const char *where, const char *key, bool *out) {
  if (!json_object_get(object, key)) return CRN_FAIL(CORRUPT, "%s: '%s' is missing", where, key);
  return crn_json_bool(object, where, key, true, out);
}

static cairn_status walk(crn_build *build, const json_t *json, const char *where, const char *key, crn_build_leaf_fn load, int depth) {
  const char *type;
  CRN_TRY(crn_build_type(json, where, &type));
  if (strcmp(type, "Sequence")) return load(build, json, type);
  if (depth >= CRN_MAX_NESTING) return CRN_FAIL(CORRUPT, "%s: sequences nested deeper than %d", where, CRN_MAX_NESTING);
  const json_t *list = json_object_get(json, key);
  if (!json_is_array(list)) return CRN_FAIL(CORRUPT, "%s: '%s' of a Sequence must be an array", where, key);
  for (size_t i = 0; i < json_array_size(list); i++) CRN_TRY(walk(build, json_array_get(list, i), where, key, load, depth + 1));
  return CAIRN_OK;
}

cairn_status crn_build_sequence(crn_build *build, const json_t *json, const char *where, const char *key, crn_build_leaf_fn load) {
  if (!json || json_is_null(json)) return CAIRN_OK;
  char full[160];
  snprintf(full, sizeof full, "%.120s: %s", build->what, where);
  return walk(build, json, full, key, load, 0);
}
