/// Language models: one engine on a bundle, a bare `.aimodel` or a GGUF file that turns prompts into tokens and text.
///
/// An engine holds one sequence. It remembers the tokens its state stands for, so a prompt that starts like the last one
/// is only computed from where it differs.
#ifndef CAIRN_LLM_H
#define CAIRN_LLM_H

#include "cairn/bundle.h"
#include "cairn/grammar.h"
#include "cairn/model.h"
#include "cairn/template.h"
#include "cairn/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- opening --------------------------------------------------------------------------------------------------------

/// What a call on a sequence does that is in use by another call.
typedef enum cairn_busy {
  CAIRN_BUSY_ERROR = 0,  ///< it gives BUSY
  CAIRN_BUSY_WAIT = 1    ///< it waits, first come, first served; only a call from a callback of the other one gives BUSY
} cairn_busy;

/// Zero-initialise for the defaults. Texts are only read during the call.
typedef struct cairn_llm_options {
  /// "auto" (also NULL, "default"), "sequential" ("coreai-sequential"), "pipelined" ("coreai-pipelined"), "static-shape" (models with
  /// functions extend_*). One that does not go with the model is INCOMPATIBLE. The engines of one model give the same tokens.
  const char *engine;
  /// Of the engine 'pipelined': steps that may be on their way at once, 1 to 8; 0 = 3. A caller that ends a generation lets at most
  /// so many, less one, be computed in vain.
  int pipeline_depth;
  /// Storage of the key/value cache: "auto" (also NULL), "fixed" ("fixed_size", "fixed-size"), "growing", "paged" (pages: growth and
  /// forks copy nothing), "chunked" (pages, of which only a window is kept; see docs/internals/llm.md). UNSUPPORTED, saying why, where it
  /// does not go with the model.
  const char *kv;
  /// Rows of the cache: all of them for "fixed" (default: the context), the first ones otherwise (default: 256, one page for "paged", the
  /// window for "chunked"). 0 = default.
  int64_t kv_capacity;
  int64_t kv_page;    ///< rows of a page of "paged" and "chunked": 64 (0 = default), 128 or 256
  int64_t kv_window;  ///< tokens "chunked" keeps, the sinks among them. 0 = 1024, or the context when that is less
  int64_t kv_sinks;   ///< of these the first ones of the sequence, which are kept for good. 0 = 4, -1 = none
  /// What "paged" and "chunked" store: "auto" (also NULL) = as the model says, "int8" with an f32 scale a row and head.
  const char *kv_type;
  /// Prompts longer than this are run in pieces of this length. 0 = pieces of 512 for prompts longer than 1024 (or than
  /// CAIRN_CHUNK_THRESHOLD / COREAI_CHUNK_THRESHOLD, when that is a positive number; for the first, else there is a warning).
  /// In exact precision a row has the same bits whatever the pieces. In int8 and bf16 it depends on how many rows a run has, so other
  /// pieces, a prompt that begins with what is in memory or in a prompt cache, or a restored sequence may choose another token where two
  /// are nearly equal.
  int64_t prefill_chunk;
  /// Tokens a sequence may have. 0 = what the model says. A larger number than the model says is refused.
  int64_t max_context;
  /// A metadata vocab_size that differs from the width of the logits is a warning instead of an error.
  bool allow_vocab_mismatch;
  /// Tokenizer to use instead of the model's own: its folder or file, or a bundle with a folder tokenizer/. NULL = own.
  const char *tokenizer;
  /// Values for each token of the vocabulary, for models with further inputs [1, n, …] (per-layer embeddings): arrays
  /// [vocab_size, …] of the type of the input, contiguous. Retained. Every such input needs one.
  const cairn_named_array *token_tables;
  int n_token_tables;
  const cairn_model_options *model;  ///< NULL = defaults; the default precision is CAIRN_PRECISION_AUTO here
  cairn_busy when_busy;              ///< of all sequences of the model
  /// For models with states that cannot be cut back: copies of these are kept at points of a sequence (within prompts every
  /// `snapshot_interval` tokens, near their ends, and at the ends of generations), so that going back need not mean starting over.
  int64_t snapshot_interval;  ///< 0 = 512
  int max_snapshots;          ///< of a sequence; 0 = 8, negative = none
  size_t snapshot_bytes;      ///< at most, of a sequence; 0 = 256 MiB
  /// A folder where the rows of the caches are kept for later prompts that begin alike, of any process: in blocks of 64 tokens, found by
  /// the model's files, the options that change rows, and the tokens. NULL = none. Safe for processes at once and when one is killed.
  /// Equal to computing all in exact precision only; see prefill_chunk.
  const char *prompt_cache;
  uint64_t prompt_cache_bytes;  ///< at most, of the folder: what was not used for longest goes; 0 = 4 GiB
  /// Memory in which sequences that are closed or registered (cairn_llm_register_prefix) are kept for others of the model that begin
  /// alike; with paged storage these copy nothing. 0 = none.
  size_t prefix_bytes;
} cairn_llm_options;

