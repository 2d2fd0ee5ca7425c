/// Inside of the pre-tokenizers.
#ifndef CRN_TEXT_TOKENIZER_PRETOKENIZERS_H
#define CRN_TEXT_TOKENIZER_PRETOKENIZERS_H

#include "text/tokenizer/internal.h"

typedef enum crn_pretokenizer_kind {
  CRN_PRE_BYTE_LEVEL,
  CRN_PRE_SPLIT,
  CRN_PRE_METASPACE,
  CRN_PRE_WHITESPACE,
  CRN_PRE_SPACES,
  CRN_PRE_BERT,
  CRN_PRE_PUNCTUATION,
  CRN_PRE_DIGITS,
  CRN_PRE_SCRIPTS,
  CRN_PRE_DELIMITER,
  CRN_PRE_FIXED_LENGTH,
} crn_pretokenizer_kind;

typedef enum crn_prepend_scheme { CRN_PREPEND_FIRST, CRN_PREPEND_NEVER, CRN_PREPEND_ALWAYS } crn_prepend_scheme;

struct crn_pretokenizer {
  crn_pretokenizer_kind kind;
  crn_behavior behavior;
  crn_prepend_scheme scheme;  ///< Metaspace
  const crn_regex *regex;     ///< Split, ByteLevel with its pattern
  bool invert, add_prefix_space, use_regex, split;
  uint32_t code;         ///< Metaspace: replacement; CharDelimiterSplit: delimiter
  size_t length;         ///< FixedLength, in characters
  const uint64_t *hits;  ///< Digits, Punctuation: which characters of the first plane are hits, a bit each
};

/// Fills run->matches with the stretches of one script, none of them a hit.
cairn_status crn_match_scripts(crn_run *run, crn_piece piece);

#endif
