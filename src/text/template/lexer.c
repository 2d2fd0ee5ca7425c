#include "text/template/lexer.h"

#include <string.h>

#include "base/str.h"
#include "text/template/ast.h"
#include "text/template/casing.h"
#include "text/template/literal.h"

const char *crn_tmpl_token_name(tmpl_token_kind kind) {
  static const char *const names[] = {"end of template",
                                      "template text",
                                      "begin of statement block",
                                      "end of statement block",
                                      "begin of print statement",
                                      "end of print statement",
                                      "name",
                                      "string",
                                      "integer",
                                      "float",
                                      "+",
                                      "-",
                                      "*",
                                      "/",
                                      "//",
                                      "%",
                                      "**",
                                      "~",
                                      "[",
                                      "]",
                                      "(",
                                      ")",
                                      "{",
                                      "}",
                                      "==",
                                      "!=",
                                      ">",
                                      ">=",
                                      "<",
                                      "<=",
                                      "=",
                                      ".",
                                      ":",
                                      "|",
                                      ",",
                                      ";"};
  return names[kind];
}

static cairn_status bad(const tmpl_lexer *lx, int line, const char *message) {
  return CRN_FAIL(CORRUPT, "%s: line %d: %s", lx->what, line, message);
}

static bool valid_utf8(const char *text, size_t size) {
  for (const char *p = text, *end = text + size; p < end;) {
    uint32_t code;
    bool valid;
    p += crn_utf8_decode(p, end, &code, &valid);
    if (!valid) return false;
  }
  return true;
}

cairn_status crn_tmpl_lexer_start(tmpl_lexer *lx, crn_arena *arena, const char *what, const char *source, size_t size) {
  *lx = (tmpl_lexer){.arena = arena, .what = what, .line = 1, .line_starting = true};
  if (size > TMPL_MAX_SOURCE_BYTES) {
    return CRN_FAIL(UNSUPPORTED, "%s: a template of %zu bytes; at most %d are accepted", what, size, TMPL_MAX_SOURCE_BYTES);
  }
  if (!valid_utf8(source, size)) return CRN_FAIL(CORRUPT, "%s: a template must be UTF-8 text", what);
  char *copy;
  CRN_TRY(crn_arena_alloc(arena, size + 1, &copy));
  size_t n = 0;
  for (size_t i = 0; i < size; i++) {
    if (source[i] == '\r') {
      if (i + 1 < size && source[i + 1] == '\n') continue;
      copy[n++] = '\n';
    } else {
      copy[n++] = source[i];
    }
  }
  if (n && copy[n - 1] == '\n') n--;
  lx->source = copy;
  lx->size = n;
  return CAIRN_OK;
}

static char peek(const tmpl_lexer *lx, size_t ahead) { return lx->size - lx->at > ahead ? lx->source[lx->at + ahead] : 0; }

static bool follows(const tmpl_lexer *lx, size_t at, const char *text) {
  size_t n = strlen(text);
  return lx->size >= at && lx->size - at >= n && !memcmp(lx->source + at, text, n);
}

// The position behind the whitespace (in the Unicode sense) that starts at `at`.
static size_t skip_space(const tmpl_lexer *lx, size_t at) {
  while (at < lx->size) {
    uint32_t code;
    bool valid;
    int n = crn_utf8_decode(lx->source + at, lx->source + lx->size, &code, &valid);
    if (!crn_code_is_space(code)) break;
    at += (size_t)n;
  }
  return at;
}

