/// Memory of one run: slots and the buffers behind them. Kept between runs, so that a steady state allocates nothing.
#ifndef CRN_EXECUTE_WORKSPACE_H
#define CRN_EXECUTE_WORKSPACE_H

#include "specialize/plan.h"
#include "tensor/ndarray.h"

enum { CRN_SIZE_CLASSES = 256, CRN_MAX_SCRATCH = 64, CRN_MAX_KEPT = 6, CRN_MAX_STEP_TENSORS = 64 };

/// A state bound for one run.
typedef struct crn_bound_state {
  cairn_ndarray *array;
  crn_buffer buffer;         ///< counts the slots that view the state's memory
  crn_buffer *plain_buffer;  ///< an interleaved state in plain order, from its first read to the end of the run; else NULL
  crn_tensor plain;
  bool is_plain_written;
  int64_t read_before;  ///< bytes that were copied out of a segmented state before the run
  bool is_locked;
} crn_bound_state;

/// A table that a kernel made (crn_keeper).
typedef struct crn_kept {
  void *key, *data;
  size_t key_bytes, bytes;  ///< of what is there; 0 bytes = nothing
  size_t key_capacity, data_capacity;
  uint64_t last_use;
} crn_kept;

typedef struct crn_workspace {
  const crn_plan *plan;
  const cairn_allocator *allocator;
  crn_slot *slots;
  crn_bound_state *states;
  crn_buffer *free_lists[CRN_SIZE_CLASSES], *scratch_lists[CRN_SIZE_CLASSES];
  crn_buffer *owned;
  crn_pool *pool;       ///< of its kernels: the context's; NULL while several workspaces run at once, each on one thread
  crn_scratch scratch;  ///< must keep its address: kernels get a pointer to it
  crn_buffer *scratch_taken[CRN_MAX_SCRATCH];
  int n_scratch;
  crn_keeper keeper;  ///< must keep its address, too
  crn_kept kept[CRN_MAX_KEPT];
  uint64_t n_kept_uses;
  struct crn_workspace *next;  ///< in the function's list of idle ones
  struct crn_replay *replay;   ///< the record of the last run (replay.h); NULL = none
  bool has_run;
  int64_t last_rows;  ///< of outputs that the caller wants, 0 = all
  bool rows_as_one;   ///< rows get the bits they have alone
  bool blind_rows_unused;
  int64_t n_allocations, bytes_written, bytes_copied, bytes_gathered;
} crn_workspace;

cairn_status crn_workspace_create(const crn_plan *plan, crn_workspace **out_workspace);
void crn_workspace_destroy(crn_workspace *w);

/// A buffer of at least `bytes` bytes with one reference. Errors: OUT_OF_MEMORY.
cairn_status crn_workspace_take(crn_workspace *w, size_t bytes, crn_buffer **out_buffer);
/// Drops a reference; the last one returns the buffer to its free list. NULL is allowed.
void crn_workspace_drop(crn_workspace *w, crn_buffer *buffer);
/// Makes the free lists anew: of all buffers without references.
void crn_workspace_find_free(crn_workspace *w);
/// Empties a slot.
void crn_workspace_clear_slot(crn_workspace *w, uint32_t slot);
/// Gives back what kernels took as scratch.
void crn_workspace_end_scratch(crn_workspace *w);
/// Empties all slots that are not constants.
void crn_workspace_reset(crn_workspace *w);
/// The same after a run that went through: its steps released everything but inputs and outputs.
void crn_workspace_finish(crn_workspace *w);

#endif
