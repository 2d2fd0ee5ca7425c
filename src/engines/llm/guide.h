/// The grammar of a generation: which tokens may be chosen. It stands between the logits and the sampler, so that every engine is
/// guided the same way. The mask of the next choice is made on a thread of its own while the model runs.
#ifndef CRN_ENGINES_LLM_GUIDE_H
#define CRN_ENGINES_LLM_GUIDE_H

#include "engines/llm/generator.h"

/// Compiles the grammar of the options and begins with the first mask; nothing when there is none (`g->guide` stays NULL).
/// Errors: as cairn_grammar_compile; FAILED_PRECONDITION without a tokenizer, INVALID_ARGUMENT together with forced tokens.
cairn_status crn_guide_begin(crn_generator *g);
/// Tells the result how it went. Allowed at any time, also twice.
void crn_guide_end(crn_generator *g);

// --- on the thread that chooses ---------------------------------------------------------------------------------------------------

/// Waits for the mask of the next choice, and asks meanwhile whether the generation is cancelled: a mask may take seconds. True: it is, and
/// the guide is of no more use. On the thread of the caller.
bool crn_guide_is_cancelled(crn_generator *g);
/// Makes -inf of every logit that may not be chosen. Errors: CANCELLED when the text is complete and nothing may follow.
cairn_status crn_guide_mask(struct crn_guide *guide, float *row, int64_t n);
/// Goes on with a token that was chosen.
cairn_status crn_guide_take(struct crn_guide *guide, int32_t token);
/// Tokens the grammar alone determines from here, at most `max` of them: drafts, which the model's own choice confirms or not.
int crn_guide_forced(crn_generator *g, int32_t *tokens, int max);

// --- on the thread of the caller ----------------------------------------------------------------------------------------------------

/// Ends the mask that is being made: whoever waits for it, or for a later one, fails with CANCELLED. The guide can only be ended then.
void crn_guide_cancel(struct crn_guide *guide);
bool crn_guide_was_cancelled(const struct crn_guide *guide);
/// Whether token `index` of the generation completes the text and nothing may follow, not even a stop id: there is none.
bool crn_guide_is_last(const struct crn_guide *guide, int64_t index);

#endif
