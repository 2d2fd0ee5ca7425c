/// The filter wordwrap: lines of a limited width, broken at spaces, hyphens and dashes as Python's textwrap does it.
#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"
#include "text/template/filter_helpers.h"

// A paragraph as code points with the byte where each starts.
typedef struct paragraph {
  tmpl_render *r;
  const char *text;
  uint32_t *codes;
  size_t *offsets;
  size_t n;
} paragraph;

typedef struct span {
  size_t start, end;
} span;

typedef struct spans {
  span *items;
  size_t used, capacity;
} spans;

typedef struct wrap_options {
  int64_t width;
  bool break_words, break_hyphens;
  const tmpl_str *newline;
} wrap_options;

static bool is_gap(uint32_t code) { return code < 0x80 && code && strchr("\t\n\v\f\r ", (int)code); }

static bool is_letter(uint32_t code) { return crn_code_is_word(code) && !crn_code_is_decimal(code); }

// A character that may stand before a dash which ends a word.
static bool ends_word(uint32_t code) { return crn_code_is_word(code) || (code < 0x80 && code && strchr("!\"'&.,?", (int)code)); }

static cairn_status push(tmpl_render *r, spans *list, size_t start, size_t end) {
  if (list->used == list->capacity) {
    size_t capacity = list->capacity * 2 + 16;
    span *items;
    CRN_TRY(crn_tmpl_alloc(r, capacity, sizeof *items, &items));
    if (list->used) memcpy(items, list->items, list->used * sizeof *items);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->used++] = (span){start, end};
  return CAIRN_OK;
}

// Two or more dashes at `at` with a word behind them: returns their end, or 0.
static size_t match_dashes(const paragraph *p, size_t at) {
  size_t end = at;
  while (end < p->n && p->codes[end] == '-') end++;
  return end - at >= 2 && end < p->n && crn_code_is_word(p->codes[end]) ? end : 0;
}

// A hyphen at `at` inside of a word may end a line.
static bool is_hyphenation(const paragraph *p, size_t at) {
  if (p->codes[at] != '-') return false;
  const uint32_t *c = p->codes;
  bool letters = at >= 2 && is_letter(c[at - 1]) && is_letter(c[at - 2]);
  bool spaced = at >= 3 && is_letter(c[at - 3]) && c[at - 2] == '-' && ends_word(c[at - 1]);
  if (!letters && !spaced) return false;
  size_t next = at + 1;
  if (next >= p->n || !is_letter(c[next])) return false;
  next++;
  if (next < p->n && c[next] == '-') next++;
  return next < p->n && is_letter(c[next]);
}

static size_t word_end(const paragraph *p, size_t start, bool break_hyphens) {
  for (size_t at = start + 1;; at++) {
    if (at >= p->n || is_gap(p->codes[at])) return at;
    if (!break_hyphens) continue;
    if (is_hyphenation(p, at)) return at + 1;
    if (ends_word(p->codes[at - 1]) && match_dashes(p, at)) return at;
  }
}

static cairn_status split_chunks(const paragraph *p, bool break_hyphens, spans *out) {
  for (size_t at = 0, end; at < p->n; at = end) {
    CRN_TRY(crn_tmpl_steps(p->r, 1));
    end = at;
    while (end < p->n && is_gap(p->codes[end])) end++;
    if (end == at && break_hyphens && at > 0 && ends_word(p->codes[at - 1])) end = match_dashes(p, at);
    if (end <= at) end = word_end(p, at, break_hyphens);
    CRN_TRY(crn_tmpl_work(p->r, (end - at) * 4));
    CRN_TRY(push(p->r, out, at, end));
  }
  return CAIRN_OK;
}

static bool is_blank(const paragraph *p, span s) {
  for (size_t i = s.start; i < s.end; i++) {
    if (!crn_code_is_space(p->codes[i])) return false;
  }
  return true;
}

// Takes as much of a word that is longer than a line as fits, preferably up to a hyphen.
static cairn_status break_word(const paragraph *p, const wrap_options *o, span *word, spans *line, size_t line_size) {
  if (!o->break_words) {
    if (line->used) return CAIRN_OK;
    CRN_TRY(push(p->r, line, word->start, word->end));
    word->start = word->end;
    return CAIRN_OK;
  }
  size_t room = (size_t)o->width - line_size, cut = word->start + room;
  if (o->break_hyphens) {
    size_t hyphen = cut;
    while (hyphen > word->start && p->codes[hyphen - 1] != '-') hyphen--;
    bool other = false;
    for (size_t i = word->start; hyphen > word->start && i < hyphen - 1; i++) other = other || p->codes[i] != '-';
    if (other) cut = hyphen;
  }
  CRN_TRY(push(p->r, line, word->start, cut));
  word->start = cut;
  return CAIRN_OK;
}

