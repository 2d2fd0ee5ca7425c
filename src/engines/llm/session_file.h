/// Files of saved sequences. All numbers are little-endian; the whole is followed by its sum.
///
/// The sum (u64) is that of the sums of pieces of CRN_SESSION_PIECE bytes, which workers read at once. It shows damage, as that of a block
/// of the prompt cache does; a file that was made to lie can have any sum, so everything is checked where it is used. Version 1, which
/// ended in a SHA-256 of the whole, is still read.
///
///   0   "cairnseq"
///   8   u32 version, u32 0x01020304 as the machine writes it (rows are stored as they lie in memory)
///   16  u64 bytes of the file, u64 tokens
///   32  u32 bytes of the key, u32 images, u32 snapshots, u32 bytes of the note
///   48  the key (key.h), padded to a multiple of 8 with zeros
///       the note of the caller, padded. Only version 3 has one: without it a file is of version 2, which older builds read
///       i32 tokens, padded; those of images are negative (vision.h), with the numbers of the table of images
///       rows of the states, CRN_SESSION_ROWS at a time: of each state that has rows the part, one behind the other
///       states without rows, one behind the other
///       snapshots: u64 tokens, then states as above
///       images: i32 number, u32 type of elements, u64 rank, u64 dims, digest of the pixels, features, padded
#ifndef CRN_ENGINES_LLM_SESSION_FILE_H
#define CRN_ENGINES_LLM_SESSION_FILE_H

#include "base/hash.h"
#include "engines/llm/key.h"
#include "engines/llm/rows.h"

enum {
  CRN_SESSION_VERSION = 3,
  CRN_SESSION_VERSION_PLAIN = 2,
  CRN_SESSION_ROWS = 256,
  CRN_SESSION_PIECE = 1 << 20,
  CRN_SESSION_HEADER_BYTES = 48
};
#define CRN_SESSION_MAGIC "cairnseq"

typedef struct crn_session_header {
  char magic[8];
  uint32_t version, order;
  uint64_t file_bytes, n_tokens;
  uint32_t key_bytes, n_images, n_snapshots, note_bytes;
} crn_session_header;

/// What stands behind the whole.
enum { CRN_SESSION_SUM_BYTES = 8 };

/// The sum of piece `i`, and that of all of them in a file of `bytes` bytes in front of the sum.
static inline uint64_t crn_session_piece_sum(const void *piece, size_t n, size_t i) { return crn_checksum(piece, n, i); }
static inline uint64_t crn_session_sum_of(const uint64_t *sums, size_t n, size_t bytes) {
  return crn_checksum(sums, n * sizeof *sums, bytes);
}
/// The sum of a whole file without its sum. Errors: OUT_OF_MEMORY.
cairn_status crn_session_sum(cairn_context *context, const void *data, size_t bytes, uint64_t *out_sum);

#endif
