/// Values as models write them (JSON, Python, Gemma's own form), read byte by byte and written again as JSON without spaces.
#ifndef CRN_TEXT_DIALOGUE_LITERAL_H
#define CRN_TEXT_DIALOGUE_LITERAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { CRN_LITERAL_MAX_DEPTH = 250 };

typedef enum crn_dialect {
  CRN_DIALECT_JSON,    ///< strict, except that control characters may stand in strings
  CRN_DIALECT_PYTHON,  ///< literals and keyword arguments: 'a', (1, 2), True, None, {'k': 1}
  CRN_DIALECT_GEMMA    ///< {key:<escape>text<escape>,other:1}, the delimiter of strings being given
} crn_dialect;

typedef enum crn_literal_step {
  CRN_LITERAL_MORE,
  CRN_LITERAL_DONE,         ///< the byte was the last one of the value
  CRN_LITERAL_DONE_BEFORE,  ///< the value ended before the byte, which belongs to what follows
  CRN_LITERAL_BAD,
  CRN_LITERAL_DEEP  ///< nested deeper than allowed
} crn_literal_step;

typedef struct crn_literal {
  crn_dialect dialect;
  const char *delimiter;  ///< of strings in Gemma's form, else ""
  int max_depth, depth;
  char stack[CRN_LITERAL_MAX_DEPTH];  ///< '{', '[', '(' for tuples, 'k' for keyword arguments
  int state;
  bool is_key;          ///< the string or word being read is a key
  char quote;           ///< that ends the string; 0 = the delimiter
  bool is_triple;       ///< the string ends with three of them
  bool has_text;        ///< the string is not empty
  bool comma_due;       ///< a comma was read and is written when something follows it
  int n_quotes;         ///< seen in a row
  size_t n_matched;     ///< bytes of the delimiter seen
  uint32_t code, high;  ///< of an escape; the first half of a pair
  int n_digits;         ///< still to come
  char pending[4];      ///< an incomplete character
  int n_pending;
  crn_str word;  ///< number, name or bare text
} crn_literal;

void crn_literal_initialize(crn_literal *l, const cairn_allocator *allocator);
void crn_literal_deinitialize(crn_literal *l);
/// Starts on a value. `delimiter` "" unless Gemma's form.
void crn_literal_start(crn_literal *l, crn_dialect dialect, const char *delimiter, int max_depth);
/// Starts on Python's keyword arguments, behind their opening parenthesis; they become an object.
cairn_status crn_literal_start_arguments(crn_literal *l, int max_depth, crn_str *out);
/// Takes one byte and appends what it completes to `out`. Errors: OUT_OF_MEMORY.
cairn_status crn_literal_push(crn_literal *l, char byte, crn_str *out, crn_literal_step *out_step);

/// Reads a whole text as one value with white space around it, appended to `out`. When it is none, `out` is as before.
cairn_status crn_literal_whole(crn_literal *l, crn_dialect dialect, int max_depth, const char *text, size_t n, crn_str *out, bool *out_ok);

/// Appends the text that a JSON string without spaces around it stands for, as crn_literal_push writes them.
cairn_status crn_literal_unescape(const char *json, size_t n, crn_str *out);
/// Appends one character of a JSON string.
cairn_status crn_literal_put_code(crn_str *out, uint32_t code);

static inline bool crn_is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

#endif
