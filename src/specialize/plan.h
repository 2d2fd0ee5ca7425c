/// The flat form of a function that the executor walks: steps over slots, calls inlined, lifetimes known.
///
/// A plan is made by crn_plan_create, folded by the executor (constants are computed by the same kernels), specialized by passes
/// (passes.h), folded again for what no pass wanted, and completed by crn_plan_set_lifetimes.
#ifndef CRN_SPECIALIZE_PLAN_H
#define CRN_SPECIALIZE_PLAN_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/context.h"
#include "base/vec.h"
#include "cairn/model.h"
#include "program/infer/infer.h"

enum { CRN_NO_STATE = -1 };

typedef enum crn_step_kind {
  CRN_STEP_KERNEL,     ///< inference, then a view or a kernel
  CRN_STEP_UPDATE,     ///< slice_update: in place where that is safe, else as a kernel
  CRN_STEP_COMPOSITE,  ///< direct kernel; when it declines, the steps of the body follow
  CRN_STEP_ALIAS,      ///< out[0] is in[0]
  CRN_STEP_READ,       ///< out[0] is the state's present value
  CRN_STEP_WRITE,      ///< in[0] becomes the state's value
  CRN_STEP_IF,         ///< goes to `target` unless in[0] is true
  CRN_STEP_LOOP,       ///< where a loop begins
  CRN_STEP_TEST,       ///< of a loop: goes to `target` unless in[0] is true
  CRN_STEP_JUMP,       ///< goes to `target`
  CRN_STEP_END         ///< of a composite's body, an if or a loop: only releases
} crn_step_kind;

typedef struct crn_step {
  crn_step_kind kind;
  const crn_op *op;  ///< attributes and location
  crn_op_id id;
  const crn_composite_decl *composite;
  crn_infer_fn infer;
  crn_kernel_fn kernel;
  crn_view_fn view;
  crn_update_fn update;  ///< of UPDATE: changes operand 0 in place; NULL = as slice_update
  uint32_t n_in, n_out, n_release;
  uint32_t *in, *out;
  uint32_t *release;  ///< slots nobody needs after this step
  int32_t state;      ///< of READ and WRITE; of UPDATE when its result is written back to this state, else CRN_NO_STATE
  uint32_t body_end;  ///< of COMPOSITE, IF and LOOP: index of the END step, 0 when there is no body
  uint32_t target;    ///< of IF, TEST and JUMP
  const char *name;   ///< of a step that a pass made, else NULL
  const void *fused;  ///< its parameters, which the plan keeps
  int minor_axis;     ///< results lie in memory with this axis innermost; 0 = in order
  bool is_kept;       ///< a palette that is packed as it is: the foldings in front of the passes leave it alone
  bool cuts_rows;     ///< a run that wants the last rows of the outputs only may cut operand 0 (its last dimension but one)
  atomic_bool use_body;
} crn_step;

/// Memory behind slots. Buffers of a plan's constants live with the plan, others with a workspace.
typedef struct crn_buffer {
  int32_t references;
  bool is_state, is_scratch;
  size_t bytes;
  void *data;
  struct crn_buffer *next;        ///< in its free list
  struct crn_buffer *next_owned;  ///< in the list of everything the workspace owns
} crn_buffer;

typedef struct crn_slot {
  crn_tensor tensor;
  crn_buffer *buffer;  ///< NULL for memory that outlives the run (inputs, constants)
} crn_slot;

typedef struct crn_state_info {
  const char *name;
  const crn_type *type;
} crn_state_info;

typedef struct crn_plan {
  crn_arena arena;
  cairn_context *context;
  const crn_graph *graph;
  cairn_precision precision;  ///< of products with constant matrices
  uint32_t n_steps, n_slots, n_inputs, n_outputs, n_states;
  crn_step *steps;
  const crn_type **slot_types;
  crn_slot *constants;  ///< n_slots entries; those of constants are set
  bool *is_constant;
  uint32_t *input_slots;  ///< in the order of the graph's tensor arguments
  const crn_type **input_types;
  uint32_t *output_slots;  ///< in the order of the graph's tensor results
  crn_state_info *states;
  /// Owns the memory of folded constants; `release_folded` gives it back.
  struct crn_workspace *folded;
  void (*release_folded)(struct crn_workspace *folded);
  int64_t folded_bytes;
  CRN_VEC(crn_tensor) folded_reads;  ///< constants that folding computed with, other than by views
} crn_plan;

/// What arguments and results of a function are tied to, so that they are no inputs and outputs of its plan. All by place: among the
/// graph's arguments, and among its results.
typedef struct crn_plan_tie {
  uint32_t argument, result;
  const crn_graph *giver;  ///< the argument is this graph's result, which takes nothing; NULL: what becomes of the argument is the graph's
                           ///< own result, and the two are a state of the argument's name
} crn_plan_tie;

/// Flattens a function. `use_bodies`: composites by their stored bodies. Errors: UNSUPPORTED, CORRUPT, OUT_OF_MEMORY.
cairn_status crn_plan_create(cairn_context *context, const crn_graph *graph, const crn_plan_tie *ties, uint32_t n_ties, bool use_bodies,
                             crn_plan **out_plan);
void crn_plan_destroy(crn_plan *plan);
/// The name of a step for messages.
const char *crn_step_name(const crn_step *step);

/// Fills in the release lists. Called when the steps are final.
cairn_status crn_plan_set_lifetimes(crn_plan *plan);

#endif
