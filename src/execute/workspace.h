/// Memory of one run: slots and the buffers behind them. Kept between runs, so that a steady state allocates nothing.
#ifndef CRN_EXECUTE_WORKSPACE_H
#define CRN_EXECUTE_WORKSPACE_H

#include "specialize/plan.h"
#include "tensor/ndarray.h"

enum { CRN_SIZE_CLASSES = 256, CRN_MAX_SCRATCH = 64, CRN_MAX_STEP_TENSORS = 64 };

/// A state bound for one run.
typedef struct crn_bound_state {
  cairn_ndarray *array;
  crn_buffer buffer;         ///< counts the slots that view the state's memory
  crn_buffer *plain_buffer;  ///< an interleaved state in plain order, from its first read to the end of the run; else NULL
  crn_tensor plain;
  bool is_plain_written;
  bool is_locked;
} crn_bound_state;

typedef struct crn_workspace {
  const crn_plan *plan;
  const cairn_allocator *allocator;
  crn_slot *slots;
  crn_bound_state *states;
  crn_buffer *free_lists[CRN_SIZE_CLASSES];
  crn_buffer *owned;
  crn_scratch scratch;  ///< must keep its address: kernels get a pointer to it
  crn_buffer *scratch_taken[CRN_MAX_SCRATCH];
  int n_scratch;
  struct crn_workspace *next;  ///< in the function's list of idle ones
  int64_t last_rows;           ///< of outputs that the caller wants, 0 = all
  int64_t n_allocations, bytes_written, bytes_copied;
} crn_workspace;

cairn_status crn_workspace_create(const crn_plan *plan, crn_workspace **out_workspace);
void crn_workspace_destroy(crn_workspace *w);

/// A buffer of at least `bytes` bytes with one reference. Errors: OUT_OF_MEMORY.
cairn_status crn_workspace_take(crn_workspace *w, size_t bytes, crn_buffer **out_buffer);
/// Drops a reference; the last one returns the buffer to its free list. NULL is allowed.
void crn_workspace_drop(crn_workspace *w, crn_buffer *buffer);
/// Empties a slot.
void crn_workspace_clear_slot(crn_workspace *w, uint32_t slot);
/// Gives back what kernels took as scratch.
void crn_workspace_end_scratch(crn_workspace *w);
/// Empties all slots that are not constants.
void crn_workspace_reset(crn_workspace *w);
/// The same after a run that went through: its steps released everything but inputs and outputs.
void crn_workspace_finish(crn_workspace *w);

#endif
