/// Readers: from the text of a grammar to rules. Each fails with the place in the text.
#ifndef CRN_TEXT_GRAMMAR_READERS_H
#define CRN_TEXT_GRAMMAR_READERS_H

#include "base/json.h"
#include "text/grammar/rules.h"

/// Where a place in a text is: "line 2, column 7".
typedef struct crn_place {
  size_t line, column;
} crn_place;
crn_place crn_place_of(const char *text, size_t bytes, size_t at);

/// A regular expression of the ECMAScript kind, without what no grammar can say: \b, lookaround, backreferences, flags.
/// `what` names it in messages. The whole text must match when `whole`, else any part of it.
const crn_node *crn_regex_read(crn_rules *r, const char *pattern, size_t bytes, const char *what, bool whole);
/// The pattern in the form that matching costs least for. A matcher of rules keeps apart where each round of a loop began; loops within
/// loops over the same characters let it keep ever more, so patterns that have them become an automaton, unless it is too large.
/// `is_plain`: the characters stand for themselves, else for how JSON writes them in a string.
const crn_node *crn_language_single(crn_rules *r, const crn_node *node, bool is_plain);
/// The same for all rules of a grammar, as far as they do not lead to themselves.
void crn_language_simplify(crn_rules *r);

/// EBNF as llama.cpp and xgrammar write it: `name ::= …`, "…", […], (…), |, * + ? {m,n}, `.`, # comments. The start is `root`.
/// Adds its rules; rule 0 is the start.
void crn_bnf_read(crn_rules *r, const char *text, size_t bytes);

/// A JSON Schema; `compact` leaves no white space.
void crn_schema_read(crn_rules *r, const char *text, size_t bytes, bool compact);

/// Any JSON value.
void crn_json_read_any(crn_rules *r, bool compact);

#endif
