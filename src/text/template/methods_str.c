/// Methods of strings that give other strings.
#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"
#include "text/template/html.h"
#include "text/template/methods.h"
#include "text/template/text.h"

#define STR_METHOD(name) \
  cairn_status crn_tmpl_str_##name(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out)
#define UNUSED_ARGS (void)r, (void)self, (void)argv, (void)all, (void)out

// --- case -----------------------------------------------------------------------------------------------------------------

#define CASE_METHOD(name, how)                      \
  STR_METHOD(name) {                                \
    UNUSED_ARGS;                                    \
    return crn_tmpl_text_case(r, self.s, how, out); \
  }

CASE_METHOD(upper, TMPL_CASE_UPPER)
CASE_METHOD(lower, TMPL_CASE_LOWER)
CASE_METHOD(title, TMPL_CASE_TITLE)
CASE_METHOD(capitalize, TMPL_CASE_CAPITALIZE)
CASE_METHOD(swapcase, TMPL_CASE_SWAP)
CASE_METHOD(casefold, TMPL_CASE_FOLD)

// --- ends -----------------------------------------------------------------------------------------------------------------

static cairn_status strip(tmpl_render *r, tmpl_value self, tmpl_value chars, bool left, bool right, tmpl_value *out) {
  const tmpl_str *set;
  CRN_TRY(crn_tmpl_arg_str(r, chars, &set));
  return crn_tmpl_text_strip(r, self.s, set, left, right, out);
}

STR_METHOD(strip) {
  UNUSED_ARGS;
  return strip(r, self, argv[0], true, true, out);
}

STR_METHOD(lstrip) {
  UNUSED_ARGS;
  return strip(r, self, argv[0], true, false, out);
}

STR_METHOD(rstrip) {
  UNUSED_ARGS;
  return strip(r, self, argv[0], false, true, out);
}

STR_METHOD(removeprefix) {
  UNUSED_ARGS;
  const tmpl_str *part;
  CRN_TRY(crn_tmpl_need_str(r, argv[0], &part));
  bool has = part->size <= self.s->size && !memcmp(self.s->data, part->data, part->size);
  return crn_tmpl_str_part(r, self.s, has ? part->size : 0, self.s->size, out);
}

STR_METHOD(removesuffix) {
  UNUSED_ARGS;
  const tmpl_str *part;
  CRN_TRY(crn_tmpl_need_str(r, argv[0], &part));
  size_t n = self.s->size;
  bool has = part->size <= n && !memcmp(self.s->data + n - part->size, part->data, part->size);
  return crn_tmpl_str_part(r, self.s, 0, has ? n - part->size : n, out);
}

// --- padding ----------------------------------------------------------------------------------------------------------------

static cairn_status pad(tmpl_render *r, tmpl_value self, const tmpl_value *argv, tmpl_align align, tmpl_value *out) {
  int64_t width;
  const tmpl_str *fill = NULL;
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 0, &width));
  if (argv[1].type != TMPL_MISSING) CRN_TRY(crn_tmpl_need_str(r, argv[1], &fill));
  return crn_tmpl_text_pad(r, self.s, width, fill, align, out);
}

STR_METHOD(center) {
  UNUSED_ARGS;
  return pad(r, self, argv, TMPL_ALIGN_CENTER, out);
}

STR_METHOD(ljust) {
  UNUSED_ARGS;
  return pad(r, self, argv, TMPL_ALIGN_LEFT, out);
}

STR_METHOD(rjust) {
  UNUSED_ARGS;
  return pad(r, self, argv, TMPL_ALIGN_RIGHT, out);
}

STR_METHOD(zfill) {
  UNUSED_ARGS;
  int64_t width;
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 0, &width));
  const tmpl_str *s = self.s;
  int64_t missing = width - (int64_t)crn_tmpl_str_chars(s);
  *out = self;
  if (missing <= 0) return CAIRN_OK;
  size_t sign = s->size && (s->data[0] == '-' || s->data[0] == '+');
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_put(r, &b, s->data, sign));
  CRN_TRY(crn_tmpl_put_repeated(r, &b, "0", 1, (size_t)missing));
  CRN_TRY(crn_tmpl_put(r, &b, s->data + sign, s->size - sign));
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, s->markup, out);
}

STR_METHOD(expandtabs) {
  UNUSED_ARGS;
  int64_t size, column = 0;
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 8, &size));
  tmpl_buffer b = {0};
  for (const char *p = self.s->data, *end = p + self.s->size; p < end;) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    if (code == '\t') {
      int64_t spaces = size > 0 ? size - column % size : 0;
      CRN_TRY(crn_tmpl_put_repeated(r, &b, " ", 1, (size_t)spaces));
      column += spaces;
    } else {
      CRN_TRY(crn_tmpl_put(r, &b, p, (size_t)(next - p)));
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
    CRN_TRY(crn_tmpl_steps(r, 1));
    p = next;
  }
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, self.s->markup, out);
}

// --- parts -----------------------------------------------------------------------------------------------------------------

