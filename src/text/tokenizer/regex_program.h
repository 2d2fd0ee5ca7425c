/// A second way to match the patterns most pre-tokenizers are made of: alternatives of runs of characters out of sets.
/// It gives what PCRE2 gives, several times faster; patterns that need more are left to PCRE2.
#ifndef CRN_TEXT_TOKENIZER_REGEX_PROGRAM_H
#define CRN_TEXT_TOKENIZER_REGEX_PROGRAM_H

#include <stdbool.h>

#include "base/alloc.h"

typedef struct crn_regex_program crn_regex_program;

/// Makes a program of a translated pattern. `*out_program` stays NULL when the pattern has a construct programs do not know.
/// Which characters a set holds is asked of PCRE2 itself, for every character there is, so this takes some milliseconds.
/// Owner: unique; crn_regex_program_destroy. Thread: a program is never changed. Errors: OUT_OF_MEMORY.
cairn_status crn_regex_program_create(const cairn_allocator *allocator, const char *translated, size_t bytes,
                                      crn_regex_program **out_program);
void crn_regex_program_destroy(crn_regex_program *program);

typedef enum crn_regex_outcome {
  CRN_REGEX_NONE,
  CRN_REGEX_FOUND,
  CRN_REGEX_TIRED,  ///< too much backtracking: PCRE2 has to decide
} crn_regex_outcome;

/// Finds the first match at or behind `at`. Matches of a program are never empty.
crn_regex_outcome crn_regex_program_find(const crn_regex_program *program, const char *text, size_t bytes, size_t at, size_t *out_begin,
                                         size_t *out_end);

#endif
