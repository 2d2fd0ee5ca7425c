/// Sets of characters in translated patterns.
#ifndef CRN_TEXT_TOKENIZER_REGEX_SET_H
#define CRN_TEXT_TOKENIZER_REGEX_SET_H

#include "base/str.h"

/// A union: what fits between the brackets of one PCRE2 class, and whole expressions for single characters beside it.
typedef struct crn_regex_set {
  crn_str simple;  ///< inside of a class: "a-z\p{L}"
  crn_str others;  ///< alternatives, each written with a leading '|'
} crn_regex_set;

void crn_regex_set_initialize(crn_regex_set *set, const cairn_allocator *allocator);
void crn_regex_set_deinitialize(crn_regex_set *set);

/// Adds code points first to last.
cairn_status crn_regex_set_range(crn_regex_set *set, uint32_t first, uint32_t last);
/// Adds an expression for one character.
cairn_status crn_regex_set_other(crn_regex_set *set, const char *expression, size_t bytes);
/// Adds \s, \w, \d, \h or their opposites. Outside of brackets \w knows some superscripts and fractions of Latin-1 more.
cairn_status crn_regex_set_letter(crn_regex_set *set, char letter, bool in_brackets);
/// Adds \p{name} (`negated` for \P), or [:name:] when `posix`. Errors: UNSUPPORTED naming it.
cairn_status crn_regex_set_property(crn_regex_set *set, const char *name, size_t bytes, bool negated, bool posix, bool in_brackets,
                                    const char *what);
/// Writes the set as an expression for one character.
cairn_status crn_regex_set_write(const crn_regex_set *set, bool negated, crn_str *out);

/// Writes one literal character, safe inside and outside of brackets.
cairn_status crn_regex_put_code(crn_str *out, uint32_t code);

/// Characters of a general category that came after Unicode 14, up to the Unicode 16 of the reference engine, so that
/// patterns mean the same with any PCRE2 from 10.40 on.
typedef struct crn_regex_addition {
  char category[3];
  uint32_t first, last;
} crn_regex_addition;

extern const crn_regex_addition crn_regex_additions[];
extern const size_t crn_regex_n_additions;

typedef struct crn_regex_growth {
  const char *name, *inside;
} crn_regex_growth;

extern const crn_regex_growth crn_regex_growths[];
extern const size_t crn_regex_n_growths;

#endif
