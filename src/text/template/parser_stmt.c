/// Statements.
#include <string.h>

#include "text/template/parser.h"

// --- bodies ------------------------------------------------------------------------------------------------------------

static cairn_status parse_statement(tmpl_parser *p, tmpl_node **out);

static bool at_any(const tmpl_parser *p, const char *const *names) {
  for (; names && *names; names++) {
    if (crn_tmpl_parser_at_name(p, *names)) return true;
  }
  return false;
}

// Text and printed expressions that follow each other are one OUTPUT node.
static cairn_status flush_output(tmpl_parser *p, tmpl_node_vec *output, tmpl_node_vec *body) {
  if (!output->size) return CAIRN_OK;
  tmpl_node *node;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_OUTPUT, output->items[0]->line, &node));
  CRN_TRY(crn_tmpl_nodes_finish(p, output, &node->list.nodes));
  output->size = 0;
  return crn_vec_push(p->allocator, body, node);
}

static cairn_status parse_text(tmpl_parser *p, tmpl_node_vec *output) {
  tmpl_node *node;
  tmpl_str *text;
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_TEXT, p->token.line, &node));
  CRN_TRY(crn_arena_alloc(p->arena, sizeof *text, &text));
  *text = (tmpl_str){.data = p->token.text, .size = p->token.size, .chars = p->token.size};
  node->text = text;
  CRN_TRY(crn_vec_push(p->allocator, output, node));
  return crn_tmpl_parser_advance(p);
}

static cairn_status parse_print(tmpl_parser *p, tmpl_node_vec *output) {
  tmpl_node *node;
  CRN_TRY(crn_tmpl_parser_advance(p));
  CRN_TRY(crn_tmpl_parse_tuple(p, (tmpl_tuple_rules){0}, &node));
  CRN_TRY(crn_vec_push(p->allocator, output, node));
  return crn_tmpl_parser_expect(p, TMPL_T_VARIABLE_END);
}

// Everything up to one of `ends` (which stays the current token) or the end of the template (`ends` NULL).
static cairn_status parse_until(tmpl_parser *p, const char *const *ends, tmpl_nodes *out) {
  tmpl_node_vec body = {0}, output = {0};
  cairn_status status;
  bool ended = false;
  while (!ended && p->token.kind != TMPL_T_EOF) {
    if (p->token.kind == TMPL_T_DATA) {
      CRN_TRY_GOTO(parse_text(p, &output));
    } else if (p->token.kind == TMPL_T_VARIABLE_BEGIN) {
      CRN_TRY_GOTO(parse_print(p, &output));
    } else {
      CRN_TRY_GOTO(flush_output(p, &output, &body));
      CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_BLOCK_BEGIN));
      ended = at_any(p, ends);
      if (ended) break;
      tmpl_node *statement = NULL;
      CRN_TRY_GOTO(parse_statement(p, &statement));
      if (statement) CRN_TRY_GOTO(crn_vec_push(p->allocator, &body, statement));
      CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_BLOCK_END));
    }
  }
  CRN_TRY_GOTO(flush_output(p, &output, &body));
  if (ends && !ended) CRN_TRY_GOTO(crn_tmpl_parser_error(p, p->token.line, "unexpected end of template, looking for '%s'", ends[0]));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &body, out));
done:
  crn_vec_free(p->allocator, &body);
  crn_vec_free(p->allocator, &output);
  return status;
}

// The body of a statement, from the end of its opening tag to one of `ends`, which stays the current token.
static cairn_status parse_body_until(tmpl_parser *p, const char *const *ends, tmpl_nodes *out) {
  if (p->token.kind == TMPL_T_COLON) CRN_TRY(crn_tmpl_parser_advance(p));
  CRN_TRY(crn_tmpl_parser_expect(p, TMPL_T_BLOCK_END));
  CRN_TRY(crn_tmpl_parser_enter(p));
  CRN_TRY(parse_until(p, ends, out));
  p->nesting--;
  return CAIRN_OK;
}

static cairn_status parse_body(tmpl_parser *p, const char *end, tmpl_nodes *out) {
  const char *const ends[] = {end, NULL};
  CRN_TRY(parse_body_until(p, ends, out));
  return crn_tmpl_parser_advance(p);
}

