/// Inside of a cairn_asset. The asset keeps the mapped file and what was found out when it was opened, not the decoded
/// program: whoever wants to walk the program opens a module of their own over the same bytes, which is cheap and needs
/// no lock.
#ifndef CRN_ASSET_ASSET_H
#define CRN_ASSET_ASSET_H

#include <stdatomic.h>

#include "asset/mlirbc/module.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/vec.h"
#include "cairn/asset.h"

struct cairn_asset {
  atomic_int references;
  cairn_context *context;
  crn_arena arena;  ///< of every text and descriptor below
  crn_file_map map;
  bool borrowed;                        ///< the map belongs to somebody else
  const struct crn_compiled *compiled;  ///< NULL for ordinary assets (compiled.h)
  const char *path;
  const char *metadata;
  char hash[2 * CRN_SHA256_BYTES + 1];
  int64_t version_stamp;
  CRN_VEC(const char *) warnings;
  CRN_VEC(cairn_function_info) functions;
};

/// An asset over a program in memory, without metadata and hash. `data` must stay valid and unchanged while it lives.
cairn_status crn_asset_open_memory(cairn_context *context, const void *data, size_t bytes, cairn_asset **out_asset);

/// Opens a module over the mapped program. It must be closed before the asset is released. Errors: as crn_bc_module_open.
cairn_status crn_asset_open_module(const cairn_asset *asset, crn_bc_module **out_module);

/// Keeps a warning with the asset and writes it to the log. Only while the asset is being opened.
cairn_status crn_asset_warn(cairn_asset *asset, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/// package.c: finds and maps the program, reads metadata and hash.
cairn_status crn_asset_open_package(cairn_asset *asset, const char *path, const cairn_asset_options *options);

/// functions.c: describes the functions offered to users.
cairn_status crn_asset_describe_functions(cairn_asset *asset, crn_bc_module *module);

#endif
