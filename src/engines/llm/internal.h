/// Inside of cairn_llm.
#ifndef CRN_ENGINES_LLM_INTERNAL_H
#define CRN_ENGINES_LLM_INTERNAL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/hash.h"
#include "base/vec.h"
#include "cairn/llm.h"
#include "engines/llm/contract.h"
#include "engines/llm/history.h"
#include "engines/llm/shelf.h"
#include "engines/llm/snapshots.h"
#include "engines/llm/states.h"
#include "engines/llm/text.h"
#include "engines/llm/turn.h"

// --- where a model comes from ---------------------------------------------------------------------------------------

/// What opening a path gives, whatever kind of file it is. Texts live in the arena given.
typedef struct crn_llm_source {
  const char *kind;  ///< "bundle", "aimodel", "gguf"
  const char *name;
  cairn_model *model;
  cairn_model *embedding, *vision;  ///< further assets of a bundle of kind vlm; else NULL
  cairn_bundle *bundle;             ///< NULL unless a bundle
  cairn_bundle_language language;   ///< of the bundle
  int64_t context_length;           ///< 0 = unknown
  int64_t vocab_size;               ///< the metadata's, 0 = unknown
  const char *function;             ///< NULL = to be found
  const char *path;                 ///< what was opened; NULL when it came from elsewhere
  crn_llm_text_parts parts;         ///< of an importer; lists in the arena, the tokenizer retained
  struct crn_imported_model *text;  ///< an importer that is still making the tokenizer; NULL = none is
} crn_llm_source;

/// Errors: as cairn_llm_open. On failure `*out_source` holds nothing.
cairn_status crn_llm_source_open(cairn_context *context, const char *path, const cairn_model_options *options, crn_arena *arena,
                                 crn_llm_source *out_source);
void crn_llm_source_release(crn_llm_source *source);
/// Waits until `parts` is complete: an importer makes the tokenizer beside all that needs none. Errors: those of the tokenizer.
cairn_status crn_llm_source_finish_text(crn_llm_source *source);
/// The SHA-256 of everything results depend on: programs and weights of all assets. Errors: UNSUPPORTED for what is no file, IO.
cairn_status crn_llm_source_identify(cairn_context *context, const crn_llm_source *source, unsigned char out_digest[CRN_SHA256_BYTES]);

// --- runs -----------------------------------------------------------------------------------------------------------

enum {
  CRN_LLM_POSITION_VIEWS = 64,
  CRN_LLM_FEW = 17  ///< tokens of a run whose arrays are kept for each length: a token and the drafts behind it
};

/// The arrays of runs of one length.
typedef struct crn_llm_arrays {
  cairn_ndarray *ids;     ///< of the function, or of the one that makes embeddings
  cairn_ndarray *embeds;  ///< written by one function, read by the other; NULL when the model takes ids
  cairn_ndarray *extras[CRN_LLM_MAX_EXTRAS];
  cairn_ndarray *logits;
  int64_t n, rows;  ///< tokens and rows of logits; 0 = there are none
} crn_llm_arrays;

/// The arrays of single runs, made once and used again: a decode step allocates nothing. Views of the positions are moved on.
typedef struct crn_llm_runner {
  cairn_context *context;
  cairn_function *function;
  const crn_llm_contract *contract;
  crn_llm_arrays one, many;                   ///< of one token, and of the last longer piece
  crn_llm_arrays few;                         ///< of CRN_LLM_FEW tokens, with a row for each
  crn_llm_arrays few_views[CRN_LLM_FEW + 1];  ///< of its first tokens, made when they are needed
  cairn_ndarray *positions;                   ///< 0, 1, 2, …
  int64_t n_positions;
  cairn_ndarray *views[CRN_LLM_POSITION_VIEWS];  ///< of the first `first_view` + i positions
  int64_t first_view;                            ///< 0 = none
  float *row;                                    ///< one row of logits as f32
  bool rows_as_one;                              ///< the next run is to give each row the bits of a run of one
} crn_llm_runner;

/// `function` and `contract` are borrowed. On failure nothing is held.
cairn_status crn_llm_runner_initialize(crn_llm_runner *r, cairn_context *context, cairn_function *function,
                                       const crn_llm_contract *contract);
