/// Where programs keep what can be made again.
#ifndef CRN_BASE_CACHE_H
#define CRN_BASE_CACHE_H

#include <stdbool.h>

#include "base/str.h"

/// $CAIRN_CACHE_DIR, else $XDG_CACHE_HOME/cairn, else $HOME/.cache/cairn. Errors: FAILED_PRECONDITION when none of them is set.
cairn_status crn_cache_directory(crn_str *out);
/// Whether CAIRN_CACHE=off forbids reading and writing it.
bool crn_cache_is_off(void);

#endif
