// A build without xgrammar: nothing can be made, so nothing can be asked for.
#include <stdio.h>

#include "text/grammar/xgrammar.h"

bool crn_xg_is_there(void) { return false; }

static crn_xg_result absent(crn_xg_error *error) {
  snprintf(error->text, sizeof error->text, "this build has no xgrammar");
  return CRN_XG_REFUSED;
}

crn_xg_result crn_xg_vocab_create(const char *bytes, const uint32_t *ends, int32_t n, crn_xg_vocab **out, crn_xg_error *error) {
  (void)bytes, (void)ends, (void)n;
  *out = NULL;
  return absent(error);
}

crn_xg_result crn_xg_grammar_create(const crn_xg_vocab *vocab, const char *text, size_t bytes, crn_xg_grammar **out, crn_xg_error *error) {
  (void)vocab, (void)text, (void)bytes;
  *out = NULL;
  return absent(error);
}

crn_xg_result crn_xg_matcher_create(const crn_xg_grammar *grammar, crn_xg_matcher **out, crn_xg_error *error) {
  (void)grammar;
  *out = NULL;
  return absent(error);
}

crn_xg_result crn_xg_matcher_fork(const crn_xg_matcher *matcher, crn_xg_matcher **out, crn_xg_error *error) {
  (void)matcher;
  *out = NULL;
  return absent(error);
}

crn_xg_result crn_xg_matcher_fill(crn_xg_matcher *matcher, uint32_t *words, const crn_xg_cancel *cancel, crn_xg_error *error) {
  (void)matcher, (void)words, (void)cancel;
  return absent(error);
}

crn_xg_result crn_xg_matcher_accept(crn_xg_matcher *matcher, int32_t token, bool *out_accepted, crn_xg_error *error) {
  (void)matcher, (void)token;
  *out_accepted = false;
  return absent(error);
}

crn_xg_result crn_xg_matcher_accept_bytes(crn_xg_matcher *matcher, const char *bytes, size_t n, bool *out_accepted, crn_xg_error *error) {
  (void)matcher, (void)bytes, (void)n;
  *out_accepted = false;
  return absent(error);
}

crn_xg_result crn_xg_matcher_rollback(crn_xg_matcher *matcher, int n_tokens, crn_xg_error *error) {
  (void)matcher, (void)n_tokens;
  return absent(error);
}

crn_xg_result crn_xg_matcher_forced(crn_xg_matcher *matcher, char *bytes, size_t capacity, size_t *out_bytes, crn_xg_error *error) {
  (void)matcher, (void)bytes, (void)capacity;
  *out_bytes = 0;
  return absent(error);
}

void crn_xg_vocab_destroy(crn_xg_vocab *vocab) { (void)vocab; }
void crn_xg_grammar_destroy(crn_xg_grammar *grammar) { (void)grammar; }
void crn_xg_matcher_destroy(crn_xg_matcher *matcher) { (void)matcher; }

size_t crn_xg_grammar_bytes(crn_xg_grammar *grammar) {
  (void)grammar;
  return 0;
}

bool crn_xg_matcher_is_complete(const crn_xg_matcher *matcher) {
  (void)matcher;
  return false;
}
