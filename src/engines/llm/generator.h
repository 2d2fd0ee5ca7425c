/// A generation that is going on: prompt, then token after token until something ends it. What a token is chosen by
/// (`crn_generator_choose`) is apart from what is made of it (`crn_generator_give`), because engines that work ahead do the two at
/// different times and on different threads.
#ifndef CRN_ENGINES_LLM_GENERATOR_H
#define CRN_ENGINES_LLM_GENERATOR_H

#include "engines/llm/internal.h"
#include "engines/llm/sampler.h"
#include "engines/llm/stop_texts.h"

struct cairn_generation {
  cairn_context *context;
  crn_id_vec prompt, tokens;
  crn_str text, stop_text;
  cairn_stop_reason reason;
  int64_t prefix_hit, prefill_tokens, decode_tokens;
  const char *prefix_note, *prompt_form;
  uint64_t seed;
  double prefill_seconds, decode_seconds;
};

typedef struct crn_generator {
  cairn_llm *llm;
  const cairn_generate_options *options;
  cairn_generation *result;
  crn_sampler sampler;  ///< changed by crn_generator_choose only
  crn_stop_texts stops;
  cairn_detokenizer *detokenizer;  ///< NULL without a tokenizer
  crn_str piece;                   ///< text of the event that is being made
  crn_id_vec fed;                  ///< the prompt as it is fed: the tokens of images are those of the images
  bool is_forced, is_over;
  bool has_left;        ///< the caller wants no more events
  bool has_cut;         ///< a stop text was met: nothing behind it is given out
  double start, first;  ///< when it began, when the first token was known (0 = not yet)
} crn_generator;

/// Ends the generation; what made it end last counts.
void crn_generator_end(crn_generator *g, cairn_stop_reason reason);
/// Whether the caller cancelled. `g` is a crn_generator.
bool crn_generator_should_stop(void *g);

// --- choosing: on the thread that has the logits ------------------------------------------------------------------------------

/// Chooses the next token by `row`, which is changed, and tells the sampler. Errors: INTERNAL when no logit is a number.
cairn_status crn_generator_choose(crn_generator *g, float *row, int32_t *out_token);
/// Tells the sampler of a token that was not chosen.
cairn_status crn_generator_force(crn_generator *g, int32_t token);

// --- giving out: on the thread of the caller ----------------------------------------------------------------------------------

/// Takes a chosen or forced token: end of the generation, text, event.
cairn_status crn_generator_give(crn_generator *g, int32_t token);
/// Gives out text that was held back.
cairn_status crn_generator_finish_text(crn_generator *g);
/// Whether an id ends the generation by itself, and how.
bool crn_generator_is_stop(const crn_generator *g, int32_t token, cairn_stop_reason *out_reason);

// --- going on -----------------------------------------------------------------------------------------------------------------

/// Feeds a token; its row of logits is then in the runner.
cairn_status crn_generator_feed(crn_generator *g, int32_t token);
/// The tokens that may still be generated, and why no more: SIZE limits the caller gave, or the context.
int64_t crn_generator_most(const crn_generator *g, cairn_stop_reason *out_reason);
/// Generates token by token.
cairn_status crn_generator_decode(crn_generator *g);

double crn_seconds_now(void);

#endif
