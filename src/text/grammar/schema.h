/// From JSON Schemas to rules. A value is described by a list of schemas that all hold for it: a schema, what its `$ref` and `allOf`
/// name, the alternative of an `anyOf` that was taken. Every document of the rules satisfies the schema; a keyword that cannot be
/// kept is refused by name. The other way round it is narrower: a schema with `properties` and no word on others gets no others.
#ifndef CRN_TEXT_GRAMMAR_SCHEMA_H
#define CRN_TEXT_GRAMMAR_SCHEMA_H

#include "base/map.h"
#include "text/grammar/forms.h"

/// A schema of a list, and which of its keywords were dealt with already.
typedef struct crn_term {
  const json_t *schema;
  unsigned done;
} crn_term;

enum { CRN_DONE_ANY_OF = 1, CRN_DONE_ONE_OF = 2, CRN_DONE_IF = 4, CRN_DONE_NOT = 8, CRN_DONE_DEPENDENT = 16 };

typedef CRN_VEC(crn_term) crn_terms;

typedef struct crn_known_terms {
  crn_term *terms;  ///< sorted
  size_t n;
  int32_t rule;
} crn_known_terms;

/// Numbers between bounds that have a rule.
typedef struct crn_known_number {
  bool has_low, low_open, has_high, high_open, is_integer;
  double low, high, multiple;
  int32_t rule;
} crn_known_number;

typedef struct crn_schema {
  crn_rules *rules;
  crn_forms forms;
  json_t *root;
  json_t *made;  ///< array of schemas that were made on the way
  int depth;
  CRN_VEC(crn_known_terms) known;
  CRN_VEC(crn_known_number) numbers;
  crn_map texts;    ///< by what is said of them: addresses of nodes
  crn_map checked;  ///< by address: objects that crn_schema_check has seen
} crn_schema;

enum {
  CRN_TYPE_NULL = 1,
  CRN_TYPE_BOOLEAN = 2,
  CRN_TYPE_INTEGER = 4,
  CRN_TYPE_FRACTION = 8,  ///< numbers that need not be integers
  CRN_TYPE_STRING = 16,
  CRN_TYPE_ARRAY = 32,
  CRN_TYPE_OBJECT = 64,
  CRN_TYPE_ALL = 127
};

/// `root` is set by whoever reads one.
void crn_schema_initialize(crn_schema *s, crn_rules *rules, bool compact);
void crn_schema_deinitialize(crn_schema *s);

/// Refuses what is malformed in a schema and all that is below it: keywords whose values are of a wrong kind or make no sense.
void crn_schema_check(crn_schema *s, const json_t *schema);

/// Fails with the place of `where` in the schema. `why` says what is wrong with the keyword.
const crn_node *crn_schema_fail(crn_schema *s, cairn_status code, const json_t *where, const char *keyword, const char *why);
#define CRN_SCHEMA_BROKEN(s, where, keyword, why) crn_schema_fail((s), CAIRN_INVALID_ARGUMENT, (where), (keyword), (why))
#define CRN_SCHEMA_UNSUPPORTED(s, where, keyword, why) crn_schema_fail((s), CAIRN_UNSUPPORTED, (where), (keyword), (why))
/// Appends the place of something in the schema: "/properties/a". False when it is not there, as what was made on the way.
bool crn_schema_find(const crn_schema *s, const json_t *wanted, crn_str *path);
/// The place of what is to blame when a rule has no text, "" when it is the whole or not known. `can_end` is of crn_rules_find_ends.
cairn_status crn_schema_find_empty(const crn_schema *s, const bool *can_end, int32_t rule, crn_str *out_place);
/// Adds "/step" to a place, as JSON pointers write it.
cairn_status crn_schema_add_step(crn_str *place, const char *step);
/// A schema that is written in the form of json_pack and lives as long as `s`; NULL on failure.
const json_t *crn_schema_make(crn_schema *s, json_t *made);

