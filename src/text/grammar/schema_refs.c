// References within a schema: by JSON pointer, by $id and by $anchor.
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema.h"

// The schema with this $id, or with this $anchor.
static const json_t *find_named(const json_t *at, const char *keyword, const char *name, int depth) {
  const char *key, *id = json_string_value(json_object_get(at, keyword));
  json_t *item;
  size_t i;
  if (depth > 2 * CRN_GRAMMAR_MAX_DEPTH) return NULL;
  if (id && !strcmp(id, name)) return at;
  json_object_foreach((json_t *)at, key, item) {
    const json_t *found = find_named(item, keyword, name, depth + 1);
    if (found) return found;
  }
  json_array_foreach(at, i, item) {
    const json_t *found = find_named(item, keyword, name, depth + 1);
    if (found) return found;
  }
  return NULL;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// One step of a JSON pointer, with its escapes undone. Gives the rest behind it.
static const char *read_step(const char *p, crn_str *step) {
  crn_str_clear(step);
  cairn_status status = CAIRN_OK;
  for (; *p && *p != '/' && status == CAIRN_OK; p++) {
    char c = *p;
    if (c == '%' && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0) {
      c = (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
      p += 2;
    }
    if (c == '~' && (p[1] == '0' || p[1] == '1')) c = *++p == '0' ? '~' : '/';
    status = crn_str_putc(step, c);
  }
  return p;
}

static const json_t *follow(crn_schema *s, const json_t *from, const char *pointer) {
  crn_str step;
  crn_str_initialize(&step, s->rules->allocator);
  const json_t *at = from;
  while (at && *pointer == '/') {
    pointer = read_step(pointer + 1, &step);
    if (json_is_array(at)) {
      char *end;
      unsigned long i = strtoul(step.data, &end, 10);
      at = *end || !step.size ? NULL : json_array_get(at, i);
    } else {
      at = json_object_get(at, step.data);
    }
  }
  crn_str_deinitialize(&step);
  return *pointer ? NULL : at;
}

const json_t *crn_schema_resolve(crn_schema *s, const json_t *schema, const char *reference) {
  const char *hash = strchr(reference, '#');
  const json_t *base = s->root, *found = NULL;
  if (hash != reference) {
    crn_str id;
    crn_str_initialize(&id, s->rules->allocator);
    cairn_status status = crn_str_append(&id, reference, hash ? (size_t)(hash - reference) : strlen(reference));
    base = status == CAIRN_OK ? find_named(s->root, "$id", id.data, 0) : NULL;
    crn_str_deinitialize(&id);
  }
  if (base) {
    found = !hash || !hash[1] ? base : hash[1] == '/' ? follow(s, base, hash + 1) : find_named(base, "$anchor", hash + 1, 0);
  }
  if (!found) CRN_SCHEMA_UNSUPPORTED(s, schema, "$ref", "it names nothing in this schema; only references within it are followed");
  // It may stand where no schema is expected.
  if (found) crn_schema_check(s, found);
  return found;
}
