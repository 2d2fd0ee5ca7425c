/// Patterns as deterministic automata over bytes.
#ifndef CRN_TEXT_GRAMMAR_AUTOMATON_H
#define CRN_TEXT_GRAMMAR_AUTOMATON_H

#include "text/grammar/rules.h"

/// The texts of a node as an automaton; `is_plain` as in crn_language_single. NULL when it would be too large or a rule in it leads to
/// itself; failures of memory are kept in the rules.
const crn_node *crn_automaton_node(crn_rules *r, const crn_node *node, bool is_plain);

#endif
