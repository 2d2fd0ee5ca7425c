/// The passes that make a plan fast. Each takes a folded plan and leaves one that computes the same values.
#ifndef CRN_SPECIALIZE_PASSES_H
#define CRN_SPECIALIZE_PASSES_H

#include "specialize/plan.h"
#include "specialize/weights.h"

typedef struct crn_specialization {
  cairn_precision precision;  ///< resolved: never the default
  crn_weight_store *store;    ///< packed weights, shared by the functions of a model
} crn_specialization;

/// Decides what the default and `auto` mean for this plan.
void crn_resolve_precision(crn_plan *plan, crn_specialization *options);

/// Whether the plan has constants of some size, so that packing them takes time.
bool crn_plan_is_heavy(const crn_plan *plan);

/// All passes in order. Called between the two foldings. Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_specialize_plan(crn_plan *plan, const crn_specialization *options);

/// Equal pure steps on equal operands are computed once.
cairn_status crn_pass_share_steps(crn_plan *plan);
/// Products with constant matrices and lookups in them work on packed weights.
cairn_status crn_pass_linear(crn_plan *plan, const crn_specialization *options);
/// gather_mm on constant stacks of matrices works on packed ones.
cairn_status crn_pass_experts(crn_plan *plan, const crn_specialization *options);
/// How the kernels are to work for a precision.
crn_linear_mode crn_linear_mode_of(cairn_precision precision);
/// Rounding scales to f16 is only allowed where the precision rounds anyway.
bool crn_weight_is_precise_enough(const crn_specialization *options, const crn_weight_source *source);
/// Marks the products whose rows become rows of an output, so that a run can leave rows out.
cairn_status crn_pass_last_rows(crn_plan *plan);

#endif
