#include "text/dialogue/literal.h"

#include <string.h>

#include "text/dialogue/literal_word.h"

enum {
  STATE_VALUE,           // a value is expected
  STATE_VALUE_OR_CLOSE,  // … or the end of the list
  STATE_KEY,             // a key is expected
  STATE_KEY_OR_CLOSE,    // … or the end of the object
  STATE_COLON,
  STATE_NEXT,     // a comma or an end
  STATE_OPENING,  // the delimiter of a string has begun
  STATE_STRING,
  STATE_QUOTED_TWICE,  // Python: an empty string, or the start of one in three quotes
  STATE_ESCAPE,
  STATE_DIGITS,
  STATE_SECOND_HALF,  // a backslash of the second half of a pair may follow
  STATE_SECOND_HALF_U,
  STATE_WORD
};

void crn_literal_initialize(crn_literal *l, const cairn_allocator *allocator) {
  *l = (crn_literal){.delimiter = ""};
  crn_str_initialize(&l->word, allocator);
}

void crn_literal_deinitialize(crn_literal *l) { crn_str_deinitialize(&l->word); }

void crn_literal_start(crn_literal *l, crn_dialect dialect, const char *delimiter, int max_depth) {
  crn_str_clear(&l->word);
  l->dialect = dialect;
  l->delimiter = delimiter;
  l->max_depth = max_depth < CRN_LITERAL_MAX_DEPTH ? max_depth : CRN_LITERAL_MAX_DEPTH;
  l->depth = 0;
  l->state = STATE_VALUE;
  l->is_key = false;
  l->comma_due = false;
  l->n_pending = 0;
  l->high = 0;
}

cairn_status crn_literal_start_arguments(crn_literal *l, int max_depth, crn_str *out) {
  crn_literal_start(l, CRN_DIALECT_PYTHON, "", max_depth);
  l->stack[l->depth++] = 'k';
  l->state = STATE_KEY_OR_CLOSE;
  return crn_str_putc(out, '{');
}

// --- characters of strings ------------------------------------------------------------------------------------------

// Bytes that form no character become U+FFFD.
static cairn_status put_byte(crn_literal *l, char byte, crn_str *out) {
  if (!l->n_pending && (unsigned char)byte < 0x80) return crn_literal_put_code(out, (unsigned char)byte);
  l->pending[l->n_pending++] = byte;
  while (l->n_pending && (int)crn_utf8_incomplete_tail(l->pending, (size_t)l->n_pending) < l->n_pending) {
    uint32_t code;
    bool valid;
    int used = crn_utf8_decode(l->pending, l->pending + l->n_pending, &code, &valid);
    CRN_TRY(crn_literal_put_code(out, code));
    l->n_pending -= used;
    memmove(l->pending, l->pending + used, (size_t)l->n_pending);
  }
  return CAIRN_OK;
}

// Before anything that is no byte of the text.
static cairn_status end_character(crn_literal *l, crn_str *out) {
  if (!l->n_pending) return CAIRN_OK;
  l->n_pending = 0;
  return crn_literal_put_code(out, 0xFFFD);
}

static cairn_status put_code(crn_literal *l, uint32_t code, crn_str *out) {
  CRN_TRY(end_character(l, out));
  bool is_character = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return crn_literal_put_code(out, is_character ? code : 0xFFFD);
}

static crn_literal_step after_value(crn_literal *l) {
  l->state = STATE_NEXT;
  return l->depth ? CRN_LITERAL_MORE : CRN_LITERAL_DONE;
}

static cairn_status end_string(crn_literal *l, crn_str *out, crn_literal_step *step) {
  CRN_TRY(end_character(l, out));
  CRN_TRY(crn_str_putc(out, '"'));
  if (l->is_key) {
    l->state = STATE_COLON;
    *step = CRN_LITERAL_MORE;
  } else {
    *step = after_value(l);
  }
  return CAIRN_OK;
}

// --- escapes --------------------------------------------------------------------------------------------------------

static cairn_status end_digits(crn_literal *l, crn_str *out) {
  uint32_t code = l->code;
  l->state = STATE_STRING;
  if (l->high && code >= 0xDC00 && code <= 0xDFFF) {
    code = 0x10000 + ((l->high - 0xD800) << 10) + (code - 0xDC00);
    l->high = 0;
    return put_code(l, code, out);
  }
  if (l->high) CRN_TRY(put_code(l, 0xFFFD, out));
  l->high = 0;
  if (l->dialect != CRN_DIALECT_PYTHON && code >= 0xD800 && code <= 0xDBFF) {
    l->high = code;
    l->state = STATE_SECOND_HALF;
    return CAIRN_OK;
  }
  return put_code(l, code, out);
}

