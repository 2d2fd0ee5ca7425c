/// Operands of expressions and what follows them: attributes, subscripts, calls, filters, tests.
#include <string.h>

#include "base/str.h"
#include "text/template/parser.h"

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
      case TMPL_T_DOT:
        CRN_TRY(parse_dot(p, *in_out, in_out));
        break;
      case TMPL_T_LBRACKET:
        CRN_TRY(parse_brackets(p, *in_out, in_out));
        break;
      case TMPL_T_LPAREN:
        CRN_TRY(parse_call(p, *in_out, in_out));
        break;
      default:
        return CAIRN_OK;
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
    case TMPL_T_LBRACE:
      return true;
    default:
      return false;
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

cairn_status crn_tmpl_parse_operand(tmpl_parser *p, tmpl_node **out) { return parse_unary(p, true, out); }

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
  } constants[] = {{"true", {.type = TMPL_BOOL, .b = true}},
                   {"True", {.type = TMPL_BOOL, .b = true}},
                   {"false", {.type = TMPL_BOOL, .b = false}},
                   {"False", {.type = TMPL_BOOL, .b = false}},
                   {"none", {.type = TMPL_NONE}},
                   {"None", {.type = TMPL_NONE}}};
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
    case TMPL_T_NAME:
      return parse_name(p, with_namespace, out);
    case TMPL_T_STRING:
      return parse_strings(p, out);
    case TMPL_T_INTEGER:
    case TMPL_T_FLOAT:
      CRN_TRY(crn_tmpl_parser_advance(p));
      return make_const(p, token.kind == TMPL_T_INTEGER ? tmpl_int(token.integer) : tmpl_float(token.real), token.line, out);
    case TMPL_T_LPAREN:
      CRN_TRY(crn_tmpl_parser_advance(p));
      CRN_TRY(crn_tmpl_parse_tuple(p, (tmpl_tuple_rules){.parentheses = true}, out));
      return crn_tmpl_parser_expect(p, TMPL_T_RPAREN);
    case TMPL_T_LBRACKET:
      return parse_items(p, TMPL_N_LIST_LITERAL, TMPL_T_RBRACKET, out);
    case TMPL_T_LBRACE:
      return parse_items(p, TMPL_N_DICT_LITERAL, TMPL_T_RBRACE, out);
    default:
      return crn_tmpl_parser_error(p, token.line, "unexpected '%s'", crn_tmpl_token_name(token.kind));
  }
}
