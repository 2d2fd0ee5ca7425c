/// Runs that go like the last one.
///
/// A workspace that runs again records what every step did: its operands and results, whether it made a view, changed a state in place
/// or computed. The next run of that workspace takes the same way without working out sizes, views and memory again: it asks of every step
/// only whether something its sizes depend on is different now (the view an operand is, or the elements of a short vector of integers), and
/// prepares those steps anew. Memory stays with the slot that had it. As soon as a step cannot go the recorded way (a view that is none any
/// more, a result that needs more memory), the run leaves the record there, puts the counts of the buffers in order, goes on as a first run
/// does, and records again. Plans with ifs and loops, interleaved and paged arrays, and runs that copy states are never replayed.
///
/// Most steps need not even be asked: from the inputs that differ from run to run (the schedule learns which) follows which steps can
/// differ at all. Views that cannot are not looked at, and kernels behind them are called as they were.
///
/// What must hold: between runs a workspace with a record keeps its slots, so whoever runs steps binds with crn_replay_begin and ends with
/// crn_workspace_finish or crn_workspace_reset (function.c does); slots are emptied by crn_run_release only; inference and view functions
/// look at no elements but those of operands of up to CRN_REPLAY_VALUES integers (non_zero and range are known).
#ifndef CRN_EXECUTE_REPLAY_H
#define CRN_EXECUTE_REPLAY_H

#include "execute/workspace.h"

enum { CRN_REPLAY_VALUES = 2 * CAIRN_MAX_RANK };

typedef enum crn_step_way {
  CRN_WAY_NONE,     ///< not run
  CRN_WAY_PLAIN,    ///< an alias, a read, or a write of what lies in the state already
  CRN_WAY_VIEW,     ///< the results are views of operand 0
  CRN_WAY_UPDATE,   ///< operand 0 was changed in place
  CRN_WAY_COMPUTE,  ///< the kernel ran on memory of the results' own
  CRN_WAY_BODY      ///< a composite whose body ran
} crn_step_way;

/// A step's last call.
typedef struct crn_step_memo {
  crn_kernel_args args;
  crn_kernel_fn kernel;
  crn_tensor *operands, *results;  ///< those `args` points to
  uint8_t way;
  bool reads_values;   ///< sizes or views depend on elements of operands; what a view is of is not among them
  bool is_always_new;  ///< prepared again in every run
  bool is_changing;    ///< its results were seen to be other views in another run
  bool is_settled;     ///< by the schedule: nothing of the call is different
  bool is_streaming;   ///< reads so many weights that little is left in the caches behind it
} crn_step_memo;

typedef enum crn_replay_mode { CRN_REPLAY_OFF, CRN_REPLAY_RECORDING, CRN_REPLAY_RUNNING } crn_replay_mode;

/// The elements of a slot that sizes may depend on, as the last run left them; n -1 = too many to tell.
typedef struct crn_replay_values {
  int64_t n;
  uint8_t bytes[CRN_REPLAY_VALUES * 8];
} crn_replay_values;

typedef struct crn_replay {
  crn_replay_mode mode;
  bool is_straight;  ///< the plan has no ifs and loops
  bool is_complete;  ///< there is a record of a whole run, and the slots are as that run had them
  bool is_void;      ///< this run does something that is not replayed
  bool has_other_rows;
  int64_t last_rows;
  bool rows_as_one, blind_rows_unused;  ///< as the recorded calls have it
  crn_step_memo *steps;
  crn_tensor *tensors;  ///< of all steps
  size_t n_tensors;
  crn_slot *released;  ///< by slot: what it was when it was emptied
  uint8_t *changed;    ///< by slot: CRN_CHANGED_*, in this run
  uint32_t *watch;     ///< by slot: the place of its values + 1; 0 = no sizes depend on them
  crn_replay_values *values;
  size_t n_values;
  crn_tensor *inputs, *states;  ///< as the last run had them
  bool *is_state_changed;
  uint8_t *differing;  ///< by input: what of it may differ for the schedule
  uint8_t *seen;       ///< by input: what differed in the last `n_seen` runs
  int n_seen;
  bool has_schedule;
  bool is_scheduled;      ///< this run follows the schedule
  uint32_t *next_active;  ///< by step: the first one from there on that the schedule looks at
} crn_replay;

/// Called when inputs and states are bound: the run will follow the record, or make one. Errors: OUT_OF_MEMORY.
cairn_status crn_replay_begin(crn_workspace *w);
/// The end of a run that went through: the record is complete. False when the workspace must be emptied as ever.
bool crn_replay_finish(crn_workspace *w);
/// Empties a workspace with a record whatever state it is in. False when there is nothing to do for a record.
bool crn_replay_reset(crn_workspace *w);
void crn_replay_destroy(crn_workspace *w);

static inline bool crn_is_replaying(const crn_workspace *w) { return w->replay && w->replay->mode == CRN_REPLAY_RUNNING; }
/// Where the call of a step is recorded, NULL when this run is not recorded.
static inline crn_step_memo *crn_memo_of(const crn_workspace *w, const crn_step *s) {
  return w->replay && w->replay->mode != CRN_REPLAY_OFF ? &w->replay->steps[s - w->plan->steps] : NULL;
}
/// Records the way of a step.
static inline void crn_replay_note(const crn_workspace *w, const crn_step *s, crn_step_way way) {
  crn_step_memo *m = crn_memo_of(w, s);
  if (m) m->way = (uint8_t)way;
}
/// This run is not to be replayed.
static inline void crn_replay_void(const crn_workspace *w) {
  if (w->replay) w->replay->is_void = true;
}

/// Whether steps may be left out (`next_active`) and settled ones called as they were.
static inline bool crn_follows_schedule(const crn_workspace *w) { return crn_is_replaying(w) && w->replay->is_scheduled; }

/// Runs a step as the record says. `*out_done` false: the run has left the record, and the step is still to be run.
cairn_status crn_replay_step(crn_workspace *w, const crn_step *s, bool *out_done);
/// The same without the kernel, for steps whose way is COMPUTE.
cairn_status crn_replay_prepare(crn_workspace *w, const crn_step *s, bool *out_done);
/// Asks memory for what the steps from `from` on will touch, as far as the next product. Called behind one.
void crn_replay_ask(const crn_workspace *w, uint32_t from);
/// Called behind every step: looks whether values that sizes depend on are others, and keeps what slots were before they are emptied.
void crn_replay_pass(crn_workspace *w, const crn_step *s);

#endif
