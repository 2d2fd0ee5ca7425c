/// Inside of cairn_llm_batch: its sequences, what a step does, and how many tokens of prompts it may compute.
#ifndef CRN_ENGINES_LLM_BATCH_H
#define CRN_ENGINES_LLM_BATCH_H

#include "base/failure.h"
#include "cairn/batch.h"
#include "engines/llm/generator.h"
#include "engines/llm/speculate.h"

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

  crn_llm_feed feed;   ///< what is fed: the prompt, then `token`, with the drafts behind it
  int64_t at;          ///< tokens of it that were run
  int64_t whole_end;   ///< where the piece ends that the engine would have run at once
  int64_t point;       ///< tokens of the sequence at which a snapshot is due
  int64_t branch;      ///< tokens of the sequence at which others want to begin, when they can begin nowhere else; 0 = none
  int64_t n_borrowed;  ///< tokens that another sequence of the batch computed
  int32_t token;
  int64_t most;            ///< tokens that may be generated
  cairn_stop_reason full;  ///< why no more
  int64_t n;               ///< tokens of the run that is being made; 0 = takes no part
  int64_t start;           ///< of that run, for the trace
  crn_llm_call call;
  cairn_status run_status;
  cairn_status status;  ///< that ended it
  crn_failure *failure;

  // Speculation (batch_draft.c). The generator's speculator is there from the first token on.
  bool speculates;             ///< it is asked for and possible
  crn_llm_model *draft_model;  ///< of the smaller model, retained; NULL without one
  cairn_llm *drafter;          ///< a sequence of it
  bool has_drafts;             ///< drafts were made for the run to come
  crn_llm_rows rows;           ///< what that run gives
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
/// A run has brought it to a point where a snapshot is due: it is taken.
void crn_batch_member_keep_point(crn_batch_member *m);
/// Gives out what was held back, and ends it. Gives its sequence back; NULL when it had none.
cairn_llm *crn_batch_member_end(crn_batch_member *m, cairn_llm *prototype);
/// The tokens of its prompt that are run next when some `budget` are wished for. Pieces keep the arithmetic of their rows: they lie inside
/// of what the engine would run at once, and are not short unless that is.
int64_t crn_batch_member_piece(crn_batch_member *m, int64_t budget);

// --- the budget -------------------------------------------------------------------------------------------------------

enum {
  CRN_BATCH_LEAST = 24,  ///< rows from which kernels for many rows are used, whatever the model and the processor
  CRN_BATCH_LOADS = 18,  ///< numbers of sequences that are told apart
  CRN_BATCH_EXTRAS = 11  ///< numbers of drafts that are told apart
};

/// What steps took that generated only, with so many sequences.
typedef struct crn_batch_load {
  double plain;                  ///< seconds of the runs of a step without drafts
  double row[CRN_BATCH_EXTRAS];  ///< seconds that each draft adds, where there are about so many
  int64_t n_plain, n_row[CRN_BATCH_EXTRAS];
} crn_batch_load;

/// What steps took so far: seconds of one without tokens of prompts, and of each such token.
typedef struct crn_batch_pace {
  double step_seconds, token_seconds;
  int64_t n_steps, n_tokens;  ///< that were measured
  crn_batch_load loads[CRN_BATCH_LOADS];
  int n_drafted;  ///< steps with drafts since the last one without
} crn_batch_pace;

void crn_batch_pace_measure(crn_batch_pace *p, double seconds, int64_t prompt_tokens, int n_decoding);
/// Tokens of prompts that go with a step of `seconds`.
int64_t crn_batch_pace_budget(const crn_batch_pace *p, double seconds, int64_t most);

/// The runs of a step in which `n` sequences fed a token each and `n_drafts` drafts, and there were no prompts, took `seconds`.
void crn_batch_pace_runs(crn_batch_pace *p, int n, int64_t n_drafts, double seconds);
/// Seconds of the runs of a step without drafts; 0 = not known.
double crn_batch_pace_plain(const crn_batch_pace *p, int n);
/// Seconds that drafts add to it; -1 = so many were never tried.
double crn_batch_pace_more(const crn_batch_pace *p, int n, int64_t n_drafts);
/// Whether it is time for a step without drafts, lest what such a step takes is known of old only.
bool crn_batch_pace_is_due(const crn_batch_pace *p);

// --- speculation ------------------------------------------------------------------------------------------------------

/// What a step computes beside a token of each sequence.
typedef struct crn_batch_load_now {
  int n_decoding;
  int64_t n_drafts, n_prompt_tokens;
  double seconds;  ///< of its runs
} crn_batch_load_now;

/// Checks what the options of a member say. Errors: as crn_speculator_check, and crn_draft_model_check.
cairn_status crn_batch_member_check_drafts(crn_batch_member *m);
/// The prompt of a member is computed: its drafts begin. Nothing when it has none.
cairn_status crn_batch_member_open_drafts(cairn_llm_batch *b, crn_batch_member *m);
/// Makes the drafts of all that generate, as far as they pay, and sets how many tokens each of them runs. `now` has the number of
/// sequences; the drafts are counted.
void crn_batch_make_drafts(cairn_llm_batch *b, crn_batch_load_now *now);
/// The run of a member with drafts was made; the row behind its token is then in the runner.
cairn_status crn_batch_member_take_drafts(cairn_llm_batch *b, crn_batch_member *m, const crn_batch_load_now *now);
/// Goes on with a token that was drafted: its row is there already. `*out_is_there` false: it has to be fed.
cairn_status crn_batch_member_accept(crn_batch_member *m, int32_t token, bool *out_is_there);
/// A member that has ended gives its drafting sequence back.
void crn_batch_return_drafter(cairn_llm_batch *b, crn_batch_member *m);

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
  crn_batch_members active;       ///< of this step
  CRN_VEC(cairn_llm *) idle;      ///< sequences nobody has, last used last: their tokens may be the beginning of a prompt
  CRN_VEC(cairn_llm *) drafters;  ///< the same of smaller models
  CRN_VEC(cairn_run_args) args;
  CRN_VEC(cairn_status) statuses;
  CRN_VEC(crn_batch_member *) together;
  int n_sequences;  ///< idle ones and those of members
  int64_t turn;     ///< whose prompt comes first
  crn_batch_pace pace;
};

/// A sequence for the prompt of a member: an idle one or a copy of one that begins alike, else an empty one. `*out_keep` tells whether
/// its tokens may be used.
cairn_status crn_batch_find_sequence(cairn_llm_batch *b, crn_batch_member *m, cairn_llm **out_llm, bool *out_keep);
/// Whether a prompt that begins like this one is being computed, so that it is worth waiting for. Only members that have a sequence are
/// waited for, and these go on whatever happens; so nobody waits for ever, and when one ends early the next one takes over.
bool crn_batch_waits_for_prefix(cairn_llm_batch *b, const crn_batch_member *m);
/// Takes a sequence back. Never fails: what there is no room for is closed.
void crn_batch_return_sequence(cairn_llm_batch *b, cairn_llm *llm);

#endif