static void start_digits(crn_literal *l, int n) {
  l->n_digits = n;
  l->code = 0;
  l->state = STATE_DIGITS;
}

static cairn_status take_digit(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  int value = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  if (value < 0) {
    *step = CRN_LITERAL_BAD;
    return CAIRN_OK;
  }
  l->code = l->code * 16 + (uint32_t)value;
  return --l->n_digits ? CAIRN_OK : end_digits(l, out);
}

static cairn_status take_escape(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  static const char kJson[] = "nrtbf\"\\/", kJsonTo[] = "\n\r\t\b\f\"\\/";
  static const char kPython[] = "nrtbf\"\\'av0", kPythonTo[] = "\n\r\t\b\f\"\\'\a\v";
  bool is_python = l->dialect == CRN_DIALECT_PYTHON;
  const char *from = is_python ? kPython : kJson, *at = c ? strchr(from, c) : NULL;
  l->state = STATE_STRING;
  CRN_TRY(end_character(l, out));
  if (at) return crn_literal_put_code(out, (unsigned char)(is_python ? kPythonTo : kJsonTo)[at - from]);
  if (c == 'u') {
    start_digits(l, 4);
  } else if (is_python && (c == 'x' || c == 'U')) {
    start_digits(l, c == 'x' ? 2 : 8);
  } else if (is_python && c != '\n') {
    // An unknown escape stands for itself; a line that ends with a backslash goes on.
    CRN_TRY(crn_literal_put_code(out, '\\'));
    return put_byte(l, c, out);
  } else if (!is_python) {
    *step = CRN_LITERAL_BAD;
  }
  return CAIRN_OK;
}

// --- strings --------------------------------------------------------------------------------------------------------

static cairn_status start_string(crn_literal *l, char quote, crn_str *out) {
  l->quote = quote;
  l->is_triple = false;
  l->has_text = false;
  l->n_quotes = 0;
  l->n_matched = 0;
  l->state = STATE_STRING;
  return crn_str_putc(out, '"');
}

// The end of a string is its delimiter of several bytes. What only begins like it belongs to the text.
static cairn_status take_delimited(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  if (c == l->delimiter[l->n_matched]) {
    if (l->delimiter[++l->n_matched]) return CAIRN_OK;
    return end_string(l, out, step);
  }
  // Delimiters start with a character they do not contain again, so at most this byte begins another one.
  for (size_t i = 0; i < l->n_matched; i++) CRN_TRY(put_byte(l, l->delimiter[i], out));
  l->n_matched = c == l->delimiter[0];
  return l->n_matched ? CAIRN_OK : put_byte(l, c, out);
}

static cairn_status take_quote(crn_literal *l, crn_str *out, crn_literal_step *step) {
  if (!l->is_triple) return end_string(l, out, step);
  if (++l->n_quotes < 3) return CAIRN_OK;
  return end_string(l, out, step);
}

static cairn_status take_string(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  if (!l->quote) return take_delimited(l, c, out, step);
  if (c == l->quote) {
    // The second of two quotes in a row may be the end of an empty string or the start of a long one.
    if (l->dialect != CRN_DIALECT_PYTHON || l->is_triple || l->has_text) return take_quote(l, out, step);
    l->state = STATE_QUOTED_TWICE;
    return CAIRN_OK;
  }
  l->has_text = true;
  for (; l->n_quotes; l->n_quotes--) CRN_TRY(crn_literal_put_code(out, (unsigned char)l->quote));
  if (c != '\\') return put_byte(l, c, out);
  l->state = STATE_ESCAPE;
  return CAIRN_OK;
}

// --- structure ------------------------------------------------------------------------------------------------------

static cairn_status open_nested(crn_literal *l, char kind, crn_str *out, crn_literal_step *step) {
  if (l->depth >= l->max_depth) {
    *step = CRN_LITERAL_DEEP;
    return CAIRN_OK;
  }
  l->stack[l->depth++] = kind;
  l->state = kind == '{' ? STATE_KEY_OR_CLOSE : STATE_VALUE_OR_CLOSE;
  return crn_str_putc(out, kind == '{' ? '{' : '[');
}

static char closer(const crn_literal *l) {
  switch (l->stack[l->depth - 1]) {
    case '{':
      return '}';
    case '[':
      return ']';
    default:
      return ')';
  }
}

static cairn_status close_nested(crn_literal *l, crn_str *out, crn_literal_step *step) {
  char kind = l->stack[--l->depth];
  l->comma_due = false;
  CRN_TRY(crn_str_putc(out, kind == '{' || kind == 'k' ? '}' : ']'));
  *step = after_value(l);
  return CAIRN_OK;
}

static bool is_object(const crn_literal *l) { return l->stack[l->depth - 1] == '{' || l->stack[l->depth - 1] == 'k'; }