/// Owner: unique. Thread: one call at a time (a second one gets BUSY), except cairn_llm_cancel and the calls that say so.
typedef struct cairn_llm cairn_llm;

/// Opens a model for text generation. `path` is a bundle folder, an `.aimodel` folder (no tokenizer, no metadata: raw
/// tokens only) or a `.gguf` file. A tokenizer that is missing or unusable does not fail the call (see cairn_llm_has_text),
/// unless the options name it.
/// Errors: NOT_FOUND, CORRUPT, INCOMPATIBLE, UNSUPPORTED (naming the engine, KV strategy, kind or contract), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_open(cairn_context *context, const char *path, const cairn_llm_options *options, cairn_llm **out_llm);
CAIRN_API void cairn_llm_close(cairn_llm *llm);

/// One thing the engine chose by itself, and why. Texts are borrowed until the engine is closed.
typedef struct cairn_llm_decision {
  const char *what;  ///< "engine", "kv", "max_context", …
  const char *chosen;
  const char *why;
} cairn_llm_decision;

/// What an engine is. Texts are borrowed until the engine is closed.
typedef struct cairn_llm_info {
  const char *name;         ///< of the bundle, else of the file
  const char *source;       ///< "bundle", "aimodel", "gguf"
  const char *engine;       ///< "sequential", "pipelined", "static-shape", "vision" (the sequential one behind image and token embeddings)
  const char *precision;    ///< "exact", "bf16", "int8"
  const char *kv_strategy;  ///< "growing", "fixed", "paged", "chunked", "none" (a model without memory)
  int64_t kv_capacity;      ///< rows there are now
  int64_t kv_limit;         ///< rows there may be
  size_t kv_bytes;          ///< memory of all states now
  size_t kv_bytes_copied;   ///< so far, by growth and by the fork that made the sequence
  cairn_dtype kv_dtype, logits_dtype;
  int64_t vocab_size;   ///< width of a logits row
  int64_t max_context;  ///< tokens one sequence may have: the smaller of the model's context and kv_limit
  int64_t prefill_chunk, prefill_threshold;
  bool hybrid;            ///< has states that cannot be cut back: only whole sequences are reused
  int64_t n_snapshots;    ///< of the states that cannot be cut back, now
  size_t snapshot_bytes;  ///< of these
  double load_seconds;
  int n_decisions;
  const cairn_llm_decision *decisions;
  size_t weight_bytes;  ///< of packed weights that one token reads, the head among them
  bool cache_hit;       ///< packed weights came from the cache or a compiled asset
} cairn_llm_info;
CAIRN_API void cairn_llm_describe(const cairn_llm *llm, cairn_llm_info *out_info);

/// The model's tokenizer; NULL when there is none. Owner: borrowed. Thread: safe.
CAIRN_API cairn_tokenizer *cairn_llm_tokenizer(const cairn_llm *llm);
/// OK when text can be used; else FAILED_PRECONDITION with the reason the tokenizer is missing. Thread: safe.
CAIRN_API cairn_status cairn_llm_has_text(const cairn_llm *llm);
/// OK when the model has a chat template; else FAILED_PRECONDITION with the reason. Thread: safe.
CAIRN_API cairn_status cairn_llm_has_template(const cairn_llm *llm);
/// The model's chat templates; NULL when there are none. Owner: borrowed. Thread: safe.
CAIRN_API const cairn_template_set *cairn_llm_templates(const cairn_llm *llm);
/// The ids that end a generation (unless it ignores them), ascending. Owner: borrowed. Thread: safe.
CAIRN_API const int32_t *cairn_llm_stop_ids(const cairn_llm *llm, size_t *out_n);

