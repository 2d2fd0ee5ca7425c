/// What the options of a function make of its arguments and results.
#ifndef CRN_EXECUTE_TIES_H
#define CRN_EXECUTE_TIES_H

#include "cairn/model.h"
#include "specialize/plan.h"

/// Finds the arguments and results that `options` (may be NULL) names, and checks that they fit. `*out_info` is what is left of function
/// `at` of the model; both lie in `arena`. Errors: INVALID_ARGUMENT naming what does not fit, OUT_OF_MEMORY.
cairn_status crn_ties_resolve(const cairn_model *model, int at, const cairn_function_options *options, crn_arena *arena,
                              const crn_plan_tie **out_ties, uint32_t *out_n, const cairn_function_info **out_info);

#endif
