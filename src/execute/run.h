/// Walking a plan.
#ifndef CRN_EXECUTE_RUN_H
#define CRN_EXECUTE_RUN_H

#include "execute/workspace.h"

/// Who wants to see each step's results (cairn_model_options.trace).
typedef struct crn_trace {
  void (*fn)(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n_arrays,
             double seconds);
  void *user;
} crn_trace;

/// Runs one step that is no composite: operands are in their slots, results go to theirs.
cairn_status crn_run_step(crn_workspace *w, const crn_step *step);

/// The bytes a step's results would take, and the bytes really stored behind its operands (a broadcast counts once).
cairn_status crn_step_sizes(crn_workspace *w, const crn_step *step, size_t *out_result_bytes, size_t *out_operand_bytes);

/// Runs the whole plan. Inputs are in their slots and states are bound.
cairn_status crn_run_plan(crn_workspace *w, const crn_trace *trace);

/// state.c
cairn_status crn_run_read(crn_workspace *w, const crn_step *step);
cairn_status crn_run_write(crn_workspace *w, const crn_step *step);
/// Called at the end of a run. Interleaved states go back into their order; after a failed run they stay as they were.
void crn_run_end_states(crn_workspace *w, bool is_finished);
/// Updates in place when nobody else sees the memory; `*out_done` false means that the general way must be taken.
cairn_status crn_run_update_in_place(crn_workspace *w, const crn_step *step, crn_kernel_args *args, bool *out_done);

#endif
