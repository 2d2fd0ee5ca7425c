/// Ranges of characters, in rising order.
#ifndef CRN_TEXT_TOKENIZER_UNICODE_TABLES_H
#define CRN_TEXT_TOKENIZER_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct crn_code_range {
  uint32_t first, last;
} crn_code_range;

extern const crn_code_range crn_numeric_ranges[];
extern const size_t crn_n_numeric_ranges;
extern const crn_code_range crn_punctuation_ranges[];
extern const size_t crn_n_punctuation_ranges;
extern const crn_code_range crn_word_ranges[];
extern const size_t crn_n_word_ranges;
extern const crn_code_range crn_other_ranges[];
extern const size_t crn_n_other_ranges;
extern const crn_code_range crn_nonspacing_ranges[];
extern const size_t crn_n_nonspacing_ranges;
extern const crn_code_range crn_mark_ranges[];
extern const size_t crn_n_mark_ranges;

#endif
