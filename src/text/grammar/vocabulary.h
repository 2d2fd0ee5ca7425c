/// The vocabulary of a tokenizer as grammars need it.
#ifndef CRN_TEXT_GRAMMAR_VOCABULARY_H
#define CRN_TEXT_GRAMMAR_VOCABULARY_H

#include <stdatomic.h>

#include "base/context.h"
#include "cairn/grammar.h"
#include "text/grammar/xgrammar.h"

/// Where a text is within a character of UTF-8. Tokens may end in the middle of one.
enum { CRN_UTF8_START, CRN_UTF8_STATES = 8, CRN_UTF8_BROKEN = 8 };
int crn_utf8_step(int state, unsigned char byte);

typedef struct crn_vocabulary {
  atomic_int references;
  cairn_context *context;
  int64_t n, n_words;
  char *bytes;     ///< of all tokens
  uint32_t *ends;  ///< of each
  size_t n_bytes;
  uint32_t *valid;   ///< by state: which tokens keep the text UTF-8
  crn_xg_vocab *xg;  ///< of the library
} crn_vocabulary;

/// Special tokens have no bytes here, but for the `n_shown` of `shown`: no other text of a grammar holds them.
cairn_status crn_vocabulary_create(cairn_context *context, const cairn_tokenizer *tokenizer, int64_t n, const int32_t *shown,
                                   size_t n_shown, crn_vocabulary **out);
void crn_vocabulary_retain(crn_vocabulary *v);
void crn_vocabulary_release(crn_vocabulary *v);
/// Where a text is behind a token.
int crn_vocabulary_step(const crn_vocabulary *v, int state, int32_t token);

#endif
