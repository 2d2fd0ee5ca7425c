#include "text/template/text.h"

#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"
#include "text/template/html.h"

const char *crn_tmpl_text_next(const char *p, const char *end, uint32_t *out_code) {
  bool valid;
  return p + crn_utf8_decode(p, end, out_code, &valid);
}

const char *crn_tmpl_text_previous(const char *start, const char *p, uint32_t *out_code) {
  const char *end = p--;
  while (p > start && ((unsigned char)*p & 0xc0) == 0x80) p--;
  bool valid;
  crn_utf8_decode(p, end, out_code, &valid);
  return p;
}

// Strings made from a string stay safe HTML when it was.
static cairn_status finish_like(tmpl_render *r, tmpl_buffer *b, const tmpl_str *like, tmpl_value *out) {
  CRN_TRY(crn_tmpl_str_finish(r, b, out));
  return crn_tmpl_str_mark(r, out->s, like->markup, out);
}

// --- case -----------------------------------------------------------------------------------------------------------------

// A capital sigma becomes a final sigma where a word ends: letters before it, none after it.
static bool is_final_sigma(const char *start, const char *at, const char *after, const char *end) {
  uint32_t code = 0;
  const char *p = at;
  bool before = false;
  while (p > start && !before) {
    p = crn_tmpl_text_previous(start, p, &code);
    if (!crn_code_is_case_ignorable(code)) break;
  }
  before = p < at && !crn_code_is_case_ignorable(code) && crn_code_is_cased(code);
  if (!before) return false;
  for (p = after; p < end;) {
    p = crn_tmpl_text_next(p, end, &code);
    if (!crn_code_is_case_ignorable(code)) return !crn_code_is_cased(code);
  }
  return true;
}

typedef struct case_state {
  const char *start, *end;
  bool after_cased;  // for titles
} case_state;

static int map_code(case_state *st, const char *at, const char *after, uint32_t code, tmpl_case how, uint32_t out[CRN_CASE_MAX]) {
  bool lower = how == TMPL_CASE_LOWER || (how == TMPL_CASE_TITLE && st->after_cased) || (how == TMPL_CASE_CAPITALIZE && at > st->start) ||
               (how == TMPL_CASE_SWAP && crn_code_is_upper(code));
  if (lower) {
    if (code == 0x3a3 && is_final_sigma(st->start, at, after, st->end)) {
      out[0] = 0x3c2;
      return 1;
    }
    return crn_code_lower(code, out);
  }
  switch (how) {
    case TMPL_CASE_UPPER:
      return crn_code_upper(code, out);
    case TMPL_CASE_FOLD:
      return crn_code_fold(code, out);
    case TMPL_CASE_TITLE:
    case TMPL_CASE_CAPITALIZE:
      return crn_code_title(code, out);
    case TMPL_CASE_SWAP:
      if (crn_code_is_lower(code)) return crn_code_upper(code, out);
      break;
    default:
      break;
  }
  out[0] = code;
  return 1;
}

