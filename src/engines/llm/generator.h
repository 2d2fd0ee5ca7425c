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
  int64_t prefix_hit, prefix_from_memory, prefix_from_disk, prefill_tokens, decode_tokens;
  int n_overflows;
  int64_t overflow_dropped, overflow_fed;
  cairn_overflow_kind overflow;
  const char *prefix_note, *prompt_form;
  uint64_t seed;
  double prefill_seconds, decode_seconds;
  int64_t drafted, accepted;  ///< by speculation
  bool speculates;
  const char *speculation_note;
  bool is_guided, is_complete;  ///< by a grammar; whether the text is a whole one of it
  double mask_seconds, mask_wait_seconds;
};

typedef struct crn_generator {
  cairn_llm *llm;
  const cairn_generate_options *options;
  cairn_generation *result;
  crn_sampler sampler;  ///< changed by crn_generator_choose only
  int64_t n_chosen;     ///< tokens chosen or forced, counted where they are
  crn_stop_texts stops;
  cairn_detokenizer *detokenizer;     ///< NULL without a tokenizer
  crn_str piece;                      ///< text of the event that is being made
  crn_id_vec fed;                     ///< the prompt as it is fed: the tokens of images are those of the images
  crn_id_vec placed;                  ///< what `fed` was before the context was full; empty when it never was
  size_t first_token;                 ///< of the result, that is behind `fed`
  struct crn_speculator *speculator;  ///< NULL when there is no speculation
  struct crn_guide *guide;            ///< NULL when no grammar guides the choice
  const atomic_bool *is_cancelled;    ///< of a batch, set by any thread; NULL = of a sequence by itself
  bool is_forced, is_over;
  bool has_images;      ///< tokens of images were put into `fed`
  bool has_left;        ///< the caller wants no more events
  bool has_cut;         ///< a stop text was met: nothing behind it is given out
  double start, first;  ///< when it began, when the first token was known (0 = not yet)
} crn_generator;

/// Checks the options and makes the prompt. `options`, `llm` and `result` are borrowed; crn_generator_close is due also on failure.
/// Errors: as cairn_llm_generate before anything is run.
cairn_status crn_generator_open(crn_generator *g, cairn_llm *llm, const cairn_generate_options *options, cairn_generation *result);
void crn_generator_close(crn_generator *g);
/// Writes how long it took into the result.
void crn_generator_take_times(crn_generator *g);
/// An empty result. Errors: OUT_OF_MEMORY.
cairn_status crn_generation_create(cairn_context *context, cairn_generation **out_generation);

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

// --- when the context is full (overflow.c) ------------------------------------------------------------------------------------

/// Checks the options and cuts a prompt that leaves no room, if it may be cut. Errors: INVALID_ARGUMENT, and what `replace` gives.
cairn_status crn_overflow_begin(crn_generator *g);
/// Whether the generation ended for want of room and goes on behind crn_overflow_make_room.
bool crn_overflow_goes_on(const crn_generator *g);
/// Replaces what is held by less of it, in `fed`, which is not fed yet.
cairn_status crn_overflow_make_room(crn_generator *g);
/// Tokens the sequence may have before room must be made.
int64_t crn_overflow_limit(const crn_generator *g);

double crn_seconds_now(void);

#endif
