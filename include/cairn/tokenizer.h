/// Tokenizers: text to token ids and back, and streamed detokenization.
///
/// A tokenizer behaves exactly as the Hugging Face `tokenizer.json` it was read from. A feature of the file that is not
/// supported is refused at load; it never leads to silently different ids.
#ifndef CAIRN_TOKENIZER_H
#define CAIRN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Owner: shared and counted. Thread: safe (immutable after creation).
typedef struct cairn_tokenizer cairn_tokenizer;

/// Opens a tokenizer. `path` is a `tokenizer.json` file, a SentencePiece model (a name that ends in `.model`) or a folder
/// that holds a `tokenizer.json`, else a `tokenizer.model` or `spiece.model` (beside it an optional `tokenizer_config.json`
/// and `special_tokens_map.json`, read for the names of the special tokens).
///
/// A SentencePiece model alone behaves exactly as SentencePiece: nothing is put around a text, and control pieces written in
/// a text are text. With a `tokenizer_config.json` beside it control pieces are recognised, the tokens it adds are there,
/// and `add_bos_token`, `add_eos_token` and `tokenizer_class` say what is put around a text.
/// Errors: NOT_FOUND, CORRUPT, UNSUPPORTED (naming the feature), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_tokenizer_open(cairn_context *context, const char *path, cairn_tokenizer **out_tokenizer);

/// As cairn_tokenizer_open, from the text of a `tokenizer.json` in memory. `what` names it in messages (may be NULL).
CAIRN_API cairn_status cairn_tokenizer_create_from_json(cairn_context *context, const char *json, size_t json_bytes, const char *what,
                                                        cairn_tokenizer **out_tokenizer);

/// As cairn_tokenizer_open, from the bytes of a SentencePiece model (`tokenizer.model`) in memory.
CAIRN_API cairn_status cairn_tokenizer_create_from_sentencepiece(cairn_context *context, const void *data, size_t bytes, const char *what,
                                                                 cairn_tokenizer **out_tokenizer);

CAIRN_API void cairn_tokenizer_retain(cairn_tokenizer *tokenizer);
CAIRN_API void cairn_tokenizer_release(cairn_tokenizer *tokenizer);

/// Number of ids (largest id + 1, added tokens included).
CAIRN_API int32_t cairn_tokenizer_vocab_size(const cairn_tokenizer *tokenizer);

/// Turns `text` (UTF-8; malformed sequences count as U+FFFD) into ids. With `add_special_tokens` the post-processor adds
/// what it adds (a beginning-of-text token, separators). Special tokens written in the text are recognised. Truncation and
/// padding of the file are applied.
///
/// Writes up to `capacity` ids and stores the full count in `*out_count`; a count above the capacity means the buffer
/// was too small and holds the first ids only (not an error).
/// Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FAILED_PRECONDITION (a pattern exceeded its match limit).
CAIRN_API cairn_status cairn_tokenizer_encode(const cairn_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                              bool add_special_tokens, int32_t *out_ids, size_t capacity, size_t *out_count);

/// As cairn_tokenizer_encode, but without the truncation and the padding a `tokenizer.json` may ask for: what a prompt needs,
/// and what Transformers does unless told otherwise.
CAIRN_API cairn_status cairn_tokenizer_encode_whole(const cairn_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                                    bool add_special_tokens, int32_t *out_ids, size_t capacity, size_t *out_count);

/// As cairn_tokenizer_encode for a pair of texts (`pair` NULL: one text); `out_type_ids` (may be NULL) gets the number of
/// the text, or what the post-processor says instead, per id.
CAIRN_API cairn_status cairn_tokenizer_encode_pair(const cairn_tokenizer *tokenizer, const char *text, size_t text_bytes, const char *pair,
                                                   size_t pair_bytes, bool add_special_tokens, int32_t *out_ids, int32_t *out_type_ids,
                                                   size_t capacity, size_t *out_count);

