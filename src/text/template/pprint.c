/// The filter pprint: values on several lines when they are wider than 80 characters.
#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"
#include "text/template/filter_helpers.h"

enum { PAGE_WIDTH = 80, MAX_DEPTH = 200 };

typedef struct printer {
  tmpl_render *r;
  tmpl_buffer *b;
  int depth;
} printer;

static size_t chars_of(const tmpl_buffer *b) {
  tmpl_str s = {.data = b->base, .size = b->used, .chars = TMPL_CHARS_UNKNOWN};
  return crn_tmpl_str_chars(&s);
}

// The keys of a dict in order, or as they are when they have no order.
static cairn_status sorted_keys(tmpl_render *r, const tmpl_dict *d, tmpl_value **out) {
  bool strings = true, numbers = true;
  CRN_TRY(crn_tmpl_alloc(r, d->size, sizeof **out, out));
  for (size_t i = 0; i < d->size; i++) {
    (*out)[i] = d->items[i].key;
    strings = strings && d->items[i].key.type == TMPL_STRING;
    numbers = numbers && tmpl_is_number(d->items[i].key);
  }
  return strings || numbers ? crn_tmpl_sort(r, *out, *out, d->size, false) : CAIRN_OK;
}

// The repr on one line, with the keys of dicts in order.
static cairn_status put_flat(printer *p, tmpl_buffer *b, tmpl_value v) {
  tmpl_render *r = p->r;
  if (v.type != TMPL_DICT && !tmpl_is_sequence(v)) return crn_tmpl_put_repr(r, b, v);
  if (++p->depth > MAX_DEPTH) return crn_tmpl_limit(r, "a value is nested too deeply to be printed");
  bool dict = v.type == TMPL_DICT, tuple = v.type == TMPL_TUPLE;
  size_t n = dict ? v.dict->size : v.list->size;
  tmpl_value *keys = NULL;
  if (dict) CRN_TRY(sorted_keys(r, v.dict, &keys));
  CRN_TRY(crn_tmpl_putc(r, b, dict ? '{' : tuple ? '(' : '['));
  for (size_t i = 0; i < n; i++) {
    CRN_TRY(crn_tmpl_steps(r, 1));
    if (i) CRN_TRY(crn_tmpl_puts(r, b, ", "));
    if (dict) CRN_TRY(put_flat(p, b, keys[i]));
    if (dict) CRN_TRY(crn_tmpl_puts(r, b, ": "));
    CRN_TRY(put_flat(p, b, dict ? crn_tmpl_dict_find(v.dict, keys[i])->value : v.list->items[i]));
  }
  if (tuple && n == 1) CRN_TRY(crn_tmpl_putc(r, b, ','));
  p->depth--;
  return crn_tmpl_putc(r, b, dict ? '}' : tuple ? ')' : ']');
}

static cairn_status put_wide(printer *p, tmpl_value v, int64_t indent, int64_t allowance, int level);

static cairn_status next_line(printer *p, int64_t indent, bool comma) {
  if (comma) CRN_TRY(crn_tmpl_putc(p->r, p->b, ','));
  CRN_TRY(crn_tmpl_putc(p->r, p->b, '\n'));
  return crn_tmpl_put_repeated(p->r, p->b, " ", 1, (size_t)indent);
}

static cairn_status put_wide_dict(printer *p, const tmpl_dict *d, int64_t indent, int64_t allowance, int level) {
  tmpl_value *keys;
  CRN_TRY(sorted_keys(p->r, d, &keys));
  CRN_TRY(crn_tmpl_putc(p->r, p->b, '{'));
  for (size_t i = 0; i < d->size; i++) {
    tmpl_buffer key = {0};
    bool last = i + 1 == d->size;
    CRN_TRY(put_flat(p, &key, keys[i]));
    CRN_TRY(crn_tmpl_put(p->r, p->b, key.base, key.used));
    CRN_TRY(crn_tmpl_puts(p->r, p->b, ": "));
    CRN_TRY(put_wide(p, crn_tmpl_dict_find(d, keys[i])->value, indent + 1 + (int64_t)chars_of(&key) + 2, last ? allowance + 1 : 1, level));
    if (!last) CRN_TRY(next_line(p, indent + 1, true));
  }
  return crn_tmpl_putc(p->r, p->b, '}');
}

