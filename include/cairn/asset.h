/// An `.aimodel` directory: opened, checked and described, nothing loaded.
#ifndef CAIRN_ASSET_H
#define CAIRN_ASSET_H

#include "cairn/ndarray.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_asset_options {
  bool strict_hash;  ///< a `main.hash` that does not match is an error instead of a warning
  bool skip_hash;    ///< do not read the whole file to check it
} cairn_asset_options;

/// Owner: shared and counted. Thread: safe (immutable after opening).
typedef struct cairn_asset cairn_asset;

/// Opens `path` (an `.aimodel` directory, or a `main.mlirb` file). The program file is mapped, not read.
/// `options` NULL = defaults.
/// Errors: INVALID_ARGUMENT, NOT_FOUND, IO, CORRUPT, INCOMPATIBLE (asset version or encoding), UNSUPPORTED, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_asset_open(cairn_context *context, const char *path, const cairn_asset_options *options,
                                        cairn_asset **out_asset);
CAIRN_API void cairn_asset_retain(cairn_asset *asset);
CAIRN_API void cairn_asset_release(cairn_asset *asset);

/// The directory as given.
CAIRN_API const char *cairn_asset_path(const cairn_asset *asset);
/// `metadata.json` as text ("{}" when the file is absent). Owner: borrowed.
CAIRN_API const char *cairn_asset_metadata_json(const cairn_asset *asset);
/// SHA-256 of `main.mlirb` in lower-case hex ("" when the check was skipped).
CAIRN_API const char *cairn_asset_hash(const cairn_asset *asset);
/// Date stamp YYYYMMDD of the newest construct used, 0 when absent.
CAIRN_API int64_t cairn_asset_version_stamp(const cairn_asset *asset);
/// Whether the asset was compiled ahead of time (`cairn compile`), and how: processor family and precision as texts, each borrowed.
/// For a portable asset both are "". Either may be NULL.
CAIRN_API bool cairn_asset_is_compiled(const cairn_asset *asset, const char **out_architecture, const char **out_precision);
/// Problems that did not stop the opening (a hash mismatch, …), one text each.
CAIRN_API int cairn_asset_warning_count(const cairn_asset *asset);
CAIRN_API const char *cairn_asset_warning(const cairn_asset *asset, int i);

/// What a function takes, gives and keeps. Owner: borrowed.
typedef struct cairn_function_info {
  const char *name;
  int n_inputs, n_outputs, n_states;
  const cairn_descriptor *inputs, *outputs, *states;
} cairn_function_info;

/// The functions offered to users, in file order: graphs that are neither private nor external nor composite.
CAIRN_API int cairn_asset_function_count(const cairn_asset *asset);
CAIRN_API const cairn_function_info *cairn_asset_function(const cairn_asset *asset, int i);
/// By name; NULL when there is none.
CAIRN_API const cairn_function_info *cairn_asset_find_function(const cairn_asset *asset, const char *name);

/// Calls `visit` once per kind of operation with how often it occurs (decomposition bodies not counted), sorted by name
/// ("coreai.add"; an operation without a known name keeps its stored one). The asset as a container is not counted.
/// Errors: CORRUPT, and what `visit` returns when not OK.
CAIRN_API cairn_status cairn_asset_count_operations(const cairn_asset *asset,
                                                    cairn_status (*visit)(void *user, const char *name, int64_t count), void *user);

typedef struct cairn_weight_info {
  const char *name;  ///< resource key, or "inline_N" for the N-th constant without one; valid during the call only
  cairn_dtype dtype;
  int rank;
  int64_t shape[CAIRN_MAX_RANK];
  size_t stored_bytes;  ///< in the file
} cairn_weight_info;
/// Calls `visit` once per weight, in the order of use: every constant kept as a resource, and inline ones of 1024 bytes
/// or more. A resource that several constants share is visited once. Errors: CORRUPT (a constant whose length does not
/// fit its type, too), UNSUPPORTED, and what `visit` returns when not OK.
CAIRN_API cairn_status cairn_asset_visit_weights(const cairn_asset *asset,
                                                 cairn_status (*visit)(void *user, const cairn_weight_info *weight), void *user);

typedef struct cairn_print_options {
  bool bodies;  ///< decomposition bodies too
  bool locations;
  bool large_data;  ///< constants in full instead of their first bytes
} cairn_print_options;

/// Prints the stored program in generic MLIR form, in pieces. `options` NULL = none of them. Errors: CORRUPT,
/// OUT_OF_RANGE (a program made to explode when it is written out), and what `write` returns when not OK.
CAIRN_API cairn_status cairn_asset_print(const cairn_asset *asset, const cairn_print_options *options,
                                         cairn_status (*write)(void *user, const char *text, size_t bytes), void *user);

#ifdef __cplusplus
}
#endif
#endif
