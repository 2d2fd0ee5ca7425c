/// What passes need to look at a plan and to change it.
#ifndef CRN_SPECIALIZE_EDIT_H
#define CRN_SPECIALIZE_EDIT_H

#include "specialize/plan.h"

enum { CRN_NO_STEP = UINT32_MAX };

/// Where the slots of a plan come from and how often they are read. Valid until the plan changes.
typedef struct crn_plan_index {
  const cairn_allocator *allocator;
  uint32_t n_slots, n_steps;
  uint32_t *made_by;  ///< by slot: the only step outside of composite bodies that makes it; CRN_NO_STEP for constants,
                      ///< inputs, slots that several steps make, and those made inside of bodies, ifs and loops
  uint32_t *n_uses;   ///< by slot: reads by steps (those in bodies too) and by the function's results
  bool *is_inner;     ///< by step: inside of the body of a composite, an if or a loop
} crn_plan_index;

cairn_status crn_plan_index_create(const crn_plan *plan, crn_plan_index *out_index);
void crn_plan_index_destroy(crn_plan_index *index);

/// The step that makes the slot, NULL when the index knows none.
static inline crn_step *crn_maker_of(const crn_plan *plan, const crn_plan_index *index, uint32_t slot) {
  return index->made_by[slot] == CRN_NO_STEP ? NULL : &plan->steps[index->made_by[slot]];
}
/// The constant a slot holds, NULL when it is none.
static inline const crn_tensor *crn_constant_of(const crn_plan *plan, uint32_t slot) {
  return plan->is_constant[slot] ? &plan->constants[slot].tensor : NULL;
}

/// Drops marked steps; ends of bodies and targets of jumps move with the others.
cairn_status crn_plan_drop(crn_plan *plan, const bool *is_dropped);
/// Drops steps outside of bodies whose results nobody reads, with the bodies behind them.
cairn_status crn_plan_drop_unused(crn_plan *plan);

#endif
