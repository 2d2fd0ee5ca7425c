/// Speculation: tokens that may follow are fed along with the one that is certain, in one run.
///
/// Every token is still chosen by crn_generator_choose from the row the model gives behind the tokens before it, one after the other. When
/// it is the one that was drafted, the row behind it is there already and no run is needed; when it is another one, the rows behind it
/// are forgotten and it is fed. So what a generation gives is what it gives without speculation, token by token, whatever sampling,
/// penalties and guides do; only the number of runs differs. The history never holds a draft that was not chosen: a generation may end
/// anywhere.
#ifndef CRN_ENGINES_LLM_SPECULATE_H
#define CRN_ENGINES_LLM_SPECULATE_H

#include "engines/llm/draft.h"
#include "engines/llm/generator.h"

enum { CRN_SPECULATOR_SOURCES = 4 };

/// A smaller model as a source of drafts.
typedef struct crn_draft_model {
  cairn_llm *llm;    ///< borrowed for a generation, which has its turn; else NULL
  uint64_t checked;  ///< serial of the model whose vocabulary is known to be the same
  crn_generator *generator;
  int64_t vocab_size;   ///< of the larger model
  bool has_caught_up;   ///< the last draft took more than the token before it
  int64_t most_behind;  ///< tokens it catches up for one draft; when it is further behind there is none yet. 0 = any
} crn_draft_model;

/// Takes `llm` for a generation of `g`. Errors: INVALID_ARGUMENT (it is the model itself), INCOMPATIBLE (another vocabulary, naming the
/// first difference), UNSUPPORTED (a state that cannot be cut back), BUSY.
cairn_status crn_draft_model_begin(crn_draft_model *m, crn_generator *g, cairn_llm *llm);
/// Whether the model of `draft` can draft for that of `llm`. Errors: INCOMPATIBLE, UNSUPPORTED, as above.
cairn_status crn_draft_model_check(const cairn_llm *llm, const cairn_llm *draft);
void crn_draft_model_end(crn_draft_model *m);
crn_draft_source crn_draft_model_source(crn_draft_model *m);

/// Of one sequence, from its first generation that speculates to its end: what was learned about costs stays.
typedef struct crn_speculator {
  crn_ngram_index ngrams;
  crn_draft_model model;
  crn_draft_account account;
  crn_draft_source sources[CRN_SPECULATOR_SOURCES];
  int n_sources;
  int32_t forced[CRN_DRAFT_MOST];  ///< by the grammar, as of the last look
  int n_forced;
  int64_t most;      ///< tokens of a draft
  bool is_careless;  ///< drafts are made whether they pay or not
  // The last run: the token that was fed and the drafts behind it, and how many of all turned out right so far.
  int32_t tokens[CRN_DRAFT_MOST + 1];
  int64_t n_run, n_used;
  int64_t base;        ///< tokens before the run
  int64_t run_number;  ///< cairn_llm.n_runs behind it: rows are there until the next run
  crn_llm_rows rows;
  crn_draft_outcome outcome;
} crn_speculator;

/// Why the model of a sequence cannot speculate; NULL when it can.
const char *crn_speculator_obstacle(const cairn_llm *llm);
/// Prepares a generation whose prompt is known, as its options say; `g->speculator` stays NULL when there is no speculation.
/// Errors: UNSUPPORTED (asked for by name and impossible, with the reason), INVALID_ARGUMENT, those of the draft model, OUT_OF_MEMORY.
cairn_status crn_speculator_begin(crn_generator *g);
void crn_speculator_end(crn_generator *g);

/// The two halves of crn_speculator_begin, for generations that have no sequence yet when they are asked for. Checks what the options say;
/// when there is to be no speculation the note of the result says why. `computes_ahead`: the engine has no use for drafts by itself.
/// Errors: UNSUPPORTED, INVALID_ARGUMENT.
cairn_status crn_speculator_check(crn_generator *g, bool computes_ahead, bool *out_speculates);
/// Begins on the sequence of the generation, with `draft` (may be NULL) as the smaller model. `most_behind` is crn_draft_model's.
/// Errors: as crn_draft_model_begin, OUT_OF_MEMORY.
cairn_status crn_speculator_open(crn_generator *g, cairn_llm *draft, int64_t most_behind);
/// Of a sequence that is closed.
void crn_speculator_destroy(cairn_llm *llm);

/// As crn_generator_feed.
cairn_status crn_speculator_feed(crn_generator *g, int32_t token);

// The parts of it, for engines that run several sequences at once and feed the drafts of each in a run of their own.

/// Whether `token` is the draft behind those that were right so far. If so it is in the history now.
bool crn_speculator_accept(crn_generator *g, int32_t token, cairn_status *out_status);
/// Makes the tokens of the next run: `token` and up to `most` drafts. They are `s->tokens`, `s->n_run`.
cairn_status crn_speculator_draft(crn_generator *g, int32_t token, int64_t most);
/// Takes what a run of them gave, all of which are in the history; those that are not certain leave it. `seconds` 0 = not measured.
cairn_status crn_speculator_take_run(crn_generator *g, const crn_llm_rows *rows, double seconds);
/// Gives out the row behind the last token that was right: it is then in the runner.
cairn_status crn_speculator_give_row(crn_generator *g);
/// How many drafts the next run may have at most: context, limits of the caller, room in the caches, states that can be cut.
int64_t crn_speculator_room(const crn_generator *g);

#endif
