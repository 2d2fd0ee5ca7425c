/// Expressions, one function per level of precedence as in Jinja's grammar.
#include <string.h>

#include "base/str.h"
#include "text/template/parser.h"

static cairn_status parse_condition(tmpl_parser *p, tmpl_node **out);
static cairn_status parse_or(tmpl_parser *p, tmpl_node **out);
static cairn_status parse_unary(tmpl_parser *p, bool with_filter, tmpl_node **out);

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

static cairn_status finish_chain(tmpl_parser *p, tmpl_kind kind, int line, const tmpl_node_vec *nodes, const uint8_t *ops, tmpl_node **out) {
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

static cairn_status parse_operand(tmpl_parser *p, tmpl_node **out) { return parse_unary(p, true, out); }

static cairn_status parse_power(tmpl_parser *p, tmpl_node **out) { return parse_chain(p, TMPL_N_CHAIN, parse_operand, power_operator, out); }

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

// --- what follows an operand: attributes, subscripts, calls, filters, tests ------------------------------------------------

static cairn_status make_const(tmpl_parser *p, tmpl_value v, int line, tmpl_node **out) {
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_CONST, line, out));
  (*out)->constant = v;
  return CAIRN_OK;
}

static cairn_status parse_slice_part(tmpl_parser *p, tmpl_node *slice, tmpl_node **out) {
  if (p->token.kind == TMPL_T_RBRACKET || p->token.kind == TMPL_T_COMMA || p->token.kind == TMPL_T_COLON) return CAIRN_OK;
  CRN_TRY(crn_tmpl_parse_expression(p, out));
  return crn_tmpl_node_adopt(p, slice, *out);
}

// One subscript: an expression or start:stop:step.
static cairn_status parse_subscript(tmpl_parser *p, tmpl_node **out) {
  int line = p->token.line;
  tmpl_node *start = NULL, *slice;
  if (p->token.kind != TMPL_T_COLON) {
    CRN_TRY(crn_tmpl_parse_expression(p, &start));
    *out = start;
    if (p->token.kind != TMPL_T_COLON) return CAIRN_OK;
  }
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_SLICE, line, &slice));
  CRN_TRY(crn_tmpl_node_adopt(p, slice, start));
  slice->slice.start = start;
  CRN_TRY(crn_tmpl_parser_advance(p));
  CRN_TRY(parse_slice_part(p, slice, &slice->slice.stop));
  if (p->token.kind == TMPL_T_COLON) {
    CRN_TRY(crn_tmpl_parser_advance(p));
    if (p->token.kind != TMPL_T_COLON) CRN_TRY(parse_slice_part(p, slice, &slice->slice.step));
  }
  *out = slice;
  return CAIRN_OK;
}

static cairn_status parse_brackets(tmpl_parser *p, tmpl_node *object, tmpl_node **out) {
  tmpl_node *node, *index = NULL;
  tmpl_node_vec parts = {0};
  cairn_status status;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_ITEM, p->token.line, &node));
  CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  while (p->token.kind != TMPL_T_RBRACKET) {
    if (parts.size) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    CRN_TRY_GOTO(parse_subscript(p, &index));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &parts, index));
    if (parts.size > 1 && (index->kind == TMPL_N_SLICE || parts.items[0]->kind == TMPL_N_SLICE)) {
      CRN_TRY_GOTO(crn_tmpl_parser_error(p, node->line, "a slice cannot be one of several subscripts"));
    }
  }
  CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  if (parts.size != 1) {
    CRN_TRY_GOTO(crn_tmpl_node_make(p, TMPL_N_TUPLE, node->line, &index));
    for (size_t i = 0; i < parts.size; i++) CRN_TRY_GOTO(crn_tmpl_node_adopt(p, index, parts.items[i]));
    CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &parts, &index->list.nodes));
  }
  CRN_TRY_GOTO(crn_tmpl_node_adopt(p, node, object));
  CRN_TRY_GOTO(crn_tmpl_node_adopt(p, node, index));
  node->item.object = object;
  node->item.index = index;
  *out = node;
