// Feeds arbitrary bytes to the reader of stored programs and walks everything it gives.
//   mlirbc_fuzz CORPUS_FOLDER -max_len=65536
#include "base/context.h"
#include "tests/asset/walk_everything.h"

enum { PRINT_LIMIT = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static test_allocator memory;
  static cairn_context *context;
  if (!context) {
    test_allocator_initialize(&memory);
    cairn_context_options options = {.allocator = &memory.allocator, .n_threads = 1};
    if (cairn_context_create(&options, &context) != CAIRN_OK) return 0;
  }
  size_t before = memory.live;
  memory.limit = before + walk_memory_limit(size);
  cairn_asset *asset;
  if (crn_asset_open_memory(context, data, size, &asset) == CAIRN_OK) {
    (void)walk_everything(asset, PRINT_LIMIT);
    cairn_asset_release(asset);
  }
  // Memory out of proportion to the file, or memory that was not given back, is a defect like a crash.
  if (memory.hit_limit || memory.live != before) abort();
  return 0;
}
