/// Where files are, whatever names lead to them.
#ifndef CRN_BASE_PATH_H
#define CRN_BASE_PATH_H

#include <stdbool.h>

#include "base/str.h"

/// The place of a file that is there or could be made: folders are real ones, and links are followed, also one whose target is not there
/// yet. A path that leads nowhere (its folder is missing, its links go in a circle) stays as it is: whoever uses it is told. `out` is
/// cleared first. Errors: OUT_OF_MEMORY.
cairn_status crn_path_resolve(const char *path, crn_str *out);

/// Whether both are there and are one file, by whatever names.
bool crn_path_is_same(const char *a, const char *b);

#endif