// --- targets of assignments ----------------------------------------------------------------------------------------------

static cairn_status mark_target(tmpl_parser *p, tmpl_node *node) {
  switch (node->kind) {
    case TMPL_N_NAME:
      node->name.store = true;
      return CAIRN_OK;
    case TMPL_N_NAMESPACE_REF:
      return CAIRN_OK;
    case TMPL_N_TUPLE:
      for (int i = 0; i < node->list.nodes.size; i++) CRN_TRY(mark_target(p, node->list.nodes.items[i]));
      return CAIRN_OK;
    default:
      return crn_tmpl_parser_error(p, node->line, "cannot assign to this expression");
  }
}

static cairn_status parse_target(tmpl_parser *p, bool with_namespace, tmpl_node **out) {
  tmpl_tuple_rules rules = {.targets_only = true, .with_namespace = with_namespace};
  CRN_TRY(crn_tmpl_parse_tuple(p, rules, out));
  return mark_target(p, *out);
}

// A single name that is assigned to; the names of constants are not allowed.
static cairn_status parse_target_name(tmpl_parser *p, tmpl_node **out) {
  static const char *const reserved[] = {"true", "false", "none", "True", "False", "None", NULL};
  if (at_any(p, reserved)) return crn_tmpl_parser_error(p, p->token.line, "cannot assign to '%.*s'", (int)p->token.size, p->token.text);
  CRN_TRY(crn_tmpl_node_make(p, TMPL_N_NAME, p->token.line, out));
  (*out)->name.store = true;
  return crn_tmpl_parser_name(p, &(*out)->name.name);
}

static cairn_status copy_target(tmpl_parser *p, const tmpl_node *from, tmpl_node **out) {
  CRN_TRY(crn_tmpl_node_make(p, from->kind, from->line, out));
  **out = *from;
  if (from->kind != TMPL_N_TUPLE || !from->list.nodes.size) return CAIRN_OK;
  CRN_TRY(crn_arena_array(p->arena, (size_t)from->list.nodes.size, sizeof(tmpl_node *), &(*out)->list.nodes.items));
  for (int i = 0; i < from->list.nodes.size; i++) {
    CRN_TRY(copy_target(p, from->list.nodes.items[i], &(*out)->list.nodes.items[i]));
  }
  return CAIRN_OK;
}

// --- statements ------------------------------------------------------------------------------------------------------------

static cairn_status parse_for(tmpl_parser *p, tmpl_node *node) {
  static const char *const ends[] = {"endfor", "else", NULL};
  tmpl_for *loop;
  bool has_else, has_test;
  CRN_TRY(crn_arena_alloc(p->arena, sizeof *loop, &loop));
  node->loop = loop;
  CRN_TRY(parse_target(p, false, &loop->target));
  CRN_TRY(crn_tmpl_parser_expect_name(p, "in"));
  CRN_TRY(crn_tmpl_parse_tuple(p, (tmpl_tuple_rules){.no_condition = true}, &loop->iterable));
  CRN_TRY(crn_tmpl_parser_skip_name(p, "if", &has_test));
  if (has_test) {
    CRN_TRY(crn_tmpl_parse_expression(p, &loop->test));
    CRN_TRY(copy_target(p, loop->target, &loop->test_target));
  }
  CRN_TRY(crn_tmpl_parser_skip_name(p, "recursive", &loop->recursive));
  CRN_TRY(parse_body_until(p, ends, &loop->body));
  CRN_TRY(crn_tmpl_parser_skip_name(p, "else", &has_else));
  return has_else ? parse_body(p, "endfor", &loop->otherwise) : crn_tmpl_parser_advance(p);
}

