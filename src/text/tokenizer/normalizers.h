/// Inside of the normalizers.
#ifndef CRN_TEXT_TOKENIZER_NORMALIZERS_H
#define CRN_TEXT_TOKENIZER_NORMALIZERS_H

#include "text/tokenizer/internal.h"

typedef enum crn_normalizer_kind {
  CRN_NORMALIZER_NFC,
  CRN_NORMALIZER_NFD,
  CRN_NORMALIZER_NFKC,
  CRN_NORMALIZER_NFKD,
  CRN_NORMALIZER_LOWERCASE,
  CRN_NORMALIZER_STRIP_ACCENTS,
  CRN_NORMALIZER_STRIP,
  CRN_NORMALIZER_REPLACE,
  CRN_NORMALIZER_PREPEND,
  CRN_NORMALIZER_PRECOMPILED,
  CRN_NORMALIZER_BERT,
  CRN_NORMALIZER_NMT,
  CRN_NORMALIZER_BYTE_LEVEL,
  CRN_NORMALIZER_SENTENCEPIECE,
} crn_normalizer_kind;

/// SentencePiece's map of character rows: a double-array trie whose values are offsets of NUL-terminated texts.
typedef struct crn_charsmap {
  const uint32_t *units;
  size_t n_units;
  const char *texts;
  size_t text_bytes;
} crn_charsmap;

struct crn_normalizer {
  crn_normalizer_kind kind;
  const crn_regex *regex;                   ///< Replace
  crn_view content;                         ///< Replace: what comes instead; Prepend: what comes in front
  bool left, right;                         ///< Strip
  bool clean, chinese, accents, lowercase;  ///< BERT
  crn_charsmap map;                         ///< Precompiled
  const struct crn_sentencepiece *sp;       ///< SentencePiece
};

/// Appends one to the tokenizer being made.
cairn_status crn_normalizers_add(crn_build *build, const crn_normalizer *normalizer);

/// Brings run->text into a normalization form, written to run->spare.
cairn_status crn_normalize_form(crn_run *run, crn_piece whole, bool compose, bool compatible);
/// Whether a character stays as it is in form C whatever stands before it. False says nothing.
bool crn_is_composed(uint32_t code);

/// Reads a base64 charsmap into the arena.
cairn_status crn_charsmap_load(crn_build *build, const char *base64, size_t bytes, const char *where, crn_charsmap *out_map);
/// The same from the bytes themselves.
cairn_status crn_charsmap_copy(crn_build *build, const void *bytes, size_t n, const char *where, crn_charsmap *out_map);
/// Size of the longest row of bytes at the front of a text that the map has a text for, 0 when it has none.
size_t crn_charsmap_longest(const crn_charsmap *map, const char *text, size_t bytes, crn_view *out_text);
/// Applies a charsmap to run->text, written to run->spare.
cairn_status crn_charsmap_run(crn_run *run, crn_piece whole, const crn_charsmap *map);

#endif