done:
  crn_vec_free(p->allocator, &parts);
  return status;
}

static cairn_status parse_dot(tmpl_parser *p, tmpl_node *object, tmpl_node **out) {
  int line = p->token.line;
  CRN_TRY(crn_tmpl_parser_advance(p));
  tmpl_token token = p->token;
  tmpl_node *node;
  if (token.kind == TMPL_T_NAME) {
    CRN_TRY(crn_tmpl_node_make(p, TMPL_N_ATTRIBUTE, line, &node));
    node->attribute.object = object;
    CRN_TRY(crn_tmpl_parser_name(p, &node->attribute.name));
  } else if (token.kind == TMPL_T_INTEGER) {
    CRN_TRY(crn_tmpl_node_make(p, TMPL_N_ITEM, line, &node));
    node->item.object = object;
    CRN_TRY(make_const(p, tmpl_int(token.integer), token.line, &node->item.index));
    CRN_TRY(crn_tmpl_parser_advance(p));
  } else {
    return crn_tmpl_parser_error(p, token.line, "expected name or number");
  }
  CRN_TRY(crn_tmpl_node_adopt(p, node, object));
  *out = node;
  return CAIRN_OK;
}

static cairn_status parse_call(tmpl_parser *p, tmpl_node *callee, tmpl_node **out) {
  tmpl_node *node;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_CALL, p->token.line, &node));
  CRN_TRY(crn_tmpl_node_adopt(p, node, callee));
  CRN_TRY(crn_tmpl_parse_call_args(p, node, &node->call.args));
  node->call.callee = callee;
  *out = node;
  return CAIRN_OK;
}

static cairn_status parse_postfix(tmpl_parser *p, tmpl_node **in_out) {
  for (;;) {
    switch (p->token.kind) {
      case TMPL_T_DOT: CRN_TRY(parse_dot(p, *in_out, in_out)); break;
      case TMPL_T_LBRACKET: CRN_TRY(parse_brackets(p, *in_out, in_out)); break;
      case TMPL_T_LPAREN: CRN_TRY(parse_call(p, *in_out, in_out)); break;
      default: return CAIRN_OK;
    }
  }
}

// A filter or test name: names joined by dots.
static cairn_status parse_dotted_name(tmpl_parser *p, const tmpl_str **out) {
  CRN_TRY(crn_tmpl_parser_name(p, out));
  while (p->token.kind == TMPL_T_DOT) {
    const tmpl_str *part;
    CRN_TRY(crn_tmpl_parser_advance(p));
    CRN_TRY(crn_tmpl_parser_name(p, &part));
    char *joined;
    size_t n = (*out)->size + 1 + part->size;
    CRN_TRY(crn_arena_alloc(p->arena, n, &joined));
    memcpy(joined, (*out)->data, (*out)->size);
    joined[(*out)->size] = '.';
    memcpy(joined + (*out)->size + 1, part->data, part->size);
    CRN_TRY(crn_tmpl_parser_intern(p, joined, n, out));
  }
  return CAIRN_OK;
}

static bool starts_test_argument(const tmpl_parser *p) {
  switch (p->token.kind) {
    case TMPL_T_NAME:
      return !crn_tmpl_parser_at_name(p, "else") && !crn_tmpl_parser_at_name(p, "or") && !crn_tmpl_parser_at_name(p, "and");
    case TMPL_T_STRING:
    case TMPL_T_INTEGER:
    case TMPL_T_FLOAT:
    case TMPL_T_LBRACKET:
    case TMPL_T_LBRACE: return true;
    default: return false;
  }
}