/// A token and the bytes of a text it stands for.
typedef struct cairn_token_span {
  int32_t id, type_id;
  int32_t text;       ///< 0 = the first text, 1 = its pair, -1 = none: the post-processor or padding added the token
  size_t begin, end;  ///< bytes [begin, end) of that text as the caller gave it; 0 and 0 without a text
} cairn_token_span;

/// As cairn_tokenizer_encode_pair, telling for each token where it comes from: through normalizers, added tokens and the
/// trimming of white space that a byte-level post-processor does. Several tokens of one character (bytes of an emoji) all
/// have the place of that character, and a token may stand for no byte at all (a space put in front of a text).
///
/// Writes up to `capacity` tokens and stores the full count in `*out_count`.
/// Errors: as cairn_tokenizer_encode. Thread: safe.
CAIRN_API cairn_status cairn_tokenizer_encode_offsets(const cairn_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                                      const char *pair, size_t pair_bytes, bool add_special_tokens,
                                                      cairn_token_span *out_spans, size_t capacity, size_t *out_count);

/// The first token that covers byte `position` of a text (0 or 1), or SIZE_MAX when none does (white space between words
/// often belongs to no token). Thread: safe.
CAIRN_API size_t cairn_token_spans_find(const cairn_token_span *spans, size_t n_spans, int32_t text, size_t position);

/// Turns ids into text. Ids outside the vocabulary are skipped, as the reference does. The text may hold U+FFFD where
/// bytes do not form UTF-8. Writes up to `capacity` bytes (no NUL) and stores the full size in `*out_bytes`.
CAIRN_API cairn_status cairn_tokenizer_decode(const cairn_tokenizer *tokenizer, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                                              char *out_text, size_t capacity, size_t *out_bytes);

/// The id of a token written exactly as in the vocabulary or the added tokens, or -1.
CAIRN_API int32_t cairn_tokenizer_id(const cairn_tokenizer *tokenizer, const char *token);

/// The token of an id as the vocabulary spells it (NULL when there is none), up to a U+0000 it may hold. Owner: borrowed.
CAIRN_API const char *cairn_tokenizer_token(const cairn_tokenizer *tokenizer, int32_t id);

/// The bytes a token adds to a text that it is not the beginning of. They need not be whole characters; a special token has the
/// bytes of its spelling, an id without a token none. Writes up to `capacity` bytes and stores the full count. Thread: safe.
/// Errors: OUT_OF_RANGE, UNSUPPORTED (naming the decoder that makes a token depend on those before it: WordPiece and the like).
CAIRN_API cairn_status cairn_tokenizer_token_bytes(const cairn_tokenizer *tokenizer, int32_t id, char *out_bytes, size_t capacity,
                                                   size_t *out_n);

/// Whether the id is an added token marked special.
CAIRN_API bool cairn_tokenizer_is_special(const cairn_tokenizer *tokenizer, int32_t id);

/// The text of a special token by its role ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token",
/// "mask_token") as the files beside the tokenizer name it, NULL when they do not. Owner: borrowed.
CAIRN_API const char *cairn_tokenizer_role(const cairn_tokenizer *tokenizer, const char *role);

// --- streamed detokenization --------------------------------------------------------------------------------------

/// Turns ids into text one at a time. What it gives out is always whole UTF-8 characters, and the pieces together
/// equal the decoded text of all ids. Owner: unique. Thread: one user at a time.
typedef struct cairn_detokenizer cairn_detokenizer;

CAIRN_API cairn_status cairn_detokenizer_create(cairn_tokenizer *tokenizer, bool skip_special_tokens, cairn_detokenizer **out);
/// Takes one id. `*out_text` is the text that became certain (possibly empty), valid until the next call.
CAIRN_API cairn_status cairn_detokenizer_push(cairn_detokenizer *d, int32_t id, const char **out_text, size_t *out_bytes);
/// Gives out what was held back (an incomplete character becomes U+FFFD) and makes the object ready for a new text.
CAIRN_API cairn_status cairn_detokenizer_finish(cairn_detokenizer *d, const char **out_text, size_t *out_bytes);
CAIRN_API void cairn_detokenizer_destroy(cairn_detokenizer *d);

#ifdef __cplusplus
}
#endif
#endif
