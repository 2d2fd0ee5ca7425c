/// SHA-256 (through libcrypto, which uses the CPU's instructions for it).
#ifndef CRN_BASE_HASH_H
#define CRN_BASE_HASH_H

#include "base/file.h"

enum { CRN_SHA256_BYTES = 32 };

cairn_status crn_sha256(const void *data, size_t bytes, unsigned char out_digest[CRN_SHA256_BYTES]);
/// Of a mapped file, piece by piece: pages that were read are given back, so that a large file does not fill the memory.
cairn_status crn_sha256_map(const crn_file_map *map, unsigned char out_digest[CRN_SHA256_BYTES]);

#endif