static cairn_status parse_test(tmpl_parser *p, tmpl_node *operand, tmpl_node **out) {
  tmpl_node *node;
  bool negated;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_TEST, p->token.line, &node));
  CRN_TRY(crn_tmpl_node_adopt(p, node, operand));
  node->apply.operand = operand;
  CRN_TRY(crn_tmpl_parser_advance(p));
  CRN_TRY(crn_tmpl_parser_skip_name(p, "not", &negated));
  CRN_TRY(parse_dotted_name(p, &node->apply.name));
  if (p->token.kind == TMPL_T_LPAREN) {
    CRN_TRY(crn_tmpl_parse_call_args(p, node, &node->apply.args));
  } else if (starts_test_argument(p)) {
    if (crn_tmpl_parser_at_name(p, "is")) return crn_tmpl_parser_error(p, p->token.line, "tests with 'is' cannot be chained");
    tmpl_node *argument;
    CRN_TRY(crn_tmpl_parse_primary(p, false, &argument));
    CRN_TRY(parse_postfix(p, &argument));
    CRN_TRY(crn_tmpl_node_adopt(p, node, argument));
    CRN_TRY(crn_arena_array(p->arena, 1, sizeof(tmpl_node *), &node->apply.args.positional.items));
    node->apply.args.positional.items[0] = argument;
    node->apply.args.positional.size = 1;
  }
  *out = node;
  if (!negated) return CAIRN_OK;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_NOT, node->line, out));
  CRN_TRY(crn_tmpl_node_adopt(p, *out, node));
  (*out)->operand = node;
  return CAIRN_OK;
}

cairn_status crn_tmpl_parse_filters(tmpl_parser *p, tmpl_node *operand, bool inline_start, tmpl_node **out) {
  *out = operand;
  while (p->token.kind == TMPL_T_PIPE || inline_start) {
    if (!inline_start) CRN_TRY(crn_tmpl_parser_advance(p));
    tmpl_node *node;
    CRN_TRY(crn_tmpl_node_make(p, TMPL_N_FILTER, p->token.line, &node));
    CRN_TRY(parse_dotted_name(p, &node->apply.name));
    CRN_TRY(crn_tmpl_node_adopt(p, node, *out));
    if (p->token.kind == TMPL_T_LPAREN) CRN_TRY(crn_tmpl_parse_call_args(p, node, &node->apply.args));
    node->apply.operand = *out;
    *out = node;
    inline_start = false;
  }
  return CAIRN_OK;
}

static cairn_status parse_filter_expression(tmpl_parser *p, tmpl_node **in_out) {
  for (;;) {
    if (p->token.kind == TMPL_T_PIPE) {
      CRN_TRY(crn_tmpl_parse_filters(p, *in_out, false, in_out));
    } else if (crn_tmpl_parser_at_name(p, "is")) {
      CRN_TRY(parse_test(p, *in_out, in_out));
    } else if (p->token.kind == TMPL_T_LPAREN) {
      CRN_TRY(parse_call(p, *in_out, in_out));
    } else {
      return CAIRN_OK;
    }
  }
}

static cairn_status parse_unary(tmpl_parser *p, bool with_filter, tmpl_node **out) {
  if (p->token.kind == TMPL_T_SUB || p->token.kind == TMPL_T_ADD) {
    tmpl_node *node, *operand;
    CRN_TRY(crn_tmpl_parser_enter(p));
    CRN_TRY(crn_tmpl_node_make(p, p->token.kind == TMPL_T_SUB ? TMPL_N_NEGATE : TMPL_N_PLUS, p->token.line, &node));
    CRN_TRY(crn_tmpl_parser_advance(p));
    CRN_TRY(parse_unary(p, false, &operand));
    CRN_TRY(crn_tmpl_node_adopt(p, node, operand));
    node->operand = operand;
    p->nesting--;
    *out = node;
  } else {
    CRN_TRY(crn_tmpl_parse_primary(p, false, out));
  }
  CRN_TRY(parse_postfix(p, out));
  return with_filter ? parse_filter_expression(p, out) : CAIRN_OK;
}

// --- calls --------------------------------------------------------------------------------------------------------------

typedef struct arg_lists {
  tmpl_node_vec positional, keywords;
  CRN_VEC(const tmpl_str *) names;
} arg_lists;