static size_t trim_end(const char *text, size_t n) {
  while (n) {
    size_t start = n - 1;
    while (start && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
    uint32_t code;
    bool valid;
    crn_utf8_decode(text + start, text + n, &code, &valid);
    if (!crn_code_is_space(code)) break;
    n = start;
  }
  return n;
}

// Moves to `to`, counting lines and remembering whether a newline was the last thing passed.
static void advance(tmpl_lexer *lx, size_t to) {
  for (size_t i = lx->at; i < to; i++) lx->line += lx->source[i] == '\n';
  if (to > lx->at) lx->line_starting = lx->source[to - 1] == '\n';
  lx->at = to;
}

// How much of the text before a tag is kept: all, or without the whitespace that the tag removes.
static size_t kept_text(const tmpl_lexer *lx, size_t to, char sign, bool is_variable) {
  const char *text = lx->source + lx->at;
  size_t n = to - lx->at;
  if (sign == '-') return trim_end(text, n);
  if (sign == '+' || is_variable) return n;
  size_t line = n;
  while (line && text[line - 1] != '\n') line--;
  if (line == 0 && !lx->line_starting) return n;
  return trim_end(text + line, n - line) == 0 ? line : n;
}

static bool give_data(tmpl_lexer *lx, size_t to, size_t kept, tmpl_token *out) {
  *out = (tmpl_token){.kind = TMPL_T_DATA, .line = lx->line, .text = lx->source + lx->at, .size = kept};
  advance(lx, to);
  return kept > 0;
}

// `{% raw %}` at `at`: returns the position behind it, or 0 when it is something else.
static size_t match_raw_begin(const tmpl_lexer *lx, size_t at) {
  size_t p = at + 2;
  if (p < lx->size && (lx->source[p] == '-' || lx->source[p] == '+')) p++;
  p = skip_space(lx, p);
  if (!follows(lx, p, "raw")) return 0;
  p = skip_space(lx, p + 3);
  if (follows(lx, p, "-%}")) return skip_space(lx, p + 3);
  return follows(lx, p, "%}") ? p + 2 : 0;
}

// The end of a statement at `at`: `%}` with the newline that trim_blocks removes, `-%}` with all whitespace, or `+%}`.
static size_t match_block_end(const tmpl_lexer *lx, size_t at, const char *mark) {
  if (at < lx->size && lx->source[at] == '+' && follows(lx, at + 1, mark)) return at + 3;
  if (at < lx->size && lx->source[at] == '-' && follows(lx, at + 1, mark)) return skip_space(lx, at + 3);
  if (!follows(lx, at, mark)) return 0;
  return at + 2 < lx->size && lx->source[at + 2] == '\n' ? at + 3 : at + 2;
}

static size_t match_raw_end(const tmpl_lexer *lx, size_t at, char *out_sign) {
  if (!follows(lx, at, "{%")) return 0;
  size_t p = at + 2;
  *out_sign = 0;
  if (p < lx->size && (lx->source[p] == '-' || lx->source[p] == '+')) *out_sign = lx->source[p++];
  p = skip_space(lx, p);
  if (!follows(lx, p, "endraw")) return 0;
  return match_block_end(lx, skip_space(lx, p + 6), "%}");
}

// Template text up to the next tag. False: the tag follows without text.
static bool next_root(tmpl_lexer *lx, tmpl_token *out) {
  size_t at = lx->at;
  for (;; at++) {
    const char *brace = at < lx->size ? memchr(lx->source + at, '{', lx->size - at) : NULL;
    if (!brace) {
      lx->has_pending = true;
      lx->pending = TMPL_T_EOF;
      return give_data(lx, lx->size, lx->size - lx->at, out);
    }
    at = (size_t)(brace - lx->source);
    char kind = at + 1 < lx->size ? lx->source[at + 1] : 0;
    if (kind == '%' || kind == '{' || kind == '#') break;
  }
  char kind = lx->source[at + 1];
  char sign = at + 2 < lx->size ? lx->source[at + 2] : 0;
  if (sign != '-' && sign != '+') sign = 0;
  size_t raw = kind == '%' ? match_raw_begin(lx, at) : 0;
  bool any = give_data(lx, at, kept_text(lx, at, sign, kind == '{'), out);
  advance(lx, raw ? raw : at + 2 + (sign != 0));
  lx->n_brackets = 0;
  if (raw || kind == '#') {
    lx->state = raw ? TMPL_LEX_RAW : TMPL_LEX_COMMENT;
  } else {
    lx->state = kind == '%' ? TMPL_LEX_BLOCK : TMPL_LEX_VARIABLE;
    lx->has_pending = true;
    lx->pending = kind == '%' ? TMPL_T_BLOCK_BEGIN : TMPL_T_VARIABLE_BEGIN;
  }
  return any;
}

static cairn_status skip_comment(tmpl_lexer *lx) {
  for (size_t at = lx->at; at < lx->size; at++) {
    size_t end = match_block_end(lx, at, "#}");
    if (!end) continue;
    advance(lx, end);
    lx->state = TMPL_LEX_ROOT;
    return CAIRN_OK;
  }
  return bad(lx, lx->line, "missing end of comment, '#}'");
}

static cairn_status next_raw(tmpl_lexer *lx, tmpl_token *out, bool *out_any) {
  for (size_t at = lx->at; at < lx->size; at++) {
    char sign;
    size_t end = match_raw_end(lx, at, &sign);
    if (!end) continue;
    *out_any = give_data(lx, at, kept_text(lx, at, sign, false), out);
    advance(lx, end);
    lx->state = TMPL_LEX_ROOT;
    return CAIRN_OK;
  }
  return bad(lx, lx->line, "missing end of raw block, '{% endraw %}'");
}

static bool match_operator(const tmpl_lexer *lx, tmpl_token_kind *out_kind, size_t *out_size) {
  for (int length = 2; length >= 1; length--) {
    for (int kind = TMPL_T_ADD; kind <= TMPL_T_SEMICOLON; kind++) {
      const char *text = crn_tmpl_token_name((tmpl_token_kind)kind);
      if (strlen(text) != (size_t)length || !follows(lx, lx->at, text)) continue;
      *out_kind = (tmpl_token_kind)kind;
      *out_size = (size_t)length;
      return true;
    }
  }
  return false;
}

// Brackets must balance; inside of them `}}` and `%}` are operators, not the end of the tag.
static cairn_status track_bracket(tmpl_lexer *lx, char c) {
  const char *opening = "([{", *closing = ")]}";
  const char *open = c ? strchr(opening, c) : NULL, *close = c ? strchr(closing, c) : NULL;
  if (open) {
    if (lx->n_brackets == TMPL_MAX_BRACKETS) return CRN_FAIL(UNSUPPORTED, "%s: line %d: brackets nested too deeply", lx->what, lx->line);
    lx->brackets[lx->n_brackets++] = closing[open - opening];
  } else if (close) {
    if (!lx->n_brackets) return CRN_FAIL(CORRUPT, "%s: line %d: unexpected '%c'", lx->what, lx->line, c);
    char expected = lx->brackets[--lx->n_brackets];
    if (expected != c) return CRN_FAIL(CORRUPT, "%s: line %d: unexpected '%c', expected '%c'", lx->what, lx->line, c, expected);
  }
  return CAIRN_OK;
}

static cairn_status lex_name(tmpl_lexer *lx, tmpl_token *out, bool *out_matched) {
  const char *text = lx->source + lx->at, *end = lx->source + lx->size, *p = text;
  bool identifier = true;
  while (p < end) {
    uint32_t code;
    bool valid;
    int n = crn_utf8_decode(p, end, &code, &valid);
    if (!crn_code_is_word(code) && !crn_code_is_identifier(code, false)) break;
    identifier = identifier && crn_code_is_identifier(code, p == text);
    p += n;
  }
  *out_matched = p > text;
  if (!*out_matched) return CAIRN_OK;
  *out = (tmpl_token){.kind = TMPL_T_NAME, .line = lx->line, .text = text, .size = (size_t)(p - text)};
  if (!identifier) return bad(lx, lx->line, "invalid character in a name");
  lx->at += out->size;
  return CAIRN_OK;
}

static cairn_status lex_string(tmpl_lexer *lx, tmpl_token *out) {
  char quote = lx->source[lx->at];
  size_t end = lx->at + 1;
  while (end < lx->size && lx->source[end] != quote) end += lx->source[end] == '\\' ? 2 : 1;
  if (end >= lx->size) return CRN_FAIL(CORRUPT, "%s: line %d: unexpected char '%c': the string has no end", lx->what, lx->line, quote);
  *out = (tmpl_token){.kind = TMPL_T_STRING, .line = lx->line};
  const char *problem = NULL;
  CRN_TRY(crn_tmpl_unescape(lx->arena, lx->source + lx->at + 1, end - lx->at - 1, &out->text, &out->size, &problem));
  if (problem) return bad(lx, lx->line, problem);
  advance(lx, end + 1);
  return CAIRN_OK;
}

static cairn_status lex_number(tmpl_lexer *lx, tmpl_token *out) {
  *out = (tmpl_token){.line = lx->line, .text = lx->source + lx->at};
  bool is_float = false, fits = true;
  // A float does not start directly behind a dot: `a.1.5` is the item 1 of a, then a dot.
  bool after_dot = lx->at > 0 && lx->source[lx->at - 1] == '.';
  out->size = crn_tmpl_scan_number(lx->source + lx->at, lx->size - lx->at, !after_dot, &is_float, &out->integer, &out->real, &fits);
  out->kind = is_float ? TMPL_T_FLOAT : TMPL_T_INTEGER;
  if (!fits) return bad(lx, lx->line, "an integer does not fit in 64 bits");
  lx->at += out->size;
  return CAIRN_OK;
}

static cairn_status next_in_tag(tmpl_lexer *lx, tmpl_token *out) {
  bool is_block = lx->state == TMPL_LEX_BLOCK;
  advance(lx, skip_space(lx, lx->at));
  *out = (tmpl_token){.kind = TMPL_T_EOF, .line = lx->line};
  if (lx->at >= lx->size) return CAIRN_OK;
  if (!lx->n_brackets) {
    size_t end = 0;
    if (is_block)
      end = match_block_end(lx, lx->at, "%}");
    else if (follows(lx, lx->at, "-}}"))
      end = skip_space(lx, lx->at + 3);
    else if (follows(lx, lx->at, "}}"))
      end = lx->at + 2;
    if (end) {
      out->kind = is_block ? TMPL_T_BLOCK_END : TMPL_T_VARIABLE_END;
      advance(lx, end);
      lx->state = TMPL_LEX_ROOT;
      return CAIRN_OK;
    }
  }
  char c = peek(lx, 0);
  if (c >= '0' && c <= '9') return lex_number(lx, out);
  bool matched;
  CRN_TRY(lex_name(lx, out, &matched));
  if (matched) return CAIRN_OK;
  if (c == '\'' || c == '"') return lex_string(lx, out);
  size_t size;
  if (!match_operator(lx, &out->kind, &size)) {
    uint32_t code;
    bool valid;
    int n = crn_utf8_decode(lx->source + lx->at, lx->source + lx->size, &code, &valid);
    return CRN_FAIL(CORRUPT, "%s: line %d: unexpected char '%.*s'", lx->what, lx->line, n, lx->source + lx->at);
  }
  CRN_TRY(track_bracket(lx, c));
  out->text = lx->source + lx->at;
  out->size = size;
  lx->at += size;
  return CAIRN_OK;
}

cairn_status crn_tmpl_lexer_next(tmpl_lexer *lx, tmpl_token *out) {
  for (;;) {
    if (lx->has_pending) {
      // The end of the text stays pending, so that asking again gives it again.
      lx->has_pending = lx->pending == TMPL_T_EOF;
      *out = (tmpl_token){.kind = lx->pending, .line = lx->line};
      return CAIRN_OK;
    }
    bool any = false;
    switch (lx->state) {
      case TMPL_LEX_ROOT:
        any = next_root(lx, out);
        break;
      case TMPL_LEX_COMMENT:
        // Jinja does not miss the end of a comment or raw block that starts where the template ends.
        if (lx->at == lx->size)
          lx->state = TMPL_LEX_ROOT;
        else
          CRN_TRY(skip_comment(lx));
        break;
      case TMPL_LEX_RAW:
        if (lx->at == lx->size)
          lx->state = TMPL_LEX_ROOT;
        else
          CRN_TRY(next_raw(lx, out, &any));
        break;
      case TMPL_LEX_BLOCK:
      case TMPL_LEX_VARIABLE:
        return next_in_tag(lx, out);
    }
    if (any) return CAIRN_OK;
  }
}
