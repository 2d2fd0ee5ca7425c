/// Splits a template into tokens, with the whitespace rules of trim_blocks and lstrip_blocks.
#ifndef CRN_TEXT_TEMPLATE_LEXER_H
#define CRN_TEXT_TEMPLATE_LEXER_H

#include "text/template/value.h"

typedef enum tmpl_token_kind {
  TMPL_T_EOF,
  TMPL_T_DATA,
  TMPL_T_BLOCK_BEGIN,
  TMPL_T_BLOCK_END,
  TMPL_T_VARIABLE_BEGIN,
  TMPL_T_VARIABLE_END,
  TMPL_T_NAME,
  TMPL_T_STRING,
  TMPL_T_INTEGER,
  TMPL_T_FLOAT,
  TMPL_T_ADD,
  TMPL_T_SUB,
  TMPL_T_MUL,
  TMPL_T_DIV,
  TMPL_T_FLOORDIV,
  TMPL_T_MOD,
  TMPL_T_POW,
  TMPL_T_TILDE,
  TMPL_T_LBRACKET,
  TMPL_T_RBRACKET,
  TMPL_T_LPAREN,
  TMPL_T_RPAREN,
  TMPL_T_LBRACE,
  TMPL_T_RBRACE,
  TMPL_T_EQ,
  TMPL_T_NE,
  TMPL_T_GT,
  TMPL_T_GE,
  TMPL_T_LT,
  TMPL_T_LE,
  TMPL_T_ASSIGN,
  TMPL_T_DOT,
  TMPL_T_COLON,
  TMPL_T_PIPE,
  TMPL_T_COMMA,
  TMPL_T_SEMICOLON,
} tmpl_token_kind;

typedef struct tmpl_token {
  tmpl_token_kind kind;
  int line;
  const char *text;  ///< DATA, NAME, STRING (unescaped); as written for the others
  size_t size;
  int64_t integer;
  double real;
} tmpl_token;

enum { TMPL_MAX_BRACKETS = 1000 };

typedef struct tmpl_lexer {
  crn_arena *arena;
  const char *what;
  const char *source;  ///< newlines normalised, one trailing newline dropped
  size_t size, at;
  int line;
  enum { TMPL_LEX_ROOT, TMPL_LEX_BLOCK, TMPL_LEX_VARIABLE, TMPL_LEX_COMMENT, TMPL_LEX_RAW } state;
  bool line_starting;  ///< the text before `at` ended with a newline
  bool has_pending;
  tmpl_token_kind pending;  ///< the begin token that follows the data just given
  char brackets[TMPL_MAX_BRACKETS];
  int n_brackets;
} tmpl_lexer;

/// Errors: CORRUPT (not UTF-8), UNSUPPORTED (too large), OUT_OF_MEMORY.
cairn_status crn_tmpl_lexer_start(tmpl_lexer *lx, crn_arena *arena, const char *what, const char *source, size_t size);
/// Errors: CORRUPT with the line.
cairn_status crn_tmpl_lexer_next(tmpl_lexer *lx, tmpl_token *out);
/// How a token is named in messages.
const char *crn_tmpl_token_name(tmpl_token_kind kind);

#endif
