// Tools as they are described, and the names they may have: a name is written as it is in most forms, so it must not be mistaken for what
// stands around it.
#include <string.h>

#include "text/grammar/tools.h"

enum { MAX_NAME_BYTES = 200 };

const json_t *crn_tool_function(const json_t *tools, size_t i) {
  const json_t *tool = json_array_get(tools, i), *inner = json_object_get(tool, "function");
  return json_is_object(inner) ? inner : tool;
}

const json_t *crn_tool_parameters(const json_t *tools, size_t i) {
  const json_t *f = crn_tool_function(tools, i), *p = json_object_get(f, "parameters");
  if (!p) p = json_object_get(f, "input_schema");
  return json_is_null(p) ? NULL : p;
}

static bool is_plain(const json_t *name) {
  const char *s = json_string_value(name);
  if (!*s || strlen(s) != json_string_length(name) || strlen(s) > MAX_NAME_BYTES) return false;
  for (const char *p = s; *p; p++) {
    if ((unsigned char)*p <= ' ' || *p == 0x7F || strchr("[]{}<>()\"\\", *p)) return false;
  }
  return true;
}

const char *crn_tool_name(const json_t *tools, size_t i) {
  const json_t *name = json_object_get(crn_tool_function(tools, i), "name");
  return json_is_string(name) && is_plain(name) ? json_string_value(name) : NULL;
}

static bool is_one_of(const char *name, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(name, list[i])) return true;
  }
  return false;
}

static bool is_python(const char *name) {
  for (const char *p = name; *p; p++) {
    const bool is_letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
    if (!is_letter && (p == name || (*p != '.' && (*p < '0' || *p > '9')))) return false;
  }
  return true;
}

// What a name must be beyond that where the form takes some for something else; NULL = it is fine.
static const char *missed(const char *name, const crn_tool_place *place) {
  static const char *const PERSONS[] = {"user", "assistant", "all", "self"};
  if (place->kind == CRN_CALL_PYTHON_BLOCK) {
    if (!is_python(name)) return "a name of Python: letters, digits, '_' and '.'";
    if (!strcmp(name, "print") || !strncmp(name, "default_api.", 12))
      return "a name that is not 'print' and does not begin with 'default_api.'";
  }
  if (place->format == CAIRN_DIALOGUE_AGENTIC && is_one_of(name, PERSONS, sizeof PERSONS / sizeof *PERSONS))
    return "a name that is none of user, assistant, all, self";
  return NULL;
}

static bool is_second(const json_t *tools, size_t i, const char *name) {
  for (size_t k = 0; k < i; k++) {
    const char *other = crn_tool_name(tools, k);
    if (other && !strcmp(other, name)) return true;
  }
  return false;
}

cairn_status crn_tool_check_names(const json_t *tools, const crn_tool_place *place) {
  const char *format = cairn_dialogue_format_text(place->format);
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *given = json_object_get(crn_tool_function(tools, i), "name");
    const char *name = crn_tool_name(tools, i);
    if (!json_is_string(given)) {
      return CRN_FAIL(INVALID_ARGUMENT,
                      "tools[%zu]: expected an object whose member 'name', or 'name' of 'function', is the name of a tool", i);
    }
    if (!name) {
      return CRN_FAIL(
          UNSUPPORTED,
          "tools[%zu]: the name '%.60s' cannot be written in a call: expected up to %d bytes without blanks and any of []{}<>()\"\\", i,
          json_string_value(given), MAX_NAME_BYTES);
    }
    if (place->tool && strcmp(place->tool, name)) continue;
    if (is_second(tools, i, name)) return CRN_FAIL(INVALID_ARGUMENT, "tools[%zu]: a second tool '%s'", i, name);
    const char *expected = missed(name, place);
    if (expected)
      return CRN_FAIL(UNSUPPORTED, "tools[%zu]: the name '%s' cannot be written in a call of the format '%s': expected %s", i, name, format,
                      expected);
  }
  return CAIRN_OK;
}
