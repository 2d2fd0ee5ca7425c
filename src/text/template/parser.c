#include "text/template/parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

cairn_status crn_tmpl_parser_error(const tmpl_parser *p, int line, const char *fmt, ...) {
  char text[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return CRN_FAIL(CORRUPT, "%s: line %d: %s", p->what, line, text);
}

cairn_status crn_tmpl_parser_enter(tmpl_parser *p) {
  if (++p->nesting <= TMPL_MAX_NESTING) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "%s: line %d: nested deeper than %d levels", p->what, p->token.line, TMPL_MAX_NESTING);
}

cairn_status crn_tmpl_parser_advance(tmpl_parser *p) {
  if (p->has_ahead) {
    p->token = p->ahead;
    p->has_ahead = false;
    return CAIRN_OK;
  }
  return crn_tmpl_lexer_next(&p->lexer, &p->token);
}

cairn_status crn_tmpl_parser_look(tmpl_parser *p, const tmpl_token **out) {
  if (!p->has_ahead) CRN_TRY(crn_tmpl_lexer_next(&p->lexer, &p->ahead));
  p->has_ahead = true;
  *out = &p->ahead;
  return CAIRN_OK;
}

bool crn_tmpl_parser_at_name(const tmpl_parser *p, const char *name) {
  return p->token.kind == TMPL_T_NAME && p->token.size == strlen(name) && !memcmp(p->token.text, name, p->token.size);
}

static cairn_status unexpected(const tmpl_parser *p, const char *wanted) {
  if (p->token.kind == TMPL_T_EOF) return crn_tmpl_parser_error(p, p->token.line, "unexpected end of template, expected '%s'", wanted);
  bool named = p->token.kind == TMPL_T_NAME;
  return crn_tmpl_parser_error(p, p->token.line, "expected '%s', got '%.*s'", wanted,
                               named ? (int)p->token.size : (int)strlen(crn_tmpl_token_name(p->token.kind)),
                               named ? p->token.text : crn_tmpl_token_name(p->token.kind));
}

cairn_status crn_tmpl_parser_expect(tmpl_parser *p, tmpl_token_kind kind) {
  if (p->token.kind != kind) return unexpected(p, crn_tmpl_token_name(kind));
  return crn_tmpl_parser_advance(p);
}

cairn_status crn_tmpl_parser_expect_name(tmpl_parser *p, const char *name) {
  if (!crn_tmpl_parser_at_name(p, name)) return unexpected(p, name);
  return crn_tmpl_parser_advance(p);
}

cairn_status crn_tmpl_parser_skip_name(tmpl_parser *p, const char *name, bool *out_skipped) {
  *out_skipped = crn_tmpl_parser_at_name(p, name);
  return *out_skipped ? crn_tmpl_parser_advance(p) : CAIRN_OK;
}

cairn_status crn_tmpl_parser_intern(tmpl_parser *p, const char *text, size_t n, const tmpl_str **out) {
  uint64_t found;
  if (crn_map_get(&p->names, text, n, &found)) {
    *out = (const tmpl_str *)(uintptr_t)found;
    return CAIRN_OK;
  }
  tmpl_str *s;
  CRN_TRY(crn_arena_alloc(p->arena, sizeof *s, &s));
  CRN_TRY(crn_arena_strndup(p->arena, text, n, &s->data));
  s->size = n;
  s->chars = TMPL_CHARS_UNKNOWN;
  // Threads share the string, so nothing may be left to be computed later.
  s->chars = crn_tmpl_str_chars(s);
  CRN_TRY(crn_map_set(&p->names, text, n, (uint64_t)(uintptr_t)s));
  *out = s;
  return CAIRN_OK;
}

cairn_status crn_tmpl_parser_name(tmpl_parser *p, const tmpl_str **out) {
  if (p->token.kind != TMPL_T_NAME) return unexpected(p, "name");
  CRN_TRY(crn_tmpl_parser_intern(p, p->token.text, p->token.size, out));
  return crn_tmpl_parser_advance(p);
}

cairn_status crn_tmpl_node_make(tmpl_parser *p, tmpl_kind kind, int line, tmpl_node **out) {
  CRN_TRY(crn_arena_alloc(p->arena, sizeof **out, out));
  (*out)->kind = kind;
  (*out)->line = line;
  (*out)->height = 1;
  return CAIRN_OK;
}

cairn_status crn_tmpl_node_adopt(tmpl_parser *p, tmpl_node *node, const tmpl_node *child) {
  if (child && child->height >= node->height) node->height = child->height + 1;
  if (node->height <= TMPL_MAX_TREE_HEIGHT) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "%s: line %d: an expression of more than %d levels", p->what, node->line, TMPL_MAX_TREE_HEIGHT);
}

cairn_status crn_tmpl_nodes_finish(tmpl_parser *p, const tmpl_node_vec *vec, tmpl_nodes *out) {
  *out = (tmpl_nodes){0};
  if (!vec->size) return CAIRN_OK;
  CRN_TRY(crn_arena_array(p->arena, vec->size, sizeof *vec->items, &out->items));
  memcpy(out->items, vec->items, vec->size * sizeof *vec->items);
  out->size = (int)vec->size;
  return CAIRN_OK;
}

static cairn_status intern_special_names(tmpl_parser *p, tmpl_special_names *out) {
  CRN_TRY(crn_tmpl_parser_intern(p, "loop", 4, &out->loop));
  CRN_TRY(crn_tmpl_parser_intern(p, "caller", 6, &out->caller));
  CRN_TRY(crn_tmpl_parser_intern(p, "kwargs", 6, &out->kwargs));
  CRN_TRY(crn_tmpl_parser_intern(p, "varargs", 7, &out->varargs));
  CRN_TRY(crn_tmpl_parser_intern(p, "self", 4, &out->self));
  return crn_tmpl_parser_intern(p, "super", 5, &out->super);
}

cairn_status crn_tmpl_parse(tmpl_tree *tree, const char *source, size_t source_bytes) {
  tmpl_parser *p;
  const cairn_allocator *allocator = tree->arena->allocator;
  CRN_TRY(crn_alloc_zero(allocator, sizeof *p, &p));
  p->tree = tree;
  p->arena = tree->arena;
  p->what = tree->what;
  p->allocator = allocator;
  crn_map_initialize(&p->names, allocator);
  cairn_status status;
  CRN_TRY_GOTO(crn_tmpl_lexer_start(&p->lexer, p->arena, p->what, source, source_bytes));
  CRN_TRY_GOTO(intern_special_names(p, &tree->special));
  CRN_TRY_GOTO(crn_tmpl_parser_advance(p));
  CRN_TRY_GOTO(crn_tmpl_parse_all(p, &tree->body));
  if (p->blocks.size) {
    CRN_TRY_GOTO(crn_arena_array(p->arena, p->blocks.size, sizeof *tree->blocks, &tree->blocks));
    memcpy(tree->blocks, p->blocks.items, p->blocks.size * sizeof *tree->blocks);
    tree->n_blocks = (int)p->blocks.size;
  }
done:
  crn_map_deinitialize(&p->names);
  crn_vec_free(allocator, &p->blocks);
  crn_free(allocator, p, sizeof *p);
  return status;
}
