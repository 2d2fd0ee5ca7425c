/// Drafts: tokens that may follow, guessed without the model, and what is known about how good such guesses are.
#ifndef CRN_ENGINES_LLM_DRAFT_H
#define CRN_ENGINES_LLM_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"

enum { CRN_DRAFT_MOST = 16 };  ///< tokens of a draft

/// Guesses of one class are right about equally often.
typedef enum crn_draft_class {
  CRN_DRAFT_FORCED,    ///< no other token is possible
  CRN_DRAFT_MODEL,     ///< a smaller model's
  CRN_DRAFT_LOOKUP_2,  ///< what followed when the last tokens, so many of them, came before
  CRN_DRAFT_LOOKUP_3,
  CRN_DRAFT_LOOKUP_4,
  CRN_DRAFT_LOOKUP_8,
  CRN_DRAFT_LOOKUP_16,
  CRN_DRAFT_CLASSES
} crn_draft_class;

/// Where drafts come from. A source is asked first whether it has any, because how many are wanted depends on what kind they are.
typedef struct crn_draft_source {
  const char *name;
  void *user;
  /// Whether something may follow `tokens`, the whole sequence with the token that is about to be fed; if so, its class.
  bool (*look)(void *user, const int32_t *tokens, int64_t n, crn_draft_class *out_class);
  /// Up to `most` tokens for the look before; 0 when there are none after all.
  cairn_status (*propose)(void *user, const int32_t *tokens, int64_t n, int64_t most, int32_t *out_tokens, int64_t *out_n);
} crn_draft_source;

// --- lookup in the sequence itself ------------------------------------------------------------------------------------

enum { CRN_NGRAM_LEAST = 2, CRN_NGRAM_MOST = 4 };

/// Where each run of 2, 3 or 4 tokens was last. A place is kept by its hash alone: a later one takes it, and what is found is compared.
typedef struct crn_ngram_index {
  const cairn_allocator *allocator;
  int32_t *places;  ///< for each length `n_slots`: the place of the token behind, 0 = none
  int64_t n_slots;  ///< a power of two
  int64_t n;        ///< tokens whose runs are in it
  int64_t found;    ///< by the last look: the place of the token behind
} crn_ngram_index;

void crn_ngram_initialize(crn_ngram_index *x, const cairn_allocator *allocator);
void crn_ngram_deinitialize(crn_ngram_index *x);
/// Empties it, with room for a sequence of `n` tokens. Longer ones only lose places.
cairn_status crn_ngram_begin(crn_ngram_index *x, int64_t n);
/// Finds the last place before the end where the last 4 tokens of the sequence were, or 3, or 2. Gives how many tokens before that place
/// and the end agree, up to 16; 0 = none. Tokens are taken up on the way, each once.
int64_t crn_ngram_look(crn_ngram_index *x, const int32_t *tokens, int64_t n);
/// The tokens behind the place that was found. What would lie behind the end of the sequence goes on with what was copied.
int64_t crn_ngram_copy(const crn_ngram_index *x, const int32_t *tokens, int64_t n, int64_t most, int32_t *out_tokens);
/// The same as a source of drafts; `x` is its user.
crn_draft_source crn_ngram_source(crn_ngram_index *x);

// --- whether it pays --------------------------------------------------------------------------------------------------

/// What runs cost, how often drafts were right, and what was won or lost so far. Everything is measured; nothing is known before.
typedef struct crn_draft_account {
  double one;                        ///< seconds of a run of one token; 0 = not known yet
  double cost[CRN_DRAFT_MOST + 2];   ///< of a run of so many tokens, in runs of one; 0 = not known yet
  bool was_run[CRN_DRAFT_MOST + 2];  ///< runs of so many tokens there were
  double each[CRN_DRAFT_CLASSES];    ///< seconds to draft one token
  struct {
    double right, all;
  } classes[CRN_DRAFT_CLASSES];
  double balance;   ///< runs of one won (or lost), with a small allowance for every run
  bool is_blocked;  ///< too much was lost: nothing but time makes it better
} crn_draft_account;

void crn_draft_account_initialize(crn_draft_account *a);
/// How many tokens of a class to draft, at most `most`: the number with which tokens come fastest, 0 when that is without a draft.
/// `*out_rate`: tokens for the time of a run of one.
int64_t crn_draft_account_choose(const crn_draft_account *a, crn_draft_class class, int64_t most, double *out_rate);
/// Takes costs over that were measured elsewhere: the seconds of a run of one token, and those that 1, 2, … `n` drafts add to it; longer
/// drafts are unknown.
void crn_draft_account_tell(crn_draft_account *a, double one, const double *more, int64_t n);
/// A run of one token, without a draft.
void crn_draft_account_plain(crn_draft_account *a, double seconds);

/// A run with a draft, when it is known what became of it.
typedef struct crn_draft_outcome {
  crn_draft_class class;
  int64_t n_drafted, n_accepted;
  bool is_refuted;          ///< the token behind the accepted ones was another one (else the generation ended, or all were accepted)
  double seconds;           ///< of the run
  double drafting_seconds;  ///< of making the draft
  bool is_first_draft;      ///< the source had to catch up with the sequence: that is no cost of a draft
} crn_draft_outcome;
void crn_draft_account_take(crn_draft_account *a, const crn_draft_outcome *o);

#endif
