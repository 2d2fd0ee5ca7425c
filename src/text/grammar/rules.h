/// Rules of a grammar while it is made: what the readers of regular expressions, EBNF and schemas build, and what is written for the
/// library that matches. A language of Unicode texts; nothing here knows tokens.
///
/// Nodes live in an arena and may be shared. Failures are kept: once something failed, everything that follows does nothing and
/// gives the empty node, and the status is looked at once at the end.
#ifndef CRN_TEXT_GRAMMAR_RULES_H
#define CRN_TEXT_GRAMMAR_RULES_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "text/grammar/xgrammar.h"

enum {
  CRN_GRAMMAR_MAX_BYTES = 1 << 18,    ///< of a source
  CRN_GRAMMAR_MAX_DEPTH = 100,        ///< of groups in groups, values in values
  CRN_GRAMMAR_MAX_NODES = 1 << 18,    ///< of all rules
  CRN_GRAMMAR_MAX_RULES = 1 << 14,    ///<
  CRN_GRAMMAR_MAX_REPEAT = 10000,     ///< of a counted repetition
  CRN_GRAMMAR_MAX_COPIES = 1 << 20,   ///< of nodes, counted repetitions taken apart
  CRN_GRAMMAR_MAX_WRITTEN = 1 << 22,  ///< bytes of the rules as they are written
  CRN_GRAMMAR_MAX_MEGABYTES = 512,    ///< that the compiled grammar would take, about
  CRN_GRAMMAR_MAX_STATES = 1 << 19,   ///< of all automata
  CRN_MAX_CODE = 0x10FFFF,
};

/// Code points `first` to `last`.
typedef struct crn_range {
  uint32_t first, last;
} crn_range;

/// Ranges, ascending, apart from each other. Surrogates are in none.
typedef struct crn_set {
  const crn_range *ranges;
  size_t n;
} crn_set;

typedef enum crn_node_kind {
  CRN_NODE_EMPTY,      ///< the empty text
  CRN_NODE_NEVER,      ///< no text at all
  CRN_NODE_SET,        ///< one character
  CRN_NODE_TEXT,       ///< exactly this text
  CRN_NODE_ALL,        ///< one behind the other
  CRN_NODE_ANY,        ///< one of
  CRN_NODE_REPEAT,     ///< `min` to `max` times (-1 = without end)
  CRN_NODE_RULE,       ///< what a rule says
  CRN_NODE_AUTOMATON,  ///< what an automaton takes; `rule` is its number
  CRN_NODE_BEGIN,      ///< the beginning of a text, while a regular expression is read; never written
  CRN_NODE_END,        ///< its end
} crn_node_kind;

typedef struct crn_node crn_node;
struct crn_node {
  crn_node_kind kind;
  crn_set set;
  const char *text;
  size_t n;  ///< bytes of the text; items
  const crn_node **items;
  int64_t min, max;
  int32_t rule;
  size_t place;  ///< BEGIN and END: in the source
};

typedef CRN_VEC(const crn_node *) crn_node_vec;

/// How values are written. What reads them back is text/dialogue.
typedef enum crn_style_kind {
  CRN_STYLE_JSON,
  CRN_STYLE_PYTHON,     ///< True, False, None; strings as JSON, as far as Python reads them alike
  CRN_STYLE_TAGGED,     ///< JSON between tags: no `<` stands in a string
  CRN_STYLE_DELIMITED,  ///< strings between delimiters, without escapes; names of members bare
  CRN_STYLE_PLAIN       ///< strings without anything around them, without escapes and without `<`
} crn_style_kind;

typedef struct crn_style {
  crn_style_kind kind;
  const char *delimiter;  ///< of DELIMITED; begins with `<`
} crn_style;

/// A deterministic automaton over bytes; it begins in state 0. In the arena.
typedef struct crn_automaton {
  const crn_edge *edges;
  size_t n_edges, n_states;
  const unsigned char *ends;  ///< by state
} crn_automaton;

typedef struct crn_rules {
  crn_style style;
  const cairn_allocator *allocator;
  crn_arena arena;
  CRN_VEC(const crn_node *) bodies;  ///< rule 0 is the start; NULL = not given yet
  CRN_VEC(const crn_automaton *) automata;
  size_t n_states;  ///< of the automata
  size_t n_nodes;
  cairn_status status;
} crn_rules;

void crn_rules_initialize(crn_rules *r, const cairn_allocator *allocator);
void crn_rules_deinitialize(crn_rules *r);
bool crn_rules_failed(const crn_rules *r);
/// Keeps the first failure. Gives the empty node, so that a reader may return it.
const crn_node *crn_rules_fail(crn_rules *r, cairn_status status);

/// A new rule without a body.
int32_t crn_rule_new(crn_rules *r);
void crn_rule_set(crn_rules *r, int32_t rule, const crn_node *body);

const crn_node *crn_node_empty(void);
const crn_node *crn_node_never(void);
const crn_node *crn_node_set(crn_rules *r, crn_set set);
const crn_node *crn_node_text(crn_rules *r, const char *text, size_t bytes);
const crn_node *crn_node_literal(crn_rules *r, const char *text);
const crn_node *crn_node_rule(crn_rules *r, int32_t rule);
const crn_node *crn_node_automaton(crn_rules *r, int32_t number);
const crn_node *crn_node_repeat(crn_rules *r, const crn_node *item, int64_t min, int64_t max);
const crn_node *crn_node_mark(crn_rules *r, crn_node_kind kind, size_t place);
/// Of `n` items; both are simplified where that is plain.
const crn_node *crn_node_all(crn_rules *r, const crn_node *const *items, size_t n);
const crn_node *crn_node_any(crn_rules *r, const crn_node *const *items, size_t n);
#define CRN_ALL(r, ...) \
  crn_node_all((r), (const crn_node *const[]){__VA_ARGS__}, sizeof((const crn_node *const[]){__VA_ARGS__}) / sizeof(const crn_node *))
#define CRN_ANY(r, ...) \
  crn_node_any((r), (const crn_node *const[]){__VA_ARGS__}, sizeof((const crn_node *const[]){__VA_ARGS__}) / sizeof(const crn_node *))
void crn_nodes_add(crn_rules *r, crn_node_vec *v, const crn_node *node);
const crn_node *crn_nodes_all(crn_rules *r, crn_node_vec *v);  ///< frees the vector
const crn_node *crn_nodes_any(crn_rules *r, crn_node_vec *v);

/// Which rules have a text, by rule; in the arena. A rule without a body has none.
cairn_status crn_rules_find_ends(crn_rules *r, bool **out_can_end);
bool crn_node_can_end(const bool *can_end, const crn_node *node);

/// Writes the rules for the library, as crn_xg_grammar_create reads them, without what can never become a text. Errors: INVALID_ARGUMENT
/// (no text is possible), UNSUPPORTED (too large).
cairn_status crn_rules_write(crn_rules *r, crn_str *out);

// --- sets -------------------------------------------------------------------------------------------------------------

/// Sorts and joins ranges given in any order; surrogates are left out.
crn_set crn_set_make(crn_rules *r, const crn_range *ranges, size_t n);
crn_set crn_set_not(crn_rules *r, crn_set set);
crn_set crn_set_and(crn_rules *r, crn_set a, crn_set b);
bool crn_set_has(crn_set set, uint32_t code);
crn_set crn_set_one(crn_rules *r, uint32_t first, uint32_t last);
extern const crn_set crn_set_all;
const crn_node *crn_node_range(crn_rules *r, uint32_t first, uint32_t last);

#endif
