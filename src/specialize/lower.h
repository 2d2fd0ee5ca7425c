/// Shared inside of the making of plans: from ops to steps.
#ifndef CRN_SPECIALIZE_LOWER_H
#define CRN_SPECIALIZE_LOWER_H

#include "base/vec.h"
#include "specialize/plan.h"

/// What a value stands for in the plan.
typedef struct crn_binding {
  enum { CRN_UNBOUND, CRN_SLOT, CRN_STATE, CRN_TOKEN } kind;
  uint32_t index;
} crn_binding;

typedef struct crn_lowering {
  crn_plan *plan;
  const cairn_allocator *allocator;
  const crn_plan_tie *ties;
  uint32_t n_ties;
  bool use_bodies;
  int depth;
  CRN_VEC(crn_step) steps;
  CRN_VEC(const crn_type *) slot_types;
  CRN_VEC(const crn_constant *) slot_constants;
} crn_lowering;

cairn_status crn_lower_add_slot(crn_lowering *l, const crn_type *type, const crn_constant *constant, uint32_t *out_slot);
/// Gives a value a fresh slot.
cairn_status crn_lower_bind_slot(crn_lowering *l, crn_binding *env, const crn_value *v, const crn_constant *constant);
/// Appends a step. The pointer is valid until the next step is appended.
cairn_status crn_lower_add_step(crn_lowering *l, crn_step_kind kind, const crn_op *op, uint32_t n_in, uint32_t n_out, crn_step **out_step);
/// Appends a step that makes slot `to` the value of slot `from`.
cairn_status crn_lower_alias(crn_lowering *l, const crn_op *op, uint32_t from, uint32_t to);
/// Lowers the ops of a block. `out_results` receives what the operands of its terminator stand for (as many as it has).
cairn_status crn_lower_block(crn_lowering *l, const crn_block *block, crn_binding *env, crn_binding *out_results);

/// lower_control.c: if and while.
cairn_status crn_lower_if(crn_lowering *l, const crn_op *op, crn_binding *env);
cairn_status crn_lower_while(crn_lowering *l, const crn_op *op, crn_binding *env);

/// updates.c: finds the state updates that may happen in place.
void crn_plan_find_updates(crn_plan *plan);

#endif
