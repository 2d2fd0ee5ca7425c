/// Operations on text that methods and filters share, as Python's str has them.
#ifndef CRN_TEXT_TEMPLATE_TEXT_H
#define CRN_TEXT_TEMPLATE_TEXT_H

#include "text/template/render.h"

typedef enum tmpl_case {
  TMPL_CASE_UPPER,
  TMPL_CASE_LOWER,
  TMPL_CASE_TITLE,
  TMPL_CASE_CAPITALIZE,
  TMPL_CASE_SWAP,
  TMPL_CASE_FOLD
} tmpl_case;

/// `s` in another case; the markup flag stays.
cairn_status crn_tmpl_text_case(tmpl_render *r, const tmpl_str *s, tmpl_case how, tmpl_value *out);
/// Appends bytes of a text in upper or lower case.
cairn_status crn_tmpl_text_put_case(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n, tmpl_case how);

/// Removes code points at the ends: whitespace (`chars` NULL) or those of `chars`.
cairn_status crn_tmpl_text_strip(tmpl_render *r, const tmpl_str *s, const tmpl_str *chars, bool left, bool right, tmpl_value *out);

/// Replaces up to `count` occurrences (negative: all).
cairn_status crn_tmpl_text_replace(tmpl_render *r, const tmpl_str *s, const tmpl_str *from, const tmpl_str *to, int64_t count,
                                   tmpl_value *out);

/// Parts between separators, or between runs of whitespace (`separator` NULL), appended to `items`.
cairn_status crn_tmpl_text_split(tmpl_render *r, const tmpl_str *s, const tmpl_str *separator, int64_t max, bool from_right,
                                 tmpl_items *items);
cairn_status crn_tmpl_text_lines(tmpl_render *r, const tmpl_str *s, bool keep_ends, tmpl_items *items);

typedef enum tmpl_align { TMPL_ALIGN_LEFT, TMPL_ALIGN_RIGHT, TMPL_ALIGN_CENTER } tmpl_align;

/// Pads to `width` code points with `fill`, which must be one code point.
cairn_status crn_tmpl_text_pad(tmpl_render *r, const tmpl_str *s, int64_t width, const tmpl_str *fill, tmpl_align align, tmpl_value *out);

/// The code point at `p` and where the next one starts.
const char *crn_tmpl_text_next(const char *p, const char *end, uint32_t *out_code);
/// The code point before `p` and where it starts.
const char *crn_tmpl_text_previous(const char *start, const char *p, uint32_t *out_code);

/// separator.join(items): every item must be a string.
cairn_status crn_tmpl_text_join(tmpl_render *r, const tmpl_str *separator, tmpl_value items, tmpl_value *out);

#endif
