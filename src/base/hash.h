/// SHA-256 (through libcrypto, which uses the CPU's instructions for it).
#ifndef CRN_BASE_HASH_H
#define CRN_BASE_HASH_H

#include <stdint.h>

#include "base/file.h"

enum { CRN_SHA256_BYTES = 32 };

cairn_status crn_sha256(const void *data, size_t bytes, unsigned char out_digest[CRN_SHA256_BYTES]);
/// Of a mapped file, piece by piece: pages that were read are given back, so that a large file does not fill the memory.
cairn_status crn_sha256_map(const crn_file_map *map, unsigned char out_digest[CRN_SHA256_BYTES]);

/// A digest that grows piece by piece. After crn_hasher_begin either crn_hasher_end or crn_hasher_discard must be called.
typedef struct crn_hasher {
  void *state;  ///< NULL = ended
} crn_hasher;
cairn_status crn_hasher_begin(crn_hasher *hasher);
cairn_status crn_hasher_add(crn_hasher *hasher, const void *data, size_t bytes);
cairn_status crn_hasher_end(crn_hasher *hasher, unsigned char out_digest[CRN_SHA256_BYTES]);
/// Nothing happens when it has ended.
void crn_hasher_discard(crn_hasher *hasher);
/// A sum of 64 bits that shows damage, at the speed of memory: any change of up to 8 bytes in a row at a multiple of 8 changes it for
/// certain. No protection against intent.
uint64_t crn_checksum(const void *data, size_t bytes, uint64_t seed);

/// Writes a digest as lower-case hex with a NUL.
void crn_sha256_hex(const unsigned char digest[CRN_SHA256_BYTES], char out_text[2 * CRN_SHA256_BYTES + 1]);

#endif
