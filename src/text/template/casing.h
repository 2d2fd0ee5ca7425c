/// Unicode as Python's str methods see it: classes of code points and case mappings.
#ifndef CRN_TEXT_TEMPLATE_CASING_H
#define CRN_TEXT_TEMPLATE_CASING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool crn_code_is_space(uint32_t code);
/// Part of a word: a letter, a number or an underscore (`\w`).
bool crn_code_is_word(uint32_t code);
bool crn_code_is_identifier(uint32_t code, bool first);
bool crn_code_is_alpha(uint32_t code);
bool crn_code_is_decimal(uint32_t code);
bool crn_code_is_digit(uint32_t code);
bool crn_code_is_numeric(uint32_t code);
/// Letters and numbers.
bool crn_code_is_alphanumeric(uint32_t code);
bool crn_code_is_lower(uint32_t code);
bool crn_code_is_upper(uint32_t code);
bool crn_code_is_title(uint32_t code);
bool crn_code_is_cased(uint32_t code);
bool crn_code_is_printable(uint32_t code);
/// Ends a line for str.splitlines().
bool crn_code_is_line_end(uint32_t code);
/// Skipped when the place of a sigma in its word is looked at.
bool crn_code_is_case_ignorable(uint32_t code);

enum { CRN_CASE_MAX = 4 };

/// Each writes 1 to CRN_CASE_MAX code points and returns how many. The lower case of a sigma at the end of a word is
/// the caller's business.
int crn_code_upper(uint32_t code, uint32_t out[CRN_CASE_MAX]);
int crn_code_lower(uint32_t code, uint32_t out[CRN_CASE_MAX]);
int crn_code_title(uint32_t code, uint32_t out[CRN_CASE_MAX]);
int crn_code_fold(uint32_t code, uint32_t out[CRN_CASE_MAX]);

#endif
