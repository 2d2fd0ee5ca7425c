/// What cairn generate, chat and llm-runner share: opening an engine, sampling flags, streaming, interruption.
#ifndef CRN_TOOLS_GENERATION_H
#define CRN_TOOLS_GENERATION_H

#include "base/vec.h"
#include "cairn/llm.h"
#include "tools/dialogue.h"
#include "tools/source.h"
#include "tools/tool.h"

/// Values of the options below.
typedef struct crn_generation_values {
  const char *engine, *kv, *kv_type, *tokenizer, *precision, *overflow, *prompt_cache, *device;
  crn_option_integer pipeline_depth, kv_capacity, kv_page, kv_window, kv_sinks, prefill_chunk, max_context, max_tokens;
  bool greedy, ignore_eos, keep_special;
  crn_option_number temperature, top_p, min_p, repetition_penalty;
  crn_option_integer top_k, repetition_window;
  crn_option_unsigned seed;
  bool strict_hash, frequent_reshapes;
  crn_option_list stop, token_tables;
} crn_generation_values;

#define CRN_GROUP_SAMPLING "Sampling (without any of these: greedy)"
#define CRN_GROUP_ENGINE "Engine"
#define CRN_GENERATION_AT(type, member) (offsetof(type, generation) + offsetof(crn_generation_values, member))

/// Rows of an option table for a struct `type` that has a member `generation`.
// clang-format off
#define CRN_SAMPLING_OPTIONS(type) \
    {.name = "greedy", .kind = OPTION_FLAG, .offset = CRN_GENERATION_AT(type, greedy), .group = CRN_GROUP_SAMPLING, \
     .help = "always the most likely token"}, \
    {.name = "temperature", .kind = OPTION_NUMBER, .offset = CRN_GENERATION_AT(type, temperature), .argument = "X", \
     .group = CRN_GROUP_SAMPLING, .help = "0 = greedy; larger = more varied (1 when only filters are given)", \
     .minimum = 0, .maximum = 1e6}, \
    {.name = "top-k", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, top_k), .argument = "K", \
     .group = CRN_GROUP_SAMPLING, .help = "only the K most likely tokens", .minimum = 1, .maximum = 2147483647}, \
    {.name = "top-p", .kind = OPTION_NUMBER, .offset = CRN_GENERATION_AT(type, top_p), .argument = "P", \
     .group = CRN_GROUP_SAMPLING, .help = "only the most likely tokens that together reach probability P", .minimum = 1e-9, .maximum = 1}, \
    {.name = "min-p", .kind = OPTION_NUMBER, .offset = CRN_GENERATION_AT(type, min_p), .argument = "P", \
     .group = CRN_GROUP_SAMPLING, .help = "only tokens at least P times as likely as the best one", .minimum = 1e-9, .maximum = 1}, \
    {.name = "repetition-penalty", .kind = OPTION_NUMBER, .offset = CRN_GENERATION_AT(type, repetition_penalty), .argument = "X", \
     .group = CRN_GROUP_SAMPLING, .help = "make tokens that were generated before less likely; 1 = off", .minimum = 1, .maximum = 1e6}, \
    {.name = "repetition-penalty-window", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, repetition_window), .argument = "N", \
     .group = CRN_GROUP_SAMPLING, .help = "only for the last N tokens", .minimum = 1, .maximum = 2147483647}, \
    {.name = "seed", .kind = OPTION_UNSIGNED, .offset = CRN_GENERATION_AT(type, seed), .argument = "N", \
     .group = CRN_GROUP_SAMPLING, .help = "equal seeds give equal text"}

#define CRN_STOP_OPTIONS(type, group_text) \
    {.name = "stop", .kind = OPTION_LIST, .offset = CRN_GENERATION_AT(type, stop), .argument = "TEXT", .group = group_text, \
     .help = "end when TEXT appears; may be repeated"}, \
    {.name = "ignore-eos", .kind = OPTION_FLAG, .offset = CRN_GENERATION_AT(type, ignore_eos), .group = group_text, \
     .help = "go on after the model's own end token"}, \
    {.name = "keep-special-tokens", .kind = OPTION_FLAG, .offset = CRN_GENERATION_AT(type, keep_special), .group = group_text, \
     .help = "show special tokens in the text"}

