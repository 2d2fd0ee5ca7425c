/// Shared by the parts of the parser: the token stream and nodes (parser.c), statements (parser_stmt.c), expressions
/// (parser_expr.c) and their operands (parser_operand.c).
#ifndef CRN_TEXT_TEMPLATE_PARSER_H
#define CRN_TEXT_TEMPLATE_PARSER_H

#include "base/map.h"
#include "base/vec.h"
#include "text/template/ast.h"
#include "text/template/lexer.h"

typedef struct tmpl_parser {
  tmpl_tree *tree;
  crn_arena *arena;
  const char *what;
  const cairn_allocator *allocator;
  tmpl_lexer lexer;
  tmpl_token token;  ///< the current one
  tmpl_token ahead;
  bool has_ahead;
  crn_map names;  ///< text → tmpl_str, so that equal names are one object
  int nesting;
  CRN_VEC(tmpl_block *) blocks;
} tmpl_parser;

typedef CRN_VEC(tmpl_node *) tmpl_node_vec;

cairn_status crn_tmpl_parser_error(const tmpl_parser *p, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
cairn_status crn_tmpl_parser_advance(tmpl_parser *p);
/// The token behind the current one.
cairn_status crn_tmpl_parser_look(tmpl_parser *p, const tmpl_token **out);
bool crn_tmpl_parser_at_name(const tmpl_parser *p, const char *name);
/// Passes the current token, which must be of `kind`.
cairn_status crn_tmpl_parser_expect(tmpl_parser *p, tmpl_token_kind kind);
cairn_status crn_tmpl_parser_expect_name(tmpl_parser *p, const char *name);
/// Passes the current token when it is the name `name`.
cairn_status crn_tmpl_parser_skip_name(tmpl_parser *p, const char *name, bool *out_skipped);
/// Passes a name and gives it interned.
cairn_status crn_tmpl_parser_name(tmpl_parser *p, const tmpl_str **out);
cairn_status crn_tmpl_parser_intern(tmpl_parser *p, const char *text, size_t n, const tmpl_str **out);

cairn_status crn_tmpl_node_make(tmpl_parser *p, tmpl_kind kind, int line, tmpl_node **out);
/// Notes that `child` hangs below `node`. Errors: UNSUPPORTED when the tree becomes too high.
cairn_status crn_tmpl_node_adopt(tmpl_parser *p, tmpl_node *node, const tmpl_node *child);
/// Moves the nodes of `vec` into the arena.
cairn_status crn_tmpl_nodes_finish(tmpl_parser *p, const tmpl_node_vec *vec, tmpl_nodes *out);

/// One level of brackets or statements deeper; undone with `p->nesting--`. Errors: UNSUPPORTED.
cairn_status crn_tmpl_parser_enter(tmpl_parser *p);

/// Statements up to the end of the template.
cairn_status crn_tmpl_parse_all(tmpl_parser *p, tmpl_nodes *out);
cairn_status crn_tmpl_parse_expression(tmpl_parser *p, tmpl_node **out);
/// A signed operand with everything that follows it, the operand of `**`.
cairn_status crn_tmpl_parse_operand(tmpl_parser *p, tmpl_node **out);
cairn_status crn_tmpl_parse_primary(tmpl_parser *p, bool with_namespace, tmpl_node **out);

typedef struct tmpl_tuple_rules {
  bool targets_only;    ///< names and literals, for assignments
  bool no_condition;    ///< `a if b` is not part of it
  bool with_namespace;  ///< ns.name is a target
  bool parentheses;     ///< inside of ( ), where nothing at all is an empty tuple
} tmpl_tuple_rules;

cairn_status crn_tmpl_parse_tuple(tmpl_parser *p, tmpl_tuple_rules rules, tmpl_node **out);
cairn_status crn_tmpl_parse_call_args(tmpl_parser *p, tmpl_node *owner, tmpl_call_args *out);
/// A chain of filters on `operand` (NULL: the content of a block). `inline_start`: the first name stands without `|`.
cairn_status crn_tmpl_parse_filters(tmpl_parser *p, tmpl_node *operand, bool inline_start, tmpl_node **out);

#endif
