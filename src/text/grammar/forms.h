/// What JSON texts are made of.
#ifndef CRN_TEXT_GRAMMAR_FORMS_H
#define CRN_TEXT_GRAMMAR_FORMS_H

#include "text/grammar/readers.h"

/// Rules that all of a document use, made when they are wanted first; -1 = not yet.
typedef struct crn_forms {
  crn_rules *rules;
  bool compact;
  int32_t space, character, string, number, value, object, array;
} crn_forms;

void crn_forms_initialize(crn_forms *p, crn_rules *rules, bool compact);

/// White space that may stand between things: none, one space, or a line end with what indents the next line.
const crn_node *crn_form_space(crn_forms *p);
/// One character of a string as it is written there. U+0000 is left out: many readers refuse it.
const crn_node *crn_form_character(crn_forms *p);
const crn_node *crn_form_string(crn_forms *p);
/// A number of any size that readers agree on: at most 16 digits before the point, as many behind it, an exponent of two.
const crn_node *crn_form_number(crn_forms *p);
const crn_node *crn_form_integer(crn_forms *p);
const crn_node *crn_form_value(crn_forms *p);
const crn_node *crn_form_object(crn_forms *p);
const crn_node *crn_form_array(crn_forms *p);

/// The characters of a set and the texts of a node as they are written in a string: each in one way.
const crn_node *crn_form_written_set(crn_rules *r, crn_set set);
const crn_node *crn_form_written(crn_rules *r, const crn_node *node);
/// A text as a string with quotes.
const crn_node *crn_form_quoted(crn_rules *r, const char *text, size_t bytes);
/// The same as the name of a member.
const crn_node *crn_form_key(crn_rules *r, const char *text, size_t bytes);
/// What stands on both sides of a string.
const crn_node *crn_form_quote(crn_rules *r);
/// true, false, null.
const crn_node *crn_form_word(crn_rules *r, const char *json);
/// A value, written without white space.
const crn_node *crn_form_constant(crn_forms *p, const json_t *value);

#endif
