/// Grammars: what a generated text may look like, and which tokens may therefore follow.
///
/// A grammar is a JSON Schema, a regular expression, EBNF or "any JSON". It is compiled for the vocabulary of one tokenizer. A matcher
/// walks through one text: it tells which tokens may follow, takes the one that was chosen, and can go back. What a grammar cannot
/// keep is refused by name when it is compiled; nothing is left out silently.
#ifndef CAIRN_GRAMMAR_H
#define CAIRN_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/dialogue.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cairn_grammar_kind {
  CAIRN_GRAMMAR_NONE = 0,
  CAIRN_GRAMMAR_JSON = 1,         ///< any JSON value; the text is not read
  CAIRN_GRAMMAR_JSON_SCHEMA = 2,  ///< documents of a JSON Schema
  CAIRN_GRAMMAR_REGEX = 3,        ///< texts that match a regular expression as a whole
  CAIRN_GRAMMAR_EBNF = 4,         ///< texts of the rule `root`, in the EBNF of llama.cpp (GBNF) and xgrammar
  /// Replies with tool calls in the syntax of a dialogue format: text is free until a call begins, from there on a tool of
  /// `dialogue->tools` is called, with arguments that satisfy its schema, until the call is complete. What begins a call is what
  /// cairn_dialogue takes for it.
  CAIRN_GRAMMAR_TOOL_CALLS = 5
} cairn_grammar_kind;

/// A grammar as it is written. Zero-initialised = none.
typedef struct cairn_grammar_source {
  cairn_grammar_kind kind;
  const char *text;  ///< UTF-8
  size_t text_bytes;
  bool compact;  ///< JSON without any white space; otherwise a space or a line end with indentation may stand where JSON allows it
  /// Of TOOL_CALLS; the text is not read. How the reply will be taken apart: format, template, tokenizer, prompt and tools count. Copied.
  const cairn_dialogue_options *dialogue;
  /// "auto" (NULL): calls where the model begins them. "required": the reply begins with a call, unless it begins in reasoning: then with
  /// the end of that. "none": no call is begun. Else the name of the tool that is called, once, as with "required", and nothing more.
  const char *tool_choice;
} cairn_grammar_source;

/// Whether this build has guided generation. Without it everything below but cairn_grammar_check is UNSUPPORTED.
CAIRN_API bool cairn_grammar_is_available(void);

/// Reads a grammar without compiling it. Errors: INVALID_ARGUMENT (broken, or no text can satisfy it; with the place in the text),
/// UNSUPPORTED (something that cannot be kept, named; or above the limits), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_grammar_check(cairn_context *context, const cairn_grammar_source *source);

// --- compiling ----------------------------------------------------------------------------------------------------------

/// Compiles grammars for one vocabulary and keeps the last ones. Owner: shared and counted. Thread: safe.
typedef struct cairn_grammar_compiler cairn_grammar_compiler;
/// `vocab_size` is the width of the logits (0 = that of the tokenizer): ids the tokenizer does not have are never allowed, and
/// neither are its special tokens. The tokenizer is retained.
/// Errors: UNSUPPORTED (the build has no guided generation; the tokens have no bytes of their own), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_grammar_compiler_create(cairn_context *context, cairn_tokenizer *tokenizer, int64_t vocab_size,
                                                     cairn_grammar_compiler **out_compiler);
CAIRN_API void cairn_grammar_compiler_retain(cairn_grammar_compiler *compiler);
CAIRN_API void cairn_grammar_compiler_release(cairn_grammar_compiler *compiler);
/// Memory of the grammars it keeps, and how many (may be NULL).
CAIRN_API size_t cairn_grammar_compiler_bytes(cairn_grammar_compiler *compiler, int *out_n);

/// A grammar for a vocabulary. Owner: shared and counted. Thread: safe.
typedef struct cairn_grammar cairn_grammar;
/// Errors: as cairn_grammar_check.
CAIRN_API cairn_status cairn_grammar_compile(cairn_grammar_compiler *compiler, const cairn_grammar_source *source,
                                             cairn_grammar **out_grammar);
CAIRN_API void cairn_grammar_retain(cairn_grammar *grammar);
CAIRN_API void cairn_grammar_release(cairn_grammar *grammar);
/// Ids a mask speaks of.
CAIRN_API int64_t cairn_grammar_vocab_size(const cairn_grammar *grammar);

// --- matching -----------------------------------------------------------------------------------------------------------

/// Where a text is in a grammar. Owner: unique. Thread: one user at a time; several matchers of one grammar run at once.
typedef struct cairn_matcher cairn_matcher;
/// `stop_ids` end a text: they are allowed exactly where the grammar may end. There may be none.
CAIRN_API cairn_status cairn_matcher_create(cairn_grammar *grammar, const int32_t *stop_ids, size_t n_stop_ids,
                                            cairn_matcher **out_matcher);
/// A second matcher at the same place.
CAIRN_API cairn_status cairn_matcher_fork(const cairn_matcher *matcher, cairn_matcher **out_matcher);
CAIRN_API void cairn_matcher_destroy(cairn_matcher *matcher);
/// Back to the beginning.
CAIRN_API cairn_status cairn_matcher_reset(cairn_matcher *matcher);

/// Which tokens may follow: bit i % 32 of word i / 32 is token i; `n_words` is at least (vocab_size + 31) / 32, further words are 0.
/// `*out_n_allowed` (may be NULL) counts them: 0 behind a stop id, and where the text is complete and there are no stop ids.
/// Where a text can be read in many ways it may take seconds. Errors: INVALID_ARGUMENT (too few words), CANCELLED, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_matcher_mask(cairn_matcher *matcher, uint32_t *out_words, size_t n_words, int64_t *out_n_allowed);
/// From now on masks fail with CANCELLED, also the one that another thread is making, within milliseconds; until the matcher is reset.
/// Nothing else changes. Thread: any.
CAIRN_API void cairn_matcher_cancel(cairn_matcher *matcher);
/// Takes a token. `*out_accepted` false: it may not follow, and nothing changed.
CAIRN_API cairn_status cairn_matcher_accept(cairn_matcher *matcher, int32_t token, bool *out_accepted);
/// Takes back the last `n` tokens. Errors: OUT_OF_RANGE (fewer were taken).
CAIRN_API cairn_status cairn_matcher_rollback(cairn_matcher *matcher, size_t n);
/// Whether the text so far is a whole text of the grammar.
CAIRN_API bool cairn_matcher_is_complete(const cairn_matcher *matcher);
/// Whether a stop id was taken.
CAIRN_API bool cairn_matcher_is_terminated(const cairn_matcher *matcher);
/// The bytes every text goes on with from here, at most `capacity` of them; none where there is a choice. Changes nothing.
CAIRN_API cairn_status cairn_matcher_forced(cairn_matcher *matcher, char *out_bytes, size_t capacity, size_t *out_n);

#ifdef __cplusplus
}
#endif
#endif