void crn_llm_runner_deinitialize(crn_llm_runner *r);
/// The arrays of a run of `n` tokens with `rows` rows of logits. On failure nothing is held.
cairn_status crn_llm_arrays_create(const cairn_llm *llm, const crn_llm_runner *r, int64_t n, int64_t rows, crn_llm_arrays *out);
void crn_llm_arrays_release(crn_llm_arrays *a);
/// Writes the id of the next token, and what stands for it in further inputs, into the arrays of a run of one token.
void crn_llm_arrays_set_token(const cairn_llm *llm, const crn_llm_contract *c, crn_llm_arrays *a, int32_t token);
/// The positions of a sequence of `length` tokens, borrowed until the next call; NULL when the function takes none. The views of the
/// lengths that come next are made along with it.
cairn_status crn_llm_runner_positions(crn_llm_runner *r, int64_t length, cairn_ndarray **out);
/// Makes room for sequences of `n` tokens.
cairn_status crn_llm_runner_reserve(crn_llm_runner *r, int64_t n);
/// Runs `n` tokens behind those of the history of the engine. `*out_logits` is borrowed until the next run; its last rows are those of
/// the tokens: one a token when `all_rows` are wanted or the model always gives them, else the last row at least. `*out_started`
/// tells, also on failure, whether the function was called, so that the states may have changed.
cairn_status crn_llm_runner_run(cairn_llm *llm, crn_llm_runner *r, const int32_t *tokens, int64_t n, bool all_rows,
                                const cairn_ndarray **out_logits, bool *out_started);

/// Gives back the arrays of long pieces when they are large: the logits of a prompt can be most of the memory there is.
void crn_llm_runner_trim(crn_llm_runner *r);

// --- what else a run needs --------------------------------------------------------------------------------------------

/// The function that turns ids into the embeddings a decoder takes.
typedef struct crn_llm_embedder {
  cairn_function *function;
  const cairn_descriptor *ids, *embeds;
} crn_llm_embedder;

/// Reads what an embedding function looks like. Errors: UNSUPPORTED.
cairn_status crn_llm_embedder_open(crn_llm_embedder *e, cairn_model *model, const cairn_descriptor *wanted);
void crn_llm_embedder_close(crn_llm_embedder *e);

/// A table of values for each token of the vocabulary, for a further input of the model.
typedef struct crn_llm_table {
  const char *input;
  cairn_ndarray *table;  ///< [vocabulary, …], plain
} crn_llm_table;

// --- the engine -----------------------------------------------------------------------------------------------------

typedef struct crn_llm_feed {
  const int32_t *tokens;
  int64_t n;
  bool all_rows;
  bool takes_snapshots;  ///< stops for them at points of a prompt; nothing for models that need none
  cairn_logits_fn on_logits;
  bool (*should_stop)(void *user);  ///< asked before every piece; may be NULL
  void *stop_user, *user;
  /// Takes the rows of the last run, one a token with `all_rows`; then `on_logits` is not called, and runner.row not set. May be NULL.
  struct crn_llm_rows *out_rows;
} crn_llm_feed;

/// Whether a row is wanted for every token.
static inline bool crn_llm_wants_rows(const crn_llm_feed *feed) { return feed->all_rows && (feed->on_logits || feed->out_rows); }

/// Rows of logits of one run, one behind the other; the last is that of the last token. Borrowed until the next run.
typedef struct crn_llm_rows {
  cairn_dtype dtype;
  const void *data;
  int64_t n;
} crn_llm_rows;

/// A run that is ready to be made, by itself or together with those of other sequences (cairn_function_run_batch).
typedef struct crn_llm_call {
  cairn_function *function;  ///< NULL = only the driver's `run` can make it
  cairn_named_array inputs[2 + CRN_LLM_MAX_EXTRAS], output;
  cairn_run_args args;  ///< points into the struct
  crn_llm_rows rows;    ///< what it gives
} crn_llm_call;

/// What is different between engines: how many tokens a run takes, and the run. History, prefixes, sampling and ends are the
/// same for all of them.
struct crn_generator;

typedef struct crn_llm_driver {
  const char *engine;  ///< its name
  /// How many of the tokens of `feed` from `at` on the next run takes. The history holds all before them.
  int64_t (*piece)(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at);
  /// Makes room for a sequence of `rows` tokens; that of the states is made already.
  cairn_status (*reserve)(cairn_llm *llm, int64_t rows);
  /// Runs `n` tokens of `feed` from `at` on, behind those of the history. Gives a row for each when the feed wants all, else at
  /// least the last one if these tokens are the last of the feed. `*out_started` tells, also on failure, whether states may have changed.
  cairn_status (*run)(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, crn_llm_rows *out_rows, bool *out_started);
  /// Prepares what `run` does, for those who make several runs at once. NULL = they have to be made apart.
  cairn_status (*prepare)(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, crn_llm_call *out_call);
  /// How many tokens the next run takes for what it costs to take one; NULL = one, or not known.
  int64_t (*beside)(const cairn_llm *llm);
  /// Gives back large memory that only the last feed needed.
  void (*trim)(cairn_llm *llm);
  /// Generates the tokens behind the prompt, whose row of logits is there; NULL = one after the other, as crn_generator_decode.
  cairn_status (*decode)(struct crn_generator *g);
} crn_llm_driver;

