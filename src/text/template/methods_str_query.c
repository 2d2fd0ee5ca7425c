/// Methods of strings that answer a question.
#include <string.h>

#include "text/template/casing.h"
#include "text/template/methods.h"
#include "text/template/text.h"

#define STR_METHOD(name) \
  cairn_status crn_tmpl_str_##name(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out)
#define UNUSED_ARGS (void)r, (void)self, (void)argv, (void)all

// --- searching ------------------------------------------------------------------------------------------------------------

// The bytes a search is limited to. `valid` is false when the limits cross, and then nothing is found.
typedef struct window {
  size_t start, end;
  bool valid;
} window;

static cairn_status bound(tmpl_render *r, tmpl_value v, int64_t chars, int64_t otherwise, int64_t *out) {
  if (v.type == TMPL_NONE) v = tmpl_missing();
  CRN_TRY(crn_tmpl_arg_int(r, v, otherwise, out));
  if (*out < 0) *out = *out < -chars ? 0 : *out + chars;
  return CAIRN_OK;
}

static cairn_status find_window(tmpl_render *r, const tmpl_str *s, tmpl_value start, tmpl_value end, window *out) {
  int64_t from, to, chars = (int64_t)crn_tmpl_str_chars(s);
  CRN_TRY(crn_tmpl_work(r, s->size));
  CRN_TRY(bound(r, start, chars, 0, &from));
  CRN_TRY(bound(r, end, chars, chars, &to));
  if (to > chars) to = chars;
  out->valid = from <= to;
  if (!out->valid) return CAIRN_OK;
  out->start = crn_tmpl_str_offset(s, (size_t)from);
  out->end = crn_tmpl_str_offset(s, (size_t)to);
  return CAIRN_OK;
}

static size_t find_last(const tmpl_str *s, window w, const tmpl_str *needle) {
  if (needle->size > w.end - w.start) return SIZE_MAX;
  for (size_t at = w.end - needle->size + 1; at-- > w.start;) {
    if (!memcmp(s->data + at, needle->data, needle->size)) return at;
  }
  return SIZE_MAX;
}

// The index of the first or last occurrence in code points, or -1.
static cairn_status find(tmpl_render *r, tmpl_value self, const tmpl_value *argv, bool last, int64_t *out) {
  const tmpl_str *needle;
  window w;
  *out = -1;
  CRN_TRY(crn_tmpl_need_str(r, argv[0], &needle));
  CRN_TRY(find_window(r, self.s, argv[1], argv[2], &w));
  if (!w.valid) return CAIRN_OK;
  if (last) CRN_TRY(crn_tmpl_work(r, self.s->size * 8));
  size_t at = last ? find_last(self.s, w, needle) : crn_tmpl_find(self.s->data, w.end, w.start, needle->data, needle->size);
  if (at == SIZE_MAX) return CAIRN_OK;
  tmpl_str before = {.data = self.s->data, .size = at, .chars = TMPL_CHARS_UNKNOWN};
  *out = (int64_t)crn_tmpl_str_chars(&before);
  return CAIRN_OK;
}

STR_METHOD(find) {
  UNUSED_ARGS;
  *out = tmpl_int(0);
  return find(r, self, argv, false, &out->i);
}

STR_METHOD(rfind) {
  UNUSED_ARGS;
  *out = tmpl_int(0);
  return find(r, self, argv, true, &out->i);
}

static cairn_status must_find(tmpl_render *r, tmpl_value self, const tmpl_value *argv, bool last, tmpl_value *out) {
  *out = tmpl_int(0);
  CRN_TRY(find(r, self, argv, last, &out->i));
  return out->i < 0 ? crn_tmpl_fail(r, "substring not found") : CAIRN_OK;
}

STR_METHOD(index) {
  UNUSED_ARGS;
  return must_find(r, self, argv, false, out);
}

STR_METHOD(rindex) {
  UNUSED_ARGS;
  return must_find(r, self, argv, true, out);
}

STR_METHOD(count) {
  UNUSED_ARGS;
  const tmpl_str *needle;
  window w;
  *out = tmpl_int(0);
  CRN_TRY(crn_tmpl_need_str(r, argv[0], &needle));
  CRN_TRY(find_window(r, self.s, argv[1], argv[2], &w));
  if (!w.valid) return CAIRN_OK;
  if (!needle->size) {
    tmpl_str inside = {.data = self.s->data + w.start, .size = w.end - w.start, .chars = TMPL_CHARS_UNKNOWN};
    out->i = (int64_t)crn_tmpl_str_chars(&inside) + 1;
    return CAIRN_OK;
  }
  for (size_t at = w.start;; out->i++) {
    at = crn_tmpl_find(self.s->data, w.end, at, needle->data, needle->size);
    if (at == SIZE_MAX) return CAIRN_OK;
    at += needle->size;
  }
}

