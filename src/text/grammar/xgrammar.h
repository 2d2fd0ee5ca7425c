/// The seam to xgrammar, which is C++: grammars over the bytes of a vocabulary, and what may follow. Only xgrammar.cc knows the
/// library. Every function catches what the library throws; nothing of it is printed.
#ifndef CRN_TEXT_GRAMMAR_XGRAMMAR_H
#define CRN_TEXT_GRAMMAR_XGRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crn_xg_vocab crn_xg_vocab;
typedef struct crn_xg_grammar crn_xg_grammar;
typedef struct crn_xg_matcher crn_xg_matcher;

typedef enum crn_xg_result { CRN_XG_OK, CRN_XG_REFUSED, CRN_XG_NO_MEMORY, CRN_XG_CANCELLED } crn_xg_result;

/// What went wrong last, cut to fit.
typedef struct crn_xg_error {
  char text[256];
} crn_xg_error;

/// Bytes `first` to `last` lead from a state to another.
typedef struct crn_edge {
  int32_t from, to;
  uint8_t first, last;
} crn_edge;

/// Asked while a mask is made: whether nobody wants it any more.
typedef struct crn_xg_cancel {
  bool (*is_asked)(const void *user);
  const void *user;
} crn_xg_cancel;

/// Whether the library is part of this build. Without it nothing can be made (xgrammar_absent.c).
bool crn_xg_is_there(void);

/// A vocabulary of `n` tokens. The bytes of token i are [ends[i - 1], ends[i]) of `bytes`; one without bytes is never allowed.
crn_xg_result crn_xg_vocab_create(const char *bytes, const uint32_t *ends, int32_t n, crn_xg_vocab **out, crn_xg_error *error);
void crn_xg_vocab_destroy(crn_xg_vocab *vocab);  ///< this and the others: NULL is allowed

/// A grammar in the library's EBNF with the start rule "root", then, behind a NUL, automata: for each the numbers of states and of edges
/// (uint64_t), a byte for each state (1 = a text may end there) and crn_edge for each edge. Automaton i is what the rule "ai"
/// takes, whatever stands there. It holds on to the vocabulary's data by itself.
crn_xg_result crn_xg_grammar_create(const crn_xg_vocab *vocab, const char *text, size_t bytes, crn_xg_grammar **out, crn_xg_error *error);
void crn_xg_grammar_destroy(crn_xg_grammar *grammar);
/// Memory that it takes now, about. Thread: safe.
size_t crn_xg_grammar_bytes(crn_xg_grammar *grammar);

/// Matchers of one grammar may be used on several threads at once, each by one.
crn_xg_result crn_xg_matcher_create(const crn_xg_grammar *grammar, crn_xg_matcher **out, crn_xg_error *error);
crn_xg_result crn_xg_matcher_fork(const crn_xg_matcher *matcher, crn_xg_matcher **out, crn_xg_error *error);
void crn_xg_matcher_destroy(crn_xg_matcher *matcher);
/// Which tokens may follow: bit i % 32 of word i / 32 of (n + 31) / 32 words. `cancel` may be NULL.
crn_xg_result crn_xg_matcher_fill(crn_xg_matcher *matcher, uint32_t *words, const crn_xg_cancel *cancel, crn_xg_error *error);
crn_xg_result crn_xg_matcher_accept(crn_xg_matcher *matcher, int32_t token, bool *out_accepted, crn_xg_error *error);
/// Takes bytes instead, all or none.
crn_xg_result crn_xg_matcher_accept_bytes(crn_xg_matcher *matcher, const char *bytes, size_t n, bool *out_accepted, crn_xg_error *error);
crn_xg_result crn_xg_matcher_rollback(crn_xg_matcher *matcher, int n_tokens, crn_xg_error *error);
/// Whether what was accepted is a whole text of the grammar.
bool crn_xg_matcher_is_complete(const crn_xg_matcher *matcher);
/// The bytes that must follow, at most `capacity` of them.
crn_xg_result crn_xg_matcher_forced(crn_xg_matcher *matcher, char *bytes, size_t capacity, size_t *out_bytes, crn_xg_error *error);

#ifdef __cplusplus
}
#endif
#endif