static cairn_status parse_if(tmpl_parser *p, tmpl_node *node) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  tmpl_node_vec elifs = {0};
  cairn_status status;
  CRN_TRY_GOTO(crn_arena_alloc(p->arena, sizeof *node->branch, &node->branch));
  tmpl_if *branch = node->branch;
  for (;;) {
    bool is_elif, is_else;
    CRN_TRY_GOTO(crn_tmpl_parse_tuple(p, (tmpl_tuple_rules){.no_condition = true}, &branch->test));
    CRN_TRY_GOTO(parse_body_until(p, ends, &branch->body));
    CRN_TRY_GOTO(crn_tmpl_parser_skip_name(p, "elif", &is_elif));
    if (is_elif) {
      tmpl_node *next;
      CRN_TRY_GOTO(crn_tmpl_node_make(p, TMPL_N_IF, p->token.line, &next));
      CRN_TRY_GOTO(crn_arena_alloc(p->arena, sizeof *next->branch, &next->branch));
      CRN_TRY_GOTO(crn_vec_push(p->allocator, &elifs, next));
      branch = next->branch;
      continue;
    }
    CRN_TRY_GOTO(crn_tmpl_parser_skip_name(p, "else", &is_else));
    if (is_else)
      CRN_TRY_GOTO(parse_body(p, "endif", &node->branch->otherwise));
    else
      CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
    break;
  }
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &elifs, &node->branch->elifs));
done:
  crn_vec_free(p->allocator, &elifs);
  return status;
}

static cairn_status parse_set(tmpl_parser *p, tmpl_node *node) {
  CRN_TRY(parse_target(p, true, &node->set.target));
  if (p->token.kind == TMPL_T_ASSIGN) {
    CRN_TRY(crn_tmpl_parser_advance(p));
    return crn_tmpl_parse_tuple(p, (tmpl_tuple_rules){0}, &node->set.value);
  }
  node->kind = TMPL_N_SET_BLOCK;
  CRN_TRY(crn_tmpl_parse_filters(p, NULL, false, &node->set.filter));
  return parse_body(p, "endset", &node->set.body);
}

static cairn_status add_parameter(tmpl_parser *p, tmpl_node_vec *params, tmpl_node *name) {
  name->name.param = true;
  for (size_t i = 0; i < params->size; i++) {
    if (params->items[i]->name.name == name->name.name) {
      return crn_tmpl_parser_error(p, name->line, "parameter '%.*s' is given twice", (int)name->name.name->size, name->name.name->data);
    }
  }
  // The check above is quadratic; nobody needs more parameters than this.
  if (params->size >= 255) return crn_tmpl_parser_error(p, name->line, "more than 255 parameters");
  return crn_vec_push(p->allocator, params, name);
}

static cairn_status parse_signature(tmpl_parser *p, tmpl_function *f) {
  tmpl_node_vec params = {0}, defaults = {0};
  cairn_status status;
  CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_LPAREN));
  while (p->token.kind != TMPL_T_RPAREN) {
    tmpl_node *name, *value;
    if (params.size) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    CRN_TRY_GOTO(parse_target_name(p, &name));
    if (p->token.kind == TMPL_T_ASSIGN) {
      CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
      CRN_TRY_GOTO(crn_tmpl_parse_expression(p, &value));
      CRN_TRY_GOTO(crn_vec_push(p->allocator, &defaults, value));
    } else if (defaults.size) {
      CRN_TRY_GOTO(crn_tmpl_parser_error(p, name->line, "a parameter without default follows one with a default"));
    }
    CRN_TRY_GOTO(add_parameter(p, &params, name));
  }
  CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &params, &f->params));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &defaults, &f->defaults));
done:
  crn_vec_free(p->allocator, &params);
  crn_vec_free(p->allocator, &defaults);
  return status;
}

static cairn_status make_function(tmpl_parser *p, tmpl_function **out) {
  CRN_TRY(crn_arena_alloc(p->arena, sizeof **out, out));
  (*out)->caller_slot = (*out)->kwargs_slot = (*out)->varargs_slot = -1;
  return CAIRN_OK;
}

static cairn_status parse_macro(tmpl_parser *p, tmpl_node *node) {
  tmpl_node *name;
  CRN_TRY(make_function(p, &node->macro.function));
  CRN_TRY(parse_target_name(p, &name));
  node->macro.function->name = name->name.name;
  CRN_TRY(parse_signature(p, node->macro.function));
  return parse_body(p, "endmacro", &node->macro.function->body);
}

