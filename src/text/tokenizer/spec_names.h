/// Pre-tokenizers by the names GGUF has for them.
#ifndef CRN_TEXT_TOKENIZER_SPEC_NAMES_H
#define CRN_TEXT_TOKENIZER_SPEC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct crn_named_split {
  const char *names;        ///< set apart by spaces
  const char *patterns[6];  ///< up to the first NULL
  bool ignore_merges;       ///< a word that is a token is that token, whatever the merges say
  bool compose;             ///< the text is brought into NFC first
  bool plain;               ///< characters instead of bytes, spaces as U+2581 (patterns are not used)
} crn_named_split;

/// NULL when no pre-tokenizer has the name.
const crn_named_split *crn_named_split_find(const char *name);

#endif
