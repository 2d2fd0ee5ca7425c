/// Numbers and texts laid out in fields, for str.format and the % operator.
#ifndef CRN_TEXT_TEMPLATE_FORMAT_SPEC_H
#define CRN_TEXT_TEMPLATE_FORMAT_SPEC_H

#include "text/template/render.h"

typedef struct tmpl_field {
  uint32_t fill;          ///< a code point
  char align;             ///< '<', '>', '^', '=' (padding behind the sign)
  char sign;              ///< '-', '+' or ' '; 0: none asked for
  bool alternate;         ///< '#'
  bool no_negative_zero;  ///< 'z'
  int64_t width;
  char grouping;      ///< ',' or '_', or 0
  int64_t precision;  ///< -1: none
  char type;          ///< 0: none
} tmpl_field;

/// The widest field and the highest precision a template may ask for.
enum { TMPL_MAX_FIELD = 1 << 20, TMPL_MAX_PRECISION = 1000 };

/// Appends sign, prefix and digits of a number. `digits` may hold a fraction and an exponent; grouping and zero padding
/// concern the digits before them.
cairn_status crn_tmpl_put_number(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, bool negative, const char *prefix, const char *digits,
                                 size_t n);
cairn_status crn_tmpl_put_padded(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, const char *text, size_t n);
/// An integer in the base that `f->type` stands for (d, b, o, x, X).
cairn_status crn_tmpl_put_int_field(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, int64_t value, int64_t min_digits);
/// A float as e, f, g, E, F, G, % or without type.
cairn_status crn_tmpl_put_float_field(tmpl_render *r, tmpl_buffer *b, const tmpl_field *f, double value);
/// format(v, spec)
cairn_status crn_tmpl_put_formatted(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const char *spec, size_t n);

#endif
