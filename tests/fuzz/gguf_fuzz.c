/// GGUF files: the reader, and the importer behind it on whatever the reader accepts.
#include <stddef.h>
#include <stdint.h>

#include "import/gguf/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static cairn_context *context;
  if (!context) {
    cairn_context_options options;
    cairn_context_options_initialize(&options);
    options.n_threads = 1;
    if (cairn_context_create(&options, &context) != CAIRN_OK) return 0;
  }
  crn_gguf_model model;
  // A failure is an expected end; what counts is that there is no crash, no leak and no endless loop.
  (void)crn_gguf_import_memory(context, data, size, "fuzz", &model);
  crn_imported_model_destroy(&model);
  return 0;
}
