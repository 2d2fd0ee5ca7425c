/// Literals in template source.
#ifndef CRN_TEXT_TEMPLATE_LITERAL_H
#define CRN_TEXT_TEMPLATE_LITERAL_H

#include "base/arena.h"
#include "text/template/value.h"

/// Reads an integer or a float at the start of `text` (which starts with a digit) and returns its length.
/// `*out_fits` is false when an integer needs more than 64 bits.
size_t crn_tmpl_scan_number(const char *text, size_t n, bool allow_float, bool *out_is_float, int64_t *out_integer, double *out_real,
                            bool *out_fits);

/// Replaces the escapes of a string literal. A malformed escape gives a description in `*out_problem`.
/// Errors: OUT_OF_MEMORY.
cairn_status crn_tmpl_unescape(crn_arena *arena, const char *text, size_t n, const char **out_text, size_t *out_size,
                               const char **out_problem);

#endif