/// Renders a conversation with the model's chat template. `conversation_json` is an array of messages
/// (`{"role":…,"content":…}`), or an object of template variables with `messages` and any of `tools`,
/// `add_generation_prompt` (default true, unless the last message is continued), `continue_final_message`, `chat_template`
/// (a name), …, as for cairn_template_set_render. The names of the special tokens are added.
/// Writes up to `capacity` bytes (no NUL) and stores the full size. Thread: safe.
/// Errors: as cairn_llm_has_template and cairn_template_render; INVALID_ARGUMENT.
CAIRN_API cairn_status cairn_llm_render(const cairn_llm *llm, const char *conversation_json, size_t bytes, char *out_text, size_t capacity,
                                        size_t *out_bytes);

// --- sampling -------------------------------------------------------------------------------------------------------

/// How a token is chosen. Zero-initialised = greedy: the largest logit, the lowest id on ties.
/// Order: repetition penalty, temperature, the k best, min-p, top-p (over what is left), draw.
typedef struct cairn_sampling {
  float temperature;  ///< 0 = greedy (the filters are then left out), larger = more even
  bool has_top_k, has_top_p, has_min_p, has_repetition_penalty, has_repetition_window, has_seed;
  int32_t top_k;              ///< 1 or more; 1 is greedy
  float top_p;                ///< (0, 1]
  float min_p;                ///< (0, 1]
  float repetition_penalty;   ///< 1 or more; on tokens generated so far, not on the prompt
  int32_t repetition_window;  ///< 1 or more: only the last so many of them
  uint64_t seed;              ///< equal seeds give equal tokens; without one a fresh seed is drawn and reported
} cairn_sampling;

/// Checks the ranges. Errors: INVALID_ARGUMENT naming the field.
CAIRN_API cairn_status cairn_sampling_check(const cairn_sampling *sampling);

// --- speculation ----------------------------------------------------------------------------------------------------

/// Where drafts come from: guesses of the next tokens that are fed along with the one that is certain, in one run.
typedef enum cairn_speculation_mode {
  CAIRN_SPECULATION_OFF = 0,
  CAIRN_SPECULATION_AUTO = 1,    ///< whatever there is; without a word where the model or the engine does not allow it
  CAIRN_SPECULATION_LOOKUP = 2,  ///< what followed where the sequence looked like this before
  CAIRN_SPECULATION_DRAFT = 3    ///< what a smaller model says
} cairn_speculation_mode;        // With a grammar, all of them also take the tokens it forces.

/// Tokens are what they are without speculation, under every kind of sampling: each is chosen by the model's own row, one after the other;
/// a draft only saves the run that would have made that row. What drafts cost and win is measured all the time, and they are left out
/// where they do not pay. Zero-initialised = off.
typedef struct cairn_speculation {
  cairn_speculation_mode mode;
  int32_t max_draft;  ///< tokens of a draft, 1 to 16; 0 = 16
  /// The smaller model, for DRAFT and AUTO: another sequence, with the same vocabulary. Borrowed, and in use during the generation. A
  /// batch (cairn/batch.h) only looks at its model, of which every member gets a sequence of its own; this one is borrowed for the call.
  cairn_llm *draft;
  bool always;  ///< drafts also where they do not pay (for measurements and tests)
} cairn_speculation;

// --- images ---------------------------------------------------------------------------------------------------------

/// A picture for a model that takes images: exactly one of the three forms. Everything is borrowed for the call.
typedef struct cairn_image {
  const char *path;          ///< a file: PNG, JPEG (as far as the build has them), binary PPM or PGM
  const unsigned char *rgb;  ///< `width` x `height` pixels of three bytes, top row first
  int64_t width, height;
  /// Prepared pixel values as the vision function takes them, f32 [1, 3, size, size]: neither resized nor normalised.
  const cairn_ndarray *pixel_values;
} cairn_image;

