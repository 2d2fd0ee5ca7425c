/// Numbers, names and bare texts of the literals.
#ifndef CRN_TEXT_DIALOGUE_LITERAL_WORD_H
#define CRN_TEXT_DIALOGUE_LITERAL_WORD_H

#include "text/dialogue/literal.h"

/// Appends the value a word stands for. `*out_ok` false: it is none in this dialect.
cairn_status crn_literal_word(crn_dialect dialect, const char *word, size_t n, crn_str *out, bool *out_ok);
/// Appends a text of any bytes as a JSON string.
cairn_status crn_literal_text(crn_str *out, const char *text, size_t n);

#endif
