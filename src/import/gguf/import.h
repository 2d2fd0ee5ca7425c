/// From a GGUF file to a program, a tokenizer and a chat template.
#ifndef CRN_IMPORT_GGUF_IMPORT_H
#define CRN_IMPORT_GGUF_IMPORT_H

#include "import/imported.h"

typedef crn_imported_model crn_gguf_model;

/// Imports the file at `path`. On failure `*out` is empty; destroying it is allowed.
/// Errors: as crn_gguf_open; UNSUPPORTED (an architecture, tensor type or tokenizer, named), CORRUPT (tensors or metadata
/// that do not fit each other), OUT_OF_MEMORY.
cairn_status crn_gguf_import(cairn_context *context, const char *path, crn_gguf_model *out_model);

/// The same, with a tokenizer that is made meanwhile: crn_imported_model_wait.
cairn_status crn_gguf_import_beside(cairn_context *context, const char *path, crn_gguf_model *out_model);

/// As crn_gguf_import for a file in memory, which must outlive the program. `what` names it in messages.
cairn_status crn_gguf_import_memory(cairn_context *context, const void *data, size_t bytes, const char *what, crn_gguf_model *out_model);
/// The same with activations and caches of a given type (F32 or F16).
cairn_status crn_gguf_import_memory_as(cairn_context *context, const void *data, size_t bytes, const char *what, cairn_dtype compute,
                                       crn_gguf_model *out_model);

#endif
