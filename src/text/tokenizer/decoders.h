/// Inside of the decoders.
#ifndef CRN_TEXT_TOKENIZER_DECODERS_H
#define CRN_TEXT_TOKENIZER_DECODERS_H

#include "text/tokenizer/internal.h"

typedef enum crn_decoder_kind {
  CRN_DECODER_BYTE_LEVEL,
  CRN_DECODER_BYTE_FALLBACK,
  CRN_DECODER_FUSE,
  CRN_DECODER_STRIP,
  CRN_DECODER_REPLACE,
  CRN_DECODER_METASPACE,
  CRN_DECODER_WORDPIECE,
  CRN_DECODER_CTC,
  CRN_DECODER_BPE,
  CRN_DECODER_SENTENCEPIECE,
} crn_decoder_kind;

struct crn_decoder {
  crn_decoder_kind kind;
  bool fused;              ///< an earlier stage joins all tokens: this one sees a single token that arrives in parts
  const crn_regex *regex;  ///< Replace
  crn_view literal;        ///< Replace of a plain string; bytes 0 = a regex
  crn_view content;        ///< Replace: what comes instead; WordPiece: prefix; BPE: suffix; CTC: padding token
  crn_view delimiter;      ///< CTC: between words
  bool cleanup;            ///< WordPiece, CTC
  bool drop_first;         ///< Metaspace, SentencePiece: the mark vanishes from the first token
  bool drop_all;           ///< SentencePiece: from all tokens before the first text
  bool bytes;              ///< SentencePiece: "<0x41>" is a byte
  uint32_t code;           ///< Strip: the character; Metaspace: the mark
  size_t start, stop;      ///< Strip
};

/// Hands text on to a stage.
cairn_status crn_decoding_feed(crn_decoding *d, size_t stage, const char *text, size_t bytes);
/// The byte of "<0x41>", -1 for any other token.
int crn_byte_of_token(const char *text, size_t bytes);
cairn_status crn_decoding_feed_sentencepiece(crn_decoding *d, size_t stage, const char *text, size_t bytes);
cairn_status crn_decoding_finish_sentencepiece(crn_decoding *d, size_t stage);

/// Appends `text` with every `from` replaced. An empty `from` matches before each character and at the end.
cairn_status crn_replace_all(crn_str *out, const char *text, size_t bytes, crn_view from, const char *to, size_t to_bytes);
/// The same in place.
cairn_status crn_replace_within(crn_str *in_out, crn_view from, const char *to, size_t to_bytes);
/// Removes the spaces English tokenization leaves before punctuation and short forms.
cairn_status crn_cleanup(crn_str *in_out);

#endif