static bool is_word_byte(const crn_literal *l, char c) {
  // Gemma's bare keys are names, its bare values any text up to what ends them.
  if (l->dialect == CRN_DIALECT_GEMMA) return l->is_key ? (unsigned char)c >= ' ' && !strchr(":,{}[]<>\"", c) : !strchr(",}]", c) || !c;
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '+' || c == '-' || c == '.';
}

static cairn_status start_word(crn_literal *l, char c) {
  crn_str_clear(&l->word);
  l->state = STATE_WORD;
  return crn_str_putc(&l->word, c);
}

// A comma before the end of a list says nothing, where it is allowed at all.
static cairn_status put_comma(crn_literal *l, crn_str *out) {
  if (!l->comma_due) return CAIRN_OK;
  l->comma_due = false;
  return crn_str_putc(out, ',');
}

// The first byte of a value or key.
static cairn_status start_scalar(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  if (c == '"' || (c == '\'' && l->dialect == CRN_DIALECT_PYTHON)) return start_string(l, c, out);
  if (*l->delimiter && c == l->delimiter[0]) {
    crn_str_clear(&l->word);
    l->n_matched = 1;
    l->state = STATE_OPENING;
    return crn_str_putc(&l->word, c);
  }
  bool bare_key = l->dialect == CRN_DIALECT_GEMMA || (l->depth && l->stack[l->depth - 1] == 'k');
  if ((l->is_key && !bare_key) || !is_word_byte(l, c)) {
    *step = CRN_LITERAL_BAD;
    return CAIRN_OK;
  }
  return start_word(l, c);
}

static cairn_status take_value(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  bool may_close = l->state == STATE_VALUE_OR_CLOSE;
  if (crn_is_space(c)) return CAIRN_OK;
  l->is_key = false;
  if (may_close && c == closer(l)) return close_nested(l, out, step);
  CRN_TRY(put_comma(l, out));
  if (c == '{' || c == '[') return open_nested(l, c, out, step);
  if (c == '(' && l->dialect == CRN_DIALECT_PYTHON) return open_nested(l, c, out, step);
  return start_scalar(l, c, out, step);
}

static cairn_status take_key(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  bool may_close = l->state == STATE_KEY_OR_CLOSE;
  if (crn_is_space(c)) return CAIRN_OK;
  if (may_close && c == closer(l)) return close_nested(l, out, step);
  l->is_key = true;
  CRN_TRY(put_comma(l, out));
  // Python's keyword arguments have names, not strings.
  if (l->stack[l->depth - 1] == 'k' && (c == '"' || c == '\'')) {
    *step = CRN_LITERAL_BAD;
    return CAIRN_OK;
  }
  return start_scalar(l, c, out, step);
}

static cairn_status take_next(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  if (crn_is_space(c)) return CAIRN_OK;
  if (l->depth && c == closer(l)) return close_nested(l, out, step);
  if (!l->depth || c != ',') {
    *step = CRN_LITERAL_BAD;
    return CAIRN_OK;
  }
  bool may_end = l->dialect != CRN_DIALECT_JSON;
  l->state = is_object(l) ? (may_end ? STATE_KEY_OR_CLOSE : STATE_KEY) : may_end ? STATE_VALUE_OR_CLOSE : STATE_VALUE;
  l->comma_due = true;
  return CAIRN_OK;
}

static cairn_status take_colon(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  if (crn_is_space(c)) return CAIRN_OK;
  if (c != (l->stack[l->depth - 1] == 'k' ? '=' : ':')) {
    *step = CRN_LITERAL_BAD;
    return CAIRN_OK;
  }
  l->state = STATE_VALUE;
  return crn_str_putc(out, ':');
}

// --- words ----------------------------------------------------------------------------------------------------------

static size_t trimmed_size(const crn_str *s) {
  size_t n = s->size;
  while (n && crn_is_space(s->data[n - 1])) n--;
  return n;
}

static cairn_status end_word(crn_literal *l, crn_str *out, bool *out_ok) {
  size_t n = trimmed_size(&l->word);
  *out_ok = n > 0;
  if (l->is_key) {
    l->state = STATE_COLON;
    return n ? crn_literal_text(out, l->word.data, n) : CAIRN_OK;
  }
  CRN_TRY(crn_literal_word(l->dialect, l->word.data, n, out, out_ok));
  l->state = STATE_NEXT;
  return CAIRN_OK;
}

// --- one byte -------------------------------------------------------------------------------------------------------

// What does not go on as the delimiter it began with is bare text.
static cairn_status take_opening(crn_literal *l, char c, crn_str *out) {
  if (c != l->delimiter[l->n_matched]) {
    l->state = STATE_WORD;
    return CAIRN_OK;
  }
  CRN_TRY(crn_str_putc(&l->word, c));
  return l->delimiter[++l->n_matched] ? CAIRN_OK : start_string(l, 0, out);
}

