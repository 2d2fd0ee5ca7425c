/// The variables of a rendering, from JSON.
#include <jansson.h>

#include "text/template/render.h"

static cairn_status convert(tmpl_render *r, const json_t *json, tmpl_value *out);

static cairn_status convert_text(tmpl_render *r, const char *text, size_t n, tmpl_value *out) { return crn_tmpl_str_copy(r, text, n, out); }

static cairn_status convert_list(tmpl_render *r, const json_t *json, tmpl_value *out) {
  tmpl_items items = {0};
  for (size_t i = 0; i < json_array_size(json); i++) {
    tmpl_value v;
    CRN_TRY(convert(r, json_array_get(json, i), &v));
    CRN_TRY(crn_tmpl_items_push(r, &items, v));
  }
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

static cairn_status convert_dict(tmpl_render *r, const json_t *json, tmpl_value *out) {
  tmpl_dict *d;
  CRN_TRY(crn_tmpl_dict_make(r, &d));
  // The iteration functions only read, whatever their types say.
  json_t *object = (json_t *)json;
  for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
    tmpl_value key, value;
    CRN_TRY(convert_text(r, json_object_iter_key(it), json_object_iter_key_len(it), &key));
    CRN_TRY(convert(r, json_object_iter_value(it), &value));
    CRN_TRY(crn_tmpl_dict_set(r, d, key, value));
  }
  *out = (tmpl_value){.type = TMPL_DICT, .dict = d};
  return CAIRN_OK;
}

static cairn_status convert(tmpl_render *r, const json_t *json, tmpl_value *out) {
  switch (json_typeof(json)) {
    case JSON_OBJECT:
      return convert_dict(r, json, out);
    case JSON_ARRAY:
      return convert_list(r, json, out);
    case JSON_STRING:
      return convert_text(r, json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER:
      *out = tmpl_int(json_integer_value(json));
      return CAIRN_OK;
    case JSON_REAL:
      *out = tmpl_float(json_real_value(json));
      return CAIRN_OK;
    case JSON_TRUE:
    case JSON_FALSE:
      *out = tmpl_bool(json_is_true(json));
      return CAIRN_OK;
    default:
      *out = tmpl_none();
      return CAIRN_OK;
  }
}

cairn_status crn_tmpl_read_variables(tmpl_render *r, const char *json, size_t size, tmpl_dict **out) {
  json_error_t e;
  json_t *root = json_loadb(json, size, JSON_ALLOW_NUL, &e);
  if (!root && json_error_code(&e) == json_error_out_of_memory) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the variables of a template");
  if (!root) return CRN_FAIL(INVALID_ARGUMENT, "the variables of a template: line %d column %d: %s", e.line, e.column, e.text);
  tmpl_value v;
  cairn_status status;
  if (json_is_object(root))
    status = convert(r, root, &v);
  else
    status = CRN_FAIL(INVALID_ARGUMENT, "the variables of a template must be a JSON object");
  json_decref(root);
  if (status == CAIRN_OK) *out = (tmpl_dict *)v.dict;
  return status;
}
