/// Expressions, one function per level of precedence as in Jinja's grammar.
#include <string.h>

#include "text/template/parser.h"

static cairn_status parse_condition(tmpl_parser *p, tmpl_node **out);
static cairn_status parse_or(tmpl_parser *p, tmpl_node **out);

cairn_status crn_tmpl_parse_expression(tmpl_parser *p, tmpl_node **out) {
  CRN_TRY(crn_tmpl_parser_enter(p));
  CRN_TRY(parse_condition(p, out));
  p->nesting--;
  return CAIRN_OK;
}

static cairn_status parse_condition(tmpl_parser *p, tmpl_node **out) {
  int line = p->token.line;
  CRN_TRY(parse_or(p, out));
  for (;;) {
    bool is_if, is_else;
    CRN_TRY(crn_tmpl_parser_skip_name(p, "if", &is_if));
    if (!is_if) return CAIRN_OK;
    tmpl_node *node, *test, *otherwise = NULL;
    CRN_TRY(crn_tmpl_node_make(p, TMPL_N_CONDITION, line, &node));
    CRN_TRY(parse_or(p, &test));
    CRN_TRY(crn_tmpl_parser_skip_name(p, "else", &is_else));
    if (is_else) CRN_TRY(crn_tmpl_parse_expression(p, &otherwise));
    CRN_TRY(crn_tmpl_node_adopt(p, node, test));
    CRN_TRY(crn_tmpl_node_adopt(p, node, *out));
    CRN_TRY(crn_tmpl_node_adopt(p, node, otherwise));
    node->condition.test = test;
    node->condition.then = *out;
    node->condition.otherwise = otherwise;
    *out = node;
    line = p->token.line;
  }
}

// Parses operands of `lower` while `next_op` passes an operator between them; one operand alone stays itself.
typedef cairn_status (*parse_fn)(tmpl_parser *p, tmpl_node **out);
typedef cairn_status (*operator_fn)(tmpl_parser *p, bool *out_any, tmpl_op *out_op);

static cairn_status finish_chain(tmpl_parser *p, tmpl_kind kind, int line, const tmpl_node_vec *nodes, const uint8_t *ops,
                                 tmpl_node **out) {
  tmpl_node *node;
  CRN_TRY(crn_tmpl_node_make(p, kind, line, &node));
  for (size_t i = 0; i < nodes->size; i++) CRN_TRY(crn_tmpl_node_adopt(p, node, nodes->items[i]));
  CRN_TRY(crn_tmpl_nodes_finish(p, nodes, &node->list.nodes));
  CRN_TRY(crn_arena_array(p->arena, nodes->size, 1, &node->list.ops));
  memcpy(node->list.ops, ops, nodes->size - 1);
  *out = node;
  return CAIRN_OK;
}

static cairn_status parse_chain(tmpl_parser *p, tmpl_kind kind, parse_fn lower, operator_fn next_op, tmpl_node **out) {
  int line = p->token.line;
  CRN_TRY(lower(p, out));
  bool any;
  tmpl_op op = TMPL_OP_ADD;
  CRN_TRY(next_op(p, &any, &op));
  if (!any) return CAIRN_OK;
  tmpl_node_vec nodes = {0};
  CRN_VEC(uint8_t) ops = {0};
  cairn_status status;
  CRN_TRY_GOTO(crn_vec_push(p->allocator, &nodes, *out));
  while (any) {
    tmpl_node *operand;
    CRN_TRY_GOTO(lower(p, &operand));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &nodes, operand));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &ops, (uint8_t)op));
    CRN_TRY_GOTO(next_op(p, &any, &op));
  }
  CRN_TRY_GOTO(finish_chain(p, kind, line, &nodes, ops.items, out));
done:
  crn_vec_free(p->allocator, &nodes);
  crn_vec_free(p->allocator, &ops);
  return status;
}

static cairn_status or_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  (void)out_op;
  return crn_tmpl_parser_skip_name(p, "or", out_any);
}

static cairn_status and_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  (void)out_op;
  return crn_tmpl_parser_skip_name(p, "and", out_any);
}

typedef struct token_op {
  tmpl_token_kind token;
  tmpl_op op;
} token_op;

static cairn_status token_operator(tmpl_parser *p, const token_op *table, size_t n, bool *out_any, tmpl_op *out_op) {
  *out_any = false;
  for (size_t i = 0; i < n; i++) {
    if (p->token.kind != table[i].token) continue;
    *out_any = true;
    *out_op = table[i].op;
    return crn_tmpl_parser_advance(p);
  }
  return CAIRN_OK;
}

static cairn_status compare_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  static const token_op table[] = {{TMPL_T_EQ, TMPL_OP_EQ}, {TMPL_T_NE, TMPL_OP_NE}, {TMPL_T_LT, TMPL_OP_LT},
                                   {TMPL_T_LE, TMPL_OP_LE}, {TMPL_T_GT, TMPL_OP_GT}, {TMPL_T_GE, TMPL_OP_GE}};
  CRN_TRY(token_operator(p, table, sizeof table / sizeof *table, out_any, out_op));
  if (*out_any) return CAIRN_OK;
  CRN_TRY(crn_tmpl_parser_skip_name(p, "in", out_any));
  *out_op = TMPL_OP_IN;
  if (*out_any || !crn_tmpl_parser_at_name(p, "not")) return CAIRN_OK;
  const tmpl_token *ahead;
  CRN_TRY(crn_tmpl_parser_look(p, &ahead));
  if (ahead->kind != TMPL_T_NAME || ahead->size != 2 || memcmp(ahead->text, "in", 2)) return CAIRN_OK;
  *out_any = true;
  *out_op = TMPL_OP_NOT_IN;
  CRN_TRY(crn_tmpl_parser_advance(p));
  return crn_tmpl_parser_advance(p);
}