/// What a model does with images. `image_tokens` is 0 when it takes none.
typedef struct cairn_llm_images {
  int64_t image_size;    ///< pictures are made squares of so many pixels
  int64_t image_tokens;  ///< tokens of the prompt one image takes
  int32_t image_token;   ///< the id that stands for each of them
} cairn_llm_images;
CAIRN_API void cairn_llm_describe_images(const cairn_llm *llm, cairn_llm_images *out_images);
/// The formats of picture files this build reads, as text: "PNG, JPEG and binary PPM/PGM".
CAIRN_API const char *cairn_image_formats(void);

// --- generation -----------------------------------------------------------------------------------------------------

typedef enum cairn_prompt_form {
  CAIRN_PROMPT_AUTO = 0,     ///< as a user's message when the model has a chat template, else raw
  CAIRN_PROMPT_RAW = 1,      ///< the text itself, with the tokenizer's special tokens around it
  CAIRN_PROMPT_TEMPLATE = 2  ///< as a user's message; FAILED_PRECONDITION without a chat template
} cairn_prompt_form;

/// X(NAME, value, "text"). Values are ABI.
#define CAIRN_STOP_LIST(X)           \
  X(MAX_TOKENS, 0, "max_tokens")     \
  X(EOS, 1, "eos")                   \
  X(SEQUENCE, 2, "stop_sequence")    \
  X(CANCELLED, 3, "cancelled")       \
  X(CONTEXT_FULL, 4, "context_full") \
  X(ERROR, 5, "error")               \
  X(GRAMMAR, 6, "grammar")

typedef enum cairn_stop_reason {
#define CAIRN_STOP_ENUM(name, value, text) CAIRN_STOP_##name = value,
  CAIRN_STOP_LIST(CAIRN_STOP_ENUM)
#undef CAIRN_STOP_ENUM
} cairn_stop_reason;
/// "max_tokens", "eos", "stop_sequence", "cancelled", "context_full", "error", "grammar" (the text is complete and nothing may follow;
/// only where the model has no id that ends a text, else that is chosen and the reason is "eos").
CAIRN_API const char *cairn_stop_reason_text(cairn_stop_reason reason);

/// One generated token, or (token -1) text that was held back and is certain at the end.
typedef struct cairn_token_event {
  int64_t index;  ///< of the token among the generated ones
  int32_t token;
  const char *text;  ///< whole UTF-8 characters that became certain with this token, often none; valid during the call
  size_t text_bytes;
} cairn_token_event;

/// Receives events on the calling thread. Returning false ends the generation as cancelled.
typedef bool (*cairn_token_fn)(void *user, const cairn_token_event *event);

/// Receives one row of logits as f32: the prediction after the token at `position` of the sequence (prompt first, from 0).
/// A status other than OK ends the call with it.
typedef cairn_status (*cairn_logits_fn)(void *user, int64_t position, const float *row, int64_t vocab_size);

/// What a generation does when the tokens no longer fit into the context.
typedef enum cairn_overflow_kind {
  CAIRN_OVERFLOW_REFUSE = 0,    ///< a prompt that leaves no room is CONTEXT_FULL before anything is run; else it ends with context_full
  CAIRN_OVERFLOW_SLIDE = 1,     ///< the oldest tokens behind the first `sinks` are dropped, and those behind them are fed again
  CAIRN_OVERFLOW_SUMMARISE = 2  ///< `replace` gives tokens to go on from
} cairn_overflow_kind;

/// Gives what the sequence goes on from: at least one token, and at most `most`. `tokens` are all there are, prompt and generated ones (an
/// image is its image token, and cannot be given back). `*out_tokens` must stay valid until the generation ends or the function is
/// called again. The sequence is in use meanwhile; a further one of the model is not (cairn_llm_create_sequence).
/// A status other than OK ends the generation with it.
typedef cairn_status (*cairn_overflow_fn)(void *user, const int32_t *tokens, size_t n_tokens, size_t most, const int32_t **out_tokens,
                                          size_t *out_n);

typedef struct cairn_overflow {
  cairn_overflow_kind kind;
  int64_t sinks;   ///< SLIDE: the first so many tokens stay. 0 = 4, negative = none
  int64_t margin;  ///< SLIDE: tokens are dropped so many at a time. SUMMARISE: room that is kept free. 0 = a quarter of the context
  cairn_overflow_fn replace;  ///< SUMMARISE
  void *user;
} cairn_overflow;

