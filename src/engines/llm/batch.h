/// Inside of cairn_llm_batch: its sequences, what a step does, and how many tokens of prompts it may compute.
#ifndef CRN_ENGINES_LLM_BATCH_H
#define CRN_ENGINES_LLM_BATCH_H

#include "base/failure.h"
#include "cairn/batch.h"
#include "engines/llm/generator.h"

// --- members ----------------------------------------------------------------------------------------------------------

typedef enum crn_batch_phase { CRN_BATCH_WAITING, CRN_BATCH_PROMPT, CRN_BATCH_DECODE, CRN_BATCH_OVER } crn_batch_phase;

/// One generation of a batch.
typedef struct crn_batch_member {
  int64_t id;
  crn_arena arena;                 ///< of what the options point to
  cairn_generate_options options;  ///< own copies
  cairn_generation *result;
  crn_generator generator;  ///< its `llm` is the prototype of the batch until there are states
  bool is_open;             ///< the generator is
  crn_batch_phase phase;
  atomic_bool is_cancelled;
  atomic_bool has_ended;  ///< for other threads: the result may be taken

  crn_llm_feed feed;  ///< what is fed: the prompt, then `token`
  int64_t at;         ///< tokens of it that were run
  int64_t whole_end;  ///< where the piece ends that the engine would have run at once
  int32_t token;
  int64_t most;            ///< tokens that may be generated
  cairn_stop_reason full;  ///< why no more
  int64_t n;               ///< tokens of the run that is being made; 0 = takes no part
  int64_t start;           ///< of that run, for the trace
  crn_llm_call call;
  cairn_status run_status;
  cairn_status status;  ///< that ended it
  crn_failure *failure;
} crn_batch_member;

/// A member for options, with its prompt made. `prototype` has the model. Errors: as cairn_llm_generate before anything is run.
cairn_status crn_batch_member_create(cairn_llm *prototype, const cairn_generate_options *options, crn_batch_member **out_member);
void crn_batch_member_destroy(crn_batch_member *m);
/// Takes this thread's failure over as the one that ends the member.
void crn_batch_member_fail(crn_batch_member *m, cairn_status status);
/// Begins with the prompt on a sequence, which the member has from now on.
cairn_status crn_batch_member_begin(crn_batch_member *m, cairn_llm *llm, bool keep);
/// The rows of the last run are there: the next token is chosen and given out, and the feed is what has to be run next. Afterwards the
/// generation may be over.
cairn_status crn_batch_member_go_on(crn_batch_member *m);
/// Counts tokens that were run.
void crn_batch_member_count(crn_batch_member *m, int64_t n_fed, bool was_decode);
/// Gives out what was held back, and ends it. Gives its sequence back; NULL when it had none.
cairn_llm *crn_batch_member_end(crn_batch_member *m, cairn_llm *prototype);
/// The tokens of its prompt that are run next when some `budget` are wished for. Pieces keep the arithmetic of their rows: they lie inside
/// of what the engine would run at once, and are not short unless that is.
int64_t crn_batch_member_piece(crn_batch_member *m, int64_t budget);

// --- the budget -------------------------------------------------------------------------------------------------------

enum { CRN_BATCH_LEAST = 24 };  ///< rows from which kernels for many rows are used, whatever the model and the processor

/// What steps took so far: seconds of one without tokens of prompts, and of each such token.
typedef struct crn_batch_pace {
  double step_seconds, token_seconds;
  int64_t n_steps, n_tokens;  ///< that were measured
} crn_batch_pace;

void crn_batch_pace_measure(crn_batch_pace *p, double seconds, int64_t prompt_tokens, int n_decoding);
/// Tokens of prompts that go with a step of `seconds`.
int64_t crn_batch_pace_budget(const crn_batch_pace *p, double seconds, int64_t most);

// --- the batch --------------------------------------------------------------------------------------------------------

typedef CRN_VEC(crn_batch_member *) crn_batch_members;

struct cairn_llm_batch {
  cairn_context *context;
  cairn_llm *prototype;  ///< a sequence without states: prompts are made with it
  cairn_llm_batch_options options;
  pthread_mutex_t lock;       ///< guards `members` and `next_id`; whoever steps changes members without it, but for the list
  crn_batch_members members;  ///< in the order they came; ended ones until they are taken
  int64_t next_id;
  atomic_bool is_stepping;

  // Of the thread that steps.
  crn_batch_members active;   ///< of this step
  CRN_VEC(cairn_llm *) idle;  ///< sequences nobody has, last used last: their tokens may be the beginning of a prompt
  CRN_VEC(cairn_run_args) args;
  CRN_VEC(cairn_status) statuses;
  CRN_VEC(crn_batch_member *) together;
  int n_sequences;  ///< idle ones and those of members
  int64_t turn;     ///< whose prompt comes first
  crn_batch_pace pace;
};

/// A sequence for the prompt of a member: an idle one or a copy of one that begins alike, else an empty one. `*out_keep` tells whether
/// its tokens may be used.
cairn_status crn_batch_find_sequence(cairn_llm_batch *b, const crn_batch_member *m, cairn_llm **out_llm, bool *out_keep);
/// Takes a sequence back. Never fails: what there is no room for is closed.
void crn_batch_return_sequence(cairn_llm_batch *b, cairn_llm *llm);

#endif
