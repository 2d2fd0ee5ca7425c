/// Plans as text.
#ifndef CRN_SPECIALIZE_PRINT_H
#define CRN_SPECIALIZE_PRINT_H

#include "base/str.h"
#include "specialize/plan.h"

/// Bytes of packed weights that a run reads for one row: whole matrices, one row of lookups, of stacks the matrices chosen.
int64_t crn_plan_weight_bytes(const crn_plan *plan);
/// Appends a line a step. Bodies of composites that have a direct kernel are left out unless `with_bodies`.
cairn_status crn_plan_print(const crn_plan *plan, bool with_bodies, crn_str *out);

#endif
