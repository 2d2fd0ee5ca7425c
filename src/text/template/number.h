/// Numbers as text, whatever the locale of the process.
#ifndef CRN_TEXT_TEMPLATE_NUMBER_H
#define CRN_TEXT_TEMPLATE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRN_REPR_BYTES = 40 };

/// The shortest text that gives the same double again, as Python's repr() writes it. Returns the length.
size_t crn_tmpl_float_repr(double x, char out[CRN_REPR_BYTES]);

/// printf of one double. `fmt` takes a precision (`*`) and the number. Returns the length the full text has.
int crn_tmpl_format_double(char *out, size_t capacity, const char *fmt, int precision, double x);

/// Decimal digits with optional fraction and exponent, underscores ignored. False when it is too long to be read.
bool crn_tmpl_parse_float(const char *text, size_t n, double *out);

/// float(text): surrounding whitespace, sign, inf, nan and underscores between digits as Python allows.
bool crn_tmpl_float_of_text(const char *text, size_t n, double *out);

typedef enum tmpl_int_result { TMPL_INT_OK, TMPL_INT_INVALID, TMPL_INT_TOO_LARGE } tmpl_int_result;

/// int(text, base); base 0 reads the prefix.
tmpl_int_result crn_tmpl_int_of_text(const char *text, size_t n, int base, int64_t *out);

/// round(x, digits) with ties to even on the exact decimal value.
double crn_tmpl_round_double(double x, int64_t digits);

#endif