static cairn_status parse_call_block(tmpl_parser *p, tmpl_node *node) {
  CRN_TRY(make_function(p, &node->macro.function));
  if (p->token.kind == TMPL_T_LPAREN) CRN_TRY(parse_signature(p, node->macro.function));
  CRN_TRY(crn_tmpl_parse_expression(p, &node->macro.call));
  if (node->macro.call->kind != TMPL_N_CALL) return crn_tmpl_parser_error(p, node->line, "expected a call");
  return parse_body(p, "endcall", &node->macro.function->body);
}

// {% generation %} marks what an assistant wrote. It has no effect on the text, but its body is a function of its own.
static cairn_status parse_generation(tmpl_parser *p, tmpl_node *node) {
  CRN_TRY(make_function(p, &node->macro.function));
  return parse_body(p, "endgeneration", &node->macro.function->body);
}

static cairn_status parse_filter_block(tmpl_parser *p, tmpl_node *node) {
  CRN_TRY(crn_tmpl_parse_filters(p, NULL, true, &node->filter_block.filter));
  return parse_body(p, "endfilter", &node->filter_block.body);
}

static void mark_parameters(tmpl_node *target) {
  if (target->kind == TMPL_N_NAME) target->name.param = true;
  if (target->kind != TMPL_N_TUPLE) return;
  for (int i = 0; i < target->list.nodes.size; i++) mark_parameters(target->list.nodes.items[i]);
}

static cairn_status parse_with(tmpl_parser *p, tmpl_node *node) {
  tmpl_node_vec targets = {0}, values = {0};
  cairn_status status = CAIRN_OK;
  while (p->token.kind != TMPL_T_BLOCK_END) {
    tmpl_node *target, *value;
    if (targets.size) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    CRN_TRY_GOTO(parse_target(p, false, &target));
    mark_parameters(target);
    CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_ASSIGN));
    CRN_TRY_GOTO(crn_tmpl_parse_expression(p, &value));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &targets, target));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &values, value));
  }
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &targets, &node->with.targets));
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &values, &node->with.values));
  CRN_TRY_GOTO(parse_body(p, "endwith", &node->with.body));
done:
  crn_vec_free(p->allocator, &targets);
  crn_vec_free(p->allocator, &values);
  return status;
}

static cairn_status parse_autoescape(tmpl_parser *p, tmpl_node *node) {
  tmpl_node *value;
  CRN_TRY(crn_tmpl_parse_expression(p, &value));
  if (value->kind != TMPL_N_CONST || value->constant.type != TMPL_BOOL || value->constant.b) {
    return CRN_FAIL(UNSUPPORTED, "%s: line %d: only 'autoescape false' is supported; use the 'e' filter", p->what, node->line);
  }
  return parse_body(p, "endautoescape", &node->with.body);
}

// A required block may hold nothing but whitespace and comments; it only makes sense in a parent template.
static bool is_blank(const tmpl_nodes *body) {
  for (int i = 0; i < body->size; i++) {
    if (body->items[i]->kind != TMPL_N_OUTPUT) return false;
    const tmpl_nodes *parts = &body->items[i]->list.nodes;
    for (int k = 0; k < parts->size; k++) {
      if (parts->items[k]->kind != TMPL_N_TEXT) return false;
      const tmpl_str *text = parts->items[k]->text;
      for (size_t c = 0; c < text->size; c++) {
        if (!strchr(" \t\r\n\v\f", text->data[c])) return false;
      }
    }
  }
  return true;
}

static cairn_status parse_block(tmpl_parser *p, tmpl_node *node) {
  tmpl_block *block;
  bool skipped;
  CRN_TRY(crn_arena_alloc(p->arena, sizeof *block, &block));
  block->self_slot = block->super_slot = -1;
  node->block = block;
  CRN_TRY(crn_tmpl_parser_name(p, &block->name));
  CRN_TRY(crn_tmpl_parser_skip_name(p, "scoped", &block->scoped));
  CRN_TRY(crn_tmpl_parser_skip_name(p, "required", &block->required));
  for (size_t i = 0; i < p->blocks.size; i++) {
    if (p->blocks.items[i]->name == block->name) {
      return crn_tmpl_parser_error(p, node->line, "block '%.*s' is defined twice", (int)block->name->size, block->name->data);
    }
  }
  if (p->blocks.size >= 255) return crn_tmpl_parser_error(p, node->line, "more than 255 blocks");
  CRN_TRY(crn_vec_push(p->allocator, &p->blocks, block));
  CRN_TRY(parse_body(p, "endblock", &block->body));
  if (block->required && !is_blank(&block->body)) {
    return crn_tmpl_parser_error(p, node->line, "a required block can only hold comments or whitespace");
  }
  if (p->token.kind == TMPL_T_NAME && p->token.size == block->name->size && !memcmp(p->token.text, block->name->data, p->token.size)) {
    CRN_TRY(crn_tmpl_parser_skip_name(p, block->name->data, &skipped));
  }
  return CAIRN_OK;
}

