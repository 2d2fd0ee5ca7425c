/// Small questions that passes ask about steps and constants.
#ifndef CRN_SPECIALIZE_MATCH_H
#define CRN_SPECIALIZE_MATCH_H

#include "specialize/edit.h"

/// Whether the step computes the op by its ordinary kernel.
static inline bool crn_step_is(const crn_step *s, crn_op_id id) { return s && s->kind == CRN_STEP_KERNEL && !s->fused && s->id == id; }

/// The types that fused steps compute with, in f32.
static inline bool crn_is_small_float(cairn_dtype d) { return d == CAIRN_F32 || d == CAIRN_F16 || d == CAIRN_BF16; }

/// The step that makes the slot when it is one of two ops (an op and its broadcasting form), NULL otherwise.
crn_step *crn_match_made(const crn_plan *plan, const crn_plan_index *index, uint32_t slot, crn_op_id id, crn_op_id other);
/// The same, where nobody else reads the slot.
crn_step *crn_match_own(const crn_plan *plan, const crn_plan_index *index, uint32_t slot, crn_op_id id, crn_op_id other);
/// A number that all elements of the slot have: a constant of one element, seen through broadcasts.
bool crn_match_number(const crn_plan *plan, const crn_plan_index *index, uint32_t slot, double *out_value);
/// A short constant vector of integers, or a single one.
bool crn_match_integers(const crn_plan *plan, uint32_t slot, int most, int64_t *out_values, int *out_n);
/// Whether the slot holds one constant axis, the last of `rank`.
bool crn_match_last_axis(const crn_plan *plan, uint32_t slot, int rank);

#endif
