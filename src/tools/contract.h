/// The contract lock: the exact names, order, element types and dims of everything a model takes, gives and keeps, saved
/// to a file and compared later, so that a model that changed is noticed before it gives wrong results.
///
/// The file: {"format":"cairn-contract","version":1,"assets":[{"role":"main","functions":[…as cairn inspect --json…]}]}
#ifndef CRN_TOOLS_CONTRACT_H
#define CRN_TOOLS_CONTRACT_H

#include <jansson.h>

#include "base/str.h"
#include "base/vec.h"
#include "cairn/asset.h"

/// One asset of the model that is described. A single asset has the role "main".
typedef struct crn_contract_part {
  const char *role;
  const cairn_function_info *const *functions;
  int n_functions;
} crn_contract_part;

/// Writes the contract of `parts` to `path`. Errors: IO, OUT_OF_MEMORY.
cairn_status crn_contract_save(const char *path, const crn_contract_part *parts, int n_parts);

/// Compares `parts` with the contract in `path`. Each difference becomes a line of `out_differences`; `*out_n` counts
/// them. Errors: NOT_FOUND, CORRUPT, INCOMPATIBLE (another version), OUT_OF_MEMORY.
cairn_status crn_contract_compare(const char *path, const crn_contract_part *parts, int n_parts, crn_str *out_differences, int *out_n);

#endif
