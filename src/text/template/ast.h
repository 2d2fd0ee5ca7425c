/// The tree of a compiled template.
///
/// Names are resolved when the template is compiled, by the rules of Jinja's own compiler (scope.c): a name is a slot of
/// the function it belongs to, or of a function around it. A function is the template itself, a macro, a call block, a
/// recursive loop, the filter of a loop or a block; everything else that opens a scope only clears slots.
#ifndef CRN_TEXT_TEMPLATE_AST_H
#define CRN_TEXT_TEMPLATE_AST_H

#include "text/template/value.h"

typedef enum tmpl_kind {
  // Expressions.
  TMPL_N_CONST,
  TMPL_N_NAME,
  TMPL_N_TUPLE,
  TMPL_N_LIST_LITERAL,
  TMPL_N_DICT_LITERAL,
  TMPL_N_CHAIN,    ///< a + b - c …: operators of one precedence, from left to right
  TMPL_N_CONCAT,   ///< a ~ b ~ c
  TMPL_N_COMPARE,  ///< a < b < c
  TMPL_N_AND,
  TMPL_N_OR,
  TMPL_N_NOT,
  TMPL_N_NEGATE,
  TMPL_N_PLUS,
  TMPL_N_CONDITION,
  TMPL_N_CALL,
  TMPL_N_FILTER,
  TMPL_N_TEST,
  TMPL_N_ATTRIBUTE,
  TMPL_N_ITEM,
  TMPL_N_SLICE,
  TMPL_N_NAMESPACE_REF,  ///< ns.name as the target of an assignment
  // Statements.
  TMPL_N_TEXT,
  TMPL_N_OUTPUT,
  TMPL_N_FOR,
  TMPL_N_IF,
  TMPL_N_SET,
  TMPL_N_SET_BLOCK,
  TMPL_N_MACRO,
  TMPL_N_CALL_BLOCK,
  TMPL_N_FILTER_BLOCK,
  TMPL_N_WITH,
  TMPL_N_SCOPE,  ///< autoescape false: a scope and nothing else
  TMPL_N_BLOCK,
  TMPL_N_BREAK,
  TMPL_N_CONTINUE,
} tmpl_kind;

typedef enum tmpl_op {
  TMPL_OP_ADD,
  TMPL_OP_SUB,
  TMPL_OP_MUL,
  TMPL_OP_DIV,
  TMPL_OP_FLOORDIV,
  TMPL_OP_MOD,
  TMPL_OP_POW,
  TMPL_OP_EQ,
  TMPL_OP_NE,
  TMPL_OP_LT,
  TMPL_OP_LE,
  TMPL_OP_GT,
  TMPL_OP_GE,
  TMPL_OP_IN,
  TMPL_OP_NOT_IN,
} tmpl_op;

/// A variable: the slot of the function `hops` functions outwards.
typedef struct tmpl_ref {
  int hops, slot;
} tmpl_ref;

typedef enum tmpl_load_kind { TMPL_LOAD_RESOLVE, TMPL_LOAD_ALIAS, TMPL_LOAD_UNDEFINED } tmpl_load_kind;

/// What happens to one slot when its scope is entered: looked up in the variables of the rendering, copied from a scope
/// further out, or cleared.
typedef struct tmpl_load {
  tmpl_load_kind kind;
  int slot;
  const tmpl_str *name;
  tmpl_ref from;
} tmpl_load;

typedef struct tmpl_scope {
  tmpl_load *loads;
  int n_loads;
  int *slots;  ///< all slots of the scope, cleared on leaving
  int n_slots;
} tmpl_scope;

typedef struct tmpl_node tmpl_node;

typedef struct tmpl_nodes {
  tmpl_node **items;
  int size;
} tmpl_nodes;

typedef struct tmpl_call_args {
  tmpl_nodes positional;
  const tmpl_str **names;  ///< of the keyword arguments
  tmpl_nodes keywords;
  tmpl_node *star, *star_star;  ///< *x and **x; NULL when absent
} tmpl_call_args;

typedef struct tmpl_filter tmpl_filter;
typedef struct tmpl_test tmpl_test;

/// What a macro and a call block share. Slots are -1 when the body does not use the special name.
typedef struct tmpl_function {
  const tmpl_str *name;  ///< NULL: a call block
  tmpl_nodes params;     ///< names
  int *param_slots;
  tmpl_nodes defaults;  ///< of the last parameters
  tmpl_nodes body;
  tmpl_scope scope;
  int n_slots;
  int caller_slot, kwargs_slot, varargs_slot;
  bool explicit_caller;
} tmpl_function;

