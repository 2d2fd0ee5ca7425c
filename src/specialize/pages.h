/// What steps do with the pages of segmented arrays (tensor/pages.h).
#ifndef CRN_SPECIALIZE_PAGES_H
#define CRN_SPECIALIZE_PAGES_H

#include "specialize/plan.h"

/// Whether the step is attention, which reads keys and values in pages and honours their window.
bool crn_step_attends(const crn_step *step);
/// Whether operand `i` may be over pages. All other operands get a copy.
bool crn_step_takes_pages(const crn_step *step, uint32_t i);

/// The first step that would copy a state out of its pages on every run; `*out_step` NULL when none does: it is written where it changes
/// and read by attention only. Errors: OUT_OF_MEMORY.
cairn_status crn_plan_find_page_copier(const crn_plan *plan, int32_t state, const crn_step **out_step);

#endif
