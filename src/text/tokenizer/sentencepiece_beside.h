/// What Transformers keeps beside a tokenizer.model: the tokens that are added and what is put around a text.
#ifndef CRN_TEXT_TOKENIZER_SENTENCEPIECE_BESIDE_H
#define CRN_TEXT_TOKENIZER_SENTENCEPIECE_BESIDE_H

#include "text/tokenizer/internal.h"

/// Reads tokenizer_config.json and added_tokens.json of a folder. With the former, control and unknown pieces become special
/// tokens that are recognised in text, `*out_beside` is set and the added tokens are ready. `types` are those of the pieces.
/// Errors: UNSUPPORTED (a tokenizer_class whose ids differ from the model's, an added token with an id that does not follow).
cairn_status crn_sentencepiece_load_beside(crn_build *build, const char *folder, const uint8_t *types, int32_t bos_id, int32_t eos_id,
                                           bool *out_beside);

#endif