static cairn_status parse_keyword(tmpl_parser *p, arg_lists *lists, tmpl_node **out_value) {
  const tmpl_str *name;
  int line = p->token.line;
  CRN_TRY(crn_tmpl_parser_name(p, &name));
  CRN_TRY(crn_tmpl_parser_advance(p));
  CRN_TRY(crn_tmpl_parse_expression(p, out_value));
  for (size_t i = 0; i < lists->names.size; i++) {
    if (lists->names.items[i] == name) {
      return crn_tmpl_parser_error(p, line, "keyword argument repeated: %.*s", (int)name->size, name->data);
    }
  }
  if (lists->names.size >= 255) return crn_tmpl_parser_error(p, line, "more than 255 keyword arguments");
  CRN_TRY(crn_vec_push(p->allocator, &lists->names, name));
  return crn_vec_push(p->allocator, &lists->keywords, *out_value);
}

static cairn_status parse_argument(tmpl_parser *p, arg_lists *lists, tmpl_call_args *out, int line, tmpl_node **out_value) {
  tmpl_token_kind kind = p->token.kind;
  bool ok = true;
  if (kind == TMPL_T_MUL || kind == TMPL_T_POW) {
    ok = !out->star_star && (kind == TMPL_T_POW || !out->star);
    CRN_TRY(crn_tmpl_parser_advance(p));
    CRN_TRY(crn_tmpl_parse_expression(p, out_value));
    *(kind == TMPL_T_MUL ? &out->star : &out->star_star) = *out_value;
  } else {
    const tmpl_token *ahead;
    CRN_TRY(crn_tmpl_parser_look(p, &ahead));
    if (kind == TMPL_T_NAME && ahead->kind == TMPL_T_ASSIGN) {
      ok = !out->star_star;
      CRN_TRY(parse_keyword(p, lists, out_value));
    } else {
      ok = !out->star && !out->star_star && !lists->keywords.size;
      CRN_TRY(crn_tmpl_parse_expression(p, out_value));
      CRN_TRY(crn_vec_push(p->allocator, &lists->positional, *out_value));
    }
  }
  return ok ? CAIRN_OK : crn_tmpl_parser_error(p, line, "invalid order of arguments in a call");
}

cairn_status crn_tmpl_parse_call_args(tmpl_parser *p, tmpl_node *owner, tmpl_call_args *out) {
  int line = p->token.line;
  arg_lists lists = {0};
  cairn_status status;
  CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_LPAREN));
  for (bool first = true; p->token.kind != TMPL_T_RPAREN; first = false) {
    if (!first) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    if (!first && p->token.kind == TMPL_T_RPAREN) break;
    tmpl_node *value = NULL;
    CRN_TRY_GOTO(parse_argument(p, &lists, out, line, &value));
    CRN_TRY_GOTO(crn_tmpl_node_adopt(p, owner, value));
  }
  CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &lists.positional, &out->positional));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &lists.keywords, &out->keywords));
  if (lists.names.size) {
    CRN_TRY_GOTO(crn_arena_array(p->arena, lists.names.size, sizeof(const tmpl_str *), &out->names));
    memcpy(out->names, lists.names.items, lists.names.size * sizeof *out->names);
  }
done:
  crn_vec_free(p->allocator, &lists.positional);
  crn_vec_free(p->allocator, &lists.keywords);
  crn_vec_free(p->allocator, &lists.names);
  return status;
}

// --- operands -------------------------------------------------------------------------------------------------------------