void crn_terms_add(crn_schema *s, crn_terms *t, crn_term term);
void crn_terms_copy(crn_schema *s, crn_terms *to, const crn_terms *from);
void crn_terms_free(crn_schema *s, crn_terms *t);

/// The values for which all of a list hold. The list is freed.
const crn_node *crn_schema_value(crn_schema *s, crn_terms *terms);
const crn_node *crn_schema_value_of(crn_schema *s, const json_t *schema);

// --- parts ------------------------------------------------------------------------------------------------------------------

/// The bits of a name; 0 = it is none (also NULL).
unsigned crn_schema_type_of_name(const char *name);
/// Reads `type` of a schema. Gives CRN_TYPE_ALL when there is none.
unsigned crn_schema_types(const json_t *schema);
bool crn_schema_is_whole(double number);
/// A keyword that is a whole number of at least 0; `none` when it is not there.
int64_t crn_schema_count(const json_t *schema, const char *keyword, int64_t none);
/// The largest (or smallest) of a count over a list.
int64_t crn_schema_most(const crn_terms *terms, const char *keyword, int64_t none, bool largest);
/// What a reference names, NULL with a failure kept.
const json_t *crn_schema_resolve(crn_schema *s, const json_t *schema, const char *reference);

const crn_node *crn_schema_number(crn_schema *s, const crn_terms *terms, bool is_integer);
/// Strings without their quotes. `excluded` (may be NULL) is an array of values it must not be; `written_once` leaves one way of
/// writing each character, as names of properties need it that must differ from others.
const crn_node *crn_schema_string(crn_schema *s, const crn_terms *terms, const json_t *excluded, const json_t *excluded_patterns,
                                  bool written_once);
/// A format that is kept; of others NULL is given, which are left to the model, as the standard allows.
typedef struct crn_format {
  const char *name, *near, *wide;  ///< patterns; `wide` NULL = as `near`
  bool is_whole;                   ///< `wide` is all that the format takes
} crn_format;
const crn_format *crn_schema_format(const json_t *schema);
/// A pattern that need not match a text as a whole. Failures name the place in the schema.
const crn_node *crn_schema_pattern(crn_schema *s, const json_t *schema, const char *keyword, const char *pattern, size_t bytes);
const crn_node *crn_schema_array(crn_schema *s, const crn_terms *terms);
const crn_node *crn_schema_object(crn_schema *s, const crn_terms *terms);

/// Choices of a list (`anyOf`, `oneOf`, `not`, `if`, dependencies): NULL when none is left. The list is borrowed.
const crn_node *crn_schema_choices(crn_schema *s, const crn_terms *terms);

// --- deciding ---------------------------------------------------------------------------------------------------------------

typedef enum crn_truth { CRN_FALSE, CRN_TRUE, CRN_UNKNOWN } crn_truth;
/// Whether a value satisfies a schema.
crn_truth crn_schema_holds(crn_schema *s, const json_t *schema, const json_t *value);
/// Whether it is certain that no value satisfies both.
bool crn_schema_apart(crn_schema *s, const json_t *a, const json_t *b, int depth);
/// A schema and all that its references and `allOf` say, as far as they can be found.
void crn_schema_gather(crn_schema *s, const json_t *schema, crn_terms *out);

// --- languages ----------------------------------------------------------------------------------------------------------------

/// Texts that are in all of `with` and in none of `without`, of `min` to `max` characters (-1: any number), as they are written in a
/// string. Nodes must have no rules in them. Errors: UNSUPPORTED (too large).
const crn_node *crn_language_node(crn_rules *r, const crn_node *const *with, size_t n_with, const crn_node *const *without,
                                  size_t n_without, int64_t min, int64_t max);
/// Whether a text is in a language. False after a failure.
bool crn_language_has(crn_rules *r, const crn_node *node, const char *text, size_t bytes);
/// The shortest and the longest text (-1: no end).
void crn_language_lengths(const crn_node *node, int64_t *out_min, int64_t *out_max);

#endif