static cairn_status split(tmpl_render *r, tmpl_value self, const tmpl_value *argv, bool from_right, tmpl_value *out) {
  const tmpl_str *separator;
  int64_t max;
  tmpl_items items = {0};
  CRN_TRY(crn_tmpl_arg_str(r, argv[0], &separator));
  CRN_TRY(crn_tmpl_arg_int(r, argv[1], -1, &max));
  CRN_TRY(crn_tmpl_text_split(r, self.s, separator, max, from_right, &items));
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

STR_METHOD(split) {
  UNUSED_ARGS;
  return split(r, self, argv, false, out);
}

STR_METHOD(rsplit) {
  UNUSED_ARGS;
  return split(r, self, argv, true, out);
}

STR_METHOD(splitlines) {
  UNUSED_ARGS;
  tmpl_items items = {0};
  bool keep = argv[0].type != TMPL_MISSING && crn_tmpl_truth(argv[0]);
  CRN_TRY(crn_tmpl_text_lines(r, self.s, keep, &items));
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

static cairn_status partition(tmpl_render *r, tmpl_value self, tmpl_value separator, bool from_right, tmpl_value *out) {
  const tmpl_str *sep, *s = self.s;
  CRN_TRY(crn_tmpl_need_str(r, separator, &sep));
  if (!sep->size) return crn_tmpl_fail(r, "empty separator");
  CRN_TRY(crn_tmpl_work(r, s->size));
  size_t found = SIZE_MAX;
  for (size_t at = 0;; at = found + 1) {
    size_t next = crn_tmpl_find(s->data, s->size, at, sep->data, sep->size);
    if (next == SIZE_MAX) break;
    found = next;
    if (!from_right) break;
  }
  // Without a separator everything stands on one side.
  size_t end = s->size, left = from_right ? 0 : end, right = from_right ? 0 : end;
  if (found != SIZE_MAX) {
    left = found;
    right = found + sep->size;
  }
  tmpl_value parts[3];
  CRN_TRY(crn_tmpl_str_part(r, s, 0, left, &parts[0]));
  CRN_TRY(crn_tmpl_str_part(r, s, left, right, &parts[1]));
  CRN_TRY(crn_tmpl_str_part(r, s, right, end, &parts[2]));
  return crn_tmpl_list_copy(r, parts, 3, TMPL_TUPLE, out);
}

STR_METHOD(partition) {
  UNUSED_ARGS;
  return partition(r, self, argv[0], false, out);
}

STR_METHOD(rpartition) {
  UNUSED_ARGS;
  return partition(r, self, argv[0], true, out);
}

// --- others -------------------------------------------------------------------------------------------------------------------

STR_METHOD(replace) {
  UNUSED_ARGS;
  const tmpl_str *from, *to;
  int64_t count;
  CRN_TRY(crn_tmpl_need_str(r, argv[0], &from));
  CRN_TRY(crn_tmpl_need_str(r, argv[1], &to));
  CRN_TRY(crn_tmpl_arg_int(r, argv[2], -1, &count));
  if (self.s->markup) {
    tmpl_value escaped;
    CRN_TRY(crn_tmpl_escape(r, argv[1], &escaped));
    to = escaped.s;
  }
  return crn_tmpl_text_replace(r, self.s, from, to, count, out);
}

STR_METHOD(join) {
  UNUSED_ARGS;
  return crn_tmpl_text_join(r, self.s, argv[0], out);
}

STR_METHOD(format) {
  UNUSED_ARGS;
  return crn_tmpl_format_braces(r, self.s, all, tmpl_missing(), out);
}

STR_METHOD(format_map) {
  UNUSED_ARGS;
  tmpl_args none = {0};
  return crn_tmpl_format_braces(r, self.s, &none, argv[0], out);
}

STR_METHOD(translate) {
  UNUSED_ARGS;
  tmpl_buffer b = {0};
  for (const char *p = self.s->data, *end = p + self.s->size; p < end;) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    tmpl_value to = tmpl_int(code);
    if (argv[0].type == TMPL_DICT) {
      const tmpl_pair *pair = crn_tmpl_dict_find(argv[0].dict, to);
      if (pair) to = pair->value;
    } else {
      return crn_tmpl_fail(r, "the table of translate() must be a mapping, not %s", crn_tmpl_type_name(argv[0]));
    }
    if (to.type == TMPL_STRING) {
      CRN_TRY(crn_tmpl_put(r, &b, to.s->data, to.s->size));
    } else if (to.type != TMPL_NONE) {
      if (to.type != TMPL_INT || to.i < 0 || to.i > 0x10ffff) return crn_tmpl_fail(r, "character mapping must return integer, None or str");
      CRN_TRY(crn_tmpl_put_code(r, &b, (uint32_t)to.i));
    }
    CRN_TRY(crn_tmpl_steps(r, 1));
    p = next;
  }
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, self.s->markup, out);
}

STR_METHOD(encode) {
  UNUSED_ARGS;
  return crn_tmpl_fail(r, "encode() is not supported: templates have no bytes");
}