#define CRN_OVERFLOW_OPTION(type) \
    {.name = "overflow", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, overflow), .argument = "HOW", \
     .group = CRN_GROUP_ENGINE, .help = "when the context is full: refuse (also without this flag), or slide: drop the oldest tokens", \
     .choices = "refuse|slide"}

#define CRN_ENGINE_OPTIONS(type) \
    {.name = "engine", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, engine), .argument = "E", \
     .group = CRN_GROUP_ENGINE, .help = "how steps are run: pipelined computes the next tokens while the last one is made text of", \
     .choices = "auto|sequential|pipelined|static-shape"}, \
    {.name = "pipeline-depth", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, pipeline_depth), .argument = "N", \
     .group = CRN_GROUP_ENGINE, .help = "steps that may be on their way at once, for --engine pipelined", .minimum = 1, .maximum = 8}, \
    {.name = "kv", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, kv), .argument = "S", \
     .group = CRN_GROUP_ENGINE, .help = "storage of the key/value cache", \
      .choices = "auto|fixed|growing|paged|chunked"}, \
    {.name = "kv-capacity", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, kv_capacity), .argument = "N", \
     .group = CRN_GROUP_ENGINE, .help = "rows of the cache: all for fixed, else the first ones", .minimum = 1, .maximum = 1e12}, \
    {.name = "kv-page", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, kv_page), .argument = "N", \
     .group = CRN_GROUP_ENGINE, .help = "rows of a page: 64 (also without this flag), 128 or 256", .minimum = 1, .maximum = 1e12}, \
    {.name = "kv-window", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, kv_window), .argument = "W", \
     .group = CRN_GROUP_ENGINE, .help = "tokens --kv chunked keeps, the sinks among them; 1024 without this flag", .minimum = 1, .maximum = 1e12}, \
    {.name = "kv-sinks", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, kv_sinks), .argument = "N", \
     .group = CRN_GROUP_ENGINE, .help = "first tokens that --kv chunked never drops; 4 without this flag", .minimum = 0, .maximum = 1e12}, \
    {.name = "kv-type", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, kv_type), .argument = "T", \
     .group = CRN_GROUP_ENGINE, .help = "what pages hold: int8 takes about half of 16-bit caches, and rounds", .choices = "auto|int8"}, \
    {.name = "prefill-chunk", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, prefill_chunk), .argument = "N", \
     .group = CRN_GROUP_ENGINE, .help = "run prompts in pieces of N tokens; except with --precision exact, another N may " \
     "change a token where two are nearly equal", .minimum = 1, .maximum = 1e12}, \
    {.name = "max-context", .kind = OPTION_INTEGER, .offset = CRN_GENERATION_AT(type, max_context), .argument = "N", \
     .group = CRN_GROUP_ENGINE, .help = "tokens a sequence may have (at most what the model says)", .minimum = 1, .maximum = 1e12}, \
    {.name = "prompt-cache", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, prompt_cache), .argument = "DIR", \
     .place = PLACE_CACHE, .group = CRN_GROUP_ENGINE, .help = "keep what prompts cost to compute in DIR, for later ones that begin alike; " \
     "except with --precision exact, what is taken from there may change a token where two are nearly equal"}, \
    {.name = "precision", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, precision), .argument = "P", \
     .group = CRN_GROUP_ENGINE, .help = "arithmetic of products with weights; auto is int8 where most weights are quantised, else exact", \
     .choices = "auto|exact|bf16|int8"}, \
    {.name = "tokenizer", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, tokenizer), .argument = "PATH", .place = PLACE_INPUT, \
     .group = CRN_GROUP_ENGINE, .help = "tokenizer to use instead of the model's own: its folder or file, or a bundle"}, \
    {.name = "token-table", .kind = OPTION_LIST, .offset = CRN_GENERATION_AT(type, token_tables), .argument = "INPUT=FILE", \
     .place = PLACE_TABLE, .group = CRN_GROUP_ENGINE, .help = "values for each token of the vocabulary, for a further input of the model: the tensor of its name " \
     "in a .safetensors file"}, \
    {.name = "strict-hash", .kind = OPTION_FLAG, .offset = CRN_GENERATION_AT(type, strict_hash), \
     .group = CRN_GROUP_ENGINE, .help = "refuse an asset whose main.hash does not match"}, \
    {.name = "device", .kind = OPTION_TEXT, .offset = CRN_GENERATION_AT(type, device), .argument = "D", \
     .group = CRN_GROUP_ENGINE, .help = CRN_DEVICE_HELP, .choices = CRN_DEVICE_CHOICES}, \
    {.name = "expect-frequent-reshapes", .kind = OPTION_FLAG, .offset = CRN_GENERATION_AT(type, frequent_reshapes), \
     .group = CRN_GROUP_ENGINE, .help = CRN_RESHAPES_HELP}