// {% print a, b %}
static cairn_status parse_print_statement(tmpl_parser *p, tmpl_node *node) {
  tmpl_node_vec parts = {0};
  cairn_status status = CAIRN_OK;
  while (p->token.kind != TMPL_T_BLOCK_END) {
    tmpl_node *part;
    if (parts.size) CRN_TRY_GOTO(crn_tmpl_parser_expect(p, TMPL_T_COMMA));
    CRN_TRY_GOTO(crn_tmpl_parse_expression(p, &part));
    CRN_TRY_GOTO(crn_vec_push(p->allocator, &parts, part));
  }
  CRN_TRY_GOTO(crn_tmpl_nodes_finish(p, &parts, &node->list.nodes));
done:
  crn_vec_free(p->allocator, &parts);
  return status;
}

static cairn_status parse_nothing(tmpl_parser *p, tmpl_node *node) {
  (void)p;
  (void)node;
  return CAIRN_OK;
}

static cairn_status refuse_other_templates(tmpl_parser *p, tmpl_node *node) {
  return CRN_FAIL(UNSUPPORTED, "%s: line %d: a chat template cannot use other templates (include, import, from, extends)", p->what,
                  node->line);
}

typedef struct statement {
  const char *name;
  tmpl_kind kind;
  cairn_status (*parse)(tmpl_parser *p, tmpl_node *node);
} statement;

static const statement g_statements[] = {
    {"for", TMPL_N_FOR, parse_for},
    {"if", TMPL_N_IF, parse_if},
    {"set", TMPL_N_SET, parse_set},
    {"macro", TMPL_N_MACRO, parse_macro},
    {"call", TMPL_N_CALL_BLOCK, parse_call_block},
    {"generation", TMPL_N_CALL_BLOCK, parse_generation},
    {"filter", TMPL_N_FILTER_BLOCK, parse_filter_block},
    {"with", TMPL_N_WITH, parse_with},
    {"autoescape", TMPL_N_SCOPE, parse_autoescape},
    {"block", TMPL_N_BLOCK, parse_block},
    {"print", TMPL_N_OUTPUT, parse_print_statement},
    {"break", TMPL_N_BREAK, parse_nothing},
    {"continue", TMPL_N_CONTINUE, parse_nothing},
    {"include", TMPL_N_OUTPUT, refuse_other_templates},
    {"import", TMPL_N_OUTPUT, refuse_other_templates},
    {"from", TMPL_N_OUTPUT, refuse_other_templates},
    {"extends", TMPL_N_OUTPUT, refuse_other_templates},
};

static cairn_status parse_statement(tmpl_parser *p, tmpl_node **out) {
  tmpl_token token = p->token;
  if (token.kind != TMPL_T_NAME) return crn_tmpl_parser_error(p, token.line, "a statement must start with its name");
  for (size_t i = 0; i < sizeof g_statements / sizeof *g_statements; i++) {
    if (!crn_tmpl_parser_at_name(p, g_statements[i].name)) continue;
    CRN_TRY(crn_tmpl_node_make(p, g_statements[i].kind, token.line, out));
    CRN_TRY(crn_tmpl_parser_advance(p));
    return g_statements[i].parse(p, *out);
  }
  return crn_tmpl_parser_error(p, token.line, "unknown tag '%.*s'", (int)token.size, token.text);
}

cairn_status crn_tmpl_parse_all(tmpl_parser *p, tmpl_nodes *out) { return parse_until(p, NULL, out); }
