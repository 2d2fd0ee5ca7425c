/// Many generations on one model at once. Each step computes the next token of every sequence that is generating, and some tokens of
/// prompts that wait, with one read of the weights for all: eight sequences cost little more than one.
///
///   cairn_llm_batch_create(llm, NULL, &batch);
///   for (…) cairn_llm_batch_join(batch, &options, &id);
///   while (cairn_llm_batch_step(batch, &step) == CAIRN_OK && step.n_active) …   // others may join and leave meanwhile
///   cairn_llm_batch_take(batch, id, &generation);
///
/// A sequence gives the tokens it gives alone: the same greedy choices, the same draws for the same seed. In exact precision that holds
/// whatever the pieces its prompt was cut into and whatever it shared; in other precisions prompts are only cut where rows keep their
/// arithmetic, so that it holds there, too, for prompts that share nothing (see `no_sharing`).
///
/// `speculation` works as for a sequence alone and changes no token. Drafts are left out where the steps of the batch would take longer for
/// them than for the tokens they save.
#ifndef CAIRN_BATCH_H
#define CAIRN_BATCH_H

#include "cairn/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Zero-initialise for the defaults.
typedef struct cairn_llm_batch_options {
  int max_sequences;  ///< that have states at once; further ones wait in the order they came. 0 = 16
  /// How long a step may take while sequences are generating, in seconds; 0 = 0.1. The tokens of prompts a step computes follow from
  /// the time earlier steps took. At least 24 are computed, lest prompts wait for ever.
  double max_step_seconds;
  /// Tokens of prompts a step computes while sequences are generating, instead of what follows from `max_step_seconds`; 0 = none given.
  /// Pieces are no shorter than 24 tokens, and no shorter rest is left.
  int64_t max_step_tokens;
  /// Prompts are computed from their first token, even when another sequence of the batch begins alike. Else what they have in common with
  /// one that is there, or whose prompt is being computed, is computed once; in pages it is not even copied. `prefix_hit` and
  /// `prefix_from_memory` of the results tell.
  bool no_sharing;
} cairn_llm_batch_options;

/// Owner: unique. Thread: one step at a time (a second one gets BUSY); join, cancel, take and describe may come from any thread, and
/// from callbacks.
typedef struct cairn_llm_batch cairn_llm_batch;

/// Creates a batch of sequences of the model of `llm`, with the same options; `llm` itself is not used and may be closed.
/// Errors: UNSUPPORTED (the engine runs one sequence only), INVALID_ARGUMENT, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_batch_create(const cairn_llm *llm, const cairn_llm_batch_options *options, cairn_llm_batch **out_batch);
/// Ends all sequences and forgets their results.
CAIRN_API void cairn_llm_batch_destroy(cairn_llm_batch *batch);

/// Adds a sequence, which takes part from the next step on. What `options` points to is copied, but for `user` and what it stands for.
/// Callbacks come from cairn_llm_batch_step, on the thread that calls it. Errors: as cairn_llm_generate before anything is run.
CAIRN_API cairn_status cairn_llm_batch_join(cairn_llm_batch *batch, const cairn_generate_options *options, int64_t *out_id);
/// Ends a sequence as cancelled with the next step. Nothing happens when it has ended. Errors: NOT_FOUND.
CAIRN_API cairn_status cairn_llm_batch_cancel(cairn_llm_batch *batch, int64_t id);

/// What a step did, and what there is behind it.
typedef struct cairn_llm_batch_step_info {
  int n_waiting;          ///< sequences without states yet
  int n_prompting;        ///< whose prompt is being computed
  int n_generating;       ///< which have given a token, and go on
  int n_active;           ///< all of these: 0 = there is nothing left to do
  int n_ended;            ///< whose result was not taken yet
  int64_t prompt_tokens;  ///< computed by the step
  int64_t tokens;         ///< given out by the step
  int64_t budget;         ///< tokens of prompts the next step may compute
  double seconds;
  int64_t draft_tokens;  ///< computed by the step beside those that were certain (cairn_generate_options.speculation)
} cairn_llm_batch_step_info;

/// Does one step; `out_info` may be NULL. A sequence that fails ends with the stop reason error and does not disturb the others:
/// cairn_llm_batch_take tells. Errors: BUSY, OUT_OF_MEMORY (nothing is lost; the step can be repeated).
CAIRN_API cairn_status cairn_llm_batch_step(cairn_llm_batch *batch, cairn_llm_batch_step_info *out_info);
/// Steps until no sequence is left.
CAIRN_API cairn_status cairn_llm_batch_run(cairn_llm_batch *batch);

/// Whether a sequence has ended. Errors: NOT_FOUND (also when its result was taken).
CAIRN_API cairn_status cairn_llm_batch_has_ended(cairn_llm_batch *batch, int64_t id, bool *out_ended);
/// Takes the result of a sequence that has ended; the batch forgets it. For one that failed the call gives its failure, and the result
/// what there was so far, with stop reason error. Errors: NOT_FOUND, FAILED_PRECONDITION (it has not ended), and the sequence's own.
CAIRN_API cairn_status cairn_llm_batch_take(cairn_llm_batch *batch, int64_t id, cairn_generation **out_generation);

#ifdef __cplusplus
}
#endif
#endif