static cairn_status sum_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  static const token_op table[] = {{TMPL_T_ADD, TMPL_OP_ADD}, {TMPL_T_SUB, TMPL_OP_SUB}};
  return token_operator(p, table, sizeof table / sizeof *table, out_any, out_op);
}

static cairn_status concat_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  static const token_op table[] = {{TMPL_T_TILDE, TMPL_OP_ADD}};
  return token_operator(p, table, 1, out_any, out_op);
}

static cairn_status product_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  static const token_op table[] = {
      {TMPL_T_MUL, TMPL_OP_MUL}, {TMPL_T_DIV, TMPL_OP_DIV}, {TMPL_T_FLOORDIV, TMPL_OP_FLOORDIV}, {TMPL_T_MOD, TMPL_OP_MOD}};
  return token_operator(p, table, sizeof table / sizeof *table, out_any, out_op);
}

static cairn_status power_operator(tmpl_parser *p, bool *out_any, tmpl_op *out_op) {
  static const token_op table[] = {{TMPL_T_POW, TMPL_OP_POW}};
  return token_operator(p, table, 1, out_any, out_op);
}

static cairn_status parse_power(tmpl_parser *p, tmpl_node **out) {
  return parse_chain(p, TMPL_N_CHAIN, crn_tmpl_parse_operand, power_operator, out);
}

static cairn_status parse_product(tmpl_parser *p, tmpl_node **out) {
  return parse_chain(p, TMPL_N_CHAIN, parse_power, product_operator, out);
}

static cairn_status parse_concat(tmpl_parser *p, tmpl_node **out) {
  return parse_chain(p, TMPL_N_CONCAT, parse_product, concat_operator, out);
}

static cairn_status parse_sum(tmpl_parser *p, tmpl_node **out) { return parse_chain(p, TMPL_N_CHAIN, parse_concat, sum_operator, out); }

static cairn_status parse_compare(tmpl_parser *p, tmpl_node **out) {
  return parse_chain(p, TMPL_N_COMPARE, parse_sum, compare_operator, out);
}

static cairn_status parse_not(tmpl_parser *p, tmpl_node **out) {
  if (!crn_tmpl_parser_at_name(p, "not")) return parse_compare(p, out);
  CRN_TRY(crn_tmpl_parser_enter(p));
  tmpl_node *node, *operand;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_NOT, p->token.line, &node));
  CRN_TRY(crn_tmpl_parser_advance(p));
  CRN_TRY(parse_not(p, &operand));
  CRN_TRY(crn_tmpl_node_adopt(p, node, operand));
  node->operand = operand;
  p->nesting--;
  *out = node;
  return CAIRN_OK;
}

static cairn_status parse_and(tmpl_parser *p, tmpl_node **out) { return parse_chain(p, TMPL_N_AND, parse_not, and_operator, out); }

static cairn_status parse_or(tmpl_parser *p, tmpl_node **out) { return parse_chain(p, TMPL_N_OR, parse_and, or_operator, out); }

// --- tuples ---------------------------------------------------------------------------------------------------------------

static bool at_tuple_end(const tmpl_parser *p) {
  return p->token.kind == TMPL_T_VARIABLE_END || p->token.kind == TMPL_T_BLOCK_END || p->token.kind == TMPL_T_RPAREN;
}

static cairn_status parse_tuple_item(tmpl_parser *p, const tmpl_tuple_rules *rules, tmpl_node **out) {
  if (rules->targets_only) return crn_tmpl_parse_primary(p, rules->with_namespace, out);
  return rules->no_condition ? parse_or(p, out) : parse_condition(p, out);
}

cairn_status crn_tmpl_parse_tuple(tmpl_parser *p, tmpl_tuple_rules rules, tmpl_node **out) {
  int line = p->token.line;
  tmpl_node_vec items = {0};
  bool is_tuple = false;
  cairn_status status;
  CRN_TRY(crn_tmpl_parser_enter(p));
  for (;;) {
    tmpl_node *item;
    if (items.size) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    if (at_tuple_end(p)) break;
    CRN_TRY_GOTO(parse_tuple_item(p, &rules, &item));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &items, item));
    if (p->token.kind != TMPL_T_COMMA) break;
    is_tuple = true;
    line = p->token.line;
  }
  if (!is_tuple && items.size) {
    *out = items.items[0];
  } else if (!is_tuple && !rules.parentheses) {
    status = crn_tmpl_parser_error(p, p->token.line, "expected an expression, got '%s'", crn_tmpl_token_name(p->token.kind));
    goto done;
  } else {
    CRN_TRY_GOTO(crn_tmpl_node_make(p, TMPL_N_TUPLE, line, out));
    for (size_t i = 0; i < items.size; i++) CRN_TRY_GOTO(crn_tmpl_node_adopt(p, *out, items.items[i]));
    CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &items, &(*out)->list.nodes));
  }
  p->nesting--;
  status = CAIRN_OK;
done:
  crn_vec_free(p->allocator, &items);
  return status;
}
