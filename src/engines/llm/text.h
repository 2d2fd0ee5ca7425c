/// The text side of a language model: tokenizer, chat template, names of the special tokens, ids that end a generation.
/// Each may be missing; the reason is kept, so that whoever asks for text learns it.
#ifndef CRN_ENGINES_LLM_TEXT_H
#define CRN_ENGINES_LLM_TEXT_H

#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cairn/bundle.h"
#include "cairn/template.h"
#include "cairn/tokenizer.h"

typedef CRN_VEC(int32_t) crn_id_vec;

typedef struct crn_llm_text {
  cairn_context *context;
  cairn_tokenizer *tokenizer;     ///< NULL: `no_tokenizer` says why
  cairn_template_set *templates;  ///< NULL: `no_template` says why
  crn_str no_tokenizer, no_template;
  crn_str folder;       ///< the tokenizer came from, "" when from none
  json_t *specials;     ///< object: variable name of the template -> text
  crn_id_vec stop_ids;  ///< ascending
} crn_llm_text;

/// Empty, with the reasons "the model has none". Cannot fail; crn_llm_text_deinitialize is allowed afterwards.
void crn_llm_text_initialize(crn_llm_text *text, cairn_context *context);
void crn_llm_text_deinitialize(crn_llm_text *text);

/// Loads what lies in a folder of Hugging Face files (or, `folder` naming a tokenizer.json, beside it). `beside` (may be
/// NULL) is a second folder that may hold generation_config.json. What is missing or broken is noted, not a failure.
/// `vocab_size` bounds the ids. Errors: OUT_OF_MEMORY.
cairn_status crn_llm_text_load(crn_llm_text *text, const char *folder, const char *beside, int64_t vocab_size);

/// As crn_llm_text_load for a tokenizer somebody asked for: a folder or file, or a bundle with a folder tokenizer/.
/// Errors: NOT_FOUND, INVALID_ARGUMENT with the reason when there is no usable tokenizer, OUT_OF_MEMORY.
cairn_status crn_llm_text_load_chosen(crn_llm_text *text, const char *path, int64_t vocab_size);

/// Finds the tokenizer of a bundle: embedded, else by its id in the local folders where such are kept. When there is none,
/// `no_tokenizer` names what was looked for. Errors: CORRUPT (the folder leads out of the bundle), OUT_OF_MEMORY.
cairn_status crn_llm_text_load_bundle(crn_llm_text *text, const cairn_bundle *bundle, const char *id, bool embedded, int64_t vocab_size);

/// What an importer gives instead of files. NULL and -1 stand for "none"; the tokenizer is retained.
typedef struct crn_llm_text_parts {
  cairn_tokenizer *tokenizer;
  const char *chat_template;
  int32_t bos_id, eos_id;
  const int32_t *stop_ids;
  size_t n_stop_ids;
  int64_t vocab_size;
} crn_llm_text_parts;
cairn_status crn_llm_text_take(crn_llm_text *text, const crn_llm_text_parts *parts);

/// Errors: FAILED_PRECONDITION with the reason.
cairn_status crn_llm_text_need_tokenizer(const crn_llm_text *text);
cairn_status crn_llm_text_need_template(const crn_llm_text *text);

/// Drops templates whose default cannot be used, with the reason in `no_template`. Errors: OUT_OF_MEMORY.
cairn_status crn_llm_text_check_templates(crn_llm_text *text);

/// Renders a conversation (see cairn_llm_render) into `out`, which is cleared first.
cairn_status crn_llm_text_render(const crn_llm_text *text, const char *conversation, size_t bytes, crn_str *out);
/// Appends the ids of a text.
cairn_status crn_llm_text_encode(const crn_llm_text *text, const char *string, size_t bytes, bool add_special_tokens, crn_id_vec *ids);

#endif
