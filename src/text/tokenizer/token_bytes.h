/// The bytes of a token by itself; the public call is cairn_tokenizer_token_bytes.
#ifndef CRN_TEXT_TOKENIZER_TOKEN_BYTES_H
#define CRN_TEXT_TOKENIZER_TOKEN_BYTES_H

#include "base/str.h"
#include "cairn/tokenizer.h"

/// Errors: UNSUPPORTED naming the decoder that makes a token depend on those around it.
cairn_status crn_tokenizer_check_bytes(const cairn_tokenizer *tokenizer);
/// Appends the bytes of a token; nothing for an id without one.
cairn_status crn_tokenizer_append_bytes(const cairn_tokenizer *tokenizer, int32_t id, crn_str *out);

#endif