typedef struct tmpl_for {
  tmpl_node *target, *iterable, *test;
  tmpl_node *test_target;  ///< a copy of the target, bound in the filter's function
  tmpl_nodes body, otherwise;
  bool recursive;
  bool needs_loop;  ///< the body uses `loop`
  int loop_slot;
  tmpl_scope body_scope, else_scope, test_scope;
  int n_slots;       ///< of the recursive function
  int n_test_slots;  ///< of the filter's function
} tmpl_for;

typedef struct tmpl_if {
  tmpl_node *test;
  tmpl_nodes body;
  tmpl_nodes elifs;  ///< nodes of kind IF that have no elifs and no else
  tmpl_nodes otherwise;
} tmpl_if;

typedef struct tmpl_block {
  const tmpl_str *name;
  tmpl_nodes body;
  tmpl_scope scope;
  int n_slots;
  int self_slot, super_slot;
  bool scoped, required;
  const tmpl_str **visible_names;  ///< scoped blocks see the variables around them
  tmpl_ref *visible;
  int n_visible;
} tmpl_block;

struct tmpl_node {
  tmpl_kind kind;
  int height;  ///< of the expression tree below
  int line;
  union {
    tmpl_value constant;
    struct {
      const tmpl_str *name;
      tmpl_ref ref;
      bool store, param;
    } name;
    struct {
      tmpl_nodes nodes;
      uint8_t *ops;  ///< CHAIN and COMPARE: ops[i] stands between nodes i and i + 1
    } list;          ///< TUPLE, LIST, CHAIN, CONCAT, COMPARE, AND, OR, OUTPUT, and DICT (key, value, key, …)
    tmpl_node *operand;
    struct {
      tmpl_node *test, *then, *otherwise;
    } condition;
    struct {
      tmpl_node *callee;
      tmpl_call_args args;
    } call;
    struct {
      tmpl_node *operand;  ///< NULL: the content of a filter block
      const tmpl_str *name;
      const tmpl_filter *filter;  ///< NULL: unknown, allowed where it may never run
      const tmpl_test *test;
      tmpl_call_args args;
    } apply;  ///< FILTER and TEST
    struct {
      tmpl_node *object;
      const tmpl_str *name;
      tmpl_ref ref;  ///< NAMESPACE_REF
    } attribute;
    struct {
      tmpl_node *object, *index;
    } item;
    struct {
      tmpl_node *start, *stop, *step;
    } slice;
    const tmpl_str *text;
    struct {
      tmpl_node *target, *value, *filter;
      tmpl_nodes body;
      tmpl_scope scope;
      bool top_level;
    } set;  ///< SET and SET_BLOCK
    tmpl_for *loop;
    tmpl_if *branch;
    struct {
      tmpl_function *function;
      tmpl_ref ref;     ///< MACRO: the variable it is stored in
      tmpl_node *call;  ///< CALL_BLOCK: the call; NULL for a generation block, which is its body
      bool top_level;
    } macro;
    struct {
      tmpl_node *filter;
      tmpl_nodes body;
      tmpl_scope scope;
    } filter_block;
    struct {
      tmpl_nodes targets, values, body;
      tmpl_scope scope;
    } with;
    tmpl_block *block;
  };
};

/// Limits of the compiler; a template beyond them is refused.
enum {
  TMPL_MAX_SOURCE_BYTES = 4 << 20,
  TMPL_MAX_NESTING = 200,      ///< statements inside statements, brackets inside brackets
  TMPL_MAX_TREE_HEIGHT = 400,  ///< of one expression
};

/// Names that mean something to the compiler itself, interned.
typedef struct tmpl_special_names {
  const tmpl_str *loop, *caller, *kwargs, *varargs, *self, *super;
} tmpl_special_names;

/// A parsed template, before or after its names are resolved.
typedef struct tmpl_tree {
  crn_arena *arena;
  const char *what;
  tmpl_special_names special;
  tmpl_nodes body;
  tmpl_scope scope;
  int n_slots;
  int self_slot;
  tmpl_block **blocks;
  int n_blocks;
} tmpl_tree;

typedef cairn_status (*tmpl_visit_fn)(void *self, tmpl_node *child);

/// Calls `visit` for each child of an expression in the order of the source; nothing for statements.
cairn_status crn_tmpl_expression_children(tmpl_node *node, tmpl_visit_fn visit, void *self);

/// Parses `source` into nodes of `tree->arena`. Errors: CORRUPT with the line, UNSUPPORTED, OUT_OF_MEMORY.
cairn_status crn_tmpl_parse(tmpl_tree *tree, const char *source, size_t source_bytes);
/// Gives every name its slot. Errors as crn_tmpl_parse.
cairn_status crn_tmpl_resolve(tmpl_tree *tree);

#endif