static cairn_status put_line(const paragraph *p, const wrap_options *o, const spans *line, bool first, tmpl_buffer *b) {
  if (!first) CRN_TRY(crn_tmpl_put(p->r, b, o->newline->data, o->newline->size));
  for (size_t i = 0; i < line->used; i++) {
    size_t from = p->offsets[line->items[i].start], to = p->offsets[line->items[i].end];
    CRN_TRY(crn_tmpl_put(p->r, b, p->text + from, to - from));
  }
  return CAIRN_OK;
}

static cairn_status wrap_chunks(const paragraph *p, const wrap_options *o, const spans *chunks, tmpl_buffer *b) {
  size_t width = (size_t)o->width;
  bool any_line = false;
  for (size_t at = 0; at < chunks->used;) {
    spans line = {0};
    size_t size = 0;
    CRN_TRY(crn_tmpl_steps(p->r, 1));
    if (any_line && is_blank(p, chunks->items[at])) at++;
    while (at < chunks->used && size + (chunks->items[at].end - chunks->items[at].start) <= width) {
      size += chunks->items[at].end - chunks->items[at].start;
      CRN_TRY(push(p->r, &line, chunks->items[at].start, chunks->items[at].end));
      at++;
    }
    if (at < chunks->used && chunks->items[at].end - chunks->items[at].start > width) {
      CRN_TRY(break_word(p, o, &chunks->items[at], &line, size));
      if (chunks->items[at].start == chunks->items[at].end) at++;
    }
    if (line.used && is_blank(p, line.items[line.used - 1])) line.used--;
    if (!line.used) continue;
    CRN_TRY(put_line(p, o, &line, !any_line, b));
    any_line = true;
  }
  return CAIRN_OK;
}

static cairn_status wrap_paragraph(tmpl_render *r, const tmpl_str *s, const wrap_options *o, tmpl_buffer *b) {
  paragraph p = {.r = r, .text = s->data, .n = crn_tmpl_str_chars(s)};
  spans chunks = {0};
  CRN_TRY(crn_tmpl_alloc(r, p.n + 1, sizeof *p.codes, &p.codes));
  CRN_TRY(crn_tmpl_alloc(r, p.n + 1, sizeof *p.offsets, &p.offsets));
  size_t at = 0;
  for (const char *c = s->data, *end = c + s->size; c < end && at < p.n; at++) {
    p.offsets[at] = (size_t)(c - s->data);
    c = crn_tmpl_text_next(c, end, &p.codes[at]);
  }
  p.offsets[at] = s->size;
  CRN_TRY(split_chunks(&p, o->break_hyphens, &chunks));
  return wrap_chunks(&p, o, &chunks, b);
}

FILTER_FN(wordwrap) {
  UNUSED_ARGS;
  tmpl_items lines = {0};
  tmpl_buffer b = {0};
  tmpl_str newline = {.data = "\n", .size = 1, .chars = 1};
  wrap_options o = {.break_words = tmpl_flag(argv[1], true), .break_hyphens = tmpl_flag(argv[3], true), .newline = &newline};
  if (tmpl_given(argv[2]) && argv[2].type != TMPL_NONE) CRN_TRY(crn_tmpl_need_str(r, argv[2], &o.newline));
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (v.type != TMPL_STRING) return crn_tmpl_fail(r, "only text can be wrapped, not %s", crn_tmpl_type_name(v));
  CRN_TRY(crn_tmpl_text_lines(r, v.s, false, &lines));
  // Without a line nobody looks at the width.
  if (lines.used) CRN_TRY(crn_tmpl_arg_int(r, argv[0], 79, &o.width));
  if (o.width <= 0 && lines.used) return crn_tmpl_fail(r, "invalid width %lld (must be > 0)", (long long)o.width);
  for (size_t i = 0; i < lines.used; i++) {
    if (i) CRN_TRY(crn_tmpl_put(r, &b, o.newline->data, o.newline->size));
    CRN_TRY(wrap_paragraph(r, lines.base[i].s, &o, &b));
  }
  return crn_tmpl_str_finish(r, &b, out);
}
