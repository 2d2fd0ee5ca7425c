/// Tokenizers made from the parts of another file format (GGUF metadata) instead of a tokenizer.json.
#ifndef CRN_TEXT_TOKENIZER_SPEC_H
#define CRN_TEXT_TOKENIZER_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/tokenizer.h"

/// How words become tokens.
typedef enum crn_tokenizer_model {
  CRN_TOKENIZER_MODEL_BPE,        ///< byte-level BPE with a merge list (GGUF "gpt2")
  CRN_TOKENIZER_MODEL_SPM,        ///< SentencePiece BPE: neighbours merge by best score, bytes as fallback (GGUF "llama")
  CRN_TOKENIZER_MODEL_WPM,        ///< WordPiece; words start with U+2581 in the list of tokens (GGUF "bert")
  CRN_TOKENIZER_MODEL_UGM,        ///< SentencePiece Unigram (GGUF "t5")
  CRN_TOKENIZER_MODEL_PLAIN_BPE,  ///< BPE with a merge list over characters, spaces as U+2581, bytes as fallback (GGUF "gemma4")
  CRN_TOKENIZER_MODEL_RWKV,       ///< the longest token, again and again; tokens are escaped bytes (GGUF "rwkv")
} crn_tokenizer_model;

/// The kind of one token; the values are those of GGUF's tokenizer.ggml.token_type.
typedef enum crn_token_type {
  CRN_TOKEN_NORMAL = 1,
  CRN_TOKEN_UNKNOWN = 2,
  CRN_TOKEN_CONTROL = 3,       ///< recognised in text as a whole, left out of decoded text when specials are skipped
  CRN_TOKEN_USER_DEFINED = 4,  ///< recognised in text as a whole, always decoded
  CRN_TOKEN_UNUSED = 5,
  CRN_TOKEN_BYTE = 6,  ///< "<0x41>"
} crn_token_type;

/// A counted string, as GGUF stores it (no NUL needed behind it).
typedef struct crn_token_text {
  const char *data;
  size_t bytes;
} crn_token_text;

/// Everything is borrowed for the length of the call only.
typedef struct crn_tokenizer_spec {
  const char *what;  ///< names the source in messages, usually its path
  crn_tokenizer_model model;
  const char *pre;  ///< pre-tokenizer name as GGUF spells it ("smollm", "llama-bpe", …); NULL = "default". Not used by SPM
  size_t n_tokens;
  const crn_token_text *tokens;  ///< n_tokens texts; BPE: in the byte-level alphabet, SPM: with U+2581 for a space
  const float *scores;           ///< n_tokens; needed by SPM, may be NULL for BPE
  const int32_t *types;          ///< n_tokens values of crn_token_type; NULL = all normal
  size_t n_merges;
  const crn_token_text *merges;    ///< "left right", best first; needed by BPE
  int32_t bos_id, eos_id, unk_id;  ///< -1 = none
  bool add_bos, add_eos;           ///< what encode adds when asked for special tokens
  bool add_space_prefix;           ///< SPM, UGM: a text starts as if a space stood before it
  bool remove_extra_whitespaces;   ///< UGM: spaces at the ends go, several become one
  bool lowercase, strip_accents;   ///< WPM
  const void *charsmap;            ///< UGM: SentencePiece's precompiled map, NULL = none
  size_t charsmap_bytes;
} crn_tokenizer_spec;

/// An empty specification: no tokens, ids -1, nothing added, add_space_prefix, lowercase and strip_accents true.
void crn_tokenizer_spec_initialize(crn_tokenizer_spec *spec);

/// The model of a GGUF tokenizer.ggml.model name ("gpt2", "llama", "bert", "t5", "gemma4", "rwkv").
/// Errors: UNSUPPORTED naming it.
cairn_status crn_tokenizer_model_by_name(const char *name, crn_tokenizer_model *out_model);

/// Makes a tokenizer with one reference.
/// Errors: UNSUPPORTED (unknown pre-tokenizer, naming it), CORRUPT (a merge or an id that does not fit the tokens),
/// INVALID_ARGUMENT (tokens, scores or merges missing), OUT_OF_MEMORY.
cairn_status crn_tokenizer_create_from_spec(cairn_context *context, const crn_tokenizer_spec *spec, cairn_tokenizer **out_tokenizer);

#endif