static bool ends_match(const tmpl_str *s, window w, const tmpl_str *part, bool at_end) {
  if (!w.valid || part->size > w.end - w.start) return false;
  return !memcmp(s->data + (at_end ? w.end - part->size : w.start), part->data, part->size);
}

// startswith and endswith take one text or a tuple of them.
static cairn_status has_affix(tmpl_render *r, tmpl_value self, const tmpl_value *argv, bool at_end, tmpl_value *out) {
  window w;
  *out = tmpl_bool(false);
  CRN_TRY(find_window(r, self.s, argv[1], argv[2], &w));
  if (argv[0].type == TMPL_STRING) {
    out->b = ends_match(self.s, w, argv[0].s, at_end);
    return CAIRN_OK;
  }
  if (argv[0].type != TMPL_TUPLE) {
    return crn_tmpl_fail(r, "%s first arg must be str or a tuple of str, not %s", at_end ? "endswith" : "startswith",
                         crn_tmpl_type_name(argv[0]));
  }
  for (size_t i = 0; !out->b && i < argv[0].list->size; i++) {
    const tmpl_str *part;
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(crn_tmpl_need_str(r, argv[0].list->items[i], &part));
    out->b = ends_match(self.s, w, part, at_end);
  }
  return CAIRN_OK;
}

STR_METHOD(startswith) {
  UNUSED_ARGS;
  return has_affix(r, self, argv, false, out);
}

STR_METHOD(endswith) {
  UNUSED_ARGS;
  return has_affix(r, self, argv, true, out);
}

// --- classes of characters -----------------------------------------------------------------------------------------------------

static cairn_status all_are(tmpl_render *r, const tmpl_str *s, bool (*is)(uint32_t), bool if_empty, tmpl_value *out) {
  CRN_TRY(crn_tmpl_steps(r, s->size / 16));
  *out = tmpl_bool(s->size ? true : if_empty);
  for (const char *p = s->data, *end = p + s->size; out->b && p < end;) {
    uint32_t code;
    p = crn_tmpl_text_next(p, end, &code);
    out->b = is(code);
  }
  return CAIRN_OK;
}

static bool is_ascii(uint32_t code) { return code < 0x80; }

#define CLASS_METHOD(name, is, if_empty)          \
  STR_METHOD(name) {                              \
    UNUSED_ARGS;                                  \
    return all_are(r, self.s, is, if_empty, out); \
  }

CLASS_METHOD(isalnum, crn_code_is_alphanumeric, false)
CLASS_METHOD(isalpha, crn_code_is_alpha, false)
CLASS_METHOD(isascii, is_ascii, true)
CLASS_METHOD(isdecimal, crn_code_is_decimal, false)
CLASS_METHOD(isdigit, crn_code_is_digit, false)
CLASS_METHOD(isnumeric, crn_code_is_numeric, false)
CLASS_METHOD(isprintable, crn_code_is_printable, true)
CLASS_METHOD(isspace, crn_code_is_space, false)

STR_METHOD(isidentifier) {
  UNUSED_ARGS;
  *out = tmpl_bool(self.s->size > 0);
  for (const char *p = self.s->data, *end = p + self.s->size; out->b && p < end;) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    out->b = crn_code_is_identifier(code, p == self.s->data);
    p = next;
  }
  return CAIRN_OK;
}

// True when there are cased letters and all of them are of the wanted case.
static cairn_status all_cased(tmpl_render *r, const tmpl_str *s, bool (*is)(uint32_t), tmpl_value *out) {
  bool any = false, all = true;
  CRN_TRY(crn_tmpl_steps(r, s->size / 16));
  for (const char *p = s->data, *end = p + s->size; all && p < end;) {
    uint32_t code;
    p = crn_tmpl_text_next(p, end, &code);
    if (!crn_code_is_cased(code)) continue;
    any = true;
    all = is(code);
  }
  *out = tmpl_bool(any && all);
  return CAIRN_OK;
}

STR_METHOD(islower) {
  UNUSED_ARGS;
  return all_cased(r, self.s, crn_code_is_lower, out);
}

STR_METHOD(isupper) {
  UNUSED_ARGS;
  return all_cased(r, self.s, crn_code_is_upper, out);
}

STR_METHOD(istitle) {
  UNUSED_ARGS;
  bool any = false, ok = true, after_cased = false;
  CRN_TRY(crn_tmpl_steps(r, self.s->size / 16));
  for (const char *p = self.s->data, *end = p + self.s->size; ok && p < end;) {
    uint32_t code;
    p = crn_tmpl_text_next(p, end, &code);
    bool big = crn_code_is_upper(code) || crn_code_is_title(code), small = crn_code_is_lower(code);
    ok = !(big && after_cased) && !(small && !after_cased);
    any = any || big || small;
    after_cased = big || small;
  }
  *out = tmpl_bool(any && ok);
  return CAIRN_OK;
}