// clang-format on

/// Checks combinations of options. TOOL_CONTINUE, or TOOL_USAGE after a message.
int crn_generation_check(crn_tool *t, const crn_generation_values *v);
/// The same for --force: nothing that chooses tokens goes with it.
int crn_generation_check_forced(crn_tool *t, const crn_generation_values *v);

/// What of a model is going to be used, besides token ids.
typedef enum crn_generation_need { CRN_NEED_IDS, CRN_NEED_TEXT, CRN_NEED_CHAT } crn_generation_need;

/// Opens the engine for the model argument `name`, showing progress. What it decides is logged (--verbose).
/// Errors: as cairn_llm_open, crn_source_find; FAILED_PRECONDITION when the model lacks what is needed.
cairn_status crn_generation_open(crn_tool *t, const char *name, const crn_generation_values *v, crn_generation_need need,
                                 cairn_llm **out_llm);
/// Between crn_tool_hold_log and the first use: whether the model has what is needed. The lines that were held are printed.
cairn_status crn_generation_check_need(crn_tool *t, const cairn_llm *llm, crn_generation_need need);

/// The sampling the flags ask for.
cairn_sampling crn_generation_sampling(const crn_generation_values *v);

/// Fills in what the flags say about sampling and stopping.
void crn_generation_fill(const crn_generation_values *v, cairn_generate_options *out_options);

/// From now on Ctrl-C asks for the end of what goes on instead of ending the program; a second one ends the program.
void crn_interrupt_catch(void);
/// Ctrl-C ends the program again.
void crn_interrupt_release(void);
/// Whether Ctrl-C was pressed since crn_interrupt_catch.
bool crn_interrupt_pending(void);

/// Text on its way to stdout while tokens come: for cairn_generate_options.on_token and .should_cancel with a
/// crn_token_stream as `user`.
typedef struct crn_token_stream {
  crn_tool *t;
  bool print;        ///< write text to stdout as it comes
  bool ids;          ///< write token ids instead (the model has no tokenizer)
  crn_reply *reply;  ///< takes the text apart and prints it instead; NULL = printed as it is
  int64_t n_tokens;
  double first_time, last_time;  ///< of tokens, crn_tool_now()
  double shortest, longest;      ///< seconds between two tokens
} crn_token_stream;

bool crn_token_stream_take(void *user, const cairn_token_event *event);
bool crn_token_stream_cancelled(void *user);

/// Tells that tokens were dropped; nothing when none were. Silent with -q.
void crn_generation_note_overflow(crn_tool *t, const cairn_generation_info *info);
/// The closing line on stderr: numbers of tokens, speeds, why it ended. Silent with -q.
void crn_generation_note(crn_tool *t, const cairn_generation_info *info);

/// What crn_generation_print_json tells beside the generation; NULL = nothing.
typedef struct crn_generation_extras {
  const crn_reply *reply;
  const struct crn_session *session;
  const char *error;
} crn_generation_extras;

/// Prompt and generation of one call as the document of cairn generate --json. `text` is the generated text for itself.
cairn_status crn_generation_print_json(const cairn_llm *llm, const cairn_generation_info *info, const crn_str *text,
                                       const crn_generation_extras *extras);

#endif
