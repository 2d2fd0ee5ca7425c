/// Filters on text.
#include <string.h>

#include "text/template/casing.h"
#include "text/template/filter_helpers.h"

static cairn_status change_case(tmpl_render *r, tmpl_value v, tmpl_case how, tmpl_value *out) {
  tmpl_value text;
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  return crn_tmpl_text_case(r, text.s, how, out);
}

FILTER_FN(upper) {
  UNUSED_ARGS;
  return change_case(r, v, TMPL_CASE_UPPER, out);
}

FILTER_FN(lower) {
  UNUSED_ARGS;
  return change_case(r, v, TMPL_CASE_LOWER, out);
}

FILTER_FN(capitalize) {
  UNUSED_ARGS;
  return change_case(r, v, TMPL_CASE_CAPITALIZE, out);
}

static bool splits_titles(uint32_t code) { return (code < 0x80 && code && strchr("-({[<", (int)code)) || crn_code_is_space(code); }

// A title starts anew behind whitespace, hyphens and opening brackets. The separators count as words too.
FILTER_FN(title) {
  UNUSED_ARGS;
  tmpl_value text;
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  const char *p = text.s->data, *end = p + text.s->size;
  while (p < end) {
    uint32_t code;
    const char *second = crn_tmpl_text_next(p, end, &code), *stop = second;
    bool separator = splits_titles(code);
    while (stop < end) {
      const char *next = crn_tmpl_text_next(stop, end, &code);
      if (splits_titles(code) != separator) break;
      stop = next;
    }
    CRN_TRY(crn_tmpl_text_put_case(r, &b, p, (size_t)(second - p), TMPL_CASE_UPPER));
    CRN_TRY(crn_tmpl_text_put_case(r, &b, second, (size_t)(stop - second), TMPL_CASE_LOWER));
    p = stop;
  }
  return crn_tmpl_str_finish(r, &b, out);
}

FILTER_FN(trim) {
  UNUSED_ARGS;
  tmpl_value text;
  const tmpl_str *chars;
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  CRN_TRY(crn_tmpl_arg_str(r, argv[0], &chars));
  return crn_tmpl_text_strip(r, text.s, chars, true, true, out);
}

FILTER_FN(center) {
  UNUSED_ARGS;
  tmpl_value text;
  int64_t width;
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 80, &width));
  return crn_tmpl_text_pad(r, text.s, width, NULL, TMPL_ALIGN_CENTER, out);
}

FILTER_FN(string) {
  UNUSED_ARGS;
  return crn_tmpl_soft_str(r, v, out);
}

FILTER_FN(replace) {
  UNUSED_ARGS;
  tmpl_value text, from, to;
  int64_t count = -1;
  CRN_TRY(crn_tmpl_to_str(r, v, &text));
  CRN_TRY(crn_tmpl_to_str(r, argv[0], &from));
  CRN_TRY(crn_tmpl_to_str(r, argv[1], &to));
  if (argv[2].type != TMPL_NONE) CRN_TRY(crn_tmpl_arg_int(r, argv[2], -1, &count));
  return crn_tmpl_text_replace(r, text.s, from.s, to.s, count, out);
}

FILTER_FN(format) {
  UNUSED_ARGS;
  tmpl_value text, values;
  if (all->n_positional && all->n_keywords) return crn_tmpl_fail(r, "can't handle positional and keyword arguments at the same time");
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  if (all->n_keywords) {
    tmpl_dict *d;
    CRN_TRY(crn_tmpl_dict_make(r, &d));
    for (size_t i = 0; i < all->n_keywords; i++) CRN_TRY(crn_tmpl_dict_set(r, d, tmpl_string(all->names[i]), all->keywords[i]));
    values = (tmpl_value){.type = TMPL_DICT, .dict = d};
  } else {
    CRN_TRY(crn_tmpl_list_copy(r, all->positional, all->n_positional, TMPL_TUPLE, &values));
  }
  return crn_tmpl_format_percent(r, text.s, values, out);
}

static cairn_status indentation(tmpl_render *r, tmpl_value width, tmpl_value *out) {
  int64_t n;
  tmpl_buffer b = {0};
  *out = width;
  if (width.type == TMPL_STRING) return CAIRN_OK;
  CRN_TRY(crn_tmpl_arg_int(r, width, 4, &n));
  CRN_TRY(crn_tmpl_put_repeated(r, &b, " ", 1, n > 0 ? (size_t)n : 0));
  return crn_tmpl_str_finish(r, &b, out);
}

