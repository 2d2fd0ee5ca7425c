/// A stored ladder in another form of the same contract (BRIDGES §4): its caches come in as plain inputs and go out as plain outputs
/// instead of being states. Made of the asset's own program, so that the two must have the same bits.
#ifndef CAIRN_TESTS_LM_PLAIN_FORM_H
#define CAIRN_TESTS_LM_PLAIN_FORM_H

#include "engines/llm/internal.h"

typedef struct plain_form {
  const char *asset;  ///< path of an .aimodel
  int64_t context;    ///< tokens a sequence may have, 0 = as the ladder says
} plain_form;

/// A crn_llm_opener whose user is a `const plain_form`.
cairn_status plain_form_open(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                             crn_llm_source *out_source);

#endif