extern const crn_llm_driver crn_llm_sequential_driver;
/// The same, but steps are queued before the tokens they start from are known (pipelined.h).
extern const crn_llm_driver crn_llm_pipelined_driver;
/// The same behind embeddings of tokens and images.
extern const crn_llm_driver crn_llm_vision_driver;

/// The function the metadata names for the main part; of several, the one that takes any number of tokens or one. NULL = not named.
const char *crn_llm_main_function(const cairn_llm *llm);
/// Opens what stands beside the main function: a function for prompts, one for embeddings, images, tables of values. The contract is read.
cairn_status crn_llm_companions_open(cairn_llm *llm, const cairn_llm_options *options);

/// What the sequences of a model begin with.
typedef struct crn_llm_settings {
  crn_llm_states_options states;
  bool waits;  ///< calls on a sequence in use wait
  crn_llm_snapshot_bounds snapshots;
  cairn_composites composites;
} crn_llm_settings;

/// What all sequences of a model share. Nothing of it changes once it is open, but for the images, which have a lock of their own.
typedef struct crn_llm_model {
  atomic_int references;
  uint64_t serial;  ///< no other model of the process has it
  cairn_context *context;
  crn_arena arena;  ///< texts of the description
  crn_llm_source source;
  const crn_llm_driver *driver;
  cairn_function *function;  ///< the one that stands for the model: its precision is told
  crn_llm_contract contract;
  struct crn_static_shape *fixed;  ///< of the engine 'static-shape', else NULL
  cairn_function *prefill;         ///< a function for longer pieces beside the main one; NULL when there is none
  crn_llm_contract prefill_contract;
  crn_llm_embedder embedder;  ///< of a decoder of embeddings
  struct crn_vision *vision;  ///< what the image tokens stand for; NULL without images
  crn_llm_table tables[CRN_LLM_MAX_EXTRAS];
  crn_llm_text text;
  int64_t model_context;  ///< tokens the model takes
  int64_t chunk, threshold;
  int pipeline_depth;  ///< steps of the engine 'pipelined' that may be on their way
  double load_seconds;
  crn_llm_settings settings;
  pthread_mutex_t lock;                        ///< guards what follows
  _Atomic(cairn_grammar_compiler *) grammars;  ///< of guided generations; NULL until the first one
  crn_str key;                                 ///< what rows of states depend on (key.h), "" until it is needed
  crn_llm_shelf shelf;
  struct crn_block_store *prompt_cache;  ///< NULL without one; needs no lock
  CRN_VEC(cairn_llm_decision) decisions;
} crn_llm_model;

void crn_llm_model_retain(crn_llm_model *model);
void crn_llm_model_release(crn_llm_model *model);
void crn_llm_companions_close(crn_llm_model *model);

/// One sequence: its states, the tokens they stand for, and the arrays of its runs.
struct cairn_llm {
  cairn_context *context;
  crn_llm_model *model;
  struct crn_static_graph *graphs;  ///< of the engine 'static-shape', one for each rung of its ladder; else NULL
  crn_llm_states states;
  crn_llm_runner runner, prefill_runner;
  struct crn_pipeline *pipeline;  ///< of the engine 'pipelined', made by its first generation; else NULL
  crn_history history;
  struct crn_speculator *speculator;  ///< made by the first generation that speculates; else NULL
  int64_t n_runs;                     ///< so far: borrowed rows of logits are there until the next one
  crn_llm_snapshots snapshots;        ///< of prefixes of the history
  int64_t max_context;                ///< tokens one sequence may have: the model's, or fewer when the cache is smaller
  bool is_dirty;                      ///< a run failed: the states may hold anything
  crn_llm_turn turn;                  ///< one call at a time
};