/// Zero-initialise, then fill in. Everything is borrowed for the call.
typedef struct cairn_generate_options {
  // The prompt: exactly one of the three.
  const int32_t *tokens;  ///< ids, used as they are
  size_t n_tokens;
  const char *text;
  size_t text_bytes;
  cairn_prompt_form form;    ///< of `text`
  const char *conversation;  ///< as for cairn_llm_render
  size_t conversation_bytes;

  /// Images of the prompt, in the order of their places. In a conversation a place is a part `{"type":"image"}` of the content of a
  /// message; before `text` they come first; among `tokens` they are the image token, once for each image or for each of its tokens.
  /// A picture that was there in an earlier turn is neither computed nor fed again. Errors: UNSUPPORTED (the model takes no
  /// images), INVALID_ARGUMENT (another number of places than images), and those of reading a file.
  const cairn_image *images;
  int n_images;

  int64_t max_tokens;  ///< at most so many; negative = until the context is full
  cairn_sampling sampling;

  const char *const *stop;  ///< texts that end the generation; they and what follows are not given out
  int n_stop;
  const int32_t *stop_ids;  ///< further ids that end it; OUT_OF_RANGE for one outside of the vocabulary
  size_t n_stop_ids;
  bool ignore_eos;           ///< the model's own stop ids do not end it (`stop` and `stop_ids` still do)
  bool keep_special_tokens;  ///< special tokens are shown in the text
  /// Special tokens that are shown although others are not, as they are spelled: those a cairn_dialogue looks for.
  const char *const *shown_special_tokens;
  int n_shown_special_tokens;

  cairn_overflow overflow;  ///< of sampled tokens; forced ones always end with context_full

  const int32_t *forced;  ///< these tokens are fed instead of sampled ones; nothing but their end, cancelling or a full context stops
  size_t n_forced;
  bool use_forced;  ///< `forced` counts even when empty

  /// A grammar the text satisfies: only tokens that keep to it are chosen, by every engine, and an id that ends the text only where the
  /// grammar may end. Rows of logits are given out as the model made them. A generation that ends in the middle (max_tokens, context_full,
  /// cancelled, a stop text) says so in `guide_complete`. Not together with `forced`.
  /// Errors: as cairn_grammar_compile and cairn_grammar_compiler_create.
  cairn_grammar_source guide;

  /// Errors: UNSUPPORTED when LOOKUP or DRAFT is asked for and the model cannot (saying why), INCOMPATIBLE for a draft model with
  /// another vocabulary.
  cairn_speculation speculation;

  cairn_token_fn on_token;  ///< may be NULL
  /// Rows of logits. Decode rows come one per token that was fed after the prompt. With `prefill_logits` also one for
  /// every prompt token, for which the whole prompt is computed again. May be NULL.
  cairn_logits_fn on_logits;
  bool prefill_logits;
  /// `on_logits` gets the row behind the prompt, too, and that behind tokens that are fed again when the context was full: then every
  /// token has the row it was chosen by, in order. Nothing is computed for it.
  bool first_logits;
  /// Asked between pieces of the prompt and between tokens; true ends the generation as cancelled. May be NULL.
  bool (*should_cancel)(void *user);
  void *user;  ///< for the callbacks
} cairn_generate_options;

/// What a generation gave. Owner: unique.
typedef struct cairn_generation cairn_generation;

typedef struct cairn_generation_info {
  const int32_t *prompt_tokens;
  size_t n_prompt_tokens;
  const int32_t *tokens;  ///< generated or forced; the token that ended it included
  size_t n_tokens;
  const char *text;  ///< of the tokens, without stop tokens and stop texts; NUL-terminated, "" without a tokenizer
  size_t text_bytes;
  cairn_stop_reason stop_reason;
  const char *stop_text;       ///< the stop text or stop token that matched, else ""
  int64_t prefix_hit;          ///< prompt tokens that were not computed again
  const char *prefix_note;     ///< why less was reused than the prompts have in common, else ""
  int n_overflows;             ///< times that tokens were dropped or replaced because the context was full
  int64_t overflow_dropped;    ///< tokens that were
  int64_t overflow_fed;        ///< tokens fed again for it
  const char *overflow;        ///< "none", "slide", "summarise": what happened, not what was asked for
  int64_t prefix_from_memory;  ///< of prefix_hit: those another sequence of the model left in memory
  int64_t prefix_from_disk;    ///< of prefix_hit: those of the prompt cache
  const char *prompt_form;     ///< "tokens", "raw", "template"
  uint64_t seed;               ///< used for sampling (0 for greedy)
  double prefill_seconds;      ///< up to and with the choice of the first token
  int64_t prefill_tokens;      ///< prompt tokens computed
  double decode_seconds;
  int64_t decode_tokens;  ///< tokens fed after the prompt
  int64_t decode_runs;    ///< runs that took: fewer than tokens when drafts were right
  bool speculates;        ///< there was speculation
  int64_t drafted_tokens, accepted_tokens;
  const char *speculation_note;  ///< why there was no speculation although it was asked for, else ""
  bool guided;                   ///< by a grammar
  bool guide_complete;           ///< the text is a whole text of it
  double mask_seconds;           ///< spent on finding what may follow, beside the model's runs
  double mask_wait_seconds;      ///< of these those that choosing a token had to wait for
} cairn_generation_info;

