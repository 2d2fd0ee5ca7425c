/// What the tools' schemas say about names and types.
#include <string.h>

#include "text/dialogue/internal.h"

cairn_status crn_schema_load(cairn_dialogue *d, const char *tools, size_t bytes) {
  cairn_status status = crn_json_parse(tools, bytes, "tools", &d->tools);
  if (status == CAIRN_CORRUPT) return CRN_FAIL(INVALID_ARGUMENT, "%s", cairn_last_error()->message);
  if (status != CAIRN_OK) return status;
  if (!json_is_array(d->tools)) return CRN_FAIL(INVALID_ARGUMENT, "tools: an array of tools is expected");
  return CAIRN_OK;
}

// The object that has the name: the tool itself, or its member "function".
static const json_t *function_of(const json_t *tool) {
  const json_t *inner = json_object_get(tool, "function");
  return json_is_object(inner) ? inner : tool;
}

static const json_t *find(const json_t *tools, const char *name) {
  size_t i;
  json_t *tool;
  json_array_foreach(tools, i, tool) {
    const char *own = json_string_value(json_object_get(function_of(tool), "name"));
    if (own && strcmp(own, name) == 0) return function_of(tool);
  }
  return NULL;
}

bool crn_schema_has(const json_t *tools, const char *name) { return find(tools, name) != NULL; }

crn_parameter_type crn_schema_type(const json_t *tools, const char *name, const char *parameter) {
  const json_t *tool = find(tools, name), *parameters = json_object_get(tool, "parameters");
  if (!parameters) parameters = json_object_get(tool, "input_schema");
  const json_t *properties = json_object_get(parameters, "properties");
  const json_t *own = json_object_get(properties, parameter);
  const json_t *type = json_object_get(own, "type"), *choices = json_object_get(own, "enum");
  if (json_is_string(type)) return strcmp(json_string_value(type), "string") == 0 ? CRN_PARAMETER_TEXT : CRN_PARAMETER_OTHER;
  if (!type && json_is_string(json_array_get(choices, 0))) return CRN_PARAMETER_TEXT;
  return CRN_PARAMETER_UNKNOWN;
}