static cairn_status parse_name(tmpl_parser *p, bool with_namespace, tmpl_node **out) {
  static const struct {
    const char *text;
    tmpl_value value;
  } constants[] = {{"true", {.type = TMPL_BOOL, .b = true}},   {"True", {.type = TMPL_BOOL, .b = true}},
                   {"false", {.type = TMPL_BOOL, .b = false}}, {"False", {.type = TMPL_BOOL, .b = false}},
                   {"none", {.type = TMPL_NONE}},              {"None", {.type = TMPL_NONE}}};
  int line = p->token.line;
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    if (!crn_tmpl_parser_at_name(p, constants[i].text)) continue;
    CRN_TRY(crn_tmpl_parser_advance(p));
    return make_const(p, constants[i].value, line, out);
  }
  const tmpl_str *name;
  CRN_TRY(crn_tmpl_parser_name(p, &name));
  if (with_namespace && p->token.kind == TMPL_T_DOT) {
    CRN_TRY(crn_tmpl_parser_advance(p));
    CRN_TRY(crn_tmpl_node_make(p, TMPL_N_NAMESPACE_REF, line, out));
    tmpl_node *object;
    CRN_TRY(crn_tmpl_node_make(p, TMPL_N_NAME, line, &object));
    object->name.name = name;
    (*out)->attribute.object = object;
    return crn_tmpl_parser_name(p, &(*out)->attribute.name);
  }
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_NAME, line, out));
  (*out)->name.name = name;
  return CAIRN_OK;
}

// Adjacent string literals are one.
static cairn_status parse_strings(tmpl_parser *p, tmpl_node **out) {
  int line = p->token.line;
  crn_str text;
  crn_str_initialize(&text, p->allocator);
  cairn_status status = CAIRN_OK;
  const tmpl_str *s;
  while (p->token.kind == TMPL_T_STRING) {
    CRN_TRY_GOTO(crn_str_append(&text, p->token.text, p->token.size));
    CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  }
  CRN_TRY_GOTO(crn_tmpl_parser_intern(p, text.data, text.size, &s));
  CRN_TRY_GOTO(make_const(p, tmpl_string(s), line, out));
done:
  crn_str_deinitialize(&text);
  return status;
}

// `[a, b]` and `{a: b}`: items up to the closing bracket, with an optional last comma.
static cairn_status parse_items(tmpl_parser *p, tmpl_kind kind, tmpl_token_kind close, tmpl_node **out) {
  tmpl_node *node;
  tmpl_node_vec items = {0};
  cairn_status status;
  CRN_TRY(crn_tmpl_node_make(p, kind, p->token.line, &node));
  CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  for (bool first = true; p->token.kind != close; first = false) {
    if (!first) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    if (p->token.kind == close) break;
    for (int part = 0; part < (kind == TMPL_N_DICT_LITERAL ? 2 : 1); part++) {
      tmpl_node *item;
      if (part) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COLON));
      CRN_TRY_GOTO(crn_tmpl_parse_expression(p, &item));
      CRN_TRY_GOTO(crn_tmpl_node_adopt(p, node, item));
      CRN_TRY_GOTO(crn_vec_push(p->allocator, &items, item));
    }
  }
  CRN_TRY_GOTO(crn_tmpl_parser_expect(p, close));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &items, &node->list.nodes));
  *out = node;
done:
  crn_vec_free(p->allocator, &items);
  return status;
}

cairn_status crn_tmpl_parse_primary(tmpl_parser *p, bool with_namespace, tmpl_node **out) {
  tmpl_token token = p->token;
  switch (token.kind) {
    case TMPL_T_NAME: return parse_name(p, with_namespace, out);
    case TMPL_T_STRING: return parse_strings(p, out);
    case TMPL_T_INTEGER:
    case TMPL_T_FLOAT:
      CRN_TRY(crn_tmpl_parser_advance(p));
      return make_const(p, token.kind == TMPL_T_INTEGER ? tmpl_int(token.integer) : tmpl_float(token.real), token.line, out);
    case TMPL_T_LPAREN:
      CRN_TRY(crn_tmpl_parser_advance(p));
      CRN_TRY(crn_tmpl_parse_tuple(p, (tmpl_tuple_rules){.parentheses = true}, out));
      return crn_tmpl_parser_expect(p, TMPL_T_RPAREN);
    case TMPL_T_LBRACKET: return parse_items(p, TMPL_N_LIST_LITERAL, TMPL_T_RBRACKET, out);
    case TMPL_T_LBRACE: return parse_items(p, TMPL_N_DICT_LITERAL, TMPL_T_RBRACE, out);
    default: return crn_tmpl_parser_error(p, token.line, "unexpected '%s'", crn_tmpl_token_name(token.kind));
  }
}

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
