/// Plans as text.
#ifndef CRN_SPECIALIZE_PRINT_H
#define CRN_SPECIALIZE_PRINT_H

#include "base/str.h"
#include "specialize/plan.h"

/// Appends a line a step. Bodies of composites that have a direct kernel are left out unless `with_bodies`.
cairn_status crn_plan_print(const crn_plan *plan, bool with_bodies, crn_str *out);

#endif