static cairn_status put_wide_list(printer *p, tmpl_value v, int64_t indent, int64_t allowance, int level) {
  const tmpl_list *list = v.list;
  const char *close = v.type == TMPL_LIST ? "]" : list->size == 1 ? ",)" : ")";
  CRN_TRY(crn_tmpl_putc(p->r, p->b, v.type == TMPL_LIST ? '[' : '('));
  for (size_t i = 0; i < list->size; i++) {
    bool last = i + 1 == list->size;
    if (i) CRN_TRY(next_line(p, indent + 1, true));
    CRN_TRY(put_wide(p, list->items[i], indent + 1, last ? allowance + (int64_t)strlen(close) : 1, level));
  }
  return crn_tmpl_puts(p->r, p->b, close);
}

// --- long texts ---------------------------------------------------------------------------------------------------------------

static cairn_status quoted(printer *p, const char *text, size_t n, tmpl_items *chunks) {
  tmpl_buffer b = {0};
  tmpl_value v;
  CRN_TRY(crn_tmpl_put_quoted(p->r, &b, text, n, false));
  CRN_TRY(crn_tmpl_str_finish(p->r, &b, &v));
  return crn_tmpl_items_push(p->r, chunks, v);
}

static cairn_status quoted_size(printer *p, const char *text, size_t n, int64_t *out) {
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_put_quoted(p->r, &b, text, n, false));
  *out = (int64_t)chars_of(&b);
  return CAIRN_OK;
}

// The end of a word at `p` together with the whitespace behind it.
static const char *part_end(const char *p, const char *end) {
  bool space = false;
  while (p < end) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    bool is_space = crn_code_is_space(code);
    if (space && !is_space) break;
    space = is_space;
    p = next;
  }
  return p;
}

static cairn_status break_line(printer *p, const tmpl_str *line, int64_t width, int64_t last_width, tmpl_items *chunks) {
  const char *end = line->data + line->size, *start = line->data, *at = start;
  while (at < end) {
    const char *next = part_end(at, end);
    int64_t size;
    CRN_TRY(quoted_size(p, start, (size_t)(next - start), &size));
    if (size > (next == end ? last_width : width)) {
      if (at > start) CRN_TRY(quoted(p, start, (size_t)(at - start), chunks));
      start = at;
    }
    at = next;
  }
  return start < end ? quoted(p, start, (size_t)(end - start), chunks) : CAIRN_OK;
}

static cairn_status put_wide_text(printer *p, const tmpl_str *s, int64_t indent, int64_t allowance, int level) {
  tmpl_items lines = {0}, chunks = {0};
  bool outermost = level == 1;
  CRN_TRY(crn_tmpl_text_lines(p->r, s, true, &lines));
  indent += outermost;
  allowance += outermost;
  int64_t width = PAGE_WIDTH - indent;
  for (size_t i = 0; i < lines.used; i++) {
    const tmpl_str *line = lines.base[i].s;
    int64_t size, last_width = i + 1 == lines.used ? width - allowance : width;
    CRN_TRY(quoted_size(p, line->data, line->size, &size));
    if (size <= last_width)
      CRN_TRY(quoted(p, line->data, line->size, &chunks));
    else
      CRN_TRY(break_line(p, line, width, last_width, &chunks));
  }
  bool several = chunks.used > 1;
  if (several && outermost) CRN_TRY(crn_tmpl_putc(p->r, p->b, '('));
  for (size_t i = 0; i < chunks.used; i++) {
    if (i) CRN_TRY(next_line(p, indent, false));
    CRN_TRY(crn_tmpl_put(p->r, p->b, chunks.base[i].s->data, chunks.base[i].s->size));
  }
  return several && outermost ? crn_tmpl_putc(p->r, p->b, ')') : CAIRN_OK;
}

static cairn_status put_wide(printer *p, tmpl_value v, int64_t indent, int64_t allowance, int level) {
  tmpl_buffer flat = {0};
  CRN_TRY(put_flat(p, &flat, v));
  bool fits = (int64_t)chars_of(&flat) <= PAGE_WIDTH - indent - allowance;
  bool breaks = v.type == TMPL_DICT || tmpl_is_sequence(v) || (v.type == TMPL_STRING && !v.s->markup);
  if (fits || !breaks) return crn_tmpl_put(p->r, p->b, flat.base, flat.used);
  if (level > MAX_DEPTH) return crn_tmpl_limit(p->r, "a value is nested too deeply to be printed");
  if (v.type == TMPL_DICT) return put_wide_dict(p, v.dict, indent, allowance, level + 1);
  if (v.type == TMPL_STRING) return put_wide_text(p, v.s, indent, allowance, level + 1);
  return put_wide_list(p, v, indent, allowance, level + 1);
}

FILTER_FN(pprint) {
  UNUSED_ARGS;
  tmpl_buffer b = {0};
  printer p = {.r = r, .b = &b};
  CRN_TRY(put_wide(&p, v, 0, 0, 0));
  return crn_tmpl_str_finish(r, &b, out);
}
