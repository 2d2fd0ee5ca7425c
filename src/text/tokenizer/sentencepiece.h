/// SentencePiece models (tokenizer.model): the parts of the pipeline that work as its own library does.
#ifndef CRN_TEXT_TOKENIZER_SENTENCEPIECE_H
#define CRN_TEXT_TOKENIZER_SENTENCEPIECE_H

#include "text/tokenizer/internal.h"
#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/spec.h"

/// The values are those of the file.
typedef enum crn_sp_algorithm { CRN_SP_UNIGRAM = 1, CRN_SP_BPE = 2, CRN_SP_WORD = 3, CRN_SP_CHAR = 4 } crn_sp_algorithm;

/// In crn_symbol.id: a user-defined piece, which is never joined to anything.
enum { CRN_SYMBOL_FROZEN = -2 };

typedef struct crn_sentencepiece {
  crn_sp_algorithm algorithm;
  bool dummy_prefix;     ///< a text starts as if a space stood before it
  bool remove_extra;     ///< spaces at the ends go, several become one
  bool escape;           ///< a space is written U+2581
  bool space_at_end;     ///< the added space stands behind the text instead
  bool byte_fallback;    ///< an unknown character becomes its bytes
  crn_charsmap map;      ///< n_units 0 = none
  crn_trie user;         ///< user-defined pieces
  crn_trie pieces;       ///< normal, user-defined and unused pieces; values are ids
  const float *scores;   ///< by id
  const uint8_t *types;  ///< by id: crn_token_type
  float min_score;       ///< of the normal pieces
  bool has_unused;
} crn_sentencepiece;

/// Makes a tokenizer of the bytes of a file. `folder` (may be NULL) is where the files lie that Transformers keeps beside a
/// model; with them control pieces written in a text are recognised and the tokens they name are added.
/// Errors: CORRUPT, UNSUPPORTED (naming the feature), OUT_OF_MEMORY.
cairn_status crn_sentencepiece_create(cairn_context *context, const void *data, size_t bytes, const char *what, const char *folder,
                                      cairn_tokenizer **out_tokenizer);

/// Brings run->text into the model's normal form, written to run->spare.
cairn_status crn_sentencepiece_normalize(crn_run *run, crn_piece whole, const crn_sentencepiece *sp);

/// Size of the longest user-defined piece at the front of a text, or of its first character. `*out_user` may be NULL.
size_t crn_sentencepiece_step(const crn_sentencepiece *sp, const char *text, size_t bytes, bool *out_user);

/// Appends the decoder: U+2581 to space, byte pieces, the leading space dropped as the normalizer put it there.
cairn_status crn_decoders_add_sentencepiece(crn_build *build, const crn_sentencepiece *sp);

#endif