cairn_status crn_tmpl_text_put_case(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n, tmpl_case how) {
  case_state st = {.start = text, .end = text + n};
  CRN_TRY(crn_tmpl_steps(r, n / 16));
  for (const char *p = text; p < st.end;) {
    uint32_t code, mapped[CRN_CASE_MAX];
    const char *after = crn_tmpl_text_next(p, st.end, &code);
    int count = map_code(&st, p, after, code, how, mapped);
    st.after_cased = crn_code_is_cased(code);
    for (int i = 0; i < count; i++) CRN_TRY(crn_tmpl_put_code(r, b, mapped[i]));
    p = after;
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_text_case(tmpl_render *r, const tmpl_str *s, tmpl_case how, tmpl_value *out) {
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_text_put_case(r, &b, s->data, s->size, how));
  return finish_like(r, &b, s, out);
}

// --- strip -----------------------------------------------------------------------------------------------------------------

static bool is_stripped(uint32_t code, const tmpl_str *chars) {
  if (!chars) return crn_code_is_space(code);
  for (const char *p = chars->data, *end = p + chars->size; p < end;) {
    uint32_t other;
    p = crn_tmpl_text_next(p, end, &other);
    if (other == code) return true;
  }
  return false;
}

cairn_status crn_tmpl_text_strip(tmpl_render *r, const tmpl_str *s, const tmpl_str *chars, bool left, bool right, tmpl_value *out) {
  const char *start = s->data, *end = s->data + s->size;
  uint32_t code;
  uint64_t cost = 1 + (chars ? chars->size / 16 : 0);
  while (left && start < end) {
    const char *next = crn_tmpl_text_next(start, end, &code);
    if (!is_stripped(code, chars)) break;
    CRN_TRY(crn_tmpl_steps(r, cost));
    start = next;
  }
  while (right && end > start) {
    const char *previous = crn_tmpl_text_previous(start, end, &code);
    if (!is_stripped(code, chars)) break;
    CRN_TRY(crn_tmpl_steps(r, cost));
    end = previous;
  }
  return crn_tmpl_str_part(r, s, (size_t)(start - s->data), (size_t)(end - s->data), out);
}

// --- replace and split --------------------------------------------------------------------------------------------------------

// Nothing at all is found before every code point and at the end.
static cairn_status insert_everywhere(tmpl_render *r, const tmpl_str *s, const tmpl_str *to, int64_t count, tmpl_buffer *b) {
  const char *p = s->data, *end = p + s->size;
  while (count != 0) {
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(crn_tmpl_put(r, b, to->data, to->size));
    if (count > 0) count--;
    if (p == end) return CAIRN_OK;
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    CRN_TRY(crn_tmpl_put(r, b, p, (size_t)(next - p)));
    p = next;
  }
  return crn_tmpl_put(r, b, p, (size_t)(end - p));
}

cairn_status crn_tmpl_text_replace(tmpl_render *r, const tmpl_str *s, const tmpl_str *from, const tmpl_str *to, int64_t count,
                                   tmpl_value *out) {
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_work(r, s->size));
  if (!from->size) {
    CRN_TRY(insert_everywhere(r, s, to, count, &b));
    return finish_like(r, &b, s, out);
  }
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; done++) {
    size_t found = crn_tmpl_find(s->data, s->size, at, from->data, from->size);
    if (found == SIZE_MAX) break;
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(crn_tmpl_put(r, &b, s->data + at, found - at));
    CRN_TRY(crn_tmpl_put(r, &b, to->data, to->size));
    at = found + from->size;
  }
  if (at == 0) {
    *out = tmpl_string(s);
    return CAIRN_OK;
  }
  CRN_TRY(crn_tmpl_put(r, &b, s->data + at, s->size - at));
  return finish_like(r, &b, s, out);
}

static cairn_status push_part(tmpl_render *r, const tmpl_str *s, size_t from, size_t to, tmpl_items *items) {
  tmpl_value part;
  CRN_TRY(crn_tmpl_str_part(r, s, from, to, &part));
  CRN_TRY(crn_tmpl_steps(r, 1));
  return crn_tmpl_items_push(r, items, part);
}

static size_t skip(const tmpl_str *s, size_t at, bool space) {
  const char *p = s->data + at, *end = s->data + s->size;
  while (p < end) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    if (crn_code_is_space(code) != space) break;
    p = next;
  }
  return (size_t)(p - s->data);
}

static size_t skip_back(const tmpl_str *s, size_t at, bool space) {
  const char *p = s->data + at;
  while (p > s->data) {
    uint32_t code;
    const char *previous = crn_tmpl_text_previous(s->data, p, &code);
    if (crn_code_is_space(code) != space) break;
    p = previous;
  }
  return (size_t)(p - s->data);
}

static cairn_status split_space(tmpl_render *r, const tmpl_str *s, int64_t max, tmpl_items *items) {
  size_t at = skip(s, 0, true);
  for (int64_t n = 0; at < s->size; n++) {
    // The last part keeps what is left, with its whitespace at the end.
    if (max >= 0 && n == max) return push_part(r, s, at, s->size, items);
    size_t end = skip(s, at, false);
    CRN_TRY(push_part(r, s, at, end, items));
    at = skip(s, end, true);
  }
  return CAIRN_OK;
}

static cairn_status split_space_from_right(tmpl_render *r, const tmpl_str *s, int64_t max, tmpl_items *items) {
  size_t end = skip_back(s, s->size, true);
  for (int64_t n = 0; end > 0; n++) {
    if (max >= 0 && n == max) return push_part(r, s, 0, end, items);
    size_t start = skip_back(s, end, false);
    CRN_TRY(push_part(r, s, start, end, items));
    end = skip_back(s, start, true);
  }
  return CAIRN_OK;
}

static cairn_status split_by(tmpl_render *r, const tmpl_str *s, const tmpl_str *sep, int64_t max, tmpl_items *items) {
  size_t at = 0;
  for (int64_t n = 0; max < 0 || n < max; n++) {
    size_t found = crn_tmpl_find(s->data, s->size, at, sep->data, sep->size);
    if (found == SIZE_MAX) break;
    CRN_TRY(push_part(r, s, at, found, items));
    at = found + sep->size;
  }
  return push_part(r, s, at, s->size, items);
}

