/// Shared by the files of the GGUF reader.
#ifndef CRN_IMPORT_GGUF_PRIVATE_H
#define CRN_IMPORT_GGUF_PRIVATE_H

#include "base/file.h"
#include "base/map.h"
#include "import/gguf/gguf.h"

struct crn_gguf {
  _Atomic int references;
  const cairn_allocator *allocator;
  const char *what;
  crn_file_map map;  // empty for a file in memory
  const unsigned char *start;
  uint32_t version;
  size_t alignment;
  crn_arena arena;
  crn_map pair_by_key, tensor_by_name;  // to indices
  crn_gguf_pair *pairs;
  size_t n_pairs;
  crn_gguf_tensor *tensors;
  size_t n_tensors;
};

/// A counted string in a message, cut where a hostile file made it long.
#define CRN_GGUF_TEXT "%.*s"
#define CRN_GGUF_ARGS(s) (int)((s).bytes < 96 ? (s).bytes : 96), (s).data

/// Bytes of one item of a fixed size; 0 for strings and arrays.
size_t crn_gguf_kind_bytes(crn_gguf_kind kind);
/// A little-endian number of up to 8 bytes.
uint64_t crn_gguf_load(const unsigned char *p, size_t bytes);

#endif
