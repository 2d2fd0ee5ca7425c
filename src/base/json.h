/// Reading JSON (through jansson): bounded, strict, with errors that name the place.
#ifndef CRN_BASE_JSON_H
#define CRN_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

/// Parses a whole text. `what` names it in messages (usually its path). Duplicate keys and NUL in keys are refused.
/// Owner: the caller; json_decref. Errors: CORRUPT with line and column, OUT_OF_MEMORY.
cairn_status crn_json_parse(const char *text, size_t bytes, const char *what, json_t **out_json);
/// The same for texts whose strings may hold U+0000; whoever takes such a string must go by json_string_length. In keys
/// U+0000 is written CRN_JSON_NUL, which a text that needs it must not hold itself. Errors: also UNSUPPORTED.
cairn_status crn_json_parse_nul(const char *text, size_t bytes, const char *what, json_t **out_json);
#define CRN_JSON_NUL "\xef\xb7\x90\xef\xb7\xaf"  // U+FDD0 U+FDEF, no characters
/// As crn_json_read and crn_json_parse_nul.
cairn_status crn_json_read_nul(const char *path, json_t **out_json);
/// Reads and parses a file of at most 512 MiB. Errors: as crn_file_read and crn_json_parse.
cairn_status crn_json_read(const char *path, json_t **out_json);

/// Typed members. Absent: `*out` keeps its value and the result is OK unless `required`. Wrong type: CORRUPT naming
/// "what: 'key' must be a string". Strings are borrowed from `object` and hold no U+0000.
cairn_status crn_json_string(const json_t *object, const char *what, const char *key, bool required, const char **out);
cairn_status crn_json_int(const json_t *object, const char *what, const char *key, bool required, int64_t *out);
cairn_status crn_json_double(const json_t *object, const char *what, const char *key, bool required, double *out);
cairn_status crn_json_bool(const json_t *object, const char *what, const char *key, bool required, bool *out);

#endif
