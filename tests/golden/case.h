/// One golden case: a folder with model.aimodel, manifest.json and golden.safetensors.
#ifndef CRN_TESTS_GOLDEN_CASE_H
#define CRN_TESTS_GOLDEN_CASE_H

#include <stdbool.h>

#include "cairn/model.h"

typedef enum case_outcome { CASE_PASSED, CASE_FAILED, CASE_REFUSED } case_outcome;

/// Runs every call of the case, states carried as the manifest says. A REFUSED case uses an op that is not READY.
/// `note` receives why a case failed or was refused.
case_outcome run_case(cairn_context *context, const char *folder, cairn_composites composites, char *note, int note_bytes);

#endif
