/// Byte-level BPE without the byte-level alphabet.
#ifndef CRN_TEXT_TOKENIZER_MODELS_RAW_H
#define CRN_TEXT_TOKENIZER_MODELS_RAW_H

#include "text/tokenizer/internal.h"

/// Lets the tokenizer take this way when its model allows it: after the first `n_steps` pre-tokenizers the words are what
/// `regex` cuts pieces into (NULL = the pieces themselves), and after those comes the byte-level alphabet.
void crn_raw_plan(cairn_tokenizer *tokenizer, size_t n_steps, const crn_regex *regex);
/// Encodes run->pieces of run->text.
cairn_status crn_raw_encode(crn_run *run);

#endif