FILTER_FN(indent) {
  UNUSED_ARGS;
  bool first = tmpl_flag(argv[1], false), blank = tmpl_flag(argv[2], false);
  tmpl_value margin;
  tmpl_items lines = {0};
  tmpl_buffer b = {0};
  CRN_TRY(indentation(r, argv[0], &margin));
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (v.type != TMPL_STRING) return crn_tmpl_fail(r, "only text can be indented, not %s", crn_tmpl_type_name(v));
  CRN_TRY(crn_tmpl_text_lines(r, v.s, false, &lines));
  // A newline is added before the text is split, so that an empty text has a line and a newline at the end starts one.
  uint32_t last = 0;
  if (v.s->size) crn_tmpl_text_previous(v.s->data, v.s->data + v.s->size, &last);
  if (!v.s->size || (crn_code_is_line_end(last) && last != '\r')) {
    tmpl_value empty;
    CRN_TRY(crn_tmpl_str_borrow(r, "", 0, &empty));
    CRN_TRY(crn_tmpl_items_push(r, &lines, empty));
  }
  for (size_t i = 0; i < lines.used; i++) {
    const tmpl_str *line = lines.base[i].s;
    if (i) CRN_TRY(crn_tmpl_putc(r, &b, '\n'));
    if (i == 0 ? first : blank || line->size) CRN_TRY(crn_tmpl_put(r, &b, margin.s->data, margin.s->size));
    CRN_TRY(crn_tmpl_put(r, &b, line->data, line->size));
  }
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, v.s->markup, out);
}

static cairn_status head_of(tmpl_render *r, tmpl_value v, int64_t chars, tmpl_value *out) {
  return crn_tmpl_slice(r, v, tmpl_none(), tmpl_int(chars), tmpl_none(), out);
}

FILTER_FN(truncate) {
  UNUSED_ARGS;
  int64_t length, leeway;
  tmpl_value end = argv[2], head;
  size_t size, end_size;
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 255, &length));
  if (argv[3].type == TMPL_NONE)
    leeway = 5;
  else
    CRN_TRY(crn_tmpl_arg_int(r, argv[3], 5, &leeway));
  if (!tmpl_given(end)) CRN_TRY(crn_tmpl_str_borrow(r, "...", 3, &end));
  CRN_TRY(crn_tmpl_length(r, end, &end_size));
  if (length < (int64_t)end_size) return crn_tmpl_fail(r, "expected length >= %zu, got %lld", end_size, (long long)length);
  if (leeway < 0) return crn_tmpl_fail(r, "expected leeway >= 0, got %lld", (long long)leeway);
  CRN_TRY(crn_tmpl_length(r, v, &size));
  *out = v;
  int64_t limit;
  if (__builtin_add_overflow(length, leeway, &limit) || (int64_t)size <= limit) return CAIRN_OK;
  if (v.type != TMPL_STRING) return crn_tmpl_fail(r, "only text can be truncated, not %s", crn_tmpl_type_name(v));
  CRN_TRY(head_of(r, v, length - (int64_t)end_size, &head));
  if (!tmpl_flag(argv[1], false)) {
    const char *space = head.s->size ? memrchr(head.s->data, ' ', head.s->size) : NULL;
    if (space) CRN_TRY(crn_tmpl_str_part(r, head.s, 0, (size_t)(space - head.s->data), &head));
  }
  return crn_tmpl_binary(r, TMPL_OP_ADD, head, end, out);
}

FILTER_FN(wordcount) {
  UNUSED_ARGS;
  tmpl_value text;
  int64_t n = 0;
  bool inside = false;
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  CRN_TRY(crn_tmpl_work(r, text.s->size * 4));
  for (const char *p = text.s->data, *end = p + text.s->size; p < end;) {
    uint32_t code;
    p = crn_tmpl_text_next(p, end, &code);
    bool word = crn_code_is_word(code);
    n += word && !inside;
    inside = word;
  }
  *out = tmpl_int(n);
  return CAIRN_OK;
}
