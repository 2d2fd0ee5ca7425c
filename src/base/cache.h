/// Where programs keep what can be made again.
#ifndef CRN_BASE_CACHE_H
#define CRN_BASE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/// $CAIRN_CACHE_DIR, else $XDG_CACHE_HOME/cairn, else $HOME/.cache/cairn. Errors: FAILED_PRECONDITION when none of them is set.
cairn_status crn_cache_directory(crn_str *out);
/// Whether CAIRN_CACHE=off forbids reading and writing it.
bool crn_cache_is_off(void);
/// Bytes that may be kept: CAIRN_CACHE_LIMIT, else 32 GiB.
uint64_t crn_cache_limit(void);
/// Whether the variables of the cache can be understood. Errors: INVALID_ARGUMENT naming the one that cannot.
cairn_status crn_cache_check_environment(void);

#endif