// Steps that look at a byte and may leave it to the next state. `*out_taken` tells which.
static cairn_status take_pending(crn_literal *l, char c, crn_str *out, crn_literal_step *step, bool *out_taken) {
  bool ok = true;
  *out_taken = false;
  switch (l->state) {
    case STATE_OPENING:
      *out_taken = c == l->delimiter[l->n_matched];
      return take_opening(l, c, out);
    case STATE_WORD:
      *out_taken = is_word_byte(l, c);
      if (*out_taken) return crn_str_putc(&l->word, c);
      CRN_TRY(end_word(l, out, &ok));
      if (!ok) *step = CRN_LITERAL_BAD;
      if (ok && !l->depth) *step = CRN_LITERAL_DONE_BEFORE;
      return CAIRN_OK;
    case STATE_QUOTED_TWICE:
      *out_taken = c == l->quote;
      l->is_triple = *out_taken;
      l->has_text = true;
      l->state = STATE_STRING;
      if (*out_taken) return CAIRN_OK;
      CRN_TRY(end_string(l, out, step));
      if (*step == CRN_LITERAL_DONE) *step = CRN_LITERAL_DONE_BEFORE;
      return CAIRN_OK;
    case STATE_SECOND_HALF:
    case STATE_SECOND_HALF_U:
      *out_taken = c == (l->state == STATE_SECOND_HALF ? '\\' : 'u');
      if (*out_taken && l->state == STATE_SECOND_HALF_U) start_digits(l, 4);
      if (*out_taken) {
        if (l->state == STATE_SECOND_HALF) l->state = STATE_SECOND_HALF_U;
        return CAIRN_OK;
      }
      // Half a pair without the other half.
      l->state = l->state == STATE_SECOND_HALF ? STATE_STRING : STATE_ESCAPE;
      l->high = 0;
      return put_code(l, 0xFFFD, out);
    default:
      return CAIRN_OK;
  }
}

static cairn_status take(crn_literal *l, char c, crn_str *out, crn_literal_step *step) {
  switch (l->state) {
    case STATE_VALUE:
    case STATE_VALUE_OR_CLOSE:
      return take_value(l, c, out, step);
    case STATE_KEY:
    case STATE_KEY_OR_CLOSE:
      return take_key(l, c, out, step);
    case STATE_COLON:
      return take_colon(l, c, out, step);
    case STATE_NEXT:
      return take_next(l, c, out, step);
    case STATE_STRING:
      return take_string(l, c, out, step);
    case STATE_ESCAPE:
      return take_escape(l, c, out, step);
    case STATE_DIGITS:
      return take_digit(l, c, out, step);
    default:
      *step = CRN_LITERAL_BAD;
      return CAIRN_OK;
  }
}

static bool is_pending_state(int state) {
  return state == STATE_OPENING || state == STATE_WORD || state == STATE_QUOTED_TWICE || state == STATE_SECOND_HALF ||
         state == STATE_SECOND_HALF_U;
}

cairn_status crn_literal_push(crn_literal *l, char byte, crn_str *out, crn_literal_step *out_step) {
  bool taken = false;
  *out_step = CRN_LITERAL_MORE;
  while (is_pending_state(l->state) && !taken && *out_step == CRN_LITERAL_MORE) {
    CRN_TRY(take_pending(l, byte, out, out_step, &taken));
  }
  if (taken || *out_step != CRN_LITERAL_MORE) return CAIRN_OK;
  return take(l, byte, out, out_step);
}

cairn_status crn_literal_whole(crn_literal *l, crn_dialect dialect, int max_depth, const char *text, size_t n, crn_str *out, bool *out_ok) {
  size_t start = out->size, i = 0;
  bool ended_late = false;
  crn_literal_step step = CRN_LITERAL_MORE;
  crn_literal_start(l, dialect, "", max_depth);
  for (; i < n && step == CRN_LITERAL_MORE; i++) CRN_TRY(crn_literal_push(l, text[i], out, &step));
  // A number at the end only ends with what follows it.
  if (step == CRN_LITERAL_MORE) {
    ended_late = true;
    CRN_TRY(crn_literal_push(l, ' ', out, &step));
  }
  if (step == CRN_LITERAL_DONE_BEFORE && !ended_late) i--;
  while (i < n && crn_is_space(text[i])) i++;
  *out_ok = i == n && (step == CRN_LITERAL_DONE || step == CRN_LITERAL_DONE_BEFORE);
  if (*out_ok) return CAIRN_OK;
  out->size = start;
  out->data[start] = 0;
  return CAIRN_OK;
}
