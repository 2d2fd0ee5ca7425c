/// Constant folding of plans.
#ifndef CRN_EXECUTE_FOLD_H
#define CRN_EXECUTE_FOLD_H

#include "specialize/plan.h"

/// Computes the steps whose operands are all constant and drops them from the plan. `keep_compressed` leaves the steps that
/// expand quantised weights alone, so that passes can pack them; a second call without it folds what they left.
cairn_status crn_plan_fold(crn_plan *plan, bool keep_compressed,
                           void (*progress)(void *user, const char *phase, int64_t done, int64_t total), void *user);

#endif
