/// Files of saved sequences. All numbers are little-endian; the whole is followed by its SHA-256.
///
///   0   "cairnseq"
///   8   u32 version, u32 0x01020304 as the machine writes it (rows are stored as they lie in memory)
///   16  u64 bytes of the file, u64 tokens
///   32  u32 bytes of the key, u32 images, u32 snapshots, u32 0
///   48  the key (key.h), padded to a multiple of 8 with zeros
///       i32 tokens, padded; those of images are negative (vision.h), with the numbers of the table of images
///       rows of the states, CRN_SESSION_ROWS at a time: of each state that has rows the part, one behind the other
///       states without rows, one behind the other
///       snapshots: u64 tokens, then states as above
///       images: i32 number, u32 type of elements, u64 rank, u64 dims, digest of the pixels, features, padded
#ifndef CRN_ENGINES_LLM_SESSION_FILE_H
#define CRN_ENGINES_LLM_SESSION_FILE_H

#include "engines/llm/key.h"
#include "engines/llm/rows.h"

enum { CRN_SESSION_VERSION = 1, CRN_SESSION_ROWS = 256, CRN_SESSION_HEADER_BYTES = 48 };
#define CRN_SESSION_MAGIC "cairnseq"

typedef struct crn_session_header {
  char magic[8];
  uint32_t version, order;
  uint64_t file_bytes, n_tokens;
  uint32_t key_bytes, n_images, n_snapshots, reserved;
} crn_session_header;

#endif