/// Generates. One generation at a time per engine.
/// Errors: INVALID_ARGUMENT, OUT_OF_RANGE (a token outside of the vocabulary, naming its place), CONTEXT_FULL (the prompt
/// leaves no room), FAILED_PRECONDITION (text without a tokenizer), BUSY, and what running the model gives. When a run
/// failed after the start, `*out_generation` holds what there was so far, with stop reason error; else it is NULL then.
CAIRN_API cairn_status cairn_llm_generate(cairn_llm *llm, const cairn_generate_options *options, cairn_generation **out_generation);
CAIRN_API void cairn_generation_get(const cairn_generation *generation, cairn_generation_info *out_info);
CAIRN_API void cairn_generation_destroy(cairn_generation *generation);

/// Ends the generation that is going on as cancelled, at the next token or piece of the prompt. Nothing happens when
/// there is none. Thread: safe.
CAIRN_API void cairn_llm_cancel(cairn_llm *llm);

/// The tokens of a prompt as cairn_llm_generate would use them (only the prompt fields are read). Writes up to `capacity`
/// ids and stores the full count. Thread: safe.
CAIRN_API cairn_status cairn_llm_encode_prompt(const cairn_llm *llm, const cairn_generate_options *options, int32_t *out_ids,
                                               size_t capacity, size_t *out_count);

// --- one step at a time ---------------------------------------------------------------------------------------------

/// Tokens the engine's state stands for, and which. Those of images are negative: a number of the image and the place in it.
/// After a caller ended a generation of the engine 'pipelined', tokens that it had run ahead are among them.
/// Owner: borrowed until the next call on the engine.
CAIRN_API const int32_t *cairn_llm_history(const cairn_llm *llm, int64_t *out_n);

typedef struct cairn_forward_options {
  const int32_t *tokens;  ///< fed after those of the history
  size_t n_tokens;
  /// Position of every token of the sequence, history included. NULL = made by the engine. A vector that is not
  /// 0, 1, …, history + n_tokens - 1 is refused: it would write wrong rows of the cache.
  const int32_t *positions;
  size_t n_positions;
  bool all_rows;              ///< a row for every token instead of the last only
  cairn_logits_fn on_logits;  ///< may be NULL
  void *user;
} cairn_forward_options;

/// Feeds tokens. Long inputs are run in pieces. Errors: INVALID_ARGUMENT (positions; no tokens), OUT_OF_RANGE (a token),
/// CONTEXT_FULL (before anything is run), BUSY, and what running the model gives.
CAIRN_API cairn_status cairn_llm_forward(cairn_llm *llm, const cairn_forward_options *options);

/// Cuts the sequence back to its first `n` tokens; 0 forgets everything and zeroes the states.
/// Errors: OUT_OF_RANGE ("reset to N is out of range [0, P]"), UNSUPPORTED (0 < n < P and a state is not known at n; cairn_llm_trim goes
/// to where it is), BUSY.
CAIRN_API cairn_status cairn_llm_reset(cairn_llm *llm, int64_t n);

/// Runs `n_tokens` dummy tokens and forgets them, so that the first real call finds everything prepared.
CAIRN_API cairn_status cairn_llm_warm_up(cairn_llm *llm, int64_t n_tokens);

#ifdef __cplusplus
}
#endif
#endif
