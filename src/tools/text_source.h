/// Tokenizers and chat templates by path: tokenizer folders, bundles, GGUF files, .jinja files.
#ifndef CRN_TOOLS_TEXT_SOURCE_H
#define CRN_TOOLS_TEXT_SOURCE_H

#include <jansson.h>

#include "cairn/template.h"
#include "cairn/tokenizer.h"
#include "tools/tool.h"

/// Opens the tokenizer of `path`: a folder with tokenizer.json (or tokenizer.model), a bundle, one of these files, or a
/// GGUF file. Errors: as cairn_tokenizer_open and crn_import.
cairn_status crn_tool_open_tokenizer(crn_tool *t, const char *path, cairn_tokenizer **out_tokenizer);

/// The chat templates of a file or folder.
typedef struct crn_template_source {
  cairn_template_set *set;
  json_t *tokens;  ///< object of the special tokens' names (bos_token, eos_token, …)
} crn_template_source;

/// Finds the templates of `path`: a .jinja file, a tokenizer folder, a bundle or a GGUF file.
/// Errors: NOT_FOUND (there is none), CORRUPT, IO. `out_source` must be closed in any case.
cairn_status crn_template_source_open(crn_tool *t, const char *path, crn_template_source *out_source);
void crn_template_source_close(crn_template_source *source);

/// All ids of a text, and all text of ids, in memory of the arena. The text is NUL-terminated.
cairn_status crn_tool_encode(const cairn_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special_tokens, crn_arena *arena,
                             int32_t **out_ids, size_t *out_n);
cairn_status crn_tool_encode_offsets(const cairn_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special_tokens,
                                     crn_arena *arena, cairn_token_span **out_spans, size_t *out_n);
cairn_status crn_tool_decode(const cairn_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special_tokens, crn_arena *arena,
                             char **out_text, size_t *out_bytes);

/// Reads all of a file or pipe, or of stdin for "-" and NULL. Errors: NOT_FOUND, IO, OUT_OF_RANGE.
cairn_status crn_tool_read(const char *path, crn_str *out);
/// The same for a text that a model is to read, of which nothing may be left out. Errors: also INVALID_ARGUMENT (it has a NUL byte).
cairn_status crn_tool_read_message(const char *path, crn_str *out);
/// The failure of a text `what` whose byte `at` (from 0) is NUL.
cairn_status crn_tool_refuse_nul(const char *what, size_t at);

/// The integers of member "tokens" of a JSON object: {"tokens":[1,2]}. Errors: CORRUPT naming the expected form.
cairn_status crn_tool_read_tokens(const char *path, crn_arena *arena, int32_t **out_ids, size_t *out_n);
/// An array of token ids. `what` names it.
cairn_status crn_tool_ids(const json_t *array, const char *what, crn_arena *arena, int32_t **out_ids, size_t *out_n);

/// Parses JSON whose texts may hold NUL characters. Errors: CORRUPT.
cairn_status crn_tool_parse_json(const char *text, size_t bytes, const char *what, json_t **out_json);

#endif
