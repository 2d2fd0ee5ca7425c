/// Filters on HTML and URLs.
#include <ctype.h>
#include <string.h>

#include "text/template/filter_helpers.h"
#include "text/template/html.h"

FILTER_FN(escape) {
  UNUSED_ARGS;
  return crn_tmpl_escape(r, v, out);
}

FILTER_FN(forceescape) {
  UNUSED_ARGS;
  tmpl_value text;
  CRN_TRY(crn_tmpl_to_str(r, v, &text));
  return crn_tmpl_escape(r, text, out);
}

FILTER_FN(safe) {
  UNUSED_ARGS;
  tmpl_value text;
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  return crn_tmpl_str_mark(r, text.s, true, out);
}

// --- tags -----------------------------------------------------------------------------------------------------------------

// Where the tag or comment at `at` ends, or SIZE_MAX when it does not end.
static size_t tag_end(const tmpl_str *s, size_t at) {
  bool comment = s->size - at >= 4 && !memcmp(s->data + at, "<!--", 4);
  size_t end = comment ? crn_tmpl_find(s->data, s->size, at + 4, "-->", 3) : crn_tmpl_find(s->data, s->size, at, ">", 1);
  return end == SIZE_MAX ? end : end + (comment ? 3 : 1);
}

FILTER_FN(striptags) {
  UNUSED_ARGS;
  tmpl_value text;
  tmpl_buffer plain = {0}, spaced = {0}, done = {0};
  tmpl_items words = {0};
  CRN_TRY(crn_tmpl_to_str(r, v, &text));
  const tmpl_str *s = text.s;
  size_t at = 0;
  for (;;) {
    size_t start = crn_tmpl_find(s->data, s->size, at, "<", 1);
    size_t end = start == SIZE_MAX ? SIZE_MAX : tag_end(s, start);
    if (end == SIZE_MAX) break;
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(crn_tmpl_put(r, &plain, s->data + at, start - at));
    at = end;
  }
  CRN_TRY(crn_tmpl_put(r, &plain, s->data + at, s->size - at));
  CRN_TRY(crn_tmpl_str_finish(r, &plain, &text));
  CRN_TRY(crn_tmpl_text_split(r, text.s, NULL, -1, false, &words));
  for (size_t i = 0; i < words.used; i++) {
    if (i) CRN_TRY(crn_tmpl_putc(r, &spaced, ' '));
    CRN_TRY(crn_tmpl_put(r, &spaced, words.base[i].s->data, words.base[i].s->size));
  }
  CRN_TRY(crn_tmpl_put_unescaped(r, &done, spaced.base, spaced.used));
  return crn_tmpl_str_finish(r, &done, out);
}

FILTER_FN(xmlattr) {
  UNUSED_ARGS;
  tmpl_buffer b = {0};
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (v.type != TMPL_DICT) return crn_tmpl_fail(r, "'%s' object has no attribute 'items'", crn_tmpl_type_name(v));
  bool space = tmpl_flag(argv[0], true);
  for (size_t i = 0; i < v.dict->size; i++) {
    const tmpl_pair *pair = &v.dict->items[i];
    const tmpl_str *key;
    tmpl_value name, value;
    if (pair->value.type == TMPL_NONE || pair->value.type == TMPL_UNDEFINED) continue;
    CRN_TRY(crn_tmpl_need_str(r, pair->key, &key));
    for (size_t k = 0; k < key->size; k++) {
      if (key->data[k] && strchr(" \t\n\r\f\v/>=", key->data[k])) return crn_tmpl_fail(r, "invalid character in attribute name");
    }
    CRN_TRY(crn_tmpl_escape(r, pair->key, &name));
    CRN_TRY(crn_tmpl_escape(r, pair->value, &value));
    if (b.used || space) CRN_TRY(crn_tmpl_putc(r, &b, ' '));
    CRN_TRY(crn_tmpl_put(r, &b, name.s->data, name.s->size));
    CRN_TRY(crn_tmpl_puts(r, &b, "=\""));
    CRN_TRY(crn_tmpl_put(r, &b, value.s->data, value.s->size));
    CRN_TRY(crn_tmpl_putc(r, &b, '"'));
  }
  return crn_tmpl_str_finish(r, &b, out);
}

// --- URLs -----------------------------------------------------------------------------------------------------------------

// In a query, a space is written as '+' and a slash is quoted.
static cairn_status put_quoted(tmpl_render *r, tmpl_buffer *b, tmpl_value v, bool query) {
  static const char hex[] = "0123456789ABCDEF";
  tmpl_value text;
  CRN_TRY(crn_tmpl_to_str(r, v, &text));
  CRN_TRY(crn_tmpl_work(r, text.s->size * 4));
  for (size_t i = 0; i < text.s->size; i++) {
    unsigned char c = (unsigned char)text.s->data[i];
    bool plain = (c < 0x80 && isalnum(c)) || (c && strchr("_.-~", c)) || (c == '/' && !query);
    char quoted[3] = {'%', hex[c >> 4], hex[c & 15]};
    if (plain)
      CRN_TRY(crn_tmpl_putc(r, b, (char)c));
    else if (c == ' ' && query)
      CRN_TRY(crn_tmpl_putc(r, b, '+'));
    else
      CRN_TRY(crn_tmpl_put(r, b, quoted, 3));
  }
  return CAIRN_OK;
}

static cairn_status put_parameter(tmpl_render *r, tmpl_buffer *b, tmpl_value key, tmpl_value value) {
  if (b->used) CRN_TRY(crn_tmpl_putc(r, b, '&'));
  CRN_TRY(put_quoted(r, b, key, true));
  CRN_TRY(crn_tmpl_putc(r, b, '='));
  return put_quoted(r, b, value, true);
}

FILTER_FN(urlencode) {
  UNUSED_ARGS;
  tmpl_buffer b = {0};
  if (v.type == TMPL_STRING || !crn_tmpl_is_iterable(v)) {
    CRN_TRY(put_quoted(r, &b, v, false));
    return crn_tmpl_str_finish(r, &b, out);
  }
  if (v.type == TMPL_DICT) {
    for (size_t i = 0; i < v.dict->size; i++) CRN_TRY(put_parameter(r, &b, v.dict->items[i].key, v.dict->items[i].value));
    return crn_tmpl_str_finish(r, &b, out);
  }
  tmpl_iter it;
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  for (;;) {
    tmpl_value pair;
    tmpl_items parts = {0};
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &pair, &done));
    if (done) return crn_tmpl_str_finish(r, &b, out);
    CRN_TRY(crn_tmpl_collect(r, pair, &parts));
    if (parts.used != 2) return crn_tmpl_fail(r, "expected pairs of name and value");
    CRN_TRY(put_parameter(r, &b, parts.base[0], parts.base[1]));
  }
}
