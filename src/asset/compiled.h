/// Assets compiled ahead of time: `NAME.<architecture>.aimodelc`, a folder with
///
///   compiled.json    what it is: format, architecture, packed layout, hash of the program it was made from, precision
///   program.cairn    the program without the weights that were packed: the parts of its file that are still needed
///   weights.packed   the packed weights
///   metadata.json    of the asset it was made from
///
/// Opening one puts the kept parts back to their old places in memory, so that all offsets stay what they were; the rest is zeros,
/// which nobody may read (see crn_compiled_covers).
#ifndef CRN_ASSET_COMPILED_H
#define CRN_ASSET_COMPILED_H

#include "asset/asset.h"

/// Changes with the packed layout of weights: compiled assets and cache entries of another one are not used.
#define CRN_PACKED_LAYOUT "5"

/// Bytes [offset, offset + bytes) of a program's file.
typedef struct crn_byte_range {
  uint64_t offset, bytes;
} crn_byte_range;

/// Of a compiled asset.
struct crn_compiled {
  const char *precision;
  const char *weights_path;
  const crn_byte_range *kept;  ///< ascending
  size_t n_kept;
};

/// The processor family this library was built for: "x86_64", "aarch64", ….
const char *crn_architecture(void);

/// Whether the folder is a compiled asset of this library.
bool crn_is_compiled(const char *folder);
/// Reads a compiled asset: map, hash, metadata and `compiled` of `asset`. Errors: INCOMPATIBLE (another architecture, format or layout,
/// naming both), CORRUPT, IO, OUT_OF_MEMORY.
cairn_status crn_compiled_read(cairn_asset *asset, const char *folder);
/// Writes everything but the weights of a compiled asset into an existing folder. `kept` ascending, not overlapping.
cairn_status crn_compiled_write(const cairn_asset *asset, const char *folder, const char *precision, const crn_byte_range *kept,
                                size_t n_kept);
/// Whether the bytes of memory at `data` are there: true for what lies outside of a compiled asset's program.
bool crn_compiled_covers(const cairn_asset *asset, const void *data, size_t bytes);

#endif
