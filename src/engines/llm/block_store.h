/// A folder of blocks that are found by name and checked when they are read: what the prompt cache lies in.
///
/// A block is written under another name and renamed, so it is there whole or not at all, whoever is killed when. Equal names mean equal
/// content, so processes that write the same block at once do no harm. Whatever is not what was written is no block, and removed.
#ifndef CRN_ENGINES_LLM_BLOCK_STORE_H
#define CRN_ENGINES_LLM_BLOCK_STORE_H

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"

/// Owner: unique. Thread: safe.
typedef struct crn_block_store {
  crn_str folder;
  uint64_t most_bytes;
} crn_block_store;

typedef struct crn_block_name {
  char text[2 * CRN_SHA256_BYTES + 1 + 8];  ///< hex of a digest and an extension
} crn_block_name;

/// "0123….rows". `extension` has at most 6 letters.
crn_block_name crn_block_name_of(const unsigned char digest[CRN_SHA256_BYTES], const char *extension);

/// Makes the folder when it is missing. Errors: IO (also when it cannot be written to).
cairn_status crn_block_store_open(crn_block_store *store, const cairn_allocator *allocator, const char *folder, uint64_t most_bytes);
void crn_block_store_close(crn_block_store *store);

bool crn_block_store_has(const crn_block_store *store, const crn_block_name *name);
/// Maps a block of exactly `bytes` bytes; `*out_data` lies in the map. Errors: NOT_FOUND (also for one that is damaged, which is removed).
cairn_status crn_block_store_read(const crn_block_store *store, const crn_block_name *name, size_t bytes, crn_file_map *out_map,
                                  const void **out_data);
/// Errors: IO.
cairn_status crn_block_store_write(const crn_block_store *store, const crn_block_name *name, const void *data, size_t bytes);
/// Marks a block as used now.
void crn_block_store_touch(const crn_block_store *store, const crn_block_name *name);
/// Removes the blocks that were not used for longest until the rest is within the bound, and what writers that were killed left behind.
void crn_block_store_trim(const crn_block_store *store);

#endif
