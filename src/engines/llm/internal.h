/// Inside of cairn_llm.
#ifndef CRN_ENGINES_LLM_INTERNAL_H
#define CRN_ENGINES_LLM_INTERNAL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/vec.h"
#include "cairn/llm.h"
#include "engines/llm/contract.h"
#include "engines/llm/history.h"
#include "engines/llm/states.h"
#include "engines/llm/text.h"

// --- where a model comes from ---------------------------------------------------------------------------------------

/// What opening a path gives, whatever kind of file it is. Texts live in the arena given.
typedef struct crn_llm_source {
  const char *kind;  ///< "bundle", "aimodel", "gguf"
  const char *name;
  cairn_model *model;
  cairn_bundle *bundle;            ///< NULL unless a bundle
  cairn_bundle_language language;  ///< of the bundle
  int64_t context_length;          ///< 0 = unknown
  int64_t vocab_size;              ///< the metadata's, 0 = unknown
  const char *function;            ///< NULL = to be found
  crn_llm_text_parts parts;        ///< of an importer; lists in the arena, the tokenizer retained
} crn_llm_source;

/// Errors: as cairn_llm_open. On failure `*out_source` holds nothing.
cairn_status crn_llm_source_open(cairn_context *context, const char *path, const cairn_model_options *options, crn_arena *arena,
                                 crn_llm_source *out_source);
void crn_llm_source_release(crn_llm_source *source);

// --- runs -----------------------------------------------------------------------------------------------------------

enum { CRN_LLM_POSITION_VIEWS = 64 };

/// The arrays of single runs, made once and used again: a decode step allocates nothing except, every
/// CRN_LLM_POSITION_VIEWS tokens, the next views of the positions.
typedef struct crn_llm_runner {
  cairn_context *context;
  cairn_function *function;
  const crn_llm_contract *contract;
  cairn_ndarray *ids_one, *logits_one;    ///< of one token
  cairn_ndarray *ids_many, *logits_many;  ///< of the last longer piece; NULL before
  int64_t n_many;
  cairn_ndarray *positions;  ///< 0, 1, 2, …
  int64_t n_positions;
  cairn_ndarray *views[CRN_LLM_POSITION_VIEWS];  ///< of the first `first_view` + i positions
  int64_t first_view;                            ///< 0 = none
  float *row;                                    ///< one row of logits as f32
} crn_llm_runner;

/// `function` and `contract` are borrowed. On failure nothing is held.
cairn_status crn_llm_runner_initialize(crn_llm_runner *r, cairn_context *context, cairn_function *function,
                                       const crn_llm_contract *contract);
void crn_llm_runner_deinitialize(crn_llm_runner *r);
/// Makes room for sequences of `n` tokens.
cairn_status crn_llm_runner_reserve(crn_llm_runner *r, int64_t n);
/// Runs `n` tokens that follow `processed` others. `*out_logits` is borrowed until the next run and has one row a token
/// (one row in all when the contract gives the last only). `*out_started` tells, also on failure, whether the function was
/// called, so that the states may have changed.
cairn_status crn_llm_runner_run(crn_llm_runner *r, const crn_llm_states *states, int64_t processed, const int32_t *tokens, int64_t n,
                                const cairn_ndarray **out_logits, bool *out_started);

/// Gives back the arrays of long pieces when they are large: the logits of a prompt can be most of the memory there is.
void crn_llm_runner_trim(crn_llm_runner *r);

// --- the engine -----------------------------------------------------------------------------------------------------

struct cairn_llm {
  cairn_context *context;
  crn_arena arena;  ///< texts of the description
  crn_llm_source source;
  cairn_function *function;
  crn_llm_contract contract;
  crn_llm_states states;
  crn_llm_runner runner;
  crn_history history;
  crn_llm_text text;
  int64_t model_context;  ///< tokens the model takes
  int64_t max_context;    ///< tokens one sequence may have: the model's, or fewer when the cache is smaller
  int64_t chunk, threshold;
  bool is_dirty;  ///< a run failed: the states may hold anything
  double load_seconds;
  CRN_VEC(cairn_llm_decision) decisions;
  atomic_bool is_busy, is_cancelled;
};

/// Gives a model to an engine; crn_llm_source_open is the one for paths. On failure `*out_source` holds nothing.
typedef cairn_status (*crn_llm_opener)(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                                       crn_llm_source *out_source);
/// As cairn_llm_open for a model from anywhere.
cairn_status crn_llm_open_with(cairn_context *context, const cairn_llm_options *options, crn_llm_opener open, void *user,
                               cairn_llm **out_llm);

/// Takes the engine for one call. Errors: BUSY.
cairn_status crn_llm_acquire(cairn_llm *llm);
void crn_llm_yield(cairn_llm *llm);

/// Records a choice. `why` is a printf text.
cairn_status crn_llm_decide(cairn_llm *llm, const char *what, const char *chosen, const char *why, ...)
    __attribute__((format(printf, 4, 5)));

/// Refuses ids outside of the vocabulary, naming the place.
cairn_status crn_llm_check_tokens(const cairn_llm *llm, const char *what, const int32_t *tokens, size_t n);

typedef struct crn_llm_feed {
  const int32_t *tokens;
  int64_t n;
  bool all_rows;
  cairn_logits_fn on_logits;
  bool (*should_stop)(void *user);  ///< asked before every piece; may be NULL
  void *stop_user, *user;
} crn_llm_feed;

/// Feeds tokens after the history, in pieces. Afterwards `runner.row` is the row of the last one. `*out_stopped` (may be
/// NULL without should_stop) tells that it ended early; the history says how far it came.
/// Errors: CONTEXT_FULL (nothing was run), and those of the runs and of `on_logits`.
cairn_status crn_llm_run_tokens(cairn_llm *llm, const crn_llm_feed *feed, bool *out_stopped);

/// Makes the history a prefix of `tokens` that leaves at least one of them to feed and gives its length. `keep` false
/// forgets everything. `*out_note` says why less than the common prefix was kept, "" otherwise.
cairn_status crn_llm_resolve_prefix(cairn_llm *llm, const int32_t *tokens, int64_t n, bool keep, int64_t *out_kept, const char **out_note);
/// As cairn_llm_reset for a caller that has the engine.
cairn_status crn_llm_cut(cairn_llm *llm, int64_t n);

/// The ids of the prompt of `options`, appended, and how they were made ("tokens", "raw", "template").
cairn_status crn_llm_prompt(const cairn_llm *llm, const cairn_generate_options *options, crn_id_vec *ids, const char **out_form);

#endif
