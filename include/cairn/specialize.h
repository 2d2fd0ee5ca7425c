/// The cache of specializations: packed weights of models, so that a second load is quick.
///
/// Entries lie in $CAIRN_CACHE_DIR, else $XDG_CACHE_HOME/cairn, else $HOME/.cache/cairn. They are made by the first load of a model with
/// at least 8 MiB of packed weights, checked on every read, and rebuilt when damaged. CAIRN_CACHE=off turns the cache off, and
/// CAIRN_CACHE_LIMIT gives the bytes it may hold (default 32 GiB): the entries used longest ago go first. Processes may share it.
#ifndef CAIRN_SPECIALIZE_H
#define CAIRN_SPECIALIZE_H

#include <stdint.h>

#include "cairn/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An entry of the cache. Texts are borrowed for the call that gives it.
typedef struct cairn_cache_entry {
  const char *path;
  const char *model;    ///< absolute path of the asset or file it was made from
  const char *options;  ///< options of the model that are not the default: "frequent reshapes", or nothing
  uint64_t bytes;
  int64_t used;  ///< when it was used last: seconds since 1970
} cairn_cache_entry;

/// The cache's folder. Writes up to `capacity` bytes (no NUL) and stores the full size.
/// Errors: FAILED_PRECONDITION when no variable of the environment names a place.
CAIRN_API cairn_status cairn_cache_directory(char *out_path, size_t capacity, size_t *out_bytes);
/// Calls `visit` for every entry, in no order, until it returns something else than OK, which is then returned.
CAIRN_API cairn_status cairn_cache_list(cairn_status (*visit)(void *user, const cairn_cache_entry *entry), void *user);
/// Removes all entries, and what programs that were ended left of some they were writing (not counted). Programs that are using entries
/// keep what they read, and those that are writing some finish them.
CAIRN_API cairn_status cairn_cache_clear(int64_t *out_n_entries, uint64_t *out_bytes);

/// Removes the entries of the model at `model`, for whatever options, or of all models in that folder.
/// Errors: INVALID_ARGUMENT (an empty path), IO.
CAIRN_API cairn_status cairn_cache_remove(const char *model, int64_t *out_n_entries, uint64_t *out_bytes);

/// Compiles a loaded model for this machine's processor family into the folder of an `.aimodelc`, which loads without the original and
/// without packing. It runs only on the same family, with the same packed layout and the precision the model was loaded with;
/// anything else is refused when it is loaded. The folder is made; a compiled asset in it is replaced.
/// Errors: UNSUPPORTED (the model is no stored asset), INVALID_ARGUMENT (it is compiled already), IO, and what making a function gives.
CAIRN_API cairn_status cairn_model_compile(cairn_model *model, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
