/// What a PATH argument may be, and opening it.
#ifndef CRN_TOOLS_SOURCE_H
#define CRN_TOOLS_SOURCE_H

#include "cairn/bundle.h"
#include "cairn/model.h"
#include "tools/tool.h"

typedef enum crn_source_kind {
  CRN_SOURCE_ASSET,   ///< an `.aimodel` folder or a `main.mlirb` file
  CRN_SOURCE_BUNDLE,  ///< a folder with a bundle's metadata.json
  CRN_SOURCE_FILE     ///< a file of another format, for the importers (GGUF), or the name of a synthetic model
} crn_source_kind;

/// A model argument, found and recognised. Text lives in the tool's arena.
typedef struct crn_source {
  crn_source_kind kind;
  const char *path;
} crn_source;

/// Finds `name` (a path that exists, else see cairn_model_find; `search` may be NULL) and says what it is.
/// Errors: NOT_FOUND, UNSUPPORTED (a compiled asset), INVALID_ARGUMENT (naming what is accepted).
cairn_status crn_source_find(crn_tool *t, const char *name, const char *search, crn_source *out_source);

/// Only the finding: the path of a model by name. Errors: NOT_FOUND listing where was looked.
cairn_status crn_source_locate(crn_tool *t, const char *name, const char *search, const char **out_path);

/// Fails with NOT_FOUND, naming the components there are.
cairn_status crn_source_no_component(const cairn_bundle *bundle, const char *role);
/// The path of a bundle's component, in the tool's arena. Errors: as crn_source_no_component, cairn_bundle_asset_path.
cairn_status crn_source_component(crn_tool *t, const cairn_bundle *bundle, const char *role, const char **out_path);

/// Loads the model of a source: the asset itself, the component `role` of a bundle (NULL = "main"), or the import of a file.
cairn_status crn_source_load(crn_tool *t, const crn_source *source, const char *role, const cairn_model_options *options,
                             cairn_model **out_model);

#endif
