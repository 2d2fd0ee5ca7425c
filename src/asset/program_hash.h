/// The SHA-256 of a program's file.
#ifndef CRN_ASSET_PROGRAM_HASH_H
#define CRN_ASSET_PROGRAM_HASH_H

#include "base/file.h"
#include "base/hash.h"

/// The hash of the mapped file at `path`. For large files it is remembered in the cache under the file's identity (device, inode, size,
/// times of change to the nanosecond), so that the next load need not read them; `is_strict` computes it all the same.
cairn_status crn_program_hash(const char *path, const crn_file_map *map, bool is_strict, unsigned char out_digest[CRN_SHA256_BYTES]);

#endif
