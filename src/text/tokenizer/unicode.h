/// Questions about characters, answered as the reference library answers them.
#ifndef CRN_TEXT_TOKENIZER_UNICODE_H
#define CRN_TEXT_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

bool crn_is_whitespace(uint32_t code);       ///< White_Space
bool crn_is_numeric(uint32_t code);          ///< Nd, Nl, No
bool crn_is_punctuation(uint32_t code);      ///< ASCII punctuation or P*
bool crn_is_word(uint32_t code);             ///< \w: alphabetic, marks, decimal digits, connectors, joiners
bool crn_is_other(uint32_t code);            ///< Cc, Cf, Cn, Co
bool crn_is_nonspacing_mark(uint32_t code);  ///< Mn
bool crn_is_combining_mark(uint32_t code);   ///< M*
bool crn_is_newer_mark(uint32_t code);       ///< M*, since Unicode 15: older libraries do not know them
/// Lower-case form: one or two code points, returns their number.
int crn_lowercase(uint32_t code, uint32_t out[2]);

#endif