/// The engines there are.
typedef enum crn_llm_engine {
  CRN_LLM_ENGINE_AUTO,
  CRN_LLM_ENGINE_SEQUENTIAL,
  CRN_LLM_ENGINE_PIPELINED,
  CRN_LLM_ENGINE_STATIC_SHAPE
} crn_llm_engine;
/// The engine of a name (NULL = auto). Errors: INVALID_ARGUMENT naming the valid ones.
cairn_status crn_llm_engine_parse(const char *name, crn_llm_engine *out_engine);
/// The engine for a model of this structure. `asked` AUTO chooses. Errors: INCOMPATIBLE, saying what the engine asked for needs.
cairn_status crn_llm_engine_select(crn_llm_engine asked, crn_llm_structure structure, crn_llm_engine *out_engine);

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

/// Feeds tokens after the history, in pieces. Afterwards `runner.row` is the row of the last one. `*out_stopped` (may be
/// NULL without should_stop) tells that it ended early; the history says how far it came.
/// Errors: CONTEXT_FULL (nothing was run), and those of the runs and of `on_logits`.
cairn_status crn_llm_run_tokens(cairn_llm *llm, const crn_llm_feed *feed, bool *out_stopped);

/// The parts of it, for those who run pieces themselves. How many tokens of `feed` from `at` on the next run takes. `*out_point`: tokens of
/// the sequence at which a snapshot is due; when a run comes there before the end of the feed, it is to be taken.
int64_t crn_llm_feed_piece(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t *out_point);
/// Room for `n` more tokens everywhere. Errors: CONTEXT_FULL.
cairn_status crn_llm_feed_reserve(cairn_llm *llm, int64_t n);
/// Tokens [at, at + n) of `feed` were run and gave `rows`: they join the history, and rows are given out as the feed says.
cairn_status crn_llm_feed_take(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, const crn_llm_rows *rows);

/// Makes the history a prefix of `tokens` that leaves at least one of them to feed and gives its length. `keep` false
/// forgets everything. `*out_note` says why less than the common prefix was kept, "" otherwise.
cairn_status crn_llm_resolve_prefix(cairn_llm *llm, const int32_t *tokens, int64_t n, bool keep, int64_t *out_kept, const char **out_note);
/// Where the tokens came from that a prompt found computed.
typedef struct crn_llm_reuse {
  int64_t kept;         ///< in all
  int64_t from_memory;  ///< of those: from another sequence of the model
  int64_t from_disk;    ///< from the prompt cache
  const char *note;     ///< why less was kept of the sequence itself than is common, else ""
} crn_llm_reuse;
/// As crn_llm_resolve_prefix, looking also where other sequences left rows.
cairn_status crn_llm_find_prefix(cairn_llm *llm, const int32_t *tokens, int64_t n, bool keep, crn_llm_reuse *out_reuse);
/// Leaves what the sequence holds for later prompts, where there are places for it.
void crn_llm_leave_prefix(cairn_llm *llm);
/// As cairn_llm_reset for a caller that has the engine.
cairn_status crn_llm_cut(cairn_llm *llm, int64_t n);
/// The most tokens, `n` at most, that going back can leave. 0 is always possible.
int64_t crn_llm_reachable(const cairn_llm *llm, int64_t n);
/// Goes back to `n` tokens, which are reachable. Errors: those of copying states (the sequence is then dirty).
cairn_status crn_llm_go_back(cairn_llm *llm, int64_t n);
/// Keeps what it needs to come back to this point; nothing for models that need nothing.
void crn_llm_take_snapshot(cairn_llm *llm);

/// The ids of the prompt of `options`, appended, and how they were made ("tokens", "raw", "template").
/// Places of images are still image tokens: crn_llm_place_images makes them those of the images.
cairn_status crn_llm_prompt(const cairn_llm *llm, const cairn_generate_options *options, crn_id_vec *ids, const char **out_form);
/// Computes the images of a prompt and puts their tokens in their places. Errors: UNSUPPORTED (the model takes none), those of
/// crn_vision_place.
cairn_status crn_llm_place_images(cairn_llm *llm, const cairn_generate_options *options, crn_id_vec *ids);

/// A conversation whose contents that are lists of parts are texts, for templates that know no parts. Appended to `out`.
cairn_status crn_llm_flatten_parts(const cairn_llm *llm, const char *conversation, size_t bytes, crn_str *out);
/// The text of a prompt as a conversation of one message, with its images in front; or as it is, with places in front.
cairn_status crn_llm_message_of(const cairn_llm *llm, const cairn_generate_options *options, crn_str *out);
cairn_status crn_llm_raw_text_of(const cairn_llm *llm, const cairn_generate_options *options, crn_str *out);
/// Whether a rendered conversation has a place for each image part of its messages.
cairn_status crn_llm_check_places(const cairn_llm *llm, const char *conversation, size_t bytes, const crn_str *rendered,
                                  bool *out_complete);

#endif
