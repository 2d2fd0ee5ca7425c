/// The parts of llm-runner, the alias that takes the flags of Apple's program of that name.
///
/// It prints like that program: progress, text and the closing summary on stdout, failures as "Error: …" on stderr.
#ifndef CRN_TOOLS_RUNNER_H
#define CRN_TOOLS_RUNNER_H

#include "tools/generation.h"
#include "tools/json_writer.h"
#include "tools/logits.h"

typedef struct crn_runner_options {
  const char *model, *prompt, *prompt_file, *raw_tokens, *sampling_strategy, *json_schema, *engine, *kv, *save_logits, *save_logits_length;
  const char *continuation, *warmup, *image, *image_strategy, *image_info, *video, *video_sampling;
  crn_option_integer max_tokens, top_k, penalty_window, kv_capacity, warmup_length, bucket_size, chunk_size, video_frames, verbose_level;
  crn_option_number temperature, top_p, min_p, penalty;
  crn_option_list stop_tokens;
  bool synchronous_sampling, apply_chat_template, print_logits, clear_cache;
} crn_runner_options;

/// A generated token and the text that came with it.
typedef struct crn_runner_token {
  int32_t id;
  const char *text;  ///< in the tool's arena
} crn_runner_token;

typedef struct crn_runner {
  crn_token_stream stream;  ///< first member: it is the `user` of the streaming callbacks
  crn_tool *t;
  const crn_runner_options *o;
  cairn_llm *llm;
  int32_t *prompt;
  size_t n_prompt;
  crn_logits logits;  ///< rows from the last prompt token on
  CRN_VEC(crn_runner_token) tokens;
  double tokenize_seconds, warmup_seconds;
  cairn_grammar_source guide;  ///< of --json-schema
} crn_runner;

/// Whether any logits are wanted.
bool crn_runner_wants_logits(const crn_runner_options *o);

/// For cairn_generate_options with the runner as `user`: keeps tokens with their texts, and rows of logits.
bool crn_runner_take_token(void *user, const cairn_token_event *event);
cairn_status crn_runner_take_logits(void *user, int64_t position, const float *row, int64_t vocab_size);

// --- output -------------------------------------------------------------------------------------------------------------

/// A token's own text in the tool's arena, "" without a tokenizer.
cairn_status crn_runner_token_text(crn_runner *r, int32_t id, const char **out_text);
/// Token `number` (from 1) with its five best candidates.
cairn_status crn_runner_print_token(crn_runner *r, int64_t number, int32_t id, const float *row);
/// The file of --save-logits for a generation.
cairn_status crn_runner_save_logits(crn_runner *r);
/// Member "logits_base64" (the row as float16) with --save-logits-length full, else `key` with the best ones.
cairn_status crn_runner_write_row(crn_runner *r, crn_json_writer *w, const float *row);
/// Ids of the `k` largest logits, best first; the lower id wins ties.
void crn_runner_best(const float *row, int64_t vocab_size, int32_t *out_ids, int k);
/// How many candidates are kept: 1 to 20, or -1 for whole rows.
int crn_runner_row_length(const crn_runner_options *o);
/// The closing summary, and with --verbose the table.
void crn_runner_print_summary(const crn_runner *r, const cairn_generation_info *info);

// --- evaluation ---------------------------------------------------------------------------------------------------------

/// How likely the model finds given tokens after a context: --continuation, or --raw-tokens with a flag about logits.
cairn_status crn_runner_evaluate_continuation(crn_runner *r, const char *context, size_t context_bytes);
cairn_status crn_runner_evaluate_tokens(crn_runner *r, const int32_t *ids, size_t n);

#endif
