/// The passes that make a plan fast. Each takes a folded plan and leaves one that computes the same values.
#ifndef CRN_SPECIALIZE_PASSES_H
#define CRN_SPECIALIZE_PASSES_H

#include "backend/cpu/fused/conv.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "specialize/plan.h"
#include "specialize/weights.h"

typedef struct crn_specialization {
  cairn_precision precision;  ///< resolved: never the default
  crn_weight_store *store;    ///< packed weights, shared by the functions of a model
} crn_specialization;

/// Decides what the default and `auto` mean for this plan.
void crn_resolve_precision(crn_plan *plan, crn_specialization *options);

/// Whether the plan has constants of some size, so that packing them takes time.
bool crn_plan_is_heavy(const crn_plan *plan);

/// All passes in order. Called between the two foldings. Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_specialize_plan(crn_plan *plan, const crn_specialization *options);

/// Equal pure steps on equal operands are computed once.
cairn_status crn_pass_share_steps(crn_plan *plan);
/// Steps that give back what they are given are left out, and types learn the sizes that follow from others.
cairn_status crn_pass_identities(crn_plan *plan);
/// rms_norm and silu that are spelled out become one step each.
cairn_status crn_pass_norms(crn_plan *plan);
/// gather_nd of a single place becomes a view.
void crn_pass_picks(crn_plan *plan);
/// A layer of a state that is written by choosing between it and the old layers is written to the state at once, and read back.
cairn_status crn_pass_layer_writes(crn_plan *plan);
/// Updates of states that masks and shifts spell out change the state in place.
cairn_status crn_pass_state_writes(crn_plan *plan);
/// Attention spelled out in products, masks and softmax becomes one step, which reads only what the mask leaves.
cairn_status crn_pass_attention(crn_plan *plan);
/// Makes a step that finds what a mask leaves to see (fused/attention.h), in place of one whose result nobody needs any more.
cairn_status crn_make_mask_extent(crn_plan *plan, crn_step *step, uint32_t mask, int position_axis);
/// Attributes and operand names of scaled_dot_product_attention with a mask, kept by the plan.
cairn_status crn_make_attention_attributes(crn_plan *plan, double scale, const crn_attr **out_attrs, const char *const **out_names);
/// The same where every head has products of its own, cut out of and put back into one value.
cairn_status crn_pass_head_attention(crn_plan *plan);
/// Products with constant matrices and lookups in them work on packed weights.
cairn_status crn_pass_linear(crn_plan *plan, const crn_specialization *options);
/// gather_mm on constant stacks of matrices works on packed ones.
cairn_status crn_pass_experts(crn_plan *plan, const crn_specialization *options);
/// Norms that only products read are done by these when they prepare their rows.
cairn_status crn_pass_prologues(crn_plan *plan);
/// Products learn whose weights are read behind theirs. The last pass.
void crn_pass_weights_ahead(crn_plan *plan);
/// Convolutions with constant weights work on packed ones, with padding, bias, residual and activation in the same step.
cairn_status crn_pass_convolutions(crn_plan *plan, const crn_specialization *options);
/// What products are followed by is done in their step: activations, and sums behind a change of shape.
cairn_status crn_pass_epilogues(crn_plan *plan);
/// Maxima and elementwise ops on values whose channels lie next to each other keep them so.
cairn_status crn_pass_layouts(crn_plan *plan);
/// Passes that need dense constants. Called behind the second folding. Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_specialize_folded(crn_plan *plan, const crn_specialization *options);
/// By slot: the step that reads it, when there is one outside of bodies and nobody else does; else CRN_NO_STEP.
void crn_plan_find_readers(const crn_plan *plan, const crn_plan_index *index, uint32_t *read_by);
/// Windows of `sizes` whose strides and dilations are the constants in operands `stride` and `dilation`.
bool crn_match_windows(const crn_plan *plan, const crn_step *step, int spatial, const int64_t *sizes, int stride, int dilation,
                       crn_window *out_windows);
/// Whether the slot is padded in its spatial dimensions by one constant: how far, and with what.
bool crn_match_padding(const crn_plan *plan, const crn_plan_index *index, uint32_t slot, int spatial, crn_window *in_out_windows,
                       double *out_value);
/// NONE when the step is no activation that fused steps know.
crn_activation crn_match_activation(const crn_step *step);
/// Whether the step does to its operand what a gate does to one half of its input.
bool crn_match_gate(const crn_step *step, crn_gate *out_gate);
/// How the kernels are to work for a precision.
crn_linear_mode crn_linear_mode_of(cairn_precision precision);
/// Rounding scales to f16 is only allowed where the precision rounds anyway.
bool crn_weight_is_precise_enough(const crn_specialization *options, const crn_weight_source *source);
/// Views of views become one step. Called last: other passes look for the single ones.
cairn_status crn_pass_view_chains(crn_plan *plan);
/// Attention takes the views of caches that are its keys and values into its step. Behind view_chains.
cairn_status crn_pass_looks(crn_plan *plan);
/// Marks the products whose rows become rows of an output, so that a run can leave rows out.
cairn_status crn_pass_last_rows(crn_plan *plan);

#endif
