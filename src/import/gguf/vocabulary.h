/// The tokenizer, its special ids and the chat template of a GGUF file.
#ifndef CRN_IMPORT_GGUF_VOCABULARY_H
#define CRN_IMPORT_GGUF_VOCABULARY_H

#include "import/gguf/gguf.h"
#include "import/imported.h"

/// Fills in the tokenizer (NULL when the file has none), the ids, what is added, and the chat template of `model`.
/// The tokenizer is made in a thread of its own where `beside` says so: crn_imported_model_wait.
/// Errors: CORRUPT (lists that do not fit each other, ids outside of the vocabulary), UNSUPPORTED (a tokenizer, named).
cairn_status crn_gguf_read_vocabulary(crn_gguf *file, bool beside, crn_imported_model *model);

/// Copies a counted string into the model's arena, up to a NUL if it has one.
cairn_status crn_gguf_copy_text(crn_imported_model *model, crn_gguf_string text, const char **out_text);

#endif