static cairn_status split_by_from_right(tmpl_render *r, const tmpl_str *s, const tmpl_str *sep, int64_t max, tmpl_items *items) {
  size_t end = s->size, at = s->size;
  int64_t n = 0;
  while ((max < 0 || n < max) && at >= sep->size) {
    if (memcmp(s->data + at - sep->size, sep->data, sep->size)) {
      at--;
      continue;
    }
    CRN_TRY(push_part(r, s, at, end, items));
    at -= sep->size;
    end = at;
    n++;
  }
  return push_part(r, s, 0, end, items);
}

static void reverse_from(tmpl_items *items, size_t first) {
  for (size_t i = first, k = items->used; i + 1 < k; i++) {
    tmpl_value v = items->base[i];
    items->base[i] = items->base[--k];
    items->base[k] = v;
  }
}

cairn_status crn_tmpl_text_split(tmpl_render *r, const tmpl_str *s, const tmpl_str *separator, int64_t max, bool from_right,
                                 tmpl_items *items) {
  size_t first = items->used;
  if (separator && !separator->size) return crn_tmpl_fail(r, "empty separator");
  CRN_TRY(crn_tmpl_work(r, s->size * (from_right && separator ? separator->size : 1)));
  if (!from_right) return separator ? split_by(r, s, separator, max, items) : split_space(r, s, max, items);
  CRN_TRY(separator ? split_by_from_right(r, s, separator, max, items) : split_space_from_right(r, s, max, items));
  reverse_from(items, first);
  return CAIRN_OK;
}

cairn_status crn_tmpl_text_lines(tmpl_render *r, const tmpl_str *s, bool keep_ends, tmpl_items *items) {
  const char *start = s->data, *end = s->data + s->size, *p = start;
  CRN_TRY(crn_tmpl_work(r, s->size));
  while (p < end) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    if (crn_code_is_line_end(code)) {
      if (code == '\r' && next < end && *next == '\n') next++;
      CRN_TRY(push_part(r, s, (size_t)(start - s->data), (size_t)((keep_ends ? next : p) - s->data), items));
      start = next;
    }
    p = next;
  }
  return start < end ? push_part(r, s, (size_t)(start - s->data), s->size, items) : CAIRN_OK;
}

// --- padding and joining -------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_text_pad(tmpl_render *r, const tmpl_str *s, int64_t width, const tmpl_str *fill, tmpl_align align, tmpl_value *out) {
  if (fill && crn_tmpl_str_chars(fill) != 1) return crn_tmpl_fail(r, "the fill character must be exactly one character long");
  int64_t missing = width - (int64_t)crn_tmpl_str_chars(s);
  if (missing <= 0) {
    *out = tmpl_string(s);
    return CAIRN_OK;
  }
  size_t total = (size_t)missing, left = 0;
  if (align == TMPL_ALIGN_RIGHT) left = total;
  // Python puts the odd one of the padding on the left when the width is odd.
  if (align == TMPL_ALIGN_CENTER) left = total / 2 + (total & (size_t)width & 1);
  tmpl_buffer b = {0};
  const char *text = fill ? fill->data : " ";
  size_t n = fill ? fill->size : 1;
  CRN_TRY(crn_tmpl_put_repeated(r, &b, text, n, left));
  CRN_TRY(crn_tmpl_put(r, &b, s->data, s->size));
  CRN_TRY(crn_tmpl_put_repeated(r, &b, text, n, total - left));
  return finish_like(r, &b, s, out);
}

cairn_status crn_tmpl_text_join(tmpl_render *r, const tmpl_str *separator, tmpl_value items, tmpl_value *out) {
  tmpl_buffer b = {0};
  tmpl_iter it;
  CRN_TRY(crn_tmpl_iter_start(r, items, &it));
  for (size_t i = 0;; i++) {
    tmpl_value v;
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &v, &done));
    if (done) break;
    if (i) CRN_TRY(crn_tmpl_put(r, &b, separator->data, separator->size));
    if (separator->markup) CRN_TRY(crn_tmpl_escape(r, v, &v));
    if (v.type != TMPL_STRING) return crn_tmpl_fail(r, "sequence item %zu: expected str instance, %s found", i, crn_tmpl_type_name(v));
    CRN_TRY(crn_tmpl_put(r, &b, v.s->data, v.s->size));
  }
  return finish_like(r, &b, separator, out);
}
