/// Which ids end a generation. Chat models often end a turn with another token than the end of a text, and exporters lose
/// one list or another, so every source is read: tokenizer_config.json, special_tokens_map.json, generation_config.json,
/// the special tokens of the tokenizer that read like an end of turn, and what the chat template writes behind an answer.
#ifndef CRN_ENGINES_LLM_STOP_IDS_H
#define CRN_ENGINES_LLM_STOP_IDS_H

#include "engines/llm/text.h"

/// Adds an id; one outside of [0, vocab_size) or added before is ignored.
cairn_status crn_stop_ids_add(crn_llm_text *text, int32_t id, int64_t vocab_size);
/// Adds what a tokenizer_config.json (or special_tokens_map.json) says. NULL is allowed.
cairn_status crn_stop_ids_from_config(crn_llm_text *text, const json_t *config, int64_t vocab_size);
/// Adds `eos_token_id` (a number or an array) of a generation_config.json. NULL is allowed.
cairn_status crn_stop_ids_from_generation(crn_llm_text *text, const json_t *config, int64_t vocab_size);
/// Adds what the tokenizer and the chat template themselves tell, and sorts.
cairn_status crn_stop_ids_finish(crn_llm_text *text, int64_t vocab_size);

/// Whether a special token's text reads like the end of a turn or a text.
bool crn_is_end_of_turn(const char *token);

#endif
