/// Which script a character belongs to.
#ifndef CRN_TEXT_TOKENIZER_SCRIPT_TABLES_H
#define CRN_TEXT_TOKENIZER_SCRIPT_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct crn_script_range {
  uint32_t first, last;
  uint8_t script;
} crn_script_range;

extern const crn_script_range crn_script_ranges[];
extern const size_t crn_n_script_ranges;

#endif
