/// Inside of the translation of patterns.
#ifndef CRN_TEXT_TOKENIZER_REGEX_SYNTAX_H
#define CRN_TEXT_TOKENIZER_REGEX_SYNTAX_H

#include "text/tokenizer/regex.h"
#include "text/tokenizer/regex_set.h"

/// A pattern being read. It is valid UTF-8.
typedef struct crn_regex_source {
  const char *begin, *at, *end;
  const char *what;
} crn_regex_source;

/// UNSUPPORTED, naming the construct.
cairn_status crn_regex_refuse(const crn_regex_source *in, const char *construct);
/// CORRUPT, saying what is wrong with the syntax.
cairn_status crn_regex_broken(const crn_regex_source *in, const char *problem);
/// Whether the pattern goes on with a text.
bool crn_regex_at(const crn_regex_source *in, const char *text);
/// Reads the character an escape stands for; `at` is behind the backslash.
cairn_status crn_regex_escape_code(crn_regex_source *in, bool in_brackets, uint32_t *out_code);
/// Reads "p{name}" or "P{name}" into a set.
cairn_status crn_regex_escape_property(crn_regex_source *in, bool in_brackets, crn_regex_set *set);
/// Reads a bracket expression, which may hold others and intersections, and writes it as an expression for one character.
cairn_status crn_regex_class(crn_regex_source *in, int depth, crn_str *out);

#endif
