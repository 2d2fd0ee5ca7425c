/// The importers there are, and which of them reads a given file.
#ifndef CRN_IMPORT_REGISTRY_H
#define CRN_IMPORT_REGISTRY_H

#include "import/imported.h"

/// What an importer may look at to recognise its files.
typedef struct crn_import_probe {
  const char *path;
  bool is_directory;
  const unsigned char *head;  ///< first bytes of a file
  size_t head_bytes;          ///< 0 for a directory
} crn_import_probe;

typedef struct crn_importer {
  const char *name;      ///< "gguf"
  const char *accepted;  ///< for messages: "GGUF files of llama models"
  bool (*probe)(const crn_import_probe *probe);
  /// The tokenizer may still be in the making: crn_imported_model_wait.
  cairn_status (*import)(cairn_context *context, const char *path, crn_imported_model *out_model);
} crn_importer;

/// All importers, best match first.
const crn_importer *crn_importers(size_t *out_n);

/// The importer of a path; NULL in `*out` with OK when none recognises it. Errors: NOT_FOUND, IO.
cairn_status crn_importer_find(const char *path, const crn_importer **out_importer);

/// Imports a path with the importer that recognises it.
/// Errors: NOT_FOUND, IO, UNSUPPORTED (no importer; names what there is), and those of the importer.
cairn_status crn_import(cairn_context *context, const char *path, crn_imported_model *out_model);

#endif
