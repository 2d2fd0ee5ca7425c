/// Copies out of the pages of segmented arrays, for steps that take none (specialize/pages.h).
#ifndef CRN_EXECUTE_PAGES_H
#define CRN_EXECUTE_PAGES_H

#include "execute/workspace.h"
#include "specialize/pages.h"

/// Puts the elements of operand `i` into plain scratch memory. Errors: UNSUPPORTED where a window hides some of them.
cairn_status crn_run_gather(crn_workspace *w, const crn_step *s, uint32_t i, crn_tensor *t);
/// The step's view function. Views of pages are over pages; where there is no view, operand 0 becomes plain.
cairn_status crn_run_view(crn_workspace *w, const crn_step *s, crn_kernel_args *args, crn_tensor *operands, bool *out_done);

#endif
