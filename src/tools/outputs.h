/// Checks of places to write to, made before the work whose result goes there.
#ifndef CRN_TOOLS_OUTPUTS_H
#define CRN_TOOLS_OUTPUTS_H

#include <stdbool.h>

#include "base/status.h"

/// Whether a file can be created (or replaced) at `path`. `option` names where the path came from: "--out". NULL is fine.
/// Nothing is created. Errors: NOT_FOUND (the folder is missing), IO.
cairn_status crn_output_check_file(const char *option, const char *path);
/// The same for a folder that is the output itself (a compiled asset): it may be there, its parent must be.
cairn_status crn_output_check_folder(const char *option, const char *path);
/// The same for a folder to put files in, that is created, with its parents, when it is absent.
cairn_status crn_output_check_directory(const char *option, const char *path);

/// Refuses an output that would replace the file `input`, or that lies in the folder `input` (a bundle, an asset, or the
/// asset whose main.mlirb it is). NULLs are fine. Errors: INVALID_ARGUMENT naming both.
cairn_status crn_output_check_apart(const char *option, const char *path, const char *input);

/// A place that is written: the option, what stood behind it, and the path that is meant (FILE.json of --session FILE).
typedef struct crn_output {
  const char *option, *given, *path;
} crn_output;
/// Refuses two outputs in one place, by whatever names; with `inside` also `a` in the folder `b`. What is no file may be written by
/// several. Errors: INVALID_ARGUMENT naming both options; OUT_OF_MEMORY.
cairn_status crn_output_check_distinct(const crn_output *a, const crn_output *b, bool inside);

#endif
