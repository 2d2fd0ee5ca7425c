/// The GGUF families that are no byte pair encoding.
#ifndef CRN_TEXT_TOKENIZER_SPEC_FAMILIES_H
#define CRN_TEXT_TOKENIZER_SPEC_FAMILIES_H

#include "text/tokenizer/internal.h"
#include "text/tokenizer/spec.h"

/// WordPiece tokens, respelled: a word's beginning without its mark, what continues a word with "##".
cairn_status crn_spec_load_wordpieces(crn_build *build, const crn_tokenizer_spec *spec);
/// Tokens of escaped bytes, respelled in the byte-level alphabet. Errors: CORRUPT.
cairn_status crn_spec_load_escaped(crn_build *build, const crn_tokenizer_spec *spec);

cairn_status crn_spec_make_wordpiece(crn_build *build, const crn_tokenizer_spec *spec);
cairn_status crn_spec_make_unigram(crn_build *build, const crn_tokenizer_spec *spec);
/// The longest token from the front, again and again.
cairn_status crn_spec_make_greedy(crn_build *build);

#endif
