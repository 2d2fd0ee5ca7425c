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

/// Tensors of one kernel call and the arguments that point to them.
typedef struct crn_call {
  crn_tensor operands[CRN_MAX_STEP_TENSORS], results[CRN_MAX_STEP_TENSORS];
  crn_kernel_args args;
} crn_call;

/// The first half of a step of kind KERNEL that is no view: operands, and results with their memory in their slots. What is left is the
/// kernel's call; crn_workspace_end_scratch and crn_run_release come behind it.
cairn_status crn_run_prepare(crn_workspace *w, const crn_step *step, crn_call *out_call);

/// Finds out what a step is called with: operands, and results with their sizes but without memory.
cairn_status crn_run_find_call(crn_workspace *w, const crn_step *step, crn_kernel_args *out_args, crn_tensor *operands,
                               crn_tensor *results);
/// The last part of it: the sizes of the results of `args`.
cairn_status crn_run_infer(const crn_workspace *w, const crn_step *step, const crn_kernel_args *args);
/// Gives a result its memory and its order in it.
void crn_run_lay_out(const crn_step *step, crn_tensor *result, void *data);

/// Runs one step that is no composite: operands are in their slots, results go to theirs.
cairn_status crn_run_step(crn_workspace *w, const crn_step *step);

/// The bytes a step's results would take, and the bytes really stored behind its operands (a broadcast counts once).
cairn_status crn_step_sizes(crn_workspace *w, const crn_step *step, size_t *out_result_bytes, size_t *out_operand_bytes);

/// Runs step `*in_out_index` with all that belongs to it (the body of a composite may be left out, a jump followed, slots released), and
/// makes the index that of the step to go on with. Steps that a record shows to have nothing to do are passed over, but none behind `stop`.
cairn_status crn_run_next(crn_workspace *w, const crn_trace *trace, uint32_t stop, uint32_t *in_out_index);
/// Empties the slots nobody needs behind a step.
void crn_run_release(crn_workspace *w, const crn_step *step);
/// Names the step that failed.
cairn_status crn_run_note(cairn_status status, const crn_workspace *w, uint32_t index);

/// Runs the whole plan. Inputs are in their slots and states are bound.
cairn_status crn_run_plan(crn_workspace *w, const crn_trace *trace);

/// state.c
cairn_status crn_run_read(crn_workspace *w, const crn_step *step);
cairn_status crn_run_write(crn_workspace *w, const crn_step *step);
/// Called at the end of a run. Interleaved states go back into their order; after a failed run they stay as they were.
void crn_run_end_states(crn_workspace *w, bool is_finished);
/// Changes `target`, which lies where operand 0 does, into the result. `*out_bytes` -1: it cannot be done in place.
cairn_status crn_run_apply_update(const crn_workspace *w, const crn_step *step, crn_kernel_args *args, const crn_tensor *target,
                                  int64_t *out_bytes);
/// Updates in place when nobody else sees the memory; `*out_done` false means that the general way must be taken.
cairn_status crn_run_update_in_place(crn_workspace *w, const crn_step *step, crn_kernel_args *args, bool *out_done);

#endif
