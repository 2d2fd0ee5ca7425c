/// Inside of cairn_bundle, shared by the files that read its blocks.
#ifndef CRN_ENGINES_LLM_BUNDLE_INTERNAL_H
#define CRN_ENGINES_LLM_BUNDLE_INTERNAL_H

#include <stdatomic.h>

#include "base/json.h"
#include "base/str.h"
#include "cairn/bundle.h"

struct cairn_bundle {
  atomic_int references;
  cairn_context *context;
  crn_str path;      ///< "~" expanded
  crn_str metadata;  ///< metadata.json as it is in the file
  json_t *root;      ///< the same, parsed; only read after opening
  const char *name;
  cairn_bundle_kind kind;
  const char **roles;  ///< keys of `assets`, sorted; borrowed from root
  int n_roles;
};

/// Gives member `key` of `object` when it has the JSON type `type` (JSON_REAL takes any number, JSON_TRUE any boolean).
/// An absent or null member is NULL, or CORRUPT when `required`. `block` is "" or a prefix such as "language." for messages.
cairn_status crn_bundle_field(const cairn_bundle *bundle, const json_t *object, const char *block, const char *key, json_type type,
                              bool required, json_t **out_value);

/// The i-th function the metadata gives a role (language.function_map); NULL when there are not so many.
const char *crn_bundle_function_at(const cairn_bundle *bundle, const char *role, size_t i);

/// CORRUPT with "malformed metadata.json at PATH: " before the text.
#define CRN_BUNDLE_MALFORMED(bundle, fmt, ...) CRN_FAIL(CORRUPT, "malformed metadata.json at %s: " fmt, (bundle)->path.data, __VA_ARGS__)

/// The out-parameter rule of texts: copies with a NUL what fits into `capacity`, stores the full length.
void crn_give_text(const crn_str *text, char *out_text, size_t capacity, size_t *out_bytes);

/// Appends `path` with a "~" or "~/" at its start replaced by the home folder.
cairn_status crn_path_expand(crn_str *out, const char *path);

/// Whether the file or folder `path`, all links followed, lies inside the folder `root`.
bool crn_path_is_inside(const char *root, const char *path);

#endif
